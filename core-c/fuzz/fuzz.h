/* What the targets share: invariants that abort, and captures without a disk. */
#ifndef FUZZ_H
#define FUZZ_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rw_ways.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))

static inline _Noreturn void fuzz_fail(const char *file, int line, const char *condition)
{
	fprintf(stderr, "%s:%d: invariant broken: %s\n", file, line, condition);
	abort();
}

static inline int fuzz_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("capture", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		fuzz_fail(__FILE__, __LINE__, "a file in memory");
	return fd;
}

/* The same, opened for reading only: the core may map it. */
static inline int fuzz_mapped_file(const uint8_t *data, size_t size)
{
	char path[32];
	int writer = fuzz_file(data, size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", writer);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fuzz_fail(__FILE__, __LINE__, "a file in memory");
	close(writer);
	return fd;
}

/* What came out of a run, as one number: two runs that must be alike are. */
static inline uint64_t fuzz_fold(uint64_t sum, uint64_t value)
{
	sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
	return sum ^ sum >> 29;
}

static inline uint64_t fuzz_fold_bytes(uint64_t sum, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	for (size_t i = 0; i < n; i++)
		sum = fuzz_fold(sum, p[i]);
	return sum;
}

/*
 * Runs an input in the short ways and, where the build has the switch (rw_ways.h), once more in the long way: what comes
 * out, as one number, must be the same.
 */
static inline int fuzz_both_ways(uint64_t (*run)(const uint8_t *data, size_t size), const uint8_t *data, size_t size)
{
	uint64_t sum = run(data, size);
#ifdef REWINDOW_BOTH_WAYS
	rw_long_way = 1;
	CHECK(run(data, size) == sum);
	rw_long_way = 0;
#else
	(void)sum;
#endif
	return 0;
}

#endif
