/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The fully coupled algorithm (Wischik et al. 2011), which is called Coupled, too.
 *
 *   congestion avoidance  w += acked / W, W = sum w_k
 *   loss, ECE             ssthresh = w - W/2
 *   timeout               ssthresh = w / 2: it is not the event that W/2 models
 */
#include "fixed_point.h"
#include "options.h"

enum { SSTHRESH = COMMON_OPTIONS };

static const struct rw_option full_options[] = {
    RW_OPTION_MODE_PAPER,
    RW_OPTION_FLOOR(2, "w - W/2 is often not positive; Linux floor, 1 is used by htsim"),
    RW_OPTION_SSTHRESH,
    {0}};
static const struct rw_word_name full_words[] = {{0}};

/* Of all that are live: a window needs no round trip to be counted. */
static uint64_t total_q16(const struct rw_connection *c)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (c->path[i].live)
			total += rw_window_q16(&c->path[i]);
	return total;
}

static void full_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, 0);
}

static void full_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16)
		rw_congestion_avoidance_q40(p, rw_multiply_divide((uint64_t)1 << 40, RW_Q16_ONE, total_q16(c)),
					    acked_q16);
}

static void full_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	/* What has just been lost counts as it was, in recovery or not. */
	uint64_t total = total_q16(c) - rw_window_q16(p) + p->cwnd_q16;
	rw_decrease(p, total >> 1, c->option[MIN_SSTHRESH]);
}

static void halve(struct rw_connection *c, uint32_t path) { rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]); }

const struct rw_control rw_control_coupled_full = {
    .name = "coupled-full",
    .source = "Wischik et al. 2011 (fully coupled)",
    .formula = "I = 1/W, D = W/2, W = sum w_k",
    .deviations = "w - W/2 is not positive for a subflow with half of the windows or less: a floor (min_ssthresh). A "
		  "timeout halves.",
    .multipath = 1,
    .options = full_options,
    .words = full_words,
    .begin = full_begin,
    .ack = full_ack,
    .loss = full_loss,
    .timeout = halve,
};
