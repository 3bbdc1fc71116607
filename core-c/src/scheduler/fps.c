/*
 * Forward prediction scheduling (Mirani et al., VTC 2010, as the SB-CC paper II.C summarises it).
 *
 *   M_r = the windows of the floor((R_j/2)/R_r) whole rounds: w, doubled up to ssthresh, then w + 1 each
 */
#include "forward.h"

static const struct rw_option fps_options[] = {RW_FORWARD_OPTIONS, {0}};

static uint64_t fps_forward(const struct rw_sending *s, uint32_t j, struct rw_forward *each)
{
	return rw_forward_sum(s, j, each, rw_whole_rounds);
}

static void fps_pick(const struct rw_sending *s, struct rw_decision *d) { rw_forward_pick(s, d, rw_whole_rounds); }

const struct rw_scheduler rw_scheduler_fps = {
    .name = "fps",
    .source = "Mirani, Boukhatem, Tran, VTC 2010; SB-CC paper II.C",
    .rule = "the fastest with room; j skips M = sum of whole rounds' windows of the faster in R_j/2",
    .deviations =
	"The paper was not at hand. Only subflows that are faster and can send count, also with a full window; skipped segments are those that "
	"nobody has been given; where no more than M is queued or the receive window ends before, j waits. M is at "
	"most the send buffer.",
    .options = fps_options,
    .pick = fps_pick,
    .forward = fps_forward,
};
