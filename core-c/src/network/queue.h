/*
 * The queue in front of a link, and its discipline: which packets are dropped or marked, and when.
 *
 *   drop-tail       a packet that finds the queue full is dropped
 *   ECN threshold   drop-tail; a packet that finds this many packets is marked if possible (DCTCP, RFC 8257, section 3.1)
 *   RED             Floyd and Jacobson, "Random early detection gateways for congestion avoidance", 1993; `gentle` from
 *                   Floyd's note of 2000; marks as RFC 3168, section 7, says
 *   CoDel           RFC 8289
 *
 * Every discipline has the limits of drop-tail, too. They count waiting packets; the packet in transmission has left the queue.
 * A queue has no clock: each call gives the time, and times do not go back.
 */
#ifndef RW_QUEUE_H
#define RW_QUEUE_H

#include <stdint.h>

#include "random.h"

enum rw_discipline { RW_DROP_TAIL, RW_ECN_THRESHOLD, RW_RED, RW_CODEL };

struct rw_red_settings {
	uint32_t min_packets, max_packets; /* thresholds of the average; 0 < min < max <= 2^20 */
	uint32_t max_probability_q32;      /* at the upper threshold */
	uint8_t weight_shift;              /* a packet counts 2^-shift in the average; at most 31 */
	uint8_t gentle; /* beyond max the probability rises to 1 at 2 max, and does not jump */
};

struct rw_codel_settings {
	int64_t target_ns, interval_ns; /* RFC 8289: 5 ms and 100 ms; at most 2^50 */
};

struct rw_queue_settings {
	enum rw_discipline discipline;
	uint32_t limit_packets; /* 0: none */
	uint64_t limit_bytes;   /* 0: none */
	uint32_t threshold_packets;
	uint8_t ecn; /* RED and CoDel mark packets that can be marked instead of dropping them */
	struct rw_red_settings red;
	struct rw_codel_settings codel;
};

/* A packet in a network. */
struct rw_parcel {
	uint64_t user;    /* the owner's value; the network only carries it */
	int64_t since_ns; /* in a queue: its arrival */
	uint32_t bytes;
	uint16_t route;
	uint8_t hop;
	uint8_t ecn_capable : 1, marked : 1;
};

/* Parcels in order. Grows by doubling, so that in the long run nothing is allocated for a packet. */
struct rw_parcels {
	struct rw_parcel *parcel;
	uint32_t capacity, first, count;
};

void rw_parcels_close(struct rw_parcels *p);
/* Makes room for one more packet. 0, or 1: out of memory, or more than 2^22 packets. */
int rw_parcels_grow(struct rw_parcels *p);

static inline struct rw_parcel *rw_parcels_at(const struct rw_parcels *p, uint32_t i)
{
	return &p->parcel[(p->first + i) & (p->capacity - 1)];
}

struct rw_red {
	uint64_t average_q32;  /* packets */
	int64_t idle_since_ns; /* meaningful while the queue is empty */
	uint64_t since_drop;   /* packets between the thresholds since the last drop or mark */
};

struct rw_codel {
	int64_t first_above_ns; /* when the delay will have been above the target for an interval; 0: it is not above */
	int64_t drop_next_ns;
	uint32_t count, last_count; /* drops since dropping began, and at its last start */
	uint8_t dropping;
	uint8_t entering; /* the first drop is done, the next packet is not taken yet */
	uint8_t dropped; /* in `dropping`: the packet before was dropped */
};

struct rw_queue {
	struct rw_queue_settings settings;
	struct rw_parcels waiting;
	uint64_t bytes;
	struct rw_red red;
	struct rw_codel codel;
};

/* Closed by rw_queue_close. */
void rw_queue_open(struct rw_queue *q, const struct rw_queue_settings *settings);
void rw_queue_close(struct rw_queue *q);

enum rw_queue_put {
	RW_QUEUE_TAKEN,
	RW_QUEUE_MARKED, /* and taken */
	RW_QUEUE_FULL, /* dropped: the limit */
	RW_QUEUE_EARLY, /* dropped: the discipline */
	RW_QUEUE_FAILED /* out of memory */
};

/* A packet arrives. packet_ns: its transmission time at the link's present rate (RED's unit of idle time). */
enum rw_queue_put rw_queue_put(struct rw_queue *q, const struct rw_parcel *parcel, int64_t now_ns, uint64_t packet_ns,
			       struct rw_random *random);

enum rw_queue_take {
	RW_QUEUE_EMPTY,
	RW_QUEUE_SEND, /* `parcel` is sent; this call may have marked it */
	RW_QUEUE_DROP /* `parcel` is dropped: call again */
};

/* The link is free: takes or drops the oldest packet. */
enum rw_queue_take rw_queue_take(struct rw_queue *q, int64_t now_ns, struct rw_parcel *parcel);

#endif
