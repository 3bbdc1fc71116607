/* What a replay under way knows; inside this folder only. */
#ifndef RW_STATE_H
#define RW_STATE_H

#include "shared_bottlenecks.h"
#include "capture.h"
#include "coverage.h"
#include "jobs.h"
#include "detect.h"
#include "lookahead.h"
#include "recorder.h"
#include "pass.h"
#include "shadow.h"

#define NO_SLOT 255

/*
 * Unacknowledged segments of all subflows are bounded by so many purses, one for each share of the connections: what one
 * connection may use depends on no connection of another thread.
 */
enum { RW_PURSES = RW_SHARES };

/* A controller's window on one flow, over its rows. */
struct window {
	uint64_t sum_q16, most_q16, last_q16;
	uint32_t matched, near; /* of the full rows */
	uint32_t exceeded;      /* of those too: by more than one segment */
	uint64_t first_record;  /* of these */
	int64_t first_ns;
};

/* What became of a flow: all that is kept of it after its last packet. */
struct outcome {
	uint64_t bytes, retransmitted_packets, retransmitted_bytes, unseen_bytes, acks;
	uint64_t rows, full_rows; /* full: the sender filled its window, as far as can be seen */
	struct window *window;    /* one for each controller, from the first row on */
	int64_t first_data_ns, last_advance_ns, first_unseen_ns;
	uint32_t spurious, ece_acks, ce_packets, fast_retransmits, timeouts, rtt_samples;
	uint32_t rtt_min_us, rtt_median_us, rtt_p95_us;
	uint8_t crowded_out, paced, gave_up;
	uint8_t seen; /* it had a packet */
	uint8_t over; /* and the last one was replayed */
};

/* A flow while it is replayed: from its first packet to its last. */
struct live {
	const struct rw_flow *flow;
	uint64_t packets_left; /* of those that the survey counted */
	int64_t last_ns, syn_ns, syn_ack_ns;
	uint32_t syn_value; /* the clock of its sender's timestamps, or 0 */
	int64_t set_back_ns; /* how far the capture's clock was */
	struct rw_reconstruction sender;
	uint64_t rows, full_rows;
	struct window *window;
	uint32_t ce_packets;
	uint8_t slot, established, left, syns, syn_acks, fin, crowded_out;
	uint8_t source;   /* the side of its data */
	uint8_t ready;     /* an ACK without steps is a row, and nothing else looks at it */
	uint8_t under_way; /* replayed as captured, after its handshake: only what ends it is special */
};

struct live_connection {
	uint8_t *shadows;             /* a struct rw_shadow of its size for each controller; see shadow_of */
	struct rw_recorder *recorder; /* of each controller; null: nobody asked for its steps */
	struct rw_violations *violations; /* of each controller; null: none yet */
	uint64_t monitored; /* steps */
	struct rw_coverage *coverage; /* null without data sequence numbers */
	struct rw_detect *detect;     /* a chain of those wanted; made with the shadows, and null for a single path */
	uint32_t left, over;          /* how many of its subflows have left, have had their last packet */
	uint8_t slots_used;           /* a bit for each */
	uint8_t closing; /* every subflow has sent its FIN: nothing is left to couple, detectors have ended */
};

struct columns {
	int64_t *time_ns;
	uint32_t *connection, *subflow, *una, *ack, *acked_bytes, *acked_segments, *rtt_us, *srtt_us, *in_flight_bytes;
	uint16_t *flags;
	uint64_t **cwnd_before_q16, **cwnd_q16, **ssthresh_q16;
	uint8_t **phase;
	int64_t *mark_time_ns;
	uint64_t *mark_row;
	uint32_t *mark_connection, *mark_subflow, *mark_value;
	uint64_t *mark_record; /* that it was made at, for those who merge */
	uint8_t *mark_kind;
	uint64_t mark_room;
	int64_t *set_time_ns;
	uint32_t *set_connection, *set_subflow;
	uint64_t *set_record;
	uint8_t *set_detector, *set_state, *set_number;
	uint64_t set_room;
};

struct choice {
	const struct rw_control *control;
	struct rw_settings settings;
};

struct detector_choice {
	uint8_t wanted;
	int64_t option[RW_MAX_OPTIONS];
};

/* Packets of the second pass that were read and not yet replayed, where the flows are mixed: what they need is fetched. */
enum { RW_AHEAD = 16 };
struct ahead {
	struct rw_noted noted[RW_AHEAD];
	uint32_t first, count;
	int got; /* of the last reading: 0 or less is the end */
};

struct rw_replay {
	int *fds;
	uint32_t files, choices, batch_rows;
	uint64_t total_bytes;
	struct choice *choice;
	struct detector_choice detector[RW_DETECTORS_MAX]; /* by their places in the registry */
	uint8_t detects; /* at least one of them is wanted */
	uint8_t as_filed; /* each packet is the next record of the one file: those of the second pass can be counted */
	struct rw_shared_bottlenecks *shared_bottlenecks; /* null: nobody asked */
	rw_limits limits;
	struct rw_survey survey;
	struct rw_budget purse[RW_PURSES]; /* of segments; a connection has that of its share */
	uint32_t purses;
	struct rw_jobs *jobs; /* null: one thread makes the second pass */
	struct rw_slice *slice; /* in a worker: what it fills; else null */
	struct rw_oddity_counts oddities;
	uint64_t surveyed_oddities; /* a bit for each kind that the first pass has counted */
	rw_summary summary;
	struct rw_pass *pass; /* the second */
	struct ahead *ahead; /* null: the flows are few, or not mixed */
	struct rw_lookahead *lookahead; /* null: no flow needs it */
	uint8_t *send_times; /* of each flow */
	struct live **live; /* null before a flow's first packet, and after its last */
	struct outcome *outcome; /* of each flow */
	struct live_connection *live_connection;
	struct columns columns;
	struct rw_recording recording;
	struct rw_transition_log log;
	uint8_t no_memory;
	uint8_t announces; /* somebody looks at each step of the controllers, or reads ahead of them */
	uint64_t rows, marks, sets, rows_before;
	uint8_t ended;
};

/* records.c: the first pass. */
rw_status rw_records_survey(rw_replay *r, rw_error *error);
/* The first record of each oddity, and its time, as it stands in its file, where it was not counted so. */
void rw_records_number(rw_replay *r);

/* columns.c. 1 when memory is used up; adding sets no_memory then. */
int rw_columns_allocate(struct columns *c, uint32_t rows, uint32_t choices);
void rw_columns_free(struct columns *c, uint32_t choices);
void rw_add_mark(rw_replay *r, const struct rw_flow *f, int64_t time_ns, rw_mark kind, uint32_t value);
void rw_add_set(rw_replay *r, const struct rw_flow *f, uint8_t detector, int64_t time_ns,
		const struct rw_detected_path *now);

/* Copies one mark or set that another thread made for r, and rows: row i goes to place[i]. */
void rw_take_mark(rw_replay *r, const struct columns *from, uint64_t i);
void rw_take_set(rw_replay *r, const struct columns *from, uint64_t i);
void rw_take_rows(rw_replay *r, const struct columns *from, const uint32_t *place, uint64_t rows);

/* replay.c: one record of the second pass. RW_OK or the error. */
rw_status rw_replay_step(rw_replay *r, struct rw_noted *noted, rw_error *error);

/* connection.c: a connection while it is replayed. Those that return an int: 1 when memory is used up. */
int rw_connection_need_shadows(rw_replay *r, uint32_t connection);
int rw_connection_open_detectors(rw_replay *r, uint32_t connection, int64_t time_ns);
/* A subflow's handshake is over, and its end. */
void rw_connection_establish(rw_replay *r, const struct rw_flow *f, struct live *l, int64_t time_ns);
void rw_connection_leave(rw_replay *r, const struct rw_flow *f, struct live *l, int64_t time_ns);
/* Tells its detectors. */
void rw_connection_detect(rw_replay *r, uint32_t connection, uint32_t slot, const struct rw_event *e, uint64_t srtt_ns);
void rw_connection_release(const rw_replay *r, uint32_t connection);

/* What there is to say of a flow now. */
void rw_outcome_of(const struct live *live, struct outcome *outcome);

/* Where a flow was captured, seen from its data sender. */
enum rw_vantage rw_vantage_of(const struct rw_flow *f);

/* Places that a connection's controllers need: no more subflows are live at once than it has. */
static inline uint32_t rw_connection_paths(const rw_replay *r, uint32_t connection)
{
	uint32_t subflows = r->survey.connection[connection].subflows;
	return subflows < RW_MAX_PATHS ? subflows : RW_MAX_PATHS;
}

static inline struct rw_shadow *rw_connection_shadow(const rw_replay *r, uint32_t connection, uint32_t choice)
{
	uint8_t *first = r->live_connection[connection].shadows;
	return (struct rw_shadow *)(void *)(first + choice * rw_shadow_bytes(rw_connection_paths(r, connection)));
}

/* Saturates. */
static inline uint32_t rw_to_us(uint64_t ns)
{
	uint64_t us = ns / 1000;
	return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

#endif
