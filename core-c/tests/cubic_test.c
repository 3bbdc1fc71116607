/* What CUBIC counts as time on its curve (RFC 9438, mode=paper), and its arithmetic at the ends of the range. */
#include "check.h"
#include "cubic_rfc9438.h"

extern const struct rw_control rw_control_cubic;

#define MS 1000000ll

static struct rw_connection new_connection(void)
{
	struct rw_connection c = {.option = {RW_MODE_PAPER, 2 << 16, 1}, .mss_bytes = 1460, .paths = 1};
	c.path[0] = (struct rw_path){.cwnd_q16 = 100 << 16, .ssthresh_q16 = 1 << 16, .srtt_ns = 50 * MS, .live = 1};
	return c;
}

static void acknowledge(struct rw_connection *c, int64_t time_ns, int raises)
{
	struct rw_ack ack = {.acked_segments = 1, .time_ns = time_ns};
	rw_control_cubic.delivered(c, &ack);
	if (raises)
		rw_control_cubic.ack(c, &ack);
}

static uint64_t t_ms(const struct rw_connection *c)
{
	return (c->path[0].word[PAPER_T_Q40] * 1000 + ((uint64_t)1 << 39)) >> 40;
}

static void time_stands_still_without_growth(void **unused)
{
	(void)unused;
	struct rw_connection c = new_connection();
	acknowledge(&c, 1000 * MS, 1);
	assert_int_equal(t_ms(&c), 0);
	acknowledge(&c, 1050 * MS, 1);
	assert_int_equal(t_ms(&c), 50);
	acknowledge(&c, 2000 * MS, 0); /* limited by its application */
	acknowledge(&c, 2500 * MS, 0);
	assert_int_equal(t_ms(&c), 50);
	acknowledge(&c, 2520 * MS, 1);
	assert_int_equal(t_ms(&c), 70);
	rw_control_cubic.idle(&c, 0, 5000 * MS, 2400 * MS);
	acknowledge(&c, 5050 * MS, 1);
	assert_int_equal(t_ms(&c), 70 + 130);
	rw_control_cubic.idle(&c, 0, 6000 * MS, 100000 * MS); /* more than passed */
	acknowledge(&c, 6040 * MS, 1);
	assert_int_equal(t_ms(&c), 200 + 40);
	acknowledge(&c, 6000 * MS, 1); /* a clock that goes back */
	assert_int_equal(t_ms(&c), 240);
	rw_control_cubic.loss(&c, 0);
	acknowledge(&c, 7000 * MS, 1);
	assert_int_equal(t_ms(&c), 0);
}

static void the_kernel_form_has_none_of_it(void **unused)
{
	(void)unused;
	struct rw_connection c = new_connection();
	c.option[0] = RW_MODE_KERNEL;
	for (int i = 0; i < RW_PATH_WORDS; i++)
		c.path[0].word[i] = 77;
	struct rw_ack ack = {.acked_segments = 1, .time_ns = 5};
	rw_control_cubic.delivered(&c, &ack);
	for (int i = 0; i < RW_PATH_WORDS; i++)
		assert_int_equal(c.path[0].word[i], 77);
}

/*
 * A train of ACKs as long as half the delay and what a receiver may hold back ends slow start. It holds back no longer than
 * four super-segments take: 1 ms, or less on a fast path.
 */
static void a_train_is_short_on_a_fast_path(void **unused)
{
	(void)unused;
	static const struct {
		int64_t srtt_ns, longest_us;
	} paths[] = {{50 * MS, 25500}, {MS / 20, 81}}; /* at twice 40 segments in 50 us: 112 us */
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		struct rw_connection c = new_connection();
		c.option[0] = RW_MODE_KERNEL;
		c.option[2] = 0;
		c.path[0].cwnd_q16 = 40 << 16;
		c.path[0].ssthresh_q16 = RW_SSTHRESH_UNSET;
		c.path[0].srtt_ns = (uint64_t)paths[i].srtt_ns;
		int64_t at_us = 0;
		while (c.path[0].ssthresh_q16 == RW_SSTHRESH_UNSET && at_us < 100000) {
			struct rw_ack ack = {.acked_segments = 1,
					     .time_ns = 1000 * MS + at_us * 1000,
					     .una = 1,
					     .next = 1 << 20,
					     .rtt_ns = (uint64_t)paths[i].srtt_ns,
					     .rtt_newest_ns = (uint64_t)paths[i].srtt_ns};
			rw_control_cubic.rtt(&c, &ack);
			at_us++;
		}
		assert_int_equal(at_us - 2, paths[i].longest_us);
	}
}

/* The root is exact: its cube is not above, that of the next one is. */
static void cube_roots(void **unused)
{
	(void)unused;
	for (uint64_t d = 0; d < (uint64_t)1 << 60; d = d * 3 + 1) {
		unsigned __int128 cube = (unsigned __int128)d * 5 << 55, k = rfc9438_k_q32(d);
		assert_true(k * k * k <= cube && (k + 1) * (k + 1) * (k + 1) > cube);
	}
	assert_int_equal(rfc9438_k_q32(UINT64_MAX), rfc9438_k_q32((uint64_t)1 << 60));
}

/* Any state that a caller may set: the window stays within its range, and no more than half of it is added for each segment. */
static void any_state(void **unused)
{
	(void)unused;
	uint64_t x = 88172645463325252ull;
	for (int n = 0; n < 200000; n++) {
		struct rw_connection c = new_connection();
		struct rw_path *p = &c.path[0];
		for (int i = 0; i < RW_PATH_WORDS + 2; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			if (i < RW_PATH_WORDS)
				p->word[i] = x >> (x & 63);
		}
		p->cwnd_q16 = RW_Q16_ONE + (x >> 28);
		p->cwnd_rem_q40 = (uint32_t)(x & 0xffffff);
		p->srtt_ns = n & 1 ? x >> 30 : x;
		uint64_t before = p->cwnd_q16;
		struct rw_ack ack = {.acked_segments = 1 + (uint32_t)(x & 63), .time_ns = (int64_t)(x >> 1)};
		acknowledge(&c, ack.time_ns, 0);
		rw_control_cubic.ack(&c, &ack);
		assert_true(p->cwnd_q16 >= rw_min64(before, RW_CWND_MAX_Q16) && p->cwnd_q16 <= RW_CWND_MAX_Q16);
		assert_true(p->cwnd_rem_q40 < 1 << 24);
		if (n & 2)
			rw_control_cubic.timeout(&c, 0);
		else
			rw_control_cubic.loss(&c, 0);
		assert_in_range(p->ssthresh_q16, 2 << 16, RW_CWND_MAX_Q16);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(time_stands_still_without_growth),
	    cmocka_unit_test(the_kernel_form_has_none_of_it),
	    cmocka_unit_test(a_train_is_short_on_a_fast_path),
	    cmocka_unit_test(cube_roots),
	    cmocka_unit_test(any_state),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
