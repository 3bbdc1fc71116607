/* A detector at work on one connection, in a replay or by hand. */
#ifndef RW_DETECT_H
#define RW_DETECT_H

#include "events.h"
#include "rewindow.h"
#include "rw_bottleneck.h"

enum { RW_DETECTORS_MAX = 8 };

/*
 * Receives a detector's changes: `changed` for each path whose set or state changed, then `complete` once for the decision, so
 * that nobody sees half of a set.
 */
struct rw_detect_sink {
	void (*changed)(void *to, int64_t time_ns, uint32_t path, const struct rw_detected_path *now);
	void (*complete)(void *to, uint32_t first_path);
	/* Called before these, for every step of the detector (rw_transition_kind). Null: not needed. */
	void (*stepped)(void *to, uint8_t kind, uint32_t path);
	void *to;
};

struct rw_detect {
	struct rw_detect *next;
	const struct rw_detector *detector;
	struct rw_detection *state;
	uint8_t which; /* index in the registry */
	uint8_t set[RW_MAX_PATHS], group_state[RW_MAX_PATHS]; /* as reported last */
};

/* option: in the order of the detector's table. Null: out of memory. */
struct rw_detect *rw_detect_open(uint32_t which, const int64_t *option, int64_t now_ns);
void rw_detect_close(struct rw_detect *w);
/* Lets time pass to now_ns, which never goes back, and takes due decisions. Call it before each of the functions below. */
void rw_detect_advance(struct rw_detect *w, int64_t now_ns, const struct rw_detect_sink *sink);
void rw_detect_join(struct rw_detect *w, uint32_t path, uint64_t srtt_ns, const struct rw_detect_sink *sink);
void rw_detect_leave(struct rw_detect *w, uint32_t path, const struct rw_detect_sink *sink);
void rw_detect_congestion(struct rw_detect *w, uint32_t path, enum rw_congestion kind,
			  const struct rw_detect_sink *sink);
/* srtt_ns: after the sample. */
void rw_detect_delivery(struct rw_detect *w, const struct rw_delivery *delivery, uint64_t srtt_ns);
/* Reports an event of a sender to the detector. */
void rw_detect_event(struct rw_detect *w, uint32_t path, const struct rw_event *e, uint64_t srtt_ns,
		     const struct rw_detect_sink *sink);

/* The index of a detector in the registry by its name; RW_DETECTORS_MAX: unknown. */
uint32_t rw_detector_find(const char *name);
/* Sets the defaults, then the chosen values. option: RW_MAX_OPTIONS values. */
rw_status rw_detector_options(const rw_choice *choice, uint32_t *which, int64_t *option, rw_error *error);

#endif
