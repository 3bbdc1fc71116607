#include "snapshot.h"

#include "detect.h"

#include <string.h>

static int8_t word(const struct rw_control *control, const char *name)
{
	for (int i = 0; control->words[i].name; i++)
		if (strcmp(control->words[i].name, name) == 0)
			return (int8_t)control->words[i].index;
	return -1;
}

static int8_t option(const struct rw_control *control, const char *name)
{
	for (int i = 0; control->options[i].name; i++)
		if (strcmp(control->options[i].name, name) == 0)
			return (int8_t)i;
	return -1;
}

struct rw_word_places rw_word_places_of(const struct rw_control *control)
{
	struct rw_word_places p = {
	    .initial_ss = word(control, "initial_ss"),
	    .con_ssthresh = word(control, "con_ssthresh"),
	    .coupled_rtt = word(control, "coupled_rtt"),
	    .estimate = word(control, "ssth"),
	    .beta = word(control, "beta"),
	    .mode = option(control, "mode"),
	    .min_ssthresh = option(control, "min_ssthresh"),
	    .alpha0 = option(control, "alpha0"),
	    .cap = option(control, "L"),
	    .cap_scale = option(control, "L_scale"),
	    .alpha_form = option(control, "alpha_form"),
	    .join_weighted = option(control, "join_weighted"),
	    .aca_md = option(control, "aca_md"),
	    .aca_safe = option(control, "aca_safe"),
	    .same_loss_ratio = option(control, "same_loss_ratio"),
	    .verdicts = control->regrouped != NULL,
	    .ssthresh = option(control, "ssthresh"),
	    .aca_period = option(control, "aca_period"),
	    .p_est = option(control, "p_est"),
	    .beta_floor = option(control, "sbcc_beta_floor"),
	    .beta_loss = option(control, "sbcc_loss"),
	    .beta_inside_max = option(control, "beta_inside_max"),
	};
	/* Other controllers have an alpha with another meaning. */
	p.alpha = p.initial_ss >= 0 ? word(control, "alpha") : -1;
	return p;
}

static uint64_t of_connection(const struct rw_connection *c, int8_t place) { return place < 0 ? 0 : c->word[place]; }
static uint64_t of_path(const struct rw_path *p, int8_t place) { return place < 0 ? 0 : p->word[place]; }

void rw_snapshot_take(const struct rw_connection *c, const struct rw_word_places *places, struct rw_snapshot *snapshot)
{
	snapshot->paths = (uint8_t)rw_path_count(c);
	snapshot->initial_ss = (uint8_t)of_connection(c, places->initial_ss);
	snapshot->alpha_q32 = of_connection(c, places->alpha);
	snapshot->con_ssthresh_q16 = of_connection(c, places->con_ssthresh);
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		rw_transition_path *l = &snapshot->path[i];
		if (!p->live) {
			memset(l, 0, sizeof *l);
			continue;
		}
		*l = (rw_transition_path){.cwnd_q16 = p->cwnd_q16,
					  .ssthresh_q16 = p->ssthresh_q16,
					  .flight_peak_q16 = p->flight_peak_q16,
					  .srtt_ns = p->srtt_ns,
					  .coupled_rtt_ns = of_path(p, places->coupled_rtt),
					  .estimate_q16 = of_path(p, places->estimate),
					  .beta_q32 = of_path(p, places->beta),
					  .live = 1,
					  .initial = p->initial,
					  .recovering = p->recovering,
					  .group = p->group,
					  .group_state = p->group_state};
	}
}

static uint8_t asked_by(const struct rw_judgement *j) { return j->waits ? (uint8_t)(j->trigger + 1) : 0; }
static uint8_t seen_by(const struct rw_judgement *j) { return j->waits ? j->seen : 0; }

void rw_detector_snapshot_take(const struct rw_detect *detect, struct rw_detector_snapshot *snapshot)
{
	const struct rw_detector *detector = detect->detector;
	memset(snapshot, 0, sizeof *snapshot);
	memcpy(snapshot->path, detect->state->path, sizeof snapshot->path);
	for (uint32_t i = 0; i < RW_MAX_PATHS && detector->judgement; i++) {
		snapshot->asked[i] = asked_by(detector->judgement(detect->state, i));
		snapshot->seen[i] = seen_by(detector->judgement(detect->state, i));
	}
	for (uint32_t i = 0; i < RW_SETS_MAX && detector->judgement; i++) {
		snapshot->set_asked[i] = asked_by(detector->judgement(detect->state, RW_MAX_PATHS + i));
		snapshot->set_seen[i] = seen_by(detector->judgement(detect->state, RW_MAX_PATHS + i));
	}
}

int rw_is_of_detector(uint32_t kind)
{
	return kind >= RW_TRANSITION_DETECTOR_JOIN && kind <= RW_TRANSITION_DETECTOR_END;
}

int rw_snapshot_update_times(const struct rw_connection *c, const struct rw_word_places *places, uint32_t path,
			     struct rw_snapshot *snapshot)
{
	const struct rw_path *p = &c->path[path];
	rw_transition_path *l = &snapshot->path[path];
	if (!l->live || p->cwnd_q16 != l->cwnd_q16 || p->ssthresh_q16 != l->ssthresh_q16 || p->initial != l->initial ||
	    snapshot->alpha_q32 != of_connection(c, places->alpha) ||
	    snapshot->initial_ss != of_connection(c, places->initial_ss))
		return 0;
	l->srtt_ns = p->srtt_ns;
	l->coupled_rtt_ns = of_path(p, places->coupled_rtt);
	l->estimate_q16 = of_path(p, places->estimate);
	l->beta_q32 = of_path(p, places->beta);
	return 1;
}

int rw_shares_with_nobody(const struct rw_snapshot *snapshot, uint32_t path)
{
	const rw_transition_path *p = &snapshot->path[path];
	for (uint32_t i = 0; p->group && i < snapshot->paths; i++)
		if (i != path && snapshot->path[i].live && snapshot->path[i].group == p->group)
			return 0;
	return p->live && p->group_state == RW_GROUP_FINAL;
}

void rw_snapshot_remember_verdicts(const struct rw_word_places *places, const struct rw_snapshot *before,
				   const struct rw_transition *transition, struct rw_snapshot *after)
{
	after->apart = 0;
	for (uint32_t i = 0; i < after->paths; i++) {
		int known = i < before->paths && (before->apart >> i & 1) && after->path[i].live;
		int joins = transition->kind == RW_TRANSITION_JOIN && transition->path == i;
		int told =
		    places->verdicts && transition->kind == RW_TRANSITION_SETS && rw_shares_with_nobody(after, i);
		after->apart |= (uint8_t)(((known && !joins) || told) << i);
	}
}
