/* Which flows of a capture share a bottleneck, whatever connection they belong to: the detector sbd over all of them. */
#ifndef RW_SHARED_BOTTLENECKS_H
#define RW_SHARED_BOTTLENECKS_H

#include "events.h"
#include "sbd.h"

struct rw_shared_bottlenecks;

/*
 * Judges the RW_SBD_FLOWS flows that send the most, of those of 15000 bytes and more: what sends less than an initial
 * window (RFC 6928) never competes. option: of the detector sbd. Null: out of memory.
 */
struct rw_shared_bottlenecks *rw_shared_bottlenecks_open(const struct rw_survey *survey, const int64_t *option);
void rw_shared_bottlenecks_close(struct rw_shared_bottlenecks *a);
/* Is the flow one of those? Only of these it is to be told. */
int rw_shared_bottlenecks_judges(const struct rw_shared_bottlenecks *a, uint32_t flow);
/* An ACK of a flow. 0, or 1 when memory is used up. */
int rw_shared_bottlenecks_event(struct rw_shared_bottlenecks *a, uint32_t flow, const struct rw_event *e);
/* The flow has had its last packet. */
void rw_shared_bottlenecks_end(struct rw_shared_bottlenecks *a, uint32_t flow);
/* After the last packet. */
void rw_shared_bottlenecks_finish(struct rw_shared_bottlenecks *a);
/* number: flows with the same one share a bottleneck; 0 unless RW_BOTTLENECK_SHARED. */
rw_bottleneck_state rw_shared_bottlenecks_of(const struct rw_shared_bottlenecks *a, uint32_t flow, uint32_t *number);

#endif
