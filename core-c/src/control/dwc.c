/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DWC: dynamic window coupling (Hassayoun et al. 2011, as far as the SB-CC paper, I-II, restates it).
 * A detector groups subflows that lost, or whose delay rose, in the same period.
 *
 *   in a group          w += acked min(1/W, 1/w), W = sum w_k over the group; outside: w += acked / w
 *   loss, ECE           ssthresh = w / 2 for the subflow and for those of its group that are in congestion avoidance
 *   timeout             ssthresh = w / 2, alone
 */
#include "fixed_point.h"
#include "options.h"

enum { SSTHRESH = COMMON_OPTIONS };

static const struct rw_option dwc_options[] = {RW_OPTION_MODE_PAPER, RW_OPTION_FLOOR_LINUX, RW_OPTION_SSTHRESH, {0}};
static const struct rw_word_name dwc_words[] = {{0}};

static void dwc_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, 0);
}

/* The windows of a group together; of one path alone where it is in none. */
RW_CALL uint64_t dwc_window_q16(const struct rw_connection *c RW_NEVER_NULL, uint32_t path, uint32_t group)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (c->path[i].live && (i == path || (group && rw_final_group(&c->path[i]) == group)))
			total += rw_window_q16(&c->path[i]);
	return total;
}

static void dwc_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16 == 0)
		return;
	uint64_t total = dwc_window_q16(c, ack->path, rw_final_group(p));
	uint64_t step = rw_multiply_divide((uint64_t)1 << 40, RW_Q16_ONE, rw_max64(total, p->cwnd_q16));
	rw_congestion_avoidance_q40(p, step, acked_q16);
}

static void halve(struct rw_connection *c, uint32_t path) { rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]); }

static void dwc_loss(struct rw_connection *c, uint32_t path)
{
	uint32_t group = rw_final_group(&c->path[path]);
	halve(c, path);
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		struct rw_path *p = &c->path[i];
		if (i == path || !group || !p->live || rw_final_group(p) != group || p->recovering ||
		    rw_in_slow_start(p))
			continue;
		halve(c, i);
		p->cwnd_q16 = p->ssthresh_q16; /* it has lost nothing: there is no recovery to bring it there */
	}
}

const struct rw_control rw_control_dwc = {
    .name = "dwc",
    .source = "Hassayoun et al. 2011, as in the SB-CC paper I-II",
    .formula = "in a group: I = min(1/W, 1/w), W = sum w_k, D = w/2 for all of it; outside: I = 1/w, D = w/2",
    .deviations = "DWC-like: the paper was not at hand. A group gains one segment a round trip in all; its "
		  "members that are in congestion avoidance halve together. Grouping is the detector's.",
    .multipath = 1,
    .detector = "dwc",
    .options = dwc_options,
    .words = dwc_words,
    .begin = dwc_begin,
    .ack = dwc_ack,
    .loss = dwc_loss,
    .timeout = halve,
};
