/*
 * The recurrences of the papers that one step does not show: what SB-CC's beta is made of over a window of data, what an
 * undo gives back, the largest flight between two reductions. The monitor works each out anew from the steps, exactly
 * or within the tolerance that is stated where it compares, and remembers for that what the snapshots do not have.
 */
#ifndef RW_RECURRENCES_H
#define RW_RECURRENCES_H

#include "snapshot.h"

/* What coupled slow start made of a subflow that left it by a loss, if the loss turns out to be none. */
enum rw_left { RW_LEFT_NOT, RW_LEFT_ALONE, RW_LEFT_BEFORE_ALL };

struct rw_path_memory {
	/* Before the last reduction. */
	uint64_t prior_cwnd_q16;
	uint64_t prior_ssthresh_q16; /* with three quarters of the window, at least; RW_SSTHRESH_UNSET: it had none */
	uint64_t largest_q16; /* window that grew since the last reduction; 0: none did */
	uint64_t initial_q16; /* window that no idle time takes: it began with that at least */
	uint32_t delivered, marked; /* segments, in the window of data that runs */
	uint32_t window_end; /* sequence number whose acknowledgment ends that window */
	uint8_t window_runs;
	uint8_t known; /* it joined while the monitor looked: all of this is its own */
	uint8_t reducible; /* its last reduction may still be undone */
	uint8_t reduced; /* at least once since it joined */
	uint8_t left; /* enum rw_left, by its last reduction */
};

struct rw_memory {
	struct rw_path_memory path[RW_MAX_PATHS];
};

/* Checks one step against what is remembered, then remembers the step. A bit of enum rw_check for each violation. */
uint64_t rw_monitor_recurrences(struct rw_memory *memory, const struct rw_connection *c,
				const struct rw_word_places *places, const struct rw_snapshot *before,
				const struct rw_transition *transition, const struct rw_snapshot *after);
/* A step that samples an RTT: how coupled slow start's own average of one subflow moved. */
uint64_t rw_monitor_rtt(const struct rw_word_places *places, uint64_t before_ns, const struct rw_transition *transition,
			uint64_t after_ns);

#endif
