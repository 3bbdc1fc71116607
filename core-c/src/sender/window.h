/*
 * Linux's machinery around a controller's window: when it may grow, how it falls during a reduction (RFC 6937), how an idle time
 * reduces it (RFC 2861), and how an undo restores it. The controller decides how it grows and to which ssthresh it falls.
 *
 * Windows are segments in Q16, as in rw_control.h; ssthresh is RW_SSTHRESH_UNSET in the initial slow start.
 */
#ifndef RW_WINDOW_H
#define RW_WINDOW_H

#include <stdint.h>

#include "rw_control.h"
#include "sequence.h"

/* Whole segments of a window. */
static inline uint32_t rw_window_segments(uint64_t window_q16)
{
	return window_q16 >> 16 > UINT32_MAX ? UINT32_MAX : (uint32_t)(window_q16 >> 16);
}

/* A window of n segments, at most the largest window. */
static inline uint64_t rw_window_of(uint64_t n) { return n < RW_CWND_MAX_Q16 >> 16 ? n << 16 : RW_CWND_MAX_Q16; }

/* The sender's use of the window, evaluated once in each round trip. */
struct rw_window_use {
	uint32_t packets_out_max; /* most unacknowledged segments */
	uint32_t until;           /* the round trip ends when this sequence number is acknowledged */
	uint8_t limited;          /* the window was the limit */
};

/*
 * Called after sending, at the next ACK. limited: the window limited the sender. una, next: before that ACK. Within a round trip
 * only a larger use of the window changes the result.
 */
static inline void rw_window_used(struct rw_window_use *use, int limited, uint32_t packets_out, uint32_t una,
				  uint32_t next)
{
	if (rw_seq_diff(una, use->until) < 0 && !limited && (use->limited || packets_out <= use->packets_out_max))
		return;
	use->limited = (uint8_t)limited;
	use->packets_out_max = packets_out;
	use->until = next;
}

/* Whether the window may grow: in slow start up to twice the flight, else only while it is the limit. */
static inline int rw_window_may_grow(const struct rw_window_use *use, uint64_t cwnd_q16, uint64_t ssthresh_q16)
{
	if (use->limited)
		return 1;
	return cwnd_q16 < ssthresh_q16 && cwnd_q16 >> 16 < 2ull * use->packets_out_max;
}

/* Proportional rate reduction, from the reduction's beginning on. */
struct rw_prr {
	uint32_t delivered, out; /* segments */
};

/* One ACK during a reduction. */
struct rw_prr_ack {
	uint32_t in_flight; /* after it */
	uint32_t delivered, newly_lost;
	uint8_t advanced;   /* una did */
};

/* The window in segments. ssthresh: the target; prior: the window before the reduction; ack->delivered must not be 0. */
uint64_t rw_prr_window(struct rw_prr *prr, uint32_t ssthresh, uint32_t prior, const struct rw_prr_ack *ack);

/*
 * The window after an idle time of this many retransmission timeouts: half for each, but not below the initial one. A window that has
 * no more whole segments than the initial one stays, with its fraction.
 */
uint64_t rw_window_after_idle(uint64_t cwnd_q16, uint32_t initial_segments, uint32_t timeouts);

/* The ssthresh after an undo or an idle time: at least three quarters of the window. */
uint64_t rw_window_kept_ssthresh(uint64_t cwnd_q16, uint64_t ssthresh_q16);

#endif
