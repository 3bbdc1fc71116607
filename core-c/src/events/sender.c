#include "events.h"

#include <string.h>

#define MS 1000000ll
/* RFC 8985 7.2: two round trips and Linux's 2 ms; compared with nine tenths because timers fire on ticks. */
#define PROBE_SLACK_NS (2 * MS)
#define DUPLICATE_ACKS 3
/* A hole filled so soon was reordered on the way to the capture, not retransmitted. */
#define CAPTURE_REORDER_NS (3 * MS)
/* Further ahead is another connection's number, not this one's. */
#define SEQUENCE_JUMP_MAX (1 << 30)
/* More IPv4 identifications at once were not lost: they were used elsewhere. */
#define MISSING_MAX 256
#define GAP_SEGMENTS_FREE 4096
#define WORK_FREE 20000000ull
#define WORK_PER_PACKET 20000ull
/* An MSS below is taken for a misread one (RFC 9293: 536 is the default). */
#define MSS_MIN 64
/* 1500 bytes less IPv4 and TCP; for flows whose handshake was not seen. */
#define MSS_ETHERNET 1460

void rw_sender_open(struct rw_sender *s, const struct rw_flow *flow, uint8_t vantage, uint32_t segments_max,
		    struct rw_budget *budget)
{
	const struct rw_flow_side *source = &flow->side[flow->source], *sink = &flow->side[!flow->source];
	memset(s, 0, sizeof *s);
	s->vantage = vantage;
	s->segments_max = segments_max;
	s->budget = budget;
	s->peer_mss = sink->mss;
	s->payload_max = source->payload_max;
	s->timestamps = source->timestamps && sink->timestamps;
	/* Without a handshake assume what every stack of today offers. */
	s->sack = source->syn && sink->syn ? source->sack_permitted && sink->sack_permitted : 1;
	s->peer_scale = source->syn && sink->syn && source->has_window_scale && sink->has_window_scale ? sink->window_scale : 0;
	s->segment_bytes = s->peer_mss > MSS_MIN ? s->peer_mss : MSS_ETHERNET;
	s->reorder_segments = DUPLICATE_ACKS;
	s->reorder_steps = 1;
	s->window_bytes = UINT32_MAX;
}

static void start(struct rw_sender *s, uint32_t sequence)
{
	s->una = s->next = s->high = s->rtt_sequence = s->highest_sack = sequence;
	s->started = 1;
}

/* What one segment carries: the peer's MSS less this packet's own options; super-segments are cut by it. */
static uint32_t segment_bytes_of(const struct rw_sender *s, const struct rw_packet *p)
{
	if (s->peer_mss > MSS_MIN) {
		uint32_t options = p->tcp_header_bytes - 20u;
		return s->peer_mss > options + MSS_MIN ? s->peer_mss - options : s->peer_mss;
	}
	return s->payload_max && s->payload_max <= MSS_ETHERNET ? s->payload_max : MSS_ETHERNET;
}

static struct rw_event *add_event(struct rw_sender *s, struct rw_events *out, uint8_t kind, int64_t time_ns)
{
	struct rw_event *e = &out->event[out->count++];
	memset(e, 0, sizeof *e);
	e->kind = kind;
	e->time_ns = time_ns;
	e->state = s->state;
	e->una = s->una;
	e->srtt_ns = s->srtt_ns;
	e->rto_ns = rw_sender_rto_ns(s);
	e->bursts = s->bursts;
	return e;
}

static void remember_retransmit(struct rw_sender *s, const struct rw_packet *p)
{
	if (!s->has_retransmit_ts && p->has_timestamps) {
		s->first_retransmit_ts = p->ts_value;
		s->has_retransmit_ts = 1;
	}
}

static void init_undo(struct rw_sender *s)
{
	s->undo_possible = 1;
	s->undo_mark = s->una;
	s->undo_retransmits = s->retrans_out ? (int32_t)s->retrans_out : -1;
}

/* Enters recovery; returns whether windows are reduced by it (not from CWR: they were already). */
static int enter_recovery(struct rw_sender *s)
{
	int reduce = s->state != RW_SENDER_CWR && s->state != RW_SENDER_RECOVERY;
	init_undo(s);
	if (reduce) {
		s->high = s->next;
		s->probe_outstanding = 0;
	}
	s->state = RW_SENDER_RECOVERY;
	s->fast_retransmits++;
	return reduce;
}

static void lose_at_timeout(struct rw_sender *s, int64_t now_ns)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct rw_segment *g = rw_segment_at(s, i);
		s->work++;
		/* RACK spares what was sent too recently to be lost, but never the head. */
		if (i > 0 && s->sack && (int64_t)s->rack_rtt_ns > now_ns - g->sent_ns)
			continue;
		rw_scoreboard_lose(s, g);
	}
}

static void time_out(struct rw_sender *s, int64_t now_ns, struct rw_events *out)
{
	struct rw_event *e = add_event(s, out, RW_EVENT_TIMEOUT, now_ns);
	int fresh = s->state < RW_SENDER_RECOVERY;
	if (!s->sack)
		s->sacked_out = 0; /* what duplicate ACKs stood for is lost as well */
	e->new_episode = s->state <= RW_SENDER_DISORDER || rw_seq_diff(s->high, s->una) <= 0 ||
			 (s->state == RW_SENDER_LOSS && s->backoff == 0);
	lose_at_timeout(s, now_ns);
	if (e->new_episode)
		init_undo(s);
	if (s->state <= RW_SENDER_DISORDER && s->sacked_out >= DUPLICATE_ACKS && s->reorder_segments > DUPLICATE_ACKS)
		s->reorder_segments = DUPLICATE_ACKS;
	s->f_rto = fresh || s->backoff > 0;
	s->state = RW_SENDER_LOSS;
	s->high = s->next;
	s->probe_outstanding = 0;
	if (s->backoff < 15)
		s->backoff++;
	s->timeouts++;
	e->in_flight = rw_in_flight(s);
}

/* Why did the sender retransmit outside recovery? By the time since its timer was set. */
static void explain_retransmission(struct rw_sender *s, const struct rw_packet *p, uint32_t end, struct rw_events *out)
{
	int64_t now = p->time_ns, waited = now - s->timer_ns;
	int64_t rto = (int64_t)rw_sender_rto_ns(s), probe = 2 * (int64_t)s->srtt_ns + PROBE_SLACK_NS;
	int head = rw_seq_diff(p->sequence, s->una) <= 0, tail = rw_seq_diff(end, s->next) >= 0;
	const struct rw_segment *first = rw_segment_at(s, 0);
	int repeated = first->bits & RW_SEGMENT_RETRANSMITTED;
	if (s->state == RW_SENDER_RECOVERY || s->state == RW_SENDER_LOSS) {
		if (head && repeated && waited >= rto / 10 * 9)
			time_out(s, now, out);
		return;
	}
	if (probe > rto)
		probe = rto;
	if (tail && s->sack && !s->probe_outstanding && s->backoff == 0 && waited >= probe / 10 * 9 && s->lost_out == 0) {
		s->probe_outstanding = 1;
		s->probe_retransmitted = 1;
		s->probe_high = s->next;
		return;
	}
	if (head && waited >= rto / 10 * 9) {
		time_out(s, now, out);
		return;
	}
	struct rw_event *e = add_event(s, out, RW_EVENT_RECOVERY, now);
	s->rack_advanced = 1;
	rw_rack_mark_lost(s, now);
	for (uint32_t i = rw_scoreboard_find(s, p->sequence); i < s->count; i++) {
		struct rw_segment *g = rw_segment_at(s, i);
		if (rw_seq_diff(g->start, end) >= 0)
			break;
		rw_scoreboard_lose(s, g);
	}
	if (enter_recovery(s))
		e->steps = RW_STEP_RECOVERY;
	e->delivered = 1; /* Linux reduces by one segment when the timer starts recovery */
	e->steps |= RW_STEP_REDUCE;
	e->in_flight = rw_in_flight(s);
}

/* Marks what lies in [start, end) as sent again; counts segments. */
static uint32_t mark_retransmitted(struct rw_sender *s, const struct rw_packet *p, uint32_t start, uint32_t end)
{
	uint32_t segments = 0;
	for (uint32_t i = rw_scoreboard_find(s, start); i < s->count; i++) {
		struct rw_segment *g = rw_segment_at(s, i);
		s->work++;
		if (rw_seq_diff(g->start, end) >= 0)
			break;
		segments++;
		if (!(g->bits & RW_SEGMENT_SACKED)) {
			int losing = s->state == RW_SENDER_RECOVERY || s->state == RW_SENDER_LOSS;
			if (g->bits & RW_SEGMENT_RETRANSMITTED || (losing && !(g->bits & RW_SEGMENT_LOST)))
				rw_scoreboard_lose(s, g); /* the sender knew before the reconstruction did */
			if (!(g->bits & RW_SEGMENT_RETRANSMITTED)) {
				g->bits |= RW_SEGMENT_RETRANSMITTED;
				s->retrans_out++;
			}
		}
		g->bits |= RW_SEGMENT_EVER;
		g->sent_ns = p->time_ns;
	}
	return segments;
}

static void sent_again(struct rw_sender *s, const struct rw_packet *p, uint32_t start, uint32_t end,
		       struct rw_events *out)
{
	uint32_t mss = s->segment_bytes, bytes = end - start;
	uint32_t segments = (bytes + mss - 1) / mss;
	s->retransmitted_packets += segments ? segments : 1;
	s->retransmitted_bytes += bytes;
	s->last_send_ns = p->time_ns;
	if (s->count == 0 || rw_seq_diff(end, s->una) <= 0)
		return; /* all of it was acknowledged */
	explain_retransmission(s, p, end, out);
	remember_retransmit(s, p);
	int was_head = rw_seq_diff(start, s->una) <= 0;
	uint32_t marked = mark_retransmitted(s, p, start, end);
	if (s->undo_retransmits < 0)
		s->undo_retransmits = 0;
	if (s->undo_retransmits < SEQUENCE_JUMP_MAX)
		s->undo_retransmits += (int32_t)marked;
	s->retransmitted_since = 1;
	if (was_head || s->state != RW_SENDER_RECOVERY)
		s->timer_ns = p->time_ns;
	struct rw_event *e = add_event(s, out, RW_EVENT_SEND, p->time_ns);
	e->segments = marked;
	e->retransmission = 1;
	e->reducing = s->state == RW_SENDER_CWR || s->state == RW_SENDER_RECOVERY;
	e->in_flight = rw_in_flight(s);
}

/* Below the highest byte seen: a hole of the capture filled, or a retransmission. */
static uint32_t fill_holes(struct rw_sender *s, uint32_t start, uint32_t end, int64_t now_ns, int *reordered)
{
	uint32_t filled = 0;
	int soon = now_ns - s->gap_ns < CAPTURE_REORDER_NS;
	for (uint32_t i = rw_scoreboard_find(s, start); i < s->count; i++) {
		struct rw_segment *g = rw_segment_at(s, i);
		s->work++;
		if (rw_seq_diff(g->start, end) >= 0)
			break;
		if (g->bits & RW_SEGMENT_UNSEEN) {
			uint32_t from = rw_seq_diff(start, g->start) > 0 ? start : g->start;
			uint32_t to = rw_seq_diff(end, g->end) < 0 ? end : g->end;
			filled += to - from;
			g->bits &= (uint8_t)~RW_SEGMENT_UNSEEN;
		}
	}
	*reordered = filled && soon;
	return filled;
}

static int append_new(struct rw_sender *s, uint32_t start, uint32_t end, uint32_t mss, int64_t now_ns, uint8_t bits,
		      uint32_t *segments)
{
	while (rw_seq_diff(end, start) > 0) {
		uint32_t stop = end - start > mss ? start + mss : end;
		int status = rw_scoreboard_append(s, start, stop, now_ns, bits);
		if (status)
			return status;
		start = stop;
		(*segments)++;
	}
	return 0;
}

/* A scoreboard that is walked again and again at every packet was made for that. */
static int too_much_work(const struct rw_sender *s) { return s->work > WORK_FREE + WORK_PER_PACKET * s->packets; }

/* Forgets what is outstanding: the window cannot be followed. */
static void give_up_window(struct rw_sender *s, const struct rw_packet *p, uint32_t next, struct rw_oddity_counts *oddities)
{
	rw_oddity_add(oddities, RW_ODDITY_WINDOW_TOO_LARGE, p->file, p->offset);
	rw_scoreboard_clear(s);
	s->una = s->next = s->high = s->highest_sack = next;
	s->state = RW_SENDER_OPEN;
	s->probe_outstanding = s->undo_possible = 0;
	s->work = 0;
	s->packets = 0;
}

static int sent_new(struct rw_sender *s, const struct rw_packet *p, uint32_t start, uint32_t end, struct rw_events *out,
		    struct rw_oddity_counts *oddities)
{
	uint32_t mss = s->segment_bytes, segments = 0, gap = start - s->next;
	uint64_t wanted = (uint64_t)s->count + gap / mss + (end - start) / mss + 2;
	/* A gap may be long, but not made of much more than was ever seen: it would cost memory that no packet paid for. */
	int imagined = gap / mss > GAP_SEGMENTS_FREE + 4 * s->segments_seen;
	if (imagined || wanted > s->segments_max || end - s->una > SEQUENCE_JUMP_MAX || too_much_work(s)) {
		give_up_window(s, p, end, oddities);
		return 0;
	}
	uint32_t idle = 0;
	if (s->count == 0 && s->last_send_ns && p->payload_bytes) {
		int64_t quiet = p->time_ns - s->last_send_ns, rto = (int64_t)rw_sender_rto_ns(s);
		idle = quiet > rto ? (uint32_t)(quiet / rto < 64 ? quiet / rto : 64) : 0;
	}
	if (rw_seq_diff(start, s->next) > 0) {
		uint32_t unseen = 0;
		s->gap_ns = p->time_ns;
		int status = append_new(s, s->next, start, mss, p->time_ns, RW_SEGMENT_UNSEEN, &unseen);
		if (status == RW_SCOREBOARD_FULL)
			give_up_window(s, p, end, oddities);
		if (status)
			return status == RW_SCOREBOARD_NO_MEMORY;
		s->identification.holes += unseen;
	}
	int status = append_new(s, start, end, mss, p->time_ns, 0, &segments);
	if (status == RW_SCOREBOARD_FULL)
		give_up_window(s, p, end, oddities);
	if (status)
		return status == RW_SCOREBOARD_NO_MEMORY;
	s->segments_seen += segments;
	if (s->count == segments || s->timer_ns == 0)
		s->timer_ns = p->time_ns;
	if (end - start > mss)
		s->bursts = 1;
	uint64_t quiet = s->last_send_ns && rw_in_flight(s) <= segments ? (uint64_t)(p->time_ns - s->last_send_ns) : 0;
	s->next = end;
	s->last_send_ns = p->time_ns;
	s->sent_since += segments;
	s->quiet_acks = 0;
	struct rw_event *e = add_event(s, out, RW_EVENT_SEND, p->time_ns);
	e->quiet_ns = quiet;
	e->segments = segments;
	e->idle_timeouts = idle;
	e->reducing = s->state == RW_SENDER_CWR || s->state == RW_SENDER_RECOVERY;
	e->in_flight = rw_in_flight(s);
	e->packets_out_before = s->count;
	return 0;
}

/* Beside the receiver, an RTT is the time from a timestamp value leaving to its echo arriving (RFC 7323 4.1). */
static void echo_sample(struct rw_sender *s, const struct rw_packet *p)
{
	if (s->vantage != RW_VANTAGE_RECEIVER || !p->has_timestamps || !s->echo_ns)
		return;
	int32_t later = rw_seq_diff(p->ts_echo, s->echo_value);
	if (later == 0)
		rw_sender_rtt(s, (uint64_t)(p->time_ns - s->echo_ns));
	if (later >= 0)
		s->echo_ns = 0; /* taken, or passed over: the next value is followed */
}

static int sent(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
		struct rw_oddity_counts *oddities)
{
	uint32_t start_at = p->sequence, bytes = p->payload_bytes + !!(p->flags & RW_TCP_FIN);
	if (p->flags & RW_TCP_SYN) {
		if (s->started)
			s->retransmitted_packets++;
		else
			start(s, p->sequence + 1);
		if (p->payload_bytes == 0)
			return 0;
		start_at++; /* TCP Fast Open */
	}
	if (bytes == 0)
		return 0;
	if (!s->started)
		start(s, start_at);
	uint32_t end = start_at + bytes;
	if (rw_seq_diff(start_at, s->next) < -SEQUENCE_JUMP_MAX)
		return 0;
	if (p->payload_bytes)
		s->segment_bytes = segment_bytes_of(s, p);
	if (p->payload_bytes && !s->first_data_ns)
		s->first_data_ns = p->time_ns;
	echo_sample(s, p);
	if (rw_seq_diff(start_at, s->next) < 0) {
		uint32_t old_end = rw_seq_diff(end, s->next) < 0 ? end : s->next;
		/* A keep-alive repeats one byte below what was acknowledged (RFC 9293 3.8.4). */
		if (p->payload_bytes <= 1 && rw_seq_diff(old_end, s->una) <= 0 && !(p->flags & RW_TCP_FIN))
			return 0;
		int reordered;
		uint32_t filled = fill_holes(s, start_at, old_end, p->time_ns, &reordered);
		s->bytes += filled;
		if (!reordered)
			sent_again(s, p, start_at, old_end, out);
		start_at = old_end;
	}
	if (rw_seq_diff(end, start_at) > 0) {
		s->bytes += end - start_at - (p->flags & RW_TCP_FIN ? 1 : 0);
		return sent_new(s, p, start_at, end, out, oddities);
	}
	return 0;
}

/* What one ACK changes; lives while it is processed. */
struct ack_work {
	const struct rw_packet *p;
	int64_t now;
	uint32_t delivered;
	uint32_t dsack_segments, dsack_end;
	uint8_t advanced, data_acked, data_sacked, dsack, window_update, ece, original_sacked, lost_retransmission;
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

static void sack_segment(struct rw_sender *s, struct ack_work *w, struct rw_segment *g)
{
	if (g->bits & RW_SEGMENT_SACKED)
		return;
	if (g->bits & RW_SEGMENT_EVER) {
		if (g->bits & RW_SEGMENT_LOST && g->bits & RW_SEGMENT_RETRANSMITTED) {
			g->bits &= (uint8_t) ~(RW_SEGMENT_LOST | RW_SEGMENT_RETRANSMITTED);
			s->lost_out--;
			s->retrans_out--;
		}
	} else {
		if (rw_seq_diff(g->start, w->highest_before) < 0 &&
		    (!w->reordered || rw_seq_diff(g->start, w->reorder_at) < 0)) {
			w->reordered = 1;
			w->reorder_at = g->start;
		}
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
		if (duplicate) { /* RFC 2883 */
			w->dsack = 1;
			w->dsack_segments = (end - start + mss - 1) / mss;
			w->dsack_end = end;
			s->spurious += w->dsack_segments;
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
			if (rw_seq_diff(g->start, w->highest_before) < 0 &&
			    (!w->reordered || rw_seq_diff(g->start, w->reorder_at) < 0)) {
				w->reordered = 1;
				w->reorder_at = g->start;
			}
			if (rw_seq_diff(g->end, s->high) <= 0)
				w->original_sacked = 1;
		}
		if (g->bits & RW_SEGMENT_SACKED) {
			s->sacked_out--;
		} else {
			w->delivered++;
			if (!(g->bits & RW_SEGMENT_EVER && w->p->has_timestamps && s->has_retransmit_ts &&
			      echoes_before(w->p, s->first_retransmit_ts)))
				rw_rack_advance(s, g, w->now);
		}
		if (g->bits & RW_SEGMENT_LOST)
			s->lost_out--;
		if (g->bits & RW_SEGMENT_UNSEEN)
			s->unseen_bytes += g->end - g->start;
		s->head = (s->head + 1) & (s->capacity - 1);
		s->count--;
	}
}

static uint64_t rtt_sample(struct rw_sender *s, const struct ack_work *w)
{
	int64_t from = 0;
	if (w->first_sent_ns && !w->retransmitted_acked)
		from = w->first_sent_ns;
	else if (w->sack_sent_ns)
		from = w->sack_sent_ns;
	if (!from || s->vantage == RW_VANTAGE_RECEIVER)
		return 0;
	return w->now > from ? (uint64_t)(w->now - from) : 1;
}

/* The newest segment's sample: what delay-based decisions look at. */
static uint64_t newest_sample(const struct rw_sender *s, const struct ack_work *w)
{
	int64_t from = w->sack_last_ns ? w->sack_last_ns : w->first_sent_ns && !w->retransmitted_acked ? w->last_sent_ns : 0;
	if (!from || s->vantage == RW_VANTAGE_RECEIVER)
		return 0;
	return w->now > from ? (uint64_t)(w->now - from) : 1;
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
	if (!s->probe_retransmitted || w->dsack) {
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
	if (enter_recovery(s))
		e->steps |= RW_STEP_RECOVERY;
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
			if (may_undo(s, w))
				undo(s, e, 0);
			else if (s->undo_possible)
				e->steps |= RW_STEP_EXIT;
			if (s->reorder_persist)
				s->reorder_persist--;
			s->state = RW_SENDER_OPEN;
		}
	}
	if (s->state == RW_SENDER_RECOVERY) {
		if (w->advanced && s->undo_possible && s->has_retransmit_ts && echoes_before(w->p, s->first_retransmit_ts)) {
			note_reordering(s, s->una, s->segment_bytes);
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
	s->last_ack_ns = w->now;
}

/* The ACK covers data that the capture never showed. */
static uint32_t accept_unseen(struct rw_sender *s, const struct rw_packet *p, uint32_t mss,
			      struct rw_oddity_counts *oddities)
{
	uint32_t unseen = p->ack - s->next;
	s->unseen_bytes += unseen;
	rw_oddity_add(oddities, RW_ODDITY_UNSEEN_DATA, p->file, p->offset);
	s->next = p->ack;
	return (unseen + mss - 1) / mss;
}

static void acked(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
		  struct rw_oddity_counts *oddities)
{
	if (!s->started)
		start(s, p->ack);
	if (s->vantage == RW_VANTAGE_RECEIVER && p->has_timestamps && !s->echo_ns) {
		s->echo_value = p->ts_value;
		s->echo_ns = p->time_ns;
	}
	uint32_t mss = s->segment_bytes;
	struct rw_event *e = add_event(s, out, RW_EVENT_ACK, p->time_ns);
	struct ack_work w = {.p = p, .now = p->time_ns, .highest_before = s->sacked_out ? s->highest_sack : s->una};
	int32_t ahead = rw_seq_diff(p->ack, s->una);
	e->ack = p->ack;
	e->in_flight_before = rw_in_flight(s);
	e->packets_out_before = s->count;
	e->next_before = s->next;
	e->sent_before = s->sent_since;
	e->sent_ns = s->last_send_ns;
	uint64_t flight_bytes = (uint64_t)e->in_flight_before * mss;
	uint32_t span = s->next - s->una;
	e->in_flight_bytes_before = s->sacked_out + s->lost_out == 0 ? span
				    : flight_bytes > UINT32_MAX     ? UINT32_MAX
								    : (uint32_t)flight_bytes;
	s->acks++;
	w.ece = (p->flags & RW_TCP_ECE) != 0;
	s->ece_acks += w.ece;
	e->flags = (uint16_t)((w.ece ? RW_ACK_ECE : 0) | (p->sack_count ? RW_ACK_SACK : 0) |
			      (s->retransmitted_since ? RW_ACK_RETRANSMIT : 0));
	uint32_t window = (uint32_t)p->window << s->peer_scale;
	w.window_update = s->window_bytes != UINT32_MAX && window != s->window_bytes;
	limits(s, p, e, mss);
	s->sent_since = 0;
	s->retransmitted_since = 0;
	if (ahead < 0 || ahead > SEQUENCE_JUMP_MAX) { /* old, or not of this connection */
		e->in_flight = rw_in_flight(s);
		return;
	}
	int outstanding = s->count > 0;
	uint32_t lost_before = s->lost_total, una_before = s->una;
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
	w.advanced = ahead > 0;
	s->una = p->ack;
	if (rw_seq_diff(s->highest_sack, s->una) < 0)
		s->highest_sack = s->una;
	e->una_advanced = w.advanced;
	e->acked_bytes = (uint32_t)ahead;
	int duplicate = !w.advanced && !w.window_update && p->payload_bytes == 0 && outstanding && !w.dsack;
	if (duplicate)
		e->flags |= RW_ACK_DUP;
	if (!s->sack && duplicate && s->sacked_out + (s->lost_out ? s->lost_out : 1) < s->count) {
		s->sacked_out++; /* without SACK a duplicate ACK stands for one delivered segment (RFC 6582) */
		w.delivered++;
	} else if (!s->sack && w.advanced) {
		uint32_t counted = s->sacked_out < w.delivered ? s->sacked_out : w.delivered;
		s->sacked_out = s->state == RW_SENDER_RECOVERY && rw_seq_diff(s->una, s->high) < 0 ? s->sacked_out - counted : 0;
		w.delivered -= counted < w.delivered ? counted : w.delivered - (w.delivered > 0);
		if (s->sacked_out > s->count - s->lost_out)
			s->sacked_out = s->count - s->lost_out;
	}
	if (w.reordered)
		note_reordering(s, w.reorder_at, mss);
	e->rtt_ns = rtt_sample(s, &w);
	e->rtt_newest_ns = newest_sample(s, &w);
	if (e->rtt_ns)
		rw_sender_rtt(s, e->rtt_ns);
	rw_rack_update_window(s, w.dsack);
	if (w.dsack && s->undo_possible && s->undo_retransmits > 0 && rw_seq_diff(w.dsack_end, una_before) <= 0 &&
	    rw_seq_diff(w.dsack_end, s->undo_mark) > 0) {
		s->undo_retransmits -= (int32_t)w.dsack_segments;
		if (s->undo_retransmits < 0)
			s->undo_retransmits = 0;
	}
	end_probe(s, &w, e);
	int dubious = duplicate || w.data_sacked || w.ece || w.dsack || s->state != RW_SENDER_OPEN;
	if (outstanding && dubious)
		react(s, &w, e, duplicate);
	e->delivered = w.delivered;
	e->newly_lost = s->lost_total - lost_before;
	if (s->state == RW_SENDER_CWR || s->state == RW_SENDER_RECOVERY)
		e->steps |= RW_STEP_REDUCE;
	else if (w.data_acked || (s->reorder_segments > DUPLICATE_ACKS && w.data_sacked)) {
		e->steps |= RW_STEP_RAISE;
		e->flags |= RW_ACK_RAISES;
	}
	e->in_flight = rw_in_flight(s);
	timers(s, &w);
}

static void settle(const struct rw_sender *s, struct rw_events *out)
{
	for (uint32_t i = 0; i < out->count; i++)
		out->event[i].state_after = i + 1 < out->count ? out->event[i + 1].state : s->state;
}

/*
 * Senders number their IPv4 packets one by one (most do, for each connection): numbers that are missing behind the
 * sender are packets lost on the way. Those that were not first transmissions were retransmissions.
 */
static void follow_identification(struct rw_sender *s, const struct rw_packet *p)
{
	if (p->family != 4 || s->vantage == RW_VANTAGE_SENDER || s->vantage == RW_VANTAGE_UNKNOWN)
		return;
	uint32_t mss = segment_bytes_of(s, p);
	uint16_t segments = p->payload_bytes > mss ? (uint16_t)((p->payload_bytes + mss - 1) / mss) : 1;
	int16_t ahead = (int16_t)(p->identification - s->identification.next);
	if (s->identification.started) {
		if (ahead < 0) {
			s->identification.out_of_order++;
			if (s->identification.missing)
				s->identification.missing--;
			return;
		}
		if (ahead > MISSING_MAX)
			s->identification.out_of_order++;
		else
			s->identification.missing += (uint64_t)ahead;
		s->identification.consecutive += ahead == 0;
		s->identification.in_order++;
	}
	s->identification.started = 1;
	s->identification.next = (uint16_t)(p->identification + segments);
}

uint64_t rw_sender_unseen_retransmissions(const struct rw_sender *s)
{
	/* Random counters, and those that a host's other flows share, tell nothing. */
	if (s->identification.out_of_order * 20 > s->identification.in_order ||
	    s->identification.in_order - s->identification.consecutive > 4 + s->identification.in_order / 10)
		return 0;
	uint64_t holes = s->identification.holes, missing = s->identification.missing;
	return missing > holes ? missing - holes : 0;
}

int rw_sender_sent(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
		   struct rw_oddity_counts *oddities)
{
	out->count = 0;
	s->packets++;
	if (too_much_work(s))
		give_up_window(s, p, s->next, oddities);
	follow_identification(s, p);
	int failed = sent(s, p, out, oddities);
	settle(s, out);
	return failed;
}

void rw_sender_acked(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
		     struct rw_oddity_counts *oddities)
{
	out->count = 0;
	s->packets++;
	if (too_much_work(s))
		give_up_window(s, p, s->next, oddities);
	acked(s, p, out, oddities);
	settle(s, out);
}
