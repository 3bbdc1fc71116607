/* What a simulation allocates, counted: buffers grow at first, then a packet costs no allocation. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rewindow.h"

#define SECOND 1000000000ll

static uint64_t allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	allocations++;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	allocations++;
	return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
	allocations++;
	return __real_realloc(at, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	allocations++;
	return __real_aligned_alloc(alignment, bytes);
}

enum { DOUBLINGS_MOST = 8 };

static uint32_t add_link(rw_simulation *s, uint64_t rate_bps, uint64_t loss_q32)
{
	rw_link_values values = {
	    .rate_bps = rate_bps, .delay_ns = SECOND / 50, .limit_packets = 40, .loss_q32 = loss_q32};
	uint32_t link;
	rw_error error;
	assert_int_equal(rw_simulation_add_link(s, &values, &link, &error), RW_OK);
	return link;
}

static void add_transfer(rw_simulation *s, const char *algorithm, const char *scheduler, uint32_t first_link,
			 uint32_t paths)
{
	rw_transfer_settings settings = {.stop_ns = 1000 * SECOND,
					 .write_bytes = 65536,
					 .send_buffer_bytes = 1 << 20,
					 .receive_buffer_bytes = 1 << 20,
					 .sack = 1,
					 .timestamps = 1,
					 .multipath = paths > 1};
	rw_choice controller = {algorithm, NULL, 0}, schedules = {scheduler, NULL, 0};
	rw_path_ends ends = {.mtu_bytes = 1500, .family = 4, .from_port = 1, .to_port = 2};
	rw_error error;
	uint32_t transfer;
	assert_int_equal(rw_simulation_add_transfer(s, &settings, &controller, &transfer, &error), RW_OK);
	if (scheduler)
		assert_int_equal(rw_simulation_set_scheduler(s, &schedules, &error), RW_OK);
	for (uint32_t i = 0; i < paths; i++) {
		uint32_t there = first_link + 2 * i, back = there + 1;
		assert_int_equal(rw_simulation_add_path(s, &there, 1, &back, 1, &ends, &error), RW_OK);
	}
}

/*
 * TCP and MPTCP, paced or not, with losses at random and by a full queue: no packet allocates. Within a hundred seconds a ring may
 * double, because more waits in it than ever before.
 */
static void test_a_packet_allocates_nothing(void **state)
{
	rw_simulation *s;
	rw_error error;
	rw_link_counts_row before, after;
	(void)state;
	assert_int_equal(rw_simulation_open(&s, 1, 4000000, 0, &error), RW_OK);
	uint32_t first = add_link(s, 10000000, 1 << 22);
	add_link(s, 10000000, 0);
	add_link(s, 4000000, 0);
	add_link(s, 4000000, 0);
	add_transfer(s, "newreno", NULL, first, 1);
	add_transfer(s, "bbr", NULL, first, 1);
	add_transfer(s, "tccc", NULL, first, 2);
	add_transfer(s, "sbcc", "minrtt", first, 2);
	assert_int_equal(rw_simulation_run(s, 50 * SECOND, &error), RW_OK);
	rw_simulation_link(s, first, &before);
	allocations = 0;
	assert_int_equal(rw_simulation_run(s, 150 * SECOND, &error), RW_OK);
	assert_in_range(allocations, 0, DOUBLINGS_MOST);
	rw_simulation_link(s, first, &after);
	assert_true(after.forwarded - before.forwarded > 50000);
	assert_true(after.dropped_loss > before.dropped_loss && after.dropped_full > before.dropped_full);
	rw_simulation_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_packet_allocates_nothing)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
