#include "recorder.h"

#include "findings.h"

#include <stdlib.h>
#include <string.h>

static void count(struct rw_recorder *o, const struct rw_transition *transition, int64_t time_ns, uint64_t violated)
{
	struct rw_recording *by = o->by;
	struct rw_violations *v = by->violations(by->owner, o->connection, o->choice);
	if (!v) {
		by->no_memory = 1;
		return;
	}
	if (v->count == 0) {
		v->first_row = by->row;
		v->first_ns = time_ns;
		v->first_check = (uint8_t)__builtin_ctzll(violated);
		v->first_transition = transition->kind;
		v->first_path = transition->path;
	}
	v->count++;
}

/* A row with the fields of every step; null: out of memory. */
static rw_transition_row *new_row(struct rw_recorder *o, const struct rw_transition *transition, int64_t time_ns,
				  uint64_t violated)
{
	struct rw_transition_log *log = o->by->log;
	if (log->count == log->room) {
		uint64_t room = log->room ? 2 * log->room : 1024;
		rw_transition_row *row = realloc(log->row, room * sizeof *row);
		if (!row) {
			log->no_memory = 1;
			return NULL;
		}
		log->row = row;
		log->room = room;
	}
	rw_transition_row *r = &log->row[log->count++];
	memset(r, 0, sizeof *r);
	r->time_ns = time_ns;
	r->row = o->by->row;
	r->connection = o->connection;
	r->choice = o->choice;
	r->kind = transition->kind;
	r->path = transition->path;
	r->rtt_ns = transition->rtt_ns;
	r->acked_segments = transition->acked_segments;
	r->marked_segments = transition->marked_segments;
	r->una = transition->una;
	r->next = transition->next;
	r->violated = violated;
	return r;
}

static void write_down(struct rw_recorder *o, uint32_t mss_bytes, const struct rw_transition *transition,
		       const struct rw_snapshot *snapshot, uint64_t violated)
{
	rw_transition_row *r = new_row(o, transition, o->by->now_ns, violated);
	if (!r)
		return;
	r->mss_bytes = mss_bytes;
	r->alpha_q32 = snapshot->alpha_q32;
	r->con_ssthresh_q16 = snapshot->con_ssthresh_q16;
	r->initial_ss = snapshot->initial_ss;
	memcpy(r->paths, snapshot->path, snapshot->paths * sizeof *r->paths);
}

static void write_detector_down(struct rw_recorder *o, const struct rw_transition *transition, int64_t time_ns,
				const struct rw_detector_snapshot *snapshot, uint64_t violated)
{
	rw_transition_row *r = new_row(o, transition, time_ns, violated);
	if (!r)
		return;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		const struct rw_detected_path *p = &snapshot->path[i];
		r->paths[i] = (rw_transition_path){.srtt_ns = p->srtt_ns,
						   .live = p->live,
						   .group = p->set,
						   .group_state = p->state,
						   .asked = snapshot->asked[i],
						   .seen = snapshot->seen[i]};
	}
	memcpy(r->set_asked, snapshot->set_asked, sizeof r->set_asked);
	memcpy(r->set_seen, snapshot->set_seen, sizeof r->set_seen);
}

static void count_step(struct rw_recorder *o)
{
	o->by->transitions++;
	if (o->steps)
		++*o->steps;
}

static void stepped(struct rw_observer *observer, const struct rw_shadow *s, const struct rw_transition *transition)
{
	struct rw_recorder *o = (struct rw_recorder *)observer;
	struct rw_snapshot *before = &o->snapshot[o->turn], *now = &o->snapshot[!o->turn];
	uint64_t violated = 0, coupled_rtt_ns = before->path[transition->path].coupled_rtt_ns;
	if (transition->kind == RW_TRANSITION_DELIVERED && o->places.beta < 0)
		return; /* a snapshot does not show it */
	if (o->monitored)
		count_step(o);
	/* Every other step is one of these. */
	if (transition->kind == RW_TRANSITION_RTT && !o->by->log &&
	    rw_snapshot_update_times(s->connection, &o->places, transition->path, before)) {
		if (o->monitored)
			violated = rw_monitor_rtt(&o->places, coupled_rtt_ns, transition,
						  before->path[transition->path].coupled_rtt_ns);
		if (violated)
			count(o, transition, o->by->now_ns, violated);
		return;
	}
	rw_snapshot_take(s->connection, &o->places, now);
	rw_snapshot_remember_verdicts(&o->places, before, transition, now);
	if (o->monitored) {
		violated = rw_monitor(s->connection, s->control, &o->places, before, transition, now);
		violated |= rw_monitor_recurrences(&o->memory, s->connection, &o->places, before, transition, now);
		if (o->detector)
			violated |= rw_monitor_told(&o->detected[o->detected_turn], now);
		if (violated)
			count(o, transition, o->by->now_ns, violated);
	}
	if (o->by->log)
		write_down(o, s->connection->mss_bytes, transition, now, violated);
	o->turn = !o->turn;
}

void rw_recorder_detector_step(struct rw_recorder *o, const struct rw_detect *detect, uint8_t kind, uint32_t path)
{
	static const struct rw_detector_snapshot none;
	struct rw_detector_snapshot *before = &o->detected[o->detected_turn], *now = &o->detected[!o->detected_turn];
	const struct rw_transition transition = {.kind = kind, .path = (uint8_t)path};
	int64_t time_ns = detect->state->now_ns;
	uint64_t violated = 0;
	rw_detector_snapshot_take(detect, now);
	if (kind == RW_TRANSITION_DETECTOR_END)
		*now = none;
	if (o->monitored) {
		count_step(o);
		violated = rw_monitor_detector(before, &transition, now);
		if (violated)
			count(o, &transition, time_ns, violated);
	}
	if (o->by->log)
		write_detector_down(o, &transition, time_ns, now, violated);
	o->detected_turn = !o->detected_turn;
}

uint8_t rw_own_detector(const struct rw_control *control, const struct rw_settings *settings)
{
	return settings->detector && strcmp(rw_detector_name(settings->detector - 1u), control->name) == 0
		   ? settings->detector
		   : 0;
}

void rw_recorder_attach(struct rw_recorder *o, struct rw_recording *by, struct rw_shadow *s, uint32_t connection,
			uint8_t choice)
{
	o->observer.stepped = stepped;
	o->places = rw_word_places_of(s->control);
	o->by = by;
	o->connection = connection;
	o->choice = choice;
	o->monitored = by->monitor && rw_is_monitored(s->control);
	o->turn = o->detected_turn = o->detector = 0;
	memset(o->detected, 0, sizeof o->detected);
	memset(&o->memory, 0, sizeof o->memory);
	o->snapshot[0].apart = 0;
	rw_snapshot_take(s->connection, &o->places, &o->snapshot[0]);
	s->observer = &o->observer;
}

static void read_back(const rw_transition_row *r, struct rw_snapshot *snapshot)
{
	memset(snapshot, 0, sizeof *snapshot);
	snapshot->alpha_q32 = r->alpha_q32;
	snapshot->con_ssthresh_q16 = r->con_ssthresh_q16;
	snapshot->initial_ss = r->initial_ss;
	snapshot->paths = RW_MAX_PATHS;
	memcpy(snapshot->path, r->paths, sizeof snapshot->path);
}

static void read_detector_back(const rw_transition_row *r, struct rw_detector_snapshot *snapshot)
{
	memset(snapshot, 0, sizeof *snapshot);
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		const rw_transition_path *p = &r->paths[i];
		snapshot->path[i] = (struct rw_detected_path){p->srtt_ns, p->live, p->group, p->group_state};
		snapshot->asked[i] = p->asked;
		snapshot->seen[i] = p->seen;
	}
	memcpy(snapshot->set_asked, r->set_asked, sizeof snapshot->set_asked);
	memcpy(snapshot->set_seen, r->set_seen, sizeof snapshot->set_seen);
}

rw_status rw_monitor_rows(const rw_choice *choice, rw_transition_row *rows, uint64_t count, rw_error *error)
{
	memset(error, 0, sizeof *error);
	const struct rw_control *control = rw_control_find(choice->name);
	if (!control || !rw_is_monitored(control))
		return rw_bad_value(error, "the algorithm has no specification");
	struct rw_settings settings;
	rw_status status = rw_control_options(choice, control, &settings, error);
	if (status != RW_OK)
		return status;
	const struct rw_word_places places = rw_word_places_of(control);
	struct rw_connection c = {.paths = RW_MAX_PATHS};
	struct rw_snapshot before = {0}, after;
	struct rw_detector_snapshot known = {0}, then;
	struct rw_memory memory = {0};
	memcpy(c.option, settings.option, sizeof c.option);
	if (control->open)
		control->open(&c);
	rw_snapshot_take(&c, &places, &before);
	for (uint64_t i = 0; i < count; i++) {
		rw_transition_row *r = &rows[i];
		if (r->kind >= RW_TRANSITION_COUNT || r->path >= RW_MAX_PATHS)
			return rw_bad_value(error, "a row is no step");
		const struct rw_transition transition = {.kind = r->kind,
							 .path = r->path,
							 .acked_segments = r->acked_segments,
							 .marked_segments = r->marked_segments,
							 .una = r->una,
							 .next = r->next,
							 .rtt_ns = r->rtt_ns};
		if (rw_is_of_detector(r->kind)) {
			read_detector_back(r, &then);
			r->violated = rw_monitor_detector(&known, &transition, &then);
			known = then;
			continue;
		}
		c.mss_bytes = r->mss_bytes;
		read_back(r, &after);
		rw_snapshot_remember_verdicts(&places, &before, &transition, &after);
		r->violated = rw_monitor(&c, control, &places, &before, &transition, &after);
		r->violated |= rw_monitor_recurrences(&memory, &c, &places, &before, &transition, &after);
		if (rw_own_detector(control, &settings))
			r->violated |= rw_monitor_told(&known, &after);
		before = after;
	}
	return RW_OK;
}
