/* Which flows of a capture share a bottleneck, whatever connection they belong to: the detector sbd over all of them. */
#ifndef RW_SHARED_BOTTLENECKS_H
#define RW_SHARED_BOTTLENECKS_H

#include "events.h"
#include "sbd.h"

struct rw_shared_bottlenecks;

/*
 * Compares the RW_SBD_FLOWS flows that send most, of those with at least 15000 bytes: a flow that sends less than an initial window
 * (RFC 6928) never competes. option: options of the detector sbd. Null: out of memory.
 */
struct rw_shared_bottlenecks *rw_shared_bottlenecks_open(const struct rw_survey *survey, const int64_t *option);
void rw_shared_bottlenecks_close(struct rw_shared_bottlenecks *a);
/* Whether the flow is compared. Only events of such flows may be reported. */
int rw_shared_bottlenecks_judges(const struct rw_shared_bottlenecks *a, uint32_t flow);
/* An ACK of a flow. 0, or 1: out of memory. */
int rw_shared_bottlenecks_event(struct rw_shared_bottlenecks *a, uint32_t flow, const struct rw_event *e);
/* The flow's last packet was replayed. */
void rw_shared_bottlenecks_end(struct rw_shared_bottlenecks *a, uint32_t flow);
/* After the last packet. */
void rw_shared_bottlenecks_finish(struct rw_shared_bottlenecks *a);
/* number: flows with the same number share a bottleneck; 0 unless RW_BOTTLENECK_SHARED. */
rw_bottleneck_state rw_shared_bottlenecks_of(const struct rw_shared_bottlenecks *a, uint32_t flow, uint32_t *number);

#endif
