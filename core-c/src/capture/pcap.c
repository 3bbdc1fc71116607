/*
 * Classic pcap (draft-ietf-opsawg-pcap): micro- and nanoseconds, both byte orders, and the longer record headers of
 * Kuznetzov's patches and of Nokia, which some programs wrote under another format's magic number; and AIX's.
 */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "format.h"

#define MAGIC_MICRO 0xa1b2c3d4
#define MAGIC_NANO 0xa1b23c4d
#define MAGIC_KUZNETZOV 0xa1b2cd34
#define HEADER_BYTES ((size_t)24)

static int magic_kind(uint32_t magic)
{
	return magic == MAGIC_MICRO || magic == MAGIC_NANO || magic == MAGIC_KUZNETZOV;
}

static uint32_t read_magic(const uint8_t *p, int swapped)
{
	struct rw_bytes b = rw_bytes_of(p, 4);
	b.swapped = (uint8_t)swapped;
	return rw_bytes_u32(&b);
}

int rw_pcap_recognises(const uint8_t *p) { return magic_kind(read_magic(p, 0)) || magic_kind(read_magic(p, 1)); }

static uint32_t field(const struct rw_capture *c, const uint8_t *p)
{
	uint32_t v = rw_load_u32(p);
	return c->swapped ? __builtin_bswap32(v) : v;
}

/* How many of the first records are possible, with record headers of this many bytes. */
static int plausible(struct rw_capture *c, size_t header)
{
	enum { LOOKED_AT = 3, WIRE_MAX = 1 << 20 };
	size_t at = 0;
	for (int i = 0; i < LOOKED_AT; i++) {
		size_t have = rw_input_need(&c->in, at + header);
		if (have < at + header)
			return have == at && i > 1 ? LOOKED_AT : i;
		const uint8_t *h = rw_input_at(&c->in) + at;
		uint32_t fraction = field(c, h + 4), captured = field(c, h + 8), wire = field(c, h + 12);
		if (captured > RW_RECORD_MAX || wire > WIRE_MAX || captured > wire ||
		    (uint64_t)fraction * c->nanoseconds_per_unit >= 1000000000)
			return i;
		at += header + captured;
	}
	return LOOKED_AT;
}

/* The length of record headers that the magic number announces, unless only another length gives possible records. */
static uint8_t record_header(struct rw_capture *c, uint32_t magic)
{
	static const uint8_t plain[] = {16, 24, 20}, longer[] = {24, 28, 16};
	const uint8_t *lengths = magic == MAGIC_KUZNETZOV ? longer : plain;
	int most = plausible(c, lengths[0]), best = 0;
	for (int i = 1; i < 3 && most < 2; i++) {
		int here = plausible(c, lengths[i]);
		if (here > 2) {
			most = here;
			best = i;
		}
	}
	return lengths[best];
}

/*
 * AIX writes version 2.2, too, with nanoseconds, and with the interface types of RFC 1573 instead of link types (wiretap's notes):
 * Ethernet, Token Ring, FDDI, loopback.
 */
static int is_of_aix(uint32_t magic, uint32_t minor, uint32_t *link_type)
{
	static const uint8_t interface[] = {6, 9, 15, 24}, link[] = {1, 6, 10, 0};
	for (size_t i = 0; magic == MAGIC_MICRO && minor == 2 && i < sizeof interface; i++)
		if (*link_type == interface[i]) {
			*link_type = link[i];
			return 1;
		}
	return 0;
}

/* Reads the file header at the cursor, which the caller has checked to be there. Returns the major version; reads no more if it is not 2. */
static uint32_t read_header(struct rw_capture *c, uint32_t *minor_version)
{
	const uint8_t *p = rw_input_at(&c->in);
	int swapped = magic_kind(read_magic(p, 1));
	struct rw_bytes b = rw_bytes_of(p, HEADER_BYTES);
	b.swapped = (uint8_t)swapped;
	uint32_t magic = rw_bytes_u32(&b);
	uint32_t major = rw_bytes_u16(&b), minor = rw_bytes_u16(&b);
	*minor_version = minor;
	if (major != 2)
		return major;
	rw_bytes_skip(&b, 12);
	uint32_t link_type =
	    rw_bytes_u32(&b) & 0x03ffffff; /* the bits above hold the length of a frame check sequence */
	int of_aix = is_of_aix(magic, minor, &link_type);
	c->swapped = (uint8_t)swapped;
	c->interfaces[0].link_type = link_type;
	c->nanoseconds_per_unit = magic == MAGIC_NANO || of_aix ? 1 : 1000;
	rw_input_advance(&c->in, HEADER_BYTES);
	/* Before 2.3 the two lengths are swapped, in 2.3 their order varies: the smaller one is the captured length. */
	c->lengths_reversed = minor <= 3;
	c->record_header_bytes = c->lengths_reversed ? 16 : record_header(c, magic);
	c->plain = c->swapped && !c->lengths_reversed && c->record_header_bytes == 16;
	return major;
}

enum rw_status rw_pcap_start(struct rw_capture *c, rw_error *error)
{
	if (rw_input_need(&c->in, HEADER_BYTES) < HEADER_BYTES) {
		rw_error_set(error, RW_ERROR_NOT_A_CAPTURE, c->file, 0, 0, "the pcap file header is cut");
		return RW_ERROR_NOT_A_CAPTURE;
	}
	c->interfaces = calloc(1, sizeof *c->interfaces);
	if (!c->interfaces) {
		rw_error_set(error, RW_ERROR_MEMORY, c->file, 0, 0, "out of memory");
		return RW_ERROR_MEMORY;
	}
	c->interface_count = 1;
	uint32_t minor, major = read_header(c, &minor);
	if (major != 2) {
		rw_error_set(error, RW_ERROR_NOT_A_CAPTURE, c->file, 0, 4, "pcap version %u.%u is not known", major,
			     minor);
		return RW_ERROR_NOT_A_CAPTURE;
	}
	return RW_OK;
}

/* Two captures in one file: a file header in the place of a record header, which read as one would have no bytes. */
static int is_second_header(struct rw_capture *c)
{
	static const uint8_t zone_and_accuracy[8];
	if (rw_input_need(&c->in, HEADER_BYTES) < HEADER_BYTES)
		return 0;
	const uint8_t *p = rw_input_at(&c->in);
	if (!rw_pcap_recognises(p) || memcmp(p + 8, zone_and_accuracy, sizeof zone_and_accuracy) != 0)
		return 0;
	struct rw_bytes b = rw_bytes_of(p + 4, 4);
	b.swapped = (uint8_t)magic_kind(read_magic(p, 1));
	uint16_t major = rw_bytes_u16(&b), minor = rw_bytes_u16(&b);
	return major == 2 && minor <= 4;
}

enum { ANOTHER_FILE = 2 };

/* 1: a record; 0: the end; ANOTHER_FILE: the header of one was read. */
static int read_record(struct rw_capture *c, struct rw_record *record)
{
	size_t header = c->record_header_bytes, have = rw_input_need(&c->in, header);
	if (__builtin_expect(have < header, 0))
		return have == 0 ? 0 : rw_capture_cut(c, RW_ODDITY_CUT_CAPTURE);
	const uint8_t *h = rw_input_at(&c->in);
	uint32_t seconds = field(c, h), fraction = field(c, h + 4), captured = field(c, h + 8), wire = field(c, h + 12);
	if (c->lengths_reversed && captured > wire) {
		uint32_t other = captured;
		captured = wire;
		wire = other;
	}
	if (captured > RW_RECORD_MAX)
		return rw_capture_cut(c, RW_ODDITY_CORRUPT_RECORD);
	if (captured == 0 && is_second_header(c)) {
		uint32_t minor;
		rw_oddity_add(c->oddities, RW_ODDITY_SECOND_HEADER, c->file, c->in.offset);
		read_header(c, &minor);
		return ANOTHER_FILE;
	}
	if (rw_input_need(&c->in, header + captured) < header + captured)
		return rw_capture_cut(c, RW_ODDITY_CUT_CAPTURE);
	record->bytes = rw_input_at(&c->in) + header;
	/* Fetches the next record's headers during the work on this one. */
	__builtin_prefetch(record->bytes + captured);
	__builtin_prefetch(record->bytes + captured + 64);
	int64_t fraction_ns = (int64_t)fraction * c->nanoseconds_per_unit;
	if (fraction_ns >= 1000000000)
		rw_oddity_add(c->oddities, RW_ODDITY_BAD_TIMESTAMP, c->file, c->in.offset);
	/* A fraction of more than a second is limited to 2106, the latest time of pcapng. */
	int64_t latest_ns = (int64_t)UINT32_MAX * 1000000000 + 999999999,
		time_ns = (int64_t)seconds * 1000000000 + fraction_ns;
	record->time_ns = time_ns < latest_ns ? time_ns : latest_ns;
	record->captured_bytes = captured;
	record->wire_bytes = wire < captured ? captured : wire;
	record->link_type = c->interfaces[0].link_type;
	record->interface = 0;
	record->offset = c->in.offset;
	rw_input_advance(&c->in, header + captured);
	return 1;
}

int rw_pcap_next(struct rw_capture *c, struct rw_record *record, rw_error *error)
{
	(void)error;
	int got;
	do
		got = read_record(c, record);
	while (got == ANOTHER_FILE);
	return got;
}
