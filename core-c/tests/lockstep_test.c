/* Pairs of segments, copies of senders, and a simulated sender beside a captured one. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "pairing.h"
#include "rewindow.h"
#include "sender.h"

enum { MSS = 1000 };

static rw_lockstep_segment segment(uint32_t n, int again)
{
	return (rw_lockstep_segment){n * MSS, (n + 1) * MSS, (uint8_t)again};
}

static enum rw_paired take(struct rw_pairing *p, enum rw_pairing_side side, uint32_t n, int again)
{
	rw_lockstep_segment s = segment(n, again), other;
	return rw_pairing_take(p, side, &s, &other);
}

/* Either side may be ahead, by any number of segments. */
static void test_pairs_in_order(void **state)
{
	struct rw_pairing p = {0};
	(void)state;
	for (uint32_t n = 0; n < 100; n++)
		assert_int_equal(take(&p, RW_SIMULATED, n, 0), RW_PAIRED_WAITS);
	for (uint32_t n = 0; n < 100; n++)
		assert_int_equal(take(&p, RW_CAPTURED, n, 0), RW_PAIRED_AGREES);
	assert_int_equal(take(&p, RW_CAPTURED, 100, 0), RW_PAIRED_WAITS);
	assert_int_equal(take(&p, RW_SIMULATED, 100, 0), RW_PAIRED_AGREES);
	assert_int_equal(p.count, 0);
	rw_pairing_close(&p);
}

static void test_parts_by_bounds_and_retransmission(void **state)
{
	struct rw_pairing p = {0};
	rw_lockstep_segment shorter = {5 * MSS, 6 * MSS - 1, 0}, other;
	(void)state;
	take(&p, RW_CAPTURED, 5, 0);
	assert_int_equal(rw_pairing_take(&p, RW_SIMULATED, &shorter, &other), RW_PAIRED_PARTS);
	assert_int_equal(other.end, 6 * MSS);
	take(&p, RW_CAPTURED, 6, 0);
	assert_int_equal(take(&p, RW_SIMULATED, 6, 1), RW_PAIRED_PARTS);
	take(&p, RW_CAPTURED, 7, 0);
	rw_pairing_forget(&p);
	assert_int_equal(take(&p, RW_SIMULATED, 8, 0), RW_PAIRED_WAITS);
	rw_pairing_close(&p);
}

static void acknowledge(struct rw_sender *s, int64_t now_ns, uint32_t ack, uint32_t from, uint32_t to)
{
	struct rw_range sack = {from, to};
	struct rw_sender_ack a = {
	    .time_ns = now_ns, .ack = ack, .window_bytes = 1 << 20, .sacks = from != to, .sack = &sack};
	struct rw_sender_answer answer;
	rw_sender_acknowledge(s, &a, &answer);
}

/* A copy answers as its original does, and neither changes the other; its segments are its own. */
static void test_copies_a_sender(void **state)
{
	struct rw_sender s, copy;
	uint32_t segments = 0;
	struct rw_transmission sent = {.start = 0, .end = 40 * MSS, .time_ns = 1, .sent_ns = 1};
	(void)state;
	rw_sender_open(&s, MSS, 1, 1000, NULL);
	rw_sender_start(&s, 0);
	assert_int_equal(rw_sender_send(&s, &sent, &segments), RW_SCOREBOARD_OK);
	acknowledge(&s, 100, 3 * MSS, 0, 0);
	acknowledge(&s, 101, 3 * MSS, 5 * MSS + 500, 9 * MSS); /* cuts a segment */
	sent = (struct rw_transmission){.start = 3 * MSS, .end = 4 * MSS, .time_ns = 102, .sent_ns = 102};
	assert_int_equal(rw_sender_resend(&s, &sent, &segments), RW_SCOREBOARD_OK);
	rw_sender_open(&copy, 7, 0, 1000, NULL);
	rw_sender_start(&copy, 77);
	assert_int_equal(rw_sender_copy(&copy, &s), RW_SCOREBOARD_OK);
	assert_int_equal(copy.board.count, s.board.count);
	assert_int_equal(copy.board.sacked_out, s.board.sacked_out);
	assert_ptr_not_equal(copy.board.segment, s.board.segment);
	acknowledge(&s, 200, 3 * MSS, 20 * MSS, 30 * MSS);
	assert_int_not_equal(copy.board.sacked_out, s.board.sacked_out);
	acknowledge(&copy, 200, 3 * MSS, 20 * MSS, 30 * MSS);
	assert_int_equal(copy.board.sacked_out, s.board.sacked_out);
	assert_int_equal(copy.board.lost_out, s.board.lost_out);
	assert_int_equal(copy.board.retrans_out, s.board.retrans_out);
	assert_int_equal(copy.rack.resent.count, s.rack.resent.count);
	assert_int_equal(copy.state, s.state);
	assert_int_equal(copy.rtt.srtt_ns, s.rtt.srtt_ns);
	rw_sender_close(&s);
	acknowledge(&copy, 300, 40 * MSS, 0, 0);
	assert_int_equal(copy.board.count, 0);
	rw_sender_close(&copy);
}

/* The counts of a sender's row are those of its runs, and no ACK has a window while it is out of step. */
static void test_rows_of_a_capture(void **state)
{
	static const rw_choice choices[] = {{"newreno", NULL, 0}, {"cubic", NULL, 0}};
	rw_error error;
	rw_lockstep *lockstep;
	uint64_t senders, runs, windows, agreed[8] = {0}, counted[8] = {0};
	int fd = open(TEST_CAPTURES "/mptcp-two-subflows.pcap", O_RDONLY | O_CLOEXEC);
	(void)state;
	assert_int_equal(rw_lockstep_open(&lockstep, &fd, 1, choices, 2, &error), RW_OK);
	const rw_lockstep_row *row = rw_lockstep_senders(lockstep, &senders);
	const rw_lockstep_run *run = rw_lockstep_runs(lockstep, &runs);
	const rw_lockstep_window *window = rw_lockstep_windows(lockstep, &windows);
	assert_int_equal(senders, 6);
	for (uint64_t i = 0; i < runs; i++) {
		assert_true(run[i].sender < senders && run[i].from_ns <= run[i].to_ns);
		agreed[run[i].sender] += run[i].segments;
		counted[run[i].sender]++;
	}
	for (uint64_t i = 0; i < senders; i++) {
		assert_int_equal(agreed[i], row[i].agreed);
		assert_int_equal(counted[i], row[i].runs);
		assert_true(row[i].agreed <= row[i].segments);
	}
	for (uint64_t i = 0; i < windows; i++) {
		int in_step = 0;
		for (uint64_t k = 0; k < runs; k++)
			in_step |= run[k].sender == window[i].sender && run[k].from_ns < window[i].time_ns &&
				   window[i].time_ns < run[k].to_ns;
		assert_true(!in_step || window[i].cwnd);
	}
	rw_lockstep_close(lockstep);
	close(fd);
}

static void test_refuses_what_it_cannot_drive(void **state)
{
	static const char *const names[] = {"bbr", "sbcc", "nothing"};
	rw_error error;
	rw_lockstep *lockstep;
	int fd = open(TEST_CAPTURES "/mptcp-two-subflows.pcap", O_RDONLY | O_CLOEXEC);
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		rw_choice choice = {names[i], NULL, 0};
		rw_status status = rw_lockstep_open(&lockstep, &fd, 1, &choice, 1, &error);
		assert_int_equal(status, i < 2 ? RW_ERROR_BAD_VALUE : RW_ERROR_UNKNOWN_ALGORITHM);
		assert_true(strstr(error.reason, names[i]) != NULL);
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_pairs_in_order),
	    cmocka_unit_test(test_parts_by_bounds_and_retransmission),
	    cmocka_unit_test(test_copies_a_sender),
	    cmocka_unit_test(test_rows_of_a_capture),
	    cmocka_unit_test(test_refuses_what_it_cannot_drive),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
