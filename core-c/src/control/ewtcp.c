/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * EWTCP: equally weighted TCP (Honda et al. 2009, in the form of TCCC's Table II).
 *
 *   congestion avoidance  w += acked a / w
 *   loss, ECE, timeout    ssthresh = w / 2
 *
 * The equilibrium is sqrt(2a/p), so that n subflows together are one TCP with a = 1/n^2; printed is 1/sqrt(n), which
 * makes them n^(3/4) TCPs (docs/paper-notes.md, T-18).
 */
#include "fixed_point.h"
#include "options.h"

enum { EWTCP_A = COMMON_OPTIONS, SSTHRESH };
enum { WORD_A_Q32 };

static const struct rw_option ewtcp_options[] = {
    RW_OPTION_MODE_PAPER,
    RW_OPTION_FLOOR_LINUX,
    {"ewtcp_a", "inv_n2|inv_sqrt", 0, "inv_n2 = 1/n^2: n subflows share as one TCP; inv_sqrt = 1/sqrt(n): as printed",
     RW_OPTION_CHOICE, 0, 0},
    RW_OPTION_SSTHRESH,
    {0}};

static const struct rw_word_name ewtcp_words[] = {{"a", 0, WORD_A_Q32, 32, 0}, {0}};

static uint64_t weight_q32(const struct rw_connection *c)
{
	/* 2^32 / sqrt(n) */
	static const uint64_t inverse_root_q32[RW_MAX_PATHS + 1] = {
	    0, 4294967296, 3037000500, 2479700525, 2147483648, 1920767767, 1753413056, 1623345051, 1518500250};
	uint32_t n = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		n += c->path[i].live;
	if (n < 2)
		return (uint64_t)1 << 32;
	return c->option[EWTCP_A] ? inverse_root_q32[rw_min64(n, RW_MAX_PATHS)] : ((uint64_t)1 << 32) / (n * n);
}

static void ewtcp_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16 == 0)
		return;
	c->word[WORD_A_Q32] = weight_q32(c);
	uint64_t step = rw_multiply_divide(rw_reno_step_q40(p->cwnd_q16), c->word[WORD_A_Q32], (uint64_t)1 << 32);
	rw_congestion_avoidance_q40(p, step, acked_q16);
}

static void ewtcp_loss(struct rw_connection *c, uint32_t path) { rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]); }

static void ewtcp_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, 0);
}

const struct rw_control rw_control_ewtcp = {
    .name = "ewtcp",
    .source = "Honda et al. 2009; TCCC paper, Table II",
    .formula = "I = a/w, a = 1/n^2, D = w/2",
    .deviations = "a = 1/n^2, with which n subflows are one TCP; 1/sqrt(n), as printed, makes them n^(3/4) TCPs "
		  "(ewtcp_a).",
    .multipath = 1,
    .options = ewtcp_options,
    .words = ewtcp_words,
    .begin = ewtcp_begin,
    .ack = ewtcp_ack,
    .loss = ewtcp_loss,
};
