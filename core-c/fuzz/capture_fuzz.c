/*
 * Any bytes as a capture: reads it to the end alone, then twice as two captures of one observation, then extracts the records of
 * one link type as a capture of their own.
 */
#include "capture.h"
#include "fuzz.h"

/* The range of times in both formats. */
#define LATEST_NS ((int64_t)UINT32_MAX * 1000000000 + 999999999)

/* Digests of records, without and with their order. */
struct records {
	uint64_t count, sum, in_order;
	int64_t latest_ns;
	uint8_t ordered; /* by time */
	uint64_t offset[64]; /* of the last one of the first interfaces */
};

static void check_record(struct records *all, const struct rw_record *r, size_t size)
{
	CHECK(r->captured_bytes <= r->wire_bytes);
	CHECK(r->offset < size && r->captured_bytes <= size - r->offset);
	CHECK(r->time_ns >= 0 && r->time_ns <= LATEST_NS);
	if (r->interface < sizeof all->offset / sizeof *all->offset) {
		CHECK(r->offset > all->offset[r->interface]);
		all->offset[r->interface] = r->offset;
	}
	all->ordered = (all->ordered || !all->count) && (!all->count || r->time_ns >= all->latest_ns);
	all->latest_ns = r->time_ns;
	all->count++;
	uint64_t sum = fuzz_fold(0, (uint64_t)r->time_ns);
	sum = fuzz_fold(sum, r->offset);
	sum = fuzz_fold(sum, (uint64_t)r->link_type << 32 | r->interface);
	sum = fuzz_fold(sum, (uint64_t)r->captured_bytes << 32 | r->wire_bytes);
	sum = fuzz_fold_bytes(sum, r->bytes, r->captured_bytes);
	all->sum += sum;
	all->in_order = fuzz_fold(all->in_order, sum);
}

static void check_oddities(const struct rw_oddity_counts *o, size_t size, uint32_t files)
{
	for (int i = 0; i < RW_ODDITY_COUNT; i++) {
		CHECK(o->first_offset[i] <= size);
		CHECK(o->first_file[i] < files);
		CHECK(o->count[i] < (uint64_t)1 << 50);
	}
}

static void read_alone(const uint8_t *data, size_t size, struct records *all, uint32_t *link_type)
{
	struct rw_oddity_counts oddities = {0};
	struct rw_capture *c;
	struct rw_record record;
	rw_error error = {0};
	uint64_t offset = 0;
	int fd = fuzz_file(data, size), got;
	enum rw_status status = rw_capture_open(&c, fd, 0, &oddities, &error);
	if (status != RW_OK) {
		CHECK(status == RW_ERROR_NOT_A_CAPTURE && error.status == (int32_t)status && error.reason[0]);
		close(fd);
		return;
	}
	while ((got = rw_capture_next(c, &record, &error)) > 0) {
		CHECK(all->count == 0 || record.offset > offset);
		offset = record.offset;
		check_record(all, &record, size);
		*link_type = record.link_type;
	}
	CHECK(got == 0);
	CHECK(rw_capture_next(c, &record, &error) == 0); /* after the end, every call returns the end */
	check_oddities(&oddities, size, 1);
	rw_capture_close(c);
	struct rw_place end = {.offset = UINT64_MAX};
	rw_capture_find(fd, &end, 1);
	CHECK(end.record == all->count);
	close(fd);
}

/* The same records; those of each interface in the file's order, and all in the file's order if that is the times' order. */
static void read_merged(const uint8_t *data, size_t size, const struct records *alone)
{
	struct rw_oddity_counts oddities = {0};
	struct rw_observation *o;
	struct rw_record record;
	rw_error error = {0};
	int fds[2] = {fuzz_file(data, size), fuzz_file(data, size)}, got;
	struct records all[2] = {0};
	if (rw_observation_open(&o, fds, 2, &oddities, &error) == RW_OK) {
		while ((got = rw_observation_next(o, &record, &error)) > 0) {
			CHECK(record.file < 2);
			check_record(&all[record.file], &record, size);
			CHECK(rw_observation_offset(o) <= 2 * (uint64_t)size);
		}
		CHECK(got == 0);
		check_oddities(&oddities, size, 2);
		for (uint32_t i = 0; i < 2; i++)
			CHECK(rw_observation_moved(o, i).records <= (alone->ordered ? 0 : alone->count));
		rw_observation_close(o);
	}
	CHECK(all[0].in_order == all[1].in_order);
	for (int i = 0; i < 2; i++) {
		CHECK(all[i].count == alone->count && all[i].sum == alone->sum);
		CHECK(!alone->ordered || all[i].in_order == alone->in_order);
		close(fds[i]);
	}
}

struct extent {
	uint64_t records, sum;
};

/* The records of a link type, without their places in the file. */
static struct extent read_link_type(int fd, uint32_t link_type)
{
	struct rw_oddity_counts oddities = {0};
	struct extent e = {0};
	struct rw_capture *c;
	struct rw_record r;
	rw_error error;
	CHECK(rw_capture_open(&c, fd, 0, &oddities, &error) == RW_OK);
	while (rw_capture_next(c, &r, &error) > 0) {
		if (r.link_type != link_type)
			continue;
		e.records++;
		e.sum = fuzz_fold(e.sum, (uint64_t)r.captured_bytes << 32 | r.wire_bytes);
		e.sum = fuzz_fold(e.sum, (uint64_t)r.time_ns);
		e.sum = fuzz_fold_bytes(fuzz_fold(e.sum, r.interface), r.bytes, r.captured_bytes);
	}
	rw_capture_close(c);
	return e;
}

static void extract(const uint8_t *data, size_t size, uint32_t link_type)
{
	rw_error error;
	uint64_t records;
	int fd = fuzz_file(data, size), out = fuzz_file(NULL, 0);
	CHECK(rw_extract(fd, link_type, out, &records, &error) == RW_OK);
	struct extent from = read_link_type(fd, link_type), to = read_link_type(out, link_type);
	CHECK(records == from.records && records == to.records);
	CHECK(from.sum == to.sum);
	close(fd);
	close(out);
}

static uint64_t run(const uint8_t *data, size_t size)
{
	uint32_t link_type = UINT32_MAX;
	struct records alone = {0};
	read_alone(data, size, &alone, &link_type);
	read_merged(data, size, &alone);
	if (link_type <= UINT16_MAX)
		extract(data, size, link_type);
	return fuzz_fold(alone.in_order, alone.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_both_ways(run, data, size); }
