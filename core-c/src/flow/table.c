/* Four-tuples -> flow numbers: open addressing with a keyed hash, because an attacker may craft collisions. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "flow.h"
#include "rw_ways.h"

enum { FIRST_PLACE_BITS = 6, FIRST_CAPACITY = 1 << FIRST_PLACE_BITS, TAG_BITS = 31 };
/* A delayed SYN arrives sooner after the end. */
#define SAME_ISN_NS 1000000000ll

int rw_flow_index_open(struct rw_flow_index *x, uint32_t flows_max)
{
	memset(x, 0, sizeof *x);
	x->flows_max = flows_max;
	x->capacity = FIRST_CAPACITY;
	x->place_bits = FIRST_PLACE_BITS;
	x->slot = calloc(x->capacity, sizeof *x->slot);
	return !x->slot || getrandom(x->seed, sizeof x->seed, 0) != (ssize_t)sizeof x->seed;
}

int rw_flow_index_copy(struct rw_flow_index *to, const struct rw_flow_index *from)
{
	*to = *from;
	to->slot = malloc(from->capacity * sizeof *to->slot);
	if (!to->slot)
		return 1;
	memcpy(to->slot, from->slot, from->capacity * sizeof *to->slot);
	return 0;
}

void rw_flow_index_close(struct rw_flow_index *x)
{
	free(x->slot);
	x->slot = NULL;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;
	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint32_t address_of(const uint8_t *address)
{
	uint32_t v;
	memcpy(&v, address, 4);
	return v;
}

static uint64_t hash_end(const struct rw_flow_index *x, const uint8_t *address, uint16_t port)
{
	uint64_t w[2];
	memcpy(w, address, 16);
	uint64_t h = mix(w[0] ^ x->seed[0], (w[1] + ((uint64_t)port << 8)) ^ x->seed[1]);
	return mix(h ^ 0x9e3779b97f4a7c15u, x->seed[0] | 1);
}

/* An IPv4 end as a number. */
static uint64_t end_v4(const uint8_t *address, uint16_t port) { return (uint64_t)address_of(address) << 16 | port; }

/* The two ends are put in order, so that the hash is the same for both directions. */
static inline uint64_t hash(const struct rw_flow_index *x, uint8_t family, const uint8_t *address_a, uint16_t port_a,
			    const uint8_t *address_b, uint16_t port_b)
{
	if (family == 4) {
		uint64_t a = end_v4(address_a, port_a), b = end_v4(address_b, port_b);
		uint64_t h = mix((a < b ? a : b) ^ x->seed[0], (a < b ? b : a) ^ x->seed[1]);
		return mix(h ^ 0x9e3779b97f4a7c15u, x->seed[1] | 1);
	}
	return mix(hash_end(x, address_a, port_a) + hash_end(x, address_b, port_b), x->seed[1] | 1);
}

uint64_t rw_flow_index_hash(const struct rw_flow_index *x, const struct rw_packet *p)
{
	return hash(x, p->family, p->source, p->source_port, p->destination, p->destination_port);
}

/* A slot keeps this part of the hash, from which its first place follows. So a larger table is filled without the flows. */
static uint32_t tag_of(uint64_t hash) { return (uint32_t)(hash >> (64 - TAG_BITS)); }

static size_t first_place(uint32_t tag, unsigned place_bits)
{
	return (size_t)((uint64_t)tag << (64 - TAG_BITS) >> (64 - place_bits));
}

static int same_address(const uint8_t *a, const uint8_t *b, uint8_t family)
{
	return family == 4 ? address_of(a) == address_of(b) : memcmp(a, b, 16) == 0;
}

static int comes_from(const struct rw_flow *f, int side, const struct rw_packet *p)
{
	return f->port[side] == p->source_port && f->port[!side] == p->destination_port &&
	       same_address(f->address[side], p->source, p->family) &&
	       same_address(f->address[!side], p->destination, p->family);
}

/* The slot of a packet's four-tuple, whose hash is h, or the empty slot for it. */
static struct rw_flow_slot *slot_of(const struct rw_flow_index *x, const struct rw_flow *flows,
				    const struct rw_packet *p, uint64_t h, int *side)
{
	uint32_t tag = tag_of(h);
	for (size_t i = first_place(tag, x->place_bits);; i++) {
		struct rw_flow_slot *slot = &x->slot[i & (x->capacity - 1)];
		if (!slot->used)
			return slot;
		if (slot->tag != tag)
			continue;
		const struct rw_flow *f = &flows[slot->flow];
		if (f->family != p->family)
			continue;
		if ((*side = 0, comes_from(f, 0, p)) || (*side = 1, comes_from(f, 1, p)))
			return slot;
	}
}

const struct rw_flow_slot *rw_flow_index_slot(const struct rw_flow_index *x, uint64_t h)
{
	return &x->slot[first_place(tag_of(h), x->place_bits)];
}

static RW_ASIDE int grow(struct rw_flow_index *x)
{
	uint8_t place_bits = x->place_bits + 1;
	size_t capacity = x->capacity * 2;
	struct rw_flow_slot *grown = calloc(capacity, sizeof *grown);
	if (!grown)
		return 1;
	for (size_t i = 0; i < x->capacity; i++) {
		if (!x->slot[i].used)
			continue;
		size_t k = first_place(x->slot[i].tag, place_bits);
		while (grown[k].used)
			k = (k + 1) & (capacity - 1);
		grown[k] = x->slot[i];
	}
	free(x->slot);
	x->slot = grown;
	x->capacity = capacity;
	x->place_bits = place_bits;
	return 0;
}

/* Whether this SYN or SYN/ACK opens the four-tuple anew. One with the same sequence number is a retransmission. */
static int used_again(const struct rw_flow *f, const struct rw_packet *p, int side)
{
	if (!(p->flags & RW_TCP_SYN))
		return 0;
	const struct rw_flow_side *from = &f->side[side], *to = &f->side[!side];
	int finished = from->fin || from->rst || to->fin || to->rst;
	if (from->syn && from->isn == p->sequence) /* some programs always use the same initial number */
		return !(p->flags & RW_TCP_ACK) && from->fin && to->fin && p->time_ns - f->last_ns > SAME_ISN_NS;
	if (from->syn)
		return !(p->flags & RW_TCP_ACK) || finished;
	if (p->flags & RW_TCP_ACK)
		return 0; /* the answer to a SYN, seen or not */
	return finished || !to->syn; /* otherwise both sides open at once */
}

/* The short way for most packets: the last flow of their direction. IPv4 only, and never for a SYN. */
static uint32_t ports_of(const struct rw_packet *p)
{
	uint32_t both;
	memcpy(&both, &p->source_port, 4);
	return both;
}

/* Subflows may differ only by an address. */
static struct rw_flow_recent *recent_of(struct rw_flow_index *x, const struct rw_packet *p)
{
	uint32_t end = address_of(p->source) + address_of(p->destination);
	return &x->recent[(ports_of(p) * 0x9e3779b1u + end * 0x85ebca6bu) >> (32 - RW_FLOW_RECENT_BITS)];
}

static int is_recent(const struct rw_flow_recent *recent, const struct rw_packet *p)
{
	uint32_t other = (recent->source ^ address_of(p->source)) | (recent->destination ^ address_of(p->destination)) |
			 (recent->ports ^ ports_of(p)) | (uint32_t)(recent->family ^ p->family);
	return !other;
}

static void remember(struct rw_flow_recent *recent, const struct rw_packet *p, uint32_t flow, int side)
{
	if (p->family == 4)
		*recent = (struct rw_flow_recent){
		    address_of(p->source), address_of(p->destination), ports_of(p), flow, (uint8_t)side, 4};
}

const struct rw_flow_recent *rw_flow_index_recent(struct rw_flow_index *x, const struct rw_packet *p)
{
	const struct rw_flow_recent *recent = recent_of(x, p);
	return RW_SHORT_WAY(is_recent(recent, p)) ? recent : NULL;
}

uint32_t rw_flow_index_known(struct rw_flow_index *x, const struct rw_flow *flows, const struct rw_packet *p,
			     uint64_t h, int *side)
{
	uint32_t tag = tag_of(h);
	const struct rw_flow_slot *slot = &x->slot[first_place(tag, x->place_bits)];
	if (!RW_SHORT_WAY(slot->used) || slot->tag != tag)
		return RW_FLOW_NONE;
	const struct rw_flow *f = &flows[slot->flow];
	if (f->family != p->family || f->beyond_record)
		return RW_FLOW_NONE;
	*side = !comes_from(f, 0, p);
	if (*side && !comes_from(f, 1, p))
		return RW_FLOW_NONE;
	remember(recent_of(x, p), p, slot->flow, *side);
	return slot->flow;
}

RW_ASIDE uint32_t rw_flow_index_add(struct rw_flow_index *x, struct rw_flow *flows, uint32_t next,
				    const struct rw_packet *p, uint64_t h, uint64_t record, int *side,
				    uint32_t *replaces)
{
	struct rw_flow_recent *recent = recent_of(x, p);
	*replaces = RW_FLOW_NONE;
	if (x->count * 4 >= x->capacity * 3 && grow(x))
		return RW_FLOW_NONE;
	struct rw_flow_slot *slot = slot_of(x, flows, p, h, side);
	struct rw_flow *before = slot->used ? &flows[slot->flow] : NULL;
	if (before && before->beyond_record)
		return RW_FLOW_BEYOND;
	if (before && !used_again(before, p, *side)) {
		remember(recent, p, slot->flow, *side);
		return slot->flow;
	}
	if (next >= x->flows_max) {
		if (before) {
			before->beyond_record = record;
			memset(x->recent, 0, sizeof x->recent);
		}
		return RW_FLOW_BEYOND;
	}
	if (before) {
		*replaces = slot->flow;
		x->reused = 1;
		memset(x->recent, 0, sizeof x->recent); /* the other direction's entry has the flow before */
	} else {
		slot->used = 1;
		slot->tag = tag_of(h);
		x->count++;
	}
	slot->flow = next;
	*side = 0;
	return next;
}

int rw_flow_index_fill(struct rw_flow_index *x, const struct rw_flow *flows, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (flows[i].first_same != i)
			continue;
		if (x->count * 4 >= x->capacity * 3 && grow(x))
			return 1;
		const struct rw_flow *f = &flows[i];
		uint32_t tag = tag_of(hash(x, f->family, f->address[0], f->port[0], f->address[1], f->port[1]));
		size_t k = first_place(tag, x->place_bits);
		while (x->slot[k].used)
			k = (k + 1) & (x->capacity - 1);
		x->slot[k] = (struct rw_flow_slot){.tag = tag, .used = 1, .flow = i};
		x->count++;
	}
	return 0;
}

void rw_flow_index_rewind(struct rw_flow_index *x, const struct rw_flow *flows)
{
	for (size_t i = 0; x->reused && i < x->capacity; i++)
		if (x->slot[i].used)
			x->slot[i].flow = flows[x->slot[i].flow].first_same;
	memset(x->recent, 0, sizeof x->recent);
}

uint32_t rw_flow_index_find(struct rw_flow_index *x, const struct rw_flow *flows, const struct rw_packet *p,
			    uint64_t record, int *side)
{
	struct rw_flow_recent *recent = recent_of(x, p);
	if (RW_SHORT_WAY(is_recent(recent, p))) {
		uint32_t next = flows[recent->flow].next_same;
		uint64_t beyond = flows[recent->flow].beyond_record;
		if ((next == RW_FLOW_NONE || flows[next].first_record > record) && (!beyond || beyond > record)) {
			*side = recent->side;
			return recent->flow;
		}
	}
	struct rw_flow_slot *slot = slot_of(x, flows, p, rw_flow_index_hash(x, p), side);
	if (!slot->used)
		return RW_FLOW_NONE;
	uint32_t next = flows[slot->flow].next_same;
	if (next != RW_FLOW_NONE && flows[next].first_record <= record) {
		do {
			slot->flow = next;
			next = flows[next].next_same;
		} while (next != RW_FLOW_NONE && flows[next].first_record <= record);
		*side = comes_from(&flows[slot->flow], 0, p) ? 0 : 1;
	}
	uint64_t beyond = flows[slot->flow].beyond_record;
	if (beyond && beyond <= record)
		return RW_FLOW_NONE;
	remember(recent, p, slot->flow, *side);
	return slot->flow;
}
