/*
 * The data of an MPTCP connection (RFC 8684): which subflow carries which part of it, what the receiver has in order, and what is
 * sent once more on another subflow. Data sequence numbers count from 0.
 */
#ifndef RW_STREAM_H
#define RW_STREAM_H

#include <stdint.h>

#include "rw_control.h"

/* A mapping's length has 16 bits. */
enum { RW_MAPPING_BYTES_MAX = 65535 };

/* The subflow's [start, start + bytes) is the data from `data` on. */
struct rw_mapping {
	uint64_t data;
	uint32_t start, bytes;
};

/* The mappings of one subflow that its receiver does not have in order yet: a ring, the oldest first. */
struct rw_mappings {
	struct rw_mapping *mapping;
	uint32_t first, count, room,
	    sending; /* sending: the one, counted from the first, that new segments are cut from */
};

struct rw_data_range {
	uint64_t start, end;
};

struct rw_stream {
	struct rw_mappings subflow[RW_MAX_PATHS];
	uint64_t given;      /* to subflows: data up to here */
	uint64_t una;        /* the first data that is not acknowledged */
	uint64_t window_end; /* the receiver's: the first data beyond it */
	/* The receiver's side */
	uint64_t next; /* expected */
	struct rw_data_range *held; /* beyond it, in order */
	uint32_t helds, held_room;
};

void rw_stream_close(struct rw_stream *s);
/*
 * Data [data, data + bytes) goes to a subflow, from its sequence number `start` on; `sent`: what it sends next. bytes: at most
 * RW_MAPPING_BYTES_MAX. 0, or 1: out of memory.
 */
int rw_stream_give(struct rw_stream *s, uint32_t subflow, uint32_t sent, uint32_t start, uint64_t data, uint32_t bytes);
/* Where a segment that begins at `start` must end: a segment has one mapping. */
uint32_t rw_stream_reach(struct rw_stream *s, uint32_t subflow, uint32_t start);
/* The receiver has the subflow's bytes up to `next` in order. 0, or 1: out of memory. */
int rw_stream_receive(struct rw_stream *s, uint32_t subflow, uint32_t next);
/* The subflow's mapping that holds `start`; of no bytes, where the receiver has had all of it. */
struct rw_mapping rw_stream_mapping(const struct rw_stream *s, uint32_t subflow, uint32_t start);

#endif
