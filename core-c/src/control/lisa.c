/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * LISA: linked slow start (Barik et al. 2016, draft-barik-mptcp-lisa, whose texts were not at hand: the rule follows what
 * the CSS and TCCC papers say of it), then LIA.
 *
 *   join in the initial slow start   of the subflows in it, the one of the highest rate gives: a window of 20 or more
 *                                    gives 10 segments, a smaller one max(3, w/2); the new subflow starts with them,
 *                                    the donor goes on without them (not below 1) and without growing on as many ACKed
 *   slow start                       w += acked
 *   congestion avoidance             w += acked min(max_k(w_k/R_k^2) / (sum w_k/R_k)^2, 1/w)
 *   loss, ECE, timeout               ssthresh = w / 2
 */
#include "lia.h"
#include "options.h"

enum { WORD_ALPHA_Q32 };
enum { PATH_IGNORE_SEGMENTS };

enum { SSTHRESH = COMMON_OPTIONS };

static const struct rw_option lisa_options[] = {RW_OPTION_MODE_PAPER, RW_OPTION_FLOOR_LINUX, RW_OPTION_SSTHRESH, {0}};

static const struct rw_word_name lisa_words[] = {
    {"alpha", 0, WORD_ALPHA_Q32, 32, 0}, {"ignore_acks", 1, PATH_IGNORE_SEGMENTS, 0, 0}, {0}};

enum { LEAST_WINDOW = 3, FULL_DONOR = 20 };

/* a's rate above b's; one without a round trip has none yet. */
static int faster(const struct rw_path *a, const struct rw_path *b)
{
	if (a->srtt_ns == 0 || b->srtt_ns == 0)
		return a->srtt_ns != 0;
	struct rw_u128 x = rw_multiply_wide(a->cwnd_q16, b->srtt_ns), y = rw_multiply_wide(b->cwnd_q16, a->srtt_ns);
	return x.high != y.high ? x.high > y.high : x.low > y.low;
}

static uint64_t first_ssthresh_q16(const struct rw_connection *c)
{
	return rw_first_ssthresh_q16(c, c->option[SSTHRESH] != 0, 0);
}

static void lisa_begin(struct rw_connection *c, uint32_t path)
{
	if (c->path[path].initial)
		c->path[path].ssthresh_q16 = first_ssthresh_q16(c);
}

/* Below the threshold that it began with: no loss has set another. */
static int in_first_slow_start(const struct rw_connection *c, const struct rw_path *p)
{
	return p->ssthresh_q16 == first_ssthresh_q16(c) && rw_in_slow_start(p);
}

static void lisa_join(struct rw_connection *c, uint32_t path)
{
	struct rw_path *donor = 0, *p = &c->path[path];
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		struct rw_path *k = &c->path[i];
		if (i != path && k->live && in_first_slow_start(c, k) && (!donor || faster(k, donor)))
			donor = k;
	}
	if (!donor || !in_first_slow_start(c, p))
		return;
	uint64_t w = donor->cwnd_q16 >> 16, gift = RW_INITIAL_WINDOW;
	if (w < FULL_DONOR)
		gift = rw_max64(LEAST_WINDOW, w / 2);
	p->cwnd_q16 = gift << 16;
	donor->cwnd_q16 = rw_max64(donor->cwnd_q16 > p->cwnd_q16 ? donor->cwnd_q16 - p->cwnd_q16 : 0, RW_Q16_ONE);
	donor->word[PATH_IGNORE_SEGMENTS] += gift;
}

static void lisa_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	struct rw_ack rest = *ack;
	if (p->word[PATH_IGNORE_SEGMENTS]) {
		uint64_t ignored = rw_min64(p->word[PATH_IGNORE_SEGMENTS], ack->acked_segments);
		p->word[PATH_IGNORE_SEGMENTS] -= ignored;
		rest.acked_segments -= (uint32_t)ignored;
	}
	uint64_t acked_q16 = rw_after_slow_start(p, &rest);
	if (acked_q16 == 0)
		return;
	struct rw_sums t = rw_sum_paths(c);
	c->word[WORD_ALPHA_Q32] = t.paths ? rw_lia_alpha_q32(&t) : (uint64_t)1 << 32;
	rw_congestion_avoidance_q40(p, rw_lia_step_q40(&t, p), acked_q16);
}

/* What it gave away is gone with the window. */
static void lisa_loss(struct rw_connection *c, uint32_t path)
{
	c->path[path].word[PATH_IGNORE_SEGMENTS] = 0;
	rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_lisa = {
    .name = "lisa",
    .source = "Barik et al. 2016, draft-barik-mptcp-lisa; RFC 6356 in congestion avoidance",
    .formula =
	"join: the fastest subflow in slow start gives 10 segments, or max(3, w/2) of a window below 20; I, D as lia",
    .deviations = "The draft and the paper were not at hand: the rule follows what the CSS and TCCC papers say of it. "
		  "A donor keeps one segment, so that a window below four gives more than it loses.",
    .multipath = 1,
    .options = lisa_options,
    .words = lisa_words,
    .begin = lisa_begin,
    .join = lisa_join,
    .ack = lisa_ack,
    .loss = lisa_loss,
};
