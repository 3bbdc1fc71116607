/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * rewindow: replays captures of TCP and Multipath TCP and computes, at every ACK, the window that each congestion
 * controller would have chosen.
 *
 *   rw_replay_open     reads the captures once: flows, connections, direction, capture point
 *   rw_replay_next     a batch of rows, as columns that stay valid until the next call; 0 rows and 0 marks: the end
 *   rw_replay_summary, rw_replay_connection, rw_replay_subflow: identities are known from the start, counts after the end
 *   rw_replay_close
 *   rw_text_rows       writes columns as the text of a JSON document
 *
 *   rw_controller_*    drives one controller by hand, the same code
 *   rw_hand_detector_* drives one detector of shared bottlenecks by hand
 *   rw_scheduling_*    asks one packet scheduler for a decision
 *
 * No global state: replays in different threads share nothing. Every function that can fail returns an rw_status and
 * fills an rw_error. This text, without its preprocessor lines, is the cffi cdef.
 */
#ifndef REWINDOW_H
#define REWINDOW_H

#include <stdint.h>

#pragma GCC visibility push(default)

typedef enum rw_status {
	RW_OK = 0,
	RW_ERROR_MEMORY = 1,
	RW_ERROR_READ = 2,
	RW_ERROR_NOT_A_CAPTURE = 3,
	RW_ERROR_UNKNOWN_ALGORITHM = 4,
	RW_ERROR_UNKNOWN_OPTION = 5,
	RW_ERROR_BAD_VALUE = 6,
	RW_ERROR_UNKNOWN_SCHEDULER = 8
} rw_status;

typedef struct rw_error {
	int32_t status;
	uint32_t file;   /* index in the captures given */
	uint64_t block;  /* records read before it */
	uint64_t offset; /* in the file, bytes */
	char reason[1000];
} rw_error;

/* What was wrong with a capture. Reading goes on where that is possible. */
typedef enum rw_oddity {
	RW_ODDITY_CUT_CAPTURE,        /* the file ends inside a record */
	RW_ODDITY_SECOND_HEADER,      /* another pcap file follows in the same file; it is read too */
	RW_ODDITY_CORRUPT_RECORD,     /* an impossible record: nothing after it can be read */
	RW_ODDITY_BAD_BLOCK,          /* a pcapng block whose fields contradict its length */
	RW_ODDITY_BAD_TIMESTAMP,
	RW_ODDITY_BACKWARD_TIMESTAMP, /* a record earlier than the one before it */
	RW_ODDITY_LATE_RECORD,        /* it stood behind a later record of another interface, and was put before it */
	RW_ODDITY_NO_TIMESTAMP,       /* a simple packet block */
	RW_ODDITY_UNKNOWN_INTERFACE,  /* a packet of an interface that was not described */
	RW_ODDITY_TOO_MANY_INTERFACES,
	RW_ODDITY_UNKNOWN_LINK_TYPE,
	RW_ODDITY_COMPRESSED_PPP, /* PPP with compressed TCP headers (RFC 1144) or several packets in a frame (RFC 3153): skipped */
	RW_ODDITY_DROPPED_PACKETS, /* packets that the capturing system says it missed (pcapng interface statistics) */
	RW_ODDITY_TRUNCATED_HEADER, /* a header cut by the snap length, or shorter than its protocol needs */
	RW_ODDITY_BAD_LENGTH, /* an impossible header length */
	RW_ODDITY_BAD_OPTION_LENGTH, /* an impossible length of a TCP option or extension header */
	RW_ODDITY_IP_FRAGMENT, /* a fragment of a TCP segment; it is reassembled */
	RW_ODDITY_LOST_FRAGMENT, /* a segment with missing fragments: skipped */
	RW_ODDITY_CAPTURED_TWICE, /* a second copy of a frame, in a flow whose frames were captured twice: skipped */
	RW_ODDITY_UNSEEN_DATA, /* data that was acknowledged but is not in the capture */
	RW_ODDITY_UNMATCHED_JOIN, /* an MP_JOIN whose connection is not in the capture */
	RW_ODDITY_NO_HANDSHAKE, /* a flow that began before the capture */
	RW_ODDITY_TOO_MANY_FLOWS, /* a packet of a flow beyond the limit (flows_max): skipped */
	RW_ODDITY_TOO_MANY_SUBFLOWS, /* more live subflows than a controller has places: not replayed */
	RW_ODDITY_WINDOW_TOO_LARGE, /* more unacknowledged segments than the limit, or so cut up that following them costs too much: not tracked */
	RW_ODDITY_COUNT
} rw_oddity;

typedef enum rw_vantage { RW_VANTAGE_UNKNOWN, RW_VANTAGE_SENDER, RW_VANTAGE_MIDDLE, RW_VANTAGE_RECEIVER } rw_vantage;

/* Explicit congestion notification, as the handshake agreed. */
typedef enum rw_ecn_mode {
	RW_ECN_UNKNOWN, /* no handshake seen */
	RW_ECN_OFF,
	RW_ECN_CLASSIC, /* RFC 3168 */
	RW_ECN_ACCURATE /* RFC 9768 */
} rw_ecn_mode;

/* Where the times come from at which the data sender sent. */
typedef enum rw_send_times {
	RW_SEND_TIMES_CAPTURED, /* the times of capture */
	RW_SEND_TIMES_TIMESTAMPS, /* TCP's timestamps name the millisecond (RFC 7323) */
	RW_SEND_TIMES_ROUND_TRIP /* one shortest round trip before the capture; does not show queues */
} rw_send_times;

/* One controller to replay: its name and "option=value" strings. */
typedef struct rw_choice {
	const char *name;
	const char *const *options;
	uint32_t option_count;
} rw_choice;

/* 0 or null means the default in brackets. */
typedef struct rw_limits {
	uint32_t batch_rows; /* [16384] */
	uint32_t jobs; /* threads that share the work; rows, tables and their order do not depend on it [1] */
	uint32_t flows_max; /* packets of further flows are skipped and counted [2097152] */
	uint32_t window_segments; /* unacknowledged segments of one subflow [262144] */
	uint32_t total_segments; /* of all subflows together [8388608] */
	uint32_t monitor; /* 1: each step of a controller with a specification is checked against its properties [0] */
	uint32_t transitions; /* 1: batches carry those steps [0] */
	/* how many files, at the end, hold decoded copies of earlier files' records; not counted twice [0] */
	uint32_t copies;
	uint32_t detectors; /* how many `detector` has; those that the controllers need run anyway [0] */
	const rw_choice *detector; /* their names and options */
	/* of packets, kept between the two passes; a capture that has more is read again [131072] */
	uint32_t journal_kib;
	/* the detector sbd with its options, run over all flows of the captures together [none] */
	const rw_choice *shared_bottlenecks;
	/* How many of the choices, the last ones, are only compared with the windows of the senders. Their steps are not observed, and
	   multipath ones at the end are left out, with rows of 0, where no connection of the captures is MPTCP [0]. */
	uint32_t candidates;
	uint32_t segments; /* 1: batches carry the segments of connection `segments_of`; `jobs` is 1 then [0] */
	uint32_t segments_of;
} rw_limits;

/* Bits of `flags`. */
typedef enum rw_ack_flag {
	RW_ACK_DUP = 1,
	RW_ACK_SACK = 2,
	RW_ACK_ECE = 4,
	RW_ACK_RETRANSMIT = 8, /* the sender retransmitted since the ACK before */
	RW_ACK_APP_LIMITED = 16,
	RW_ACK_RWND_LIMITED = 32,
	RW_ACK_RAISES = 64 /* the sender's state let a window grow on this ACK */
} rw_ack_flag;

/* What happened to a subflow, at an ACK or between two. */
typedef enum rw_mark {
	RW_MARK_JOIN, /* established */
	RW_MARK_LEAVE,
	RW_MARK_FAST_RETRANSMIT, /* recovery began */
	RW_MARK_TIMEOUT, /* retransmission timeout */
	RW_MARK_ECE, /* entered CWR */
	RW_MARK_TAIL_LOSS, /* a probe (RFC 8985 TLP) had repaired a loss: one reduction, at once */
	RW_MARK_RECOVERED, /* recovery, CWR or loss ended */
	RW_MARK_UNDO, /* the reduction proved spurious */
	RW_MARK_IDLE /* restart after an idle period; value: retransmission timeouts that it lasted */
} rw_mark;

/* What a controller did, one step of its specification. */
typedef enum rw_transition_kind {
	RW_TRANSITION_JOIN,
	RW_TRANSITION_LEAVE,
	RW_TRANSITION_ACK, /* that the window may grow by */
	RW_TRANSITION_LOSS,
	RW_TRANSITION_ECE,
	RW_TRANSITION_TIMEOUT,
	RW_TRANSITION_UNDO,
	RW_TRANSITION_RTT, /* a sample was smoothed in */
	RW_TRANSITION_IDLE, /* restart after an idle period */
	RW_TRANSITION_MACHINERY, /* rate reduction, or the end of a recovery, in mode=kernel */
	RW_TRANSITION_SETS, /* a detector changed its set or the state of that */
	RW_TRANSITION_DELIVERED, /* segments arrived; of a controller with a beta only, which counts the marked ones */
	/* Steps of the controller's own detector. */
	RW_TRANSITION_DETECTOR_JOIN,
	RW_TRANSITION_DETECTOR_LEAVE,
	RW_TRANSITION_DETECTOR_ECE,
	RW_TRANSITION_DETECTOR_LOSS,
	RW_TRANSITION_JUDGE_SUBFLOW, /* a decision that was due: path: whose ECE asked */
	RW_TRANSITION_JUDGE_SET, /* path: the set, from 0 on */
	RW_TRANSITION_DETECTOR_END, /* the connection is closing: no set any more */
	RW_TRANSITION_COUNT
} rw_transition_kind;

/* A property of specs/ that the monitor checks on every step. */
typedef enum rw_check {
	RW_CHECK_WINDOW_HELD,
	RW_CHECK_FLOOR_HELD,
	RW_CHECK_ALPHA_IN_RANGE,
	RW_CHECK_INITIAL_TOGETHER,
	RW_CHECK_COUPLED_HAS_OWN_THRESHOLD,
	RW_CHECK_NO_REENTRY,
	RW_CHECK_COUPLING_ENDS,
	RW_CHECK_ACK_CAPPED,
	RW_CHECK_COUPLED_NEVER_SHRINKS,
	RW_CHECK_GROWS_BY_ALPHA,
	RW_CHECK_GROWS_WHILE_BELOW,
	RW_CHECK_GROWS_TO_THRESHOLD,
	RW_CHECK_EXIT_JUSTIFIED,
	RW_CHECK_EXIT_FREEZES,
	RW_CHECK_THRESHOLDS_SPARED,
	RW_CHECK_LOSS_IS_PRIVATE,
	RW_CHECK_LOSS_UNCOUPLES,
	RW_CHECK_JOINS_AT_IW,
	RW_CHECK_ALPHA_MOVES,
	RW_CHECK_NO_SLOW_START_ABOVE,
	RW_CHECK_AVOIDANCE,
	RW_CHECK_DECREASE,
	RW_CHECK_OTHERS_SPARED,
	RW_CHECK_SETS_OF_TWO,
	RW_CHECK_BETA_IN_RANGE,
	RW_CHECK_TABLE_AGREES,
	RW_CHECK_CLOSED_IN_NONE,
	RW_CHECK_TWO_STAGES,
	RW_CHECK_SETS_WHOLE,
	RW_CHECK_JUDGED_AS_SEEN,
	RW_CHECK_ONLY_NOTED,
	RW_CHECK_COUPLED_VERIFIED,
	RW_CHECK_COUPLED_RTT,
	RW_CHECK_BETA_AS_MARKED,
	RW_CHECK_UNDO_GIVES_BACK,
	RW_CHECK_PEAK_OF_FLIGHT,
	RW_CHECK_JOINS_ANEW,
	RW_CHECK_MACHINERY_SPARES,
	RW_CHECK_IDLE_KEEPS,
	RW_CHECK_COUNT
} rw_check;

/*
 * One path of a connection under one controller, after a step; all 0 when it is not live. In a step of its detector: as
 * the detector has it, with srtt, live, group and what follows alone.
 */
typedef struct rw_transition_path {
	uint64_t cwnd_q16, ssthresh_q16; /* ssthresh: all ones when it is not set */
	uint64_t flight_peak_q16;
	uint64_t srtt_ns;
	uint64_t coupled_rtt_ns; /* smoothed for coupled slow start */
	uint64_t estimate_q16; /* of its ssthresh; 0: none */
	uint64_t beta_q32; /* SB-CC */
	uint8_t live, initial, recovering, group, group_state;
	uint8_t asked; /* 1 + the path whose ECE a decision waits on; 0: none waits */
	uint8_t seen; /* by that decision: a bit for each path */
} rw_transition_path;

typedef struct rw_transition_row {
	int64_t time_ns;
	uint64_t row; /* rows of the whole replay before which, or at which, it happened */
	uint64_t violated; /* a bit for each rw_check, with `monitor` */
	uint32_t connection;
	uint32_t mss_bytes; /* that the controller turns byte thresholds into segments with */
	/* Of the ACK that caused the step; 0 in other steps. */
	uint64_t rtt_ns; /* its sample; 0: none */
	uint32_t acked_segments, marked_segments;
	uint32_t una, next; /* sequence numbers: acknowledged by it, and next to be sent */
	uint8_t choice, kind, path, initial_ss;
	uint8_t set_asked[4], set_seen[4]; /* the same of each set */
	uint64_t alpha_q32, con_ssthresh_q16; /* con_ssthresh: 0 where it is estimated */
	rw_transition_path paths[8];
} rw_transition_row;

typedef enum rw_segment_kind {
	RW_SEGMENT_DATA, /* for the first time on its subflow */
	RW_SEGMENT_RETRANSMISSION,
	RW_SEGMENT_REINJECTION, /* new to its subflow, but the MPTCP connection has sent all of it before (RFC 8684 3.3.6) */
	RW_SEGMENT_SACK, /* a block that the ACK before did not have */
	RW_SEGMENT_DSACK /* a block that reports a duplicate (RFC 2883) */
} rw_segment_kind;

/* Data that left, as one packet of the capture has it, or a block that an ACK reported. In the order of the replay. */
typedef struct rw_segment_row {
	int64_t time_ns;
	int64_t position; /* of its first byte: bytes from the subflow's first una, as in rw_batch */
	uint32_t bytes;
	uint32_t subflow; /* within the connection */
	uint8_t kind; /* rw_segment_kind */
} rw_segment_row;

/* Rows are ACK-carrying packets that reach a data sender after the handshake, in capture order. */
typedef struct rw_batch {
	uint64_t rows;
	const int64_t *time_ns;
	const uint32_t *connection;
	const uint32_t *subflow; /* within the connection */
	const uint32_t *una; /* acknowledged before this packet */
	const uint32_t *ack;
	const uint32_t *acked_bytes; /* newly, cumulatively */
	const uint32_t *acked_segments; /* newly delivered, SACKed ones included */
	const uint32_t *rtt_us; /* 0: no sample */
	const uint32_t *srtt_us; /* before this packet; 0: none yet */
	const uint32_t *in_flight_bytes; /* before this packet */
	const uint32_t *window_bytes; /* the receiver's, after this packet; all ones: not known */
	const uint32_t *segment_bytes; /* payload of a full segment */
	const uint32_t *next; /* the sender's next sequence number, before this packet */
	const int64_t *position; /* bytes from the subflow's first una to `ack`; unlike `ack` it does not wrap */
	const uint16_t *flags;
	/* For each controller, in the order chosen. ssthresh: all ones when it is not set. */
	const uint64_t *const *cwnd_before_q16;
	const uint64_t *const *cwnd_q16;
	const uint64_t *const *ssthresh_q16;
	const uint8_t *const *phase; /* rw_phase of rw_control.h, before this packet */
	/* After this packet, of a rate-based controller: segments each microsecond, Q24. Null for a window-based one. */
	const uint64_t *const *bandwidth_q24;
	const uint64_t *const *pacing_q24;
	uint64_t marks;
	const int64_t *mark_time_ns;
	const uint64_t *mark_row; /* rows of the whole replay before which, or at which, it happened */
	const uint32_t *mark_connection;
	const uint32_t *mark_subflow;
	const uint8_t *mark_kind;
	const uint32_t *mark_value;
	/* What detectors found: of a subflow that a detector watches from then on, or whose set or state changed. */
	uint64_t sets;
	const int64_t *set_time_ns;
	const uint32_t *set_connection;
	const uint32_t *set_subflow;
	const uint8_t *set_detector; /* its place: rw_detector_describe */
	const uint8_t *set_state; /* rw_group_state of rw_control.h */
	const uint8_t *set_number; /* within the connection; 0: none */
	uint64_t transitions;
	const rw_transition_row *transition;
	uint64_t segments;
	const rw_segment_row *segment;
} rw_batch;

/* What the comparison of all flows says about a flow's bottleneck. */
typedef enum rw_bottleneck_state {
	RW_BOTTLENECK_NOT_ASKED,
	RW_BOTTLENECK_NOT_JUDGED, /* the flow has too little data, or too many flows have more */
	RW_BOTTLENECK_UNDECIDED, /* it had too few intervals in common with every other flow */
	RW_BOTTLENECK_ALONE, /* no flow that it was compared with shares its bottleneck */
	RW_BOTTLENECK_SHARED
} rw_bottleneck_state;

typedef struct rw_subflow_row {
	uint32_t connection, id;
	uint32_t file, interface; /* where its first packet was captured */
	uint8_t family; /* 4 or 6 */
	uint8_t src[16], dst[16]; /* src sent more data; an IPv4 address takes the first four bytes */
	uint16_t sport, dport;
	uint8_t vantage;
	uint8_t send_times; /* rw_send_times */
	uint8_t ecn; /* rw_ecn_mode */
	uint8_t window_too_large; /* more was unacknowledged than the core tracks */
	uint8_t cut; /* the snap length cut options other than MPTCP's */
	uint8_t copied; /* its frames were captured more than once */
	uint8_t paced; /* much of its data left on a timer, not on an ACK or with other data */
	uint8_t handshake; /* SYN and SYN/ACK were seen */
	uint8_t one_direction; /* only one side was seen */
	uint8_t closed; /* FIN or RST was seen */
	uint8_t backup;
	uint8_t sack, timestamps; /* both ends agreed on them in the handshake */
	uint32_t mss_bytes; /* largest segment payload of src */
	uint64_t bytes; /* unique payload of src */
	uint64_t reverse_bytes;
	uint64_t packets, reverse_packets; /* sent by src, by dst */
	uint64_t retransmitted_packets, retransmitted_bytes, spurious_retransmissions;
	uint64_t unseen_bytes;
	uint64_t acks, ece_acks, ce_packets;
	uint64_t fast_retransmits, timeouts;
	uint64_t rtt_samples;
	uint32_t rtt_min_us, rtt_median_us, rtt_p95_us, handshake_rtt_us;
	/* that dst offered: in its first ACK after the handshake, and at most */
	uint32_t window_first_bytes, window_most_bytes;
	int64_t first_ns, last_ns; /* first and last packet */
	int64_t first_unseen_ns; /* when data that is not in the capture was first acknowledged; 0: never */
	int64_t first_data_ns, last_ack_ns; /* first payload of src, last ACK of new data; 0: none */
	uint32_t replayed; /* rows of this subflow carry windows */
	uint32_t bottleneck; /* flows with the same number share one; 0: see bottleneck_state */
	uint8_t bottleneck_state; /* rw_bottleneck_state, after the end */
} rw_subflow_row;

typedef struct rw_connection_row {
	uint32_t id;
	uint8_t mptcp;
	int8_t version; /* -1: not known */
	uint8_t has_token, fallback, checksum, fast_closed;
	uint32_t token; /* of the responder: what MP_JOIN carries; host order */
	uint32_t subflows, first_subflow; /* in the subflow table */
	uint64_t data_bytes; /* unique at data level for MPTCP, else the subflow's */
	int64_t first_ns, last_ns, first_data_ns, last_ack_ns; /* as those of its subflows */
} rw_connection_row;

/* The window of one controller on one subflow, over the rows of that subflow. Windows are those after each ACK. */
typedef struct rw_window_row {
	uint64_t rows;
	uint64_t sum_q16, most_q16, last_q16;
	/* How well the window explains the sender. full_rows: ACKs before which the sender had filled its window. Of these, at how
	   many the flight was exactly this window, within one segment of it, and larger by more than one. */
	uint64_t full_rows, matched, near, exceeded;
	/* the first of the larger ones: from 1 on; 0: packets are not the records of one file in turn */
	uint64_t first_exceeded_record;
	int64_t first_exceeded_ns;
	/* Of a rate-based controller: ACKs before which data left on a timer, and at how many of these at this controller's pace. */
	uint64_t paced_rows, paced_matched;
	/* Of paced_rows: those at a pace that only this version of the algorithm has, at one that only another version has (BBR 1 and
	   BBR 3), and at this controller's or the other version's. */
	uint64_t paced_own, paced_other, paced_either;
} rw_window_row;

typedef struct rw_summary {
	uint64_t packets, bytes, tcp_packets, records;
	int64_t first_ns, last_ns;
	uint32_t link_types, interfaces;
	uint32_t link_type[16];
	uint64_t link_type_packets[16];
	uint8_t vantage;
	uint64_t oddity[RW_ODDITY_COUNT];
	/* The first of each: its offset in its file, its record number there from 1 on, its time. */
	uint64_t oddity_offset[RW_ODDITY_COUNT], oddity_record[RW_ODDITY_COUNT];
	int64_t oddity_ns[RW_ODDITY_COUNT];
	uint32_t oddity_file[RW_ODDITY_COUNT];
	uint64_t rows;
} rw_summary;

typedef struct rw_replay rw_replay;

/* fds: readable and seekable, owned by the caller, open until rw_replay_close. */
rw_status rw_replay_open(rw_replay **replay, const int *fds, uint32_t files, const rw_choice *choices,
			 uint32_t choice_count, const rw_limits *limits, rw_error *error);
rw_status rw_replay_next(rw_replay *replay, rw_batch *batch, rw_error *error);
/* Offset reached and sum of the files' sizes, for progress. */
void rw_replay_progress(const rw_replay *replay, uint64_t *done_bytes, uint64_t *total_bytes);
void rw_replay_summary(const rw_replay *replay, rw_summary *summary);
/* Sizes of the two tables. */
uint32_t rw_replay_connections(const rw_replay *replay);
uint32_t rw_replay_subflows(const rw_replay *replay);
/* One row of a table; all 0 beyond the last. The subflows of a connection follow one another. */
void rw_replay_connection(const rw_replay *replay, uint32_t connection, rw_connection_row *row);
void rw_replay_subflow(const rw_replay *replay, uint32_t subflow, rw_subflow_row *row);
/* subflow: its place in the table; choice: in the order chosen. All 0 without a row. */
void rw_replay_window(const rw_replay *replay, uint32_t subflow, uint32_t choice, rw_window_row *row);
/* The same, several at once: from the `first` on, as many as there are and `most` at most. Returns how many. */
uint32_t rw_replay_connection_rows(const rw_replay *replay, uint32_t first, rw_connection_row *rows, uint32_t most);
uint32_t rw_replay_subflow_rows(const rw_replay *replay, uint32_t first, rw_subflow_row *rows, uint32_t most);
uint32_t rw_replay_window_rows(const rw_replay *replay, uint32_t choice, uint32_t first, rw_window_row *rows,
			       uint32_t most);
/* What the monitor found on a connection under a choice. first_row: how many rows of the replay came before the first violation. */
typedef struct rw_violation_row {
	uint64_t count, first_row;
	int64_t first_ns;
	uint32_t first_check, first_transition, first_path; /* rw_check, rw_transition_kind, place of the subflow */
} rw_violation_row;

void rw_replay_violations(const rw_replay *replay, uint32_t connection, uint32_t choice, rw_violation_row *row);
/* The same of several connections, as above. */
uint32_t rw_replay_violation_rows(const rw_replay *replay, uint32_t choice, uint32_t first, rw_violation_row *rows,
				  uint32_t most);
/* How many steps the monitor has checked: in all, and on one connection. */
uint64_t rw_replay_monitored(const rw_replay *replay);
uint64_t rw_replay_monitored_of(const rw_replay *replay, uint32_t connection);
void rw_replay_close(rw_replay *replay);

/*
 * For link types that are not decoded here: copies the records of one of them, all of fd's capture, to out_fd as a
 * pcapng in nanoseconds with the same interface numbers. records: how many.
 */
rw_status rw_extract(int fd, uint32_t link_type, int out_fd, uint64_t *records, rw_error *error);

/* How many records of fd's capture have a link type that is decoded here, and how many have another one. */
rw_status rw_count_decoded(int fd, uint64_t *decoded, uint64_t *others, rw_error *error);

/* What a redaction did. */
typedef struct rw_redaction_row {
	uint64_t records;
	uint64_t captured_bytes, kept_bytes; /* of all records */
	uint64_t unrecognised; /* records of which no header was recognised: what they carry is cut, whatever it was */
} rw_redaction_row;

/*
 * Copies a capture without payload: of each record the headers that the core recognises, at its time and with its length on the wire. Of
 * the file itself only format, link types and clocks are kept. An analysis of the copy finds what it would have found in the capture;
 * segments whose TCP header is itself fragmented are lost.
 *
 * key: 16 bytes, or null. With a key addresses are replaced, so that prefixes stay common (redaction/pseudonyms.c), and addresses
 * of links are blanked. IPv4's checksum, and TCP's where there is no payload, are as valid as before; the others are 0.
 *
 * fd is read once, from where it stands, and may be a pipe.
 */
rw_status rw_redact(int fd, int out_fd, const uint8_t *key, rw_redaction_row *row, rw_error *error);

/*
 * Rows of columns as text, in the forms of JSON: a report of a million connections is written at the speed of the core.
 * A row is, for each column, the text `before` and the value; then `before_parts` and the row's parts, which are rows of
 * another table; then `after`. `between` stands between two rows.
 */
typedef enum rw_text_kind {
	RW_TEXT_UNSIGNED, /* of `width` bytes: 1, 2, 4 or 8 */
	RW_TEXT_SIGNED, /* int64_t */
	RW_TEXT_BOOLEAN, /* one byte: true, false */
	RW_TEXT_DOUBLE, /* finite; the shortest decimal that reads as the same double, as Python's repr writes it */
	RW_TEXT_ADDRESS, /* 16 bytes, in quotes; an IPv4 address takes the first four */
	RW_TEXT_CODED /* uint32_t: the place of one of `texts` */
} rw_text_kind;

typedef struct rw_text_column {
	uint8_t kind; /* rw_text_kind */
	uint8_t width;
	uint32_t stride; /* bytes from one value to the next */
	const void *values;
	const uint8_t *missing; /* null, or a byte for each row: not 0 writes null for the value */
	const uint8_t *family; /* of addresses: a byte for each row, 4 or 6 */
	const char *before;
	const char *const *texts;
	const uint32_t *text_bytes;
	uint32_t before_bytes, text_count;
} rw_text_column;

typedef struct rw_text_table {
	const rw_text_column *column;
	const char *between, *before_parts, *after;
	uint32_t columns, between_bytes, before_parts_bytes, after_bytes;
} rw_text_table;

/*
 * Writes rows from *first to `rows` - 1, as many as surely fit into `capacity` bytes, and moves *first behind them.
 * part: null, or the table of parts, of which row i has part_count[i]; they stand in the order of the rows, and
 * *first_part is that of row *first. Returns how many rows; bytes: that were written.
 */
uint32_t rw_text_rows(const rw_text_table *table, const rw_text_table *part, const uint32_t *part_count, uint32_t rows,
		      uint32_t *first, uint32_t *first_part, char *out, uint64_t capacity, uint64_t *bytes);
/* An address as above, without quotes, into 40 bytes. Returns how many it takes. */
uint32_t rw_text_address(const uint8_t *raw, uint8_t family, char *out);

/* Names: null when the number is out of range. */
const char *rw_oddity_name(uint32_t oddity);
const char *rw_mark_name(uint32_t mark);
const char *rw_phase_name(uint32_t phase);
const char *rw_segment_kind_name(uint32_t kind);
const char *rw_transition_name(uint32_t kind);
/* The property's name in specs/. */
const char *rw_check_name(uint32_t check);
const char *rw_vantage_name(uint32_t vantage);
const char *rw_send_times_name(uint32_t send_times);
const char *rw_ecn_mode_name(uint32_t ecn);
const char *rw_link_type_name(uint32_t link_type);
const char *rw_group_state_name(uint32_t state);
const char *rw_detector_name(uint32_t detector);
const char *rw_bottleneck_state_name(uint32_t state);

/*
 * values: choices split by '|'; or the range of a number in words, whose bounds, inclusive, are low_q16 and high_q16. default_value: a choice's
 * place among the values, from 0 on; a number as Q16.
 */
typedef struct rw_option_info {
	const char *name, *values, *reason;
	uint8_t is_number;
	int64_t default_value, low_q16, high_q16;
} rw_option_info;

typedef struct rw_algorithm_info {
	const char *name, *source, *formula, *deviations;
	/* that places its subflows in sets unless another is chosen; null: it does not use sets */
	const char *detector;
	uint8_t multipath;
	uint32_t options;
} rw_algorithm_info;

uint32_t rw_algorithm_count(void);
void rw_algorithm_describe(uint32_t index, rw_algorithm_info *info);
void rw_algorithm_option(uint32_t index, uint32_t option, rw_option_info *info);
/* The names of the contract's callbacks (rw_control.h) that the controller has, in the contract's order; null after the last. */
const char *rw_algorithm_callback(uint32_t index, uint32_t callback);
/*
 * The numbers that a controller's own options stand for, in the order of its description; the rest is 0. Options that are the
 * replay's (gate, losses, detector) are unknown here.
 */
rw_status rw_algorithm_values(const rw_choice *choice, int64_t values[16], rw_error *error);

/* Detectors of shared bottlenecks, described in the same form as controllers. */
uint32_t rw_detector_count(void);
void rw_detector_describe(uint32_t index, rw_algorithm_info *info);
void rw_detector_option(uint32_t index, uint32_t option, rw_option_info *info);
/* As rw_algorithm_values has them of a controller. */
rw_status rw_detector_values(const rw_choice *choice, int64_t values[16], rw_error *error);

/* One connection's controller, driven by hand. */
typedef struct rw_controller rw_controller;

typedef struct rw_path_state {
	uint64_t cwnd_q16;
	uint64_t ssthresh_q16; /* all ones: not set, the path is in the initial slow start */
	uint64_t srtt_ns; /* 0: none yet */
	uint64_t flight_peak_q16;
	uint32_t cwnd_cnt;
	uint8_t group; /* the set of subflows behind one bottleneck; 0: none */
	uint8_t group_state; /* rw_group_state of rw_control.h */
	uint8_t recovering; /* in fast recovery or CWR: its window counts as ssthresh, and does not grow */
} rw_path_state;

/*
 * without: null, or the name of a callback that the controller is to lack, so that the contract's default takes its place and
 * one sees what the callback contributes. RW_ERROR_BAD_VALUE: it has no such callback, or one that is required.
 */
rw_status rw_controller_open(rw_controller **controller, const rw_choice *choice, uint32_t mss_bytes,
			     const char *without, rw_error *error);
void rw_controller_close(rw_controller *controller);
/* Adds a path in this state, without a join. path: receives its number. */
rw_status rw_controller_place(rw_controller *controller, const rw_path_state *state, uint32_t *path, rw_error *error);
rw_status rw_controller_join(rw_controller *controller, const rw_path_state *state, uint32_t *path, rw_error *error);
/* RW_ERROR_BAD_VALUE for a path that is not live. */
rw_status rw_controller_leave(rw_controller *controller, uint32_t path, rw_error *error);
/* Given as a time: the controller's detector learns nothing of the call. */
#define RW_TIME_UNKNOWN INT64_MIN

/* What an ACK does to the window of its path. */
enum rw_growth {
	RW_GROWTH_ALLOWED,
	RW_GROWTH_WITHHELD, /* one segment of the window was not in flight */
	RW_GROWTH_NONE /* the window was not the limit, or the path is recovering */
};

typedef struct rw_hand_ack {
	uint32_t path;
	uint32_t acked_segments; /* newly delivered */
	uint32_t marked_segments; /* of these: how many ECN marked */
	uint64_t rtt_ns; /* the sample of the oldest of them; 0: none */
	uint64_t rtt_newest_ns; /* of the newest; 0: none */
	int64_t time_ns; /* on any clock that does not go back, or RW_TIME_UNKNOWN */
	uint8_t growth; /* rw_growth */
} rw_hand_ack;

/* RW_ERROR_BAD_VALUE too for a path that is recovering and would grow. A rate-based controller takes a whole window to be delivered
   in the round trip of the ACK. */
rw_status rw_controller_ack(rw_controller *controller, const rw_hand_ack *ack, rw_error *error);
/* An ACK as a rate-based controller is told of it: struct rw_rate of rw_control.h, of which this has the fields. */
typedef struct rw_hand_rate {
	uint32_t path;
	uint32_t acked_segments, lost_segments; /* newly */
	uint32_t in_flight_before, in_flight; /* segments, before and after the ACK */
	uint8_t repair; /* 0: none, 1: fast recovery, 2: after a timeout */
	uint8_t app_limited;
	uint64_t rtt_ns; /* 0: no sample */
	uint64_t delivered,
	    prior_delivered; /* segments since the beginning: now, and when the newest packet was sent */
	uint64_t interval_ns; /* in which the difference was delivered; 0: no sample */
	uint64_t held_ns; /* until the next packet may leave */
	uint32_t paced_segments; /* that left on a timer since the ACK before */
	uint64_t paced_ns; /* in this time */
	/* Bounds of the recorded sender's window before the ACK, as its flight shows them, in segments; 0: not known. */
	uint32_t window_least, window_most;
	int64_t time_ns;
	uint8_t selective; /* the connection has SACK */
	uint8_t window_limited; /* the flight filled the window in this round trip */
	uint32_t sent_in_flight; /* when the newest packet had left, with it; 0: not known */
	uint32_t lost_since; /* segments found lost since it left */
} rw_hand_rate;

/* A segment that was found lost: struct rw_lost of rw_control.h, of which this has the fields. */
typedef struct rw_hand_lost {
	uint32_t path;
	uint32_t in_flight, lost_since; /* segments: when it had left; found lost since, with it */
	uint64_t delivered; /* segments since the beginning */
	int64_t time_ns;
	uint8_t app_limited, continues, selective;
} rw_hand_lost;

/* RW_ERROR_BAD_VALUE too where the controller is not rate-based. */
rw_status rw_controller_rate(rw_controller *controller, const rw_hand_rate *rate, rw_error *error);
/* RW_ERROR_BAD_VALUE too where the controller does not ask what is lost. */
rw_status rw_controller_lost(rw_controller *controller, const rw_hand_lost *lost, rw_error *error);
/* Data is sent on the path after idle_ns without any. The window stays: by hand there is no retransmission timer. */
rw_status rw_controller_idle(rw_controller *controller, uint32_t path, uint64_t idle_ns, int64_t time_ns,
			     rw_error *error);
/* The sender is seen to go on doubling. resumed: receives 1 if the controller goes back to slow start for that, else 0. */
rw_status rw_controller_resume(rw_controller *controller, uint32_t path, uint32_t *resumed, rw_error *error);
/* How long a tick is of the kernel's clock that the controller counts; 0: it counts none. */
uint64_t rw_controller_tick_ns(const rw_controller *controller);
rw_status rw_controller_loss(rw_controller *controller, uint32_t path, int64_t time_ns, rw_error *error);
rw_status rw_controller_ece(rw_controller *controller, uint32_t path, int64_t time_ns, rw_error *error);
rw_status rw_controller_timeout(rw_controller *controller, uint32_t path, int64_t time_ns, rw_error *error);
/* The last loss, ECN echo or timeout proved spurious. RW_ERROR_BAD_VALUE: there is nothing to undo. */
rw_status rw_controller_undo(rw_controller *controller, uint32_t path, rw_error *error);

/* A step that the controller took in another sender: the facts that its callback got, and the path after the step. */
typedef struct rw_hand_step {
	uint32_t path; /* its place there */
	uint32_t acked_segments, marked_segments;
	uint32_t una, next; /* sequence numbers: acknowledged, and next to be sent */
	uint64_t rtt_ns, rtt_newest_ns; /* of the oldest and the newest segment that an ACK covers; 0: none */
	int64_t time_ns;
	rw_path_state after;
	uint8_t kind; /* rw_transition_kind; none of a detector */
} rw_hand_step;

/*
 * The same callback with the same facts, without the machinery around it: of `after` counts the smoothed round trip, and what that
 * sender's machinery set (after a timeout, an undo, an idle time and a step of the machinery). The detector learns nothing of it.
 * RW_ERROR_BAD_VALUE: a join to a place that is taken, another step of a path that is not there, an undo without a reduction.
 */
rw_status rw_controller_follow(rw_controller *controller, const rw_hand_step *step, rw_error *error);

/* What a detector decides of one path: its set (0: none) and rw_group_state of rw_control.h. */
typedef struct rw_verdict {
	uint32_t path;
	uint8_t group;
	uint8_t group_state;
} rw_verdict;

/* One decision, as a detector's. RW_ERROR_BAD_VALUE for a path that is not live. */
rw_status rw_controller_verdict(rw_controller *controller, const rw_verdict *verdict, uint32_t count, rw_error *error);
/* Time passes for its detector. */
void rw_controller_advance(rw_controller *controller, int64_t time_ns);
/* From now on every step is kept, and checked where the algorithm has a specification. */
void rw_controller_observe(rw_controller *controller);
/* The steps since rw_controller_observe, valid until the next step. */
const rw_transition_row *rw_controller_transitions(const rw_controller *controller, uint64_t *count);
/*
 * Runs the monitor on recorded steps and sets `violated` of each. The steps are one connection's under one controller, from the
 * first step on. RW_ERROR_BAD_VALUE: the algorithm has no specification, or a row's path or kind is out of range.
 */
rw_status rw_monitor_rows(const rw_choice *choice, rw_transition_row *rows, uint64_t count, rw_error *error);
rw_status rw_controller_path(const rw_controller *controller, uint32_t path, rw_path_state *state, uint32_t *phase,
			     rw_error *error);
/* One word of the algorithm's own state, an integer of 64 bits. */
typedef struct rw_word_info {
	const char *name;
	uint8_t of_path; /* one for each path, not one for the connection */
	uint8_t fraction_bits;
	uint8_t is_signed;
	uint8_t of_set; /* of a path, and only while that is in a set */
	uint8_t place; /* among the words of the connection, or of each path, as rw_control.h has them */
} rw_word_info;

/* index counts from 0; the name is null after the last. */
void rw_controller_word_describe(const rw_controller *controller, uint32_t index, rw_word_info *info);
rw_status rw_controller_word(const rw_controller *controller, uint32_t index, uint32_t path, uint64_t *value,
			     rw_error *error);
rw_status rw_controller_set_word(rw_controller *controller, uint32_t index, uint32_t path, uint64_t value,
				 rw_error *error);

/* One connection's detector of shared bottlenecks, driven by hand. Times are on any clock, which does not go back. */
typedef struct rw_hand_detector rw_hand_detector;

typedef struct rw_hand_detector_row {
	uint8_t set; /* 0: none */
	uint8_t state; /* rw_group_state of rw_control.h */
	uint64_t srtt_ns;
} rw_hand_detector_row;

typedef enum rw_hand_detector_event {
	RW_HAND_DETECTOR_ECE,
	RW_HAND_DETECTOR_LOSS,
	RW_HAND_DETECTOR_TIMEOUT
} rw_hand_detector_event;

rw_status rw_hand_detector_open(rw_hand_detector **detector, const rw_choice *choice, rw_error *error);
void rw_hand_detector_close(rw_hand_detector *detector);
/* srtt_ns: 0, none yet. path: its number from then on. */
rw_status rw_hand_detector_join(rw_hand_detector *detector, int64_t time_ns, uint64_t srtt_ns, uint32_t *path,
				rw_error *error);
rw_status rw_hand_detector_leave(rw_hand_detector *detector, uint32_t path, int64_t time_ns, rw_error *error);
rw_status rw_hand_detector_congestion(rw_hand_detector *detector, uint32_t path, uint32_t event, int64_t time_ns,
				      rw_error *error);
/* delay_ns: 0 without a sample. srtt_ns: 0, smoothed from the samples (RFC 6298's gain). */
rw_status rw_hand_detector_delivery(rw_hand_detector *detector, uint32_t path, uint32_t delivered_segments,
				    uint32_t lost_segments, uint64_t delay_ns, uint64_t srtt_ns, int64_t time_ns,
				    rw_error *error);
void rw_hand_detector_advance(rw_hand_detector *detector, int64_t time_ns);
rw_status rw_hand_detector_path(const rw_hand_detector *detector, uint32_t path, rw_hand_detector_row *row,
				rw_error *error);

typedef struct rw_statistic_info {
	const char *name, *unit; /* unit: "ns" or "" */
	uint8_t fraction_bits;
} rw_statistic_info;

/* The signed numbers that the detector decides by. index counts from 0; the name is null after the last. */
void rw_hand_detector_statistic_describe(const rw_hand_detector *detector, uint32_t index, rw_statistic_info *info);
rw_status rw_hand_detector_statistic(const rw_hand_detector *detector, uint32_t index, uint32_t path, int64_t *value,
				     rw_error *error);

/* Statistics of one flow (RFC 8382). */
typedef struct rw_flow_statistics {
	int64_t skew_q16;
	uint64_t var_ns, freq_q16, loss_q16;
	uint8_t bottleneck; /* in: was it congested before; out: is it now */
	uint8_t group; /* out: equal numbers share a bottleneck; 0: not congested */
} rw_flow_statistics;

/* Groups at most 64 flows by such statistics, as the detector sbd does. */
rw_status rw_sbd_group_flows(const rw_choice *choice, rw_flow_statistics *flow, uint32_t flows, rw_error *error);

/* The input of a packet scheduler, counted in segments. rw_scheduler.h explains the fields. */
typedef struct rw_subflow_view {
	uint64_t cwnd_q16;
	uint64_t ssthresh_q16; /* all ones: not set */
	uint64_t srtt_ns; /* 0: none yet */
	uint64_t since_penalty_ns; /* all ones: never */
	uint64_t beta_q32;
	uint32_t in_flight, queued;
	uint8_t established, lost, backup, recovering;
	uint8_t group; /* 0: none */
} rw_subflow_view;

/* A span of data that no subflow has. */
typedef struct rw_span_view {
	uint64_t first, segments;
	uint32_t sent_on; /* a bit for each subflow that carried it before */
} rw_span_view;

typedef struct rw_sending_view {
	uint32_t subflows; /* at most 8 */
	uint32_t previous; /* all ones: none */
	rw_subflow_view subflow[8];
	rw_span_view span[16];
	uint32_t spans, oldest_sent_on;
	uint64_t oldest, window_end, buffer_segments;
} rw_sending_view;

typedef struct rw_decision_row {
	uint32_t kind; /* 0: wait; 1: send; 2: the oldest segment once more */
	uint32_t subflow; /* all ones: none */
	uint64_t first, segments, skipped;
	uint32_t penalized; /* a bit for each subflow that is halved, to the values below */
	uint64_t cwnd_q16[8], ssthresh_q16[8];
} rw_decision_row;

/* The prediction for a faster subflow; all 0 for a subflow that is not faster. */
typedef struct rw_forward_row {
	uint64_t rounds_q24, m_q24, segments_q24;
} rw_forward_row;

typedef struct rw_scheduler_info {
	const char *name, *source, *rule, *deviations;
	uint32_t options;
} rw_scheduler_info;

uint32_t rw_scheduler_count(void);
void rw_scheduler_describe(uint32_t index, rw_scheduler_info *info);
void rw_scheduler_option(uint32_t index, uint32_t option, rw_option_info *info);

typedef struct rw_scheduling rw_scheduling;

rw_status rw_scheduling_open(rw_scheduling **scheduling, const rw_choice *choice, rw_error *error);
void rw_scheduling_close(rw_scheduling *scheduling);
/* RW_ERROR_BAD_VALUE where a number is out of its range, or spans overlap. */
rw_status rw_scheduling_pick(const rw_scheduling *scheduling, const rw_sending_view *view, rw_decision_row *decision,
			     rw_error *error);
/* skipped: segments that this subflow leaves to faster ones. each: 8 rows. RW_ERROR_BAD_VALUE also where the scheduler makes no
   predictions. */
rw_status rw_scheduling_forward(const rw_scheduling *scheduling, const rw_sending_view *view, uint32_t subflow,
				rw_forward_row *each, uint64_t *skipped, rw_error *error);

/*
 * Simulation: TCP and MPTCP senders as Linux has them, driven by the controllers, over a network of links in virtual time.
 * Links, changes, traffic and transfers are added before it runs. Times are nanoseconds from its begin; shares are times 2^32.
 */
typedef struct rw_simulation rw_simulation;

typedef enum rw_discipline_kind {
	RW_DROPS_TAIL,
	RW_MARKS_FROM_THRESHOLD,
	RW_DROPS_BY_RED,
	RW_DROPS_BY_CODEL
} rw_discipline_kind;

/* One direction of a link. 0: no limit, no delay, no loss. */
typedef struct rw_link_values {
	uint64_t rate_bps, delay_ns, jitter_ns;
	uint64_t stall_q32, stall_ns; /* with this share of packets the link stalls for so long, on the mean */
	uint64_t limit_packets, limit_bytes;
	uint32_t discipline; /* rw_discipline_kind */
	uint32_t threshold_packets;
	uint32_t red_min_packets, red_max_packets, red_weight_shift, red_gentle;
	uint64_t red_probability_q32;
	int64_t codel_target_ns, codel_interval_ns;
	uint32_t ecn; /* RED and CoDel mark what can be marked */
	uint64_t loss_q32;
	uint64_t good_to_bad_q32, bad_to_good_q32, loss_good_q32,
	    loss_bad_q32; /* Gilbert-Elliott, in place of loss_q32 */
	uint64_t reorder_q32, reorder_ns;
} rw_link_values;

/* Of a link, from a time on; only the values with their bit in `has` change. */
typedef enum rw_link_has { RW_HAS_RATE = 1, RW_HAS_DELAY = 2, RW_HAS_LOSS = 4, RW_HAS_DOWN = 8 } rw_link_has;
typedef struct rw_link_change_values {
	int64_t at_ns;
	uint32_t has, down;
	uint64_t rate_bps, delay_ns, loss_q32;
} rw_link_change_values;

/* Packets of a constant or (on_ns, off_ns: means) an on-off source. */
typedef struct rw_traffic_values {
	uint64_t rate_bps;
	uint32_t packet_bytes;
	int64_t from_ns, to_ns;
	uint64_t on_ns, off_ns;
} rw_traffic_values;

/* A connection whose opener sends data. */
typedef struct rw_transfer_settings {
	uint64_t bytes; /* 0: until stop_ns */
	int64_t start_ns, stop_ns;
	uint64_t write_bytes, pause_ns;
	uint64_t send_buffer_bytes, receive_buffer_bytes; /* what the tuning of the buffers may reach */
	uint64_t receive_buffer_first_bytes; /* what it begins with; 0: Linux's default */
	uint32_t sack, timestamps, ecn;
	uint32_t multipath; /* MPTCP, with one path or more; else TCP, with one */
} rw_transfer_settings;

/* One write of an application: not before after_ns from its transfer's start, or so long after all data before it was acknowledged. */
typedef struct rw_write_values {
	uint64_t bytes, after_ns;
	uint32_t after_acknowledged;
} rw_write_values;

/* Interfaces between which a path lies, the sender's first. */
typedef struct rw_path_ends {
	uint32_t mtu_bytes;
	uint32_t family; /* 4 or 6: so many bytes of an address count, 4 or 16 */
	uint8_t from[16], to[16];
	uint16_t from_port, to_port;
} rw_path_ends;

typedef struct rw_transfer_row {
	uint64_t bytes; /* acknowledged */
	uint32_t complete;
	int64_t first_data_ns, last_acked_ns; /* -1: none */
} rw_transfer_row;

typedef struct rw_simulated_row {
	uint64_t bytes, segments, retransmitted, timeouts, fast_retransmits, spurious;
	uint64_t cwnd_q16, ssthresh_q16, srtt_ns;
	int64_t established_ns; /* -1: never */
	/* Round trips of the handshake, and of a FIN that would have left when the last data was acknowledged; 0: not known. */
	uint64_t handshake_ns, closing_ns;
} rw_simulated_row;

typedef struct rw_link_counts_row {
	uint64_t forwarded, bytes, dropped_full, dropped_early, dropped_loss, dropped_down, marked, reordered;
	uint64_t queue_packets_max, queue_bytes_max;
} rw_link_counts_row;

/* After an ACK. rtt_ns: its sample; 0: none. delivered: segments, newly and SACKed ones included. */
typedef struct rw_simulation_row {
	int64_t time_ns;
	uint64_t cwnd_q16, ssthresh_q16, srtt_ns, rtt_ns;
	uint32_t subflow, in_flight, una, next;
	uint32_t delivered, flags; /* rw_ack_flag: RW_ACK_ECE only */
} rw_simulation_row;

/* tick_ns: of the senders' kernels, 1 to 10 ms. rows: 1: the window after each ACK is kept. */
rw_status rw_simulation_open(rw_simulation **simulation, uint64_t seed, uint64_t tick_ns, uint32_t rows,
			     rw_error *error);
void rw_simulation_close(rw_simulation *simulation);
rw_status rw_simulation_add_link(rw_simulation *simulation, const rw_link_values *values, uint32_t *link,
				 rw_error *error);
/* Changes of a link are added in order of time. */
rw_status rw_simulation_add_change(rw_simulation *simulation, uint32_t link, const rw_link_change_values *change,
				   rw_error *error);
rw_status rw_simulation_add_traffic(rw_simulation *simulation, uint32_t link, const rw_traffic_values *values,
				    rw_error *error);
rw_status rw_simulation_add_transfer(rw_simulation *simulation, const rw_transfer_settings *settings,
				     const rw_choice *controller, uint32_t *transfer, rw_error *error);
/*
 * The transfer that was added last, which is MPTCP, schedules its packets so; else as Linux does: a burst on the subflow that drains
 * first. If it fails, the simulation is of no more use.
 */
rw_status rw_simulation_set_scheduler(rw_simulation *simulation, const rw_choice *scheduler, rw_error *error);
/* The transfer that was added last writes this, in turn, in place of writes of one size: the call copies what it needs. */
rw_status rw_simulation_set_writes(rw_simulation *simulation, const rw_write_values *writes, uint32_t count,
				   rw_error *error);
/* A path of the transfer that was added last, there and back. */
rw_status rw_simulation_add_path(rw_simulation *simulation, const uint32_t *links, uint32_t count, const uint32_t *back,
				 uint32_t back_count, const rw_path_ends *ends, rw_error *error);
/* Before it runs: headers of all packets beside the senders of data, or beside their receivers, go to a file as pcapng. */
rw_status rw_simulation_capture(rw_simulation *simulation, int fd, uint32_t receivers, rw_error *error);
/* Writes the capture's last packets. Fails where any of it could not be written. */
rw_status rw_simulation_finish_capture(rw_simulation *simulation, rw_error *error);
/* Until every transfer is complete, or until_ns. May be called again with a later time. */
rw_status rw_simulation_run(rw_simulation *simulation, int64_t until_ns, rw_error *error);
int64_t rw_simulation_now_ns(const rw_simulation *simulation);
void rw_simulation_transfer(const rw_simulation *simulation, uint32_t transfer, rw_transfer_row *row);
/* Subflows in the order of their paths. */
void rw_simulation_subflow(const rw_simulation *simulation, uint32_t subflow, rw_simulated_row *row);
void rw_simulation_link(const rw_simulation *simulation, uint32_t link, rw_link_counts_row *row);
/* Valid until the simulation runs on or is closed. */
const rw_simulation_row *rw_simulation_rows(const rw_simulation *simulation, uint64_t *count);

/*
 * Lockstep: the simulator's sender is given the ACKs of a captured one at their times, and must send what that one sent. It runs free
 * until it does not; then it is out of step until the captured sender ends a recovery, where it is put right.
 */
typedef struct rw_lockstep rw_lockstep;

/* One captured sender under one controller. */
typedef struct rw_lockstep_row {
	uint32_t connection, subflow, choice;
	uint8_t family;
	uint8_t src[16], dst[16];
	uint16_t sport, dport;
	uint64_t segments; /* that the captured sender sent */
	uint64_t agreed; /* of these, sent by the simulated one too */
	uint64_t runs; /* times that the simulated one ran free */
} rw_lockstep_row;

/* How a free run ended. */
typedef enum rw_parting {
	RW_PARTING_NONE, /* the capture ended */
	RW_PARTING_OTHER, /* the two sent different segments */
	RW_PARTING_AHEAD, /* the simulated sender sent what the captured one did not send yet */
	RW_PARTING_BEHIND /* the other way round */
} rw_parting;

typedef struct rw_lockstep_segment {
	uint32_t start, end;
	uint8_t again; /* a retransmission */
} rw_lockstep_segment;

/* The rows of one sender are in order of time. */
typedef struct rw_lockstep_run {
	uint32_t sender; /* its row */
	uint32_t parting; /* rw_parting */
	int64_t from_ns, to_ns;
	uint64_t segments; /* that agreed */
	rw_lockstep_segment captured, simulated; /* where they parted; start = end: no such segment */
} rw_lockstep_run;

/* At an ACK, before it has an effect. */
typedef struct rw_lockstep_window {
	int64_t time_ns;
	uint32_t sender;
	uint32_t una;
	uint32_t cwnd; /* of the simulated sender, segments; 0: it is out of step */
} rw_lockstep_window;

/*
 * Reads whole captures. Senders of less than the initial window, whose handshake was not captured, that have negotiated accurate ECN, or
 * that were captured elsewhere than beside them are left out. RW_ERROR_BAD_VALUE also for a controller that is rate-based or needs a
 * detector, which the simulated sender has not.
 */
rw_status rw_lockstep_open(rw_lockstep **lockstep, const int *fds, uint32_t files, const rw_choice *choices,
			   uint32_t choice_count, rw_error *error);
void rw_lockstep_close(rw_lockstep *lockstep);
/* Valid until it is closed. */
const rw_lockstep_row *rw_lockstep_senders(const rw_lockstep *lockstep, uint64_t *count);
const rw_lockstep_run *rw_lockstep_runs(const rw_lockstep *lockstep, uint64_t *count);
const rw_lockstep_window *rw_lockstep_windows(const rw_lockstep *lockstep, uint64_t *count);

#pragma GCC visibility pop

#endif
