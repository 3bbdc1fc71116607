/* Linux's sender by itself: scripted steps of scoreboard, RACK, tail loss probe, timeout, F-RTO, undo, and of the window's machinery. */
#include "check.h"
#include "sender.h"
#include "window.h"

#include <string.h>

enum { MSS = 100, START = 1000, SEGMENTS_MAX = 1000 };
#define MS 1000000ll

/* Time and a sender whose first ten segments were acknowledged after 100 ms, so that it has a round trip. */
static struct {
	struct rw_sender sender;
	int64_t now_ns;
} t;

static uint32_t at(uint32_t segment) { return START + segment * MSS; }

static void send_segments(uint32_t segments)
{
	uint32_t counted = 0;
	struct rw_transmission new = {.start = t.sender.next,
				      .end = t.sender.next + segments * MSS,
				      .time_ns = t.now_ns,
				      .sent_ns = t.now_ns,
				      .ts_value = (uint32_t)(t.now_ns / MS),
				      .has_timestamp = 1};
	assert_int_equal(rw_sender_send(&t.sender, &new, &counted), RW_SCOREBOARD_OK);
	assert_int_equal(counted, segments);
}

static struct rw_transmission again(uint32_t segment)
{
	t.sender.retransmitted++;
	return (struct rw_transmission){.start = at(segment),
					.end = at(segment + 1),
					.time_ns = t.now_ns,
					.sent_ns = t.now_ns,
					.ts_value = (uint32_t)(t.now_ns / MS),
					.has_timestamp = 1};
}

static void resend(uint32_t segment)
{
	struct rw_transmission sent = again(segment);
	uint32_t segments;
	assert_int_equal(rw_sender_resend(&t.sender, &sent, &segments), RW_SCOREBOARD_OK);
	assert_int_equal(segments, 1);
}

/* An ACK of all segments below `segment`, with one SACK block [first, last), until the next call, unless they are equal. */
static struct rw_sender_ack ack_of(uint32_t segment, uint32_t first, uint32_t last)
{
	static struct rw_range sack;
	sack = (struct rw_range){at(first), at(last)};
	return (struct rw_sender_ack){
	    .time_ns = t.now_ns, .ack = at(segment), .window_bytes = 65535, .sacks = first != last, .sack = &sack};
}

static struct rw_sender_answer take(const struct rw_sender_ack *ack)
{
	struct rw_sender_answer answer;
	rw_sender_acknowledge(&t.sender, ack, &answer);
	return answer;
}

static struct rw_sender_answer sacked(uint32_t segment, uint32_t first, uint32_t last)
{
	struct rw_sender_ack ack = ack_of(segment, first, last);
	return take(&ack);
}

static struct rw_sender_answer acked(uint32_t segment) { return sacked(segment, 0, 0); }

/* Ten segments are acknowledged, ten more are outstanding. */
static void begin(int sack)
{
	rw_sender_close(&t.sender);
	rw_sender_open(&t.sender, MSS, sack, SEGMENTS_MAX, NULL);
	t.sender.window_bytes = 65535;
	t.now_ns = 1000 * MS;
	rw_sender_start(&t.sender, START);
	send_segments(10);
	t.now_ns += 100 * MS;
	struct rw_sender_answer answer = acked(10);
	assert_int_equal(answer.rtt_ns, 100 * MS);
	assert_int_equal(answer.steps, RW_STEP_RAISE);
	send_segments(10);
	t.now_ns += 100 * MS;
}

static uint8_t bits(uint32_t segment) { return (uint8_t)rw_scoreboard_find(&t.sender.board, at(segment)).at->bits; }

/* RFC 8985 6.2.4: once a round trip, however many DSACKs it has; narrow again after 16 recoveries. */
static void the_reordering_window_widens_once_a_round_trip(void **state)
{
	(void)state;
	struct rw_sender s;
	memset(&s, 0, sizeof s);
	s.rack.window_steps = 1;
	static const struct {
		uint32_t una, next;
		int dsack;
		uint8_t steps;
	} acks[] = {{0, 1000, 1, 2},    {500, 1500, 1, 2},  {999, 1900, 1, 2}, {1000, 2000, 0, 2},
		    {1200, 2200, 1, 3}, {2100, 3000, 1, 3}, {2200, 3100, 1, 4}};
	for (size_t i = 0; i < sizeof acks / sizeof *acks; i++) {
		s.una = acks[i].una;
		s.next = acks[i].next;
		rw_rack_update_window(&s, acks[i].dsack);
		assert_int_equal(s.rack.window_steps, acks[i].steps);
	}
	assert_int_equal(s.rack.window_persist, 16);
	s.rack.window_persist = 0;
	rw_rack_update_window(&s, 0);
	assert_int_equal(s.rack.window_steps, 1);
}

/* The scoreboard beside an array that never moves. */
enum { STEPS = 20000, ROOM = 4 * STEPS };
static struct {
	struct rw_segment segment[ROOM];
	uint32_t first, count;
} expected;

static void assert_as_expected(const struct rw_scoreboard *b, uint32_t draw)
{
	uint32_t i = 0;
	assert_int_equal(b->count, expected.count);
	for (struct rw_cursor c = rw_cursor_from(b, 0); c.at; c = rw_cursor_next(b, c), i++) {
		const struct rw_segment *g = c.at, *e = &expected.segment[expected.first + i];
		assert_true(g->start == e->start && g->end == e->end && g->sent_ns == e->sent_ns &&
			    g->ts_value == e->ts_value && g->bits == e->bits);
	}
	assert_int_equal(i, expected.count);
	if (i == 0)
		return;
	const struct rw_segment *e = &expected.segment[expected.first + draw % i];
	assert_int_equal(rw_scoreboard_find(b, e->start).at->start, e->start);
	assert_int_equal(rw_scoreboard_find(b, e->end - 1).at->start, e->start);
	rw_scoreboard_check(b, 1);
}

/* Appended behind, dropped in front, cut and joined within. */
static void segments_stay_as_they_are_while_their_row_moves(void **state)
{
	(void)state;
	struct rw_budget budget = {.used = 0, .most = 128};
	struct rw_scoreboard b;
	memset(&b, 0, sizeof b);
	b.segments_max = SEGMENTS_MAX;
	b.typical_bytes = 100;
	b.budget = &budget;
	uint32_t next = 0, random = 1, full = 0, cut = 0, joined = 0;
	for (uint32_t step = 0; step < STEPS; step++) {
		random = random * 1664525u + 1013904223u;
		uint32_t draw = random >> 16, n = expected.count ? draw / 8 % expected.count : 0;
		struct rw_segment *e = &expected.segment[expected.first + n];
		struct rw_cursor c = expected.count ? rw_scoreboard_find(&b, e->start) : (struct rw_cursor){NULL, 0};
		if (draw % 8 < 4) {
			/* One segment most often; else two whole ones and a shorter one. */
			uint32_t bytes = draw / 64 % 8 ? 100 : 230, segments = 0;
			struct rw_segment g = {.start = next,
					       .end = next + bytes,
					       .sent_ns = step,
					       .ts_value = draw,
					       .bits = RW_SEGMENT_EVER};
			enum rw_scoreboard_status status = rw_scoreboard_append(&b, &g, 100, &segments);
			if (status) {
				assert_int_equal(status, RW_SCOREBOARD_FULL);
				full++;
			} else {
				assert_int_equal(segments, bytes == 100 ? 1 : 3);
				for (uint32_t end = next + bytes; segments--; next = g.end) {
					g.start = next;
					g.end = end - next > 100 ? next + 100 : end;
					expected.segment[expected.first + expected.count++] = g;
				}
			}
		} else if (draw % 8 == 4 && c.at && e->end - e->start > 1 &&
			   rw_scoreboard_cut(&b, &c, e->start + 1) == RW_SCOREBOARD_OK) {
			memmove(e + 1, e, (expected.count++ - n) * sizeof *e);
			e[0].end = e[1].start = e->start + 1;
			cut++;
		} else if (draw % 8 == 5 && n + 1 < expected.count) {
			rw_scoreboard_join(&b, c);
			e[1].start = e->start;
			memmove(e, e + 1, (--expected.count - n) * sizeof *e);
			joined++;
		} else {
			for (uint32_t done = draw / 8 % 4; done && expected.count;
			     done--, expected.first++, expected.count--)
				rw_scoreboard_drop_head(&b);
		}
		assert_int_equal(budget.used, b.capacity + b.pieces_capacity);
		assert_true(budget.used <= budget.most);
		assert_as_expected(&b, draw);
	}
	assert_true(full > 10 && cut > 1000 && joined > 1000 && expected.first > 10 * budget.most);
	rw_scoreboard_close(&b);
	assert_int_equal(budget.used, 0);
}

/* What it costs to recover in a large window does not depend on the window: counted, not timed. */
static uint64_t work_for_each_packet(uint32_t window)
{
	enum { LOST_ONE_IN = 50 };
	rw_sender_close(&t.sender);
	rw_sender_open(&t.sender, MSS, 1, 1 << 20, NULL);
	t.now_ns = 1000 * MS;
	rw_sender_start(&t.sender, START);
	send_segments(window);
	uint64_t packets = window;
	struct rw_range sack[3];
	struct rw_sender_ack ack = {.window_bytes = 65535, .sack = sack};
	/* Each segment that arrives is SACKed by an ACK of its own: its run, and the two before. */
	for (uint32_t i = 0, run = 0; i < window; i++) {
		t.now_ns += 1000;
		if (i % LOST_ONE_IN == 0) {
			run = i + 1;
			continue;
		}
		ack.time_ns = t.now_ns;
		ack.ack = START;
		sack[0] = (struct rw_range){at(run), at(i + 1)};
		ack.sacks = 1;
		for (uint32_t k = 1; k < 3 && run > k * LOST_ONE_IN; k++, ack.sacks++)
			sack[k] = (struct rw_range){at(run - k * LOST_ONE_IN), at(run - (k - 1) * LOST_ONE_IN - 1)};
		take(&ack);
		packets++;
	}
	/* What was lost leaves again, and arrives, the last first: una does not advance, and runs grow together. */
	for (uint32_t i = window - LOST_ONE_IN; i > 0; i -= LOST_ONE_IN, packets += 2) {
		t.now_ns += 1000;
		resend(i);
	}
	assert_true(t.sender.board.retrans_out > window / LOST_ONE_IN - 3);
	for (uint32_t i = window - LOST_ONE_IN; i > 0; i -= LOST_ONE_IN) {
		t.now_ns += 1000;
		ack.time_ns = t.now_ns;
		ack.sacks = 1;
		sack[0] = (struct rw_range){at(i - LOST_ONE_IN + 1), at(window)};
		take(&ack);
	}
	assert_int_equal(t.sender.board.sacked_out, window - 1);
	return t.sender.board.work * 1000 / packets;
}

static void recovery_costs_the_same_in_every_window(void **state)
{
	(void)state;
	uint64_t small = work_for_each_packet(1000), large = work_for_each_packet(50000);
	assert_in_range(large, 1, small * 11 / 10);
	assert_in_range(small, 1, 4000); /* thousandths of a segment */
}

/* Retransmissions that nothing answers: the queue of what was sent again stays as long as the window. */
static void what_is_sent_again_and_again_is_queued_once(void **state)
{
	(void)state;
	begin(1);
	for (uint32_t i = 0; i < 10000; i++, t.now_ns += MS)
		resend(10 + i % 10);
	assert_in_range(t.sender.rack.resent.count, 10, 32);
	assert_int_equal(t.sender.rack.resent.capacity, 32);
	t.now_ns += 100 * MS;
	sacked(10, 19, 20); /* sent last: all before it is lost again, once the reordering window has passed */
	t.now_ns += 30 * MS;
	rw_sender_detect_losses(&t.sender, t.now_ns);
	assert_int_equal(t.sender.board.retrans_out, 0);
	assert_int_equal(t.sender.board.lost_out, 9);
	assert_int_equal(t.sender.rack.resent.count, 0);
}

/* RACK judges each transmission once; what a timeout marked lost, and an undo found again, it has not judged. */
static void what_was_undone_may_be_lost_after_all(void **state)
{
	(void)state;
	begin(1);
	sacked(10, 13, 16);
	assert_int_equal(t.sender.board.lost_out, 3);
	t.now_ns += 10 * MS;
	resend(10);
	t.now_ns += 5 * MS;
	struct rw_sender_ack ack = ack_of(11, 13, 16);
	ack.has_timestamp = 1;
	ack.ts_echo = 1100; /* the original's */
	struct rw_sender_answer answer = take(&ack);
	assert_int_equal(answer.steps & RW_STEP_UNDO, RW_STEP_UNDO);
	assert_int_equal(t.sender.board.lost_out, 0);
	t.now_ns += 200 * MS;
	sacked(11, 13, 17);
	t.now_ns += 30 * MS;
	rw_sender_detect_losses(&t.sender, t.now_ns);
	assert_int_equal(t.sender.board.lost_out, 0);

	begin(1);
	t.now_ns += 200 * MS;
	rw_sender_time_out(&t.sender, t.now_ns);
	resend(10);
	t.now_ns += MS;
	answer = sacked(10, 11, 12);
	assert_int_equal(answer.steps & RW_STEP_UNDO, RW_STEP_UNDO);
	assert_int_equal(t.sender.board.lost_out, 0);
	sacked(10, 13, 16);
	assert_int_equal(t.sender.board.lost_out, 1);
	assert_int_equal(bits(12), RW_SEGMENT_LOST | RW_SEGMENT_JUDGED);
}

/* RFC 8985: three SACKed segments say that the one below them is lost; what was sent later is not. */
static void rack_finds_a_loss(void **state)
{
	(void)state;
	begin(1);
	struct rw_sender_answer answer = sacked(10, 11, 13);
	assert_int_equal(answer.delivered, 2);
	assert_int_equal(answer.newly_lost, 0);
	assert_int_equal(t.sender.state, RW_SENDER_DISORDER);
	answer = sacked(10, 11, 14);
	assert_int_equal(answer.newly_lost, 1);
	assert_int_equal(answer.steps, RW_STEP_RECOVERY | RW_STEP_REDUCE);
	assert_int_equal(t.sender.state, RW_SENDER_RECOVERY);
	assert_int_equal(bits(10), RW_SEGMENT_LOST | RW_SEGMENT_JUDGED);
	assert_int_equal(bits(14), 0);
	assert_int_equal(rw_sender_in_flight(&t.sender), 6);
	resend(10);
	assert_int_equal(bits(10), RW_SEGMENT_LOST | RW_SEGMENT_RETRANSMITTED | RW_SEGMENT_EVER);
	assert_int_equal(rw_sender_in_flight(&t.sender), 7);
	/* Once: further losses of the episode reduce nothing again. */
	answer = sacked(10, 16, 20);
	assert_int_equal(answer.newly_lost, 2);
	assert_int_equal(answer.steps, RW_STEP_REDUCE);
	t.now_ns += 100 * MS;
	answer = sacked(14, 16, 20);
	assert_int_equal(t.sender.state, RW_SENDER_RECOVERY);
	assert_int_equal(answer.delivered, 1);
	resend(14);
	resend(15);
	send_segments(5);
	t.now_ns += 100 * MS;
	answer = acked(20);
	assert_int_equal(answer.steps & (RW_STEP_EXIT | RW_STEP_UNDO), RW_STEP_EXIT);
	assert_int_equal(t.sender.state, RW_SENDER_OPEN);
}

/* A retransmission that is lost in turn: something that was sent after it was delivered, a round trip later. */
static void rack_finds_a_lost_retransmission(void **state)
{
	(void)state;
	begin(1);
	sacked(10, 11, 14);
	resend(10);
	t.now_ns += MS;
	send_segments(2);
	t.now_ns += 110 * MS;
	struct rw_sender_answer answer = sacked(10, 20, 21);
	assert_int_equal(answer.newly_lost, 7); /* the retransmission, and the originals 14 to 19 */
	assert_int_equal(bits(10), RW_SEGMENT_LOST | RW_SEGMENT_EVER | RW_SEGMENT_JUDGED);
}

/* 6.2.4: where reordering was seen, a quarter of the shortest round trip more has to pass. */
static void a_reordering_path_waits(void **state)
{
	(void)state;
	begin(1);
	sacked(10, 12, 13);
	struct rw_sender_answer answer = sacked(11, 12, 13); /* 10 was only late */
	assert_true(t.sender.rack.reordering_seen);
	answer = sacked(11, 13, 18);
	assert_int_equal(answer.newly_lost, 0);
	t.now_ns += 24 * MS;
	answer = sacked(11, 18, 19);
	assert_int_equal(answer.newly_lost, 0);
	t.now_ns += MS;
	rw_sender_detect_losses(&t.sender, t.now_ns); /* its round trip is 124 ms by now */
	assert_int_equal(t.sender.board.lost_out, 0);
	t.now_ns += 24 * MS;
	rw_sender_detect_losses(&t.sender, t.now_ns);
	assert_int_equal(t.sender.board.lost_out, 1);
	assert_int_equal(bits(11), RW_SEGMENT_LOST | RW_SEGMENT_JUDGED);
	assert_true(rw_sender_enter_recovery(&t.sender));
}

/* RFC 3708: every retransmission of the episode was reported as a duplicate. */
static void dsacks_undo_a_reduction(void **state)
{
	(void)state;
	begin(1);
	sacked(10, 11, 14);
	resend(10);
	t.now_ns += MS; /* sooner than the retransmission could be answered */
	struct rw_sender_ack ack = ack_of(14, 10, 11); /* below the ACK: it came twice */
	struct rw_sender_answer answer = take(&ack);
	assert_int_equal(answer.steps & RW_STEP_UNDO, RW_STEP_UNDO);
	assert_int_equal(t.sender.spurious, 1);
	assert_int_equal(t.sender.state, RW_SENDER_OPEN);
}

/* What was sent twice before the episode says nothing of the episode's own retransmissions. */
static void a_dsack_from_before_the_episode_undoes_nothing(void **state)
{
	(void)state;
	begin(1);
	t.sender.retransmitted = 1; /* segment 9, before it was acknowledged */
	sacked(10, 11, 14);
	resend(10);
	t.now_ns += MS;
	struct rw_sender_ack ack = ack_of(14, 9, 10);
	struct rw_sender_answer answer = take(&ack);
	assert_int_equal(answer.steps & RW_STEP_UNDO, 0);
	assert_int_equal(t.sender.spurious, 1);
	assert_int_equal(t.sender.state, RW_SENDER_RECOVERY);
	ack = ack_of(14, 10, 11);
	answer = take(&ack);
	assert_int_equal(answer.steps & RW_STEP_UNDO, RW_STEP_UNDO);
}

/* The second half of one segment and the first half of the next, which was SACKed, leave as one: only the first is in flight. */
static void a_retransmission_across_a_sacked_segment(void **state)
{
	(void)state;
	begin(1);
	sacked(10, 11, 12);
	struct rw_transmission sent = again(10);
	sent.start += MSS / 2;
	sent.end += MSS / 2;
	uint32_t segments;
	assert_int_equal(rw_sender_resend(&t.sender, &sent, &segments), RW_SCOREBOARD_OK);
	assert_int_equal(segments, 2);
	assert_int_equal(t.sender.board.retrans_out, 1);
	const struct rw_segment *first = rw_scoreboard_find(&t.sender.board, sent.start).at,
				*second = rw_scoreboard_find(&t.sender.board, at(11)).at;
	assert_int_equal(first->end, at(11));
	assert_int_equal(first->bits & RW_SEGMENT_SACKED, 0);
	assert_int_equal(second->end, sent.end);
	assert_int_equal(second->bits & RW_SEGMENT_SACKED, RW_SEGMENT_SACKED);
}

/* RFC 3522: the ACK echoes a timestamp from before the retransmission. */
static void timestamps_undo_a_reduction(void **state)
{
	(void)state;
	for (int before = 0; before < 2; before++) {
		begin(1);
		sacked(10, 11, 14);
		t.now_ns += 10 * MS;
		resend(10);
		t.now_ns += 100 * MS;
		struct rw_sender_ack ack = ack_of(20, 0, 0);
		ack.has_timestamp = 1;
		ack.ts_echo = before ? 1100 : 1210; /* the original left at 1100 ms, the retransmission at 1210 ms */
		struct rw_sender_answer answer = take(&ack);
		assert_int_equal(!!(answer.steps & RW_STEP_UNDO), before);
		assert_int_equal(!!(answer.steps & RW_STEP_EXIT), !before);
	}
}

/* RFC 8985 7.4. */
static void a_tail_loss_probe(void **state)
{
	(void)state;
	static const struct {
		int dsack;
		uint16_t steps;
	} cases[] = {{0, RW_STEP_TAIL_LOSS}, {1, 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		begin(1);
		acked(19);
		assert_int_equal(rw_sender_probe_timeout_ns(&t.sender), 202 * MS);
		t.now_ns += 202 * MS;
		struct rw_transmission probe = again(19);
		uint32_t segments;
		assert_int_equal(rw_sender_probe(&t.sender, &probe, &segments), RW_SCOREBOARD_OK);
		assert_int_equal(segments, 1);
		assert_int_equal(rw_sender_in_flight(&t.sender), 1); /* it is not in flight twice */
		t.now_ns += 100 * MS;
		if (cases[i].dsack)
			sacked(20, 19, 20);
		else
			acked(20);
		assert_int_equal(t.sender.probe.outstanding, !cases[i].dsack);
		send_segments(1);
		t.now_ns += 100 * MS;
		struct rw_sender_answer answer = acked(21);
		assert_int_equal(answer.steps & RW_STEP_TAIL_LOSS, cases[i].steps);
		assert_int_equal(t.sender.probe.outstanding, 0);
	}
}

/* RFC 6298: all is lost, once an episode; what left less than a round trip ago is spared. */
static void a_timeout(void **state)
{
	(void)state;
	begin(1);
	t.now_ns += 150 * MS;
	send_segments(2);
	assert_int_equal(rw_sender_rto_ns(&t.sender), 300 * MS);
	t.now_ns += 50 * MS;
	assert_true(rw_sender_time_out(&t.sender, t.now_ns));
	assert_int_equal(t.sender.state, RW_SENDER_LOSS);
	assert_int_equal(t.sender.board.lost_out, 10);
	assert_int_equal(bits(20), 0);
	assert_int_equal(rw_sender_rto_ns(&t.sender), 600 * MS);
	resend(10);
	t.now_ns += 600 * MS;
	assert_false(rw_sender_time_out(&t.sender, t.now_ns)); /* the same episode */
	assert_int_equal(rw_sender_rto_ns(&t.sender), 1200 * MS);
	assert_int_equal(t.sender.board.lost_out, 12);
	resend(10);
	t.now_ns += 100 * MS;
	assert_int_equal(acked(11).steps, RW_STEP_RAISE);
	for (uint32_t i = 11; i < 22; i++)
		resend(i);
	t.now_ns += 100 * MS;
	struct rw_sender_answer answer = acked(22);
	assert_int_equal(answer.steps, RW_STEP_OPEN | RW_STEP_RAISE);
	assert_int_equal(t.sender.state, RW_SENDER_OPEN);
	assert_int_equal(t.sender.backoff, 0);
}

/* RFC 5682: originals of the episode arrive after the timeout: it was spurious. */
static void f_rto_undoes_a_timeout(void **state)
{
	(void)state;
	begin(1);
	t.now_ns += 200 * MS;
	assert_true(rw_sender_time_out(&t.sender, t.now_ns));
	resend(10);
	t.now_ns += MS;
	struct rw_sender_answer answer = sacked(10, 11, 12);
	assert_int_equal(answer.steps & (RW_STEP_UNDO | RW_STEP_OPEN), RW_STEP_UNDO | RW_STEP_OPEN);
	assert_int_not_equal(t.sender.state, RW_SENDER_LOSS);
	/* Without SACK the ACK that covers the retransmission says nothing of originals. */
	begin(0);
	t.now_ns += 200 * MS;
	assert_true(rw_sender_time_out(&t.sender, t.now_ns));
	resend(10);
	t.now_ns += 100 * MS;
	answer = acked(12);
	assert_int_equal(answer.steps & RW_STEP_UNDO, 0);
	assert_int_equal(t.sender.state, RW_SENDER_LOSS);
}

/* RFC 6582: three duplicate ACKs, then one segment for each partial ACK. */
static void recovery_without_sack(void **state)
{
	(void)state;
	begin(0);
	for (int i = 0; i < 2; i++) {
		struct rw_sender_answer answer = acked(10);
		assert_true(answer.duplicate);
		assert_int_equal(answer.delivered, 1);
		assert_int_equal(t.sender.state, RW_SENDER_DISORDER);
	}
	struct rw_sender_answer answer = acked(10);
	assert_int_equal(answer.steps, RW_STEP_RECOVERY | RW_STEP_REDUCE);
	assert_int_equal(answer.newly_lost, 1);
	assert_int_equal(rw_sender_in_flight(&t.sender),
			 6); /* ten, three of which left the network, and the lost one */
	resend(10);
	t.now_ns += 100 * MS;
	answer = acked(14);
	assert_int_equal(answer.delivered, 1); /* three of the four were counted before */
	assert_int_equal(answer.newly_lost, 1);
	assert_int_equal(t.sender.state, RW_SENDER_RECOVERY);
	assert_int_equal(bits(14), RW_SEGMENT_LOST);
}

/* An ACK of another connection, one that is old, and one beyond all that was sent. */
static void acks_that_do_not_fit(void **state)
{
	(void)state;
	begin(1);
	struct rw_sender_ack ack = ack_of(5, 0, 0);
	assert_true(take(&ack).ignored);
	ack.ack = at(10) + RW_SEQUENCE_JUMP_MAX + 1;
	assert_true(take(&ack).ignored);
	assert_int_equal(t.sender.board.count, 10);
	struct rw_sender_answer answer = acked(25);
	assert_int_equal(answer.beyond_bytes, 5 * MSS);
	assert_int_equal(answer.delivered, 15);
	assert_int_equal(t.sender.next, at(25));
}

/* RFC 6298 with Linux's variance: at least 200 ms above the smoothed round trip; doubled for each timeout, up to 120 s. */
static void the_retransmission_timeout(void **state)
{
	(void)state;
	struct rw_round_trip r;
	memset(&r, 0, sizeof r);
	assert_int_equal(rw_round_trip_timeout_ns(&r, 0), 1000 * MS);
	rw_round_trip_sample(&r, 100 * MS, 0, 1000);
	assert_int_equal(rw_round_trip_timeout_ns(&r, 0), 300 * MS);
	assert_int_equal(rw_round_trip_timeout_ns(&r, 1), 600 * MS);
	assert_int_equal(rw_round_trip_timeout_ns(&r, 30), 120000 * MS);
	rw_round_trip_sample(&r, 500 * MS, 0, 1000);
	assert_int_equal(r.srtt_ns, 150 * MS);
	assert_int_equal(r.mdev_ns, 50 * MS + (400 - 50) * MS / 4);
	assert_int_equal(rw_round_trip_timeout_ns(&r, 0), 150 * MS + 4 * r.mdev_ns);
	uint64_t widest = r.rttvar_ns;
	rw_round_trip_sample(&r, 150 * MS, 500, 1500); /* within the round trip: it does not shrink */
	assert_int_equal(r.rttvar_ns, widest);
	for (uint32_t round = 1; round < 60; round++)
		rw_round_trip_sample(&r, 150 * MS, round * 1001, round * 1001 + 1000);
	assert_in_range(r.rttvar_ns, 200 * MS, 201 * MS);
	assert_int_equal(r.least_ns, 100 * MS);
}

/* RFC 6937, Linux's integers: ssthresh, prior window, delivered and sent so far, then the ACK. */
static void proportional_rate_reduction(void **state)
{
	(void)state;
	static const struct {
		uint32_t ssthresh, prior;
		struct rw_prr prr;
		struct rw_prr_ack ack;
		uint64_t window;
	} cases[] = {
	    {10, 20, {4, 2}, {15, 1, 0, 0}, 16}, /* in proportion */
	    {10, 20, {12, 8}, {6, 1, 0, 1}, 10}, /* below ssthresh: up to it */
	    {10, 20, {12, 11}, {6, 1, 2, 1}, 8}, /* what was delivered less what was sent */
	    {10, 20, {12, 11}, {6, 1, 0, 1}, 9}, /* one more where nothing was lost anew */
	    {10, 20, {0, 0}, {19, 1, 1, 0}, 20}, /* the first retransmission always leaves */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rw_prr prr = cases[i].prr;
		assert_int_equal(rw_prr_window(&prr, cases[i].ssthresh, cases[i].prior, &cases[i].ack),
				 cases[i].window);
		assert_int_equal(prr.delivered, cases[i].prr.delivered + cases[i].ack.delivered);
	}
}

static void windows_that_are_not_used(void **state)
{
	(void)state;
	/* RFC 2861: half for each timeout, whole segments, down to the initial window. */
	assert_true(rw_window_after_idle(41 << 16, 10, 1) == 20 << 16);
	assert_true(rw_window_after_idle(41 << 16, 10, 5) == 10 << 16);
	assert_true(rw_window_after_idle(5 << 16, 10, 5) == 5 << 16);
	assert_true(rw_window_after_idle(10 << 16 | 0x6000, 10, 5) == (10 << 16 | 0x6000)); /* no whole segment goes */
	assert_true(rw_window_after_idle(11 << 16 | 0x6000, 10, 5) == 10 << 16);
	assert_true(rw_window_kept_ssthresh(41 << 16, 7 << 16) == 30 << 16);
	assert_true(rw_window_kept_ssthresh(41 << 16, 50 << 16) == 50 << 16);
	assert_true(rw_window_kept_ssthresh(41 << 16, RW_SSTHRESH_UNSET) == RW_SSTHRESH_UNSET);
	/* Slow start up to twice what was in flight; avoidance only while the window is the limit. */
	struct rw_window_use use = {.until = 1000};
	rw_window_used(&use, 0, 11, 500, 2000);
	assert_true(rw_window_may_grow(&use, 20 << 16, 1000 << 16) && !rw_window_may_grow(&use, 22 << 16, 1000 << 16));
	assert_false(rw_window_may_grow(&use, 20 << 16, 10 << 16));
	rw_window_used(&use, 0, 5, 1500, 3000); /* the same round trip: used less, which says nothing */
	assert_int_equal(use.packets_out_max, 11);
	rw_window_used(&use, 1, 20, 1600, 3000);
	assert_true(rw_window_may_grow(&use, 20 << 16, 10 << 16));
	rw_window_used(&use, 0, 30, 2900, 4000); /* it was the limit within this round trip */
	assert_true(use.limited);
	rw_window_used(&use, 0, 3, 3000, 4000);
	assert_false(use.limited);
}

static void idle_times_are_counted_in_timeouts(void **state)
{
	(void)state;
	begin(1);
	assert_int_equal(rw_sender_idle_timeouts(&t.sender, t.now_ns + 1000 * MS, 4 * MS),
			 0); /* something is outstanding */
	acked(20);
	int64_t sent_ns = t.now_ns - 100 * MS, rto_ns = (int64_t)rw_sender_rto_ns(&t.sender);
	int64_t ticks_ns = (rto_ns + 4 * MS - 1) / (4 * MS) * (4 * MS); /* whole ticks of the kernel's clock */
	assert_int_equal(rw_sender_idle_timeouts(&t.sender, sent_ns + ticks_ns + 2 * MS, 4 * MS), 0);
	assert_int_equal(rw_sender_idle_timeouts(&t.sender, sent_ns + ticks_ns + 2 * MS + 1, 4 * MS), 1);
	assert_int_equal(rw_sender_idle_timeouts(&t.sender, sent_ns + ticks_ns + 2 * MS, MS),
			 1); /* of a faster clock */
	assert_int_equal(rw_sender_idle_timeouts(&t.sender, sent_ns + 3 * rto_ns, 4 * MS), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_reordering_window_widens_once_a_round_trip),
	    cmocka_unit_test(segments_stay_as_they_are_while_their_row_moves),
	    cmocka_unit_test(recovery_costs_the_same_in_every_window),
	    cmocka_unit_test(what_is_sent_again_and_again_is_queued_once),
	    cmocka_unit_test(what_was_undone_may_be_lost_after_all),
	    cmocka_unit_test(rack_finds_a_loss),
	    cmocka_unit_test(rack_finds_a_lost_retransmission),
	    cmocka_unit_test(a_reordering_path_waits),
	    cmocka_unit_test(dsacks_undo_a_reduction),
	    cmocka_unit_test(a_dsack_from_before_the_episode_undoes_nothing),
	    cmocka_unit_test(a_retransmission_across_a_sacked_segment),
	    cmocka_unit_test(timestamps_undo_a_reduction),
	    cmocka_unit_test(a_tail_loss_probe),
	    cmocka_unit_test(a_timeout),
	    cmocka_unit_test(f_rto_undoes_a_timeout),
	    cmocka_unit_test(recovery_without_sack),
	    cmocka_unit_test(acks_that_do_not_fit),
	    cmocka_unit_test(the_retransmission_timeout),
	    cmocka_unit_test(proportional_rate_reduction),
	    cmocka_unit_test(windows_that_are_not_used),
	    cmocka_unit_test(idle_times_are_counted_in_timeouts),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	rw_sender_close(&t.sender);
	return failed;
}
