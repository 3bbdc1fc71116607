/*
 * A whole capture through everything, in small batches from the survey's journal and in large ones from the file again, in the
 * short ways and in the long way, by one thread and by several: what comes out may not depend on any of these. The size of a capture
 * decides whether the monitor checks each step, whether all segments have a bound, and which detectors run.
 */
#include "fuzz.h"
#include "rewindow.h"
#include "rw_control.h"

static const char *const WEIGHTED[] = {"join_weighted=on", "mode=kernel", "L_scale=on"};
static const char *const PRODUCT[] = {"alpha_form=product", "con_ssthresh=2000", "alpha0=4"};
static const char *const UNSAFE[] = {"aca_md=eq8", "aca_safe=off", "min_ssthresh=1"};
static const char *const PAPER[] = {"mode=paper", "min_ssthresh=1", "hz=100", "hystart=off"};
static const char *const FLOOR[] = {"min_ssthresh=1024"};
static const rw_choice CHOICES[] = {
    {"newreno", NULL, 0}, {"cubic", NULL, 0},     {"uncoupled", NULL, 0}, {"css", NULL, 0},
    {"tccc", NULL, 0},    {"css", WEIGHTED, 3},   {"css", PRODUCT, 3},    {"tccc", UNSAFE, 3},
    {"cubic", PAPER, 4},  {"newreno", PAPER, 2},  {"newreno", FLOOR, 1},  {"sbcc", NULL, 0},
    {"dwc", NULL, 0},     {"mptcp-sbd", NULL, 0}, {"bbr", NULL, 0},       {"bbr3", NULL, 0}};

/* Short intervals, so that short captures reach decisions. */
static const char *const EAGER[] = {"T_ms=10", "intervals_min=2", "observations=1", "together=1",
				    "grouping=correlation"};
static const rw_choice DETECTORS[] = {{"sbcc", NULL, 0}, {"dwc", NULL, 0}, {"sbd", EAGER, 5}};

enum { DETECTOR_COUNT = sizeof DETECTORS / sizeof *DETECTORS };

enum { CHOICE_COUNT = sizeof CHOICES / sizeof *CHOICES, FLOWS_MAX = 40 };
#define WINDOW_MIN RW_Q16_ONE

static uint64_t fold_row(uint64_t sum, const rw_batch *b, uint64_t i)
{
	sum = fuzz_fold(sum, (uint64_t)b->time_ns[i]);
	sum = fuzz_fold(sum, (uint64_t)b->connection[i] << 32 | b->subflow[i]);
	sum = fuzz_fold(sum, (uint64_t)b->una[i] << 32 | b->ack[i]);
	sum = fuzz_fold(sum, (uint64_t)b->acked_bytes[i] << 32 | b->acked_segments[i]);
	sum = fuzz_fold(sum, (uint64_t)b->rtt_us[i] << 32 | b->srtt_us[i]);
	sum = fuzz_fold(sum, (uint64_t)b->in_flight_bytes[i] << 32 | b->flags[i]);
	sum = fuzz_fold(sum, (uint64_t)b->window_bytes[i] << 32 | b->segment_bytes[i]);
	sum = fuzz_fold(sum, (uint64_t)b->position[i] ^ (uint64_t)b->next[i] << 32);
	for (int k = 0; k < CHOICE_COUNT; k++) {
		sum = fuzz_fold(sum, b->cwnd_before_q16[k][i]);
		sum = fuzz_fold(sum, b->cwnd_q16[k][i]);
		sum = fuzz_fold(sum, b->ssthresh_q16[k][i] ^ b->phase[k][i]);
	}
	return sum;
}

static uint32_t subflows_of(const rw_replay *r, uint32_t connection)
{
	rw_connection_row row;
	rw_replay_connection(r, connection, &row);
	return row.subflows; /* 0 beyond the last */
}

static void check_row(const rw_replay *r, const rw_batch *b, uint64_t i)
{
	CHECK(b->subflow[i] < subflows_of(r, b->connection[i]));
	CHECK(b->in_flight_bytes[i] <= 1u << 31);
	CHECK(b->acked_bytes[i] <= 1u << 30);
	CHECK(b->acked_segments[i] <= 1u << 30);
	for (int k = 0; k < CHOICE_COUNT; k++) {
		CHECK(b->cwnd_before_q16[k][i] >= WINDOW_MIN && b->cwnd_before_q16[k][i] <= RW_CWND_MAX_Q16);
		CHECK(b->cwnd_q16[k][i] >= WINDOW_MIN && b->cwnd_q16[k][i] <= RW_CWND_MAX_Q16);
		CHECK(b->ssthresh_q16[k][i] >= WINDOW_MIN);
		CHECK(rw_phase_name(b->phase[k][i]));
	}
}

static uint64_t check_batch(const rw_replay *r, uint64_t sum, const rw_batch *b, uint64_t rows)
{
	for (uint64_t i = 0; i < b->rows; i++) {
		check_row(r, b, i);
		sum = fold_row(sum, b, i);
	}
	for (uint64_t i = 0; i < b->marks; i++) {
		CHECK(rw_mark_name(b->mark_kind[i]));
		CHECK(b->mark_row[i] >= rows && b->mark_row[i] <= rows + b->rows);
		CHECK(b->mark_subflow[i] < subflows_of(r, b->mark_connection[i]));
	}
	for (uint64_t i = 0; i < b->sets; i++) {
		CHECK(b->set_subflow[i] < subflows_of(r, b->set_connection[i]));
		CHECK(rw_detector_name(b->set_detector[i]) && rw_group_state_name(b->set_state[i]));
		CHECK((b->set_number[i] == 0) == (b->set_state[i] == RW_GROUP_MONITOR));
	}
	return sum;
}

/* Marks of one batch may come before rows of the next, so they have a sum of their own. */
static uint64_t fold_marks(uint64_t sum, const rw_batch *b)
{
	for (uint64_t i = 0; i < b->marks; i++) {
		sum = fuzz_fold(sum, (uint64_t)b->mark_time_ns[i] ^ b->mark_row[i] << 20);
		sum = fuzz_fold(sum, (uint64_t)b->mark_connection[i] << 32 | b->mark_subflow[i]);
		sum = fuzz_fold(sum, (uint64_t)b->mark_kind[i] << 32 | b->mark_value[i]);
	}
	return sum;
}

static uint64_t fold_sets(uint64_t sum, const rw_batch *b)
{
	for (uint64_t i = 0; i < b->sets; i++) {
		sum = fuzz_fold(sum,
				(uint64_t)b->set_time_ns[i] ^ (uint64_t)b->set_connection[i] << 32 ^ b->set_subflow[i]);
		sum = fuzz_fold(sum, (uint64_t)b->set_detector[i] << 16 | b->set_state[i] << 8 | b->set_number[i]);
	}
	return sum;
}

static void check_subflow(const rw_replay *r, const rw_subflow_row *s, uint32_t number)
{
	rw_window_row w;
	CHECK(s->family == 4 || s->family == 6);
	CHECK(rw_vantage_name(s->vantage));
	CHECK((s->bottleneck != 0) == (s->bottleneck_state == RW_BOTTLENECK_SHARED));
	CHECK(s->rtt_median_us <= s->rtt_p95_us);
	CHECK(s->rtt_samples == 0 || s->rtt_min_us <= s->rtt_median_us);
	CHECK(s->ece_acks <= s->acks && s->ce_packets <= s->packets);
	for (uint32_t k = 0; k <= CHOICE_COUNT; k++) {
		rw_replay_window(r, number, k, &w);
		CHECK(w.matched <= w.near && w.near <= w.full_rows && w.full_rows <= w.rows && w.rows <= s->acks);
		CHECK(w.paced_matched <= w.paced_either && w.paced_own + w.paced_other <= w.paced_rows);
		CHECK(w.paced_either <= w.paced_rows && w.paced_rows <= w.rows);
		CHECK(w.last_q16 <= w.most_q16 && w.sum_q16 <= w.rows * w.most_q16);
	}
}

static uint64_t check_end(const rw_replay *r, uint64_t rows, size_t size)
{
	uint32_t connections = rw_replay_connections(r), subflows = rw_replay_subflows(r), sum = 0;
	uint64_t acks = 0, done, total, folded = rows;
	rw_summary summary;
	rw_replay_summary(r, &summary);
	CHECK(summary.rows == rows && summary.tcp_packets <= summary.packets);
	CHECK(summary.records == 0 || summary.first_ns <= summary.last_ns);
	CHECK(rw_vantage_name(summary.vantage));
	for (uint32_t c = 0; c < connections; c++) {
		rw_connection_row row;
		rw_replay_connection(r, c, &row);
		CHECK(row.id == c && row.first_subflow == sum);
		sum += row.subflows;
		for (uint32_t k = 0; k < CHOICE_COUNT; k++) {
			rw_violation_row v;
			rw_replay_violations(r, c, k, &v);
			folded = fuzz_fold(fuzz_fold(folded, v.count), v.first_row);
			folded = fuzz_fold(fuzz_fold(folded, (uint64_t)v.first_ns), v.first_check);
			folded = fuzz_fold(folded, (uint64_t)v.first_transition << 32 | v.first_path);
		}
		folded = fuzz_fold(folded, rw_replay_monitored_of(r, c));
		folded = fuzz_fold_bytes(folded, &row, sizeof row);
	}
	CHECK(sum == subflows && subflows <= FLOWS_MAX);
	for (uint32_t i = 0; i < subflows; i++) {
		rw_subflow_row row;
		rw_replay_subflow(r, i, &row);
		check_subflow(r, &row, i);
		acks += row.acks;
		folded = fuzz_fold_bytes(folded, &row, sizeof row);
	}
	CHECK(rows <= acks);
	rw_replay_progress(r, &done, &total);
	CHECK(total == size && done <= total);
	return folded;
}

static uint64_t replay(const uint8_t *data, size_t size, uint32_t jobs, uint32_t batch_rows, uint32_t journal_kib)
{
	rw_limits limits = {.batch_rows = batch_rows,
			    .flows_max = FLOWS_MAX,
			    .window_segments = 1 << 15,
			    .total_segments = size & 2 ? 0 : 1 << 16,
			    .detectors = size & 4 ? 0 : DETECTOR_COUNT,
			    .detector = DETECTORS,
			    .journal_kib = journal_kib,
			    .monitor = size & 1,
			    .jobs = jobs,
			    .shared_bottlenecks = size & 8 ? NULL : &DETECTORS[2]};
	rw_error error;
	rw_replay *r;
	rw_batch batch;
	uint64_t rows = 0, row_sum = 0, mark_sum = 0, set_sum = 0;
	int fd = fuzz_mapped_file(data, size);
	rw_status status = rw_replay_open(&r, &fd, 1, CHOICES, CHOICE_COUNT, &limits, &error);
	if (status != RW_OK) {
		CHECK(status == RW_ERROR_NOT_A_CAPTURE);
		CHECK(error.status == (int32_t)status && error.reason[0]);
		close(fd);
		return status;
	}
	do {
		CHECK(rw_replay_next(r, &batch, &error) == RW_OK);
		row_sum = check_batch(r, row_sum, &batch, rows);
		mark_sum = fold_marks(mark_sum, &batch);
		set_sum = fold_sets(set_sum, &batch);
		rows += batch.rows;
	} while (batch.rows || batch.marks);
	uint64_t sum = check_end(r, rows, size);
	rw_replay_close(r);
	close(fd);
	return fuzz_fold(fuzz_fold(fuzz_fold(sum, row_sum), mark_sum), set_sum);
}

/* The same records again, said to be those of the first file, decoded. */
static void replay_with_copies(const uint8_t *data, size_t size)
{
	rw_limits limits = {.batch_rows = 100,
			    .flows_max = FLOWS_MAX,
			    .window_segments = 1 << 15,
			    .total_segments = 1 << 16,
			    .copies = 1};
	rw_error error;
	rw_replay *r;
	rw_batch batch;
	rw_summary summary;
	int fds[2] = {fuzz_file(data, size), fuzz_file(data, size)};
	if (rw_replay_open(&r, fds, 2, CHOICES, 1, &limits, &error) == RW_OK) {
		do
			CHECK(rw_replay_next(r, &batch, &error) == RW_OK);
		while (batch.rows || batch.marks);
		rw_replay_summary(r, &summary);
		CHECK(summary.tcp_packets <= 2 * summary.records);
		rw_replay_close(r);
	}
	close(fds[0]);
	close(fds[1]);
}

/* The segments of the first connection, and the rows, which do not depend on whether anybody asks for segments. */
static uint64_t sum_beside_segments(const uint8_t *data, size_t size, int asked)
{
	rw_limits limits = {.batch_rows = 100, .flows_max = FLOWS_MAX, .jobs = 2, .segments = (uint32_t)asked};
	rw_error error;
	rw_replay *r;
	rw_batch batch;
	uint64_t rows = 0, sum = 0;
	int fd = fuzz_file(data, size);
	if (rw_replay_open(&r, &fd, 1, CHOICES, CHOICE_COUNT, &limits, &error) == RW_OK) {
		rw_connection_row first;
		do {
			CHECK(rw_replay_next(r, &batch, &error) == RW_OK);
			rw_replay_connection(r, 0, &first);
			CHECK(asked || batch.segments == 0);
			for (uint64_t i = 0; i < batch.segments; i++) {
				const rw_segment_row *s = &batch.segment[i];
				CHECK(s->subflow < first.subflows && s->bytes && rw_segment_kind_name(s->kind));
			}
			sum = check_batch(r, sum, &batch, rows);
			rows += batch.rows;
		} while (batch.rows || batch.marks || batch.segments);
		rw_replay_close(r);
	} else {
		CHECK(asked || error.status == RW_ERROR_NOT_A_CAPTURE);
	}
	close(fd);
	return sum;
}

static void see_segments(const uint8_t *data, size_t size)
{
	uint64_t sum = sum_beside_segments(data, size, 1);
	CHECK(sum == 0 || sum == sum_beside_segments(data, size, 0));
}

/* The simulator's senders beside the captured ones. */
static void keep_step(const uint8_t *data, size_t size)
{
	enum { STEPPED = 2 };
	rw_error error;
	rw_lockstep *lockstep;
	int fd = fuzz_file(data, size);
	if (rw_lockstep_open(&lockstep, &fd, 1, CHOICES, STEPPED, &error) == RW_OK) {
		uint64_t senders, runs, windows;
		const rw_lockstep_row *row = rw_lockstep_senders(lockstep, &senders);
		const rw_lockstep_run *run = rw_lockstep_runs(lockstep, &runs);
		const rw_lockstep_window *window = rw_lockstep_windows(lockstep, &windows);
		for (uint64_t i = 0; i < senders; i++)
			CHECK(row[i].agreed <= row[i].segments && row[i].choice < STEPPED && row[i].runs);
		for (uint64_t i = 0; i < runs; i++)
			CHECK(run[i].sender < senders && run[i].segments <= row[run[i].sender].agreed);
		for (uint64_t i = 0; i < windows; i++)
			CHECK(window[i].sender < senders);
		rw_lockstep_close(lockstep);
	}
	close(fd);
}

static uint64_t run(const uint8_t *data, size_t size)
{
	uint64_t sum = replay(data, size, 1, 3, 0);
	CHECK(replay(data, size, 1, 1000, 1) == sum);
	if (size & 2) { /* without a bound on all segments, which is for one thread */
		CHECK(replay(data, size, 2, 100, 0) == sum);
		CHECK(replay(data, size, 3, 1000, 1) == sum);
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size % 4 == 0)
		replay_with_copies(data, size);
	if (size % 4 == 1)
		keep_step(data, size);
	if (size % 4 == 2)
		see_segments(data, size);
	return fuzz_both_ways(run, data, size);
}
