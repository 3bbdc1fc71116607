/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The registry: a controller is listed once, here. */
#include "rw_control.h"

#define RW_CONTROLS(each)                                                                                              \
	each(newreno) each(cubic) each(uncoupled) each(tccc) each(tccc_plus) each(css) each(lisa) each(lia) each(olia) \
	    each(balia) each(ewtcp) each(coupled) each(coupled_full) each(nmcc) each(enmcc) each(enmcc_plus)           \
		each(wvegas) each(sbcc) each(dwc) each(mptcp_sbd) each(bbr) each(bbr3) each(dctcp) each(westwood)      \
		    each(htcp) each(illinois) each(scalable) each(vegas)

#define DECLARE(name) extern const struct rw_control rw_control_##name;
#define ENTER(name) &rw_control_##name,

RW_CONTROLS(DECLARE)
const struct rw_control *const rw_control_list[] = {RW_CONTROLS(ENTER) 0};
