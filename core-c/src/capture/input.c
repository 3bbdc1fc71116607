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

int rw_input_open_stream(struct rw_input *in, int fd)
{
	memset(in, 0, sizeof *in);
	in->fd = fd;
	in->is_stream = 1;
	in->buffer = in->copied = malloc(FIRST_CAPACITY);
	if (!in->copied)
		return ENOMEM;
	in->capacity = FIRST_CAPACITY;
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

void rw_mapped_release(struct rw_mapped *w)
{
	if (w->bytes)
		munmap(w->bytes, w->length);
	else
		close(w->lease);
	free(w);
}

static void leave(struct rw_input *in, struct rw_mapped **w)
{
	if (*w && in->leave)
		in->leave(in->holder, *w);
	else if (*w)
		rw_mapped_release(*w);
	*w = NULL;
}

static void give_lease_back(struct rw_input *in)
{
	leave(in, &in->mapping);
	leave(in, &in->lease);
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
	struct rw_mapped *lease = calloc(1, sizeof *lease);
	/* The file is opened again, so that nobody else can release the lease. */
	int fd = lease ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	if (fd < 0) {
		free(lease);
		return;
	}
	lease->lease = fd;
	/* The kernel announces a writer by a signal, which would end the process; a signal that is ignored by default does not. */
	if (fcntl(fd, F_SETSIG, SIGURG) || fcntl(fd, F_SETLEASE, F_RDLCK) || fstat(fd, &st)) {
		rw_mapped_release(lease);
		return;
	}
	in->lease = lease;
	in->size = (uint64_t)st.st_size;
	in->start = in->filled = 0; /* what was copied already is mapped, too */
}

/* Maps the window that begins with the cursor's page. 0: copy from here on. */
static int map_window(struct rw_input *in, size_t n)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), place = in->offset & ~(page - 1);
	size_t into = (size_t)(in->offset - place);
	leave(in, &in->mapping);
	if (fcntl(in->lease->lease, F_GETLEASE) != F_RDLCK || in->offset >= in->size)
		return 0;
	struct rw_mapped *w = calloc(1, sizeof *w);
	if (!w)
		return 0;
	size_t bytes = WINDOW_BYTES > into + n ? WINDOW_BYTES : into + n;
	w->length = bytes < in->size - place ? bytes : (size_t)(in->size - place);
	w->bytes = mmap(NULL, w->length, PROT_READ, MAP_PRIVATE, in->lease->lease, (off_t)place);
	if (w->bytes == MAP_FAILED) {
		free(w);
		return 0;
	}
	in->mapping = w;
	in->buffer = w->bytes;
	in->start = into;
	in->filled = w->length;
	return 1;
}

size_t rw_input_fill(struct rw_input *in, size_t n)
{
	if (in->lease) {
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
		uint8_t *to = in->copied + in->filled;
		size_t room = in->capacity - in->filled;
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
