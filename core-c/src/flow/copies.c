/* Frames captured more than once: on Linux's "any" device, behind mirrored ports, on both sides of a router. */
#include <stdlib.h>
#include <string.h>

#include "flow.h"

/*
 * 16 KiB for each share of the flows, so that the results for a flow do not depend on flows of another thread. An entry that is
 * overwritten, the oldest of its set, is no longer recognised.
 */
#define SETS_BITS 9
#define WAYS 4
/* How long a queue between two capture points may hold a frame, in units of 2^20 ns: half a second. */
#define UNIT_BITS 20
#define COPY_UNITS 477u
/* Two milliseconds: no sender retransmits sooner. */
#define SOON_UNITS 2u

typedef uint32_t ways __attribute__((vector_size(4 * WAYS)));

struct set {
	ways digest, time; /* time wraps after weeks; entries are valid for half a second */
};

/* The sets of each share in turn. */
struct rw_copies {
	struct set set[RW_SHARES << SETS_BITS];
	uint8_t oldest[RW_SHARES << SETS_BITS];
};

struct rw_copies *rw_copies_open(void)
{
	struct rw_copies *c = aligned_alloc(sizeof c->set[0], sizeof *c);
	if (c)
		memset(c, 0, sizeof *c);
	return c;
}

void rw_copies_close(struct rw_copies *c) { free(c); }

static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd6e8feb86659fd93u);
	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* A digest of the fields that routers do not change. */
static uint64_t digest_of(const struct rw_flow *flow, int side, const struct rw_packet *p)
{
	uint64_t which = flow->first_record << 17 | (uint64_t)side << 16 | p->identification;
	uint64_t options = rw_fields_at(p, offsetof(struct rw_packet, ts_value));
	if (p->sack_count)
		options ^= (uint64_t)p->sack[0].end << 7 ^ (uint64_t)p->sack[0].start << 29;
	uint64_t numbers = rw_fields_at(p, offsetof(struct rw_packet, sequence));
	uint64_t counts = rw_fields_at(p, offsetof(struct rw_packet, payload_bytes));
	return mix(numbers, which) + mix(counts, options);
}

static int seen(const struct set *set, uint32_t digest, uint32_t now, uint32_t units)
{
	/* Compares all ways without branches, because the branch predictor cannot guess which one matches. */
	ways same = (ways)((set->digest == digest) & (now - set->time < units));
	uint64_t found[sizeof same / sizeof(uint64_t)];
	memcpy(found, &same, sizeof same);
	return (found[0] | found[1]) != 0;
}

enum rw_copy rw_copies_see(struct rw_copies *c, const struct rw_flow *flow, int side, const struct rw_packet *p,
			   int fresh)
{
	uint64_t whole = digest_of(flow, side, p);
	struct set *set = &c->set[(uint32_t)flow->share << SETS_BITS | (uint32_t)(whole >> (64 - SETS_BITS))];
	uint32_t digest = (uint32_t)whole | 1, now = (uint32_t)((uint64_t)p->time_ns >> UNIT_BITS); /* 0: never used */
	if (!fresh) {
		/* Without an IPv4 number or a timestamp, a retransmission equals its original. */
		int nameless = p->identification == 0 && !p->has_timestamps;
		if (seen(set, digest, now, nameless ? SOON_UNITS : COPY_UNITS))
			return nameless ? RW_COPY_NAMELESS : RW_COPY_CERTAIN;
	}
	uint8_t *oldest = &c->oldest[set - c->set];
	set->digest[*oldest] = digest;
	set->time[*oldest] = now;
	*oldest = (*oldest + 1) % WAYS;
	return RW_COPY_NONE;
}
