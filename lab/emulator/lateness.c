#include "lateness.h"

/* Below 16 each value has a bucket; above, each power of two has 16. */
static uint32_t bucket_of(uint64_t ns)
{
	if (ns < LATENESS_STEPS)
		return (uint32_t)ns;
	uint32_t octave = 63 - (uint32_t)__builtin_clzll(ns) - 4;
	return octave * LATENESS_STEPS + (uint32_t)(ns >> octave);
}

static uint64_t end_of(uint32_t bucket)
{
	if (bucket < 2 * LATENESS_STEPS)
		return bucket;
	uint32_t octave = bucket / LATENESS_STEPS - 1;
	return ((uint64_t)(bucket % LATENESS_STEPS + LATENESS_STEPS + 1) << octave) - 1;
}

void lateness_add(struct lateness *l, int64_t ns)
{
	uint64_t late = ns > 0 ? (uint64_t)ns : 0;
	l->count[bucket_of(late)]++;
	l->packets++;
	if (late > l->max_ns)
		l->max_ns = late;
}

uint64_t lateness_quantile_ns(const struct lateness *l, double share)
{
	uint64_t seen = 0;
	for (uint32_t i = 0; i < LATENESS_BUCKETS; i++) {
		seen += l->count[i];
		if (l->count[i] && (double)seen >= share * (double)l->packets)
			return end_of(i) < l->max_ns ? end_of(i) : l->max_ns;
	}
	return 0;
}
