/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The contract that one shared-bottleneck detector implements: which subflows of a connection share a queue.
 *
 * A detector is one C file under the rules of a controller (rw_control.h): integers, no libc, no loop without a constant
 * bound, `clang -target bpf`. Its input does not depend on a window, so one run serves every controller. Times are
 * nanoseconds on any clock.
 */
#ifndef RW_BOTTLENECK_H
#define RW_BOTTLENECK_H

#include "rw_control.h"

/* Bounds of times and round trips. Larger values are cut to them, so that sums and squares stay within 64 bits. */
#define RW_DETECTION_TIME_MAX ((int64_t)1 << 61)
#define RW_DETECTION_DELAY_MAX ((uint64_t)1 << 40)

/* One subflow as a detector judges it. A later subflow may reuse the slot of one that left. */
struct rw_detected_path {
	uint64_t srtt_ns; /* 0: none yet */
	uint8_t live;
	uint8_t set;   /* from 1 on; 0: none */
	uint8_t state; /* enum rw_group_state */
};

/* One connection under one detector. Every detector's own state begins with it. */
struct rw_detection {
	int64_t option[RW_MAX_OPTIONS]; /* in the order of the detector's option table */
	int64_t now_ns;
	struct rw_detected_path path[RW_MAX_PATHS];
};

enum rw_congestion { RW_CONGESTION_ECE = 0, RW_CONGESTION_LOSS = 1, RW_CONGESTION_TIMEOUT = 2 };

struct rw_delivery {
	uint32_t path;
	uint32_t delivered_segments, lost_segments; /* since the last delivery */
	uint64_t delay_ns; /* 0: no sample */
};

/* A number of one path that the detector decides by, for display. */
struct rw_statistic {
	const char *name;
	const char *unit;
	uint8_t fraction_bits;
};

enum { RW_SETS_MAX = RW_MAX_PATHS / 2 }; /* a set has at least two members */

/* A decision that waits for the future half of the observation windows (SB-CC paper, Fig. 2). */
struct rw_judgement {
	int64_t since_ns, due_ns;
	uint8_t waits, trigger; /* trigger: the path whose ECE asked */
	uint8_t seen;           /* a bit for each path that had an event in its window */
	uint8_t open;           /* a bit for each path whose future half is not over yet */
};

struct rw_detector {
	const char *name;
	const char *source;  /* paper and section, RFC */
	const char *formula; /* one line */
	const char *deviations; /* from the print */
	const struct rw_option *options;       /* ends with a null name */
	const struct rw_statistic *statistics; /* ends with a null name */
	uint32_t bytes;      /* of its state, a struct that begins with a struct rw_detection; all 0 before open */
	void (*open)(struct rw_detection *d); /* options and now_ns are set. Null: nothing to do */
	void (*join)(struct rw_detection *d, uint32_t path);  /* the path is live, in no set */
	void (*leave)(struct rw_detection *d, uint32_t path); /* the path is still live */
	void (*congestion)(struct rw_detection *d, uint32_t path,
			   enum rw_congestion kind); /* at now_ns; null: not used */
	void (*delivery)(struct rw_detection *d, const struct rw_delivery *delivery); /* at now_ns; null: not used */
	/*
	 * Takes the earliest decision that was due between now_ns and `until`, sets now_ns to its due time, and returns 1 plus its
	 * place among the judgements; 0: no decision is due. Null: the detector decides only at events.
	 */
	int (*decide)(struct rw_detection *d, int64_t until_ns);
	int64_t (*statistic)(const struct rw_detection *d, uint32_t path, uint32_t index);
	/* For the monitor: judgements of RW_MAX_PATHS monitored paths, then of RW_SETS_MAX sets. Null: it has no judgements. */
	const struct rw_judgement *(*judgement)(const struct rw_detection *d, uint32_t place);
};

/* The registry (list.c): every detector once, ended by a null. */
extern const struct rw_detector *const rw_detector_list[];

#endif
