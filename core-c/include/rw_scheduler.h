/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The contract that one packet scheduler of MPTCP implements.
 *
 * A scheduler is a pure decision: given the subflows and the data that waits, which subflow sends next, and which data.
 * As with controllers: one C file, plain integers, no libc, no floating point, no loop without a constant bound.
 * Data is counted in segments, as the papers do. What a caller must keep from one decision to the next is in
 * struct rw_sending (`previous`, `since_penalty_ns`).
 */
#ifndef RW_SCHEDULER_H
#define RW_SCHEDULER_H

#include "rw_control.h"

#define RW_MAX_SPANS 16
#define RW_NO_SUBFLOW UINT32_MAX
/* Upper bound of one subflow's prediction, in segments; the sum of seven fits into 64 bits with 24 fractional bits. */
#define RW_FORWARD_MAX ((uint64_t)1 << 37)

/* One subflow as a scheduler sees it. */
struct rw_sender_subflow {
	uint64_t cwnd_q16; /* 1 to 2^20 segments */
	uint64_t ssthresh_q16; /* RW_SSTHRESH_UNSET until set */
	uint64_t srtt_ns; /* 0 before the first sample; such a subflow is chosen after those with a sample */
	/* time since its window was halved because it held up the others; UINT64_MAX: never */
	uint64_t since_penalty_ns;
	uint64_t beta_q32; /* its congestion degree, where a set couples it (SB-CC paper eq. 1): 0 to 1 */
	uint32_t in_flight; /* segments */
	uint32_t queued; /* given to it and not sent yet, segments */
	uint8_t established;
	uint8_t lost; /* in loss state: after a timeout, until it is repaired */
	uint8_t backup; /* to be used when no other can (RFC 8684) */
	uint8_t recovering; /* in fast recovery or CWR: its window is predicted as ssthresh */
	uint8_t group; /* the final set of subflows behind one bottleneck that it is in; 0: none */
};

/* A contiguous span of data that no subflow has yet. */
struct rw_span {
	uint64_t first; /* data sequence, in segments */
	uint64_t segments;
	/*
	 * A bit for each subflow that carried it before; 0: it is new. TCP below retransmits it there until it arrives or the
	 * subflow ends (RFC 8684 section 3.3.6). A caller whose TCP gives data up and keeps the subflow clears the subflow's
	 * bit: else fps and sbfps may wait for ever, where every slower subflow leaves this segment to that one.
	 */
	uint32_t sent_on;
};

struct rw_send_queue {
	/* In the order of the data, without overlaps. The data between two spans was given to slower subflows. */
	struct rw_span span[RW_MAX_SPANS];
	uint32_t spans;
	uint32_t oldest_sent_on; /* a bit for each subflow that carried the oldest unacknowledged segment */
	uint64_t oldest; /* its data sequence */
	uint64_t window_end; /* the first data sequence beyond the receive window */
	uint64_t buffer_segments; /* size of the send buffer */
};

struct rw_sending {
	int64_t option[RW_MAX_OPTIONS]; /* values in the order of the scheduler's option table */
	uint32_t subflows; /* at most RW_MAX_PATHS */
	uint32_t previous; /* the subflow of the previous decision; RW_NO_SUBFLOW: none */
	struct rw_sender_subflow subflow[RW_MAX_PATHS];
	struct rw_send_queue queue;
};

enum rw_decision_kind {
	RW_DECISION_WAIT = 0, /* no subflow sends until something changes */
	RW_DECISION_SEND = 1,
	RW_DECISION_REINJECT = 2 /* the oldest unacknowledged segment, once more, to open the receive window */
};

struct rw_decision {
	uint32_t kind; /* enum rw_decision_kind */
	uint32_t subflow; /* RW_NO_SUBFLOW: none */
	uint64_t first; /* data sequence */
	uint64_t segments; /* how many from `first` on */
	uint64_t skipped; /* segments before `first` that are left to faster subflows */
	uint32_t penalized; /* a bit for each subflow whose window is to be halved: rw_penalize */
};

/* The prediction for a faster subflow: what it sends while a segment of a slower subflow is under way. */
struct rw_forward {
	uint64_t rounds_q24; /* of its round trips */
	uint64_t m_q24; /* round trips for one segment of window: 1 or more; saturates */
	uint64_t segments_q24; /* at most RW_FORWARD_MAX */
};

struct rw_scheduler {
	const char *name;
	const char *source; /* paper and section, RFC */
	const char *rule; /* one line */
	const char *deviations; /* from the print, and why; "none" first where there are none */
	const struct rw_option *options; /* ends with a null name */
	void (*pick)(const struct rw_sending *s, struct rw_decision *d);
	/* Optional: how many segments subflow j leaves to faster subflows. each: RW_MAX_PATHS rows, all 0 for a subflow that is not faster. */
	uint64_t (*forward)(const struct rw_sending *s, uint32_t j, struct rw_forward *each);
};

/* The registry (list.c): every scheduler once, ended by a null. */
extern const struct rw_scheduler *const rw_scheduler_list[];

/* Halves the window of a subflow that held up the others, ssthresh too in congestion avoidance. */
static inline __attribute__((always_inline, unused)) void rw_penalize(struct rw_sender_subflow *s)
{
	if (s->cwnd_q16 >= s->ssthresh_q16)
		s->ssthresh_q16 = s->ssthresh_q16 >> 1 < 2 * RW_Q16_ONE ? 2 * RW_Q16_ONE : s->ssthresh_q16 >> 1;
	s->cwnd_q16 = s->cwnd_q16 >> 1 < RW_Q16_ONE ? RW_Q16_ONE : s->cwnd_q16 >> 1;
	s->since_penalty_ns = 0;
}

#endif
