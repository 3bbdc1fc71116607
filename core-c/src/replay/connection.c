/* A connection during its replay: its places, its controllers' shadows, its detectors. */
#include <stdlib.h>

#include "state.h"

/* The receiver of a detector's changes: the connection, and the detector. */
struct told {
	rw_replay *r;
	uint32_t connection;
	const struct rw_detect *detect;
};

/* A path's set changed: writes a row, and tells every controller that uses this detector. */
static void set_changed(void *to, int64_t time_ns, uint32_t path, const struct rw_detected_path *now)
{
	const struct told *t = to;
	rw_replay *r = t->r;
	const struct rw_flow_connection *c = &r->survey.connection[t->connection];
	for (uint32_t i = 0; i < c->subflows; i++) {
		uint32_t number = r->survey.subflow[c->first_subflow + i];
		if (r->live[number] && r->live[number]->slot == path)
			rw_add_set(r, &r->survey.flow[number], t->detect->which, time_ns, now);
	}
	for (uint32_t k = 0; r->live_connection[t->connection].shadows && k < r->choices; k++)
		if (r->choice[k].settings.detector == t->detect->which + 1)
			rw_shadow_set(rw_connection_shadow(r, t->connection, k), path, now->set, now->state);
}

static void sets_complete(void *to, uint32_t first_path)
{
	const struct told *t = to;
	for (uint32_t k = 0; t->r->live_connection[t->connection].shadows && k < t->r->choices; k++)
		if (t->r->choice[k].settings.detector == t->detect->which + 1)
			rw_shadow_regrouped(rw_connection_shadow(t->r, t->connection, k), first_path);
}

/* The detector's own steps go to the logs of its controllers. */
static void stepped(void *to, uint8_t kind, uint32_t path)
{
	const struct told *t = to;
	struct rw_recorder *recorder = t->r->live_connection[t->connection].recorder;
	for (uint32_t k = 0; k < t->r->choices; k++)
		if (recorder[k].detector == t->detect->which + 1)
			rw_recorder_detector_step(&recorder[k], t->detect, kind, path);
}

static struct rw_detect_sink sink_of(struct told *t)
{
	int observed = t->r->live_connection[t->connection].recorder != NULL;
	return (struct rw_detect_sink){set_changed, sets_complete, observed ? stepped : NULL, t};
}

RW_ASIDE void rw_connection_detect(rw_replay *r, uint32_t connection, uint32_t slot, const struct rw_event *e,
				   uint64_t srtt_ns)
{
	for (struct rw_detect *w = r->live_connection[connection].detect; w; w = w->next) {
		struct told told = {r, connection, w};
		struct rw_detect_sink sink = sink_of(&told);
		rw_detect_event(w, slot, e, srtt_ns, &sink);
	}
}

static void detect_join(rw_replay *r, const struct rw_flow *f, const struct live *l, int64_t time_ns)
{
	for (struct rw_detect *w = r->live_connection[f->connection].detect; w; w = w->next) {
		struct told told = {r, f->connection, w};
		struct rw_detect_sink sink = sink_of(&told);
		rw_detect_advance(w, time_ns, &sink);
		rw_detect_join(w, l->slot, l->sender.tcp.rtt.srtt_ns, &sink);
		rw_add_set(r, f, w->which, time_ns, &w->state->path[l->slot]);
	}
}

static void close_detectors(struct live_connection *lc)
{
	while (lc->detect) {
		struct rw_detect *next = lc->detect->next;
		rw_detect_close(lc->detect);
		lc->detect = next;
	}
}

/* Whether all live subflows have sent their FIN. */
static int is_closing(const rw_replay *r, uint32_t connection)
{
	const struct rw_flow_connection *c = &r->survey.connection[connection];
	for (uint32_t i = 0; i < c->subflows; i++) {
		const struct live *l = r->live[r->survey.subflow[c->first_subflow + i]];
		if (l && l->slot != NO_SLOT && !l->fin)
			return 0;
	}
	return 1;
}

/* The remaining windows are no longer coupled. No row is written, because the last sets were true. */
static void dissolve_sets(rw_replay *r, uint32_t connection)
{
	for (uint32_t k = 0; r->live_connection[connection].shadows && k < r->choices; k++) {
		struct rw_shadow *s = rw_connection_shadow(r, connection, k);
		uint32_t first = RW_MAX_PATHS;
		for (uint32_t i = 0; i < rw_connection_paths(r, connection); i++)
			if (s->connection->path[i].group) {
				first = first == RW_MAX_PATHS ? i : first;
				rw_shadow_set(s, i, 0, RW_GROUP_MONITOR);
			}
		if (first != RW_MAX_PATHS)
			rw_shadow_regrouped(s, first);
	}
}

static void detect_leave(rw_replay *r, const struct rw_flow *f, uint32_t slot, int64_t time_ns)
{
	struct live_connection *lc = &r->live_connection[f->connection];
	if (lc->detect && is_closing(r, f->connection)) {
		lc->closing = 1;
		for (const struct rw_detect *w = lc->detect; w && lc->recorder; w = w->next) {
			struct told told = {r, f->connection, w};
			stepped(&told, RW_TRANSITION_DETECTOR_END, 0);
		}
		close_detectors(lc);
		dissolve_sets(r, f->connection);
	}
	for (struct rw_detect *w = r->live_connection[f->connection].detect; w; w = w->next) {
		struct told told = {r, f->connection, w};
		struct rw_detect_sink sink = sink_of(&told);
		rw_detect_advance(w, time_ns, &sink);
		rw_detect_leave(w, slot, &sink);
	}
}

/* Makes a connection's detectors, at the first event with several subflows. 0, or 1: out of memory. */
RW_ASIDE int rw_connection_open_detectors(rw_replay *r, uint32_t connection, int64_t time_ns)
{
	struct live_connection *lc = &r->live_connection[connection];
	struct rw_detect **last = &lc->detect;
	const struct rw_flow_connection *c = &r->survey.connection[connection];
	for (uint32_t which = 0; which < RW_DETECTORS_MAX; which++) {
		if (!r->detector[which].wanted)
			continue;
		*last = rw_detect_open(which, r->detector[which].option, time_ns);
		if (!*last)
			return 1;
		last = &(*last)->next;
	}
	for (uint32_t i = 0; i < c->subflows; i++) {
		uint32_t number = r->survey.subflow[c->first_subflow + i];
		if (r->live[number] && r->live[number]->slot != NO_SLOT)
			detect_join(r, &r->survey.flow[number], r->live[number], time_ns);
	}
	return 0;
}

RW_ASIDE void rw_connection_establish(rw_replay *r, const struct rw_flow *f, struct live *l, const struct rw_packet *p)
{
	struct live_connection *lc = &r->live_connection[f->connection];
	l->established = 1;
	if (l->sender.rates)
		l->sender.rates->began_ns = p->time_ns;
	l->slot = 0;
	while (l->slot < RW_MAX_PATHS && lc->slots_used >> l->slot & 1)
		l->slot++;
	if (l->slot == RW_MAX_PATHS) {
		l->slot = NO_SLOT;
		l->crowded_out = 1;
		rw_oddity_add(&r->oddities, RW_ODDITY_TOO_MANY_SUBFLOWS, p->file, p->offset);
		return;
	}
	lc->slots_used |= (uint8_t)(1 << l->slot);
	rw_add_mark(r, f, p->time_ns, RW_MARK_JOIN, (uint32_t)(l->sender.tcp.rtt.srtt_ns / 1000));
	for (uint32_t k = 0; lc->shadows && k < r->choices; k++)
		rw_shadow_join(rw_connection_shadow(r, f->connection, k), l->slot, l->sender.tcp.rtt.srtt_ns);
	lc->closing = 0;
	detect_join(r, f, l, p->time_ns);
}

/* Observes the steps of the controllers that have a specification, but not those of candidates. */
static int observe(rw_replay *r, uint32_t connection)
{
	struct live_connection *lc = &r->live_connection[connection];
	lc->recorder = calloc(r->choices, sizeof *lc->recorder);
	if (!lc->recorder)
		return 1;
	for (uint32_t k = 0; k < r->choices - r->limits.candidates; k++)
		if (rw_is_monitored(r->choice[k].control)) {
			rw_recorder_attach(&lc->recorder[k], &r->recording, rw_connection_shadow(r, connection, k),
					   connection, (uint8_t)k);
			lc->recorder[k].steps = &lc->monitored;
			lc->recorder[k].detector = rw_own_detector(r->choice[k].control, &r->choice[k].settings);
		}
	return 0;
}

void rw_connection_release(const rw_replay *r, uint32_t connection)
{
	struct live_connection *lc = &r->live_connection[connection];
	close_detectors(lc);
	for (uint32_t k = 0; lc->shadows && k < r->choices; k++)
		rw_shadow_close(rw_connection_shadow(r, connection, k));
	free(lc->shadows);
	free(lc->recorder);
	lc->shadows = NULL;
	lc->recorder = NULL;
}

/*
 * Makes a connection's shadows when the first event needs them, because most flows of a large capture never acknowledge data. No
 * window has changed until then, so the present subflows can join now, in their order. Each has the round
 * trip from before this event: srtt_ns is that of the event's subflow.
 */
RW_ASIDE int rw_connection_need_shadows(rw_replay *r, uint32_t connection, uint32_t slot, uint64_t srtt_ns)
{
	struct live_connection *lc = &r->live_connection[connection];
	const struct rw_flow_connection *c = &r->survey.connection[connection];
	if (lc->shadows || r->choices == 0)
		return 0;
	lc->shadows = malloc(r->choices * rw_shadow_bytes(rw_connection_paths(r, connection)));
	if (!lc->shadows)
		return 1;
	const struct live *in_slot[RW_MAX_PATHS] = {0};
	uint32_t mss = 0;
	for (uint32_t i = 0; i < c->subflows; i++) {
		uint32_t number = r->survey.subflow[c->first_subflow + i];
		const struct rw_flow *f = &r->survey.flow[number];
		const struct live *l = r->live[number];
		if (!l || l->slot == NO_SLOT)
			continue;
		in_slot[l->slot] = l;
		uint32_t payload = f->side[f->source].payload_max, announced = f->side[!f->source].mss;
		if (mss == 0)
			mss = payload && (announced == 0 || payload < announced) ? payload : announced;
	}
	for (uint32_t k = 0; k < r->choices; k++)
		rw_shadow_open(rw_connection_shadow(r, connection, k), r->choice[k].control, &r->choice[k].settings,
			       rw_connection_paths(r, connection), mss);
	if ((r->limits.monitor || r->limits.transitions) && observe(r, connection))
		return 1;
	for (uint32_t k = 0; k < r->choices; k++) {
		struct rw_shadow *shadow = rw_connection_shadow(r, connection, k);
		for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
			if (in_slot[i])
				rw_shadow_join(shadow, i, i == slot ? srtt_ns : in_slot[i]->sender.tcp.rtt.srtt_ns);
	}
	return 0;
}

RW_ASIDE void rw_connection_leave(rw_replay *r, const struct rw_flow *f, struct live *l, int64_t time_ns)
{
	if (!l->established || l->left)
		return;
	struct live_connection *lc = &r->live_connection[f->connection];
	l->left = 1;
	rw_reconstruction_retire(&l->sender);
	if (l->slot != NO_SLOT) {
		rw_add_mark(r, f, time_ns, RW_MARK_LEAVE, 0);
		detect_leave(r, f, l->slot, time_ns);
		for (uint32_t k = 0; lc->shadows && k < r->choices; k++)
			rw_shadow_leave(rw_connection_shadow(r, f->connection, k), l->slot);
		lc->slots_used &= (uint8_t)~(1 << l->slot);
		l->slot = NO_SLOT;
	}
	if (++lc->left == r->survey.connection[f->connection].subflows)
		rw_connection_release(r, f->connection); /* no further subflow can join */
}
