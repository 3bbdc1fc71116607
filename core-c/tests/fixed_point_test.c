#include "check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "fixed_point.h"

#define UNIT_Q32 4294967296.0L

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> (state & 63); /* all magnitudes */
}

static void products_and_quotients_are_exact(void **unused)
{
	(void)unused;
	for (int i = 0; i < 1000000; i++) {
		uint64_t a = next_random(), b = next_random(), c = next_random() | 1;
		unsigned __int128 p = (unsigned __int128)a * b;
		struct rw_u128 w = rw_multiply_wide(a, b), v = rw_multiply_in_words(a, b);
		assert_true(w.high == (uint64_t)(p >> 64) && w.low == (uint64_t)p);
		assert_true(v.high == w.high && v.low == w.low);
		unsigned __int128 q = p / c;
		uint64_t quotient = q > UINT64_MAX ? UINT64_MAX : (uint64_t)q;
		assert_true(rw_multiply_divide(a, b, c) == quotient &&
			    rw_multiply_divide_in_words(a, b, c) == quotient);
	}
	assert_true(rw_multiply_divide(UINT64_MAX, UINT64_MAX, UINT64_MAX) == UINT64_MAX);
	assert_true(rw_multiply_divide(UINT64_MAX, UINT64_MAX, 1) == UINT64_MAX);
	assert_true(rw_multiply_divide_in_words(UINT64_MAX, UINT64_MAX, UINT64_MAX) == UINT64_MAX);
	assert_true(rw_multiply_divide_in_words(UINT64_MAX, UINT64_MAX, 1) == UINT64_MAX);
	/* The first quotient that 64 bits cannot hold, and the last one that they can. */
	const uint64_t half = (uint64_t)1 << 63;
	assert_true(rw_multiply_divide(half, 4, 2) == UINT64_MAX);
	assert_true(rw_multiply_divide_in_words(half, 4, 2) == UINT64_MAX);
	assert_true(rw_multiply_divide(UINT64_MAX, half, half) == UINT64_MAX);
	assert_true(rw_multiply_divide_in_words(UINT64_MAX - 1, half, half) == UINT64_MAX - 1);
	/* Numerators at and beside a multiple of the divisor, where an estimated digit is wrong most easily. */
	for (int i = 0; i < 200000; i++) {
		uint64_t c = half | next_random(), digit = next_random() >> 32;
		c = i % 3 == 0 ? (c & ~(uint64_t)UINT32_MAX) | UINT32_MAX : i % 3 == 1 ? half | (uint32_t)c : c;
		c >>= i % 64;
		if (i % 64 == 0)
			for (int off = -1; off <= 1; off++) {
				unsigned __int128 n =
				    (unsigned __int128)c * digit + (uint64_t)(off == 1 ? c - 1 : 0) - (off < 0);
				if (digit == 0 && off < 0)
					continue;
				assert_true(rw_quotient_digit((uint64_t)(n >> 32), (uint32_t)n, c >> 32, (uint32_t)c) ==
					    (uint64_t)(n / c));
			}
		if (c) {
			assert_true(rw_multiply_divide_in_words(digit << 32, c, c) == digit << 32);
			assert_true(rw_multiply_divide_in_words(digit, c, c) == digit);
		}
	}
}

static void leading_zeros(void **unused)
{
	(void)unused;
	for (int i = 0; i < 64; i++)
		for (uint64_t more = 0; more <= (uint64_t)1 << i; more += ((uint64_t)1 << i) / 3 + 1) {
			assert_int_equal(rw_leading_zeros((uint64_t)1 << i | more), 63 - i);
			assert_int_equal(rw_leading_zeros_in_steps((uint64_t)1 << i | more), 63 - i);
		}
}

/* Bounds: log2 to 2^-31, 2^x - 1 to 2^-29 of 2^x. */
static void logarithm_and_power(void **unused)
{
	(void)unused;
	for (int i = 0; i < 100000; i++) {
		uint64_t x = ((uint64_t)1 << 32) + (next_random() >> 8);
		double exact = log2((double)x / 4294967296.0);
		assert_true(fabs((double)rw_log2_q32(x) / 4294967296.0 - exact) < 1.0 / (1u << 31) + exact * 1e-12);
		/* Rounding is always down. */
		assert_true(rw_log2_q32(x) <= (uint64_t)(log2l((long double)x / UNIT_Q32) * UNIT_Q32));
		uint64_t e = next_random() % ((uint64_t)19 << 32);
		double power = exp2((double)e / 4294967296.0);
		double got = (double)rw_exp2_minus_one_q32(e) / 4294967296.0 + 1;
		assert_true(fabs(got - power) <= power / (1u << 29));
	}
	assert_int_equal(rw_log2_q32((uint64_t)1 << 32), 0);
	assert_int_equal(rw_exp2_minus_one_q32(0), 0);
	assert_true(rw_exp2_minus_one_q32(UINT64_MAX) == (((uint64_t)1 << 20) - 1) << 32);
	assert_true(rw_exp2_minus_one_q32((uint64_t)20 << 32) == (((uint64_t)1 << 20) - 1) << 32);
	assert_true(rw_exp2_minus_one_q32(((uint64_t)20 << 32) - 1) < (((uint64_t)1 << 20) - 1) << 32);
	/* Each fractional bit alone, where a root's last bits count most; and whole exponents. */
	for (uint64_t whole = 0; whole < 20; whole++) {
		assert_true(rw_exp2_minus_one_q32(whole << 32) == ((((uint64_t)1 << whole) - 1) << 32));
		for (int bit = 0; bit < 32; bit++) {
			uint64_t e = whole << 32 | (uint64_t)1 << bit;
			long double exact = (exp2l((long double)e / UNIT_Q32) - 1) * UNIT_Q32;
			uint64_t got = rw_exp2_minus_one_q32(e);
			assert_true((long double)got <= exact && exact - (long double)got < 1.01L);
		}
	}
}

static void windows_that_couple(void **unused)
{
	(void)unused;
	struct rw_path p = {.cwnd_q16 = 5 * RW_Q16_ONE + 1, .ssthresh_q16 = 3 * RW_Q16_ONE};
	assert_true(rw_window_q16(&p) == 5 * RW_Q16_ONE + 1);
	p.recovering = 1;
	assert_true(rw_window_q16(&p) == 3 * RW_Q16_ONE);
	p.ssthresh_q16 = RW_SSTHRESH_UNSET; /* a recovery without a reduction */
	assert_true(rw_window_q16(&p) == 5 * RW_Q16_ONE + 1);
	p.ssthresh_q16 = RW_Q16_ONE - 1;
	assert_true(rw_window_q16(&p) == RW_Q16_ONE);
	p.ssthresh_q16 = RW_CWND_MAX_Q16 + 1;
	assert_true(rw_window_q16(&p) == RW_CWND_MAX_Q16);
	p.cwnd_q16 = p.ssthresh_q16 = 7 * RW_Q16_ONE;
	assert_false(rw_in_slow_start(&p)); /* RFC 5681 leaves the equal case open; Linux is in avoidance */
	p.cwnd_q16--;
	assert_true(rw_in_slow_start(&p));
}

/* Growing and shrinking by the same steps leads back, fraction and all; both keep their bounds. */
static void fractions_of_a_window_are_carried(void **unused)
{
	(void)unused;
	struct rw_path p = {.cwnd_q16 = 10 * RW_Q16_ONE, .cwnd_rem_q40 = 0xfffffe};
	rw_grow_q40(&p, 1);
	assert_true(p.cwnd_q16 == 10 * RW_Q16_ONE && p.cwnd_rem_q40 == 0xffffff);
	rw_grow_q40(&p, 1);
	assert_true(p.cwnd_q16 == 10 * RW_Q16_ONE + 1 && p.cwnd_rem_q40 == 0);
	rw_shrink_q40(&p, 1);
	assert_true(p.cwnd_q16 == 10 * RW_Q16_ONE && p.cwnd_rem_q40 == 0xffffff);
	rw_shrink_q40(&p, 0xffffff);
	assert_true(p.cwnd_q16 == 10 * RW_Q16_ONE && p.cwnd_rem_q40 == 0);
	for (int i = 0; i < 100000; i++) {
		uint64_t w = RW_Q16_ONE * 1000 + next_random() % RW_Q16_ONE,
			 step = next_random() % ((uint64_t)900 << 40);
		struct rw_path q = {.cwnd_q16 = w, .cwnd_rem_q40 = next_random() & 0xffffff};
		uint64_t exact = (w << 24) + q.cwnd_rem_q40;
		rw_grow_q40(&q, step);
		assert_true((q.cwnd_q16 << 24) + q.cwnd_rem_q40 == exact + step);
		rw_shrink_q40(&q, step);
		rw_shrink_q40(&q, step);
		assert_true((q.cwnd_q16 << 24) + q.cwnd_rem_q40 == exact - step);
	}
	struct rw_path edge = {.cwnd_q16 = 2 * RW_Q16_ONE, .cwnd_rem_q40 = 5};
	rw_shrink_q40(&edge, RW_Q16_ONE << 24); /* to one segment, exactly: the fraction stays */
	assert_true(edge.cwnd_q16 == RW_Q16_ONE && edge.cwnd_rem_q40 == 5);
	rw_shrink_q40(&edge, 6);
	assert_true(edge.cwnd_q16 == RW_Q16_ONE && edge.cwnd_rem_q40 == 0);
	edge.cwnd_q16 = RW_CWND_MAX_Q16 - 1;
	rw_grow_q40(&edge, (uint64_t)1 << 24);
	assert_true(edge.cwnd_q16 == RW_CWND_MAX_Q16);
	rw_grow_q40(&edge, (uint64_t)1 << 24);
	assert_true(edge.cwnd_q16 == RW_CWND_MAX_Q16);
}

static void slow_start_ends_at_its_threshold(void **unused)
{
	(void)unused;
	struct rw_ack ack = {.acked_segments = 3};
	struct rw_path p = {.cwnd_q16 = 10 * RW_Q16_ONE, .ssthresh_q16 = 12 * RW_Q16_ONE + 1};
	assert_true(rw_after_slow_start(&p, &ack) == RW_Q16_ONE - 1);
	assert_true(p.cwnd_q16 == p.ssthresh_q16);
	assert_true(rw_after_slow_start(&p, &ack) == 3 * RW_Q16_ONE); /* in avoidance all of it is left */
	assert_true(p.cwnd_q16 == p.ssthresh_q16);
	p.ssthresh_q16 = RW_SSTHRESH_UNSET;
	assert_true(rw_after_slow_start(&p, &ack) == 0);
	assert_true(p.cwnd_q16 == 15 * RW_Q16_ONE + 1);
	p.cwnd_q16 = RW_CWND_MAX_Q16 - RW_Q16_ONE;
	assert_true(rw_after_slow_start(&p, &ack) == 0);
	assert_true(p.cwnd_q16 == RW_CWND_MAX_Q16);
}

static void thresholds_have_a_floor(void **unused)
{
	(void)unused;
	const int64_t floor_q16 = 2 << 16;
	struct rw_path p = {.cwnd_q16 = 9 * RW_Q16_ONE + 1};
	rw_halve(&p, 0, floor_q16); /* fractional: rounded up */
	assert_true(p.ssthresh_q16 == (9 * RW_Q16_ONE + 1 + 1) / 2);
	rw_halve(&p, 1, floor_q16); /* whole segments: rounded down, as Linux */
	assert_true(p.ssthresh_q16 == 4 * RW_Q16_ONE);
	p.cwnd_q16 = 3 * RW_Q16_ONE;
	rw_halve(&p, 0, floor_q16);
	assert_true(p.ssthresh_q16 == 2 * RW_Q16_ONE);
	p.cwnd_q16 = 5 * RW_Q16_ONE;
	rw_decrease(&p, 3 * RW_Q16_ONE - 1, floor_q16);
	assert_true(p.ssthresh_q16 == 2 * RW_Q16_ONE + 1);
	rw_decrease(&p, 5 * RW_Q16_ONE - 1, 0);
	assert_true(p.ssthresh_q16 == 1);
	rw_decrease(&p, 5 * RW_Q16_ONE, 0);
	assert_true(p.ssthresh_q16 == 0);
	rw_decrease(&p, UINT64_MAX, floor_q16); /* more than there is */
	assert_true(p.ssthresh_q16 == 2 * RW_Q16_ONE);
}

/* Reno's step is 1/w of a segment, rounded down; below one segment it is that of one. */
static void renos_step(void **unused)
{
	(void)unused;
	assert_true(rw_reno_step_q40(RW_Q16_ONE) == (uint64_t)1 << 40);
	assert_true(rw_reno_step_q40(RW_Q16_ONE - 1) == (uint64_t)1 << 40);
	assert_true(rw_reno_step_q40(3 * RW_Q16_ONE) == ((uint64_t)1 << 40) / 3);
	assert_true(rw_reno_step_q40(RW_CWND_MAX_Q16) == (uint64_t)1 << 20);
	struct rw_path p = {.cwnd_q16 = 10 * RW_Q16_ONE};
	rw_congestion_avoidance_q40(&p, 3, RW_Q16_ONE / 2); /* half a segment acknowledged: half a step, rounded down */
	assert_true(p.cwnd_q16 == 10 * RW_Q16_ONE && p.cwnd_rem_q40 == 1);
}

/* The integers of tcp_cong_avoid_ai, by hand: credit before, divisor, acknowledged; credit and growth after. */
static void credit_of_whole_segments(void **unused)
{
	(void)unused;
	static const uint32_t rows[][5] = {
	    {0, 10, 9, 9, 0},  {0, 10, 10, 0, 1}, {9, 10, 1, 0, 1},   {9, 10, 12, 1, 2},
	    {10, 10, 1, 1, 1}, {35, 10, 4, 4, 1}, {35, 10, 25, 5, 3}, {0, 1, 7, 0, 7},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct rw_path p = {.cwnd_q16 = 10 * RW_Q16_ONE, .cwnd_cnt = rows[i][0]};
		rw_additive_increase(&p, rows[i][1], rows[i][2]);
		assert_int_equal(p.cwnd_cnt, rows[i][3]);
		assert_true(p.cwnd_q16 == (10 + rows[i][4]) * RW_Q16_ONE);
	}
	struct rw_path p = {.cwnd_q16 = RW_CWND_MAX_Q16};
	rw_additive_increase(&p, 1, 5);
	assert_true(p.cwnd_q16 == RW_CWND_MAX_Q16);
}

static void round_trips_as_ratios(void **unused)
{
	(void)unused;
	assert_true(rw_rho_q16(100, 100) == RW_Q16_ONE);
	assert_true(rw_rho_q16(150, 100) == RW_Q16_ONE * 3 / 2);
	assert_true(rw_rho_q16(101, 100) == RW_Q16_ONE * 101 / 100);
	assert_true(rw_rho_q16(0, 0) == 0);
	assert_true(rw_rho_q16(7, 0) == 7 * RW_Q16_ONE); /* never divides by zero */
	assert_true(rw_rho_q16((uint64_t)1 << 20, 1) == RW_RHO_MAX_Q16);
	assert_true(rw_rho_q16(((uint64_t)1 << 20) - 1, 1) == RW_RHO_MAX_Q16 - RW_Q16_ONE);
	assert_true(rw_rho_q16(UINT64_MAX, 1) == RW_RHO_MAX_Q16);
}

/* The sums over random connections, path by path in 128 bits; with one path, which takes a short way, the same. */
static void sums_over_paths(void **unused)
{
	(void)unused;
	int alone = 0, empty = 0;
	for (int i = 0; i < 20000; i++) {
		static struct rw_connection c;
		memset(&c, 0, sizeof c);
		c.paths = 1 + (uint32_t)(next_random() % RW_MAX_PATHS);
		uint32_t group = (uint32_t)(next_random() % 3);
		for (uint32_t k = 0; k < c.paths; k++) {
			struct rw_path *p = &c.path[k];
			p->cwnd_q16 = RW_Q16_ONE + next_random() % RW_CWND_MAX_Q16;
			p->ssthresh_q16 = next_random() % 4 ? p->cwnd_q16 / 2 : RW_SSTHRESH_UNSET;
			p->recovering = next_random() % 2;
			p->srtt_ns =
			    next_random() % 4 ? 50000 + next_random() % 10000000000 : next_random() % 2 * 100000000;
			p->live = next_random() % 4 != 0;
			p->group = next_random() % 3;
			p->group_state = next_random() % 3;
		}
		struct rw_sums want = {0, 0, 0, 0, UINT64_MAX, 0}, got = rw_sum_group(&c, group);
		uint8_t in[RW_MAX_PATHS] = {0};
		for (uint32_t k = 0; k < c.paths; k++) {
			const struct rw_path *p = &c.path[k];
			uint32_t set = p->group_state == RW_GROUP_FINAL ? p->group : 0;
			in[k] = p->live && p->srtt_ns && (group == 0 || set == group);
			if (in[k] && p->srtt_ns < want.rtt_min_ns)
				want.rtt_min_ns = p->srtt_ns;
		}
		for (uint32_t k = 0; k < c.paths; k++) {
			const struct rw_path *p = &c.path[k];
			if (!in[k])
				continue;
			unsigned __int128 rho = ((unsigned __int128)p->srtt_ns << 16) / want.rtt_min_ns;
			rho = rho > (uint64_t)1 << 36 ? (uint64_t)1 << 36 : rho;
			uint64_t w = rw_window_q16(p), rate = (uint64_t)(((unsigned __int128)w << 27) / rho);
			uint64_t quad = (uint64_t)(((unsigned __int128)rate << 16) / rho);
			assert_true(rw_rate_q27(p, want.rtt_min_ns) == rate && rw_quad_q27(p, want.rtt_min_ns) == quad);
			want.s_q27 += rate;
			want.q_q27 += quad;
			want.best_q27 = quad > want.best_q27 ? quad : want.best_q27;
			want.total_q16 += w;
			want.paths++;
		}
		alone += c.paths == 1 && want.paths == 1;
		empty += !want.paths;
		assert_true(got.paths == want.paths);
		assert_true(got.s_q27 == want.s_q27 && got.q_q27 == want.q_q27 && got.best_q27 == want.best_q27);
		assert_true(got.total_q16 == want.total_q16 && got.rtt_min_ns == want.rtt_min_ns);
		for (uint32_t k = 0; k < c.paths; k++)
			if (in[k]) { /* (w / R^2) / (sum w / R)^2: never more than one segment for each */
				long double quad = rw_quad_q27(&c.path[k], want.rtt_min_ns), s = want.s_q27;
				long double exact = quad * (1 << 27) / s / s * UNIT_Q32 * 256;
				long double off = exact - (long double)rw_coupled_step_q40(&want, &c.path[k]);
				assert_true(off >= 0 && off < 1 + (1 << 17) / s + 1e-3L);
			}
	}
	assert_true(alone > 100 && empty > 100);
}

/* 65535 bytes in segments, of any MSS; only a subflow in its initial slow start begins with it. */
static void first_thresholds(void **unused)
{
	(void)unused;
	struct rw_connection c = {.paths = 2, .mss_bytes = 1460};
	assert_true(rw_static_ssthresh_q16(&c) == ((uint64_t)65535 << 16) / 1460);
	assert_true(rw_first_ssthresh_q16(&c, 1, 0) == ((uint64_t)65535 << 16) / 1460);
	assert_true(rw_first_ssthresh_q16(&c, 1, 1) == 44 * RW_Q16_ONE);
	assert_true(rw_first_ssthresh_q16(&c, 0, 0) == RW_SSTHRESH_UNSET);
	assert_true(rw_first_ssthresh_q16(&c, 0, 1) == RW_SSTHRESH_UNSET);
	c.mss_bytes = 0; /* not known: that of Ethernet */
	assert_true(rw_static_ssthresh_q16(&c) == ((uint64_t)65535 << 16) / 1460);
	c.mss_bytes = 32767;
	assert_true(rw_static_ssthresh_q16(&c) == ((uint64_t)65535 << 16) / 32767);
	c.mss_bytes = 65535;
	assert_true(rw_static_ssthresh_q16(&c) == 2 * RW_Q16_ONE);
	c.path[0].ssthresh_q16 = c.path[1].ssthresh_q16 = 7;
	c.path[1].initial = 1;
	rw_begin_with_ssthresh(&c, 0, 1, 0);
	rw_begin_with_ssthresh(&c, 1, 1, 0);
	assert_true(c.path[0].ssthresh_q16 == 7 && c.path[1].ssthresh_q16 == 2 * RW_Q16_ONE);
}

static void small_steps_are_not_lost(void **unused)
{
	(void)unused;
	struct rw_path p = {.cwnd_q16 = (uint64_t)1 << 36};
	p.cwnd_q16 -= 10 * RW_Q16_ONE;
	uint64_t start = p.cwnd_q16;
	for (int i = 0; i < 1 << 20; i++) /* a window of 2^20 grows by one in 2^20 ACKs */
		rw_congestion_avoidance_q40(&p, rw_reno_step_q40(p.cwnd_q16), RW_Q16_ONE);
	assert_in_range(p.cwnd_q16, start + RW_Q16_ONE - 16, start + RW_Q16_ONE + 16);
}

/* What a Linux module would have to keep for one subflow: the state may not grow unnoticed. */
_Static_assert(sizeof(struct rw_path) <= 160, "state of a path");
_Static_assert(sizeof(struct rw_connection) <= RW_MAX_PATHS * 160 + 168, "state of a connection");

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(products_and_quotients_are_exact),
	    cmocka_unit_test(leading_zeros),
	    cmocka_unit_test(logarithm_and_power),
	    cmocka_unit_test(small_steps_are_not_lost),
	    cmocka_unit_test(windows_that_couple),
	    cmocka_unit_test(fractions_of_a_window_are_carried),
	    cmocka_unit_test(slow_start_ends_at_its_threshold),
	    cmocka_unit_test(thresholds_have_a_floor),
	    cmocka_unit_test(renos_step),
	    cmocka_unit_test(credit_of_whole_segments),
	    cmocka_unit_test(round_trips_as_ratios),
	    cmocka_unit_test(sums_over_paths),
	    cmocka_unit_test(first_thresholds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
