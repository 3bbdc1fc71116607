/* Frames captured more than once: on Linux's "any" device, behind mirrored ports, on both sides of a router. */
#include <stdlib.h>
#include <string.h>

#include "flow.h"

/* 16 KiB, to stay in the nearest cache. What is overwritten, the oldest of its set, is no longer recognised. */
#define SETS_BITS 9
#define SETS (1 << SETS_BITS)
#define WAYS 4
/* As long as a queue between two capture points may hold a frame: in units of 2^20 ns, half a second. */
#define UNIT_BITS 20
#define COPY_UNITS 477u
/* Sooner than anything is sent again: two milliseconds. */
#define SOON_UNITS 2u

struct seen {
	uint32_t digest, time; /* time: wraps after weeks, which nothing is remembered for */
};

struct rw_copies {
	struct seen set[SETS][WAYS];
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

/* What routers leave as it is. */
static uint64_t digest_of(const struct rw_packet *p)
{
	uint64_t source = 0, destination = 0;
	if (p->family == 4) {
		memcpy(&source, p->source, 4);
		memcpy(&destination, p->destination, 4);
	} else { /* the half of an IPv6 address that tells hosts apart */
		memcpy(&source, p->source + 8, 8);
		memcpy(&destination, p->destination + 8, 8);
	}
	uint64_t numbers = (uint64_t)p->sequence << 32 | p->ack;
	uint64_t ports = (uint64_t)p->source_port << 48 | (uint64_t)p->destination_port << 32 | p->payload_bytes;
	uint64_t rest = (uint64_t)p->flags << 48 | (uint64_t)p->window << 32;
	if (p->family == 4)
		rest |= p->identification;
	uint64_t options = p->has_timestamps ? (uint64_t)p->ts_value << 32 | p->ts_echo : 0;
	if (p->sack_count)
		options ^= (uint64_t)p->sack_end[0] << 7 ^ (uint64_t)p->sack_start[0] << 29;
	return mix(mix(numbers, ports), mix(rest ^ source, options ^ destination << 32 ^ destination >> 32));
}

enum rw_copy rw_copies_see(struct rw_copies *c, const struct rw_packet *p)
{
	/* Without a number or a clock of its own a packet that is sent again is the same as the one before. */
	int nameless = (p->family != 4 || p->identification == 0) && !p->has_timestamps;
	uint32_t most = nameless ? SOON_UNITS : COPY_UNITS;
	uint64_t whole = digest_of(p);
	struct seen *set = c->set[whole >> (64 - SETS_BITS)];
	uint32_t digest = (uint32_t)whole | 1, now = (uint32_t)((uint64_t)p->time_ns >> UNIT_BITS); /* 0: never used */
	/* Without branches: which is the oldest cannot be foretold. */
	uint32_t oldest = 0, age_most = now - set[0].time, found = set[0].digest == digest && age_most < most;
	for (uint32_t i = 1; i < WAYS; i++) {
		uint32_t age = now - set[i].time;
		found |= (set[i].digest == digest) & (age < most);
		oldest = age > age_most ? i : oldest;
		age_most = age > age_most ? age : age_most;
	}
	if (!found)
		set[oldest] = (struct seen){digest, now};
	return !found ? RW_COPY_NONE : nameless ? RW_COPY_NAMELESS : RW_COPY_CERTAIN;
}
