/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * H-TCP (Leith and Shorten, PFLDnet 2004; draft-leith-tcp-htcp): growth by the time since the last loss.
 *
 *   slow start            as NewReno
 *   congestion avoidance  w += acked 2 (1 - beta) f / w, with t the seconds since the last loss and s = t - delta_l:
 *                         f = 1 for s <= 0, else 1 + 10 s + (s / 2)^2
 *   loss, ECE, timeout    B = w / R; beta = 0.5 if B is a fifth away from the last one, else RTTmin/RTTmax within [0.5, 0.8];
 *                         ssthresh = beta w
 *
 * t begins with the first ACK after the loss, before a loss with the connection's first. beta is 0.5 at the first loss, with which
 * no B can be compared. RTTmin and RTTmax are the connection's.
 */
#include "fixed_point.h"
#include "options.h"

enum { DELTA_L = COMMON_OPTIONS, BACKOFF };
enum { BACKOFF_ADAPTIVE, BACKOFF_HALF };

enum {
	PATH_SINCE_NS, /* the last loss, and 1; 0: the next ACK begins it */
	PATH_NOW_NS,   /* of the last ACK */
	PATH_MIN_RTT_NS,
	PATH_MAX_RTT_NS,
	PATH_BETA_Q32,
	PATH_RATE_Q40, /* B at the last loss, segments each microsecond; 0: none */
	/* Before the last loss. */
	PATH_PRIOR_SINCE_NS,
	PATH_PRIOR_BETA_Q32,
	PATH_PRIOR_RATE_Q40,
};
_Static_assert(PATH_PRIOR_RATE_Q40 < RW_PATH_WORDS, "the state fits");

#define ONE_Q32 ((uint64_t)1 << 32)
#define HALF_Q32 ((uint64_t)1 << 31)
#define BETA_MAX_Q32 (ONE_Q32 * 4 / 5)
#define SECONDS_MAX_Q32 (ONE_Q32 << 10) /* beyond, each step is as large as any window */
#define SECOND_NS 1000000000ull

static const struct rw_option htcp_options[] = {
    RW_OPTION_MODE_SENDER,
    RW_OPTION_FLOOR_LINUX,
    {"delta_l", "0 to 3600", 1 << 16, "seconds after a loss for which it is NewReno; the draft's", RW_OPTION_Q16, 0,
     3600 << 16},
    {"backoff", "adaptive|half", 0, "adaptive: beta follows RTTmin/RTTmax, as the draft has it; half: beta is 0.5",
     RW_OPTION_CHOICE, 0, 0},
    {0}};

static const struct rw_word_name htcp_words[] = {{"beta", 1, PATH_BETA_Q32, 32, 0},
						 {"bandwidth", 1, PATH_RATE_Q40, 40, 0},
						 {"min_rtt_ns", 1, PATH_MIN_RTT_NS, 0, 0},
						 {"max_rtt_ns", 1, PATH_MAX_RTT_NS, 0, 0},
						 {0}};

static void htcp_begin(struct rw_connection *c, uint32_t path) { c->path[path].word[PATH_BETA_Q32] = HALF_Q32; }

static void htcp_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	p->word[PATH_NOW_NS] = (uint64_t)ack->time_ns;
	if (p->word[PATH_SINCE_NS] == 0)
		p->word[PATH_SINCE_NS] = (uint64_t)ack->time_ns + 1;
}

static void htcp_rtt(struct rw_connection *c, const struct rw_ack *ack)
{
	uint64_t *word = c->path[ack->path].word, rtt_ns = rw_sample_ns(ack);
	if (word[PATH_MIN_RTT_NS] == 0 || rtt_ns < word[PATH_MIN_RTT_NS])
		word[PATH_MIN_RTT_NS] = rtt_ns;
	word[PATH_MAX_RTT_NS] = rw_max64(word[PATH_MAX_RTT_NS], rtt_ns);
}

/* 2 (1 - beta) f(t), Q32. */
static uint64_t alpha_q32(const struct rw_connection *c, const struct rw_path *p)
{
	int64_t t_ns = (int64_t)(p->word[PATH_NOW_NS] - (p->word[PATH_SINCE_NS] - 1));
	uint64_t delta_l_q32 = (uint64_t)c->option[DELTA_L] << 16, growth_q32 = ONE_Q32;
	uint64_t t_q32 =
	    p->word[PATH_SINCE_NS] && t_ns > 0 ? rw_multiply_divide((uint64_t)t_ns, ONE_Q32, SECOND_NS) : 0;
	if (t_q32 > delta_l_q32) {
		uint64_t s_q32 = rw_min64(t_q32 - delta_l_q32, SECONDS_MAX_Q32);
		growth_q32 += 10 * s_q32 + rw_multiply_divide(s_q32, s_q32, 4 * ONE_Q32);
	}
	return rw_multiply_divide(growth_q32, ONE_Q32 - rw_min64(p->word[PATH_BETA_Q32], BETA_MAX_Q32), HALF_Q32);
}

static void htcp_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16 == 0)
		return;
	uint64_t step_q40 = rw_multiply_divide(rw_reno_step_q40(p->cwnd_q16), alpha_q32(c, p), ONE_Q32);
	rw_congestion_avoidance_q40(p, step_q40, acked_q16);
}

static uint64_t beta_q32(const struct rw_connection *c, const struct rw_path *p, uint64_t rate, uint64_t last)
{
	uint64_t apart = rate > last ? rate - last : last - rate, longest_ns = p->word[PATH_MAX_RTT_NS];
	if (c->option[BACKOFF] == BACKOFF_HALF || last == 0 || longest_ns == 0 || apart > last / 5)
		return HALF_Q32;
	uint64_t ratio_q32 = rw_multiply_divide(p->word[PATH_MIN_RTT_NS], ONE_Q32, longest_ns);
	return rw_max64(rw_min64(ratio_q32, BETA_MAX_Q32), HALF_Q32);
}

static void htcp_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	uint64_t last = p->word[PATH_RATE_Q40];
	/* The window is in Q16, the time in nanoseconds. */
	uint64_t rate = p->srtt_ns ? rw_multiply_divide(p->cwnd_q16, (uint64_t)1000 << 24, p->srtt_ns) : 0;
	p->word[PATH_PRIOR_SINCE_NS] = p->word[PATH_SINCE_NS];
	p->word[PATH_PRIOR_BETA_Q32] = p->word[PATH_BETA_Q32];
	p->word[PATH_PRIOR_RATE_Q40] = last;
	p->word[PATH_BETA_Q32] = beta_q32(c, p, rate, last);
	p->word[PATH_RATE_Q40] = rate;
	p->word[PATH_SINCE_NS] = 0;
	rw_set_ssthresh(p, rw_multiply_divide(p->cwnd_q16, p->word[PATH_BETA_Q32], ONE_Q32), c->option[MIN_SSTHRESH]);
}

static void htcp_undo(struct rw_connection *c, uint32_t path)
{
	uint64_t *word = c->path[path].word;
	word[PATH_SINCE_NS] = word[PATH_PRIOR_SINCE_NS];
	word[PATH_BETA_Q32] = word[PATH_PRIOR_BETA_Q32];
	word[PATH_RATE_Q40] = word[PATH_PRIOR_RATE_Q40];
}

const struct rw_control rw_control_htcp = {
    .name = "htcp",
    .source = "H-TCP: Leith and Shorten 2004, draft-leith-tcp-htcp",
    .formula = "I = 2 (1 - beta) f/w, f = 1 + 10 s + (s/2)^2 for s = t - 1 s > 0, else 1; D = (1 - beta) w",
    .deviations =
	"B is w/R when a loss is found, and beta 0.5 at the first loss. t begins with the first ACK after a loss, the "
	"smallest and largest RTT with the connection. Growth is not scaled by the RTT, which the draft leaves optional.",
    .multipath = 0,
    .options = htcp_options,
    .words = htcp_words,
    .begin = htcp_begin,
    .delivered = htcp_delivered,
    .rtt = htcp_rtt,
    .ack = htcp_ack,
    .loss = htcp_loss,
    .undo = htcp_undo,
};
