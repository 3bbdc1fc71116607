#include "transmitter.h"

#include <string.h>

#include "fixed_point.h"
#include "link.h"

#define MS 1000000ull
/* What Linux adds to the reordering timer, and to a probe's: ACKs may come a little later. */
#define TIMER_SLACK_NS (2 * MS)
/* RFC 8985 7.2: of a single segment the ACK may be delayed. */
#define DELAYED_ACK_NS (200 * MS)
#define NOMINAL_RTT_NS MS /* where no round trip is known */
/* Segments leave in bursts of what the pace sends in so long, and of two at least. */
#define BURSTS_PER_SECOND 1024
#define BURST_BYTES_MAX 65536
#define SLOW_PACE_BYTES 150000 /* a second; slower ones let single segments go (BBR draft 4.2.2) */
enum { BURST_SEGMENTS_MIN = 2, TOGETHER_BURSTS = 64, WINDOW_MOST = 1 << 20, CLOSED_BACKOFF_MAX = 15 };

void rw_transmitter_open(struct rw_transmitter *t, const struct rw_transmitter_owner *owner,
			 const struct rw_kernel *kernel, struct rw_shadow *shadow, uint32_t path, uint32_t mss,
			 int sack, struct rw_budget *budget)
{
	memset(t, 0, sizeof *t);
	rw_sender_open(&t->tcp, mss, sack, WINDOW_MOST, budget);
	t->owner = owner;
	t->kernel = kernel;
	t->shadow = shadow;
	t->path = path;
	t->due_ns = t->release_ns = RW_NEVER;
	t->together_q16 = BURST_SEGMENTS_MIN << 16;
	t->paces = shadow->control->rate != NULL;
	if (t->paces) {
		rw_delivery_rate_open(&t->rate);
		t->rate.is_subflow = owner->reach != NULL;
		t->rate.keeps_flights = shadow->control->lost != NULL;
		rw_sender_sample_rate(&t->tcp, &t->rate);
	}
}

void rw_transmitter_close(struct rw_transmitter *t) { rw_sender_close(&t->tcp); }

static void begin_event(struct rw_event *e, const struct rw_transmitter *t, uint8_t kind, int64_t now_ns)
{
	const struct rw_sender *s = &t->tcp;
	memset(e, 0, sizeof *e);
	e->kind = kind;
	e->time_ns = now_ns;
	e->state = s->state;
	e->una = s->una;
	e->srtt_ns = s->rtt.srtt_ns;
	e->in_flight_before = rw_sender_in_flight(s);
	e->packets_out_before = s->board.count;
	e->next_before = s->next;
}

static void set_changed(void *to, int64_t time_ns, uint32_t path, const struct rw_detected_path *now)
{
	(void)time_ns;
	rw_shadow_set(to, path, now->set, now->state);
}

static void sets_complete(void *to, uint32_t first_path) { rw_shadow_regrouped(to, first_path); }

/* The detector hears of an event before the controller does. */
static void detect(const struct rw_transmitter *t, const struct rw_event *e)
{
	struct rw_detect_sink sink = {set_changed, sets_complete, NULL, t->shadow};
	if (t->detect)
		rw_detect_event(t->detect, t->path, e, t->tcp.rtt.srtt_ns, &sink);
}

static void tell(struct rw_transmitter *t, struct rw_event *e)
{
	e->in_flight = rw_sender_in_flight(&t->tcp);
	e->state_after = t->tcp.state;
	detect(t, e);
	rw_shadow_event(t->shadow, t->path, e, t->tcp.rtt.srtt_ns, NULL);
}

void rw_transmitter_establish(struct rw_transmitter *t, uint32_t sequence, uint32_t window_bytes, uint64_t rtt_ns,
			      int64_t now_ns)
{
	rw_sender_start(&t->tcp, sequence);
	t->tcp.window_bytes = window_bytes;
	t->end = t->resend_from = t->small_end = sequence;
	t->began_ns = now_ns;
	if (rtt_ns)
		rw_sender_rtt(&t->tcp, rtt_ns);
	rw_shadow_join(t->shadow, t->path, t->tcp.rtt.srtt_ns);
	struct rw_detect_sink sink = {set_changed, sets_complete, NULL, t->shadow};
	if (t->detect) {
		rw_detect_advance(t->detect, now_ns, &sink);
		rw_detect_join(t->detect, t->path, t->tcp.rtt.srtt_ns, &sink);
	}
}

/*
 * What leaves
 */

static struct rw_transmission transmission(const struct rw_transmitter *t, uint32_t start, uint32_t end, int64_t now_ns)
{
	return (struct rw_transmission){.start = start,
					.end = end,
					.time_ns = now_ns,
					.sent_ns = now_ns,
					.ts_value = rw_kernel_timestamp(t->kernel, now_ns),
					.has_timestamp = 1};
}

static void leave(struct rw_transmitter *t, uint32_t start, uint32_t end, int again, int pushed, int64_t now_ns)
{
	struct rw_departing segment = {start, end, (uint8_t)again, 0, (uint8_t)pushed};
	if (!again && end != start) {
		segment.reduced = t->must_say_reduced;
		t->must_say_reduced = 0;
	}
	if (t->owner->leave(t->owner->to, t, &segment, now_ns))
		t->failed = 1;
}

/*
 * The pace (Linux without the fq discipline has a timer for it). A burst takes its time at the pace, and the next one leaves after that.
 * One that leaves late makes up for at most half of its time, and the initial window is not paced: both were measured.
 */

static int is_held_by_pace(struct rw_transmitter *t, int64_t now_ns)
{
	if (!t->paces || now_ns >= t->next_burst_ns)
		return 0;
	t->release_ns = t->next_burst_ns;
	return 1;
}

static void spend_pace(struct rw_transmitter *t, uint64_t bytes, int64_t now_ns)
{
	if (!t->paces || t->segments <= RW_INITIAL_WINDOW)
		return;
	uint64_t takes_ns = rw_multiply_divide(bytes, 1000 * MS, rw_transmitter_pace(t));
	uint64_t late_ns = now_ns > t->next_burst_ns ? (uint64_t)(now_ns - t->next_burst_ns) : 0;
	t->next_burst_ns = rw_later(now_ns, takes_ns - rw_min64(takes_ns / 2, late_ns));
}

/* The window is reduced: PRR counts what leaves meanwhile. */
static void tell_sent(struct rw_transmitter *t, uint32_t segments, int64_t now_ns)
{
	struct rw_event e;
	begin_event(&e, t, RW_EVENT_SEND, now_ns);
	e.segments = segments;
	e.reducing = 1;
	tell(t, &e);
}

/* The first segment that is lost and was not sent again since. */
static struct rw_segment *to_resend(struct rw_transmitter *t)
{
	struct rw_scoreboard *b = &t->tcp.board;
	if (b->lost_out == 0)
		return NULL;
	if (t->losses_seen != b->losses || rw_seq_diff(t->resend_from, t->tcp.una) < 0) {
		t->losses_seen = b->losses;
		t->resend_from = t->tcp.una;
	}
	for (struct rw_cursor c = rw_scoreboard_find(b, t->resend_from); c.at; c = rw_cursor_next(b, c)) {
		uint32_t bits = c.at->bits;
		if (bits & RW_SEGMENT_LOST && !(bits & RW_SEGMENT_RETRANSMITTED))
			return c.at;
		t->resend_from = c.at->end;
	}
	return NULL;
}

static void resend(struct rw_transmitter *t, uint32_t start, uint32_t end, int64_t now_ns)
{
	struct rw_transmission sent = transmission(t, start, end, now_ns);
	uint32_t segments = 0;
	if (rw_sender_resend(&t->tcp, &sent, &segments) != RW_SCOREBOARD_OK)
		t->failed = 1;
	t->tcp.retransmitted += segments;
	t->tcp.last_send_ns = now_ns;
	leave(t, start, end, 1, 0, now_ns);
	if (rw_sender_reducing(&t->tcp))
		tell_sent(t, segments, now_ns);
}

static void resend_lost(struct rw_transmitter *t, int64_t now_ns)
{
	struct rw_segment *g;
	while (!t->failed && rw_sender_in_flight(&t->tcp) < rw_transmitter_window(t) && (g = to_resend(t)) &&
	       !is_held_by_pace(t, now_ns)) {
		uint32_t bytes = g->end - g->start;
		resend(t, g->start, g->end, now_ns);
		spend_pace(t, bytes, now_ns);
	}
}

static void send_segment(struct rw_transmitter *t, uint32_t end, int pushed, int64_t now_ns)
{
	struct rw_sender *s = &t->tcp;
	uint32_t start = s->next, segments = 0, idle = rw_sender_idle_timeouts(s, now_ns, (int64_t)t->kernel->tick_ns);
	int quiet = s->last_send_ns && rw_sender_in_flight(s) == 0, reducing = rw_sender_reducing(s);
	struct rw_event e;
	begin_event(&e, t, RW_EVENT_SEND, now_ns);
	e.quiet_ns = quiet ? (uint64_t)(now_ns - s->last_send_ns) : 0;
	struct rw_transmission sent = transmission(t, start, end, now_ns);
	if (rw_sender_send(s, &sent, &segments) != RW_SCOREBOARD_OK)
		t->failed = 1;
	t->segments += segments;
	leave(t, start, end, 0, pushed || end == t->end, now_ns);
	e.segments = segments;
	e.idle_timeouts = idle;
	e.idle_restarts = 1;
	e.reducing = (uint8_t)reducing;
	if (e.quiet_ns || idle || reducing)
		tell(t, &e);
}

uint64_t rw_transmitter_pace(const struct rw_transmitter *t)
{
	const struct rw_path *p = &t->shadow->connection->path[t->path];
	if (t->paces) {
		struct rw_model model;
		t->shadow->control->model(t->shadow->connection, t->path, &model);
		uint64_t bytes = rw_multiply_divide(model.pacing_q24, t->tcp.segment_bytes * 990000ull, 1 << 24);
		return rw_max64(bytes, 1);
	}
	uint64_t srtt_ns = t->tcp.rtt.srtt_ns ? t->tcp.rtt.srtt_ns : NOMINAL_RTT_NS;
	uint64_t percent = p->cwnd_q16 < p->ssthresh_q16 / 2 ? 200 : 120;
	uint64_t bytes = (uint64_t)rw_transmitter_window(t) * t->tcp.segment_bytes * percent / 100;
	return rw_max64(rw_multiply_divide(bytes, 1000 * MS, srtt_ns), 1);
}

uint32_t rw_transmitter_burst(const struct rw_transmitter *t)
{
	uint64_t pace = rw_transmitter_pace(t), bytes = rw_min64(pace / BURSTS_PER_SECOND, BURST_BYTES_MAX);
	if (t->paces && pace < SLOW_PACE_BYTES)
		return 1;
	return (uint32_t)rw_max64(bytes / t->tcp.segment_bytes, BURST_SEGMENTS_MIN);
}

/* Where new data is cut in any case: a segment has one mapping. */
static uint32_t piece_end(const struct rw_transmitter *t)
{
	const struct rw_sender *s = &t->tcp;
	uint32_t end = t->owner->reach ? t->owner->reach(t->owner->to, t, s->next) : t->end;
	return rw_seq_diff(end, t->end) > 0 ? t->end : end;
}

/* Where a new segment ends. */
static uint32_t segment_end(const struct rw_transmitter *t)
{
	const struct rw_sender *s = &t->tcp;
	uint32_t end = piece_end(t);
	return end - s->next > s->segment_bytes ? s->next + s->segment_bytes : end;
}

/*
 * Less than a burst may leave: does the sender wait for more room? Not for less than a third of the window (ip-sysctl(7),
 * tcp_tso_win_divisor), nor in a recovery, nor where there is room for all that could leave together. Measured (docs/validation.md,
 * lockstep): nor when it had sent nothing in the millisecond before this event (before_ns: when it last did), nor when the next ACK is
 * far: that of the oldest segment is expected after a smoothed round trip, and within a millisecond (or half a round trip) it is near.
 */
static int waits_for_room(const struct rw_transmitter *t, uint32_t room, uint32_t burst, int64_t before_ns,
			  int64_t now_ns)
{
	const struct rw_sender *s = &t->tcp;
	if (room >= burst || room >= rw_transmitter_window(t) / 3 || s->state >= RW_SENDER_RECOVERY ||
	    s->board.count == 0 || piece_end(t) - s->next <= room * s->segment_bytes)
		return 0;
	int64_t expected_ns = rw_scoreboard_head(&s->board)->sent_ns + (int64_t)s->rtt.srtt_ns;
	return now_ns - before_ns < (int64_t)MS && expected_ns - now_ns <= (int64_t)rw_min64(MS, s->rtt.srtt_ns / 2);
}

/*
 * Nagle's algorithm (RFC 9293 3.7.4), as Minshall modified it (draft-minshall-nagle-01): less than a segment waits while another one
 * that was less than a segment is in flight.
 */
static int waits_for_small(const struct rw_transmitter *t)
{
	return rw_seq_diff(t->small_end, t->tcp.una) > 0 && !t->closes;
}

/* New data, up to the congestion window and the receiver's, burst by burst. Returns whether any left. */
static int send_new(struct rw_transmitter *t, int64_t now_ns)
{
	struct rw_sender *s = &t->tcp;
	int any = 0, limited = 0;
	int64_t before_ns = s->last_send_ns;
	while (!t->failed && s->next != t->end && !is_held_by_pace(t, now_ns)) {
		uint32_t flight = rw_sender_in_flight(s), window = rw_transmitter_window(t),
			 burst = rw_transmitter_burst(t);
		uint32_t room = window > flight ? window - flight : 0;
		if (room == 0 || waits_for_room(t, room, burst, before_ns, now_ns)) {
			limited = 1;
			break;
		}
		uint32_t left = room < burst ? room : burst, sent = 0, from = s->next;
		for (; left && s->next != t->end; left--) {
			uint32_t end = segment_end(t);
			int is_small = end - s->next < s->segment_bytes;
			if (end - s->una > s->window_bytes || (is_small && end == t->end && waits_for_small(t)))
				break;
			sent++;
			if (is_small)
				t->small_end = end;
			send_segment(t, end, sent > 1 && left == 1, now_ns);
		}
		if (!sent)
			break;
		any = 1;
		t->together_q16 += ((sent << 16) - t->together_q16) / TOGETHER_BURSTS;
		spend_pace(t, s->next - from, now_ns);
		before_ns = now_ns;
	}
	t->drained = t->end - s->next < s->segment_bytes;
	if (any && rw_sender_in_flight(s) >= rw_transmitter_window(t))
		limited = 1;
	if (any || limited) {
		struct rw_window_spending spending = {limited, s->board.count, s->una, s->next};
		rw_shadow_used(t->shadow, t->path, &spending);
	}
	return any;
}

/*
 * Timers
 */

static void set_timer(struct rw_transmitter *t, enum rw_timer timer, int64_t from_ns, uint64_t delay_ns, int64_t now_ns)
{
	int64_t due_ns = rw_kernel_fires_ns(t->kernel, from_ns, delay_ns);
	t->timer = (uint8_t)timer;
	t->due_ns = due_ns > now_ns ? due_ns : rw_kernel_fires_ns(t->kernel, now_ns, 0);
}

static uint64_t probe_timeout_ns(const struct rw_sender *s)
{
	uint64_t rto = rw_sender_rto_ns(s), probe = rw_sender_probe_timeout_ns(s);
	if (s->board.count == 1)
		probe = 2 * s->rtt.srtt_ns + DELAYED_ACK_NS;
	return probe < rto ? probe : rto;
}

/* RFC 8985 7.2: no probe in an episode, nor while segments are known to be lost or SACKed. */
static int may_probe(const struct rw_sender *s)
{
	return s->sack && s->rtt.srtt_ns && !s->probe.outstanding && s->backoff == 0 && s->board.sacked_out == 0 &&
	       s->board.lost_out == 0 && (s->state == RW_SENDER_OPEN || s->state == RW_SENDER_CWR);
}

static void arm(struct rw_transmitter *t, int64_t now_ns)
{
	const struct rw_sender *s = &t->tcp;
	uint64_t wait_ns;
	if (s->board.count == 0) {
		t->timer = RW_TIMER_NONE;
		t->due_ns = RW_NEVER;
		if (s->next != t->end)
			set_timer(t, RW_TIMER_CLOSED_WINDOW, now_ns, rw_sender_rto_ns(s) << t->closed_backoff, now_ns);
	} else if (s->sack && s->board.sacked_out && s->state != RW_SENDER_LOSS &&
		   (wait_ns = rw_sender_reordering_wait_ns(s, now_ns))) {
		set_timer(t, RW_TIMER_REORDERING, now_ns, wait_ns + TIMER_SLACK_NS, now_ns);
	} else if (may_probe(s)) {
		int64_t from_ns = s->timer_ns > s->last_send_ns ? s->timer_ns : s->last_send_ns;
		set_timer(t, RW_TIMER_PROBE, from_ns, probe_timeout_ns(s), now_ns);
	} else {
		set_timer(t, RW_TIMER_RETRANSMISSION, s->timer_ns ? s->timer_ns : now_ns, rw_sender_rto_ns(s), now_ns);
	}
}

static void time_out(struct rw_transmitter *t, int64_t now_ns)
{
	struct rw_sender *s = &t->tcp;
	struct rw_event e;
	begin_event(&e, t, RW_EVENT_TIMEOUT, now_ns);
	e.new_episode = (uint8_t)rw_sender_time_out(s, now_ns);
	tell(t, &e);
	t->must_say_reduced = t->ecn;
	const struct rw_segment *head = rw_scoreboard_head(&s->board);
	resend(t, head->start, head->end, now_ns);
	spend_pace(t, s->segment_bytes, now_ns);
	s->timer_ns = now_ns;
}

/* RFC 8985 7.3: new data if there is some and the receiver has room, else the last segment again. */
static void probe(struct rw_transmitter *t, int64_t now_ns)
{
	struct rw_sender *s = &t->tcp;
	if (s->next != t->end && segment_end(t) - s->una <= s->window_bytes) {
		send_segment(t, segment_end(t), 0, now_ns);
		rw_sender_probed_with_new(s);
		return;
	}
	struct rw_cursor last = rw_scoreboard_find(&s->board, s->next - 1);
	struct rw_transmission sent = transmission(t, last.at->start, last.at->end, now_ns);
	uint32_t segments;
	if (rw_sender_probe(s, &sent, &segments) != RW_SCOREBOARD_OK)
		t->failed = 1;
	s->retransmitted += segments;
	leave(t, sent.start, sent.end, 1, 0, now_ns);
	spend_pace(t, sent.end - sent.start, now_ns);
}

static void stop_waiting_for_order(struct rw_transmitter *t, int64_t now_ns)
{
	struct rw_sender *s = &t->tcp;
	struct rw_event e;
	begin_event(&e, t, RW_EVENT_RECOVERY, now_ns);
	uint32_t flight = rw_sender_in_flight(s);
	rw_sender_detect_losses(s, now_ns);
	if (rw_sender_in_flight(s) == flight)
		return;
	if (s->state != RW_SENDER_RECOVERY) {
		if (rw_sender_enter_recovery(s))
			e.steps = RW_STEP_RECOVERY;
		t->must_say_reduced = t->ecn;
		e.delivered = 1; /* Linux reduces by one segment when the timer begins a recovery */
		e.steps |= RW_STEP_REDUCE;
		tell(t, &e);
	}
	resend_lost(t, now_ns);
}

/* The pace lets the next burst go. */
static void release(struct rw_transmitter *t, int64_t now_ns)
{
	t->release_ns = RW_NEVER;
	resend_lost(t, now_ns);
	send_new(t, now_ns);
}

void rw_transmitter_due(struct rw_transmitter *t, int64_t now_ns)
{
	if (t->release_ns <= now_ns) {
		release(t, now_ns);
		if (t->due_ns > now_ns) {
			arm(t, now_ns);
			return;
		}
	}
	switch (t->timer) {
	case RW_TIMER_RETRANSMISSION:
		time_out(t, now_ns);
		break;
	case RW_TIMER_PROBE:
		probe(t, now_ns);
		break;
	case RW_TIMER_REORDERING:
		stop_waiting_for_order(t, now_ns);
		send_new(t, now_ns);
		break;
	default:
		t->closed_backoff += t->closed_backoff < CLOSED_BACKOFF_MAX;
		leave(t, t->tcp.una - 1, t->tcp.una - 1, 1, 0, now_ns);
	}
	arm(t, now_ns);
}

void rw_transmitter_push(struct rw_transmitter *t, int64_t now_ns)
{
	const struct rw_scoreboard *b = &t->tcp.board;
	if (t->paces && t->drained && b->count && b->lost_out <= b->retrans_out &&
	    rw_sender_in_flight(&t->tcp) < rw_transmitter_window(t) &&
	    rw_delivery_rate_app_limits(&t->rate, now_ns, rw_sender_in_flight(&t->tcp)))
		t->failed = 1;
	if (send_new(t, now_ns) || t->timer == RW_TIMER_NONE)
		arm(t, now_ns);
}

/*
 * ACKs
 */

/* What a rate-based controller is told of an ACK. */
static struct rw_event_rate rate_of(struct rw_transmitter *t, const struct rw_event *e,
				    const struct rw_rate_sample *sample)
{
	uint8_t state = t->tcp.state;
	struct rw_event_rate rate = {
	    .sample = {.acked_segments = e->delivered,
		       .lost_segments = e->newly_lost,
		       .in_flight_before = e->in_flight_before,
		       .in_flight = e->in_flight,
		       .repair = state == RW_SENDER_RECOVERY ? RW_REPAIR_RECOVERY
				 : state == RW_SENDER_LOSS   ? RW_REPAIR_TIMEOUT
							     : RW_REPAIR_NONE,
		       .app_limited = sample->app_limited,
		       .held_ns = t->next_burst_ns > e->time_ns ? (uint64_t)(t->next_burst_ns - e->time_ns) : 0,
		       .began_ns = t->began_ns,
		       .time_ns = e->time_ns,
		       .rtt_ns = e->rtt_newest_ns,
		       .delivered = sample->delivered,
		       .prior_delivered = sample->prior_delivered,
		       .interval_ns = sample->interval_ns,
		       .selective = t->tcp.sack,
		       .sent_in_flight = sample->sent_in_flight,
		       .lost_since = sample->lost_since}};
	rate.lost = rw_delivery_rate_take_lost(&t->rate, &rate.lost_before, &rate.lost_count);
	return rate;
}

void rw_transmitter_acknowledge(struct rw_transmitter *t, const struct rw_sender_ack *ack)
{
	struct rw_sender *s = &t->tcp;
	struct rw_sender_answer answer;
	struct rw_shadow_row row;
	struct rw_event e;
	begin_event(&e, t, RW_EVENT_ACK, ack->time_ns);
	rw_sender_acknowledge(s, ack, &answer);
	if (answer.no_memory)
		t->failed = 1;
	if (answer.ignored)
		return;
	e.ack = ack->ack;
	e.una_advanced = answer.advanced;
	e.rtt_ns = answer.rtt_ns;
	e.rtt_newest_ns = answer.rtt_newest_ns;
	e.delivered = answer.delivered;
	e.newly_lost = answer.newly_lost;
	e.steps = answer.steps;
	e.marked = ack->ece ? answer.delivered : 0;
	e.flags = ack->ece ? RW_ACK_ECE : 0;
	e.in_flight = rw_sender_in_flight(s);
	e.state_after = s->state;
	if (e.steps & (RW_STEP_CWR | RW_STEP_RECOVERY))
		t->must_say_reduced = t->ecn;
	struct rw_event_rate rate;
	if (t->paces) {
		rate = rate_of(t, &e, &answer.rate);
		e.rate = &rate;
	}
	detect(t, &e);
	struct rw_ack told = rw_shadow_ack_of(t->path, &e);
	rw_shadow_respond(t->shadow, &e, &told, s->rtt.srtt_ns, &row);
	if (answer.advanced)
		t->closed_backoff = 0;
	if (!answer.asks_for_new || !send_new(t, ack->time_ns)) {
		if (answer.asks_for_new)
			s->f_rto = 0; /* RFC 5682 2.1: there is no new data that could tell */
		resend_lost(t, ack->time_ns);
		send_new(t, ack->time_ns);
	}
	if (t->owner->row)
		t->owner->row(t->owner->to, t, &e, &row);
	arm(t, ack->time_ns);
}
