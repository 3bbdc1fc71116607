/* What rate-based controllers are told: the delivery rate, and the pace at which the recorded sender let go. */
#include "reconstruction.h"

/* Packets of one burst follow each other faster. */
#define BURST_GAP_NS 50000
/* What leaves so soon after an ACK was set free by it; a timer may fire as soon by chance. */
#define PROMPTED_NS 60000
/* A pause, and no pace. */
#define PAUSE_NS 100000000

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
	int by_timer = p->time_ns - r->last_ack_ns >= PROMPTED_NS;
	uint64_t waited_ns = (uint64_t)(p->time_ns - t->burst_ns);
	/* After a burst that left late, the sender's pace makes up for a part of the delay: only the time between two timers is its. */
	if (t->burst_bytes && r->beside && by_timer && t->by_timer && waited_ns < PAUSE_NS) {
		if (!t->paced_bytes)
			t->paced_since_ns = t->burst_ns;
		t->paced_bytes += t->burst_bytes;
		t->paced_ns += waited_ns;
	}
	t->by_timer = (uint8_t)by_timer;
	/* A subflow of MPTCP also waits for the scheduler, and no kernel notes that. */
	if (t->burst_bytes && !p->mptcp.seen && waited_ns > t->waited_ns) {
		t->waited_bytes = t->burst_bytes;
		t->waited_ns = waited_ns;
	}
	t->burst_ns = p->time_ns;
	t->burst_bytes = p->payload_bytes;
}

static uint32_t segments_of(const struct rw_reconstruction *r, uint32_t bytes)
{
	return (bytes + r->tcp.segment_bytes / 2) / r->tcp.segment_bytes;
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
	};
	t->told.lost = rw_delivery_rate_take_lost(&t->path, &t->told.lost_before, &t->told.lost_count);
	t->paced_bytes = t->waited_bytes = 0;
	t->paced_ns = t->waited_ns = 0;
	e->rate = &t->told;
}
