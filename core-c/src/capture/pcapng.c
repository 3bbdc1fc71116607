/* pcapng (draft-ietf-opsawg-pcapng): sections in either byte order, interfaces with their own clock and link type. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "format.h"

enum {
	BLOCK_INTERFACE = 1,
	BLOCK_OBSOLETE_PACKET = 2,
	BLOCK_SIMPLE_PACKET = 3,
	BLOCK_INTERFACE_STATISTICS = 5,
	BLOCK_ENHANCED_PACKET = 6
};
#define BLOCK_SECTION 0x0a0d0d0au
#define ORDER_MAGIC 0x1a2b3c4du
#define BLOCK_MAX ((uint32_t)16 << 20)
#define INTERFACES_MAX 65536

enum { OPTION_END = 0, OPTION_TSRESOL = 9, OPTION_TSOFFSET = 14 };

int rw_pcapng_recognises(const uint8_t *p) { return p[0] == 0x0a && p[1] == 0x0d && p[2] == 0x0d && p[3] == 0x0a; }

/* Reads the byte order of the section that starts at the cursor. */
static int section_order(struct rw_capture *c)
{
	if (rw_input_need(&c->in, 12) < 12)
		return -1;
	struct rw_bytes b = rw_bytes_of(rw_input_at(&c->in) + 8, 4);
	uint32_t magic = rw_bytes_u32(&b);
	if (magic == ORDER_MAGIC)
		return 0;
	return magic == 0x4d3c2b1au ? 1 : -1;
}

/* The major version of the section that starts at the cursor. 1 is the only one; a header that is cut counts as 1. */
static uint32_t section_version(struct rw_capture *c, int swapped)
{
	if (rw_input_need(&c->in, 14) < 14)
		return 1;
	struct rw_bytes b = rw_bytes_of(rw_input_at(&c->in) + 12, 2);
	b.swapped = (uint8_t)swapped;
	return rw_bytes_u16(&b);
}

enum rw_status rw_pcapng_start(struct rw_capture *c, rw_error *error)
{
	int order = section_order(c);
	uint32_t version = order < 0 ? 0 : section_version(c, order);
	if (version == 1)
		return RW_OK;
	if (order < 0)
		rw_error_set(error, RW_ERROR_NOT_A_CAPTURE, c->file, 0, 8,
			     "the pcapng section header has no byte-order magic");
	else
		rw_error_set(error, RW_ERROR_NOT_A_CAPTURE, c->file, 0, 12, "pcapng version %u is not known", version);
	return RW_ERROR_NOT_A_CAPTURE;
}

static uint64_t units_per_second(uint8_t resolution)
{
	uint8_t exponent = resolution & 0x7f;
	if (resolution & 0x80)
		return exponent < 64 ? (uint64_t)1 << exponent : 0;
	if (exponent > 19)
		return 0;
	uint64_t units = 1;
	for (uint8_t i = 0; i < exponent; i++)
		units *= 10;
	return units;
}

/* The next option of a block. 0: no more. -1: it is longer than the block. */
static int next_option(struct rw_bytes *b, uint16_t *code, struct rw_bytes *value)
{
	if (rw_bytes_left(b) < 4)
		return 0;
	*code = rw_bytes_u16(b);
	uint16_t length = rw_bytes_u16(b);
	if (*code == OPTION_END)
		return 0;
	*value = rw_bytes_take(b, length);
	uint32_t padding = (4u - length % 4) % 4;
	rw_bytes_skip(b, rw_bytes_left(b) < padding ? 0 : padding);
	return value->short_read ? -1 : 1;
}

static void read_interface_options(struct rw_capture *c, struct rw_bytes b, struct rw_interface *interface)
{
	uint16_t code;
	struct rw_bytes value;
	int got;
	while ((got = next_option(&b, &code, &value)) > 0) {
		if (code == OPTION_TSRESOL && rw_bytes_left(&value) >= 1)
			interface->units_per_s = units_per_second(rw_bytes_u8(&value));
		else if (code == OPTION_TSOFFSET && rw_bytes_left(&value) >= 8)
			interface->offset_s = (int64_t)rw_bytes_u64(&value);
	}
	if (got < 0)
		rw_oddity_add(c->oddities, RW_ODDITY_BAD_BLOCK, c->file, c->in.offset);
}

/* total: the packets that an interface has dropped so far, by one kind of block. It includes earlier reports. */
static void tell_dropped(struct rw_capture *c, struct rw_interface *interface, uint64_t total)
{
	/* Limits forged numbers, so that their sum does not wrap. */
	const uint64_t most = (uint64_t)1 << 48;
	if (total > most)
		total = most;
	if (total <= interface->dropped)
		return;
	uint64_t *sum = &c->oddities->count[RW_ODDITY_DROPPED_PACKETS];
	rw_oddity_add(c->oddities, RW_ODDITY_DROPPED_PACKETS, c->file, c->in.offset);
	if (*sum < most)
		*sum += total - interface->dropped - 1;
	interface->dropped = total;
}

/* Drops since the interface was opened, usually reported once at the end. */
static void read_statistics(struct rw_capture *c, struct rw_bytes b)
{
	enum { DROPPED_BY_INTERFACE = 5, DROPPED_BY_SYSTEM = 7 };
	uint16_t code;
	struct rw_bytes value;
	uint32_t index = rw_bytes_u32(&b);
	rw_bytes_skip(&b, 8); /* time */
	uint64_t total = 0;
	while (next_option(&b, &code, &value) > 0) {
		if ((code != DROPPED_BY_INTERFACE && code != DROPPED_BY_SYSTEM) || rw_bytes_left(&value) != 8)
			continue;
		uint64_t dropped = rw_bytes_u64(&value);
		total = dropped > UINT64_MAX - total ? UINT64_MAX : total + dropped;
	}
	if (index < c->interface_count)
		tell_dropped(c, &c->interfaces[index], total);
}

/* Drops since the packet before, in an option of the packet's block. */
static uint32_t dropped_before(struct rw_bytes options)
{
	enum { DROP_COUNT = 4 };
	uint16_t code;
	struct rw_bytes value;
	while (next_option(&options, &code, &value) > 0)
		if (code == DROP_COUNT && rw_bytes_left(&value) == 8) {
			uint64_t dropped = rw_bytes_u64(&value);
			return dropped < UINT32_MAX ? (uint32_t)dropped : UINT32_MAX;
		}
	return 0;
}

static int add_interface(struct rw_capture *c, struct rw_bytes b, rw_error *error)
{
	if (c->interface_count >= INTERFACES_MAX) {
		rw_oddity_add(c->oddities, RW_ODDITY_TOO_MANY_INTERFACES, c->file, c->in.offset);
		return 0;
	}
	if (c->interface_count == c->interface_room) {
		uint32_t room = c->interface_room ? c->interface_room * 2 : 4;
		struct rw_interface *grown = realloc(c->interfaces, room * sizeof *grown);
		if (!grown) {
			rw_error_set(error, RW_ERROR_MEMORY, c->file, c->records, c->in.offset, "out of memory");
			return -RW_ERROR_MEMORY;
		}
		c->interfaces = grown;
		c->interface_room = room;
	}
	struct rw_interface interface = {.units_per_s = 1000000};
	interface.link_type = rw_bytes_u16(&b);
	rw_bytes_skip(&b, 2);
	interface.snap_bytes = rw_bytes_u32(&b);
	read_interface_options(c, b, &interface);
	c->interfaces[c->interface_count++] = interface;
	return 0;
}

static int64_t time_of(struct rw_capture *c, const struct rw_interface *interface, uint64_t units)
{
	uint64_t per_s = interface->units_per_s;
	uint64_t seconds = per_s ? units / per_s : UINT64_MAX;
	/* The range of pcap, 1970 to 2106, so that differences of two times always fit. */
	int64_t latest = UINT32_MAX;
	if (seconds > UINT32_MAX || interface->offset_s > latest || interface->offset_s < -latest ||
	    (int64_t)seconds + interface->offset_s < 0 || (int64_t)seconds + interface->offset_s > latest) {
		rw_oddity_add(c->oddities, RW_ODDITY_BAD_TIMESTAMP, c->file, c->in.offset);
		return c->last_time_ns;
	}
	uint64_t fraction_ns = (uint64_t)((unsigned __int128)(units % per_s) * 1000000000 / per_s);
	return ((int64_t)seconds + interface->offset_s) * 1000000000 + (int64_t)fraction_ns;
}

/* Fills the record from a packet block's body. 1: a record, 0: an unusable block that was counted. */
static int read_packet(struct rw_capture *c, uint32_t type, struct rw_bytes b, struct rw_record *record)
{
	uint32_t index = 0, captured, wire, dropped = 0;
	uint64_t units = 0;
	if (type == BLOCK_SIMPLE_PACKET) {
		wire = rw_bytes_u32(&b);
		captured = wire;
		if (c->interface_count && c->interfaces[0].snap_bytes && c->interfaces[0].snap_bytes < captured)
			captured = c->interfaces[0].snap_bytes;
		if (captured > rw_bytes_left(&b)) { /* the block has fewer bytes than it says */
			rw_oddity_add(c->oddities, RW_ODDITY_BAD_BLOCK, c->file, c->in.offset);
			captured = (uint32_t)rw_bytes_left(&b);
		}
	} else {
		if (type == BLOCK_OBSOLETE_PACKET) {
			index = rw_bytes_u16(&b);
			dropped = rw_bytes_u16(&b);
			if (dropped == UINT16_MAX)
				dropped = 0; /* not known */
		} else {
			index = rw_bytes_u32(&b);
		}
		uint64_t high = rw_bytes_u32(&b);
		units = high << 32 | rw_bytes_u32(&b);
		captured = rw_bytes_u32(&b);
		wire = rw_bytes_u32(&b);
	}
	if (b.short_read || captured > rw_bytes_left(&b)) {
		rw_oddity_add(c->oddities, RW_ODDITY_BAD_BLOCK, c->file, c->in.offset);
		return 0;
	}
	if (index >= c->interface_count) {
		rw_oddity_add(c->oddities, RW_ODDITY_UNKNOWN_INTERFACE, c->file, c->in.offset);
		return 0;
	}
	struct rw_interface *interface = &c->interfaces[index];
	uint32_t padded = captured + (4 - captured % 4) % 4;
	if (type == BLOCK_ENHANCED_PACKET && rw_bytes_left(&b) > padded) {
		struct rw_bytes options = b;
		rw_bytes_skip(&options, padded);
		dropped = dropped_before(options);
	}
	if (dropped) {
		interface->dropped_between += dropped;
		tell_dropped(c, interface, interface->dropped_between);
	}
	if (type == BLOCK_SIMPLE_PACKET) {
		rw_oddity_add(c->oddities, RW_ODDITY_NO_TIMESTAMP, c->file, c->in.offset);
		record->time_ns = c->last_time_ns;
	} else {
		record->time_ns = time_of(c, interface, units);
	}
	c->last_time_ns = record->time_ns;
	record->bytes = b.at;
	record->captured_bytes = captured;
	record->wire_bytes = wire < captured ? captured : wire;
	record->link_type = interface->link_type;
	record->interface = c->interfaces_before + index;
	record->offset = c->in.offset;
	return 1;
}

/* A length at this offset from the cursor; the caller has checked that it is there. */
static uint32_t length_at(struct rw_capture *c, uint32_t at)
{
	struct rw_bytes b = rw_bytes_of(rw_input_at(&c->in) + at, 4);
	b.swapped = c->swapped;
	return rw_bytes_u32(&b);
}

int rw_pcapng_next(struct rw_capture *c, struct rw_record *record, rw_error *error)
{
	for (;;) {
		size_t have = rw_input_need(&c->in, 12);
		if (have == 0)
			return 0;
		if (have < 12)
			return rw_capture_cut(c, RW_ODDITY_CUT_CAPTURE);
		if (rw_pcapng_recognises(rw_input_at(&c->in))) {
			int order = section_order(c);
			if (order < 0 || section_version(c, order) != 1)
				return rw_capture_cut(c, RW_ODDITY_CORRUPT_RECORD);
			c->swapped = (uint8_t)order;
			c->interfaces_before += c->interface_count;
			c->interface_count = 0; /* interfaces belong to their section */
		}
		struct rw_bytes b = rw_bytes_of(rw_input_at(&c->in), 8);
		b.swapped = c->swapped;
		uint32_t type = rw_bytes_u32(&b), length = rw_bytes_u32(&b);
		if (length < 12 || length % 4)
			return rw_capture_cut(c, RW_ODDITY_CORRUPT_RECORD);
		int packet =
		    type == BLOCK_ENHANCED_PACKET || type == BLOCK_SIMPLE_PACKET || type == BLOCK_OBSOLETE_PACKET;
		if (!packet && type != BLOCK_INTERFACE && type != BLOCK_INTERFACE_STATISTICS) {
			if (!rw_input_skip(&c->in, length - 4) || rw_input_need(&c->in, 4) < 4)
				return rw_capture_cut(c, RW_ODDITY_CUT_CAPTURE);
			if (length_at(c, 0) != length)
				return rw_capture_cut(c, RW_ODDITY_CORRUPT_RECORD);
			rw_input_advance(&c->in, 4);
			continue;
		}
		if (length > BLOCK_MAX)
			return rw_capture_cut(c, RW_ODDITY_CORRUPT_RECORD);
		if (rw_input_need(&c->in, length) < length)
			return rw_capture_cut(c, RW_ODDITY_CUT_CAPTURE);
		if (length_at(c, length - 4) != length)
			return rw_capture_cut(c, RW_ODDITY_CORRUPT_RECORD);
		struct rw_bytes body = rw_bytes_of(rw_input_at(&c->in) + 8, length - 12);
		body.swapped = c->swapped;
		int got = 0;
		if (packet)
			got = read_packet(c, type, body, record);
		else if (type == BLOCK_INTERFACE)
			got = add_interface(c, body, error);
		else
			read_statistics(c, body);
		rw_input_advance(&c->in, length);
		if (got)
			return got;
		if (type == BLOCK_INTERFACE && c->sort && c->interface_count == 2 && c->next == rw_pcapng_next) {
			c->next = rw_interfaces_next;
			return rw_interfaces_next(c, record, error);
		}
	}
}
