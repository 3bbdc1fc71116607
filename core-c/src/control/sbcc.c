/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * SB-CC: congestion control by shared bottlenecks (SB-CC paper III.A, Algorithm 2; docs/paper-notes.md, S). A detector places
 * subflows in sets; only those of a final set are coupled.
 *
 *   T     marked segments of a window of data over all of it; beta = T/8 + 7/8 beta at its end, 1 where a set begins
 *   in a final set         w += acked min(a/W, 1/w), a = beta_r W max_k(w_k/R_k^2) / (sum w_k/R_k)^2 over the set
 *   outside of one         w += acked / w
 *   loss, ECE, timeout     ssthresh = (1 - beta/2) w, beta = 1 outside of a set
 */
#include "lia.h"
#include "options.h"

enum { BETA_FLOOR = COMMON_OPTIONS, BETA_LOSS, BETA_INSIDE_MAX, SSTHRESH };
enum { PATH_BETA_Q32, PATH_A_Q32, PATH_DELIVERED, PATH_MARKED, PATH_ROUND };
#define SEEN ((uint64_t)1 << 32)
#define BETA_ONE_Q32 ((uint64_t)1 << 32)
enum { GAIN_BITS = 3 };

static const struct rw_option sbcc_options[] = {
    RW_OPTION_MODE_PAPER,
    RW_OPTION_FLOOR_LINUX,
    {"sbcc_beta_floor", "0 to 1", 0,
     "0: as printed, growth dies away without marks; 0.125 is advised where it is deployed (S-9)", RW_OPTION_Q16, 0,
     1 << 16},
    {"sbcc_loss", "literal|full", 0, "a lost packet: literal, w beta/2 as for a mark (S-12); full, w/2 (RFC 8257)",
     RW_OPTION_CHOICE, 0, 0},
    {"beta_inside_max", "off|on", 0,
     "off: eq. 5 as printed, a subflow's own beta outside of the maximum; on: each beta "
     "within it, as one factor for the whole set has it (S-10)",
     RW_OPTION_CHOICE, 0, 0},
    RW_OPTION_SSTHRESH,
    {0}};

static const struct rw_word_name sbcc_words[] = {
    {"beta", 1, PATH_BETA_Q32, 32, .of_set = 1}, {"a", 1, PATH_A_Q32, 32, 0}, {0}};

static uint64_t beta_q32(const struct rw_connection *c, const struct rw_path *p)
{
	return rw_max64(p->word[PATH_BETA_Q32], (uint64_t)c->option[BETA_FLOOR] << 16);
}

/* A set begins, or a subflow of one. */
static void sbcc_grouped(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	p->word[PATH_BETA_Q32] = BETA_ONE_Q32;
	p->word[PATH_DELIVERED] = p->word[PATH_MARKED] = p->word[PATH_ROUND] = 0;
}

static void sbcc_begin(struct rw_connection *c, uint32_t path)
{
	sbcc_grouped(c, path);
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, 0);
}

static void sbcc_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (!rw_final_group(p))
		return;
	p->word[PATH_DELIVERED] += ack->acked_segments;
	p->word[PATH_MARKED] += ack->marked_segments;
	if (p->word[PATH_ROUND] && (int32_t)(ack->una - (uint32_t)p->word[PATH_ROUND]) < 0)
		return;
	if (p->word[PATH_ROUND]) {
		uint64_t marked_q32 =
		    rw_multiply_divide(p->word[PATH_MARKED], BETA_ONE_Q32, rw_max64(p->word[PATH_DELIVERED], 1));
		uint64_t beta = p->word[PATH_BETA_Q32];
		p->word[PATH_BETA_Q32] = beta - (beta >> GAIN_BITS) + (rw_min64(marked_q32, BETA_ONE_Q32) >> GAIN_BITS);
		p->word[PATH_DELIVERED] = p->word[PATH_MARKED] = 0;
	}
	p->word[PATH_ROUND] = SEEN | ack->next;
}

/* max_k(w_k/R_k^2) beta_r, or max_k(beta_k w_k/R_k^2), over the set; Q27. */
static uint64_t best_q27(const struct rw_connection *c, const struct rw_path *own, const struct rw_sums *t)
{
	if (!c->option[BETA_INSIDE_MAX])
		return rw_multiply_divide(t->best_q27, beta_q32(c, own), BETA_ONE_Q32);
	uint64_t best = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		if (rw_counts_in(p, rw_final_group(own)))
			best = rw_max64(
			    best, rw_multiply_divide(rw_quad_q27(p, t->rtt_min_ns), beta_q32(c, p), BETA_ONE_Q32));
	}
	return best;
}

static void sbcc_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack), step = rw_reno_step_q40(p->cwnd_q16);
	if (acked_q16 == 0)
		return;
	p->word[PATH_A_Q32] = BETA_ONE_Q32;
	if (rw_final_group(p) && rw_counts(p)) {
		struct rw_sums t = rw_sum_group(c, rw_final_group(p));
		if (t.paths > 1) {
			t.best_q27 = best_q27(c, p, &t);
			p->word[PATH_A_Q32] = rw_lia_alpha_q32(&t);
			step = rw_lia_step_q40(&t, p);
		}
	}
	rw_congestion_avoidance_q40(p, step, acked_q16);
}

static void reduce(struct rw_connection *c, uint32_t path, int whole)
{
	struct rw_path *p = &c->path[path];
	uint64_t beta = rw_final_group(p) && !whole ? beta_q32(c, p) : BETA_ONE_Q32;
	rw_decrease(p, rw_multiply_divide(p->cwnd_q16, beta, 2 * BETA_ONE_Q32), c->option[MIN_SSTHRESH]);
}

static void sbcc_ece(struct rw_connection *c, uint32_t path) { reduce(c, path, 0); }
static void sbcc_loss(struct rw_connection *c, uint32_t path) { reduce(c, path, c->option[BETA_LOSS] != 0); }

const struct rw_control rw_control_sbcc = {
    .name = "sbcc",
    .source = "SB-CC paper, III.A, Algorithms 1-2",
    .formula =
	"in a final set: I = min(beta max_k(w_k/R_k^2) / (sum w_k/R_k)^2, 1/w), D = w beta/2; outside: I = 1/w, D = w/2",
    .deviations = "Subflows are coupled in a final set only, where Algorithm 1's input has two states and the text "
		  "three. beta is 1 outside of a set and where one begins, and is updated once a window of data. With "
		  "the ECN of RFC 3168 an echo is repeated until it is answered, so that T is near 1; AccECN counts "
		  "marks.",
    .multipath = 1,
    .detector = "sbcc",
    .options = sbcc_options,
    .words = sbcc_words,
    .begin = sbcc_begin,
    .grouped = sbcc_grouped,
    .delivered = sbcc_delivered,
    .ack = sbcc_ack,
    .loss = sbcc_loss,
    .ece = sbcc_ece,
};
