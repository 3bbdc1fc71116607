#include "stream.h"

#include <stdlib.h>
#include <string.h>

#include "sequence.h"

enum { FIRST_ROOM = 16 };

void rw_stream_close(struct rw_stream *s)
{
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		free(s->subflow[i].mapping);
	free(s->held);
}

static struct rw_mapping *at(const struct rw_mappings *m, uint32_t i)
{
	return &m->mapping[(m->first + i) & (m->room - 1)];
}

static int grow(struct rw_mappings *m)
{
	uint32_t room = m->room ? 2 * m->room : FIRST_ROOM;
	struct rw_mapping *grown = malloc(room * sizeof *grown);
	if (!grown)
		return 1;
	for (uint32_t i = 0; i < m->count; i++)
		grown[i] = *at(m, i);
	free(m->mapping);
	m->mapping = grown;
	m->room = room;
	m->first = 0;
	return 0;
}

/* A mapping of which nothing has left can be made longer. */
static int extend(struct rw_mappings *m, uint32_t sent, uint32_t start, uint64_t data, uint32_t bytes)
{
	struct rw_mapping *last = m->count ? at(m, m->count - 1) : NULL;
	if (!last || rw_seq_diff(sent, last->start) > 0 || last->start + last->bytes != start ||
	    last->data + last->bytes != data || last->bytes + bytes > RW_MAPPING_BYTES_MAX)
		return 0;
	last->bytes += bytes;
	return 1;
}

int rw_stream_give(struct rw_stream *s, uint32_t subflow, uint32_t sent, uint32_t start, uint64_t data, uint32_t bytes)
{
	struct rw_mappings *m = &s->subflow[subflow];
	if (extend(m, sent, start, data, bytes))
		return 0;
	if (m->count == m->room && grow(m))
		return 1;
	*at(m, m->count++) = (struct rw_mapping){data, start, bytes};
	return 0;
}

uint32_t rw_stream_reach(struct rw_stream *s, uint32_t subflow, uint32_t start)
{
	struct rw_mappings *m = &s->subflow[subflow];
	while (rw_seq_diff(at(m, m->sending)->start + at(m, m->sending)->bytes, start) <= 0)
		m->sending++;
	return at(m, m->sending)->start + at(m, m->sending)->bytes;
}

struct rw_mapping rw_stream_mapping(const struct rw_stream *s, uint32_t subflow, uint32_t start)
{
	const struct rw_mappings *m = &s->subflow[subflow];
	uint32_t i = m->count && rw_seq_diff(start, at(m, m->sending)->start) >= 0 ? m->sending : 0;
	while (i < m->count && rw_seq_diff(at(m, i)->start + at(m, i)->bytes, start) <= 0)
		i++;
	if (i == m->count || rw_seq_diff(at(m, i)->start, start) > 0)
		return (struct rw_mapping){0, 0, 0};
	return *at(m, i);
}

/* Data [start, end) is there. 0, or 1: out of memory. */
static int take(struct rw_stream *s, uint64_t start, uint64_t end)
{
	if (start <= s->next) {
		if (end > s->next)
			s->next = end;
		uint32_t n = 0;
		while (n < s->helds && s->held[n].start <= s->next) {
			if (s->held[n].end > s->next)
				s->next = s->held[n].end;
			n++;
		}
		if (n)
			memmove(s->held, &s->held[n], (s->helds - n) * sizeof *s->held);
		s->helds -= n;
		return 0;
	}
	uint32_t from = s->helds;
	while (from && s->held[from - 1].end >= start)
		from--;
	uint32_t behind = from;
	while (behind < s->helds && s->held[behind].start <= end) {
		struct rw_data_range old = s->held[behind++];
		start = old.start < start ? old.start : start;
		end = old.end > end ? old.end : end;
	}
	if (behind == from && s->helds == s->held_room) {
		uint32_t room = s->held_room ? 2 * s->held_room : FIRST_ROOM;
		struct rw_data_range *grown = realloc(s->held, room * sizeof *grown);
		if (!grown)
			return 1;
		s->held = grown;
		s->held_room = room;
	}
	memmove(&s->held[from + 1], &s->held[behind], (s->helds - behind) * sizeof *s->held);
	s->helds = s->helds - (behind - from) + 1;
	s->held[from] = (struct rw_data_range){start, end};
	return 0;
}

int rw_stream_receive(struct rw_stream *s, uint32_t subflow, uint32_t next)
{
	struct rw_mappings *m = &s->subflow[subflow];
	while (m->count) {
		struct rw_mapping *front = at(m, 0);
		int32_t here = rw_seq_diff(next, front->start);
		if (here <= 0)
			break;
		uint32_t bytes = (uint32_t)here < front->bytes ? (uint32_t)here : front->bytes;
		if (take(s, front->data, front->data + bytes))
			return 1;
		if (bytes < front->bytes) {
			front->data += bytes;
			front->start += bytes;
			front->bytes -= bytes;
			break;
		}
		m->first = (m->first + 1) & (m->room - 1);
		m->count--;
		m->sending -= m->sending > 0;
	}
	return 0;
}
