/*
 * A capture written anew, record by record (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng, RFC 1761), little-endian but snoop. The oddities that the reader
 * counts tell what was wrong with the file between two records; the same number of blocks that are wrong in the same way is written.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "format.h"

struct rw_writer {
	const struct rw_capture *from;
	FILE *out;
	int failed; /* an errno */
	int is_pcapng, is_snoop, begun;
	uint64_t seen[RW_ODDITY_COUNT]; /* of the reader's counts, what is written already */
	uint32_t sections_before,
	    interfaces; /* of pcapng: interfaces before the section, and of it, that are written */
	uint64_t dropped; /* told by the first interface of the section */
};

static void put(struct rw_writer *w, const void *bytes, size_t n)
{
	if (!w->failed && fwrite(bytes, 1, n, w->out) != n)
		w->failed = errno ? errno : EIO;
}

/* 32-bit words, in the order of the format. */
static void put_words(struct rw_writer *w, const uint32_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t v = w->is_snoop ? __builtin_bswap32(words[i]) : words[i];
		uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
		put(w, bytes, sizeof bytes);
	}
}
#define PUT_WORDS(w, ...) put_words(w, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

/* How many of this kind the reader has counted since the last call. */
static uint64_t news(struct rw_writer *w, enum rw_oddity which)
{
	uint64_t count = w->from->oddities->count[which], before = w->seen[which];
	w->seen[which] = count;
	return count - before;
}

static int is_new(const struct rw_writer *w, enum rw_oddity which)
{
	return w->from->oddities->count[which] > w->seen[which];
}

struct rw_writer *rw_writer_open(const struct rw_capture *from, int fd)
{
	struct rw_writer *w = calloc(1, sizeof *w);
	int copy = w ? dup(fd) : -1;
	if (copy >= 0)
		w->out = fdopen(copy, "wb");
	if (!w || !w->out) {
		if (copy >= 0)
			close(copy);
		free(w);
		return NULL;
	}
	w->from = from;
	w->is_pcapng = from->next == rw_pcapng_next;
	w->is_snoop = from->next == rw_snoop_next;
	return w;
}

static void put_pcap_header(struct rw_writer *w)
{
	PUT_WORDS(w, 0xa1b23c4d, 2 | 4 << 16, 0, 0, RW_RECORD_MAX, w->from->interfaces[0].link_type);
}

static void put_snoop_header(struct rw_writer *w)
{
	put(w, "snoop\0\0", 8);
	PUT_WORDS(w, 2, rw_snoop_datalink(w->from->interfaces[0].link_type));
}

static void put_section(struct rw_writer *w)
{
	PUT_WORDS(w, 0x0a0d0d0a, 28, 0x1a2b3c4d, 1, UINT32_MAX, UINT32_MAX, 28);
	w->sections_before = w->from->interfaces_before;
	w->interfaces = 0;
	w->dropped = 0;
}

static void put_interface(struct rw_writer *w, const struct rw_interface *interface)
{
	/* if_tsresol: ten to the minus 9. */
	PUT_WORDS(w, 1, 32, interface->link_type, interface->snap_bytes, 9 | 1 << 16, 9, 0, 32);
}

static void put_statistics(struct rw_writer *w, uint64_t more)
{
	enum { DROPPED_BY_SYSTEM = 7 };
	w->dropped += more;
	PUT_WORDS(w, 5, 40, 0, 0, 0, DROPPED_BY_SYSTEM | 8 << 16, (uint32_t)w->dropped, (uint32_t)(w->dropped >> 32), 0,
		  40);
}

/* What stands before the reader's last record, or at the end. own_bad: bad blocks that the record itself is. */
static void put_between(struct rw_writer *w, uint64_t own_bad)
{
	const struct rw_capture *c = w->from;
	if (!w->is_pcapng) {
		uint64_t headers = news(w, RW_ODDITY_SECOND_HEADER) + !w->begun;
		for (; headers; headers--)
			(w->is_snoop ? put_snoop_header : put_pcap_header)(w);
		w->begun = 1;
		return;
	}
	if (!w->begun || w->sections_before != c->interfaces_before)
		put_section(w);
	w->begun = 1;
	while (w->interfaces < c->interface_count)
		put_interface(w, &c->interfaces[w->interfaces++]);
	static const struct rw_interface none;
	for (uint64_t n = news(w, RW_ODDITY_TOO_MANY_INTERFACES); n; n--)
		put_interface(w, &none);
	for (uint64_t n = news(w, RW_ODDITY_BAD_BLOCK); n > own_bad; n--)
		PUT_WORDS(w, 6, 12, 12);
	for (uint64_t n = news(w, RW_ODDITY_UNKNOWN_INTERFACE); n; n--)
		PUT_WORDS(w, 6, 32, UINT32_MAX, 0, 0, 0, 0, 32);
	uint64_t dropped = news(w, RW_ODDITY_DROPPED_PACKETS);
	if (dropped)
		put_statistics(w, dropped);
}

int rw_writer_needs_length(const struct rw_writer *w) { return is_new(w, RW_ODDITY_NO_TIMESTAMP); }

static void put_simple(struct rw_writer *w, const struct rw_record *record, const uint8_t *bytes, uint32_t captured)
{
	uint32_t padded = (captured + 3) & ~3u;
	PUT_WORDS(w, 3, 16 + padded, record->wire_bytes);
	put(w, bytes, captured);
	put(w, "\0\0\0", padded - captured);
	PUT_WORDS(w, 16 + padded);
}

static void put_enhanced(struct rw_writer *w, const struct rw_record *record, const uint8_t *bytes, uint32_t captured)
{
	uint32_t padded = (captured + 3) & ~3u;
	uint64_t units = news(w, RW_ODDITY_BAD_TIMESTAMP) ? UINT64_MAX : (uint64_t)record->time_ns;
	PUT_WORDS(w, 6, 32 + padded, record->interface - w->sections_before, (uint32_t)(units >> 32), (uint32_t)units,
		  captured, record->wire_bytes);
	put(w, bytes, captured);
	put(w, "\0\0\0", padded - captured);
	PUT_WORDS(w, 32 + padded);
}

static void put_classic(struct rw_writer *w, const struct rw_record *record, const uint8_t *bytes, uint32_t captured)
{
	uint64_t seconds = (uint64_t)record->time_ns / 1000000000, fraction = (uint64_t)record->time_ns % 1000000000;
	if (news(w, RW_ODDITY_BAD_TIMESTAMP)) { /* a fraction of a second or more */
		seconds--;
		fraction += 1000000000;
	}
	PUT_WORDS(w, (uint32_t)seconds, (uint32_t)fraction, captured, record->wire_bytes);
	put(w, bytes, captured);
}

static void put_snoop(struct rw_writer *w, const struct rw_record *record, const uint8_t *bytes, uint32_t captured)
{
	enum { HEADER = 24 };
	uint32_t padded = (captured + 3) & ~3u;
	uint64_t seconds = (uint64_t)record->time_ns / 1000000000,
		 microseconds = (uint64_t)record->time_ns % 1000000000 / 1000;
	if (news(w, RW_ODDITY_BAD_TIMESTAMP)) { /* as in pcap */
		seconds--;
		microseconds += 1000000;
	}
	PUT_WORDS(w, record->wire_bytes, captured, HEADER + padded, (uint32_t)w->from->interfaces[0].dropped,
		  (uint32_t)seconds, (uint32_t)microseconds);
	put(w, bytes, captured);
	put(w, "\0\0\0", padded - captured);
}

/* Has the block fewer bytes than a simple packet block of this length on the wire should have? The reader counts it as bad. */
static uint64_t is_short(const struct rw_writer *w, const struct rw_record *record)
{
	uint32_t snap = w->from->interfaces[0].snap_bytes, wire = record->wire_bytes;
	return record->captured_bytes < (snap && snap < wire ? snap : wire);
}

void rw_writer_put(struct rw_writer *w, const struct rw_record *record, const uint8_t *bytes, uint32_t captured_bytes)
{
	int simple = rw_writer_needs_length(w);
	put_between(w, simple && is_short(w, record));
	if (w->is_snoop) {
		put_snoop(w, record, bytes, captured_bytes);
	} else if (!w->is_pcapng) {
		put_classic(w, record, bytes, captured_bytes);
	} else if (simple) {
		news(w, RW_ODDITY_NO_TIMESTAMP);
		put_simple(w, record, bytes, captured_bytes);
	} else {
		put_enhanced(w, record, bytes, captured_bytes);
	}
}

int rw_writer_close(struct rw_writer *w)
{
	put_between(w, 0);
	if (news(w, RW_ODDITY_CORRUPT_RECORD)) {
		if (w->is_pcapng)
			PUT_WORDS(w, 0, 0, 0);
		else if (w->is_snoop)
			PUT_WORDS(w, 0, UINT32_MAX, 0, 0, 0, 0);
		else
			PUT_WORDS(w, 0, 0, UINT32_MAX, UINT32_MAX);
	} else if (news(w, RW_ODDITY_CUT_CAPTURE)) {
		put(w, "\0", 1);
	}
	if (fclose(w->out) && !w->failed)
		w->failed = errno;
	int failed = w->failed;
	free(w);
	return failed;
}
