/* SHA-1 and SHA-256 (FIPS 180-4) of a 64-bit MPTCP key: token and initial data sequence number come from them. */
#ifndef RW_HASH_H
#define RW_HASH_H

#include <stddef.h>
#include <stdint.h>

/* One-shot, for messages of up to 55 bytes: a single block. */
void rw_sha1_block(const uint8_t *message, size_t n, uint8_t digest[20]);
void rw_sha256_block(const uint8_t *message, size_t n, uint8_t digest[32]);

struct rw_key_identity {
	uint32_t token;
	uint64_t idsn;
};

/* RFC 8684 3.1 and 3.2 (version 1: SHA-256), RFC 6824 (version 0: SHA-1): first 32 and last 64 bits. */
struct rw_key_identity rw_key_identify(uint64_t key, int version);

#endif
