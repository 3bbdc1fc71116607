/* Which flows of a capture share a bottleneck, whatever connection they belong to: the detector sbd over all of them. */
#ifndef RW_ACROSS_H
#define RW_ACROSS_H

#include "events.h"
#include "sbd.h"

struct rw_across;

/*
 * Judges the RW_SBD_FLOWS flows that send the most, of those of 15000 bytes and more: what sends less than an initial
 * window (RFC 6928) never competes. option: of the detector sbd. Null: out of memory.
 */
struct rw_across *rw_across_open(const struct rw_survey *survey, const int64_t *option);
void rw_across_close(struct rw_across *a);
/* An ACK of a flow. 0, or 1 when memory is used up. */
int rw_across_event(struct rw_across *a, uint32_t flow, const struct rw_event *e);
/* The flow has had its last packet. */
void rw_across_end(struct rw_across *a, uint32_t flow);
/* After the last packet. */
void rw_across_finish(struct rw_across *a);
/* number: flows with the same one share a bottleneck; 0 unless RW_BOTTLENECK_SHARED. */
rw_bottleneck_state rw_across_of(const struct rw_across *a, uint32_t flow, uint32_t *number);

#endif
