#include "check.h"
#include "shadow.h"

#include <string.h>

static union {
	struct rw_shadow shadow;
	uint8_t room[4096];
} block;
#define shadow block.shadow

static void newreno(uint32_t cwnd, uint64_t ssthresh)
{
	struct rw_settings settings;
	rw_choice choice = {"newreno", NULL, 0};
	rw_error error;
	const struct rw_control *control = rw_control_find("newreno");
	assert_int_equal(rw_control_options(&choice, control, &settings, &error), RW_OK);
	assert_true(rw_shadow_bytes(1) <= sizeof block);
	rw_shadow_open(&shadow, control, &settings, 1, 1460);
	rw_shadow_place(&shadow, 0, (uint64_t)cwnd << 16, ssthresh, 100000000);
}

static uint32_t cwnd(void) { return (uint32_t)(shadow.connection->path[0].cwnd_q16 >> 16); }

static struct rw_event ack(uint32_t in_flight, uint32_t delivered, uint32_t lost, int advanced)
{
	struct rw_event e = {.kind = RW_EVENT_ACK,
			     .state = RW_SENDER_RECOVERY,
			     .state_after = RW_SENDER_RECOVERY,
			     .steps = RW_STEP_REDUCE,
			     .in_flight = in_flight,
			     .delivered = delivered,
			     .newly_lost = lost,
			     .una_advanced = (uint8_t)advanced};
	return e;
}

static uint32_t reduced(uint32_t ssthresh, uint32_t prior, uint32_t delivered, uint32_t out, struct rw_event e)
{
	newreno(prior, (uint64_t)ssthresh << 16);
	shadow.path[0].prior_cwnd_q16 = (uint64_t)prior << 16;
	shadow.path[0].prr.delivered = delivered;
	shadow.path[0].prr.out = out;
	struct rw_shadow_row row;
	rw_shadow_event(&shadow, 0, &e, 100000000, &row);
	return cwnd();
}

/* Linux's integers: ssthresh, prior_cwnd, prr_delivered, prr_out, then the ACK. */
static void proportional_rate_reduction(void **state)
{
	(void)state;
	assert_int_equal(reduced(10, 20, 4, 2, ack(15, 1, 0, 0)), 16); /* newreno/prr-proportional */
	assert_int_equal(shadow.path[0].prr.delivered, 5);
	assert_int_equal(reduced(10, 20, 12, 8, ack(6, 1, 0, 1)), 10);  /* newreno/prr-ssrb: a safe ACK adds one */
	assert_int_equal(reduced(10, 20, 12, 11, ack(6, 1, 2, 1)),
			 8);  /* newreno/prr-ssrb-lost: not when it showed new losses */
	assert_int_equal(reduced(10, 20, 12, 11, ack(6, 1, 0, 1)), 9);
	assert_int_equal(reduced(10, 20, 0, 0, ack(19, 1, 1, 0)), 20);  /* the first retransmission always goes out */
	assert_int_equal(reduced(10, 20, 3, 3, ack(16, 0, 1, 0)), 20);  /* nothing delivered: nothing changes */
}

static void an_ece_forbids_to_undo(void **state)
{
	(void)state;
	for (int forbidden = 0; forbidden < 2; forbidden++) {
		newreno(20, RW_SSTHRESH_UNSET);
		struct rw_event enter = ack(12, 1, 1, 0);
		enter.state = RW_SENDER_OPEN;
		enter.steps = (uint16_t)(RW_STEP_RECOVERY | RW_STEP_REDUCE | (forbidden ? RW_STEP_NO_UNDO : 0));
		struct rw_event undo = ack(10, 1, 0, 1);
		undo.steps = RW_STEP_UNDO;
		undo.state_after = RW_SENDER_OPEN;
		struct rw_shadow_row row;
		rw_shadow_event(&shadow, 0, &enter, 100000000, &row);
		assert_true(row.ssthresh_q16 == 10 << 16);
		assert_int_equal(row.phase, RW_PHASE_SLOW_START);
		rw_shadow_event(&shadow, 0, &undo, 100000000, &row);
		assert_int_equal(row.phase, RW_PHASE_RECOVERY);
		assert_int_equal(cwnd() == 20, !forbidden);
		assert_int_equal(row.ssthresh_q16 == RW_SSTHRESH_UNSET, !forbidden);
	}
}

/* Slow start goes on while the window is below twice the flight; avoidance only while the window is full. */
static void growth_gate(void **state)
{
	(void)state;
	const struct {
		uint32_t cwnd, ssthresh, flight, expected;
	} cases[] = {{20, 1000, 20, 21}, {20, 1000, 11, 21}, {20, 1000, 10, 20}, {20, 10, 19, 20}, {20, 10, 20, 20}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		newreno(cases[i].cwnd, (uint64_t)cases[i].ssthresh << 16);
		struct rw_event e = {.kind = RW_EVENT_ACK,
				     .steps = RW_STEP_RAISE,
				     .delivered = 1,
				     .in_flight_before = cases[i].flight,
				     .packets_out_before = cases[i].flight,
				     .sent_before = 1,
				     .next_before = 1000};
		struct rw_shadow_row row;
		rw_shadow_event(&shadow, 0, &e, 100000000, &row);
		assert_int_equal(cwnd(), cases[i].expected);
		assert_int_equal(shadow.connection->path[0].cwnd_cnt, i == 4); /* avoidance counted only when full */
	}
}

static void choose(const char *const *options, uint32_t count, uint32_t cwnd_segments)
{
	struct rw_settings settings;
	rw_choice choice = {"newreno", options, count};
	rw_error error;
	const struct rw_control *control = rw_control_find("newreno");
	assert_int_equal(rw_control_options(&choice, control, &settings, &error), RW_OK);
	assert_true(rw_shadow_bytes(1) <= sizeof block);
	rw_shadow_open(&shadow, control, &settings, 1, 1460);
	rw_shadow_place(&shadow, 0, (uint64_t)cwnd_segments << 16, RW_SSTHRESH_UNSET, 100000000);
}

/* The recorded sender was limited by nothing but its own window of 5; the shadow's is 20. */
static void growth_gates_are_chosen_apart_from_the_mode(void **state)
{
	(void)state;
	static const struct {
		const char *mode, *gate;
		uint16_t flags;
		uint32_t expected;
	} cases[] = {{"mode=kernel", "gate=auto", 0, 20},
		     {"mode=paper", "gate=auto", 0, 21},
		     {"mode=kernel", "gate=observed", 0, 21},
		     {"mode=paper", "gate=own", 0, 20},
		     {"mode=kernel", "gate=observed", RW_ACK_APP_LIMITED, 20}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *options[] = {cases[i].mode, cases[i].gate};
		choose(options, 2, 20);
		struct rw_event e = {.kind = RW_EVENT_ACK,
				     .steps = RW_STEP_RAISE,
				     .delivered = 1,
				     .in_flight_before = 5,
				     .packets_out_before = 5,
				     .sent_before = 1,
				     .next_before = 1000,
				     .flags = cases[i].flags};
		struct rw_shadow_row row;
		rw_shadow_event(&shadow, 0, &e, 100000000, &row);
		assert_int_equal(cwnd(), cases[i].expected);
	}
}

/* A loss at a flight of 30: a window of 20 would not have put that packet out. */
static void losses_beyond_the_window_may_be_spared(void **state)
{
	(void)state;
	static const struct {
		const char *losses;
		uint32_t window, ssthresh;
	} cases[] = {{"losses=recorded", 20, 10}, {"losses=reached", 20, 0}, {"losses=reached", 30, 15}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *options[] = {cases[i].losses};
		choose(options, 1, cases[i].window);
		struct rw_event e = ack(28, 1, 1, 0);
		e.state = RW_SENDER_OPEN;
		e.in_flight_before = 30;
		e.steps = RW_STEP_RECOVERY | RW_STEP_REDUCE;
		struct rw_shadow_row row;
		rw_shadow_event(&shadow, 0, &e, 100000000, &row);
		assert_true(row.ssthresh_q16 ==
			    (cases[i].ssthresh ? (uint64_t)cases[i].ssthresh << 16 : RW_SSTHRESH_UNSET));
		/* What follows in the episode leaves a spared window alone; the next episode counts again. */
		struct rw_event leave = ack(10, 1, 0, 1);
		leave.steps = RW_STEP_EXIT;
		leave.state_after = RW_SENDER_OPEN;
		rw_shadow_event(&shadow, 0, &leave, 100000000, &row);
		assert_int_equal(cwnd(), cases[i].ssthresh ? cases[i].ssthresh : cases[i].window);
		e.in_flight_before = 5;
		rw_shadow_event(&shadow, 0, &e, 100000000, &row);
		assert_true(row.ssthresh_q16 != RW_SSTHRESH_UNSET);
	}
}

static void timeouts(void **state)
{
	(void)state;
	newreno(20, RW_SSTHRESH_UNSET);
	struct rw_event first = {.kind = RW_EVENT_TIMEOUT, .new_episode = 1, .in_flight = 3};
	struct rw_event again = {.kind = RW_EVENT_TIMEOUT, .new_episode = 0, .in_flight = 0};
	rw_shadow_event(&shadow, 0, &first, 100000000, NULL);
	assert_int_equal(cwnd(), 4); /* what is still in flight and one more */
	assert_true(shadow.connection->path[0].ssthresh_q16 == 10 << 16);
	rw_shadow_event(&shadow, 0, &again, 100000000, NULL);
	assert_int_equal(cwnd(), 1);
	assert_true(shadow.connection->path[0].ssthresh_q16 == 10 << 16); /* once an episode */
}

enum { TICK_NS = 4000000, MILLISECOND_NS = 700000 };

/* A CUBIC shadow in congestion avoidance, at 42 segments after a loss. phase_ns: of its clock; below 0: it learns it. */
static void cubic(struct rw_shadow *s, int64_t phase_ns)
{
	struct rw_settings settings;
	rw_choice choice = {"cubic", NULL, 0};
	rw_error error;
	const struct rw_control *control = rw_control_find("cubic");
	assert_int_equal(rw_control_options(&choice, control, &settings, &error), RW_OK);
	rw_shadow_open(s, control, &settings, 1, 1460);
	rw_shadow_place(s, 0, 60 << 16, RW_SSTHRESH_UNSET, 50000000);
	rw_shadow_reduce(s, 0, 0);
	s->connection->path[0].cwnd_q16 = s->connection->path[0].ssthresh_q16;
	if (phase_ns >= 0) {
		s->learns_ticks = 0;
		s->clock_ns = TICK_NS - (MILLISECOND_NS + phase_ns) % TICK_NS;
	}
}

/* The i-th ACK that the sender gets, of one segment, before which it had filled its window. */
static struct rw_event ack_of_full_window(uint32_t i, const struct rw_shadow *sender)
{
	struct rw_event e = {.kind = RW_EVENT_ACK,
			     .time_ns = 1000000000ll + i * 1237000ll,
			     .tick_ns = MILLISECOND_NS,
			     .steps = RW_STEP_RAISE,
			     .una = i,
			     .ack = i + 1,
			     .next_before = i + 40,
			     .delivered = 1,
			     .sent_before = 1,
			     .srtt_ns = 50000000,
			     .rtt_ns = 50000000,
			     .rtt_newest_ns = 50000000,
			     .room = 1};
	e.in_flight_before = e.packets_out_before = (uint32_t)(sender->connection->path[0].cwnd_q16 >> 16);
	return e;
}

/* The sender's ticks begin 1.5 ms after the millisecond that its timestamps tell. */
static void the_phase_of_the_senders_clock_is_learnt(void **state)
{
	(void)state;
	enum { AFTER_NS = 1500000, ACKS = 6000 };
	static _Alignas(16) uint8_t room[4096];
	struct rw_shadow *sender = (struct rw_shadow *)(void *)room;
	struct rw_shadow *both[] = {sender, &shadow};
	cubic(sender, AFTER_NS);
	cubic(&shadow, -1);
	int equal = 0;
	for (uint32_t i = 0; i < ACKS; i++) {
		struct rw_event e = ack_of_full_window(i, sender);
		struct rw_shadow_row row[2];
		for (int k = 0; k < 2; k++)
			rw_shadow_event(both[k], 0, &e, 50000000, &row[k]);
		equal += i >= ACKS / 2 && row[0].cwnd_q16 == row[1].cwnd_q16;
	}
	assert_int_equal(shadow.clock_ns, sender->clock_ns);
	assert_int_equal(equal, ACKS / 2);
	rw_shadow_close(&shadow);
}

/*
 * Beside a shadow of each phase: another phase is accepted when it was right at two more ACKs. The search ends after 4096 ACKs, or at a
 * lead of 64.
 */
static void another_phase_is_accepted_at_a_lead_of_two_acks(void **state)
{
	(void)state;
	enum { PHASES = 8, ROWS_MOST = 4096, ACKS = 4200 };
	static _Alignas(16) uint8_t room[PHASES + 1][4096];
	struct rw_shadow *trial[PHASES + 1];
	uint32_t matched[PHASES] = {0}, leader = 0, ahead_by_one = 0, changes = 0;
	int ended = 0;
	for (int k = 0; k <= PHASES; k++) {
		trial[k] = (struct rw_shadow *)(void *)room[k];
		cubic(trial[k], k < PHASES ? k * TICK_NS / PHASES : 1500000);
	}
	cubic(&shadow, -1);
	for (uint32_t i = 0; i < ACKS; i++) {
		struct rw_event e = ack_of_full_window(i, trial[PHASES]);
		struct rw_shadow_row row;
		rw_shadow_event(&shadow, 0, &e, 50000000, &row);
		for (uint32_t k = 0; k <= PHASES; k++) {
			rw_shadow_event(trial[k], 0, &e, 50000000, &row);
			if (k < PHASES)
				matched[k] += row.cwnd_before_q16 >> 16 == e.in_flight_before;
		}
		uint32_t best = 0, second = 0;
		for (uint32_t k = 1; k < PHASES; k++)
			best = matched[k] > matched[best] ? k : best;
		for (uint32_t k = 0; k < PHASES; k++)
			second = k != best && matched[k] > second ? matched[k] : second;
		if (!ended && best != leader) {
			uint32_t lead = matched[best] - matched[leader];
			ahead_by_one += lead == 1;
			changes += lead >= 2;
			leader = lead >= 2 ? best : leader;
		}
		assert_int_equal(shadow.clock_ns, trial[leader]->clock_ns);
		ended |= matched[best] - second >= 64 || i >= ROWS_MOST; /* the first began the search */
		assert_int_equal(shadow.ticks == NULL, ended);
	}
	assert_true(ended && changes && ahead_by_one);
	rw_shadow_close(&shadow);
}

static struct rw_rate told;

static void listen(struct rw_connection *c, const struct rw_rate *r)
{
	(void)c;
	told = *r;
}

/* 1000 segments a second, paced a quarter faster. */
static void listening_model(const struct rw_connection *c, uint32_t path, struct rw_model *model)
{
	(void)c, (void)path;
	*model = (struct rw_model){.bandwidth_q24 = (1 << 24) / 1000, .pacing_q24 = (1 << 24) / 800};
}

/* The recorded flight bounds the window where nothing else ended it; a full window leaves nothing to a pace. */
static void a_flight_shows_a_rate_based_senders_window(void **state)
{
	(void)state;
	static const struct rw_control listener = {.name = "listener", .rate = listen, .model = listening_model};
	static const struct {
		uint32_t flight, sent, room;
		uint64_t since_ms;
		int64_t answered_us;
		uint32_t least, most, paced;
	} cases[] = {
	    {40, 2, 1, 5, 900, 40, 41, 0},
	    {40, 2, 1, 5, 1000, 40, 41, 2}, /* no ACK before let this go */
	    {39, 2, 1, 5, 900, 39, 40, 0}, /* it may wait for the room of two */
	    {38, 2, 1, 5, 900, 38, 39, 2},
	    {38, 0, 1, 5, 900, 0, 39, 2}, /* nothing left: the window may have become smaller */
	    {38, 2, 0, 5, 900, 38, 0, 2}, /* the receiver has no room */
	    {38, 2, 1, 1, 900, 38, 0, 2}, /* the pace holds the next burst back, for 2 ms at the bandwidth */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rw_settings settings = {.option = {0}};
		struct rw_event_rate rate = {
		    .burst_segments = 2, .burst_ns = 100000000, .answered_ns = cases[i].answered_us * 1000};
		struct rw_event e = {.kind = RW_EVENT_ACK,
				     .time_ns = 100000000 + (int64_t)cases[i].since_ms * 1000000,
				     .delivered = 1,
				     .in_flight_before = cases[i].flight,
				     .sent_before = cases[i].sent,
				     .room = cases[i].room,
				     .rate = &rate};
		struct rw_shadow_row row;
		rate.sample =
		    (struct rw_rate){.in_flight_before = cases[i].flight, .paced_segments = 2, .paced_ns = 2000000};
		rw_shadow_open(&shadow, &listener, &settings, 1, 1460);
		rw_shadow_place(&shadow, 0, 40 << 16, RW_SSTHRESH_UNSET, 100000000);
		rw_shadow_event(&shadow, 0, &e, 100000000, &row);
		assert_int_equal(told.window_least, cases[i].least);
		assert_int_equal(told.window_most, cases[i].most);
		assert_int_equal(told.paced_segments, cases[i].paced);
		assert_int_equal(row.paced, cases[i].paced != 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(proportional_rate_reduction),
	    cmocka_unit_test(an_ece_forbids_to_undo),
	    cmocka_unit_test(growth_gate),
	    cmocka_unit_test(growth_gates_are_chosen_apart_from_the_mode),
	    cmocka_unit_test(losses_beyond_the_window_may_be_spared),
	    cmocka_unit_test(timeouts),
	    cmocka_unit_test(the_phase_of_the_senders_clock_is_learnt),
	    cmocka_unit_test(another_phase_is_accepted_at_a_lead_of_two_acks),
	    cmocka_unit_test(a_flight_shows_a_rate_based_senders_window),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
