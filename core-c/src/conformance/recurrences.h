/*
 * Values of the papers that depend on several steps: SB-CC's beta over a window of data, the values that an undo restores,
 * the largest flight between two reductions. The monitor computes each from the steps, exactly or within the tolerance
 * that is stated at the comparison, and remembers the values that the snapshots do not have.
 */
#ifndef RW_RECURRENCES_H
#define RW_RECURRENCES_H

#include "snapshot.h"

/* How an undo of the loss changes a subflow that left coupled slow start by a loss. */
enum rw_left { RW_LEFT_NOT, RW_LEFT_ALONE, RW_LEFT_BEFORE_ALL };

struct rw_path_memory {
	/* Before the last reduction. */
	uint64_t prior_cwnd_q16;
	uint64_t prior_ssthresh_q16; /* at least three quarters of the window; RW_SSTHRESH_UNSET: it had none */
	uint64_t largest_q16; /* largest window that grew since the last reduction; 0: none grew */
	uint64_t initial_q16; /* the sender began with at least this window, so no idle time reduces it further */
	uint32_t delivered, marked; /* segments, in the current window of data */
	uint32_t window_end; /* the sequence number whose acknowledgment ends that window */
	uint8_t window_runs;
	uint8_t known; /* the monitor has seen its join, so all of this is valid */
	uint8_t reducible; /* its last reduction may still be undone */
	uint8_t reduced; /* at least once since it joined */
	uint8_t left; /* enum rw_left, by its last reduction */
};

struct rw_memory {
	struct rw_path_memory path[RW_MAX_PATHS];
};

/* Checks one step against the memory, then adds the step to the memory. A bit of enum rw_check for each violation. */
uint64_t rw_monitor_recurrences(struct rw_memory *memory, const struct rw_connection *c,
				const struct rw_word_places *places, const struct rw_snapshot *before,
				const struct rw_transition *transition, const struct rw_snapshot *after);
/* A step that samples an RTT: checks coupled slow start's own average for one subflow. */
uint64_t rw_monitor_rtt(const struct rw_word_places *places, uint64_t before_ns, const struct rw_transition *transition,
			uint64_t after_ns);

#endif
