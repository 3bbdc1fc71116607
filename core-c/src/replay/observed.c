#include "observed.h"

#include "capture.h"

#include <stdlib.h>
#include <string.h>

static void count(struct rw_observed *o, const struct rw_move *move, int64_t time_ns, uint32_t violated)
{
	struct rw_observed_by *by = o->by;
	struct rw_violations *v = by->violations(by->owner, o->connection, o->choice);
	if (!v) {
		by->no_memory = 1;
		return;
	}
	if (v->count == 0) {
		v->first_row = by->row;
		v->first_ns = time_ns;
		v->first_check = (uint8_t)__builtin_ctz(violated);
		v->first_move = move->kind;
		v->first_path = move->path;
	}
	v->count++;
}

/* A row with what every step has; null when memory is used up. */
static rw_move_row *new_row(struct rw_observed *o, const struct rw_move *move, int64_t time_ns, uint32_t violated)
{
	struct rw_move_log *log = o->by->log;
	if (log->count == log->room) {
		uint64_t room = log->room ? 2 * log->room : 1024;
		rw_move_row *row = realloc(log->row, room * sizeof *row);
		if (!row) {
			log->no_memory = 1;
			return NULL;
		}
		log->row = row;
		log->room = room;
	}
	rw_move_row *r = &log->row[log->count++];
	memset(r, 0, sizeof *r);
	r->time_ns = time_ns;
	r->row = o->by->row;
	r->connection = o->connection;
	r->choice = o->choice;
	r->kind = move->kind;
	r->path = move->path;
	r->acked_segments = move->acked_segments;
	r->violated = violated;
	return r;
}

static void write_down(struct rw_observed *o, uint32_t mss_bytes, const struct rw_move *move, const struct rw_look *look,
		       uint32_t violated)
{
	rw_move_row *r = new_row(o, move, o->by->now_ns, violated);
	if (!r)
		return;
	r->mss_bytes = mss_bytes;
	r->alpha_q32 = look->alpha_q32;
	r->con_ssthresh_q16 = look->con_ssthresh_q16;
	r->initial_ss = look->initial_ss;
	for (uint32_t i = 0; i < look->paths; i++) {
		const struct rw_path_look *p = &look->path[i];
		r->paths[i] = (rw_move_path){.cwnd_q16 = p->cwnd_q16,
					     .ssthresh_q16 = p->ssthresh_q16,
					     .flight_peak_q16 = p->flight_peak_q16,
					     .srtt_ns = p->srtt_ns,
					     .coupled_rtt_ns = p->coupled_rtt_ns,
					     .estimate_q16 = p->estimate_q16,
					     .beta_q32 = p->beta_q32,
					     .live = p->live,
					     .initial = p->initial,
					     .recovering = p->recovering,
					     .group = p->group,
					     .group_state = p->group_state};
	}
}

static void write_detector_down(struct rw_observed *o, const struct rw_move *move, int64_t time_ns,
				const struct rw_detector_look *look, uint32_t violated)
{
	rw_move_row *r = new_row(o, move, time_ns, violated);
	if (!r)
		return;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		const struct rw_detected_path *p = &look->path[i];
		r->paths[i] = (rw_move_path){.srtt_ns = p->srtt_ns,
					     .live = p->live,
					     .group = p->set,
					     .group_state = p->state,
					     .asked = look->asked[i],
					     .seen = look->seen[i]};
	}
	memcpy(r->set_asked, look->set_asked, sizeof r->set_asked);
	memcpy(r->set_seen, look->set_seen, sizeof r->set_seen);
}

static void count_step(struct rw_observed *o)
{
	o->by->moves++;
	if (o->steps)
		++*o->steps;
}

static void moved(struct rw_observer *observer, const struct rw_shadow *s, const struct rw_move *move)
{
	struct rw_observed *o = (struct rw_observed *)observer;
	struct rw_look *before = &o->look[o->turn], *now = &o->look[!o->turn];
	uint32_t violated = 0;
	if (o->monitored)
		count_step(o);
	/* Every other step is one of these. */
	if (move->kind == RW_MOVE_RTT && !o->by->log && rw_look_again(s->connection, &o->places, move->path, before))
		return;
	rw_look_at(s->connection, &o->places, now);
	if (o->monitored) {
		violated = rw_monitor(s->connection, s->control, &o->places, before, move, now);
		if (o->detector)
			violated |= rw_monitor_told(&o->detected[o->detected_turn], now);
		if (violated)
			count(o, move, o->by->now_ns, violated);
	}
	if (o->by->log)
		write_down(o, s->connection->mss_bytes, move, now, violated);
	o->turn = !o->turn;
}

void rw_observe_detector(struct rw_observed *o, const struct rw_detect *detect, uint8_t kind, uint32_t path)
{
	static const struct rw_detector_look none;
	struct rw_detector_look *before = &o->detected[o->detected_turn], *now = &o->detected[!o->detected_turn];
	const struct rw_move move = {kind, (uint8_t)path, 0};
	int64_t time_ns = detect->state->now_ns;
	uint32_t violated = 0;
	rw_look_at_detector(detect, now);
	if (kind == RW_MOVE_DETECTOR_END)
		*now = none;
	if (o->monitored) {
		count_step(o);
		violated = rw_monitor_detector(before, &move, now);
		if (violated)
			count(o, &move, time_ns, violated);
	}
	if (o->by->log)
		write_detector_down(o, &move, time_ns, now, violated);
	o->detected_turn = !o->detected_turn;
}

uint8_t rw_own_detector(const struct rw_control *control, const struct rw_settings *settings)
{
	return settings->detector && strcmp(rw_detector_name(settings->detector - 1u), control->name) == 0 ? settings->detector : 0;
}

void rw_observe(struct rw_observed *o, struct rw_observed_by *by, struct rw_shadow *s, uint32_t connection, uint8_t choice)
{
	o->observer.moved = moved;
	o->places = rw_places_of(s->control);
	o->by = by;
	o->connection = connection;
	o->choice = choice;
	o->monitored = by->monitor && rw_is_monitored(s->control);
	o->turn = o->detected_turn = o->detector = 0;
	memset(o->detected, 0, sizeof o->detected);
	rw_look_at(s->connection, &o->places, &o->look[0]);
	s->observer = &o->observer;
}

static void read_back(const rw_move_row *r, struct rw_look *look)
{
	memset(look, 0, sizeof *look);
	look->alpha_q32 = r->alpha_q32;
	look->con_ssthresh_q16 = r->con_ssthresh_q16;
	look->initial_ss = r->initial_ss;
	look->paths = RW_MAX_PATHS;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		const rw_move_path *p = &r->paths[i];
		look->path[i] = (struct rw_path_look){.cwnd_q16 = p->cwnd_q16,
						      .ssthresh_q16 = p->ssthresh_q16,
						      .flight_peak_q16 = p->flight_peak_q16,
						      .srtt_ns = p->srtt_ns,
						      .coupled_rtt_ns = p->coupled_rtt_ns,
						      .estimate_q16 = p->estimate_q16,
						      .beta_q32 = p->beta_q32,
						      .live = p->live,
						      .initial = p->initial,
						      .recovering = p->recovering,
						      .group = p->group,
						      .group_state = p->group_state};
	}
}

static void read_detector_back(const rw_move_row *r, struct rw_detector_look *look)
{
	memset(look, 0, sizeof *look);
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		const rw_move_path *p = &r->paths[i];
		look->path[i] = (struct rw_detected_path){p->srtt_ns, p->live, p->group, p->group_state};
		look->asked[i] = p->asked;
		look->seen[i] = p->seen;
	}
	memcpy(look->set_asked, r->set_asked, sizeof look->set_asked);
	memcpy(look->set_seen, r->set_seen, sizeof look->set_seen);
}

static rw_status refuse(rw_error *error, const char *reason)
{
	rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "%s", reason);
	return RW_ERROR_BAD_VALUE;
}

rw_status rw_monitor_rows(const rw_choice *choice, rw_move_row *rows, uint64_t count, rw_error *error)
{
	memset(error, 0, sizeof *error);
	const struct rw_control *control = rw_control_find(choice->name);
	if (!control || !rw_is_monitored(control))
		return refuse(error, "the algorithm has no specification");
	struct rw_settings settings;
	rw_status status = rw_control_options(choice, control, &settings, error);
	if (status != RW_OK)
		return status;
	const struct rw_places places = rw_places_of(control);
	struct rw_connection c = {.paths = RW_MAX_PATHS};
	struct rw_look before, after;
	struct rw_detector_look known = {0}, then;
	memcpy(c.option, settings.option, sizeof c.option);
	if (control->open)
		control->open(&c);
	rw_look_at(&c, &places, &before);
	for (uint64_t i = 0; i < count; i++) {
		rw_move_row *r = &rows[i];
		if (r->kind >= RW_MOVE_COUNT || r->path >= RW_MAX_PATHS)
			return refuse(error, "a row is no step");
		const struct rw_move move = {r->kind, r->path, r->acked_segments};
		if (rw_is_of_detector(r->kind)) {
			read_detector_back(r, &then);
			r->violated = rw_monitor_detector(&known, &move, &then);
			known = then;
			continue;
		}
		c.mss_bytes = r->mss_bytes;
		read_back(r, &after);
		r->violated = rw_monitor(&c, control, &places, &before, &move, &after);
		if (rw_own_detector(control, &settings))
			r->violated |= rw_monitor_told(&known, &after);
		before = after;
	}
	return RW_OK;
}
