/* A window over a descriptor, which gives n contiguous bytes. */
#ifndef RW_INPUT_H
#define RW_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "capture.h"

struct rw_input {
	uint8_t *bytes; /* of the buffer */
	size_t start, filled;
	uint64_t offset; /* of bytes[start] in the file */
	struct rw_buffer own, *buffer; /* buffer: `own`, or one that was lent */
	int fd;
	int error; /* errno of a failed read */
	int is_stream; /* it cannot seek, and is read once from where it stands */
};

int rw_input_open(struct rw_input *in, int fd); /* 0, or an errno */
int rw_input_open_stream(struct rw_input *in, int fd);
void rw_input_close(struct rw_input *in);

/* Reads on into a buffer that is the caller's, and leaves the one before as it is. 0, or 1: out of memory. */
int rw_input_lend(struct rw_input *in, struct rw_buffer *buffer);

/* Returns how many bytes the window has at the cursor, up to n; fewer than n mean that the file ends. */
size_t rw_input_fill(struct rw_input *in, size_t n);

static inline const uint8_t *rw_input_at(const struct rw_input *in) { return in->bytes + in->start; }

static inline size_t rw_input_need(struct rw_input *in, size_t n)
{
	return in->filled - in->start >= n ? n : rw_input_fill(in, n);
}

static inline void rw_input_advance(struct rw_input *in, size_t n)
{
	in->start += n;
	in->offset += n;
}

/* Skips n bytes, even more than the buffer holds. Returns 0 when the file ends before. */
int rw_input_skip(struct rw_input *in, uint64_t n);

#endif
