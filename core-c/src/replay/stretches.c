#include "stretches.h"

#include <pthread.h>
#include <stdlib.h>

/*
 * Stretches that exist at a time: enough that threads which are not equally fast need not wait for one another. So many are read
 * before the thread that is ahead needs them, so that the others have something to do while it reads.
 */
enum { STRETCHES = 8, READ_AHEAD = 3 };

struct rw_stretches {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	rw_read_stretch *read;
	void *owner;
	uint32_t threads;
	uint8_t reading, ended; /* a thread reads a stretch; no more stretches are read */
	uint64_t made, done; /* stretches that were read; of these, the ones that all threads are through with */
	uint64_t *taken; /* by each thread */
	struct rw_stretch stretch[STRETCHES];
};

struct rw_stretches *rw_stretches_open(uint32_t threads, rw_read_stretch *read, void *owner)
{
	struct rw_stretches *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->read = read;
	s->owner = owner;
	s->threads = threads;
	s->taken = calloc(threads, sizeof *s->taken);
	int failed = !s->taken;
	for (uint32_t i = 0; i < STRETCHES; i++) {
		s->stretch[i].part = malloc(threads * sizeof *s->stretch[i].part);
		failed |= !s->stretch[i].part;
	}
	if (failed) {
		rw_stretches_close(s);
		return NULL;
	}
	return s;
}

void rw_stretches_close(struct rw_stretches *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < STRETCHES; i++) {
		free(s->stretch[i].buffer.bytes);
		free(s->stretch[i].part);
	}
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s->taken);
	free(s);
}

void rw_stretches_stop(struct rw_stretches *s)
{
	pthread_mutex_lock(&s->lock);
	s->ended = 1;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

/* The lock is held, and given up during the work. */
static void read_stretch(struct rw_stretches *s)
{
	struct rw_stretch *b = &s->stretch[s->made % STRETCHES];
	s->reading = 1;
	pthread_mutex_unlock(&s->lock);
	b->records = b->packets = 0;
	b->readers = s->threads;
	for (uint32_t i = 0; i < s->threads; i++)
		b->part[i].count = 0;
	int more = s->read(s->owner, b);
	pthread_mutex_lock(&s->lock);
	s->reading = 0;
	s->ended |= !more;
	s->made++;
	pthread_cond_broadcast(&s->changed);
}

/* A thread is through with a stretch. Threads take stretches in order, so stretches are done in order. The lock is held. */
static void finish(struct rw_stretches *s, struct rw_stretch *b)
{
	if (--b->readers)
		return;
	s->done++;
	pthread_cond_broadcast(&s->changed);
}

/*
 * Whether this thread is to read the next stretch. The one that has taken most parts does, before it has none left. It falls behind
 * while it reads, and then another one is ahead: so threads do equally much in all.
 */
static int is_next_reader(const struct rw_stretches *s, uint32_t thread)
{
	if (s->reading || s->ended || s->made - s->done == STRETCHES || s->made - s->taken[thread] >= READ_AHEAD)
		return 0;
	for (uint32_t i = 0; i < s->threads; i++)
		if (s->taken[i] > s->taken[thread])
			return 0;
	return 1;
}

const struct rw_part *rw_stretches_next(struct rw_stretches *s, uint32_t thread)
{
	uint64_t *taken = &s->taken[thread];
	const struct rw_part *part = NULL;
	pthread_mutex_lock(&s->lock);
	if (*taken)
		finish(s, &s->stretch[(*taken - 1) % STRETCHES]);
	while (is_next_reader(s, thread))
		read_stretch(s);
	while (*taken == s->made && !s->ended)
		if (is_next_reader(s, thread))
			read_stretch(s);
		else
			pthread_cond_wait(&s->changed, &s->lock);
	if (*taken < s->made)
		part = &s->stretch[(*taken)++ % STRETCHES].part[thread];
	pthread_mutex_unlock(&s->lock);
	return part;
}
