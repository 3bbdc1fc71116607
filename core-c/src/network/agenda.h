/*
 * Who has something to do next: entities by time, then by number. A heap in which each has four below it; all its memory is taken
 * when it is opened.
 */
#ifndef RW_AGENDA_H
#define RW_AGENDA_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct rw_agenda {
	uint32_t entities;
	uint32_t *heap, *place; /* place: by the entity's number */
	int64_t *due_ns;        /* by the entity's number */
};

/* Entities will be numbered below `most`. 0, or 1: out of memory. */
static inline int rw_agenda_open(struct rw_agenda *a, uint32_t most)
{
	memset(a, 0, sizeof *a);
	a->heap = calloc(most, sizeof *a->heap);
	a->place = calloc(most, sizeof *a->place);
	a->due_ns = calloc(most, sizeof *a->due_ns);
	return !a->heap || !a->place || !a->due_ns;
}

static inline void rw_agenda_close(struct rw_agenda *a)
{
	free(a->heap);
	free(a->place);
	free(a->due_ns);
	memset(a, 0, sizeof *a);
}

static inline int rw_agenda_is_before(const struct rw_agenda *a, uint32_t one, uint32_t other)
{
	return a->due_ns[one] != a->due_ns[other] ? a->due_ns[one] < a->due_ns[other] : one < other;
}

static inline void rw_agenda_put_at(struct rw_agenda *a, uint32_t place, uint32_t entity)
{
	a->heap[place] = entity;
	a->place[entity] = place;
}

/* The entity finds its place by its new time. */
static inline void rw_agenda_set(struct rw_agenda *a, uint32_t entity, int64_t due_ns)
{
	enum { ARITY = 4 };
	uint32_t at = a->place[entity];
	a->due_ns[entity] = due_ns;
	for (uint32_t parent; at && rw_agenda_is_before(a, entity, a->heap[parent = (at - 1) / ARITY]); at = parent)
		rw_agenda_put_at(a, at, a->heap[parent]);
	for (;;) {
		uint32_t first = ARITY * at + 1, least = entity, least_at = at;
		for (uint32_t child = first; child < a->entities && child < first + ARITY; child++)
			if (rw_agenda_is_before(a, a->heap[child], least)) {
				least = a->heap[child];
				least_at = child;
			}
		if (least == entity)
			break;
		rw_agenda_put_at(a, at, least);
		at = least_at;
	}
	rw_agenda_put_at(a, at, entity);
}

static inline void rw_agenda_add(struct rw_agenda *a, uint32_t entity, int64_t due_ns)
{
	rw_agenda_put_at(a, a->entities++, entity);
	rw_agenda_set(a, entity, due_ns);
}

/* The entity that is due first; there must be one. */
static inline uint32_t rw_agenda_first(const struct rw_agenda *a) { return a->heap[0]; }

#endif
