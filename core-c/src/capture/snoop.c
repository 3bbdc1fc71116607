/*
 * Solaris' snoop (RFC 1761), version 2: big-endian; each record is padded, and tells how many packets the system has dropped since the
 * first one.
 */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "format.h"

#define MAGIC "snoop\0\0"
enum { MAGIC_BYTES = 8, HEADER_BYTES = 16, RECORD_HEADER_BYTES = 24, VERSION = 2 };

/* RFC 1761 and RFC 3827. Of two types with the same link type the writer takes the first. */
static const struct {
	uint8_t datalink, link_type;
} links[] = {{4, 1},    /* Ethernet */
	     {0, 1},    /* IEEE 802.3: the same header */
	     {2, 6},    /* Token Ring */
	     {8, 10},   /* FDDI */
	     {16, 122}, /* IP over Fibre Channel */
	     {18, 123}}; /* ATM Classical IP, with the header of SunATM */

static int link_of(uint32_t datalink, uint32_t *link_type)
{
	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		if (links[i].datalink == datalink) {
			*link_type = links[i].link_type;
			return 1;
		}
	return 0;
}

uint32_t rw_snoop_datalink(uint32_t link_type)
{
	size_t i = 0;
	while (i + 1 < sizeof links / sizeof *links && links[i].link_type != link_type)
		i++;
	return links[i].datalink;
}

static void begin(struct rw_capture *c, uint32_t link_type)
{
	c->interfaces[0].link_type = link_type;
	c->interfaces[0].dropped = UINT64_MAX; /* what the first record tells was dropped before it */
	rw_input_advance(&c->in, HEADER_BYTES);
}

int rw_snoop_recognises(const uint8_t *p) { return memcmp(p, MAGIC, MAGIC_BYTES) == 0; }

enum rw_status rw_snoop_start(struct rw_capture *c, rw_error *error)
{
	const enum rw_status refused = RW_ERROR_NOT_A_CAPTURE;
	if (rw_input_need(&c->in, HEADER_BYTES) < HEADER_BYTES) {
		rw_error_set(error, refused, c->file, 0, 0, "the snoop file header is cut");
		return refused;
	}
	const uint8_t *p = rw_input_at(&c->in);
	uint32_t version = rw_load_u32(p + 8), datalink = rw_load_u32(p + 12), link_type;
	if (version != VERSION) { /* others wrote version 3 and above, each with types of its own */
		rw_error_set(error, refused, c->file, 0, 8, "snoop version %u is not known", version);
		return refused;
	}
	if (!link_of(datalink, &link_type)) {
		rw_error_set(error, refused, c->file, 0, 12, "snoop's datalink type %u is not known", datalink);
		return refused;
	}
	c->interfaces = calloc(1, sizeof *c->interfaces);
	if (!c->interfaces) {
		rw_error_set(error, RW_ERROR_MEMORY, c->file, 0, 0, "out of memory");
		return RW_ERROR_MEMORY;
	}
	c->interface_count = 1;
	begin(c, link_type);
	return RW_OK;
}

/* Two captures in one file: as a record, the second header would be longer than any. 0: it is none, or none that is known. */
static int read_second_header(struct rw_capture *c)
{
	uint32_t link_type;
	if (rw_input_need(&c->in, HEADER_BYTES) < HEADER_BYTES)
		return 0;
	const uint8_t *p = rw_input_at(&c->in);
	if (!rw_snoop_recognises(p) || rw_load_u32(p + 8) != VERSION || !link_of(rw_load_u32(p + 12), &link_type))
		return 0;
	rw_oddity_add(c->oddities, RW_ODDITY_SECOND_HEADER, c->file, c->in.offset);
	begin(c, link_type);
	return 1;
}

/* total: since the first record. A smaller number than before is a count that began anew. */
static void tell_dropped(struct rw_capture *c, uint32_t total)
{
	uint64_t before = c->interfaces[0].dropped;
	c->interfaces[0].dropped = total;
	if (total <= before)
		return;
	rw_oddity_add(c->oddities, RW_ODDITY_DROPPED_PACKETS, c->file, c->in.offset);
	c->oddities->count[RW_ODDITY_DROPPED_PACKETS] += total - before - 1;
}

int rw_snoop_next(struct rw_capture *c, struct rw_record *record, rw_error *error)
{
	(void)error;
	while (read_second_header(c))
		continue;
	size_t have = rw_input_need(&c->in, RECORD_HEADER_BYTES);
	if (have < RECORD_HEADER_BYTES)
		return have == 0 ? 0 : rw_capture_cut(c, RW_ODDITY_CUT_CAPTURE);
	const uint8_t *h = rw_input_at(&c->in);
	uint32_t wire = rw_load_u32(h), captured = rw_load_u32(h + 4), length = rw_load_u32(h + 8);
	uint32_t dropped = rw_load_u32(h + 12), seconds = rw_load_u32(h + 16), microseconds = rw_load_u32(h + 20);
	if (captured > RW_RECORD_MAX || length < RECORD_HEADER_BYTES + captured || length > 2 * RW_RECORD_MAX)
		return rw_capture_cut(c, RW_ODDITY_CORRUPT_RECORD);
	if (rw_input_need(&c->in, RECORD_HEADER_BYTES + captured) < RECORD_HEADER_BYTES + captured)
		return rw_capture_cut(c, RW_ODDITY_CUT_CAPTURE);
	tell_dropped(c, dropped);
	if (microseconds >= 1000000)
		rw_oddity_add(c->oddities, RW_ODDITY_BAD_TIMESTAMP, c->file, c->in.offset);
	/* As in pcap: the latest time is that of 32 bits of seconds. */
	int64_t latest_ns = (int64_t)UINT32_MAX * 1000000000 + 999999000,
		time_ns = (int64_t)seconds * 1000000000 + (int64_t)microseconds * 1000;
	record->time_ns = time_ns < latest_ns ? time_ns : latest_ns;
	record->captured_bytes = captured;
	record->wire_bytes = wire < captured ? captured : wire;
	record->link_type = c->interfaces[0].link_type;
	record->interface = 0;
	record->offset = c->in.offset;
	/* The bytes stay where they are, because the padding is in the buffer or is the end of the file. */
	have = rw_input_need(&c->in, length);
	record->bytes = rw_input_at(&c->in) + RECORD_HEADER_BYTES;
	rw_input_advance(&c->in, have < length ? have : length);
	return 1;
}
