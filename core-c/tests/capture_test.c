#include "check.h"
#include "format.h"
#include "packets.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static struct rw_oddity_counts oddities;

static enum rw_status open_file(const struct file *f, struct rw_capture **c, rw_error *error)
{
	memset(&oddities, 0, sizeof oddities);
	memset(error, 0, sizeof *error);
	return rw_capture_open(c, file_descriptor(f), 0, &oddities, error);
}

static const char PAYLOAD[8] = "abcdefgh";

static void check_pcap(uint32_t magic, int big, uint32_t unit_ns, int64_t time_ns)
{
	struct file f = {.n = 0};
	pcap_header(&f, magic, 101, big);
	pcap_record(&f, time_ns, unit_ns, PAYLOAD, 8, 1500, big);
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	assert_int_equal(rw_capture_next(c, &r, &error), 1);
	assert_true(r.time_ns == time_ns / unit_ns * unit_ns);
	assert_int_equal(r.captured_bytes, 8);
	assert_int_equal(r.wire_bytes, 1500);
	assert_int_equal(r.link_type, 101);
	assert_memory_equal(r.bytes, PAYLOAD, 8);
	assert_int_equal(rw_capture_next(c, &r, &error), 0);
	rw_capture_close(c);
}

static void pcap_in_both_orders_and_resolutions(void **state)
{
	(void)state;
	for (int big = 0; big < 2; big++) {
		check_pcap(0xa1b2c3d4, big, 1000, 1700000000123456789);
		check_pcap(0xa1b23c4d, big, 1, 1700000000123456789);
	}
}

static void cut_anywhere_keeps_what_came_before(void **state)
{
	(void)state;
	struct file whole = {.n = 0};
	pcap_header(&whole, 0xa1b2c3d4, 101, 0);
	for (int i = 0; i < 3; i++)
		pcap_record(&whole, i * 1000, 1000, PAYLOAD, 8, 8, 0);
	for (size_t n = 24; n < whole.n; n++) {
		struct file f = whole;
		f.n = n;
		struct rw_capture *c;
		struct rw_record r;
		rw_error error;
		assert_int_equal(open_file(&f, &c, &error), RW_OK);
		size_t records = 0;
		while (rw_capture_next(c, &r, &error) == 1)
			records++;
		assert_int_equal(records, (n - 24) / 24);
		assert_int_equal(oddities.count[RW_ODDITY_CUT_CAPTURE], (n - 24) % 24 != 0);
		rw_capture_close(c);
	}
}

static void an_impossible_record_ends_the_capture(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	pcap_header(&f, 0xa1b2c3d4, 101, 0);
	pcap_record(&f, 0, 1000, PAYLOAD, 8, 8, 0);
	put_number(&f, 0, 8, 0);
	put_number(&f, 0xfffffff0, 4, 0);
	put_number(&f, 0xfffffff0, 4, 0);
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	assert_int_equal(rw_capture_next(c, &r, &error), 1);
	assert_int_equal(rw_capture_next(c, &r, &error), 0);
	assert_int_equal(oddities.count[RW_ODDITY_CORRUPT_RECORD], 1);
	assert_int_equal(oddities.first_offset[RW_ODDITY_CORRUPT_RECORD], 48);
	rw_capture_close(c);
}

/* Some tools write too small a length on the wire: nothing is longer than its packet. */
static void a_packet_is_as_long_as_what_was_captured_of_it(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	pcap_header(&f, 0xa1b2c3d4, 101, 0);
	for (uint32_t i = 0; i < 5; i++)
		pcap_record(&f, i, 1000, PAYLOAD, 8, i == 3 ? 5 : 8 + i, 0);
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(rw_capture_next(c, &r, &error), 1);
		assert_int_equal(r.captured_bytes, 8);
		assert_int_equal(r.wire_bytes, i == 3 ? 8 : 8 + i);
	}
	rw_capture_close(c);
}

static void version_2_2_has_its_lengths_reversed(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	pcap_header(&f, 0xa1b2c3d4, 1, 1);
	f.bytes[7] = 2;
	pcap_record(&f, 0, 1000, PAYLOAD, 8, 8, 1);
	f.n -= 16;
	put_number(&f, 1500, 4, 1); /* the wire's length first */
	put_number(&f, 8, 4, 1);
	put(&f, PAYLOAD, 8);
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	assert_int_equal(rw_capture_next(c, &r, &error), 1);
	assert_int_equal(r.captured_bytes, 8);
	assert_int_equal(r.wire_bytes, 1500);
	rw_capture_close(c);
}

/* Version 2.2 with an interface type of RFC 1573: nanoseconds, and lengths as anywhere. */
static void captures_of_aix(void **state)
{
	(void)state;
	static const uint8_t interface[] = {6, 9, 15, 24}, link[] = {1, 6, 10, 0};
	for (size_t i = 0; i < sizeof interface; i++) {
		struct file f = {.n = 0};
		pcap_header(&f, 0xa1b2c3d4, interface[i], 1);
		f.bytes[7] = 2;
		pcap_record(&f, 1700000000123456789, 1, PAYLOAD, 8, 1500, 1);
		struct rw_capture *c;
		struct rw_record r;
		rw_error error;
		assert_int_equal(open_file(&f, &c, &error), RW_OK);
		assert_int_equal(rw_capture_next(c, &r, &error), 1);
		assert_true(r.time_ns == 1700000000123456789);
		assert_int_equal(r.link_type, link[i]);
		assert_int_equal(r.captured_bytes, 8);
		assert_int_equal(oddities.count[RW_ODDITY_BAD_TIMESTAMP], 0);
		rw_capture_close(c);
	}
}

/* Records behind a header of its own length, under a magic number that may announce another (libpcap's and wiretap's notes). */
static void check_header(uint32_t magic, size_t header, int records)
{
	struct file f = {.n = 0};
	pcap_header(&f, magic, 101, 0);
	for (int i = 0; i < records; i++) {
		pcap_record(&f, 1000000000ll * i + 654321000, 1000, "", 0, 0, 0);
		f.n -= 8;
		put_number(&f, 8, 4, 0);
		put_number(&f, 1500, 4, 0);
		put(&f, "\1\0\0\0\2\3\4\5\0\0\0\0", header - 16);
		put(&f, PAYLOAD, 8);
	}
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	for (int i = 0; i < records; i++) {
		assert_int_equal(rw_capture_next(c, &r, &error), 1);
		assert_true(r.time_ns == 1000000000ll * i + 654321000);
		assert_int_equal(r.captured_bytes, 8);
		assert_int_equal(r.wire_bytes, 1500);
		assert_memory_equal(r.bytes, PAYLOAD, 8);
	}
	assert_int_equal(rw_capture_next(c, &r, &error), 0);
	assert_int_equal(oddities.count[RW_ODDITY_CORRUPT_RECORD] + oddities.count[RW_ODDITY_CUT_CAPTURE], 0);
	rw_capture_close(c);
}

static void longer_record_headers(void **state)
{
	(void)state;
	check_header(0xa1b2cd34, 24, 1);
	for (int records = 2; records < 5; records++) {
		check_header(0xa1b2c3d4, 16, records);
		check_header(0xa1b2c3d4, 20, records); /* Nokia */
		check_header(0xa1b2c3d4, 24, records); /* Red Hat 6.1 */
		check_header(0xa1b2cd34, 24, records);
		check_header(0xa1b2cd34, 28, records); /* SuSE 6.3 */
	}
}

/* The upper bits of the link type: how long a frame check sequence is, and that it is known. */
static void frame_check_sequence_beside_the_link_type(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	pcap_header(&f, 0xa1b2c3d4, 0x44000001, 0);
	pcap_record(&f, 0, 1000, PAYLOAD, 8, 8, 0);
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	assert_int_equal(rw_capture_next(c, &r, &error), 1);
	assert_int_equal(r.link_type, 1);
	rw_capture_close(c);
}

/* Each has its own byte order, clock, version and link type; a record without bytes is no header. */
static void captures_put_one_behind_the_other(void **state)
{
	(void)state;
	static const uint32_t magic[] = {0xa1b2c3d4, 0xa1b23c4d, 0xa1b2c3d4, 0xa1b23c4d};
	struct file f = {.n = 0};
	for (int i = 0; i < 4; i++) {
		pcap_header(&f, magic[i], 101 + (uint32_t)i, i % 3 == 0);
		pcap_record(&f, 1700000000123456789 + i, i % 2 ? 1 : 1000, PAYLOAD, 8, 8, i % 3 == 0);
		pcap_record(&f, 1700000000123456789 + i, i % 2 ? 1 : 1000, PAYLOAD, 0, 0, i % 3 == 0);
	}
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(rw_capture_next(c, &r, &error), 1);
		int64_t time_ns = 1700000000123456789 + i / 2;
		assert_true(r.time_ns == (i / 2 % 2 ? time_ns : time_ns / 1000 * 1000));
		assert_int_equal(r.link_type, 101 + i / 2);
		assert_int_equal(r.captured_bytes, i % 2 ? 0 : 8);
	}
	assert_int_equal(rw_capture_next(c, &r, &error), 0);
	assert_int_equal(oddities.count[RW_ODDITY_SECOND_HEADER], 3);
	assert_int_equal(oddities.first_offset[RW_ODDITY_SECOND_HEADER], 24 + 16 + 8 + 16);
	assert_int_equal(oddities.count[RW_ODDITY_CORRUPT_RECORD] + oddities.count[RW_ODDITY_CUT_CAPTURE], 0);
	rw_capture_close(c);
}

/* And of nothing but headers. */
static void headers_without_end(void **state)
{
	(void)state;
	enum { HEADERS = 40000 };
	static struct file f;
	f.n = 0;
	for (int i = 0; i < HEADERS; i++)
		pcap_header(&f, 0xa1b2c3d4, 101, i % 2);
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	assert_int_equal(rw_capture_next(c, &r, &error), 0);
	assert_int_equal(oddities.count[RW_ODDITY_SECOND_HEADER], HEADERS - 1);
	rw_capture_close(c);
}

static void check_refused(const void *bytes, size_t n, const char *reason)
{
	struct file f = {.n = 0};
	put(&f, bytes, n);
	struct rw_capture *c;
	rw_error error;
	assert_int_equal(open_file(&f, &c, &error), RW_ERROR_NOT_A_CAPTURE);
	assert_non_null(strstr(error.reason, reason));
}

static void foreign_files_are_refused_by_name(void **state)
{
	(void)state;
	check_refused("", 0, "empty");
	check_refused("hello, this is no capture", 25, "neither pcap nor pcapng");
	check_refused("snoop\0\0\0\0\0\0\2", 12, "the snoop file header is cut");
	check_refused("snoop\0\0\0\0\0\0\3\0\0\0\4", 16, "snoop version 3 is not known");
	check_refused("snoop\0\0\0\0\0\0\2\0\0\0\x1a", 16, "snoop's datalink type 26 is not known");
	check_refused("snoop\0\0\1\0\0\0\2\0\0\0\4", 16, "neither pcap nor pcapng nor snoop");
	check_refused("\x1f\x8b\x08\0", 4, "gzip");
	check_refused("\xd4\xc3\xb2\xa1\2\0", 6, "cut");
	check_refused("\x0a\x0d\x0d\x0a\0\0\0\x1c"
		      "abcd",
		      12, "byte-order");
	check_refused("\x0a\x0d\x0d\x0a\0\0\0\x1c\x1a\x2b\x3c\x4d\0\2\0\0", 16, "pcapng version 2");
}

/* snoop */

static void snoop_header(struct file *f, uint32_t datalink)
{
	put(f, "snoop\0\0", 8);
	put_number(f, 2, 4, 1);
	put_number(f, datalink, 4, 1);
}

/* padding: bytes behind the packet. */
static void snoop_record(struct file *f, int64_t time_us, uint32_t captured, uint32_t wire, uint32_t padding,
			 uint32_t dropped)
{
	put_number(f, wire, 4, 1);
	put_number(f, captured, 4, 1);
	put_number(f, 24 + captured + padding, 4, 1);
	put_number(f, dropped, 4, 1);
	put_number(f, (uint64_t)(time_us / 1000000), 4, 1);
	put_number(f, (uint64_t)(time_us % 1000000), 4, 1);
	put(f, PAYLOAD, captured);
	put_number(f, UINT64_MAX, (int)padding, 1);
}

static void snoop_records(void **state)
{
	(void)state;
	static const uint8_t datalink[] = {0, 2, 4, 8, 16, 18}, link[] = {1, 6, 1, 10, 122, 123};
	for (size_t i = 0; i < sizeof datalink; i++) {
		struct file f = {.n = 0};
		struct rw_capture *c;
		struct rw_record r;
		rw_error error;
		snoop_header(&f, datalink[i]);
		for (uint32_t n = 0; n < 8; n++) /* without padding too, and with less on the wire than was captured */
			snoop_record(&f, 1700000000123456 + n, n, n == 5 ? 2 : 1500, n % 2 ? 4 - n % 4 : 0, 0);
		assert_int_equal(open_file(&f, &c, &error), RW_OK);
		uint64_t offset = 16;
		for (uint32_t n = 0; n < 8; n++) {
			assert_int_equal(rw_capture_next(c, &r, &error), 1);
			assert_true(r.time_ns == 1700000000123456000 + n * 1000);
			assert_int_equal(r.captured_bytes, n);
			assert_int_equal(r.wire_bytes, n == 5 ? 5 : 1500);
			assert_int_equal(r.link_type, link[i]);
			assert_true(r.offset == offset);
			assert_memory_equal(r.bytes, PAYLOAD, n);
			offset += 24 + n + (n % 2 ? 4 - n % 4 : 0);
		}
		assert_int_equal(rw_capture_next(c, &r, &error), 0);
		for (int o = 0; o < RW_ODDITY_COUNT; o++)
			assert_int_equal(oddities.count[o], 0);
		rw_capture_close(c);
	}
}

/* A packet whose padding is missing is whole. */
static void snoop_cut_anywhere(void **state)
{
	(void)state;
	enum { HEADER = 16, RECORD = 24 + 5 + 3 };
	struct file whole = {.n = 0};
	snoop_header(&whole, 4);
	for (int i = 0; i < 3; i++)
		snoop_record(&whole, i, 5, 5, 3, 0);
	for (size_t n = HEADER; n < whole.n; n++) {
		struct file f = whole;
		struct rw_capture *c;
		struct rw_record r;
		rw_error error;
		f.n = n;
		assert_int_equal(open_file(&f, &c, &error), RW_OK);
		size_t records = 0, rest = (n - HEADER) % RECORD;
		while (rw_capture_next(c, &r, &error) == 1)
			records++;
		assert_int_equal(records, (n - HEADER + 3) / RECORD);
		assert_int_equal(oddities.count[RW_ODDITY_CUT_CAPTURE], rest && rest < RECORD - 3);
		rw_capture_close(c);
	}
}

/* Totals; the first tells what was before it, and one that is smaller than the one before begins anew. */
static void snoop_tells_what_was_dropped(void **state)
{
	(void)state;
	static const uint32_t total[] = {7, 7, 10, UINT32_MAX, 2, 5};
	struct file f = {.n = 0};
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	snoop_header(&f, 4);
	for (size_t i = 0; i < sizeof total / sizeof *total; i++)
		snoop_record(&f, 0, 8, 8, 0, total[i]);
	snoop_header(&f, 4);
	snoop_record(&f, 0, 8, 8, 0, 100);
	snoop_record(&f, 0, 8, 8, 0, 101);
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	while (rw_capture_next(c, &r, &error) == 1)
		continue;
	assert_true(oddities.count[RW_ODDITY_DROPPED_PACKETS] == 3 + (uint64_t)(UINT32_MAX - 10) + 3 + 1);
	assert_true(oddities.first_offset[RW_ODDITY_DROPPED_PACKETS] == 16 + 2 * 32);
	rw_capture_close(c);
}

static void snoop_records_that_cannot_be(void **state)
{
	(void)state;
	/* On the wire, captured, length of the record: longer than any, shorter than the packet, with more padding than any has. */
	static const uint32_t records[][3] = {{8, 262145, 262169}, {8, UINT32_MAX, 23}, {8, 8, 31},
					      {8, 8, 0},           {8, 8, UINT32_MAX},  {8, 8, 600000}};
	for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
		struct file f = {.n = 0};
		struct rw_capture *c;
		struct rw_record r;
		rw_error error;
		snoop_header(&f, 4);
		snoop_record(&f, 1, 8, 8, 0, 0);
		for (int n = 0; n < 3; n++)
			put_number(&f, records[i][n], 4, 1);
		memset(f.bytes + f.n, 0, 700000);
		f.n += 700000;
		assert_int_equal(open_file(&f, &c, &error), RW_OK);
		assert_int_equal(rw_capture_next(c, &r, &error), 1);
		assert_int_equal(rw_capture_next(c, &r, &error), 0);
		assert_int_equal(oddities.count[RW_ODDITY_CORRUPT_RECORD], 1);
		assert_int_equal(oddities.first_offset[RW_ODDITY_CORRUPT_RECORD], 16 + 32);
		rw_capture_close(c);
	}
}

static void snoop_times_that_cannot_be(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	snoop_header(&f, 4);
	for (int i = 0; i < 2; i++) {
		snoop_record(&f, 0, 0, 0, 0, 0);
		f.n -= 8;
		put_number(&f, i ? UINT32_MAX : 5, 4, 1);
		put_number(&f, i ? UINT32_MAX : 1000000, 4, 1);
	}
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	assert_int_equal(rw_capture_next(c, &r, &error), 1);
	assert_true(r.time_ns == 6000000000);
	assert_int_equal(rw_capture_next(c, &r, &error), 1);
	assert_true(r.time_ns == 4294967295999999000);
	assert_int_equal(oddities.count[RW_ODDITY_BAD_TIMESTAMP], 2);
	rw_capture_close(c);
}

static void snoop_captures_put_one_behind_the_other(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	snoop_header(&f, 4);
	snoop_record(&f, 0, 8, 8, 0, 0);
	snoop_header(&f, 0);
	snoop_header(&f, 8);
	snoop_record(&f, 0, 8, 8, 0, 0);
	snoop_header(&f, 26); /* not known: what follows cannot be read */
	snoop_record(&f, 0, 8, 8, 0, 0);
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(rw_capture_next(c, &r, &error), 1);
		assert_int_equal(r.link_type, i ? 10 : 1);
	}
	assert_int_equal(rw_capture_next(c, &r, &error), 0);
	assert_int_equal(oddities.count[RW_ODDITY_SECOND_HEADER], 2);
	assert_int_equal(oddities.first_offset[RW_ODDITY_SECOND_HEADER], 16 + 32);
	assert_int_equal(oddities.count[RW_ODDITY_CORRUPT_RECORD], 1);
	rw_capture_close(c);
}

/* pcapng */

static void pcapng_clocks_interfaces_and_orders(void **state)
{
	(void)state;
	for (int big = 0; big < 2; big++) {
		struct file f = {.n = 0};
		pcapng_section(&f, big);
		pcapng_interface(&f, 1, -1, 0, big); /* microseconds */
		pcapng_interface(&f, 101, 9, 0, big); /* nanoseconds */
		pcapng_interface(&f, 113, 0x80 | 20, 0, big); /* 2^-20 s */
		pcapng_interface(&f, 276, 12, 100, big); /* picoseconds, 100 s later */
		pcapng_enhanced(&f, 0, 5000001, big);
		pcapng_enhanced(&f, 1, 5000000001, big);
		pcapng_enhanced(&f, 2, 5ull << 20 | 1 << 19, big);
		pcapng_enhanced(&f, 3, 5000000000000, big);
		pcapng_enhanced(&f, 9, 1, big); /* no such interface */
		pcapng_section(&f, !big); /* interfaces start anew, in the other order */
		pcapng_interface(&f, 228, -1, 0, !big);
		pcapng_enhanced(&f, 0, 7000000, !big);
		struct rw_capture *c;
		struct rw_record r;
		rw_error error;
		assert_int_equal(open_file(&f, &c, &error), RW_OK);
		const int64_t times[] = {5000001000, 5000000001, 5500000000, 105000000000, 7000000000};
		const uint32_t links[] = {1, 101, 113, 276, 228}, interfaces[] = {0, 1, 2, 3, 4};
		for (int i = 0; i < 5; i++) {
			assert_int_equal(rw_capture_next(c, &r, &error), 1);
			assert_true(r.time_ns == times[i]);
			assert_int_equal(r.link_type, links[i]);
			assert_int_equal(r.interface, interfaces[i]);
			assert_int_equal(r.wire_bytes, 60);
		}
		assert_int_equal(rw_capture_next(c, &r, &error), 0);
		assert_int_equal(oddities.count[RW_ODDITY_UNKNOWN_INTERFACE], 1);
		rw_capture_close(c);
	}
}

/* The records of one link type, with their times and interface numbers, of a capture in either byte order. */
static void one_link_type_is_extracted(void **state)
{
	(void)state;
	for (int big = 0; big < 2; big++) {
		struct file f = {.n = 0};
		pcapng_section(&f, big);
		pcapng_interface(&f, 1, -1, 0, big);
		pcapng_interface(&f, 107, 9, 0, big);
		pcapng_interface(&f, 107, -1, 100, big);
		pcapng_enhanced(&f, 2, 5000001, big);
		pcapng_enhanced(&f, 0, 5000002, big);
		pcapng_enhanced(&f, 1, 5000000003, big);
		pcapng_section(&f, !big);
		pcapng_interface(&f, 107, -1, 0, !big);
		pcapng_enhanced(&f, 0, 7000000, !big);
		FILE *out = tmpfile();
		uint64_t records;
		rw_error error;
		assert_int_equal(rw_extract(file_descriptor(&f), 107, fileno(out), &records, &error), RW_OK);
		assert_int_equal(records, 3);
		struct rw_capture *c;
		struct rw_record r;
		memset(&oddities, 0, sizeof oddities);
		assert_int_equal(rw_capture_open(&c, fileno(out), 0, &oddities, &error), RW_OK);
		const int64_t times[] = {105000001000, 5000000003, 7000000000};
		const uint32_t interfaces[] = {2, 1, 3};
		for (int i = 0; i < 3; i++) {
			assert_int_equal(rw_capture_next(c, &r, &error), 1);
			assert_true(r.time_ns == times[i]);
			assert_int_equal(r.link_type, 107);
			assert_int_equal(r.interface, interfaces[i]);
			assert_int_equal(r.captured_bytes, 8);
			assert_int_equal(r.wire_bytes, 60);
			assert_memory_equal(r.bytes, PAYLOAD, 8);
		}
		assert_int_equal(rw_capture_next(c, &r, &error), 0);
		for (int i = 0; i < RW_ODDITY_COUNT; i++)
			assert_int_equal(oddities.count[i], 0);
		rw_capture_close(c);
		fclose(out);
	}
}

static void what_cannot_be_extracted_is_said(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	pcap_header(&f, 0xa1b2c3d4, 107, 0);
	for (int i = 0; i < 20000; i++) /* more than a stream's buffer */
		pcap_record(&f, i, 1000, PAYLOAD, 8, 8, 0);
	int fd = file_descriptor(&f), full = open("/dev/full", O_WRONLY);
	uint64_t records;
	rw_error error;
	assert_int_equal(rw_extract(fd, 107, full, &records, &error), RW_ERROR_READ);
	assert_non_null(strstr(error.reason, "cannot be copied"));
	assert_int_equal(rw_extract(fd, 107, 999, &records, &error), RW_ERROR_READ);
	assert_int_equal(rw_extract(fd, 65536, full, &records, &error), RW_ERROR_BAD_VALUE);
	f.n = 10;
	assert_int_equal(rw_extract(file_descriptor(&f), 107, full, &records, &error), RW_ERROR_NOT_A_CAPTURE);
	close(full);
}

static void pcapng_lengths_that_cannot_be(void **state)
{
	(void)state;
	const uint32_t lengths[] = {0, 4, 8, 13, 0xfffffffc, 0xffffffff};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		struct file f = {.n = 0};
		pcapng_section(&f, 0);
		put_number(&f, 6, 4, 0);
		put_number(&f, lengths[i], 4, 0);
		put_number(&f, 0, 8, 0);
		struct rw_capture *c;
		struct rw_record r;
		rw_error error;
		assert_int_equal(open_file(&f, &c, &error), RW_OK);
		assert_int_equal(rw_capture_next(c, &r, &error), 0);
		assert_int_equal(oddities.count[RW_ODDITY_CORRUPT_RECORD], 1);
		rw_capture_close(c);
	}
}

/* Lengths of 4 GB in each kind of block and in a pcap record: neither read nor given memory. */
static void four_gigabytes_in_a_few(void **state)
{
	(void)state;
	static const uint32_t blocks[] = {1, 2, 3, 6, 5, 0x0a0d0d0a};
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks + 2; i++) {
		struct file f = {.n = 0};
		if (i < sizeof blocks / sizeof *blocks) {
			pcapng_section(&f, 0);
			pcapng_interface(&f, 1, -1, 0, 0);
			put_number(&f, blocks[i], 4, 0);
			put_number(&f, 0xfffffffc, 4, 0);
			put_number(&f, 0x1a2b3c4d, 4, 0);
		} else {
			pcap_header(&f, 0xa1b2c3d4, 1, 0);
			put_number(&f, 0, 8, 0);
			put_number(&f, 0xffffffff, 4, 0);
			put_number(&f, i % 2 ? 60 : 0xffffffff, 4, 0);
		}
		put(&f, PAYLOAD, 8);
		struct rw_capture *c;
		struct rw_record r;
		rw_error error;
		assert_int_equal(open_file(&f, &c, &error), RW_OK);
		assert_int_equal(rw_capture_next(c, &r, &error), 0);
		assert_int_equal(oddities.count[RW_ODDITY_CORRUPT_RECORD] + oddities.count[RW_ODDITY_CUT_CAPTURE], 1);
		assert_true(c->in.own.capacity <= 1 << 18);
		rw_capture_close(c);
	}
}

static void a_million_interfaces(void **state)
{
	(void)state;
	enum { INTERFACES = 1000000, KEPT = 65536 };
	struct file f = {.n = 0}, one = {.n = 0}, last = {.n = 0};
	pcapng_section(&f, 0);
	pcapng_interface(&one, 101, -1, 0, 0);
	pcapng_enhanced(&last, KEPT - 1, 7000000, 0);
	pcapng_enhanced(&last, INTERFACES - 1, 8000000, 0);
	FILE *t = tmpfile();
	assert_non_null(t);
	fwrite(f.bytes, 1, f.n, t);
	for (int i = 0; i < INTERFACES; i++)
		fwrite(one.bytes, 1, one.n, t);
	fwrite(last.bytes, 1, last.n, t);
	assert_int_equal(fflush(t), 0);
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	memset(&oddities, 0, sizeof oddities);
	assert_int_equal(rw_capture_open(&c, fileno(t), 0, &oddities, &error), RW_OK);
	assert_int_equal(rw_capture_next(c, &r, &error), 1);
	assert_int_equal(r.interface, KEPT - 1);
	assert_int_equal(rw_capture_next(c, &r, &error), 0);
	assert_int_equal(oddities.count[RW_ODDITY_TOO_MANY_INTERFACES], INTERFACES - KEPT);
	assert_int_equal(oddities.count[RW_ODDITY_UNKNOWN_INTERFACE], 1);
	assert_int_equal(c->interface_room, KEPT);
	rw_capture_close(c);
	fclose(t);
}

/* options: of an enhanced packet block's, or the statistics block's. */
static void put_block(struct file *f, uint32_t type, const void *head, size_t head_bytes, const struct file *options)
{
	struct file body = {.n = 0};
	put(&body, head, head_bytes);
	put(&body, options->bytes, options->n);
	pcapng_block(f, type, &body, 0);
}

static void put_option_u64(struct file *options, uint16_t code, uint64_t value)
{
	put_number(options, code, 2, 0);
	put_number(options, 8, 2, 0);
	put_number(options, value, 8, 0);
}

/* A packet's own count and the interface's sum are of the same packets: each is told once. */
static void dropped_packets_are_told_once(void **state)
{
	(void)state;
	static const uint8_t packet_head[28] = {[12] = 8, [16] = 8}, statistics_head[12] = {0};
	static const uint64_t sums[] = {0, 12, 20, UINT64_MAX};
	for (size_t i = 0; i < 4; i++) {
		struct file f = {.n = 0}, between = {.n = 0}, sum = {.n = 0}, none = {.n = 0};
		pcapng_section(&f, 0);
		pcapng_interface(&f, 101, -1, 0, 0);
		put_option_u64(&between, 4, 12);
		put_option_u64(&sum, 5, sums[i] / 2);
		put_option_u64(&sum, 7, sums[i] - sums[i] / 2);
		put_block(&f, 6, packet_head, 28, &between);
		put_block(&f, 6, packet_head, 28, &none);
		put_block(&f, 5, statistics_head, 12, &sum);
		put_block(&f, 5, statistics_head, 12, &sum); /* the same sum again */
		struct rw_capture *c;
		struct rw_record r;
		rw_error error;
		assert_int_equal(open_file(&f, &c, &error), RW_OK);
		while (rw_capture_next(c, &r, &error) == 1)
			;
		uint64_t expected = sums[i] > 12 ? sums[i] : 12;
		assert_true(oddities.count[RW_ODDITY_DROPPED_PACKETS] ==
			    (expected > 100 ? (uint64_t)1 << 48 : expected));
		rw_capture_close(c);
	}
}

static void an_obsolete_packet_says_what_was_dropped(void **state)
{
	(void)state;
	struct file f = {.n = 0}, body = {.n = 0};
	pcapng_section(&f, 0);
	pcapng_interface(&f, 101, -1, 0, 0);
	put(&body, "\0\0\7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
	pcapng_block(&f, 2, &body, 0);
	body.bytes[2] = body.bytes[3] = 0xff; /* not known */
	pcapng_block(&f, 2, &body, 0);
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	assert_int_equal(open_file(&f, &c, &error), RW_OK);
	assert_int_equal(rw_capture_next(c, &r, &error), 1);
	assert_int_equal(rw_capture_next(c, &r, &error), 1);
	assert_int_equal(oddities.count[RW_ODDITY_DROPPED_PACKETS], 7);
	rw_capture_close(c);
}

/* Also of blocks that are passed over the second length is the first. */
static void a_block_passed_over_ends_as_it_began(void **state)
{
	(void)state;
	for (int wrong = 0; wrong < 2; wrong++) {
		struct file f = {.n = 0}, body = {.n = 0};
		pcapng_section(&f, 0);
		pcapng_interface(&f, 101, -1, 0, 0);
		put(&body, "\1\2\3\4", 4);
		pcapng_block(&f, 0xbad, &body, 0);
		f.bytes[f.n - 4] ^= (uint8_t)wrong;
		pcapng_enhanced(&f, 0, 1000000, 0);
		struct rw_capture *c;
		struct rw_record r;
		rw_error error;
		assert_int_equal(open_file(&f, &c, &error), RW_OK);
		assert_int_equal(rw_capture_next(c, &r, &error), !wrong);
		assert_int_equal(oddities.count[RW_ODDITY_CORRUPT_RECORD], wrong);
		rw_capture_close(c);
	}
}

static void observations_are_merged_by_time(void **state)
{
	(void)state;
	struct file f[2] = {{.n = 0}, {.n = 0}};
	for (int i = 0; i < 2; i++) {
		pcap_header(&f[i], 0xa1b23c4d, 101, i);
		for (int k = 0; k < 5; k++)
			pcap_record(&f[i], 10 * k + 3 * i, 1, PAYLOAD, 8, 8, i);
	}
	int fds[2] = {file_descriptor(&f[0]), file_descriptor(&f[1])};
	struct rw_observation *o;
	struct rw_record r;
	rw_error error;
	memset(&oddities, 0, sizeof oddities);
	assert_int_equal(rw_observation_open(&o, fds, 2, &oddities, &error), RW_OK);
	for (int k = 0; k < 10; k++) {
		assert_int_equal(rw_observation_next(o, &r, &error), 1);
		assert_int_equal(r.time_ns, 10 * (k / 2) + 3 * (k % 2));
		assert_int_equal(r.file, k % 2);
		assert_memory_equal(r.bytes, PAYLOAD, 8);
	}
	assert_int_equal(rw_observation_next(o, &r, &error), 0);
	rw_observation_close(o);
}

enum { MANY_RECORDS = 40000, RECORD_BYTES = 16 + 88 };

/* A file of several buffers. Its i-th packet begins with i. */
static void write_many(char path[])
{
	static const char end[88 - 4];
	struct file f = {.n = 0};
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	FILE *out = fdopen(fd, "wb");
	pcap_header(&f, 0xa1b23c4d, 101, 0);
	fwrite(f.bytes, 1, f.n, out);
	for (uint32_t i = 0; i < MANY_RECORDS; i++) {
		char packet[88];
		memcpy(packet, &i, 4);
		memcpy(packet + 4, end, sizeof end);
		f.n = 0;
		pcap_record(&f, i, 1, packet, sizeof packet, sizeof packet, 0);
		fwrite(f.bytes, 1, f.n, out);
	}
	assert_int_equal(fclose(out), 0);
}

static uint32_t read_many(struct rw_observation *o, uint32_t from, uint32_t to)
{
	struct rw_record r;
	rw_error error;
	uint32_t i, number;
	for (i = from; i < to && rw_observation_next(o, &r, &error) == 1; i++) {
		memcpy(&number, r.bytes, 4);
		assert_int_equal(number, i);
	}
	return i;
}

static struct rw_observation *open_one(int fd)
{
	struct rw_observation *o;
	rw_error error;
	memset(&oddities, 0, sizeof oddities);
	assert_int_equal(rw_observation_open(&o, &fd, 1, &oddities, &error), RW_OK);
	return o;
}

static void a_file_may_be_cut_while_it_is_read(void **state)
{
	(void)state;
	char path[] = "/tmp/rewindow.XXXXXX";
	write_many(path);
	int fd = open(path, O_RDWR);
	struct rw_observation *o = open_one(fd);
	assert_int_equal(read_many(o, 0, 20000), 20000);
	assert_int_equal(ftruncate(fd, 24 + 30000 * RECORD_BYTES + 20), 0);
	assert_int_equal(read_many(o, 20000, MANY_RECORDS), 30000);
	assert_int_equal(oddities.count[RW_ODDITY_CUT_CAPTURE], 1);
	rw_observation_close(o);
	close(fd);
	unlink(path);
}

/* Some buffers in turn, as several threads use them: the records of all but the one in use keep their bytes. */
static void records_keep_their_bytes_in_lent_buffers(void **state)
{
	(void)state;
	enum { BUFFERS = 3, FIRST_SHORT = 40 };
	char path[] = "/tmp/rewindow.XXXXXX";
	write_many(path);
	int fd = open(path, O_RDONLY);
	struct rw_observation *o = open_one(fd);
	struct rw_buffer buffer[BUFFERS] = {{NULL, 0}};
	struct rw_record *record = calloc(MANY_RECORDS, sizeof *record);
	uint32_t begin[MANY_RECORDS / 100], lent = 0, n = 0;
	rw_error error;
	for (;;) {
		begin[lent] = n;
		assert_int_equal(rw_observation_lend(o, &buffer[lent % BUFFERS]), 0);
		if (rw_observation_next(o, &record[n], &error) != 1)
			break;
		lent++;
		/* The first buffer is left early, with records behind that are read from the next one. */
		for (n++; n != FIRST_SHORT && rw_observation_next_there(o, &record[n]); n++)
			;
		for (uint32_t i = lent >= BUFFERS ? begin[lent - BUFFERS] : 0; i < n; i++)
			assert_memory_equal(record[i].bytes, &i, sizeof i);
	}
	assert_int_equal(n, MANY_RECORDS);
	assert_true(lent > 2 * BUFFERS);
	rw_observation_close(o);
	for (int i = 0; i < BUFFERS; i++)
		free(buffer[i].bytes);
	free(record);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(captures_of_aix),
	    cmocka_unit_test(longer_record_headers),
	    cmocka_unit_test(frame_check_sequence_beside_the_link_type),
	    cmocka_unit_test(dropped_packets_are_told_once),
	    cmocka_unit_test(an_obsolete_packet_says_what_was_dropped),
	    cmocka_unit_test(a_block_passed_over_ends_as_it_began),
	    cmocka_unit_test(pcap_in_both_orders_and_resolutions),
	    cmocka_unit_test(cut_anywhere_keeps_what_came_before),
	    cmocka_unit_test(an_impossible_record_ends_the_capture),
	    cmocka_unit_test(a_packet_is_as_long_as_what_was_captured_of_it),
	    cmocka_unit_test(version_2_2_has_its_lengths_reversed),
	    cmocka_unit_test(captures_put_one_behind_the_other),
	    cmocka_unit_test(headers_without_end),
	    cmocka_unit_test(foreign_files_are_refused_by_name),
	    cmocka_unit_test(snoop_records),
	    cmocka_unit_test(snoop_cut_anywhere),
	    cmocka_unit_test(snoop_tells_what_was_dropped),
	    cmocka_unit_test(snoop_records_that_cannot_be),
	    cmocka_unit_test(snoop_times_that_cannot_be),
	    cmocka_unit_test(snoop_captures_put_one_behind_the_other),
	    cmocka_unit_test(pcapng_clocks_interfaces_and_orders),
	    cmocka_unit_test(one_link_type_is_extracted),
	    cmocka_unit_test(what_cannot_be_extracted_is_said),
	    cmocka_unit_test(pcapng_lengths_that_cannot_be),
	    cmocka_unit_test(four_gigabytes_in_a_few),
	    cmocka_unit_test(a_million_interfaces),
	    cmocka_unit_test(observations_are_merged_by_time),
	    cmocka_unit_test(a_file_may_be_cut_while_it_is_read),
	    cmocka_unit_test(records_keep_their_bytes_in_lent_buffers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
