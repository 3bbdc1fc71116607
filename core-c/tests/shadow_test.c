#include "check.h"
#include "shadow.h"

#include <string.h>

static struct rw_shadow shadow;

static void newreno(uint32_t cwnd, uint64_t ssthresh)
{
	int64_t options[RW_MAX_OPTIONS];
	rw_choice choice = {"newreno", NULL, 0};
	rw_error error;
	const struct rw_control *control = rw_control_find("newreno");
	assert_int_equal(rw_control_options(&choice, control, options, &error), RW_OK);
	rw_shadow_open(&shadow, control, options, 1460);
	rw_shadow_place(&shadow, 0, (uint64_t)cwnd << 16, ssthresh, 100000000);
}

static uint32_t cwnd(void) { return (uint32_t)(shadow.connection.path[0].cwnd_q16 >> 16); }

static struct rw_event ack(uint32_t in_flight, uint32_t delivered, uint32_t lost, int advanced)
{
	struct rw_event e = {.kind = RW_EVENT_ACK, .state = RW_SENDER_RECOVERY, .state_after = RW_SENDER_RECOVERY,
			     .steps = RW_STEP_REDUCE, .in_flight = in_flight, .delivered = delivered, .newly_lost = lost,
			     .una_advanced = (uint8_t)advanced};
	return e;
}

static uint32_t reduced(uint32_t ssthresh, uint32_t prior, uint32_t delivered, uint32_t out, struct rw_event e)
{
	newreno(prior, (uint64_t)ssthresh << 16);
	shadow.path[0].prior_cwnd_q16 = (uint64_t)prior << 16;
	shadow.path[0].prr_delivered = delivered;
	shadow.path[0].prr_out = out;
	struct rw_shadow_row row;
	rw_shadow_event(&shadow, 0, &e, 100000000, &row);
	return cwnd();
}

/* Linux's integers: ssthresh, prior_cwnd, prr_delivered, prr_out, then the ACK. */
static void proportional_rate_reduction(void **state)
{
	(void)state;
	assert_int_equal(reduced(10, 20, 4, 2, ack(15, 1, 0, 0)), 16); /* proportional */
	assert_int_equal(shadow.path[0].prr_delivered, 5);
	assert_int_equal(reduced(10, 20, 12, 8, ack(6, 1, 0, 1)), 10);  /* below ssthresh: a safe ACK adds one */
	assert_int_equal(reduced(10, 20, 12, 11, ack(6, 1, 2, 1)), 8);  /* not when it showed new losses */
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
		struct rw_event e = {.kind = RW_EVENT_ACK, .steps = RW_STEP_RAISE, .delivered = 1,
				     .in_flight_before = cases[i].flight, .packets_out_before = cases[i].flight,
				     .sent_before = 1, .next_before = 1000};
		struct rw_shadow_row row;
		rw_shadow_event(&shadow, 0, &e, 100000000, &row);
		assert_int_equal(cwnd(), cases[i].expected);
		assert_int_equal(shadow.connection.path[0].cwnd_cnt, i == 4); /* avoidance counted only when full */
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
	assert_true(shadow.connection.path[0].ssthresh_q16 == 10 << 16);
	rw_shadow_event(&shadow, 0, &again, 100000000, NULL);
	assert_int_equal(cwnd(), 1);
	assert_true(shadow.connection.path[0].ssthresh_q16 == 10 << 16); /* once an episode */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(proportional_rate_reduction),
	    cmocka_unit_test(an_ece_forbids_to_undo),
	    cmocka_unit_test(growth_gate),
	    cmocka_unit_test(timeouts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
