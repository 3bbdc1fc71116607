/* What a sender sends: new data, retransmissions and why, and what of it the capture shows. */
#include "events.h"

#include <string.h>

#define MS 1000000ll
/* RFC 8985 7.2: two round trips and Linux's 2 ms; compared with nine tenths because timers fire on ticks. */
#define PROBE_SLACK_NS (2 * MS)
/* A hole filled so soon was reordered on the way to the capture, not retransmitted. */
#define CAPTURE_REORDER_NS (3 * MS)
/* More IPv4 identifications at once were not lost: they were used elsewhere. */
#define MISSING_MAX 256
#define GAP_SEGMENTS_FREE 4096
#define WORK_FREE 20000000ull
#define WORK_PER_PACKET 20000ull
/* A host answers an ACK with data sooner than this. */
#define PROMPT_NS (MS / 5)
/* Packets of one burst follow each other faster. */
#define BURST_GAP_NS (MS / 20)
/* What waits longer was not set free by the same ACK. */
#define LATE_NS (2 * MS)
#define REORDER_MOST 300
/* Clocks of two hosts drift apart by less: 100 us in a second. */
#define CLOCK_DRIFT 10000
#define SCHEDULED_MOST 65428
#define PACED_FLIGHT_MIN 4
#define PACED_SENDS_MIN 50
/* An MSS below is taken for a misread one (RFC 9293: 536 is the default). */
#define MSS_MIN 64
/* 1500 bytes less IPv4 and TCP; for flows whose handshake was not seen. */
#define MSS_ETHERNET 1460

void rw_sender_open(struct rw_sender *s, const struct rw_flow *flow, uint8_t vantage, int corrected,
		    uint32_t segments_max, struct rw_budget *budget)
{
	const struct rw_flow_side *source = &flow->side[flow->source], *sink = &flow->side[!flow->source];
	memset(s, 0, sizeof *s);
	s->vantage = vantage;
	s->corrected = (uint8_t)corrected;
	s->beside = vantage == RW_VANTAGE_SENDER && !corrected;
	s->afar = vantage == RW_VANTAGE_RECEIVER && !corrected;
	s->segments_max = segments_max;
	s->budget = budget;
	s->peer_mss = sink->mss;
	s->payload_max = source->payload_max;
	/* Without a handshake assume what every stack of today offers. */
	s->sack = source->syn && sink->syn ? source->sack_permitted && sink->sack_permitted : 1;
	s->peer_scale =
	    source->syn && sink->syn && source->has_window_scale && sink->has_window_scale ? sink->window_scale : 0;
	s->ticks = (uint8_t)rw_clock_ticks(flow, flow->source);
	s->handshake = flow->handshake;
	s->identification.asked = flow->family == 4 && (vantage == RW_VANTAGE_MIDDLE || vantage == RW_VANTAGE_RECEIVER);
	s->accurate_ecn = rw_flow_ecn(flow) == RW_ECN_ACCURATE;
	s->ce_counter = 5; /* RFC 9768 3.2.1 */
	s->segment_bytes = s->peer_mss > MSS_MIN ? s->peer_mss : MSS_ETHERNET;
	s->threshold = s->reorder_segments = RW_DUPLICATE_ACKS;
	s->reorder_steps = 1;
	s->window_bytes = sink->syn_window ? sink->syn_window : UINT32_MAX;
}

void rw_sender_start(struct rw_sender *s, uint32_t sequence)
{
	s->una = s->next = s->high = s->rtt_sequence = s->highest_sack = s->first_sequence = sequence;
	s->started = 1;
	s->flight = RW_FLIGHT_INITIAL;
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

struct rw_event *rw_sender_add_event(struct rw_sender *s, struct rw_events *out, uint8_t kind, int64_t time_ns)
{
	struct rw_event *e = &out->event[out->count++];
	const size_t half = sizeof *e / 2;
	/* Twice so few bytes are a few stores; all at once would be a loop. */
	memset(e, 0, half);
	memset((uint8_t *)e + half, 0, sizeof *e - half);
	e->kind = kind;
	e->time_ns = time_ns;
	e->state = s->state;
	e->una = s->una;
	e->srtt_ns = s->srtt_ns;
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

int rw_sender_enter_recovery(struct rw_sender *s)
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
	struct rw_event *e = rw_sender_add_event(s, out, RW_EVENT_TIMEOUT, now_ns);
	int fresh = s->state < RW_SENDER_RECOVERY;
	if (!s->sack)
		s->sacked_out = 0; /* what duplicate ACKs stood for is lost as well */
	e->new_episode = s->state <= RW_SENDER_DISORDER || rw_seq_diff(s->high, s->una) <= 0 ||
			 (s->state == RW_SENDER_LOSS && s->backoff == 0);
	lose_at_timeout(s, now_ns);
	if (e->new_episode)
		init_undo(s);
	if (s->state <= RW_SENDER_DISORDER && s->sacked_out >= s->threshold && s->reorder_segments > s->threshold)
		s->reorder_segments = s->threshold;
	s->f_rto = fresh || s->backoff > 0;
	s->state = RW_SENDER_LOSS;
	s->high = s->next;
	s->probe_outstanding = 0;
	if (s->backoff < 15)
		s->backoff++;
	s->timeouts++;
	e->in_flight = rw_in_flight(s);
}

/* Why did the sender retransmit outside recovery? By the time since its timer was set. 1: it is a tail loss probe. */
static int explain_retransmission(struct rw_sender *s, const struct rw_packet *p, uint32_t end, struct rw_events *out)
{
	int64_t now = p->time_ns, waited = now - s->timer_ns;
	int64_t rto = (int64_t)rw_sender_rto_ns(s), probe = 2 * (int64_t)s->srtt_ns + PROBE_SLACK_NS;
	int head = rw_seq_diff(p->sequence, s->una) <= 0, tail = rw_seq_diff(end, s->next) >= 0;
	const struct rw_segment *first = rw_segment_at(s, 0);
	int repeated = first->bits & RW_SEGMENT_RETRANSMITTED;
	if (s->state == RW_SENDER_RECOVERY || s->state == RW_SENDER_LOSS) {
		/* Where retransmissions are lost before they are captured, this may be the first one of the head to be seen. */
		int silent = now - s->last_ack_ns >= rto / 10 * 9;
		if (head && (repeated || silent) && waited >= rto / 10 * 9)
			time_out(s, now, out);
		return 0;
	}
	if (probe > rto)
		probe = rto;
	if (tail && s->sack && !s->probe_outstanding && s->backoff == 0 && waited >= probe / 10 * 9 &&
	    s->lost_out == 0) {
		s->probe_outstanding = 1;
		s->probe_retransmitted = 1;
		s->probe_high = s->next;
		return 1;
	}
	if (head && waited >= rto / 10 * 9) {
		time_out(s, now, out);
		return 0;
	}
	struct rw_event *e = rw_sender_add_event(s, out, RW_EVENT_RECOVERY, now);
	e->in_flight_before = rw_in_flight(s);
	s->rack_advanced = 1;
	rw_rack_mark_lost(s, now);
	for (uint32_t i = rw_scoreboard_find(s, p->sequence); i < s->count; i++) {
		struct rw_segment *g = rw_segment_at(s, i);
		if (rw_seq_diff(g->start, end) >= 0)
			break;
		rw_scoreboard_lose(s, g);
	}
	if (rw_sender_enter_recovery(s))
		e->steps = RW_STEP_RECOVERY;
	e->delivered = 1; /* Linux reduces by one segment when the timer starts recovery */
	e->steps |= RW_STEP_REDUCE;
	e->in_flight = rw_in_flight(s);
	return 0;
}

/* Marks what lies in [start, end) as sent again; counts segments. A probe asks for an answer: it is no second flight. */
static uint32_t mark_retransmitted(struct rw_sender *s, const struct rw_packet *p, uint32_t start, uint32_t end,
				   int probe)
{
	uint32_t segments = 0;
	for (uint32_t i = rw_scoreboard_find(s, start); i < s->count; i++) {
		struct rw_segment *g = rw_segment_at(s, i);
		s->work++;
		if (rw_seq_diff(g->start, end) >= 0)
			break;
		segments++;
		if (!(g->bits & RW_SEGMENT_SACKED) && !probe) {
			int losing = s->state == RW_SENDER_RECOVERY || s->state == RW_SENDER_LOSS;
			if (g->bits & RW_SEGMENT_RETRANSMITTED || (losing && !(g->bits & RW_SEGMENT_LOST)))
				rw_scoreboard_lose(s, g); /* the sender knew before the reconstruction did */
			if (!(g->bits & RW_SEGMENT_RETRANSMITTED)) {
				g->bits |= RW_SEGMENT_RETRANSMITTED;
				s->retrans_out++;
			}
		}
		g->bits |= RW_SEGMENT_EVER;
		g->sent_ns = s->burst_ns;
		g->ts_value = p->ts_value;
	}
	return segments;
}

/*
 * Segments are sent again as long as they may be now: one that carries SACK blocks for the other direction is shorter than the
 * first time. What is cut off goes with the next. Without room to cut they stay as they were.
 */
static RW_ASIDE void recut(struct rw_sender *s, uint32_t start, uint32_t end)
{
	uint32_t i = rw_scoreboard_find(s, start);
	if (i < s->count && rw_seq_diff(start, rw_segment_at(s, i)->start) > 0) {
		if (rw_scoreboard_cut(s, i, start))
			return;
		i++;
	}
	uint32_t last = i;
	while (last < s->count && rw_seq_diff(rw_segment_at(s, last)->end, end) < 0)
		last++;
	s->work += last - i;
	if (last == s->count || rw_seq_diff(rw_segment_at(s, last)->start, end) >= 0)
		return;
	if (rw_segment_at(s, last)->end != end && rw_scoreboard_cut(s, last, end))
		return;
	for (; last > i && rw_segment_at(s, last)->bits == rw_segment_at(s, last - 1)->bits; last--)
		rw_scoreboard_join(s, last - 1);
}

/*
 * A sender in recovery sends a segment again at once. One that waits, twice in turn, until the same number has been SACKed has
 * that for its threshold, not RFC 5681's three.
 */
static RW_ASIDE void learn_threshold(struct rw_sender *s, const struct rw_packet *p)
{
	int later = s->beside && s->sack && s->state == RW_SENDER_RECOVERY && p->time_ns - s->recovery_ns > LATE_NS &&
		    s->last_ack_ns > s->recovery_ns && p->time_ns - s->last_ack_ns < PROMPT_NS &&
		    s->sacked_out > s->reorder_segments;
	uint32_t waited_for = later ? s->sacked_out : 0;
	s->recovery_ns = 0;
	if (waited_for && waited_for == s->waited_for && waited_for <= REORDER_MOST)
		s->threshold = s->reorder_segments = waited_for;
	s->waited_for = waited_for;
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
	int probe = explain_retransmission(s, p, end, out);
	if (s->recovery_ns)
		learn_threshold(s, p);
	int was_head = rw_seq_diff(start, s->una) <= 0;
	if (!probe && bytes && bytes <= mss)
		recut(s, start, end);
	uint32_t marked = mark_retransmitted(s, p, start, end, probe);
	if (!probe) {
		remember_retransmit(s, p);
		if (s->undo_retransmits < 0)
			s->undo_retransmits = 0;
		if (s->undo_retransmits < RW_SEQUENCE_JUMP_MAX)
			s->undo_retransmits += (int32_t)marked;
	}
	s->retransmitted_since = 1;
	if (was_head || s->state != RW_SENDER_RECOVERY)
		s->timer_ns = p->time_ns;
	if (s->state != RW_SENDER_CWR && s->state != RW_SENDER_RECOVERY)
		return;
	struct rw_event *e = rw_sender_add_event(s, out, RW_EVENT_SEND, p->time_ns);
	e->segments = marked;
	e->reducing = 1;
}

/* Cuts segment i to what lies in [start, end), where that is less. Status of the scoreboard. */
static int cut_out(struct rw_sender *s, uint32_t *i, uint32_t start, uint32_t end)
{
	int status = 0;
	if (rw_seq_diff(start, rw_segment_at(s, *i)->start) > 0) {
		status = rw_scoreboard_cut(s, *i, start);
		*i += !status;
	}
	if (!status && rw_seq_diff(end, rw_segment_at(s, *i)->end) < 0)
		status = rw_scoreboard_cut(s, *i, end);
	return status;
}

/* What a packet filled of the capture's holes: how much, up to where, and whether so soon that it was only reordered. */
struct filling {
	uint32_t bytes, end;
	uint8_t reordered;
};

/* Below the highest byte seen: holes of the capture filled, or a retransmission. Status of the scoreboard. */
static int fill_holes(struct rw_sender *s, const struct rw_packet *p, uint32_t start, uint32_t end,
		      struct filling *filling)
{
	/* A packet with a lower number than one before it, sooner than a round trip could bring a retransmission. */
	int64_t reorder_ns = CAPTURE_REORDER_NS;
	if (p->overtaken && (int64_t)s->rtt_min_ns > reorder_ns)
		reorder_ns = (int64_t)s->rtt_min_ns;
	*filling = (struct filling){.reordered = 1};
	for (uint32_t i = rw_scoreboard_find(s, start); i < s->count; i++) {
		s->work++;
		if (rw_seq_diff(rw_segment_at(s, i)->start, end) >= 0)
			break;
		if (!(rw_segment_at(s, i)->bits & RW_SEGMENT_UNSEEN))
			continue;
		int status = cut_out(s, &i, start, end);
		if (status)
			return status;
		struct rw_segment *g = rw_segment_at(s, i);
		filling->bytes += g->end - g->start;
		filling->end = g->end;
		filling->reordered &= p->time_ns - g->sent_ns < reorder_ns;
		g->bits &= (uint8_t)~RW_SEGMENT_UNSEEN;
	}
	filling->reordered &= filling->bytes > 0;
	return 0;
}

/*
 * All that one ACK sets free carries the time at which its sender began to send, however long it took to hand each
 * packet on: RACK compares such times.
 */
static void see_burst(struct rw_sender *s, const struct rw_packet *p)
{
	int more = s->last_send_ns > s->last_ack_ns && p->time_ns - s->last_send_ns < BURST_GAP_NS &&
		   s->burst_ns - s->last_ack_ns < PROMPT_NS;
	if (!s->beside || !more)
		s->burst_ns = p->time_ns;
}

static int append_new(struct rw_sender *s, const struct rw_packet *p, uint32_t start, uint32_t end, uint32_t mss,
		      uint8_t bits, uint32_t *segments)
{
	int64_t sent_ns = bits & RW_SEGMENT_UNSEEN ? p->time_ns : s->burst_ns;
	while (rw_seq_diff(end, start) > 0) {
		uint32_t stop = end - start > mss ? start + mss : end;
		struct rw_segment g = {start, stop, sent_ns, p->ts_value, bits};
		int status = rw_scoreboard_append(s, &g);
		if (status)
			return status;
		start = stop;
		(*segments)++;
	}
	return 0;
}

/* A scoreboard that is walked again and again at every packet was made for that. */
static int too_much_work(const struct rw_sender *s)
{
	return s->work > WORK_FREE && s->work - WORK_FREE > WORK_PER_PACKET * s->packets;
}

/* Forgets what is outstanding: the window cannot be followed. */
static RW_ASIDE void give_up_window(struct rw_sender *s, const struct rw_packet *p, uint32_t next,
				    struct rw_oddity_counts *oddities)
{
	rw_oddity_add(oddities, RW_ODDITY_WINDOW_TOO_LARGE, p->file, p->offset);
	s->gave_up = 1;
	rw_scoreboard_clear(s);
	s->una = s->next = s->high = s->highest_sack = next;
	s->state = RW_SENDER_OPEN;
	s->probe_outstanding = s->undo_possible = 0;
	s->work = 0;
	s->packets = 0;
	s->steady = 0;
}

/* Without dividing for what most packets carry. */
static uint32_t whole_segments(uint32_t bytes, uint32_t mss) { return bytes <= mss ? bytes == mss : bytes / mss; }

/* How many timeouts nothing was sent. */
static uint32_t timeouts_idle(const struct rw_sender *s, const struct rw_packet *p)
{
	if (s->count || !s->last_send_ns || !p->payload_bytes)
		return 0;
	int64_t quiet = p->time_ns - s->last_send_ns, rto = (int64_t)rw_sender_rto_ns(s);
	return quiet > rto ? (uint32_t)(quiet / rto < 64 ? quiet / rto : 64) : 0;
}

/*
 * Linux reduces an idle window for each buffer that it puts into an empty queue. TCP sends the first at once; MPTCP hands
 * a subflow up to SCHEDULED_MOST bytes before anything leaves, a mapping for each buffer. One that is as long as whole
 * segments allow had another one behind it; that there were more happens, and does not show.
 */
static uint32_t buffers_queued(const struct rw_sender *s, const struct rw_packet *p)
{
	return p->mptcp.seen && p->mptcp.dss_mapping && p->mptcp.data_length + s->segment_bytes >= SCHEDULED_MOST ? 2
														  : 1;
}

/*
 * MPTCP gives a subflow data buffer by buffer, a mapping for each. One that was sent in part waits for room in the window, or
 * with less than a segment left for what is in flight (Nagle, RFC 9293 3.7.4).
 */
static void see_mapping(struct rw_sender *s, const struct rw_packet *p, uint32_t start)
{
	const struct rw_mptcp *m = &p->mptcp;
	int mapped = m->seen && m->dss_mapping && m->data_length;
	if (mapped && (!s->mapped || (uint32_t)m->data_sequence != s->mapping)) {
		s->mapping = (uint32_t)m->data_sequence;
		s->mapping_end = start + m->data_length;
	}
	s->mapped = (uint8_t)mapped;
}

static void see_flight(struct rw_sender *s, const struct rw_packet *p, uint32_t segments)
{
	/* Later there may be a tail loss probe among them. */
	if (s->flight == RW_FLIGHT_INITIAL && s->handshake && p->time_ns - s->first_data_ns <= (int64_t)s->srtt_ns)
		s->initial += segments;
	if (s->flight == RW_FLIGHT_SECOND && p->time_ns - s->last_ack_ns > PROMPT_NS)
		s->flight = RW_FLIGHT_NONE; /* the application sent it, not the ACK */
}

static int sent_new(struct rw_sender *s, const struct rw_packet *p, uint32_t start, uint32_t end, struct rw_events *out,
		    struct rw_oddity_counts *oddities)
{
	uint32_t mss = s->segment_bytes, segments = 0, gap = start - s->next;
	uint32_t gap_segments = whole_segments(gap, mss);
	uint64_t wanted = (uint64_t)s->count + gap_segments + whole_segments(end - start, mss) + 2;
	/* A gap may be long, but not made of much more than was ever seen: it would cost memory that no packet paid for. */
	int imagined = gap_segments > GAP_SEGMENTS_FREE + 4 * s->segments_seen;
	if (imagined || wanted > s->segments_max || end - s->una > RW_SEQUENCE_JUMP_MAX || too_much_work(s)) {
		give_up_window(s, p, end, oddities);
		return 0;
	}
	uint32_t idle = timeouts_idle(s, p), unseen = 0;
	if (rw_seq_diff(start, s->next) > 0) {
		int status = append_new(s, p, s->next, start, mss, RW_SEGMENT_UNSEEN, &unseen);
		if (status == RW_SCOREBOARD_FULL)
			give_up_window(s, p, end, oddities);
		if (status)
			return status == RW_SCOREBOARD_NO_MEMORY;
		s->identification.holes += unseen;
	}
	int status = append_new(s, p, start, end, mss, 0, &segments);
	if (status == RW_SCOREBOARD_FULL)
		give_up_window(s, p, end, oddities);
	if (status)
		return status == RW_SCOREBOARD_NO_MEMORY;
	s->segments_seen += segments;
	see_mapping(s, p, start);
	if (idle) {
		s->flight = RW_FLIGHT_RESTARTED;
		s->first_sequence = s->una;
	} else if (s->una == s->first_sequence) {
		see_flight(s, p, segments);
	}
	if (s->count == segments || s->timer_ns == 0)
		s->timer_ns = p->time_ns;
	if (end - start > mss)
		s->bursts = 1;
	uint64_t quiet = s->last_send_ns && rw_in_flight(s) <= segments ? (uint64_t)(p->time_ns - s->last_send_ns) : 0;
	int reducing = s->state == RW_SENDER_CWR || s->state == RW_SENDER_RECOVERY;
	s->whole = segments && rw_segment_at(s, s->count - 1)->end - rw_segment_at(s, s->count - 1)->start >= mss;
	s->next = end;
	s->last_send_ns = p->time_ns;
	s->sent_since += segments + unseen;
	s->quiet_acks = 0;
	if (segments + unseen == 0 || (!quiet && !idle && !reducing))
		return 0; /* no window is any different for it */
	struct rw_event *e = rw_sender_add_event(s, out, RW_EVENT_SEND, p->time_ns);
	e->quiet_ns = quiet;
	e->segments = segments + unseen;
	e->idle_timeouts = idle;
	e->idle_restarts = buffers_queued(s, p);
	e->reducing = (uint8_t)reducing;
	return 0;
}

/* Beside the receiver, an RTT is the time from a timestamp value leaving to its echo arriving (RFC 7323 4.1). */
static void echo_sample(struct rw_sender *s, const struct rw_packet *p)
{
	if (!s->afar || !p->has_timestamps || !s->echo_ns)
		return;
	int32_t later = rw_seq_diff(p->ts_echo, s->echo_value);
	if (later == 0)
		rw_sender_rtt(s, (uint64_t)(p->time_ns - s->echo_ns));
	if (later >= 0)
		s->echo_ns = 0; /* taken, or passed over: the next value is followed */
}

/* Data that follows neither an ACK nor other data was let go by a timer, or by the application. */
static void see_pace(struct rw_sender *s, const struct rw_packet *p)
{
	if (s->count < PACED_FLIGHT_MIN || s->state != RW_SENDER_OPEN)
		return;
	s->sends++;
	s->timed_sends += p->time_ns - s->last_ack_ns > PROMPT_NS && p->time_ns - s->last_send_ns > PROMPT_NS;
}

int rw_sender_paced(const struct rw_sender *s)
{
	return s->sends >= PACED_SENDS_MIN && s->timed_sends * 5 > s->sends && !s->corrected;
}

static int sent(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
		struct rw_oddity_counts *oddities)
{
	uint32_t start_at = p->sequence, bytes = p->payload_bytes + !!(p->flags & RW_TCP_FIN);
	if (p->flags & RW_TCP_SYN) {
		/* One without and one with ACK are sent when both sides open at once (RFC 9293 3.5): neither again. */
		uint8_t kind = p->flags & RW_TCP_ACK ? 2 : 1;
		s->retransmitted_packets += s->syns & kind ? 1 : 0;
		s->syns |= kind;
		if (!s->started)
			rw_sender_start(s, p->sequence + 1);
		if (p->payload_bytes == 0)
			return 0;
		start_at++; /* TCP Fast Open */
	}
	if (bytes == 0) {
		/* A packet without data tells how far its sender has got: what is not here of that was lost on the way. */
		uint32_t ahead = p->sequence - s->next;
		int told =
		    s->started && !(p->flags & (RW_TCP_SYN | RW_TCP_RST)) && p->sequence - s->una <= s->window_bytes;
		return told && ahead && ahead <= RW_SEQUENCE_JUMP_MAX
			   ? sent_new(s, p, p->sequence, p->sequence, out, oddities)
			   : 0;
	}
	if (!s->started)
		rw_sender_start(s, start_at);
	uint32_t end = start_at + bytes;
	/* A byte at a closed window asks for an answer (RFC 9293 3.8.6.1): no data yet, and when it is repeated no loss. */
	if (p->payload_bytes == 1 && s->count == 0 && start_at == s->una && s->window_bytes == 0) {
		s->window_probe = 1;
		return 0;
	}
	if (rw_seq_diff(start_at, s->next) < -RW_SEQUENCE_JUMP_MAX)
		return 0;
	if (p->payload_bytes) {
		s->segment_bytes = segment_bytes_of(s, p);
		s->segment_header = p->tcp_header_bytes;
	}
	if (p->payload_bytes && !s->first_data_ns)
		s->first_data_ns = p->time_ns;
	see_pace(s, p);
	see_burst(s, p);
	echo_sample(s, p);
	if (rw_seq_diff(start_at, s->next) < 0) {
		uint32_t old_end = rw_seq_diff(end, s->next) < 0 ? end : s->next;
		/* A keep-alive repeats one byte below what was acknowledged (RFC 9293 3.8.4). */
		if (p->payload_bytes <= 1 && rw_seq_diff(old_end, s->una) <= 0 && !(p->flags & RW_TCP_FIN))
			return 0;
		struct filling filling;
		int status = fill_holes(s, p, start_at, old_end, &filling);
		if (status == RW_SCOREBOARD_FULL)
			give_up_window(s, p, s->next, oddities);
		if (status)
			return status == RW_SCOREBOARD_NO_MEMORY;
		int with_fin =
		    p->flags & RW_TCP_FIN && filling.bytes && filling.end == end; /* it has a number, and is no data */
		s->bytes += filling.bytes - (uint32_t)with_fin;
		if (!filling.reordered)
			sent_again(s, p, start_at, old_end, out);
		start_at = old_end;
	}
	if (rw_seq_diff(end, start_at) > 0) {
		s->bytes += end - start_at - (p->flags & RW_TCP_FIN ? 1 : 0);
		return sent_new(s, p, start_at, end, out, oddities);
	}
	return 0;
}

/*
 * Is it what most packets are: a segment that follows the last one, of a sender that nothing has happened to, with others
 * in flight?
 */
static inline int goes_on(const struct rw_sender *s, const struct rw_packet *p)
{
	uint32_t bytes = p->payload_bytes;
	return p->sequence == s->next && p->tcp_header_bytes == s->segment_header &&
	       !(p->flags & (RW_TCP_SYN | RW_TCP_FIN)) && s->steady && bytes - 1 < s->segment_bytes &&
	       s->count > s->sacked_out + s->lost_out && s->count < s->room && s->count + 3 <= s->segments_max &&
	       s->next + bytes - s->una <= RW_SEQUENCE_JUMP_MAX;
}

/* What sent() does with such a packet, and no more. */
static inline void send_next(struct rw_sender *s, const struct rw_packet *p)
{
	uint32_t start = s->next, end = start + p->payload_bytes;
	see_pace(s, p);
	see_burst(s, p);
	echo_sample(s, p);
	s->bytes += p->payload_bytes;
	*rw_segment_at(s, s->count++) = (struct rw_segment){start, end, s->burst_ns, p->ts_value, 0};
	s->segments_seen++;
	if (p->mptcp.seen | s->mapped)
		see_mapping(s, p, start);
	s->whole = p->payload_bytes == s->segment_bytes;
	s->next = end;
	s->last_send_ns = p->time_ns;
	s->sent_since++;
	s->quiet_acks = 0;
}

/*
 * A packet leaves within the tick that it names: the earliest in their ticks tell when those begin. Clocks of a host and
 * of who captures drift apart.
 */
static void follow_ticks(struct rw_sender *s, const struct rw_packet *p)
{
	if (!s->ticks || !p->has_timestamps)
		return;
	if (!s->ticking) {
		s->ticking = 1;
		s->tick_first = p->ts_value;
		s->tick_ns = p->time_ns;
		s->tick_seen_ns = p->time_ns;
	}
	int64_t began = p->time_ns - (int64_t)rw_seq_diff(p->ts_value, s->tick_first) * RW_CLOCK_TICK_NS;
	int64_t passed = p->time_ns - s->tick_seen_ns;
	s->tick_ns += passed > 0 ? passed / CLOCK_DRIFT : 0;
	s->tick_seen_ns = p->time_ns;
	s->tick_last = p->ts_value;
	if (began < s->tick_ns)
		s->tick_ns = began;
}

static void settle(struct rw_sender *s, struct rw_events *out)
{
	rw_sender_settle(s);
	for (uint32_t i = 0; i < out->count; i++)
		out->event[i].state_after = i + 1 < out->count ? out->event[i + 1].state : s->state;
}

/*
 * Senders number their IPv4 packets one by one (most do, for each connection): numbers that are missing behind the
 * sender are packets lost on the way. Those that were not first transmissions were retransmissions.
 */
RW_ASIDE void rw_sender_identify(struct rw_sender *s, struct rw_packet *p)
{
	if (!s->identification.asked)
		return;
	uint32_t mss = segment_bytes_of(s, p);
	uint16_t segments = p->payload_bytes > mss ? (uint16_t)((p->payload_bytes + mss - 1) / mss) : 1;
	int16_t ahead = (int16_t)(p->identification - s->identification.next);
	/* In order and with nothing known to be lost, nothing was sent again: the host's other packets took the numbers. */
	int undisturbed = s->state == RW_SENDER_OPEN && p->sequence == s->identification.end;
	uint32_t end = p->sequence + p->payload_bytes + !!(p->flags & RW_TCP_SYN);
	if (!s->identification.started || rw_seq_diff(end, s->identification.end) > 0)
		s->identification.end = end;
	if (s->identification.started) {
		if (ahead < 0) {
			p->overtaken = 1;
			s->identification.out_of_order++;
			if (s->identification.missing)
				s->identification.missing--;
			return;
		}
		if (ahead > MISSING_MAX)
			s->identification.out_of_order++;
		else if (!undisturbed)
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

static RW_ASIDE int sent_otherwise(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
				   struct rw_oddity_counts *oddities)
{
	int failed = sent(s, p, out, oddities);
	settle(s, out);
	return failed;
}

int rw_sender_sent(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
		   struct rw_oddity_counts *oddities)
{
	out->count = 0;
	s->packets++;
	if (too_much_work(s))
		give_up_window(s, p, s->next, oddities);
	follow_ticks(s, p);
	if (!goes_on(s, p))
		return sent_otherwise(s, p, out, oddities);
	send_next(s, p);
	return 0;
}

void rw_sender_acked(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
		     struct rw_oddity_counts *oddities)
{
	out->count = 0;
	s->packets++;
	if (too_much_work(s))
		give_up_window(s, p, s->next, oddities);
	if (!rw_sender_process_ack(s, p, out, oddities))
		settle(s, out);
}
