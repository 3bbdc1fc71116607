#include "detect.h"

#include <stdlib.h>
#include <string.h>

static void tell(struct rw_detect *w, const struct rw_detect_sink *sink)
{
	uint32_t first = RW_MAX_PATHS;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		const struct rw_detected_path *p = &w->state->path[i];
		if (p->set == w->set[i] && p->state == w->group_state[i])
			continue;
		w->set[i] = p->set;
		w->group_state[i] = p->state;
		first = first == RW_MAX_PATHS ? i : first;
		sink->changed(sink->to, w->state->now_ns, i, p);
	}
	if (first != RW_MAX_PATHS)
		sink->complete(sink->to, first);
}

static void step(struct rw_detect *w, const struct rw_detect_sink *sink, uint8_t kind, uint32_t path)
{
	if (sink->stepped)
		sink->stepped(sink->to, kind, path);
	tell(w, sink);
}

static int64_t sane_time(int64_t ns)
{
	return ns > RW_DETECTION_TIME_MAX    ? RW_DETECTION_TIME_MAX
	       : ns < -RW_DETECTION_TIME_MAX ? -RW_DETECTION_TIME_MAX
					     : ns;
}

static uint64_t sane_delay(uint64_t ns) { return ns < RW_DETECTION_DELAY_MAX ? ns : RW_DETECTION_DELAY_MAX; }

struct rw_detect *rw_detect_open(uint32_t which, const int64_t *option, int64_t now_ns)
{
	const struct rw_detector *detector = rw_detector_list[which];
	struct rw_detect *w = calloc(1, sizeof *w);
	if (w)
		w->state = calloc(1, detector->bytes);
	if (!w || !w->state) {
		free(w);
		return NULL;
	}
	w->detector = detector;
	w->which = (uint8_t)which;
	memcpy(w->state->option, option, sizeof w->state->option);
	w->state->now_ns = sane_time(now_ns);
	if (detector->open)
		detector->open(w->state);
	return w;
}

void rw_detect_close(struct rw_detect *w)
{
	if (w)
		free(w->state);
	free(w);
}

void rw_detect_advance(struct rw_detect *w, int64_t now_ns, const struct rw_detect_sink *sink)
{
	now_ns = sane_time(now_ns);
	if (now_ns < w->state->now_ns)
		return;
	for (int decided; w->detector->decide && (decided = w->detector->decide(w->state, now_ns)) != 0;) {
		uint32_t place = (uint32_t)decided - 1;
		if (place < RW_MAX_PATHS)
			step(w, sink, RW_TRANSITION_JUDGE_SUBFLOW, place);
		else
			step(w, sink, RW_TRANSITION_JUDGE_SET, place - RW_MAX_PATHS);
	}
	w->state->now_ns = now_ns;
}

void rw_detect_join(struct rw_detect *w, uint32_t path, uint64_t srtt_ns, const struct rw_detect_sink *sink)
{
	w->state->path[path] = (struct rw_detected_path){.srtt_ns = sane_delay(srtt_ns), .live = 1};
	w->set[path] = w->group_state[path] = 0;
	w->detector->join(w->state, path);
	step(w, sink, RW_TRANSITION_DETECTOR_JOIN, path);
}

void rw_detect_leave(struct rw_detect *w, uint32_t path, const struct rw_detect_sink *sink)
{
	struct rw_detected_path *p = &w->state->path[path];
	w->detector->leave(w->state, path);
	p->live = p->set = p->state = 0;
	step(w, sink, RW_TRANSITION_DETECTOR_LEAVE, path);
}

void rw_detect_congestion(struct rw_detect *w, uint32_t path, enum rw_congestion kind,
			  const struct rw_detect_sink *sink)
{
	if (!w->detector->congestion)
		return;
	w->detector->congestion(w->state, path, kind);
	step(w, sink, kind == RW_CONGESTION_ECE ? RW_TRANSITION_DETECTOR_ECE : RW_TRANSITION_DETECTOR_LOSS, path);
}

void rw_detect_delivery(struct rw_detect *w, const struct rw_delivery *delivery, uint64_t srtt_ns)
{
	struct rw_delivery a = *delivery;
	a.delay_ns = sane_delay(a.delay_ns);
	w->state->path[a.path].srtt_ns = sane_delay(srtt_ns);
	if (w->detector->delivery)
		w->detector->delivery(w->state, &a);
}

void rw_detect_event(struct rw_detect *w, uint32_t path, const struct rw_event *e, uint64_t srtt_ns,
		     const struct rw_detect_sink *sink)
{
	rw_detect_advance(w, e->time_ns, sink);
	if (e->kind == RW_EVENT_ACK) {
		struct rw_delivery a = {path, e->delivered, e->newly_lost, e->rtt_ns};
		rw_detect_delivery(w, &a, srtt_ns);
	}
	if (e->kind == RW_EVENT_TIMEOUT && e->new_episode)
		rw_detect_congestion(w, path, RW_CONGESTION_TIMEOUT, sink);
	if (e->steps & (RW_STEP_RECOVERY | RW_STEP_TAIL_LOSS))
		rw_detect_congestion(w, path, RW_CONGESTION_LOSS, sink);
	/* A receiver repeats the echo until a reduction is announced to it. A repeated echo on an ACK without new data is no new mark. */
	if (e->flags & RW_ACK_ECE && e->delivered)
		rw_detect_congestion(w, path, RW_CONGESTION_ECE, sink);
}
