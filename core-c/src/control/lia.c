/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * LIA: linked increases (RFC 6356).
 *
 *   slow start            w += acked
 *   congestion avoidance  w += acked min(alpha/W, 1/w), alpha = W max_k(w_k/R_k^2) / (sum w_k/R_k)^2
 *   loss, ECE, timeout    ssthresh = w / 2
 *
 * mode=kernel is the arithmetic of the out-of-tree Linux module: alpha in whole units of 2^-12 for
 * each segment, one segment more on the ACK that finds T of them counted, whatever an ACK covers.
 */
#include "lia.h"
#include "options.h"

enum { WORD_ALPHA_Q32, WORD_ALPHA_SCALED };
enum { PATH_THRESHOLD };

enum { SSTHRESH = COMMON_OPTIONS };

static const struct rw_option lia_options[] = {RW_OPTION_MODE_MODULE, RW_OPTION_FLOOR_LINUX, RW_OPTION_SSTHRESH, {0}};

static const struct rw_word_name lia_words[] = {{"alpha", 0, WORD_ALPHA_Q32, 32, 0},
						{"alpha_scaled", 0, WORD_ALPHA_SCALED, 0, 0},
						{"acks_threshold", 1, PATH_THRESHOLD, 0, 0},
						{0}};

/* floor(2^32 w_best / (sum floor(2^10 w_k R_best/R_k))^2), at least 1: 2^12 alpha/W. */
static uint64_t alpha_scaled(const struct rw_connection *c)
{
	const struct rw_path *best = 0;
	struct rw_sums t = rw_sum_paths(c);
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		if (rw_counts(p) && rw_quad_q27(p, t.rtt_min_ns) == t.best_q27)
			best = p;
	}
	if (!best)
		return 1;
	uint64_t sum = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		if (rw_counts(p))
			sum += rw_multiply_divide(p->cwnd_q16 >> 16 << 10, best->srtt_ns, p->srtt_ns);
	}
	if (sum == 0 || sum > UINT32_MAX)
		return 1;
	return rw_max64((best->cwnd_q16 >> 16 << 32) / (sum * sum), 1);
}

static void kernel_ack(struct rw_connection *c, struct rw_path *p, const struct rw_ack *ack)
{
	if (rw_in_slow_start(p)) {
		rw_slow_start(p, (uint64_t)ack->acked_segments << 16); /* the module drops what is left over */
		return;
	}
	c->word[WORD_ALPHA_SCALED] = alpha_scaled(c);
	uint64_t threshold = rw_max64(4096 / c->word[WORD_ALPHA_SCALED], p->cwnd_q16 >> 16);
	p->word[PATH_THRESHOLD] = threshold;
	if (p->cwnd_cnt < threshold) {
		p->cwnd_cnt++;
		return;
	}
	p->cwnd_cnt = 0;
	p->cwnd_q16 = rw_min64(p->cwnd_q16 + RW_Q16_ONE, RW_CWND_MAX_Q16);
}

static void lia_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (c->option[MODE] == RW_MODE_KERNEL) {
		kernel_ack(c, p, ack);
		return;
	}
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16 == 0)
		return;
	struct rw_sums t = rw_sum_paths(c);
	c->word[WORD_ALPHA_Q32] = t.paths ? rw_lia_alpha_q32(&t) : (uint64_t)1 << 32;
	rw_congestion_avoidance_q40(p, rw_lia_step_q40(&t, p), acked_q16);
}

static void lia_loss(struct rw_connection *c, uint32_t path)
{
	rw_halve(&c->path[path], c->option[MODE] == RW_MODE_KERNEL, c->option[MIN_SSTHRESH]);
}

static void lia_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, c->option[MODE] == RW_MODE_KERNEL);
}

const struct rw_control rw_control_lia = {
    .name = "lia",
    .source = "RFC 6356; Linux MPTCP mptcp_coupled",
    .formula = "I = min(max_k(w_k/R_k^2) / (sum w_k/R_k)^2, 1/w), D = w/2",
    .deviations = "alpha on every ACK, where RFC 6356 allows once a window. A subflow in recovery counts with its "
		  "ssthresh.",
    .multipath = 1,
    .options = lia_options,
    .words = lia_words,
    .begin = lia_begin,
    .ack = lia_ack,
    .loss = lia_loss,
};
