/*
 * A snapshot is the part of a controller's state that its specification has. The recorder takes one before and one after each
 * step. The monitor and the log of steps, which TLC compares with the specification, use them.
 */
#ifndef RW_SNAPSHOT_H
#define RW_SNAPSHOT_H

#include "detect.h"
#include "shadow.h"

struct rw_snapshot {
	uint64_t alpha_q32, con_ssthresh_q16; /* con_ssthresh: 0 where it is estimated */
	uint8_t initial_ss;
	uint8_t paths; /* number of places; those beyond are not read */
	uint8_t apart; /* a bit for each live path that a verdict found to share its bottleneck with no other */
	rw_transition_path path[RW_MAX_PATHS];
};

/* The state of a detector with judgements, without its times. set_asked[0] and set_seen[0] belong to set 1, and so on. */
struct rw_detector_snapshot {
	struct rw_detected_path path[RW_MAX_PATHS];
	uint8_t asked[RW_MAX_PATHS],
	    set_asked[RW_SETS_MAX]; /* 1 + the path whose ECE a decision waits on; 0: none waits */
	uint8_t seen[RW_MAX_PATHS], set_seen[RW_SETS_MAX];   /* by that decision: a bit for each path */
};

/* The controller's words and options that a snapshot needs, as indices; -1: it has none of that name. */
struct rw_word_places {
	int8_t initial_ss, alpha, con_ssthresh, coupled_rtt, estimate, beta;
	int8_t mode, min_ssthresh, alpha0, cap, cap_scale, alpha_form, join_weighted, aca_md, aca_safe, same_loss_ratio,
	    ssthresh, aca_period, p_est;
	int8_t beta_floor, beta_loss, beta_inside_max;
	uint8_t verdicts; /* a final verdict that a subflow shares with no other takes it out of coupled slow start */
};

/* A final verdict that a path is in no set, or in one without another path. */
int rw_shares_with_nobody(const struct rw_snapshot *snapshot, uint32_t path);
/* Of the snapshot after the step: adds the verdicts of the step to those of the snapshot before it. */
void rw_snapshot_remember_verdicts(const struct rw_word_places *places, const struct rw_snapshot *before,
				   const struct rw_transition *transition, struct rw_snapshot *after);
/* Whether the controller has a specification. */
int rw_is_monitored(const struct rw_control *control);
struct rw_word_places rw_word_places_of(const struct rw_control *control);
void rw_snapshot_take(const struct rw_connection *c, const struct rw_word_places *places, struct rw_snapshot *snapshot);
/* After an RTT sample: takes over the path's times; 0 when other fields have changed, too. */
int rw_snapshot_update_times(const struct rw_connection *c, const struct rw_word_places *places, uint32_t path,
			     struct rw_snapshot *snapshot);

void rw_detector_snapshot_take(const struct rw_detect *detect, struct rw_detector_snapshot *snapshot);
/* Whether it is a step of a detector. */
int rw_is_of_detector(uint32_t kind);

/*
 * Checks the properties of specs/ on one step: a bit of enum rw_check for each that it violates. The arithmetic of a
 * window is checked within the bounds of tests/unit/test_controllers.py.
 */
uint64_t rw_monitor(const struct rw_connection *c, const struct rw_control *control,
		    const struct rw_word_places *places, const struct rw_snapshot *before,
		    const struct rw_transition *transition, const struct rw_snapshot *after);
/* Checks a step of a controller against the sets that its own detector has found by then. */
uint64_t rw_monitor_told(const struct rw_detector_snapshot *known, const struct rw_snapshot *after);
/* Checks one step of a detector. */
uint64_t rw_monitor_detector(const struct rw_detector_snapshot *before, const struct rw_transition *transition,
			     const struct rw_detector_snapshot *after);

#endif
