/* RACK (RFC 8985): a segment is lost when one that was sent later was delivered, and a round trip has passed since it was sent. */
#include "sender.h"

#include <stdlib.h>

enum { QUEUE_FIRST = 16 };

/* Whether (t1, end1) was sent after (t2, end2). Segments with the same send time were sent in sequence order. */
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

static struct rw_resent *resent_at(const struct rw_resent_queue *q, uint32_t i)
{
	return &q->entry[(q->first + i) & (q->capacity - 1)];
}

static enum rw_scoreboard_status make_room(struct rw_resent_queue *q)
{
	uint32_t capacity = q->capacity ? q->capacity * 2 : QUEUE_FIRST;
	struct rw_resent *entry = malloc(capacity * sizeof *entry);
	if (!entry)
		return RW_SCOREBOARD_NO_MEMORY;
	for (uint32_t i = 0; i < q->count; i++)
		entry[i] = *resent_at(q, i);
	free(q->entry);
	*q = (struct rw_resent_queue){entry, 0, q->count, capacity};
	return RW_SCOREBOARD_OK;
}

static enum rw_scoreboard_status append(struct rw_resent_queue *q, struct rw_resent entry)
{
	enum rw_scoreboard_status status = q->count == q->capacity ? make_room(q) : RW_SCOREBOARD_OK;
	if (!status)
		*resent_at(q, q->count++) = entry;
	return status;
}

enum rw_scoreboard_status rw_rack_copy(struct rw_rack *rack, const struct rw_rack *from)
{
	struct rw_resent_queue queue = rack->resent;
	enum rw_scoreboard_status status = RW_SCOREBOARD_OK;
	queue.first = queue.count = 0;
	for (uint32_t i = 0; i < from->resent.count && !status; i++)
		status = append(&queue, *resent_at(&from->resent, i));
	*rack = *from;
	rack->resent = queue;
	return status;
}

/*
 * Whether it is in flight, as far as the sender knows. Linux judges each transmission once: a segment that an undo restored, and that
 * was lost all the same, waits for a timeout.
 */
static int may_be_lost(const struct rw_segment *g)
{
	int known_lost = g->bits & RW_SEGMENT_LOST && !(g->bits & RW_SEGMENT_RETRANSMITTED);
	return !(g->bits & (RW_SEGMENT_SACKED | RW_SEGMENT_JUDGED)) && !known_lost;
}

static void judge_lost(struct rw_scoreboard *b, struct rw_segment *g)
{
	rw_scoreboard_lose(b, g);
	g->bits |= RW_SEGMENT_JUDGED;
}

static int by_time(const void *a, const void *b)
{
	const struct rw_resent *x = a, *y = b;
	if (x->sent_ns != y->sent_ns)
		return x->sent_ns < y->sent_ns ? -1 : 1;
	return rw_seq_diff(x->start, y->start);
}

enum rw_scoreboard_status rw_rack_restart(struct rw_sender *s)
{
	struct rw_resent_queue *q = &s->rack.resent;
	s->rack.originals = s->una;
	q->first = q->count = 0;
	for (struct rw_cursor c = rw_cursor_from(&s->board, 0); c.at; c = rw_cursor_next(&s->board, c)) {
		s->board.work++;
		if (!(c.at->bits & RW_SEGMENT_EVER) || !may_be_lost(c.at))
			continue;
		enum rw_scoreboard_status status = append(q, (struct rw_resent){c.at->start, c.at->end, c.at->sent_ns});
		if (status)
			return status;
	}
	if (q->count)
		qsort(q->entry, q->count, sizeof *q->entry, by_time);
	return RW_SCOREBOARD_OK;
}

/* Entries that were acknowledged or sent once more leave the queue only at its head, so it is rebuilt beyond twice the window. */
enum rw_scoreboard_status rw_rack_resent(struct rw_sender *s, const struct rw_transmission *sent)
{
	struct rw_resent_queue *q = &s->rack.resent;
	if (q->count == q->capacity && q->capacity >= QUEUE_FIRST && q->capacity / 2 > s->board.count)
		return rw_rack_restart(s);
	return append(q, (struct rw_resent){sent->start, sent->end, sent->sent_ns});
}

/* The time until a segment that was sent then counts as lost; 0 or less: it does now. Linux's clock counts microseconds. */
static int64_t left_us(int64_t sent_ns, uint64_t wait_ns, int64_t now_ns)
{
	return (int64_t)(wait_ns / 1000) - (now_ns - sent_ns) / 1000;
}

static int sent_before_delivered(const struct rw_rack *rack, const struct rw_segment *g)
{
	return sent_after(rack->sent_ns, rack->end, g->sent_ns, g->end);
}

/* Marks segments that were sent once, up to the first one that may still be delivered. */
static void lose_originals(struct rw_sender *s, uint64_t wait_ns, int64_t now_ns)
{
	struct rw_rack *rack = &s->rack;
	if (rw_seq_diff(rack->originals, s->una) < 0)
		rack->originals = s->una;
	for (struct rw_cursor c = rw_scoreboard_find(&s->board, rack->originals); c.at;
	     c = rw_cursor_next(&s->board, c)) {
		struct rw_segment *g = c.at;
		s->board.work++;
		if (!(g->bits & RW_SEGMENT_EVER) && may_be_lost(g)) {
			if (!sent_before_delivered(rack, g) || left_us(g->sent_ns, wait_ns, now_ns) > 0)
				break;
			judge_lost(&s->board, g);
		}
		rack->originals = g->end;
	}
}

/* Returns whether none of the segments that were retransmitted then may still be delivered. */
static int lose_resent(struct rw_sender *s, const struct rw_resent *resent)
{
	int done = 1;
	if (rw_seq_diff(resent->end, s->una) <= 0)
		return 1;
	for (struct rw_cursor c = rw_scoreboard_find(&s->board, resent->start); c.at;
	     c = rw_cursor_next(&s->board, c)) {
		struct rw_segment *g = c.at;
		s->board.work++;
		if (rw_seq_diff(g->start, resent->end) >= 0)
			break;
		if (g->sent_ns != resent->sent_ns || !(g->bits & RW_SEGMENT_EVER) || !may_be_lost(g))
			continue;
		if (sent_before_delivered(&s->rack, g))
			judge_lost(&s->board, g);
		else
			done = 0;
	}
	return done;
}

/* Marks retransmitted segments in the same way. Of segments with the same send time, some may have been sent later. */
static void lose_all_resent(struct rw_sender *s, uint64_t wait_ns, int64_t now_ns)
{
	struct rw_resent_queue *q = &s->rack.resent;
	for (uint32_t i = 0; i < q->count;) {
		const struct rw_resent *resent = resent_at(q, i);
		if (resent->sent_ns > s->rack.sent_ns || left_us(resent->sent_ns, wait_ns, now_ns) > 0)
			break;
		int done = lose_resent(s, resent);
		if (done && i == 0) {
			q->first = (q->first + 1) & (q->capacity - 1);
			q->count--;
		} else {
			i++;
		}
	}
}

/*
 * A segment is lost when it was sent before a delivered one, and that one's round trip and the reordering window have passed since.
 * Segments are visited in the order of their last transmission, up to the first one that is not lost; segments that are lost or
 * SACKed are not visited again. So the cost of an ACK does not depend on the window.
 */
void rw_rack_mark_lost(struct rw_sender *s, int64_t now_ns)
{
	if (!s->rack.advanced)
		return;
	s->rack.advanced = 0;
	uint64_t wait_ns = s->rack.rtt_ns + reordering_window_ns(s);
	lose_originals(s, wait_ns, now_ns);
	lose_all_resent(s, wait_ns, now_ns);
}

uint64_t rw_sender_reordering_wait_ns(const struct rw_sender *s, int64_t now_ns)
{
	const struct rw_rack *rack = &s->rack;
	const struct rw_scoreboard *b = &s->board;
	uint64_t wait_ns = rack->rtt_ns + reordering_window_ns(s);
	int64_t longest_us = 0, left;
	uint32_t from = rw_seq_diff(rack->originals, s->una) < 0 ? s->una : rack->originals;
	for (struct rw_cursor c = rw_scoreboard_find(b, from); c.at; c = rw_cursor_next(b, c)) {
		if (c.at->bits & RW_SEGMENT_EVER || !may_be_lost(c.at))
			continue;
		if (!sent_before_delivered(rack, c.at))
			break;
		if ((left = left_us(c.at->sent_ns, wait_ns, now_ns)) > longest_us)
			longest_us = left;
	}
	for (uint32_t i = 0; i < rack->resent.count; i++) {
		const struct rw_resent *resent = resent_at(&rack->resent, i);
		struct rw_cursor c = rw_scoreboard_find(b, resent->start);
		if (resent->sent_ns > rack->sent_ns)
			break;
		if (c.at && c.at->sent_ns == resent->sent_ns && may_be_lost(c.at) &&
		    sent_before_delivered(rack, c.at) &&
		    (left = left_us(resent->sent_ns, wait_ns, now_ns)) > longest_us)
			longest_us = left;
	}
	return (uint64_t)longest_us * 1000;
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
