/* A window over a descriptor: asks for n contiguous bytes. */
#ifndef RW_INPUT_H
#define RW_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct rw_input {
	const uint8_t *buffer; /* copied, or mapped */
	size_t start, filled;
	uint64_t offset; /* of buffer[start] in the file */
	uint8_t *copied;
	size_t capacity;
	int fd;
	int error; /* errno of a failed read */
	int lease; /* a descriptor that holds one on the file, while it is read mapped; else -1 */
	uint64_t size;
	void *mapped;
	size_t mapped_bytes;
};

int rw_input_open(struct rw_input *in, int fd); /* 0, or an errno */
void rw_input_close(struct rw_input *in);

/*
 * From here on the file is mapped instead of copied, if nobody can change it meanwhile: a file that is cut while it is mapped
 * kills its reader. A lease (fcntl(2), F_RDLCK) is had only while nobody has the file open for writing; whoever then wants to
 * waits until rw_input_fill, which asks every megabyte, has let go of the mapping and goes on copying. The kernel lets
 * nobody wait for more than its lease-break-time (45 s): not for a reader that may pause. Where there is no lease to be had
 * (another owner's file, a network's file system) nothing changes.
 */
void rw_input_map(struct rw_input *in);

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
