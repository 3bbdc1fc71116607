/*
 * TCCC+: TCCC's coupled slow start, then NewReno on each subflow (TCCC paper, V.B, where detection has ended by then).
 * With a detector, the subflows of one final set avoid congestion aggressively among themselves.
 */
#include "aggressive_avoidance.h"

static const struct rw_option plus_options[] = {TCCC_OPTIONS, {0}};
static const struct rw_word_name plus_words[] = {COUPLED_SLOW_START_WORDS, {0}};

static void plus_ack(struct rw_connection *c, const struct rw_ack *ack) { aca_ack(c, ack, 1); }

static void plus_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	uint32_t set = rw_final_group(p);
	aca_lost(p);
	uint64_t d = css_is_coupled(c, p) || !set ? p->cwnd_q16 >> 1 : aca_decrease_q16(c, p, set);
	css_left_by_loss(c, path);
	rw_decrease(p, d, c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_tccc_plus = {
    .name = "tccc+",
    .source = "TCCC paper, Algorithm 1 and section V.B",
    .formula = "slow start as tccc, then I = 1/w, D = w/2; in a final set of a detector as tccc",
    .deviations = "As tccc in slow start. With detector=none each subflow is NewReno after it, as the paper's "
		  "experiments have it.",
    .multipath = 1,
    .detector = "none",
    .options = plus_options,
    .words = plus_words,
    .open = css_open,
    .delivered = aca_delivered,
    .rtt = css_rtt,
    .join = aca_join,
    .leave = aca_leave,
    .ack = plus_ack,
    .loss = plus_loss,
    .timeout = aca_timeout,
    .undo = css_undo,
    .phase = css_phase,
};
