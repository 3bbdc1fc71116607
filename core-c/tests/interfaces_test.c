/* Records of several interfaces of one file, in the order of their times. */
#include "check.h"
#include "format.h"
#include "packets.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS 1000000000ll

static struct rw_oddity_counts oddities;

/* A capture that is written block by block, of any length. */
struct writer {
	FILE *out;
	uint32_t records;
};

static void add_block(struct writer *w, uint32_t type, const struct file *head, size_t bytes)
{
	static const uint8_t nothing[262144];
	uint32_t length = (uint32_t)(12 + head->n + (bytes + 3) / 4 * 4);
	fwrite(&type, 4, 1, w->out);
	fwrite(&length, 4, 1, w->out);
	fwrite(head->bytes, 1, head->n, w->out);
	fwrite(nothing, 1, (bytes + 3) / 4 * 4, w->out);
	fwrite(&length, 4, 1, w->out);
}

static void add_section(struct writer *w, int interfaces)
{
	struct file f = {.n = 0};
	pcapng_section(&f, 0);
	for (int i = 0; i < interfaces; i++)
		pcapng_interface(&f, 101, 9, 0, 0); /* nanoseconds */
	fwrite(f.bytes, 1, f.n, w->out);
}

static struct writer begin(int interfaces)
{
	struct writer w = {tmpfile(), 0};
	assert_non_null(w.out);
	add_section(&w, interfaces);
	return w;
}

/* A packet of so many bytes, 8 at least: its number in the file, from 1 on, and its interface. */
static void add(struct writer *w, uint32_t interface, int64_t time_ns, size_t bytes)
{
	struct file head = {.n = 0};
	put_number(&head, interface, 4, 0);
	put_number(&head, (uint64_t)time_ns >> 32, 4, 0);
	put_number(&head, (uint64_t)time_ns & 0xffffffff, 4, 0);
	put_number(&head, bytes, 4, 0);
	put_number(&head, bytes, 4, 0);
	put_number(&head, ++w->records, 4, 0);
	put_number(&head, interface, 4, 0);
	add_block(w, 6, &head, bytes - 8);
}

static struct rw_observation *observe(const struct writer *w)
{
	struct rw_observation *o;
	rw_error error;
	int fd = fileno(w->out);
	assert_int_equal(fflush(w->out), 0);
	memset(&oddities, 0, sizeof oddities);
	assert_int_equal(rw_observation_open(&o, &fd, 1, &oddities, &error), RW_OK);
	return o;
}

static uint32_t number_of(const struct rw_record *r)
{
	uint32_t number;
	memcpy(&number, r->bytes, 4);
	return number;
}

/* The numbers of the records in the order in which they come; how many come before one that stands before them. */
static void check_order(struct writer *w, uint32_t moved, const uint32_t *expected, uint32_t count)
{
	struct rw_record r;
	rw_error error;
	struct rw_observation *o = observe(w);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(rw_observation_next(o, &r, &error), 1);
		assert_int_equal(number_of(&r), expected[i]);
	}
	assert_int_equal(rw_observation_next(o, &r, &error), 0);
	assert_int_equal(rw_observation_next(o, &r, &error), 0); /* the end stays the end */
	assert_int_equal(rw_observation_moved(o, 0).records, moved);
	rw_observation_close(o);
	fclose(w->out);
}

#define CHECK_ORDER(w, moved, ...)                                                                                     \
	do {                                                                                                           \
		static const uint32_t expected[] = {__VA_ARGS__};                                                      \
		check_order(w, moved, expected, sizeof expected / sizeof *expected);                                   \
	} while (0)

static void the_interface_that_was_drained_later(void **state)
{
	(void)state;
	struct writer w = begin(2);
	for (int i = 0; i < 4; i++)
		add(&w, 0, (10 + i) * SECOND_NS / 4, 60);
	for (int i = 0; i < 4; i++)
		add(&w, 1, (10 + i) * SECOND_NS / 4 + i,
		    60); /* the first at the same time: after the other, as in the file */
	CHECK_ORDER(&w, 3, 1, 5, 2, 6, 3, 7, 4, 8);
}

static void late_records_are_counted(void **state)
{
	(void)state;
	struct writer w = begin(2);
	add(&w, 0, 4 * SECOND_NS, 60);
	add(&w, 1, 3 * SECOND_NS, 60);
	add(&w, 1, 5 * SECOND_NS, 60);
	add(&w, 0, 5 * SECOND_NS - 1, 60);
	add(&w, 0, 5 * SECOND_NS - 2, 60); /* earlier than its own one before: stays where it is */
	struct rw_observation *o = observe(&w);
	struct rw_record r;
	rw_error error;
	while (rw_observation_next(o, &r, &error) == 1)
		;
	struct rw_moved moved = rw_observation_moved(o, 0);
	assert_int_equal(moved.records, 2);
	struct rw_place place[2] = {{.offset = moved.first_offset}, {.offset = UINT64_MAX}};
	rw_capture_find(fileno(w.out), place, 2);
	assert_int_equal(place[0].record, 2);
	assert_true(place[0].time_ns == 3 * SECOND_NS);
	assert_int_equal(place[1].record, 5);
	assert_false(rw_observation_is_as_filed(o));
	rw_observation_close(o);
	fclose(w.out);
}

/* Whatever its times say: its clock went back, or its packets were captured by several processors. */
static void within_an_interface_the_file_tells_the_order(void **state)
{
	(void)state;
	struct writer w = begin(2);
	add(&w, 0, 5 * SECOND_NS, 60);
	add(&w, 0, 4 * SECOND_NS, 60);
	add(&w, 0, 6 * SECOND_NS, 60);
	add(&w, 1, 3 * SECOND_NS, 60);
	add(&w, 1, 9 * SECOND_NS / 2, 60);
	CHECK_ORDER(&w, 2, 4, 5, 1, 2, 3);
}

/* Clocks of other units and with an offset tell the same seconds. */
static void clocks_of_several_kinds(void **state)
{
	(void)state;
	struct writer w = {tmpfile(), 0};
	struct file f = {.n = 0};
	pcapng_section(&f, 1);
	pcapng_interface(&f, 101, -1, 0, 1);
	pcapng_interface(&f, 101, 9, 0, 1);
	pcapng_interface(&f, 101, 0x80 | 20, 0, 1);
	pcapng_interface(&f, 101, 3, -100, 1);
	pcapng_enhanced(&f, 0, 5000003, 1);
	pcapng_enhanced(&f, 1, 5000002000, 1);
	pcapng_enhanced(&f, 2, 5 << 20 | 1, 1); /* 0.95 us */
	pcapng_enhanced(&f, 3, 105000, 1);
	fwrite(f.bytes, 1, f.n, w.out);
	struct rw_observation *o = observe(&w);
	struct rw_record r;
	rw_error error;
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(rw_observation_next(o, &r, &error), 1);
		assert_int_equal(r.interface, 3 - i);
	}
	rw_observation_close(o);
	fclose(w.out);
}

/* More than five seconds is no buffer's doing; from there on it is put in order again. */
static void a_clock_that_was_set_back(void **state)
{
	(void)state;
	struct writer w = begin(2);
	add(&w, 0, 20 * SECOND_NS, 60);
	add(&w, 1, 19 * SECOND_NS, 60);
	add(&w, 0, 15 * SECOND_NS - 1, 60); /* the record before stands before it as well */
	add(&w, 1, 14 * SECOND_NS, 60);
	add(&w, 1, 16 * SECOND_NS, 60);
	add(&w, 0, 15 * SECOND_NS, 60);
	CHECK_ORDER(&w, 3, 2, 1, 4, 3, 6, 5);
}

/* One clock is ahead by more than five seconds: which comes first only the file tells. */
static void clocks_that_are_apart(void **state)
{
	(void)state;
	struct writer w = begin(2);
	for (int i = 0; i < 3; i++) {
		add(&w, 0, (100 + i) * SECOND_NS, 60);
		add(&w, 1, (137 + i) * SECOND_NS, 60);
	}
	CHECK_ORDER(&w, 0, 1, 2, 3, 4, 5, 6);
}

/* A time far ahead, once, does not end the order of what follows. */
static void a_time_that_cannot_be(void **state)
{
	(void)state;
	struct writer w = begin(2);
	add(&w, 0, 11 * SECOND_NS, 60);
	add(&w, 1, 10 * SECOND_NS, 60);
	add(&w, 0, 4000000000 * SECOND_NS, 60);
	add(&w, 0, 13 * SECOND_NS, 60);
	add(&w, 1, 12 * SECOND_NS, 60);
	CHECK_ORDER(&w, 2, 2, 1, 3, 5, 4);
}

static void sections_follow_one_another(void **state)
{
	(void)state;
	struct writer w = begin(2);
	add(&w, 0, 11 * SECOND_NS, 60);
	add(&w, 1, 10 * SECOND_NS, 60);
	add_section(&w, 1);
	add(&w, 0, 9 * SECOND_NS, 60);
	add(&w, 0, 8 * SECOND_NS, 60);
	add_section(&w, 3);
	add(&w, 2, 12 * SECOND_NS, 60);
	add(&w, 1, 11 * SECOND_NS, 60);
	CHECK_ORDER(&w, 2, 2, 1, 3, 4, 6, 5);
}

static void an_interface_that_is_described_later(void **state)
{
	(void)state;
	struct writer w = begin(1);
	struct file f = {.n = 0};
	add(&w, 0, 10 * SECOND_NS, 60);
	add(&w, 0, 12 * SECOND_NS, 60);
	pcapng_interface(&f, 101, 9, 0, 0);
	fwrite(f.bytes, 1, f.n, w.out);
	add(&w, 0, 13 * SECOND_NS, 60);
	add(&w, 1, 11 * SECOND_NS, 60); /* after what was read when there was one interface */
	CHECK_ORDER(&w, 1, 1, 2, 4, 3);
}

/* Simple packets take the time of the record before. */
static void packets_without_a_time_stay_behind_the_one_before(void **state)
{
	(void)state;
	struct writer w = begin(2);
	add(&w, 1, 12 * SECOND_NS, 60);
	struct file head = {.n = 0};
	put_number(&head, 60, 4, 0);
	put_number(&head, ++w.records, 4, 0);
	add_block(&w, 3, &head, 56);
	add(&w, 1, 13 * SECOND_NS, 60);
	CHECK_ORDER(&w, 0, 1, 2, 3);
}

/* What no longer is in the reader's buffer is read again: records of many lengths, interfaces behind by up to five seconds. */
static void check_against_a_sort(int interfaces, uint32_t records, size_t bytes_max)
{
	enum { MOST = 40000 };
	static int64_t time_ns[MOST + 1];
	static uint32_t order[MOST];
	struct writer w = begin(interfaces);
	char path[] = "/tmp/rewindow.XXXXXX";
	fclose(w.out);
	int fd = mkstemp(path);
	w.out = fdopen(fd, "wb");
	add_section(&w, interfaces);
	uint64_t random = 88172645463325252ull;
	int64_t own_ns[8] = {0}, behind_ns[8];
	for (int i = 0; i < interfaces; i++)
		behind_ns[i] = i * 4 * SECOND_NS / interfaces;
	uint32_t interface = 0, burst = 0;
	for (uint32_t n = 1; n <= records; n++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		if (!burst--) {
			interface = (uint32_t)(random >> 8) % (uint32_t)interfaces;
			burst = random >> 20 & 63;
		}
		int64_t now_ns = 100 * SECOND_NS + n * 1000000ll - behind_ns[interface];
		own_ns[interface] = now_ns - now_ns % 3000000; /* many at the same time */
		time_ns[n] = own_ns[interface];
		add(&w, interface, time_ns[n], 8 + (size_t)(random >> 32) % bytes_max);
		uint32_t at = n - 1;
		for (; at && time_ns[order[at - 1]] > time_ns[n]; at--)
			order[at] = order[at - 1];
		order[at] = n;
	}
	assert_int_equal(fclose(w.out), 0);
	fd = open(path, O_RDONLY);
	struct rw_observation *o;
	struct rw_record r;
	rw_error error;
	memset(&oddities, 0, sizeof oddities);
	assert_int_equal(rw_observation_open(&o, &fd, 1, &oddities, &error), RW_OK);
	for (uint32_t i = 0; i < records; i++) {
		assert_int_equal(rw_observation_next(o, &r, &error), 1);
		assert_int_equal(number_of(&r), order[i]);
		assert_true(r.time_ns == time_ns[order[i]]);
		assert_int_equal(r.bytes[4], r.interface);
	}
	assert_int_equal(rw_observation_next(o, &r, &error), 0);
	rw_observation_close(o);
	close(fd);
	unlink(path);
}

static void the_same_as_a_sort(void **state)
{
	(void)state;
	check_against_a_sort(2, 20000, 1500);
	check_against_a_sort(3, 20000, 100);
	check_against_a_sort(8, 3000, 100000);
}

/* held_max: what else would come first stands behind them and stays there. */
static void no_more_are_held_than_may_be(void **state)
{
	(void)state;
	enum { HELD = 8, RECORDS = 1000 };
	struct writer w = begin(2);
	for (int i = 0; i < RECORDS; i++)
		add(&w, 0, SECOND_NS + i, 60);
	for (int i = 0; i < RECORDS; i++)
		add(&w, 1, SECOND_NS + i, 60);
	assert_int_equal(fflush(w.out), 0);
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	memset(&oddities, 0, sizeof oddities);
	assert_int_equal(rw_capture_open(&c, fileno(w.out), 0, &oddities, &error), RW_OK);
	assert_int_equal(rw_interfaces_sort(c, HELD), 0);
	enum { BEFORE = RECORDS - HELD + 1 }; /* had to go before the second interface's first came */
	for (uint32_t i = 0; i < 2 * RECORDS; i++) {
		uint32_t merged = i - 2 * BEFORE;
		uint32_t expected = i < BEFORE       ? i + 1
				    : i < 2 * BEFORE ? RECORDS + i - BEFORE + 1
						     : BEFORE + merged / 2 + 1 + merged % 2 * RECORDS;
		assert_int_equal(rw_capture_next(c, &r, &error), 1);
		assert_int_equal(number_of(&r), expected);
	}
	assert_int_equal(rw_capture_next(c, &r, &error), 0);
	assert_int_equal(rw_interfaces_moved(c->sort).records, HELD - 1);
	rw_capture_close(c);
	fclose(w.out);
}

/* One that has no packets holds the others back for no more than five seconds of theirs. */
static void an_idle_interface_holds_nothing_for_ever(void **state)
{
	(void)state;
	enum { RECORDS = 4000 };
	struct writer w = begin(2);
	add(&w, 1, SECOND_NS, 60);
	for (int i = 0; i < RECORDS; i++)
		add(&w, 0, SECOND_NS + i * 10000000ll, 60);
	struct rw_observation *o = observe(&w);
	struct rw_record r;
	rw_error error;
	uint64_t block = 32 + 60;
	for (int i = 0; i <= RECORDS; i++) {
		assert_int_equal(rw_observation_next(o, &r, &error), 1);
		assert_int_equal(number_of(&r), i + 1);
		assert_true(rw_observation_offset(o) <= r.offset + 503 * block);
	}
	rw_observation_close(o);
	fclose(w.out);
}

static void every_interface_that_there_can_be(void **state)
{
	(void)state;
	enum { INTERFACES = 65536 };
	struct writer w = {tmpfile(), 0};
	struct file f = {.n = 0};
	pcapng_section(&f, 0);
	fwrite(f.bytes, 1, f.n, w.out);
	f.n = 0;
	pcapng_interface(&f, 101, 9, 0, 0);
	for (int i = 0; i < INTERFACES; i++)
		fwrite(f.bytes, 1, f.n, w.out);
	for (int i = 0; i < INTERFACES; i++)
		add(&w, (uint32_t)i, 4 * SECOND_NS - i, 8);
	struct rw_observation *o = observe(&w);
	struct rw_record r;
	rw_error error;
	for (uint32_t i = INTERFACES; i > 0; i--) {
		assert_int_equal(rw_observation_next(o, &r, &error), 1);
		assert_int_equal(number_of(&r), i);
	}
	assert_int_equal(rw_observation_next(o, &r, &error), 0);
	rw_observation_close(o);
	fclose(w.out);
}

/* Held are places: packets of 256 KiB take no more than small ones do. */
static void long_packets_take_no_memory(void **state)
{
	(void)state;
	enum { RECORDS = 200, BYTES = 262144 };
	struct writer w = begin(2);
	for (int i = 0; i < RECORDS; i++)
		add(&w, 0, SECOND_NS + i, BYTES);
	for (int i = 0; i < RECORDS; i++)
		add(&w, 1, SECOND_NS + i, BYTES);
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	assert_int_equal(fflush(w.out), 0);
	memset(&oddities, 0, sizeof oddities);
	assert_int_equal(rw_capture_open(&c, fileno(w.out), 0, &oddities, &error), RW_OK);
	assert_int_equal(rw_interfaces_sort(c, 1 << 20), 0);
	for (uint32_t i = 0; i < 2 * RECORDS; i++) {
		assert_int_equal(rw_capture_next(c, &r, &error), 1);
		assert_int_equal(number_of(&r), 1 + i / 2 + (i % 2 ? RECORDS : 0));
		assert_int_equal(r.captured_bytes, BYTES);
	}
	assert_true(c->in.own.capacity <= 4 * BYTES);
	rw_capture_close(c);
	fclose(w.out);
}

/* What was held and is not in the file any more is lost, and that is told. */
static void a_file_that_is_cut_meanwhile(void **state)
{
	(void)state;
	enum { RECORDS = 2000 };
	struct writer w = begin(2);
	for (int i = 0; i < RECORDS; i++)
		add(&w, 0, SECOND_NS + i, 1000);
	add(&w, 1, SECOND_NS, 1000);
	struct rw_observation *o = observe(&w);
	struct rw_record r;
	rw_error error;
	assert_int_equal(rw_observation_next(o, &r, &error), 1);
	assert_int_equal(ftruncate(fileno(w.out), 1000000), 0);
	uint32_t got = 1;
	while (rw_observation_next(o, &r, &error) == 1)
		got++;
	assert_true(got > 900 && got < 1000);
	assert_int_equal(oddities.count[RW_ODDITY_CUT_CAPTURE], 1);
	assert_int_equal(rw_observation_next(o, &r, &error), 0);
	rw_observation_close(o);
	fclose(w.out);
}

static void several_files_of_several_interfaces(void **state)
{
	(void)state;
	struct writer w[2] = {begin(2), begin(2)};
	for (int f = 0; f < 2; f++)
		for (uint32_t interface = 0; interface < 2; interface++)
			for (int i = 0; i < 3; i++)
				add(&w[f], interface, SECOND_NS + 4 * i + 2 * interface + f, 60);
	int fds[2] = {fileno(w[0].out), fileno(w[1].out)};
	struct rw_observation *o;
	struct rw_record r;
	rw_error error;
	for (int f = 0; f < 2; f++)
		assert_int_equal(fflush(w[f].out), 0);
	memset(&oddities, 0, sizeof oddities);
	assert_int_equal(rw_observation_open(&o, fds, 2, &oddities, &error), RW_OK);
	for (int i = 0; i < 12; i++) {
		assert_int_equal(rw_observation_next(o, &r, &error), 1);
		assert_true(r.time_ns == SECOND_NS + i);
		assert_int_equal(r.file, i % 2);
		assert_int_equal(r.interface, i / 2 % 2);
		assert_int_equal(number_of(&r), 1 + i / 4 + (i / 2 % 2 ? 3 : 0));
	}
	assert_int_equal(rw_observation_next(o, &r, &error), 0);
	rw_observation_close(o);
	for (int f = 0; f < 2; f++)
		fclose(w[f].out);
}

/* The files of one observation share what may be held: each reads no further ahead than its part. */
static void many_files_hold_no_more_than_one(void **state)
{
	(void)state;
	enum { FILES = 64, RECORDS = 30000, PART = (1 << 20) / FILES + 1 };
	struct writer w = begin(2); /* the second has no packets */
	for (int i = 0; i < RECORDS; i++)
		add(&w, 0, SECOND_NS + i, 8);
	assert_int_equal(fflush(w.out), 0);
	int fds[FILES];
	for (int i = 0; i < FILES; i++)
		fds[i] = fileno(w.out);
	struct rw_observation *o;
	struct rw_record r;
	rw_error error;
	memset(&oddities, 0, sizeof oddities);
	assert_int_equal(rw_observation_open(&o, fds, FILES, &oddities, &error), RW_OK);
	assert_int_equal(rw_observation_next(o, &r, &error), 1);
	assert_true(rw_observation_offset(o) <= FILES * (r.offset + PART * 40));
	assert_true(rw_observation_offset(o) >= FILES * (PART - 1) * 40);
	rw_observation_close(o);
	fclose(w.out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_interface_that_was_drained_later),
	    cmocka_unit_test(late_records_are_counted),
	    cmocka_unit_test(within_an_interface_the_file_tells_the_order),
	    cmocka_unit_test(clocks_of_several_kinds),
	    cmocka_unit_test(a_clock_that_was_set_back),
	    cmocka_unit_test(clocks_that_are_apart),
	    cmocka_unit_test(a_time_that_cannot_be),
	    cmocka_unit_test(sections_follow_one_another),
	    cmocka_unit_test(an_interface_that_is_described_later),
	    cmocka_unit_test(packets_without_a_time_stay_behind_the_one_before),
	    cmocka_unit_test(the_same_as_a_sort),
	    cmocka_unit_test(no_more_are_held_than_may_be),
	    cmocka_unit_test(an_idle_interface_holds_nothing_for_ever),
	    cmocka_unit_test(every_interface_that_there_can_be),
	    cmocka_unit_test(long_packets_take_no_memory),
	    cmocka_unit_test(a_file_that_is_cut_meanwhile),
	    cmocka_unit_test(several_files_of_several_interfaces),
	    cmocka_unit_test(many_files_hold_no_more_than_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
