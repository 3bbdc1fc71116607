#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_CAPACITY ((size_t)1 << 17)
/* Mapped at a time; mapped bytes count as this process's memory. */
#define WINDOW_BYTES ((size_t)1 << 20)

int rw_input_open(struct rw_input *in, int fd)
{
	memset(in, 0, sizeof *in);
	in->fd = fd;
	in->lease = -1;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return errno; /* a pipe */
	in->buffer = in->copied = malloc(FIRST_CAPACITY);
	if (!in->copied)
		return ENOMEM;
	in->capacity = FIRST_CAPACITY;
	return 0;
}

static void unmap(struct rw_input *in)
{
	if (in->mapped)
		munmap(in->mapped, in->mapped_bytes);
	in->mapped = NULL;
}

static void give_lease_back(struct rw_input *in)
{
	unmap(in);
	if (in->lease >= 0)
		close(in->lease);
	in->lease = -1;
}

void rw_input_close(struct rw_input *in)
{
	give_lease_back(in);
	free(in->copied);
	in->buffer = in->copied = NULL;
}

void rw_input_map(struct rw_input *in)
{
	char path[32];
	struct stat st;
	snprintf(path, sizeof path, "/proc/self/fd/%d", in->fd);
	/* The file is opened again, so that nobody else can release the lease. */
	in->lease = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (in->lease < 0)
		return;
	/* The kernel announces a writer by a signal, which would end the process; a signal that is ignored by default does not. */
	if (fcntl(in->lease, F_SETSIG, SIGURG) || fcntl(in->lease, F_SETLEASE, F_RDLCK) || fstat(in->lease, &st)) {
		give_lease_back(in);
		return;
	}
	in->size = (uint64_t)st.st_size;
}

/* Maps the window that begins with the cursor's page. 0: copy from here on. */
static int map_window(struct rw_input *in, size_t n)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), place = in->offset & ~(page - 1);
	size_t into = (size_t)(in->offset - place);
	unmap(in);
	if (fcntl(in->lease, F_GETLEASE) != F_RDLCK || in->offset >= in->size)
		return 0;
	size_t window = WINDOW_BYTES > into + n ? WINDOW_BYTES : into + n;
	in->mapped_bytes = window < in->size - place ? window : (size_t)(in->size - place);
	in->mapped = mmap(NULL, in->mapped_bytes, PROT_READ, MAP_PRIVATE, in->lease, (off_t)place);
	if (in->mapped == MAP_FAILED) {
		in->mapped = NULL;
		return 0;
	}
	in->buffer = in->mapped;
	in->start = into;
	in->filled = in->mapped_bytes;
	return 1;
}

size_t rw_input_fill(struct rw_input *in, size_t n)
{
	if (in->lease >= 0) {
		if (map_window(in, n))
			return in->filled - in->start < n ? in->filled - in->start : n;
		give_lease_back(in);
		in->buffer = in->copied;
		in->start = in->filled = 0;
	}
	size_t have = in->filled - in->start;
	if (in->start) {
		memmove(in->copied, in->copied + in->start, have);
		in->start = 0;
		in->filled = have;
	}
	if (n > in->capacity) {
		size_t capacity = in->capacity;
		while (capacity < n)
			capacity *= 2;
		uint8_t *grown = realloc(in->copied, capacity);
		if (!grown) {
			in->error = ENOMEM;
			return have;
		}
		in->buffer = in->copied = grown;
		in->capacity = capacity;
	}
	while (in->filled < n) {
		/* Several readers share the descriptor, so each keeps its own offset. */
		off_t place = (off_t)(in->offset + (in->filled - in->start));
		ssize_t got = pread(in->fd, in->copied + in->filled, in->capacity - in->filled, place);
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
