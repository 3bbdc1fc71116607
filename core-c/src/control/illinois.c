/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * TCP-Illinois (Liu, Basar, Srikant, VALUETOOLS 2006): losses say when to reduce the window, queueing delay by how much.
 *
 *   slow start            as NewReno
 *   once an RTT           d = mean RTT of the round - RTTmin, d_m = RTTmax - RTTmin
 *                         alpha = 10 if d <= d_m/100, else 297 d_m / (20 d_m + 970 d), which is 0.3 at d_m
 *                         beta = 1/8 if d <= d_m/10, 1/2 if d >= 8 d_m/10, a line between the two
 *                         alpha goes back to 10 only after theta rounds of d <= d_m/100
 *   congestion avoidance  w += acked alpha / w
 *   loss, ECE             ssthresh = (1 - beta) w
 *   timeout               ssthresh = w / 2; alpha = 1, beta = 1/2, until a whole round after the slow start has passed
 *   w < w_thresh          alpha = 1, beta = 1/2
 *
 * The paper's kappa are what makes alpha and beta continuous at the bounds; with its constants they are the numbers above.
 */
#include "fixed_point.h"
#include "options.h"

enum { THETA = COMMON_OPTIONS, W_THRESH };

enum {
	PATH_MIN_RTT_NS,
	PATH_MAX_RTT_NS,
	PATH_SUM_NS,
	PATH_SAMPLES,
	PATH_ROUND, /* the sequence number that ends it, behind SEEN; 0: the next ACK ends it */
	PATH_ALPHA_Q32,
	PATH_BETA_Q32,
	PATH_LOW_ROUNDS, /* in turn */
	PATH_HELD, /* alpha and beta, by a timeout */
	PATH_PRIOR_ALPHA_Q32, /* before the timeout that came last; 0: a loss has come since */
	PATH_PRIOR_BETA_Q32,
};
_Static_assert(PATH_PRIOR_BETA_Q32 < RW_PATH_WORDS, "the state fits");

#define SEEN ((uint64_t)1 << 32)
#define ONE_Q32 ((uint64_t)1 << 32)
#define ALPHA_MAX_Q32 (10 * ONE_Q32)
#define BETA_MIN_Q32 (ONE_Q32 / 8)
#define BETA_MAX_Q32 (ONE_Q32 / 2)
#define RTT_MAX_NS ((uint64_t)1 << 44) /* five hours; products with it fit */

static const struct rw_option illinois_options[] = {
    RW_OPTION_MODE_SENDER,
    RW_OPTION_FLOOR_LINUX,
    {"theta", "0 to 1024", 5 << 16, "the paper's: rounds of little delay before alpha is its largest again",
     RW_OPTION_Q16, 0, 1024 << 16},
    {"w_thresh", "1 to 1024 segments", 15 << 16, "the paper's: below this window it is NewReno", RW_OPTION_Q16, 1 << 16,
     1024 << 16},
    {0}};

static const struct rw_word_name illinois_words[] = {{"alpha", 1, PATH_ALPHA_Q32, 32, 0},
						     {"beta", 1, PATH_BETA_Q32, 32, 0},
						     {"min_rtt_ns", 1, PATH_MIN_RTT_NS, 0, 0},
						     {"max_rtt_ns", 1, PATH_MAX_RTT_NS, 0, 0},
						     {"low_rounds", 1, PATH_LOW_ROUNDS, 0, 0},
						     {"held", 1, PATH_HELD, 0, 0},
						     {0}};

static void illinois_begin(struct rw_connection *c, uint32_t path)
{
	c->path[path].word[PATH_ALPHA_Q32] = ONE_Q32;
	c->path[path].word[PATH_BETA_Q32] = BETA_MAX_Q32;
}

static void illinois_rtt(struct rw_connection *c, const struct rw_ack *ack)
{
	uint64_t *word = c->path[ack->path].word, rtt_ns = rw_min64(rw_sample_ns(ack), RTT_MAX_NS);
	if (word[PATH_MIN_RTT_NS] == 0 || rtt_ns < word[PATH_MIN_RTT_NS])
		word[PATH_MIN_RTT_NS] = rtt_ns;
	word[PATH_MAX_RTT_NS] = rw_max64(word[PATH_MAX_RTT_NS], rtt_ns);
	word[PATH_SUM_NS] += rtt_ns;
	word[PATH_SAMPLES]++;
}

/* By the queueing delay d of a round; most: the largest there was. */
static void weigh(const struct rw_connection *c, uint64_t *word, uint64_t d, uint64_t most)
{
	if (100 * d > most) {
		word[PATH_LOW_ROUNDS] = 0;
		word[PATH_ALPHA_Q32] = rw_multiply_divide(297 * most, ONE_Q32, 20 * most + 970 * d);
	} else {
		word[PATH_LOW_ROUNDS] = rw_min64(word[PATH_LOW_ROUNDS] + 1, 1024);
		if (word[PATH_LOW_ROUNDS] << 16 >= (uint64_t)c->option[THETA])
			word[PATH_ALPHA_Q32] = ALPHA_MAX_Q32;
	}
	if (10 * d <= most)
		word[PATH_BETA_Q32] = BETA_MIN_Q32;
	else if (10 * d < 8 * most)
		word[PATH_BETA_Q32] = BETA_MIN_Q32 + rw_multiply_divide(3 * (10 * d - most), ONE_Q32, 56 * most);
	else
		word[PATH_BETA_Q32] = BETA_MAX_Q32;
}

/* Rounds end before the ACK's own sample counts, which is of the next round. */
static void illinois_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t *word = p->word;
	if (word[PATH_ROUND] && (int32_t)(ack->una - (uint32_t)word[PATH_ROUND]) <= 0)
		return;
	if (word[PATH_HELD]) {
		word[PATH_HELD] = (uint64_t)rw_in_slow_start(p);
	} else if (word[PATH_SAMPLES]) {
		uint64_t mean_ns = word[PATH_SUM_NS] / word[PATH_SAMPLES], least_ns = word[PATH_MIN_RTT_NS];
		weigh(c, word, rw_max64(mean_ns, least_ns) - least_ns, word[PATH_MAX_RTT_NS] - least_ns);
	}
	word[PATH_ROUND] = SEEN | ack->next;
	word[PATH_SUM_NS] = word[PATH_SAMPLES] = 0;
}

static int is_small(const struct rw_connection *c, const struct rw_path *p)
{
	return p->cwnd_q16 < (uint64_t)c->option[W_THRESH];
}

static void illinois_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16 == 0)
		return;
	uint64_t step_q40 = rw_reno_step_q40(p->cwnd_q16);
	if (!is_small(c, p))
		step_q40 = rw_multiply_divide(step_q40, p->word[PATH_ALPHA_Q32], ONE_Q32);
	rw_congestion_avoidance_q40(p, step_q40, acked_q16);
}

static void illinois_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	uint64_t beta_q32 = is_small(c, p) ? BETA_MAX_Q32 : p->word[PATH_BETA_Q32];
	p->word[PATH_PRIOR_ALPHA_Q32] = 0;
	rw_decrease(p, rw_multiply_divide(p->cwnd_q16, beta_q32, ONE_Q32), c->option[MIN_SSTHRESH]);
}

static void illinois_timeout(struct rw_connection *c, uint32_t path)
{
	uint64_t *word = c->path[path].word;
	word[PATH_PRIOR_ALPHA_Q32] = word[PATH_ALPHA_Q32];
	word[PATH_PRIOR_BETA_Q32] = word[PATH_BETA_Q32];
	word[PATH_ALPHA_Q32] = ONE_Q32;
	word[PATH_BETA_Q32] = BETA_MAX_Q32;
	word[PATH_HELD] = 1;
	rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]);
}

/* Of a timeout: of a loss nothing else changed. */
static void illinois_undo(struct rw_connection *c, uint32_t path)
{
	uint64_t *word = c->path[path].word;
	if (word[PATH_PRIOR_ALPHA_Q32] == 0)
		return;
	word[PATH_ALPHA_Q32] = word[PATH_PRIOR_ALPHA_Q32];
	word[PATH_BETA_Q32] = word[PATH_PRIOR_BETA_Q32];
	word[PATH_HELD] = 0;
}

const struct rw_control rw_control_illinois = {
    .name = "illinois",
    .source = "TCP-Illinois: Liu, Basar, Srikant 2006",
    .formula =
	"I = alpha/w, D = beta w; once an RTT alpha in [0.3, 10] and beta in [1/8, 1/2] by its mean queueing delay",
    .deviations =
	"The window keeps fractions also with mode=kernel. Before the first round alpha is 1 and beta 1/2. An undone "
	"timeout holds alpha and beta no longer, also where an earlier one did.",
    .multipath = 0,
    .options = illinois_options,
    .words = illinois_words,
    .begin = illinois_begin,
    .delivered = illinois_delivered,
    .rtt = illinois_rtt,
    .ack = illinois_ack,
    .loss = illinois_loss,
    .timeout = illinois_timeout,
    .undo = illinois_undo,
};
