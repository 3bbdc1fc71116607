/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * TCP Vegas (Brakmo and Peterson, JSAC 13(8), 1995): the segments that wait in queues stay between two bounds.
 *
 *   once an RTT           diff = w (R - base) / R, with base the smallest RTT and R that of the segment that ends the round
 *   slow start            w += acked in every other round; diff > gamma: ssthresh = w
 *   congestion avoidance  diff < alpha: w += 1; diff > beta: w -= 1
 *   loss, ECE, timeout    ssthresh = w / 2
 *
 * diff is Expected - Actual of the paper, times base. How a loss is found, for which the paper has rules of its own, is the sender's
 * business.
 */
#include "fixed_point.h"
#include "options.h"

enum { ALPHA = COMMON_OPTIONS, BETA, GAMMA };

enum {
	PATH_BASE_NS,
	PATH_RTT_NS, /* the newest sample */
	PATH_ROUND,  /* the sequence number that ends it, behind SEEN; 0: there is none yet */
	PATH_PAUSED, /* slow start does not grow in this round */
};
#define SEEN ((uint64_t)1 << 32)

static const struct rw_option vegas_options[] = {
    RW_OPTION_MODE_SENDER,
    RW_OPTION_FLOOR_LINUX,
    {"alpha", "0 to 1024 segments", 2 << 16, "grows below; the paper has 1 and 3, and 2 and 4", RW_OPTION_Q16, 0,
     1024 << 16},
    {"beta", "0 to 1024 segments", 4 << 16, "shrinks above; goes with alpha", RW_OPTION_Q16, 0, 1024 << 16},
    {"gamma", "0 to 1024 segments", 1 << 16, "the paper's: above it slow start ends", RW_OPTION_Q16, 0, 1024 << 16},
    {0}};

static const struct rw_word_name vegas_words[] = {
    {"base_rtt_ns", 1, PATH_BASE_NS, 0, 0}, {"rtt_ns", 1, PATH_RTT_NS, 0, 0}, {"paused", 1, PATH_PAUSED, 0, 0}, {0}};

static void vegas_rtt(struct rw_connection *c, const struct rw_ack *ack)
{
	uint64_t *word = c->path[ack->path].word;
	word[PATH_RTT_NS] = rw_sample_ns(ack);
	if (word[PATH_BASE_NS] == 0 || word[PATH_RTT_NS] < word[PATH_BASE_NS])
		word[PATH_BASE_NS] = word[PATH_RTT_NS];
}

/* A round has ended, and an RTT is known. */
static void decide(const struct rw_connection *c, struct rw_path *p)
{
	uint64_t rtt_ns = p->word[PATH_RTT_NS];
	uint64_t diff_q16 = rw_multiply_divide(p->cwnd_q16, rtt_ns - p->word[PATH_BASE_NS], rtt_ns);
	if (rw_in_slow_start(p)) {
		p->word[PATH_PAUSED] = !p->word[PATH_PAUSED];
		if (diff_q16 > (uint64_t)c->option[GAMMA])
			rw_set_ssthresh(p, p->cwnd_q16, RW_Q16_ONE);
	} else if (diff_q16 < (uint64_t)c->option[ALPHA]) {
		p->cwnd_q16 = rw_min64(p->cwnd_q16 + RW_Q16_ONE, RW_CWND_MAX_Q16);
	} else if (diff_q16 > (uint64_t)c->option[BETA]) {
		p->cwnd_q16 = rw_max64(p->cwnd_q16 - RW_Q16_ONE, 2 * RW_Q16_ONE);
		p->ssthresh_q16 = rw_min64(p->ssthresh_q16, p->cwnd_q16);
	}
}

static void vegas_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	int ends = p->word[PATH_ROUND] && (int32_t)(ack->una - (uint32_t)p->word[PATH_ROUND]) > 0;
	if (ends && p->word[PATH_RTT_NS])
		decide(c, p);
	if (ends || p->word[PATH_ROUND] == 0)
		p->word[PATH_ROUND] = SEEN | ack->next;
	if (rw_in_slow_start(p) && !p->word[PATH_PAUSED])
		rw_after_slow_start(p, ack);
}

static void vegas_loss(struct rw_connection *c, uint32_t path) { rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]); }

const struct rw_control rw_control_vegas = {
    .name = "vegas",
    .source = "TCP Vegas: Brakmo and Peterson 1995",
    .formula =
	"once an RTT: w += 1 as diff = w (R - base)/R < alpha, w -= 1 as diff > beta; slow start ends with diff > gamma",
    .deviations =
	"Losses are found and answered as by Linux's sender, not by the paper's timers. The segment whose RTT counts is the "
	"newest that the ACK at a round's end covers. alpha and beta are 2 and 4, the second pair of the paper.",
    .multipath = 0,
    .options = vegas_options,
    .words = vegas_words,
    .rtt = vegas_rtt,
    .ack = vegas_ack,
    .loss = vegas_loss,
};
