#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Large enough that a read costs little beside the copying, and small enough that what was read is still in a near cache. */
#define FIRST_CAPACITY ((size_t)1 << 17)

/* Makes the buffer at least this large. 0, or 1: out of memory. */
static int make_room(struct rw_buffer *b, size_t bytes)
{
	size_t capacity = b->capacity ? b->capacity : FIRST_CAPACITY;
	while (capacity < bytes)
		capacity *= 2;
	if (capacity == b->capacity)
		return 0;
	uint8_t *grown = realloc(b->bytes, capacity);
	if (!grown)
		return 1;
	b->bytes = grown;
	b->capacity = capacity;
	return 0;
}

int rw_input_open_stream(struct rw_input *in, int fd)
{
	memset(in, 0, sizeof *in);
	in->fd = fd;
	in->is_stream = 1;
	in->buffer = &in->own;
	if (make_room(in->buffer, FIRST_CAPACITY))
		return ENOMEM;
	in->bytes = in->buffer->bytes;
	return 0;
}

int rw_input_open(struct rw_input *in, int fd)
{
	int failed = rw_input_open_stream(in, fd);
	in->is_stream = 0;
	if (!failed && lseek(fd, 0, SEEK_SET) < 0)
		return errno; /* a pipe */
	return failed;
}

void rw_input_close(struct rw_input *in)
{
	free(in->own.bytes);
	in->own.bytes = NULL;
}

int rw_input_lend(struct rw_input *in, struct rw_buffer *buffer)
{
	size_t have = in->filled - in->start;
	if (make_room(buffer, have))
		return 1;
	memcpy(buffer->bytes, in->bytes + in->start, have);
	in->buffer = buffer;
	in->bytes = buffer->bytes;
	in->start = 0;
	in->filled = have;
	return 0;
}

size_t rw_input_fill(struct rw_input *in, size_t n)
{
	size_t have = in->filled - in->start;
	if (in->start) {
		memmove(in->bytes, in->bytes + in->start, have);
		in->start = 0;
		in->filled = have;
	}
	if (n > in->buffer->capacity) {
		if (make_room(in->buffer, n)) {
			in->error = ENOMEM;
			return have;
		}
		in->bytes = in->buffer->bytes;
	}
	while (in->filled < n) {
		/* Several readers share the descriptor, so each keeps its own offset. */
		off_t place = (off_t)(in->offset + (in->filled - in->start));
		uint8_t *to = in->bytes + in->filled;
		size_t room = in->buffer->capacity - in->filled;
		ssize_t got = in->is_stream ? read(in->fd, to, room) : pread(in->fd, to, room, place);
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
