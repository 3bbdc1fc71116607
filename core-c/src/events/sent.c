/* Packets of the sender: new data, retransmissions and their cause, and holes in the capture. */
#include "reconstruction.h"
#include "rw_ways.h"

#define MS 1000000ll
/* A hole that is filled sooner was reordered before the capture point, not retransmitted. */
#define CAPTURE_REORDER_NS (3 * MS)
#define GAP_SEGMENTS_FREE 4096
/* A packet that follows later was not released by the same ACK. */
#define LATE_NS (2 * MS)
/* MPTCP hands a subflow up to this many bytes before the first packet leaves. */
#define SCHEDULED_MOST 65428
#define PACED_FLIGHT_MIN 4
#define PACED_SENDS_MIN 50

/* Timers fire on ticks of the host's clock, so a timer may fire after nine tenths of its time. */
#define TIMER_TENTHS_MIN 9

static int64_t nearly(uint64_t timer_ns) { return (int64_t)timer_ns / 10 * TIMER_TENTHS_MIN; }

static struct rw_transmission transmission_of(const struct rw_reconstruction *r, const struct rw_packet *p,
					      uint32_t start, uint32_t end)
{
	return (struct rw_transmission){
	    .start = start,
	    .end = end,
	    .time_ns = p->time_ns,
	    .sent_ns = r->burst_ns,
	    .ts_value = p->ts_value,
	    .has_timestamp = p->has_timestamps,
	};
}

static void add_timeout(struct rw_reconstruction *r, int64_t now_ns, struct rw_events *out)
{
	struct rw_event *e = rw_events_add(r, out, RW_EVENT_TIMEOUT, now_ns);
	e->new_episode = (uint8_t)rw_sender_time_out(&r->tcp, now_ns);
	e->in_flight = rw_sender_in_flight(&r->tcp);
}

/* RACK's reordering timer fired. A segment that is retransmitted then was lost, even if RACK does not find it so. */
static void add_recovery(struct rw_reconstruction *r, int64_t now_ns, uint32_t start, uint32_t end,
			 struct rw_events *out)
{
	struct rw_sender *s = &r->tcp;
	struct rw_event *e = rw_events_add(r, out, RW_EVENT_RECOVERY, now_ns);
	e->in_flight_before = rw_sender_in_flight(s);
	rw_sender_detect_losses(s, now_ns);
	for (struct rw_cursor c = rw_scoreboard_find(&s->board, start); c.at && rw_seq_diff(c.at->start, end) < 0;
	     c = rw_cursor_next(&s->board, c))
		rw_scoreboard_lose(&s->board, c.at);
	if (rw_sender_enter_recovery(s))
		e->steps = RW_STEP_RECOVERY;
	e->delivered = 1; /* Linux's rate reduction counts one segment when the timer starts recovery */
	e->steps |= RW_STEP_REDUCE;
	e->in_flight = rw_sender_in_flight(s);
}

enum why_sent_again { BY_RECOVERY, BY_TIMEOUT, BY_PROBE, BY_REORDERING_TIMER };

/* Decides why data up to `end` was retransmitted, by the time since the sender's timer was set. */
static enum why_sent_again why_sent_again(const struct rw_reconstruction *r, const struct rw_packet *p, uint32_t end)
{
	const struct rw_sender *s = &r->tcp;
	int64_t now = p->time_ns, waited = now - s->timer_ns, timeout = nearly(rw_sender_rto_ns(s));
	int head = rw_seq_diff(p->sequence, s->una) <= 0, tail = rw_seq_diff(end, s->next) >= 0;
	if (s->state == RW_SENDER_RECOVERY || s->state == RW_SENDER_LOSS) {
		int repeated = rw_scoreboard_head(&s->board)->bits & RW_SEGMENT_RETRANSMITTED;
		/* Recovery sends when an ACK arrives. Away from the sender it is not known which one that was, and retransmissions may be
		   lost before they are captured: this may be the first one of the head to be seen. */
		int unprompted = now - r->last_ack_ns >= (r->beside ? LATE_NS : timeout);
		return head && (repeated || unprompted) && waited >= timeout ? BY_TIMEOUT : BY_RECOVERY;
	}
	if (tail && s->sack && !s->probe.outstanding && s->backoff == 0 &&
	    waited >= nearly(rw_sender_probe_timeout_ns(s)) && s->board.lost_out == 0)
		return BY_PROBE;
	return head && waited >= timeout ? BY_TIMEOUT : BY_REORDERING_TIMER;
}

/*
 * A sender retransmits at once when it enters recovery. If it waits twice in turn until the same number of segments was SACKed,
 * that number is its threshold instead of RFC 5681's three.
 */
static RW_ASIDE void learn_threshold(struct rw_reconstruction *r, const struct rw_packet *p)
{
	struct rw_sender *s = &r->tcp;
	int later = r->beside && s->sack && s->state == RW_SENDER_RECOVERY && p->time_ns - r->recovery_ns > LATE_NS &&
		    r->last_ack_ns > r->recovery_ns && p->time_ns - r->last_ack_ns < RW_PROMPT_NS &&
		    s->board.sacked_out > s->rack.reordering;
	uint32_t waited_for = later ? s->board.sacked_out : 0;
	r->recovery_ns = 0;
	if (waited_for && waited_for == r->waited_for && waited_for <= RW_REORDERING_MAX)
		s->threshold = s->rack.reordering = waited_for;
	r->waited_for = waited_for;
}

/* 0, or 1 when memory is used up. */
static int sent_again(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t start, uint32_t end,
		      struct rw_events *out)
{
	struct rw_sender *s = &r->tcp;
	uint32_t mss = s->segment_bytes, bytes = end - start;
	uint32_t segments = (bytes + mss - 1) / mss;
	s->retransmitted += segments ? segments : 1;
	r->retransmitted_bytes += bytes;
	s->last_send_ns = p->time_ns;
	if (s->board.count == 0 || rw_seq_diff(end, s->una) <= 0)
		return 0; /* all of it was acknowledged */
	enum why_sent_again why = why_sent_again(r, p, end);
	if (why == BY_TIMEOUT)
		add_timeout(r, p->time_ns, out);
	else if (why == BY_REORDERING_TIMER)
		add_recovery(r, p->time_ns, p->sequence, end, out);
	if (r->recovery_ns)
		learn_threshold(r, p);
	struct rw_transmission again = transmission_of(r, p, start, end);
	uint32_t marked;
	if ((why == BY_PROBE ? rw_sender_probe : rw_sender_resend)(s, &again, &marked) != RW_SCOREBOARD_OK)
		return 1;
	r->retransmitted_since = 1;
	if (!rw_sender_reducing(s))
		return 0;
	struct rw_event *e = rw_events_add(r, out, RW_EVENT_SEND, p->time_ns);
	e->segments = marked;
	e->reducing = 1;
	return 0;
}

/* Cuts the cursor's segment to its part within [start, end). */
static enum rw_scoreboard_status cut_out(struct rw_scoreboard *b, struct rw_cursor *c, uint32_t start, uint32_t end)
{
	enum rw_scoreboard_status status = RW_SCOREBOARD_OK;
	if (rw_seq_diff(start, c->at->start) > 0) {
		status = rw_scoreboard_cut(b, c, start);
		if (!status)
			*c = rw_cursor_next(b, *c);
	}
	if (!status && rw_seq_diff(end, c->at->end) < 0)
		status = rw_scoreboard_cut(b, c, end);
	return status;
}

/* How much of the capture's holes a packet filled, up to where, and whether so soon that it was only reordered. */
struct filling {
	uint32_t bytes, end;
	uint8_t reordered;
};

/* Data below the highest byte so far: it fills holes of the capture, or is a retransmission. */
static enum rw_scoreboard_status fill_holes(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t start,
					    uint32_t end, struct filling *filling)
{
	struct rw_scoreboard *b = &r->tcp.board;
	/* A packet with a lower identification than one before it, too soon for a retransmission. */
	int64_t reorder_ns = CAPTURE_REORDER_NS, least_ns = (int64_t)r->tcp.rtt.least_ns;
	if (p->overtaken && least_ns > reorder_ns)
		reorder_ns = least_ns;
	*filling = (struct filling){.reordered = 1};
	for (struct rw_cursor c = rw_scoreboard_find(b, start); c.at; c = rw_cursor_next(b, c)) {
		b->work++;
		if (rw_seq_diff(c.at->start, end) >= 0)
			break;
		if (!(c.at->bits & RW_SEGMENT_UNSEEN))
			continue;
		enum rw_scoreboard_status status = cut_out(b, &c, start, end);
		if (status)
			return status;
		struct rw_segment *g = c.at;
		filling->bytes += g->end - g->start;
		filling->end = g->end;
		filling->reordered &= p->time_ns - g->sent_ns < reorder_ns;
		g->bits &= (uint8_t)~RW_SEGMENT_UNSEEN;
	}
	filling->reordered &= filling->bytes > 0;
	return RW_SCOREBOARD_OK;
}

/*
 * All packets that one ACK releases have the time at which the sender began to send, however long it took to hand them on. RACK
 * compares these times.
 */
static void see_burst(struct rw_reconstruction *r, const struct rw_packet *p)
{
	int64_t last_send_ns = r->tcp.last_send_ns;
	int more = last_send_ns > r->last_ack_ns && p->time_ns - last_send_ns < RW_BURST_GAP_NS &&
		   r->burst_ns - r->last_ack_ns < RW_PROMPT_NS;
	if (!r->beside || !more)
		r->burst_ns = p->time_ns;
	if (r->acked_amid_data) {
		r->acked_amid_burst = p->time_ns - r->last_ack_ns < RW_BURST_GAP_NS ? r->acked_amid_data : 0;
		r->acked_amid_data = 0;
	}
}

/* Avoids the division for the most frequent size. */
static uint32_t whole_segments(uint32_t bytes, uint32_t mss) { return bytes <= mss ? bytes == mss : bytes / mss; }

/*
 * Linux reduces an idle window for each buffer that it puts into an empty queue. TCP sends the first buffer at once; MPTCP hands a
 * subflow up to SCHEDULED_MOST bytes before the first packet leaves, with a mapping for each buffer. A mapping of the largest length
 * in whole segments was followed by another one; more than two happen, but do not show.
 */
static uint32_t buffers_queued(const struct rw_reconstruction *r, const struct rw_packet *p)
{
	int full =
	    p->mptcp.seen && p->mptcp.dss_mapping && p->mptcp.data_length + r->tcp.segment_bytes >= SCHEDULED_MOST;
	return full ? 2 : 1;
}

/*
 * MPTCP gives a subflow data buffer by buffer, with a mapping for each. A buffer that was sent in part waits for room in the window;
 * with less than a segment left it may wait for the data in flight (Nagle, RFC 9293 3.7.4).
 */
static void see_mapping(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t start)
{
	const struct rw_mptcp *m = &p->mptcp;
	int mapped = m->seen && m->dss_mapping && m->data_length;
	if (mapped && (!r->mapped || (uint32_t)m->data_sequence != r->mapping)) {
		r->mapping = (uint32_t)m->data_sequence;
		r->mapping_end = start + m->data_length;
		r->maps_packets = m->data_length == r->tcp.segment_bytes;
	}
	r->mapped = (uint8_t)mapped;
}

static void see_flight(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t segments)
{
	/* A later flight may include a tail loss probe. */
	if (r->flight == RW_FLIGHT_INITIAL && r->handshake &&
	    p->time_ns - r->first_data_ns <= (int64_t)r->tcp.rtt.srtt_ns)
		r->initial += segments;
	if (r->flight == RW_FLIGHT_SECOND && p->time_ns - r->last_ack_ns > RW_PROMPT_NS)
		r->flight = RW_FLIGHT_NONE; /* the application released it, not the ACK */
}

/* Adds outstanding data up to `end`: first the part before `start`, which the capture lacks, then the captured part. */
static enum rw_scoreboard_status append(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t start,
					uint32_t end, uint32_t *segments, uint32_t *unseen)
{
	struct rw_sender *s = &r->tcp;
	struct rw_transmission seen = transmission_of(r, p, start, end);
	if (rw_seq_diff(start, s->next) > 0) {
		struct rw_transmission missing = {.start = s->next,
						  .end = start,
						  .time_ns = p->time_ns,
						  .sent_ns = p->time_ns,
						  .ts_value = p->ts_value,
						  .unseen = 1};
		enum rw_scoreboard_status status = rw_sender_send(s, &missing, unseen);
		if (status)
			return status;
		r->identification.holes += *unseen;
	}
	return rw_sender_send(s, &seen, segments);
}

/*
 * Less than a segment that fills the receiver's window to the last byte while nothing is outstanding: a timer sent waiting data
 * (RFC 9293 3.8.6.1). The sender was not idle, and its window was not used. MPTCP also sends such pieces without a timer.
 */
static int fills_window(const struct rw_reconstruction *r, const struct rw_packet *p, uint32_t start, uint32_t end)
{
	const struct rw_sender *s = &r->tcp;
	return !p->mptcp.seen && !r->mapped && s->board.count == 0 && end - start < s->segment_bytes &&
	       end - s->una == s->window_bytes;
}

static int sent_new(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t start, uint32_t end,
		    struct rw_events *out, struct rw_oddity_counts *oddities)
{
	struct rw_sender *s = &r->tcp;
	uint32_t mss = s->segment_bytes, segments = 0, unseen = 0, gap = start - s->next;
	uint32_t gap_segments = whole_segments(gap, mss);
	uint64_t wanted = (uint64_t)s->board.count + gap_segments + whole_segments(end - start, mss) + 2;
	int64_t last_send_ns = s->last_send_ns;
	/* The length of a gap is limited by the data seen so far, so that a forged number does not cost memory. */
	int imagined = gap_segments > GAP_SEGMENTS_FREE + 4 * r->segments_seen;
	if (imagined || wanted > s->board.segments_max || end - s->una > RW_SEQUENCE_JUMP_MAX ||
	    rw_reconstruction_too_much_work(r)) {
		rw_reconstruction_give_up(r, p, end, oddities);
		return 0;
	}
	int filler = fills_window(r, p, start, end);
	uint32_t idle = p->payload_bytes && !filler ? rw_sender_idle_timeouts(s, p->time_ns, RW_SENDER_TICK_NS) : 0;
	enum rw_scoreboard_status status = append(r, p, start, end, &segments, &unseen);
	if (status == RW_SCOREBOARD_FULL)
		rw_reconstruction_give_up(r, p, end, oddities);
	if (status)
		return status == RW_SCOREBOARD_NO_MEMORY;
	r->segments_seen += segments;
	see_mapping(r, p, start);
	if (idle) {
		r->flight = RW_FLIGHT_RESTARTED;
		r->flight_ns = p->time_ns;
		r->first_sequence = s->una;
	} else if (s->una == r->first_sequence) {
		see_flight(r, p, segments);
	}
	if (end - start > mss)
		r->bursts = 1;
	uint64_t quiet = last_send_ns && rw_sender_in_flight(s) <= segments ? (uint64_t)(p->time_ns - last_send_ns) : 0;
	int reducing = rw_sender_reducing(s);
	r->whole = segments && end - start == segments * mss; /* all are full, also the last one */
	r->sent_since += filler ? 0 : segments + unseen;
	r->quiet_acks = 0;
	if (segments + unseen == 0 || (!quiet && !idle && !reducing))
		return 0; /* no window depends on it */
	struct rw_event *e = rw_events_add(r, out, RW_EVENT_SEND, p->time_ns);
	e->quiet_ns = quiet;
	e->segments = segments + unseen;
	e->idle_timeouts = idle;
	e->idle_restarts = buffers_queued(r, p);
	e->reducing = (uint8_t)reducing;
	return 0;
}

/* Next to the receiver, a round trip is the time from sending a timestamp value to its echo (RFC 7323 4.1). */
static void echo_sample(struct rw_reconstruction *r, const struct rw_packet *p)
{
	if (!r->tcp.untimed || !p->has_timestamps || !r->echo_ns)
		return;
	int32_t later = rw_seq_diff(p->ts_echo, r->echo_value);
	if (later == 0)
		rw_reconstruction_rtt(r, (uint64_t)(p->time_ns - r->echo_ns));
	if (later >= 0)
		r->echo_ns = 0; /* echoed or skipped; the next value is followed */
}

/* Data that follows neither an ACK nor other data was released by a timer, or by the application. */
static void see_pace(struct rw_reconstruction *r, const struct rw_packet *p)
{
	if (r->tcp.board.count < PACED_FLIGHT_MIN || r->tcp.state != RW_SENDER_OPEN)
		return;
	r->sends++;
	r->timed_sends += p->time_ns - r->last_ack_ns > RW_PROMPT_NS && p->time_ns - r->tcp.last_send_ns > RW_PROMPT_NS;
}

int rw_reconstruction_paced(const struct rw_reconstruction *r)
{
	return r->sends >= PACED_SENDS_MIN && r->timed_sends * 5 > r->sends && !r->corrected;
}

/* SYNs take a sequence number and may carry data (TCP Fast Open). Returns where that data begins. */
static uint32_t see_syn(struct rw_reconstruction *r, const struct rw_packet *p)
{
	/* When both sides open at once, a side sends one SYN without and one with ACK (RFC 9293 3.5); neither is a retransmission. */
	uint8_t kind = p->flags & RW_TCP_ACK ? 2 : 1;
	r->tcp.retransmitted += r->syns & kind ? 1 : 0;
	r->syns |= kind;
	if (!r->started)
		rw_reconstruction_start(r, p->sequence + 1);
	return p->sequence + 1;
}

/* A packet without data shows the sender's next number. Data before it that the capture lacks was lost before the capture point. */
static int sent_nothing(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out,
			struct rw_oddity_counts *oddities)
{
	uint32_t ahead = p->sequence - r->tcp.next;
	int told =
	    r->started && !(p->flags & (RW_TCP_SYN | RW_TCP_RST)) && p->sequence - r->tcp.una <= r->tcp.window_bytes;
	if (!told || !ahead || ahead > RW_SEQUENCE_JUMP_MAX)
		return 0;
	return sent_new(r, p, p->sequence, p->sequence, out, oddities);
}

static int sent_data(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t start, uint32_t end,
		     struct rw_events *out, struct rw_oddity_counts *oddities)
{
	struct rw_sender *s = &r->tcp;
	int fin = !!(p->flags & RW_TCP_FIN); /* it takes a sequence number but is no data */
	if (rw_seq_diff(start, s->next) < 0) {
		uint32_t old_end = rw_seq_diff(end, s->next) < 0 ? end : s->next;
		/* A keep-alive repeats the last acknowledged byte (RFC 9293 3.8.4). */
		if (p->payload_bytes <= 1 && rw_seq_diff(old_end, s->una) <= 0 && !fin)
			return 0;
		struct filling filling;
		enum rw_scoreboard_status status = fill_holes(r, p, start, old_end, &filling);
		if (status == RW_SCOREBOARD_FULL)
			rw_reconstruction_give_up(r, p, s->next, oddities);
		if (status)
			return status == RW_SCOREBOARD_NO_MEMORY;
		r->bytes += filling.bytes - (uint32_t)(fin && filling.bytes && filling.end == end);
		if (!filling.reordered && sent_again(r, p, start, old_end, out))
			return 1;
		start = old_end;
	}
	if (rw_seq_diff(end, start) <= 0)
		return 0;
	r->bytes += end - start - (uint32_t)fin;
	return sent_new(r, p, start, end, out, oddities);
}

static int sent(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out,
		struct rw_oddity_counts *oddities)
{
	uint32_t start = p->sequence, bytes = p->payload_bytes + !!(p->flags & RW_TCP_FIN);
	if (p->flags & RW_TCP_SYN) {
		start = see_syn(r, p);
		if (p->payload_bytes == 0)
			return 0;
	}
	if (bytes == 0)
		return sent_nothing(r, p, out, oddities);
	if (!r->started)
		rw_reconstruction_start(r, start);
	struct rw_sender *s = &r->tcp;
	/* A byte at a closed window is a probe (RFC 9293 3.8.6.1): no data yet, and its repetition is no loss. */
	if (p->payload_bytes == 1 && s->board.count == 0 && start == s->una && s->window_bytes == 0) {
		r->window_probe = 1;
		return 0;
	}
	if (rw_seq_diff(start, s->next) < -RW_SEQUENCE_JUMP_MAX)
		return 0;
	if (p->flags & RW_TCP_FIN) {
		r->fin_sent = 1;
		r->fin = start + p->payload_bytes;
	}
	if (p->payload_bytes) {
		rw_sender_cut_by(s, rw_reconstruction_segment_bytes(r, p));
		r->segment_header = p->tcp_header_bytes;
		if (!r->first_data_ns)
			r->first_data_ns = p->time_ns;
	}
	see_pace(r, p);
	if (r->rates)
		rw_rates_see_packet(r, p);
	see_burst(r, p);
	echo_sample(r, p);
	return sent_data(r, p, start, start + bytes, out, oddities);
}

/*
 * For the short way: whether the packet is a segment that follows the last one, of an undisturbed sender, with others in flight.
 */
static inline int goes_on(const struct rw_reconstruction *r, const struct rw_packet *p)
{
	return p->sequence == r->tcp.next && p->tcp_header_bytes == r->segment_header &&
	       !(p->flags & (RW_TCP_SYN | RW_TCP_FIN)) && r->steady && rw_sender_continues(&r->tcp, p->payload_bytes);
}

/* The short way: the effects that sent() has for such a packet. */
static inline void send_next(struct rw_reconstruction *r, const struct rw_packet *p)
{
	uint32_t start = r->tcp.next;
	see_pace(r, p);
	if (r->rates)
		rw_rates_see_packet(r, p);
	see_burst(r, p);
	echo_sample(r, p);
	r->bytes += p->payload_bytes;
	rw_sender_continue(&r->tcp, p->payload_bytes, p->time_ns, r->burst_ns, p->ts_value);
	if (r->rates)
		rw_sender_note_flight(&r->tcp, r->burst_ns);
	r->segments_seen++;
	if (p->mptcp.seen | r->mapped)
		see_mapping(r, p, start);
	r->whole = p->payload_bytes == r->tcp.segment_bytes;
	r->sent_since++;
	r->quiet_acks = 0;
}

static RW_ASIDE int sent_otherwise(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out,
				   struct rw_oddity_counts *oddities)
{
	int failed = sent(r, p, out, oddities);
	rw_settle_events(r, out);
	return failed;
}

int rw_reconstruction_sent(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out,
			   struct rw_oddity_counts *oddities)
{
	out->count = 0;
	r->packets++;
	if (rw_reconstruction_too_much_work(r))
		rw_reconstruction_give_up(r, p, r->tcp.next, oddities);
	if (r->ticks.counts && p->has_timestamps)
		rw_tick_clock_see(&r->ticks, p->ts_value, p->time_ns, p->time_ns, 0);
	if (!RW_SHORT_WAY(goes_on(r, p)))
		return sent_otherwise(r, p, out, oddities);
	send_next(r, p);
	return 0;
}
