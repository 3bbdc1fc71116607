/* A window over a descriptor: asks for n contiguous bytes, never maps the file (a file cut while mapped kills). */
#ifndef RW_INPUT_H
#define RW_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct rw_input {
	uint8_t *buffer;
	size_t start, filled, capacity;
	uint64_t offset; /* of buffer[start] in the file */
	int fd;
	int error; /* errno of a failed read */
};

int rw_input_open(struct rw_input *in, int fd); /* 0, or an errno */
void rw_input_close(struct rw_input *in);

/* How many bytes are there at the cursor, up to n; fewer than n means the file ends. */
size_t rw_input_fill(struct rw_input *in, size_t n);

static inline const uint8_t *rw_input_at(const struct rw_input *in) { return in->buffer + in->start; }

static inline size_t rw_input_need(struct rw_input *in, size_t n)
{
	return in->filled - in->start >= n ? n : rw_input_fill(in, n);
}

static inline void rw_input_advance(struct rw_input *in, size_t n)
{
	in->start += n;
	in->offset += n;
}

/* Passes over n bytes, also more than the buffer holds. Returns 0 when the file ends before. */
int rw_input_skip(struct rw_input *in, uint64_t n);

#endif
