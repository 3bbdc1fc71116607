/*
 * Fragments of IPv4 (RFC 791, 815) and IPv6 (RFC 8200 4.5) that carry TCP. The first fragment has the TCP header, and all
 * fragments together give the length. A first fragment that is too small for the header (RFC 1858 calls it an attack) is
 * joined with the others until the header is whole.
 */
#include <stdlib.h>

#include "packet.h"

/* How many datagrams may be incomplete at once, a power of two. More of them are an attack. */
#define PLACES 256
#define PROBES 8
#define DATAGRAM_MAX 65535
/* Holes that an incomplete datagram may have. */
#define RANGES 8
#define TCP_HEADER_MAX 60
/* How long hosts wait for the missing fragments (RFC 791 3.2). */
#define WAIT_NS 30000000000ll

struct range {
	uint32_t start, end;
};

struct datagram {
	uint8_t used, family, has_head;
	uint8_t marked; /* one of the fragments carried CE (RFC 3168 5.3) */
	uint8_t in_parts; /* the TCP header does not end in the first fragment */
	uint8_t header[TCP_HEADER_MAX];
	uint64_t header_known; /* a bit for each byte of the header that was seen */
	uint8_t source[16], destination[16];
	uint32_t identification;
	uint32_t total; /* bytes after the IP header; 0: the last fragment was not seen */
	int64_t first_ns;
	struct range range[RANGES];
	uint32_t ranges;
	struct rw_packet head;
};

struct rw_fragments {
	struct datagram *place; /* null until a fragment is seen */
	uint64_t lost;
	struct rw_aggregate aggregate;
};

struct rw_fragments *rw_fragments_open(void) { return calloc(1, sizeof(struct rw_fragments)); }

uint64_t rw_fragments_lost(const struct rw_fragments *f)
{
	uint64_t lost = f->lost;
	for (uint32_t i = 0; f->place && i < PLACES; i++)
		lost += f->place[i].used;
	return lost;
}

void rw_fragments_close(struct rw_fragments *f)
{
	if (!f)
		return;
	free(f->place);
	free(f);
}

struct rw_aggregate *rw_aggregate_of(struct rw_fragments *f) { return &f->aggregate; }

static int is_of(const struct datagram *d, const struct rw_packet *p, uint32_t identification)
{
	size_t n = p->family == 4 ? 4 : 16;
	return d->used && d->family == p->family && d->identification == identification &&
	       memcmp(d->source, p->source, n) == 0 && memcmp(d->destination, p->destination, n) == 0;
}

static void give_up(struct rw_fragments *f, struct datagram *d)
{
	f->lost += d->used;
	d->used = 0;
}

/* The place of a fragment's datagram: its own place, a free one, or the place of the oldest datagram nearby. */
static struct datagram *datagram_of(struct rw_fragments *f, const struct rw_packet *p, uint32_t identification)
{
	size_t n = p->family == 4 ? 4 : 16;
	uint32_t h = identification * 0x9e3779b1u;
	for (size_t i = 0; i < n; i++)
		h = (h ^ p->source[i] ^ (uint32_t)p->destination[i] << 8) * 0x01000193u;
	struct datagram *choice = NULL;
	for (uint32_t i = 0; i < PROBES; i++) {
		struct datagram *d = &f->place[(h + i) & (PLACES - 1)];
		if (d->used && p->time_ns - d->first_ns > WAIT_NS)
			give_up(f, d);
		if (is_of(d, p, identification))
			return d;
		if (!choice || (choice->used && (!d->used || d->first_ns < choice->first_ns)))
			choice = d;
	}
	give_up(f, choice);
	memset(choice, 0, sizeof *choice);
	choice->used = 1;
	choice->family = p->family;
	memcpy(choice->source, p->source, n);
	memcpy(choice->destination, p->destination, n);
	choice->identification = identification;
	choice->first_ns = p->time_ns;
	return choice;
}

/* Adds [start, end) to the bytes that were seen. 0: the datagram would have too many holes. */
static int cover(struct datagram *d, uint32_t start, uint32_t end)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < d->ranges; i++) {
		struct range r = d->range[i];
		if (r.end < start || r.start > end) {
			d->range[kept++] = r;
			continue;
		}
		start = r.start < start ? r.start : start;
		end = r.end > end ? r.end : end;
	}
	d->ranges = kept;
	if (kept == RANGES)
		return 0;
	d->range[d->ranges++] = (struct range){start, end};
	return 1;
}

static void keep_header(struct datagram *d, struct rw_bytes b, uint32_t offset)
{
	for (; offset < TCP_HEADER_MAX && rw_bytes_left(&b); offset++) {
		d->header[offset] = rw_bytes_u8(&b);
		d->header_known |= (uint64_t)1 << offset;
	}
}

/* Does a TCP header that begins here end within so many bytes? */
static int header_ends_beyond(struct rw_bytes b, uint32_t wire)
{
	rw_bytes_skip(&b, 12);
	return wire < TCP_HEADER_MAX && (wire < 13 || (rw_bytes_u8(&b) >> 4) * 4u > wire);
}

enum rw_parse rw_parse_fragment(struct rw_parser *p, struct rw_bytes b, uint32_t wire, uint32_t identification,
				uint32_t offset, int more)
{
	struct rw_packet *packet = p->packet;
	struct rw_fragments *f = p->fragments;
	rw_parse_odd(p, RW_ODDITY_IP_FRAGMENT);
	rw_layer_ends(p, b.at);
	if (wire > DATAGRAM_MAX || offset + wire > DATAGRAM_MAX) /* a jumbogram is never fragmented (RFC 2675) */
		return rw_parse_odd(p, RW_ODDITY_BAD_LENGTH);
	if (!f->place && !(f->place = calloc(PLACES, sizeof *f->place)))
		return RW_PARSE_OTHER; /* counted, and skipped */
	if (wire < rw_bytes_left(&b)) /* the rest is a trailer of the link layer */
		b = rw_bytes_take(&b, wire);
	int in_parts = offset == 0 && more && header_ends_beyond(b, wire);
	/* Read the header before taking a place: a first fragment without a TCP header begins nothing. */
	if (offset == 0 && !in_parts && rw_parse_tcp(p, b, wire) != RW_PARSE_TCP)
		return RW_PARSE_OTHER;
	struct datagram *d = datagram_of(f, packet, identification);
	if (offset == 0) {
		d->head = *packet;
		d->has_head = 1;
		d->in_parts = (uint8_t)in_parts;
	}
	d->marked |= packet->ecn == RW_ECN_CE;
	keep_header(d, b, offset);
	if (!more)
		d->total = offset + wire;
	if (!cover(d, offset, offset + wire) || (d->total && d->total < d->range[0].end)) {
		give_up(f, d);
		return RW_PARSE_OTHER;
	}
	if (!d->has_head || !d->total || d->ranges != 1 || d->range[0].start != 0 || d->range[0].end != d->total)
		return RW_PARSE_OTHER;
	if (d->in_parts) {
		uint32_t known = 0;
		while (known < TCP_HEADER_MAX && d->header_known >> known & 1)
			known++;
		p->packet = &d->head;
		enum rw_parse got = rw_parse_tcp(p, rw_bytes_of(d->header, known), d->total);
		p->packet = packet;
		if (got != RW_PARSE_TCP) {
			give_up(f, d);
			return RW_PARSE_OTHER;
		}
	}
	struct rw_packet whole = d->head;
	if (d->marked)
		whole.ecn = RW_ECN_CE;
	whole.time_ns = packet->time_ns; /* the time when the receiver has all of it */
	whole.offset = packet->offset;
	whole.payload_bytes = d->total - whole.tcp_header_bytes;
	*packet = whole;
	d->used = 0;
	return RW_PARSE_TCP;
}
