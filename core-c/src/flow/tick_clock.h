/*
 * The clock of a host's TCP timestamps (RFC 7323), where it counts milliseconds: finds when its ticks began, on the capture's
 * clock. A packet leaves in the tick that its timestamp names, so the earliest packet of a tick bounds the tick's start.
 */
#ifndef RW_TICK_CLOCK_H
#define RW_TICK_CLOCK_H

#include "flow.h"

/* Clocks of two hosts drift apart by less: 100 us in a second. */
#define RW_CLOCK_DRIFT 10000

/* The value `first` began at first_ns or before. */
struct rw_tick_clock {
	uint8_t counts, started; /* counts: the clock counts milliseconds; set by the owner */
	uint32_t first, last;
	int64_t first_ns, seen_ns;
};

/* How long after the value `first` this value began. */
static inline int64_t rw_tick_clock_since_first_ns(const struct rw_tick_clock *c, uint32_t value)
{
	return (int64_t)rw_seq_diff(value, c->first) * RW_CLOCK_TICK_NS;
}

/*
 * Takes a packet with this value that was captured at time_ns and sent at latest_ns at the latest; before the clock has started,
 * at usual_ns before that. Returns how far the two clocks may have drifted apart since the packet before.
 */
static inline int64_t rw_tick_clock_see(struct rw_tick_clock *c, uint32_t value, int64_t time_ns, int64_t latest_ns,
					int64_t usual_ns)
{
	if (!c->started) {
		c->started = 1;
		c->first = value;
		c->first_ns = latest_ns - usual_ns;
		c->seen_ns = time_ns;
	}
	int64_t began = latest_ns - rw_tick_clock_since_first_ns(c, value), passed = time_ns - c->seen_ns;
	int64_t drift = passed > 0 ? passed / RW_CLOCK_DRIFT : 0;
	c->first_ns += drift;
	c->seen_ns = time_ns;
	c->last = value;
	if (began < c->first_ns)
		c->first_ns = began;
	return drift;
}

#endif
