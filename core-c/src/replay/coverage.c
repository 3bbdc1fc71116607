#include "coverage.h"

#include "rw_ways.h"
#include "search.h"

#include <stdlib.h>
#include <string.h>

/* Only an attack leaves so many holes open. Then the two nearest spans are merged. */
#define SPANS_MAX 4096

static int64_t place(struct rw_coverage *c, uint64_t sequence, int wide)
{
	if (!c->started) {
		c->started = 1;
		c->base = sequence;
		c->last = 0;
		return 0;
	}
	uint64_t expected = c->base + (uint64_t)c->last;
	int64_t step = wide ? (int64_t)(sequence - expected) : (int32_t)((uint32_t)sequence - (uint32_t)expected);
	/* A 64-bit number after 32-bit ones, or a forged one: only the low half can be compared. */
	if (step > (int64_t)1 << 40 || step < -((int64_t)1 << 40))
		step = (int32_t)((uint32_t)sequence - (uint32_t)expected);
	return c->last + step;
}

int rw_coverage_add(struct rw_coverage *c, uint64_t sequence, int wide, uint32_t length)
{
	if (length == 0)
		return 0;
	int64_t start = place(c, sequence, wide), end = start + length;
	c->last = start;
	/* The short way: most data goes on where the last span ends, or lies within that span. */
	struct rw_span *latest = c->count ? &c->span[c->count - 1] : NULL;
	if (RW_SHORT_WAY(latest) && start >= latest->start && start <= latest->end) {
		if (end > latest->end) {
			c->covered += (uint64_t)(end - latest->end);
			latest->end = end;
		}
		return 0;
	}
	struct rw_search s = {0, c->count}; /* the first span that ends at or after start */
	while (rw_search_goes_on(&s))
		rw_search_answer(&s, c->span[rw_search_middle(&s)].end < start);
	uint32_t low = (uint32_t)s.low, last = low;
	for (; last < c->count && c->span[last].start <= end; last++) {
		if (c->span[last].start < start)
			start = c->span[last].start;
		if (c->span[last].end > end)
			end = c->span[last].end;
		c->covered -= (uint64_t)(c->span[last].end - c->span[last].start);
	}
	c->covered += (uint64_t)(end - start);
	if (last == low) {
		if (c->count == SPANS_MAX) {
			uint32_t into = low < c->count ? low : c->count - 1;
			if (start < c->span[into].start)
				c->span[into].start = start;
			if (end > c->span[into].end)
				c->span[into].end = end;
			return 0;
		}
		if (c->count == c->room) {
			uint32_t room = c->room ? c->room * 2 : 4;
			struct rw_span *grown = realloc(c->span, room * sizeof *grown);
			if (!grown)
				return 1;
			c->span = grown;
			c->room = room;
		}
		memmove(c->span + low + 1, c->span + low, (c->count - low) * sizeof *c->span);
		c->count++;
	} else {
		memmove(c->span + low + 1, c->span + last, (c->count - last) * sizeof *c->span);
		c->count -= last - low - 1;
	}
	c->span[low].start = start;
	c->span[low].end = end;
	return 0;
}

void rw_coverage_free(struct rw_coverage *c)
{
	free(c->span);
	memset(c, 0, sizeof *c);
}
