/* Every allocation of a replay fails once: an error that says so, or a replay that does without; nothing leaks. And how much. */
#include <malloc.h>

#include "check.h"
#include "packets.h"
#include "rewindow.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void __real_free(void *p);

static uint64_t allocations, failing; /* the number of the one that fails; 0: none */
static size_t used_bytes, most_bytes;

static int fails(void) { return ++allocations == failing; }

static void *counted(void *p)
{
	used_bytes += p ? malloc_usable_size(p) : 0;
	if (used_bytes > most_bytes)
		most_bytes = used_bytes;
	return p;
}

static void *let_go(void *p)
{
	used_bytes -= p ? malloc_usable_size(p) : 0;
	return p;
}

void *__wrap_malloc(size_t n) { return fails() ? NULL : counted(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : counted(__real_calloc(n, size)); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : counted(__real_realloc(let_go(p), n)); }
void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
	return fails() ? NULL : counted(__real_aligned_alloc(alignment, n));
}
void __wrap_free(void *p) { __real_free(let_go(p)); }

static rw_status replay(const int *fds, uint32_t files, uint32_t journal_kib, uint64_t fail_at, uint64_t *rows)
{
	static const rw_choice choices[] = {{"tccc", NULL, 0}, {"sbcc", NULL, 0}};
	static const rw_choice detectors[] = {{"dwc", NULL, 0}, {"sbd", NULL, 0}};
	rw_limits limits = {.batch_rows = 50,
			    .detectors = 2,
			    .detector = detectors,
			    .journal_kib = journal_kib,
			    .shared_bottlenecks = &detectors[1]};
	rw_replay *r;
	rw_batch batch;
	rw_error error;
	allocations = 0;
	failing = fail_at;
	*rows = 0;
	rw_status status = rw_replay_open(&r, fds, files, choices, 2, &limits, &error);
	if (status == RW_OK) {
		do {
			status = rw_replay_next(r, &batch, &error);
			*rows += batch.rows;
		} while (status == RW_OK && (batch.rows || batch.marks));
		rw_replay_close(r);
	}
	if (status != RW_OK)
		assert_string_equal(error.reason[0] ? "said" : "", "said");
	failing = 0;
	return status;
}

/* journal_kib: 0, the second pass reads the survey's journal; 1, it reads the files. */
static void check_each_allocation(const struct file *f, uint32_t journal_kib)
{
	int fds[2] = {file_descriptor(f), file_descriptor(f)};
	for (uint32_t files = 1; files <= 2; files++) {
		uint64_t whole, rows;
		assert_int_equal(replay(fds, files, journal_kib, 0, &whole), RW_OK);
		uint64_t count = allocations;
		assert_true(whole > 100);
		assert_true(count > 60);
		uint64_t refused = 0;
		for (uint64_t i = 1; i <= count; i++) {
			rw_status status = replay(fds, files, journal_kib, i, &rows);
			assert_true(status == RW_OK || status == RW_ERROR_MEMORY);
			refused += status == RW_ERROR_MEMORY;
			if (status == RW_OK)
				assert_int_equal(rows, whole);
		}
		assert_true(refused > count * 3 / 4);
	}
	close(fds[0]);
	close(fds[1]);
}

static void load(const char *capture, size_t bytes, struct file *f)
{
	FILE *in = fopen(capture, "rb");
	assert_non_null(in);
	f->n = fread(f->bytes, 1, bytes, in);
	fclose(in);
}

static void each_allocation_fails_once(void **state)
{
	(void)state;
	static struct file alone, ahead, interfaces;
	load(TEST_CAPTURES "/mptcp-two-subflows.pcap", 120000, &alone);
	load(TEST_CAPTURES "/mptcp-receiver-side.pcap", 60000, &ahead); /* read ahead of */
	as_two_interfaces(&interfaces, &alone, 1000);
	for (uint32_t journal_kib = 0; journal_kib < 2; journal_kib++) {
		check_each_allocation(&alone, journal_kib);
		check_each_allocation(&ahead, journal_kib);
		check_each_allocation(&interfaces, journal_kib);
	}
}

/*
 * Short flows with timestamps, one after the other, without an end: what is needed of each is let go with its last packet. Seen
 * midway it is needed ahead, too; beside the sender the last packet is one of those that are replayed in the short way.
 */
static void check_short_flows(int64_t answered_ns, uint32_t flow_bytes_max)
{
	enum { FLOWS = 2000, BASE = 4 << 20 };
	static struct file f;
	f.n = 0;
	pcap_header(&f, 0xa1b23c4d, 101, 0);
	const struct {
		int64_t after_ns;
		uint32_t sequence, ack, payload;
		uint8_t from_client, flags;
	} steps[] = {{0, 0, 0, 0, 1, 2},
		     {answered_ns, 0, 1, 0, 0, 18},
		     {10000000, 1, 1, 0, 1, 16},
		     {11000000, 1, 1, 1000, 1, 16},
		     {16000000, 1, 1001, 0, 0, 16}};
	for (uint32_t i = 0; i < FLOWS; i++)
		for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
			uint8_t packet[100],
			    options[] = {1, 1, 8, 10, 0, (uint8_t)(i >> 8), (uint8_t)i, (uint8_t)k, 0, 0, 0, 1};
			struct segment s = {.from_client = steps[k].from_client,
					    .sequence = steps[k].sequence,
					    .ack = steps[k].ack,
					    .flags = steps[k].flags,
					    .payload = steps[k].payload,
					    .options = options,
					    .options_bytes = sizeof options,
					    .client_port = (uint16_t)(1000 + i)};
			size_t n = ipv4_tcp(packet, &s);
			pcap_record(&f, 1000000000 + i * 20000000ll + steps[k].after_ns, 1, packet, (uint32_t)n,
				    (uint32_t)n + s.payload, 0);
		}
	uint64_t rows;
	int fd = file_descriptor(&f);
	most_bytes = used_bytes;
	size_t before = used_bytes;
	assert_int_equal(replay(&fd, 1, 0, 0, &rows), RW_OK);
	assert_int_equal(rows, FLOWS);
	assert_in_range(most_bytes - before, 1, BASE + FLOWS * flow_bytes_max);
	assert_int_equal(used_bytes, before);
	close(fd);
}

static void short_flows_keep_little(void **state)
{
	(void)state;
	check_short_flows(5000000, 2000);
	check_short_flows(9990000, 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_allocation_fails_once),
	    cmocka_unit_test(short_flows_keep_little),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
