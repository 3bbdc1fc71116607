/* A flow's TCP timestamps (RFC 7323): whether packets waited before they were captured, and which side is near. */
#include <stdlib.h>

#include "flow.h"

#define MS 1000000ll
/* Flows with fewer packets, which are most, show nothing. */
#define PACKETS_BEFORE 16
/* Two clocks drift apart by less than a tick in this time. */
#define WINDOW_NS (2000 * MS)
/* One tick, and the time in which a host hands a packet on. */
#define LAG_NS (3 * MS)
/* The percentage of packets that must have waited. */
#define QUEUED_PERCENT 5
#define ELAPSED_MIN_NS (100 * MS)

static RW_ASIDE void begin_window(struct rw_side_clock *c, const struct rw_packet *p)
{
	if (c->packets == 1) {
		c->first_value = p->ts_value;
		c->first_ns = p->time_ns;
	}
	c->window_end_ns = p->time_ns + WINDOW_NS;
	c->least_ns = INT64_MAX;
}

/*
 * A paced sender stamps an ACK without data with the time at which its pace lets the next data go (measured): that value is ahead of
 * the clock, and data beside it would seem to have waited.
 */
static int may_be_ahead(const struct rw_packet *p) { return !p->payload_bytes && !(p->flags & RW_TCP_SYN); }

static void see_lag(struct rw_side_clock *c, const struct rw_packet *p)
{
	c->packets++;
	c->last_value = p->ts_value;
	c->last_ns = p->time_ns;
	if (p->time_ns > c->window_end_ns)
		begin_window(c, p);
	/* The lag behind a clock that began with the first value. */
	int64_t lag = p->time_ns - (int64_t)rw_seq_diff(p->ts_value, c->first_value) * RW_CLOCK_TICK_NS;
	if (may_be_ahead(p))
		return;
	if (lag < c->least_ns)
		c->least_ns = lag;
	int64_t late = lag - c->least_ns;
	if (late > LAG_NS && p->payload_bytes) {
		c->queued++;
		uint32_t us = late / 1000 > UINT32_MAX ? UINT32_MAX : (uint32_t)(late / 1000);
		if (us > c->lag_most_us)
			c->lag_most_us = us;
	}
}

/* The time from capturing a value to capturing its echo: to the other side and back, with that side's delay. */
static void see_echo(struct rw_side_clock *mine, struct rw_side_clock *other, const struct rw_packet *p)
{
	int32_t beyond = rw_seq_diff(p->ts_echo, other->pending_value);
	if (other->pending_ns && beyond >= 0) {
		uint64_t took = (uint64_t)(p->time_ns > other->pending_ns ? p->time_ns - other->pending_ns : 1);
		if (beyond == 0 && (!other->echo_ns || took < other->echo_ns))
			other->echo_ns = took;
		other->pending_ns = 0; /* echoed, or skipped by a later echo */
	}
	/* A repeated value is echoed for its first packet, so only a new value is followed. */
	if (!mine->pending_ns && p->ts_value != mine->pending_value) {
		mine->pending_value = p->ts_value;
		mine->pending_ns = p->time_ns;
	}
}

/* 0: none yet. */
static RW_ASIDE struct rw_flow_clock *make_clock(struct rw_flow *f, int *failed)
{
	if (f->side[0].packets + f->side[1].packets >= PACKETS_BEFORE) {
		f->clock = calloc(1, sizeof *f->clock);
		*failed = !f->clock;
		for (int side = 0; f->clock && side < 2; side++)
			f->clock->side[side].window_end_ns = INT64_MIN;
	}
	return f->clock;
}

int rw_clock_packet(struct rw_flow *f, int side, const struct rw_packet *p)
{
	int failed = 0;
	if (!p->has_timestamps || (!f->clock && !make_clock(f, &failed)))
		return failed;
	struct rw_side_clock *mine = &f->clock->side[side], *other = &f->clock->side[!side];
	see_lag(mine, p);
	see_echo(mine, other, p);
	return 0;
}

int rw_clock_ticks(const struct rw_flow *f, int side)
{
	if (!f->clock)
		return 0;
	const struct rw_side_clock *c = &f->clock->side[side];
	int64_t elapsed = c->last_ns - c->first_ns;
	int64_t counted = (int64_t)rw_seq_diff(c->last_value, c->first_value) * RW_CLOCK_TICK_NS;
	return elapsed >= ELAPSED_MIN_NS && counted >= elapsed / 4 * 3 && counted <= elapsed / 4 * 5;
}

int rw_clock_queued(const struct rw_flow *f, int side)
{
	if (!rw_clock_ticks(f, side))
		return 0;
	const struct rw_side_clock *c = &f->clock->side[side];
	return (uint64_t)c->queued * 100 > (uint64_t)c->packets * QUEUED_PERCENT;
}

uint8_t rw_clock_near(const struct rw_flow *f)
{
	if (!f->clock || !f->clock->side[0].echo_ns || !f->clock->side[1].echo_ns)
		return 3;
	uint64_t to[2] = {f->clock->side[1].echo_ns, f->clock->side[0].echo_ns}, all = to[0] + to[1];
	for (uint8_t side = 0; side < 2; side++)
		if (to[side] <= all / 10)
			return (uint8_t)(1 + side);
	return all < (uint64_t)MS ? (uint8_t)(to[0] <= to[1] ? 1 : 2) : 0;
}
