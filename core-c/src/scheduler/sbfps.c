/*
 * Shared-bottleneck forward prediction scheduling (SB-CC paper III.B, eq. 6-9, Algorithm 3).
 *
 *   M_r = rounds/2 (2 w_r + rounds/m_r - 1), rounds = (R_j/2)/R_r
 *   m_r = max(W/(a w_r), 1) within a set, W = sum w_k, a = beta_r W max(w_k/R_k^2) / (sum w_k/R_k)^2; else 1
 *
 * Where the paper's print and text differ, this file takes the maximum of eq. 7, not Algorithm 3 line 6, and counts only
 * subflows that are faster than j. It keeps fractions of rounds and rounds M down once. In slow start it is fps. A set with
 * one member couples nothing.
 */
#include "forward.h"

static const struct rw_option sbfps_options[] = {RW_FORWARD_OPTIONS, {0}};

#define ONE_Q62 ((uint64_t)1 << 62)

/* 1/m_r = min(beta_r w_r B/S^2, 1), S = sum w_k R/R_k, B = max w_k (R/R_k)^2, R the set's smallest RTT. */
static uint64_t growth_q62(const struct rw_sending *s, uint32_t r)
{
	uint64_t least = UINT64_MAX, sum_q40 = 0, best_q40 = 0;
	uint32_t group = s->subflow[r].group, members = 0;
	for (uint32_t k = 0; k < rw_subflow_count(s); k++) {
		const struct rw_sender_subflow *p = &s->subflow[k];
		if (group && p->group == group && p->established && p->srtt_ns) {
			least = rw_min64(least, p->srtt_ns);
			members++;
		}
	}
	if (members < 2)
		return ONE_Q62;
	for (uint32_t k = 0; k < rw_subflow_count(s); k++) {
		const struct rw_sender_subflow *p = &s->subflow[k];
		if (p->group != group || !p->established || !p->srtt_ns)
			continue;
		uint64_t rate_q40 = rw_multiply_divide(rw_predicted_window_q16(p) << 24, least, p->srtt_ns);
		sum_q40 += rate_q40;
		best_q40 = rw_max64(best_q40, rw_multiply_divide(rate_q40, least, p->srtt_ns));
	}
	uint64_t share_q62 = rw_multiply_divide(best_q40, ONE_Q62, sum_q40);
	share_q62 =
	    rw_multiply_divide(share_q62, rw_min64(s->subflow[r].beta_q32, (uint64_t)1 << 32), (uint64_t)1 << 32);
	return rw_min64(rw_multiply_divide(share_q62, rw_predicted_window_q16(&s->subflow[r]) << 24, sum_q40), ONE_Q62);
}

static void predict(const struct rw_sending *s, uint32_t j, uint32_t r, struct rw_forward *f)
{
	const struct rw_sender_subflow *p = &s->subflow[r];
	if (rw_starts_slowly(p)) {
		rw_whole_rounds(s, j, r, f);
		return;
	}
	uint64_t horizon = rw_horizon_ns(s, j, r), rtt = rw_min64(p->srtt_ns, INT64_MAX);
	uint64_t growth = growth_q62(s, r), most_q24 = RW_FORWARD_MAX << 24;
	uint64_t rounds_q40 = rw_multiply_divide(horizon, (uint64_t)1 << 39, rtt);
	/* rounds (2 w - 1)/2 with 24 fractional bits, in one division */
	uint64_t flat_q24 = rw_multiply_divide(horizon, ((rw_predicted_window_q16(p) << 1) - RW_Q16_ONE) << 6, rtt);
	uint64_t grown_q40 = rw_multiply_divide(rounds_q40, growth, ONE_Q62);
	uint64_t rising_q24 = rw_multiply_divide(rounds_q40, grown_q40, (uint64_t)1 << 57);
	f->rounds_q24 = rounds_q40 >> 16;
	f->m_q24 = rw_multiply_divide(ONE_Q62, 1 << 24, rw_max64(growth, 1));
	f->segments_q24 = rw_min64(rw_min64(flat_q24, most_q24) + rw_min64(rising_q24, most_q24), most_q24);
}

static uint64_t sbfps_forward(const struct rw_sending *s, uint32_t j, struct rw_forward *each)
{
	return rw_forward_sum(s, j, each, predict);
}

static void sbfps_pick(const struct rw_sending *s, struct rw_decision *d) { rw_forward_pick(s, d, predict); }

const struct rw_scheduler rw_scheduler_sbfps = {
    .name = "sbfps",
    .source = "SB-CC paper III.B, eq. 6-9, Algorithm 3",
    .rule = "the fastest with room; j skips M = sum rounds/2 (2 w_r + rounds/m_r - 1), rounds = (R_j/2)/R_r",
    .deviations =
	"The maximum of eq. 7, which Algorithm 3 line 6 drops; r < j as in the text, not r <= j; fractions of "
	"rounds are kept and M is rounded down once; in slow start, which is not modelled, M_r is that of fps; a "
	"set of one is none. Only subflows that can send count, also with a full window; skipped segments are those that "
	"nobody has been given; where no more than M is queued or the receive window ends before, j waits. M is at "
	"most the send buffer.",
    .options = sbfps_options,
    .pick = sbfps_pick,
    .forward = sbfps_forward,
};
