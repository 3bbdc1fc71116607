/* The phase of the sender's kernel clock, learnt by trying several; shadow.c calls it, nobody else. */
#ifndef RW_TICKS_H
#define RW_TICKS_H

#include "shadow.h"

/* Begins to try phases, in the middle of an ACK whose tick_ns is known: before the window grows. */
void rw_ticks_begin(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack);
/* Ends it; what was found out stays. */
void rw_ticks_end(struct rw_shadow *s);

/* What the shadow itself is told, while phases are tried. */
void rw_ticks_join(struct rw_shadow *s, uint32_t path, uint64_t srtt_ns);
void rw_ticks_leave(struct rw_shadow *s, uint32_t path);
void rw_ticks_event(struct rw_shadow *s, uint32_t path, const struct rw_event *e, uint64_t srtt_ns);
/* After the shadow's own row. 1: another phase is the sender's, and the row and the windows are now that one's. */
int rw_ticks_ack(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, uint64_t srtt_ns,
		 struct rw_shadow_row *row);

#endif
