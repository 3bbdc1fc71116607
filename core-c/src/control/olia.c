/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * OLIA: opportunistic linked increases (Khalili et al. 2013, draft-khalili-mptcp-congestion-control); olia.h has the rule.
 *
 *   slow start            w += acked
 *   loss, ECE, timeout    ssthresh = w / 2
 *
 * mode=kernel is the arithmetic of the out-of-tree Linux module: one step in units of 2^-10 for each
 * ACK, whatever it covers; when they make a segment the window moves by one, and the rest is dropped.
 */
#include "olia.h"
#include "options.h"

enum { BEST = COMMON_OPTIONS, SSTHRESH };

static const struct rw_option olia_options[] = {
    RW_OPTION_MODE_MODULE, RW_OPTION_FLOOR_LINUX, RW_OPTION_OLIA_BEST, RW_OPTION_SSTHRESH, {0}};

static const struct rw_word_name olia_words[] = {RW_OLIA_PATH_WORDS, {0}};

enum { MODULE_SCALE = 10, MODULE_FULL = 1023, MODULE_SUM_BITS = 28 };

/* The module counts only the others in recovery with their ssthresh. */
static uint64_t module_window(const struct rw_path *p, const struct rw_path *own)
{
	return (p == own ? p->cwnd_q16 : rw_window_q16(p)) >> 16;
}

/* 1 + sum floor(2^10 w_k R_r/R_k); the path has a round trip. */
RW_CALL uint64_t module_sum(const struct rw_connection *c RW_NEVER_NULL, uint32_t path)
{
	const struct rw_path *own = &c->path[path % RW_MAX_PATHS];
	uint64_t sum = 1;
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *k = &c->path[i];
		if (rw_counts(k))
			sum += rw_min64(
			    rw_multiply_divide(module_window(k, own) << MODULE_SCALE, own->srtt_ns, k->srtt_ns),
			    (uint64_t)1 << 60);
	}
	return sum;
}

/*
 * 2^10 (e S + d W) / (d w S), towards zero, with alpha = e/d, S = (1 + sum floor(2^10 w_k R_r/R_k))^2, W = (2^10 w)^2.
 * Where the squares would not fit, both roots lose the same number of bits.
 */
static int32_t module_step(const struct rw_connection *c, uint32_t path)
{
	const struct rw_path *p = &c->path[path];
	uint64_t w = rw_max64(p->cwnd_q16 >> 16, 1), own = w << MODULE_SCALE;
	if (!rw_counts(p))
		return (int32_t)((1 << MODULE_SCALE) / w);
	uint64_t sum = module_sum(c, path);
	int bits = 64 - rw_leading_zeros(sum), excess = bits > MODULE_SUM_BITS ? bits - MODULE_SUM_BITS : 0;
	sum >>= excess;
	own >>= excess;
	int32_t inverse = rw_olia_inverse_alpha(c, path, RW_ALL_GROUPS, c->option[BEST], 1);
	uint64_t s = sum * sum, d = inverse < 0 ? (uint64_t)-inverse : inverse ? (uint64_t)inverse : 1;
	uint64_t linked = d * own * own, shift = inverse ? s : 0;
	int down = inverse < 0 && linked < shift;
	uint64_t size = inverse >= 0 ? linked + shift : down ? shift - linked : linked - shift;
	uint64_t step = rw_multiply_divide(size, 1 << MODULE_SCALE, d * s) / w;
	return down ? -(int32_t)step : (int32_t)step;
}

static void module_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (rw_in_slow_start(p)) {
		rw_slow_start(p, (uint64_t)ack->acked_segments << 16); /* the module drops what is left over */
		return;
	}
	int32_t count = (int32_t)p->cwnd_cnt + module_step(c, ack->path);
	if (count >= MODULE_FULL) {
		p->cwnd_q16 = rw_min64(p->cwnd_q16 + RW_Q16_ONE, RW_CWND_MAX_Q16);
		count = 0;
	} else if (count <= -MODULE_FULL) {
		p->cwnd_q16 = rw_max64(p->cwnd_q16 - RW_Q16_ONE, RW_Q16_ONE);
		count = 0;
	}
	p->cwnd_cnt = (uint32_t)count;
}

static void olia_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	if (c->option[MODE] == RW_MODE_KERNEL) {
		module_ack(c, ack);
		return;
	}
	uint64_t acked_q16 = rw_after_slow_start(&c->path[ack->path], ack);
	if (acked_q16)
		rw_olia_avoid(c, ack->path, RW_ALL_GROUPS, c->option[BEST], acked_q16);
}

static void olia_loss(struct rw_connection *c, uint32_t path)
{
	rw_olia_lost(&c->path[path]);
	rw_halve(&c->path[path], c->option[MODE] == RW_MODE_KERNEL, c->option[MIN_SSTHRESH]);
}

static void olia_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, c->option[MODE] == RW_MODE_KERNEL);
}

const struct rw_control rw_control_olia = {
    .name = "olia",
    .source = "Khalili et al. 2013, draft-khalili-mptcp-congestion-control; Linux MPTCP mptcp_olia",
    .formula = "I = (w/R^2) / (sum w_k/R_k)^2 + alpha/w, D = w/2",
    .deviations = "The best paths are those of the largest l/R^2, as in the authors' module; the draft prints l^2/R "
		  "(best). A loss that delivered nothing since the one before is the same interval.",
    .multipath = 1,
    .options = olia_options,
    .words = olia_words,
    .begin = olia_begin,
    .delivered = rw_olia_delivered,
    .ack = olia_ack,
    .loss = olia_loss,
};
