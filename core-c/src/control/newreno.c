/*
 * NewReno (RFC 5681, RFC 6582), and `uncoupled`: the same on each subflow, which is what Linux MPTCP runs.
 *
 *   slow start            w += acked
 *   congestion avoidance  w += acked / w
 *   loss, ECE, timeout    ssthresh = w / 2
 *
 * mode=kernel keeps the integer window and credit counter of Linux (algorithms.md 1.3); mode=paper keeps fractions.
 */
#include "fixed_point.h"
#include "options.h"

static const struct rw_option newreno_options[] = {
    {"mode", "kernel|paper", "kernel", "kernel follows Linux's integer window, paper the fractional formula",
     RW_OPTION_CHOICE, 0, 0},
    RW_OPTION_FLOOR_LINUX,
    {0}};

static const struct rw_word_name newreno_words[] = {{0}};

static void newreno_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16 == 0)
		return;
	if (c->option[MODE] == RW_MODE_KERNEL) {
		uint32_t divisor = (uint32_t)(p->cwnd_q16 >> 16);
		rw_additive_increase(p, divisor ? divisor : 1, (uint32_t)(acked_q16 >> 16));
	} else {
		rw_congestion_avoidance_q40(p, rw_reno_step_q40(p->cwnd_q16), acked_q16);
	}
}

static void newreno_loss(struct rw_connection *c, uint32_t path)
{
	rw_halve(&c->path[path], c->option[MODE] == RW_MODE_KERNEL, c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_newreno = {
    .name = "newreno",
    .source = "RFC 5681, RFC 6582; Linux tcp_reno",
    .formula = "I = 1/w, D = w/2",
    .multipath = 0,
    .linux_form = 1,
    .options = newreno_options,
    .words = newreno_words,
    .ack = newreno_ack,
    .loss = newreno_loss,
};

const struct rw_control rw_control_uncoupled = {
    .name = "uncoupled",
    .source = "e-NMCC paper II.B (MP-RENO); Linux MPTCP with reno",
    .formula = "each subflow: I = 1/w, D = w/2",
    .multipath = 1,
    .linux_form = 1,
    .options = newreno_options,
    .words = newreno_words,
    .ack = newreno_ack,
    .loss = newreno_loss,
};
