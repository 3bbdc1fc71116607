/* What schedulers have in common: who may send, how much, and which data. */
#ifndef RW_SENDING_H
#define RW_SENDING_H

#include "fixed_point.h"
#include "rw_scheduler.h"

RW_INLINE uint32_t rw_subflow_count(const struct rw_sending *s)
{
	return s->subflows < RW_MAX_PATHS ? s->subflows : RW_MAX_PATHS;
}
RW_INLINE uint32_t rw_span_count(const struct rw_send_queue *q)
{
	return q->spans < RW_MAX_SPANS ? q->spans : RW_MAX_SPANS;
}

/* A subflow with a full window can send too: the next ACK makes room. */
RW_INLINE int rw_can_send(const struct rw_sender_subflow *f) { return f->established && !f->lost; }

/* The subflows in use: those that can send; backups only when no other can. One bit for each. */
RW_INLINE uint32_t rw_subflows_in_use(const struct rw_sending *s)
{
	uint32_t active = 0, backups = 0;
	for (uint32_t i = 0; i < rw_subflow_count(s); i++)
		if (rw_can_send(&s->subflow[i])) {
			if (s->subflow[i].backup)
				backups |= 1u << i;
			else
				active |= 1u << i;
		}
	return active ? active : backups;
}

/* Segments that the window has room for, beyond those already queued on the subflow. */
RW_INLINE uint64_t rw_space(const struct rw_sender_subflow *f)
{
	uint64_t window = f->cwnd_q16 >> 16, used = (uint64_t)f->in_flight + f->queued;
	return window > used ? window - used : 0;
}

RW_INLINE uint64_t rw_order_of(const struct rw_sender_subflow *f) { return f->srtt_ns ? f->srtt_ns : UINT64_MAX; }

/* A subflow carries a segment a second time only after every subflow carried it. */
RW_INLINE int rw_may_carry(uint32_t sent_on, uint32_t in_use, uint32_t i)
{
	return !(sent_on >> i & 1) || (in_use & ~sent_on) == 0;
}

RW_INLINE void rw_wait(struct rw_decision *d)
{
	d->kind = RW_DECISION_WAIT;
	d->subflow = RW_NO_SUBFLOW;
	d->first = d->segments = d->skipped = 0;
	d->penalized = 0;
}

RW_INLINE int rw_data_waits(const struct rw_send_queue *q) { return rw_span_count(q) && q->span[0].segments; }
/* Data waits, and the receive window is full. */
RW_INLINE int rw_window_is_full(const struct rw_send_queue *q)
{
	return rw_data_waits(q) && q->window_end <= q->span[0].first;
}

/*
 * Gives subflow i at most `most` segments of one span, from the `skip`-th segment on that no subflow has. Returns how many.
 * 0: there are none, the receive window ends before them, or this subflow must not carry them.
 */
RW_INLINE int rw_take(const struct rw_sending *s, uint32_t in_use, uint32_t i, uint64_t skip, uint64_t most,
		      struct rw_decision *d)
{
	const struct rw_send_queue *q = &s->queue;
	uint64_t left = skip;
	for (uint32_t k = 0; k < rw_span_count(q); k++) {
		const struct rw_span *span = &q->span[k];
		if (left >= span->segments) {
			left -= span->segments;
			continue;
		}
		uint64_t first = span->first + left;
		if (most == 0 || first >= q->window_end || !rw_may_carry(span->sent_on, in_use, i))
			return 0;
		d->kind = RW_DECISION_SEND;
		d->subflow = i;
		d->first = first;
		d->segments = rw_min64(most, rw_min64(span->segments - left, q->window_end - first));
		d->skipped = skip;
		return 1;
	}
	return 0;
}

#endif
