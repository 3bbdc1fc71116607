/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * OLIA's increase (Khalili et al. 2013), over all subflows or over one set of them.
 *
 *   l_r      bytes acknowledged between the last two losses, or since the last one, whichever is more
 *   M, B     the subflows with the largest window; with the best l/R^2 (kernel) or l^2/R (draft)
 *   alpha_r  1/(n |B\M|) for r in B\M, -1/(n |M|) for r in M when B\M is not empty, else 0
 *   each acked segment: w += (w/R^2) / (sum w_k/R_k)^2 + alpha_r / w, not below one segment
 */
#ifndef RW_OLIA_H
#define RW_OLIA_H

#include "fixed_point.h"

/* Places among a path's words. */
enum { OLIA_BETWEEN_LOSSES, OLIA_SINCE_LOSS, OLIA_ALPHA_Q32, OLIA_PATH_WORDS };

#define RW_OLIA_PATH_WORDS                                                                                             \
	{"loss_interval_bytes", 1, OLIA_BETWEEN_LOSSES, 0, 0}, {"since_loss_bytes", 1, OLIA_SINCE_LOSS, 0, 0},         \
	    {"alpha", 1, OLIA_ALPHA_Q32, 32, 1}

#define RW_OPTION_OLIA_BEST                                                                                            \
	{"best",                                                                                                       \
	 "kernel|draft",                                                                                               \
	 0,                                                                                                            \
	 "which paths are best: kernel, most l/R^2, as the rate of TCP is sqrt(l)/R; "                                 \
	 "draft-khalili prints l^2/R",                                                                                 \
	 RW_OPTION_CHOICE,                                                                                             \
	 0,                                                                                                            \
	 0}
enum { OLIA_BEST_KERNEL, OLIA_BEST_DRAFT };

/* Limit of the count of bytes. */
#define OLIA_BYTES_MAX ((uint64_t)1 << 62)

RW_INLINE void rw_olia_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	uint64_t *since = &c->path[ack->path].word[OLIA_SINCE_LOSS];
	*since =
	    rw_min64(*since + (uint64_t)ack->acked_segments * (c->mss_bytes ? c->mss_bytes : 1460), OLIA_BYTES_MAX);
}

/* A second loss without anything delivered in between belongs to the first. */
RW_INLINE void rw_olia_lost(struct rw_path *p)
{
	if (p->word[OLIA_SINCE_LOSS]) {
		p->word[OLIA_BETWEEN_LOSSES] = p->word[OLIA_SINCE_LOSS];
		p->word[OLIA_SINCE_LOSS] = 0;
	}
}

RW_INLINE uint64_t rw_olia_length(const struct rw_path *p)
{
	return rw_max64(p->word[OLIA_BETWEEN_LOSSES], p->word[OLIA_SINCE_LOSS]);
}

/* a's l/R^2 or l^2/R against b's: -1, 0, 1. Exact, but that l^2 keeps 32 bits of the longer l. */
RW_CALL int rw_olia_compare(const struct rw_path *a RW_NEVER_NULL, const struct rw_path *b RW_NEVER_NULL, int64_t rule)
{
	uint64_t la = rw_olia_length(a), lb = rw_olia_length(b);
	/* Units of 4 ns: 17 s fit 32 bits. */
	uint64_t ra = rw_min64(a->srtt_ns >> 2, UINT32_MAX), rb = rw_min64(b->srtt_ns >> 2, UINT32_MAX);
	struct rw_u128 x, y;
	if (rule == OLIA_BEST_DRAFT) {
		uint64_t longest = rw_max64(la, lb);
		int excess = longest >> 32 ? 32 - rw_leading_zeros(longest) : 0;
		la >>= excess;
		lb >>= excess;
		x = rw_multiply_wide(la * la, rb);
		y = rw_multiply_wide(lb * lb, ra);
	} else {
		x = rw_multiply_wide(rb * rb, la);
		y = rw_multiply_wide(ra * ra, lb);
	}
	if (x.high != y.high)
		return x.high > y.high ? 1 : -1;
	return x.low == y.low ? 0 : x.low > y.low ? 1 : -1;
}

/* The first path of the best; RW_MAX_PATHS: none takes part. */
RW_CALL uint32_t rw_olia_best(const struct rw_connection *c RW_NEVER_NULL, uint32_t group, int64_t rule)
{
	uint32_t best = RW_MAX_PATHS;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (rw_counts_in(&c->path[i], group) &&
		    (best == RW_MAX_PATHS || rw_olia_compare(&c->path[i], &c->path[best % RW_MAX_PATHS], rule) > 0))
			best = i;
	return best;
}

/* Windows are compared with the bits of the mask. */
RW_CALL uint64_t rw_olia_largest_q16(const struct rw_connection *c RW_NEVER_NULL, uint32_t group, uint64_t mask)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (rw_counts_in(&c->path[i], group))
			most = rw_max64(most, rw_window_q16(&c->path[i]) & mask);
	return most;
}

enum { OLIA_IN_LARGEST = 1, OLIA_IN_COLLECTED = 2 }; /* M, B\M */

RW_CALL uint32_t rw_olia_standing(const struct rw_path *p RW_NEVER_NULL, const struct rw_path *best RW_NEVER_NULL,
				  int64_t rule, uint64_t most_q16, uint64_t mask)
{
	if ((rw_window_q16(p) & mask) == most_q16)
		return OLIA_IN_LARGEST;
	return rw_olia_compare(p, best, rule) == 0 ? OLIA_IN_COLLECTED : 0;
}

/* 1/alpha_r, which has its sign; 0 where alpha_r is 0. whole: windows are compared in whole segments. */
RW_CALL int32_t rw_olia_inverse_alpha(const struct rw_connection *c RW_NEVER_NULL, uint32_t path, uint32_t group,
				      int64_t rule, int whole)
{
	uint64_t mask = whole ? ~(RW_Q16_ONE - 1) : ~(uint64_t)0, most = rw_olia_largest_q16(c, group, mask);
	const struct rw_path *best = &c->path[rw_olia_best(c, group, rule) % RW_MAX_PATHS];
	uint32_t n = 0, largest = 0, collected = 0, own = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		if (!rw_counts_in(&c->path[i], group))
			continue;
		uint32_t standing = rw_olia_standing(&c->path[i], best, rule, most, mask);
		n++;
		largest += standing & OLIA_IN_LARGEST;
		collected += standing / OLIA_IN_COLLECTED;
		own = i == path ? standing : own;
	}
	if (collected == 0 || own == 0)
		return 0;
	return own == OLIA_IN_COLLECTED ? (int32_t)(n * collected) : -(int32_t)(n * largest);
}

RW_INLINE void rw_olia_avoid(struct rw_connection *c, uint32_t path, uint32_t group, int64_t rule, uint64_t acked_q16)
{
	struct rw_path *p = &c->path[path];
	struct rw_sums t = rw_sum_group(c, group);
	uint64_t reno = rw_reno_step_q40(p->cwnd_q16);
	p->word[OLIA_ALPHA_Q32] = 0;
	if (t.paths < 2 || !rw_counts(p)) {
		rw_congestion_avoidance_q40(p, reno, acked_q16);
		return;
	}
	int32_t inverse = rw_olia_inverse_alpha(c, path, group, rule, 0);
	uint64_t linked = rw_coupled_step_q40(&t, p), size = inverse < 0 ? (uint64_t)-inverse : (uint64_t)inverse;
	uint64_t shift = inverse ? reno / size : 0, alpha_q32 = inverse ? ((uint64_t)1 << 32) / size : 0;
	p->word[OLIA_ALPHA_Q32] = inverse < 0 ? (uint64_t)0 - alpha_q32 : alpha_q32;
	if (inverse >= 0)
		rw_congestion_avoidance_q40(p, linked + shift, acked_q16);
	else if (linked >= shift)
		rw_congestion_avoidance_q40(p, linked - shift, acked_q16);
	else
		rw_shrink_q40(p, rw_multiply_divide(shift - linked, acked_q16, RW_Q16_ONE));
}

#endif
