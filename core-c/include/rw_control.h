/*
 * The contract that one congestion controller implements.
 *
 * A controller is one C file: a few functions over the plain integers below. No malloc, no libc, no floating
 * point, no loop without a constant bound, so that the same file serves the replay, a simulator and
 * `clang -target bpf`. Units are in the names: `_q16` is a fixed-point number with 16 fractional bits, windows
 * are in segments, times in nanoseconds.
 */
#ifndef RW_CONTROL_H
#define RW_CONTROL_H

#include <stdint.h>

#define RW_MAX_PATHS 8
#define RW_MAX_OPTIONS 16
#define RW_PATH_WORDS 11
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
	RW_PHASE_CWR = 5
};

/* Where a subflow stands in its detector's decision; controllers couple a set only when it is final (SB-CC paper III.A). */
enum rw_group_state { RW_GROUP_MONITOR = 0, RW_GROUP_JUDGEMENT = 1, RW_GROUP_FINAL = 2 };

enum rw_mode { RW_MODE_KERNEL = 0, RW_MODE_PAPER = 1 };

/* One subflow as a controller sees it. A slot is reused after its subflow left. */
struct rw_path {
	uint64_t cwnd_q16;
	uint64_t ssthresh_q16; /* RW_SSTHRESH_UNSET until set */
	uint64_t srtt_ns; /* RFC 6298 smoothing; 0 before the first sample */
	uint64_t flight_max_q16; /* largest flight since the last reduction */
	uint64_t flight_peak_q16; /* largest flight between the last two reductions; 0 before the first */
	uint32_t cwnd_rem_q40; /* what cwnd_q16 cannot hold: the next 24 fractional bits */
	uint32_t cwnd_cnt; /* Linux's additive-increase credit, segments */
	uint8_t live; /* established and not closed */
	uint8_t recovering; /* in fast recovery or CWR: its window counts as ssthresh */
	uint8_t initial; /* still in the connection's initial slow start */
	uint8_t group; /* the set of subflows behind one bottleneck that a detector placed it in; 0: none */
	uint8_t group_state; /* enum rw_group_state */
	uint8_t left_initial; /* coupled slow start's: what an undo of its loss would bring back */
	uint8_t pad[2];
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
	uint32_t paths; /* places that there are: at most RW_MAX_PATHS, often fewer */
	struct rw_path path[RW_MAX_PATHS];
};

/* The bound of every loop over paths: a constant one, whatever the connection says. */
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
	uint32_t marked_segments; /* of those acknowledged, how many it reports as marked by ECN */
};

enum rw_option_kind { RW_OPTION_CHOICE = 0, RW_OPTION_Q16 = 1 };

struct rw_option {
	const char *name;
	const char *values; /* choices split by '|', or the range in words for a number */
	const char *default_value;
	const char *reason;
	uint8_t kind;
	int64_t low_q16, high_q16; /* bounds of a number, inclusive */
};

/* State that a caller may read and set by name (`Controller`): a word of the connection or of each path. */
struct rw_word_name {
	const char *name;
	uint8_t of_path; /* 1: one value for each path */
	uint8_t index;
	uint8_t fraction_bits;
	uint8_t is_signed;
	uint8_t half; /* index counts 32-bit halves, which are not signed */
	uint8_t modes; /* a bit for each enum rw_mode in which it means this; 0: in all */
};

struct rw_control {
	const char *name;
	const char *source; /* paper and section, RFC */
	const char *formula; /* one line, the field's notation */
	const char *deviations; /* from the print, and why; "none" first where there are none */
	uint8_t multipath;
	const char
	    *detector; /* that places its subflows in sets, unless another is chosen; null: it has no use for sets */
	const struct rw_option *options; /* ends with a null name; the first is always `mode` */
	const struct rw_word_name *words; /* ends with a null name */
	/* Required. */
	void (*ack)(struct rw_connection *c, const struct rw_ack *ack); /* the window may grow */
	void (*loss)(struct rw_connection *c, uint32_t path); /* fast retransmit: sets ssthresh_q16 */
	/* Optional: null means the common rule. */
	void (*withheld)(struct rw_connection *c,
			 const struct rw_ack *ack); /* ack, but only one segment less than the window was in flight */
	void (*ece)(struct rw_connection *c, uint32_t path); /* the first ECE of a window; null: as a loss */
	void (*open)(struct rw_connection *c);
	void (*begin)(struct rw_connection *c, uint32_t path); /* a path takes its place: first values of its words */
	void (*grouped)(struct rw_connection *c, uint32_t path); /* its group or the state of that has changed */
	void (*delivered)(struct rw_connection *c, const struct rw_ack *ack); /* every ACK of new segments, first */
	void (*rtt)(struct rw_connection *c, const struct rw_ack *ack); /* every ACK with a sample, before ack */
	void (*idle)(struct rw_connection *c, uint32_t path, int64_t now_ns, uint64_t idle_ns); /* it sends again */
	void (*join)(struct rw_connection *c, uint32_t path); /* the path is live and has its initial window */
	void (*leave)(struct rw_connection *c, uint32_t path); /* the path is still live */
	void (*timeout)(struct rw_connection *c, uint32_t path); /* first RTO of an episode: sets ssthresh_q16 */
	void (*undo)(struct rw_connection *c,
		     uint32_t path); /* the loss was none: window and ssthresh are given back */
	uint32_t (*resume)(
	    struct rw_connection *c,
	    uint32_t path); /* slow start ended by less than clocks tell, and its sender went on: 1, so does it */
	uint32_t (*phase)(const struct rw_connection *c, uint32_t path);
	/* How long a tick of the kernel's clock is, where the controller counts those; null: it does not. Ticks begin at
	   multiples of it in rw_ack's time_ns, as far as their phase is known. */
	uint64_t (*tick_ns)(const struct rw_connection *c);
};

/* The registry (list.c): every controller once, ended by a null. */
extern const struct rw_control *const rw_control_list[];

#endif
