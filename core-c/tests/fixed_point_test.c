#include "check.h"
#include <math.h>
#include <stdio.h>
#include "fixed_point.h"

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
}

static void leading_zeros(void **unused)
{
	(void)unused;
	for (int i = 0; i < 64; i++)
		assert_int_equal(rw_leading_zeros((uint64_t)1 << i | (i ? 1 : 0)), 63 - i);
}

/* Bounds: log2 to 2^-31, 2^x - 1 to 2^-29 of 2^x. */
static void logarithm_and_power(void **unused)
{
	(void)unused;
	for (int i = 0; i < 100000; i++) {
		uint64_t x = ((uint64_t)1 << 32) + (next_random() >> 8);
		double exact = log2((double)x / 4294967296.0);
		assert_true(fabs((double)rw_log2_q32(x) / 4294967296.0 - exact) < 1.0 / (1u << 31) + exact * 1e-12);
		uint64_t e = next_random() % ((uint64_t)19 << 32);
		double power = exp2((double)e / 4294967296.0);
		double got = (double)rw_exp2_minus_one_q32(e) / 4294967296.0 + 1;
		assert_true(fabs(got - power) <= power / (1u << 29));
	}
	assert_int_equal(rw_log2_q32((uint64_t)1 << 32), 0);
	assert_int_equal(rw_exp2_minus_one_q32(0), 0);
	assert_true(rw_exp2_minus_one_q32(UINT64_MAX) == (((uint64_t)1 << 20) - 1) << 32);
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
_Static_assert(sizeof(struct rw_path) <= 144, "state of a path");
_Static_assert(sizeof(struct rw_connection) <= RW_MAX_PATHS * 152 + 160, "state of a connection");

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(products_and_quotients_are_exact),
	    cmocka_unit_test(leading_zeros),
	    cmocka_unit_test(logarithm_and_power),
	    cmocka_unit_test(small_steps_are_not_lost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
