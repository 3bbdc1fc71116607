/* The first bytes tell the format; pcap.c, pcapng.c and snoop.c read the rest. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "format.h"
#include "rw_ways.h"

/* Names the likely format of a file that we do not read, so that its owner knows what to do. */
static const char *foreign_format(const uint8_t *p, size_t n)
{
	static const struct {
		const char *magic;
		size_t length;
		const char *name;
	} known[] = {{"\x1f\x8b", 2, "gzip-compressed"},
		     {"\x28\xb5\x2f\xfd", 4, "zstd-compressed"},
		     {"\xfd"
		      "7zXZ",
		      5, "xz-compressed"},
		     {"\x04\x22\x4d\x18", 4, "lz4-compressed"},
		     {"PK\x03\x04", 4, "a zip archive"},
		     {"RTSS", 4, "a Network Monitor capture"},
		     {"GMBU", 4, "a Network Monitor capture"}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (n >= known[i].length && memcmp(p, known[i].magic, known[i].length) == 0)
			return known[i].name;
	return "neither pcap nor pcapng nor snoop";
}

static enum rw_status open_by(int (*open_input)(struct rw_input *in, int fd), struct rw_capture **out, int fd,
			      uint32_t file, struct rw_oddity_counts *oddities, rw_error *error)
{
	struct rw_capture *c = calloc(1, sizeof *c);
	if (!c) {
		rw_error_set(error, RW_ERROR_MEMORY, file, 0, 0, "out of memory");
		return RW_ERROR_MEMORY;
	}
	c->file = file;
	c->oddities = oddities;
	int failed = open_input(&c->in, fd);
	enum rw_status status = RW_OK;
	if (failed) {
		status = failed == ENOMEM ? RW_ERROR_MEMORY : RW_ERROR_READ;
		rw_error_set(error, status, file, 0, 0, "cannot be read: %s", strerror(failed));
	} else {
		size_t have = rw_input_need(&c->in, 24);
		const uint8_t *p = rw_input_at(&c->in);
		if (c->in.error) {
			status = RW_ERROR_READ;
			rw_error_set(error, status, file, 0, 0, "cannot be read: %s", strerror(c->in.error));
		} else if (have == 0) {
			status = RW_ERROR_NOT_A_CAPTURE;
			rw_error_set(error, status, file, 0, 0, "the file is empty");
		} else if (have >= 4 && rw_pcapng_recognises(p)) {
			c->next = rw_pcapng_next;
			status = rw_pcapng_start(c, error);
		} else if (have >= 4 && rw_pcap_recognises(p)) {
			c->next = rw_pcap_next;
			status = rw_pcap_start(c, error);
		} else if (have >= 8 && rw_snoop_recognises(p)) {
			c->next = rw_snoop_next;
			status = rw_snoop_start(c, error);
		} else {
			status = RW_ERROR_NOT_A_CAPTURE;
			rw_error_set(error, status, file, 0, 0, "not a capture: %s", foreign_format(p, have));
		}
	}
	if (status != RW_OK) {
		rw_capture_close(c);
		return status;
	}
	*out = c;
	return RW_OK;
}

enum rw_status rw_capture_open(struct rw_capture **out, int fd, uint32_t file, struct rw_oddity_counts *oddities,
			       rw_error *error)
{
	return open_by(rw_input_open, out, fd, file, oddities, error);
}

enum rw_status rw_capture_open_stream(struct rw_capture **out, int fd, struct rw_oddity_counts *oddities,
				      rw_error *error)
{
	return open_by(rw_input_open_stream, out, fd, 0, oddities, error);
}

void rw_capture_close(struct rw_capture *c)
{
	if (!c)
		return;
	rw_input_close(&c->in);
	rw_interfaces_close(c->sort);
	free(c->interfaces);
	free(c);
}

/* The short way for most records: one of a plain pcap, whole in the buffer and without oddities. 0: another one. */
static inline int next_plain(struct rw_capture *c, struct rw_record *record)
{
	enum {
		HEADER = 16,
		PREFETCH_AHEAD = 1024 /* some records ahead, because memory takes longer than one record's work */
	};
	size_t have = c->in.filled - c->in.start;
	const uint8_t *h = rw_input_at(&c->in);
	if (!RW_SHORT_WAY(c->plain) || have < HEADER)
		return 0;
	uint32_t seconds = __builtin_bswap32(rw_load_u32(h)), fraction = __builtin_bswap32(rw_load_u32(h + 4));
	uint32_t captured = __builtin_bswap32(rw_load_u32(h + 8)), wire = __builtin_bswap32(rw_load_u32(h + 12));
	uint64_t fraction_ns = (uint64_t)fraction * c->nanoseconds_per_unit;
	size_t length = (size_t)HEADER + captured;
	/* One without bytes may be a file header (pcap.c). */
	if (length > have || length - HEADER - 1 >= RW_RECORD_MAX || captured > wire || fraction_ns >= 1000000000)
		return 0;
	__builtin_prefetch(h + PREFETCH_AHEAD);
	record->time_ns = (int64_t)(seconds * 1000000000ull + fraction_ns);
	record->bytes = h + HEADER;
	record->captured_bytes = captured;
	record->wire_bytes = wire;
	record->link_type = c->interfaces[0].link_type;
	record->interface = 0;
	record->offset = c->in.offset;
	record->file = c->file;
	c->records++;
	rw_input_advance(&c->in, length);
	return 1;
}

/* The long way: any record. */
static RW_ASIDE int next_of_format(struct rw_capture *c, struct rw_record *record, rw_error *error)
{
	int got = c->ended ? 0 : c->next(c, record, error);
	if (got > 0) {
		record->file = c->file;
		c->records++;
		return 1;
	}
	c->ended = 1;
	c->plain = 0;
	if (c->in.error) {
		enum rw_status status = c->in.error == ENOMEM ? RW_ERROR_MEMORY : RW_ERROR_READ;
		rw_error_set(error, status, c->file, c->records, c->in.offset, "cannot be read: %s",
			     strerror(c->in.error));
		return -(int)status;
	}
	return got;
}

int rw_capture_next(struct rw_capture *c, struct rw_record *record, rw_error *error)
{
	return next_plain(c, record) ? 1 : next_of_format(c, record, error);
}

int rw_capture_cut(struct rw_capture *c, enum rw_oddity why)
{
	rw_oddity_add(c->oddities, why, c->file, c->in.offset);
	return 0;
}

void rw_capture_find(int fd, struct rw_place *place, uint32_t places)
{
	struct rw_oddity_counts ignored;
	memset(&ignored, 0, sizeof ignored);
	struct rw_capture *c;
	struct rw_record record;
	rw_error error;
	uint64_t last = 0;
	for (uint32_t i = 0; i < places; i++) {
		place[i].record = 0;
		place[i].time_ns = 0;
		last = place[i].offset > last ? place[i].offset : last;
	}
	if (rw_capture_open(&c, fd, 0, &ignored, &error) != RW_OK)
		return;
	while (rw_capture_next(c, &record, &error) > 0 && record.offset <= last)
		for (uint32_t i = 0; i < places; i++)
			if (record.offset <= place[i].offset) {
				place[i].record = c->records;
				place[i].time_ns = record.time_ns;
			}
	rw_capture_close(c);
}

void rw_capture_locate(int fd, struct rw_place *place, uint32_t places)
{
	struct rw_oddity_counts ignored;
	memset(&ignored, 0, sizeof ignored);
	struct rw_capture *c;
	struct rw_record record;
	rw_error error;
	uint32_t found = 0;
	for (uint32_t i = 0; i < places; i++)
		place[i].offset = 0;
	if (rw_capture_open(&c, fd, 0, &ignored, &error) != RW_OK)
		return;
	while (found < places && rw_capture_next(c, &record, &error) > 0)
		for (uint32_t i = 0; i < places; i++)
			if (place[i].record == c->records) {
				place[i].offset = record.offset;
				found++;
			}
	rw_capture_close(c);
}

/* Records of all files that may wait for records of other interfaces: 40 bytes each. */
#define HELD_MAX ((uint32_t)1 << 20)

struct rw_observation {
	struct rw_capture **captures;
	struct rw_capture *alone; /* the only capture, after its first record was handed out; else null */
	struct rw_record *ahead; /* each capture's next record */
	uint8_t *has;
	uint32_t files, last;
};

enum rw_status rw_observation_open(struct rw_observation **out, const int *fds, uint32_t files,
				   struct rw_oddity_counts *oddities, rw_error *error)
{
	struct rw_observation *o = calloc(1, sizeof *o);
	if (o) {
		o->captures = calloc(files, sizeof *o->captures);
		o->ahead = calloc(files, sizeof *o->ahead);
		o->has = calloc(files, 1);
		o->files = files;
		o->last = UINT32_MAX;
	}
	if (!o || !o->captures || !o->ahead || !o->has) {
		rw_observation_close(o);
		rw_error_set(error, RW_ERROR_MEMORY, 0, 0, 0, "out of memory");
		return RW_ERROR_MEMORY;
	}
	for (uint32_t i = 0; i < files; i++) {
		enum rw_status status = rw_capture_open(&o->captures[i], fds[i], i, oddities, error);
		if (status == RW_OK && rw_interfaces_sort(o->captures[i], HELD_MAX / files + 1)) {
			rw_error_set(error, RW_ERROR_MEMORY, i, 0, 0, "out of memory");
			status = RW_ERROR_MEMORY;
		}
		int got = status == RW_OK ? rw_capture_next(o->captures[i], &o->ahead[i], error) : 0;
		if (got < 0)
			status = (enum rw_status) - got;
		if (status != RW_OK) {
			rw_observation_close(o);
			return status;
		}
		o->has[i] = (uint8_t)got;
	}
	*out = o;
	return RW_OK;
}

void rw_observation_close(struct rw_observation *o)
{
	if (!o)
		return;
	for (uint32_t i = 0; o->captures && i < o->files; i++)
		rw_capture_close(o->captures[i]);
	free(o->captures);
	free(o->ahead);
	free(o->has);
	free(o);
}

static RW_ASIDE int next_merged(struct rw_observation *o, struct rw_record *record, rw_error *error)
{
	/* The record handed out last points into its capture's buffer: move on only now. */
	if (o->last != UINT32_MAX) {
		int got = rw_capture_next(o->captures[o->last], &o->ahead[o->last], error);
		if (got < 0)
			return got;
		o->has[o->last] = (uint8_t)got;
	}
	uint32_t best = UINT32_MAX;
	for (uint32_t i = 0; i < o->files; i++)
		if (o->has[i] && (best == UINT32_MAX || o->ahead[i].time_ns < o->ahead[best].time_ns))
			best = i;
	o->last = best;
	if (best == UINT32_MAX)
		return 0;
	*record = o->ahead[best];
	if (o->files == 1)
		o->alone = o->captures[0];
	return 1;
}

int rw_observation_next(struct rw_observation *o, struct rw_record *record, rw_error *error)
{
	if (!RW_SHORT_WAY(o->alone != NULL))
		return next_merged(o, record, error);
	return next_plain(o->alone, record) ? 1 : next_of_format(o->alone, record, error);
}

int rw_observation_is_as_filed(const struct rw_observation *o)
{
	return o->files == 1 && o->captures[0]->next != rw_interfaces_next;
}

int rw_observation_divides(const struct rw_observation *o) { return o->files == 1 && o->captures[0]->plain; }

int rw_observation_lend(struct rw_observation *o, struct rw_buffer *buffer)
{
	return rw_input_lend(&o->captures[0]->in, buffer);
}

int rw_observation_next_there(struct rw_observation *o, struct rw_record *record)
{
	return o->alone && next_plain(o->alone, record);
}

struct rw_moved rw_observation_moved(const struct rw_observation *o, uint32_t file)
{
	return rw_interfaces_moved(o->captures[file]->sort);
}

uint64_t rw_observation_offset(const struct rw_observation *o)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < o->files; i++)
		sum += o->captures[i]->in.offset;
	return sum;
}
