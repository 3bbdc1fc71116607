/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Integer arithmetic for controllers: bounded, without 128-bit types, so that it also compiles for BPF. */
#ifndef RW_FIXED_POINT_H
#define RW_FIXED_POINT_H

#include "rw_control.h"
#include "rw_ways.h"

RW_INLINE uint64_t rw_min64(uint64_t a, uint64_t b) { return a < b ? a : b; }
RW_INLINE uint64_t rw_max64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* rw_leading_zeros for BPF, where LLVM 14 cannot select its builtin. */
RW_INLINE int rw_leading_zeros_in_steps(uint64_t x)
{
	int n = 0;
	for (int step = 32; step; step >>= 1)
		if (!(x >> (64 - step))) {
			n += step;
			x <<= step;
		}
	return n;
}

/* Leading zeros of x != 0. */
RW_INLINE int rw_leading_zeros(uint64_t x)
{
#ifndef __bpf__
	return __builtin_clzll(x);
#else
	return rw_leading_zeros_in_steps(x);
#endif
}

struct rw_u128 {
	uint64_t high, low;
};

/* rw_multiply_wide where words have 64 bits at most (eBPF). */
RW_INLINE struct rw_u128 rw_multiply_in_words(uint64_t a, uint64_t b)
{
	uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
	uint64_t low = a0 * b0, mid = a1 * b0 + (low >> 32), mid2 = a0 * b1 + (uint32_t)mid;
	struct rw_u128 r = {a1 * b1 + (mid >> 32) + (mid2 >> 32), (mid2 << 32) | (uint32_t)low};
	return r;
}

RW_INLINE struct rw_u128 rw_multiply_wide(uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__) && !defined(__bpf__)
	unsigned __int128 p = (unsigned __int128)a * b;
	struct rw_u128 r = {(uint64_t)(p >> 64), (uint64_t)p};
	return r;
#else
	return rw_multiply_in_words(a, b);
#endif
}

/* One 32-bit digit of the quotient (Knuth, TAOCP 4.3.1 D): the estimate is at most two too large. */
RW_INLINE uint64_t rw_quotient_digit(uint64_t numerator, uint64_t next, uint64_t d1, uint64_t d0)
{
	uint64_t q = numerator / d1, r = numerator - q * d1;
	for (int i = 0; i < 2; i++)
		if (r <= UINT32_MAX && (q > UINT32_MAX || q * d0 > ((r << 32) | next))) {
			q--;
			r += d1;
		}
	return q;
}

/* rw_multiply_divide where words have 64 bits at most. */
RW_INLINE uint64_t rw_multiply_divide_in_words(uint64_t a, uint64_t b, uint64_t c)
{
	struct rw_u128 p = rw_multiply_in_words(a, b);
	if (p.high == 0)
		return p.low / c;
	if (p.high >= c)
		return UINT64_MAX;
	int shift = rw_leading_zeros(c);
	uint64_t d = c << shift, d1 = d >> 32, d0 = (uint32_t)d;
	uint64_t high = shift ? (p.high << shift) | (p.low >> (64 - shift)) : p.high;
	uint64_t low = p.low << shift;
	uint64_t q1 = rw_quotient_digit(high, low >> 32, d1, d0);
	uint64_t rest = ((high << 32) | (low >> 32)) - q1 * d;
	uint64_t q0 = rw_quotient_digit(rest, (uint32_t)low, d1, d0);
	return (q1 << 32) | q0;
}

/* floor(a * b / c) with the full product; saturates. c must not be 0. */
RW_CALL uint64_t rw_multiply_divide(uint64_t a, uint64_t b, uint64_t c)
{
#if defined(__SIZEOF_INT128__) && !defined(__bpf__)
	unsigned __int128 p = (unsigned __int128)a * b;
	if (p >> 64 == 0)
		return (uint64_t)p / c;
	return p >> 64 < c ? (uint64_t)(p / c) : UINT64_MAX;
#else
	return rw_multiply_divide_in_words(a, b, c);
#endif
}

/* The round trip of an ACK that has a sample: of the newest segment where it is known, which no receiver held back. */
RW_INLINE uint64_t rw_sample_ns(const struct rw_ack *ack)
{
	return ack->rtt_newest_ns ? ack->rtt_newest_ns : ack->rtt_ns;
}

/* The window that couples: a subflow in recovery counts with the window it will leave recovery with. */
RW_INLINE uint64_t rw_window_q16(const struct rw_path *p)
{
	uint64_t w = p->recovering && p->ssthresh_q16 != RW_SSTHRESH_UNSET ? p->ssthresh_q16 : p->cwnd_q16;
	return rw_max64(rw_min64(w, RW_CWND_MAX_Q16), RW_Q16_ONE);
}

RW_INLINE int rw_in_slow_start(const struct rw_path *p) { return p->cwnd_q16 < p->ssthresh_q16; }

/* A path takes part in sums over rates when it is live and has an RTT. */
RW_INLINE int rw_counts(const struct rw_path *p) { return p->live && p->srtt_ns != 0; }

/* cwnd += inc, with the bits below Q16 carried to the next call. */
RW_INLINE void rw_grow_q40(struct rw_path *p, uint64_t inc_q40)
{
	uint64_t fraction = (uint64_t)p->cwnd_rem_q40 + (inc_q40 & 0xffffff);
	p->cwnd_q16 = rw_min64(p->cwnd_q16 + (inc_q40 >> 24) + (fraction >> 24), RW_CWND_MAX_Q16);
	p->cwnd_rem_q40 = (uint32_t)(fraction & 0xffffff);
}

/* cwnd -= dec, not below one segment. */
RW_INLINE void rw_shrink_q40(struct rw_path *p, uint64_t dec_q40)
{
	uint64_t whole = dec_q40 >> 24, fraction = dec_q40 & 0xffffff;
	if (fraction > p->cwnd_rem_q40) {
		whole++;
		p->cwnd_rem_q40 += 1 << 24;
	}
	p->cwnd_rem_q40 -= (uint32_t)fraction;
	if (p->cwnd_q16 < RW_Q16_ONE + whole) {
		p->cwnd_q16 = RW_Q16_ONE;
		p->cwnd_rem_q40 = 0;
		return;
	}
	p->cwnd_q16 -= whole;
}

/*
 * Slow start by bytes acked (RFC 3465 with L = infinity, as Linux): up to ssthresh.
 * Returns the segments left over for congestion avoidance, Q16.
 */
RW_INLINE uint64_t rw_slow_start(struct rw_path *p, uint64_t acked_q16)
{
	uint64_t room = p->ssthresh_q16 - p->cwnd_q16, step = rw_min64(acked_q16, room);
	p->cwnd_q16 = rw_min64(p->cwnd_q16 + step, RW_CWND_MAX_Q16);
	return acked_q16 - step;
}

RW_INLINE void rw_set_ssthresh(struct rw_path *p, uint64_t ssthresh_q16, int64_t floor_q16)
{
	p->ssthresh_q16 = rw_max64(ssthresh_q16, (uint64_t)floor_q16);
}

/* acked / w in Q40: Reno's step for each acked segment. */
RW_INLINE uint64_t rw_reno_step_q40(uint64_t cwnd_q16)
{
	return rw_multiply_divide((uint64_t)1 << 40, RW_Q16_ONE, rw_max64(cwnd_q16, RW_Q16_ONE));
}

/* What an ACK leaves for congestion avoidance after slow start, segments in Q16. */
RW_INLINE uint64_t rw_after_slow_start(struct rw_path *p, const struct rw_ack *ack)
{
	uint64_t acked_q16 = (uint64_t)ack->acked_segments << 16;
	return rw_in_slow_start(p) ? rw_slow_start(p, acked_q16) : acked_q16;
}

/* ssthresh = w / 2: fractional, or whole segments as Linux. */
RW_INLINE void rw_halve(struct rw_path *p, int whole, int64_t floor_q16)
{
	uint64_t w = p->cwnd_q16;
	rw_set_ssthresh(p, whole ? (w >> 17) << 16 : w - (w >> 1), floor_q16);
}

/* ssthresh = w - d. */
RW_INLINE void rw_decrease(struct rw_path *p, uint64_t d_q16, int64_t floor_q16)
{
	rw_set_ssthresh(p, p->cwnd_q16 > d_q16 ? p->cwnd_q16 - d_q16 : 0, floor_q16);
}

RW_INLINE void rw_congestion_avoidance_q40(struct rw_path *p, uint64_t step_q40, uint64_t acked_q16)
{
	rw_grow_q40(p, rw_multiply_divide(step_q40, acked_q16, RW_Q16_ONE));
}

/*
 * Linux's integer form: cnt counts acked segments, every `divisor` of them is one segment of window. Credit that a
 * larger divisor left over is paid out as one segment only.
 */
RW_INLINE void rw_additive_increase(struct rw_path *p, uint32_t divisor, uint32_t acked_segments)
{
	if (p->cwnd_cnt >= divisor) {
		p->cwnd_cnt = 0;
		p->cwnd_q16 += RW_Q16_ONE;
	}
	p->cwnd_cnt += acked_segments;
	if (p->cwnd_cnt >= divisor) {
		uint32_t k = p->cwnd_cnt / divisor;
		p->cwnd_cnt -= k * divisor;
		p->cwnd_q16 += (uint64_t)k << 16;
	}
	p->cwnd_q16 = rw_min64(p->cwnd_q16, RW_CWND_MAX_Q16);
}

/* NewReno's congestion avoidance: fractional, or whole segments as Linux, of which acked_q16 then has only whole ones. */
RW_INLINE void rw_reno_avoidance(struct rw_path *p, int whole, uint64_t acked_q16)
{
	if (whole)
		rw_additive_increase(p, (uint32_t)rw_max64(p->cwnd_q16 >> 16, 1), (uint32_t)(acked_q16 >> 16));
	else
		rw_congestion_avoidance_q40(p, rw_reno_step_q40(p->cwnd_q16), acked_q16);
}

/*
 * The sums every coupled rule is made of, with RTTs as ratios to the smallest, rho_k = R_k / min R:
 * S = sum w_k / rho_k, Q = sum w_k / rho_k^2, B = max w_k / rho_k^2; 27 fractional bits (8 windows of 2^20 fit).
 */
struct rw_sums {
	uint64_t s_q27, q_q27, best_q27, total_q16, rtt_min_ns;
	uint32_t paths;
};

#define RW_RHO_MAX_Q16 ((uint64_t)1 << 36)

RW_INLINE uint64_t rw_rho_q16(uint64_t rtt_ns, uint64_t rtt_min_ns)
{
	if (rtt_ns == rtt_min_ns && rtt_ns) /* without dividing: the only subflow, and one of several */
		return RW_Q16_ONE;
	return rw_min64(rw_multiply_divide(rtt_ns, RW_Q16_ONE, rw_max64(rtt_min_ns, 1)), RW_RHO_MAX_Q16);
}

enum { RW_ALL_GROUPS = 0 };

/* The set that it is coupled with: only a final one couples (SB-CC paper, III.A). 0: none. */
RW_INLINE uint32_t rw_final_group(const struct rw_path *p) { return p->group_state == RW_GROUP_FINAL ? p->group : 0; }

/* Does it take part in sums over the rates of a group, or of all? */
RW_INLINE int rw_counts_in(const struct rw_path *p, uint32_t group)
{
	return rw_counts(p) && (group == RW_ALL_GROUPS || rw_final_group(p) == group);
}

/* a / rho. */
RW_INLINE uint64_t rw_over_rho(uint64_t a, uint64_t rho_q16)
{
	return rho_q16 == RW_Q16_ONE ? a : rw_multiply_divide(a, RW_Q16_ONE, rho_q16);
}

/* w_k / rho_k, Q27. */
RW_INLINE uint64_t rw_rate_at_q27(const struct rw_path *p, uint64_t rho_q16)
{
	uint64_t w = rw_window_q16(p);
	return rho_q16 == RW_Q16_ONE ? w << 11 : (w << 27) / rho_q16;
}

RW_INLINE uint64_t rw_rate_q27(const struct rw_path *p, uint64_t rtt_min_ns)
{
	return rw_rate_at_q27(p, rw_rho_q16(p->srtt_ns, rtt_min_ns));
}

/* w_k / rho_k^2, Q27. */
RW_INLINE uint64_t rw_quad_q27(const struct rw_path *p, uint64_t rtt_min_ns)
{
	uint64_t rho_q16 = rw_rho_q16(p->srtt_ns, rtt_min_ns);
	return rw_over_rho(rw_rate_at_q27(p, rho_q16), rho_q16);
}

/* Returns how many paths there are in the sums. */
RW_CALL uint32_t rw_add_up(const struct rw_connection *c RW_NEVER_NULL, uint32_t group,
			   struct rw_sums *sums RW_NEVER_NULL)
{
	struct rw_sums t = {0, 0, 0, 0, UINT64_MAX, 0};
	/* The short way: most flows are plain TCP. */
	if (RW_SHORT_WAY(rw_path_count(c) == 1) && rw_counts_in(&c->path[0], group)) {
		uint64_t w = rw_window_q16(&c->path[0]);
		struct rw_sums alone = {w << 11, w << 11, w << 11, w, c->path[0].srtt_ns, 1};
		*sums = alone;
		return 1;
	}
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (rw_counts_in(&c->path[i], group))
			t.rtt_min_ns = rw_min64(t.rtt_min_ns, c->path[i].srtt_ns);
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		if (!rw_counts_in(p, group))
			continue;
		uint64_t rho_q16 = rw_rho_q16(p->srtt_ns, t.rtt_min_ns);
		uint64_t rate = rw_rate_at_q27(p, rho_q16), quad = rw_over_rho(rate, rho_q16);
		t.s_q27 += rate;
		t.q_q27 += quad;
		t.best_q27 = rw_max64(t.best_q27, quad);
		t.total_q16 += rw_window_q16(p);
		t.paths++;
	}
	*sums = t;
	return t.paths;
}

RW_INLINE struct rw_sums rw_sum_group(const struct rw_connection *c, uint32_t group)
{
	struct rw_sums t = {0, 0, 0, 0, 0, 0};
	rw_add_up(c, group, &t);
	return t;
}

RW_INLINE struct rw_sums rw_sum_paths(const struct rw_connection *c) { return rw_sum_group(c, RW_ALL_GROUPS); }

/* (w/R^2) / (sum w_k/R_k)^2 for each acked segment: the step of Kelly and Voice. t must have a path. */
RW_INLINE uint64_t rw_coupled_step_q40(const struct rw_sums *t, const struct rw_path *p)
{
	uint64_t share_q50 = rw_multiply_divide(rw_quad_q27(p, t->rtt_min_ns), (uint64_t)1 << 50, t->s_q27);
	return rw_multiply_divide(share_q50, 1 << 17, t->s_q27);
}

/* log2(x) for x >= 1 in Q32, by repeated squaring: each square yields one bit. */
RW_CALL uint64_t rw_log2_q32(uint64_t x_q32)
{
	int top = 63 - rw_leading_zeros(x_q32);
	uint64_t result = (uint64_t)(top - 32) << 32;
	uint64_t m = x_q32 << (63 - top); /* mantissa in [1, 2), Q63 */
	for (int i = 31; i >= 0; i--) {
		struct rw_u128 sq = rw_multiply_wide(m, m); /* Q126, in [1, 4) */
		if (sq.high >> 63) {
			result |= (uint64_t)1 << i;
			m = sq.high;
		} else {
			m = (sq.high << 1) | (sq.low >> 63);
		}
	}
	return result;
}

/* 2^x - 1 in Q32 for x in Q32; saturates at 2^20 - 1. */
RW_CALL uint64_t rw_exp2_minus_one_q32(uint64_t x_q32)
{
	/* 2^(2^-i) in Q62 for i = 1..32 */
	static const uint64_t root[32] = {
	    0x5a827999fcef3242, 0x4c1bf828c6dc54b8, 0x45cae0f1f545eb73, 0x42d561b3e6243d8a, 0x4166c34c5615d0ec,
	    0x40b268f9de0183ba, 0x4058f6a7ecccd5b6, 0x402c6be96af2fb58, 0x4016321b687027a8, 0x400b18178ba33b14,
	    0x40058bce410147e8, 0x4002c5d7bff71daf, 0x400162e807ee7e5b, 0x4000b1730df6a524, 0x400058b9497b8152,
	    0x40002c5c955dd701, 0x4000162e46d6f26c, 0x40000b1722757b1b, 0x4000058b90fd3e0c, 0x400002c5c86f3f26,
	    0x40000162e433c79b, 0x400000b17218edd0, 0x40000058b90c3968, 0x4000002c5c860d54, 0x400000162e4302d2,
	    0x4000000b17218073, 0x400000058b90bffc, 0x40000002c5c85fef, 0x4000000162e42ff3, 0x40000000b17217f9,
	    0x4000000058b90bfc, 0x400000002c5c85fe};
	if (x_q32 >> 32 >= 20)
		return (((uint64_t)1 << 20) - 1) << 32;
	uint64_t y = (uint64_t)1 << 62;
	for (int i = 0; i < 32; i++)
		if (x_q32 & ((uint64_t)1 << (31 - i))) {
			struct rw_u128 p = rw_multiply_wide(y, root[i]); /* Q124 */
			y = (p.high << 2) | (p.low >> 62);
		}
	uint32_t whole = (uint32_t)(x_q32 >> 32);
	/* y is Q62 in [1, 2): to Q32 after the shift by the whole part */
	uint64_t value = whole >= 30 ? UINT64_MAX : y >> (30 - whole);
	return value - ((uint64_t)1 << 32);
}

/*
 * CSS paper IV.A: 65535 bytes, the ssthresh that a subflow begins with in the papers' simulations, in segments. At least two
 * segments, which is the least ssthresh of RFC 5681 (eq. 4): a damaged capture may announce any MSS.
 */
#define STATIC_SSTHRESH_BYTES 65535

RW_INLINE uint64_t rw_static_ssthresh_q16(const struct rw_connection *c)
{
	return rw_max64(((uint64_t)STATIC_SSTHRESH_BYTES << 16) / (c->mss_bytes ? c->mss_bytes : 1460), 2 * RW_Q16_ONE);
}

/* The ssthresh that a subflow begins with, by the option `ssthresh`. whole: in whole segments. */
RW_INLINE uint64_t rw_first_ssthresh_q16(const struct rw_connection *c, int is_static, int whole)
{
	uint64_t segments_q16 = rw_static_ssthresh_q16(c);
	return !is_static ? RW_SSTHRESH_UNSET : whole ? segments_q16 >> 16 << 16 : segments_q16;
}

/* A subflow in its initial slow start begins with that. */
RW_INLINE void rw_begin_with_ssthresh(struct rw_connection *c, uint32_t path, int is_static, int whole)
{
	if (c->path[path].initial)
		c->path[path].ssthresh_q16 = rw_first_ssthresh_q16(c, is_static, whole);
}

#endif
