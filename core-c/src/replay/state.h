/* The state of a replay; inside this folder only. */
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
#include "segments.h"
#include "shadow.h"
#include "watch.h"

#define NO_SLOT 255

/*
 * Purses bound the unacknowledged segments of all subflows. Each purse is for its share of the connections, so that a connection's
 * bound does not depend on connections of another thread.
 */
enum { RW_PURSES = RW_SHARES };

/* A controller's window on one flow, over its rows. */
struct window {
	uint64_t sum_q16, most_q16, last_q16;
	uint32_t matched, near; /* among the full rows */
	uint32_t exceeded;      /* among the full rows: by more than one segment */
	/* of a rate-based controller: rows after data that a timer released; of these, at its pace, and at paces of versions */
	uint32_t paced, paced_matched, paced_own, paced_other, paced_either;
	uint64_t first_record; /* of the first exceeded row */
	int64_t first_ns;
};

/* The results of a flow, which are kept after its last packet, when its memory as a live flow was given back. */
struct outcome {
	uint64_t bytes, retransmitted_packets, retransmitted_bytes, unseen_bytes, acks;
	uint64_t rows, full_rows; /* full: the sender filled its window, as far as the capture shows */
	const struct window *window; /* one for each controller; null: there was no row */
	int64_t first_data_ns, last_advance_ns, first_unseen_ns;
	uint32_t spurious, ece_acks, ce_packets, fast_retransmits, timeouts, rtt_samples;
	uint32_t rtt_min_us, rtt_median_us, rtt_p95_us;
	uint32_t window_first, window_most;
	uint8_t crowded_out, paced, gave_up;
};

/* Memory for outcomes and their windows, which all stay until the end. */
enum { RW_OUTCOMES_WORDS = 2048 };
struct outcomes {
	struct outcomes *before;
	uint32_t used; /* words */
	uint64_t word[RW_OUTCOMES_WORDS];
};

/* A flow during its replay, from its first packet to its last one. */
struct live {
	const struct rw_flow *flow;
	uint64_t packets_left; /* packets that are still to come, by the survey's count */
	int64_t last_ns, syn_ns, syn_ack_ns;
	uint32_t syn_value; /* the timestamp of its sender's SYN, or 0 */
	int64_t set_back_ns; /* how far the capture's clock was set back */
	struct rw_reconstruction sender;
	uint64_t rows, full_rows;
	uint8_t *shadows; /* its connection's, from its first event on */
	uint32_t shadow_bytes; /* of each of them */
	uint32_t connection, id; /* as in `flow`, which is not read for most packets */
	uint32_t ce_packets;
	uint32_t sequence; /* that stands at `position` */
	int64_t position; /* bytes after the flow's first una */
	uint8_t slot, established, left, syns, syn_acks, fin, crowded_out;
	uint8_t source; /* the side of the data sender */
	uint8_t ready; /* for the short way: an ACK without steps only makes a row */
	uint8_t under_way; /* for the short way: replayed at capture times, and after its handshake */
	struct window window[]; /* one for each controller */
};

struct live_connection {
	uint8_t *shadows; /* for each controller a struct rw_shadow, of this connection's size; see shadow_of */
	struct rw_recorder *recorder; /* of each controller; null: steps are not observed */
	struct rw_violations *violations; /* of each controller; null: none yet */
	uint64_t monitored; /* steps */
	struct rw_coverage *coverage; /* null without data sequence numbers */
	struct rw_detect *detect; /* a chain of the needed detectors, made with the shadows; null for a single path */
	uint32_t left, over; /* how many of its subflows have left, and how many have had their last packet */
	uint8_t slots_used; /* a bit for each */
	uint8_t closing; /* every subflow has sent its FIN: nothing is coupled, and detectors have ended */
};

struct columns {
	int64_t *time_ns;
	uint32_t *connection, *subflow, *una, *ack, *acked_bytes, *acked_segments, *rtt_us, *srtt_us, *in_flight_bytes;
	uint32_t *window_bytes, *segment_bytes, *next;
	int64_t *position;
	uint16_t *flags;
	uint64_t **cwnd_before_q16, **cwnd_q16, **ssthresh_q16;
	uint8_t **phase;
	uint64_t **bandwidth_q24, **pacing_q24; /* of rate-based controllers */
	int64_t *mark_time_ns;
	uint64_t *mark_row;
	uint32_t *mark_connection, *mark_subflow, *mark_value;
	uint64_t *mark_record; /* the record of each mark, for merging */
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
	uint8_t
	    shown; /* its sets are rows of the result: it was requested, or a controller that is no candidate needs it */
	int64_t option[RW_MAX_OPTIONS];
};

/* A ring of packets that were read but not replayed yet, where flows are mixed, so that their memory is prefetched. */
enum { RW_AHEAD = 16 };
struct ahead {
	struct rw_noted noted[RW_AHEAD];
	uint32_t first, count;
	int got; /* result of the last reading; 0 or less: the end */
};

struct rw_replay {
	int *fds;
	uint32_t files, choices, batch_rows;
	uint64_t total_bytes;
	struct choice *choice;
	struct detector_choice detector[RW_DETECTORS_MAX]; /* by their indices in the registry */
	uint8_t detects; /* at least one of them is needed */
	uint8_t samples_rates; /* at least one controller is rate-based */
	uint8_t keeps_flights; /* at least one asks what was lost */
	uint8_t
	    as_filed; /* packets come in the order of a single file, so that record numbers of the second pass are those of the file */
	struct rw_shared_bottlenecks *shared_bottlenecks; /* null: not requested */
	rw_limits limits;
	struct rw_survey survey;
	struct rw_budget purse[RW_PURSES]; /* of segments; a connection uses the one of its share */
	uint32_t purses;
	struct rw_jobs *jobs; /* null: the second pass has one thread */
	struct rw_slice *slice; /* in a worker, the slice that it fills; else null */
	struct rw_oddity_counts oddities;
	uint64_t surveyed_oddities; /* a bit for each kind that the first pass has counted */
	rw_summary summary;
	struct rw_pass *pass; /* the second */
	struct ahead *ahead; /* null: few flows, or not mixed */
	struct rw_lookahead *lookahead; /* null: no flow needs it */
	uint8_t *send_times; /* of each flow */
	struct live **live; /* null before a flow's first packet, and after its last */
	struct outcome **outcome; /* of each flow; null before its last packet */
	struct outcomes *outcomes; /* of the flows that ended in this thread */
	struct live_connection *live_connection;
	struct columns columns;
	struct rw_recording recording;
	struct rw_transition_log log;
	struct rw_segments segments;
	uint8_t no_memory;
	uint8_t announces; /* there are observers of steps, a reader ahead, or a watcher */
	const struct rw_watcher *watcher; /* null: none */
	uint64_t rows, marks, sets, rows_before;
	uint8_t ended;
};

/* records.c: the first pass. */
rw_status rw_records_survey(rw_replay *r, rw_error *error);
/* Finds the record number of each first oddity in its file, and its time, where records did not come in the file's order. */
void rw_records_number(rw_replay *r);

/* columns.c. 1: out of memory; functions that add set no_memory then. */
int rw_columns_allocate(struct columns *c, uint32_t rows, const struct choice *choice, uint32_t choices);
void rw_columns_free(struct columns *c, uint32_t choices);
void rw_add_mark(rw_replay *r, const struct rw_flow *f, int64_t time_ns, rw_mark kind, uint32_t value);
/* Nothing where the detector is not shown. */
void rw_add_set(rw_replay *r, const struct rw_flow *f, uint8_t detector, int64_t time_ns,
		const struct rw_detected_path *now);

/* Copy one mark or set that another thread made for r, and rows: row i goes to place[i]. */
void rw_take_mark(rw_replay *r, const struct columns *from, uint64_t i);
void rw_take_set(rw_replay *r, const struct columns *from, uint64_t i);
void rw_take_rows(rw_replay *r, const struct columns *from, const uint32_t *place, uint64_t rows);

/* replay.c: replays one record of the second pass. RW_OK or the error. */
rw_status rw_replay_step(rw_replay *r, struct rw_noted *noted, rw_error *error);

/* connection.c: a connection during its replay. Functions that return an int return 1 when out of memory. */
/* slot, srtt_ns: of the subflow with the first event, and its round trip before that. */
int rw_connection_need_shadows(rw_replay *r, uint32_t connection, uint32_t slot, uint64_t srtt_ns);
int rw_connection_open_detectors(rw_replay *r, uint32_t connection, int64_t time_ns);
/* The end of a subflow's handshake, and the end of the subflow. */
void rw_connection_establish(rw_replay *r, const struct rw_flow *f, struct live *l, const struct rw_packet *p);
void rw_connection_leave(rw_replay *r, const struct rw_flow *f, struct live *l, int64_t time_ns);
/* Reports an event to its detectors. */
void rw_connection_detect(rw_replay *r, uint32_t connection, uint32_t slot, const struct rw_event *e, uint64_t srtt_ns);
void rw_connection_release(const rw_replay *r, uint32_t connection);

/* segments.c: a packet of the connection whose segments are asked for, after its replay. 0, or 1: out of memory. */
int rw_segments_see(rw_replay *r, const struct live *l, int from_source, const struct rw_packet *p);

/* A copy of an outcome, with the windows of so many controllers. Null: out of memory. */
struct outcome *rw_outcomes_add(struct outcomes **outcomes, const struct outcome *outcome, uint32_t choices);
void rw_outcomes_free(struct outcomes *outcomes);

/* The current results of a flow. */
void rw_outcome_of(const struct live *live, struct outcome *outcome);

/* A flow's capture point, relative to its data sender. */
enum rw_vantage rw_vantage_of(const struct rw_flow *f);

/* How many places a connection's controllers need: at most its number of subflows. */
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
