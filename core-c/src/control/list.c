/* The registry: a controller is listed once, here. */
#include "rw_control.h"

extern const struct rw_control rw_control_newreno, rw_control_cubic, rw_control_uncoupled, rw_control_css, rw_control_tccc;

const struct rw_control *const rw_control_list[] = {
    &rw_control_newreno,
    &rw_control_cubic,
    &rw_control_uncoupled,
    &rw_control_css,
    &rw_control_tccc,
    0,
};
