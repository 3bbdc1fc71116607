/* RACK (RFC 8985): a segment is lost when one that was sent later was delivered, and a round trip has passed since it was sent. */
#include "sender.h"

/* Was (t1, end1) sent after (t2, end2)? Segments that were sent at the same time were sent in sequence order. */
static int sent_after(int64_t t1, uint32_t end1, int64_t t2, uint32_t end2)
{
	return t1 > t2 || (t1 == t2 && rw_seq_diff(end1, end2) > 0);
}

void rw_rack_delivered(struct rw_sender *s, const struct rw_segment *g, int64_t now_ns)
{
	struct rw_rack *rack = &s->rack;
	int64_t rtt = now_ns - g->sent_ns;
	if (rtt < 0)
		rtt = 0;
	if (g->bits & RW_SEGMENT_EVER && s->rtt.least_ns && (uint64_t)rtt < s->rtt.least_ns)
		return; /* the ACK answers the original, not the retransmission */
	rack->advanced = 1;
	rack->rtt_ns = (uint64_t)rtt;
	if (sent_after(g->sent_ns, g->end, rack->sent_ns, rack->end)) {
		rack->sent_ns = g->sent_ns;
		rack->end = g->end;
	}
}

static uint64_t reordering_window_ns(const struct rw_sender *s)
{
	if (!s->rack.reordering_seen && (s->state >= RW_SENDER_RECOVERY || s->board.sacked_out >= s->rack.reordering))
		return 0;
	uint64_t window = s->rtt.least_ns / 4 * s->rack.window_steps, most = s->rtt.srtt_ns;
	return window < most ? window : most;
}

void rw_rack_mark_lost(struct rw_sender *s, int64_t now_ns)
{
	if (!s->rack.advanced)
		return;
	s->rack.advanced = 0;
	uint64_t wait = s->rack.rtt_ns + reordering_window_ns(s);
	for (uint32_t i = 0; i < s->board.count; i++) {
		struct rw_segment *g = rw_segment_at(&s->board, i);
		s->board.work++;
		if (g->bits & RW_SEGMENT_SACKED)
			continue;
		if (g->bits & RW_SEGMENT_LOST && !(g->bits & RW_SEGMENT_RETRANSMITTED))
			continue;
		/* Linux judges each transmission once. What an undo gave back and was lost all the same waits for a timeout. */
		if (g->bits & RW_SEGMENT_JUDGED)
			continue;
		if (!sent_after(s->rack.sent_ns, s->rack.end, g->sent_ns, g->end)) {
			if (g->bits & RW_SEGMENT_EVER)
				continue; /* sent again, out of order */
			break; /* originals lie in the order sent */
		}
		/* The kernel's clock counts microseconds. */
		if ((int64_t)(wait / 1000) - (now_ns - g->sent_ns) / 1000 <= 0) {
			rw_scoreboard_lose(&s->board, g);
			g->bits |= RW_SEGMENT_JUDGED;
		}
	}
}

void rw_sender_detect_losses(struct rw_sender *s, int64_t now_ns)
{
	s->rack.advanced = 1;
	rw_rack_mark_lost(s, now_ns);
}

/* 6.2.4: the window widens once in each round trip with a DSACK, and is narrow again after 16 recoveries. */
void rw_rack_update_window(struct rw_sender *s, int dsack)
{
	enum { PERSIST_RECOVERIES = 16, STEPS_MAX = 255 };
	struct rw_rack *rack = &s->rack;
	if (rack->dsack_round && rw_seq_diff(s->una, rack->dsack_round_end) >= 0)
		rack->dsack_round = 0;
	if (dsack && !rack->dsack_round) {
		rack->dsack_round = 1;
		rack->dsack_round_end = s->next;
		if (rack->window_steps < STEPS_MAX)
			rack->window_steps++;
		rack->window_persist = PERSIST_RECOVERIES;
	} else if (!rack->window_persist) {
		rack->window_steps = 1;
	}
}
