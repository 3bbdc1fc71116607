/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * NewReno (RFC 5681, RFC 6582), and `uncoupled`: the same on each subflow, which is what Linux MPTCP runs.
 *
 *   slow start            w += acked
 *   congestion avoidance  w += acked / w
 *   loss, ECE, timeout    ssthresh = w / 2
 *
 * mode=kernel keeps the integer window and credit counter of Linux; mode=paper keeps fractions.
 */
#include "fixed_point.h"
#include "options.h"
#include "ssthresh_estimator.h"

enum { SSTHRESH = COMMON_OPTIONS };

static const struct rw_option newreno_options[] = {RW_OPTION_MODE_INTEGER,
						   RW_OPTION_FLOOR_LINUX,
						   {"ssthresh", "none|static|hoe|hystart|hystart++", 0,
						    "what ends the first slow start beside a loss: nothing, as Linux's "
						    "reno; 65535 bytes; or an estimate",
						    RW_OPTION_CHOICE, 0, 0},
						   {0}};

static const struct rw_word_name newreno_words[] = {RW_ESTIMATOR_PATH_WORDS, {0}};

/* -1: none. */
static int64_t estimator(const struct rw_connection *c) { return c->option[SSTHRESH] - 1; }

static int in_first_slow_start(const struct rw_path *p) { return p->ssthresh_q16 == RW_SSTHRESH_UNSET; }

static void newreno_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	if (in_first_slow_start(&c->path[ack->path]))
		rw_estimator_delivered(&c->path[ack->path], estimator(c), ack);
}

static void newreno_rtt(struct rw_connection *c, const struct rw_ack *ack)
{
	if (in_first_slow_start(&c->path[ack->path]))
		rw_estimator_rtt(&c->path[ack->path], estimator(c), ack);
}

/* An estimate ends the first slow start; until then hystart++ may slow it down. Returns the segments that count, Q16. */
static uint64_t first_slow_start(struct rw_connection *c, struct rw_path *p, uint32_t acked_segments)
{
	uint64_t estimate = estimator(c) == ESTIMATOR_STATIC ? rw_static_ssthresh_q16(c) : p->word[PATH_ESTIMATE_Q16];
	int whole = c->option[MODE] == RW_MODE_KERNEL;
	if (estimate) {
		p->cwnd_cnt = 0;
		rw_set_ssthresh(p, whole ? estimate >> 16 << 16 : estimate, c->option[MIN_SSTHRESH]);
		return (uint64_t)acked_segments << 16;
	}
	uint64_t growth_q16 = rw_estimator_growth_q16(p, estimator(c), acked_segments);
	if (whole) { /* quarters of a segment wait in the credit */
		p->cwnd_cnt += (uint32_t)(growth_q16 >> 14);
		growth_q16 = (uint64_t)(p->cwnd_cnt >> 2) << 16;
		p->cwnd_cnt &= 3;
	}
	return growth_q16;
}

static void newreno_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = (uint64_t)ack->acked_segments << 16;
	if (estimator(c) >= 0 && in_first_slow_start(p))
		acked_q16 = first_slow_start(c, p, ack->acked_segments);
	if (rw_in_slow_start(p))
		acked_q16 = rw_slow_start(p, acked_q16);
	if (acked_q16 == 0)
		return;
	rw_reno_avoidance(p, c->option[MODE] == RW_MODE_KERNEL, acked_q16);
}

static void newreno_loss(struct rw_connection *c, uint32_t path)
{
	rw_halve(&c->path[path], c->option[MODE] == RW_MODE_KERNEL, c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_newreno = {
    .name = "newreno",
    .source = "RFC 5681, RFC 6582; Linux tcp_reno",
    .formula = "I = 1/w, D = w/2",
    .deviations = "RFC 5681 halves FlightSize, Linux and this the window. mode=kernel keeps Linux's whole segments and "
		  "its credit counter.",
    .multipath = 0,
    .options = newreno_options,
    .words = newreno_words,
    .delivered = newreno_delivered,
    .rtt = newreno_rtt,
    .ack = newreno_ack,
    .loss = newreno_loss,
};

const struct rw_control rw_control_uncoupled = {
    .name = "uncoupled",
    .source = "e-NMCC paper II.B (MP-RENO); Linux MPTCP with reno",
    .formula = "each subflow: I = 1/w, D = w/2",
    .deviations = "none; it is NewReno on each subflow.",
    .multipath = 1,
    .options = newreno_options,
    .words = newreno_words,
    .delivered = newreno_delivered,
    .rtt = newreno_rtt,
    .ack = newreno_ack,
    .loss = newreno_loss,
};
