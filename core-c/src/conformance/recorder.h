/* The steps of every controller with a specification, for those who asked: the monitor's count, and the log. */
#ifndef RW_RECORDER_H
#define RW_RECORDER_H

#include "recurrences.h"

/* Rows of the log between two batches. */
struct rw_transition_log {
	rw_transition_row *row;
	uint64_t count, room;
	uint8_t no_memory;
};

/* What the monitor found on one connection under one controller. */
struct rw_violations {
	uint64_t count, first_row;
	int64_t first_ns;
	uint8_t first_check, first_transition, first_path;
};

struct rw_recorder {
	struct rw_observer observer; /* first: a shadow knows it by this */
	struct rw_word_places places;
	struct rw_snapshot snapshot[2]; /* before a step and after it take turns */
	struct rw_detector_snapshot detected[2]; /* the same of its detector */
	struct rw_memory memory; /* the monitor's */
	uint8_t turn, detected_turn;
	uint8_t detector; /* its place + 1, where its steps are this log's; 0: none's */
	uint64_t *steps; /* where the monitor counts its connection's; null: nowhere */
	struct rw_recording *by;
	uint32_t connection;
	uint8_t choice;
	uint8_t monitored;
};

/* What all of a replay's shadows share. */
struct rw_recording {
	struct rw_transition_log *log; /* null: not asked for */
	int64_t now_ns;
	uint64_t row;            /* of the whole replay */
	void *owner;
	/* Where a connection's violations under a choice are counted; null when memory is used up. */
	struct rw_violations *(*violations)(void *owner, uint32_t connection, uint8_t choice);
	uint8_t monitor, no_memory;
	uint64_t transitions;          /* that the monitor has looked at */
};

/* s is open, without a subflow yet. */
void rw_recorder_attach(struct rw_recorder *o, struct rw_recording *by, struct rw_shadow *s, uint32_t connection,
			uint8_t choice);
/* Its place + 1 of the detector that is the controller's own: both are of one paper, and have its name. 0: it has none. */
uint8_t rw_own_detector(const struct rw_control *control, const struct rw_settings *settings);
/* A step that its detector has made. */
void rw_recorder_detector_step(struct rw_recorder *o, const struct rw_detect *detect, uint8_t kind, uint32_t path);

#endif
