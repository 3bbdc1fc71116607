#include "link.h"

#include <stdlib.h>
#include <string.h>

enum { DEPARTURES_FIRST = 16, DEPARTURES_MOST = 1 << 22, CHANGES_FIRST = 8 };

/* CoDel drops packets when a transmission ends; with reordering the packet whose transmission ends may be the next one to leave. */
static void see_ends(struct rw_link *l)
{
	l->ends_unseen = l->settings.queue.discipline != RW_CODEL && !l->settings.reorder_q32 &&
			 l->changes_done == l->changes && !l->down;
}

void rw_link_open(struct rw_link *l, const struct rw_link_settings *settings, uint64_t seed, uint64_t number)
{
	memset(l, 0, sizeof *l);
	l->settings = *settings;
	l->random.seed = seed;
	l->random.entity = number;
	rw_queue_open(&l->queue, &settings->queue);
	see_ends(l);
}

void rw_link_close(struct rw_link *l)
{
	rw_queue_close(&l->queue);
	free(l->departure);
	free(l->change);
	memset(l, 0, sizeof *l);
}

int rw_link_add_change(struct rw_link *l, const struct rw_link_change *change)
{
	/* A power of two of places, full: twice as many. */
	if (l->changes == 0 || (l->changes >= CHANGES_FIRST && (l->changes & (l->changes - 1)) == 0)) {
		size_t room = l->changes ? 2 * (size_t)l->changes : CHANGES_FIRST;
		struct rw_link_change *grown = realloc(l->change, room * sizeof *grown);
		if (!grown)
			return 1;
		l->change = grown;
	}
	l->change[l->changes++] = *change;
	see_ends(l);
	return 0;
}

/* How long the link sends so many bytes, rounded up. */
static uint64_t sending_ns(const struct rw_link *l, uint64_t bytes)
{
	const uint64_t second_ns = 1000000000;
	if (!l->settings.rate_bps)
		return 0;
	uint64_t bits = 8 * bytes;
	uint64_t whole = rw_multiply_divide(bits, second_ns, l->settings.rate_bps);
	return whole + (whole * l->settings.rate_bps < bits * second_ns);
}

static struct rw_departure *departure_at(const struct rw_link *l, uint32_t i)
{
	return &l->departure[(l->departures_first + i) & (l->departures_room - 1)];
}

static int make_departures_room(struct rw_link *l)
{
	if (l->departures < l->departures_room)
		return 0;
	uint32_t room = l->departures_room ? 2 * l->departures_room : DEPARTURES_FIRST;
	struct rw_departure *grown = room <= DEPARTURES_MOST ? malloc(room * sizeof *grown) : NULL;
	if (!grown)
		return 1;
	for (uint32_t i = 0; i < l->departures; i++)
		grown[i] = *departure_at(l, i);
	free(l->departure);
	l->departure = grown;
	l->departures_first = 0;
	l->departures_room = room;
	return 0;
}

/* Adds the packet that was sent to the departures: at the end if it keeps the order, else at the place of its time. */
static int depart(struct rw_link *l)
{
	if (make_departures_room(l))
		return 1;
	struct rw_departure d = {rw_later(l->sent_ns, l->settings.delay_ns), l->parcel};
	d.due_ns = rw_later(d.due_ns, rw_random_exponential(&l->random, l->settings.jitter_ns));
	if (rw_random_happens(&l->random, l->settings.stall_q32))
		d.due_ns = rw_later(d.due_ns, rw_random_exponential(&l->random, l->settings.stall_ns));
	if (d.due_ns < l->due_last_ns)
		d.due_ns = l->due_last_ns;
	if (rw_random_happens(&l->random, l->settings.reorder_q32)) {
		d.due_ns = rw_later(d.due_ns, l->settings.reorder_ns);
		l->counts.reordered++;
	} else {
		l->due_last_ns = d.due_ns;
	}
	uint32_t place = l->departures++;
	for (; place && departure_at(l, place - 1)->due_ns > d.due_ns; place--)
		*departure_at(l, place) = *departure_at(l, place - 1);
	*departure_at(l, place) = d;
	return 0;
}

static int is_lost(struct rw_link *l)
{
	const struct rw_burst_loss *b = &l->settings.burst;
	int lost = rw_random_happens(&l->random, l->settings.loss_q32);
	if (b->good_to_bad_q32 || b->loss_good_q32) {
		lost |= rw_random_happens(&l->random, l->bad ? b->loss_bad_q32 : b->loss_good_q32);
		l->bad ^= (uint8_t)rw_random_happens(&l->random, l->bad ? b->bad_to_good_q32 : b->good_to_bad_q32);
	}
	return lost;
}

static enum rw_link_outcome count_dropped(uint64_t *count)
{
	++*count;
	return RW_LINK_DROPPED;
}

/* The link is free: takes the next packet, or drops one. A link that is down drops all waiting packets. */
static enum rw_link_outcome send_next(struct rw_link *l, struct rw_parcel *parcel)
{
	uint8_t marked = rw_parcels_at(&l->queue.waiting, 0)->marked;
	enum rw_queue_take taken = rw_queue_take(&l->queue, l->sent_ns, parcel);
	if (l->down)
		return count_dropped(&l->counts.dropped_down);
	if (taken == RW_QUEUE_DROP)
		return count_dropped(&l->counts.dropped_early);
	l->counts.marked += parcel->marked && !marked;
	l->parcel = *parcel;
	l->sending = 1;
	l->sent_ns = rw_later(l->sent_ns, sending_ns(l, parcel->bytes));
	return RW_LINK_NOTHING;
}

enum rw_link_outcome rw_link_put(struct rw_link *l, const struct rw_parcel *parcel, int64_t now_ns)
{
	if (rw_link_pass(l, now_ns))
		return RW_LINK_FAILED;
	if (l->down)
		return count_dropped(&l->counts.dropped_down);
	if (is_lost(l))
		return count_dropped(&l->counts.dropped_loss);
	switch (rw_queue_put(&l->queue, parcel, now_ns, sending_ns(l, parcel->bytes), &l->random)) {
	case RW_QUEUE_FULL:
		return count_dropped(&l->counts.dropped_full);
	case RW_QUEUE_EARLY:
		return count_dropped(&l->counts.dropped_early);
	case RW_QUEUE_FAILED:
		return RW_LINK_FAILED;
	case RW_QUEUE_MARKED:
		l->counts.marked++;
		break;
	case RW_QUEUE_TAKEN:
		break;
	}
	l->counts.queue_packets_max = rw_max64(l->counts.queue_packets_max, l->queue.waiting.count);
	l->counts.queue_bytes_max = rw_max64(l->counts.queue_bytes_max, l->queue.bytes);
	if (!l->sending && l->queue.waiting.count == 1) {
		struct rw_parcel first;
		l->sent_ns = now_ns; /* the link was free; no discipline drops a packet that did not wait */
		send_next(l, &first);
	}
	return RW_LINK_TAKEN;
}

/*
 * When the link sends or drops next, as far as that is an event: packets leave in order, so that behind one that waits to leave it is
 * none, and without jitter it is known when this one leaves.
 */
static int64_t sender_next_ns(const struct rw_link *l)
{
	if (l->ends_unseen && l->departures)
		return RW_NEVER;
	if (l->ends_unseen && l->sending && !l->settings.jitter_ns && !l->settings.stall_q32) {
		int64_t due_ns = rw_later(l->sent_ns, l->settings.delay_ns);
		return due_ns > l->due_last_ns ? due_ns : l->due_last_ns;
	}
	return l->sending || l->queue.waiting.count ? l->sent_ns : RW_NEVER;
}

static int64_t change_next_ns(const struct rw_link *l)
{
	return l->changes_done < l->changes ? l->change[l->changes_done].at_ns : RW_NEVER;
}

int64_t rw_link_next_ns(const struct rw_link *l)
{
	int64_t next = sender_next_ns(l), change = change_next_ns(l);
	int64_t due = l->departures ? departure_at(l, 0)->due_ns : RW_NEVER;
	next = due < next ? due : next;
	return change < next ? change : next;
}

uint64_t rw_link_crossing_ns(const struct rw_link *l, int64_t now_ns)
{
	uint64_t under_way = l->sending && l->sent_ns > now_ns ? (uint64_t)(l->sent_ns - now_ns) : 0;
	return under_way + sending_ns(l, l->queue.bytes) + l->settings.delay_ns;
}

/* The packet in transmission continues at the new rate. */
static void change_rate(struct rw_link *l, uint64_t rate_bps, int64_t now_ns)
{
	uint64_t before = l->settings.rate_bps, left_ns = (uint64_t)(l->sent_ns - now_ns);
	l->settings.rate_bps = rate_bps;
	if (l->sending)
		l->sent_ns = rate_bps ? rw_later(now_ns, rw_multiply_divide(left_ns, before, rate_bps)) : now_ns;
}

static void apply_change(struct rw_link *l)
{
	const struct rw_link_change *c = &l->change[l->changes_done++];
	if (c->has_rate)
		change_rate(l, c->rate_bps, c->at_ns);
	if (c->has_delay)
		l->settings.delay_ns = c->delay_ns;
	if (c->has_loss) {
		l->settings.loss_q32 = c->loss_q32;
		memset(&l->settings.burst, 0, sizeof l->settings.burst);
	}
	if (c->has_down)
		l->down = c->down;
	see_ends(l);
}

/* The transmission is over. 0, or 1: out of memory. */
static int end_transmission(struct rw_link *l)
{
	l->sending = 0;
	l->counts.forwarded++;
	l->counts.bytes += l->parcel.bytes;
	if (depart(l))
		return 1;
	if (!l->queue.waiting.count) {
		struct rw_parcel none;
		rw_queue_take(&l->queue, l->sent_ns, &none);
	}
	return 0;
}

int rw_link_pass(struct rw_link *l, int64_t before_ns)
{
	struct rw_parcel taken;
	while (l->ends_unseen && l->sent_ns < before_ns && (l->sending || l->queue.waiting.count)) {
		if (l->sending && end_transmission(l))
			return 1;
		if (l->queue.waiting.count)
			send_next(l, &taken);
	}
	return 0;
}

enum rw_link_outcome rw_link_step(struct rw_link *l, struct rw_parcel *parcel)
{
	int64_t now = rw_link_next_ns(l);
	if (rw_link_pass(l, now))
		return RW_LINK_FAILED;
	if (change_next_ns(l) == now) {
		apply_change(l);
		return RW_LINK_NOTHING;
	}
	if (l->departures && departure_at(l, 0)->due_ns == now) {
		*parcel = departure_at(l, 0)->parcel;
		l->departures_first = (l->departures_first + 1) & (l->departures_room - 1);
		l->departures--;
		return RW_LINK_LEAVES;
	}
	if (!l->sending)
		return send_next(l, parcel);
	return end_transmission(l) ? RW_LINK_FAILED : RW_LINK_NOTHING;
}
