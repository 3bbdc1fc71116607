/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * e-NMCC (e-NMCC paper IV, VIII, Algorithm 1): NMCC's increase, and a decrease for a loss that only one subflow met.
 *
 *   loss, ECE   ssthresh = w - (w/2) m_th, m_th = max p_k (sum x_k)^2 / sum p_k x_k^2 within [1, min(mth_cap, n)]
 *               p_k = 2/f_k^2, f_k the largest flight between the last two reductions, before the first the window
 *   timeout     ssthresh = w / 2
 */
#include "nmcc.h"
#include "options.h"

enum { MTH_CAP = COMMON_OPTIONS, SSTHRESH };
enum { PATH_MTH_Q32, PATH_MTH_CLAMPED_Q32 };

static const struct rw_option enmcc_options[] = {
    RW_OPTION_MODE_PAPER,
    RW_OPTION_FLOOR(2, "m_th = 2 leaves nothing of the window: n >= 2 alike subflows go to the floor"),
    {"mth_cap", "1 to 2", 2 << 16, "Algorithm 1 clamps m_th to 2; 1.5 spares a subflow that is larger than the others",
     RW_OPTION_Q16, 1 << 16, 2 << 16},
    RW_OPTION_SSTHRESH,
    {0}};

static const struct rw_word_name enmcc_words[] = {
    {"m_th", 1, PATH_MTH_Q32, 32, 0}, {"m_th_clamped", 1, PATH_MTH_CLAMPED_Q32, 32, 0}, {0}};

static uint64_t flight_q16(const struct rw_path *p)
{
	uint64_t f = p->flight_peak_q16 ? p->flight_peak_q16 : rw_window_q16(p);
	return rw_max64(rw_min64(f, RW_CWND_MAX_Q16), RW_Q16_ONE);
}

/*
 * With y_k = (x_k / sum x)(min f / f_k), m_th = 1 / sum y_k^2: all of them at most 1, and together too.
 */
static uint64_t m_th_q32(const struct rw_connection *c, const struct rw_path *own)
{
	uint64_t one = (uint64_t)1 << 32, least = UINT64_MAX, sum_q62 = 0;
	struct rw_sums t = rw_sum_paths(c);
	if (t.paths < 2 || !rw_counts(own))
		return one;
	for (uint32_t i = 0; i < rw_path_count(c); i++)
		if (rw_counts(&c->path[i]))
			least = rw_min64(least, flight_q16(&c->path[i]));
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		if (!rw_counts(p))
			continue;
		uint64_t share_q31 = rw_multiply_divide(rw_rate_q27(p, t.rtt_min_ns), (uint64_t)1 << 31, t.s_q27);
		uint64_t y_q31 = rw_multiply_divide(share_q31, least, flight_q16(p));
		sum_q62 += y_q31 * y_q31;
	}
	return rw_multiply_divide((uint64_t)1 << 62, one, rw_max64(sum_q62, 1));
}

/* Within [1, min(mth_cap, n)]; alone it is 1. */
static uint64_t clamped_q32(const struct rw_connection *c, uint64_t m_th)
{
	uint64_t one = (uint64_t)1 << 32;
	uint64_t cap = rw_min64((uint64_t)c->option[MTH_CAP] << 16, (uint64_t)rw_sum_paths(c).paths << 32);
	return rw_max64(rw_min64(m_th, cap), one);
}

static void enmcc_ack(struct rw_connection *c, const struct rw_ack *ack) { rw_nmcc_ack(c, ack); }

static void enmcc_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	p->word[PATH_MTH_Q32] = m_th_q32(c, p);
	p->word[PATH_MTH_CLAMPED_Q32] = clamped_q32(c, p->word[PATH_MTH_Q32]);
	rw_decrease(p, rw_multiply_divide(p->cwnd_q16, p->word[PATH_MTH_CLAMPED_Q32], (uint64_t)1 << 33),
		    c->option[MIN_SSTHRESH]);
}

static void halve(struct rw_connection *c, uint32_t path) { rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]); }

static void enmcc_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, 0);
}

const struct rw_control rw_control_enmcc = {
    .name = "enmcc",
    .source = "e-NMCC paper, sections IV and VIII, Algorithm 1",
    .formula = "I as nmcc; D = (w/2) m_th, m_th = max p_k (sum x_k)^2 / sum p_k x_k^2 in [1, 2]",
    .deviations = "m_th is clamped to 2 as in Algorithm 1, not to the number of subflows as in the text. After a fast "
		  "retransmit the window is ssthresh, not 2. The largest flight is that between the last two "
		  "reductions; Linux's max_packets_out is something else. The factor of a timeout is 1.",
    .multipath = 1,
    .options = enmcc_options,
    .words = enmcc_words,
    .begin = enmcc_begin,
    .ack = enmcc_ack,
    .loss = enmcc_loss,
    .timeout = halve,
};
