/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
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

enum { ACA_MD = COUPLED_OPTIONS, ACA_SAFE, SAME_LOSS_RATIO, ACA_PERIOD, P_EST };
/* TCCC's own table, and TCCC+'s. */
#define TCCC_OPTIONS                                                                                                   \
	COUPLED_SLOW_START_OPTIONS(1, "TCCC Algorithm 1, line 20: the step of one ACK is at most one segment (C-2)"),  \
	    AGGRESSIVE_AVOIDANCE_OPTIONS

enum { ACA_MD_AUTO, ACA_MD_EQ8, ACA_MD_HALF };
enum { P_EST_FLIGHT, P_EST_INTERVAL };
/* The words for the time of the last update and for the step of each path. */
enum { WORD_ACA_NS = WORD_CON_SSTHRESH_Q16 + 1 };
enum { PATH_ACA_STEP_Q40 = PATH_LEFT + 1 };
_Static_assert(PATH_ACA_STEP_Q40 < RW_PATH_WORDS, "the state fits");
_Static_assert(WORD_ACA_NS < RW_CONNECTION_WORDS, "the state fits");

#define AGGRESSIVE_AVOIDANCE_OPTIONS                                                                                   \
	{"aca_md",                                                                                                     \
	 "auto|eq8|half",                                                                                              \
	 0,                                                                                                            \
	 "which decrease: auto asks whether the loss rates are the same",                                              \
	 RW_OPTION_CHOICE,                                                                                             \
	 0,                                                                                                            \
	 0},                                                                                                           \
	    {"aca_safe",                                                                                               \
	     "off|on",                                                                                                 \
	     0,                                                                                                        \
	     "on: step <= 1/w and decrease >= w/2, against the long-RTT hazard; off reproduces "                       \
	     "the paper",                                                                                              \
	     RW_OPTION_CHOICE,                                                                                         \
	     0,                                                                                                        \
	     0},                                                                                                       \
	    {"same_loss_ratio",                                                                                        \
	     "1 to 1024",                                                                                              \
	     4 << 16,                                                                                                  \
	     "peaks within a factor of two; near 1 the branch would almost never be "                                  \
	     "taken",                                                                                                  \
	     RW_OPTION_Q16,                                                                                            \
	     1 << 16,                                                                                                  \
	     1024 << 16},                                                                                              \
	    {"aca_period",                                                                                             \
	     "ack|rtt",                                                                                                \
	     0,                                                                                                        \
	     "how often the step is worked out: on every ACK, or once in the smallest RTT, as "                        \
	     "the paper's update interval, for which it gives no value (T-20)",                                        \
	     RW_OPTION_CHOICE,                                                                                         \
	     0,                                                                                                        \
	     0},                                                                                                       \
	    {"p_est",                                                                                                  \
	     "flight|interval",                                                                                        \
	     0,                                                                                                        \
	     "a loss rate: flight, 2/m^2 of the largest flight (T-3); interval, losses "                               \
	     "over packets of the last eight loss intervals, the same where all 95 % Poisson intervals overlap",       \
	     RW_OPTION_CHOICE,                                                                                         \
	     0,                                                                                                        \
	     0}

RW_CALL uint64_t aca_step_q40(const struct rw_connection *c RW_NEVER_NULL, const struct rw_path *p RW_NEVER_NULL,
			      uint32_t group)
{
	if (!rw_counts(p))
		return rw_reno_step_q40(p->cwnd_q16);
	struct rw_sums t = rw_sum_group(c, group);
	uint64_t inverse_q50 = rw_multiply_divide((uint64_t)1 << 50, 1 << 27, t.q_q27);
	uint64_t rho_q16 = rw_rho_q16(p->srtt_ns, t.rtt_min_ns);
	uint64_t step = rho_q16 == RW_Q16_ONE ? inverse_q50 >> 10 : rw_multiply_divide(inverse_q50, 1 << 6, rho_q16);
	return c->option[ACA_SAFE] ? rw_min64(step, rw_reno_step_q40(p->cwnd_q16)) : step;
}

/* The step of an ACK: of all subflows (sets: 0) or of its final set, NewReno's outside of one. */
RW_INLINE uint64_t aca_step_in_q40(const struct rw_connection *c, const struct rw_path *p, int sets)
{
	uint32_t set = rw_final_group(p);
	if (sets && !set)
		return rw_reno_step_q40(p->cwnd_q16);
	return aca_step_q40(c, p, sets ? set : RW_ALL_GROUPS);
}

/* The update interval of aca_period=rtt: the smallest RTT of all subflows. */
RW_CALL uint64_t aca_interval_ns(const struct rw_connection *c RW_NEVER_NULL)
{
	uint64_t least = UINT64_MAX;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (c->path[i].live && c->path[i].word[PATH_RTT_NS])
			least = rw_min64(least, c->path[i].word[PATH_RTT_NS]);
	return least;
}

/* The same, updated at the interval of aca_period. */
RW_INLINE uint64_t aca_current_step_q40(struct rw_connection *c, const struct rw_ack *ack, int sets)
{
	struct rw_path *own = &c->path[ack->path];
	if (!c->option[ACA_PERIOD])
		return aca_step_in_q40(c, own, sets);
	uint64_t elapsed_ns = (uint64_t)ack->time_ns - c->word[WORD_ACA_NS];
	if (c->word[WORD_ACA_NS] == 0 || own->word[PATH_ACA_STEP_Q40] == 0 || elapsed_ns >= aca_interval_ns(c)) {
		c->word[WORD_ACA_NS] = (uint64_t)ack->time_ns;
		for (uint32_t i = 0; i < rw_path_count(c); i++)
			if (c->path[i].live)
				c->path[i].word[PATH_ACA_STEP_Q40] = aca_step_in_q40(c, &c->path[i], sets);
	}
	return own->word[PATH_ACA_STEP_Q40];
}

/* Coupled slow start, slow start after a timeout, then avoidance. */
RW_INLINE void aca_ack(struct rw_connection *c, const struct rw_ack *ack, int sets)
{
	struct rw_path *p = &c->path[ack->path];
	if (css_ack(c, ack))
		return;
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16)
		rw_congestion_avoidance_q40(p, aca_current_step_q40(c, ack, sets), acked_q16);
}

RW_INLINE void aca_join(struct rw_connection *c, uint32_t path)
{
	css_join(c, path);
	c->word[WORD_ACA_NS] = 0; /* the sums have changed */
}

RW_INLINE void aca_leave(struct rw_connection *c, uint32_t path)
{
	css_leave(c, path);
	c->word[WORD_ACA_NS] = 0;
}

/* Loss intervals, kept where the estimator of ssthresh was. */
enum { LOSS_INTERVALS = 8 };

struct __attribute__((may_alias)) rw_loss_intervals {
	uint32_t packets[LOSS_INTERVALS];
	uint32_t since;  /* the last loss */
	uint32_t losses; /* so far; at most twice LOSS_INTERVALS, the places go around */
};
_Static_assert(sizeof(struct rw_loss_intervals) <= (PATH_LEFT - PATH_ESTIMATOR) * sizeof(uint64_t), "the state fits");

RW_INLINE void aca_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	struct rw_loss_intervals *l = (struct rw_loss_intervals *)&p->word[PATH_ESTIMATOR];
	css_delivered(c, ack);
	if (!p->initial)
		l->since = (uint32_t)rw_min64((uint64_t)l->since + ack->acked_segments, 1 << 28);
}

RW_INLINE void aca_lost(struct rw_path *p)
{
	struct rw_loss_intervals *l = (struct rw_loss_intervals *)&p->word[PATH_ESTIMATOR];
	if (p->initial)
		return;
	l->packets[l->losses % LOSS_INTERVALS] = l->since;
	l->losses = l->losses < 2 * LOSS_INTERVALS - 1 ? l->losses + 1 : LOSS_INTERVALS;
	l->since = 0;
}

RW_INLINE void aca_timeout(struct rw_connection *c, uint32_t path)
{
	aca_lost(&c->path[path]);
	css_halve(c, path);
}

/* Whether the 95 % intervals of all loss rates overlap, once every subflow has had a loss. */
RW_CALL int aca_same_intervals(const struct rw_connection *c RW_NEVER_NULL, uint32_t group)
{
	/* The 95 % intervals of the mean of a Poisson number that was 1 to 8, Q16. */
	static const uint32_t lower_q16[LOSS_INTERVALS] = {1659, 15873, 40546, 71428, 106396, 144303, 184447, 226351};
	static const uint32_t upper_q16[LOSS_INTERVALS] = {365143, 473477, 574577, 671196,
							   764691, 855869, 945208, 1033062};
	uint64_t most_lower = 0, least_upper = UINT64_MAX;
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		const struct rw_loss_intervals *l = (const struct rw_loss_intervals *)&p->word[PATH_ESTIMATOR];
		if (!rw_counts_in(p, group))
			continue;
		if (p->initial || l->losses == 0)
			return 0;
		uint64_t n = rw_min64(l->losses, LOSS_INTERVALS), packets = 0;
		for (uint32_t k = 0; k < LOSS_INTERVALS; k++)
			packets += l->packets[k];
		packets = rw_max64(packets, 1);
		most_lower = rw_max64(most_lower, ((uint64_t)lower_q16[(n - 1) % LOSS_INTERVALS] << 32) / packets);
		least_upper = rw_min64(least_upper, ((uint64_t)upper_q16[(n - 1) % LOSS_INTERVALS] << 32) / packets);
	}
	return most_lower <= least_upper;
}

/* max p <= ratio min p with p = 2/m^2, once every subflow has had a reduction. */
RW_CALL int aca_same_loss_rate(const struct rw_connection *c RW_NEVER_NULL, uint32_t group)
{
	uint64_t least = UINT64_MAX, most = 0;
	if (c->option[P_EST] == P_EST_INTERVAL)
		return aca_same_intervals(c, group);
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
	struct rw_u128 b =
	    rw_multiply_wide(least, rw_multiply_divide(least, (uint64_t)c->option[SAME_LOSS_RATIO], RW_Q16_ONE));
	return a.high != b.high ? a.high < b.high : a.low <= b.low;
}

RW_INLINE uint64_t aca_decrease_q16(const struct rw_connection *c, const struct rw_path *p, uint32_t group)
{
	uint64_t half = p->cwnd_q16 >> 1;
	int eq8 = c->option[ACA_MD] == ACA_MD_EQ8 || (c->option[ACA_MD] == ACA_MD_AUTO && aca_same_loss_rate(c, group));
	if (!eq8 || !rw_counts(p))
		return half;
	struct rw_sums t = rw_sum_group(c, group);
	uint64_t rho_q16 = rw_rho_q16(p->srtt_ns, t.rtt_min_ns);
	uint64_t d_q27 = rw_multiply_divide(rw_multiply_divide(t.s_q27, t.s_q27, t.q_q27), RW_Q16_ONE, rho_q16) >> 1;
	return c->option[ACA_SAFE] ? rw_max64(d_q27 >> 11, half) : d_q27 >> 11;
}

#endif
