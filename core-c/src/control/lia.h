/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * LIA's linked increase (RFC 6356), which other controllers use for a part of theirs.
 *
 *   alpha = W max_k(w_k/R_k^2) / (sum w_k/R_k)^2, each acked segment: w += min(alpha/W, 1/w)
 */
#ifndef RW_LIA_H
#define RW_LIA_H

#include "fixed_point.h"

/* Between 1/8 (8 equal subflows) and 2^23; t must have a path. */
RW_INLINE uint64_t rw_lia_alpha_q32(const struct rw_sums *t)
{
	uint64_t share_q50 = rw_multiply_divide(t->best_q27, (uint64_t)1 << 50, t->s_q27);
	return rw_multiply_divide(share_q50, t->total_q16, t->s_q27) >> 7;
}

/* alpha/W; both divisions keep the bits that a window of 2^20 needs. */
RW_INLINE uint64_t rw_lia_step_q40(const struct rw_sums *t, const struct rw_path *p)
{
	uint64_t reno = rw_reno_step_q40(p->cwnd_q16);
	if (t->paths < 2 || !rw_counts(p))
		return reno;
	uint64_t share_q50 = rw_multiply_divide(t->best_q27, (uint64_t)1 << 50, t->s_q27);
	return rw_min64(rw_multiply_divide(share_q50, 1 << 17, t->s_q27), reno);
}

#endif
