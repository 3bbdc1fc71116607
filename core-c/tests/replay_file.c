/*
 * replay_file [-c COPIES] FILE...: replays captures as one observation with every controller and reads all that comes out.
 * For sanitizers. Exit status: 0 replayed, 2 usage, 3 not to be read, 4 out of memory or a limit.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rewindow.h"

enum { CHOICES_MAX = 32, FILES_MAX = 64 };

static int complain(const char *file, const rw_error *error)
{
	fprintf(stderr, "replay_file: %s at byte %" PRIu64 ": %s\n", file, error->offset, error->reason);
	return error->status == RW_ERROR_READ || error->status == RW_ERROR_NOT_A_CAPTURE ? 3 : 4;
}

/* A sum over everything, so that everything is read. */
static uint64_t sum_of(const rw_batch *b, uint32_t choices)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < b->rows; i++) {
		sum += (uint64_t)b->time_ns[i] + b->connection[i] + b->subflow[i] + b->una[i] + b->ack[i] +
		       b->acked_bytes[i] + b->acked_segments[i] + b->rtt_us[i] + b->srtt_us[i] + b->in_flight_bytes[i] +
		       b->flags[i];
		for (uint32_t k = 0; k < choices; k++)
			sum += b->cwnd_before_q16[k][i] + b->cwnd_q16[k][i] + b->ssthresh_q16[k][i] + b->phase[k][i];
	}
	for (uint64_t i = 0; i < b->marks; i++)
		sum += (uint64_t)b->mark_time_ns[i] + b->mark_row[i] + b->mark_connection[i] + b->mark_subflow[i] +
		       b->mark_kind[i] + b->mark_value[i];
	return sum;
}

int main(int argc, char **argv)
{
	rw_limits limits = {.batch_rows = 4096};
	int first = 1;
	if (argc > 2 && strcmp(argv[1], "-c") == 0) {
		limits.copies = (uint32_t)strtoul(argv[2], NULL, 10);
		first = 3;
	}
	int files = argc - first, fds[FILES_MAX];
	if (files < 1 || files > FILES_MAX) {
		fprintf(stderr, "usage: replay_file [-c COPIES] FILE...\n");
		return 2;
	}
	for (int i = 0; i < files; i++)
		if ((fds[i] = open(argv[first + i], O_RDONLY)) < 0) {
			perror(argv[first + i]);
			return 3;
		}
	rw_choice choices[CHOICES_MAX] = {{0}};
	uint32_t count = rw_algorithm_count() < CHOICES_MAX ? rw_algorithm_count() : CHOICES_MAX;
	for (uint32_t k = 0; k < count; k++) {
		rw_algorithm_info info;
		rw_algorithm_describe(k, &info);
		choices[k].name = info.name;
	}
	rw_replay *r;
	rw_error error;
	if (rw_replay_open(&r, fds, (uint32_t)files, choices, count, &limits, &error) != RW_OK)
		return complain(argv[first + (int)error.file], &error);
	rw_batch batch;
	uint64_t rows = 0, sum = 0;
	do {
		if (rw_replay_next(r, &batch, &error) != RW_OK) {
			rw_replay_close(r);
			return complain(argv[first + (int)error.file], &error);
		}
		rows += batch.rows;
		sum += sum_of(&batch, count);
	} while (batch.rows || batch.marks);
	rw_summary summary;
	rw_replay_summary(r, &summary);
	printf("%" PRIu64 " packets, %" PRIu64 " rows, %" PRIx64 "\n", summary.packets, rows, sum);
	rw_replay_close(r);
	for (int i = 0; i < files; i++)
		close(fds[i]);
	return 0;
}
