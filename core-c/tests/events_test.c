#include "check.h"
#include "events.h"

#include <string.h>

/* RFC 8985 6.2.4: once a round trip, however many DSACKs it has; narrow again after 16 recoveries. */
static void the_reordering_window_widens_once_a_round_trip(void **state)
{
	(void)state;
	struct rw_sender s;
	memset(&s, 0, sizeof s);
	s.reorder_steps = 1;
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
		assert_int_equal(s.reorder_steps, acks[i].steps);
	}
	assert_int_equal(s.reorder_persist, 16);
	s.reorder_persist = 0;
	rw_rack_update_window(&s, 0);
	assert_int_equal(s.reorder_steps, 1);
}

/* RFC 9768 tables 2 and 3; RFC 3168. AE, CWR, ECE as a number. */
static void what_the_handshake_agreed_on(void **state)
{
	(void)state;
	static const struct {
		uint8_t asked, answered;
		enum rw_ecn_mode mode;
	} cases[] = {{0, 0, RW_ECN_OFF},      {3, 0, RW_ECN_OFF},      {3, 1, RW_ECN_CLASSIC},  {7, 1, RW_ECN_CLASSIC},
		     {7, 0, RW_ECN_OFF},      {7, 2, RW_ECN_ACCURATE}, {7, 3, RW_ECN_ACCURATE}, {7, 4, RW_ECN_ACCURATE},
		     {7, 6, RW_ECN_ACCURATE}, {7, 7, RW_ECN_OFF},      {7, 5, RW_ECN_CLASSIC},  {3, 2, RW_ECN_OFF},
		     {0, 1, RW_ECN_OFF}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (uint8_t initiator = 0; initiator < 2; initiator++) {
			struct rw_flow f;
			memset(&f, 0, sizeof f);
			f.handshake = 1;
			f.initiator = initiator;
			f.side[initiator].syn_ecn = cases[i].asked;
			f.side[!initiator].syn_ecn = cases[i].answered;
			assert_int_equal(rw_flow_ecn(&f), cases[i].mode);
			f.handshake = 0;
			assert_int_equal(rw_flow_ecn(&f), RW_ECN_UNKNOWN);
		}
}

/* The scoreboard against an array that never moves: what is appended behind, dropped in front, cut within. */
static void segments_stay_as_they_are_while_their_row_moves(void **state)
{
	(void)state;
	enum { STEPS = 20000, ROOM = 4 * STEPS };
	static struct rw_segment expected[ROOM];
	struct rw_budget budget = {.used = 0, .most = 64};
	struct rw_sender s;
	memset(&s, 0, sizeof s);
	s.segments_max = 1000;
	s.segment_bytes = 100;
	s.budget = &budget;
	uint32_t first = 0, count = 0, next = 0, random = 1, full = 0;
	for (uint32_t step = 0; step < STEPS; step++) {
		random = random * 1664525u + 1013904223u;
		uint32_t draw = random >> 16, n = count ? draw / 8 % count : 0;
		if (draw % 8 < 5) {
			struct rw_segment g = {next, next + 100, step, draw, draw & 1};
			int status = rw_scoreboard_append(&s, &g);
			if (status) {
				assert_int_equal(status, RW_SCOREBOARD_FULL);
				assert_int_equal(count, budget.most);
				full++;
			} else {
				expected[first + count++] = g;
				next += 100;
			}
		} else if (draw % 8 == 5 && count && s.first[n].end - s.first[n].start > 1 &&
			   rw_scoreboard_cut(&s, n, s.first[n].start + 1) == 0) {
			struct rw_segment *g = &expected[first + n];
			memmove(g + 1, g, (count++ - n) * sizeof *g);
			g[0].end = g[1].start = g->start + 1;
		} else {
			uint32_t acked = count < draw / 8 % 4 ? count : draw / 8 % 4;
			rw_scoreboard_drop(&s, acked);
			first += acked;
			count -= acked;
		}
		assert_int_equal(s.count, count);
		assert_int_equal(budget.used, s.capacity);
		assert_true(s.capacity <= budget.most);
		for (uint32_t i = 0; i < count; i++) {
			const struct rw_segment *g = rw_segment_at(&s, i), *e = &expected[first + i];
			assert_true(g->start == e->start && g->end == e->end && g->sent_ns == e->sent_ns &&
				    g->ts_value == e->ts_value && g->bits == e->bits);
		}
	}
	assert_true(full > 0 && first > 10 * budget.most);
	rw_sender_close(&s);
	assert_int_equal(budget.used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_reordering_window_widens_once_a_round_trip),
	    cmocka_unit_test(what_the_handshake_agreed_on),
	    cmocka_unit_test(segments_stay_as_they_are_while_their_row_moves),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
