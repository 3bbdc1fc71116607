/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * TCCC+: TCCC's coupled slow start, then NewReno on each subflow (TCCC paper, V.B, where detection has ended by then).
 * With a detector, the subflows of one final set avoid congestion aggressively among themselves; a subflow that the
 * detector finds to share its bottleneck with no other leaves coupled slow start at once, for a slow start of its own up to
 * its own threshold (IV.D; docs/paper-notes.md, T-24).
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

/* A final verdict that a path is in no set, or in one without another path. */
static int shares_with_nobody(const struct rw_connection *c, uint32_t path)
{
	const struct rw_path *p = &c->path[path];
	for (uint32_t i = 0; p->group && i < rw_path_count(c); i++)
		if (i != path && c->path[i].live && c->path[i].group == p->group)
			return 0;
	return p->group_state == RW_GROUP_FINAL;
}

/* A later set does not couple its slow start again, and neither does an undo. For the others it is as if it had closed. */
static void plus_regrouped(struct rw_connection *c)
{
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		struct rw_path *p = &c->path[i];
		if (!css_takes_part(p) || !shares_with_nobody(c, i))
			continue;
		css_leave(c, i);
		if (p->initial) {
			if (p->word[PATH_ESTIMATE_Q16])
				rw_set_ssthresh(p, p->word[PATH_ESTIMATE_Q16], c->option[MIN_SSTHRESH]);
			css_leave_alone(c, i);
		}
		p->word[PATH_LEFT] = LEFT_APART;
	}
}

const struct rw_control rw_control_tccc_plus = {
    .name = "tccc+",
    .source = "TCCC paper, Algorithm 1 and section V.B",
    .formula = "slow start as tccc, then I = 1/w, D = w/2; in a final set of a detector as tccc",
    .deviations =
	"As tccc in slow start, which a subflow leaves when it is found to share with no other; its rate then counts no more for the others. With detector=none each subflow is NewReno after it, as the paper's "
	"experiments have it.",
    .multipath = 1,
    .detector = "none",
    .options = plus_options,
    .words = plus_words,
    .open = css_open,
    .begin = css_begin,
    .regrouped = plus_regrouped,
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
