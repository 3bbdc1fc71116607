/* The host's clock. A kernel's timers fire at ticks. */
#ifndef RW_KERNEL_H
#define RW_KERNEL_H

#include <stdint.h>

struct rw_kernel {
	uint64_t tick_ns;  /* 4 ms at 250 Hz */
	uint64_t phase_ns; /* so long before the simulation's zero a tick began; below tick_ns */
	uint32_t ts_first; /* TCP's timestamp at the simulation's zero; it counts milliseconds */
	uint32_t ts_phase_ns; /* so long before zero it counted last */
};

/* When a timer fires that is set now, for so long. See "Reinventing the timer wheel" (LWN, 2015): never early, and the longer the rougher. */
int64_t rw_kernel_fires_ns(const struct rw_kernel *k, int64_t now_ns, uint64_t delay_ns);

static inline uint32_t rw_kernel_timestamp(const struct rw_kernel *k, int64_t now_ns)
{
	return k->ts_first + (uint32_t)(((uint64_t)now_ns + k->ts_phase_ns) / 1000000);
}

#endif
