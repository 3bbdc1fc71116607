/* Arrays that grow while a network or a simulation is built. */
#ifndef RW_GROWING_H
#define RW_GROWING_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* One more place in an array that grows as its length passes powers of two. Null: out of memory. */
static inline void *rw_one_more(void *array, uint32_t length, size_t bytes)
{
	if (length & (length - 1))
		return array;
	return realloc(array, (length ? 2 * (size_t)length : 1) * bytes);
}

#endif
