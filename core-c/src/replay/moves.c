#include "moves.h"

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

struct rw_places rw_places_of(const struct rw_control *control)
{
	struct rw_places p = {
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
	    .aca_period = option(control, "aca_period"),
	    .p_est = option(control, "p_est"),
	    .beta_floor = option(control, "sbcc_beta_floor"),
	    .beta_loss = option(control, "sbcc_loss"),
	    .beta_inside_max = option(control, "beta_inside_max"),
	};
	/* Others have an alpha that means something else. */
	p.alpha = p.initial_ss >= 0 ? word(control, "alpha") : -1;
	return p;
}

static uint64_t of_connection(const struct rw_connection *c, int8_t place) { return place < 0 ? 0 : c->word[place]; }
static uint64_t of_path(const struct rw_path *p, int8_t place) { return place < 0 ? 0 : p->word[place]; }

void rw_look_at(const struct rw_connection *c, const struct rw_places *places, struct rw_look *look)
{
	look->paths = (uint8_t)rw_path_count(c);
	look->initial_ss = (uint8_t)of_connection(c, places->initial_ss);
	look->alpha_q32 = of_connection(c, places->alpha);
	look->con_ssthresh_q16 = of_connection(c, places->con_ssthresh);
	for (uint32_t i = 0; i < rw_path_count(c); i++) {
		const struct rw_path *p = &c->path[i];
		struct rw_path_look *l = &look->path[i];
		if (!p->live) {
			memset(l, 0, sizeof *l);
			continue;
		}
		*l = (struct rw_path_look){.cwnd_q16 = p->cwnd_q16,
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

void rw_look_at_detector(const struct rw_detect *detect, struct rw_detector_look *look)
{
	const struct rw_detector *detector = detect->detector;
	memset(look, 0, sizeof *look);
	memcpy(look->path, detect->state->path, sizeof look->path);
	for (uint32_t i = 0; i < RW_MAX_PATHS && detector->judgement; i++) {
		look->asked[i] = asked_by(detector->judgement(detect->state, i));
		look->seen[i] = seen_by(detector->judgement(detect->state, i));
	}
	for (uint32_t i = 0; i < RW_SETS_MAX && detector->judgement; i++) {
		look->set_asked[i] = asked_by(detector->judgement(detect->state, RW_MAX_PATHS + i));
		look->set_seen[i] = seen_by(detector->judgement(detect->state, RW_MAX_PATHS + i));
	}
}

int rw_is_of_detector(uint32_t kind) { return kind >= RW_MOVE_DETECTOR_JOIN && kind <= RW_MOVE_DETECTOR_END; }

int rw_look_again(const struct rw_connection *c, const struct rw_places *places, uint32_t path, struct rw_look *look)
{
	const struct rw_path *p = &c->path[path];
	struct rw_path_look *l = &look->path[path];
	if (!l->live || p->cwnd_q16 != l->cwnd_q16 || p->ssthresh_q16 != l->ssthresh_q16 || p->initial != l->initial ||
	    look->alpha_q32 != of_connection(c, places->alpha) || look->initial_ss != of_connection(c, places->initial_ss))
		return 0;
	l->srtt_ns = p->srtt_ns;
	l->coupled_rtt_ns = of_path(p, places->coupled_rtt);
	l->estimate_q16 = of_path(p, places->estimate);
	l->beta_q32 = of_path(p, places->beta);
	return 1;
}
