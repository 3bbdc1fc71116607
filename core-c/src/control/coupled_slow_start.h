/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Coupled slow start: CSS (2017) Algorithms 1-3 and TCCC Algorithm 1, as docs/paper-notes.md resolves them (C-1 to C-24).
 *
 *   begin  ssthresh = 65535 bytes, or con_ssthresh where that is more
 *   exit   on any subflow's ACK, when sum w_k/R_k > con_ssthresh/min R: every initial subflow gets ssthresh = w, at once
 *   alone  on its own ACK, when w > ssthresh: that subflow only, which goes on in congestion avoidance
 *   growth w += min(L, (alpha^(R_r/min R) - 1) acked)
 *   join   ln alpha' = ln alpha ln(con/(W + IW)) / ln(con/W);  W + IW >= con: exit now
 *   leave  the mirror of join, not above alpha0
 *   undo   a subflow whose loss was none is coupled again, or has left with the others
 *   apart  a subflow that shares its bottleneck with no other (tccc+) is as if it had closed: neither sums nor the smallest RTT
 *          have it, and alpha moves as at a close
 *
 * Included by the controllers that begin with it. Option and word places are the same in all of them.
 */
#ifndef RW_COUPLED_SLOW_START_H
#define RW_COUPLED_SLOW_START_H

#include "fixed_point.h"
#include "options.h"
#include "ssthresh_estimator.h"

enum {
	ALPHA0 = COMMON_OPTIONS,
	L_SEGMENTS,
	L_SCALE,
	ALPHA_FORM,
	JOIN_WEIGHTED,
	CON_SSTHRESH,
	SSTHRESH,
	COUPLED_OPTIONS
};
enum { WORD_INITIAL_SS, WORD_ALPHA_Q32, WORD_CON_SSTHRESH_Q16 };
enum { PATH_RTT_NS, PATH_LEFT = RW_PATH_WORDS - 2 };
/*
 * Values of the word PATH_LEFT of a subflow that is not initial: whether a loss took it out, and whether the connection left
 * since; or that it shares its bottleneck with no other, for good.
 */
enum { LEFT_NOTHING, LEFT_ALONE, LEFT_BEFORE_EXIT, LEFT_APART };

#define COUPLED_SLOW_START_OPTIONS(l_default, l_reason)                                                                  \
	RW_OPTION_MODE_PAPER, RW_OPTION_FLOOR(2, "a floor is mandatory: the printed decrease reaches zero and below"),   \
	    {"alpha0",      "above 1 to 4",                                                                              \
	     RW_Q16(3, 2),  "as printed; 2 is the parity with a TCP that counts bytes (C-11)",                           \
	     RW_OPTION_Q16, (1 << 16) + 1,                                                                               \
	     4 << 16},                                                                                                   \
	    {"L", "0.125 to 1024 segments", (l_default) << 16, l_reason, RW_OPTION_Q16, 1 << 13, 1024 << 16},            \
	    {"L_scale", "off|on", 0, "on: L ceil(acked/2), neutral to stretch ACKs (C-2)", RW_OPTION_CHOICE, 0, 0},      \
	    {"alpha_form",                                                                                               \
	     "exponent|product",                                                                                         \
	     0,                                                                                                          \
	     "growth alpha each min RTT needs the exponent; product is TCCC's "                                          \
	     "printed line 18, for comparison (C-1)",                                                                    \
	     RW_OPTION_CHOICE,                                                                                           \
	     0,                                                                                                          \
	     0},                                                                                                         \
	    {"join_weighted", "off|on", 0, "on: windows at a join weighted by min R/R_k (C-9)", RW_OPTION_CHOICE, 0, 0}, \
	    {"con_ssthresh",                                                                                             \
	     "0 to 1048576 segments",                                                                                    \
	     0,                                                                                                          \
	     "0: what the option ssthresh estimates (C-6)",                                                              \
	     RW_OPTION_Q16,                                                                                              \
	     0,                                                                                                          \
	     (int64_t)1 << 36},                                                                                          \
	    {"ssthresh",                                                                                                 \
	     "static|hoe|hystart|hystart++",                                                                             \
	     0,                                                                                                          \
	     "static: 65535 bytes, the setting of both papers, with which each subflow begins, too (C-15); else the "    \
	     "estimate of the path of the smallest RTT, or the largest there is, once there is one (TCCC IV.C)",         \
	     RW_OPTION_CHOICE,                                                                                           \
	     0,                                                                                                          \
	     0}

#define COUPLED_SLOW_START_WORDS                                                                                       \
	{"initial_ss", 0, WORD_INITIAL_SS, 0}, {"alpha", 0, WORD_ALPHA_Q32, 32},                                       \
	    {"con_ssthresh", 0, WORD_CON_SSTHRESH_Q16, 16}, {"coupled_rtt", 1, PATH_RTT_NS, 0},                        \
	    RW_ESTIMATOR_PATH_WORDS

/* Whether the path counts in the sums of coupled slow start and in its smallest RTT. */
RW_INLINE int css_takes_part(const struct rw_path *p) { return p->live && p->word[PATH_LEFT] != LEFT_APART; }

/* C-6: the option's value, or the estimate of the path with the smallest RTT, or the largest estimate. */
RW_CALL uint64_t css_con_ssthresh_q16(const struct rw_connection *c RW_NEVER_NULL)
{
	uint64_t least_ns = UINT64_MAX, nearest = 0, largest = 0;
	if (c->word[WORD_CON_SSTHRESH_Q16] != 0)
		return c->word[WORD_CON_SSTHRESH_Q16];
	for (uint32_t i = 0; c->option[SSTHRESH] != ESTIMATOR_STATIC && i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		if (!css_takes_part(p))
			continue;
		largest = rw_max64(largest, p->word[PATH_ESTIMATE_Q16]);
		if (p->word[PATH_RTT_NS] && p->word[PATH_RTT_NS] < least_ns) {
			least_ns = p->word[PATH_RTT_NS];
			nearest = p->word[PATH_ESTIMATE_Q16];
		}
	}
	return nearest ? nearest : largest ? largest : rw_static_ssthresh_q16(c);
}

/*
 * The threshold that a subflow begins with (CSS Algorithm 1, line 18; C-15). Line 1 sets it and con_ssthresh to one number:
 * with a larger con_ssthresh it is that, since the smaller one would end each subflow before the connection's could.
 */
RW_INLINE uint64_t css_own_ssthresh_q16(const struct rw_connection *c)
{
	return rw_max64(rw_static_ssthresh_q16(c), css_con_ssthresh_q16(c));
}

RW_INLINE void css_open(struct rw_connection *c)
{
	c->word[WORD_INITIAL_SS] = 1;
	c->word[WORD_ALPHA_Q32] = (uint64_t)c->option[ALPHA0] << 16;
	c->word[WORD_CON_SSTHRESH_Q16] = (uint64_t)c->option[CON_SSTHRESH];
}

RW_INLINE void css_begin(struct rw_connection *c, uint32_t path)
{
	if (c->path[path].initial)
		c->path[path].ssthresh_q16 = css_own_ssthresh_q16(c);
}

/* TCCC line 15: half of each sample, for this purpose only (C-4, C-5). */
RW_INLINE void css_rtt(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t *r = &p->word[PATH_RTT_NS];
	if (ack->rtt_ns)
		*r = *r ? (*r + ack->rtt_ns) / 2 : ack->rtt_ns;
	if (p->initial)
		rw_estimator_rtt(p, c->option[SSTHRESH], ack);
}

RW_INLINE void css_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	if (c->path[ack->path].initial)
		rw_estimator_delivered(&c->path[ack->path], c->option[SSTHRESH], ack);
}

RW_CALL uint64_t css_rtt_min_ns(const struct rw_connection *c RW_NEVER_NULL)
{
	uint64_t least = UINT64_MAX;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (css_takes_part(&c->path[i]) && c->path[i].word[PATH_RTT_NS])
			least = rw_min64(least, c->path[i].word[PATH_RTT_NS]);
	return least;
}

/* sum w_k / rho_k, Q27: the connection's rate as a window at the smallest RTT. */
RW_CALL uint64_t css_rate_q27(const struct rw_connection *c RW_NEVER_NULL, uint64_t rtt_min_ns)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		if (css_takes_part(p) && p->word[PATH_RTT_NS])
			sum += (rw_window_q16(p) << 27) / rw_rho_q16(p->word[PATH_RTT_NS], rtt_min_ns);
	}
	return sum;
}

RW_INLINE int css_is_coupled(const struct rw_connection *c, const struct rw_path *p)
{
	return c->word[WORD_INITIAL_SS] && p->initial;
}

/* The words that an estimator uses in the initial slow start, and avoidance after it. */
RW_INLINE void css_clear_words(struct rw_path *p)
{
	for (int i = PATH_ESTIMATOR; i < RW_PATH_WORDS; i++)
		p->word[i] = 0;
}

RW_INLINE void css_leave_initial(struct rw_path *p)
{
	p->initial = 0;
	css_clear_words(p);
}

/* Only this subflow leaves. The connection has left when no initial subflow remains. */
RW_INLINE void css_leave_alone(struct rw_connection *c, uint32_t path)
{
	if (c->path[path].initial)
		css_leave_initial(&c->path[path]);
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (c->path[i].live && c->path[i].initial)
			return;
	c->word[WORD_INITIAL_SS] = 0;
}

RW_INLINE void css_exit(struct rw_connection *c)
{
	c->word[WORD_INITIAL_SS] = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		struct rw_path *p = &c->path[i];
		if (p->live && p->initial) {
			p->ssthresh_q16 = p->cwnd_q16;
			css_leave_initial(p);
		} else if (p->word[PATH_LEFT] == LEFT_ALONE) {
			p->word[PATH_LEFT] = LEFT_BEFORE_EXIT;
		}
	}
}

/* alpha^(R_r/min R) - 1, Q32. */
RW_CALL uint64_t css_growth_q32(const struct rw_connection *c RW_NEVER_NULL, const struct rw_path *p RW_NEVER_NULL,
				uint64_t rtt_min_ns)
{
	uint64_t alpha = c->word[WORD_ALPHA_Q32], one = (uint64_t)1 << 32;
	uint64_t rtt = p->word[PATH_RTT_NS];
	if (rtt == 0 || rtt <= rtt_min_ns)
		return alpha - one;
	uint64_t rho_q16 = rw_rho_q16(rtt, rtt_min_ns);
	if (c->option[ALPHA_FORM] == 1)
		return rw_multiply_divide(alpha, rho_q16, RW_Q16_ONE) - one;
	return rw_exp2_minus_one_q32(rw_multiply_divide(rw_log2_q32(alpha), rho_q16, RW_Q16_ONE));
}

/*
 * An ACK while the connection is in its initial slow start. Returns 1 when that was all the ACK does; 0 when it is an
 * ordinary one, for slow start and congestion avoidance.
 */
RW_INLINE int css_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (!c->word[WORD_INITIAL_SS])
		return 0;
	uint64_t rtt_min_ns = css_rtt_min_ns(c);
	int coupled = css_is_coupled(c, p);
	if (css_rate_q27(c, rtt_min_ns) > css_con_ssthresh_q16(c) << 11) {
		css_exit(c);
		return coupled; /* a subflow that leaves with this ACK does not grow by it */
	}
	if (!coupled)
		return 0;
	if (c->option[SSTHRESH] != ESTIMATOR_STATIC)
		p->ssthresh_q16 = css_own_ssthresh_q16(c);
	if (p->cwnd_q16 > p->ssthresh_q16) {
		css_leave_alone(c, ack->path);
		return 0;
	}
	uint64_t step_q32 = rw_multiply_divide(css_growth_q32(c, p, rtt_min_ns), ack->acked_segments, 1);
	uint64_t cap_q16 = (uint64_t)c->option[L_SEGMENTS];
	if (c->option[L_SCALE])
		cap_q16 *= ((uint64_t)ack->acked_segments + 1) / 2;
	rw_grow_q40(p, rw_min64(step_q32, cap_q16 << 16) << 8);
	return 1;
}

/* alpha^(log(con/after) / log(con/before)), Q32; before and after below con. */
RW_CALL uint64_t css_rescale_q32(uint64_t alpha_q32, uint64_t con_q16, uint64_t before_q16, uint64_t after_q16)
{
	uint64_t log_before = rw_log2_q32(rw_multiply_divide(con_q16, (uint64_t)1 << 32, before_q16));
	uint64_t log_after = rw_log2_q32(rw_multiply_divide(con_q16, (uint64_t)1 << 32, after_q16));
	uint64_t exponent = rw_multiply_divide(rw_log2_q32(alpha_q32), log_after, rw_max64(log_before, 1));
	return rw_exp2_minus_one_q32(exponent) + ((uint64_t)1 << 32);
}

RW_INLINE uint64_t css_weighted_q16(const struct rw_connection *c, const struct rw_path *p, uint64_t rtt_min_ns)
{
	uint64_t w = rw_window_q16(p);
	if (!c->option[JOIN_WEIGHTED] || !p->word[PATH_RTT_NS])
		return w;
	return rw_multiply_divide(w, RW_Q16_ONE, rw_rho_q16(p->word[PATH_RTT_NS], rtt_min_ns));
}

RW_CALL uint64_t css_total_without_q16(const struct rw_connection *c RW_NEVER_NULL, uint32_t path, uint64_t rtt_min_ns)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (i != path && css_takes_part(&c->path[i]))
			total += css_weighted_q16(c, &c->path[i], rtt_min_ns);
	return total;
}

RW_INLINE void css_join(struct rw_connection *c, uint32_t path)
{
	int others = 0, coupled = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (i != path && css_takes_part(&c->path[i])) {
			others++;
			coupled += c->path[i].initial;
		}
	struct rw_path *p = &c->path[path];
	if (!c->word[WORD_INITIAL_SS] || (others && !coupled)) {
		p->initial = 0;
		if (others)
			c->word[WORD_INITIAL_SS] = 0; /* no initial subflow was left */
		return;
	}
	if (!p->initial || !others)
		return;
	uint64_t rtt_min_ns = css_rtt_min_ns(c), con = css_con_ssthresh_q16(c);
	uint64_t before = css_total_without_q16(c, path, rtt_min_ns);
	uint64_t after = before + css_weighted_q16(c, p, rtt_min_ns);
	before = rw_max64(before, 1); /* a weight can round a window away */
	if (after >= con)
		css_exit(c); /* C-8: the printed logarithm is not positive */
	else
		c->word[WORD_ALPHA_Q32] = css_rescale_q32(c->word[WORD_ALPHA_Q32], con, before, after);
}

RW_INLINE void css_leave(struct rw_connection *c, uint32_t path)
{
	if (!c->word[WORD_INITIAL_SS] || !css_takes_part(&c->path[path]))
		return;
	uint64_t rtt_min_ns = css_rtt_min_ns(c), con = css_con_ssthresh_q16(c);
	uint64_t after = css_total_without_q16(c, path, rtt_min_ns);
	uint64_t before = after + css_weighted_q16(c, &c->path[path], rtt_min_ns);
	if (after == 0) {
		c->word[WORD_ALPHA_Q32] = (uint64_t)c->option[ALPHA0] << 16; /* the next subflow is a first one again */
		return;
	}
	if (before >= con)
		return;
	c->word[WORD_ALPHA_Q32] =
	    rw_min64((uint64_t)c->option[ALPHA0] << 16, css_rescale_q32(c->word[WORD_ALPHA_Q32], con, before, after));
}

/* CSS Algorithm 1, lines 5-7: only the subflow that lost leaves (C-12). */
RW_INLINE void css_left_by_loss(struct rw_connection *c, uint32_t path)
{
	uint64_t left = c->path[path].initial ? LEFT_ALONE : LEFT_NOTHING;
	css_leave_alone(c, path);
	if (css_takes_part(&c->path[path]))
		c->path[path].word[PATH_LEFT] = left;
}

/*
 * Not in print. A loss that was none takes nobody out: without the coupling a subflow would double its window in each round
 * trip up to its own threshold. Where the others have left meanwhile, it leaves as they did.
 */
RW_INLINE void css_undo(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	if (p->initial || !css_takes_part(p))
		return;
	uint64_t left = p->word[PATH_LEFT];
	p->word[PATH_LEFT] = LEFT_NOTHING;
	if (left == LEFT_ALONE) {
		css_clear_words(p);
		p->initial = 1;
		c->word[WORD_INITIAL_SS] = 1;
	} else if (left == LEFT_BEFORE_EXIT) {
		p->ssthresh_q16 = p->cwnd_q16;
	}
}

/* Halves the window, for a loss without a rule in congestion avoidance, and for every timeout. */
RW_INLINE void css_halve(struct rw_connection *c, uint32_t path)
{
	css_left_by_loss(c, path);
	rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]);
}

RW_INLINE uint32_t css_phase(const struct rw_connection *c, uint32_t path)
{
	const struct rw_path *p = &c->path[path];
	if (css_is_coupled(c, p))
		return RW_PHASE_COUPLED_SLOW_START;
	return rw_in_slow_start(p) ? RW_PHASE_SLOW_START : RW_PHASE_CONGESTION_AVOIDANCE;
}

#endif
