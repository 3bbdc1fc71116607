/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * e-NMCC+: NMCC's slow start (nmcc.h), then each subflow is NewReno (TCCC paper, V.B).
 *
 *   loss, ECE, timeout  ssthresh = w / 2
 */
#include "nmcc.h"
#include "options.h"

enum { SSTHRESH = COMMON_OPTIONS };

static const struct rw_option plus_options[] = {RW_OPTION_MODE_PAPER, RW_OPTION_FLOOR_LINUX, RW_OPTION_SSTHRESH, {0}};
static const struct rw_word_name plus_words[] = {{0}};

static void plus_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q40 = (uint64_t)ack->acked_segments << 40, one = (uint64_t)1 << 32;
	if (rw_in_slow_start(p)) {
		uint64_t factor_q32 = rw_nmcc_factor_q32(c, p);
		uint64_t left_q40 = rw_nmcc_slow_start(p, rw_multiply_divide(acked_q40, factor_q32, one));
		acked_q40 = rw_multiply_divide(left_q40, one, rw_max64(factor_q32, 1));
	}
	if (acked_q40)
		rw_grow_q40(p, rw_multiply_divide(rw_reno_step_q40(p->cwnd_q16), acked_q40, (uint64_t)1 << 40));
}

static void plus_loss(struct rw_connection *c, uint32_t path) { rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]); }

static void plus_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, 0);
}

const struct rw_control rw_control_enmcc_plus = {
    .name = "enmcc+",
    .source = "TCCC paper, section V.B",
    .formula = "slow start as nmcc, then each subflow I = 1/w, D = w/2",
    .deviations = "none; slow start as nmcc, then NewReno.",
    .multipath = 1,
    .options = plus_options,
    .words = plus_words,
    .begin = plus_begin,
    .ack = plus_ack,
    .loss = plus_loss,
};
