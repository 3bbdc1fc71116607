#include "recurrences.h"

#include <math.h>
#include <string.h>

/* Halves are rounded down to nanoseconds. */
#define RTT_SLACK_NS 1.0
/* Tolerance of beta: three quotients in Q32, each rounded down. */
#define BETA_SLACK (3.0 / 4294967296.0)
/* Eq. 1 of SB-CC: beta = T/8 + 7/8 beta. */
#define BETA_GAIN (1.0 / 8)
/* TCCC Algorithm 1, line 15. */
#define RTT_GAIN (1.0 / 2)

struct check {
	struct rw_memory *memory;
	const struct rw_connection *c;
	const struct rw_word_places *at;
	const struct rw_snapshot *before, *after;
	const struct rw_transition *transition;
	uint64_t violated;
};

static void require(struct check *k, int holds, enum rw_check check)
{
	if (!holds)
		k->violated |= (uint64_t)1 << check;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static int is_whole(uint64_t q16) { return (q16 & 0xffff) == 0; }
static int is_reduction(uint8_t kind)
{
	return kind == RW_TRANSITION_LOSS || kind == RW_TRANSITION_ECE || kind == RW_TRANSITION_TIMEOUT;
}
static int in_final_set(const rw_transition_path *p) { return p->group != 0 && p->group_state == RW_GROUP_FINAL; }
static int is_coupled(const struct rw_snapshot *s, uint32_t i)
{
	return s->initial_ss && s->path[i].live && s->path[i].initial;
}

/* Three quarters of a window, the threshold that Linux keeps: half and a quarter in whole segments, each rounded down. */
static uint64_t three_quarters(uint64_t cwnd_q16)
{
	uint64_t w = cwnd_q16 >> 16;
	return (w / 2 + w / 4) << 16;
}

static uint64_t kept_ssthresh(const rw_transition_path *p)
{
	return p->ssthresh_q16 == RW_SSTHRESH_UNSET ? RW_SSTHRESH_UNSET
						    : larger(p->ssthresh_q16, three_quarters(p->cwnd_q16));
}

/* The connection leaves coupled slow start as a whole. */
static int all_leave(const struct check *k)
{
	uint8_t kind = k->transition->kind;
	uint32_t coupled = 0;
	for (uint32_t i = 0; i < k->before->paths; i++)
		coupled += (uint32_t)is_coupled(k->before, i);
	/* A subflow that passes its own threshold leaves alone and keeps it; one that leaves with all gets its window as threshold. */
	const rw_transition_path *p = &k->before->path[k->transition->path], *q = &k->after->path[k->transition->path];
	if (kind == RW_TRANSITION_ACK && is_coupled(k->before, k->transition->path) && q->ssthresh_q16 != p->cwnd_q16)
		return 0;
	return coupled && !k->after->initial_ss && (kind == RW_TRANSITION_ACK || kind == RW_TRANSITION_JOIN);
}

uint64_t rw_monitor_rtt(const struct rw_word_places *places, uint64_t before_ns, const struct rw_transition *transition,
			uint64_t after_ns)
{
	double was = (double)before_ns, sample = (double)transition->rtt_ns, expected = was;
	if (places->coupled_rtt < 0)
		return 0;
	if (transition->rtt_ns)
		expected = before_ns ? was + RTT_GAIN * (sample - was) : sample;
	return fabs((double)after_ns - expected) <= RTT_SLACK_NS ? 0 : (uint64_t)1 << RW_CHECK_COUPLED_RTT;
}

/* A subflow that joins inherits nothing from an earlier one in its place. */
static void check_join(struct check *k)
{
	const rw_transition_path *p = &k->after->path[k->transition->path];
	require(k, p->flight_peak_q16 == 0 && !p->recovering && p->group == 0, RW_CHECK_JOINS_ANEW);
	require(k, k->at->coupled_rtt < 0 || p->coupled_rtt_ns == p->srtt_ns, RW_CHECK_COUPLED_RTT);
}

/* At least the window and the threshold from before the reduction; and coupled slow start again. */
static void check_undo(struct check *k)
{
	uint32_t path = k->transition->path;
	const rw_transition_path *p = &k->before->path[path], *q = &k->after->path[path];
	const struct rw_path_memory *m = &k->memory->path[path];
	uint64_t ssthresh = p->ssthresh_q16;
	if (!m->known)
		return;
	require(k, m->reducible, RW_CHECK_UNDO_GIVES_BACK);
	require(k, q->cwnd_q16 == larger(p->cwnd_q16, m->prior_cwnd_q16), RW_CHECK_UNDO_GIVES_BACK);
	ssthresh = larger(ssthresh, m->prior_ssthresh_q16);
	if (k->at->initial_ss < 0 || m->left == RW_LEFT_NOT) {
		require(k, q->ssthresh_q16 == ssthresh && !q->initial == !p->initial, RW_CHECK_UNDO_GIVES_BACK);
		return;
	}
	if (m->left == RW_LEFT_ALONE)
		require(k, q->initial && k->after->initial_ss && q->ssthresh_q16 == ssthresh, RW_CHECK_UNDO_GIVES_BACK);
	else
		require(k, !q->initial && q->ssthresh_q16 == q->cwnd_q16, RW_CHECK_UNDO_GIVES_BACK);
}

/* An interval between two reductions ends: its peak is the largest window that was in use. Else the peak stays. */
static void check_peak(struct check *k)
{
	uint8_t kind = k->transition->kind;
	for (uint32_t i = 0; i < k->after->paths; i++) {
		const rw_transition_path *p = &k->before->path[i], *q = &k->after->path[i];
		const struct rw_path_memory *m = &k->memory->path[i];
		int ends = is_reduction(kind) && i == k->transition->path && m->largest_q16;
		uint64_t peak = ends ? larger(m->largest_q16, p->cwnd_q16) : p->flight_peak_q16;
		if (p->live && q->live && m->known)
			require(k, q->flight_peak_q16 == peak, RW_CHECK_PEAK_OF_FLIGHT);
	}
}

/*
 * Recovery, further timeouts and initial windows other than ten segments. With mode=kernel the window is Linux's rate
 * reduction, which no specification has.
 */
static void check_machinery(struct check *k)
{
	uint32_t path = k->transition->path;
	const rw_transition_path *p = &k->before->path[path], *q = &k->after->path[path];
	const struct rw_path_memory *m = &k->memory->path[path];
	if (k->c->option[k->at->mode] == RW_MODE_KERNEL || !m->known)
		return;
	int further_timeout = q->cwnd_q16 == RW_Q16_ONE && m->reducible;
	int initial_window = !m->reduced && is_whole(q->cwnd_q16);
	require(k, q->cwnd_q16 == p->cwnd_q16 || further_timeout || initial_window, RW_CHECK_MACHINERY_SPARES);
	require(k, q->ssthresh_q16 == p->ssthresh_q16 && !q->initial == !p->initial, RW_CHECK_MACHINERY_SPARES);
}

/* RFC 2861: an idle window is halved some times, in whole segments; the threshold is at least three quarters of it. */
static void check_idle(struct check *k)
{
	const rw_transition_path *p = &k->before->path[k->transition->path], *q = &k->after->path[k->transition->path];
	int kept = q->cwnd_q16 == p->cwnd_q16 && q->ssthresh_q16 == p->ssthresh_q16;
	uint64_t least = k->memory->path[k->transition->path].initial_q16;
	least = p->cwnd_q16 < least ? p->cwnd_q16 : least;
	int halved = q->cwnd_q16 <= p->cwnd_q16 && q->cwnd_q16 >= least &&
		     (is_whole(q->cwnd_q16) || q->cwnd_q16 == p->cwnd_q16) && q->ssthresh_q16 == kept_ssthresh(p);
	require(k, kept || halved, RW_CHECK_IDLE_KEEPS);
}

/* Checks beta of a path after the step. begins: beta starts again at 1. */
static double expected_beta(const struct check *k, uint32_t i, int *begins)
{
	const rw_transition_path *p = &k->before->path[i], *q = &k->after->path[i];
	const struct rw_path_memory *m = &k->memory->path[i];
	const struct rw_transition *t = k->transition;
	double was = (double)p->beta_q32 / 4294967296.0;
	*begins = (t->kind == RW_TRANSITION_JOIN && i == t->path) ||
		  (t->kind == RW_TRANSITION_SETS && (p->group != q->group || p->group_state != q->group_state));
	if (*begins)
		return 1;
	if (t->kind != RW_TRANSITION_DELIVERED || i != t->path || !in_final_set(p))
		return was;
	if (!m->window_runs || (int32_t)(t->una - m->window_end) < 0)
		return was;
	double delivered = (double)m->delivered + t->acked_segments, marked = (double)m->marked + t->marked_segments;
	return was + BETA_GAIN * (fmin(marked / fmax(delivered, 1), 1) - was);
}

/* SB-CC eq. 1, over windows of data. A window ends with the ACK of the data that was next to be sent when it began. */
static void check_beta(struct check *k)
{
	const struct rw_transition *t = k->transition;
	for (uint32_t i = 0; k->at->beta >= 0 && i < k->after->paths; i++) {
		struct rw_path_memory *m = &k->memory->path[i];
		const rw_transition_path *q = &k->after->path[i];
		int begins;
		double expected = expected_beta(k, i, &begins);
		if (!q->live || !(m->known || begins))
			continue;
		require(k, fabs((double)q->beta_q32 / 4294967296.0 - expected) <= BETA_SLACK, RW_CHECK_BETA_AS_MARKED);
		if (begins)
			m->delivered = m->marked = m->window_runs = 0;
		if (t->kind != RW_TRANSITION_DELIVERED || i != t->path || !in_final_set(&k->before->path[i]))
			continue;
		m->delivered += t->acked_segments;
		m->marked += t->marked_segments;
		if (m->window_runs && (int32_t)(t->una - m->window_end) < 0)
			continue;
		if (m->window_runs)
			m->delivered = m->marked = 0;
		m->window_runs = 1;
		m->window_end = t->next;
	}
}

static void remember(struct check *k)
{
	uint32_t path = k->transition->path;
	const rw_transition_path *p = &k->before->path[path], *q = &k->after->path[path];
	struct rw_path_memory *m = &k->memory->path[path];
	uint8_t kind = k->transition->kind;
	if (all_leave(k))
		for (uint32_t i = 0; i < k->after->paths; i++)
			if (k->memory->path[i].left == RW_LEFT_ALONE)
				k->memory->path[i].left = RW_LEFT_BEFORE_ALL;
	if (kind == RW_TRANSITION_JOIN || kind == RW_TRANSITION_LEAVE)
		*m = (struct rw_path_memory){.known = kind == RW_TRANSITION_JOIN, .initial_q16 = q->cwnd_q16};
	/* The sender began with another window; a smaller one shows only that it began with less. */
	if (kind == RW_TRANSITION_MACHINERY && !m->reduced && q->cwnd_q16 != p->cwnd_q16)
		m->initial_q16 = q->cwnd_q16 > p->cwnd_q16 ? q->cwnd_q16 : 0;
	if (kind == RW_TRANSITION_ACK)
		m->largest_q16 = larger(m->largest_q16, p->cwnd_q16);
	if (is_reduction(kind)) {
		m->prior_cwnd_q16 = p->cwnd_q16;
		m->prior_ssthresh_q16 = kept_ssthresh(p);
		m->largest_q16 = 0;
		m->reduced = m->reducible = 1;
		m->left = is_coupled(k->before, path) ? RW_LEFT_ALONE : RW_LEFT_NOT;
	}
	/* A subflow that shares its bottleneck with no other is not coupled again (TCCC IV.D). */
	for (uint32_t i = 0; kind == RW_TRANSITION_SETS && k->at->verdicts && i < k->after->paths; i++)
		if (rw_shares_with_nobody(k->after, i))
			k->memory->path[i].left = RW_LEFT_NOT;
	if (kind == RW_TRANSITION_UNDO) {
		m->reducible = 0;
		m->left = RW_LEFT_NOT;
	}
}

uint64_t rw_monitor_recurrences(struct rw_memory *memory, const struct rw_connection *c,
				const struct rw_word_places *places, const struct rw_snapshot *before,
				const struct rw_transition *transition, const struct rw_snapshot *after)
{
	struct check k = {memory, c, places, before, after, transition, 0};
	const uint32_t path = transition->path;
	switch (transition->kind) {
	case RW_TRANSITION_JOIN:
		check_join(&k);
		break;
	case RW_TRANSITION_UNDO:
		check_undo(&k);
		break;
	case RW_TRANSITION_MACHINERY:
		check_machinery(&k);
		break;
	case RW_TRANSITION_IDLE:
		check_idle(&k);
		break;
	case RW_TRANSITION_RTT:
		k.violated |= rw_monitor_rtt(places, before->path[path].coupled_rtt_ns, transition,
					     after->path[path].coupled_rtt_ns);
		break;
	default:
		break;
	}
	check_peak(&k);
	check_beta(&k);
	remember(&k);
	return k.violated;
}
