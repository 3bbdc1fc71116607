/* Packets to the sender: the effects of an ACK, and its evidence about the time before. */
#include "reconstruction.h"
#include "rw_ways.h"

/* RFC 6928, segments. */
#define INITIAL_WINDOW 10
/* After this many ACKs in turn that freed room while nothing was sent, the sender had nothing to send. */
#define QUIET_ACKS 3
#define QUIET_ACKS_COUNTED 255

/* So long after the capture has seen an ACK the sender reads its clock: 25 to 50 us fit the windows that the lab recorded alike. */
#define ACK_SEEN_NS 40000

/*
 * The round trip by the echoed timestamp, which names the transmission that arrived (RFC 7323 4.1): at least one of the sender's
 * ticks. 0: the clock is not usable.
 */
static uint64_t echoed_round_trip(const struct rw_tick_clock *clock, const struct rw_packet *p)
{
	if (!clock->started || !p->has_timestamps || rw_seq_diff(p->ts_echo, clock->first) < 0 ||
	    rw_seq_diff(p->ts_echo, clock->last) > 0 || p->time_ns < clock->first_ns)
		return 0;
	int64_t seen_ns = p->time_ns + ACK_SEEN_NS - clock->first_ns;
	int64_t ticks = seen_ns / RW_CLOCK_TICK_NS - (int64_t)(p->ts_echo - clock->first);
	return (uint64_t)(ticks > 1 ? ticks : 1) * RW_CLOCK_TICK_NS;
}

static uint32_t window_bytes(const struct rw_reconstruction *r, const struct rw_packet *p)
{
	return (uint32_t)p->window << r->peer_scale;
}

/* The limit of the sender since the ACK before. */
static uint16_t limits(const struct rw_reconstruction *r)
{
	const struct rw_sender *s = &r->tcp;
	if (r->sent_since == 0 && s->window_bytes != UINT32_MAX &&
	    s->next - s->una + s->segment_bytes > s->window_bytes)
		return RW_ACK_RWND_LIMITED;
	return r->quiet_acks >= QUIET_ACKS ? RW_ACK_APP_LIMITED : 0;
}

/*
 * The number of new marks. RFC 3168: a flag, which counts as 1. RFC 9768 3.2.2: a count modulo 8, which an overtaken ACK does not
 * change.
 */
static uint8_t new_marks(struct rw_reconstruction *r, const struct rw_packet *p)
{
	if (!r->accurate_ecn)
		return (p->flags & RW_TCP_ECE) != 0;
	if (rw_seq_diff(p->ack, r->tcp.una) < 0)
		return 0;
	uint8_t count =
	    (uint8_t)(!!(p->flags & RW_TCP_AE) << 2 | !!(p->flags & RW_TCP_CWR) << 1 | !!(p->flags & RW_TCP_ECE));
	uint8_t more = (count - r->ce_counter) & 7;
	r->ce_counter = count;
	return more;
}

static void see_unseen(struct rw_reconstruction *r, int64_t now_ns, uint32_t bytes)
{
	r->unseen_bytes += bytes;
	if (!r->first_unseen_ns)
		r->first_unseen_ns = now_ns;
}

/* The ACK covers data that is not in the capture. */
static RW_ASIDE void see_beyond(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t bytes,
				struct rw_oddity_counts *oddities)
{
	if (bytes == 1 && r->window_probe) {
		r->bytes++; /* the window has opened */
		return;
	}
	see_unseen(r, p->time_ns, bytes);
	rw_oddity_add(oddities, RW_ODDITY_UNSEEN_DATA, p->file, p->offset);
}

/*
 * Reports the size of a flight that shows the window, at the flight's first ACK. still_sacked: segments that are SACKed but not
 * acknowledged after the ACK.
 */
static RW_ASIDE void see_flight(struct rw_reconstruction *r, struct rw_event *e, uint32_t delivered,
				uint32_t still_sacked)
{
	int beside =
	    r->vantage <= RW_VANTAGE_SENDER && !r->corrected; /* an unknown capture point counts as the sender */
	int more = !rw_event_starved(e) && e->room,
	    all = e->whole_before && more && e->state == RW_SENDER_OPEN && still_sacked == 0;
	uint8_t flight = r->flight;
	r->flight = RW_FLIGHT_NONE;
	e->first_flight_is = flight;
	if (flight == RW_FLIGHT_INITIAL && !r->handshake) {
		e->first_flight_is = RW_FLIGHT_UNSEEN;
		e->first_flight = (uint32_t)beside; /* the capture lacks its first part */
	} else if (flight == RW_FLIGHT_INITIAL) {
		e->first_flight = r->initial;
		if (beside && all && r->initial < INITIAL_WINDOW && e->in_flight_before == r->initial) {
			r->flight = RW_FLIGHT_SECOND;
			r->first_acked = delivered;
			r->first_sequence = e->ack;
		}
	} else if (flight == RW_FLIGHT_SECOND && all && e->in_flight_before == r->initial + r->first_acked) {
		/* It is as large as slow start allows, in whole segments and at once, so the window was as small as it looked. */
		e->first_flight = r->initial;
		e->first_flight_full = 1;
	} else if (flight == RW_FLIGHT_RESTARTED && beside) {
		/* A pace would have gone on: the sender was quiet for longer than its flight took. */
		int64_t took_ns = r->tcp.last_send_ns - r->flight_ns;
		e->first_flight = e->in_flight_before;
		e->first_flight_full = r->mapped && more && e->time_ns - r->tcp.last_send_ns > took_ns;
	}
}

static enum rw_waiting waiting(const struct rw_reconstruction *r)
{
	if (!r->mapped || r->maps_packets)
		return RW_WAITING_UNKNOWN;
	int32_t bytes = rw_seq_diff(r->mapping_end, r->tcp.next), segment = (int32_t)r->tcp.segment_bytes;
	if (bytes < segment)
		return bytes > 0 ? RW_WAITING_PART : RW_WAITING_NOTHING;
	return bytes - segment < segment ? RW_WAITING_ONE : RW_WAITING_MORE;
}

/* Makes the event of an ACK, with the evidence about the time before. */
static struct rw_event *begin_ack(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out)
{
	const struct rw_sender *s = &r->tcp;
	struct rw_event *e = rw_events_add(r, out, RW_EVENT_ACK, p->time_ns);
	uint32_t offered = window_bytes(r, p);
	if (!r->window_first)
		r->window_first = offered;
	if (offered > r->window_most)
		r->window_most = offered;
	e->ack = p->ack;
	e->in_flight_before = rw_sender_in_flight(s);
	e->packets_out_before = s->board.count;
	e->next_before = s->next;
	e->sent_before = r->sent_since;
	e->whole_before = r->whole && !r->corrected;
	uint64_t flight_bytes = (uint64_t)e->in_flight_before * s->segment_bytes;
	uint32_t span = s->next - s->una;
	e->waiting = (uint8_t)waiting(r);
	e->amid_burst = r->beside && p->time_ns - s->last_send_ns < RW_BURST_GAP_NS;
	e->acked_amid_burst = r->acked_amid_burst;
	e->room = span + s->segment_bytes <= s->window_bytes;
	if (r->bursts && e->room)
		e->room = (s->window_bytes - span) / s->segment_bytes;
	e->in_flight_bytes_before = s->board.sacked_out + s->board.lost_out == 0 ? span
				    : flight_bytes > UINT32_MAX                  ? UINT32_MAX
										 : (uint32_t)flight_bytes;
	e->flags = (uint16_t)(limits(r) | (r->retransmitted_since ? RW_ACK_RETRANSMIT : 0));
	r->acks++;
	r->last_ack_ns = p->time_ns;
	r->sent_since = 0;
	r->retransmitted_since = 0;
	r->acked_amid_burst = r->acked_amid_data = 0;
	return e;
}

/* The capture shows an ACK when it arrives. A sender that is handing over a burst looks at the ACK after the burst. */
static void see_amid_burst(struct rw_reconstruction *r, const struct rw_event *e)
{
	if (e->amid_burst && e->sent_before)
		r->acked_amid_data = e->acked_amid_burst + e->delivered;
}

/* una: what was acknowledged before. */
static void see_advance(struct rw_reconstruction *r, uint32_t una, int64_t now_ns)
{
	if (!r->fin_sent || rw_seq_diff(una, r->fin) < 0)
		r->last_advance_ns = now_ns;
}

static void count_quiet_ack(struct rw_reconstruction *r)
{
	if (r->quiet_acks < QUIET_ACKS_COUNTED)
		r->quiet_acks++;
}

/* For the short way: how many whole segments the ACK covers, if it has no other effect on an undisturbed sender. 0: another ACK. */
static inline uint32_t whole_segments_acked(const struct rw_reconstruction *r, const struct rw_packet *p)
{
	return p->sack_count || r->accurate_ecn || p->flags & RW_TCP_ECE ? 0
									 : rw_sender_plain_segments(&r->tcp, p->ack);
}

/* The delivery rate, of a plain ACK. 0, or 1 when memory is used up. */
static RW_ASIDE int tell_plain_rate(struct rw_reconstruction *r, struct rw_event *e,
				    const struct rw_plain_answer *answer)
{
	struct rw_delivered delivered = {e->time_ns, answer->newest_sent_ns, e->rtt_newest_ns, e->delivered};
	struct rw_rate_sample sample;
	if (rw_sender_sample(&r->tcp, &delivered, &sample))
		return 1;
	rw_rates_tell(r, e, &sample);
	return 0;
}

/* The short way: the effects that acked_otherwise() has for such an ACK. 0, or 1: out of memory. */
static int acked_plain(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t segments, struct rw_events *out)
{
	struct rw_sender *s = &r->tcp;
	struct rw_event *e = begin_ack(r, p, out);
	s->window_bytes = window_bytes(r, p);
	struct rw_plain_answer answer = rw_sender_acknowledge_plain(s, p->ack, segments, p->time_ns);
	rw_rtt_samples_add(&r->rtt_samples, answer.rtt_ns);
	e->rtt_ns = answer.rtt_ns;
	e->rtt_newest_ns = answer.rtt_newest_ns;
	e->una_advanced = 1;
	if (e->una == r->first_sequence)
		see_flight(r, e, segments, 0);
	e->acked_bytes = p->ack - e->una;
	r->window_probe = 0;
	e->delivered = segments;
	e->steps = RW_STEP_RAISE;
	e->flags |= RW_ACK_RAISES;
	e->in_flight = s->board.count;
	see_amid_burst(r, e);
	see_advance(r, e->una, p->time_ns);
	count_quiet_ack(r);
	e->state_after = s->state;
	if (!r->steady)
		rw_settle(r);
	return r->rates && tell_plain_rate(r, e, &answer);
}

struct rw_sender_ack rw_reconstruction_ack(const struct rw_reconstruction *r, const struct rw_packet *p, uint8_t marks)
{
	struct rw_sender_ack ack = {
	    .time_ns = p->time_ns,
	    .ack = p->ack,
	    .window_bytes = window_bytes(r, p),
	    .ts_echo = p->ts_echo,
	    .has_timestamp = p->has_timestamps,
	    .carries_data = p->payload_bytes != 0,
	    .ece = marks != 0,
	    .sacks = p->sack_count,
	    .sack = p->sack,
	    .echo_rtt_ns = echoed_round_trip(&r->ticks, p),
	};
	return ack;
}

/* The effect of the ACK on the sender, as an event. */
static void describe_answer(struct rw_event *e, const struct rw_sender *s, const struct rw_sender_answer *answer)
{
	e->in_flight = rw_sender_in_flight(s);
	if (answer->ignored)
		return;
	e->una_advanced = answer->advanced;
	e->acked_bytes = s->una - e->una;
	e->rtt_ns = answer->rtt_ns;
	e->rtt_newest_ns = answer->rtt_newest_ns;
	e->delivered = answer->delivered;
	e->newly_lost = answer->newly_lost;
	e->steps = answer->steps;
	e->flags |=
	    (uint16_t)((answer->duplicate ? RW_ACK_DUP : 0) | (answer->steps & RW_STEP_RAISE ? RW_ACK_RAISES : 0));
}

/* The reconstruction learns from the ACK. */
static void follow_answer(struct rw_reconstruction *r, const struct rw_packet *p, const struct rw_event *e,
			  const struct rw_sender_answer *answer, struct rw_oddity_counts *oddities)
{
	if (answer->unseen_bytes)
		see_unseen(r, p->time_ns, answer->unseen_bytes);
	if (answer->beyond_bytes)
		see_beyond(r, p, answer->beyond_bytes, oddities);
	if (answer->rtt_ns && !answer->rtt_by_echo)
		rw_rtt_samples_add(&r->rtt_samples, answer->rtt_ns);
	if (!answer->advanced)
		return;
	r->window_probe = 0;
	see_advance(r, e->una, e->time_ns);
	if (r->tcp.state < RW_SENDER_CWR)
		count_quiet_ack(r);
}

/* 0, or 1: out of memory. */
static RW_ASIDE int acked_otherwise(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out,
				    struct rw_oddity_counts *oddities)
{
	struct rw_sender *s = &r->tcp;
	if (!r->started)
		rw_reconstruction_start(r, p->ack);
	if (s->untimed && p->has_timestamps && !r->echo_ns) {
		r->echo_value = p->ts_value;
		r->echo_ns = p->time_ns;
	}
	struct rw_event *e = begin_ack(r, p, out);
	uint8_t marks = new_marks(r, p);
	r->ece_acks += marks != 0;
	e->flags |= (uint16_t)((marks ? RW_ACK_ECE : 0) | (p->sack_count ? RW_ACK_SACK : 0));
	uint64_t recoveries = s->fast_retransmits;
	struct rw_sender_ack ack = rw_reconstruction_ack(r, p, marks);
	struct rw_sender_answer answer;
	rw_sender_acknowledge(s, &ack, &answer);
	describe_answer(e, s, &answer);
	if (answer.ignored)
		return 0;
	see_amid_burst(r, e);
	if (e->una == r->first_sequence && (answer.advanced || !r->handshake))
		see_flight(r, e, answer.delivered, answer.still_sacked);
	/* The receiver repeats the flag until it is answered, so all segments that such an ACK covers count as marked. */
	if (marks)
		e->marked = r->accurate_ecn && marks < answer.delivered ? marks : answer.delivered;
	if (s->fast_retransmits != recoveries)
		r->recovery_ns = p->time_ns;
	follow_answer(r, p, e, &answer, oddities);
	if (r->rates)
		rw_rates_tell(r, e, &answer.rate);
	return answer.no_memory;
}

int rw_reconstruction_acked(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out,
			    struct rw_oddity_counts *oddities)
{
	out->count = 0;
	r->packets++;
	if (rw_reconstruction_too_much_work(r))
		rw_reconstruction_give_up(r, p, r->tcp.next, oddities);
	uint32_t segments = whole_segments_acked(r, p);
	if (RW_SHORT_WAY(segments))
		return acked_plain(r, p, segments, out);
	int failed = acked_otherwise(r, p, out, oddities);
	rw_settle_events(r, out);
	return failed;
}
