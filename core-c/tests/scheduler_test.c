/* Schedulers on numbers of every size, also impossible ones: under sanitizers, with what must hold of any decision. */
#include "check.h"
#include "rw_scheduler.h"
#include "rewindow.h"

#include <string.h>

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* All magnitudes, and the ends of the range. */
static uint64_t any(void)
{
	uint64_t x = next_random(), shift = next_random() & 63;
	return shift == 0 ? UINT64_MAX : shift == 1 ? 0 : x >> shift;
}

static uint32_t any32(void) { return (uint32_t)any(); }

static void scramble(struct rw_sending *s)
{
	memset(s, 0, sizeof *s);
	s->option[0] = next_random() % 2 ? (int64_t)(next_random() % 2) : (int64_t)(next_random() >> 34);
	s->option[1] = (int64_t)(next_random() % 2);
	s->subflows = next_random() % 16 ? 1 + (uint32_t)(next_random() % RW_MAX_PATHS) : any32();
	s->previous = next_random() % 4 ? (uint32_t)(next_random() % RW_MAX_PATHS) : RW_NO_SUBFLOW;
	for (int i = 0; i < RW_MAX_PATHS; i++)
		s->subflow[i] = (struct rw_sender_subflow){any(),
							   any(),
							   any(),
							   any(),
							   any(),
							   any32(),
							   any32(),
							   next_random() % 8 != 0,
							   next_random() % 8 == 0,
							   next_random() % 4 == 0,
							   next_random() % 4 == 0,
							   (uint8_t)(next_random() % 3)};
	s->queue.spans = next_random() % 16 ? (uint32_t)(next_random() % (RW_MAX_SPANS + 1)) : any32();
	uint64_t at = next_random() >> 40;
	for (int i = 0; i < RW_MAX_SPANS; i++) {
		s->queue.span[i] = (struct rw_span){at, 1 + (next_random() >> (20 + next_random() % 44)), any32()};
		at += s->queue.span[i].segments + 1 + next_random() % 5;
	}
	s->queue.oldest = any();
	s->queue.oldest_sent_on = any32();
	s->queue.window_end = next_random() % 2 ? UINT64_MAX : next_random() >> 40;
	s->queue.buffer_segments = any();
}

/* Is first .. first + segments within one span? How many segments of the queue stand before it? */
static int place_of(const struct rw_send_queue *q, uint64_t first, uint64_t segments, uint64_t *before)
{
	*before = 0;
	for (uint32_t i = 0; i < q->spans && i < RW_MAX_SPANS; i++) {
		const struct rw_span *span = &q->span[i];
		if (first >= span->first && first - span->first < span->segments) {
			*before += first - span->first;
			return segments <= span->segments - (first - span->first);
		}
		*before += span->segments;
	}
	return 0;
}

static void decisions_hold_for_any_numbers(void **unused)
{
	(void)unused;
	uint32_t sent = 0, again = 0;
	for (int n = 0; n < 200000; n++) {
		struct rw_sending s;
		scramble(&s);
		for (int k = 0; rw_scheduler_list[k]; k++) {
			struct rw_decision d;
			memset(&d, 0xa5, sizeof d);
			rw_scheduler_list[k]->pick(&s, &d);
			for (uint32_t i = 0; i < 32; i++)
				if (d.penalized >> i & 1) {
					assert_true(i < s.subflows && i < RW_MAX_PATHS);
					assert_true(s.queue.oldest_sent_on >> i & 1 && i != d.subflow);
				}
			if (d.kind == RW_DECISION_WAIT) {
				assert_true(d.subflow == RW_NO_SUBFLOW && d.segments == 0);
				continue;
			}
			assert_true(d.subflow < s.subflows && d.subflow < RW_MAX_PATHS);
			const struct rw_sender_subflow *f = &s.subflow[d.subflow];
			assert_true(f->established && !f->lost);
			assert_true(d.segments >= 1);
			assert_true(d.segments <= (f->cwnd_q16 >> 16) - f->in_flight - f->queued);
			assert_true((uint64_t)f->in_flight + f->queued < f->cwnd_q16 >> 16);
			if (d.kind == RW_DECISION_REINJECT) {
				assert_true(d.first == s.queue.oldest && !(s.queue.oldest_sent_on >> d.subflow & 1));
				again++;
				continue;
			}
			uint64_t before;
			assert_true(place_of(&s.queue, d.first, d.segments, &before));
			assert_true(before == d.skipped && d.skipped <= s.queue.buffer_segments);
			assert_true(d.first < s.queue.window_end && d.segments <= s.queue.window_end - d.first);
			sent++;
		}
	}
	assert_true(sent > 10000 && again > 100);
}

static void predictions_are_bounded(void **unused)
{
	(void)unused;
	for (int n = 0; n < 100000; n++) {
		struct rw_sending s;
		scramble(&s);
		uint32_t subflows = s.subflows < RW_MAX_PATHS ? s.subflows : RW_MAX_PATHS;
		for (int k = 0; rw_scheduler_list[k]; k++) {
			struct rw_forward each[RW_MAX_PATHS];
			if (!rw_scheduler_list[k]->forward)
				continue;
			uint32_t j = subflows ? (uint32_t)(next_random() % subflows) : 0;
			uint64_t skipped = rw_scheduler_list[k]->forward(&s, j, each), sum = 0;
			for (uint32_t r = 0; r < RW_MAX_PATHS; r++) {
				uint64_t theirs = s.subflow[r].srtt_ns, own = s.subflow[j].srtt_ns;
				int faster = r < subflows && theirs && (!own || theirs < own);
				assert_true(each[r].segments_q24 <= RW_FORWARD_MAX << 24);
				assert_true(faster || each[r].m_q24 == 0);
				assert_true(each[r].m_q24 == 0 || each[r].m_q24 >= 1 << 24);
				sum += each[r].segments_q24;
			}
			assert_true(skipped <= s.queue.buffer_segments && skipped <= (sum >> 24) + 1);
		}
	}
}

static void hostile_views_are_refused(void **unused)
{
	(void)unused;
	rw_scheduling *scheduling;
	rw_error error;
	rw_decision_row row;
	rw_choice choice = {"sbfps", NULL, 0};
	assert_int_equal(rw_scheduling_open(&scheduling, &choice, &error), RW_OK);
	rw_sending_view good = {.subflows = 1, .previous = UINT32_MAX, .spans = 2, .window_end = 100};
	good.subflow[0] = (rw_subflow_view){.cwnd_q16 = 10 << 16, .srtt_ns = 1, .established = 1};
	good.span[0] = (rw_span_view){5, 10, 0};
	good.span[1] = (rw_span_view){15, 10, 0};
	assert_int_equal(rw_scheduling_pick(scheduling, &good, &row, &error), RW_OK);
	assert_true(row.kind == 1 && row.first == 5 && row.segments == 10);
	for (int i = 0; i < 8; i++) {
		rw_sending_view bad = good;
		uint64_t each_skipped;
		rw_forward_row each[8];
		switch (i) {
		case 0:
			bad.subflows = 0;
			break;
		case 1:
			bad.subflows = 9;
			break;
		case 2:
			bad.spans = 17;
			break;
		case 3:
			bad.span[1].first = 14;
			break;
		case 4:
			bad.span[1].segments = 0;
			break;
		case 5:
			bad.span[1].segments = UINT64_MAX;
			break;
		case 6:
			bad.subflow[0].cwnd_q16 = 65535;
			break;
		default:
			bad.subflow[0].srtt_ns = UINT64_MAX;
			break;
		}
		assert_int_equal(rw_scheduling_pick(scheduling, &bad, &row, &error), RW_ERROR_BAD_VALUE);
		assert_true(strlen(error.reason) > 10);
		assert_int_equal(rw_scheduling_forward(scheduling, &bad, 0, each, &each_skipped, &error),
				 RW_ERROR_BAD_VALUE);
	}
	rw_scheduling_close(scheduling);
	choice.name = "nope";
	assert_int_equal(rw_scheduling_open(&scheduling, &choice, &error), RW_ERROR_UNKNOWN_SCHEDULER);
}

/* What a kernel module would keep on its stack: it may not grow unnoticed. */
_Static_assert(sizeof(struct rw_sender_subflow) <= 56, "a subflow");
_Static_assert(sizeof(struct rw_sending) <= 1024, "all that a decision rests on");
_Static_assert(RW_FORWARD_MAX <= UINT64_MAX / (RW_MAX_PATHS - 1) >> 24, "the sum of all predictions fits");

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(decisions_hold_for_any_numbers),
	    cmocka_unit_test(predictions_are_bounded),
	    cmocka_unit_test(hostile_views_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
