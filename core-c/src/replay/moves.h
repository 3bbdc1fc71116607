/*
 * What a shadow does, move by move: for the log that a specification is held against, and for the monitor that runs at
 * ingest. A look is all of a controller's state that the specifications speak of.
 */
#ifndef RW_MOVES_H
#define RW_MOVES_H

#include "rewindow.h"
#include "rw_bottleneck.h"
#include "rw_control.h"

struct rw_detect;
struct rw_shadow;

struct rw_path_look {
	uint64_t cwnd_q16, ssthresh_q16;
	uint64_t flight_peak_q16;
	uint64_t srtt_ns;
	uint64_t coupled_rtt_ns; /* smoothed for coupled slow start (TCCC Algorithm 1, line 15) */
	uint64_t estimate_q16;   /* of its ssthresh; 0: none */
	uint64_t beta_q32;       /* SB-CC's share of marked segments */
	uint8_t live, initial, recovering, group, group_state;
};

struct rw_look {
	uint64_t alpha_q32, con_ssthresh_q16; /* con_ssthresh: 0 where it is estimated */
	uint8_t initial_ss;
	uint8_t paths; /* places that there are; what is beyond is not looked at */
	struct rw_path_look path[RW_MAX_PATHS];
};

/* All that a detector with judgements knows, but for times. set_: of set 1 and so on. */
struct rw_detector_look {
	struct rw_detected_path path[RW_MAX_PATHS];
	uint8_t asked[RW_MAX_PATHS], set_asked[RW_SETS_MAX]; /* 1 + the path whose ECE a decision waits on; 0: none waits */
	uint8_t seen[RW_MAX_PATHS], set_seen[RW_SETS_MAX];   /* by that decision: a bit for each path */
};

struct rw_move {
	uint8_t kind; /* rw_move_kind */
	uint8_t path;
	uint32_t acked_segments;
};

struct rw_observer {
	void (*moved)(struct rw_observer *observer, const struct rw_shadow *s, const struct rw_move *move);
};

/* Where a controller keeps what a look shows, by its names of words and options; -1: it has none of that name. */
struct rw_places {
	int8_t initial_ss, alpha, con_ssthresh, coupled_rtt, estimate, beta;
	int8_t mode, min_ssthresh, alpha0, cap, cap_scale, alpha_form, join_weighted, aca_md, aca_safe, same_loss_ratio, aca_period, p_est;
	int8_t beta_floor, beta_loss, beta_inside_max;
};

/* Is there a specification of it? */
int rw_is_monitored(const struct rw_control *control);
struct rw_places rw_places_of(const struct rw_control *control);
void rw_look_at(const struct rw_connection *c, const struct rw_places *places, struct rw_look *look);
/* After a sample of the RTT: takes over the path's times; 0 when more than those has changed. */
int rw_look_again(const struct rw_connection *c, const struct rw_places *places, uint32_t path, struct rw_look *look);

void rw_look_at_detector(const struct rw_detect *detect, struct rw_detector_look *look);
/* Is it a step of a detector? */
int rw_is_of_detector(uint32_t kind);

/*
 * The properties of specs/ on one step: a bit of enum rw_check for each that it violates. Where the arithmetic of a
 * window is checked, the bounds are those of tests/unit/test_controllers.py.
 */
uint32_t rw_monitor(const struct rw_connection *c, const struct rw_control *control, const struct rw_places *places,
		    const struct rw_look *before, const struct rw_move *move, const struct rw_look *after);
/* On a step of a controller, against what its own detector has found by then. */
uint32_t rw_monitor_told(const struct rw_detector_look *known, const struct rw_look *after);
/* And on one step of a detector. */
uint32_t rw_monitor_detector(const struct rw_detector_look *before, const struct rw_move *move,
			     const struct rw_detector_look *after);

#endif
