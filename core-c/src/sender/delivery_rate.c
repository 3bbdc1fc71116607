#include "delivery_rate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"

enum { CAPACITY_FIRST = 32, DELIVERED_FIRST = 1 /* the SYN */ };

static struct rw_sending_interval *interval_at(const struct rw_delivery_rate *d, uint32_t i)
{
	return &d->interval[(d->first + i) & (d->capacity - 1)];
}

void rw_delivery_rate_open(struct rw_delivery_rate *d)
{
	memset(d, 0, sizeof *d);
	d->delivered = DELIVERED_FIRST;
}

void rw_delivery_rate_close(struct rw_delivery_rate *d)
{
	free(d->interval);
	free(d->flight);
	free(d->lost);
	d->interval = NULL;
	d->flight = NULL;
	d->lost = NULL;
	d->first = d->count = d->capacity = 0;
	d->flight_first = d->flights = d->flight_capacity = 0;
	d->lost_before = d->lost_count = d->lost_capacity = 0;
}

void rw_delivery_rate_forget(struct rw_delivery_rate *d)
{
	d->first = d->count = 0;
	d->flight_first = d->flights = 0;
	d->lost_before = d->lost_count = 0;
}

static int grow(struct rw_delivery_rate *d)
{
	uint32_t capacity = d->capacity ? d->capacity * 2 : CAPACITY_FIRST;
	struct rw_sending_interval *interval = malloc(capacity * sizeof *interval);
	if (!interval)
		return 1;
	for (uint32_t i = 0; i < d->count; i++)
		interval[i] = *interval_at(d, i);
	free(d->interval);
	d->interval = interval;
	d->first = 0;
	d->capacity = capacity;
	return 0;
}

static void drop(struct rw_delivery_rate *d, uint32_t n)
{
	d->first = (d->first + n) & (d->capacity - 1);
	d->count -= n;
}

int rw_delivery_rate_make_room(struct rw_delivery_rate *d, int64_t oldest_sent_ns)
{
	uint32_t over = 0;
	while (over + 1 < d->count && interval_at(d, over + 1)->since_ns <= oldest_sent_ns)
		over++;
	if (over < d->count / 2 && d->capacity < RW_SENDING_INTERVALS_MAX)
		return grow(d); /* so that this is not done at every ACK */
	drop(d, over > d->count / 2 ? over : d->count / 2);
	return 0;
}

/* From now on. 0, or 1 when memory is used up. */
static int begin_interval(struct rw_delivery_rate *d, struct rw_sending_interval next)
{
	while (d->count && interval_at(d, d->count - 1)->since_ns >= next.since_ns)
		d->count--;
	if (rw_delivery_rate_is_full(d) && grow(d))
		return 1;
	*interval_at(d, d->count++) = next;
	return 0;
}

int rw_delivery_rate_restart(struct rw_delivery_rate *d, int64_t now_ns)
{
	d->first = d->count = 0;
	d->flight_first = d->flights = 0;
	if (!d->is_subflow || d->delivered == DELIVERED_FIRST)
		d->app_limited = d->delivered;
	return begin_interval(d,
			      (struct rw_sending_interval){now_ns, now_ns, now_ns, d->delivered, d->app_limited != 0});
}

int rw_delivery_rate_app_limits(struct rw_delivery_rate *d, int64_t now_ns, uint32_t in_flight)
{
	if (d->is_subflow)
		return 0;
	d->app_limited = d->delivered + in_flight;
	if (!d->count || interval_at(d, d->count - 1)->app_limited)
		return 0;
	struct rw_sending_interval next = *interval_at(d, d->count - 1);
	next.since_ns = now_ns;
	next.app_limited = 1;
	return begin_interval(d, next);
}

/* In which a packet left; null: it is not kept. */
static const struct rw_sending_interval *interval_of(const struct rw_delivery_rate *d, int64_t sent_ns)
{
	struct rw_search after = {0, d->count}; /* the first that began after the packet left */
	while (rw_search_goes_on(&after))
		rw_search_answer(&after, interval_at(d, (uint32_t)rw_search_middle(&after))->since_ns <= sent_ns);
	return after.low ? interval_at(d, (uint32_t)after.low - 1) : NULL;
}

static uint64_t larger(int64_t a, int64_t b)
{
	int64_t most = a > b ? a : b;
	return most > 0 ? (uint64_t)most : 0;
}

int rw_delivery_rate_sample(struct rw_delivery_rate *d, const struct rw_delivered *delivered,
			    struct rw_rate_sample *sample)
{
	int64_t now_ns = delivered->now_ns;
	const struct rw_sending_interval *of =
	    delivered->newest_sent_ns ? interval_of(d, delivered->newest_sent_ns) : NULL;
	if (delivered->rtt_ns && (!d->least_rtt_ns || delivered->rtt_ns < d->least_rtt_ns))
		d->least_rtt_ns = delivered->rtt_ns;
	d->delivered += delivered->segments;
	if (d->delivered > d->app_limited)
		d->app_limited = 0;
	*sample = (struct rw_rate_sample){.delivered = d->delivered};
	if (of) {
		/* ACKs that come closer together than what they answer was sent tell nothing of the path, and the reverse. */
		uint64_t interval_ns = larger(delivered->newest_sent_ns - of->first_sent_ns, now_ns - of->delivered_ns);
		sample->prior_delivered = of->delivered;
		sample->app_limited = of->app_limited;
		sample->interval_ns = interval_ns < d->least_rtt_ns ? 0 : interval_ns;
	}
	if (!delivered->segments)
		return 0;
	struct rw_sending_interval next = {now_ns, now_ns, now_ns, d->delivered, d->app_limited != 0};
	if (delivered->newest_sent_ns)
		next.first_sent_ns = delivered->newest_sent_ns;
	else if (d->count)
		next.first_sent_ns = interval_at(d, d->count - 1)->first_sent_ns;
	return begin_interval(d, next);
}

/*
 * Flights and losses
 */

static struct rw_flight_sent *flight_at(const struct rw_delivery_rate *d, uint32_t i)
{
	return &d->flight[(d->flight_first + i) & (d->flight_capacity - 1)];
}

static int grow_flights(struct rw_delivery_rate *d)
{
	uint32_t capacity = d->flight_capacity ? d->flight_capacity * 2 : CAPACITY_FIRST;
	struct rw_flight_sent *flight = malloc(capacity * sizeof *flight);
	if (!flight)
		return 1;
	for (uint32_t i = 0; i < d->flights; i++)
		flight[i] = *flight_at(d, i);
	free(d->flight);
	d->flight = flight;
	d->flight_first = 0;
	d->flight_capacity = capacity;
	return 0;
}

int rw_delivery_rate_make_room_for_flights(struct rw_delivery_rate *d, int64_t oldest_sent_ns)
{
	uint32_t over = 0;
	while (over < d->flights && flight_at(d, over)->sent_ns < oldest_sent_ns)
		over++;
	if (over <= d->flights / 2 && d->flight_capacity < RW_SENDING_INTERVALS_MAX)
		return grow_flights(d);
	if (over < d->flights / 2)
		over = d->flights / 2;
	d->flight_first = (d->flight_first + over) & (d->flight_capacity - 1);
	d->flights -= over;
	return 0;
}

int rw_delivery_rate_sent(struct rw_delivery_rate *d, const struct rw_flight_sent *sent)
{
	while (d->flights && flight_at(d, d->flights - 1)->sent_ns >= sent->sent_ns)
		d->flights--;
	if (rw_delivery_rate_has_no_room(d) && grow_flights(d))
		return 1;
	*flight_at(d, d->flights++) = *sent;
	return 0;
}

/* After the packets that left at this time; null: it is not kept. */
static const struct rw_flight_sent *flight_of(const struct rw_delivery_rate *d, int64_t sent_ns)
{
	struct rw_search after = {0, d->flights}; /* the first that left later */
	while (rw_search_goes_on(&after))
		rw_search_answer(&after, flight_at(d, (uint32_t)rw_search_middle(&after))->sent_ns <= sent_ns);
	return after.low ? flight_at(d, (uint32_t)after.low - 1) : NULL;
}

static int make_room_for_lost(struct rw_delivery_rate *d)
{
	uint32_t capacity = d->lost_capacity ? d->lost_capacity * 2 : CAPACITY_FIRST;
	struct rw_segment_lost *lost = realloc(d->lost, capacity * sizeof *lost);
	if (!lost)
		return 1;
	d->lost = lost;
	d->lost_capacity = capacity;
	return 0;
}

static void forget_told(struct rw_delivery_rate *d)
{
	if (d->lost_told)
		d->lost_before = d->lost_count = 0;
	d->lost_told = 0;
}

void rw_delivery_rate_lost(struct rw_delivery_rate *d, const struct rw_found_lost *found)
{
	if (!d->keeps_flights)
		return;
	forget_told(d);
	if (d->lost_count == d->lost_capacity && make_room_for_lost(d)) {
		d->failed = 1;
		return;
	}
	const struct rw_flight_sent *flight = flight_of(d, found->sent_ns);
	const struct rw_sending_interval *interval = interval_of(d, found->sent_ns);
	d->lost[d->lost_count++] = (struct rw_segment_lost){.delivered = d->delivered,
							    .prior_delivered = interval ? interval->delivered : 0,
							    .in_flight = flight ? flight->in_flight : 0,
							    .lost = flight ? found->losses - flight->losses : 0,
							    .app_limited = interval ? interval->app_limited : 0,
							    .continues = d->lost_any && found->start == d->lost_end};
	d->lost_any = 1;
	d->lost_end = found->end;
}

void rw_delivery_rate_begin_ack(struct rw_delivery_rate *d)
{
	forget_told(d);
	d->lost_before = d->lost_count;
}

const struct rw_segment_lost *rw_delivery_rate_take_lost(struct rw_delivery_rate *d, uint32_t *before, uint32_t *count)
{
	forget_told(d);
	*before = d->lost_before;
	*count = d->lost_count;
	d->lost_told = 1;
	return d->lost;
}

void rw_delivery_rate_add_flight(const struct rw_delivery_rate *d, int64_t sent_ns, uint32_t losses,
				 struct rw_rate_sample *sample)
{
	const struct rw_flight_sent *flight = sent_ns ? flight_of(d, sent_ns) : NULL;
	if (!flight)
		return;
	sample->sent_in_flight = flight->in_flight;
	sample->lost_since = losses - flight->losses;
}
