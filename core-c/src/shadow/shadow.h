/*
 * A shadow: the window that a controller would have on one subflow, driven by recorded events.
 *
 * Open loop: the recorded ACKs answered the recorded window, not the shadow's (docs/decisions/open-loop.md).
 * mode=kernel runs Linux's machinery around the controller (PRR, growth only while the shadow itself limits the
 * flight); mode=paper sets cwnd to ssthresh at once and lets it grow while the recorded sender was limited by neither
 * application nor receiver. `gate` and `losses` choose each of the two for itself.
 */
#ifndef RW_SHADOW_H
#define RW_SHADOW_H

#include <stddef.h>

#include "events.h"
#include "rewindow.h"
#include "rw_control.h"
#include "window.h"

enum rw_gate { RW_GATE_AUTO, RW_GATE_OWN, RW_GATE_OBSERVED };
enum rw_losses { RW_LOSSES_RECORDED, RW_LOSSES_REACHED };

/* What a user chose for one replay of one controller. */
struct rw_settings {
	int64_t option[RW_MAX_OPTIONS]; /* the controller's own */
	uint8_t gate, losses;           /* the shadow's */
	uint8_t detector;               /* 1 + its place in the registry; 0: none */
};

/* Other phases of the sender's clock that are tried beside this one (ticks.c). */
struct rw_ticks;

struct rw_shadow_path {
	uint64_t prior_cwnd_q16;
	uint64_t prior_ssthresh_q16; /* 0: a reduction that may not be undone */
	struct rw_prr prr;
	struct rw_window_use use;
	uint32_t initial_window;
	/* the window that an idle time reduced, as long as flights may show that it was not */
	uint32_t restart_segments;
	uint64_t restart_ssthresh_q16;
	uint32_t doubled_una, doubled,
	    doubled_flight; /* the ACK before: up to where, how many segments, and the flight then */
	uint64_t limited_from,
	    limited_until; /* segments delivered: what left in between, the application had held back */
	uint8_t doublings; /* how many ACKs in turn set free twice what they delivered */
	uint8_t adrift; /* its beginning was not captured, and no reduction since: the flight tells the window */
	uint8_t kept; /* how many idle times in turn it was seen to outlast */
	uint8_t spared; /* the loss episode under way is not shown to this controller */
};

struct rw_shadow;

/* One step that a controller has made, of those that its specification knows. */
struct rw_transition {
	uint8_t kind; /* rw_transition_kind */
	uint8_t path;
	/* Of the ACK that caused it, as struct rw_ack has them; 0 in other steps. */
	uint32_t acked_segments, marked_segments, una, next;
	uint64_t rtt_ns;
};

/* Is told of every step after the controller has made it (conformance/recorder.c). */
struct rw_observer {
	void (*stepped)(struct rw_observer *observer, const struct rw_shadow *s,
			const struct rw_transition *transition);
};

/* One connection under one controller, in a block of rw_shadow_bytes with only the paths that it can have. */
struct rw_shadow {
	const struct rw_control *control;
	struct rw_connection *connection;
	struct rw_shadow_path *path;
	struct rw_observer *observer; /* null: nobody looks */
	struct rw_ticks *ticks; /* null: no other phase is tried, not yet or not any more */
	/* added to a capture's time it is the sender's, whose ticks begin at multiples of their length */
	int64_t clock_ns;
	uint8_t gate, losses;
	uint8_t learns_ticks; /* the phase matters to the controller, and nothing was tried yet */
};

/* paths: 1 to RW_MAX_PATHS. */
static inline size_t rw_shadow_bytes(uint32_t paths)
{
	return sizeof(struct rw_shadow) + paths * sizeof(struct rw_shadow_path) + offsetof(struct rw_connection, path) +
	       paths * sizeof(struct rw_path);
}

struct rw_shadow_row {
	uint64_t cwnd_q16, cwnd_before_q16, ssthresh_q16;
	uint8_t phase;
	/* Of a rate-based controller only. paced: the recorded sender let data go by a timer before; at_pace: at this pace. */
	uint8_t paced, at_pace;
	uint64_t bandwidth_q24, pacing_q24; /* as struct rw_model has them, after the ACK */
};

void rw_shadow_open(struct rw_shadow *s, const struct rw_control *control, const struct rw_settings *settings,
		    uint32_t paths, uint32_t mss_bytes);
void rw_shadow_close(struct rw_shadow *s);
void rw_shadow_join(struct rw_shadow *s, uint32_t path, uint64_t srtt_ns);
void rw_shadow_leave(struct rw_shadow *s, uint32_t path);
/* srtt_ns: after the event. row is filled by an ACK. */
void rw_shadow_event(struct rw_shadow *s, uint32_t path, const struct rw_event *e, uint64_t srtt_ns,
		     struct rw_shadow_row *row);
/* The same for an ACK that many controllers are told of; ack: rw_shadow_ack_of the path and e. */
void rw_shadow_ack(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, uint64_t srtt_ns,
		   struct rw_shadow_row *row);

/* The last step of an ACK: the window grows, or does not. Fills the rest of the row. */
void rw_shadow_grow(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, struct rw_shadow_row *row);

/* Did the sender fill its window before this ACK, as far as can be seen: neither its application nor the receiver ended the
   flight? */
static inline uint32_t rw_event_fills_window(const struct rw_event *e)
{
	return e->state == RW_SENDER_OPEN && e->sent_before && e->srtt_ns && e->room && !e->starved &&
	       !(e->flags & (RW_ACK_APP_LIMITED | RW_ACK_RWND_LIMITED));
}

static inline struct rw_ack rw_shadow_ack_of(uint32_t path, const struct rw_event *e)
{
	return (struct rw_ack){path,       e->delivered, e->rtt_ns,      e->rtt_newest_ns,
			       e->time_ns, e->ack,       e->next_before, e->marked};
}

/* Which set of subflows behind one bottleneck a path is in, before the callbacks of an event. */
void rw_shadow_set(struct rw_shadow *s, uint32_t path, uint8_t set, uint8_t state);
/* After all of one decision: first_path is one of those that it changed. */
void rw_shadow_regrouped(struct rw_shadow *s, uint32_t first_path);
/* Tells the observer of a step (rw_transition_kind) that the controller has made. */
void rw_shadow_stepped(const struct rw_shadow *s, uint8_t kind, uint32_t path);

/* The machinery's own moves, which a controller driven by hand shares. */
void rw_shadow_place(struct rw_shadow *s, uint32_t path, uint64_t cwnd_q16, uint64_t ssthresh_q16, uint64_t srtt_ns);
void rw_shadow_rtt(struct rw_shadow *s, const struct rw_ack *ack, uint64_t srtt_ns);
void rw_shadow_delivered(struct rw_shadow *s, const struct rw_ack *ack);
void rw_shadow_raise(struct rw_shadow *s, const struct rw_ack *ack);
/* An ACK for a rate-based controller. */
void rw_shadow_rate(struct rw_shadow *s, const struct rw_rate *sample);
/* The controller is told of growth that it may not have. */
void rw_shadow_withhold(struct rw_shadow *s, const struct rw_ack *ack);
/* marked: by ECN, not by a loss. */
void rw_shadow_reduce(struct rw_shadow *s, uint32_t path, int marked);
void rw_shadow_timeout(struct rw_shadow *s, uint32_t path, uint32_t in_flight, int new_episode);
/* The last reduction answered no loss (Eifel, DSACK, F-RTO); 0: there is none that may be undone. */
int rw_shadow_undo(struct rw_shadow *s, uint32_t path);
uint32_t rw_shadow_phase(const struct rw_shadow *s, uint32_t path, uint8_t sender_state);

/* Options by name: options.c. */
rw_option_info rw_option_describe(const struct rw_option *o);
/* The place of an option in its table; -1: not there. */
int rw_option_find(const struct rw_option *table, const char *name, size_t n);
/* owner: whose option it is, for the error. */
rw_status rw_option_read(const char *owner, const struct rw_option *o, const char *text, int64_t *value,
			 rw_error *error);
/* table: of what may be chosen, which the error names. Sets the error and returns its status, as the next one does. */
rw_status rw_no_such_option(const char *owner, const struct rw_option *table, const char *name, size_t n,
			    rw_error *error);
rw_status rw_unknown_control(const char *name, rw_error *error);
const struct rw_control *rw_control_find(const char *name);
/* Takes a callback from a copy of a controller. 0: it has none of that name, or the contract requires it. */
int rw_control_drop(struct rw_control *control, const char *callback);
rw_status rw_control_options(const struct rw_choice *choice, const struct rw_control *control,
			     struct rw_settings *settings, rw_error *error);

#endif
