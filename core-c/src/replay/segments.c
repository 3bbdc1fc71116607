/*
 * The segments of one connection, for its time-sequence graph: what left when, and what the receiver had beyond a hole. The events of a
 * replay do not need them; a replay is asked for them when somebody wants to see them.
 */
#include "segments.h"

#include <stdlib.h>
#include <string.h>

#include "state.h"

/* A subflow's newest mapping of its sequence numbers to those of the connection (RFC 8684 3.3.1). */
struct mapping {
	uint32_t start, bytes;
	uint64_t data_sequence;
	uint8_t wide;
};

struct rw_segments_path {
	struct mapping mapping;
	struct rw_range sack[RW_SACK_MAX]; /* of the ACK before */
	uint64_t retransmitted;
	uint32_t next;
	uint8_t sacks, begun;
};

int rw_segments_open(struct rw_segments *s, uint32_t connection, uint32_t subflows)
{
	s->connection = connection;
	s->path = calloc(subflows + 1, sizeof *s->path);
	return !s->path;
}

void rw_segments_close(struct rw_segments *s)
{
	free(s->row);
	free(s->path);
	rw_coverage_free(&s->sent);
}

static int add(struct rw_segments *s, const struct live *l, int64_t time_ns, uint32_t start, uint32_t end,
	       rw_segment_kind kind)
{
	if (s->count == s->room) {
		uint64_t room = s->room ? 2 * s->room : 1024;
		rw_segment_row *grown = realloc(s->row, room * sizeof *grown);
		if (!grown)
			return 1;
		s->row = grown;
		s->room = room;
	}
	/* Before the first row the sender's una is what positions count from. */
	int64_t position =
	    l->rows ? l->position + rw_seq_diff(start, l->sequence) : rw_seq_diff(start, l->sender.tcp.una);
	s->row[s->count++] = (rw_segment_row){time_ns, position, end - start, l->id, (uint8_t)kind};
	return 0;
}

static void see_mapping(const rw_replay *r, struct mapping *mapping, const struct rw_flow *f, const struct rw_packet *p)
{
	const struct rw_mptcp *m = &p->mptcp;
	const struct rw_flow_connection *c = &r->survey.connection[f->connection];
	const struct rw_flow_side *side = &f->side[f->source];
	int first = !!(m->seen & 1 << RW_MP_CAPABLE);
	if (!m->seen || !m->dss_mapping || m->data_length == 0 || (first ? !c->has_idsn : m->subflow_sequence == 0))
		return;
	/* Without the handshake a mapping is taken to begin with the packet that brings it. */
	uint32_t start = side->syn ? side->isn + m->subflow_sequence : p->sequence;
	*mapping = (struct mapping){start, m->data_length - (first ? 0u : m->dss_data_fin),
				    first ? c->idsn + 1 : m->data_sequence, first ? 1 : m->dss_wide};
}

/* Data that is new to the subflow. *again: the connection has sent all of it before, on another subflow. */
static int cover(struct rw_segments *s, const struct mapping *m, uint32_t start, uint32_t end, int *again)
{
	uint32_t into = start - m->start;
	*again = 0;
	if (into >= m->bytes)
		return 0;
	uint32_t bytes = end - start < m->bytes - into ? end - start : m->bytes - into;
	uint64_t covered = s->sent.covered;
	int failed = rw_coverage_add(&s->sent, m->data_sequence + into, m->wide, bytes);
	*again = s->sent.covered == covered;
	return failed;
}

static int see_data(rw_replay *r, const struct live *l, const struct rw_packet *p)
{
	struct rw_segments *s = &r->segments;
	struct rw_segments_path *path = &s->path[l->id];
	const struct rw_sender *tcp = &l->sender.tcp;
	uint32_t start = p->sequence + !!(p->flags & RW_TCP_SYN), end = start + p->payload_bytes;
	uint32_t next = path->begun ? path->next : start;
	int repeats = tcp->retransmitted != path->retransmitted;
	path->begun = 1;
	path->next = tcp->next;
	path->retransmitted = tcp->retransmitted;
	see_mapping(r, &path->mapping, l->flow, p);
	/* A keep-alive repeats what was acknowledged, and retransmits nothing (RFC 9293 3.8.4). */
	if (p->payload_bytes == 0 || (!repeats && rw_seq_diff(end, tcp->una) <= 0))
		return 0;
	if (repeats && rw_seq_diff(start, next) < 0) {
		uint32_t old_end = rw_seq_diff(end, next) < 0 ? end : next;
		if (add(s, l, p->time_ns, start, old_end, RW_SEGMENT_RETRANSMISSION))
			return 1;
		start = old_end;
	}
	int again;
	return start != end && (cover(s, &path->mapping, start, end, &again) ||
				add(s, l, p->time_ns, start, end, again ? RW_SEGMENT_REINJECTION : RW_SEGMENT_DATA));
}

static int was_there(const struct rw_segments_path *path, const struct rw_range *block)
{
	for (uint32_t i = 0; i < path->sacks; i++)
		if (path->sack[i].start == block->start && path->sack[i].end == block->end)
			return 1;
	return 0;
}

/* Blocks that the ACK before did not have. The first one may report a duplicate (RFC 2883 4). */
static int see_sacks(rw_replay *r, const struct live *l, const struct rw_packet *p)
{
	struct rw_segments *s = &r->segments;
	struct rw_segments_path *path = &s->path[l->id];
	const struct rw_sender *tcp = &l->sender.tcp;
	for (uint32_t i = 0; i < p->sack_count; i++) {
		const struct rw_range *b = &p->sack[i], *other = &p->sack[1];
		int is_one = rw_seq_diff(b->end, b->start) > 0 && rw_seq_diff(b->end, tcp->next) <= 0;
		if (!is_one || was_there(path, b))
			continue;
		int within = p->sack_count > 1 && rw_seq_diff(b->start, other->start) >= 0 &&
			     rw_seq_diff(b->end, other->end) <= 0;
		int duplicate = i == 0 && (rw_seq_diff(b->end, p->ack) <= 0 || within);
		if (add(s, l, p->time_ns, b->start, b->end, duplicate ? RW_SEGMENT_DSACK : RW_SEGMENT_SACK))
			return 1;
	}
	memcpy(path->sack, p->sack, p->sack_count * sizeof *p->sack);
	path->sacks = p->sack_count;
	return 0;
}

int rw_segments_see(rw_replay *r, const struct live *l, int from_source, const struct rw_packet *p)
{
	if (!l->sender.started)
		return 0;
	if (from_source)
		return see_data(r, l, p);
	return p->flags & RW_TCP_ACK && !(p->flags & (RW_TCP_SYN | RW_TCP_RST)) && see_sacks(r, l, p);
}
