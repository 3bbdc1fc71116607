/* What the files of this folder share. */
#ifndef RW_RECONSTRUCTION_H
#define RW_RECONSTRUCTION_H

#include "events.h"

/* A host answers an ACK with data sooner than this. */
#define RW_PROMPT_NS 200000

/* The first packet tells where the sender's data begins. */
void rw_reconstruction_start(struct rw_reconstruction *r, uint32_t sequence);
/* What one segment of this packet carries: the peer's MSS less the packet's own options; super-segments are cut by it. */
uint32_t rw_reconstruction_segment_bytes(const struct rw_reconstruction *r, const struct rw_packet *p);
/* Forgets what is outstanding, as the window cannot be followed; the next new data has the sequence number `next`. */
void rw_reconstruction_give_up(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t next,
			       struct rw_oddity_counts *oddities);
/* Was more work caused than the packets may cause? A scoreboard that is walked again and again was made for that. */
int rw_reconstruction_too_much_work(const struct rw_reconstruction *r);

struct rw_event *rw_events_add(const struct rw_reconstruction *r, struct rw_events *out, uint8_t kind, int64_t time_ns);

/* After what may have changed r->steady. */
static inline void rw_settle(struct rw_reconstruction *r)
{
	const struct rw_sender *s = &r->tcp;
	r->steady = s->state == RW_SENDER_OPEN && s->una != r->first_sequence && r->first_data_ns && s->timer_ns;
}

/* The same, once all events of a packet are there: each says which state it led to. */
void rw_settle_events(struct rw_reconstruction *r, struct rw_events *out);

/* A packet with data leaves: at which pace? Only where r->rates is not null. */
void rw_rates_see_packet(struct rw_reconstruction *r, const struct rw_packet *p);
/* What the delivery rate's answer to an ACK, and the pace before it, tell rate-based controllers. */
void rw_rates_tell(struct rw_reconstruction *r, struct rw_event *e, const struct rw_rate_sample *sample);

void rw_rtt_samples_add(struct rw_rtt_samples *samples, uint64_t rtt_ns);
/* least_us: no sample is shorter. */
uint32_t rw_rtt_samples_quantile_us(const struct rw_rtt_samples *samples, uint32_t percent, uint64_t least_us);

#endif
