/* The parts of the simulator, one by one: the host's clock, the receiver's ACKs, MPTCP's data, what a run allocates. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kernel.h"
#include "link.h"
#include "receiver.h"
#include "stream.h"

enum { MSS = 1000, MS = 1000000, FIRST = 1 };

static const struct rw_kernel kernel = {.tick_ns = 4 * MS, .phase_ns = 1 * MS, .ts_first = 100, .ts_phase_ns = MS / 2};

/* Never early, and up to one place of the wheel late: of the next level beyond 63 ticks. */
static void test_timers_fire_at_ticks(void **state)
{
	(void)state;
	for (int64_t now = 0; now < 20 * MS; now += MS / 3)
		for (uint64_t ticks = 0; ticks < 2000; ticks += 7) {
			uint64_t delay = ticks * kernel.tick_ns;
			int64_t late = rw_kernel_fires_ns(&kernel, now, delay) - now - (int64_t)delay;
			uint64_t place = ticks < 63 ? 1 : ticks < 504 ? 8 : 64;
			assert_true(late >= 0 && late <= (int64_t)((place + 1) * kernel.tick_ns));
		}
	assert_int_equal(rw_kernel_fires_ns(&kernel, 0, 40 * MS), 4 * MS * 11 - MS);
	assert_int_equal(rw_kernel_timestamp(&kernel, 5 * MS), 105);
	assert_int_equal(rw_kernel_timestamp(&kernel, 5 * MS + MS / 2), 106);
}

static struct rw_receive_window window;

static void open_receiver(struct rw_receiver *r, int timestamps)
{
	struct rw_receiver_settings settings = {
	    .mss = MSS, .blocks_max = timestamps ? 3 : 4, .sack = 1, .timestamps = (uint8_t)timestamps};
	rw_receive_window_open(&window, 131072, 1 << 22, MSS);
	rw_receiver_open(r, &settings, &kernel, &window);
	r->next = r->acked = FIRST;
	r->right = FIRST + (uint32_t)r->threshold;
}

/* Segment n arrives. Returns whether an ACK leaves at once, which it then does. */
static int arrives(struct rw_receiver *r, uint32_t n, int pushed, int64_t now_ns, struct rw_acknowledgment *ack)
{
	struct rw_arrival a = {.time_ns = now_ns, .sequence = FIRST + n * MSS, .bytes = MSS, .pushed = (uint8_t)pushed};
	int acknowledges = rw_receiver_take(r, &a) || rw_receiver_read(r);
	if (acknowledges)
		rw_receiver_acknowledge(r, &(struct rw_arrived){.position = r->in_order}, ack);
	return acknowledges;
}

/* 18 segments, a millisecond each: the sixteen ACKs at once of a beginning have left, and nothing waits for an ACK. Returns 18. */
static uint32_t past_quick_acks(struct rw_receiver *r, int64_t *now)
{
	struct rw_acknowledgment ack;
	uint32_t n = 0;
	while (n < 18)
		if (!arrives(r, n++, 0, *now += MS, &ack) && n == 18)
			rw_receiver_acknowledge(r, &(struct rw_arrived){.position = r->in_order}, &ack);
	return n;
}

/* Sixteen ACKs at once when a connection begins; then one for two segments, or when the timer is due; PSH is answered at once. */
static void test_delayed_acknowledgments(void **state)
{
	struct rw_receiver r;
	struct rw_acknowledgment ack;
	uint32_t n = 0, at_once = 0;
	int64_t now = 0;
	(void)state;
	open_receiver(&r, 1);
	while (n < 16)
		at_once += (uint32_t)arrives(&r, n++, 0, now += MS, &ack);
	assert_int_equal(at_once, 16);
	assert_int_equal(arrives(&r, n++, 0, now += MS, &ack), 0);
	assert_int_equal(arrives(&r, n++, 0, now += MS, &ack), 1);
	assert_int_equal(arrives(&r, n++, 1, now += MS, &ack), 1);
	assert_int_equal(arrives(&r, n++, 0, now += MS, &ack), 0);
	int64_t due = rw_receiver_next_ns(&r);
	assert_in_range(due - now, 40 * MS, 48 * MS);
	assert_int_equal(rw_receiver_due(&r, due - 1), 0);
	assert_int_equal(rw_receiver_due(&r, due), 1);
	rw_receiver_acknowledge(&r, &(struct rw_arrived){.position = r.in_order}, &ack);
	assert_int_equal(ack.ack, FIRST + n * MSS);
	assert_true(rw_receiver_next_ns(&r) == RW_NEVER);
	rw_receiver_close(&r);
}

/* PSH is answered once the application has read it: MPTCP's data may wait for what another subflow carries. A hole is no reading. */
static void test_pushed_data_is_acknowledged_when_it_is_read(void **state)
{
	struct rw_receiver r;
	struct rw_acknowledgment ack;
	int64_t now = 0;
	(void)state;
	open_receiver(&r, 1);
	uint32_t n = past_quick_acks(&r, &now);
	struct rw_arrival a = {.time_ns = now += MS, .sequence = FIRST + n * MSS, .bytes = MSS, .pushed = 1};
	assert_int_equal(rw_receiver_read(&r), 0);
	assert_int_equal(rw_receiver_take(&r, &a), 0);
	assert_int_equal(rw_receiver_read(&r), 1);
	a.sequence += 2 * MSS;
	rw_receiver_take(&r, &a);
	assert_int_equal(rw_receiver_read(&r), 0);
	rw_receiver_acknowledge(&r, &(struct rw_arrived){.position = r.in_order}, &ack);
	assert_int_equal(ack.ack, FIRST + 19 * MSS);
	assert_int_equal(rw_receiver_read(&r), 0);
	rw_receiver_close(&r);
}

/* A segment that tells of a reduced window (CWR) is acknowledged at once. */
static void test_a_reduction_is_acknowledged_at_once(void **state)
{
	struct rw_receiver r;
	struct rw_acknowledgment ack;
	int64_t now = 0;
	(void)state;
	open_receiver(&r, 1);
	r.settings.ecn = 1;
	uint32_t n = past_quick_acks(&r, &now);
	r.echo_ce = 1;
	struct rw_arrival a = {.time_ns = now += MS, .sequence = FIRST + n * MSS, .bytes = MSS, .reduced = 1};
	assert_int_equal(rw_receiver_take(&r, &a), 1);
	rw_receiver_acknowledge(&r, &(struct rw_arrived){.position = r.in_order}, &ack);
	assert_int_equal(ack.ack, FIRST + 19 * MSS);
	assert_int_equal(ack.echo_ce, 0);
	a.sequence += MSS;
	a.reduced = 0;
	assert_int_equal(rw_receiver_take(&r, &a), 0);
	rw_receiver_close(&r);
}

/* RFC 2018 4: the block that changed last comes first. Three ACKs leave at once, then one is held back for a millisecond at most. */
static void test_acknowledgments_around_a_hole(void **state)
{
	struct rw_receiver r;
	struct rw_acknowledgment ack;
	int64_t now = 0;
	uint32_t n = 0;
	(void)state;
	open_receiver(&r, 1);
	while (n < 20)
		if (!arrives(&r, n++, 0, now += MS, &ack) && n > 16)
			rw_receiver_acknowledge(&r, &(struct rw_arrived){.position = r.in_order}, &ack);
	r.quick = 0;
	assert_int_equal(arrives(&r, 21, 0, now += MS, &ack), 1);
	assert_int_equal(arrives(&r, 23, 0, now += MS, &ack), 1);
	assert_int_equal(ack.ack, FIRST + 20 * MSS);
	assert_int_equal(ack.sacks, 2);
	assert_int_equal(ack.sack[0].start, FIRST + 23 * MSS);
	assert_int_equal(ack.sack[1].start, FIRST + 21 * MSS);
	assert_int_equal(arrives(&r, 22, 0, now += MS, &ack), 1);
	assert_int_equal(ack.sacks, 1);
	assert_int_equal(ack.sack[0].start, FIRST + 21 * MSS);
	assert_int_equal(ack.sack[0].end, FIRST + 24 * MSS);
	assert_int_equal(arrives(&r, 24, 0, now += MS, &ack), 0);
	assert_in_range(rw_receiver_next_ns(&r) - now, 0, MS);
	/* The hole is filled: at once. */
	assert_int_equal(arrives(&r, 20, 0, now += MS / 2, &ack), 1);
	assert_int_equal(ack.ack, FIRST + 25 * MSS);
	assert_int_equal(ack.sacks, 0);
	/* RFC 2883: the same again is told. */
	assert_int_equal(arrives(&r, 20, 0, now += MS, &ack), 1);
	assert_int_equal(ack.sacks, 1);
	assert_int_equal(ack.sack[0].start, FIRST + 20 * MSS);
	rw_receiver_close(&r);
}

/* RFC 9293 3.8.6: the window's right edge never moves left. It grows with what arrives. */
static void test_the_window_grows_and_never_shrinks(void **state)
{
	struct rw_receiver r;
	struct rw_acknowledgment ack;
	uint32_t right = 0, first = 0;
	(void)state;
	open_receiver(&r, 0);
	rw_receive_window_begin(&window, 0);
	for (uint32_t n = 0; n < 2000; n++) {
		int64_t round = n / 50, now = round * 20 * MS + n % 50 * 10000 + 1;
		int acknowledges = arrives(&r, n, 0, now, &ack);
		rw_receive_window_read(&window, &(struct rw_reading){r.in_order, 0, r.rtt_ns}, now);
		if (!acknowledges)
			continue;
		first = first ? first : ack.window_bytes;
		assert_true(!right || rw_seq_diff(ack.ack + ack.window_bytes, right) >= 0);
		assert_int_equal(ack.window_bytes % 1024, 0);
		right = ack.ack + ack.window_bytes;
	}
	assert_in_range(first, 50000, 60000);
	assert_true(ack.window_bytes > 2 * first);
	rw_receiver_close(&r);
}

/*
 * A kernel's receiver of segments of 1348 bytes, with a window scale of 128, offered 75,008 bytes at most until it had read 11 segments in the
 * first round trip and 20 in the second one. Then it offered 140,928. Each ACK whose window had grown left at once.
 */
static void test_the_buffer_is_the_kernels(void **state)
{
	enum { SIZE = 1348, UNIT = 128, FIRST_READ = 11 * SIZE, SECOND_READ = FIRST_READ + 20 * SIZE };
	struct rw_receiver r;
	struct rw_receiver_settings settings = {.mss = SIZE, .blocks_max = 3, .sack = 1, .timestamps = 1};
	uint32_t at_once = 0;
	(void)state;
	rw_receive_window_open(&window, 131072, 1 << 25, SIZE);
	rw_receiver_open(&r, &settings, &kernel, &window);
	r.next = r.acked = FIRST;
	r.right = FIRST + (uint32_t)r.threshold;
	rw_receive_window_begin(&window, 0);
	for (uint32_t n = 0; n < 100; n++) {
		struct rw_arrival a = {.time_ns = (n + 1) * MS, .sequence = FIRST + n * SIZE, .bytes = SIZE};
		struct rw_acknowledgment ack;
		uint64_t before = r.threshold;
		r.quick = 0;
		int acknowledges = rw_receiver_take(&r, &a);
		at_once += r.threshold > before;
		assert_true(acknowledges || r.threshold == before);
		if (n == 20)
			assert_int_equal((r.threshold + UNIT - 1) / UNIT * UNIT, 75008);
		if (n == 20)
			rw_receive_window_read(&window, &(struct rw_reading){FIRST_READ, 0, 20 * MS}, a.time_ns);
		if (n == 40)
			assert_int_equal((r.threshold + UNIT - 1) / UNIT * UNIT, 75008);
		if (n == 41)
			rw_receive_window_read(&window, &(struct rw_reading){SECOND_READ, 0, 20 * MS}, a.time_ns);
		if (acknowledges)
			rw_receiver_acknowledge(&r, &(struct rw_arrived){.position = r.in_order}, &ack);
	}
	assert_int_equal((r.threshold + UNIT - 1) / UNIT * UNIT, 140928);
	assert_int_equal(at_once, 4 + 25);
	rw_receiver_close(&r);
}

/* The subflows of MPTCP have one buffer, and each follows it by its own segments; what waits beyond a hole needs room, too. */
static void test_each_subflow_grows_into_the_buffer(void **state)
{
	struct rw_receiver busy, idle;
	struct rw_acknowledgment ack;
	(void)state;
	open_receiver(&busy, 1);
	open_receiver(&idle, 1);
	rw_receive_window_begin(&window, 0);
	rw_receive_window_read(&window, &(struct rw_reading){20 * MSS, 50 * MSS, 20 * MS}, 20 * MS);
	uint64_t room = window.clamp, first = idle.threshold;
	assert_int_equal(room, 40 * MSS + 80 * MSS + 50 * MSS);
	for (uint32_t n = 0; n < 200; n++)
		arrives(&busy, n, 0, (21 + n) * MS, &ack);
	arrives(&idle, 0, 0, 300 * MS, &ack);
	assert_in_range(room - busy.threshold, 1, MSS);
	assert_int_equal(idle.threshold, first + 2 * MSS);
	/* What one subflow has offered, another one does not take back. */
	struct rw_arrived none = {0, 0};
	uint32_t window_of_busy = rw_receive_window_offer(&window, busy.threshold, &none);
	assert_int_equal(rw_receive_window_offer(&window, idle.threshold, &none), window_of_busy);
	/* What waits takes its part of the buffer, and moves the right edge by so much less. */
	struct rw_arrived read = {100 * MSS, 0}, waits = {300 * MSS, 30 * MSS};
	window.right = 0;
	assert_in_range(rw_receive_window_offer(&window, UINT32_MAX, &read), room, room + 1023);
	assert_in_range(rw_receive_window_offer(&window, UINT32_MAX, &waits), room - 30 * MSS, room - 30 * MSS + 1023);
	rw_receiver_close(&busy);
	rw_receiver_close(&idle);
}

/* Data over three subflows in pieces of any size, each of which delivers when it will: all of it comes in order, each byte once. */
static void test_data_over_subflows_comes_in_order(void **state)
{
	struct rw_stream s;
	uint32_t end[3] = {FIRST, FIRST, FIRST}, got[3] = {FIRST, FIRST, FIRST};
	(void)state;
	memset(&s, 0, sizeof s);
	srand(1);
	uint64_t given = 0;
	for (int round = 0; round < 5000; round++) {
		uint32_t i = (uint32_t)rand() % 3, bytes = 1 + (uint32_t)rand() % 5000;
		assert_int_equal(rw_stream_give(&s, i, got[i], end[i], given, bytes), 0);
		struct rw_mapping m = rw_stream_mapping(&s, i, end[i]);
		assert_true(m.data + (end[i] - m.start) == given);
		end[i] += bytes;
		given += bytes;
		assert_true(rw_seq_diff(rw_stream_reach(&s, i, end[i] - 1), end[i]) == 0);
		uint32_t k = (uint32_t)rand() % 3, waits = end[k] - got[k];
		got[k] += waits ? (uint32_t)rand() % waits : 0;
		uint64_t before = s.next;
		assert_int_equal(rw_stream_receive(&s, k, got[k]), 0);
		assert_true(s.next >= before && s.next <= given);
	}
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(rw_stream_receive(&s, k, end[k]), 0);
	assert_true(s.next == given);
	assert_int_equal(s.helds, 0);
	rw_stream_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_timers_fire_at_ticks),
					   cmocka_unit_test(test_delayed_acknowledgments),
					   cmocka_unit_test(test_pushed_data_is_acknowledged_when_it_is_read),
					   cmocka_unit_test(test_a_reduction_is_acknowledged_at_once),
					   cmocka_unit_test(test_acknowledgments_around_a_hole),
					   cmocka_unit_test(test_the_window_grows_and_never_shrinks),
					   cmocka_unit_test(test_the_buffer_is_the_kernels),
					   cmocka_unit_test(test_each_subflow_grows_into_the_buffer),
					   cmocka_unit_test(test_data_over_subflows_comes_in_order)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
