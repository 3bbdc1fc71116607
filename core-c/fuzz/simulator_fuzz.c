/*
 * Any scenario: links of any settings and changes, TCP and MPTCP transfers under any controller and scheduler. The simulation ends,
 * twice with the same result; a transfer that is complete has its bytes; its capture can be read.
 */
#include "fuzz.h"

#include "bytes.h"
#include "fixed_point.h"
#include "rewindow.h"

enum { LINKS = 3, TRANSFERS = 2, MS = 1000000 };

static uint64_t number(struct rw_bytes *b, uint64_t most)
{
	uint64_t value = rw_bytes_u8(b);
	value |= (uint64_t)rw_bytes_u8(b) << 8;
	return most ? value * most / 65535 : 0;
}

static rw_link_values link_of(struct rw_bytes *b)
{
	uint8_t bits = rw_bytes_u8(b);
	return (rw_link_values){.rate_bps = 100000 + number(b, 20000000),
				.delay_ns = number(b, 100) * MS,
				.jitter_ns = bits & 1 ? number(b, 10 * MS) : 0,
				.limit_packets = 1 + number(b, 100),
				.discipline = bits >> 1 & 3,
				.threshold_packets = (uint32_t)number(b, 50),
				.red_min_packets = 1 + (uint32_t)number(b, 10),
				.red_max_packets = 12 + (uint32_t)number(b, 50),
				.red_weight_shift = bits >> 3 & 7,
				.red_probability_q32 = number(b, 1 << 30),
				.codel_target_ns = 5 * MS,
				.codel_interval_ns = 100 * MS,
				.ecn = bits >> 6 & 1,
				.loss_q32 = bits >> 7 ? number(b, (uint64_t)1 << 30) : 0,
				.reorder_q32 = number(b, 1 << 28),
				.reorder_ns = number(b, 50) * MS,
				.stall_q32 = number(b, 1 << 30),
				.stall_ns = number(b, 10 * MS)};
}

static void add_transfer(rw_simulation *s, struct rw_bytes *b, uint32_t which)
{
	uint8_t bits = rw_bytes_u8(b), paths = bits & 1 ? 1 + (rw_bytes_u8(b) & 3) : 1;
	rw_algorithm_info info;
	rw_error error;
	uint32_t algorithm = rw_bytes_u8(b) % rw_algorithm_count();
	rw_algorithm_describe(algorithm, &info);
	const char *const mode[] = {"mode=kernel"};
	rw_choice choice = {info.name, mode, 1};
	rw_transfer_settings settings = {.bytes = number(b, 300000),
					 .start_ns = (int64_t)number(b, 500) * MS,
					 .stop_ns = 1000ll * MS,
					 .write_bytes = 1 + number(b, 65536),
					 .pause_ns = bits & 2 ? number(b, 300) * MS : 0,
					 .send_buffer_bytes = 1 + number(b, 1 << 20),
					 .receive_buffer_bytes = 2304 + number(b, 1 << 22),
					 .sack = bits >> 2 & 1,
					 .timestamps = bits >> 3 & 1,
					 .ecn = bits >> 4 & 1,
					 .multipath = bits & 1};
	uint32_t transfer;
	CHECK(rw_simulation_add_transfer(s, &settings, &choice, &transfer, &error) == RW_OK && transfer == which);
	const rw_write_values writes[] = {
	    {settings.write_bytes, 0, 0}, {settings.write_bytes, settings.pause_ns, 1}, {1, 2 * settings.pause_ns, 0}};
	if (settings.pause_ns / MS % 2)
		CHECK(rw_simulation_set_writes(s, writes, 3, &error) == RW_OK);
	/* 0: the kernel's own. */
	uint32_t scheduler = ((uint32_t)(bits >> 6) + algorithm) % (rw_scheduler_count() + 1);
	if (settings.multipath && scheduler) {
		rw_scheduler_info described;
		rw_scheduler_describe(scheduler - 1, &described);
		rw_choice schedules = {described.name, NULL, 0};
		CHECK(rw_simulation_set_scheduler(s, &schedules, &error) == RW_OK);
	}
	for (uint8_t i = 0; i < paths; i++) {
		uint32_t out = rw_bytes_u8(b) % LINKS, back = rw_bytes_u8(b) % LINKS;
		rw_path_ends ends = {.mtu_bytes = 576 + (uint32_t)number(b, 1000),
				     .family = bits >> 5 & 1 ? 6 : 4,
				     .from = {10, (uint8_t)which, i, 1},
				     .to = {10, (uint8_t)which, i, 2},
				     .from_port = (uint16_t)(40000 + 8 * which + i),
				     .to_port = 5001};
		CHECK(rw_simulation_add_path(s, &out, 1, &back, 1, &ends, &error) == RW_OK);
	}
}

static uint64_t run(const uint8_t *data, size_t size, int fd)
{
	struct rw_bytes b = rw_bytes_of(data, size);
	uint64_t sum = 0;
	rw_simulation *s;
	rw_error error;
	CHECK(rw_simulation_open(&s, number(&b, 1000), (1 + number(&b, 9)) * MS, 1, &error) == RW_OK);
	for (uint32_t i = 0; i < LINKS; i++) {
		rw_link_values values = link_of(&b);
		uint32_t link;
		CHECK(rw_simulation_add_link(s, &values, &link, &error) == RW_OK && link == i);
		if (rw_bytes_u8(&b) & 1) {
			rw_link_change_values change = {.at_ns = (int64_t)number(&b, 2000) * MS,
							.has = rw_bytes_u8(&b) & 15,
							.down = rw_bytes_u8(&b) & 1,
							.rate_bps = 100000 + number(&b, 10000000),
							.delay_ns = number(&b, 100) * MS,
							.loss_q32 = number(&b, (uint64_t)1 << 31)};
			CHECK(rw_simulation_add_change(s, i, &change, &error) == RW_OK);
		}
	}
	for (uint32_t i = 0; i < TRANSFERS; i++)
		add_transfer(s, &b, i);
	if (fd >= 0)
		CHECK(rw_simulation_capture(s, fd, 0, &error) == RW_OK);
	CHECK(rw_simulation_run(s, 4000ll * MS, &error) == RW_OK);
	CHECK(rw_simulation_finish_capture(s, &error) == RW_OK);
	CHECK(rw_simulation_now_ns(s) <= 4000ll * MS);
	for (uint32_t i = 0; i < TRANSFERS; i++) {
		rw_transfer_row row;
		rw_simulation_transfer(s, i, &row);
		sum = fuzz_fold(fuzz_fold(fuzz_fold(sum, row.bytes), row.complete), (uint64_t)row.last_acked_ns);
	}
	uint64_t rows;
	const rw_simulation_row *row = rw_simulation_rows(s, &rows);
	for (uint64_t i = 0; i < rows; i++) {
		CHECK(i == 0 || row[i].time_ns >= row[i - 1].time_ns);
		CHECK(row[i].cwnd_q16 > 0);
		sum = fuzz_fold(fuzz_fold(sum, (uint64_t)row[i].time_ns), row[i].cwnd_q16);
	}
	rw_simulation_close(s);
	return sum;
}

/*
 * Every packet of its capture is one that the reader knows. Without timestamps and IPv4's numbers, two ACKs that say the same look
 * like one that was captured twice.
 */
static void read_capture(int fd)
{
	const rw_choice choice = {"newreno", NULL, 0};
	rw_replay *r;
	rw_batch batch;
	rw_error error;
	rw_summary summary;
	CHECK(rw_replay_open(&r, &fd, 1, &choice, 1, NULL, &error) == RW_OK);
	do
		CHECK(rw_replay_next(r, &batch, &error) == RW_OK);
	while (batch.rows || batch.marks);
	rw_replay_summary(r, &summary);
	for (uint32_t i = 0; i < RW_ODDITY_COUNT; i++)
		CHECK(summary.oddity[i] == 0 || i == RW_ODDITY_NO_HANDSHAKE || i == RW_ODDITY_UNMATCHED_JOIN ||
		      i == RW_ODDITY_TOO_MANY_SUBFLOWS || i == RW_ODDITY_CAPTURED_TWICE);
	rw_replay_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("capture", MFD_CLOEXEC);
	CHECK(fd >= 0);
	uint64_t sum = run(data, size, fd);
	CHECK(run(data, size, -1) == sum);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	read_capture(fd);
	close(fd);
	return 0;
}
