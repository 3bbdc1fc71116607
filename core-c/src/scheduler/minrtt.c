/*
 * Lowest RTT first, as the out-of-tree MPTCP kernel scheduled (LowRTT in the SB-CC paper II.C).
 *
 *   the subflow in use with the lowest srtt, among those whose windows have room, fills its window from the queue's front
 *   receive window full and data waits: the subflow that would be next sends the oldest segment again, if every subflow
 *     that carried it has more than 4 times the srtt, or one of these has a window of at most 4 segments; the windows of
 *     slower subflows that carried it are halved, each at most once in its srtt
 *
 * The sources leave one thing open: here a subflow in loss state counts as unavailable, so that a backup may send.
 */
#include "sending.h"

enum { REINJECT, PENALIZE };
enum { SLOWER = 4, SMALL_WINDOW = 4 };

static const struct rw_option minrtt_options[] = {
    {"reinject", "on|off", 0, "the kernel's: a segment that fills the receive window is sent again on a faster subflow",
     RW_OPTION_CHOICE, 0, 0},
    {"penalize", "on|off", 0, "the kernel's: slow subflows that fill the receive window are halved", RW_OPTION_CHOICE,
     0, 0},
    {0}};

/* carried: a bit for each subflow that carried the segment before. */
static uint32_t next_subflow(const struct rw_sending *s, uint32_t in_use, uint32_t carried)
{
	uint32_t best = RW_NO_SUBFLOW;
	for (uint32_t i = 0; i < rw_subflow_count(s); i++) {
		if (!(in_use >> i & 1) || rw_space(&s->subflow[i]) == 0 || !rw_may_carry(carried, in_use, i))
			continue;
		if (best == RW_NO_SUBFLOW ||
		    rw_order_of(&s->subflow[i]) < rw_order_of(&s->subflow[best % RW_MAX_PATHS]))
			best = i;
	}
	return best;
}

static void open_the_window(const struct rw_sending *s, uint32_t in_use, struct rw_decision *d)
{
	uint32_t chosen = next_subflow(s, in_use, 0);
	if (chosen >= RW_MAX_PATHS)
		return;
	uint64_t srtt = rw_order_of(&s->subflow[chosen]);
	int holders = 0, all_slower = 1, small = 0;
	for (uint32_t i = 0; i < rw_subflow_count(s); i++) {
		const struct rw_sender_subflow *f = &s->subflow[i];
		if (i == chosen || !(s->queue.oldest_sent_on >> i & 1))
			continue;
		uint64_t theirs = rw_order_of(f);
		holders = 1;
		/* srtt < theirs / SLOWER, without the product */
		all_slower &= srtt < theirs / SLOWER || (srtt == theirs / SLOWER && theirs % SLOWER);
		small |= f->cwnd_q16 >> 16 <= SMALL_WINDOW;
		if (s->option[PENALIZE] == 0 && f->established && f->srtt_ns > srtt &&
		    f->since_penalty_ns >= f->srtt_ns)
			d->penalized |= 1u << i;
	}
	int again = holders && (all_slower || small) && !(s->queue.oldest_sent_on >> chosen & 1);
	if (!again || s->option[REINJECT] != 0)
		return;
	d->kind = RW_DECISION_REINJECT;
	d->subflow = chosen;
	d->first = s->queue.oldest;
	d->segments = 1;
}

static void minrtt_pick(const struct rw_sending *s, struct rw_decision *d)
{
	uint32_t in_use = rw_subflows_in_use(s);
	rw_wait(d);
	if (!rw_data_waits(&s->queue))
		return;
	if (rw_window_is_full(&s->queue)) {
		open_the_window(s, in_use, d);
		return;
	}
	uint32_t best = next_subflow(s, in_use, s->queue.span[0].sent_on);
	if (best < RW_MAX_PATHS)
		rw_take(s, in_use, best, 0, rw_space(&s->subflow[best]), d);
}

const struct rw_scheduler rw_scheduler_minrtt = {
    .name = "minrtt",
    .source = "MPTCP out-of-tree kernel's default scheduler; RFC 8684 for backups",
    .rule = "the lowest srtt of those with room; backups when no other can send",
    .deviations =
	"A subflow in loss state counts as unavailable, so that backups may send. Of several that carried the "
	"segment that fills the receive window, each must be 4 times slower, or one have a small window; all slower "
	"ones are halved, each at most once in its own srtt. The source leaves these open.",
    .options = minrtt_options,
    .pick = minrtt_pick,
};
