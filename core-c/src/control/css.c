/*
 * CSS: Coupled Slow-Start (Wang et al., 2017), with LIA (RFC 6356) in congestion avoidance as in the paper.
 *
 *   coupled slow start    coupled_slow_start.h, L = 2
 *   congestion avoidance  w += acked min(max_k(w_k/R_k^2) / (sum w_k/R_k)^2, 1/w)
 *   loss, ECE, timeout    ssthresh = w / 2; in coupled slow start that subflow alone leaves it
 */
#include "coupled_slow_start.h"

static const struct rw_option css_options[] = {
    COUPLED_SLOW_START_OPTIONS("2", "CSS Algorithm 3: the step of one ACK is at most two segments (C2)"), {0}};

static const struct rw_word_name css_words[] = {COUPLED_SLOW_START_WORDS, {"coupled_rtt", 1, PATH_RTT_NS, 0}, {0}};

/* LIA's step for each acked segment; both divisions keep the bits that a window of 2^20 needs. */
static uint64_t lia_step_q40(const struct rw_connection *c, const struct rw_path *p)
{
	uint64_t reno = rw_reno_step_q40(p->cwnd_q16);
	if (!rw_counts(p))
		return reno;
	struct rw_sums t = rw_sum_paths(c);
	uint64_t share_q50 = rw_multiply_divide(t.best_q27, (uint64_t)1 << 50, t.s_q27);
	return rw_min64(rw_multiply_divide(share_q50, 1 << 17, t.s_q27), reno);
}

static void control_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = (uint64_t)ack->acked_segments << 16;
	if (css_is_coupled(c, p)) {
		css_ack(c, ack);
		return;
	}
	if (rw_in_slow_start(p))
		acked_q16 = rw_slow_start(p, acked_q16);
	if (acked_q16)
		rw_congestion_avoidance_q40(p, lia_step_q40(c, p), acked_q16);
}

static void control_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	css_left_by_loss(c, path);
	rw_set_ssthresh(p, p->cwnd_q16 - (p->cwnd_q16 >> 1), c->option[MIN_SSTHRESH]);
}

static void control_open(struct rw_connection *c) { css_open(c); }
static void control_rtt(struct rw_connection *c, const struct rw_ack *ack) { css_rtt(c, ack); }
static void control_join(struct rw_connection *c, uint32_t path) { css_join(c, path); }
static void control_leave(struct rw_connection *c, uint32_t path) { css_leave(c, path); }
static uint32_t control_phase(const struct rw_connection *c, uint32_t path) { return css_phase(c, path); }

const struct rw_control rw_control_css = {
    .name = "css",
    .source = "CSS paper, Algorithms 1-3; RFC 6356 in congestion avoidance",
    .formula = "exit: sum w_k/R_k > con_ssthresh/min R; growth: min(L, (alpha^(R_r/min R) - 1) acked)",
    .multipath = 1,
    .options = css_options,
    .words = css_words,
    .open = control_open,
    .rtt = control_rtt,
    .join = control_join,
    .leave = control_leave,
    .ack = control_ack,
    .loss = control_loss,
    .phase = control_phase,
};
