/* Records the steps of every controller with a specification, for the monitor and for the log where these are requested. */
#ifndef RW_RECORDER_H
#define RW_RECORDER_H

#include "recurrences.h"

/* Rows of the log between two batches. */
struct rw_transition_log {
	rw_transition_row *row;
	uint64_t count, room;
	uint8_t no_memory;
};

/* The monitor's result for one connection under one controller. */
struct rw_violations {
	uint64_t count, first_row;
	int64_t first_ns;
	uint8_t first_check, first_transition, first_path;
};

struct rw_recorder {
	struct rw_observer observer; /* must be first, because a shadow has a pointer to it */
	struct rw_word_places places;
	struct rw_snapshot snapshot[2]; /* before and after a step, alternately */
	struct rw_detector_snapshot detected[2]; /* the same for its detector */
	struct rw_memory memory; /* the monitor's */
	uint8_t turn, detected_turn;
	uint8_t detector; /* index + 1 of the detector whose steps this log has; 0: none */
	uint64_t *steps; /* the monitor's count of the connection's steps; null: not counted */
	struct rw_recording *by;
	uint32_t connection;
	uint8_t choice;
	uint8_t monitored;
};

/* Shared by all shadows of a replay. */
struct rw_recording {
	struct rw_transition_log *log; /* null: not requested */
	int64_t now_ns;
	uint64_t row; /* of the whole replay */
	void *owner;
	/* The counter of a connection's violations under a choice; null: out of memory. */
	struct rw_violations *(*violations)(void *owner, uint32_t connection, uint8_t choice);
	uint8_t monitor, no_memory;
	uint64_t transitions; /* checked by the monitor */
};

/* s must be open and have no subflow yet. */
void rw_recorder_attach(struct rw_recorder *o, struct rw_recording *by, struct rw_shadow *s, uint32_t connection,
			uint8_t choice);
/* Index + 1 of the controller's own detector, which has the same name and paper. 0: it has none. */
uint8_t rw_own_detector(const struct rw_control *control, const struct rw_settings *settings);
/* A step of its detector. */
void rw_recorder_detector_step(struct rw_recorder *o, const struct rw_detect *detect, uint8_t kind, uint32_t path);

#endif
