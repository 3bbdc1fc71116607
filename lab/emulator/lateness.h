/* How late packets were: a histogram with an error of at most 1/16. */
#ifndef EMULATOR_LATENESS_H
#define EMULATOR_LATENESS_H

#include <stdint.h>

enum { LATENESS_STEPS = 16, LATENESS_BUCKETS = 64 * LATENESS_STEPS };

struct lateness {
	uint64_t count[LATENESS_BUCKETS], packets, max_ns;
};

void lateness_add(struct lateness *l, int64_t ns);

/* The least value that `share` of the packets do not exceed, rounded up to its bucket's end; 0 without packets. */
uint64_t lateness_quantile_ns(const struct lateness *l, double share);

#endif
