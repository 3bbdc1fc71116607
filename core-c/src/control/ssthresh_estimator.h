/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Estimates of a slow-start threshold, one for each path in its first slow start.
 *
 *   static     65535 bytes
 *   hoe        Hoe 1996: the rate of three closely spaced ACKs by least squares, times the RTT; the first one, from the
 *              fifth on the median of the last five
 *   hystart    Linux's HyStart: the window where a train of ACKs, or the delay of a round trip, has grown too long
 *   hystart++  RFC 9406: the window after five rounds of its Conservative Slow Start
 *
 * Conservative Slow Start is abbreviated CSS in RFC 9406; it is not Coupled Slow-Start.
 */
#ifndef RW_SSTHRESH_ESTIMATOR_H
#define RW_SSTHRESH_ESTIMATOR_H

#include "fixed_point.h"
#include "hystart.h"

enum { ESTIMATOR_STATIC, ESTIMATOR_HOE, ESTIMATOR_HYSTART, ESTIMATOR_HYSTARTPP };

/* Places among a path's words: the estimate, and what the estimator keeps. */
enum { PATH_ESTIMATE_Q16 = 1, PATH_ESTIMATOR };

#define RW_ESTIMATOR_PATH_WORDS {"ssth", 1, PATH_ESTIMATE_Q16, 16, 0}

enum { HOE_POINTS = 3, HOE_ESTIMATES = 5 };

struct __attribute__((may_alias)) rw_hoe {
	int64_t time_ns[HOE_POINTS];
	uint32_t acked_segments[HOE_POINTS];  /* since the first point */
	uint32_t estimate_segments[HOE_ESTIMATES];
	uint32_t rtt_min_us;
	uint8_t points, estimates, next; /* how many there are; the place of the next estimate */
};
_Static_assert(sizeof(struct rw_hoe) <= (RW_PATH_WORDS - PATH_ESTIMATOR) * sizeof(uint64_t), "the state fits");

struct __attribute__((may_alias)) rw_hystart {
	int64_t round_start_ns, last_ack_ns;
	uint32_t delay_min_us, round_min_us, round_end, samples;
	uint8_t started, found;
};
_Static_assert(sizeof(struct rw_hystart) <= (RW_PATH_WORDS - PATH_ESTIMATOR) * sizeof(uint64_t), "the state fits");

struct __attribute__((may_alias)) rw_hystartpp {
	uint32_t last_min_us, round_min_us, baseline_us, round_end, samples; /* UINT32_MAX: none yet */
	uint8_t started, conservative, rounds, over;
};
_Static_assert(sizeof(struct rw_hystartpp) <= (RW_PATH_WORDS - PATH_ESTIMATOR) * sizeof(uint64_t), "the state fits");

RW_INLINE uint32_t estimator_us(uint64_t ns) { return (uint32_t)rw_max64(rw_min64(ns / 1000, UINT32_MAX - 1), 1); }

/* The middle one of five: the one that two are not above. */
RW_INLINE uint32_t median_of_five(const uint32_t *value)
{
	for (int i = 0; i < HOE_ESTIMATES; i++) {
		int below = 0, same = 0;
		for (int k = 0; k < HOE_ESTIMATES; k++) {
			below += value[k] < value[i];
			same += value[k] == value[i];
		}
		if (below <= 2 && below + same > 2)
			return value[i];
	}
	return value[0];
}

/* floor(R cov(t, s) / var(t)), at least 2; 0 when all were acknowledged at once. */
RW_INLINE uint32_t hoe_estimate(const struct rw_hoe *h)
{
	uint64_t t1 = (uint64_t)(h->time_ns[1] - h->time_ns[0]), t2 = (uint64_t)(h->time_ns[2] - h->time_ns[0]);
	uint64_t s1 = h->acked_segments[1] - h->acked_segments[0], s2 = h->acked_segments[2] - h->acked_segments[0];
	uint64_t rtt = (uint64_t)h->rtt_min_us * 1000;
	for (int i = 0; i < 34; i++)
		if (t2 >> 30) { /* the squares must fit */
			t1 >>= 1;
			t2 >>= 1;
			rtt >>= 1;
		}
	uint64_t variance = 3 * (t1 * t1 + t2 * t2) - (t1 + t2) * (t1 + t2);
	uint64_t covariance = 3 * (t1 * s1 + t2 * s2) - (t1 + t2) * (s1 + s2);
	if (variance == 0)
		return 0;
	return (uint32_t)rw_max64(rw_min64(rw_multiply_divide(covariance, rtt, variance), RW_CWND_MAX_Q16 >> 16), 2);
}

RW_INLINE void hoe_delivered(struct rw_path *p, const struct rw_ack *ack)
{
	struct rw_hoe *h = (struct rw_hoe *)&p->word[PATH_ESTIMATOR];
	if (h->rtt_min_us == 0)
		return;
	uint64_t gap_most_ns = (uint64_t)h->rtt_min_us * 500;
	uint32_t last = h->points - 1u, place = 0, so_far = 0;
	/* Not closely spaced, or going back: this point is the first of the next three. */
	if (last < HOE_POINTS - 1 && ack->time_ns >= h->time_ns[last] &&
	    (uint64_t)(ack->time_ns - h->time_ns[last]) <= gap_most_ns) {
		place = last + 1;
		so_far = h->acked_segments[last] + ack->acked_segments;
	}
	h->time_ns[place] = ack->time_ns;
	h->acked_segments[place] = so_far;
	h->points = (uint8_t)(place + 1);
	if (h->points < HOE_POINTS)
		return;
	h->points = 0;
	uint32_t estimate = hoe_estimate(h);
	if (estimate == 0)
		return;
	place = h->next < HOE_ESTIMATES ? h->next : 0;
	h->estimate_segments[place] = estimate;
	h->next = (uint8_t)(place + 1);
	if (h->estimates < HOE_ESTIMATES)
		h->estimates++;
	if (h->estimates == 1)
		p->word[PATH_ESTIMATE_Q16] = (uint64_t)estimate << 16;
	else if (h->estimates == HOE_ESTIMATES)
		p->word[PATH_ESTIMATE_Q16] = (uint64_t)median_of_five(h->estimate_segments) << 16;
}

RW_INLINE void hystart_rtt(struct rw_path *p, const struct rw_ack *ack)
{
	struct rw_hystart *h = (struct rw_hystart *)&p->word[PATH_ESTIMATOR];
	uint32_t us = estimator_us(ack->rtt_newest_ns);
	if (h->found || ack->rtt_newest_ns == 0)
		return;
	if (h->delay_min_us == 0 || us < h->delay_min_us)
		h->delay_min_us = us;
	if (!h->started || (int32_t)(ack->una - h->round_end) > 0) {
		h->started = 1;
		h->round_start_ns = h->last_ack_ns = ack->time_ns;
		h->round_end = ack->next;
		h->round_min_us = UINT32_MAX;
		h->samples = 0;
	}
	if (p->cwnd_q16 >> 16 < HYSTART_LOW_WINDOW)
		return;
	if (ack->time_ns - h->last_ack_ns <= HYSTART_TRAIN_NS) {
		h->last_ack_ns = ack->time_ns;
		h->found |=
		    rw_hystart_train_fills(ack->time_ns - h->round_start_ns, h->delay_min_us, HYSTART_ACK_DELAY_US);
	}
	h->round_min_us = (uint32_t)rw_min64(h->round_min_us, us);
	if (h->samples < HYSTART_SAMPLES)
		h->samples++;
	else
		h->found |= h->round_min_us > h->delay_min_us + rw_hystart_margin_us(h->delay_min_us);
	if (h->found)
		p->word[PATH_ESTIMATE_Q16] = p->cwnd_q16;
}

enum { HYSTARTPP_SAMPLES = 8, HYSTARTPP_ROUNDS = 5, HYSTARTPP_DIVISOR = 4, HYSTARTPP_L = 8 };

RW_INLINE void hystartpp_round(struct rw_path *p, struct rw_hystartpp *h, const struct rw_ack *ack)
{
	h->last_min_us = h->started ? h->round_min_us : UINT32_MAX;
	h->round_min_us = UINT32_MAX;
	h->samples = 0;
	h->round_end = ack->next;
	h->started = 1;
	if (h->conservative && ++h->rounds >= HYSTARTPP_ROUNDS) {
		h->over = 1;
		p->word[PATH_ESTIMATE_Q16] = p->cwnd_q16;
	}
}

RW_INLINE void hystartpp_rtt(struct rw_path *p, const struct rw_ack *ack)
{
	struct rw_hystartpp *h = (struct rw_hystartpp *)&p->word[PATH_ESTIMATOR];
	if (h->over || ack->rtt_newest_ns == 0)
		return;
	if (!h->started || (int32_t)(ack->una - h->round_end) >= 0)
		hystartpp_round(p, h, ack);
	h->round_min_us = (uint32_t)rw_min64(h->round_min_us, estimator_us(ack->rtt_newest_ns));
	h->samples++;
	if (h->over || h->samples < HYSTARTPP_SAMPLES)
		return;
	if (h->conservative && h->round_min_us < h->baseline_us) {
		h->conservative = h->rounds = 0; /* the delay had not grown for good */
	} else if (!h->conservative && h->last_min_us != UINT32_MAX &&
		   h->round_min_us >= (uint64_t)h->last_min_us + rw_hystart_margin_us(h->last_min_us)) {
		h->conservative = 1;
		h->baseline_us = h->round_min_us;
	}
}

/* Every ACK of new segments, before its RTT sample. */
RW_INLINE void rw_estimator_delivered(struct rw_path *p, int64_t estimator, const struct rw_ack *ack)
{
	if (estimator == ESTIMATOR_HOE)
		hoe_delivered(p, ack);
}

/* Every RTT sample; one without a time on the clock is the handshake's. */
RW_INLINE void rw_estimator_rtt(struct rw_path *p, int64_t estimator, const struct rw_ack *ack)
{
	if (estimator == ESTIMATOR_HOE) {
		struct rw_hoe *h = (struct rw_hoe *)&p->word[PATH_ESTIMATOR];
		uint32_t us = estimator_us(ack->rtt_ns);
		if (ack->rtt_ns && (h->rtt_min_us == 0 || us < h->rtt_min_us))
			h->rtt_min_us = us;
	} else if (estimator == ESTIMATOR_HYSTART) {
		hystart_rtt(p, ack);
	} else if (estimator == ESTIMATOR_HYSTARTPP) {
		hystartpp_rtt(p, ack);
	}
}

/* What slow start may grow by on an ACK, segments in Q16. */
RW_INLINE uint64_t rw_estimator_growth_q16(const struct rw_path *p, int64_t estimator, uint32_t acked_segments)
{
	if (estimator != ESTIMATOR_HYSTARTPP)
		return (uint64_t)acked_segments << 16;
	const struct rw_hystartpp *h = (const struct rw_hystartpp *)&p->word[PATH_ESTIMATOR];
	uint64_t growth_q16 = rw_min64(acked_segments, HYSTARTPP_L) << 16;
	return h->conservative ? growth_q16 / HYSTARTPP_DIVISOR : growth_q16;
}

#endif
