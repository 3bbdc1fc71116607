/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Two algorithms share the name Coupled; this is the one that the papers compare with (Kelly and Voice 2005, Han et al.
 * 2006). Wischik's is coupled_full.c.
 *
 *   congestion avoidance  w += acked (w/R^2) / (sum w_k/R_k)^2
 *   loss, ECE, timeout    ssthresh = w / 2
 */
#include "fixed_point.h"
#include "options.h"

enum { SSTHRESH = COMMON_OPTIONS };

static const struct rw_option coupled_options[] = {
    RW_OPTION_MODE_PAPER, RW_OPTION_FLOOR_LINUX, RW_OPTION_SSTHRESH, {0}};
static const struct rw_word_name coupled_words[] = {{0}};

static void coupled_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, 0);
}

static void coupled_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16 == 0)
		return;
	struct rw_sums t = rw_sum_paths(c);
	uint64_t step = t.paths > 1 && rw_counts(p) ? rw_coupled_step_q40(&t, p) : rw_reno_step_q40(p->cwnd_q16);
	rw_congestion_avoidance_q40(p, step, acked_q16);
}

static void coupled_loss(struct rw_connection *c, uint32_t path)
{
	rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_coupled = {
    .name = "coupled",
    .source = "Kelly and Voice 2005, Han et al. 2006; TCCC paper, Table II",
    .formula = "I = (w/R^2) / (sum w_k/R_k)^2, D = w/2",
    .deviations = "none; Table II's row. Wischik's algorithm of the same name is coupled-full.",
    .multipath = 1,
    .options = coupled_options,
    .words = coupled_words,
    .begin = coupled_begin,
    .ack = coupled_ack,
    .loss = coupled_loss,
};
