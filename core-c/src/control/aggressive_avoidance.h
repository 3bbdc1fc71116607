/*
 * Aggressive Congestion Avoidance (TCCC paper, Algorithm 2, eq. 6 and 8), over all subflows or over one set of them.
 *
 *   each acked segment  w_r += 1 / (R_r min R sum w_k/R_k^2)
 *   loss, ECE           same loss rate: w_r -= min R (sum w_k/R_k)^2 / (2 R_r sum w_k/R_k^2); else w_r -= w_r/2
 *
 * "Same packet loss rate" is not defined in print: here p_r = 2/m_r^2, m_r the largest flight between the last two
 * reductions, and the same means max p <= same_loss_ratio min p (docs/paper-notes.md, T-3).
 */
#ifndef RW_AGGRESSIVE_AVOIDANCE_H
#define RW_AGGRESSIVE_AVOIDANCE_H

#include "coupled_slow_start.h"

enum { ACA_MD = COUPLED_OPTIONS, ACA_SAFE, SAME_LOSS_RATIO };
enum { ACA_MD_AUTO, ACA_MD_EQ8, ACA_MD_HALF };

#define AGGRESSIVE_AVOIDANCE_OPTIONS                                                                                 \
	{"aca_md", "auto|eq8|half", "auto", "which decrease: auto asks whether the loss rates are the same",               \
	 RW_OPTION_CHOICE, 0, 0},                                                                                         \
	{"aca_safe", "off|on", "off", "on: step <= 1/w and decrease >= w/2, against the long-RTT hazard; off reproduces "  \
	 "the paper", RW_OPTION_CHOICE, 0, 0},                                                                            \
	{"same_loss_ratio", "1 to 1024", "4", "peaks within a factor of two; near 1 the branch would almost never be "     \
	 "taken", RW_OPTION_Q16, 1 << 16, 1024 << 16}

RW_INLINE uint64_t aca_step_q40(const struct rw_connection *c, const struct rw_path *p, uint32_t group)
{
	uint64_t reno = rw_reno_step_q40(p->cwnd_q16);
	if (!rw_counts(p))
		return reno;
	struct rw_sums t = rw_sum_group(c, group);
	uint64_t inverse_q50 = rw_multiply_divide((uint64_t)1 << 50, 1 << 27, t.q_q27);
	uint64_t step = rw_multiply_divide(inverse_q50, 1 << 6, rw_rho_q16(p->srtt_ns, t.rtt_min_ns));
	return c->option[ACA_SAFE] ? rw_min64(step, reno) : step;
}

/* max p <= ratio min p with p = 2/m^2, once every subflow has had a reduction. */
RW_INLINE int aca_same_loss_rate(const struct rw_connection *c, uint32_t group)
{
	uint64_t least = UINT64_MAX, most = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		if (!rw_counts_in(p, group))
			continue;
		if (p->flight_peak_q16 == 0)
			return 0;
		least = rw_min64(least, p->flight_peak_q16);
		most = rw_max64(most, p->flight_peak_q16);
	}
	struct rw_u128 a = rw_multiply_wide(most, most);
	struct rw_u128 b = rw_multiply_wide(least, rw_multiply_divide(least, (uint64_t)c->option[SAME_LOSS_RATIO], RW_Q16_ONE));
	return a.high != b.high ? a.high < b.high : a.low <= b.low;
}

RW_INLINE uint64_t aca_decrease_q16(const struct rw_connection *c, const struct rw_path *p, uint32_t group)
{
	uint64_t half = p->cwnd_q16 >> 1;
	int eq8 = c->option[ACA_MD] == ACA_MD_EQ8 || (c->option[ACA_MD] == ACA_MD_AUTO && aca_same_loss_rate(c, group));
	if (!eq8 || !rw_counts(p))
		return half;
	struct rw_sums t = rw_sum_group(c, group);
	uint64_t d_q27 = rw_multiply_divide(rw_multiply_divide(t.s_q27, t.s_q27, t.q_q27), RW_Q16_ONE,
					    rw_rho_q16(p->srtt_ns, t.rtt_min_ns)) >> 1;
	return c->option[ACA_SAFE] ? rw_max64(d_q27 >> 11, half) : d_q27 >> 11;
}

#endif
