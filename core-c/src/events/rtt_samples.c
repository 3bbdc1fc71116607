/* Quantiles of a flow's round trips: the first samples as they are, then a histogram. */
#include "reconstruction.h"

#include <stdlib.h>
#include <string.h>

static uint32_t rtt_bucket(uint64_t us)
{
	if (us < 32)
		return (uint32_t)us;
	uint32_t octave = 63 - (uint32_t)__builtin_clzll(us);
	uint32_t bucket = (octave - 4) * 32 + (uint32_t)(us >> (octave - 5) & 31);
	return bucket < RW_RTT_BUCKETS ? bucket : RW_RTT_BUCKETS - 1;
}

static uint64_t rtt_bucket_start_us(uint32_t bucket)
{
	if (bucket < 32)
		return bucket;
	uint32_t octave = bucket / 32 + 4;
	return (uint64_t)(32 + bucket % 32) << (octave - 5);
}

void rw_rtt_samples_add(struct rw_rtt_samples *s, uint64_t rtt_ns)
{
	uint64_t us = rtt_ns < 1000 ? 1 : rtt_ns < RW_RTT_MAX_NS ? rtt_ns / 1000 : RW_RTT_MAX_NS / 1000;
	uint32_t sample = (uint32_t)us;
	if (s->count < RW_RTT_EARLY) {
		s->early_us[s->count++] = sample;
		return;
	}
	if (!s->histogram) {
		s->histogram = calloc(RW_RTT_BUCKETS, sizeof *s->histogram);
		if (!s->histogram)
			return; /* the quantiles stay those of the first samples */
		for (uint32_t i = 0; i < RW_RTT_EARLY; i++)
			s->histogram[rtt_bucket(s->early_us[i])]++;
	}
	s->histogram[rtt_bucket(sample)]++;
	s->count++;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

uint32_t rw_rtt_samples_quantile_us(const struct rw_rtt_samples *s, uint32_t percent, uint64_t least_us)
{
	if (!s->count)
		return 0;
	uint64_t rank = (s->count - 1) * percent / 100, below = 0;
	if (!s->histogram) {
		uint32_t sorted[RW_RTT_EARLY];
		memcpy(sorted, s->early_us, sizeof sorted);
		qsort(sorted, s->count, sizeof *sorted, by_size);
		return sorted[rank];
	}
	for (uint32_t b = 0; b < RW_RTT_BUCKETS; b++) {
		uint64_t here = s->histogram[b];
		if (below + here > rank) {
			uint64_t from = rtt_bucket_start_us(b), to = rtt_bucket_start_us(b + 1);
			uint64_t us = from + (to - from) * (2 * (rank - below) + 1) / (2 * here);
			us = us < least_us ? least_us : us;
			return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
		}
		below += here;
	}
	return 0;
}
