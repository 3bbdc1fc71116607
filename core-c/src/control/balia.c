/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * BALIA: balanced linked adaptation (Peng et al. 2016, draft-walid-mptcp-congestion-control).
 *
 *   alpha_r = max_k x_k / x_r, x = w/R
 *   slow start            w += acked
 *   congestion avoidance  w += acked (x/R) / (sum x_k)^2 (1 + alpha)/2 (4 + alpha)/5
 *   loss, ECE             ssthresh = w - (w/2) min(alpha, 1.5)
 *   timeout               ssthresh = w / 2; mode=kernel: as a loss
 *
 * The step equals (x + m)(4x + m) / (10 w (sum x_k)^2) with m = max_k x_k, which no ratio of rates overflows.
 * mode=kernel is the arithmetic of the out-of-tree Linux module: a step and a decrease in whole
 * segments, worked out anew only in slow start, when the window has moved and after a reduction.
 */
#include "fixed_point.h"
#include "options.h"

enum { PATH_AI, PATH_MD, PATH_STALE, PATH_ALPHA_Q32 };

enum { SSTHRESH = COMMON_OPTIONS };

static const struct rw_option balia_options[] = {
    RW_OPTION_MODE_MODULE, RW_OPTION_FLOOR(1, "the Linux module's floor; 2 is RFC 5681's"), RW_OPTION_SSTHRESH, {0}};

static const struct rw_word_name balia_words[] = {
    {"alpha", 1, PATH_ALPHA_Q32, 32, 0}, {"ai_acks", 1, PATH_AI, 0, 0}, {"md", 1, PATH_MD, 0, 0}, {0}};

static uint64_t largest_rate_q27(const struct rw_connection *c, uint64_t rtt_min_ns)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (rw_counts(&c->path[i]))
			most = rw_max64(most, rw_rate_q27(&c->path[i], rtt_min_ns));
	return most;
}

static uint64_t step_q40(struct rw_connection *c, struct rw_path *p)
{
	uint64_t reno = rw_reno_step_q40(p->cwnd_q16);
	struct rw_sums t = rw_sum_paths(c);
	p->word[PATH_ALPHA_Q32] = (uint64_t)1 << 32;
	if (t.paths < 2 || !rw_counts(p))
		return reno;
	uint64_t x = rw_rate_q27(p, t.rtt_min_ns), m = largest_rate_q27(c, t.rtt_min_ns);
	p->word[PATH_ALPHA_Q32] = rw_multiply_divide(m, (uint64_t)1 << 32, rw_max64(x, 1));
	uint64_t u_q28 = rw_multiply_divide(x + m, 1 << 28, t.s_q27),
		 v_q28 = rw_multiply_divide(4 * x + m, 1 << 28, t.s_q27);
	return u_q28 * v_q28 / 10 / rw_max64(rw_window_q16(p), RW_Q16_ONE);
}

/* Bytes a second. */
static uint64_t module_rate(const struct rw_connection *c, const struct rw_path *p)
{
	uint64_t us = rw_max64(p->srtt_ns / 1000, 1), mss = c->mss_bytes ? c->mss_bytes : 1460;
	return rw_multiply_divide(mss * (p->cwnd_q16 >> 16), 1000000, us);
}

enum { MODULE_RATE_MOST = 1 << 25, MODULE_RATE_SHIFT = 5, MODULE_RATE_SHIFTS = 7 };

static void module_recalculate(const struct rw_connection *c, struct rw_path *p)
{
	uint64_t w = rw_max64(p->cwnd_q16 >> 16, 1), most = 0, sum = 0, own = module_rate(c, p);
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (rw_counts(&c->path[i])) {
			uint64_t rate = module_rate(c, &c->path[i]);
			sum += rate;
			most = rw_max64(most, rate);
		}
	p->word[PATH_STALE] = 0;
	p->word[PATH_AI] = w;
	p->word[PATH_MD] = w >> 1;
	if (!rw_counts(p))
		return;
	uint64_t alpha = most / rw_max64(own, 1);
	for (int i = 0; i < MODULE_RATE_SHIFTS; i++)
		if (most > MODULE_RATE_MOST) {
			most >>= MODULE_RATE_SHIFT;
			sum >>= MODULE_RATE_SHIFT;
			own >>= MODULE_RATE_SHIFT;
		}
	/* A rate far below the others' may be 0 by now. */
	p->word[PATH_AI] = rw_multiply_divide(10 * w, sum * sum, rw_max64((own + most) * (4 * own + most), 1));
	if (alpha >= 2) /* whole numbers: below 2 it counts as 1, from 2 on the cap of 1.5 binds */
		p->word[PATH_MD] = (w >> 1) + (w >> 2);
}

static void module_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (rw_in_slow_start(p)) {
		rw_slow_start(p, (uint64_t)ack->acked_segments << 16); /* the module drops what is left over */
		module_recalculate(c, p);
		return;
	}
	if (p->word[PATH_STALE] || p->word[PATH_AI] == 0)
		module_recalculate(c, p);
	if (p->cwnd_cnt < p->word[PATH_AI]) {
		p->cwnd_cnt++;
		return;
	}
	p->cwnd_cnt = 0;
	p->cwnd_q16 = rw_min64(p->cwnd_q16 + RW_Q16_ONE, RW_CWND_MAX_Q16);
	module_recalculate(c, p);
}

static void balia_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (c->option[MODE] == RW_MODE_KERNEL) {
		module_ack(c, ack);
		return;
	}
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16)
		rw_congestion_avoidance_q40(p, step_q40(c, p), acked_q16);
}

/* (w/2) min(alpha, 1.5), with the window that was lost from. */
static uint64_t decrease_q16(const struct rw_connection *c, const struct rw_path *p)
{
	struct rw_sums t = rw_sum_paths(c);
	if (t.paths < 2 || !rw_counts(p))
		return p->cwnd_q16 >> 1;
	uint64_t x = rw_rate_q27(p, t.rtt_min_ns), m = largest_rate_q27(c, t.rtt_min_ns);
	uint64_t most = (p->cwnd_q16 >> 1) + (p->cwnd_q16 >> 2);
	return x == 0 ? most : rw_min64(rw_multiply_divide(p->cwnd_q16, m, 2 * x), most);
}

static void balia_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	if (c->option[MODE] == RW_MODE_KERNEL) {
		if (p->word[PATH_STALE] || p->word[PATH_AI] == 0)
			module_recalculate(c, p);
		uint64_t w = p->cwnd_q16 >> 16;
		p->word[PATH_STALE] = 1;
		rw_set_ssthresh(p, (w > p->word[PATH_MD] ? w - p->word[PATH_MD] : 0) << 16, c->option[MIN_SSTHRESH]);
		return;
	}
	rw_decrease(p, decrease_q16(c, p), c->option[MIN_SSTHRESH]);
}

/* The kernel asks the module for ssthresh on a timeout, too. */
static void balia_timeout(struct rw_connection *c, uint32_t path)
{
	if (c->option[MODE] == RW_MODE_KERNEL)
		balia_loss(c, path);
	else
		rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]);
}

static void balia_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, c->option[MODE] == RW_MODE_KERNEL);
}

const struct rw_control rw_control_balia = {
    .name = "balia",
    .source = "Peng et al. 2016, draft-walid-mptcp-congestion-control; Linux MPTCP mptcp_balia",
    .formula = "I = (x/R) / (sum x_k)^2 (1 + alpha)/2 (4 + alpha)/5, D = w/2 min(alpha, 1.5), alpha = max x_k / x",
    .deviations = "A timeout halves, whatever alpha is. mode=kernel keeps the module's whole-number alpha, below 2 it "
		  "counts as 1.",
    .multipath = 1,
    .options = balia_options,
    .words = balia_words,
    .begin = balia_begin,
    .ack = balia_ack,
    .loss = balia_loss,
    .timeout = balia_timeout,
};
