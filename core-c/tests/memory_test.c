/* Every allocation of a replay fails once: an error that says so, or a replay that does without; nothing leaks. */
#include "check.h"
#include "packets.h"
#include "rewindow.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);

static uint64_t allocations, failing; /* the number of the one that fails; 0: none */

static int fails(void) { return ++allocations == failing; }

void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }

static rw_status replay(const int *fds, uint32_t files, uint64_t fail_at, uint64_t *rows)
{
	static const rw_choice choices[] = {{"tccc", NULL, 0}, {"cubic", NULL, 0}};
	rw_limits limits = {.batch_rows = 50};
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

static void each_allocation_fails_once(void **state)
{
	(void)state;
	static struct file f;
	FILE *in = fopen(TEST_CAPTURES "/mptcp-two-subflows.pcap", "rb");
	assert_non_null(in);
	f.n = fread(f.bytes, 1, 120000, in);
	fclose(in);
	int fds[2] = {file_descriptor(&f), file_descriptor(&f)};
	for (uint32_t files = 1; files <= 2; files++) {
		uint64_t whole, rows;
		assert_int_equal(replay(fds, files, 0, &whole), RW_OK);
		uint64_t count = allocations;
		assert_true(whole > 100);
		assert_true(count > 60);
		uint64_t refused = 0;
		for (uint64_t i = 1; i <= count; i++) {
			rw_status status = replay(fds, files, i, &rows);
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails_once)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
