/*
 * Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation-00, section 3): how much was delivered between the sending
 * of a packet and its ACK, and in what time.
 *
 * The draft keeps four values with each packet that leaves: how much had been delivered, when the last of that was, when the
 * packet had left that it belongs to, and whether the application limits the sender. They are the same for all packets that
 * leave between two ACKs. Here each such interval is kept once, and that of a packet is found by the time at which it left. So
 * a packet needs no room for it, and a sender that nobody asks for rates does nothing.
 *
 * BBRv3 (draft-ietf-ccwg-bbr-06, 4.1.2.2) also asks what was in flight when a packet had left, and how much was lost since. That
 * differs between the packets of one interval, and is kept for each time at which packets left, where somebody asks.
 */
#ifndef RW_DELIVERY_RATE_H
#define RW_DELIVERY_RATE_H

#include <stdint.h>

/* Of the packets that leave from since_ns on, until the next interval begins. */
struct rw_sending_interval {
	int64_t since_ns, delivered_ns, first_sent_ns;
	uint64_t delivered;
	uint8_t app_limited;
};

/* After the packets that left at sent_ns; packets of one time are one aggregate (draft-ietf-ccwg-bbr-06, 4.1.3.1). */
struct rw_flight_sent {
	int64_t sent_ns;
	uint32_t in_flight; /* segments, with these packets */
	uint32_t losses; /* found so far, as the scoreboard counts them */
};

/* A segment that was found lost. */
struct rw_segment_lost {
	uint64_t delivered; /* when it was found */
	uint64_t prior_delivered; /* when it had left; 0: not known */
	uint32_t in_flight; /* when it had left, with it; 0: not known */
	uint32_t lost; /* found lost since it left, with it */
	uint8_t app_limited; /* it left while the application limited the sender */
	uint8_t continues; /* it begins where the one found before it ends */
};

/* Of packets that left in an older interval there is no sample. */
enum { RW_SENDING_INTERVALS_MAX = 1 << 16 };

struct rw_delivery_rate {
	struct rw_sending_interval
	    *interval; /* a ring, the oldest first: `capacity` places, a power of two; null at first */
	uint32_t first, count, capacity;
	uint64_t least_rtt_ns; /* 0: no sample yet */
	uint64_t delivered;    /* segments; the SYN counts as one */
	uint64_t app_limited;  /* until more than this is delivered; 0: the application does not limit the sender */
	uint8_t
	    is_subflow; /* of MPTCP, where Linux was measured to note no limit by the application after the first data */
	uint8_t keeps_flights; /* what follows is kept */
	uint8_t failed; /* memory was used up where nobody could be told */
	uint8_t lost_told, lost_any;
	struct rw_flight_sent *flight; /* a ring as the intervals */
	uint32_t flight_first, flights, flight_capacity;
	/* What was found lost since the ACK before; the first lost_before of them before this ACK. */
	struct rw_segment_lost *lost;
	uint32_t lost_before, lost_count, lost_capacity, lost_end;
};

/* As struct rw_rate has them. */
struct rw_rate_sample {
	uint64_t delivered, prior_delivered, interval_ns;
	uint32_t sent_in_flight, lost_since; /* where flights are kept; 0: not known */
	uint8_t app_limited;
};

/* What an ACK delivered. */
struct rw_delivered {
	int64_t now_ns;
	int64_t newest_sent_ns; /* when the newest packet of it left last; 0: not known */
	uint64_t rtt_ns; /* of the newest packet; 0: no sample */
	uint32_t segments;
};

void rw_delivery_rate_open(struct rw_delivery_rate *d);
void rw_delivery_rate_close(struct rw_delivery_rate *d);
/* Forgets when packets were sent, not how much was delivered. */
void rw_delivery_rate_forget(struct rw_delivery_rate *d);
/* Data leaves while nothing is outstanding: the application had nothing to send before, or MPTCP sent elsewhere. 0, or 1 when memory is used up. */
int rw_delivery_rate_restart(struct rw_delivery_rate *d, int64_t now_ns);
/*
 * The application has more to send only now, and neither the window nor the pace holds it back (3.4): what leaves from now on, until
 * what is in flight is delivered, tells nothing of the path. 0, or 1 when memory is used up.
 */
int rw_delivery_rate_app_limits(struct rw_delivery_rate *d, int64_t now_ns, uint32_t in_flight);
/* An ACK. 0, or 1 when memory is used up. */
int rw_delivery_rate_sample(struct rw_delivery_rate *d, const struct rw_delivered *delivered,
			    struct rw_rate_sample *sample);

/* Packets have left, and so many segments are in flight with them. 0, or 1 when memory is used up. */
int rw_delivery_rate_sent(struct rw_delivery_rate *d, const struct rw_flight_sent *sent);
/* Flights that ended before oldest_sent_ns are forgotten once they have no room. 0, or 1 when memory is used up. */
int rw_delivery_rate_make_room_for_flights(struct rw_delivery_rate *d, int64_t oldest_sent_ns);
static inline int rw_delivery_rate_has_no_room(const struct rw_delivery_rate *d)
{
	return d->flights == d->flight_capacity;
}
/* A segment [start, end) that left at sent_ns is found lost; losses: with it. */
struct rw_found_lost {
	int64_t sent_ns;
	uint32_t start, end, losses;
};
void rw_delivery_rate_lost(struct rw_delivery_rate *d, const struct rw_found_lost *found);
/* An ACK is going to be looked at: what was found lost so far was found before it. */
void rw_delivery_rate_begin_ack(struct rw_delivery_rate *d);
/* The segments found lost since the last call: *count, the first *before of them before this ACK. Valid until the next loss. */
const struct rw_segment_lost *rw_delivery_rate_take_lost(struct rw_delivery_rate *d, uint32_t *before, uint32_t *count);
/* Adds to the sample of the packet that left at sent_ns. losses: found so far. */
void rw_delivery_rate_add_flight(const struct rw_delivery_rate *d, int64_t sent_ns, uint32_t losses,
				 struct rw_rate_sample *sample);

static inline int rw_delivery_rate_is_full(const struct rw_delivery_rate *d) { return d->count == d->capacity; }

/* There is room for further intervals: those that ended before oldest_sent_ns are forgotten. 0, or 1 when memory is used up. */
int rw_delivery_rate_make_room(struct rw_delivery_rate *d, int64_t oldest_sent_ns);

#endif
