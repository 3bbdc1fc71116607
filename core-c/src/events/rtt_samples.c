/* Quantiles of a flow's round trips: the first samples one by one, then a histogram. */
#include "reconstruction.h"

#include <stdlib.h>
#include <string.h>

static uint32_t rtt_bucket(uint64_t us)
{
	if (us < 32)
		return (uint32_t)us;
	uint32_t octave = 63 - (uint32_t)__builtin_clzll(us);
	uint32_t bucket = (octave - 4) * RW_RTT_STEPS + (uint32_t)(us >> (octave - 5) & 31);
	return bucket < RW_RTT_OCTAVES * RW_RTT_STEPS ? bucket : RW_RTT_OCTAVES * RW_RTT_STEPS - 1;
}

static uint64_t rtt_bucket_start_us(uint32_t bucket)
{
	if (bucket < 32)
		return bucket;
	uint32_t octave = bucket / 32 + 4;
	return (uint64_t)(32 + bucket % 32) << (octave - 5);
}

/* Extends the histogram by one octave. 0, or 1: out of memory. */
static RW_ASIDE int cover_octave(struct rw_rtt_samples *s, uint32_t octave)
{
	uint32_t first = octave < s->first_octave || !s->octaves ? octave : s->first_octave;
	uint32_t last =
	    s->octaves && s->first_octave + s->octaves - 1u > octave ? s->first_octave + s->octaves - 1u : octave;
	uint32_t octaves = last - first + 1;
	uint32_t *grown = calloc((size_t)octaves * RW_RTT_STEPS, sizeof *grown);
	if (!grown)
		return 1;
	if (s->octaves)
		memcpy(grown + (s->first_octave - first) * RW_RTT_STEPS, s->histogram,
		       (size_t)s->octaves * RW_RTT_STEPS * sizeof *grown);
	free(s->histogram);
	s->histogram = grown;
	s->first_octave = (uint8_t)first;
	s->octaves = (uint8_t)octaves;
	return 0;
}

/* 0, or 1: out of memory, and the sample is not counted. */
static int count_sample(struct rw_rtt_samples *s, uint32_t us)
{
	uint32_t bucket = rtt_bucket(us), octave = bucket / RW_RTT_STEPS;
	if (octave - s->first_octave >= s->octaves && cover_octave(s, octave))
		return 1;
	s->histogram[bucket - s->first_octave * RW_RTT_STEPS]++;
	return 0;
}

/* Makes a histogram of the early samples. 0, or 1: out of memory, and there is no histogram. */
static RW_ASIDE int begin_histogram(struct rw_rtt_samples *s)
{
	for (uint32_t i = 0; i < RW_RTT_EARLY; i++)
		if (count_sample(s, s->early_us[i])) {
			free(s->histogram);
			s->histogram = NULL;
			s->octaves = 0;
			return 1;
		}
	return 0;
}

void rw_rtt_samples_add(struct rw_rtt_samples *s, uint64_t rtt_ns)
{
	uint64_t us = rtt_ns < 1000 ? 1 : rtt_ns < RW_RTT_MAX_NS ? rtt_ns / 1000 : RW_RTT_MAX_NS / 1000;
	uint32_t sample = (uint32_t)us;
	if (s->count < RW_RTT_EARLY) {
		s->early_us[s->count++] = sample;
		return;
	}
	if (!s->histogram && begin_histogram(s))
		return; /* the quantiles stay those of the first samples */
	s->count += !count_sample(s, sample);
}

/* The early sample with `rank` others before it, by size. */
static uint32_t early_of_rank(const struct rw_rtt_samples *s, uint64_t rank)
{
	uint32_t sorted[RW_RTT_EARLY];
	for (uint32_t i = 0; i < s->count; i++) {
		uint32_t at = i;
		for (; at && sorted[at - 1] > s->early_us[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = s->early_us[i];
	}
	return sorted[rank];
}

uint32_t rw_rtt_samples_quantile_us(const struct rw_rtt_samples *s, uint32_t percent, uint64_t least_us)
{
	if (!s->count)
		return 0;
	uint64_t rank = (s->count - 1) * percent / 100, below = 0;
	if (!s->histogram)
		return early_of_rank(s, rank);
	for (uint32_t i = 0; i < (uint32_t)s->octaves * RW_RTT_STEPS; i++) {
		uint32_t b = s->first_octave * RW_RTT_STEPS + i;
		uint64_t here = s->histogram[i];
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
