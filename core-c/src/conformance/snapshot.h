/*
 * A snapshot is all of a controller's state that its specification speaks of. The recorder takes one before and one
 * after each step: the log of steps, which TLC holds against the specification, and the monitor use them.
 */
#ifndef RW_SNAPSHOT_H
#define RW_SNAPSHOT_H

#include "detect.h"
#include "shadow.h"

struct rw_snapshot {
	uint64_t alpha_q32, con_ssthresh_q16; /* con_ssthresh: 0 where it is estimated */
	uint8_t initial_ss;
	uint8_t paths; /* places that there are; what is beyond is not looked at */
	rw_transition_path path[RW_MAX_PATHS];
};

/* What a detector with judgements knows, without its times. set_asked[0] and set_seen[0] are of set 1, and so on. */
struct rw_detector_snapshot {
	struct rw_detected_path path[RW_MAX_PATHS];
	uint8_t asked[RW_MAX_PATHS],
	    set_asked[RW_SETS_MAX]; /* 1 + the path whose ECE a decision waits on; 0: none waits */
	uint8_t seen[RW_MAX_PATHS], set_seen[RW_SETS_MAX];   /* by that decision: a bit for each path */
};

/* Where a controller keeps what a snapshot shows, by its names of words and options; -1: it has none of that name. */
struct rw_word_places {
	int8_t initial_ss, alpha, con_ssthresh, coupled_rtt, estimate, beta;
	int8_t mode, min_ssthresh, alpha0, cap, cap_scale, alpha_form, join_weighted, aca_md, aca_safe, same_loss_ratio,
	    ssthresh, aca_period, p_est;
	int8_t beta_floor, beta_loss, beta_inside_max;
	uint8_t verdicts; /* a final verdict that a subflow shares with no other takes it out of coupled slow start */
};

/* A final verdict that a path is in no set, or in one without another path. */
int rw_shares_with_nobody(const struct rw_snapshot *snapshot, uint32_t path);
/* Is there a specification of it? */
int rw_is_monitored(const struct rw_control *control);
struct rw_word_places rw_word_places_of(const struct rw_control *control);
void rw_snapshot_take(const struct rw_connection *c, const struct rw_word_places *places, struct rw_snapshot *snapshot);
/* After a sample of the RTT: takes over the path's times; 0 when more than those has changed. */
int rw_snapshot_update_times(const struct rw_connection *c, const struct rw_word_places *places, uint32_t path,
			     struct rw_snapshot *snapshot);

void rw_detector_snapshot_take(const struct rw_detect *detect, struct rw_detector_snapshot *snapshot);
/* Is it a step of a detector? */
int rw_is_of_detector(uint32_t kind);

/*
 * The properties of specs/ on one step: a bit of enum rw_check for each that it violates. Where the arithmetic of a
 * window is checked, the bounds are those of tests/unit/test_controllers.py.
 */
uint64_t rw_monitor(const struct rw_connection *c, const struct rw_control *control,
		    const struct rw_word_places *places, const struct rw_snapshot *before,
		    const struct rw_transition *transition, const struct rw_snapshot *after);
/* On a step of a controller, against what its own detector has found by then. */
uint64_t rw_monitor_told(const struct rw_detector_snapshot *known, const struct rw_snapshot *after);
/* And on one step of a detector. */
uint64_t rw_monitor_detector(const struct rw_detector_snapshot *before, const struct rw_transition *transition,
			     const struct rw_detector_snapshot *after);

#endif
