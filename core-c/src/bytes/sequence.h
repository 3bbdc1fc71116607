/* TCP's sequence numbers, which are counted modulo 2^32 (RFC 9293 3.4). */
#ifndef RW_SEQUENCE_H
#define RW_SEQUENCE_H

#include <stdint.h>

/* How far a lies after b; negative when it lies before. */
static inline int32_t rw_seq_diff(uint32_t a, uint32_t b) { return (int32_t)(a - b); }

/* [start, end) */
struct rw_range {
	uint32_t start, end;
};

#endif
