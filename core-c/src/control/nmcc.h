/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * NMCC's increase, in slow start too (e-NMCC paper III).
 *
 *   Omega_r = w_r/R_r^2 in slow start, 1/R_r^2 in congestion avoidance; m^2 = sum Omega / max Omega
 *   slow start            w += acked / m^2
 *   congestion avoidance  w += acked / (m^2 w)
 */
#ifndef RW_NMCC_H
#define RW_NMCC_H

#include "fixed_point.h"

/* Q40 of a window at the smallest RTT: 2^60, so that eight of them fit. */
RW_INLINE uint64_t rw_nmcc_omega_q40(const struct rw_path *p, uint64_t rtt_min_ns)
{
	uint64_t rho = rw_rho_q16(p->srtt_ns, rtt_min_ns);
	uint64_t size_q16 = rw_in_slow_start(p) ? rw_window_q16(p) : RW_Q16_ONE;
	return rw_multiply_divide(rw_multiply_divide(size_q16 << 24, RW_Q16_ONE, rho), RW_Q16_ONE, rho);
}

/* 1/m^2, at most 1. */
RW_INLINE uint64_t rw_nmcc_factor_q32(const struct rw_connection *c, const struct rw_path *own)
{
	uint64_t least = UINT64_MAX, sum = 0, most = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (rw_counts(&c->path[i]))
			least = rw_min64(least, c->path[i].srtt_ns);
	if (!rw_counts(own))
		return (uint64_t)1 << 32;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (rw_counts(&c->path[i])) {
			uint64_t omega = rw_nmcc_omega_q40(&c->path[i], least);
			sum += omega;
			most = rw_max64(most, omega);
		}
	return rw_multiply_divide(most, (uint64_t)1 << 32, sum);
}

/* Slow start up to ssthresh; returns what is left of growth_q40, segments. */
RW_INLINE uint64_t rw_nmcc_slow_start(struct rw_path *p, uint64_t growth_q40)
{
	uint64_t room_q16 = p->ssthresh_q16 - p->cwnd_q16;
	if (growth_q40 >> 24 < room_q16) {
		rw_grow_q40(p, growth_q40);
		return 0;
	}
	p->cwnd_q16 = rw_min64(p->ssthresh_q16, RW_CWND_MAX_Q16);
	return growth_q40 - (room_q16 << 24);
}

RW_INLINE void rw_nmcc_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t factor_q32 = rw_nmcc_factor_q32(c, p);
	uint64_t growth_q40 = rw_multiply_divide((uint64_t)ack->acked_segments << 40, factor_q32, (uint64_t)1 << 32);
	if (rw_in_slow_start(p))
		growth_q40 = rw_nmcc_slow_start(p, growth_q40);
	if (growth_q40)
		rw_grow_q40(p, rw_multiply_divide(rw_reno_step_q40(p->cwnd_q16), growth_q40, (uint64_t)1 << 40));
}

#endif
