/*
 * Prefix-preserving anonymisation (Xu, Fan, Ammar, Moon: Prefix-Preserving IP Address Anonymization, ICNP 2002). By its theorem 1 every such
 * mapping flips bit i of an address by a function of the i bits before it. Crypto-PAn takes a bit of a block cipher for the function; here
 * it is a bit of SipHash-2-4 (Aumasson, Bernstein: SipHash: a fast short-input PRF, Indocrypt 2012), a keyed function made for short inputs.
 * Two prefixes are the same input only if family, length and bits are the same.
 */
#include "pseudonyms.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

/* A power of two. */
#define REMEMBERED 4096

struct rw_pseudonyms {
	uint8_t key[RW_KEY_BYTES];
	struct remembered {
		uint8_t family; /* 0: none */
		uint8_t address[16], pseudonym[16];
	} remembered[REMEMBERED];
};

static uint64_t little_u64(const uint8_t *p) { return __builtin_bswap64(rw_load_u64(p)); }

static uint64_t rotated(uint64_t v, unsigned by) { return v << by | v >> (64 - by); }

static void rounds(uint64_t v[4], int count)
{
	for (int i = 0; i < count; i++) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotated(v[1], 13) ^ v[0];
		v[3] = rotated(v[3], 16) ^ v[2];
		v[0] = rotated(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotated(v[1], 17) ^ v[2];
		v[3] = rotated(v[3], 21) ^ v[0];
		v[2] = rotated(v[2], 32);
	}
}

uint64_t rw_siphash(const uint8_t key[RW_KEY_BYTES], const uint8_t *bytes, uint32_t n)
{
	uint64_t k0 = little_u64(key), k1 = little_u64(key + 8);
	uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
			 k1 ^ 0x7465646279746573};
	uint32_t whole = n & ~7u;
	uint64_t last = (uint64_t)n << 56;
	for (uint32_t i = 0; i <= whole; i += 8) {
		uint64_t m = last;
		if (i < whole)
			m = little_u64(bytes + i);
		else
			for (uint32_t j = 0; j < n - whole; j++)
				m |= (uint64_t)bytes[i + j] << 8 * j;
		v[3] ^= m;
		rounds(v, 2);
		v[0] ^= m;
	}
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct rw_pseudonyms *rw_pseudonyms_open(const uint8_t key[RW_KEY_BYTES])
{
	struct rw_pseudonyms *p = calloc(1, sizeof *p);
	if (p)
		memcpy(p->key, key, RW_KEY_BYTES);
	return p;
}

void rw_pseudonyms_close(struct rw_pseudonyms *p)
{
	if (p)
		explicit_bzero(p, sizeof *p); /* the key, and what it stands for */
	free(p);
}

static void compute(const struct rw_pseudonyms *p, unsigned family, const uint8_t *address, uint8_t *pseudonym)
{
	uint32_t bytes = family == 4 ? 4 : 16;
	uint8_t input[18] = {(uint8_t)family, 0};
	for (uint32_t i = 0; i < bytes * 8; i++) {
		uint8_t bit = (uint8_t)(0x80 >> (i & 7));
		input[1] = (uint8_t)i;
		uint8_t flip = rw_siphash(p->key, input, 2 + bytes) & 1 ? bit : 0;
		pseudonym[i / 8] = (uint8_t)((pseudonym[i / 8] & ~bit) | ((address[i / 8] ^ flip) & bit));
		input[2 + i / 8] |= address[i / 8] & bit;
	}
}

void rw_pseudonym(struct rw_pseudonyms *p, unsigned family, const uint8_t *address, uint8_t *pseudonym)
{
	uint32_t bytes = family == 4 ? 4 : 16, hash = family;
	for (uint32_t i = 0; i < bytes; i += 4)
		hash = (hash ^ rw_load_u32(address + i)) * 0x9e3779b1u;
	struct remembered *r = &p->remembered[hash >> 20 & (REMEMBERED - 1)];
	if (r->family != family || memcmp(r->address, address, bytes) != 0) {
		compute(p, family, address, r->pseudonym);
		memcpy(r->address, address, bytes);
		r->family = (uint8_t)family;
	}
	memcpy(pseudonym, r->pseudonym, bytes);
}
