/* The segments of one connection, which a replay reports when it is asked for them. */
#ifndef RW_SEGMENTS_H
#define RW_SEGMENTS_H

#include "coverage.h"
#include "rewindow.h"

struct rw_segments_path;

struct rw_segments {
	struct rw_segments_path *path; /* of each subflow; null: nobody asks */
	rw_segment_row *row; /* of the present batch */
	uint64_t count, room;
	struct rw_coverage sent; /* the data sequence numbers that the connection has sent */
	uint32_t connection;
};

/* 0, or 1: out of memory. */
int rw_segments_open(struct rw_segments *segments, uint32_t connection, uint32_t subflows);
void rw_segments_close(struct rw_segments *segments);

#endif
