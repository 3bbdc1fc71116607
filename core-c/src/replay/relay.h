/* Parcels that one thread fills and another empties, in order. */
#ifndef RW_RELAY_H
#define RW_RELAY_H

#include <stddef.h>

struct rw_relay;

/* owner: the value that rw_relay_owner returns. Null: out of memory. */
struct rw_relay *rw_relay_open(size_t parcel_bytes, void *owner);
void rw_relay_close(struct rw_relay *relay); /* after both threads have finished */
void *rw_relay_owner(const struct rw_relay *relay);

/* For the filling thread: waits for the next parcel to fill; null: the other thread has stopped. */
void *rw_relay_empty(struct rw_relay *relay);
/* The parcel is full. more: others follow. */
void rw_relay_filled(struct rw_relay *relay, int more);

/* For the emptying thread: waits for the next full parcel; null: no more. */
void *rw_relay_full(struct rw_relay *relay);
void rw_relay_emptied(struct rw_relay *relay);
/* The emptying thread takes no more parcels. */
void rw_relay_stop(struct rw_relay *relay);

#endif
