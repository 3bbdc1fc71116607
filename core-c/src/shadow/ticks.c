/*
 * Finds the phase of the sender's kernel clock. A controller that counts ticks of that clock (`tick_ns` of rw_control) may decide
 * a few ACKs earlier or later by it. TCP timestamps show where the sender's milliseconds begin, not which of them are ticks, and
 * some kernels tick between two milliseconds. So several shadows run beside the shown one, one for each phase. The phase whose
 * window equals the flight most often is the sender's.
 */
#include "ticks.h"

#include <stdlib.h>
#include <string.h>

enum {
	PHASES = 8,
	/* Leads, in ACKs: the lead at which another phase is accepted, and a lead that ends the search. */
	LEAD = 2,
	LEAD_FINAL = 64,
	/* ACKs before full windows. After the first number, a sender whose window equalled the flight at less than a quarter of
	   them does not run this controller; after the second number the search ends. */
	ROWS_FIRST = 64,
	ROWS_MOST = 4096
};

struct rw_ticks {
	uint32_t rows, leader;
	uint32_t matched[PHASES];
	struct rw_shadow *shadow[PHASES]; /* all in one block, which begins with the first */
};

static struct rw_shadow *copy_of(const struct rw_shadow *s, uint8_t *at)
{
	struct rw_shadow *copy = (struct rw_shadow *)(void *)at;
	uint32_t paths = s->connection->paths;
	memcpy(at, s, rw_shadow_bytes(paths));
	copy->path = (struct rw_shadow_path *)(void *)(at + sizeof *s);
	copy->connection = (struct rw_connection *)(void *)(at + sizeof *s + paths * sizeof *s->path);
	copy->observer = NULL;
	copy->ticks = NULL; /* only the shown shadow tries phases */
	copy->learns_ticks = 0;
	return copy;
}

/* Copies another phase's windows to the shown shadow. */
static void adopt(struct rw_shadow *s, const struct rw_shadow *from)
{
	uint32_t paths = s->connection->paths;
	memcpy(s->path, from->path, paths * sizeof *s->path);
	memcpy(s->connection, from->connection, offsetof(struct rw_connection, path) + paths * sizeof(struct rw_path));
	s->clock_ns = from->clock_ns;
}

void rw_ticks_begin(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack)
{
	int64_t tick_ns = (int64_t)s->control->tick_ns(s->connection);
	size_t bytes = rw_shadow_bytes(s->connection->paths);
	struct rw_shadow_row row;
	struct rw_ticks *t = calloc(1, sizeof *t + PHASES * bytes);
	if (!t) {
		s->learns_ticks = 0; /* the window stays within a segment */
		return;
	}
	for (uint32_t i = 0; i < PHASES; i++) {
		int64_t began_ns = e->tick_ns + i * tick_ns / PHASES;
		t->shadow[i] = copy_of(s, (uint8_t *)(t + 1) + i * bytes);
		t->shadow[i]->clock_ns = tick_ns - began_ns % tick_ns;
		rw_shadow_grow(t->shadow[i], e, ack, &row);
	}
	s->clock_ns = t->shadow[0]->clock_ns;
	s->ticks = t;
}

void rw_ticks_end(struct rw_shadow *s)
{
	free(s->ticks);
	s->ticks = NULL;
	s->learns_ticks = 0;
}

void rw_ticks_event(struct rw_shadow *s, uint32_t path, const struct rw_event *e, uint64_t srtt_ns)
{
	for (uint32_t i = 0; i < PHASES; i++)
		rw_shadow_event(s->ticks->shadow[i], path, e, srtt_ns, NULL);
}

void rw_ticks_leave(struct rw_shadow *s, uint32_t path)
{
	for (uint32_t i = 0; i < PHASES; i++)
		rw_shadow_leave(s->ticks->shadow[i], path);
}

void rw_ticks_join(struct rw_shadow *s, uint32_t path, uint64_t srtt_ns)
{
	for (uint32_t i = 0; i < PHASES; i++)
		rw_shadow_join(s->ticks->shadow[i], path, srtt_ns);
}

/* The phase that was right most often, and its lead over the next one. */
static uint32_t best_phase(const struct rw_ticks *t, uint32_t *lead)
{
	uint32_t best = 0, second = 0;
	for (uint32_t i = 1; i < PHASES; i++)
		if (t->matched[i] > t->matched[best])
			best = i;
	for (uint32_t i = 0; i < PHASES; i++)
		if (i != best && t->matched[i] > second)
			second = t->matched[i];
	*lead = t->matched[best] - second;
	return best;
}

int rw_ticks_ack(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, uint64_t srtt_ns,
		 struct rw_shadow_row *row)
{
	struct rw_ticks *t = s->ticks;
	struct rw_shadow_row rows[PHASES];
	uint32_t lead, full = rw_event_fills_window(e);
	for (uint32_t i = 0; i < PHASES; i++) {
		rw_shadow_ack(t->shadow[i], e, ack, srtt_ns, &rows[i]);
		t->matched[i] += full && rows[i].cwnd_before_q16 >> 16 == e->in_flight_before;
	}
	t->rows += full;
	uint32_t best = best_phase(t, &lead);
	int changed = best != t->leader && t->matched[best] >= t->matched[t->leader] + LEAD;
	if (changed) {
		t->leader = best;
		adopt(s, t->shadow[best]);
		*row = rows[best];
	}
	int another = t->rows >= ROWS_FIRST && t->matched[best] * 4 < t->rows;
	if (another || lead >= LEAD_FINAL || t->rows >= ROWS_MOST)
		rw_ticks_end(s);
	return changed;
}
