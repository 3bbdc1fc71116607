#include "scheduling.h"

#include <stdlib.h>
#include <string.h>

#include "fixed_point.h"
#include "simulation.h"

enum { FIRST_ROOM = 16 };

/*
 * Ranges of data
 */

static struct rw_data_range *range_at(const struct rw_data_ranges *r, uint32_t i) { return &r->range[r->first + i]; }

/* Room for one more behind the last. 0, or 1: out of memory. */
static int make_room(struct rw_data_ranges *r)
{
	if (r->first + r->count < r->room)
		return 0;
	if (r->first > r->room / 2) {
		memmove(r->range, &r->range[r->first], r->count * sizeof *r->range);
		r->first = 0;
		return 0;
	}
	uint32_t room = r->room ? 2 * r->room : FIRST_ROOM;
	struct rw_data_range *grown = realloc(r->range, room * sizeof *grown);
	if (!grown)
		return 1;
	r->range = grown;
	r->room = room;
	return 0;
}

static int append(struct rw_data_ranges *r, uint64_t start, uint64_t end)
{
	if (r->count && range_at(r, r->count - 1)->end == start) {
		range_at(r, r->count - 1)->end = end;
		return 0;
	}
	if (make_room(r))
		return 1;
	*range_at(r, r->count++) = (struct rw_data_range){start, end};
	return 0;
}

/* Takes [start, end), which lies within range i, out of the ranges. 0, or 1: out of memory. */
static int take_out(struct rw_data_ranges *r, uint32_t i, uint64_t start, uint64_t end)
{
	struct rw_data_range *g = range_at(r, i);
	if (g->start == start && g->end == end) {
		if (i == 0)
			r->first++;
		else
			memmove(g, g + 1, (r->count - i - 1) * sizeof *g);
		r->count--;
	} else if (g->start == start) {
		g->start = end;
	} else if (g->end == end) {
		g->end = start;
	} else {
		if (make_room(r))
			return 1;
		g = range_at(r, i);
		memmove(g + 1, g, (r->count - i) * sizeof *g);
		r->count++;
		g->end = start;
		g[1].start = end;
	}
	return 0;
}

static int holds(const struct rw_data_ranges *r, uint64_t data)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (range_at(r, i)->start <= data && data < range_at(r, i)->end)
			return 1;
	return 0;
}

void rw_scheduled_close(struct rw_scheduled *d)
{
	free(d->waiting.range);
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		free(d->carried[i].range);
}

int rw_scheduled_carry(struct rw_scheduled *d, uint32_t path, uint64_t start, uint64_t end)
{
	return append(&d->carried[path], start, end);
}

uint64_t rw_scheduled_given(const struct rw_scheduled *d, uint64_t from, uint64_t given)
{
	for (uint32_t i = 0; i < d->waiting.count; i++)
		if (range_at(&d->waiting, i)->end > from)
			return rw_max64(from, rw_min64(range_at(&d->waiting, i)->start, given));
	return given;
}

static void forget_acknowledged(struct rw_scheduled *d, uint64_t una)
{
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		for (struct rw_data_ranges *r = &d->carried[i]; r->count && range_at(r, 0)->end <= una; r->count--)
			r->first++;
}

/*
 * What the scheduler sees
 */

static uint64_t first_segment(const struct rw_scheduled *d, const struct rw_data_range *r)
{
	return r->start / d->segment_bytes;
}

/* The segment behind the last one; the last one may be shorter, where the application wrote no more yet. */
static uint64_t behind_segment(const struct rw_scheduled *d, const struct rw_data_range *r)
{
	return (r->end + d->segment_bytes - 1) / d->segment_bytes;
}

static void look_at_subflow(const rw_simulation *s, const struct rw_simulated_connection *c, uint32_t path,
			    struct rw_sender_subflow *view)
{
	const struct rw_simulated_subflow *f = &s->subflow[c->first + path];
	const struct rw_path *p = &c->shadow->connection->path[path];
	const struct rw_scheduled *d = c->scheduled;
	const struct rw_sender *tcp = &f->tx.tcp;
	const struct rw_scoreboard *b = &tcp->board;
	/* What is to be sent again takes its place in the window first. */
	uint32_t again = b->lost_out > b->retrans_out ? b->lost_out - b->retrans_out : 0;
	*view = (struct rw_sender_subflow){
	    .cwnd_q16 = rw_max64(p->cwnd_q16, RW_Q16_ONE),
	    .ssthresh_q16 = p->ssthresh_q16,
	    .srtt_ns = tcp->rtt.srtt_ns,
	    .since_penalty_ns = d->penalized_ns[path] < 0 ? UINT64_MAX : (uint64_t)(s->now_ns - d->penalized_ns[path]),
	    .beta_q32 = d->beta_word < 0 ? (uint64_t)1 << 32 : p->word[d->beta_word],
	    .in_flight = rw_sender_in_flight(tcp),
	    .queued = (f->tx.end - tcp->next + f->mss - 1) / f->mss + again,
	    .established = f->state == RW_SUBFLOW_ESTABLISHED,
	    .lost = tcp->state == RW_SENDER_LOSS,
	    .recovering = p->recovering,
	    .group = p->group_state == RW_GROUP_FINAL ? p->group : 0};
}

static void look(const rw_simulation *s, const struct rw_simulated_connection *c, struct rw_sending *view)
{
	const struct rw_scheduled *d = c->scheduled;
	const struct rw_data_range *front = range_at(&d->waiting, 0);
	struct rw_send_queue *q = &view->queue;
	memset(view, 0, sizeof *view);
	memcpy(view->option, d->option, sizeof view->option);
	view->subflows = c->subflows;
	view->previous = d->previous;
	for (uint32_t i = 0; i < c->subflows; i++)
		look_at_subflow(s, c, i, &view->subflow[i]);
	/* The data in front is what others wait for: more ranges than a scheduler sees do not stop it. */
	q->spans = d->waiting.count < RW_MAX_SPANS ? d->waiting.count : RW_MAX_SPANS;
	for (uint32_t i = 0; i < q->spans; i++) {
		const struct rw_data_range *r = range_at(&d->waiting, i);
		q->span[i].first = first_segment(d, r);
		q->span[i].segments = behind_segment(d, r) - first_segment(d, r);
	}
	q->oldest = c->stream->una / d->segment_bytes;
	q->window_end = c->stream->window_end / d->segment_bytes;
	/* A window below a segment, and nothing under way that could open it: as much goes as fits (RFC 9293 3.8.6.2.1). */
	if (c->stream->una == front->start && c->stream->window_end > front->start)
		q->window_end = rw_max64(q->window_end, first_segment(d, front) + 1);
	if (q->window_end <= q->span[0].first)
		for (uint32_t i = 0; i < c->subflows; i++)
			q->oldest_sent_on |= (uint32_t)holds(&d->carried[i], c->stream->una) << i;
	q->buffer_segments = rw_application_buffer_bytes(s, c) / d->segment_bytes;
}

/*
 * What it decides
 */

static void penalize(const rw_simulation *s, const struct rw_simulated_connection *c, struct rw_sending *view,
		     uint32_t penalized)
{
	for (uint32_t i = 0; i < c->subflows; i++)
		if (penalized >> i & 1) {
			struct rw_path *p = &c->shadow->connection->path[i];
			rw_penalize(&view->subflow[i]);
			p->cwnd_q16 = view->subflow[i].cwnd_q16;
			p->cwnd_rem_q40 = 0;
			p->ssthresh_q16 = view->subflow[i].ssthresh_q16;
			c->scheduled->penalized_ns[i] = s->now_ns;
		}
}

/* Returns whether any data was given. */
static int give(rw_simulation *s, struct rw_simulated_connection *c, const struct rw_decision *decision)
{
	struct rw_scheduled *d = c->scheduled;
	uint32_t i = 0;
	while (i < d->waiting.count && behind_segment(d, range_at(&d->waiting, i)) <= decision->first)
		i++;
	if (i == d->waiting.count)
		return 0;
	const struct rw_data_range *r = range_at(&d->waiting, i);
	uint64_t start = rw_max64(decision->first * d->segment_bytes, r->start);
	uint64_t end = rw_min64((decision->first + decision->segments) * d->segment_bytes, r->end);
	end = rw_min64(end, c->stream->window_end);
	if (end <= start)
		return 0;
	if (take_out(&d->waiting, i, start, end)) {
		s->failed = 1;
		return 0;
	}
	rw_application_carry(s, c, &s->subflow[c->first + decision->subflow], start, end);
	return 1;
}

/* The oldest segment goes once more, on another subflow. */
static void reinject(rw_simulation *s, struct rw_simulated_connection *c, uint32_t path)
{
	uint64_t una = c->stream->una, end = (una / c->scheduled->segment_bytes + 1) * c->scheduled->segment_bytes;
	end = rw_scheduled_given(c->scheduled, una, rw_min64(end, c->stream->given));
	if (end > una)
		rw_application_carry(s, c, &s->subflow[c->first + path], una, end);
}

void rw_scheduling_give(rw_simulation *s, struct rw_simulated_connection *c)
{
	struct rw_scheduled *d = c->scheduled;
	forget_acknowledged(d, c->stream->una);
	if (c->written > d->seen && append(&d->waiting, d->seen, c->written))
		s->failed = 1;
	d->seen = c->written;
	while (d->waiting.count && !s->failed) {
		struct rw_sending view;
		struct rw_decision decision;
		look(s, c, &view);
		d->scheduler->pick(&view, &decision);
		penalize(s, c, &view, decision.penalized);
		if (decision.kind == RW_DECISION_WAIT)
			return;
		d->previous = decision.subflow;
		if (decision.kind == RW_DECISION_REINJECT)
			reinject(s, c, decision.subflow);
		else if (!give(s, c, &decision))
			return;
	}
}
