/* What rate-based controllers are told: the delivery rate, and the pace at which the recorded sender let go. */
#include "reconstruction.h"

/* Packets of one burst follow each other faster. */
#define BURST_GAP_NS 50000
/* What leaves so soon after an ACK was set free by it; a timer may fire as soon by chance. */
#define PROMPTED_NS 60000
/* A pause, and no pace. */
#define PAUSE_NS 100000000
/* Bytes of a burst, and times after bursts, that differ by no more than a part of this many count as equal. */
#define PARTS_ALIKE 32

static uint32_t segments_of(const struct rw_reconstruction *r, uint32_t bytes)
{
	return (bytes + r->tcp.segment_bytes / 2) / r->tcp.segment_bytes;
}

/* Between two timers the time after a burst is the sender's pace. That is told in segments, so bursts that are none say nothing. */
static int is_at_pace(const struct rw_reconstruction *r, uint64_t waited_ns, int by_timer)
{
	const struct rw_rates *t = r->rates;
	uint32_t whole = segments_of(r, t->burst_bytes) * r->tcp.segment_bytes;
	uint32_t apart = whole > t->burst_bytes ? whole - t->burst_bytes : t->burst_bytes - whole;
	return t->burst_bytes && r->beside && by_timer && t->by_timer && waited_ns < PAUSE_NS &&
	       apart * PARTS_ALIKE <= t->burst_bytes;
}

static void add_pace(struct rw_rates *t, int64_t since_ns, uint32_t bytes, uint64_t ns)
{
	if (!t->paced_bytes)
		t->paced_since_ns = since_ns;
	t->paced_bytes += bytes;
	t->paced_ns += ns;
}

/*
 * After a burst that left late, the sender's pace makes up for a part of the delay. A time that is shorter than the one before it is
 * therefore in doubt until the next one, which is as short if the sender has become faster.
 */
static void see_gap(struct rw_rates *t, uint64_t waited_ns, int at_pace)
{
	uint64_t now = waited_ns * t->gap_bytes, before = t->gap_ns * t->burst_bytes;
	uint64_t least = before / PARTS_ALIKE * (PARTS_ALIKE - 1), most = before / PARTS_ALIKE * (PARTS_ALIKE + 1);
	int shorter = t->gap_bytes && now < least, as_long = now <= most;
	if (at_pace && !shorter) {
		if (t->doubted && as_long)
			add_pace(t, t->burst_ns - (int64_t)t->gap_ns, t->gap_bytes, t->gap_ns);
		add_pace(t, t->burst_ns, t->burst_bytes, waited_ns);
	}
	t->doubted = (uint8_t)(at_pace && shorter);
	t->gap_bytes = t->burst_bytes;
	t->gap_ns = waited_ns;
}

RW_ASIDE void rw_rates_see_packet(struct rw_reconstruction *r, const struct rw_packet *p)
{
	struct rw_rates *t = r->rates;
	int64_t gap_ns = p->time_ns - t->last_ns;
	t->last_ns = p->time_ns;
	t->path.is_subflow = p->mptcp.seen != 0;
	if (gap_ns < BURST_GAP_NS && t->burst_bytes) {
		t->burst_bytes += p->payload_bytes;
		return;
	}
	t->answered_ns = p->time_ns - r->last_ack_ns;
	int by_timer = t->answered_ns >= PROMPTED_NS;
	uint64_t waited_ns = (uint64_t)(p->time_ns - t->burst_ns);
	see_gap(t, waited_ns, is_at_pace(r, waited_ns, by_timer));
	t->by_timer = (uint8_t)by_timer;
	/* A subflow of MPTCP also waits for the scheduler, and no kernel notes that; nor that the receiver had no room. */
	if (t->burst_bytes && !p->mptcp.seen && !t->shut && waited_ns > t->waited_ns) {
		t->waited_bytes = t->burst_bytes;
		t->waited_ns = waited_ns;
	}
	t->shut = 0;
	t->burst_ns = p->time_ns;
	t->burst_bytes = p->payload_bytes;
}

RW_ASIDE void rw_rates_tell(struct rw_reconstruction *r, struct rw_event *e, const struct rw_rate_sample *sample)
{
	const struct rw_sender *s = &r->tcp;
	struct rw_rates *t = r->rates;
	t->told = (struct rw_event_rate){
	    .sample =
		{
		    .acked_segments = e->delivered,
		    .lost_segments = e->newly_lost,
		    .in_flight_before = e->in_flight_before,
		    .in_flight = e->in_flight,
		    .repair = s->state == RW_SENDER_RECOVERY ? RW_REPAIR_RECOVERY
			      : s->state == RW_SENDER_LOSS   ? RW_REPAIR_TIMEOUT
							     : RW_REPAIR_NONE,
		    .app_limited = sample->app_limited,
		    .paced_segments = segments_of(r, t->paced_bytes),
		    .paced_ns = t->paced_ns,
		    .paced_since_ns = t->paced_since_ns,
		    .began_ns = t->began_ns,
		    .time_ns = e->time_ns,
		    .rtt_ns = e->rtt_newest_ns,
		    .delivered = sample->delivered,
		    .prior_delivered = sample->prior_delivered,
		    .interval_ns = sample->interval_ns,
		    .selective = s->sack,
		    .sent_in_flight = sample->sent_in_flight,
		    .lost_since = sample->lost_since,
		},
	    .waited_ns = t->waited_ns,
	    .waited_segments = segments_of(r, t->waited_bytes),
	    .burst_segments = segments_of(r, t->burst_bytes),
	    .burst_ns = t->burst_ns,
	    .answered_ns = t->answered_ns,
	};
	t->told.lost = rw_delivery_rate_take_lost(&t->path, &t->told.lost_before, &t->told.lost_count);
	t->shut |= (uint8_t)!e->room;
	t->paced_bytes = t->waited_bytes = 0;
	t->paced_ns = t->waited_ns = 0;
	e->rate = &t->told;
}
