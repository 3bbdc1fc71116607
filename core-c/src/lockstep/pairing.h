/*
 * Two senders' segments, paired one by one in the order in which each sender sent them. Two segments agree when they have the same
 * bounds and both or neither are retransmissions.
 *
 * The times at which they leave are not compared, because a kernel hands segments on in bursts and may hold back less than a burst.
 * Whoever owns the pairing asks at each ACK how far one sender is ahead of the other.
 */
#ifndef RW_PAIRING_H
#define RW_PAIRING_H

#include <stdint.h>

#include "rewindow.h"

enum rw_pairing_side { RW_CAPTURED, RW_SIMULATED };

/* Segments of one side that the other one has not sent yet: a ring of `room` places, a power of two. */
struct rw_pairing {
	rw_lockstep_segment *waiting;
	uint32_t first, count, room;
	uint8_t side; /* rw_pairing_side: whose they are */
};

enum rw_paired { RW_PAIRED_WAITS, RW_PAIRED_AGREES, RW_PAIRED_PARTS, RW_PAIRED_NO_MEMORY };

/* A segment leaves. RW_PAIRED_PARTS: *other is the other side's segment in its place. */
enum rw_paired rw_pairing_take(struct rw_pairing *p, enum rw_pairing_side side, const rw_lockstep_segment *segment,
			       rw_lockstep_segment *other);
static inline void rw_pairing_forget(struct rw_pairing *p) { p->first = p->count = 0; }
void rw_pairing_close(struct rw_pairing *p);

#endif
