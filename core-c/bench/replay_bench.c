/*
 * One replay through the public API, and what it cost: replay_bench [-j JOBS] CAPTURE [NAME[:option=value]...]...
 * Rows are looked at by nobody, as in a program that wants the metrics only.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <rewindow.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHOICES_MAX = 64, OPTIONS_MAX = 16 };

static double now_s(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* VmHWM, not ru_maxrss: that one remembers the process which started this one. */
static uint64_t peak_rss_bytes(void)
{
	char line[256];
	unsigned long long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib * 1024;
}

/* NAME:option=value:...; cuts the text in place. */
static rw_choice choice_of(char *text, const char *options[OPTIONS_MAX])
{
	rw_choice c = {.name = strtok(text, ":"), .options = options};
	for (char *o; (o = strtok(NULL, ":")); options[c.option_count++] = o)
		if (c.option_count == OPTIONS_MAX) {
			fprintf(stderr, "%s: too many options\n", c.name);
			exit(2);
		}
	return c;
}

static rw_status replay(int fd, const rw_limits *limits, const rw_choice *choices, uint32_t count, rw_summary *summary,
			uint64_t *acks, uint32_t *connections, rw_error *error)
{
	rw_replay *r;
	rw_batch batch;
	rw_status status = rw_replay_open(&r, &fd, 1, choices, count, limits, error);
	if (status != RW_OK)
		return status;
	while ((status = rw_replay_next(r, &batch, error)) == RW_OK && batch.rows + batch.marks)
		*acks += batch.rows;
	rw_replay_summary(r, summary);
	*connections = rw_replay_connections(r);
	rw_replay_close(r);
	return status;
}

int main(int argc, char **argv)
{
	rw_choice choices[CHOICES_MAX];
	const char *options[CHOICES_MAX][OPTIONS_MAX];
	rw_error error = {0};
	rw_summary summary;
	uint64_t acks = 0;
	uint32_t count = 0, connections = 0;
	rw_limits limits = {.jobs = 1};
	if (argc > 3 && strcmp(argv[1], "-j") == 0) {
		limits.jobs = (uint32_t)strtoul(argv[2], NULL, 10);
		argc -= 2, argv += 2;
	}
	if (argc < 2 || argc - 2 > CHOICES_MAX) {
		fputs("usage: replay_bench [-j JOBS] CAPTURE [NAME[:option=value]...]...\n", stderr);
		return 2;
	}
	int fd = open(argv[1], O_RDONLY);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	for (int i = 2; i < argc; i++, count++)
		choices[count] = choice_of(argv[i], options[count]);
	double start_s = now_s(CLOCK_MONOTONIC), start_cpu_s = now_s(CLOCK_PROCESS_CPUTIME_ID);
	if (replay(fd, &limits, choices, count, &summary, &acks, &connections, &error) != RW_OK) {
		fprintf(stderr, "%s: %s\n", argv[1], error.reason);
		return 1;
	}
	double cpu_seconds = now_s(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_s, seconds = now_s(CLOCK_MONOTONIC) - start_s;
	if (summary.oddity[RW_ODDITY_WINDOW_TOO_LARGE]) {
		fprintf(stderr, "%s: %" PRIu64 " times a sender was given up: less was done than is measured\n",
			argv[1], summary.oddity[RW_ODDITY_WINDOW_TOO_LARGE]);
		return 1;
	}
	printf("packets=%" PRIu64 "\nrows=%" PRIu64 "\nseconds=%.6f\ncpu_seconds=%.6f\n", (uint64_t)summary.packets,
	       acks, seconds, cpu_seconds);
	printf("connections=%" PRIu32 "\npackets_beyond=%" PRIu64 "\n", connections,
	       summary.oddity[RW_ODDITY_TOO_MANY_FLOWS]);
	printf("packets_per_s=%.0f\npeak_rss_bytes=%" PRIu64 "\n", (double)summary.packets / seconds, peak_rss_bytes());
	return 0;
}
