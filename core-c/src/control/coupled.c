/*
 * Two algorithms share the name Coupled.
 *
 *   coupled       Kelly-Voice, Han et al.; what the papers compare with:
 *                 w += acked (w/R^2) / (sum w_k/R_k)^2; loss: ssthresh = w/2
 *   coupled-full  the fully coupled one of Wischik et al. 2011: w += acked / W; loss: ssthresh = w - W/2, W = sum w_k
 *
 * A timeout halves in both: it is not the event that W/2 models.
 */
#include "fixed_point.h"
#include "options.h"

static const struct rw_option coupled_options[] = {RW_OPTION_MODE_PAPER, RW_OPTION_FLOOR_LINUX, {0}};
static const struct rw_option coupled_full_options[] = {
    RW_OPTION_MODE_PAPER,
    RW_OPTION_FLOOR("2", "w - W/2 is often not positive; Linux floor, 1 is used by htsim"),
    {0}};

static const struct rw_word_name coupled_words[] = {{0}};

static void coupled_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16 == 0)
		return;
	struct rw_sums t = rw_sum_paths(c);
	uint64_t step = t.paths > 1 && rw_counts(p) ? rw_coupled_step_q40(&t, p) : rw_reno_step_q40(p->cwnd_q16);
	rw_congestion_avoidance_q40(p, step, acked_q16);
}

static void coupled_loss(struct rw_connection *c, uint32_t path) { rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]); }

/* Of all that are live: a window needs no round trip to be counted. */
static uint64_t total_q16(const struct rw_connection *c)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (c->path[i].live)
			total += rw_window_q16(&c->path[i]);
	return total;
}

static void full_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16)
		rw_congestion_avoidance_q40(p, rw_multiply_divide((uint64_t)1 << 40, RW_Q16_ONE, total_q16(c)), acked_q16);
}

static void full_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	/* What has just been lost counts as it was, in recovery or not. */
	uint64_t total = total_q16(c) - rw_window_q16(p) + p->cwnd_q16;
	rw_decrease(p, total >> 1, c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_coupled = {
    .name = "coupled",
    .source = "Kelly and Voice 2005, Han et al. 2006; TCCC paper, Table II",
    .formula = "I = (w/R^2) / (sum w_k/R_k)^2, D = w/2",
    .deviations = "none; Table II's row. Wischik's algorithm of the same name is coupled-full.",
    .multipath = 1,
    .options = coupled_options,
    .words = coupled_words,
    .ack = coupled_ack,
    .loss = coupled_loss,
};

const struct rw_control rw_control_coupled_full = {
    .name = "coupled-full",
    .source = "Wischik et al. 2011 (fully coupled)",
    .formula = "I = 1/W, D = W/2, W = sum w_k",
    .deviations = "w - W/2 is not positive for a subflow with half of the windows or less: a floor (min_ssthresh). A "
		  "timeout halves.",
    .multipath = 1,
    .options = coupled_full_options,
    .words = coupled_words,
    .ack = full_ack,
    .loss = full_loss,
    .timeout = coupled_loss,
};
