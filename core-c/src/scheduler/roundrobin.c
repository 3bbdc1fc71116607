/*
 * Round robin (SB-CC paper II.C): the subflows in use take turns, `quantum` segments each; a subflow with a full
 * window is skipped.
 */
#include "sending.h"

enum { QUANTUM };

static const struct rw_option roundrobin_options[] = {{"quantum", "1 to 1024 segments", 1 << 16,
						       "segments of one turn; 1 alternates with every segment",
						       RW_OPTION_Q16, 1 << 16, 1024 << 16},
						      {0}};

static void roundrobin_pick(const struct rw_sending *s, struct rw_decision *d)
{
	uint32_t in_use = rw_subflows_in_use(s), n = rw_subflow_count(s);
	rw_wait(d);
	/* Without a previous subflow, the first is next. */
	uint32_t i = s->previous < n ? s->previous : n - 1;
	for (uint32_t turn = 0; turn < n; turn++) {
		i = i + 1 < n ? i + 1 : 0;
		uint64_t space = rw_space(&s->subflow[i % RW_MAX_PATHS]);
		if (in_use >> i & 1 && space &&
		    rw_take(s, in_use, i, 0, rw_min64(space, (uint64_t)s->option[QUANTUM] >> 16), d))
			return;
	}
}

const struct rw_scheduler rw_scheduler_roundrobin = {
    .name = "roundrobin",
    .source = "SB-CC paper II.C; Linux MPTCP roundrobin",
    .rule = "the next of those with room, in turns",
    .deviations = "none; one whose window is full is passed over.",
    .options = roundrobin_options,
    .pick = roundrobin_pick,
};
