/* Finds the phase of the sender's kernel clock by trying several; only shadow.c calls it. */
#ifndef RW_TICKS_H
#define RW_TICKS_H

#include "shadow.h"

/* Begins to try phases, during an ACK whose tick_ns is known and before the window grows. */
void rw_ticks_begin(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack);
/* Ends the search; the phase found so far stays. */
void rw_ticks_end(struct rw_shadow *s);

/* Reports the shadow's own events to the other phases. */
void rw_ticks_join(struct rw_shadow *s, uint32_t path, uint64_t srtt_ns);
void rw_ticks_leave(struct rw_shadow *s, uint32_t path);
void rw_ticks_event(struct rw_shadow *s, uint32_t path, const struct rw_event *e, uint64_t srtt_ns);
/* Call it after the shadow's own row. 1: another phase is the sender's, and the row and the windows are now its own. */
int rw_ticks_ack(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, uint64_t srtt_ns,
		 struct rw_shadow_row *row);

#endif
