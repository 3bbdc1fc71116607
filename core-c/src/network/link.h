/*
 * One direction of a link, in virtual time:
 *
 *   a packet comes -> lost at random, or because the link is down -> queue and its discipline -> sent at the link's rate
 *     -> delay, jitter, reordering -> it leaves
 *
 * A link keeps the order of packets; only `reorder` breaks it. Its times do not depend on when the caller asks: each event's
 * time is computed from the times of the events before. Times are nanoseconds and not negative; settings in nanoseconds are
 * at most 2^50 (13 days).
 */
#ifndef RW_LINK_H
#define RW_LINK_H

#include <stdint.h>

#include "queue.h"
#include "random.h"

#define RW_NEVER INT64_MAX

/* The time `ns` later, at most the last one before RW_NEVER. */
static inline int64_t rw_later(int64_t time_ns, uint64_t ns)
{
	uint64_t left = (uint64_t)(RW_NEVER - 1) - (uint64_t)time_ns;
	return time_ns > 0 && ns > left ? RW_NEVER - 1 : (int64_t)((uint64_t)time_ns + ns);
}

/* The Gilbert-Elliott model: a chain of two states that steps with each packet, and a loss probability in each state. In Q32. */
struct rw_burst_loss {
	uint64_t good_to_bad_q32, bad_to_good_q32, loss_good_q32, loss_bad_q32;
};

struct rw_link_settings {
	uint64_t rate_bps; /* 0: not limited */
	uint64_t delay_ns;
	uint64_t jitter_ns; /* mean of an exponential distribution; packets keep their order */
	/*
	 * With this share of packets the link stalls, for so long (mean of an exponential distribution): the packet and those behind it
	 * wait, as for a host whose processor is busy.
	 */
	uint64_t stall_q32, stall_ns;
	uint64_t loss_q32;
	struct rw_burst_loss burst; /* used where good_to_bad or loss_good is not 0 */
	uint64_t reorder_q32; /* this share of packets takes reorder_ns more, and others overtake them */
	uint64_t reorder_ns;
	struct rw_queue_settings queue;
};

/* A change from a time on. Fields that are not set stay; a loss also replaces burst loss. */
struct rw_link_change {
	int64_t at_ns;
	uint64_t rate_bps, loss_q32, delay_ns;
	uint8_t down;
	uint8_t has_rate, has_loss, has_delay, has_down;
};

struct rw_link_counts {
	uint64_t forwarded, bytes; /* packets that were sent, and their bytes */
	uint64_t dropped_full, dropped_early, dropped_loss, dropped_down;
	uint64_t marked, reordered;
	uint64_t queue_packets_max, queue_bytes_max;
};

/* A packet on its way after it was sent. */
struct rw_departure {
	int64_t due_ns;
	struct rw_parcel parcel;
};

struct rw_link {
	/* What every packet needs comes first: with a thousand links the cache decides. */
	int64_t sent_ns; /* end of this transmission, or of the last one */
	int64_t due_last_ns; /* latest departure of a packet that kept its order */
	struct rw_departure *departure;
	uint32_t departures, departures_first, departures_room; /* a ring, in order of due_ns */
	uint32_t changes, changes_done;
	uint8_t down, bad; /* bad: the state of the burst loss */
	uint8_t sending; /* a packet is being sent */
	uint8_t ends_unseen; /* the ends of its transmissions are no events of their own */
	struct rw_parcel parcel; /* the packet in transmission */
	struct rw_link_counts counts;
	struct rw_link_settings settings;
	struct rw_queue queue;
	struct rw_random random;
	struct rw_link_change *change;
};

/* number: the link's number, which selects its random numbers. */
void rw_link_open(struct rw_link *l, const struct rw_link_settings *settings, uint64_t seed, uint64_t number);
void rw_link_close(struct rw_link *l);

/* Adds a change; changes must be added in order of time. 0, or 1: out of memory. */
int rw_link_add_change(struct rw_link *l, const struct rw_link_change *change);

enum rw_link_outcome {
	RW_LINK_NOTHING, /* no packet leaves or is dropped at this time */
	RW_LINK_TAKEN,
	RW_LINK_LEAVES,
	RW_LINK_DROPPED,
	RW_LINK_FAILED /* out of memory */
};

/* A packet arrives, not before the latest time of an earlier call. TAKEN, DROPPED or FAILED. */
enum rw_link_outcome rw_link_put(struct rw_link *l, const struct rw_parcel *parcel, int64_t now_ns);

/*
 * Transmissions that end before this time have ended. A link's event is what others see of it: a packet that leaves or is dropped, a
 * change. Where the end of a transmission shows only later, as a packet that leaves, it is no event, and happens by this call or by
 * the next one of the others. 0, or 1: out of memory.
 */
int rw_link_pass(struct rw_link *l, int64_t before_ns);

/* How long a packet of no bytes would need that arrives now and is not lost: for all that waits, and the delay. */
uint64_t rw_link_crossing_ns(const struct rw_link *l, int64_t now_ns);

/* The time of the link's next event, or RW_NEVER. */
int64_t rw_link_next_ns(const struct rw_link *l);

/* Processes one event of that time. LEAVES and DROPPED return the packet. */
enum rw_link_outcome rw_link_step(struct rw_link *l, struct rw_parcel *parcel);

#endif
