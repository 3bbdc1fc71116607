/* The captures that the measurements read. Each depends on its arguments only. */
#ifndef BENCH_GENERATE_H
#define BENCH_GENERATE_H

#include <stdint.h>

#include "frames.h"

struct report {
	uint64_t connections, retransmissions;
};

/* transfers.c: long transfers of NewReno senders with losses; about `packets` packets. */
struct report generate_bulk(struct output *o, uint64_t packets);
/* subflows: 2, 4 or 8 in each connection; 8 subflows in all. */
struct report generate_mptcp(struct output *o, uint64_t packets, uint32_t subflows);
/* lossy.c: one transfer with a window of so many segments, of which one in `one_in` is lost. */
struct report generate_lossy(struct output *o, uint64_t packets, uint32_t window, uint32_t one_in);
/* exchanges.c: short scripts without losses. */
struct report generate_many(struct output *o, uint64_t connections);
struct report generate_churn(struct output *o, uint64_t bytes);
/* So many flows at once, one packet of each in turn; and with windows of 40 segments. */
struct report generate_interleaved(struct output *o, uint64_t bytes, uint32_t flows);
struct report generate_balanced(struct output *o, uint64_t bytes, uint32_t flows);
/* Connections of three segments, from SYN to FIN, `live` at once. */
struct report generate_short(struct output *o, uint64_t connections, uint32_t live);
/* Eight flows with segmentation offload: frames of 44 segments. */
struct report generate_offload(struct output *o, uint64_t bytes);

/* splitmix64: numbers for losses and sizes, the same in every run. */
static inline uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

#endif
