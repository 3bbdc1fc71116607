/* The registry: a scheduler is listed once, here. */
#include "rw_scheduler.h"

extern const struct rw_scheduler rw_scheduler_minrtt, rw_scheduler_roundrobin, rw_scheduler_fps, rw_scheduler_sbfps;

const struct rw_scheduler *const rw_scheduler_list[] = {
    &rw_scheduler_minrtt, &rw_scheduler_roundrobin, &rw_scheduler_fps, &rw_scheduler_sbfps, 0,
};
