/*
 * TCCC: coupled slow start with L = 1 (Algorithm 1), then Aggressive Congestion Avoidance (Algorithm 2, eq. 6, 8).
 *
 *   congestion avoidance  w_r += acked / (R_r min R sum w_k/R_k^2)
 *   loss, ECE             same loss rate: w_r -= min R (sum w_k/R_k)^2 / (2 R_r sum w_k/R_k^2); else w_r -= w_r/2
 *   timeout               ssthresh = w/2: not the partial event that the decrease models
 *
 * "Same packet loss rate" is not defined in print: here p_r = 2/m_r^2, m_r the largest flight between the last two
 * reductions, and the same means max p <= same_loss_ratio min p (algorithms.md 12.2).
 */
#include "coupled_slow_start.h"

enum { ACA_MD = COUPLED_OPTIONS, ACA_SAFE, SAME_LOSS_RATIO };
enum { ACA_MD_AUTO, ACA_MD_EQ8, ACA_MD_HALF };

static const struct rw_option tccc_options[] = {
    COUPLED_SLOW_START_OPTIONS("1", "TCCC Algorithm 1, line 20: the step of one ACK is at most one segment (C2)"),
    {"aca_md", "auto|eq8|half", "auto", "which decrease: auto asks whether the loss rates are the same",
     RW_OPTION_CHOICE, 0, 0},
    {"aca_safe", "off|on", "off", "on: step <= 1/w and decrease >= w/2, against the long-RTT hazard; off reproduces "
     "the paper", RW_OPTION_CHOICE, 0, 0},
    {"same_loss_ratio", "1 to 1024", "4", "peaks within a factor of two; near 1 the branch would almost never be taken",
     RW_OPTION_Q16, 1 << 16, 1024 << 16},
    {0}};

static const struct rw_word_name tccc_words[] = {COUPLED_SLOW_START_WORDS, {"coupled_rtt", 1, PATH_RTT_NS, 0}, {0}};

static uint64_t aca_step_q40(const struct rw_connection *c, const struct rw_path *p)
{
	uint64_t reno = rw_reno_step_q40(p->cwnd_q16);
	if (!rw_counts(p))
		return reno;
	struct rw_sums t = rw_sum_paths(c);
	uint64_t inverse_q50 = rw_multiply_divide((uint64_t)1 << 50, 1 << 27, t.q_q27);
	uint64_t step = rw_multiply_divide(inverse_q50, 1 << 6, rw_rho_q16(p->srtt_ns, t.rtt_min_ns));
	return c->option[ACA_SAFE] ? rw_min64(step, reno) : step;
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
		rw_congestion_avoidance_q40(p, aca_step_q40(c, p), acked_q16);
}

/* max p <= ratio min p with p = 2/m^2, once every subflow has had a reduction. */
static int same_loss_rate(const struct rw_connection *c)
{
	uint64_t least = UINT64_MAX, most = 0;
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		if (!rw_counts(p))
			continue;
		if (p->flight_peak_q16 == 0)
			return 0;
		least = rw_min64(least, p->flight_peak_q16);
		most = rw_max64(most, p->flight_peak_q16);
	}
	struct rw_u128 a = rw_multiply_wide(most, most);
	struct rw_u128 b = rw_multiply_wide(least, rw_multiply_divide(least, (uint64_t)c->option[SAME_LOSS_RATIO], RW_Q16_ONE));
	return a.high != b.high ? a.high < b.high : a.low <= b.low;
}

static uint64_t aca_decrease_q16(const struct rw_connection *c, const struct rw_path *p)
{
	uint64_t half = p->cwnd_q16 >> 1;
	int eq8 = c->option[ACA_MD] == ACA_MD_EQ8 || (c->option[ACA_MD] == ACA_MD_AUTO && same_loss_rate(c));
	if (!eq8 || !rw_counts(p))
		return half;
	struct rw_sums t = rw_sum_paths(c);
	uint64_t d_q27 = rw_multiply_divide(rw_multiply_divide(t.s_q27, t.s_q27, t.q_q27), RW_Q16_ONE,
					    rw_rho_q16(p->srtt_ns, t.rtt_min_ns)) >> 1;
	return c->option[ACA_SAFE] ? rw_max64(d_q27 >> 11, half) : d_q27 >> 11;
}

static void control_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	/* Before the exit there is no avoidance to balance: plain halving (C12). */
	uint64_t d = css_is_coupled(c, p) ? p->cwnd_q16 >> 1 : aca_decrease_q16(c, p);
	css_left_by_loss(c, path);
	rw_set_ssthresh(p, p->cwnd_q16 > d ? p->cwnd_q16 - d : 0, c->option[MIN_SSTHRESH]);
}

static void control_timeout(struct rw_connection *c, uint32_t path)
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

const struct rw_control rw_control_tccc = {
    .name = "tccc",
    .source = "TCCC paper, Algorithms 1-2, eq. 6 and 8",
    .formula = "I = 1/(R_r min R sum w_k/R_k^2), D = min R (sum w_k/R_k)^2 / (2 R_r sum w_k/R_k^2) or w/2",
    .multipath = 1,
    .options = tccc_options,
    .words = tccc_words,
    .open = control_open,
    .rtt = control_rtt,
    .join = control_join,
    .leave = control_leave,
    .ack = control_ack,
    .loss = control_loss,
    .timeout = control_timeout,
    .phase = control_phase,
};
