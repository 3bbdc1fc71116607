/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * CSS: Coupled Slow-Start (Wang et al., 2017), with LIA (RFC 6356) in congestion avoidance as in the paper.
 *
 *   coupled slow start    coupled_slow_start.h, L = 2
 *   congestion avoidance  w += acked min(max_k(w_k/R_k^2) / (sum w_k/R_k)^2, 1/w)
 *   loss, ECE, timeout    ssthresh = w / 2; in coupled slow start that subflow alone leaves it
 */
#include "coupled_slow_start.h"
#include "lia.h"

static const struct rw_option css_options[] = {
    COUPLED_SLOW_START_OPTIONS(2, "CSS Algorithm 3: the step of one ACK is at most two segments (C-2)"), {0}};

static const struct rw_word_name css_words[] = {COUPLED_SLOW_START_WORDS, {0}};

static void css_control_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (css_ack(c, ack))
		return;
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16) {
		struct rw_sums t = rw_sum_paths(c);
		rw_congestion_avoidance_q40(p, rw_lia_step_q40(&t, p), acked_q16);
	}
}

const struct rw_control rw_control_css = {
    .name = "css",
    .source = "CSS paper, Algorithms 1-3; RFC 6356 in congestion avoidance",
    .formula = "exit: sum w_k/R_k > con_ssthresh/min R; growth: min(L, (alpha^(R_r/min R) - 1) acked)",
    .deviations =
	"The exit test is made on every ACK with the current smallest RTT. A subflow's own threshold is the static "
	"one, or con_ssthresh where that is more. A join at or beyond con_ssth ends "
	"coupled slow start. A subflow that leaves is the mirror of one that joins. alpha_r is worked out "
	"anew on every ACK. An undone loss gives the coupling back.",
    .multipath = 1,
    .options = css_options,
    .words = css_words,
    .open = css_open,
    .begin = css_begin,
    .delivered = css_delivered,
    .rtt = css_rtt,
    .join = css_join,
    .leave = css_leave,
    .ack = css_control_ack,
    .loss = css_halve,
    .undo = css_undo,
    .phase = css_phase,
};
