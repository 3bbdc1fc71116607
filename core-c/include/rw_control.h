/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The contract that one congestion controller implements.
 *
 * A controller is one C file: a few functions over the plain integers below. No malloc, no libc, no floating
 * point, no loop without a constant bound, so that the same file serves the replay, a simulator and
 * `clang -target bpf`. Units are in the names: `_q16` is a fixed-point number with 16 fractional bits, windows
 * are in segments, times in nanoseconds.
 *
 * When a controller is called. Its caller keeps the fields of struct rw_path except `word`, and reports events by these calls:
 *
 *   a connection begins             open
 *   a subflow is established        begin, rtt (if the handshake gave a sample), join
 *   data is sent after a pause      idle
 *   a retransmission times out      timeout
 *   an ACK arrives                  1. grouped for each subflow whose set the detector changes at this ACK, then regrouped
 *                                   2. delivered, if it covers new segments
 *                                   3. rtt, if it has a sample
 *                                   4. undo, if it shows that the last reduction was spurious
 *                                   5. loss or ece, if it begins a recovery
 *                                   6. ack, if the window may grow; withheld, if one segment of the window was not in flight
 *                                   7. rate, if the controller has it, in place of 6; before it, lost for each segment that
 *                                      was found lost since the ACK before: those found before this ACK come before 4
 *   a subflow is closed             grouped and regrouped, if its set dissolves; leave
 *
 * Only one of the steps 4 to 6 happens, except that a new loss may follow an undo. The window never grows in a recovery.
 *
 * A controller with `rate` is rate-based: it sets its window itself at every ACK, in every state of the sender. The caller samples
 * the delivery rate only for such a controller, and runs no growth gate, no proportional rate reduction and no reduction after an
 * idle time for it. None of this changes window-based controllers.
 */
#ifndef RW_CONTROL_H
#define RW_CONTROL_H

#include <stdint.h>

#define RW_INLINE static inline __attribute__((always_inline, unused))
/*
 * What the kernel's verifier should walk once, and not at each of its places: kernel/bpf makes it a function that is called. Its
 * pointers are RW_NEVER_NULL, its indices bounded where they are used, and it returns an integer.
 */
#ifndef RW_CALL
#define RW_CALL RW_INLINE
#define RW_NEVER_NULL
#endif

#define RW_MAX_PATHS 8
#define RW_MAX_OPTIONS 16
#define RW_PATH_WORDS 13
#define RW_CONNECTION_WORDS 4

#define RW_Q16_ONE ((uint64_t)1 << 16)
/* The largest window: 2^20 segments, the range the oracles cover. */
#define RW_CWND_MAX_Q16 ((uint64_t)1 << 36)
#define RW_SSTHRESH_UNSET UINT64_MAX
/* RFC 6928. */
#define RW_INITIAL_WINDOW 10

enum rw_phase {
	RW_PHASE_SLOW_START = 0,
	RW_PHASE_COUPLED_SLOW_START = 1,
	RW_PHASE_CONGESTION_AVOIDANCE = 2,
	RW_PHASE_RECOVERY = 3,
	RW_PHASE_LOSS = 4,
	RW_PHASE_CWR = 5,
	/* Of rate-based controllers (BBR). */
	RW_PHASE_STARTUP = 6,
	RW_PHASE_DRAIN = 7,
	RW_PHASE_PROBE_BW = 8,
	RW_PHASE_PROBE_RTT = 9,
	/* Of BBRv3, in place of the one for all of ProbeBW. */
	RW_PHASE_PROBE_BW_DOWN = 10,
	RW_PHASE_PROBE_BW_CRUISE = 11,
	RW_PHASE_PROBE_BW_REFILL = 12,
	RW_PHASE_PROBE_BW_UP = 13
};

/*
 * The state of a detector's decision on a subflow. Controllers couple a set only when it is final (SB-CC paper III.A). Final
 * without a set is the verdict that the subflow shares its bottleneck with no other.
 */
enum rw_group_state { RW_GROUP_MONITOR = 0, RW_GROUP_JUDGEMENT = 1, RW_GROUP_FINAL = 2 };

enum rw_mode { RW_MODE_KERNEL = 0, RW_MODE_PAPER = 1 };

/* One subflow as a controller sees it. A slot is reused after its subflow left. */
struct rw_path {
	uint64_t cwnd_q16;
	uint64_t ssthresh_q16; /* RW_SSTHRESH_UNSET until set */
	uint64_t srtt_ns; /* RFC 6298 smoothing; 0 before the first sample */
	uint64_t flight_max_q16; /* largest flight since the last reduction */
	uint64_t flight_peak_q16; /* largest flight between the last two reductions; 0 before the first */
	uint32_t cwnd_rem_q40; /* the 24 fractional bits below cwnd_q16 */
	uint32_t cwnd_cnt; /* Linux's additive-increase credit, segments */
	uint8_t live; /* established and not closed */
	uint8_t recovering; /* in fast recovery or CWR: its window counts as ssthresh */
	uint8_t initial; /* in the initial slow start: set with a threshold that is unset, cleared by the controller */
	uint8_t group; /* the set of subflows behind one bottleneck that a detector placed it in; 0: none */
	uint8_t group_state; /* enum rw_group_state */
	uint8_t pad[3];
	union { /* the controller's own */
		uint64_t word[RW_PATH_WORDS];
		uint32_t half[2 * RW_PATH_WORDS];
	};
};

/* One connection under one controller. */
struct rw_connection {
	int64_t option[RW_MAX_OPTIONS]; /* values in the order of the controller's option table */
	uint64_t word[RW_CONNECTION_WORDS]; /* the controller's own */
	uint32_t mss_bytes; /* of the first subflow; turns byte thresholds into segments */
	uint32_t paths; /* number of places: at most RW_MAX_PATHS, often fewer */
	struct rw_path path[RW_MAX_PATHS];
};

/* The bound of every loop over paths, which the compiler sees to be at most RW_MAX_PATHS. */
static inline __attribute__((always_inline, unused)) uint32_t rw_path_count(const struct rw_connection *c)
{
	return c->paths < RW_MAX_PATHS ? c->paths : RW_MAX_PATHS;
}

struct rw_ack {
	uint32_t path;
	uint32_t acked_segments; /* newly delivered by this ACK */
	uint64_t rtt_ns; /* this ACK's sample, of the oldest segment that it covers; 0 when it has none */
	uint64_t rtt_newest_ns; /* of the newest one */
	int64_t time_ns;
	uint32_t una, next; /* sequence numbers: acknowledged by it, and next to be sent */
	uint32_t marked_segments; /* how many of the acknowledged segments it reports as marked by ECN */
};

/* What the sender repairs. */
enum rw_repair { RW_REPAIR_NONE = 0, RW_REPAIR_RECOVERY = 1, RW_REPAIR_TIMEOUT = 2 };

/*
 * What one ACK tells a rate-based controller: a delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation 3) of the newest
 * packet that the ACK covers, and what is in flight. `delivered` counts segments from the connection's beginning.
 */
struct rw_rate {
	uint32_t path;
	uint32_t acked_segments, lost_segments; /* newly, by this ACK */
	uint32_t in_flight_before, in_flight; /* segments; before and after the ACK */
	uint8_t repair; /* enum rw_repair, after the ACK */
	uint8_t app_limited; /* the packet was sent while the application had no more to send */
	uint64_t held_ns; /* until the pace lets the next packet go; 0: it may leave now */
	/* What the recorded sender let go by a timer since the ACK before, and in what time; 0: nothing, or not known. */
	uint32_t paced_segments;
	uint64_t paced_ns;
	int64_t paced_since_ns; /* this time's begin */
	/* Bounds of the recorded sender's window before this ACK, segments: it let the flight grow to the first, and ended it at the
	   second or before. 0: not known. */
	uint32_t window_least, window_most;
	int64_t window_since_ns; /* the ACK from which on it was that large at least */
	int64_t began_ns; /* when the sender's connection, or subflow, was established */
	int64_t time_ns;
	uint64_t rtt_ns; /* of the newest packet that was sent once; 0: no sample */
	uint64_t delivered; /* with this ACK's */
	uint64_t prior_delivered; /* when the packet was sent */
	uint64_t interval_ns; /* in which delivered - prior_delivered segments were delivered; 0: no sample */
	uint8_t selective; /* the connection has SACK */
	uint8_t window_limited; /* the flight filled the window at some time in the round trip */
	/* Only for a controller that has `lost`: what was in flight when the packet had left, with it (0: not known), and how many
	   segments were found lost since. */
	uint32_t sent_in_flight, lost_since;
};

/* A segment that the sender found lost (draft-ietf-ccwg-bbr-06, 5.5.10.2). */
struct rw_lost {
	uint32_t path;
	uint32_t in_flight; /* segments, when it had left, with it; 0: not known */
	uint32_t lost_since; /* segments found lost since it left, with it */
	uint64_t delivered; /* when it was found lost */
	int64_t time_ns; /* of the ACK after which it is told */
	uint8_t app_limited; /* it was sent while the application had no more to send */
	uint8_t continues; /* it follows in sequence on the one found lost before it */
	uint8_t selective; /* as in struct rw_rate */
};

/* What a rate-based controller takes a path to be. Rates are segments each microsecond, Q24. */
struct rw_model {
	uint64_t bandwidth_q24; /* 0: not known yet */
	uint64_t pacing_q24; /* how fast it may send */
	uint64_t min_rtt_ns; /* 0: not known yet */
	uint8_t
	    app_limits; /* what leaves from now on, until all of what is in flight is delivered, tells nothing of the path */
};

/*
 * Paces by which a capture tells this version of an algorithm from another one, in the state that the controller is in; 0: by none.
 * Segments each microsecond, Q24.
 */
struct rw_version_paces {
	uint64_t own_q24, other_q24;
};

enum rw_option_kind { RW_OPTION_CHOICE = 0, RW_OPTION_Q16 = 1 };

/* A fraction as Q16, rounded, for the tables of options. Of numbers above 0. */
#define RW_Q16(numerator, denominator) ((((int64_t)(numerator) << 17) / (denominator) + 1) >> 1)

struct rw_option {
	const char *name;
	const char *values; /* choices split by '|', or the range in words for a number */
	int64_t default_value; /* a choice's place among the values, from 0 on; a number as Q16 */
	const char *reason;
	uint8_t kind;
	int64_t low_q16, high_q16; /* bounds of a number, inclusive */
};

/* Names a word of the connection or of each path, which a caller may read and set (`Controller`). */
struct rw_word_name {
	const char *name;
	uint8_t of_path; /* 1: one value for each path */
	uint8_t index;
	uint8_t fraction_bits;
	uint8_t is_signed;
	uint8_t half; /* index counts 32-bit halves, which are not signed */
	uint8_t modes; /* a bit for each enum rw_mode in which it has this meaning; 0: all */
	uint8_t of_set; /* 1: of a path, and valid only while the path is in a set */
	uint8_t bits; /* of a half: so many of its lowest bits; 0: all */
};

struct rw_control {
	const char *name;
	const char *source; /* paper and section, RFC */
	const char *formula; /* one line, the field's notation */
	const char *deviations; /* from the print, and why; "none" first where there are none */
	uint8_t multipath;
	/* the default detector of its sets of subflows; null: it does not use sets */
	const char *detector;
	const struct rw_option *options; /* ends with a null name; the first is always `mode` */
	const struct rw_word_name *words; /* ends with a null name */
	/*
	 * Required, but for ack in a rate-based controller.
	 *
	 * ack: an ACK of new data, outside of a recovery, while the window limits the sender. Grows cwnd_q16.
	 */
	void (*ack)(struct rw_connection *c, const struct rw_ack *ack);
	/* A recovery begins: sets ssthresh_q16 from cwnd_q16; the caller then moves cwnd_q16 to it. cwnd_cnt is 0 already. The
	   caller does not move the window of a rate-based controller. */
	void (*loss)(struct rw_connection *c, uint32_t path);
	/*
	 * Optional: null means the default, which each comment names.
	 *
	 * The first ECN echo of a window of data: as loss. Default: loss.
	 */
	void (*ece)(struct rw_connection *c, uint32_t path);
	/* The first retransmission timeout of an episode: as loss, but the caller then sets cwnd_q16 to 1. Default: loss. */
	void (*timeout)(struct rw_connection *c, uint32_t path);
	/*
	 * The last loss, ece or timeout was spurious (Eifel, DSACK, F-RTO). The caller has restored cwnd_q16 and ssthresh_q16; this
	 * restores everything else that the call changed. Default: nothing.
	 */
	void (*undo)(struct rw_connection *c, uint32_t path);
	/* The connection begins, with its options and without paths; its words are 0. Default: nothing. */
	void (*open)(struct rw_connection *c);
	/* The path has taken its place; its words and srtt_ns are 0. Sets their initial values. Default: nothing. */
	void (*begin)(struct rw_connection *c, uint32_t path);
	/* The path has become live, after begin: it has its initial window. Default: nothing. */
	void (*join)(struct rw_connection *c, uint32_t path);
	/* The path is about to close: it still is live. Default: nothing. */
	void (*leave)(struct rw_connection *c, uint32_t path);
	/* The ACK covers new segments, in any state of the sender. Default: nothing. */
	void (*delivered)(struct rw_connection *c, const struct rw_ack *ack);
	/* The ACK has a sample of the RTT, which is in srtt_ns already. Default: nothing. */
	void (*rtt)(struct rw_connection *c, const struct rw_ack *ack);
	/* Instead of ack, where the window may not grow because one segment of it was not in flight. Default: nothing. */
	void (*withheld)(struct rw_connection *c, const struct rw_ack *ack);
	/* Data is sent after idle_ns without any; after a whole RTO the caller has reduced cwnd_q16. Default: nothing. */
	void (*idle)(struct rw_connection *c, uint32_t path, int64_t now_ns, uint64_t idle_ns);
	/* The path's group or group_state has changed. Further changes of the same decision may follow. Default: nothing. */
	void (*grouped)(struct rw_connection *c, uint32_t path);
	/* grouped has been called for all changes of one decision. Default: nothing. */
	void (*regrouped)(struct rw_connection *c);
	/*
	 * The recorded sender kept doubling its window after this controller ended slow start by a measurement that a capture shows
	 * only roughly (HyStart's delays). Returns 1 and goes back to slow start if the decision was close, else 0. Default: 0.
	 */
	uint32_t (*resume)(struct rw_connection *c, uint32_t path);
	/* Its enum rw_phase outside of a recovery. Default: slow start below ssthresh_q16, congestion avoidance from it on. */
	uint32_t (*phase)(const struct rw_connection *c, uint32_t path);
	/* The length of a tick of the kernel's clock, if the controller counts ticks; null: it does not. Ticks begin at multiples
	   of it in rw_ack's time_ns, as far as their phase is known. */
	uint64_t (*tick_ns)(const struct rw_connection *c);
	/* Any ACK but one that is older than another. Sets cwnd_q16. Default: the controller is window-based. */
	void (*rate)(struct rw_connection *c, const struct rw_rate *sample);
	/* What a rate-based controller takes the path to be; required of one. */
	void (*model)(const struct rw_connection *c, uint32_t path, struct rw_model *model);
	/* A segment was found lost; only of a rate-based controller. Default: nothing. */
	void (*lost)(struct rw_connection *c, const struct rw_lost *lost);
	/* Only of a rate-based controller. Default: there is no other version. */
	void (*versions)(const struct rw_connection *c, uint32_t path, struct rw_version_paces *paces);
};

/* The registry (list.c): every controller once, ended by a null. */
extern const struct rw_control *const rw_control_list[];

#endif
