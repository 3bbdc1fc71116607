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

/* A user's options for one replay of one controller. */
struct rw_settings {
	int64_t option[RW_MAX_OPTIONS]; /* of the controller */
	uint8_t gate, losses;           /* of the shadow */
	uint8_t detector;               /* 1 + its index in the registry; 0: none */
};

/* Shadows that try other phases of the sender's clock (ticks.c). */
struct rw_ticks;

struct rw_shadow_path {
	uint64_t prior_cwnd_q16;
	uint64_t prior_ssthresh_q16; /* 0: the reduction cannot be undone */
	struct rw_prr prr;
	struct rw_window_use use;
	uint32_t initial_window;
	/* the window before an idle time reduced it, while flights may still show that the sender kept it */
	uint64_t restart_q16;
	uint64_t restart_ssthresh_q16;
	/* the window as that idle time left it; 0: a flight behind which more data waited has been seen since */
	uint64_t restarted_q16;
	uint32_t doubled_una, doubled,
	    doubled_flight; /* of the ACK before: its number, the segments it delivered, and the flight before it */
	uint64_t limited_from,
	    limited_until; /* what left between these counts of delivered segments tells nothing of the path */
	uint8_t doublings; /* how many ACKs in turn released twice the delivered segments */
	uint8_t
	    adrift; /* the flow's beginning was not captured, and there was no reduction yet: the flight shows the window */
	uint8_t kept; /* how many idle times in turn did not reduce it */
	uint8_t spared; /* the controller is not told of the current loss episode */
};

struct rw_scheduler;
struct rw_shadow;

/* One step of a controller, as its specification has it. */
struct rw_transition {
	uint8_t kind; /* rw_transition_kind */
	uint8_t path;
	/* From the ACK that caused it, as in struct rw_ack; 0 in other steps. */
	uint32_t acked_segments, marked_segments, una, next;
	uint64_t rtt_ns;
};

/* Called after every step of the controller (conformance/recorder.c). */
struct rw_observer {
	void (*stepped)(struct rw_observer *observer, const struct rw_shadow *s,
			const struct rw_transition *transition);
};

/* One connection under one controller, in a block of rw_shadow_bytes with only as many paths as it can have. */
struct rw_shadow {
	const struct rw_control *control;
	struct rw_connection *connection;
	struct rw_shadow_path *path;
	struct rw_observer *observer; /* null: none */
	struct rw_ticks *ticks; /* null: no other phase is tried now */
	/* add it to a capture's time to get the sender's time, whose ticks begin at multiples of their length */
	int64_t clock_ns;
	uint8_t gate, losses;
	uint8_t learns_ticks; /* the phase matters to the controller, and no other phase was tried yet */
};

/* paths: 1 to RW_MAX_PATHS. */
static inline size_t rw_shadow_bytes(uint32_t paths)
{
	return sizeof(struct rw_shadow) + paths * sizeof(struct rw_shadow_path) + offsetof(struct rw_connection, path) +
	       paths * sizeof(struct rw_path);
}

/* Whose pace the recorded sender had: of those by which versions of an algorithm are told apart (struct rw_version_paces). */
enum rw_paced_as { RW_PACED_AS_EITHER = 0, RW_PACED_AS_OWN = 1, RW_PACED_AS_OTHER = 2 };

struct rw_shadow_row {
	uint64_t cwnd_q16, cwnd_before_q16, ssthresh_q16;
	uint8_t phase;
	/* Of a rate-based controller only. paced: the recorded sender let data go by a timer before; at_pace: at this pace. */
	uint8_t paced, at_pace;
	uint8_t version; /* rw_paced_as */
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
/* The same for an ACK that goes to many controllers; ack: the result of rw_shadow_ack_of for the path and e. */
void rw_shadow_ack(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, uint64_t srtt_ns,
		   struct rw_shadow_row *row);

/*
 * The same where nothing has to be inferred from a flight, as in a simulation: the caller has said with rw_shadow_used how its
 * sender used the window, and of a rate-based controller the event's sample is whole.
 */
void rw_shadow_respond(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, uint64_t srtt_ns,
		       struct rw_shadow_row *row);
/* The sender has sent all that it could. limited: its window, and nothing else, let no more out. */
struct rw_window_spending {
	int limited;
	uint32_t packets_out; /* unacknowledged segments */
	uint32_t una, next;
};
void rw_shadow_used(struct rw_shadow *s, uint32_t path, const struct rw_window_spending *sent);

/* The last step of an ACK: the growth of the window, if any. Fills the rest of the row. */
void rw_shadow_grow(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, struct rw_shadow_row *row);

/* Whether the sender filled its window before this ACK, as far as the capture shows: neither the application nor the receiver
   ended the flight. */
static inline uint32_t rw_event_fills_window(const struct rw_event *e)
{
	return e->state == RW_SENDER_OPEN && e->sent_before && e->srtt_ns && e->room && !rw_event_starved(e) &&
	       !(e->bursts && e->amid_burst) && !(e->flags & (RW_ACK_APP_LIMITED | RW_ACK_RWND_LIMITED));
}

static inline struct rw_ack rw_shadow_ack_of(uint32_t path, const struct rw_event *e)
{
	return (struct rw_ack){path,       e->delivered, e->rtt_ns,      e->rtt_newest_ns,
			       e->time_ns, e->ack,       e->next_before, e->marked};
}

/* Sets the set of subflows behind one bottleneck that a path is in. Call it before the callbacks of an event. */
void rw_shadow_set(struct rw_shadow *s, uint32_t path, uint8_t set, uint8_t state);
/* Call it after all changes of one decision; first_path is one of the changed paths. */
void rw_shadow_regrouped(struct rw_shadow *s, uint32_t first_path);
/* Reports a step (rw_transition_kind) of the controller to the observer. */
void rw_shadow_stepped(const struct rw_shadow *s, uint8_t kind, uint32_t path);

/* The machinery's operations, which a controller driven by hand shares. */
void rw_shadow_place(struct rw_shadow *s, uint32_t path, uint64_t cwnd_q16, uint64_t ssthresh_q16, uint64_t srtt_ns);
void rw_shadow_rtt(struct rw_shadow *s, const struct rw_ack *ack, uint64_t srtt_ns);
void rw_shadow_delivered(struct rw_shadow *s, const struct rw_ack *ack);
void rw_shadow_raise(struct rw_shadow *s, const struct rw_ack *ack);
/* Reports an ACK to a rate-based controller. */
void rw_shadow_rate(struct rw_shadow *s, const struct rw_rate *sample);
/* Reports to a rate-based controller, which has the callback, that a segment was found lost. */
void rw_shadow_lost(struct rw_shadow *s, const struct rw_lost *lost);
/* Reports to the controller growth that is withheld from it. */
void rw_shadow_withhold(struct rw_shadow *s, const struct rw_ack *ack);
/* marked: by ECN, not by a loss. */
void rw_shadow_reduce(struct rw_shadow *s, uint32_t path, int marked);
void rw_shadow_timeout(struct rw_shadow *s, uint32_t path, uint32_t in_flight, int new_episode);
/* The last reduction was spurious (Eifel, DSACK, F-RTO). 0: there is none that can be undone. */
int rw_shadow_undo(struct rw_shadow *s, uint32_t path);
uint32_t rw_shadow_phase(const struct rw_shadow *s, uint32_t path, uint8_t sender_state);

/* Options by name: options.c. */
rw_option_info rw_option_describe(const struct rw_option *o);
/* The place of an option in its table; -1: not there. */
int rw_option_find(const struct rw_option *table, const char *name, size_t n);
/* owner: the owner of the option, for the error. */
rw_status rw_option_read(const char *owner, const struct rw_option *o, const char *text, int64_t *value,
			 rw_error *error);
/* table: the known options, which the error lists. Sets the error and returns its status, as the next function does. */
rw_status rw_no_such_option(const char *owner, const struct rw_option *table, const char *name, size_t n,
			    rw_error *error);
rw_status rw_unknown_control(const char *name, rw_error *error);
const struct rw_control *rw_control_find(const char *name);
/* Removes a callback from a copy of a controller. 0: it has none of that name, or the contract requires it. */
int rw_control_drop(struct rw_control *control, const char *callback);
rw_status rw_control_options(const struct rw_choice *choice, const struct rw_control *control,
			     struct rw_settings *settings, rw_error *error);
/* option: RW_MAX_OPTIONS values, in the order of the scheduler's table. */
rw_status rw_scheduler_options(const struct rw_choice *choice, const struct rw_scheduler **scheduler, int64_t *option,
			       rw_error *error);

#endif
