/* Parcels that one thread fills and another empties, in order. */
#ifndef RW_RELAY_H
#define RW_RELAY_H

#include <stddef.h>

struct rw_relay;

/* owner: what rw_relay_owner gives back. Null: out of memory. */
struct rw_relay *rw_relay_open(size_t parcel_bytes, void *owner);
void rw_relay_close(struct rw_relay *relay); /* when both threads have done with it */
void *rw_relay_owner(const struct rw_relay *relay);

/* The filling thread: the next parcel to be filled, once there is one; null: the other thread has stopped. */
void *rw_relay_empty(struct rw_relay *relay);
/* It is filled. more: others follow. */
void rw_relay_filled(struct rw_relay *relay, int more);

/* The emptying thread: the next parcel that is filled; null: there are no more. */
void *rw_relay_full(struct rw_relay *relay);
void rw_relay_emptied(struct rw_relay *relay);
/* It takes no more. */
void rw_relay_stop(struct rw_relay *relay);

#endif
