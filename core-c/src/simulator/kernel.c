#include "kernel.h"

/* The wheel has levels of 64 places; each is 8 times as rough as the one before. */
enum { FIRST_TICKS = 64, LEVEL_SHIFT = 3, ROUGHEST_SHIFT = 24 };

int64_t rw_kernel_fires_ns(const struct rw_kernel *k, int64_t now_ns, uint64_t delay_ns)
{
	uint64_t now = ((uint64_t)now_ns + k->phase_ns) / k->tick_ns;
	uint64_t delay = delay_ns / k->tick_ns + (delay_ns % k->tick_ns != 0);
	uint32_t shift = 0;
	while (shift < ROUGHEST_SHIFT && delay >= (uint64_t)(FIRST_TICKS - 1) << shift)
		shift += LEVEL_SHIFT;
	uint64_t place = ((now + delay + ((uint64_t)1 << shift)) >> shift) << shift;
	return (int64_t)(place * k->tick_ns - k->phase_ns);
}
