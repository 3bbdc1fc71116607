/*
 * Binary search in a range in which a condition holds for the first places and for none after them: finds where it ends.
 *
 *   struct rw_search s = {first, behind};
 *   while (rw_search_goes_on(&s))
 *           rw_search_answer(&s, array[rw_search_middle(&s)].end < start);
 *   // s.low: the first place for which it does not hold; `behind` if it holds for all
 */
#ifndef RW_SEARCH_H
#define RW_SEARCH_H

#include <stdint.h>

struct rw_search {
	uint64_t low, high; /* the place is at low or behind it, and at high at the latest */
};

static inline int rw_search_goes_on(const struct rw_search *s) { return s->low < s->high; }

/* The place to test. */
static inline uint64_t rw_search_middle(const struct rw_search *s) { return s->low + (s->high - s->low) / 2; }

/* holds: whether the condition holds of rw_search_middle. */
static inline void rw_search_answer(struct rw_search *s, int holds)
{
	uint64_t middle = rw_search_middle(s);
	if (holds)
		s->low = middle + 1;
	else
		s->high = middle;
}

#endif
