/*
 * Records of several interfaces of one file, in the order of their times.
 *
 * A capture of several interfaces has the records of each interface in order, but writes them when the interfaces' buffers are
 * drained, milliseconds or seconds late. This file merges one queue for each interface: the earliest head first, ties in the file's
 * order. Within an interface the file's order stays, whatever the times.
 *
 * Queues hold places in the file, never bytes: bytes that have left the reader's buffer are read again. A record waits until every
 * interface has a waiting record, until a record that is DISORDER_NS later was read, or until held_max records wait. A record that
 * is more than DISORDER_NS earlier than the latest before it was not delayed by a buffer: a clock was set, or two clocks differ. It
 * stays after all records before it, and the records of a section stay after those of the section before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format.h"

#define DISORDER_NS 5000000000ll
#define NONE UINT32_MAX
#define WINDOWS 4
#define WINDOW_LEAST ((size_t)1 << 12)
#define WINDOW_MOST ((size_t)1 << 16)

struct held {
	int64_t time_ns;
	uint64_t offset;
	uint32_t captured_bytes, wire_bytes;
	uint32_t link_type, interface;
	uint32_t next; /* the next record of its interface, or the next unused entry */
	uint8_t lead;  /* bytes from the record's start to its packet */
};

struct queue {
	uint32_t first, last;
};

/* Bytes that were read again. */
struct window {
	uint8_t *bytes;
	size_t room, filled, used;
	uint64_t offset;
};

struct rw_interface_sort {
	struct held *held;
	uint32_t room, begun, empty, count, max; /* begun: entries ever used; empty: the first unused entry */
	struct queue *queue;                     /* one for each interface of the section */
	uint32_t *heap;     /* queues that are not empty, the earliest head first */
	uint32_t queues, heads;
	uint32_t base; /* number of interfaces in the sections before */
	int64_t newest_ns, handed_ns;
	struct held behind; /* comes after all waiting records */
	uint8_t has_behind, begins, ended;
	struct window window[WINDOWS + 1]; /* the last one is for records that are longer than the other windows */
	struct rw_moved moved;
};

int rw_interfaces_sort(struct rw_capture *c, uint32_t held_max)
{
	struct rw_interface_sort *s = calloc(1, sizeof *s);
	if (!s)
		return 1;
	s->max = held_max;
	s->empty = NONE;
	s->begins = 1;
	c->sort = s;
	return 0;
}

static void free_tables(struct rw_interface_sort *s)
{
	for (size_t i = 0; i <= WINDOWS; i++) {
		free(s->window[i].bytes);
		s->window[i].bytes = NULL;
	}
	free(s->held);
	free(s->queue);
	free(s->heap);
	s->held = NULL;
	s->queue = NULL;
	s->heap = NULL;
}

void rw_interfaces_close(struct rw_interface_sort *s)
{
	if (!s)
		return;
	free_tables(s);
	free(s);
}

struct rw_moved rw_interfaces_moved(const struct rw_interface_sort *s) { return s->moved; }

static int out_of_memory(struct rw_capture *c, rw_error *error)
{
	rw_error_set(error, RW_ERROR_MEMORY, c->file, c->records, c->in.offset, "out of memory");
	return -RW_ERROR_MEMORY;
}

static const struct held *head_of(const struct rw_interface_sort *s, uint32_t queue)
{
	return &s->held[s->queue[queue].first];
}

static int is_before(const struct rw_interface_sort *s, uint32_t a, uint32_t b)
{
	const struct held *x = head_of(s, a), *y = head_of(s, b);
	return x->time_ns != y->time_ns ? x->time_ns < y->time_ns : x->offset < y->offset;
}

static void sift_up(struct rw_interface_sort *s, uint32_t at)
{
	uint32_t queue = s->heap[at];
	for (; at && is_before(s, queue, s->heap[(at - 1) / 2]); at = (at - 1) / 2)
		s->heap[at] = s->heap[(at - 1) / 2];
	s->heap[at] = queue;
}

static void sift_down(struct rw_interface_sort *s, uint32_t at)
{
	uint32_t queue = s->heap[at];
	for (uint32_t child; (child = 2 * at + 1) < s->heads; at = child) {
		if (child + 1 < s->heads && is_before(s, s->heap[child + 1], s->heap[child]))
			child++;
		if (!is_before(s, s->heap[child], queue))
			break;
		s->heap[at] = s->heap[child];
	}
	s->heap[at] = queue;
}

/* Makes room for a queue for every interface that the section has so far. */
static int make_queues(struct rw_interface_sort *s, uint32_t count)
{
	if (count <= s->queues)
		return 1;
	uint32_t room = s->queues ? s->queues : 4;
	while (room < count)
		room *= 2;
	struct queue *queue = realloc(s->queue, room * sizeof *queue);
	if (queue)
		s->queue = queue;
	uint32_t *heap = realloc(s->heap, room * sizeof *heap);
	if (heap)
		s->heap = heap;
	if (!queue || !heap)
		return 0;
	for (uint32_t i = s->queues; i < room; i++)
		s->queue[i] = (struct queue){NONE, NONE};
	s->queues = room;
	return 1;
}

static uint32_t take_place(struct rw_interface_sort *s)
{
	uint32_t place = s->empty;
	if (place != NONE) {
		s->empty = s->held[place].next;
		return place;
	}
	if (s->begun == s->room) {
		uint32_t room = s->room ? s->room * 2 : 64;
		struct held *grown = realloc(s->held, room * sizeof *grown);
		if (!grown)
			return NONE;
		s->held = grown;
		s->room = room;
	}
	return s->begun++;
}

static int hold(struct rw_capture *c, const struct held *h)
{
	struct rw_interface_sort *s = c->sort;
	if (s->begins) {
		s->begins = 0;
		s->base = c->interfaces_before;
		s->newest_ns = h->time_ns;
		s->handed_ns = INT64_MIN;
	}
	uint32_t number = h->interface - s->base, place;
	if (!make_queues(s, c->interface_count) || (place = take_place(s)) == NONE)
		return 0;
	struct queue *queue = &s->queue[number];
	/* Whether it is earlier than a record before it in the file, and came in time to move before that record. */
	if (h->time_ns < s->newest_ns && h->time_ns >= s->handed_ns &&
	    (queue->first == NONE || h->time_ns >= s->held[queue->last].time_ns) && s->moved.records++ == 0)
		s->moved.first_offset = h->offset;
	if (h->time_ns > s->newest_ns)
		s->newest_ns = h->time_ns;
	s->held[place] = *h;
	s->held[place].next = NONE;
	s->count++;
	if (queue->first == NONE) {
		queue->first = queue->last = place;
		s->heap[s->heads++] = number;
		sift_up(s, s->heads - 1);
	} else {
		s->held[queue->last].next = place;
		queue->last = place;
	}
	return 1;
}

/* Reads bytes of the file again; null: the file has become shorter, or cannot be read. */
static const uint8_t *read_again(struct rw_capture *c, const struct held *h)
{
	uint64_t offset = h->offset + h->lead;
	size_t n = h->captured_bytes;
	struct window *w = &c->sort->window[n > WINDOW_MOST ? WINDOWS : h->interface % WINDOWS];
	if (offset < w->offset || offset + n > w->offset + w->filled) {
		/* Reads ahead as far as was useful the last time, so that at most twice the requested bytes are read. */
		size_t ahead = 2 * w->used < WINDOW_LEAST  ? WINDOW_LEAST
			       : 2 * w->used < WINDOW_MOST ? 2 * w->used
							   : WINDOW_MOST;
		size_t wanted = n > ahead ? n : ahead;
		if (wanted > w->room) {
			uint8_t *grown = realloc(w->bytes, wanted);
			if (!grown) {
				c->in.error = ENOMEM;
				return NULL;
			}
			w->bytes = grown;
			w->room = wanted;
		}
		w->offset = offset;
		w->filled = w->used = 0;
		while (w->filled < n) {
			ssize_t got =
			    pread(c->in.fd, w->bytes + w->filled, wanted - w->filled, (off_t)(offset + w->filled));
			if (got < 0 && errno == EINTR)
				continue;
			if (got < 0)
				c->in.error = errno;
			if (got <= 0)
				return NULL;
			w->filled += (size_t)got;
		}
	}
	w->used += n;
	return w->bytes + (offset - w->offset);
}

static const uint8_t *bytes_of(struct rw_capture *c, const struct held *h)
{
	uint64_t begin = c->in.offset - c->in.start, offset = h->offset + h->lead;
	if (offset >= begin && offset + h->captured_bytes <= begin + c->in.filled)
		return c->in.bytes + (offset - begin);
	return read_again(c, h);
}

static int hand_out(struct rw_capture *c, struct rw_record *record)
{
	struct rw_interface_sort *s = c->sort;
	uint32_t number = s->heap[0], place = s->queue[number].first;
	struct held *h = &s->held[place];
	const uint8_t *bytes = bytes_of(c, h);
	if (!bytes) { /* the file was truncated, or cannot be read */
		s->ended = 1;
		s->count = s->has_behind = 0;
		if (!c->in.error)
			rw_oddity_add(c->oddities, RW_ODDITY_CUT_CAPTURE, c->file, h->offset);
		return 0;
	}
	*record = (struct rw_record){.time_ns = h->time_ns,
				     .bytes = bytes,
				     .captured_bytes = h->captured_bytes,
				     .wire_bytes = h->wire_bytes,
				     .link_type = h->link_type,
				     .interface = h->interface,
				     .offset = h->offset};
	if (h->time_ns > s->handed_ns)
		s->handed_ns = h->time_ns;
	s->count--;
	s->queue[number].first = h->next;
	if (h->next == NONE)
		s->heap[0] = s->heap[--s->heads];
	if (s->heads)
		sift_down(s, 0);
	h->next = s->empty;
	s->empty = place;
	return 1;
}

static int waits_no_longer(const struct rw_capture *c, const struct rw_interface_sort *s)
{
	return s->count && (s->ended || s->has_behind || s->heads == c->interface_count || s->count >= s->max ||
			    s->newest_ns - head_of(s, s->heap[0])->time_ns > DISORDER_NS);
}

int rw_interfaces_next(struct rw_capture *c, struct rw_record *record, rw_error *error)
{
	struct rw_interface_sort *s = c->sort;
	for (;;) {
		if (waits_no_longer(c, s))
			return hand_out(c, record);
		if (s->has_behind) {
			s->begins = 1;
			s->has_behind = 0;
			if (!hold(c, &s->behind))
				return out_of_memory(c, error);
			continue;
		}
		int got = s->ended ? 0 : rw_pcapng_next(c, record, error);
		if (got < 0)
			return got;
		if (got == 0) {
			s->ended = 1;
			if (s->count)
				continue;
			free_tables(s); /* frees memory early, because many files may end before the last one */
			return 0;
		}
		uint64_t bytes_at = c->in.offset - (uint64_t)(rw_input_at(&c->in) - record->bytes);
		struct held h = {.time_ns = record->time_ns,
				 .offset = record->offset,
				 .captured_bytes = record->captured_bytes,
				 .wire_bytes = record->wire_bytes,
				 .link_type = record->link_type,
				 .interface = record->interface,
				 .lead = (uint8_t)(bytes_at - record->offset)};
		if (!s->begins && (c->interfaces_before != s->base || s->newest_ns - h.time_ns > DISORDER_NS)) {
			s->behind = h;
			s->has_behind = 1;
		} else if (!hold(c, &h)) {
			return out_of_memory(c, error);
		}
	}
}
