/* Four-tuples -> flow numbers: open addressing, keyed hash (a capture may be made to collide). */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "flow.h"

struct tuple {
	uint8_t address[2][16];
	uint16_t port[2];
	uint8_t family;
};

struct entry {
	struct tuple tuple;
	uint32_t flow;
	uint32_t isn[2];
	uint8_t syn[2], used, finished;
	uint8_t first; /* which of the ordered ends sent first: side 0 */
};

struct rw_flow_table {
	struct entry *entry;
	size_t capacity, count;
	uint32_t flows;
	uint64_t seed[2];
	struct tuple last; /* of the packet before: most packets belong to the same flow */
	size_t last_place;
	uint8_t has_last;
};

struct rw_flow_table *rw_flow_table_open(void)
{
	struct rw_flow_table *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->capacity = 64;
	t->entry = calloc(t->capacity, sizeof *t->entry);
	if (!t->entry || getrandom(t->seed, sizeof t->seed, 0) != (ssize_t)sizeof t->seed) {
		rw_flow_table_close(t);
		return NULL;
	}
	return t;
}

void rw_flow_table_close(struct rw_flow_table *t)
{
	if (!t)
		return;
	free(t->entry);
	free(t);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;
	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t hash(const struct rw_flow_table *t, const struct tuple *tuple)
{
	uint64_t w[5] = {0};
	memcpy(w, tuple->address, 32);
	w[4] = (uint64_t)tuple->port[0] << 32 | (uint64_t)tuple->port[1] << 8 | tuple->family;
	uint64_t h = t->seed[0];
	for (int i = 0; i < 5; i++)
		h = mix(h ^ w[i] ^ 0x9e3779b97f4a7c15u, t->seed[1] | 1);
	return mix(h, 0xd6e8feb86659fd93u ^ t->seed[0]);
}

static int same(const struct tuple *a, const struct tuple *b)
{
	return a->family == b->family && a->port[0] == b->port[0] && a->port[1] == b->port[1] &&
	       memcmp(a->address, b->address, sizeof a->address) == 0;
}

static size_t place_of(const struct rw_flow_table *t, const struct tuple *tuple)
{
	size_t i = hash(t, tuple) & (t->capacity - 1);
	while (t->entry[i].used && !same(&t->entry[i].tuple, tuple))
		i = (i + 1) & (t->capacity - 1);
	return i;
}

static int grow(struct rw_flow_table *t)
{
	struct entry *old = t->entry;
	size_t capacity = t->capacity;
	struct entry *entry = calloc(capacity * 2, sizeof *entry);
	if (!entry)
		return 0;
	t->entry = entry;
	t->capacity = capacity * 2;
	for (size_t i = 0; i < capacity; i++)
		if (old[i].used)
			t->entry[place_of(t, &old[i].tuple)] = old[i];
	free(old);
	t->has_last = 0;
	return 1;
}

/* Does this SYN or SYN/ACK open the four-tuple anew? The same sequence number is a retransmission. */
static int used_again(const struct entry *e, const struct rw_packet *p, int side)
{
	if (!(p->flags & RW_TCP_SYN))
		return 0;
	if (e->syn[side])
		return e->isn[side] != p->sequence && (!(p->flags & RW_TCP_ACK) || e->finished);
	if (p->flags & RW_TCP_ACK)
		return 0; /* the answer to a SYN, seen or not */
	return e->finished || !e->syn[!side]; /* else: both sides open at once */
}

uint32_t rw_flow_find(struct rw_flow_table *t, const struct rw_packet *p, int *side)
{
	struct tuple tuple;
	size_t n = p->family == 4 ? 4 : 16;
	int order = memcmp(p->source, p->destination, n);
	int swap = order > 0 || (order == 0 && p->source_port > p->destination_port);
	memcpy(tuple.address[swap], p->source, 16);
	memcpy(tuple.address[!swap], p->destination, 16);
	tuple.port[swap] = p->source_port;
	tuple.port[!swap] = p->destination_port;
	tuple.family = p->family;
	if (t->count * 4 >= t->capacity * 3 && !grow(t))
		return RW_FLOW_NONE;
	size_t i = t->has_last && same(&tuple, &t->last) ? t->last_place : place_of(t, &tuple);
	struct entry *e = &t->entry[i];
	t->last = tuple;
	t->last_place = i;
	t->has_last = 1;
	if (!e->used || used_again(e, p, swap ^ e->first)) {
		if (!e->used)
			t->count++;
		memset(e, 0, sizeof *e);
		e->tuple = tuple;
		e->used = 1;
		e->flow = t->flows++;
		e->first = (uint8_t)swap;
	}
	int s = swap ^ e->first;
	if (p->flags & RW_TCP_SYN) {
		e->syn[s] = 1;
		e->isn[s] = p->sequence;
	}
	if (p->flags & (RW_TCP_FIN | RW_TCP_RST))
		e->finished = 1;
	*side = s;
	return e->flow;
}
