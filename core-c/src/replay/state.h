/* What a replay under way knows; inside this folder only. */
#ifndef RW_STATE_H
#define RW_STATE_H

#include "capture.h"
#include "coverage.h"
#include "early.h"
#include "shadow.h"

#define NO_SLOT 255

/* A flow while it is replayed. */
struct live {
	struct rw_sender sender;
	int64_t last_ns, syn_ns, syn_ack_ns;
	uint8_t slot, established, left, syns, syn_acks, fin, crowded_out;
	uint64_t ce_packets;
	uint64_t rows, full_rows; /* full: the sender filled its window, as far as can be seen */
	struct window {
		uint64_t sum_q16, most_q16, last_q16, matched;
	} *window; /* one for each controller, from the first row on */
};

struct live_connection {
	uint8_t *shadows;             /* a struct rw_shadow of its size for each controller; see shadow_of */
	struct rw_coverage *coverage; /* null without data sequence numbers */
	uint32_t left;                /* how many of its subflows have */
	uint8_t slots_used;           /* a bit for each */
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
	uint8_t *mark_kind;
};

struct choice {
	const struct rw_control *control;
	struct rw_settings settings;
};

struct rw_replay {
	int *fds;
	uint32_t files, choices, batch_rows;
	uint64_t total_bytes;
	struct choice *choice;
	rw_limits limits;
	struct rw_survey survey;
	struct rw_budget budget;
	struct rw_oddity_counts oddities, ignored; /* ignored: those that the survey has counted already */
	rw_summary summary;
	struct rw_observation *observation; /* of the second pass */
	struct rw_fragments *fragments;
	struct rw_copies *copies;           /* null: no flow has any */
	uint64_t record;                    /* that it is at */
	struct rw_early *early; /* null: no flow needs it */
	uint8_t *send_times;    /* of each flow */
	struct live **live;
	struct live_connection *live_connection;
	struct columns columns;
	uint64_t rows, marks, rows_before;
	uint8_t ended;
};

/* Where a flow was captured, seen from its data sender. */
enum rw_vantage rw_vantage_of(const struct rw_flow *f);

/* Saturates. */
static inline uint32_t rw_to_us(uint64_t ns)
{
	uint64_t us = ns / 1000;
	return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

#endif
