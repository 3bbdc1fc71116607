/* What an ACK does to its sender: SACK, RTT, loss, recovery and its end, undo, F-RTO. */
#include "events.h"

#include <string.h>

/* RFC 6928, segments. */
#define INITIAL_WINDOW 10

/* What one ACK changes; lives while it is processed. */
struct ack_work {
	const struct rw_packet *p;
	int64_t now;
	uint32_t delivered;
	uint32_t una_before;
	uint8_t advanced, data_acked, data_sacked, dsack, dsack_probe, window_update, ece, original_sacked,
	    lost_retransmission;
	int64_t first_sent_ns, last_sent_ns, sack_sent_ns, sack_last_ns; /* 0: none */
	uint8_t retransmitted_acked;
	uint32_t highest_before; /* SACKed before this ACK: what it SACKs itself is no sign of reordering */
	uint32_t reorder_at;
	uint8_t reordered;
};

static void note_reordering(struct rw_sender *s, uint32_t low, uint32_t mss)
{
	if (rw_seq_diff(low, s->highest_sack) >= 0)
		return;
	uint32_t segments = (s->highest_sack - low + mss - 1) / mss;
	if (segments > s->reorder_segments)
		s->reorder_segments = segments < 300 ? segments : 300;
	s->reorder_seen = 1;
}

/* Did this ACK answer a packet sent before the retransmission (RFC 3522)? */
static int echoes_before(const struct rw_packet *p, uint32_t ts)
{
	return p->has_timestamps && p->ts_echo && rw_seq_diff(p->ts_echo, ts) < 0;
}

/* A first transmission delivered below what was SACKed before came out of order. */
static void see_reordering(struct ack_work *w, const struct rw_segment *g)
{
	if (rw_seq_diff(g->start, w->highest_before) < 0 &&
	    (!w->reordered || rw_seq_diff(g->start, w->reorder_at) < 0)) {
		w->reordered = 1;
		w->reorder_at = g->start;
	}
}

/* One retransmission fewer has to be spurious for the whole reduction to be. */
static void count_spurious(struct rw_sender *s, uint32_t end, uint32_t segments)
{
	if (!s->undo_possible || s->undo_retransmits <= 0 || rw_seq_diff(end, s->undo_mark) <= 0)
		return;
	s->undo_retransmits = (uint32_t)s->undo_retransmits > segments ? s->undo_retransmits - (int32_t)segments : 0;
}

static void sack_segment(struct rw_sender *s, struct ack_work *w, struct rw_segment *g)
{
	if (g->bits & RW_SEGMENT_SACKED)
		return;
	if (g->bits & RW_SEGMENT_EVER) {
		if (g->bits & RW_SEGMENT_LOST && g->bits & RW_SEGMENT_RETRANSMITTED) {
			g->bits &= (uint8_t)~(RW_SEGMENT_LOST | RW_SEGMENT_RETRANSMITTED);
			s->lost_out--;
			s->retrans_out--;
		}
	} else {
		see_reordering(w, g);
		if (rw_seq_diff(g->end, s->high) <= 0)
			w->original_sacked = 1;
		if (!w->sack_sent_ns)
			w->sack_sent_ns = g->sent_ns;
		w->sack_last_ns = g->sent_ns;
	}
	if (g->bits & RW_SEGMENT_LOST) {
		g->bits &= (uint8_t)~RW_SEGMENT_LOST;
		s->lost_out--;
	}
	rw_rack_advance(s, g, w->now);
	g->bits |= RW_SEGMENT_SACKED;
	s->sacked_out++;
	w->delivered++;
	w->data_sacked = 1;
}

static void sack_range(struct rw_sender *s, struct ack_work *w, uint32_t start, uint32_t end)
{
	for (uint32_t i = rw_scoreboard_find(s, start); i < s->count; i++) {
		struct rw_segment *g = rw_segment_at(s, i);
		s->work++;
		if (rw_seq_diff(g->end, end) > 0)
			break;
		if (rw_seq_diff(g->start, start) >= 0)
			sack_segment(s, w, g);
	}
}

/* Only what the ACK before did not say already, or a large window would be walked at every ACK. */
static void sack_new_part(struct rw_sender *s, struct ack_work *w, uint32_t start, uint32_t end)
{
	for (uint8_t k = 0; k < s->seen_sacks; k++) {
		struct rw_range seen = s->seen_sack[k];
		if (rw_seq_diff(seen.start, start) >= 0 && rw_seq_diff(seen.end, end) <= 0) {
			sack_range(s, w, start, seen.start);
			/* A segment across the old edge was not covered whole before. */
			uint32_t i = rw_scoreboard_find(s, seen.end);
			uint32_t from = i < s->count ? rw_segment_at(s, i)->start : seen.end;
			if (rw_seq_diff(from, seen.end) > 0)
				from = seen.end;
			start = rw_seq_diff(from, start) > 0 ? from : start;
			break;
		}
	}
	sack_range(s, w, start, end);
}

/*
 * RFC 2883. More segments that came twice than were sent twice: the network made them, and Linux heeds none of these
 * reports any more.
 */
static void see_duplicate(struct rw_sender *s, struct ack_work *w, uint32_t start, uint32_t end, uint32_t segments)
{
	s->dsacked += segments;
	if (s->dsacked > s->retransmitted_packets)
		return;
	s->spurious += segments;
	w->dsack = 1;
	w->delivered += segments; /* it left the network, if in vain */
	w->dsack_probe = s->probe_outstanding && segments == 1 && end == s->probe_high;
	if (rw_seq_diff(end, s->una) <= 0) {
		count_spurious(s, end, segments);
		return;
	}
	for (uint32_t i = rw_scoreboard_find(s, start); i < s->count; i++) {
		struct rw_segment *g = rw_segment_at(s, i);
		s->work++;
		if (rw_seq_diff(g->end, end) > 0)
			break;
		if (!(g->bits & RW_SEGMENT_EVER))
			continue;
		count_spurious(s, g->end, 1);
		if (g->bits & RW_SEGMENT_SACKED)
			see_reordering(w, g);
	}
}

static void read_sacks(struct rw_sender *s, struct ack_work *w, uint32_t mss)
{
	const struct rw_packet *p = w->p;
	struct rw_range kept[RW_SACK_MAX];
	uint8_t keep = 0;
	for (uint8_t k = 0; k < p->sack_count; k++) {
		uint32_t start = p->sack_start[k], end = p->sack_end[k];
		if (rw_seq_diff(end, start) <= 0 || rw_seq_diff(end, s->next) > 0)
			continue;
		int duplicate = k == 0 && (rw_seq_diff(start, p->ack) < 0 ||
					   (p->sack_count > 1 && rw_seq_diff(end, p->sack_end[1]) <= 0 &&
					    rw_seq_diff(start, p->sack_start[1]) >= 0));
		if (duplicate) {
			see_duplicate(s, w, start, end, (end - start + mss - 1) / mss);
			continue;
		}
		if (rw_seq_diff(start, s->una) < 0)
			continue;
		sack_new_part(s, w, start, end);
		kept[keep].start = start;
		kept[keep++].end = end;
	}
	for (uint8_t k = 0; k < keep; k++)
		if (rw_seq_diff(kept[k].end, s->highest_sack) > 0)
			s->highest_sack = kept[k].end;
	memcpy(s->seen_sack, kept, sizeof kept[0] * keep);
	s->seen_sacks = keep;
}

static void see_unseen(struct rw_sender *s, int64_t now_ns, uint32_t bytes)
{
	s->unseen_bytes += bytes;
	if (!s->first_unseen_ns)
		s->first_unseen_ns = now_ns;
}

/* Takes acknowledged segments off the scoreboard. */
static void clean(struct rw_sender *s, struct ack_work *w, uint32_t ack)
{
	while (s->count) {
		struct rw_segment *g = rw_segment_at(s, 0);
		if (rw_seq_diff(g->end, ack) > 0) {
			if (rw_seq_diff(g->start, ack) < 0)
				g->start = ack;
			break;
		}
		w->data_acked = 1;
		if (g->bits & RW_SEGMENT_EVER) {
			if (g->bits & RW_SEGMENT_RETRANSMITTED)
				s->retrans_out--;
			w->retransmitted_acked = 1;
		} else if (!(g->bits & RW_SEGMENT_SACKED)) {
			w->last_sent_ns = g->sent_ns;
			if (!w->first_sent_ns)
				w->first_sent_ns = g->sent_ns;
			see_reordering(w, g);
			if (rw_seq_diff(g->end, s->high) <= 0)
				w->original_sacked = 1;
		}
		if (g->bits & RW_SEGMENT_SACKED) {
			s->sacked_out--;
		} else {
			w->delivered++;
			/* An answer to a packet before this retransmission says nothing of it (RFC 8985 6.2, step 2). */
			if (!(g->bits & RW_SEGMENT_EVER && g->ts_value && echoes_before(w->p, g->ts_value)))
				rw_rack_advance(s, g, w->now);
		}
		if (g->bits & RW_SEGMENT_LOST)
			s->lost_out--;
		if (g->bits & RW_SEGMENT_UNSEEN)
			see_unseen(s, w->now, g->end - g->start);
		rw_scoreboard_drop(s, 1);
	}
}

static uint64_t rtt_sample(struct rw_sender *s, const struct ack_work *w)
{
	int64_t from = 0;
	if (w->first_sent_ns && !w->retransmitted_acked)
		from = w->first_sent_ns;
	else if (w->sack_sent_ns)
		from = w->sack_sent_ns;
	if (!from || s->afar)
		return 0;
	return w->now > from ? (uint64_t)(w->now - from) : 1;
}

/* The newest segment's sample: what delay-based decisions look at. */
static uint64_t newest_sample(const struct rw_sender *s, const struct ack_work *w)
{
	int64_t from = w->sack_last_ns                               ? w->sack_last_ns
		       : w->first_sent_ns && !w->retransmitted_acked ? w->last_sent_ns
								     : 0;
	if (!from || s->afar)
		return 0;
	return w->now > from ? (uint64_t)(w->now - from) : 1;
}

/*
 * Where all that was acknowledged had been sent again, the echo tells which transmission arrived (RFC 7323 4.1), in the
 * sender's ticks, at least one.
 */
static uint64_t echoed_sample(const struct rw_sender *s, const struct ack_work *w)
{
	const struct rw_packet *p = w->p;
	if (!s->ticking || !w->data_acked || !p->has_timestamps || rw_seq_diff(p->ts_echo, s->tick_first) < 0 ||
	    rw_seq_diff(p->ts_echo, s->tick_last) > 0 || w->now < s->tick_ns)
		return 0;
	int64_t ticks = (w->now - s->tick_ns) / RW_CLOCK_TICK_NS - (int64_t)(p->ts_echo - s->tick_first);
	return (uint64_t)(ticks > 1 ? ticks : 1) * RW_CLOCK_TICK_NS;
}

static int may_undo(const struct rw_sender *s, const struct ack_work *w)
{
	if (!s->undo_possible)
		return 0;
	return s->undo_retransmits == 0 || (s->has_retransmit_ts && echoes_before(w->p, s->first_retransmit_ts));
}

static void reopen(struct rw_sender *s)
{
	s->state = s->sacked_out || s->lost_out || s->retrans_out ? RW_SENDER_DISORDER : RW_SENDER_OPEN;
	if (!s->retrans_out)
		s->has_retransmit_ts = 0;
}

static void undo(struct rw_sender *s, struct rw_event *e, int unmark)
{
	if (unmark)
		for (uint32_t i = 0; i < s->count; i++) {
			struct rw_segment *g = rw_segment_at(s, i);
			s->work++;
			if (g->bits & RW_SEGMENT_LOST) {
				g->bits &= (uint8_t)~RW_SEGMENT_LOST;
				s->lost_out--;
			}
		}
	e->steps |= RW_STEP_UNDO;
	s->undo_possible = 0;
}

/* A tail loss probe repaired a loss when the ACK passes it without a DSACK (RFC 8985 7.4). */
static void end_probe(struct rw_sender *s, const struct ack_work *w, struct rw_event *e)
{
	if (!s->probe_outstanding || rw_seq_diff(w->p->ack, s->probe_high) < 0)
		return;
	if (!s->probe_retransmitted || w->dsack_probe) {
		s->probe_outstanding = 0;
	} else if (rw_seq_diff(w->p->ack, s->probe_high) > 0) {
		s->probe_outstanding = 0;
		e->steps |= RW_STEP_TAIL_LOSS;
		s->high = s->next;
		reopen(s);
	} else if (!w->advanced && !w->data_sacked) {
		s->probe_outstanding = 0; /* a pure duplicate: both arrived */
	}
}

static void lose_without_sack(struct rw_sender *s, const struct ack_work *w)
{
	if ((s->state < RW_SENDER_RECOVERY && s->sacked_out >= s->reorder_segments) ||
	    (s->state == RW_SENDER_RECOVERY && w->advanced)) {
		if (s->count) {
			struct rw_segment *g = rw_segment_at(s, 0);
			if (!(g->bits & RW_SEGMENT_RETRANSMITTED))
				rw_scoreboard_lose(s, g);
		}
	}
}

static void identify_loss(struct rw_sender *s, struct ack_work *w)
{
	uint32_t retransmitted = s->retrans_out;
	if (s->sack)
		rw_rack_mark_lost(s, w->now);
	else
		lose_without_sack(s, w);
	w->lost_retransmission = s->retrans_out < retransmitted;
}

static void try_open(struct rw_sender *s, const struct ack_work *w, struct rw_event *e)
{
	if (w->ece && s->state < RW_SENDER_CWR) {
		s->state = RW_SENDER_CWR;
		s->undo_possible = 0;
		s->high = s->next;
		s->probe_outstanding = 0;
		e->steps |= RW_STEP_CWR | RW_STEP_NO_UNDO;
	}
	if (s->state != RW_SENDER_CWR)
		reopen(s);
}

static void recover(struct rw_sender *s, const struct ack_work *w, struct rw_event *e)
{
	if (rw_sender_enter_recovery(s))
		e->steps |= RW_STEP_RECOVERY;
	s->recovery_ns = w->now;
	if (w->ece)
		e->steps |= RW_STEP_NO_UNDO;
}

/* Loss state: F-RTO decides whether the timeout was spurious. 1: go on as in Open. */
static int process_loss(struct rw_sender *s, struct ack_work *w, struct rw_event *e, int duplicate)
{
	int recovered = rw_seq_diff(s->una, s->high) >= 0;
	if (w->advanced && may_undo(s, w)) {
		undo(s, e, 1);
		e->steps |= RW_STEP_OPEN;
		s->f_rto = 0;
		reopen(s);
		return 1;
	}
	if (s->f_rto) {
		if (w->original_sacked && s->undo_possible) {
			undo(s, e, 1);
			e->steps |= RW_STEP_OPEN;
			s->f_rto = 0;
			reopen(s);
			return 1;
		}
		if (rw_seq_diff(s->next, s->high) > 0) {
			if (w->data_sacked || duplicate)
				s->f_rto = 0;
		} else if (w->advanced && !recovered) {
			s->high = s->next;
			return 0;
		}
	}
	if (recovered) {
		if (may_undo(s, w))
			undo(s, e, 0);
		e->steps |= RW_STEP_OPEN;
		s->undo_possible = 0;
		reopen(s);
		return 1;
	}
	return 0;
}

static void react(struct rw_sender *s, struct ack_work *w, struct rw_event *e, int duplicate)
{
	if (w->ece)
		e->steps |= RW_STEP_NO_UNDO;
	if (s->state == RW_SENDER_OPEN)
		s->has_retransmit_ts = 0;
	else if (rw_seq_diff(s->una, s->high) >= 0) {
		if (s->state == RW_SENDER_CWR && s->una != s->high) {
			e->steps |= RW_STEP_EXIT;
			s->state = RW_SENDER_OPEN;
		} else if (s->state == RW_SENDER_RECOVERY) {
			int undone = may_undo(s, w);
			if (undone)
				undo(s, e, 0);
			/* Without SACK duplicate ACKs may still come for what was sent again: wait for one beyond (RFC 6582). */
			if (!s->sack && s->una == s->high)
				return;
			if (!undone && s->undo_possible)
				e->steps |= RW_STEP_EXIT;
			if (s->reorder_persist)
				s->reorder_persist--;
			s->state = RW_SENDER_OPEN;
		}
	}
	if (s->state == RW_SENDER_RECOVERY) {
		if (w->advanced && s->undo_possible && s->has_retransmit_ts &&
		    echoes_before(w->p, s->first_retransmit_ts)) {
			note_reordering(s, w->una_before, s->segment_bytes);
			if (s->retrans_out)
				return;
			undo(s, e, 1);
			reopen(s);
		} else if (s->undo_possible && s->undo_retransmits == 0) {
			undo(s, e, 0);
			try_open(s, w, e);
		}
		identify_loss(s, w);
		if (s->state != RW_SENDER_RECOVERY && s->lost_out)
			recover(s, w, e);
		return;
	}
	if (s->state == RW_SENDER_LOSS) {
		int open = process_loss(s, w, e, duplicate);
		identify_loss(s, w);
		if (!open && !w->lost_retransmission)
			return;
	} else {
		if (s->state <= RW_SENDER_DISORDER && s->undo_possible && s->undo_retransmits == 0)
			undo(s, e, 0);
		identify_loss(s, w);
	}
	if (s->lost_out)
		recover(s, w, e);
	else
		try_open(s, w, e);
}

static void limits(struct rw_sender *s, const struct rw_packet *p, struct rw_event *e, uint32_t mss)
{
	uint32_t outstanding = s->next - s->una;
	if (s->sent_since == 0 && s->window_bytes != UINT32_MAX && outstanding + mss > s->window_bytes)
		e->flags |= RW_ACK_RWND_LIMITED;
	/* Three ACKs that freed room and nothing was sent: the sender had nothing to send. */
	else if (s->quiet_acks >= 3)
		e->flags |= RW_ACK_APP_LIMITED;
	s->window_bytes = (uint32_t)p->window << s->peer_scale;
}

static void timers(struct rw_sender *s, const struct ack_work *w)
{
	if (w->advanced) {
		s->backoff = 0;
		s->last_advance_ns = w->now;
		if (s->quiet_acks < 255 && s->state < RW_SENDER_CWR)
			s->quiet_acks++;
	}
	if (w->data_acked || w->data_sacked)
		s->timer_ns = w->now;
}

/*
 * New marks. RFC 3168: a flag, which says that some packet was marked: 1. RFC 9768 3.2.2: a count modulo 8, but not by
 * an ACK that was overtaken.
 */
static uint8_t new_marks(struct rw_sender *s, const struct rw_packet *p)
{
	if (!s->accurate_ecn)
		return (p->flags & RW_TCP_ECE) != 0;
	if (rw_seq_diff(p->ack, s->una) < 0)
		return 0;
	uint8_t count =
	    (uint8_t)(!!(p->flags & RW_TCP_AE) << 2 | !!(p->flags & RW_TCP_CWR) << 1 | !!(p->flags & RW_TCP_ECE));
	uint8_t more = (count - s->ce_counter) & 7;
	s->ce_counter = count;
	return more;
}

/* The ACK covers data that the capture never showed. */
static uint32_t accept_unseen(struct rw_sender *s, const struct rw_packet *p, uint32_t mss,
			      struct rw_oddity_counts *oddities)
{
	uint32_t unseen = p->ack - s->next;
	s->next = p->ack;
	if (unseen == 1 && s->window_probe) {
		s->bytes++; /* the window had opened meanwhile */
		return 1;
	}
	see_unseen(s, p->time_ns, unseen);
	rw_oddity_add(oddities, RW_ODDITY_UNSEEN_DATA, p->file, p->offset);
	return (unseen + mss - 1) / mss;
}

/* What the first ACK of a flight that shows its window tells. */
static RW_ASIDE void see_flight(struct rw_sender *s, struct rw_event *e, uint32_t ack, uint32_t delivered)
{
	int beside = s->vantage <= RW_VANTAGE_SENDER && !s->corrected; /* where it is not known, it is taken for that */
	int more = !e->starved && e->room,
	    all = e->whole_before && more && e->state == RW_SENDER_OPEN && s->sacked_out == 0;
	uint8_t flight = s->flight;
	s->flight = RW_FLIGHT_NONE;
	e->first_flight_is = flight;
	if (flight == RW_FLIGHT_INITIAL && !s->handshake) {
		e->first_flight_is = RW_FLIGHT_UNSEEN;
		e->first_flight = (uint32_t)beside; /* its first part is not known */
	} else if (flight == RW_FLIGHT_INITIAL) {
		e->first_flight = s->initial;
		if (beside && all && s->initial < INITIAL_WINDOW && e->in_flight_before == s->initial) {
			s->flight = RW_FLIGHT_SECOND;
			s->first_acked = delivered;
			s->first_sequence = ack;
		}
	} else if (flight == RW_FLIGHT_SECOND && all && e->in_flight_before == s->initial + s->first_acked) {
		/* As large as slow start allows, of whole segments, at once: the window was as small as it looked. */
		e->first_flight = s->initial;
		e->first_flight_full = 1;
	} else if (flight == RW_FLIGHT_RESTARTED && beside) {
		e->first_flight = e->in_flight_before;
		e->first_flight_full = s->mapped && more && !rw_sender_paced(s);
	}
}

/* The event of an ACK, and what it tells of the time before. */
static struct rw_event *begin_ack(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out)
{
	struct rw_event *e = rw_sender_add_event(s, out, RW_EVENT_ACK, p->time_ns);
	e->ack = p->ack;
	e->in_flight_before = rw_in_flight(s);
	e->packets_out_before = s->count;
	e->next_before = s->next;
	e->sent_before = s->sent_since;
	e->whole_before = s->whole && !s->corrected;
	uint64_t flight_bytes = (uint64_t)e->in_flight_before * s->segment_bytes;
	uint32_t span = s->next - s->una;
	e->starved = s->mapped && rw_seq_diff(s->mapping_end, s->next) < (int32_t)s->segment_bytes;
	e->room = span + s->segment_bytes <= s->window_bytes;
	if (s->bursts && e->room)
		e->room = (s->window_bytes - span) / s->segment_bytes;
	e->in_flight_bytes_before = s->sacked_out + s->lost_out == 0 ? span
				    : flight_bytes > UINT32_MAX      ? UINT32_MAX
								     : (uint32_t)flight_bytes;
	s->acks++;
	s->last_ack_ns = p->time_ns;
	return e;
}

/*
 * Most ACKs tell a sender that nothing has happened to of segments that were sent once, and of the last of them whole: how
 * many. 0: it is another ACK.
 */
static inline uint32_t whole_segments_acked(const struct rw_sender *s, const struct rw_packet *p)
{
	uint32_t n = 0;
	/* Of what is outstanding: what is walked here is taken off the scoreboard, and never walked again. */
	if (p->ack - s->una - 1 >= s->next - s->una)
		return 0;
	if (s->state != RW_SENDER_OPEN || p->sack_count || s->sacked_out | s->lost_out | s->retrans_out ||
	    s->probe_outstanding || s->accurate_ecn || p->flags & RW_TCP_ECE || s->afar)
		return 0;
	const struct rw_segment *g = s->first;
	while (n < s->count && rw_seq_diff(g[n].end, p->ack) <= 0 && g[n].bits == 0)
		n++;
	return n && g[n - 1].end == p->ack && g->sent_ns ? n : 0;
}

/* What is done for such an ACK below, and no more. */
static void process_plain_ack(struct rw_sender *s, const struct rw_packet *p, uint32_t segments, struct rw_events *out)
{
	struct rw_event *e = begin_ack(s, p, out);
	int64_t now = p->time_ns, first_ns = rw_segment_at(s, 0)->sent_ns;
	const struct rw_segment *last = rw_segment_at(s, segments - 1);
	if (s->retransmitted_since)
		e->flags = RW_ACK_RETRANSMIT;
	limits(s, p, e, s->segment_bytes);
	s->sent_since = 0;
	s->retransmitted_since = 0;
	e->rtt_ns = now > first_ns ? (uint64_t)(now - first_ns) : 1;
	e->rtt_newest_ns = now > last->sent_ns ? (uint64_t)(now - last->sent_ns) : 1;
	rw_rack_advance(s, last, now); /* they were sent one after another */
	rw_scoreboard_drop(s, segments);
	e->una_advanced = 1;
	if (s->una == s->first_sequence)
		see_flight(s, e, p->ack, segments);
	e->acked_bytes = p->ack - s->una;
	s->una = p->ack;
	s->window_probe = 0;
	if (rw_seq_diff(s->highest_sack, s->una) < 0)
		s->highest_sack = s->una;
	rw_sender_rtt(s, e->rtt_ns);
	rw_rack_update_window(s, 0);
	e->delivered = segments;
	e->steps = RW_STEP_RAISE;
	e->flags |= RW_ACK_RAISES;
	e->in_flight = s->count;
	s->backoff = 0;
	s->last_advance_ns = s->timer_ns = now;
	if (s->quiet_acks < 255)
		s->quiet_acks++;
	e->state_after = s->state;
	if (!s->steady)
		rw_sender_settle(s);
}

static RW_ASIDE void process_other_ack(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
				       struct rw_oddity_counts *oddities)
{
	if (!s->started)
		rw_sender_start(s, p->ack);
	if (s->afar && p->has_timestamps && !s->echo_ns) {
		s->echo_value = p->ts_value;
		s->echo_ns = p->time_ns;
	}
	uint32_t mss = s->segment_bytes;
	struct rw_event *e = begin_ack(s, p, out);
	struct ack_work w = {.p = p, .now = p->time_ns, .highest_before = s->sacked_out ? s->highest_sack : s->una};
	int32_t ahead = rw_seq_diff(p->ack, s->una);
	uint8_t marks = new_marks(s, p);
	w.ece = marks != 0;
	s->ece_acks += w.ece;
	e->flags = (uint16_t)((w.ece ? RW_ACK_ECE : 0) | (p->sack_count ? RW_ACK_SACK : 0) |
			      (s->retransmitted_since ? RW_ACK_RETRANSMIT : 0));
	uint32_t window = (uint32_t)p->window << s->peer_scale;
	w.window_update = s->window_bytes != UINT32_MAX && window != s->window_bytes;
	limits(s, p, e, mss);
	s->sent_since = 0;
	s->retransmitted_since = 0;
	if (ahead < 0 || ahead > RW_SEQUENCE_JUMP_MAX) { /* old, or not of this connection */
		e->in_flight = rw_in_flight(s);
		return;
	}
	int outstanding = s->count > 0;
	uint32_t lost_before = s->lost_total;
	w.una_before = s->una;
	if (p->sack_count && s->sack)
		read_sacks(s, &w, mss);
	if (rw_seq_diff(p->ack, s->next) > 0) {
		clean(s, &w, s->next);
		w.delivered += accept_unseen(s, p, mss, oddities);
		w.data_acked = 1;
		outstanding = 1;
	} else {
		clean(s, &w, p->ack);
	}
	/* RFC 5682 2.1: without SACK, an ACK that covers a retransmission does not tell that originals arrived. */
	if (!s->sack && w.retransmitted_acked)
		w.original_sacked = 0;
	w.advanced = ahead > 0;
	s->una = p->ack;
	s->window_probe &= !w.advanced;
	if (rw_seq_diff(s->highest_sack, s->una) < 0)
		s->highest_sack = s->una;
	e->una_advanced = w.advanced;
	if (w.una_before == s->first_sequence && (w.advanced || !s->handshake))
		see_flight(s, e, p->ack, w.delivered);
	e->acked_bytes = (uint32_t)ahead;
	int duplicate = !w.advanced && !w.window_update && p->payload_bytes == 0 && outstanding && !w.dsack;
	if (duplicate)
		e->flags |= RW_ACK_DUP;
	if (!s->sack && duplicate && s->sacked_out + (s->lost_out ? s->lost_out : 1) < s->count) {
		s->sacked_out++; /* without SACK a duplicate ACK stands for one delivered segment (RFC 6582) */
		w.delivered++;
	} else if (!s->sack && w.advanced) {
		/* One of what it covers filled the hole, the others had a duplicate ACK each. */
		uint32_t covered = w.delivered, most = covered ? covered - 1 : 0;
		uint32_t counted = s->sacked_out < most ? s->sacked_out : most;
		w.delivered -= counted;
		s->sacked_out =
		    s->state == RW_SENDER_RECOVERY && rw_seq_diff(s->una, s->high) < 0 ? s->sacked_out - counted : 0;
		if (s->sacked_out > s->count - s->lost_out)
			s->sacked_out = s->count - s->lost_out;
	}
	if (w.reordered)
		note_reordering(s, w.reorder_at, mss);
	e->rtt_ns = rtt_sample(s, &w);
	e->rtt_newest_ns = newest_sample(s, &w);
	if (e->rtt_ns)
		rw_sender_rtt(s, e->rtt_ns);
	else if ((e->rtt_ns = e->rtt_newest_ns = echoed_sample(s, &w)))
		rw_sender_smooth_rtt(s, e->rtt_ns);
	rw_rack_update_window(s, w.dsack && s->reorder_seen && !w.dsack_probe);
	end_probe(s, &w, e);
	int dubious = duplicate || w.data_sacked || w.ece || w.dsack || s->state != RW_SENDER_OPEN;
	if ((outstanding && dubious) || w.dsack)
		react(s, &w, e, duplicate);
	e->delivered = w.delivered;
	/* A flag is repeated until it is answered: all that such an ACK covers counts. */
	e->marked = !w.ece ? 0 : s->accurate_ecn && marks < w.delivered ? marks : w.delivered;
	e->newly_lost = s->lost_total - lost_before;
	if (s->state == RW_SENDER_CWR || s->state == RW_SENDER_RECOVERY)
		e->steps |= RW_STEP_REDUCE;
	else if (w.data_acked || (s->reorder_segments > s->threshold && w.data_sacked)) {
		e->steps |= RW_STEP_RAISE;
		e->flags |= RW_ACK_RAISES;
	}
	e->in_flight = rw_in_flight(s);
	timers(s, &w);
}

int rw_sender_process_ack(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
			  struct rw_oddity_counts *oddities)
{
	uint32_t segments = whole_segments_acked(s, p);
	if (segments)
		process_plain_ack(s, p, segments, out);
	else
		process_other_ack(s, p, out, oddities);
	return segments != 0;
}
