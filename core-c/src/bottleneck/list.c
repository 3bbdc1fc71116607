/* The registry: a detector is listed once, here. */
#include "rw_bottleneck.h"

extern const struct rw_detector rw_detector_sbcc, rw_detector_dwc, rw_detector_sbd;

const struct rw_detector *const rw_detector_list[] = {
    &rw_detector_sbcc,
    &rw_detector_dwc,
    &rw_detector_sbd,
    0,
};
