#include "relay.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { PARCELS = 16 };

struct rw_relay {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t parcel_bytes;
	void *owner;
	uint64_t filled, emptied; /* numbers of parcels */
	uint8_t ended, stopped;   /* the filling thread, the emptying thread */
	uint8_t waits;            /* one of the two threads sleeps */
	_Alignas(64) uint8_t parcel[];
};

struct rw_relay *rw_relay_open(size_t parcel_bytes, void *owner)
{
	parcel_bytes = (parcel_bytes + 63) & ~(size_t)63;
	struct rw_relay *r = aligned_alloc(64, (sizeof *r + PARCELS * parcel_bytes + 63) & ~(size_t)63);
	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	r->parcel_bytes = parcel_bytes;
	r->owner = owner;
	r->filled = r->emptied = 0;
	r->ended = r->stopped = r->waits = 0;
	return r;
}

void rw_relay_close(struct rw_relay *r)
{
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void *rw_relay_owner(const struct rw_relay *r) { return r->owner; }

static void *parcel_at(struct rw_relay *r, uint64_t number) { return r->parcel + number % PARCELS * r->parcel_bytes; }

/* Call it with the lock held. */
static void sleep_until_changed(struct rw_relay *r)
{
	r->waits = 1;
	pthread_cond_wait(&r->changed, &r->lock);
}

/* Wakes the other thread if it sleeps and has enough to do. Call it with the lock held. */
static void wake(struct rw_relay *r, int enough)
{
	if (!r->waits || !enough)
		return;
	r->waits = 0;
	pthread_cond_signal(&r->changed);
}

void *rw_relay_empty(struct rw_relay *r)
{
	pthread_mutex_lock(&r->lock);
	while (!r->stopped && r->filled - r->emptied == PARCELS)
		sleep_until_changed(r);
	void *parcel = r->stopped ? NULL : parcel_at(r, r->filled);
	pthread_mutex_unlock(&r->lock);
	return parcel;
}

void rw_relay_filled(struct rw_relay *r, int more)
{
	pthread_mutex_lock(&r->lock);
	r->filled += !r->stopped;
	r->ended = !more;
	wake(r, r->ended || r->filled - r->emptied >= PARCELS / 4);
	pthread_mutex_unlock(&r->lock);
}

void *rw_relay_full(struct rw_relay *r)
{
	pthread_mutex_lock(&r->lock);
	while (r->filled == r->emptied && !r->ended)
		sleep_until_changed(r);
	void *parcel = r->filled == r->emptied ? NULL : parcel_at(r, r->emptied);
	pthread_mutex_unlock(&r->lock);
	return parcel;
}

void rw_relay_emptied(struct rw_relay *r)
{
	pthread_mutex_lock(&r->lock);
	r->emptied++;
	wake(r, r->filled - r->emptied <= PARCELS / 2);
	pthread_mutex_unlock(&r->lock);
}

void rw_relay_stop(struct rw_relay *r)
{
	pthread_mutex_lock(&r->lock);
	r->stopped = 1;
	wake(r, 1);
	pthread_mutex_unlock(&r->lock);
}
