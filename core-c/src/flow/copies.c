/* Frames captured more than once: on Linux's "any" device, behind mirrored ports, on both sides of a router. */
#include <stdlib.h>
#include <string.h>

#include "flow.h"

/*
 * 16 KiB for each share of the flows: what is remembered of a flow depends on no flow of another share, and so on no other thread.
 * What is overwritten, the oldest of its set, is no longer recognised.
 */
#define SETS_BITS 9
#define SETS (1 << SETS_BITS)
#define WAYS 4
/* As long as a queue between two capture points may hold a frame: in units of 2^20 ns, half a second. */
#define UNIT_BITS 20
#define COPY_UNITS 477u
/* Sooner than anything is sent again: two milliseconds. */
#define SOON_UNITS 2u

typedef uint32_t ways __attribute__((vector_size(4 * WAYS)));

/* The newest first. */
struct set {
	ways digest, time; /* time: wraps after weeks, which nothing is remembered for */
};

struct rw_copies {
	struct set set[RW_SHARES][SETS];
};

struct rw_copies *rw_copies_open(void)
{
	return calloc(1, sizeof(struct rw_copies)); /* of which memory is taken as it is written to */
}

void rw_copies_close(struct rw_copies *c) { free(c); }

static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd6e8feb86659fd93u);
	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* What routers leave as it is. */
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
	/* All at once: which it is cannot be foretold. */
	ways same = (ways)((set->digest == digest) & (now - set->time < units));
	uint64_t found[sizeof same / sizeof(uint64_t)];
	memcpy(found, &same, sizeof same);
	return (found[0] | found[1]) != 0;
}

enum rw_copy rw_copies_see(struct rw_copies *c, const struct rw_flow *flow, int side, const struct rw_packet *p,
			   int fresh)
{
	uint64_t whole = digest_of(flow, side, p);
	struct set *set = &c->set[flow->share][whole >> (64 - SETS_BITS)];
	uint32_t digest = (uint32_t)whole | 1, now = (uint32_t)((uint64_t)p->time_ns >> UNIT_BITS); /* 0: never used */
	if (!fresh) {
		/* Without a number or a clock of its own a packet that is sent again is the same as the one before. */
		int nameless = p->identification == 0 && !p->has_timestamps;
		if (seen(set, digest, now, nameless ? SOON_UNITS : COPY_UNITS))
			return nameless ? RW_COPY_NAMELESS : RW_COPY_CERTAIN;
	}
	ways digests = __builtin_shufflevector(set->digest, set->digest, 0, 0, 1, 2),
	     times = __builtin_shufflevector(set->time, set->time, 0, 0, 1, 2);
	digests[0] = digest;
	times[0] = now;
	set->digest = digests;
	set->time = times;
	return RW_COPY_NONE;
}
