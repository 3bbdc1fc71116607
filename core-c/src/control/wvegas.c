/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * wVegas: weighted Vegas (Cao et al. 2012), in the form of the out-of-tree Linux module: integers.
 *
 *   Once a round trip, with base the smallest RTT and rtt the mean of the round's samples, diff = w (rtt - base) / rtt:
 *   slow start            diff > gamma: w = min(w, w base/rtt + 1) and out of it; else w += acked
 *   congestion avoidance  diff >= alpha: weight = (w/rtt) / sum of the subflows' rates, alpha = max(2, total_alpha weight)
 *                         diff > alpha: w -= 1, diff < alpha: w += 1
 *                         rtt - base at twice its minimum since the last time: w = w base / (2 rtt)
 *   loss, ECE, timeout    ssthresh = w / 2; NewReno until what was in flight is acknowledged
 */
#include "fixed_point.h"
#include "options.h"

enum { INITIAL_ALPHA = COMMON_OPTIONS, TOTAL_ALPHA, GAMMA };

enum {
	PATH_BASE_US,        /* 0: not known */
	PATH_ALPHA,
	PATH_WEIGHT_Q16,
	PATH_QUEUE_DELAY_US, /* 0: forgotten */
	PATH_RATE,           /* 2^16 segments each microsecond */
	PATH_SUM_US,
	PATH_SAMPLES,
	PATH_ROUND,          /* the sequence number that ends it, behind SEEN */
	PATH_NEXT,
	PATH_RENO_UNTIL,     /* the same */
};
#define SEEN ((uint64_t)1 << 32)
_Static_assert(PATH_RENO_UNTIL < RW_PATH_WORDS, "the state fits");

static const struct rw_option wvegas_options[] = {
    {"mode", "kernel|paper", RW_MODE_KERNEL,
     "kernel: PRR and Linux's own growth gate; paper: ssthresh is reached at once, growth "
     "while the recorded sender was not limited by application or receiver; the integers are the module's in both",
     RW_OPTION_CHOICE, 0, 0},
    RW_OPTION_FLOOR_LINUX,
    {"initial_alpha", "1 to 1024 segments", 2 << 16, "the module's; also the least", RW_OPTION_Q16, 1 << 16,
     1024 << 16},
    {"total_alpha", "1 to 1024 segments", 10 << 16, "the module's: queued by all subflows together", RW_OPTION_Q16,
     1 << 16, 1024 << 16},
    {"gamma", "0 to 1024 segments", 1 << 16, "the module's: queued when slow start ends", RW_OPTION_Q16, 0, 1024 << 16},
    {0}};

static const struct rw_word_name wvegas_words[] = {
    {"base_rtt_us", 1, PATH_BASE_US, 0, 0}, {"alpha", 1, PATH_ALPHA, 0, 0},
    {"weight", 1, PATH_WEIGHT_Q16, 16, 0},  {"queue_delay_us", 1, PATH_QUEUE_DELAY_US, 0, 0},
    {"instant_rate", 1, PATH_RATE, 0, 0},   {0}};

static uint64_t whole(uint64_t w_q16) { return rw_max64(w_q16 >> 16, 1); }

static void wvegas_begin(struct rw_connection *c, uint32_t path)
{
	c->path[path].word[PATH_ALPHA] = (uint64_t)c->option[INITIAL_ALPHA] >> 16;
	c->path[path].word[PATH_WEIGHT_Q16] = RW_Q16_ONE;
}

static void wvegas_rtt(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (ack->rtt_newest_ns == 0)
		return;
	uint64_t us = rw_min64(ack->rtt_newest_ns / 1000, UINT32_MAX - 1) + 1; /* never 0 */
	if (p->word[PATH_BASE_US] == 0 || us < p->word[PATH_BASE_US])
		p->word[PATH_BASE_US] = us;
	p->word[PATH_SUM_US] += us;
	p->word[PATH_SAMPLES]++;
}

static void wvegas_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	c->path[ack->path].word[PATH_NEXT] = SEEN | ack->next;
}

static void begin_round(struct rw_path *p, const struct rw_ack *ack)
{
	p->word[PATH_ROUND] = SEEN | ack->next;
	p->word[PATH_SUM_US] = p->word[PATH_SAMPLES] = 0;
}

static void reno(struct rw_path *p, const struct rw_ack *ack)
{
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16)
		rw_reno_avoidance(p, 1, acked_q16);
}

/* This subflow's share of the rates of all subflows with a sample in this round; 0: no rate is known. */
static uint64_t share_q16(const struct rw_connection *c, const struct rw_path *own)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (c->path[i].live && c->path[i].word[PATH_SAMPLES])
			total += c->path[i].word[PATH_RATE];
	return total ? rw_multiply_divide(own->word[PATH_RATE], RW_Q16_ONE, total) : 0;
}

static void avoid(struct rw_connection *c, struct rw_path *p, uint64_t w, uint64_t rtt_us, uint64_t diff)
{
	uint64_t least = (uint64_t)c->option[INITIAL_ALPHA] >> 16, base = p->word[PATH_BASE_US];
	uint64_t alpha = p->word[PATH_ALPHA];
	if (diff >= alpha) {
		p->word[PATH_RATE] = (w << 16) / rtt_us;
		uint64_t share = share_q16(c, p);
		if (p->word[PATH_RATE]) {
			p->word[PATH_WEIGHT_Q16] = share;
			alpha = rw_max64(least, share * ((uint64_t)c->option[TOTAL_ALPHA] >> 16) >> 16);
		}
	}
	p->word[PATH_ALPHA] = alpha;
	if (diff > alpha) {
		w -= w > 1;
		p->ssthresh_q16 = rw_min64(p->ssthresh_q16, w << 16);
	} else if (diff < alpha) {
		w++;
	}
	uint64_t queued = rtt_us - base;
	if (p->word[PATH_QUEUE_DELAY_US] == 0 || p->word[PATH_QUEUE_DELAY_US] > queued)
		p->word[PATH_QUEUE_DELAY_US] = queued;
	if (queued >= 2 * p->word[PATH_QUEUE_DELAY_US]) { /* no queue is twice no queue: the module drains then, too */
		w = rw_multiply_divide(w, base, 2 * rtt_us);
		p->word[PATH_QUEUE_DELAY_US] = 0;
	}
	p->cwnd_q16 = w << 16;
}

static void decide(struct rw_connection *c, struct rw_path *p, const struct rw_ack *ack)
{
	uint64_t w = whole(p->cwnd_q16), base = p->word[PATH_BASE_US];
	uint64_t rtt_us = rw_max64(p->word[PATH_SUM_US] / p->word[PATH_SAMPLES], base);
	uint64_t diff = rw_multiply_divide(w, rtt_us - base, rtt_us);
	if (!rw_in_slow_start(p)) {
		avoid(c, p, w, rtt_us, diff);
	} else if (diff > (uint64_t)c->option[GAMMA] >> 16) {
		p->cwnd_q16 = rw_min64(w, rw_multiply_divide(w, base, rtt_us) + 1) << 16;
		p->ssthresh_q16 = rw_min64(p->ssthresh_q16, p->cwnd_q16);
	} else {
		rw_after_slow_start(p, ack);
	}
	p->cwnd_q16 = rw_min64(rw_max64(p->cwnd_q16, 2 << 16), RW_CWND_MAX_Q16);
	if (p->ssthresh_q16 != RW_SSTHRESH_UNSET)
		p->ssthresh_q16 = rw_max64(p->ssthresh_q16, (p->cwnd_q16 >> 17 << 16) + (p->cwnd_q16 >> 18 << 16));
}

static void wvegas_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (p->word[PATH_RENO_UNTIL]) {
		if ((int32_t)(ack->una - (uint32_t)p->word[PATH_RENO_UNTIL]) < 0) {
			reno(p, ack);
			return;
		}
		p->word[PATH_RENO_UNTIL] = p->word[PATH_ROUND] = 0;
	}
	if (p->word[PATH_ROUND] == 0) {
		p->word[PATH_ROUND] = SEEN | ack->next;
		rw_after_slow_start(p, ack);
	} else if ((int32_t)(ack->una - (uint32_t)p->word[PATH_ROUND]) > 0) {
		if (p->word[PATH_SAMPLES] <= 2)
			reno(p, ack);
		else
			decide(c, p, ack);
		begin_round(p, ack);
	} else {
		rw_after_slow_start(p, ack);
	}
}

static void wvegas_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	p->word[PATH_RENO_UNTIL] = p->word[PATH_NEXT];
	p->word[PATH_SUM_US] = p->word[PATH_SAMPLES] = 0;
	rw_halve(p, 1, c->option[MIN_SSTHRESH]);
}

static void wvegas_timeout(struct rw_connection *c, uint32_t path)
{
	wvegas_loss(c, path);
	c->path[path].word[PATH_RATE] = 0;
}

/* Forgets the path's earlier measurements. */
static void wvegas_idle(struct rw_connection *c, uint32_t path, int64_t now_ns, uint64_t idle_ns)
{
	(void)now_ns;
	(void)idle_ns;
	c->path[path].word[PATH_BASE_US] = 0;
	c->path[path].word[PATH_ROUND] = 0;
	c->path[path].word[PATH_SUM_US] = c->path[path].word[PATH_SAMPLES] = 0;
}

const struct rw_control rw_control_wvegas = {
    .name = "wvegas",
    .source = "Cao et al. 2012; Linux MPTCP mptcp_wvegas",
    .formula = "once an RTT: w +- 1 as w (rtt - base)/rtt is below or above alpha = total_alpha rate / sum rate",
    .deviations = "The module's integers in both modes; the paper was not at hand. A path that was idle forgets its "
		  "smallest RTT. As in the module, no queue at all counts as twice its minimum and halves the window.",
    .multipath = 1,
    .options = wvegas_options,
    .words = wvegas_words,
    .begin = wvegas_begin,
    .delivered = wvegas_delivered,
    .rtt = wvegas_rtt,
    .idle = wvegas_idle,
    .ack = wvegas_ack,
    .loss = wvegas_loss,
    .timeout = wvegas_timeout,
};
