#include "queue.h"

#include <stdlib.h>
#include <string.h>

enum { CAPACITY_FIRST = 16, CAPACITY_MOST = 1 << 22 };
/* The largest packet: a queue of one such packet is never too long (RFC 8289, section 4.4). */
enum { PACKET_MOST_BYTES = 1500 };
/* If dropping begins again within this many intervals, CoDel resumes its last rate of drops (RFC 8289, section 5.5). */
enum { RECENT_INTERVALS = 16 };

void rw_parcels_close(struct rw_parcels *p)
{
	free(p->parcel);
	memset(p, 0, sizeof *p);
}

int rw_parcels_grow(struct rw_parcels *p)
{
	if (p->count < p->capacity)
		return 0;
	uint32_t capacity = p->capacity ? 2 * p->capacity : CAPACITY_FIRST;
	struct rw_parcel *grown = capacity <= CAPACITY_MOST ? malloc(capacity * sizeof *grown) : NULL;
	if (!grown)
		return 1;
	for (uint32_t i = 0; i < p->count; i++)
		grown[i] = *rw_parcels_at(p, i);
	free(p->parcel);
	p->parcel = grown;
	p->capacity = capacity;
	p->first = 0;
	return 0;
}

void rw_queue_open(struct rw_queue *q, const struct rw_queue_settings *settings)
{
	memset(q, 0, sizeof *q);
	q->settings = *settings;
}

void rw_queue_close(struct rw_queue *q) { rw_parcels_close(&q->waiting); }

/* (1 - 2^-shift)^n in Q32, by squaring. */
static uint64_t decay_q32(uint8_t shift, uint64_t n)
{
	const uint64_t one = (uint64_t)1 << 32;
	uint64_t base = one - (one >> shift), result = one;
	for (; n && result; n >>= 1) {
		if (n & 1)
			result = rw_multiply_divide(result, base, one);
		base = rw_multiply_divide(base, base, one);
	}
	return result;
}

/* Each arriving packet moves the average. An idle time counts as the packets that the link could have sent meanwhile. */
static void red_average(struct rw_queue *q, int64_t now_ns, uint64_t packet_ns)
{
	struct rw_red *red = &q->red;
	uint64_t queued_q32 = (uint64_t)q->waiting.count << 32;
	uint8_t shift = q->settings.red.weight_shift;
	if (!q->waiting.count && packet_ns) {
		uint64_t packets = (uint64_t)(now_ns - red->idle_since_ns) / packet_ns;
		red->average_q32 = rw_multiply_divide(red->average_q32, decay_q32(shift, packets), (uint64_t)1 << 32);
	} else if (queued_q32 >= red->average_q32) {
		red->average_q32 += (queued_q32 - red->average_q32) >> shift;
	} else {
		red->average_q32 -= (red->average_q32 - queued_q32) >> shift;
	}
}

/* The probability of a drop by the average alone, at most 1 in Q32. */
static uint64_t red_probability_q32(const struct rw_red_settings *s, uint64_t average_q32)
{
	const uint64_t one = (uint64_t)1 << 32;
	uint64_t min_q32 = (uint64_t)s->min_packets << 32, max_q32 = (uint64_t)s->max_packets << 32;
	if (average_q32 < min_q32)
		return 0;
	if (average_q32 < max_q32)
		return rw_multiply_divide(s->max_probability_q32, average_q32 - min_q32, max_q32 - min_q32);
	if (!s->gentle || average_q32 >= 2 * max_q32)
		return one;
	return s->max_probability_q32 +
	       rw_multiply_divide(one - s->max_probability_q32, average_q32 - max_q32, max_q32);
}

/*
 * Decides whether this packet is dropped or marked. The probability rises with each packet that is not, so that the distance
 * between two drops is uniform over 1 to 1/p (section 7 of the paper).
 */
static int red_chooses(struct rw_queue *q, struct rw_random *random)
{
	const uint64_t one = (uint64_t)1 << 32;
	struct rw_red *red = &q->red;
	uint64_t probability = red_probability_q32(&q->settings.red, red->average_q32);
	uint64_t spent = rw_multiply_divide(probability, red->since_drop, 1);
	int chosen = probability && (spent >= one - probability ||
				     rw_random_happens(random, rw_multiply_divide(probability, one, one - spent)));
	red->since_drop = chosen || !probability ? 0 : red->since_drop + 1;
	return chosen;
}

/* Beyond the upper threshold a mark would not be enough (RFC 3168, section 7). */
static int red_may_mark(const struct rw_queue *q, const struct rw_parcel *parcel)
{
	return q->settings.ecn && parcel->ecn_capable &&
	       q->red.average_q32 < (uint64_t)q->settings.red.max_packets << 32;
}

static int is_full(const struct rw_queue *q, uint32_t bytes)
{
	const struct rw_queue_settings *s = &q->settings;
	return (s->limit_packets && q->waiting.count >= s->limit_packets) ||
	       (s->limit_bytes && q->bytes + bytes > s->limit_bytes);
}

enum rw_queue_put rw_queue_put(struct rw_queue *q, const struct rw_parcel *parcel, int64_t now_ns, uint64_t packet_ns,
			       struct rw_random *random)
{
	const struct rw_queue_settings *s = &q->settings;
	int mark = s->discipline == RW_ECN_THRESHOLD && parcel->ecn_capable && q->waiting.count >= s->threshold_packets;
	if (s->discipline == RW_RED) {
		red_average(q, now_ns, packet_ns);
		int chosen = red_chooses(q, random);
		mark = chosen && red_may_mark(q, parcel);
		if (chosen && !mark)
			return RW_QUEUE_EARLY;
	}
	if (is_full(q, parcel->bytes))
		return RW_QUEUE_FULL;
	if (rw_parcels_grow(&q->waiting))
		return RW_QUEUE_FAILED;
	struct rw_parcel *last = rw_parcels_at(&q->waiting, q->waiting.count++);
	*last = *parcel;
	last->since_ns = now_ns;
	last->marked |= mark;
	q->bytes += parcel->bytes;
	return mark ? RW_QUEUE_MARKED : RW_QUEUE_TAKEN;
}

static void take_first(struct rw_queue *q, int64_t now_ns, struct rw_parcel *parcel)
{
	*parcel = *rw_parcels_at(&q->waiting, 0);
	q->waiting.first = (q->waiting.first + 1) & (q->waiting.capacity - 1);
	q->waiting.count--;
	q->bytes -= parcel->bytes;
	if (!q->waiting.count)
		q->red.idle_since_ns = now_ns;
}

static uint32_t square_root(uint64_t x)
{
	uint64_t root = 0;
	for (uint64_t bit = (uint64_t)1 << 31; bit; bit >>= 1)
		if ((root + bit) * (root + bit) <= x)
			root += bit;
	return (uint32_t)root;
}

/* RFC 8289, section 5.4: intervals shrink with the square root of the drops. */
static int64_t codel_next(const struct rw_queue *q, int64_t from_ns)
{
	uint32_t root_q16 = square_root((uint64_t)q->codel.count << 32);
	return from_ns + (int64_t)rw_multiply_divide((uint64_t)q->settings.codel.interval_ns, 1 << 16, root_q16);
}

/* Whether the delay has been above the target for an interval (RFC 8289, section 5.6). parcel: the packet that was taken. */
static int codel_is_slow(struct rw_queue *q, const struct rw_parcel *parcel, int64_t now_ns)
{
	struct rw_codel *c = &q->codel;
	if (now_ns - parcel->since_ns < q->settings.codel.target_ns || q->bytes <= PACKET_MOST_BYTES) {
		c->first_above_ns = 0;
		return 0;
	}
	if (!c->first_above_ns) {
		c->first_above_ns = now_ns + q->settings.codel.interval_ns;
		return 0;
	}
	return now_ns >= c->first_above_ns;
}

static void codel_enter(struct rw_queue *q, int64_t now_ns)
{
	struct rw_codel *c = &q->codel;
	uint32_t before = c->count - c->last_count;
	int recent = now_ns - c->drop_next_ns < RECENT_INTERVALS * q->settings.codel.interval_ns;
	c->dropping = 1;
	c->entering = 0;
	c->count = before > 1 && recent ? before : 1;
	c->last_count = c->count;
	c->drop_next_ns = codel_next(q, now_ns);
}

/* Marks a packet that CoDel selected, or drops it if it cannot be marked. */
static enum rw_queue_take mark_or_drop(struct rw_queue *q, struct rw_parcel *parcel)
{
	if (!q->settings.ecn || !parcel->ecn_capable)
		return RW_QUEUE_DROP;
	parcel->marked = 1;
	return RW_QUEUE_SEND;
}

/* RFC 8289, section 5.5, one packet in a call; `entering` and `dropped` hold the position in its loop. */
static enum rw_queue_take codel_take(struct rw_queue *q, struct rw_parcel *parcel, int64_t now_ns)
{
	struct rw_codel *c = &q->codel;
	int slow = codel_is_slow(q, parcel, now_ns);
	if (c->entering) {
		codel_enter(q, now_ns);
		return RW_QUEUE_SEND;
	}
	if (!c->dropping) {
		if (!slow)
			return RW_QUEUE_SEND;
		enum rw_queue_take taken = mark_or_drop(q, parcel);
		if (taken == RW_QUEUE_DROP)
			c->entering = 1;
		else
			codel_enter(q, now_ns);
		return taken;
	}
	if (!slow)
		c->dropping = 0;
	else if (c->dropped)
		c->drop_next_ns = codel_next(q, c->drop_next_ns);
	c->dropped = 0;
	if (!c->dropping || now_ns < c->drop_next_ns)
		return RW_QUEUE_SEND;
	c->count++;
	enum rw_queue_take taken = mark_or_drop(q, parcel);
	c->dropped = taken == RW_QUEUE_DROP;
	if (!c->dropped)
		c->drop_next_ns = codel_next(q, c->drop_next_ns);
	return taken;
}

enum rw_queue_take rw_queue_take(struct rw_queue *q, int64_t now_ns, struct rw_parcel *parcel)
{
	if (!q->waiting.count) {
		if (q->codel.entering)
			codel_enter(q, now_ns);
		q->codel.dropping = q->codel.dropped = 0;
		q->codel.first_above_ns = 0;
		return RW_QUEUE_EMPTY;
	}
	take_first(q, now_ns, parcel);
	if (q->settings.discipline != RW_CODEL)
		return RW_QUEUE_SEND;
	return codel_take(q, parcel, now_ns);
}
