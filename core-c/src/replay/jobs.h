/*
 * The second pass by several threads.
 *
 * Connections are divided among workers. Each worker goes through the records of its connections' shares and replays the packets of its own
 * connections. It hands over rows, marks and sets in slices of records, with the number of the record of each. The thread that asks for batches
 * merges the slices by that number, so that rows have the order and the numbers of a replay with one thread
 * (docs/decisions/threads.md).
 */
#ifndef RW_JOBS_H
#define RW_JOBS_H

#include <stdint.h>

#include "rewindow.h"

struct rw_jobs;
struct rw_slice;
struct rw_event;
struct rw_violations;

/* Starts the workers of a replay that is ready for its second pass. Null with RW_OK: the replay needs one thread. */
rw_status rw_jobs_open(struct rw_jobs **jobs, rw_replay *r, rw_error *error);
/* Ends the workers; their data about flows stays until rw_jobs_close. */
void rw_jobs_stop(struct rw_jobs *jobs);
void rw_jobs_close(struct rw_jobs *jobs);
/* Appends slices to r's columns until these are full or the replay ends; *ended: it has ended, and r has all counts. */
rw_status rw_jobs_next(struct rw_jobs *jobs, rw_replay *r, int *ended, rw_error *error);
uint64_t rw_jobs_progress(const struct rw_jobs *jobs);

/* In a worker: hands over an event for the comparison of all flows; null: the flow has ended. 0, or 1: out of memory. */
int rw_slice_tell_bottlenecks(struct rw_slice *slice, uint64_t record, uint32_t flow, const struct rw_event *e);
/* Hands over a violation, whose first_row is a record's number until the slice is merged. 0, or 1: out of memory. */
int rw_slice_tell_violations(struct rw_slice *slice, struct rw_violations *violations);

#endif
