/*
 * Who has something to do next: entities by time, then by number. A heap in which each has four below it; all its memory is taken
 * when it is opened.
 */
#ifndef RW_AGENDA_H
#define RW_AGENDA_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct rw_agenda_entry {
	int64_t due_ns;
	uint32_t entity;
};

struct rw_agenda {
	uint32_t entities;
	struct rw_agenda_entry *heap; /* times lie in the heap: the four below an entry are side by side */
	uint32_t *place;              /* by the entity's number */
};

/* Entities will be numbered below `most`. 0, or 1: out of memory. */
static inline int rw_agenda_open(struct rw_agenda *a, uint32_t most)
{
	memset(a, 0, sizeof *a);
	a->heap = calloc(most, sizeof *a->heap);
	a->place = calloc(most, sizeof *a->place);
	return !a->heap || !a->place;
}

static inline void rw_agenda_close(struct rw_agenda *a)
{
	free(a->heap);
	free(a->place);
	memset(a, 0, sizeof *a);
}

static inline int rw_agenda_is_before(struct rw_agenda_entry one, struct rw_agenda_entry other)
{
	return one.due_ns != other.due_ns ? one.due_ns < other.due_ns : one.entity < other.entity;
}

static inline void rw_agenda_put_at(struct rw_agenda *a, uint32_t place, struct rw_agenda_entry entry)
{
	a->heap[place] = entry;
	a->place[entry.entity] = place;
}

/* When an entity is due. */
static inline int64_t rw_agenda_due_ns(const struct rw_agenda *a, uint32_t entity)
{
	return a->heap[a->place[entity]].due_ns;
}

/* The entity finds its place by its new time. */
static inline void rw_agenda_set(struct rw_agenda *a, uint32_t entity, int64_t due_ns)
{
	enum { ARITY = 4 };
	struct rw_agenda_entry entry = {due_ns, entity};
	uint32_t at = a->place[entity];
	for (uint32_t parent; at && rw_agenda_is_before(entry, a->heap[parent = (at - 1) / ARITY]); at = parent)
		rw_agenda_put_at(a, at, a->heap[parent]);
	for (uint32_t first; (first = ARITY * at + 1) < a->entities;) {
		uint32_t end = first + ARITY < a->entities ? first + ARITY : a->entities, least = first;
		for (uint32_t child = first + 1; child < end; child++)
			if (rw_agenda_is_before(a->heap[child], a->heap[least]))
				least = child;
		if (rw_agenda_is_before(entry, a->heap[least]))
			break;
		rw_agenda_put_at(a, at, a->heap[least]);
		at = least;
	}
	rw_agenda_put_at(a, at, entry);
}

static inline void rw_agenda_add(struct rw_agenda *a, uint32_t entity, int64_t due_ns)
{
	rw_agenda_put_at(a, a->entities++, (struct rw_agenda_entry){due_ns, entity});
	rw_agenda_set(a, entity, due_ns);
}

/* The entity that is due first; there must be one. */
static inline struct rw_agenda_entry rw_agenda_first(const struct rw_agenda *a) { return a->heap[0]; }

#endif
