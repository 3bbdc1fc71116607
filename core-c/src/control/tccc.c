/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * TCCC: coupled slow start with L = 1 (Algorithm 1, coupled_slow_start.h), then Aggressive Congestion Avoidance
 * (Algorithm 2, aggressive_avoidance.h).
 *
 *   timeout  ssthresh = w/2: not the partial event that the decrease of avoidance models
 */
#include "aggressive_avoidance.h"

static const struct rw_option tccc_options[] = {TCCC_OPTIONS, {0}};
static const struct rw_word_name tccc_words[] = {COUPLED_SLOW_START_WORDS, {0}};

static void tccc_ack(struct rw_connection *c, const struct rw_ack *ack) { aca_ack(c, ack, 0); }

static void tccc_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	aca_lost(p);
	/* Before the exit there is no avoidance to balance: plain halving (C-12). */
	uint64_t d = css_is_coupled(c, p) ? p->cwnd_q16 >> 1 : aca_decrease_q16(c, p, RW_ALL_GROUPS);
	css_left_by_loss(c, path);
	rw_decrease(p, d, c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_tccc = {
    .name = "tccc",
    .source = "TCCC paper, Algorithms 1-2, eq. 6 and 8",
    .formula = "I = 1/(R_r min R sum w_k/R_k^2), D = min R (sum w_k/R_k)^2 / (2 R_r sum w_k/R_k^2) or w/2",
    .deviations =
	"Line 18 prints alpha R_r/min R, where growth by alpha each smallest RTT needs the exponent "
	"(alpha_form). The same packet loss rate is not defined in print: peaks of the flight within a factor "
	"(same_loss_ratio). Eq. 8 leaves n alike subflows a window of w (1 - n/2): a floor (min_ssthresh). A "
	"join at or beyond con_ssth ends coupled slow start, the printed logarithm not being positive there. "
	"A subflow above its own threshold leaves alone, as in CSS. A timeout halves. An undone loss gives the coupling back.",
    .multipath = 1,
    .options = tccc_options,
    .words = tccc_words,
    .open = css_open,
    .begin = css_begin,
    .delivered = aca_delivered,
    .rtt = css_rtt,
    .join = aca_join,
    .leave = aca_leave,
    .ack = tccc_ack,
    .loss = tccc_loss,
    .timeout = aca_timeout,
    .undo = css_undo,
    .phase = css_phase,
};
