/* Opening, settling and closing a reconstruction. */
#include "reconstruction.h"

#include <stdlib.h>
#include <string.h>

/* Limits of segments that are visited one by one, in all and for each packet. Only an attack needs more. */
#define WORK_FREE 20000000ull
#define WORK_PER_PACKET 20000ull
/* A smaller MSS counts as misread (RFC 9293: 536 is the default). */
#define MSS_MIN 64
/* 1500 bytes less IPv4 and TCP headers; for flows without a captured handshake. */
#define MSS_ETHERNET 1460
/* RFC 9768 3.2.1: the initial count of CE marks. */
#define CE_COUNTER_START 5

uint32_t rw_reconstruction_segment_bytes(const struct rw_reconstruction *r, const struct rw_packet *p)
{
	if (r->peer_mss > MSS_MIN) {
		uint32_t options = p->tcp_header_bytes - 20u;
		return r->peer_mss > options + MSS_MIN ? r->peer_mss - options : r->peer_mss;
	}
	return r->payload_max && r->payload_max <= MSS_ETHERNET ? r->payload_max : MSS_ETHERNET;
}

void rw_reconstruction_open(struct rw_reconstruction *r, const struct rw_flow *flow, uint8_t vantage, int corrected,
			    uint32_t segments_max, struct rw_budget *budget)
{
	const struct rw_flow_side *source = &flow->side[flow->source], *sink = &flow->side[!flow->source];
	int handshake = source->syn && sink->syn;
	/* Without a handshake, assume the options of current stacks. */
	int sack = handshake ? source->sack_permitted && sink->sack_permitted : 1;
	memset(r, 0, sizeof *r);
	rw_sender_open(&r->tcp, sink->mss > MSS_MIN ? sink->mss : MSS_ETHERNET, sack, segments_max, budget);
	r->tcp.untimed = vantage == RW_VANTAGE_RECEIVER && !corrected;
	r->tcp.window_bytes = sink->syn_window ? sink->syn_window : UINT32_MAX;
	r->vantage = vantage;
	r->corrected = (uint8_t)corrected;
	r->beside = vantage == RW_VANTAGE_SENDER && !corrected;
	r->peer_mss = sink->mss;
	r->payload_max = source->payload_max;
	r->peer_scale = handshake && source->has_window_scale && sink->has_window_scale ? sink->window_scale : 0;
	r->ticks.counts = flow->counts_ms;
	r->handshake = flow->handshake;
	r->identification.asked = flow->family == 4 && (vantage == RW_VANTAGE_MIDDLE || vantage == RW_VANTAGE_RECEIVER);
	r->accurate_ecn = rw_flow_ecn(flow) == RW_ECN_ACCURATE;
	r->ce_counter = CE_COUNTER_START;
}

int rw_reconstruction_sample_rates(struct rw_reconstruction *r, int keeps_flights)
{
	r->rates = calloc(1, sizeof *r->rates);
	if (!r->rates)
		return 1;
	rw_delivery_rate_open(&r->rates->path);
	r->rates->path.keeps_flights = (uint8_t)(keeps_flights != 0);
	rw_sender_sample_rate(&r->tcp, &r->rates->path);
	return 0;
}

void rw_reconstruction_start(struct rw_reconstruction *r, uint32_t sequence)
{
	rw_sender_start(&r->tcp, sequence);
	r->first_sequence = sequence;
	r->started = 1;
	r->flight = RW_FLIGHT_INITIAL;
}

int rw_reconstruction_too_much_work(const struct rw_reconstruction *r)
{
	uint64_t work = r->tcp.board.work;
	return work > WORK_FREE && work - WORK_FREE > WORK_PER_PACKET * r->packets;
}

RW_ASIDE void rw_reconstruction_give_up(struct rw_reconstruction *r, const struct rw_packet *p, uint32_t next,
					struct rw_oddity_counts *oddities)
{
	rw_oddity_add(oddities, RW_ODDITY_WINDOW_TOO_LARGE, p->file, p->offset);
	rw_sender_forget(&r->tcp, next);
	r->gave_up = 1;
	r->tcp.board.work = 0;
	r->packets = 0;
	r->steady = 0;
}

struct rw_event *rw_events_add(const struct rw_reconstruction *r, struct rw_events *out, uint8_t kind, int64_t time_ns)
{
	struct rw_event *e = &out->event[out->count++];
	const size_t half = sizeof *e / 2;
	/* Cleared in two parts, which are a few stores each; cleared at once it would be a loop. */
	memset(e, 0, half);
	memset((uint8_t *)e + half, 0, sizeof *e - half);
	e->kind = kind;
	e->time_ns = time_ns;
	e->tick_ns = r->ticks.started && r->beside ? r->ticks.first_ns : 0;
	e->state = r->tcp.state;
	e->una = r->tcp.una;
	e->srtt_ns = r->tcp.rtt.srtt_ns;
	e->bursts = r->bursts;
	return e;
}

void rw_settle_events(struct rw_reconstruction *r, struct rw_events *out)
{
	rw_settle(r);
	for (uint32_t i = 0; i < out->count; i++)
		out->event[i].state_after = i + 1 < out->count ? out->event[i + 1].state : r->tcp.state;
}

void rw_reconstruction_rtt(struct rw_reconstruction *r, uint64_t rtt_ns)
{
	if (r->retired)
		return;
	rw_sender_rtt(&r->tcp, rtt_ns);
	rw_rtt_samples_add(&r->rtt_samples, rtt_ns);
}

uint32_t rw_reconstruction_rtt_quantile_us(const struct rw_reconstruction *r, uint32_t percent)
{
	if (r->retired)
		return percent == 50 ? r->rtt_samples.median_us : r->rtt_samples.p95_us;
	return rw_rtt_samples_quantile_us(&r->rtt_samples, percent, r->tcp.rtt.least_ns / 1000);
}

void rw_reconstruction_retire(struct rw_reconstruction *r)
{
	uint32_t median_us = rw_reconstruction_rtt_quantile_us(r, 50),
		 p95_us = rw_reconstruction_rtt_quantile_us(r, 95);
	r->rtt_samples.median_us = median_us;
	r->rtt_samples.p95_us = p95_us;
	r->retired = 1;
	rw_reconstruction_close(r);
}

void rw_reconstruction_close(struct rw_reconstruction *r)
{
	rw_sender_close(&r->tcp);
	free(r->rates);
	r->rates = NULL;
	rw_sender_sample_rate(&r->tcp, NULL);
	free(r->rtt_samples.histogram);
	r->rtt_samples.histogram = NULL;
	r->rtt_samples.octaves = 0;
}
