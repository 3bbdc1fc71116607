/* One connection's controller, driven by hand through the same machinery that a replay uses. */
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "detect.h"
#include "recorder.h"
#include "shadow.h"

struct rw_controller {
	struct rw_control control; /* the registry's, perhaps without a callback */
	struct rw_shadow *shadow;
	struct rw_detect *detect; /* null: the controller does not use sets */
	uint8_t given_sets;       /* a bit for each path given with a final set, until the controller has been told */
	uint8_t own_detector;     /* the detector's place + 1 if it is the controller's own */
	uint32_t acked[RW_MAX_PATHS]; /* segments acknowledged so far, in place of sequence numbers */
	struct rw_recorder recorder;  /* used after rw_controller_observe */
	struct rw_recording by;
	struct rw_transition_log log;
	struct rw_violations violations;
};

rw_status rw_controller_open(rw_controller **out, const rw_choice *choice, uint32_t mss_bytes, const char *without,
			     rw_error *error)
{
	memset(error, 0, sizeof *error);
	const struct rw_control *control = rw_control_find(choice->name);
	if (!control)
		return rw_unknown_control(choice->name, error);
	struct rw_settings settings;
	struct rw_control chosen = *control;
	rw_status status = rw_control_options(choice, control, &settings, error);
	if (status != RW_OK)
		return status;
	if (without && !rw_control_drop(&chosen, without)) {
		rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "%s has no callback '%.60s' that it could lack",
			     control->name, without);
		return RW_ERROR_BAD_VALUE;
	}
	rw_controller *c = calloc(1, sizeof *c);
	if (c)
		c->shadow = malloc(rw_shadow_bytes(RW_MAX_PATHS));
	if (c && settings.detector) {
		int64_t option[RW_MAX_OPTIONS];
		rw_choice defaults = {rw_detector_name(settings.detector - 1u), NULL, 0};
		uint32_t which;
		rw_detector_options(&defaults, &which, option, error);
		c->detect = rw_detect_open(which, option, INT64_MIN);
	}
	if (!c || !c->shadow || (settings.detector && !c->detect)) {
		rw_controller_close(c);
		rw_error_set(error, RW_ERROR_MEMORY, 0, 0, 0, "out of memory");
		return RW_ERROR_MEMORY;
	}
	c->own_detector = rw_own_detector(control, &settings);
	c->control = chosen;
	rw_shadow_open(c->shadow, &c->control, &settings, RW_MAX_PATHS, mss_bytes);
	*out = c;
	return RW_OK;
}

void rw_controller_close(rw_controller *c)
{
	if (c) {
		rw_detect_close(c->detect);
		free(c->log.row);
		free(c->shadow);
	}
	free(c);
}

static void set_changed(void *to, int64_t time_ns, uint32_t path, const struct rw_detected_path *now)
{
	(void)time_ns;
	rw_shadow_set(((rw_controller *)to)->shadow, path, now->set, now->state);
}

static void sets_complete(void *to, uint32_t first_path)
{
	rw_shadow_regrouped(((rw_controller *)to)->shadow, first_path);
}

static void stepped(void *to, uint8_t kind, uint32_t path)
{
	rw_controller *c = to;
	if (c->shadow->observer && c->recorder.detector == c->detect->which + 1)
		rw_recorder_detector_step(&c->recorder, c->detect, kind, path);
}

void rw_controller_advance(rw_controller *c, int64_t time_ns)
{
	struct rw_detect_sink sink = {set_changed, sets_complete, stepped, c};
	if (c->detect && time_ns != RW_TIME_UNKNOWN)
		rw_detect_advance(c->detect, time_ns, &sink);
}

static void tell_congestion(rw_controller *c, uint32_t path, enum rw_congestion kind, int64_t time_ns)
{
	struct rw_detect_sink sink = {set_changed, sets_complete, stepped, c};
	if (!c->detect || time_ns == RW_TIME_UNKNOWN)
		return;
	rw_detect_advance(c->detect, time_ns, &sink);
	rw_detect_congestion(c->detect, path, kind, &sink);
}

static struct rw_violations *violations_of(void *owner, uint32_t connection, uint8_t choice)
{
	(void)connection, (void)choice;
	return &((rw_controller *)owner)->violations;
}

void rw_controller_observe(rw_controller *c)
{
	c->by = (struct rw_recording){.log = &c->log, .owner = c, .violations = violations_of, .monitor = 1};
	rw_recorder_attach(&c->recorder, &c->by, c->shadow, 0, 0);
	c->recorder.detector = c->own_detector;
	if (c->detect)
		rw_detector_snapshot_take(c->detect, &c->recorder.detected[0]);
}

const rw_transition_row *rw_controller_transitions(const rw_controller *c, uint64_t *count)
{
	*count = c->log.count;
	return c->log.row;
}

static rw_status add_path(rw_controller *c, const rw_path_state *state, uint32_t *path, int join, rw_error *error)
{
	if (state->cwnd_q16 < RW_Q16_ONE || state->cwnd_q16 > RW_CWND_MAX_Q16)
		return rw_bad_value(error, "cwnd must be 1 to 1048576 segments");
	uint32_t i = 0;
	while (i < RW_MAX_PATHS && c->shadow->connection->path[i].live)
		i++;
	if (i == RW_MAX_PATHS)
		return rw_bad_value(error, "a connection has at most 8 paths");
	rw_shadow_place(c->shadow, i, state->cwnd_q16, state->ssthresh_q16, state->srtt_ns);
	struct rw_path *p = &c->shadow->connection->path[i];
	p->cwnd_cnt = state->cwnd_cnt;
	p->flight_peak_q16 = state->flight_peak_q16;
	p->group = state->group;
	p->group_state = state->group_state;
	p->recovering = state->recovering != 0;
	c->acked[i] = 0;
	if (state->group_state == RW_GROUP_FINAL)
		c->given_sets |= (uint8_t)(1 << i);
	if (join && c->shadow->control->join)
		c->shadow->control->join(c->shadow->connection, i);
	if (join)
		rw_shadow_stepped(c->shadow, RW_TRANSITION_JOIN, i);
	struct rw_detect_sink sink = {set_changed, sets_complete, join ? stepped : NULL, c};
	if (c->detect)
		rw_detect_join(c->detect, i, state->srtt_ns, &sink);
	if (!join && c->shadow->observer)
		rw_controller_observe(c); /* the path was there before the first step */
	*path = i;
	return RW_OK;
}

rw_status rw_controller_place(rw_controller *c, const rw_path_state *state, uint32_t *path, rw_error *error)
{
	return add_path(c, state, path, 0, error);
}

rw_status rw_controller_join(rw_controller *c, const rw_path_state *state, uint32_t *path, rw_error *error)
{
	return add_path(c, state, path, 1, error);
}

static int is_live(const rw_controller *c, uint32_t path)
{
	return path < RW_MAX_PATHS && c->shadow->connection->path[path].live;
}

/* Paths' sets are given one by one: the decision is complete with the first event. */
static void tell_given_sets(rw_controller *c)
{
	uint32_t first = 0;
	if (!c->given_sets)
		return;
	while (!(c->given_sets >> first & 1))
		first++;
	c->given_sets = 0;
	if (c->shadow->control->regrouped)
		rw_shadow_regrouped(c->shadow, first);
}

rw_status rw_controller_verdict(rw_controller *c, const rw_verdict *verdict, uint32_t count, rw_error *error)
{
	for (uint32_t i = 0; i < count; i++)
		if (!is_live(c, verdict[i].path) || verdict[i].group_state > RW_GROUP_FINAL)
			return rw_bad_value(error, "a verdict is of a path that there is, in a state that there is");
	tell_given_sets(c);
	for (uint32_t i = 0; i < count; i++) {
		const struct rw_path *p = &c->shadow->connection->path[verdict[i].path];
		if (p->group != verdict[i].group || p->group_state != verdict[i].group_state)
			rw_shadow_set(c->shadow, verdict[i].path, verdict[i].group, verdict[i].group_state);
	}
	if (count)
		rw_shadow_regrouped(c->shadow, verdict[0].path);
	return RW_OK;
}

/* Dissolves a set with fewer than two members. In a replay the detector does that; by hand there may be no detector. */
static void dissolve(rw_controller *c, uint32_t path)
{
	const struct rw_connection *connection = c->shadow->connection;
	uint32_t group = connection->path[path].group, others = 0, last = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (i != path && connection->path[i].live && connection->path[i].group == group) {
			others++;
			last = i;
		}
	if (group == 0 || others != 1)
		return;
	rw_shadow_set(c->shadow, path, 0, RW_GROUP_MONITOR);
	rw_shadow_set(c->shadow, last, 0, RW_GROUP_MONITOR);
	rw_shadow_regrouped(c->shadow, path);
}

rw_status rw_controller_leave(rw_controller *c, uint32_t path, rw_error *error)
{
	if (!is_live(c, path))
		return rw_bad_value(error, "no such path");
	tell_given_sets(c);
	struct rw_detect_sink sink = {set_changed, sets_complete, stepped, c};
	if (c->detect)
		rw_detect_leave(c->detect, path, &sink);
	dissolve(c, path);
	rw_shadow_leave(c->shadow, path);
	return RW_OK;
}

static int64_t time_of(int64_t time_ns) { return time_ns == RW_TIME_UNKNOWN ? 0 : time_ns; }

static const uint32_t SEGMENTS_MAX = 1 << 20;

rw_status rw_controller_rate(rw_controller *c, const rw_hand_rate *r, rw_error *error)
{
	if (!c->shadow->control->rate)
		return rw_bad_value(error, "the algorithm does not follow the delivery rate");
	if (!is_live(c, r->path))
		return rw_bad_value(error, "no such path");
	if (r->acked_segments > SEGMENTS_MAX || r->lost_segments > SEGMENTS_MAX || r->in_flight_before > SEGMENTS_MAX ||
	    r->in_flight > SEGMENTS_MAX || r->paced_segments > SEGMENTS_MAX || r->sent_in_flight > SEGMENTS_MAX ||
	    r->lost_since > SEGMENTS_MAX || r->window_least > SEGMENTS_MAX || r->window_most > SEGMENTS_MAX)
		return rw_bad_value(error, "acked, lost, in flight, paced and window must be 0 to 1048576 segments");
	if (r->repair > RW_REPAIR_TIMEOUT || r->prior_delivered > r->delivered)
		return rw_bad_value(error,
				    "a repair is none, recovery or timeout, and no more was delivered before than now");
	struct rw_rate sample = {.path = r->path,
				 .acked_segments = r->acked_segments,
				 .lost_segments = r->lost_segments,
				 .in_flight_before = r->in_flight_before,
				 .in_flight = r->in_flight,
				 .repair = r->repair,
				 .app_limited = r->app_limited != 0,
				 .began_ns = time_of(r->time_ns),
				 .time_ns = time_of(r->time_ns),
				 .rtt_ns = r->rtt_ns,
				 .delivered = r->delivered,
				 .prior_delivered = r->prior_delivered,
				 .interval_ns = r->interval_ns,
				 .held_ns = r->held_ns,
				 .paced_segments = r->paced_segments,
				 .paced_ns = r->paced_ns,
				 .paced_since_ns = (int64_t)((uint64_t)time_of(r->time_ns) - r->paced_ns),
				 .selective = r->selective != 0,
				 .window_least = r->window_least,
				 .window_most = r->window_most,
				 .window_since_ns = time_of(r->time_ns),
				 .window_limited = r->window_limited != 0,
				 .sent_in_flight = r->sent_in_flight,
				 .lost_since = r->lost_since};
	rw_controller_advance(c, r->time_ns);
	rw_shadow_rate(c->shadow, &sample);
	return RW_OK;
}

rw_status rw_controller_lost(rw_controller *c, const rw_hand_lost *l, rw_error *error)
{
	if (!c->shadow->control->lost)
		return rw_bad_value(error, "the algorithm does not ask which segments are lost");
	if (!is_live(c, l->path))
		return rw_bad_value(error, "no such path");
	if (l->in_flight > SEGMENTS_MAX || l->lost_since > SEGMENTS_MAX)
		return rw_bad_value(error, "in flight and lost must be 0 to 1048576 segments");
	struct rw_lost lost = {.path = l->path,
			       .in_flight = l->in_flight,
			       .lost_since = l->lost_since,
			       .delivered = l->delivered,
			       .time_ns = time_of(l->time_ns),
			       .app_limited = l->app_limited != 0,
			       .continues = l->continues != 0,
			       .selective = l->selective != 0};
	rw_controller_advance(c, l->time_ns);
	rw_shadow_lost(c->shadow, &lost);
	return RW_OK;
}

/* A whole window is in flight, and is delivered in the round trip of this ACK. */
static struct rw_rate whole_window(const rw_controller *c, const struct rw_ack *ack)
{
	const struct rw_path *p = &c->shadow->connection->path[ack->path];
	uint32_t window = (uint32_t)(p->cwnd_q16 >> 16), delivered = c->acked[ack->path];
	uint64_t rtt_ns = ack->rtt_newest_ns ? ack->rtt_newest_ns : ack->rtt_ns;
	return (struct rw_rate){.path = ack->path,
				.acked_segments = ack->acked_segments,
				.in_flight_before = window,
				.sent_in_flight = window,
				.selective = 1,
				.window_limited = 1,
				.in_flight = window > ack->acked_segments ? window - ack->acked_segments : 0,
				.repair = p->recovering ? RW_REPAIR_RECOVERY : RW_REPAIR_NONE,
				.began_ns = ack->time_ns,
				.time_ns = ack->time_ns,
				.rtt_ns = rtt_ns,
				.delivered = (uint64_t)delivered + 1,
				.prior_delivered = delivered > window ? (uint64_t)delivered - window + 1 : 0,
				.interval_ns = ack->acked_segments ? rtt_ns : 0};
}

rw_status rw_controller_ack(rw_controller *c, const rw_hand_ack *a, rw_error *error)
{
	if (!is_live(c, a->path))
		return rw_bad_value(error, "no such path");
	struct rw_path *p = &c->shadow->connection->path[a->path];
	if (a->acked_segments > SEGMENTS_MAX)
		return rw_bad_value(error, "acked must be 0 to 1048576 segments");
	if (a->marked_segments > a->acked_segments)
		return rw_bad_value(error, "more segments marked than acked");
	if (a->growth > RW_GROWTH_NONE)
		return rw_bad_value(error, "growth must be allowed, withheld or none");
	if (p->recovering && a->growth != RW_GROWTH_NONE)
		return rw_bad_value(error, "a window does not grow in a recovery");
	tell_given_sets(c);
	c->acked[a->path] += a->acked_segments;
	/* Assume that a whole window is in flight: a round trip ends with the ACK of the segment that was next at its beginning. */
	struct rw_ack ack = {.path = a->path,
			     .acked_segments = a->acked_segments,
			     .rtt_ns = a->rtt_ns,
			     .rtt_newest_ns = a->rtt_newest_ns,
			     .time_ns = time_of(a->time_ns),
			     .una = c->acked[a->path],
			     .next = c->acked[a->path] + (uint32_t)(p->cwnd_q16 >> 16),
			     .marked_segments = a->marked_segments};
	uint64_t srtt = p->srtt_ns;
	if (a->rtt_ns)
		srtt = srtt ? (uint64_t)((int64_t)srtt + ((int64_t)a->rtt_ns - (int64_t)srtt) / 8) : a->rtt_ns;
	rw_controller_advance(c, a->time_ns);
	if (c->detect && a->time_ns != RW_TIME_UNKNOWN) {
		struct rw_delivery delivery = {a->path, a->acked_segments, 0, a->rtt_ns};
		rw_detect_delivery(c->detect, &delivery, srtt);
	}
	if (a->acked_segments)
		rw_shadow_delivered(c->shadow, &ack);
	if (a->rtt_ns | a->rtt_newest_ns)
		rw_shadow_rtt(c->shadow, &ack, srtt);
	if (c->shadow->control->rate) {
		struct rw_rate sample = whole_window(c, &ack);
		rw_shadow_rate(c->shadow, &sample);
		return RW_OK;
	}
	if (a->growth == RW_GROWTH_ALLOWED)
		rw_shadow_raise(c->shadow, &ack);
	else if (a->growth == RW_GROWTH_WITHHELD)
		rw_shadow_withhold(c->shadow, &ack);
	return RW_OK;
}

rw_status rw_controller_idle(rw_controller *c, uint32_t path, uint64_t idle_ns, int64_t time_ns, rw_error *error)
{
	if (!is_live(c, path))
		return rw_bad_value(error, "no such path");
	tell_given_sets(c);
	rw_controller_advance(c, time_ns);
	if (c->shadow->control->idle)
		c->shadow->control->idle(c->shadow->connection, path, time_of(time_ns), idle_ns);
	return RW_OK;
}

rw_status rw_controller_resume(rw_controller *c, uint32_t path, uint32_t *resumed, rw_error *error)
{
	if (!is_live(c, path))
		return rw_bad_value(error, "no such path");
	tell_given_sets(c);
	*resumed = c->shadow->control->resume && c->shadow->control->resume(c->shadow->connection, path);
	if (*resumed)
		rw_shadow_stepped(c->shadow, RW_TRANSITION_MACHINERY, path);
	return RW_OK;
}

uint64_t rw_controller_tick_ns(const rw_controller *c)
{
	return c->shadow->control->tick_ns ? c->shadow->control->tick_ns(c->shadow->connection) : 0;
}

/* The recovery that a path was given in is over: another event has settled its window. */
static void end_recovery(rw_controller *c, uint32_t path)
{
	struct rw_path *p = &c->shadow->connection->path[path];
	if (!p->recovering)
		return;
	p->recovering = 0;
	rw_shadow_stepped(c->shadow, RW_TRANSITION_MACHINERY, path);
}

static rw_status reduce(rw_controller *c, uint32_t path, int marked, int64_t time_ns, rw_error *error)
{
	if (!is_live(c, path))
		return rw_bad_value(error, "no such path");
	tell_given_sets(c);
	tell_congestion(c, path, marked ? RW_CONGESTION_ECE : RW_CONGESTION_LOSS, time_ns);
	rw_shadow_reduce(c->shadow, path, marked);
	/* By hand there is no recovery to pass through: the window is where recovery would leave it. */
	if (!c->shadow->control->rate &&
	    c->shadow->connection->path[path].cwnd_q16 != c->shadow->connection->path[path].ssthresh_q16) {
		c->shadow->connection->path[path].cwnd_q16 = c->shadow->connection->path[path].ssthresh_q16;
		rw_shadow_stepped(c->shadow, RW_TRANSITION_MACHINERY, path);
	}
	end_recovery(c, path);
	return RW_OK;
}

rw_status rw_controller_loss(rw_controller *c, uint32_t path, int64_t time_ns, rw_error *error)
{
	return reduce(c, path, 0, time_ns, error);
}

rw_status rw_controller_ece(rw_controller *c, uint32_t path, int64_t time_ns, rw_error *error)
{
	return reduce(c, path, 1, time_ns, error);
}

rw_status rw_controller_timeout(rw_controller *c, uint32_t path, int64_t time_ns, rw_error *error)
{
	if (!is_live(c, path))
		return rw_bad_value(error, "no such path");
	tell_given_sets(c);
	tell_congestion(c, path, RW_CONGESTION_TIMEOUT, time_ns);
	rw_shadow_timeout(c->shadow, path, 0, 1);
	end_recovery(c, path);
	return RW_OK;
}

rw_status rw_controller_undo(rw_controller *c, uint32_t path, rw_error *error)
{
	if (!is_live(c, path))
		return rw_bad_value(error, "no such path");
	tell_given_sets(c);
	if (!rw_shadow_undo(c->shadow, path))
		return rw_bad_value(error, "no reduction that could be undone");
	end_recovery(c, path);
	return RW_OK;
}

/* What the other sender's machinery did to the window. */
static void take_over(struct rw_path *p, const rw_path_state *from)
{
	p->cwnd_q16 = from->cwnd_q16;
	p->ssthresh_q16 = from->ssthresh_q16;
	p->recovering = from->recovering != 0;
}

rw_status rw_controller_follow(rw_controller *c, const rw_hand_step *step, rw_error *error)
{
	struct rw_shadow *s = c->shadow;
	uint32_t path = step->path;
	struct rw_ack ack = {path,      step->acked_segments, step->rtt_ns,         step->rtt_newest_ns, step->time_ns,
			     step->una, step->next,           step->marked_segments};
	if (path >= RW_MAX_PATHS || is_live(c, path) == (step->kind == RW_TRANSITION_JOIN))
		return rw_bad_value(error, "no such path, or it has joined already");
	if (step->after.cwnd_q16 < RW_Q16_ONE || step->after.cwnd_q16 > RW_CWND_MAX_Q16)
		return rw_bad_value(error, "cwnd must be 1 to 1048576 segments");
	switch (step->kind) {
	case RW_TRANSITION_JOIN:
		rw_shadow_join(s, path, step->after.srtt_ns);
		break;
	case RW_TRANSITION_LEAVE:
		rw_shadow_leave(s, path);
		break;
	case RW_TRANSITION_DELIVERED:
		rw_shadow_delivered(s, &ack);
		break;
	case RW_TRANSITION_RTT:
		rw_shadow_rtt(s, &ack, step->after.srtt_ns);
		break;
	case RW_TRANSITION_ACK:
		rw_shadow_raise(s, &ack);
		break;
	case RW_TRANSITION_LOSS:
	case RW_TRANSITION_ECE:
		rw_shadow_reduce(s, path, step->kind == RW_TRANSITION_ECE);
		break;
	case RW_TRANSITION_TIMEOUT:
		rw_shadow_timeout(s, path, (uint32_t)(step->after.cwnd_q16 >> 16) - 1, 1);
		break;
	case RW_TRANSITION_UNDO:
		if (!rw_shadow_undo(s, path))
			return rw_bad_value(error, "no reduction that could be undone");
		take_over(&s->connection->path[path], &step->after);
		break;
	case RW_TRANSITION_IDLE:
	case RW_TRANSITION_MACHINERY:
		take_over(&s->connection->path[path], &step->after);
		rw_shadow_stepped(s, step->kind, path);
		break;
	default:
		return rw_bad_value(error, "a step of a detector cannot be followed");
	}
	return RW_OK;
}

rw_status rw_controller_path(const rw_controller *c, uint32_t path, rw_path_state *state, uint32_t *phase,
			     rw_error *error)
{
	if (!is_live(c, path))
		return rw_bad_value(error, "no such path");
	const struct rw_path *p = &c->shadow->connection->path[path];
	memset(state, 0, sizeof *state);
	state->cwnd_q16 = p->cwnd_q16;
	state->ssthresh_q16 = p->ssthresh_q16;
	state->srtt_ns = p->srtt_ns;
	state->flight_peak_q16 = p->flight_peak_q16;
	state->cwnd_cnt = p->cwnd_cnt;
	state->group = p->group;
	state->group_state = p->group_state;
	state->recovering = p->recovering;
	*phase = rw_shadow_phase(c->shadow, path, RW_SENDER_OPEN);
	return RW_OK;
}

/* The words whose names are valid in the chosen mode. */
static const struct rw_word_name *word_at(const rw_controller *c, uint32_t index)
{
	const struct rw_word_name *w = c->shadow->control->words;
	for (uint32_t i = 0; w->name; w++) {
		if (w->modes && !(w->modes >> c->shadow->connection->option[0] & 1))
			continue;
		if (i++ == index)
			return w;
	}
	return NULL;
}

void rw_controller_word_describe(const rw_controller *c, uint32_t index, rw_word_info *info)
{
	const struct rw_word_name *w = word_at(c, index);
	memset(info, 0, sizeof *info);
	if (w)
		*info = (rw_word_info){w->name, w->of_path, w->fraction_bits, w->is_signed, w->of_set, w->index};
}

/* The bits of a half that are the word's. */
static uint32_t mask_of(const struct rw_word_name *w) { return w->bits ? ((uint32_t)1 << w->bits) - 1 : UINT32_MAX; }

rw_status rw_controller_word(const rw_controller *c, uint32_t index, uint32_t path, uint64_t *value, rw_error *error)
{
	const struct rw_word_name *w = word_at(c, index);
	if (!w || (w->of_path && path >= RW_MAX_PATHS))
		return rw_bad_value(error, "no such value");
	const struct rw_path *p = &c->shadow->connection->path[w->of_path ? path : 0];
	*value = !w->of_path ? c->shadow->connection->word[w->index]
		 : w->half   ? p->half[w->index] & mask_of(w)
			     : p->word[w->index];
	return RW_OK;
}

rw_status rw_controller_set_word(rw_controller *c, uint32_t index, uint32_t path, uint64_t value, rw_error *error)
{
	const struct rw_word_name *w = word_at(c, index);
	if (!w || (w->of_path && path >= RW_MAX_PATHS))
		return rw_bad_value(error, "no such value");
	struct rw_path *p = &c->shadow->connection->path[w->of_path ? path : 0];
	if (!w->of_path) {
		c->shadow->connection->word[w->index] = value;
	} else if (!w->half) {
		p->word[w->index] = value;
	} else if (value > mask_of(w)) {
		rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "%s is a number of %u bits", w->name,
			     w->bits ? w->bits : 32u);
		return RW_ERROR_BAD_VALUE;
	} else {
		p->half[w->index] = (p->half[w->index] & ~mask_of(w)) | (uint32_t)value;
	}
	return RW_OK;
}
