#include "window.h"

/* After this many halvings no window is left. */
enum { HALVINGS_MAX = 40 };

uint64_t rw_prr_window(struct rw_prr *prr, uint32_t ssthresh, uint32_t prior, const struct rw_prr_ack *ack)
{
	int64_t flight = ack->in_flight, room = (int64_t)ssthresh - flight, send;
	prr->delivered += ack->delivered;
	if (room < 0) {
		/* In proportion to the delivered segments. */
		send = prior ? ((int64_t)ssthresh * prr->delivered + prior - 1) / prior - prr->out : 0;
	} else {
		/* The flight is below the target: slow start's pace, bounded by it. */
		send = (int64_t)prr->delivered - prr->out;
		if (send < ack->delivered)
			send = ack->delivered;
		if (ack->advanced && ack->newly_lost == 0)
			send++;
		if (send > room)
			send = room;
	}
	/* The first retransmission always leaves. */
	int64_t least = prr->out ? 0 : 1;
	return (uint64_t)(flight + (send > least ? send : least));
}

uint64_t rw_window_after_idle(uint64_t cwnd_q16, uint32_t initial_segments, uint32_t timeouts)
{
	uint64_t floor = rw_window_of(initial_segments);
	/* The kernel counts whole segments: it leaves a window alone that has no more of them than the initial one. */
	if (rw_window_segments(cwnd_q16) <= initial_segments)
		return cwnd_q16;
	for (uint32_t i = 0; i < timeouts && i < HALVINGS_MAX && cwnd_q16 > floor; i++)
		cwnd_q16 = cwnd_q16 >> 17 << 16;
	return cwnd_q16 > floor ? cwnd_q16 : floor;
}

uint64_t rw_window_kept_ssthresh(uint64_t cwnd_q16, uint64_t ssthresh_q16)
{
	/* Whole segments, as Linux counts: a half and a quarter are each rounded down. */
	uint64_t three_quarters = (cwnd_q16 >> 17 << 16) + (cwnd_q16 >> 18 << 16);
	if (ssthresh_q16 == RW_SSTHRESH_UNSET)
		return RW_SSTHRESH_UNSET;
	return ssthresh_q16 > three_quarters ? ssthresh_q16 : three_quarters;
}
