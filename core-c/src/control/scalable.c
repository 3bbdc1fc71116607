/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Scalable TCP (Kelly, CCR 33(2), 2003): steps that do not depend on the window.
 *
 *   slow start, and windows of lwnd at most  as NewReno, lwnd = 16
 *   congestion avoidance                     w += 0.01 acked
 *   loss, ECE, timeout                       ssthresh = w - w / 8
 */
#include "fixed_point.h"
#include "options.h"

enum { LWND = COMMON_OPTIONS };

#define STEP_Q40 (((uint64_t)1 << 40) / 100)

static const struct rw_option scalable_options[] = {RW_OPTION_MODE_SENDER,
						    RW_OPTION_FLOOR_LINUX,
						    {"lwnd", "1 to 1024 segments", 16 << 16,
						     "Kelly 2003: up to this window it is NewReno", RW_OPTION_Q16,
						     1 << 16, 1024 << 16},
						    {0}};

static const struct rw_word_name scalable_words[] = {{0}};

static int is_legacy(const struct rw_connection *c, const struct rw_path *p)
{
	return p->cwnd_q16 <= (uint64_t)c->option[LWND];
}

static void scalable_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16)
		rw_congestion_avoidance_q40(p, is_legacy(c, p) ? rw_reno_step_q40(p->cwnd_q16) : STEP_Q40, acked_q16);
}

static void scalable_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	rw_decrease(p, p->cwnd_q16 / (is_legacy(c, p) ? 2 : 8), c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_scalable = {
    .name = "scalable",
    .source = "Scalable TCP: Kelly 2003",
    .formula = "I = 0.01, D = w/8; NewReno up to w = 16",
    .deviations =
	"The window keeps fractions also with mode=kernel. A timeout is a loss, too: the paper speaks of the detection of "
	"congestion only.",
    .multipath = 0,
    .options = scalable_options,
    .words = scalable_words,
    .ack = scalable_ack,
    .loss = scalable_loss,
};
