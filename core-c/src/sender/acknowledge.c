/* The effects of an ACK on its sender: SACK, round trip, losses, recovery and its end, undo, F-RTO. */
#include "sender.h"

#include <string.h>

/* The changes by one ACK, during its processing. */
struct ack_work {
	const struct rw_sender_ack *ack;
	struct rw_sender_answer *answer;
	uint32_t una_before;
	uint32_t highest_before; /* highest number SACKed before this ACK, whose own SACKs are no sign of reordering */
	uint32_t reordered_at; /* the lowest segment that was delivered out of order, with `reordered` */
	uint8_t reordered;
	uint8_t data_sacked, dsack, dsack_probe;
	uint8_t original_delivered; /* a segment of the episode that was sent once was delivered */
	uint8_t retransmission_lost;
	uint8_t retransmitted_acked; /* a retransmitted segment was acknowledged */
	/* When the first and the last segment were sent that were acknowledged, that were SACKed, of those that were sent once;
	   0: none. */
	int64_t first_acked_ns, last_acked_ns, first_sacked_ns, last_sacked_ns;
	int64_t newest_sent_ns; /* when the newest segment that was delivered left last; 0: none was */
};

static uint32_t segments_of(const struct rw_sender *s, uint32_t bytes)
{
	return (bytes + s->segment_bytes - 1) / s->segment_bytes;
}

/* A segment that begins at `low` was delivered after one that was sent later. */
static void note_reordering(struct rw_sender *s, uint32_t low)
{
	if (rw_seq_diff(low, s->highest_sack) >= 0)
		return;
	uint32_t segments = segments_of(s, s->highest_sack - low);
	if (segments > s->rack.reordering)
		s->rack.reordering = segments < RW_REORDERING_MAX ? segments : RW_REORDERING_MAX;
	s->rack.reordering_seen = 1;
}

/* RFC 3522: whether this ACK answers a packet that was sent before the one with timestamp ts. */
static int echoes_before(const struct rw_sender_ack *ack, uint32_t ts)
{
	return ack->has_timestamp && ack->ts_echo && rw_seq_diff(ack->ts_echo, ts) < 0;
}

static int echoes_before_retransmission(const struct rw_sender *s, const struct rw_sender_ack *ack)
{
	return s->undo.has_retransmit_ts && echoes_before(ack, s->undo.retransmit_ts);
}

/* A segment that was sent once and lies below what was SACKed before was delivered out of order. */
static void see_reordering(struct ack_work *w, const struct rw_segment *g)
{
	if (rw_seq_diff(g->start, w->highest_before) < 0 &&
	    (!w->reordered || rw_seq_diff(g->start, w->reordered_at) < 0)) {
		w->reordered = 1;
		w->reordered_at = g->start;
	}
}

static void see_delivered(struct ack_work *w, const struct rw_segment *g)
{
	if (g->sent_ns > w->newest_sent_ns)
		w->newest_sent_ns = g->sent_ns;
}

/*
 * SACK (RFC 2018, RFC 2883)
 */

static void sack_segment(struct rw_sender *s, struct ack_work *w, struct rw_segment *g)
{
	struct rw_scoreboard *b = &s->board;
	if (g->bits & RW_SEGMENT_SACKED)
		return;
	if (g->bits & RW_SEGMENT_EVER) {
		if (g->bits & RW_SEGMENT_LOST && g->bits & RW_SEGMENT_RETRANSMITTED) {
			g->bits &= (uint8_t)~(RW_SEGMENT_LOST | RW_SEGMENT_RETRANSMITTED);
			b->lost_out--;
			b->retrans_out--;
		}
	} else {
		see_reordering(w, g);
		if (rw_seq_diff(g->end, s->high) <= 0)
			w->original_delivered = 1;
		if (!w->first_sacked_ns)
			w->first_sacked_ns = g->sent_ns;
		w->last_sacked_ns = g->sent_ns;
	}
	if (g->bits & RW_SEGMENT_LOST) {
		g->bits &= (uint8_t)~RW_SEGMENT_LOST;
		b->lost_out--;
	}
	rw_rack_delivered(s, g, w->ack->time_ns);
	see_delivered(w, g);
	rw_scoreboard_touch(b, g->end);
	g->bits |= RW_SEGMENT_SACKED;
	g->sacked_to = g->end;
	b->sacked_out++;
	w->answer->delivered++;
	w->data_sacked = 1;
}

/*
 * SACKs the segments within [start, end). Of a run that was SACKed before, only the first segment is visited; it has the end of
 * the run.
 */
static void sack_range(struct rw_sender *s, struct ack_work *w, uint32_t start, uint32_t end)
{
	struct rw_scoreboard *b = &s->board;
	struct rw_segment *run = NULL; /* everything from it to c is SACKed */
	struct rw_cursor c = rw_scoreboard_find(b, start);
	while (c.at && rw_seq_diff(c.at->end, end) <= 0) {
		struct rw_segment *g = c.at;
		b->work++;
		if (rw_seq_diff(g->start, start) < 0) {
			c = rw_cursor_next(b, c);
			continue;
		}
		run = run ? run : g;
		sack_segment(s, w, g);
		run->sacked_to = g->sacked_to;
		c = g->sacked_to == g->end ? rw_cursor_next(b, c) : rw_scoreboard_find(b, g->sacked_to);
	}
}

/* Only SACK blocks that the ACK before did not have. */
static void sack_new_part(struct rw_sender *s, struct ack_work *w, uint32_t start, uint32_t end)
{
	for (uint8_t k = 0; k < s->seen_sacks; k++) {
		struct rw_range seen = s->seen_sack[k];
		if (rw_seq_diff(seen.start, start) >= 0 && rw_seq_diff(seen.end, end) <= 0) {
			if (seen.start != start)
				sack_range(s, w, start, seen.start);
			else if (seen.end == end)
				return;
			/* A segment across the old edge was not covered whole before. */
			const struct rw_segment *edge = rw_scoreboard_find(&s->board, seen.end).at;
			uint32_t from = edge ? edge->start : seen.end;
			if (rw_seq_diff(from, seen.end) > 0)
				from = seen.end;
			start = rw_seq_diff(from, start) > 0 ? from : start;
			break;
		}
	}
	sack_range(s, w, start, end);
}

/* One spurious retransmission fewer is missing for an undo of the reduction. */
static void count_spurious(struct rw_undo *undo, uint32_t end, uint32_t segments)
{
	if (!undo->possible || undo->retransmits <= 0 || rw_seq_diff(end, undo->mark) <= 0)
		return;
	undo->retransmits = (uint32_t)undo->retransmits > segments ? undo->retransmits - (int32_t)segments : 0;
}

/*
 * A DSACK. If more segments arrived twice than were sent twice, the network duplicated them, and Linux ignores DSACKs from then on.
 */
static void see_duplicate(struct rw_sender *s, struct ack_work *w, struct rw_range range)
{
	uint32_t segments = segments_of(s, range.end - range.start);
	s->dsacked += segments;
	if (s->dsacked > s->retransmitted)
		return;
	s->spurious += segments;
	w->dsack = 1;
	w->answer->delivered += segments; /* it left the network, though it was not needed */
	w->dsack_probe = s->probe.outstanding && segments == 1 && range.end == s->probe.high;
	if (rw_seq_diff(range.end, s->una) <= 0) {
		count_spurious(&s->undo, range.end, segments);
		return;
	}
	for (struct rw_cursor c = rw_scoreboard_find(&s->board, range.start); c.at; c = rw_cursor_next(&s->board, c)) {
		const struct rw_segment *g = c.at;
		s->board.work++;
		if (rw_seq_diff(g->end, range.end) > 0)
			break;
		if (!(g->bits & RW_SEGMENT_EVER))
			continue;
		count_spurious(&s->undo, g->end, 1);
		if (g->bits & RW_SEGMENT_SACKED)
			see_reordering(w, g);
	}
}

/* RFC 2883 4: the first block reports a duplicate when it lies below the ACK or within the second block. */
static int is_dsack(const struct rw_sender_ack *ack)
{
	struct rw_range first = ack->sack[0];
	if (rw_seq_diff(first.start, ack->ack) < 0)
		return 1;
	return ack->sacks > 1 && rw_seq_diff(first.end, ack->sack[1].end) <= 0 &&
	       rw_seq_diff(first.start, ack->sack[1].start) >= 0;
}

static void read_sacks(struct rw_sender *s, struct ack_work *w)
{
	const struct rw_sender_ack *ack = w->ack;
	struct rw_range kept[RW_SACK_BLOCKS_MAX];
	uint8_t keep = 0;
	for (uint8_t k = 0; k < ack->sacks; k++) {
		struct rw_range range = ack->sack[k];
		if (rw_seq_diff(range.end, range.start) <= 0 || rw_seq_diff(range.end, s->next) > 0)
			continue;
		if (k == 0 && is_dsack(ack)) {
			see_duplicate(s, w, range);
			continue;
		}
		if (rw_seq_diff(range.start, s->una) < 0)
			continue;
		/* In sequence order, as the kernel reads them: RACK and the round trip follow the last and the first of them. */
		uint8_t at = keep++;
		for (; at && rw_seq_diff(range.start, kept[at - 1].start) < 0; at--)
			kept[at] = kept[at - 1];
		kept[at] = range;
	}
	for (uint8_t k = 0; k < keep; k++)
		sack_new_part(s, w, kept[k].start, kept[k].end);
	for (uint8_t k = 0; k < keep; k++)
		if (rw_seq_diff(kept[k].end, s->highest_sack) > 0)
			s->highest_sack = kept[k].end;
	memcpy(s->seen_sack, kept, sizeof kept[0] * keep);
	s->seen_sacks = keep;
}

/*
 * The cumulative ACK
 */

/* Removes the acknowledged segment g from the counts. */
static void acknowledge_segment(struct rw_sender *s, struct ack_work *w, const struct rw_segment *g)
{
	w->answer->data_acked = 1;
	if (g->bits & RW_SEGMENT_EVER) {
		if (g->bits & RW_SEGMENT_RETRANSMITTED)
			s->board.retrans_out--;
		w->retransmitted_acked = 1;
	} else if (!(g->bits & RW_SEGMENT_SACKED)) {
		w->last_acked_ns = g->sent_ns;
		if (!w->first_acked_ns)
			w->first_acked_ns = g->sent_ns;
		see_reordering(w, g);
		if (rw_seq_diff(g->end, s->high) <= 0)
			w->original_delivered = 1;
	}
	if (g->bits & RW_SEGMENT_SACKED) {
		s->board.sacked_out--;
	} else {
		w->answer->delivered++;
		see_delivered(w, g);
		/* An answer to a packet before this retransmission is no evidence about it (RFC 8985 6.2, step 2). */
		if (!(g->bits & RW_SEGMENT_EVER && g->ts_value && echoes_before(w->ack, g->ts_value)))
			rw_rack_delivered(s, g, w->ack->time_ns);
	}
	if (g->bits & RW_SEGMENT_LOST)
		s->board.lost_out--;
	if (g->bits & RW_SEGMENT_UNSEEN)
		w->answer->unseen_bytes += g->end - g->start;
}

/* Takes acknowledged segments off the scoreboard. */
static void drop_acknowledged(struct rw_sender *s, struct ack_work *w, uint32_t ack)
{
	struct rw_segment *g;
	while ((g = rw_scoreboard_head(&s->board))) {
		if (rw_seq_diff(g->end, ack) > 0) {
			if (rw_seq_diff(g->start, ack) < 0)
				g->start = ack;
			break;
		}
		acknowledge_segment(s, w, g);
		rw_scoreboard_drop_head(&s->board);
	}
}

static void advance(struct rw_sender *s, struct ack_work *w)
{
	uint32_t ack = w->ack->ack;
	if (rw_seq_diff(ack, s->next) > 0) {
		uint32_t beyond = ack - s->next;
		drop_acknowledged(s, w, s->next);
		w->answer->beyond_bytes = beyond;
		w->answer->delivered += segments_of(s, beyond);
		w->answer->data_acked = 1;
		s->next = ack;
	} else {
		drop_acknowledged(s, w, ack);
	}
	/* RFC 5682 2.1: without SACK, an ACK that covers a retransmission does not show that originals arrived. */
	if (!s->sack && w->retransmitted_acked)
		w->original_delivered = 0;
	s->una = ack;
	if (rw_seq_diff(s->highest_sack, s->una) < 0)
		s->highest_sack = s->una;
}

/*
 * RFC 6582: without SACK, each duplicate ACK stands for one delivered segment. At the end of an episode it does not, because it may
 * answer a retransmission.
 */
static void count_duplicate(struct rw_sender *s, struct ack_work *w)
{
	struct rw_scoreboard *b = &s->board;
	int ends = s->state >= RW_SENDER_RECOVERY && w->una_before == s->high;
	if (ends && !w->answer->advanced) {
		b->sacked_out = 0;
	} else if (w->answer->duplicate && b->sacked_out + (b->lost_out ? b->lost_out : 1) < b->count) {
		b->sacked_out++;
		w->answer->delivered++;
	} else if (w->answer->advanced) {
		/* One of the segments that the ACK covers filled the hole, the others had a duplicate ACK each. */
		uint32_t covered = w->answer->delivered, most = covered ? covered - 1 : 0;
		uint32_t counted = b->sacked_out < most ? b->sacked_out : most;
		int recovers = s->state == RW_SENDER_RECOVERY && rw_seq_diff(s->una, s->high) < 0;
		w->answer->delivered -= counted;
		b->sacked_out = recovers ? b->sacked_out - counted : 0;
		if (b->sacked_out > b->count - b->lost_out)
			b->sacked_out = b->count - b->lost_out;
	}
}

/*
 * Round trips
 */

static uint64_t since(int64_t sent_ns, int64_t now_ns) { return now_ns > sent_ns ? (uint64_t)(now_ns - sent_ns) : 1; }

/* RFC 6298 3 (Karn): no sample if the ACK covers a retransmission. */
static void measure_round_trip(struct rw_sender *s, struct ack_work *w)
{
	struct rw_sender_answer *answer = w->answer;
	int64_t now_ns = w->ack->time_ns, acked_ns = w->retransmitted_acked ? 0 : w->first_acked_ns;
	int64_t oldest_ns = acked_ns ? acked_ns : w->first_sacked_ns;
	int64_t newest_ns = w->last_sacked_ns ? w->last_sacked_ns : acked_ns ? w->last_acked_ns : 0;
	if (!s->untimed && oldest_ns)
		answer->rtt_ns = since(oldest_ns, now_ns);
	if (!s->untimed && newest_ns)
		answer->rtt_newest_ns = since(newest_ns, now_ns);
	/* If all of it was retransmitted, the echoed timestamp names the transmission that arrived (RFC 7323 4.1). */
	if (!answer->rtt_ns && answer->data_acked && w->ack->echo_rtt_ns) {
		answer->rtt_ns = answer->rtt_newest_ns = w->ack->echo_rtt_ns;
		answer->rtt_by_echo = 1;
	}
	if (answer->rtt_ns)
		rw_round_trip_sample(&s->rtt, answer->rtt_ns, s->una, s->next);
}

/*
 * States
 */

static void reopen(struct rw_sender *s)
{
	const struct rw_scoreboard *b = &s->board;
	s->state = b->sacked_out || b->lost_out || b->retrans_out ? RW_SENDER_DISORDER : RW_SENDER_OPEN;
	if (!b->retrans_out)
		s->undo.has_retransmit_ts = 0;
}

static int may_undo(const struct rw_sender *s, const struct ack_work *w)
{
	return s->undo.possible && (s->undo.retransmits == 0 || echoes_before_retransmission(s, w->ack));
}

static void undo(struct rw_sender *s, struct ack_work *w)
{
	w->answer->steps |= RW_STEP_UNDO;
	s->undo.possible = 0;
}

/* Clears all loss marks; RACK will find losses again. */
static void find_lost(struct rw_sender *s, struct ack_work *w)
{
	int any = s->board.lost_out > 0;
	for (struct rw_cursor c = rw_cursor_from(&s->board, 0); s->board.lost_out; c = rw_cursor_next(&s->board, c)) {
		s->board.work++;
		if (c.at->bits & RW_SEGMENT_LOST) {
			c.at->bits &= (uint8_t)~RW_SEGMENT_LOST;
			s->board.lost_out--;
		}
	}
	if (any && rw_rack_restart(s) != RW_SCOREBOARD_OK)
		w->answer->no_memory = 1;
}

/* A tail loss probe repaired a loss when the ACK passes it without a DSACK (RFC 8985 7.4). */
static void end_probe(struct rw_sender *s, const struct ack_work *w)
{
	if (!s->probe.outstanding || rw_seq_diff(w->ack->ack, s->probe.high) < 0)
		return;
	if (!s->probe.retransmitted || w->dsack_probe) {
		s->probe.outstanding = 0;
	} else if (rw_seq_diff(w->ack->ack, s->probe.high) > 0) {
		s->probe.outstanding = 0;
		w->answer->steps |= RW_STEP_TAIL_LOSS;
		s->high = s->next;
		reopen(s);
	} else if (!w->answer->advanced && !w->data_sacked) {
		s->probe.outstanding = 0; /* a pure duplicate: both arrived */
	}
}

/* RFC 6582: three duplicate ACKs, or an ACK that leaves the end of the recovery to be acknowledged: the head is lost. */
static void lose_head_without_sack(struct rw_sender *s, const struct ack_work *w)
{
	int begins = s->state < RW_SENDER_RECOVERY && s->board.sacked_out >= s->rack.reordering;
	int goes_on = s->state == RW_SENDER_RECOVERY && w->answer->advanced;
	struct rw_segment *head = rw_scoreboard_head(&s->board);
	if ((begins || goes_on) && head && !(head->bits & RW_SEGMENT_RETRANSMITTED))
		rw_scoreboard_lose(&s->board, head);
}

static void identify_loss(struct rw_sender *s, struct ack_work *w)
{
	uint32_t retransmitted = s->board.retrans_out;
	if (s->sack)
		rw_rack_mark_lost(s, w->ack->time_ns);
	else
		lose_head_without_sack(s, w);
	w->retransmission_lost = s->board.retrans_out < retransmitted;
}

static void try_open(struct rw_sender *s, const struct ack_work *w)
{
	if (w->ack->ece && s->state < RW_SENDER_CWR) {
		s->state = RW_SENDER_CWR;
		s->undo.possible = 0;
		s->high = s->next;
		s->probe.outstanding = 0;
		w->answer->steps |= RW_STEP_CWR | RW_STEP_NO_UNDO;
	}
	if (s->state != RW_SENDER_CWR)
		reopen(s);
}

static void recover(struct rw_sender *s, const struct ack_work *w)
{
	if (rw_sender_enter_recovery(s))
		w->answer->steps |= RW_STEP_RECOVERY;
	if (w->ack->ece)
		w->answer->steps |= RW_STEP_NO_UNDO;
}

/*
 * All data from before the episode is acknowledged, and nothing beyond. Without SACK, duplicate ACKs of retransmissions may still
 * arrive, so the sender waits for an ACK of newer data (RFC 6582 3.2). Returns whether it waits.
 */
static int waits_for_newer(struct rw_sender *s)
{
	if (s->sack || s->una != s->high)
		return 0;
	/* Retransmissions from here on belong to another loss, whose timestamp RFC 3522 uses. */
	if (!s->board.retrans_out)
		s->undo.has_retransmit_ts = 0;
	return 1;
}

/* The loss episode is over: the sender goes on as in RW_SENDER_OPEN. */
static void end_loss(struct rw_sender *s, struct ack_work *w)
{
	w->answer->steps |= RW_STEP_OPEN;
	reopen(s);
}

static void undo_timeout(struct rw_sender *s, struct ack_work *w)
{
	find_lost(s, w);
	undo(s, w);
	s->f_rto = 0;
	end_loss(s, w);
}

/* In RW_SENDER_LOSS: F-RTO (RFC 5682) decides whether the timeout was spurious. Returns whether the episode is over. */
static int process_loss(struct rw_sender *s, struct ack_work *w)
{
	int recovered = rw_seq_diff(s->una, s->high) >= 0;
	if ((w->answer->advanced && may_undo(s, w)) || (s->f_rto && w->original_delivered && s->undo.possible)) {
		undo_timeout(s, w);
		return 1;
	}
	if (s->f_rto) {
		if (rw_seq_diff(s->next, s->high) > 0) {
			if (w->data_sacked || w->answer->duplicate)
				s->f_rto = 0;
		} else if (w->answer->advanced && !recovered) {
			s->high = s->next;
			w->answer->asks_for_new = 1;
			return 0;
		}
	}
	if (!recovered)
		return 0;
	if (may_undo(s, w))
		undo(s, w);
	if (waits_for_newer(s))
		return 0;
	s->undo.possible = 0;
	end_loss(s, w);
	return 1;
}

/* All data that was outstanding when the episode began is acknowledged. Returns whether the sender must still wait. */
static int end_episode(struct rw_sender *s, struct ack_work *w)
{
	if (s->state == RW_SENDER_CWR && s->una != s->high) {
		w->answer->steps |= RW_STEP_EXIT;
		s->state = RW_SENDER_OPEN;
	} else if (s->state == RW_SENDER_RECOVERY) {
		int undone = may_undo(s, w);
		if (undone)
			undo(s, w);
		if (waits_for_newer(s))
			return 1;
		if (!undone && s->undo.possible)
			w->answer->steps |= RW_STEP_EXIT;
		if (s->rack.window_persist)
			s->rack.window_persist--;
		s->state = RW_SENDER_OPEN;
	}
	return 0;
}

static void process_recovery(struct rw_sender *s, struct ack_work *w)
{
	if (w->answer->advanced && s->undo.possible && echoes_before_retransmission(s, w->ack)) {
		note_reordering(s, w->una_before);
		if (s->board.retrans_out)
			return;
		find_lost(s, w);
		undo(s, w);
		reopen(s);
	} else if (s->undo.possible && s->undo.retransmits == 0) {
		undo(s, w);
		try_open(s, w);
	}
	identify_loss(s, w);
	if (s->state != RW_SENDER_RECOVERY && s->board.lost_out)
		recover(s, w);
}

/* Handles a dubious ACK: its evidence about the network, and the next state. */
static void react(struct rw_sender *s, struct ack_work *w)
{
	int over = 1;
	if (w->ack->ece)
		w->answer->steps |= RW_STEP_NO_UNDO;
	if (s->state == RW_SENDER_OPEN)
		s->undo.has_retransmit_ts = 0;
	else if (rw_seq_diff(s->una, s->high) >= 0 && end_episode(s, w))
		return;
	if (s->state == RW_SENDER_RECOVERY) {
		process_recovery(s, w);
		return;
	}
	if (s->state == RW_SENDER_LOSS)
		over = process_loss(s, w);
	else if (s->state <= RW_SENDER_DISORDER && s->undo.possible && s->undo.retransmits == 0)
		undo(s, w);
	identify_loss(s, w);
	if (!over && !w->retransmission_lost)
		return;
	if (s->board.lost_out)
		recover(s, w);
	else
		try_open(s, w);
}

/*
 * RFC 6298 5.3. A SACK restarts the timer only if its data left no later than the last transmission of the head. SACKs of newer data
 * would defer the timeout of a lost retransmission for ever.
 */
static void restart_timer(struct rw_sender *s, const struct ack_work *w)
{
	int sacked_older = w->data_sacked && w->first_sacked_ns && s->board.count &&
			   w->first_sacked_ns <= rw_scoreboard_head(&s->board)->sent_ns;
	if (w->answer->advanced)
		s->backoff = 0;
	if (w->answer->data_acked || sacked_older)
		s->timer_ns = w->ack->time_ns;
}

/* Whether the receiver's window has changed. A duplicate ACK with a smaller window does not change it. */
static int takes_window(const struct rw_sender *s, const struct rw_sender_ack *ack)
{
	if (ack->window_bytes == s->window_bytes)
		return 0;
	return rw_seq_diff(ack->ack, s->una) > 0 || ack->carries_data || ack->window_bytes > s->window_bytes ||
	       ack->window_bytes == 0;
}

void rw_sender_acknowledge(struct rw_sender *s, const struct rw_sender_ack *ack, struct rw_sender_answer *answer)
{
	struct ack_work w = {.ack = ack,
			     .answer = answer,
			     .una_before = s->una,
			     .highest_before = s->board.sacked_out ? s->highest_sack : s->una};
	int32_t ahead = rw_seq_diff(ack->ack, s->una);
	int window_update = s->window_bytes != UINT32_MAX && takes_window(s, ack);
	int outstanding = s->board.count > 0 || rw_seq_diff(ack->ack, s->next) > 0;
	uint32_t losses_before = s->board.losses;
	memset(answer, 0, sizeof *answer);
	if (s->rate)
		rw_delivery_rate_begin_ack(s->rate);
	if (s->window_bytes == UINT32_MAX || window_update)
		s->window_bytes = ack->window_bytes;
	if (ahead < 0 || ahead > RW_SEQUENCE_JUMP_MAX) {
		answer->ignored = 1;
		return;
	}
	if (ack->sacks && s->sack)
		read_sacks(s, &w);
	advance(s, &w);
	answer->advanced = ahead > 0;
	answer->still_sacked = s->board.sacked_out;
	answer->duplicate = !answer->advanced && !window_update && !ack->carries_data && outstanding && !w.dsack;
	if (!s->sack)
		count_duplicate(s, &w);
	if (w.reordered)
		note_reordering(s, w.reordered_at);
	measure_round_trip(s, &w);
	rw_rack_update_window(s, w.dsack && s->rack.reordering_seen && !w.dsack_probe);
	end_probe(s, &w);
	int dubious = answer->duplicate || w.data_sacked || ack->ece || w.dsack || s->state != RW_SENDER_OPEN;
	if ((outstanding && dubious) || w.dsack)
		react(s, &w);
	answer->newly_lost = s->board.losses - losses_before;
	if (rw_sender_reducing(s))
		answer->steps |= RW_STEP_REDUCE;
	else if (answer->data_acked || (s->rack.reordering > s->threshold && w.data_sacked))
		answer->steps |= RW_STEP_RAISE;
	restart_timer(s, &w);
	if (s->rate) {
		struct rw_delivered delivered = {ack->time_ns, w.newest_sent_ns, answer->rtt_newest_ns,
						 answer->delivered};
		answer->no_memory |= (uint8_t)rw_sender_sample(s, &delivered, &answer->rate);
	}
	rw_sender_check(s);
}
