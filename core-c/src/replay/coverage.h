/* The data sequence numbers that a connection has sent: the union of its DSS mappings (RFC 8684 3.3). */
#ifndef RW_COVERAGE_H
#define RW_COVERAGE_H

#include <stdint.h>

struct rw_coverage {
	struct rw_span {
		int64_t start, end;
	} *span; /* sorted and disjoint */
	uint32_t count, room;
	uint64_t covered;
	uint64_t base;   /* the first number, from which spans count */
	int64_t last;
	uint8_t started;
};

/* wide: the number has 64 bits; else it has the low 32, and the nearest such number to the last one is meant. 0, or 1: out of memory. */
int rw_coverage_add(struct rw_coverage *c, uint64_t sequence, int wide, uint32_t length);
void rw_coverage_free(struct rw_coverage *c);

#endif
