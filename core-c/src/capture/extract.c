/*
 * The records of one link type, for a program that decodes it: a pcapng in nanoseconds with the interface numbers of
 * the capture. Each block leads with its type and length and ends with its length (draft-ietf-opsawg-pcapng 3.1).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"

static void write_section(FILE *out)
{
	const uint32_t block[] = {
	    0x0a0d0d0a, 28, 0x1a2b3c4d, 1 /* version 1.0 */, UINT32_MAX, UINT32_MAX /* length unknown */, 28};
	fwrite(block, sizeof block, 1, out);
}

static void write_interface(FILE *out, uint32_t link_type)
{
	/* Options: if_tsresol (9), one byte: ten to the minus 9; then the end of options. */
	const uint32_t block[] = {1, 32, link_type, 0 /* no snap length */, 9 | 1 << 16, 9, 0, 32};
	fwrite(block, sizeof block, 1, out);
}

static void write_record(FILE *out, const struct rw_record *r)
{
	uint32_t padding = (4 - r->captured_bytes % 4) % 4, length = 32 + r->captured_bytes + padding;
	uint64_t time_ns = (uint64_t)r->time_ns;
	const uint32_t head[] = {
	    6, length, r->interface, (uint32_t)(time_ns >> 32), (uint32_t)time_ns, r->captured_bytes, r->wire_bytes};
	fwrite(head, sizeof head, 1, out);
	fwrite(r->bytes, 1, r->captured_bytes, out);
	fwrite("\0\0\0", 1, padding, out);
	fwrite(&length, sizeof length, 1, out);
}

rw_status rw_extract(int fd, uint32_t link_type, int out_fd, uint64_t *records, rw_error *error)
{
	memset(error, 0, sizeof *error);
	*records = 0;
	if (link_type > UINT16_MAX) {
		rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "pcapng has no link type %u", link_type);
		return RW_ERROR_BAD_VALUE;
	}
	struct rw_oddity_counts ignored; /* the survey of the capture counts them */
	memset(&ignored, 0, sizeof ignored);
	struct rw_capture *capture;
	rw_status status = rw_capture_open(&capture, fd, 0, &ignored, error);
	if (status != RW_OK)
		return status;
	int copy = dup(out_fd);
	FILE *out = copy < 0 ? NULL : fdopen(copy, "wb");
	int failed = out ? 0 : errno, got = 0;
	if (out)
		write_section(out);
	uint32_t interfaces = 0;
	struct rw_record record;
	while (!failed && (got = rw_capture_next(capture, &record, error)) > 0) {
		if (record.link_type != link_type)
			continue;
		for (; interfaces <= record.interface; interfaces++)
			write_interface(out, link_type);
		write_record(out, &record);
		++*records;
		failed = ferror(out) ? errno : 0;
	}
	rw_capture_close(capture);
	if (out && fclose(out) && !failed)
		failed = errno;
	else if (!out && copy >= 0)
		close(copy);
	if (got < 0)
		return (rw_status)-got;
	if (failed) {
		rw_error_set(error, RW_ERROR_READ, 0, *records, 0, "its records cannot be copied: %s",
			     strerror(failed));
		return RW_ERROR_READ;
	}
	return RW_OK;
}
