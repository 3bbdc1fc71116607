#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_CAPACITY ((size_t)1 << 17)

int rw_input_open(struct rw_input *in, int fd)
{
	memset(in, 0, sizeof *in);
	in->fd = fd;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return errno; /* a pipe */
	in->buffer = malloc(FIRST_CAPACITY);
	if (!in->buffer)
		return ENOMEM;
	in->capacity = FIRST_CAPACITY;
	return 0;
}

void rw_input_close(struct rw_input *in)
{
	free(in->buffer);
	in->buffer = NULL;
}

size_t rw_input_fill(struct rw_input *in, size_t n)
{
	size_t have = in->filled - in->start;
	if (in->start) {
		memmove(in->buffer, in->buffer + in->start, have);
		in->start = 0;
		in->filled = have;
	}
	if (n > in->capacity) {
		size_t capacity = in->capacity;
		while (capacity < n)
			capacity *= 2;
		uint8_t *buffer = realloc(in->buffer, capacity);
		if (!buffer) {
			in->error = ENOMEM;
			return have;
		}
		in->buffer = buffer;
		in->capacity = capacity;
	}
	while (in->filled < n) {
		/* Several readers share the descriptor: each knows its own place. */
		off_t place = (off_t)(in->offset + (in->filled - in->start));
		ssize_t got = pread(in->fd, in->buffer + in->filled, in->capacity - in->filled, place);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			in->error = errno;
		if (got <= 0)
			break;
		in->filled += (size_t)got;
	}
	return in->filled < n ? in->filled : n;
}

int rw_input_skip(struct rw_input *in, uint64_t n)
{
	while (n > 0) {
		size_t have = in->filled - in->start;
		size_t step = n < have ? (size_t)n : have;
		rw_input_advance(in, step);
		n -= step;
		if (n > 0 && rw_input_fill(in, 1) == 0)
			return 0;
	}
	return 1;
}
