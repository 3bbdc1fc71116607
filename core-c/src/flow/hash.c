#include "hash.h"

#include <string.h>

static uint32_t load(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t left(uint32_t x, int n) { return x << n | x >> (32 - n); }
static uint32_t right(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void pad(const uint8_t *message, size_t n, uint8_t block[64])
{
	memset(block, 0, 64);
	memcpy(block, message, n);
	block[n] = 0x80;
	store(block + 60, (uint32_t)(n * 8));
}

void rw_sha1_block(const uint8_t *message, size_t n, uint8_t digest[20])
{
	uint8_t block[64];
	pad(message, n, block);
	uint32_t w[80];
	for (int i = 0; i < 16; i++)
		w[i] = load(block + 4 * i);
	for (int i = 16; i < 80; i++)
		w[i] = left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
	for (int i = 0; i < 80; i++) {
		uint32_t f, k;
		if (i < 20)
			f = (b & c) | (~b & d), k = 0x5a827999;
		else if (i < 40)
			f = b ^ c ^ d, k = 0x6ed9eba1;
		else if (i < 60)
			f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
		else
			f = b ^ c ^ d, k = 0xca62c1d6;
		uint32_t t = left(a, 5) + f + e + k + w[i];
		e = d, d = c, c = left(b, 30), b = a, a = t;
	}
	uint32_t out[5] = {h[0] + a, h[1] + b, h[2] + c, h[3] + d, h[4] + e};
	for (int i = 0; i < 5; i++)
		store(digest + 4 * i, out[i]);
}

static const uint32_t sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void rw_sha256_block(const uint8_t *message, size_t n, uint8_t digest[32])
{
	uint8_t block[64];
	pad(message, n, block);
	uint32_t w[64];
	for (int i = 0; i < 16; i++)
		w[i] = load(block + 4 * i);
	for (int i = 16; i < 64; i++) {
		uint32_t s0 = right(w[i - 15], 7) ^ right(w[i - 15], 18) ^ w[i - 15] >> 3;
		uint32_t s1 = right(w[i - 2], 17) ^ right(w[i - 2], 19) ^ w[i - 2] >> 10;
		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
	uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	uint32_t v[8];
	memcpy(v, h, sizeof v);
	for (int i = 0; i < 64; i++) {
		uint32_t s1 = right(v[4], 6) ^ right(v[4], 11) ^ right(v[4], 25);
		uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + sha256_k[i] + w[i];
		uint32_t s0 = right(v[0], 2) ^ right(v[0], 13) ^ right(v[0], 22);
		uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
		memmove(v + 1, v, 7 * sizeof *v);
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		store(digest + 4 * i, h[i] + v[i]);
}

struct rw_key_identity rw_key_identify(uint64_t key, int version)
{
	uint8_t message[8], digest[32];
	store(message, (uint32_t)(key >> 32));
	store(message + 4, (uint32_t)key);
	size_t n = version == 0 ? 20 : 32;
	if (version == 0)
		rw_sha1_block(message, 8, digest);
	else
		rw_sha256_block(message, 8, digest);
	struct rw_key_identity id = {load(digest), (uint64_t)load(digest + n - 8) << 32 | load(digest + n - 4)};
	return id;
}
