/*
 * A capture without payload, and with other addresses if that is asked for. Only what the packet room recognised as a header is kept: a
 * record whose layers are unknown keeps nothing beyond the bytes that make it unknown.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "capture.h"
#include "packet.h"
#include "pseudonyms.h"
#include "search.h"

/* A record without TCP is searched for the bytes that matter up to here; more are no headers. */
#define HEADERS_MAX 512
#define RECORD_MAX ((size_t)16 << 20)

struct redaction {
	struct rw_pseudonyms *pseudonyms; /* null: addresses stay */
	struct rw_fragments *fragments;
	struct rw_layers layers;
	uint8_t *bytes; /* of the new record */
	size_t room;
	rw_redaction_row *row;
};

/* Internet checksum (RFC 1071) without its last step: a sum of 16-bit words. */
static uint64_t sum_of(const uint8_t *p, uint32_t n)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i + 1 < n; i += 2)
		sum += rw_load_u16(p + i);
	return n & 1 ? sum + (uint64_t)(p[n - 1] << 8) : sum;
}

static uint16_t folded(uint64_t sum)
{
	for (int i = 0; i < 4; i++)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/*
 * The checksum after a change of the words that it covers, whose sums, the checksum's own included, are before and after (RFC 1624, equation 3).
 * One that was wrong, or left to the network card, becomes 0: adjusted, it would tell how the sum of the words changed.
 */
static void adjust(uint8_t *checksum, uint64_t before, uint64_t after)
{
	uint16_t own = rw_load_u16(checksum), result = 0;
	if (folded(before) == 0xffff)
		result = (uint16_t)~folded(after + (uint16_t)~own);
	checksum[0] = (uint8_t)(result >> 8);
	checksum[1] = (uint8_t)result;
}

static void rename_v4(struct redaction *r, uint8_t *h, uint32_t length)
{
	enum { SUM = 10, SOURCE = 12, DESTINATION = 16, FIXED = 20, NO_OPERATION = 1 };
	uint64_t before = sum_of(h, length);
	rw_pseudonym(r->pseudonyms, 4, h + SOURCE, h + SOURCE);
	rw_pseudonym(r->pseudonyms, 4, h + DESTINATION, h + DESTINATION);
	memset(h + FIXED, NO_OPERATION, length - FIXED); /* routes, timestamps of routers */
	adjust(h + SUM, before, sum_of(h, length));
}

/* Adds TCP's pseudo-header (RFC 9293 3.1) of the old addresses to before, of the new ones to after. */
static void add_pseudo_headers(struct redaction *r, unsigned family, const struct rw_layer *l, uint64_t *before,
			       uint64_t *after)
{
	enum { TCP = 6 };
	uint32_t n = family == 4 ? 4 : 16;
	uint8_t to[16];
	const uint8_t *both[] = {l->source, l->destination};
	*before += TCP + l->bytes;
	*after += TCP + l->bytes;
	for (int i = 0; i < 2; i++) {
		memcpy(to, both[i], n);
		if (r->pseudonyms)
			rw_pseudonym(r->pseudonyms, family, both[i], to);
		*before += sum_of(both[i], n);
		*after += sum_of(to, n);
	}
}

/* RFC 8684 3.4.1 and RFC 6824 3.4.1. The code that proves the address to the peer would let anybody who has the keys of the handshake guess it. */
static void rename_advertised(struct redaction *r, uint8_t *option, uint32_t length)
{
	enum { ADDRESS = 4, CODE_BYTES = 8, PORT_BYTES = 2 };
	uint32_t rest = length - ADDRESS, family = 0;
	for (uint32_t extra = 0; extra <= CODE_BYTES + PORT_BYTES; extra += 2)
		if (extra == 0 || extra == PORT_BYTES || extra >= CODE_BYTES)
			family = rest == 4 + extra ? 4 : rest == 16 + extra ? 6 : family;
	uint32_t n = family == 4 ? 4 : family == 6 ? 16 : 0;
	if (n)
		rw_pseudonym(r->pseudonyms, family, option + ADDRESS, option + ADDRESS);
	uint32_t has_port = n && (rest - n) % CODE_BYTES == PORT_BYTES, kept = ADDRESS + n + has_port * PORT_BYTES;
	memset(option + kept, 0, length - kept);
}

/* RFC 8684 3.3: the last two bytes of a mapping may be a sum over the data. */
static void forget_data_sum(uint8_t *option, uint32_t length)
{
	enum { CAPABLE = 0, CAPABLE_WITH_SUM = 24, DSS = 2, FLAGS = 3 };
	uint8_t subtype = option[2] >> 4;
	if (subtype == CAPABLE && length == CAPABLE_WITH_SUM)
		memset(option + length - 2, 0, 2);
	if (subtype != DSS || length <= FLAGS || !(option[FLAGS] & 4))
		return;
	uint32_t without = 4 + 6 + (option[FLAGS] & 8 ? 8 : 4);
	without += option[FLAGS] & 1 ? (option[FLAGS] & 2 ? 8 : 4) : 0;
	if (length > without)
		memset(option + without, 0, length - without);
}

/* Options that an analysis reads. Others may name a host, as those do in which load balancers tell the client's address. */
static int is_analysed(uint8_t kind)
{
	enum { MSS = 2, WINDOW_SCALE, SACK_PERMITTED, SACK, TIMESTAMPS = 8, MPTCP = 30 };
	return (kind >= MSS && kind <= SACK) || kind == TIMESTAMPS || kind == MPTCP;
}

static void redact_options(struct redaction *r, uint8_t *options, uint32_t n)
{
	enum { END = 0, NO_OPERATION = 1, MPTCP = 30, ADD_ADDRESS = 3 };
	uint32_t at = 0;
	while (at < n && options[at] != END) {
		if (options[at] == NO_OPERATION) {
			at++;
			continue;
		}
		uint32_t length = at + 1 < n ? options[at + 1] : 0;
		if (length < 2 || length > n - at) { /* what follows cannot be told apart */
			uint32_t kept = r->pseudonyms ? 2 : options[at] == MPTCP ? 3 : n - at;
			if (kept < n - at)
				memset(options + at + kept, 0, n - at - kept);
			return;
		}
		if (options[at] == MPTCP && length > 3) {
			forget_data_sum(options + at, length);
			if (r->pseudonyms && options[at + 2] >> 4 == ADD_ADDRESS)
				rename_advertised(r, options + at, length);
		} else if (r->pseudonyms && !is_analysed(options[at])) {
			memset(options + at + 2, 0, length - 2);
		}
		at += length;
	}
	if (r->pseudonyms && at < n)
		memset(options + at, 0, n - at);
}

static void redact_tcp(struct redaction *r, uint8_t *h, const struct rw_layer *l, unsigned family)
{
	enum { SUM = 16, FIXED = 20 };
	uint64_t before = sum_of(h, l->bytes), after = 0;
	if (l->bytes > FIXED)
		redact_options(r, h + FIXED, l->bytes - FIXED);
	if (l->payload_bytes) { /* it covers what is not there any more */
		memset(h + SUM, 0, 2);
		return;
	}
	after += sum_of(h, l->bytes);
	add_pseudo_headers(r, family, l, &before, &after);
	if (r->pseudonyms || before != after)
		adjust(h + SUM, before, after);
}

static void redact_layer(struct redaction *r, const struct rw_layer *l, uint32_t kept, unsigned *family)
{
	enum { UDP_SUM = 6, V4_FIXED = 20, V6_FIXED = 40, TCP_FIXED = 20 };
	uint8_t *h = r->bytes + l->at;
	if (l->at >= kept || l->bytes > kept - l->at)
		return;
	switch (l->kind) {
	case RW_LAYER_IPV4:
		*family = 4;
		if (l->bytes < V4_FIXED)
			return;
		if (r->pseudonyms)
			rename_v4(r, h, l->bytes);
		break;
	case RW_LAYER_IPV6:
		*family = 6;
		if (r->pseudonyms && l->bytes == V6_FIXED) {
			rw_pseudonym(r->pseudonyms, 6, h + 8, h + 8);
			rw_pseudonym(r->pseudonyms, 6, h + 24, h + 24);
		}
		break;
	case RW_LAYER_ADDRESS_V6:
		if (r->pseudonyms && l->bytes == 16)
			rw_pseudonym(r->pseudonyms, 6, h, h);
		break;
	case RW_LAYER_UDP:
		if (l->bytes > UDP_SUM + 1)
			memset(h + UDP_SUM, 0, 2);
		break;
	case RW_LAYER_TCP:
		if (l->bytes >= TCP_FIXED)
			redact_tcp(r, h, l, *family);
		break;
	case RW_LAYER_CARRIED:
	case RW_LAYER_NAMES_HOST:
		break; /* done already */
	}
}

/* Whether the core says of the new record's first n bytes what it said of the old one: no TCP, and the same oddities. */
static int is_alike(struct redaction *r, const struct rw_record *record, uint32_t n, const struct rw_oddity_counts *all)
{
	struct rw_oddity_counts odd;
	struct rw_packet packet;
	struct rw_record part = *record;
	memset(&odd, 0, sizeof odd);
	part.bytes = r->bytes;
	part.captured_bytes = n;
	return rw_packet_parse(&part, &packet, r->fragments, &odd) == RW_PARSE_OTHER &&
	       memcmp(odd.count, all->count, sizeof odd.count) == 0;
}

/*
 * How many bytes a record without TCP needs to be read as before. Not monotone for hostile records: the search is repeated below what
 * it found, so that a copy of the copy keeps as much. available: bytes of the new record.
 */
static uint32_t bytes_that_matter(struct redaction *r, const struct rw_record *record, uint32_t available,
				  const struct rw_oddity_counts *all)
{
	uint32_t low = r->layers.headers_end, high = available;
	if (low >= high || is_alike(r, record, low, all) || !is_alike(r, record, high, all))
		return low;
	for (;;) {
		struct rw_search first = {low + 1, high}; /* that is alike */
		while (rw_search_goes_on(&first))
			rw_search_answer(&first, !is_alike(r, record, (uint32_t)rw_search_middle(&first), all));
		if (first.low == high)
			return high;
		high = (uint32_t)first.low;
	}
}

/* Copies so many bytes of the record to r->bytes, without what is hidden, and with other addresses. */
static void copy_headers(struct redaction *r, const struct rw_record *record, uint32_t n)
{
	const struct rw_layers *layers = &r->layers;
	memcpy(r->bytes, record->bytes, n);
	for (uint32_t i = 0; n && i < layers->count; i++) {
		const struct rw_layer *l = &layers->layer[i];
		int hidden = l->kind == RW_LAYER_CARRIED || (l->kind == RW_LAYER_NAMES_HOST && r->pseudonyms);
		if (hidden && l->at < n)
			memset(r->bytes + l->at, 0, l->bytes < n - l->at ? l->bytes : n - l->at);
		else if (l->kind == RW_LAYER_ADDRESS_V6 && l->at + l->bytes <= n) /* within what was hidden */
			memcpy(r->bytes + l->at, record->bytes + l->at, l->bytes);
	}
	unsigned family = 4;
	for (uint32_t i = 0; n && i < layers->count; i++)
		redact_layer(r, &layers->layer[i], n, &family);
}

/* Makes the new record in r->bytes. Returns its length. */
static uint32_t redact_record(struct redaction *r, const struct rw_record *record, int needs_length)
{
	struct rw_oddity_counts odd;
	struct rw_packet packet;
	struct rw_layers *layers = &r->layers;
	memset(&odd, 0, sizeof odd);
	enum rw_parse got = rw_packet_layers(record, &packet, r->fragments, &odd, layers);
	int is_searched = got == RW_PARSE_OTHER && !odd.count[RW_ODDITY_IP_FRAGMENT];
	uint32_t kept = layers->headers_end;
	if (is_searched && kept < HEADERS_MAX)
		kept = record->captured_bytes < HEADERS_MAX ? record->captured_bytes : HEADERS_MAX;
	if (layers->too_many || kept > record->captured_bytes)
		kept = 0;
	r->row->unrecognised += got == RW_PARSE_OTHER && layers->headers_end == 0;
	copy_headers(r, record, kept);
	if (is_searched && kept)
		kept = bytes_that_matter(r, record, kept, &odd);
	if (!needs_length && !layers->fixed_length)
		return kept;
	memset(r->bytes + kept, 0, record->captured_bytes - kept);
	return record->captured_bytes;
}

static rw_status redact_all(struct redaction *r, struct rw_capture *capture, int out_fd, rw_error *error)
{
	struct rw_writer *writer = rw_writer_open(capture, out_fd);
	r->fragments = rw_fragments_open();
	if (!writer || !r->fragments) {
		if (writer)
			rw_writer_close(writer);
		return rw_out_of_memory(error);
	}
	struct rw_record record;
	int got;
	while ((got = rw_capture_next(capture, &record, error)) > 0) {
		if (!r->bytes || record.captured_bytes > r->room) {
			size_t room = record.captured_bytes < RECORD_MAX / 64 ? RECORD_MAX / 64 : record.captured_bytes;
			uint8_t *grown = realloc(r->bytes, room);
			if (!grown) {
				got = -(int)rw_out_of_memory(error);
				break;
			}
			r->bytes = grown;
			r->room = room;
		}
		uint32_t kept = redact_record(r, &record, rw_writer_needs_length(writer));
		r->row->records++;
		r->row->captured_bytes += record.captured_bytes;
		r->row->kept_bytes += kept;
		rw_writer_put(writer, &record, r->bytes, kept);
	}
	int failed = rw_writer_close(writer);
	if (got < 0)
		return (rw_status)-got;
	if (failed) {
		rw_error_set(error, RW_ERROR_READ, 0, r->row->records, 0, "its records cannot be written: %s",
			     strerror(failed));
		return RW_ERROR_READ;
	}
	return RW_OK;
}

rw_status rw_count_decoded(int fd, uint64_t *decoded, uint64_t *others, rw_error *error)
{
	memset(error, 0, sizeof *error);
	*decoded = *others = 0;
	struct rw_oddity_counts ignored;
	memset(&ignored, 0, sizeof ignored);
	struct rw_capture *capture;
	rw_status status = rw_capture_open(&capture, fd, 0, &ignored, error);
	if (status != RW_OK)
		return status;
	struct rw_record record;
	int got;
	while ((got = rw_capture_next(capture, &record, error)) > 0)
		++*(rw_link_type_name(record.link_type) ? decoded : others);
	rw_capture_close(capture);
	return got < 0 ? (rw_status)-got : RW_OK;
}

rw_status rw_redact(int fd, int out_fd, const uint8_t *key, rw_redaction_row *row, rw_error *error)
{
	memset(error, 0, sizeof *error);
	memset(row, 0, sizeof *row);
	struct rw_oddity_counts oddities;
	memset(&oddities, 0, sizeof oddities);
	struct rw_capture *capture;
	rw_status status = rw_capture_open_stream(&capture, fd, &oddities, error);
	if (status != RW_OK)
		return status;
	struct redaction *r = calloc(1, sizeof *r);
	if (r) {
		r->row = row;
		r->pseudonyms = key ? rw_pseudonyms_open(key) : NULL;
	}
	status = !r || (key && !r->pseudonyms) ? rw_out_of_memory(error) : redact_all(r, capture, out_fd, error);
	if (r) {
		rw_pseudonyms_close(r->pseudonyms);
		rw_fragments_close(r->fragments);
		free(r->bytes);
	}
	free(r);
	rw_capture_close(capture);
	return status;
}
