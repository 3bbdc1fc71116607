/* Packets that the sender sends: new data, retransmissions, probes; and the timers that release them. */
#include "sender.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

#define MS 1000000ull
/* RFC 8985 7.2: the probe waits two round trips and, in Linux, 2 ms. */
#define PROBE_SLACK_NS (2 * MS)

enum { BACKOFF_COUNTED = 15, IDLE_TIMEOUTS_MAX = 64 };

void rw_sender_open(struct rw_sender *s, uint32_t segment_bytes, int sack, uint32_t segments_max,
		    struct rw_budget *budget)
{
	memset(s, 0, sizeof *s);
	s->board.segments_max = segments_max;
	s->board.budget = budget;
	s->segment_bytes = s->board.typical_bytes = segment_bytes;
	s->sack = (uint8_t)sack;
	s->threshold = s->rack.reordering = RW_DUPLICATE_ACKS;
	s->rack.window_steps = 1;
	s->window_bytes = UINT32_MAX;
}

void rw_sender_close(struct rw_sender *s)
{
	rw_scoreboard_close(&s->board);
	free(s->rack.resent.entry);
	s->rack.resent = (struct rw_resent_queue){NULL, 0, 0, 0};
	if (s->rate)
		rw_delivery_rate_close(s->rate);
	s->seen_sacks = s->backoff = 0;
}

void rw_sender_start(struct rw_sender *s, uint32_t sequence)
{
	s->una = s->next = s->high = s->highest_sack = s->rtt.sequence = s->rack.originals = s->board.touched =
	    sequence;
}

void rw_sender_forget(struct rw_sender *s, uint32_t sequence)
{
	rw_scoreboard_clear(&s->board);
	s->una = s->next = s->high = s->highest_sack = s->rack.originals = s->board.touched = sequence;
	s->rack.resent.first = s->rack.resent.count = 0;
	if (s->rate)
		rw_delivery_rate_forget(s->rate);
	s->state = RW_SENDER_OPEN;
	s->probe.outstanding = s->undo.possible = 0;
	s->seen_sacks = s->backoff = 0;
}

enum rw_scoreboard_status rw_sender_copy(struct rw_sender *s, const struct rw_sender *from)
{
	enum rw_scoreboard_status status = rw_scoreboard_copy(&s->board, &from->board);
	if (!status)
		status = rw_rack_copy(&s->rack, &from->rack);
	if (status)
		return status;
	struct rw_scoreboard board = s->board;
	struct rw_rack rack = s->rack;
	struct rw_delivery_rate *rate = s->rate;
	*s = *from;
	s->board = board;
	s->rack = rack;
	s->rate = rate;
	rw_sender_check(s);
	return RW_SCOREBOARD_OK;
}

/* When the oldest packet that is outstanding left. */
static int64_t oldest_sent_ns(struct rw_scoreboard *b)
{
	int64_t oldest_ns = INT64_MAX;
	for (struct rw_cursor c = rw_cursor_from(b, 0); c.at; c = rw_cursor_next(b, c)) {
		b->work++;
		if (c.at->sent_ns < oldest_ns && !(c.at->bits & RW_SEGMENT_SACKED))
			oldest_ns = c.at->sent_ns;
	}
	return oldest_ns;
}

void rw_sender_note_flight(struct rw_sender *s, int64_t sent_ns)
{
	struct rw_delivery_rate *d = s->rate;
	if (!d || !d->keeps_flights)
		return;
	struct rw_flight_sent flight = {sent_ns, rw_sender_in_flight(s), s->board.losses};
	if (d->flights && rw_delivery_rate_has_no_room(d))
		d->failed |= (uint8_t)rw_delivery_rate_make_room_for_flights(d, oldest_sent_ns(&s->board));
	d->failed |= (uint8_t)rw_delivery_rate_sent(d, &flight);
}

enum rw_scoreboard_status rw_sender_send(struct rw_sender *s, const struct rw_transmission *sent, uint32_t *segments)
{
	const struct rw_segment all = {.start = sent->start,
				       .end = sent->end,
				       .sent_ns = sent->sent_ns,
				       .ts_value = sent->ts_value,
				       .bits = sent->unseen ? RW_SEGMENT_UNSEEN : 0};
	uint32_t before = *segments;
	if (s->rate && s->board.count == 0 && rw_delivery_rate_restart(s->rate, sent->sent_ns))
		return RW_SCOREBOARD_NO_MEMORY;
	enum rw_scoreboard_status status = rw_scoreboard_append(&s->board, &all, s->segment_bytes, segments);
	if (status)
		return status;
	s->next = sent->end;
	if (sent->unseen)
		return RW_SCOREBOARD_OK;
	if (s->board.count == *segments - before || s->timer_ns == 0)
		s->timer_ns = sent->time_ns;
	s->last_send_ns = sent->time_ns;
	rw_sender_check(s);
	rw_sender_note_flight(s, sent->sent_ns);
	return RW_SCOREBOARD_OK;
}

/* Marks segments [start, end) as in flight again; returns how many. A probe does not count as in flight. */
static uint32_t mark_retransmitted(struct rw_sender *s, const struct rw_transmission *sent, int probe)
{
	struct rw_scoreboard *b = &s->board;
	uint32_t segments = 0;
	int losing = s->state == RW_SENDER_RECOVERY || s->state == RW_SENDER_LOSS;
	for (struct rw_cursor c = rw_scoreboard_find(b, sent->start); c.at; c = rw_cursor_next(b, c)) {
		struct rw_segment *g = c.at;
		b->work++;
		if (rw_seq_diff(g->start, sent->end) >= 0)
			break;
		segments++;
		rw_scoreboard_touch(b, g->end);
		if (!(g->bits & RW_SEGMENT_SACKED) && !probe) {
			if (g->bits & RW_SEGMENT_RETRANSMITTED || (losing && !(g->bits & RW_SEGMENT_LOST)))
				rw_scoreboard_lose(b, g);
			if (!(g->bits & RW_SEGMENT_RETRANSMITTED)) {
				g->bits |= RW_SEGMENT_RETRANSMITTED;
				b->retrans_out++;
			}
		}
		g->bits = (uint8_t)((g->bits | RW_SEGMENT_EVER) & ~RW_SEGMENT_JUDGED);
		g->sent_ns = sent->sent_ns;
		if (!(g->bits & RW_SEGMENT_SACKED))
			g->ts_value = sent->ts_value;
	}
	return segments;
}

/*
 * Cuts retransmitted segments to their present length: a segment with SACK blocks for the other direction is shorter than before.
 * The rest goes with the next segment. Without room for another segment, the segments stay as they were.
 */
static RW_ASIDE void recut(struct rw_sender *s, uint32_t start, uint32_t end)
{
	struct rw_scoreboard *b = &s->board;
	struct rw_cursor first = rw_scoreboard_find(b, start);
	if (first.at && rw_seq_diff(start, first.at->start) > 0) {
		if (rw_scoreboard_cut(b, &first, start))
			return;
		first = rw_cursor_next(b, first);
	}
	if (!first.at || rw_seq_diff(first.at->start, end) >= 0)
		return;
	struct rw_cursor last = first;
	while (last.at && rw_seq_diff(last.at->end, end) < 0) {
		last = rw_cursor_next(b, last);
		b->work++;
	}
	if (!last.at || rw_seq_diff(last.at->start, end) >= 0)
		return;
	if (last.at->end != end && rw_scoreboard_cut(b, &last, end))
		return;
	/* From the last on, as long as their bits are the same. */
	struct rw_cursor from = rw_scoreboard_find(b, start), run = from;
	for (struct rw_cursor c = from; c.at->end != end;) {
		struct rw_cursor next = rw_cursor_next(b, c);
		if (next.at->bits != c.at->bits)
			run = next;
		c = next;
	}
	while (run.at->end != end)
		rw_scoreboard_join(b, run);
	/* Limits duplicate ACKs to the segments that they can stand for. */
	if (!s->sack && b->sacked_out > b->count - b->lost_out)
		b->sacked_out = b->count - b->lost_out;
}

enum rw_scoreboard_status rw_sender_resend(struct rw_sender *s, const struct rw_transmission *sent, uint32_t *segments)
{
	uint32_t bytes = sent->end - sent->start;
	int is_head = rw_seq_diff(sent->start, s->una) <= 0;
	if (bytes && bytes <= s->segment_bytes)
		recut(s, sent->start, sent->end);
	*segments = mark_retransmitted(s, sent, 0);
	if (!s->undo.has_retransmit_ts && sent->has_timestamp) {
		s->undo.retransmit_ts = sent->ts_value;
		s->undo.has_retransmit_ts = 1;
	}
	if (s->undo.retransmits < 0)
		s->undo.retransmits = 0;
	if (s->undo.retransmits < RW_SEQUENCE_JUMP_MAX)
		s->undo.retransmits += (int32_t)*segments;
	if (is_head || s->state != RW_SENDER_RECOVERY)
		s->timer_ns = sent->time_ns;
	rw_sender_check(s);
	rw_sender_note_flight(s, sent->sent_ns);
	return rw_rack_resent(s, sent);
}

enum rw_scoreboard_status rw_sender_probe(struct rw_sender *s, const struct rw_transmission *sent, uint32_t *segments)
{
	s->probe.outstanding = s->probe.retransmitted = 1;
	s->probe.high = s->next;
	*segments = mark_retransmitted(s, sent, 1);
	s->timer_ns = sent->time_ns;
	rw_sender_check(s);
	rw_sender_note_flight(s, sent->sent_ns);
	return rw_rack_resent(s, sent);
}

void rw_sender_probed_with_new(struct rw_sender *s)
{
	s->probe.outstanding = 1;
	s->probe.retransmitted = 0;
	s->probe.high = s->next;
	s->timer_ns = s->last_send_ns;
}

/* Begins a reduction that may prove unnecessary. */
static void allow_undo(struct rw_sender *s)
{
	s->undo.possible = 1;
	s->undo.mark = s->una;
	s->undo.retransmits = s->board.retrans_out ? (int32_t)s->board.retrans_out : -1;
}

int rw_sender_enter_recovery(struct rw_sender *s)
{
	int reduce = !rw_sender_reducing(s);
	allow_undo(s);
	if (reduce) {
		s->high = s->next;
		s->probe.outstanding = 0;
	}
	s->state = RW_SENDER_RECOVERY;
	s->fast_retransmits++;
	return reduce;
}

/* The whole window is lost, except segments that RACK counts as sent too recently. The head is always lost. */
static void lose_at_timeout(struct rw_sender *s, int64_t now_ns)
{
	const struct rw_segment *head = rw_scoreboard_head(&s->board);
	for (struct rw_cursor c = rw_cursor_from(&s->board, 0); c.at; c = rw_cursor_next(&s->board, c)) {
		s->board.work++;
		if (c.at != head && s->sack && (int64_t)s->rack.rtt_ns > now_ns - c.at->sent_ns)
			continue;
		rw_scoreboard_lose(&s->board, c.at);
	}
}

int rw_sender_time_out(struct rw_sender *s, int64_t now_ns)
{
	int undisturbed = s->state < RW_SENDER_RECOVERY;
	if (!s->sack)
		s->board.sacked_out = 0; /* the segments that duplicate ACKs stood for are lost, too */
	int new_episode = s->state <= RW_SENDER_DISORDER || rw_seq_diff(s->high, s->una) <= 0 ||
			  (s->state == RW_SENDER_LOSS && s->backoff == 0);
	lose_at_timeout(s, now_ns);
	if (new_episode)
		allow_undo(s);
	if (s->state <= RW_SENDER_DISORDER && s->board.sacked_out >= s->threshold && s->rack.reordering > s->threshold)
		s->rack.reordering = s->threshold;
	s->f_rto = undisturbed || s->backoff > 0;
	s->state = RW_SENDER_LOSS;
	s->high = s->next;
	s->probe.outstanding = 0;
	if (s->backoff < BACKOFF_COUNTED)
		s->backoff++;
	s->timeouts++;
	rw_sender_check(s);
	return new_episode;
}

uint64_t rw_sender_probe_timeout_ns(const struct rw_sender *s)
{
	uint64_t probe = 2 * s->rtt.srtt_ns + PROBE_SLACK_NS, rto = rw_sender_rto_ns(s);
	return probe < rto ? probe : rto;
}

uint32_t rw_sender_idle_timeouts(const struct rw_sender *s, int64_t now_ns, int64_t tick_ns)
{
	if (s->board.count || !s->last_send_ns)
		return 0;
	int64_t quiet = now_ns - s->last_send_ns, rto = (int64_t)rw_sender_rto_ns(s);
	/* Linux compares whole ticks, with the timeout rounded up; the position of the two times within a tick is unknown. */
	int64_t ticks = (rto + tick_ns - 1) / tick_ns;
	if (quiet <= ticks * tick_ns + tick_ns / 2)
		return 0;
	return (uint32_t)(quiet / rto < IDLE_TIMEOUTS_MAX ? quiet / rto : IDLE_TIMEOUTS_MAX);
}

void rw_sender_rtt(struct rw_sender *s, uint64_t rtt_ns) { rw_round_trip_sample(&s->rtt, rtt_ns, s->una, s->next); }

int rw_sender_sample(struct rw_sender *s, const struct rw_delivered *delivered, struct rw_rate_sample *sample)
{
	int failed = rw_delivery_rate_sample(s->rate, delivered, sample);
	if (s->rate->keeps_flights) {
		rw_delivery_rate_add_flight(s->rate, delivered->newest_sent_ns, s->board.losses, sample);
		failed |= s->rate->failed;
	}
	if (s->untimed)
		sample->interval_ns = 0;
	if (!failed && s->rate->count && rw_delivery_rate_is_full(s->rate))
		failed = rw_delivery_rate_make_room(s->rate, oldest_sent_ns(&s->board));
	return failed;
}
