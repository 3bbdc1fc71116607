/*
 * MPTCP's data under a packet scheduler of the registry (scheduler/): the scheduler decides which subflow is given which segments; here
 * is kept what it must be told: the data that no subflow has yet, who carried what, and which windows were halved.
 *
 * A segment is as long as the smallest MSS of the connection's subflows. The contract's data sequence numbers are bytes divided by it.
 */
#ifndef RW_SCHEDULING_H
#define RW_SCHEDULING_H

#include <stdint.h>

#include "rw_scheduler.h"
#include "stream.h"

struct rw_data_ranges {
	struct rw_data_range *range;
	uint32_t first, count, room; /* those from `first` on, `count` of them */
};

struct rw_scheduled {
	const struct rw_scheduler *scheduler;
	int64_t option[RW_MAX_OPTIONS];
	uint32_t segment_bytes;
	uint32_t previous;        /* the subflow of the decision before, or RW_NO_SUBFLOW */
	int8_t beta_word;        /* the word of a path that has SB-CC's beta, Q32; -1: the controller has none */
	uint64_t seen;         /* what was written is in `waiting` up to here */
	struct rw_data_ranges waiting; /* that no subflow was given, in order */
	/* What each subflow was given, in this order; without what is acknowledged. */
	struct rw_data_ranges carried[RW_MAX_PATHS];
	int64_t penalized_ns[RW_MAX_PATHS]; /* when its window was halved; -1: never */
};

void rw_scheduled_close(struct rw_scheduled *d);

/* The subflow is given data [start, end). 0, or 1: out of memory. */
int rw_scheduled_carry(struct rw_scheduled *d, uint32_t path, uint64_t start, uint64_t end);
/* How far the data from `from` on was given to subflows, at most `given`. */
uint64_t rw_scheduled_given(const struct rw_scheduled *d, uint64_t from, uint64_t given);

#endif
