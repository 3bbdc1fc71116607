/* A window over a descriptor, which gives n contiguous bytes. */
#ifndef RW_INPUT_H
#define RW_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "capture.h"

struct rw_input {
	const uint8_t *buffer; /* copied, or mapped */
	size_t start, filled;
	uint64_t offset; /* of buffer[start] in the file */
	uint8_t *copied;
	size_t capacity;
	int fd;
	int error; /* errno of a failed read */
	int is_stream; /* it cannot seek, and is read once from where it stands */
	struct rw_mapped *lease; /* a descriptor with a lease on the file while it is mapped; else null */
	struct rw_mapped *mapping; /* null: the buffer is a copy */
	uint64_t size;
	rw_leave *leave; /* null: mappings are released at once */
	void *holder;
};

int rw_input_open(struct rw_input *in, int fd); /* 0, or an errno */
int rw_input_open_stream(struct rw_input *in, int fd);
void rw_input_close(struct rw_input *in);

/*
 * Maps the file from here on instead of copying it, if a lease on it is granted (fcntl(2), F_RDLCK): truncating a mapped file
 * kills its reader. The kernel grants the lease only while nobody has the file open for writing. A process that then opens it for
 * writing waits until rw_input_fill, which checks every megabyte, has released the mapping and copies again. It waits at most
 * lease-break-time (45 s), so this is not for a reader that may pause. Without a lease (another owner's file, a network file
 * system) the file is copied as before.
 */
void rw_input_map(struct rw_input *in);

/* Returns how many bytes the window has at the cursor, up to n; fewer than n mean that the file ends. */
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

/* Skips n bytes, even more than the buffer holds. Returns 0 when the file ends before. */
int rw_input_skip(struct rw_input *in, uint64_t n);

#endif
