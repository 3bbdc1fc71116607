#include "observed.h"

#include <stdlib.h>
#include <string.h>

static void count(struct rw_observed *o, const struct rw_move *move, uint32_t violated)
{
	struct rw_observed_by *by = o->by;
	struct rw_violations *v = by->violations(by->owner, o->connection, o->choice);
	if (!v) {
		by->no_memory = 1;
		return;
	}
	if (v->count == 0) {
		v->first_row = by->row;
		v->first_ns = by->now_ns;
		v->first_check = (uint8_t)__builtin_ctz(violated);
		v->first_move = move->kind;
		v->first_path = move->path;
	}
	v->count++;
}

static void write_down(struct rw_observed *o, const struct rw_move *move, const struct rw_look *look, uint32_t violated)
{
	struct rw_move_log *log = o->by->log;
	if (log->count == log->room) {
		uint64_t room = log->room ? 2 * log->room : 1024;
		rw_move_row *row = realloc(log->row, room * sizeof *row);
		if (!row) {
			log->no_memory = 1;
			return;
		}
		log->row = row;
		log->room = room;
	}
	rw_move_row *r = &log->row[log->count++];
	memset(r, 0, sizeof *r);
	r->time_ns = o->by->now_ns;
	r->row = o->by->row;
	r->connection = o->connection;
	r->choice = o->choice;
	r->kind = move->kind;
	r->path = move->path;
	r->acked_segments = move->acked_segments;
	r->violated = violated;
	r->alpha_q32 = look->alpha_q32;
	r->con_ssthresh_q16 = look->con_ssthresh_q16;
	r->initial_ss = look->initial_ss;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		const struct rw_path_look *p = &look->path[i];
		r->paths[i] = (rw_move_path){p->cwnd_q16, p->ssthresh_q16, p->flight_peak_q16, p->srtt_ns, p->coupled_rtt_ns,
					     p->estimate_q16, p->beta_q32, p->live, p->initial, p->recovering, p->group,
					     p->group_state};
	}
}

static void moved(struct rw_observer *observer, const struct rw_shadow *s, const struct rw_move *move)
{
	struct rw_observed *o = (struct rw_observed *)observer;
	struct rw_look now;
	uint32_t violated = 0;
	rw_look_at(s->connection, &o->places, &now);
	if (o->monitored) {
		o->by->moves++;
		violated = rw_monitor(s->connection, s->control, &o->places, &o->before, move, &now);
		if (violated)
			count(o, move, violated);
	}
	if (o->by->log)
		write_down(o, move, &now, violated);
	o->before = now;
}

void rw_observe(struct rw_observed *o, struct rw_observed_by *by, struct rw_shadow *s, uint32_t connection, uint8_t choice)
{
	o->observer.moved = moved;
	o->places = rw_places_of(s->control);
	o->by = by;
	o->connection = connection;
	o->choice = choice;
	o->monitored = by->monitor && rw_is_monitored(s->control);
	rw_look_at(s->connection, &o->places, &o->before);
	s->observer = &o->observer;
}
