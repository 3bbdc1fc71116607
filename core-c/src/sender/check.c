/* The invariants of a sender, in builds that assert. */
#ifndef NDEBUG
#include "sender.h"

#include <assert.h>

/* A larger scoreboard is recounted only now and then. */
enum { COUNTED_ALWAYS = 512, COUNTED_OF = 64 };

void rw_sender_check(const struct rw_sender *s)
{
	const struct rw_scoreboard *b = &s->board;
	assert(rw_seq_diff(s->next, s->una) >= 0);
	assert(b->count > 0 || s->una == s->next);
	assert(rw_seq_diff(s->highest_sack, s->una) >= 0 && rw_seq_diff(s->next, s->highest_sack) >= 0);
	/* An episode ends within what was sent. */
	assert(s->state < RW_SENDER_CWR || rw_seq_diff(s->next, s->high) >= 0);
	assert(s->state <= RW_SENDER_LOSS && s->rack.window_steps >= 1 && s->segment_bytes > 0);
	if (b->count == 0)
		return;
	assert(rw_scoreboard_head(b)->start == s->una);
	if (b->count <= COUNTED_ALWAYS || b->work % COUNTED_OF == 0)
		rw_scoreboard_check(b, s->sack);
}
#endif
