#include "lookahead.h"
#include "pass.h"
#include "search.h"
#include "tick_clock.h"

#include <stdlib.h>

#define MS 1000000ll
/* Earlier than any time of a capture, with room for sums. */
#define NEVER (INT64_MIN / 4)
/* No packet waits longer; a longer time means that a clock jumped. */
#define AHEAD_MAX_NS (4000 * MS)
/* Enough packets to fix the sender's clock. */
#define AHEAD_MIN_NS (500 * MS)
/* Limit of waiting packets of all flows; beyond it packets are replayed at their capture times. */
#define WAITING_MAX (1u << 18)

/* How many values of the receiver's clock are remembered with their first arrival. */
#define ECHOES_MAX 1024
/* A larger ring is freed when it is empty, and not kept for the flow's next burst. */
#define RING_KEPT 4096

struct echo {
	uint32_t value;
	int64_t time_ns;          /* when it first reached the sender */
	uint32_t first_ack, acks; /* the first ACK with it, and how many ACKs had it */
	uint32_t sendings;        /* packets that echo it */
};

/* How many ACKs are remembered with their arrival, to find when lost data was sent. */
#define ACKS_MAX 4096
/* How far back the search for a hole's place among retransmissions goes. */
#define BACK_MAX 256
/* A longer hole is no loss. */
#define HOLE_MAX (1u << 26)
/* Data that fills a hole this soon was reordered, not retransmitted. */
#define OVERTAKEN_NS (3 * MS)

/* A packet, and the bounds of its send time. With `hole_bytes`: lost data before the next packet, and no packet itself. */
struct sending {
	struct rw_packet packet;
	int64_t earliest_ns, latest_ns;
	int64_t from_ns; /* when the packet before the hole was sent; 0: not known yet */
	uint32_t hole_bytes, slot; /* slot: how many of the ACKs since then have released their segments */
	uint32_t echo,
	    order; /* the number of the value that it echoes, from 1 on, and how many packets before it echo the same */
	uint8_t starting; /* slow start, as far as known: no retransmission before */
	uint8_t overtaken; /* reordered packets filled a part of the hole */
};

struct waiting {
	uint32_t head, count, capacity;
	struct sending *ring;
	struct echo *echo;
	uint32_t echoes, echo_room; /* number of values so far; the last echo_room of them are kept */
	int64_t *ack_ns;
	uint32_t acks, ack_room;
	uint32_t next, segment_bytes; /* next: the number after the data so far; segment_bytes: the largest payload */
	int64_t low_ns; /* lower bound of the start of the first tick of `clock`, with drift; NEVER: unknown */
	int64_t round_trip_ns; /* the shortest one; 0 next to the sender */
	int64_t last_ns;
	struct rw_tick_clock clock; /* of the sender's timestamps */
	uint16_t identification; /* the highest so far, if `numbered` */
	uint8_t numbered, sending, repeated;
};

struct rw_lookahead {
	const struct rw_survey *survey;
	struct rw_pass *pass;
	struct rw_flow_index index;
	const uint8_t *send_times; /* of each flow */
	struct waiting *
	    *flow; /* null before a flow's first packet, after its last one, and for flows that need no send times */
	struct rw_packet taken;
	int64_t ahead_ns, read_ns;
	uint64_t passed, read; /* records that the replay has read, and that this reader has read */
	uint32_t waiting;
	uint8_t ended;
};

/* The flow's shortest round trip. 0: none. */
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

int rw_lookahead_waits(const struct rw_flow *f, const struct rw_packet *p)
{
	if (p->payload_bytes || p->flags & RW_TCP_FIN)
		return 1;
	return !(p->flags & (RW_TCP_SYN | RW_TCP_RST)) && p->time_ns > f->established_ns;
}

/* The part of the round trip between sender and capture point: next to the receiver all of it. */
static int64_t round_trip_before_ns(const struct rw_flow *f)
{
	int64_t whole = shortest_round_trip_ns(f), before = whole;
	if (f->near == 1 + f->source)
		return 0;
	if (f->near)
		return whole;
	int opened = f->source == f->initiator;
	int64_t answered = opened ? f->established_ns - f->syn_ack_ns : f->syn_ack_ns - f->syn_ns;
	if (f->handshake && f->established_ns && answered > 0 && answered < before && !(opened && f->established_late))
		before = answered;
	if (f->clock && f->clock->side[!f->source].echo_ns && (int64_t)f->clock->side[!f->source].echo_ns < before)
		before = (int64_t)f->clock->side[!f->source].echo_ns;
	return before;
}

/* The state of a flow, from this reader's first packet of it to the replay's last one. Null: out of memory. */
static struct waiting *waiting_of(struct rw_lookahead *e, uint32_t flow)
{
	struct waiting *w = e->flow[flow];
	if (!w && (w = calloc(1, sizeof *w))) {
		w->clock.counts = e->send_times[flow] == RW_SEND_TIMES_TIMESTAMPS;
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
	free(w->ack_ns);
	free(w);
}

void rw_lookahead_end(struct rw_lookahead *e, uint32_t flow)
{
	if (e->flow[flow])
		e->waiting -= e->flow[flow]->count;
	forget(e->flow[flow]);
	e->flow[flow] = NULL;
}

enum rw_status rw_lookahead_open(struct rw_lookahead **out, const int *fds, uint32_t files,
				 const struct rw_survey *survey, const uint8_t *send_times, rw_error *error)
{
	struct rw_lookahead *e = calloc(1, sizeof *e);
	enum rw_status status = RW_ERROR_MEMORY;
	if (e) {
		e->survey = survey;
		e->send_times = send_times;
		e->read_ns = INT64_MIN;
		e->flow = calloc(survey->flows + 1, sizeof *e->flow);
		if (e->flow && (survey->journal || survey->shards || !rw_flow_index_copy(&e->index, &survey->index)))
			status = rw_pass_open(&e->pass, fds, files, survey, &e->index, RW_ALL_SHARES, 0, error);
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
		rw_lookahead_close(e);
		return status;
	}
	*out = e;
	return RW_OK;
}

void rw_lookahead_close(struct rw_lookahead *e)
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

static struct echo *echo_at(const struct waiting *w, uint32_t i) { return &w->echo[i % w->echo_room]; }

static int remember_ack(struct waiting *w, int64_t time_ns)
{
	if (w->acks == w->ack_room && w->ack_room < ACKS_MAX) {
		uint32_t room = w->ack_room ? w->ack_room * 4 : 16;
		int64_t *grown = realloc(w->ack_ns, room * sizeof *grown);
		if (!grown)
			return 1;
		w->ack_ns = grown;
		w->ack_room = room;
	}
	w->ack_ns[w->acks++ % w->ack_room] = time_ns;
	return 0;
}

/* How many ACKs had arrived by this time. Forgotten ACKs count as earlier. */
static uint32_t acks_until(const struct waiting *w, int64_t time_ns)
{
	struct rw_search s = {w->acks > w->ack_room ? w->acks - w->ack_room : 0, w->acks};
	while (rw_search_goes_on(&s))
		rw_search_answer(&s, w->ack_ns[rw_search_middle(&s) % w->ack_room] <= time_ns);
	return (uint32_t)s.low;
}

/* An ACK reached the sender, which echoes its value from now on. */
static int see_ack(struct waiting *w, const struct rw_packet *p)
{
	if (remember_ack(w, p->time_ns))
		return 1;
	if (!w->clock.counts || !p->has_timestamps)
		return 0;
	if (w->echoes == w->echo_room && w->echo_room < ECHOES_MAX) {
		uint32_t room = w->echo_room ? w->echo_room * 4 : 16;
		struct echo *grown = realloc(w->echo, room * sizeof *grown);
		if (!grown)
			return 1;
		w->echo = grown;
		w->echo_room = room;
	}
	if (w->echoes && rw_seq_diff(p->ts_value, echo_at(w, w->echoes - 1)->value) <= 0) {
		echo_at(w, w->echoes - 1)->acks++;
		return 0;
	}
	*echo_at(w, w->echoes++) = (struct echo){p->ts_value, p->time_ns, w->acks - 1, 1, 0};
	return 0;
}

/* A packet that echoes a value was sent after that value arrived and before the next value arrived. */
static void bound_by_echo(struct waiting *w, struct sending *s)
{
	uint32_t first = w->echoes > w->echo_room ? w->echoes - w->echo_room : 0;
	struct rw_search newer = {first, w->echoes};
	while (rw_search_goes_on(&newer)) {
		const struct echo *e = echo_at(w, (uint32_t)rw_search_middle(&newer));
		rw_search_answer(&newer, rw_seq_diff(e->value, s->packet.ts_echo) <= 0);
	}
	uint32_t low = (uint32_t)newer.low;
	if (low == first || echo_at(w, low - 1)->value != s->packet.ts_echo)
		return; /* the value is unknown: some hosts echo other values */
	if (low < w->echoes && echo_at(w, low)->time_ns < s->latest_ns)
		s->latest_ns = echo_at(w, low)->time_ns - 1;
	s->earliest_ns = echo_at(w, low - 1)->time_ns + 1;
	s->echo = low;
	s->order = echo_at(w, low - 1)->sendings++;
}

/* Each packet bounds the sender's ticks, because it was sent in the tick that it names. */
static void follow_clock(struct waiting *w, const struct sending *s)
{
	const struct rw_packet *p = &s->packet;
	if (!w->clock.started)
		w->low_ns = NEVER;
	int64_t drift = rw_tick_clock_see(&w->clock, p->ts_value, p->time_ns, s->latest_ns, w->round_trip_ns);
	int64_t since = rw_tick_clock_since_first_ns(&w->clock, p->ts_value), high = s->latest_ns - since;
	w->low_ns = w->low_ns - drift > NEVER ? w->low_ns - drift : NEVER;
	int64_t low = s->earliest_ns != NEVER ? s->earliest_ns - since - RW_CLOCK_TICK_NS : NEVER;
	if (low > w->low_ns)
		w->low_ns = low;
	if (w->low_ns >
	    w->clock.first_ns) { /* a clock jumped, or a round trip is shorter than all before: start again */
		w->low_ns = low;
		w->clock.first_ns = low != NEVER ? high : high - w->round_trip_ns;
	}
}

static struct sending *sending_at(const struct waiting *w, uint32_t i)
{
	return &w->ring[(w->head + i) & (w->capacity - 1)];
}

/* 0, or 1: out of memory. */
static int wait_for_replay(struct rw_lookahead *e, struct waiting *w, const struct sending *s)
{
	if (w->count == w->capacity) {
		uint32_t capacity = w->capacity ? w->capacity * 2 : 16;
		struct sending *ring = malloc(capacity * sizeof *ring);
		if (!ring)
			return 1;
		for (uint32_t i = 0; i < w->count; i++)
			ring[i] = *sending_at(w, i);
		free(w->ring);
		w->ring = ring;
		w->capacity = capacity;
		w->head = 0;
	}
	*sending_at(w, w->count++) = *s;
	e->waiting++;
	return 0;
}

/*
 * Missing data before this packet was sent before it and after the data in front of the hole: directly after that data, unless IPv4
 * packet numbers show retransmissions in between. 0, or 1: out of memory.
 */
static int see_hole(struct rw_lookahead *e, struct waiting *w, const struct sending *s)
{
	const struct rw_packet *p = &s->packet;
	uint32_t end = p->sequence + p->payload_bytes + !!(p->flags & RW_TCP_FIN);
	int32_t ahead = rw_seq_diff(p->sequence, w->next);
	int hole = w->sending && ahead > 0 && (uint32_t)ahead <= HOLE_MAX;
	if (p->payload_bytes > w->segment_bytes)
		w->segment_bytes = p->payload_bytes;
	if (hole) {
		struct sending lost = *s;
		uint32_t place = w->count, i = place;
		uint16_t after = p->identification;
		for (uint32_t back = 0; i > 0 && back < BACK_MAX; back++) {
			const struct rw_packet *b = &sending_at(w, i - 1)->packet;
			if (p->family == 4 && (uint16_t)(after - b->identification) > 1)
				place = i;
			if (sending_at(w, i - 1)->hole_bytes ||
			    rw_seq_diff(b->sequence + b->payload_bytes, w->next) >= 0)
				break;
			after = b->identification;
			i--;
		}
		if (place == w->count)
			place = i;
		lost.hole_bytes = (uint32_t)ahead;
		if (wait_for_replay(e, w, &lost))
			return 1;
		for (i = w->count - 1; i > place; i--)
			*sending_at(w, i) = *sending_at(w, i - 1);
		*sending_at(w, place) = lost;
	}
	if (!w->sending || rw_seq_diff(end, w->next) > 0)
		w->next = end;
	w->sending = 1;
	return 0;
}

/* Whether it filled a waiting hole, whose place it takes. */
static int fill_hole(const struct waiting *w, const struct sending *s)
{
	const struct rw_packet *p = &s->packet;
	uint32_t back = w->count < BACK_MAX ? w->count : BACK_MAX;
	for (uint32_t i = w->count - back; i < w->count; i++) {
		struct sending *hole = sending_at(w, i);
		uint32_t into = p->sequence - (hole->packet.sequence - hole->hole_bytes);
		if (into >= hole->hole_bytes || hole->from_ns || p->time_ns - hole->packet.time_ns >= OVERTAKEN_NS)
			continue;
		int whole = into == 0 && p->payload_bytes == hole->hole_bytes && !(p->flags & RW_TCP_FIN);
		hole->overtaken = 1;
		if (whole)
			*hole = *s;
		return whole;
	}
	return 0;
}

static int see_sending(struct rw_lookahead *e, const struct rw_flow *f, struct waiting *w, const struct rw_packet *p)
{
	w->repeated |= w->sending && p->payload_bytes && rw_seq_diff(p->sequence, w->next) < 0;
	struct sending s = {
	    .packet = *p, .earliest_ns = NEVER, .latest_ns = p->time_ns, .starting = w->round_trip_ns && !w->repeated};
	if (w->clock.counts && p->has_timestamps) {
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
	if (!rw_lookahead_waits(f, p) ||
	    (p->payload_bytes && w->sending && rw_seq_diff(p->sequence, w->next) < 0 && fill_hole(w, &s)))
		return 0;
	return (p->payload_bytes && see_hole(e, w, &s)) || wait_for_replay(e, w, &s);
}

enum rw_status rw_lookahead_read(struct rw_lookahead *e, int64_t time_ns, rw_error *error)
{
	e->passed++;
	struct rw_noted noted;
	while (!e->ended && (e->read < e->passed || (e->read_ns < time_ns + e->ahead_ns && e->waiting < WAITING_MAX))) {
		int got = rw_pass_next(e->pass, &noted, error);
		if (got < 0)
			return (enum rw_status) - got;
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
			failed =
			    noted.side == f->source ? see_sending(e, f, w, &noted.packet) : see_ack(w, &noted.packet);
		if (!w || failed) {
			return rw_out_of_memory(error);
		}
	}
	return RW_OK;
}

/* Of the ACKs with one value, each released its share of the packets that echo it; two in slow start, while there was data. */
static int64_t set_free_ns(const struct waiting *w, const struct sending *s)
{
	if (!s->echo || w->echoes - s->echo >= w->echo_room)
		return s->earliest_ns;
	const struct echo *echo = echo_at(w, s->echo - 1);
	uint32_t shares = s->starting && echo->sendings < 2 * echo->acks ? 2 * echo->acks : echo->sendings;
	uint32_t ack = echo->first_ack + (uint32_t)((uint64_t)s->order * echo->acks / shares);
	return w->acks - ack > w->ack_room ? s->earliest_ns : w->ack_ns[ack % w->ack_room] + 1;
}

/* The packet's send time, on the clock of the capture. */
static int64_t sent_ns(const struct waiting *w, const struct sending *s)
{
	const struct rw_packet *p = &s->packet;
	if (!w->clock.started || !p->has_timestamps)
		return p->time_ns - w->round_trip_ns;
	/* ACKs that release packets make the lower bound of the clock tight. */
	int64_t base = w->low_ns > NEVER / 2 ? w->low_ns : w->clock.first_ns;
	int64_t sent = base + rw_tick_clock_since_first_ns(&w->clock, p->ts_value);
	int64_t set_free = set_free_ns(w, s);
	if (set_free > sent)
		sent = set_free;
	if (sent > s->latest_ns)
		sent = s->latest_ns;
	return sent < p->time_ns - AHEAD_MAX_NS ? p->time_ns - AHEAD_MAX_NS : sent;
}

static void drop_first(struct rw_lookahead *e, struct waiting *w)
{
	w->head = (w->head + 1) & (w->capacity - 1);
	w->count--;
	e->waiting--;
	if (w->count == 0 && w->capacity >= RING_KEPT) {
		free(w->ring);
		w->ring = NULL;
		w->head = w->capacity = 0;
	}
}

/*
 * ACKs released lost data like other data: each ACK between the packets on either side of the hole released one segment. If more
 * segments are missing, ACKs released two (slow start), and of each burst the first segment found room in a queue.
 */
static const struct rw_packet *take_hole(struct rw_lookahead *e, struct waiting *w, struct sending *s, int64_t now_ns)
{
	if (!s->from_ns)
		s->from_ns = w->last_ns;
	int64_t until_ns = w->count > 1 ? sent_ns(w, sending_at(w, 1)) : sent_ns(w, s), at_ns = s->from_ns;
	uint32_t first = acks_until(w, s->from_ns),
		 acks = until_ns > s->from_ns ? acks_until(w, until_ns - 1) - first : 0;
	uint32_t silent = acks ? acks - 1 : 0, segments = (s->hole_bytes + w->segment_bytes - 1) / w->segment_bytes;
	if (acks == 0 || s->slot > silent || s->overtaken) { /* all remaining segments */
		at_ns = until_ns;
	} else {
		uint32_t left = silent - s->slot, slots = left + 1, due = left + (s->slot > 0);
		uint32_t extra = segments > due ? segments - due : 0;
		if (s->slot)
			at_ns = w->ack_ns[(first + s->slot - 1) % w->ack_room] + 1;
		segments = (s->slot > 0) + (extra + slots - 1) / slots;
	}
	if (at_ns > now_ns && s->packet.time_ns > now_ns)
		return NULL;
	uint32_t bytes = segments * w->segment_bytes < s->hole_bytes ? segments * w->segment_bytes : s->hole_bytes;
	e->taken = s->packet;
	e->taken.sequence -= s->hole_bytes - bytes;
	e->taken.payload_bytes = 0;
	e->taken.flags = RW_TCP_ACK;
	e->taken.ecn = e->taken.has_timestamps = e->taken.sack_count = 0;
	e->taken.ts_value = e->taken.ts_echo = 0;
	e->taken.mptcp.seen = 0;
	e->taken.time_ns = w->last_ns = at_ns > w->last_ns ? at_ns : w->last_ns;
	s->hole_bytes -= bytes;
	s->slot++;
	if (s->hole_bytes == 0)
		drop_first(e, w);
	return &e->taken;
}

const struct rw_packet *rw_lookahead_take(struct rw_lookahead *e, uint32_t flow, int64_t now_ns)
{
	struct waiting *w = e->flow[flow];
	if (!w || w->count == 0)
		return NULL;
	struct sending *s = sending_at(w, 0);
	if (s->hole_bytes)
		return take_hole(e, w, s, now_ns);
	int64_t sent = sent_ns(w, s);
	if (sent > now_ns && s->packet.time_ns > now_ns)
		return NULL;
	e->taken = s->packet;
	e->taken.time_ns = sent > w->last_ns ? sent : w->last_ns;
	w->last_ns = e->taken.time_ns;
	drop_first(e, w);
	return &e->taken;
}
