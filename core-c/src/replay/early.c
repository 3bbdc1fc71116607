#include "early.h"
#include "pass.h"

#include <stdlib.h>

#define MS 1000000ll
/* Before any time that a capture can hold, with room to count on from it. */
#define NEVER (INT64_MIN / 4)
/* Nothing waits longer: a clock that jumped. */
#define AHEAD_MAX_NS (4000 * MS)
/* Enough packets to know the sender's clock by. */
#define AHEAD_MIN_NS (500 * MS)
/* Packets of all flows that wait to be replayed; beyond it they are replayed as they were captured. */
#define WAITING_MAX (1u << 18)
/* Clocks of two hosts drift apart by less: 100 us in a second. */
#define DRIFT_PER_S 10000

/* Values of the receiver's clock whose first arrival is remembered, and echoed later. */
#define ECHOES_MAX 1024
/* An empty ring as large as this is not kept for the flow's next burst. */
#define RING_KEPT 4096

struct echo {
	uint32_t value;
	int64_t time_ns; /* when it first reached the sender */
};

/* A packet, and the time in which it can have been sent. */
struct sending {
	struct rw_packet packet;
	int64_t earliest_ns, latest_ns;
};

struct waiting {
	uint32_t head, count, capacity;
	struct sending *ring;
	struct echo *echo;
	uint32_t echoes, echo_room; /* ever seen; as many of the last as there is room for are kept */
	int64_t low_ns, high_ns, at_ns; /* bounds of the sender's tick 0 on the capture's clock, drifting; and when */
	int64_t round_trip_ns; /* the shortest; 0 beside the sender */
	int64_t last_ns;
	uint32_t first_value;
	uint16_t identification; /* highest so far, where `numbered` */
	uint8_t ticks, started, numbered;
};

struct rw_early {
	const struct rw_survey *survey;
	struct rw_pass *pass;
	struct rw_flow_index index;
	const uint8_t *send_times; /* of each flow */
	struct waiting **flow;     /* null before a flow's first packet, after its last, and where it is not needed */
	struct rw_packet taken;
	int64_t ahead_ns, read_ns;
	uint64_t passed, read; /* records that the replay has, that this reader has */
	uint32_t waiting;
	uint8_t ended;
};

/* The shortest round trip that the flow shows. 0: none. */
static int64_t shortest_round_trip_ns(const struct rw_flow *f)
{
	int64_t shortest = f->handshake && f->established_ns > f->syn_ns ? f->established_ns - f->syn_ns : 0;
	if (f->clock && f->clock->side[0].echo_ns && f->clock->side[1].echo_ns) {
		int64_t echoed = (int64_t)(f->clock->side[0].echo_ns + f->clock->side[1].echo_ns);
		shortest = !shortest || echoed < shortest ? echoed : shortest;
	}
	return shortest < AHEAD_MAX_NS ? shortest : 0;
}

enum rw_send_times rw_send_times_of(const struct rw_flow *f, uint8_t vantage)
{
	int away = vantage == RW_VANTAGE_MIDDLE || vantage == RW_VANTAGE_RECEIVER;
	if (vantage == RW_VANTAGE_SENDER)
		return rw_clock_queued(f, f->source) ? RW_SEND_TIMES_TIMESTAMPS : RW_SEND_TIMES_CAPTURED;
	if (!away || shortest_round_trip_ns(f) == 0)
		return RW_SEND_TIMES_CAPTURED;
	return rw_clock_ticks(f, f->source) ? RW_SEND_TIMES_TIMESTAMPS : RW_SEND_TIMES_ROUND_TRIP;
}

int rw_early_waits(const struct rw_flow *f, const struct rw_packet *p)
{
	if (p->payload_bytes || p->flags & RW_TCP_FIN)
		return 1;
	return !(p->flags & (RW_TCP_SYN | RW_TCP_RST)) && p->time_ns > f->established_ns;
}

/* How much of the round trip lies before the capture. */
static int64_t round_trip_before_ns(const struct rw_flow *f)
{
	return f->near == 1 + f->source ? 0 : shortest_round_trip_ns(f);
}

/* From a flow's first packet in this reader's sight to its last in the replay's. Null: out of memory. */
static struct waiting *waiting_of(struct rw_early *e, uint32_t flow)
{
	struct waiting *w = e->flow[flow];
	if (!w && (w = calloc(1, sizeof *w))) {
		w->ticks = e->send_times[flow] == RW_SEND_TIMES_TIMESTAMPS;
		w->round_trip_ns = round_trip_before_ns(&e->survey->flow[flow]);
		e->flow[flow] = w;
	}
	return w;
}

static void forget(struct waiting *w)
{
	if (!w)
		return;
	free(w->ring);
	free(w->echo);
	free(w);
}

void rw_early_end(struct rw_early *e, uint32_t flow)
{
	if (e->flow[flow])
		e->waiting -= e->flow[flow]->count;
	forget(e->flow[flow]);
	e->flow[flow] = NULL;
}

enum rw_status rw_early_open(struct rw_early **out, const int *fds, uint32_t files, const struct rw_survey *survey,
			     const uint8_t *send_times, rw_error *error)
{
	struct rw_early *e = calloc(1, sizeof *e);
	enum rw_status status = RW_ERROR_MEMORY;
	if (e) {
		e->survey = survey;
		e->send_times = send_times;
		e->read_ns = INT64_MIN;
		e->flow = calloc(survey->flows + 1, sizeof *e->flow);
		if (e->flow && (survey->journal || !rw_flow_index_copy(&e->index, &survey->index)))
			status = rw_pass_open(&e->pass, fds, files, survey, &e->index, 0, error);
	}
	for (uint32_t i = 0; status == RW_OK && i < survey->flows; i++) {
		if (send_times[i] == RW_SEND_TIMES_CAPTURED)
			continue;
		const struct rw_flow *f = &survey->flow[i];
		int64_t ahead = round_trip_before_ns(f) + AHEAD_MIN_NS;
		if (send_times[i] == RW_SEND_TIMES_TIMESTAMPS)
			ahead += (int64_t)f->clock->side[f->source].lag_most_us * 1000;
		if (ahead > e->ahead_ns)
			e->ahead_ns = ahead < AHEAD_MAX_NS ? ahead : AHEAD_MAX_NS;
	}
	if (status != RW_OK) {
		if (status == RW_ERROR_MEMORY)
			rw_error_set(error, RW_ERROR_MEMORY, 0, 0, 0, "out of memory");
		rw_early_close(e);
		return status;
	}
	*out = e;
	return RW_OK;
}

void rw_early_close(struct rw_early *e)
{
	if (!e)
		return;
	for (uint32_t i = 0; e->flow && i < e->survey->flows; i++)
		forget(e->flow[i]);
	free(e->flow);
	rw_flow_index_close(&e->index);
	rw_pass_close(e->pass);
	free(e);
}

/* When the sender's clock began to show this packet's value, were tick 0 at 0. */
static int64_t tick_ns(const struct waiting *w, const struct rw_packet *p)
{
	return (int64_t)rw_seq_diff(p->ts_value, w->first_value) * RW_CLOCK_TICK_NS;
}

static struct echo *echo_at(struct waiting *w, uint32_t i) { return &w->echo[i % w->echo_room]; }

/* An ACK reached the sender: from now on it echoes this value. */
static int see_ack(struct waiting *w, const struct rw_packet *p)
{
	if (!w->ticks || !p->has_timestamps)
		return 0;
	if (w->echoes == w->echo_room && w->echo_room < ECHOES_MAX) {
		uint32_t room = w->echo_room ? w->echo_room * 4 : 16;
		struct echo *grown = realloc(w->echo, room * sizeof *grown);
		if (!grown)
			return 1;
		w->echo = grown;
		w->echo_room = room;
	}
	if (w->echoes && rw_seq_diff(p->ts_value, echo_at(w, w->echoes - 1)->value) <= 0)
		return 0;
	*echo_at(w, w->echoes++) = (struct echo){p->ts_value, p->time_ns};
	return 0;
}

/* A packet that echoes a value was sent after that value arrived, and before the next one did. */
static void bound_by_echo(struct waiting *w, struct sending *s)
{
	uint32_t low = w->echoes > w->echo_room ? w->echoes - w->echo_room : 0, high = w->echoes, first = low;
	while (low < high) { /* the first that is newer */
		uint32_t middle = low + (high - low) / 2;
		if (rw_seq_diff(echo_at(w, middle)->value, s->packet.ts_echo) > 0)
			high = middle;
		else
			low = middle + 1;
	}
	if (low == first || echo_at(w, low - 1)->value != s->packet.ts_echo)
		return; /* nobody is known to have sent that value: some hosts put other things there */
	if (low < w->echoes && echo_at(w, low)->time_ns < s->latest_ns)
		s->latest_ns = echo_at(w, low)->time_ns - 1;
	s->earliest_ns = echo_at(w, low - 1)->time_ns + 1;
}

/* Each packet says where the sender's ticks lie: it was sent in the one that it names. */
static void follow_clock(struct waiting *w, const struct sending *s)
{
	const struct rw_packet *p = &s->packet;
	if (!w->started) {
		w->started = 1;
		w->first_value = p->ts_value;
		w->at_ns = p->time_ns;
		w->high_ns = s->latest_ns - w->round_trip_ns;
		w->low_ns = NEVER;
	}
	int64_t passed = p->time_ns - w->at_ns, drift = passed > 0 ? passed / DRIFT_PER_S : 0;
	int64_t high = s->latest_ns - tick_ns(w, p);
	w->at_ns = p->time_ns;
	w->high_ns += drift;
	w->low_ns = w->low_ns - drift > NEVER ? w->low_ns - drift : NEVER;
	if (high < w->high_ns)
		w->high_ns = high;
	if (s->earliest_ns != NEVER) {
		int64_t low = s->earliest_ns - tick_ns(w, p) - RW_CLOCK_TICK_NS;
		w->low_ns = low > w->low_ns ? low : w->low_ns;
	}
	if (w->low_ns > w->high_ns) /* a clock that jumped: begin anew */
		w->low_ns = w->high_ns = high;
}

/* 0, or 1 when memory is used up. */
static int wait_for_replay(struct rw_early *e, struct waiting *w, const struct sending *s)
{
	if (w->count == w->capacity) {
		uint32_t capacity = w->capacity ? w->capacity * 2 : 16;
		struct sending *ring = malloc(capacity * sizeof *ring);
		if (!ring)
			return 1;
		for (uint32_t i = 0; i < w->count; i++)
			ring[i] = w->ring[(w->head + i) & (w->capacity - 1)];
		free(w->ring);
		w->ring = ring;
		w->capacity = capacity;
		w->head = 0;
	}
	w->ring[(w->head + w->count++) & (w->capacity - 1)] = *s;
	e->waiting++;
	return 0;
}

static int see_sending(struct rw_early *e, const struct rw_flow *f, struct waiting *w, const struct rw_packet *p)
{
	struct sending s = {*p, NEVER, p->time_ns};
	if (w->ticks && p->has_timestamps) {
		if (w->echo)
			bound_by_echo(w, &s);
		follow_clock(w, &s);
	}
	if (p->family == 4) {
		int16_t ahead = (int16_t)(p->identification - w->identification);
		s.packet.overtaken = w->numbered && ahead < 0;
		if (!w->numbered || ahead > 0)
			w->identification = p->identification;
		w->numbered = 1;
	}
	return rw_early_waits(f, p) ? wait_for_replay(e, w, &s) : 0;
}

enum rw_status rw_early_read(struct rw_early *e, int64_t time_ns, rw_error *error)
{
	e->passed++;
	struct rw_noted noted;
	while (!e->ended &&
	       (e->read < e->passed || (e->read_ns < time_ns + e->ahead_ns && e->waiting < WAITING_MAX))) {
		int got = rw_pass_next(e->pass, &noted, error);
		if (got < 0)
			return (enum rw_status)-got;
		if (got == 0) {
			e->ended = 1;
			break;
		}
		e->read++;
		e->read_ns = noted.packet.time_ns;
		uint32_t number = noted.flow;
		if (number == RW_FLOW_NONE || noted.copy || e->send_times[number] == RW_SEND_TIMES_CAPTURED)
			continue;
		const struct rw_flow *f = &e->survey->flow[number];
		int failed = 0;
		struct waiting *w = waiting_of(e, number);
		if (w)
			failed = noted.side == f->source ? see_sending(e, f, w, &noted.packet) : see_ack(w, &noted.packet);
		if (!w || failed) {
			rw_error_set(error, RW_ERROR_MEMORY, 0, 0, 0, "out of memory");
			return RW_ERROR_MEMORY;
		}
	}
	return RW_OK;
}

/* When the packet was sent, on the clock of the capture. */
static int64_t sent_ns(const struct waiting *w, const struct sending *s)
{
	const struct rw_packet *p = &s->packet;
	if (!w->started || !p->has_timestamps)
		return p->time_ns - w->round_trip_ns;
	/* ACKs that set packets free make the lower bound of the clock the tight one. */
	int64_t base = w->low_ns > NEVER / 2 ? w->low_ns : w->high_ns;
	int64_t sent = base + tick_ns(w, p);
	if (s->earliest_ns > sent)
		sent = s->earliest_ns;
	if (sent > s->latest_ns)
		sent = s->latest_ns;
	return sent < p->time_ns - AHEAD_MAX_NS ? p->time_ns - AHEAD_MAX_NS : sent;
}

const struct rw_packet *rw_early_take(struct rw_early *e, uint32_t flow, int64_t now_ns)
{
	struct waiting *w = e->flow[flow];
	if (!w || w->count == 0)
		return NULL;
	const struct sending *s = &w->ring[w->head];
	int64_t sent = sent_ns(w, s);
	if (sent > now_ns && s->packet.time_ns > now_ns)
		return NULL;
	e->taken = s->packet;
	e->taken.time_ns = sent > w->last_ns ? sent : w->last_ns;
	w->last_ns = e->taken.time_ns;
	w->head = (w->head + 1) & (w->capacity - 1);
	w->count--;
	e->waiting--;
	if (w->count == 0 && w->capacity >= RING_KEPT) {
		free(w->ring);
		w->ring = NULL;
		w->head = w->capacity = 0;
	}
	return &e->taken;
}
