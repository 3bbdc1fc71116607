/* Builds captures in memory, for tests. */
#ifndef TEST_PACKETS_H
#define TEST_PACKETS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct file {
	uint8_t bytes[1 << 20];
	size_t n;
};

static inline void put(struct file *f, const void *p, size_t n)
{
	memcpy(f->bytes + f->n, p, n);
	f->n += n;
}

static inline void put_number(struct file *f, uint64_t v, int bytes, int big)
{
	for (int i = 0; i < bytes; i++)
		f->bytes[f->n++] = (uint8_t)(v >> 8 * (big ? bytes - 1 - i : i));
}

static inline int file_descriptor(const struct file *f)
{
	FILE *t = tmpfile();
	if (!t || fwrite(f->bytes, 1, f->n, t) != f->n || fflush(t))
		abort();
	return dup(fileno(t)); /* the stream is closed with the process */
}

static inline void pcap_header(struct file *f, uint32_t magic, uint32_t link_type, int big)
{
	put_number(f, magic, 4, big);
	put_number(f, 2, 2, big);
	put_number(f, 4, 2, big);
	put_number(f, 0, 8, big);
	put_number(f, 262144, 4, big);
	put_number(f, link_type, 4, big);
}

static inline void pcap_record(struct file *f, int64_t time_ns, uint32_t unit_ns, const void *p, uint32_t captured,
			       uint32_t wire, int big)
{
	put_number(f, (uint64_t)(time_ns / 1000000000), 4, big);
	put_number(f, (uint64_t)(time_ns % 1000000000) / unit_ns, 4, big);
	put_number(f, captured, 4, big);
	put_number(f, wire, 4, big);
	put(f, p, captured);
}

/* pcapng */

static inline void pcapng_block(struct file *f, uint32_t type, const struct file *body, int big)
{
	uint32_t length = (uint32_t)(12 + (body->n + 3) / 4 * 4);
	put_number(f, type, 4, big);
	put_number(f, length, 4, big);
	put(f, body->bytes, body->n);
	for (size_t i = body->n; i % 4; i++)
		put_number(f, 0, 1, big);
	put_number(f, length, 4, big);
}

static inline void pcapng_section(struct file *f, int big)
{
	struct file b = {.n = 0};
	put_number(&b, 0x1a2b3c4d, 4, big);
	put_number(&b, 1, 2, big);
	put_number(&b, 0, 2, big);
	put_number(&b, UINT64_MAX, 8, big);
	pcapng_block(f, 0x0a0d0d0a, &b, big);
}

static inline void pcapng_interface(struct file *f, uint32_t link_type, int resolution, int64_t offset_s, int big)
{
	struct file b = {.n = 0};
	put_number(&b, link_type, 2, big);
	put_number(&b, 0, 2, big);
	put_number(&b, 0, 4, big);
	if (resolution >= 0) {
		put_number(&b, 9, 2, big);
		put_number(&b, 1, 2, big);
		put_number(&b, (uint64_t)resolution, 4, 0);
	}
	if (offset_s) {
		put_number(&b, 14, 2, big);
		put_number(&b, 8, 2, big);
		put_number(&b, (uint64_t)offset_s, 8, big);
	}
	pcapng_block(f, 1, &b, big);
}

static inline void pcapng_enhanced(struct file *f, uint32_t index, uint64_t units, int big)
{
	struct file b = {.n = 0};
	put_number(&b, index, 4, big);
	put_number(&b, units >> 32, 4, big);
	put_number(&b, units & 0xffffffff, 4, big);
	put_number(&b, 8, 4, big);
	put_number(&b, 60, 4, big);
	put(&b, "abcdefgh", 8);
	pcapng_block(f, 6, &b, big);
}

static inline uint32_t little(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/*
 * The first records of a capture, little-endian, raw IP and nanoseconds, as two interfaces': that of the hosts 10.0.2.x was
 * drained a second later.
 */
static inline void as_two_interfaces(struct file *out, const struct file *capture, uint32_t records)
{
	const int64_t second_ns = 1000000000;
	const uint8_t *record[2] = {capture->bytes + 24, capture->bytes + 24};
	uint32_t left[2] = {records, records};
	out->n = 0;
	pcapng_section(out, 0);
	pcapng_interface(out, 101, 9, 0, 0);
	pcapng_interface(out, 101, 9, 0, 0);
	while (left[0] || left[1]) {
		int64_t time_ns[2];
		for (int k = 0; k < 2; k++)
			time_ns[k] = little(record[k]) * second_ns + little(record[k] + 4);
		uint32_t k = !left[0] || (left[1] && time_ns[1] + second_ns < time_ns[0]),
			 captured = little(record[k] + 8);
		if ((record[k][16 + 14] == 2) == k) {
			struct file body = {.n = 0};
			put_number(&body, k, 4, 0);
			put_number(&body, (uint64_t)time_ns[k] >> 32, 4, 0);
			put_number(&body, (uint64_t)time_ns[k] & 0xffffffff, 4, 0);
			put_number(&body, captured, 4, 0);
			put_number(&body, little(record[k] + 12), 4, 0);
			put(&body, record[k] + 16, captured);
			pcapng_block(out, 6, &body, 0);
		}
		record[k] += 16 + captured;
		left[k]--;
	}
}

/* A TCP segment over IPv4 without a link layer; options are padded with NOPs. */
struct segment {
	int from_client;
	uint32_t sequence, ack;
	uint16_t flags;
	uint32_t payload;
	const uint8_t *options;
	size_t options_bytes;
	uint16_t window;
	uint8_t ecn;
	uint16_t client_port;
};

static inline size_t ipv4_tcp(uint8_t *out, const struct segment *s)
{
	struct file f = {.n = 0};
	size_t padded = (s->options_bytes + 3) / 4 * 4;
	put_number(&f, 0x45, 1, 1);
	put_number(&f, s->ecn, 1, 1);
	put_number(&f, 40 + padded + s->payload, 2, 1);
	put_number(&f, 0x0001000040060000ull, 8, 1);
	put_number(&f, s->from_client ? 0x0a000001 : 0x0a000002, 4, 1);
	put_number(&f, s->from_client ? 0x0a000002 : 0x0a000001, 4, 1);
	uint16_t client = s->client_port ? s->client_port : 1000;
	put_number(&f, s->from_client ? client : 80, 2, 1);
	put_number(&f, s->from_client ? 80 : client, 2, 1);
	put_number(&f, s->sequence, 4, 1);
	put_number(&f, s->ack, 4, 1);
	put_number(&f, (uint64_t)(5 + padded / 4) << 12 | s->flags, 2, 1);
	put_number(&f, s->window ? s->window : 65535, 2, 1);
	put_number(&f, 0, 4, 1);
	if (s->options_bytes)
		put(&f, s->options, s->options_bytes);
	for (size_t i = s->options_bytes; i < padded; i++)
		put_number(&f, 1, 1, 1);
	memcpy(out, f.bytes, f.n);
	return f.n; /* the payload is not captured */
}

#endif
