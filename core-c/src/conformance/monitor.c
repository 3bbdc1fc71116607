/*
 * The specifications' properties, checked on every step of a replay (specs/CoupledSlowStart, specs/AggressiveAvoidance,
 * specs/SharedBottleneck). Written from the specifications and the papers in floating point, not from the controllers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

/* Tolerance of a window: four units of Q16, and a share of its step (tests/unit/test_controllers.py). */
#define ABSOLUTE (1.0 / 16384)
#define RELATIVE (1.0 / 2000)
/* A comparison of rates, which are rounded. */
#define RATE_SLACK 2e-5 /* ratios of RTTs are rounded to 1/65536 */
#define ALPHA_SLACK 4e-6

struct step {
	const struct rw_connection *c;
	const struct rw_control *control;
	const struct rw_word_places *at;
	const struct rw_snapshot *before, *after;
	const struct rw_transition *transition;
	uint64_t violated;
};

static void require(struct step *s, int holds, enum rw_check check)
{
	if (!holds)
		s->violated |= (uint64_t)1 << check;
}

static double segments(uint64_t q16) { return (double)q16 / 65536; }
static int is_set(uint64_t ssthresh_q16) { return ssthresh_q16 != RW_SSTHRESH_UNSET; }
static int64_t option(const struct step *s, int8_t place) { return place < 0 ? 0 : s->c->option[place]; }
static double floor_segments(const struct step *s) { return segments((uint64_t)option(s, s->at->min_ssthresh)); }
static int is_control(const struct step *s, const char *name) { return strcmp(s->control->name, name) == 0; }
static int has_coupled_start(const struct step *s) { return s->at->initial_ss >= 0; }
static int is_kernel(const struct step *s) { return option(s, s->at->mode) == RW_MODE_KERNEL; }

/* A subflow in recovery counts with the window that it will leave recovery with. */
static double counted(const rw_transition_path *p)
{
	double w = segments(p->recovering && is_set(p->ssthresh_q16) ? p->ssthresh_q16 : p->cwnd_q16);
	return w < 1 ? 1 : w;
}

/* Coupled slow start counts it: it is not known to share its bottleneck with no other (TCCC IV.D). */
static int takes_part(const struct rw_snapshot *l, uint32_t i) { return l->path[i].live && !(l->apart >> i & 1); }

static int coupled(const struct rw_snapshot *l, uint32_t i)
{
	return l->initial_ss && l->path[i].live && l->path[i].initial;
}

static uint32_t coupled_count(const struct rw_snapshot *l)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->paths; i++)
		n += (uint32_t)coupled(l, i);
	return n;
}

static uint32_t sharing_count(const struct rw_snapshot *l)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->paths; i++)
		n += (uint32_t)takes_part(l, i);
	return n;
}

static double coupled_rtt_min(const struct rw_snapshot *l)
{
	double least = 0;
	for (uint32_t i = 0; i < l->paths; i++) {
		double rtt = (double)l->path[i].coupled_rtt_ns;
		if (takes_part(l, i) && rtt > 0 && (least == 0 || rtt < least))
			least = rtt;
	}
	return least;
}

/* 65535 bytes in segments, and at least two. */
static double static_ssthresh(const struct step *s)
{
	return fmax(floor(65535.0 * 65536 / (s->c->mss_bytes ? s->c->mss_bytes : 1460)) / 65536, 2);
}

/* con_ssth: the option's value, or the estimate of the path with the smallest RTT, or the largest, or 65535 bytes. */
static double con_ssthresh(const struct step *s, const struct rw_snapshot *l)
{
	if (l->con_ssthresh_q16)
		return segments(l->con_ssthresh_q16);
	double nearest = 0, largest = 0, least = 0;
	for (uint32_t i = 0; i < l->paths; i++) {
		const rw_transition_path *p = &l->path[i];
		double rtt = (double)p->coupled_rtt_ns;
		if (!takes_part(l, i))
			continue;
		largest = fmax(largest, segments(p->estimate_q16));
		if (rtt > 0 && (least == 0 || rtt < least)) {
			least = rtt;
			nearest = segments(p->estimate_q16);
		}
	}
	if (nearest > 0 || largest > 0)
		return nearest > 0 ? nearest : largest;
	return static_ssthresh(s);
}

/* The threshold that a subflow begins with (CSS Algorithm 1, line 18). */
static double own_ssthresh(const struct step *s, const struct rw_snapshot *l)
{
	return fmax(static_ssthresh(s), con_ssthresh(s, l));
}

/* sum w_k / R_k as a window at the smallest RTT, and its tolerance: equal RTTs are not rounded. */
static double coupled_rate(const struct rw_snapshot *l, double *off)
{
	double sum = 0, least = coupled_rtt_min(l);
	*off = 0;
	for (uint32_t i = 0; i < l->paths; i++) {
		if (!takes_part(l, i) || !l->path[i].coupled_rtt_ns)
			continue;
		double rtt = (double)l->path[i].coupled_rtt_ns, rate = counted(&l->path[i]) * least / rtt;
		sum += rate;
		if (rtt > least)
			*off += rate * RATE_SLACK;
	}
	return sum;
}

/* The sums over the subflows that are coupled in congestion avoidance: all, or those of one final set. */
struct sums {
	double rate, quad, best, own_rho;
	uint32_t paths;
};

static int in_final_set(const rw_transition_path *p) { return p->group != 0 && p->group_state == RW_GROUP_FINAL; }

static int together(const struct rw_snapshot *l, uint32_t i, uint32_t own, int sets)
{
	const rw_transition_path *p = &l->path[i], *o = &l->path[own];
	if (!p->live || p->srtt_ns == 0)
		return 0;
	return !sets || (in_final_set(p) && in_final_set(o) && p->group == o->group);
}

/* w: of the subflow itself; weight: SB-CC's beta within the maximum, null for 1. */
static struct sums sum_up(const struct step *s, double w, int sets, double (*weight)(const struct step *, uint32_t))
{
	const struct rw_snapshot *l = s->before;
	uint32_t own = s->transition->path;
	struct sums t = {0, 0, 0, 0, 0};
	double least = 0;
	for (uint32_t i = 0; i < l->paths; i++)
		if (together(l, i, own, sets) && (least == 0 || (double)l->path[i].srtt_ns < least))
			least = (double)l->path[i].srtt_ns;
	for (uint32_t i = 0; i < l->paths; i++)
		if (together(l, i, own, sets)) {
			double rho = (double)l->path[i].srtt_ns / least, window = i == own ? w : counted(&l->path[i]);
			t.rate += window / rho;
			t.quad += window / rho / rho;
			t.best = fmax(t.best, window / rho / rho * (weight ? weight(s, i) : 1));
			t.paths++;
		}
	t.own_rho = least > 0 ? (double)l->path[own].srtt_ns / least : 1;
	return t;
}

/* beta after the step, because the controller updates it before the window. */
static double beta(const struct step *s, uint32_t path)
{
	return fmax((double)s->after->path[path].beta_q32 / 4294967296.0,
		    segments((uint64_t)option(s, s->at->beta_floor)));
}

/* The growth in congestion avoidance for one segment, at the window w after slow start. */
static double avoidance(const struct step *s, double w)
{
	uint32_t r = s->transition->path;
	const rw_transition_path *p = &s->before->path[r];
	double reno = 1 / fmax(w, 1);
	if (p->srtt_ns == 0)
		return reno;
	if (is_control(s, "tccc") || (is_control(s, "tccc+") && in_final_set(p))) {
		struct sums t = sum_up(s, w, is_control(s, "tccc+"), NULL);
		double step = 1 / (t.own_rho * t.quad);
		return option(s, s->at->aca_safe) ? fmin(step, reno) : step;
	}
	if (is_control(s, "css")) {
		struct sums t = sum_up(s, w, 0, NULL);
		return fmin(t.best / t.rate / t.rate, reno);
	}
	if (is_control(s, "sbcc") && in_final_set(p)) {
		int inside = option(s, s->at->beta_inside_max) != 0;
		struct sums t = sum_up(s, w, 1, inside ? beta : NULL);
		double share = t.best / t.rate / t.rate * (inside ? 1 : beta(s, r));
		return t.paths < 2 ? reno : fmin(share, reno);
	}
	return reno;
}

static int near(double found, double expected, double change)
{
	return fabs(found - expected) <= ABSOLUTE + RELATIVE * fabs(change);
}

static double limited(double w) { return fmin(w, (double)RW_CWND_MAX_Q16 / 65536); }

/* The window after an ACK at the window w: slow start up to the threshold, then avoidance with the remaining segments. */
static void check_ordinary_growth(struct step *s)
{
	const rw_transition_path *p = &s->before->path[s->transition->path], *q = &s->after->path[s->transition->path];
	double w = segments(p->cwnd_q16), n = s->transition->acked_segments, fast = 0;
	if (option(s, s->at->aca_period))
		return; /* its step was computed from windows before these */
	if (p->cwnd_q16 < q->ssthresh_q16)
		fast = is_set(q->ssthresh_q16) ? fmin(n, segments(q->ssthresh_q16) - w) : n;
	else
		require(s, segments(q->cwnd_q16) - w <= n * avoidance(s, w) * (1 + RELATIVE) + ABSOLUTE,
			RW_CHECK_NO_SLOW_START_ABOVE);
	double slow = (n - fast) * avoidance(s, w + fast);
	require(s, near(segments(q->cwnd_q16), limited(w + fast + slow), slow), RW_CHECK_AVOIDANCE);
}

/* Each coupled subflow keeps its window, as its threshold. */
static void check_exit(struct step *s, double rate, double off, double con)
{
	const struct rw_snapshot *b = s->before, *a = s->after;
	require(s, rate + off > con, RW_CHECK_EXIT_JUSTIFIED);
	for (uint32_t i = 0; i < b->paths; i++)
		if (coupled(b, i))
			require(s,
				a->path[i].cwnd_q16 == b->path[i].cwnd_q16 &&
				    a->path[i].ssthresh_q16 == b->path[i].cwnd_q16 && !a->path[i].initial,
				RW_CHECK_EXIT_FREEZES);
}

static void check_ordinary_ack(struct step *s)
{
	const struct rw_snapshot *b = s->before, *a = s->after;
	const rw_transition_path *p = &b->path[s->transition->path], *q = &a->path[s->transition->path];
	require(s, q->ssthresh_q16 == p->ssthresh_q16 && !q->initial == !p->initial, RW_CHECK_THRESHOLDS_SPARED);
	check_ordinary_growth(s);
	if (!has_coupled_start(s) || !b->initial_ss)
		return;
	/* The exit test is made on every subflow's ACK. */
	double con = con_ssthresh(s, b), off, rate = coupled_rate(b, &off);
	if (!a->initial_ss)
		check_exit(s, rate, off, con);
	else
		require(s, rate - off <= con, RW_CHECK_GROWS_WHILE_BELOW);
}

/* Only this subflow leaves; the connection leaves with the last one. */
static void check_left_alone(struct step *s)
{
	const struct rw_snapshot *b = s->before, *a = s->after;
	uint32_t rest = coupled_count(b) - 1;
	require(s, a->initial_ss == (rest > 0) && a->alpha_q32 == b->alpha_q32 && coupled_count(a) == rest,
		RW_CHECK_LOSS_IS_PRIVATE);
}

static void check_coupled_ack(struct step *s)
{
	const struct rw_snapshot *b = s->before, *a = s->after;
	const rw_transition_path *p = &b->path[s->transition->path], *q = &a->path[s->transition->path];
	double con = con_ssthresh(s, b), off, rate = coupled_rate(b, &off), n = s->transition->acked_segments;
	double grown = segments(q->cwnd_q16) - segments(p->cwnd_q16);
	/* The subflow takes over an estimate with this ACK. */
	double own = option(s, s->at->ssthresh) ? own_ssthresh(s, b) : segments(p->ssthresh_q16);
	int passed = segments(p->cwnd_q16) > own;
	if (!a->initial_ss && (!passed || rate - off > con || q->ssthresh_q16 == p->cwnd_q16)) {
		check_exit(s, rate, off, con);
		return;
	}
	require(s, rate - off <= con, RW_CHECK_GROWS_WHILE_BELOW);
	require(s, segments(q->ssthresh_q16) == own, RW_CHECK_THRESHOLDS_SPARED);
	if (!q->initial) {
		require(s, passed, RW_CHECK_EXIT_JUSTIFIED); /* without a loss nobody leaves alone before that */
		check_left_alone(s);
		check_ordinary_growth(s);
		return;
	}
	require(s, !passed, RW_CHECK_GROWS_TO_THRESHOLD);
	double cap = segments((uint64_t)option(s, s->at->cap)), least = coupled_rtt_min(b);
	if (option(s, s->at->cap_scale))
		cap *= floor((n + 1) / 2);
	double rho = p->coupled_rtt_ns && least > 0 ? (double)p->coupled_rtt_ns / least : 1,
	       alpha = (double)b->alpha_q32 / 4294967296.0;
	double growth = option(s, s->at->alpha_form) ? alpha * rho - 1 : pow(alpha, rho) - 1;
	require(s, grown <= cap + ABSOLUTE, RW_CHECK_ACK_CAPPED);
	require(s, grown >= 0, RW_CHECK_COUPLED_NEVER_SHRINKS);
	require(
	    s,
	    near(segments(q->cwnd_q16), limited(segments(p->cwnd_q16) + fmin(cap, growth * n)), fmin(cap, growth * n)),
	    RW_CHECK_GROWS_BY_ALPHA);
}

/* "Same packet loss rate": the largest flights differ by less than a factor, and every subflow has had a reduction. */
static int same_loss_rate(const struct step *s, uint32_t own, int sets, int *edge)
{
	double least = 0, most = 0, ratio = segments((uint64_t)option(s, s->at->same_loss_ratio));
	for (uint32_t i = 0; i < s->before->paths; i++) {
		if (!together(s->before, i, own, sets))
			continue;
		/* This loss ends an interval of its own subflow. */
		double peak =
		    segments(i == own ? s->after->path[i].flight_peak_q16 : s->before->path[i].flight_peak_q16);
		if (peak == 0)
			return 0;
		least = least == 0 ? peak : fmin(least, peak);
		most = fmax(most, peak);
	}
	*edge = fabs(most * most - ratio * least * least) <= RELATIVE * most * most;
	return most * most <= ratio * least * least;
}

static void check_reduction(struct step *s)
{
	const struct rw_snapshot *b = s->before;
	uint32_t r = s->transition->path;
	const rw_transition_path *p = &b->path[r], *q = &s->after->path[r];
	double w = segments(p->cwnd_q16), d = w / 2, other = d, least = floor_segments(s);
	int timeout = s->transition->kind == RW_TRANSITION_TIMEOUT, was_coupled = coupled(b, r);
	int sets = is_control(s, "tccc+");
	if (!timeout && !was_coupled && p->srtt_ns && (is_control(s, "tccc") || (sets && in_final_set(p)))) {
		struct sums t = sum_up(s, counted(p), sets, NULL);
		double eq8 = t.rate * t.rate / (2 * t.own_rho * t.quad);
		int64_t rule = option(s, s->at->aca_md);
		int edge = 0, same = rule == 1 || (rule == 0 && same_loss_rate(s, r, sets, &edge));
		if (option(s, s->at->aca_safe))
			eq8 = fmax(eq8, d);
		if (same)
			d = eq8;
		edge |= option(s, s->at->p_est) !=
			0; /* loss intervals are not in the snapshot, so either rule is allowed */
		other = edge ? (same ? w / 2 : eq8) : d;
	}
	if (is_control(s, "sbcc") && in_final_set(p) &&
	    !(s->transition->kind != RW_TRANSITION_ECE && option(s, s->at->beta_loss)))
		d = other = w * beta(s, r) / 2;
	double found = segments(q->ssthresh_q16);
	require(s,
		is_set(q->ssthresh_q16) &&
		    (near(found, fmax(w - d, least), d) || near(found, fmax(w - other, least), other)),
		RW_CHECK_DECREASE);
	if (!is_kernel(s))
		require(s, q->cwnd_q16 == (timeout ? RW_Q16_ONE : q->ssthresh_q16), RW_CHECK_DECREASE);
	require(s, !q->initial || !has_coupled_start(s), RW_CHECK_LOSS_UNCOUPLES);
	if (was_coupled)
		check_left_alone(s);
}

static double weighted(const struct step *s, const struct rw_snapshot *l, uint32_t i, double least)
{
	double w = counted(&l->path[i]), rtt = (double)l->path[i].coupled_rtt_ns;
	return option(s, s->at->join_weighted) && rtt > 0 && least > 0 ? w * least / rtt : w;
}

/* ln alpha' = ln alpha ln(con/after) / ln(con/before), within the tolerance of the integers. */
static int rescaled(const struct step *s, double before, double after, double con, double most)
{
	double found = (double)s->after->alpha_q32 / 4294967296.0, was = (double)s->before->alpha_q32 / 4294967296.0;
	double near_con = log(con / fmax(before, 1.0 / 65536));
	if (fabs(near_con) < 1e-4)
		return found >= 1 && found <= most + ALPHA_SLACK; /* the quotient of two logarithms near zero */
	double expected = fmin(most, exp(log(was) * log(con / after) / near_con));
	return fabs(found - expected) <= ALPHA_SLACK + RELATIVE * (expected - 1);
}

static void check_join(struct step *s)
{
	const struct rw_snapshot *b = s->before, *a = s->after;
	uint32_t r = s->transition->path;
	double least = coupled_rtt_min(a), con = con_ssthresh(s, a), before = 0;
	double off = option(s, s->at->join_weighted) ? con * RATE_SLACK : 0;
	require(s, a->path[r].cwnd_q16 == (uint64_t)RW_INITIAL_WINDOW << 16, RW_CHECK_JOINS_AT_IW);
	if (sharing_count(b) == 0) {
		require(s, !a->path[r].initial == !b->initial_ss && a->alpha_q32 == b->alpha_q32, RW_CHECK_JOINS_AT_IW);
		return;
	}
	if (coupled_count(b) == 0) {
		require(s, !a->initial_ss && !a->path[r].initial && a->alpha_q32 == b->alpha_q32,
			RW_CHECK_COUPLING_ENDS);
		return;
	}
	for (uint32_t i = 0; i < b->paths; i++)
		if (i != r && takes_part(b, i))
			before += weighted(s, b, i, least);
	double after = before + weighted(s, a, r, least);
	if (!a->initial_ss) {
		require(s, after >= con - off, RW_CHECK_EXIT_JUSTIFIED);
		for (uint32_t i = 0; i < b->paths; i++)
			if (coupled(b, i) || i == r)
				require(s, a->path[i].ssthresh_q16 == a->path[i].cwnd_q16 && !a->path[i].initial,
					RW_CHECK_EXIT_FREEZES);
		return;
	}
	require(s, after < con + off && a->path[r].initial, RW_CHECK_EXIT_JUSTIFIED);
	require(s, a->alpha_q32 <= b->alpha_q32 && rescaled(s, before, after, con, 1e9), RW_CHECK_ALPHA_MOVES);
}

/*
 * alpha where the subflows of `gone`, a bit for each, stop counting one after the other: the mirror of a join, and not above
 * alpha0.
 */
static void check_without(struct step *s, uint32_t gone)
{
	const struct rw_snapshot *b = s->before, *a = s->after;
	double alpha0 = segments((uint64_t)option(s, s->at->alpha0));
	double alpha = (double)b->alpha_q32 / 4294967296.0, found = (double)a->alpha_q32 / 4294967296.0, off = 0;
	struct rw_snapshot l = *b;
	require(s, a->alpha_q32 >= b->alpha_q32, RW_CHECK_ALPHA_MOVES);
	for (uint32_t r = 0; l.initial_ss && r < b->paths; r++) {
		if (!(gone >> r & 1))
			continue;
		double least = coupled_rtt_min(&l), con = con_ssthresh(s, &l), after = 0;
		for (uint32_t i = 0; i < l.paths; i++)
			if (i != r && takes_part(&l, i))
				after += weighted(s, &l, i, least);
		double before = after + weighted(s, &l, r, least);
		l.apart |= (uint8_t)(1 << r);
		l.path[r].initial = 0;
		l.initial_ss = coupled_count(&l) > 0;
		if (after == 0) {
			alpha = alpha0;
			off = 0;
		} else if (fabs(before - con) <= con * RATE_SLACK || fabs(log(con / before)) < 1e-4) {
			return; /* the rounding decides, or the quotient of two logarithms near zero */
		} else if (before < con) {
			double moved = exp(log(alpha) * log(con / after) / log(con / before));
			off = off * log(con / after) / log(con / before) + ALPHA_SLACK;
			alpha = fmin(alpha0, moved);
		}
	}
	require(s, fabs(found - alpha) <= off + (off > 0 ? RELATIVE * (alpha - 1) : 0), RW_CHECK_ALPHA_MOVES);
}

static void check_leave(struct step *s)
{
	uint32_t path = s->transition->path;
	require(s, s->after->initial_ss == s->before->initial_ss, RW_CHECK_ALPHA_MOVES);
	check_without(s, takes_part(s->before, path) ? (uint32_t)1 << path : 0);
}

/* True of every state. */
static void check_state(struct step *s)
{
	const struct rw_snapshot *a = s->after;
	uint32_t members[256] = {0};
	double alpha0 = segments((uint64_t)option(s, s->at->alpha0)), alpha = (double)a->alpha_q32 / 4294967296.0;
	double own = own_ssthresh(s, a);
	for (uint32_t i = 0; i < a->paths; i++) {
		const rw_transition_path *p = &a->path[i];
		if (!p->live)
			continue;
		require(s, p->cwnd_q16 >= RW_Q16_ONE && p->cwnd_q16 <= RW_CWND_MAX_Q16, RW_CHECK_WINDOW_HELD);
		require(s, !is_set(p->ssthresh_q16) || segments(p->ssthresh_q16) >= fmin(floor_segments(s), 1),
			RW_CHECK_FLOOR_HELD);
		require(s, p->beta_q32 <= (uint64_t)1 << 32, RW_CHECK_BETA_IN_RANGE);
		if (in_final_set(p))
			members[p->group]++;
		if (has_coupled_start(s)) {
			require(s, !p->initial || a->initial_ss, RW_CHECK_INITIAL_TOGETHER);
			/* The subflow takes over an estimate with its next ACK. */
			require(s, !coupled(a, i) || option(s, s->at->ssthresh) || segments(p->ssthresh_q16) >= own,
				RW_CHECK_COUPLED_HAS_OWN_THRESHOLD);
		}
	}
	for (uint32_t i = 0; i < a->paths; i++)
		if (a->path[i].live && in_final_set(&a->path[i]))
			require(s, members[a->path[i].group] >= 2, RW_CHECK_SETS_OF_TWO);
	if (has_coupled_start(s) && coupled_count(a))
		require(s, alpha > 1 && alpha <= alpha0 + ALPHA_SLACK, RW_CHECK_ALPHA_IN_RANGE);
}

/* A verdict of this step: the subflow shares its bottleneck with no other (TCCC IV.D). */
static int is_separated(const struct step *s, uint32_t path)
{
	return s->transition->kind == RW_TRANSITION_SETS && s->at->verdicts && rw_shares_with_nobody(s->after, path);
}

/* True of every step: it changes its own subflow only, and a slow start that has ended does not begin again. */
static void check_others(struct step *s)
{
	const struct rw_snapshot *b = s->before, *a = s->after;
	uint8_t kind = s->transition->kind;
	int exits = b->initial_ss && !a->initial_ss, still = kind == RW_TRANSITION_RTT || kind == RW_TRANSITION_SETS;
	uint32_t separated = 0;
	for (uint32_t i = 0; i < b->paths; i++) {
		const rw_transition_path *p = &b->path[i], *q = &a->path[i];
		int own = i == s->transition->path;
		require(s, p->live == q->live || (own && kind == (q->live ? RW_TRANSITION_JOIN : RW_TRANSITION_LEAVE)),
			RW_CHECK_OTHERS_SPARED);
		if (!p->live || !q->live)
			continue;
		require(s,
			p->coupled_rtt_ns == q->coupled_rtt_ns ||
			    (own && (kind == RW_TRANSITION_RTT || kind == RW_TRANSITION_JOIN)),
			RW_CHECK_OTHERS_SPARED);
		if (own && !still)
			continue;
		require(s, q->cwnd_q16 == p->cwnd_q16, RW_CHECK_OTHERS_SPARED);
		if (is_separated(s, i)) {
			/* Its threshold is unchanged, or is its estimate. */
			require(s, !q->initial, RW_CHECK_EXIT_JUSTIFIED);
			require(s, q->ssthresh_q16 == p->ssthresh_q16 || p->estimate_q16, RW_CHECK_THRESHOLDS_SPARED);
			separated += (uint32_t)coupled(b, i);
			continue;
		}
		require(s, q->ssthresh_q16 == p->ssthresh_q16 || (exits && coupled(b, i)), RW_CHECK_THRESHOLDS_SPARED);
		require(s, !q->initial == !p->initial || (exits && coupled(b, i)), RW_CHECK_OTHERS_SPARED);
	}
	if (!has_coupled_start(s))
		return;
	int undone = kind == RW_TRANSITION_UNDO;
	require(s, b->initial_ss || !a->initial_ss || (undone && a->path[s->transition->path].initial),
		RW_CHECK_NO_REENTRY);
	for (uint32_t i = 0; i < b->paths; i++)
		if (b->path[i].live && a->path[i].live)
			require(s, b->path[i].initial || !a->path[i].initial || (undone && i == s->transition->path),
				RW_CHECK_NO_REENTRY);
	if (kind != RW_TRANSITION_JOIN && kind != RW_TRANSITION_LEAVE && kind != RW_TRANSITION_SETS)
		require(s, a->alpha_q32 == b->alpha_q32, RW_CHECK_ALPHA_MOVES);
	/* A step without growth, join or loss does not change the connection. */
	if (exits && s->transition->kind != RW_TRANSITION_ACK && s->transition->kind != RW_TRANSITION_JOIN &&
	    s->transition->kind != RW_TRANSITION_LOSS && s->transition->kind != RW_TRANSITION_ECE &&
	    s->transition->kind != RW_TRANSITION_TIMEOUT && separated != coupled_count(b))
		require(s, 0, RW_CHECK_EXIT_JUSTIFIED);
}

int rw_is_monitored(const struct rw_control *control)
{
	static const char *const specified[] = {"css", "tccc", "tccc+", "sbcc"};
	for (uint32_t i = 0; i < sizeof specified / sizeof *specified; i++)
		if (strcmp(control->name, specified[i]) == 0)
			return 1;
	return 0;
}

uint64_t rw_monitor(const struct rw_connection *c, const struct rw_control *control,
		    const struct rw_word_places *places, const struct rw_snapshot *before,
		    const struct rw_transition *transition, const struct rw_snapshot *after)
{
	struct step s = {c, control, places, before, after, transition, 0};
	check_state(&s);
	check_others(&s);
	switch (transition->kind) {
	case RW_TRANSITION_ACK:
		if (has_coupled_start(&s) && coupled(before, transition->path))
			check_coupled_ack(&s);
		else
			check_ordinary_ack(&s);
		break;
	case RW_TRANSITION_LOSS:
	case RW_TRANSITION_ECE:
	case RW_TRANSITION_TIMEOUT:
		check_reduction(&s);
		break;
	case RW_TRANSITION_JOIN:
		if (has_coupled_start(&s))
			check_join(&s);
		break;
	case RW_TRANSITION_LEAVE:
		if (has_coupled_start(&s))
			check_leave(&s);
		break;
	case RW_TRANSITION_SETS:
		if (has_coupled_start(&s))
			check_without(&s, after->apart & (uint32_t)~before->apart);
		break;
	default:
		break;
	}
	return s.violated;
}

/* The live paths in a set, and all live paths: a bit for each. */
static uint32_t members(const struct rw_detector_snapshot *l, uint32_t set)
{
	uint32_t found = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (l->path[i].live && l->path[i].set == set)
			found |= (uint32_t)1 << i;
	return found;
}

static uint32_t live_paths(const struct rw_detector_snapshot *l)
{
	uint32_t found = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		found |= (uint32_t)(l->path[i].live != 0) << i;
	return found;
}

/* True of every state of a detector (SharedBottleneck: TableAgrees, TwoMembers, ClosedInNone). */
static void check_table(struct step *s, const struct rw_detector_snapshot *a)
{
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		const struct rw_detected_path *p = &a->path[i];
		require(s, p->live || (p->set == 0 && p->state == RW_GROUP_MONITOR && a->asked[i] == 0),
			RW_CHECK_CLOSED_IN_NONE);
		require(s, p->set <= RW_SETS_MAX && (p->set == 0) == (p->state == RW_GROUP_MONITOR),
			RW_CHECK_TABLE_AGREES);
		for (uint32_t k = 0; k < i; k++)
			require(s, p->set == 0 || p->set != a->path[k].set || p->state == a->path[k].state,
				RW_CHECK_TABLE_AGREES);
	}
	for (uint32_t set = 1; set <= RW_SETS_MAX; set++)
		require(s, __builtin_popcount(members(a, set)) != 1, RW_CHECK_SETS_OF_TWO);
}

/* A set forms from monitored paths in one step. It dissolves as a whole, or by members that leave. Final follows judgement. */
static void check_sets(struct step *s, const struct rw_detector_snapshot *b, const struct rw_detector_snapshot *a)
{
	uint8_t kind = s->transition->kind;
	int judged = kind == RW_TRANSITION_JUDGE_SUBFLOW || kind == RW_TRANSITION_JUDGE_SET,
	    left = kind == RW_TRANSITION_DETECTOR_LEAVE;
	for (uint32_t set = 1; set <= RW_SETS_MAX; set++) {
		uint32_t was = members(b, set), is = members(a, set),
			 who = left ? (uint32_t)1 << s->transition->path : 0;
		if (was == is || kind == RW_TRANSITION_DETECTOR_END)
			continue;
		int goes = was != 0 && is == 0 &&
			   (kind == RW_TRANSITION_JUDGE_SET ? set == s->transition->path + 1u : (was & who) != 0);
		int shrinks = is != 0 && (was & ~who) == is;
		int made = kind == RW_TRANSITION_JUDGE_SUBFLOW && was == 0 && (is & members(b, 0)) == is;
		require(s, goes || shrinks || made, RW_CHECK_SETS_WHOLE);
	}
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		uint8_t was = b->path[i].state, is = a->path[i].state;
		if (was == is || kind == RW_TRANSITION_DETECTOR_END)
			continue;
		require(s, is != RW_GROUP_FINAL || was == RW_GROUP_JUDGEMENT, RW_CHECK_TWO_STAGES);
		require(s, is != RW_GROUP_JUDGEMENT || was == RW_GROUP_MONITOR, RW_CHECK_TWO_STAGES);
		require(s, judged || left, RW_CHECK_ONLY_NOTED);
	}
}

/* A controller's sets are those that its detector has found. */
uint64_t rw_monitor_told(const struct rw_detector_snapshot *known, const struct rw_snapshot *after)
{
	struct step s = {.after = after};
	for (uint32_t i = 0; i < after->paths; i++) {
		const rw_transition_path *p = &after->path[i];
		require(&s, !p->live || (p->group == known->path[i].set && p->group_state == known->path[i].state),
			RW_CHECK_COUPLED_VERIFIED);
	}
	return s.violated;
}

/* The result of a decision follows from the paths that it has seen (Algorithm 1, lines 5-22). */
static void check_judged(struct step *s, const struct rw_detector_snapshot *b, const struct rw_detector_snapshot *a)
{
	uint32_t which = s->transition->path, monitored = members(b, 0), free_set = 0;
	if (s->transition->kind == RW_TRANSITION_JUDGE_SUBFLOW) {
		uint32_t together = (b->seen[which] & monitored) | (uint32_t)1 << which, made = 0;
		for (uint32_t set = 1; set <= RW_SETS_MAX; set++) {
			free_set |= members(b, set) == 0;
			made |= members(b, set) == 0 ? members(a, set) : 0;
		}
		require(s, b->asked[which] == which + 1 && a->asked[which] == 0, RW_CHECK_JUDGED_AS_SEEN);
		require(s, made == (__builtin_popcount(together) > 1 && free_set ? together : 0),
			RW_CHECK_JUDGED_AS_SEEN);
		return;
	}
	if (which >= RW_SETS_MAX || b->set_asked[which] == 0) {
		require(s, 0, RW_CHECK_JUDGED_AS_SEEN);
		return;
	}
	uint32_t of = members(b, which + 1), others = live_paths(b) & ~of,
		 asked = (uint32_t)1 << (b->set_asked[which] - 1);
	int holds = (of & ~asked & ~b->set_seen[which]) == 0 && (others & b->set_seen[which]) == 0;
	require(s, (members(a, which + 1) != 0) == holds, RW_CHECK_JUDGED_AS_SEEN);
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (of >> i & 1)
			require(s, a->path[i].state == (holds ? RW_GROUP_FINAL : RW_GROUP_MONITOR),
				RW_CHECK_JUDGED_AS_SEEN);
}

/* An event of a path: waiting decisions may see that path; only a decision of that path may begin; none ends. */
static void check_noted(struct step *s, uint8_t was, uint8_t is, uint8_t seen_before, uint8_t seen)
{
	uint32_t path = s->transition->path, own = (uint32_t)1 << path;
	if (was == 0)
		require(s, is == 0 || (is == path + 1 && !(seen & own)), RW_CHECK_ONLY_NOTED);
	else
		require(s, is == was && (seen & ~own) == (seen_before & ~own) && (is != path + 1 || !(seen & own)),
			RW_CHECK_ONLY_NOTED);
}

uint64_t rw_monitor_detector(const struct rw_detector_snapshot *before, const struct rw_transition *transition,
			     const struct rw_detector_snapshot *after)
{
	struct step s = {.transition = transition};
	check_table(&s, after);
	check_sets(&s, before, after);
	if (transition->kind == RW_TRANSITION_JUDGE_SUBFLOW || transition->kind == RW_TRANSITION_JUDGE_SET)
		check_judged(&s, before, after);
	if (transition->kind != RW_TRANSITION_DETECTOR_ECE && transition->kind != RW_TRANSITION_DETECTOR_LOSS)
		return s.violated;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		check_noted(&s, before->asked[i], after->asked[i], before->seen[i], after->seen[i]);
	for (uint32_t i = 0; i < RW_SETS_MAX; i++)
		check_noted(&s, before->set_asked[i], after->set_asked[i], before->set_seen[i], after->set_seen[i]);
	return s.violated;
}
