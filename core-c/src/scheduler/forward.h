/*
 * Forward prediction, which fps and sbfps share: subflow j skips the data that all faster subflows will send
 * while j's next segment is under way, so that all data arrives in order.
 *
 * SEQ2 = SEQ1 + floor(M), M = sum of M_r over the faster subflows in use. Skipped segments are counted among those that
 * no subflow has: a faster subflow will not send what a slower one already has.
 */
#ifndef RW_FORWARD_H
#define RW_FORWARD_H

#include "sending.h"

enum { FORWARD_HORIZON };

#define RW_FORWARD_OPTIONS                                                                                                 \
	{"horizon",                                                                                                        \
	 "half_rtt|difference",                                                                                            \
	 0,                                                                                                                \
	 "half_rtt: R_j/2, as printed; difference: (R_j - R_r)/2, since what r sends in the last R_r/2 arrives after j's", \
	 RW_OPTION_CHOICE,                                                                                                 \
	 0,                                                                                                                \
	 0}

/* More than the rounding error of the divisions (2^-17 of a segment), so that a whole M is not rounded down. */
#define RW_FORWARD_ROUNDING_Q24 128

RW_INLINE int rw_is_faster(const struct rw_sending *s, uint32_t r, uint32_t j)
{
	return s->subflow[r].srtt_ns != 0 && s->subflow[r].srtt_ns < rw_order_of(&s->subflow[j]);
}

/* Twice the time for which r's sending is predicted. r is faster than j; a j without a sample counts as the slowest. */
RW_INLINE uint64_t rw_horizon_ns(const struct rw_sending *s, uint32_t j, uint32_t r)
{
	uint64_t rtt = rw_min64(rw_order_of(&s->subflow[j]), INT64_MAX);
	return s->option[FORWARD_HORIZON] ? rtt - s->subflow[r].srtt_ns : rtt;
}

RW_INLINE uint64_t rw_predicted_window_q16(const struct rw_sender_subflow *f)
{
	uint64_t w = f->recovering && f->ssthresh_q16 != RW_SSTHRESH_UNSET ? f->ssthresh_q16 : f->cwnd_q16;
	return rw_max64(rw_min64(w, RW_CWND_MAX_Q16), RW_Q16_ONE);
}

/* A recovering subflow has left slow start, whatever its window is now. */
RW_INLINE int rw_starts_slowly(const struct rw_sender_subflow *f)
{
	return !f->recovering && f->cwnd_q16 < f->ssthresh_q16;
}

/* The sum of the windows of the whole rounds: they double up to ssthresh, then grow by one segment (FPS). */
RW_INLINE void rw_whole_rounds(const struct rw_sending *s, uint32_t j, uint32_t r, struct rw_forward *f)
{
	const struct rw_sender_subflow *p = &s->subflow[r];
	uint64_t w = rw_predicted_window_q16(p), sum_q16 = 0, most_q16 = RW_FORWARD_MAX << 16;
	uint64_t rounds = rw_horizon_ns(s, j, r) / (rw_min64(p->srtt_ns, INT64_MAX) * 2);
	f->rounds_q24 = rw_min64(rounds, RW_FORWARD_MAX) << 24;
	f->m_q24 = 1 << 24;
	/* From 1 segment, 38 doublings exceed RW_FORWARD_MAX. */
	for (int i = 0; i < 38 && rounds && sum_q16 < most_q16 && rw_starts_slowly(p) && w < p->ssthresh_q16; i++) {
		sum_q16 += w;
		w = rw_min64(2 * w, p->ssthresh_q16);
		rounds--;
	}
	rounds = rw_min64(rounds, (uint64_t)1 << 20); /* more rounds exceed RW_FORWARD_MAX anyway */
	if (sum_q16 < most_q16)
		sum_q16 += rw_min64(rounds * w + (rounds * (rounds ? rounds - 1 : 0) / 2 << 16), most_q16);
	f->segments_q24 = rw_min64(sum_q16, most_q16) << 8;
}

typedef void rw_predict(const struct rw_sending *s, uint32_t j, uint32_t r, struct rw_forward *f);

/* floor(M), at most the send buffer. each: RW_MAX_PATHS. */
RW_INLINE uint64_t rw_forward_sum(const struct rw_sending *s, uint32_t j, struct rw_forward *each, rw_predict *predict)
{
	uint32_t in_use = rw_subflows_in_use(s);
	uint64_t sum_q24 = 0;
	for (uint32_t r = 0; r < RW_MAX_PATHS; r++) {
		each[r].rounds_q24 = each[r].m_q24 = each[r].segments_q24 = 0;
		if (!(in_use >> r & 1) || !rw_is_faster(s, r, j))
			continue;
		predict(s, j, r, &each[r]);
		sum_q24 += each[r].segments_q24;
	}
	return rw_min64((sum_q24 + RW_FORWARD_ROUNDING_Q24) >> 24, s->queue.buffer_segments);
}

/* The fastest subflow with room that finds data behind what is left to faster ones. There may be none: then nobody sends. */
RW_INLINE void rw_forward_pick(const struct rw_sending *s, struct rw_decision *d, rw_predict *predict)
{
	uint32_t in_use = rw_subflows_in_use(s), passed = 0;
	rw_wait(d);
	for (uint32_t turn = 0; turn < rw_subflow_count(s); turn++) {
		struct rw_forward each[RW_MAX_PATHS];
		uint32_t j = RW_NO_SUBFLOW;
		for (uint32_t i = 0; i < rw_subflow_count(s); i++)
			if (in_use >> i & 1 && !(passed >> i & 1) &&
			    (j == RW_NO_SUBFLOW ||
			     rw_order_of(&s->subflow[i]) < rw_order_of(&s->subflow[j % RW_MAX_PATHS])))
				j = i;
		if (j >= RW_MAX_PATHS)
			return;
		passed |= 1u << j;
		uint64_t space = rw_space(&s->subflow[j]);
		if (space && rw_take(s, in_use, j, rw_forward_sum(s, j, each, predict), space, d))
			return;
	}
}

#endif
