/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * CUBIC as RFC 9438 has it (sections 4.1 to 4.7), which mode=paper runs.
 *
 *   epoch      begins with congestion avoidance: K = cbrt((W_max - w)/C), W_est = w; without a loss before it, or after a
 *              timeout: W_max = w, K = 0. Also where W_max < w, which a floored ssthresh can bring about
 *   ACK        W_est += alpha acked / w, alpha = 9/17, 1 from W_est >= cwnd_prior on
 *              W(t) = C (t - K)^3 + W_max; W(t) < W_est: w = max(w, W_est)
 *              else w += acked (clamp(W(t + R), w, 1.5 w) - w) / w
 *   loss, ECE  W_max = w, or w (1 + beta)/2 when below the last one; cwnd_prior = w; ssthresh = beta w, beta = 0.7
 *   timeout    the same, then W_max is forgotten
 *
 * C = 0.4 segments/s^3, R the smoothed RTT. ssthresh follows the window, not the flight, which a window that grows fills.
 * t counts what passed between two ACKs when the later one may raise the window, without idle time: where the
 * application limits the flight, it stands still.
 */
#ifndef RW_CUBIC_RFC9438_H
#define RW_CUBIC_RFC9438_H

#include "fixed_point.h"

/*
 * Words of the path: windows in segments, times in seconds unless the name says otherwise. Words 4 and 5 are HyStart's,
 * and until an epoch begins those of K, PENDING_NS and UNTIL_NS are, too.
 */
enum {
	PAPER_W_MAX_Q40 = 0,
	PAPER_CWND_PRIOR_Q40 = 1,
	PAPER_K_Q32 = 2,
	PAPER_T_Q40 = 3,
	PAPER_W_EPOCH_Q40 = 6, /* 0: no epoch */
	PAPER_W_EST_Q40 = 7,
	PAPER_PENDING_NS = 8, /* since the ACK before this one */
	PAPER_UNTIL_NS = 9    /* when the last ACK came, and 1; 0: none did in this epoch */
};

#define PAPER_TIME_MAX_Q32 ((uint64_t)1 << 40) /* 256 s: C t^3 is 6 times the largest window */
#define PAPER_WINDOW_MAX_Q40 ((uint64_t)1 << 62)

RW_INLINE uint64_t rfc9438_cwnd_q40(const struct rw_path *p) { return (p->cwnd_q16 << 24) + p->cwnd_rem_q40; }

/* The root, with the bit where the cube of that is not above the number of two words. */
RW_CALL uint64_t rfc9438_root_bit(uint64_t root, uint32_t bit, uint64_t high, uint64_t low)
{
	uint64_t trial = root | (uint64_t)1 << (bit & 63);
	struct rw_u128 square = rw_multiply_wide(trial, trial), cube = rw_multiply_wide(square.low, trial);
	cube.high += square.high * trial;
	return cube.high < high || (cube.high == high && cube.low <= low) ? trial : root;
}

/* cbrt(d / 0.4) in Q32 seconds, rounded down, bit by bit; d in Q40 segments, at most 2^20 of them. */
RW_INLINE uint64_t rfc9438_k_q32(uint64_t d_q40)
{
	/* K^3 in Q96 */
	uint64_t d5 = rw_min64(d_q40, (uint64_t)1 << 60) * 5, high = d5 >> 9, low = d5 << 55, k = 0;
	for (int bit = 39; bit >= 0; bit--)
		k = rfc9438_root_bit(k, (uint32_t)bit, high, low);
	return k;
}

/* W(t), Q40 segments. */
RW_INLINE uint64_t rfc9438_window_q40(const struct rw_path *p, uint64_t t_q32)
{
	uint64_t k = rw_min64(p->word[PAPER_K_Q32], PAPER_TIME_MAX_Q32), w_max = p->word[PAPER_W_MAX_Q40];
	uint64_t off = rw_min64(t_q32 < k ? k - t_q32 : t_q32 - k, PAPER_TIME_MAX_Q32);
	uint64_t square_q40 = rw_multiply_divide(off, off, 1 << 24);
	uint64_t cube_q40 = rw_multiply_divide(square_q40, off, 5ull << 31); /* 0.4 of it */
	if (t_q32 < k)
		return w_max > cube_q40 ? w_max - cube_q40 : 0;
	return w_max + cube_q40;
}

RW_INLINE void rfc9438_delivered(struct rw_path *p, const struct rw_ack *ack)
{
	if (!p->word[PAPER_W_EPOCH_Q40])
		return;
	int64_t since = ack->time_ns - (int64_t)(p->word[PAPER_UNTIL_NS] - 1);
	p->word[PAPER_PENDING_NS] = p->word[PAPER_UNTIL_NS] && since > 0 ? (uint64_t)since : 0;
	p->word[PAPER_UNTIL_NS] = (uint64_t)ack->time_ns + 1;
}

RW_INLINE void rfc9438_idle(struct rw_path *p, int64_t now_ns, uint64_t idle_ns)
{
	uint64_t until = p->word[PAPER_UNTIL_NS];
	if (p->word[PAPER_W_EPOCH_Q40] && until)
		p->word[PAPER_UNTIL_NS] = rw_min64(until + idle_ns, (uint64_t)now_ns + 1);
}

RW_INLINE void rfc9438_begin_epoch(struct rw_path *p, const struct rw_ack *ack)
{
	p->word[PAPER_W_EPOCH_Q40] = p->word[PAPER_W_EST_Q40] = rfc9438_cwnd_q40(p);
	p->word[PAPER_K_Q32] = p->word[PAPER_T_Q40] = p->word[PAPER_PENDING_NS] = 0;
	p->word[PAPER_UNTIL_NS] = (uint64_t)ack->time_ns + 1;
}

RW_INLINE void rfc9438_avoidance(struct rw_path *p, const struct rw_ack *ack, uint64_t acked_q16)
{
	uint64_t *word = p->word, w = rfc9438_cwnd_q40(p), acked_q40 = acked_q16 << 24;
	if (!word[PAPER_W_EPOCH_Q40])
		rfc9438_begin_epoch(p, ack);
	word[PAPER_W_MAX_Q40] =
	    rw_max64(rw_min64(word[PAPER_W_MAX_Q40], PAPER_WINDOW_MAX_Q40), word[PAPER_W_EPOCH_Q40]);
	if (!word[PAPER_K_Q32] && word[PAPER_W_MAX_Q40] > word[PAPER_W_EPOCH_Q40])
		word[PAPER_K_Q32] = rfc9438_k_q32(word[PAPER_W_MAX_Q40] - word[PAPER_W_EPOCH_Q40]);
	word[PAPER_T_Q40] =
	    rw_min64(word[PAPER_T_Q40] + rw_multiply_divide(word[PAPER_PENDING_NS], (uint64_t)1 << 40, 1000000000),
		     (uint64_t)1 << 62);
	word[PAPER_PENDING_NS] = 0;

	uint64_t step = rw_multiply_divide(acked_q40, (uint64_t)1 << 40, w);
	if (word[PAPER_W_EST_Q40] < word[PAPER_CWND_PRIOR_Q40])
		step = rw_multiply_divide(step, 9, 17);
	word[PAPER_W_EST_Q40] = rw_min64(word[PAPER_W_EST_Q40] + step, PAPER_WINDOW_MAX_Q40);

	uint64_t t_q32 = word[PAPER_T_Q40] >> 8,
		 rtt_q32 = rw_multiply_divide(p->srtt_ns, (uint64_t)1 << 32, 1000000000);
	uint64_t target;
	if (rfc9438_window_q40(p, t_q32) < word[PAPER_W_EST_Q40]) {
		target = rw_max64(word[PAPER_W_EST_Q40], w);
		rw_grow_q40(p, target - w);
		return;
	}
	target = rfc9438_window_q40(p, t_q32 + rw_min64(rtt_q32, PAPER_TIME_MAX_Q32));
	target = rw_max64(rw_min64(target, w + (w >> 1)), w);
	rw_grow_q40(p, rw_multiply_divide(target - w, acked_q40, w));
}

RW_INLINE void rfc9438_reduce(struct rw_path *p, int64_t floor_q16)
{
	uint64_t w = rfc9438_cwnd_q40(p);
	p->word[PAPER_W_MAX_Q40] = w < p->word[PAPER_W_MAX_Q40] ? rw_multiply_divide(w, 17, 20) : w;
	p->word[PAPER_CWND_PRIOR_Q40] = w;
	p->word[PAPER_W_EPOCH_Q40] = p->word[PAPER_W_EST_Q40] = p->word[PAPER_K_Q32] = p->word[PAPER_T_Q40] = 0;
	p->word[PAPER_PENDING_NS] = p->word[PAPER_UNTIL_NS] = 0;
	rw_set_ssthresh(p, rw_multiply_divide(w, 7, 10) >> 24, floor_q16);
}

RW_INLINE void rfc9438_timeout(struct rw_path *p, int64_t floor_q16)
{
	rfc9438_reduce(p, floor_q16);
	for (int i = 0; i < RW_PATH_WORDS; i++)
		if (i != PAPER_CWND_PRIOR_Q40)
			p->word[i] = 0;
}

#endif
