/*
 * The reading stage of the first pass for several threads. A record is read once, by any thread: the thread that is furthest ahead
 * reads the next stretch of records, and sorts them by the threads that will survey them. Every thread takes its part of each stretch,
 * in order. Few stretches exist at a time, so a thread that is ahead waits.
 */
#ifndef RW_STRETCHES_H
#define RW_STRETCHES_H

#include "capture.h"
#include "packet.h"

/* Most records that a buffer of 128 KiB has. */
enum { RW_STRETCH_RECORDS = 2048, RW_STRETCH_PACKETS = 128 };

/* A record for one of the threads. */
struct rw_piece {
	struct rw_record record;
	uint64_t number;         /* of the record, from 1 on */
	struct rw_packet
	    *packet; /* null: this thread decodes the record; else decoded already, with family 0 if it is not TCP */
};

/* One thread's part of a stretch. */
struct rw_part {
	uint32_t count;
	struct rw_piece piece[RW_STRETCH_RECORDS];
};

struct rw_stretch {
	uint32_t records, packets;
	struct rw_packet packet[RW_STRETCH_PACKETS]; /* of records that the reader decodes */
	struct rw_buffer buffer; /* the bytes of its records */
	uint32_t readers; /* threads that are not through with it */
	struct rw_part *part; /* of each thread */
};

static inline int rw_stretch_is_full(const struct rw_stretch *b)
{
	return b->records == RW_STRETCH_RECORDS || b->packets == RW_STRETCH_PACKETS;
}

/* Reads records into an empty stretch until it is full. 1, or 0: it is the last one. One thread at a time calls it. */
typedef int rw_read_stretch(void *owner, struct rw_stretch *stretch);

struct rw_stretches;
/* Null: out of memory. */
struct rw_stretches *rw_stretches_open(uint32_t threads, rw_read_stretch *read, void *owner);
/* No thread may use its parts any more. */
void rw_stretches_close(struct rw_stretches *stretches);
/* The next part of a thread, which is through with the part before. Null: there are no more, or somebody stopped. */
const struct rw_part *rw_stretches_next(struct rw_stretches *stretches, uint32_t thread);
void rw_stretches_stop(struct rw_stretches *stretches);

#endif
