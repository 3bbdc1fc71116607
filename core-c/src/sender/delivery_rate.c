#include "delivery_rate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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
	d->interval = NULL;
	d->first = d->count = d->capacity = 0;
}

void rw_delivery_rate_forget(struct rw_delivery_rate *d) { d->first = d->count = 0; }

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
	rw_delivery_rate_forget(d);
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
	uint32_t low = 0, high = d->count; /* of the first that began after the packet left */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (interval_at(d, middle)->since_ns <= sent_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? interval_at(d, low - 1) : NULL;
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
