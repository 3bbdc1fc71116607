/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Westwood+ (Mascolo et al., MobiCom 2001; Grieco and Mascolo, CCR 34(2), 2004): a loss leaves what the path was seen to deliver.
 *
 *   slow start, avoidance  as NewReno
 *   once an RTT            b = segments delivered / time, B = a B + (1 - a) b, a = 0.9
 *   loss, ECE, timeout     ssthresh = B RTTmin
 *
 * The papers leave open: the first B, which is the first b; a B RTTmin above the window, which is the window then; a loss before
 * there is a b, which halves. An RTT is the smoothed one.
 */
#include "fixed_point.h"
#include "options.h"

enum { FILTER = COMMON_OPTIONS };

enum {
	PATH_RATE_Q40,   /* B, segments each microsecond; 0: not known */
	PATH_MIN_RTT_NS, /* 0: not known */
	PATH_SEGMENTS,   /* delivered since */
	PATH_SINCE_NS,   /* and 1; 0: no ACK came */
};
#define RATE_MAX_Q40 ((uint64_t)1 << 60)

static const struct rw_option westwood_options[] = {RW_OPTION_MODE_INTEGER,
						    RW_OPTION_FLOOR_LINUX,
						    {"filter", "0 to 1", RW_Q16(9, 10),
						     "Grieco and Mascolo 2004: the weight of the estimate so far",
						     RW_OPTION_Q16, 0, 1 << 16},
						    {0}};

static const struct rw_word_name westwood_words[] = {{"bandwidth", 1, PATH_RATE_Q40, 40, 0},
						     {"min_rtt_ns", 1, PATH_MIN_RTT_NS, 0, 0},
						     {"segments", 1, PATH_SEGMENTS, 0, 0},
						     {0}};

static int is_whole(const struct rw_connection *c) { return c->option[MODE] == RW_MODE_KERNEL; }

static void westwood_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	int64_t since_ns = ack->time_ns - (int64_t)(p->word[PATH_SINCE_NS] - 1);
	p->word[PATH_SEGMENTS] += ack->acked_segments;
	if (p->word[PATH_SINCE_NS] && since_ns >= 0) {
		if (p->srtt_ns == 0 || (uint64_t)since_ns < p->srtt_ns)
			return;
		uint64_t old = p->word[PATH_RATE_Q40], weight_q16 = (uint64_t)c->option[FILTER];
		uint64_t rate =
		    rw_multiply_divide(p->word[PATH_SEGMENTS] * 1000, (uint64_t)1 << 40, (uint64_t)since_ns);
		rate = rw_min64(rate, RATE_MAX_Q40);
		if (old)
			rate = rw_multiply_divide(old, weight_q16, RW_Q16_ONE) +
			       rw_multiply_divide(rate, RW_Q16_ONE - weight_q16, RW_Q16_ONE);
		p->word[PATH_RATE_Q40] = rate;
	}
	p->word[PATH_SINCE_NS] = (uint64_t)ack->time_ns + 1;
	p->word[PATH_SEGMENTS] = 0;
}

static void westwood_rtt(struct rw_connection *c, const struct rw_ack *ack)
{
	uint64_t *least = &c->path[ack->path].word[PATH_MIN_RTT_NS], rtt_ns = rw_sample_ns(ack);
	if (*least == 0 || rtt_ns < *least)
		*least = rtt_ns;
}

static void westwood_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16)
		rw_reno_avoidance(p, is_whole(c), acked_q16);
}

static void westwood_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	uint64_t rate = p->word[PATH_RATE_Q40], least_ns = p->word[PATH_MIN_RTT_NS];
	if (rate == 0 || least_ns == 0) {
		rw_halve(p, is_whole(c), c->option[MIN_SSTHRESH]);
		return;
	}
	uint64_t left_q16 = rw_min64(rw_multiply_divide(rate, least_ns, (uint64_t)1000 << 24), p->cwnd_q16);
	rw_set_ssthresh(p, is_whole(c) ? left_q16 >> 16 << 16 : left_q16, c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_westwood = {
    .name = "westwood",
    .source = "Westwood+: Mascolo et al. 2001, Grieco and Mascolo 2004",
    .formula = "I = 1/w; a loss leaves B RTTmin; once an RTT B = 0.9 B + 0.1 delivered/time",
    .deviations =
	"Open in print: the first B is the first sample, a loss before it halves, and a loss never raises the window to B "
	"RTTmin.",
    .multipath = 0,
    .options = westwood_options,
    .words = westwood_words,
    .delivered = westwood_delivered,
    .rtt = westwood_rtt,
    .ack = westwood_ack,
    .loss = westwood_loss,
};
