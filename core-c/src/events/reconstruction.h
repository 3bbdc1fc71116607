/* Shared by the files of this folder. */
#ifndef RW_RECONSTRUCTION_H
#define RW_RECONSTRUCTION_H

#include "events.h"

/* A host answers an ACK with data sooner than this. */
#define RW_PROMPT_NS 200000
/* Packets of one burst follow each other faster. */
#define RW_BURST_GAP_NS 50000

/* Sets the beginning of the sender's data by the first packet. */
void rw_reconstruction_start(struct rw_reconstruction *r, uint32_t sequence);
/* Payload of one segment of this packet: the peer's MSS less the packet's options. Super-segments are cut by it. */
uint32_t rw_reconstruction_segment_bytes(const struct rw_reconstruction *r, const struct rw_packet *p);
/* Forgets outstanding data, because the window cannot be followed. The next new data has the sequence number `next`. */
void rw_reconstruction_give_up(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t next,
			       struct rw_oddity_counts *oddities);
/* Whether the scoreboard took more work than its packets may cause, as an attack would. */
int rw_reconstruction_too_much_work(const struct rw_reconstruction *r);

struct rw_event *rw_events_add(const struct rw_reconstruction *r, struct rw_events *out, uint8_t kind, int64_t time_ns);

/* Call it after changes that may affect r->steady. */
static inline void rw_settle(struct rw_reconstruction *r)
{
	const struct rw_sender *s = &r->tcp;
	r->steady = s->state == RW_SENDER_OPEN && s->una != r->first_sequence && r->first_data_ns && s->timer_ns;
}

/* The same after all events of a packet; fills in the state that each event led to. */
void rw_settle_events(struct rw_reconstruction *r, struct rw_events *out);

/* A packet with data leaves: at which pace? Only where r->rates is not null. */
void rw_rates_see_packet(struct rw_reconstruction *r, const struct rw_packet *p);
/* What the delivery rate's answer to an ACK, and the pace before it, tell rate-based controllers. */
void rw_rates_tell(struct rw_reconstruction *r, struct rw_event *e, const struct rw_rate_sample *sample);

void rw_rtt_samples_add(struct rw_rtt_samples *samples, uint64_t rtt_ns);
/* least_us: lower bound of the sample. */
uint32_t rw_rtt_samples_quantile_us(const struct rw_rtt_samples *samples, uint32_t percent, uint64_t least_us);

#endif
