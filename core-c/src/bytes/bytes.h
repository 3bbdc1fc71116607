/* The bounded cursor: the only code that dereferences captured bytes. A read past the end sets `short_read`. */
#ifndef RW_BYTES_H
#define RW_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* For functions that are seldom called: kept out of line, so that their callers keep the values of every packet in registers. */
#define RW_ASIDE __attribute__((noinline))
/* For the two loops over packets: all functions that they call are inlined, except those above. */
#define RW_FLAT __attribute__((flatten))

/* 16 bytes: it is passed by value, in two registers. */
struct rw_bytes {
	const uint8_t *at;
	uint32_t left;
	uint8_t swapped;    /* little-endian fields (capture files); packets are always big-endian */
	uint8_t short_read; /* a read went past the end */
};

static inline struct rw_bytes rw_bytes_of(const uint8_t *p, size_t n)
{
	struct rw_bytes b = {p, n < UINT32_MAX ? (uint32_t)n : UINT32_MAX, 0, 0};
	return b;
}

static inline size_t rw_bytes_left(const struct rw_bytes *b) { return b->left; }

/* Inside this file: n bytes, which the caller has checked to be there. */
static inline void rw_bytes_pass(struct rw_bytes *b, size_t n)
{
	b->at += n;
	b->left -= (uint32_t)n;
}

static inline int rw_bytes_has(struct rw_bytes *b, size_t n)
{
	if (rw_bytes_left(b) >= n)
		return 1;
	b->short_read = 1;
	return 0;
}

/* Skips n bytes and returns a view of them; null when fewer are there. Read them with rw_load_*. */
static inline const uint8_t *rw_bytes_view(struct rw_bytes *b, size_t n)
{
	if (!rw_bytes_has(b, n))
		return NULL;
	const uint8_t *p = b->at;
	rw_bytes_pass(b, n);
	return p;
}

/* Big-endian fields of a view. */
static inline uint16_t rw_load_u16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }

static inline uint32_t rw_load_u32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap32(v);
#else
	return v;
#endif
}

static inline uint64_t rw_load_u64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap64(v);
#else
	return v;
#endif
}

/*
 * Adjacent fields of a struct are stored at once, as a word of eight bytes: a processor that soon reads them back together would
 * have to wait for fields that were stored separately.
 */

/* A field of `bytes` bytes, `at` bytes into its word. */
static inline uint64_t rw_field(uint64_t value, unsigned at, unsigned bytes)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	(void)bytes;
	return value << 8 * at;
#else
	return value << 8 * (8 - at - bytes);
#endif
}

/* Two fields of four bytes, out of a view. */
static inline uint64_t rw_load_fields(const uint8_t *p)
{
	uint64_t v = rw_load_u64(p);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return v << 32 | v >> 32;
#else
	return v;
#endif
}

/* Such a word of a struct, `at` bytes into it. */
static inline uint64_t rw_fields_at(const void *structure, size_t at)
{
	uint64_t v;
	memcpy(&v, (const uint8_t *)structure + at, 8);
	return v;
}

static inline void rw_store_fields(void *structure, size_t at, uint64_t fields)
{
	memcpy((uint8_t *)structure + at, &fields, 8);
}

static inline uint8_t rw_bytes_u8(struct rw_bytes *b)
{
	if (!rw_bytes_has(b, 1))
		return 0;
	uint8_t v = *b->at;
	rw_bytes_pass(b, 1);
	return v;
}

static inline uint16_t rw_bytes_u16(struct rw_bytes *b)
{
	if (!rw_bytes_has(b, 2))
		return 0;
	uint16_t v = b->swapped ? (uint16_t)(b->at[0] | b->at[1] << 8) : (uint16_t)(b->at[0] << 8 | b->at[1]);
	rw_bytes_pass(b, 2);
	return v;
}

static inline uint32_t rw_bytes_u32(struct rw_bytes *b)
{
	if (!rw_bytes_has(b, 4))
		return 0;
	uint32_t v;
	memcpy(&v, b->at, 4);
	rw_bytes_pass(b, 4);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return b->swapped ? v : __builtin_bswap32(v);
#else
	return b->swapped ? __builtin_bswap32(v) : v;
#endif
}

static inline uint64_t rw_bytes_u64(struct rw_bytes *b)
{
	if (!rw_bytes_has(b, 8))
		return 0;
	uint64_t first = rw_bytes_u32(b), second = rw_bytes_u32(b);
	return b->swapped ? second << 32 | first : first << 32 | second;
}

static inline void rw_bytes_skip(struct rw_bytes *b, size_t n) { rw_bytes_pass(b, rw_bytes_has(b, n) ? n : b->left); }

/* A cursor over the next n bytes, or over fewer when fewer are there. */
static inline struct rw_bytes rw_bytes_take(struct rw_bytes *b, size_t n)
{
	struct rw_bytes part = *b;
	if (!rw_bytes_has(b, n)) {
		n = rw_bytes_left(b);
		part.short_read = 1;
	}
	part.left = (uint32_t)n;
	rw_bytes_pass(b, n);
	return part;
}

#endif
