/*
 * Random numbers by counter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11).
 *
 * A number is a function of the seed, of the entity that draws it, and of how many numbers that entity drew before. So the
 * numbers are the same on every machine, and one entity's draws do not change another entity's numbers.
 */
#ifndef RW_RANDOM_H
#define RW_RANDOM_H

#include <stdint.h>

#include "fixed_point.h"

struct rw_random {
	uint64_t seed, entity, draws;
	uint32_t block[4]; /* the numbers of draws / 4, where draws is not at a block's begin */
};

static inline void rw_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)0xd2511f53 * c[0], b = (uint64_t)0xcd9e8d57 * c[2];
		uint32_t c1 = c[1], c3 = c[3];
		c[0] = (uint32_t)(b >> 32) ^ c1 ^ k[0];
		c[1] = (uint32_t)b;
		c[2] = (uint32_t)(a >> 32) ^ c3 ^ k[1];
		c[3] = (uint32_t)a;
		k[0] += 0x9e3779b9;
		k[1] += 0xbb67ae85;
	}
	for (int i = 0; i < 4; i++)
		out[i] = c[i];
}

/* Uniform over 0 to 2^32 - 1. */
static inline uint32_t rw_random_next(struct rw_random *r)
{
	if (r->draws % 4 == 0) {
		uint64_t block = r->draws / 4;
		const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)r->entity,
					     (uint32_t)(r->entity >> 32)};
		const uint32_t key[2] = {(uint32_t)r->seed, (uint32_t)(r->seed >> 32)};
		rw_philox(counter, key, r->block);
	}
	return r->block[r->draws++ % 4];
}

/* 1 with this probability, in units of 2^-32. A probability of 0 draws no number. */
static inline int rw_random_happens(struct rw_random *r, uint64_t probability_q32)
{
	return probability_q32 && rw_random_next(r) < probability_q32;
}

/* Exponentially distributed; at most 22.2 times the mean, as a draw has 32 bits. A mean of 0 draws no number. */
static inline uint64_t rw_random_exponential(struct rw_random *r, uint64_t mean)
{
	const uint64_t one_q32 = (uint64_t)1 << 32, ln2_q32 = 2977044472;
	if (!mean)
		return 0;
	uint64_t draw = rw_max64(rw_random_next(r), 1);
	uint64_t halvings_q32 = 32 * one_q32 - rw_log2_q32(draw << 32); /* -log2(draw / 2^32) */
	return rw_multiply_divide(mean, rw_multiply_divide(halvings_q32, ln2_q32, one_q32), one_q32);
}

#endif
