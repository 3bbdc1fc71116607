/*
 * One flow's packets: data, retransmissions and ACKs with SACK blocks. A few bytes describe each packet, relative to the data that
 * was sent and acknowledged before (`read_packet`). After each packet the scoreboard is recounted.
 */
#include "events.h"
#include "fuzz.h"

enum {
	PACKETS_MAX = 2048,
	COUNTED_ALWAYS = 2048,
	PAYLOAD_MAX = 1 << 20,
	TCP_HEADER = 32,
	MSS_ETHERNET = 1460,
	OTHERS_SEGMENTS = 100 /* another sender's share of the common budget */
};

/* The state of the two ends. It depends on the packets alone, so that an input has the same meaning whatever the core does. */
struct talk {
	struct rw_bytes b;
	int64_t now_ns;
	uint32_t packets, unit; /* unit: of offsets */
	uint32_t edge[4];       /* acknowledged; next to be sent; highest SACKed; where the last data packet began */
};

enum { ACKED, NEXT, SACKED, LAST };

struct header {
	struct rw_flow flow;
	uint8_t vantage, send_times;
	uint32_t segments_max;
	uint64_t budget;
	uint32_t isn, exhausted; /* the number of packets after which their allowed work is used up; 0: never */
	int64_t first_ns;
};

static struct header read_header(struct rw_bytes *b)
{
	static const uint32_t isns[] = {1000, 0xffff0000, 0x7fff0000, 0};
	static const uint16_t sizes[] = {1448, 0, 65, 60, 536, 8960, 100, 65535};
	static const uint32_t windows[] = {4096, 16, 256, 16384};
	struct header h = {.flow = {.family = 4, .source = 0}};
	uint8_t ends = rw_bytes_u8(b), limits = rw_bytes_u8(b), more = rw_bytes_u8(b);
	struct rw_flow_side *source = &h.flow.side[0], *sink = &h.flow.side[1];
	source->syn = sink->syn = ends & 1;
	source->sack_permitted = sink->sack_permitted = ends >> 1 & 1;
	source->has_window_scale = sink->has_window_scale = ends >> 2 & 1;
	sink->window_scale = ends >> 2 & 1 ? 7 : 0;
	h.vantage = ends >> 3 & 3;
	sink->mss = sizes[ends >> 5];
	h.isn = isns[limits & 3];
	h.segments_max = windows[limits >> 2 & 3];
	h.budget = limits & 16 ? 64 : 1 << 20;
	h.exhausted = limits & 32 ? 20 : 0;
	h.first_ns = limits & 64 ? 0 : 1000000000;
	h.flow.handshake = source->syn;
	source->syn_ecn = more & 7;
	sink->syn_ecn = more >> 3 & 7;
	h.send_times = limits & 128 ? RW_SEND_TIMES_ROUND_TRIP : RW_SEND_TIMES_CAPTURED;
	return h;
}

static uint32_t read_place(struct talk *t)
{
	uint8_t where = rw_bytes_u8(&t->b);
	int32_t steps = (where >> 2) - 32;
	uint32_t base = t->edge[where & 3];
	if (steps == -32)
		return base + rw_bytes_u32(&t->b);
	if (steps == -31)
		return base + (uint32_t)(int16_t)rw_bytes_u16(&t->b);
	return base + (uint32_t)steps * t->unit;
}

static uint32_t read_length(struct talk *t)
{
	uint8_t length = rw_bytes_u8(&t->b);
	if (length < 64)
		return length * t->unit;
	if (length < 128)
		return length - 64;
	return (uint32_t)(length & 0x7f) * 8192;
}

static void read_data(struct talk *t, uint8_t form, struct rw_packet *p)
{
	p->sequence = form < 4 ? t->edge[NEXT] : read_place(t);
	p->payload_bytes = form & 3 ? read_length(t) : t->unit;
	if (p->payload_bytes > PAYLOAD_MAX)
		p->payload_bytes = PAYLOAD_MAX;
	p->identification = form == 2 ? (uint16_t)(t->packets * 3) : (uint16_t)t->packets;
	uint32_t end = p->sequence + p->payload_bytes + !!(p->flags & RW_TCP_FIN);
	t->edge[LAST] = p->sequence;
	if (rw_seq_diff(end, t->edge[NEXT]) > 0)
		t->edge[NEXT] = end;
}

static void read_ack(struct talk *t, uint8_t blocks, struct rw_packet *p)
{
	p->flags = (p->flags | RW_TCP_ACK) & ~(RW_TCP_SYN | RW_TCP_RST);
	p->ack = read_place(t);
	if (rw_seq_diff(p->ack, t->edge[ACKED]) > 0)
		t->edge[ACKED] = p->ack;
	for (p->sack_count = 0; p->sack_count < blocks && p->sack_count < RW_SACK_MAX; p->sack_count++) {
		uint32_t start = read_place(t), end = start + read_length(t);
		p->sack[p->sack_count] = (struct rw_range){start, end};
		if (rw_seq_diff(end, t->edge[SACKED]) > 0)
			t->edge[SACKED] = end;
	}
}

/*
 * First byte: ACK or data; 2 bits of time; flags follow; timestamps follow; 3 bits of form: SACK blocks of an ACK, where and
 * how long of data (0: the next segment).
 */
static int read_packet(struct talk *t, struct rw_packet *p, int *acks)
{
	if (!rw_bytes_left(&t->b) || t->packets++ == PACKETS_MAX)
		return 0;
	memset(p, 0, sizeof *p);
	uint8_t first = rw_bytes_u8(&t->b), form = first >> 5;
	static const int64_t steps_ns[] = {0, 20000, 2000000, 400000000};
	if (first >> 1 & 3)
		t->now_ns += steps_ns[first >> 1 & 3] * rw_bytes_u8(&t->b);
	p->time_ns = t->now_ns;
	p->offset = t->packets;
	p->family = 4;
	p->tcp_header_bytes = TCP_HEADER;
	p->flags = RW_TCP_ACK;
	p->window = 65535;
	if (first & 8) {
		p->flags = rw_bytes_u8(&t->b);
		p->flags |= p->flags & RW_TCP_PSH ? RW_TCP_AE : 0;
		p->window = p->flags & RW_TCP_URG ? (uint16_t)(rw_bytes_u8(&t->b) << 8) : 65535; /* 0: closed */
	}
	*acks = first & 1;
	if (first & 16) {
		p->has_timestamps = 1;
		p->ts_value = (uint32_t)(t->now_ns / 1000000);
		p->ts_echo = p->ts_value - rw_bytes_u8(&t->b);
	}
	if (*acks)
		read_ack(t, form, p);
	else
		read_data(t, form, p);
	return 1;
}

/* The survey comes first and finds the largest payload. */
static uint32_t largest_payload(struct talk t)
{
	struct rw_packet p;
	uint32_t largest = 0;
	int acks;
	while (read_packet(&t, &p, &acks))
		if (!acks && p.payload_bytes > largest)
			largest = p.payload_bytes;
	return largest;
}

static void check_scoreboard(const struct rw_reconstruction *r, int whole)
{
	const struct rw_sender *s = &r->tcp;
	const struct rw_scoreboard *b = &s->board;
	CHECK(b->capacity == 0 ? !b->segment : b->first + b->room == b->segment + b->capacity);
	CHECK(b->budget->used == OTHERS_SEGMENTS + b->capacity + b->pieces_capacity &&
	      b->budget->used <= b->budget->most);
	CHECK(s->rack.resent.count <= s->rack.resent.capacity);
	CHECK(b->sacked_out <= b->count && b->lost_out <= b->count && b->retrans_out <= b->count);
	CHECK(rw_sender_in_flight(s) <= 2 * b->count);
	CHECK(!s->sack || rw_sender_in_flight(s) == b->count + b->retrans_out - b->sacked_out - b->lost_out);
	rw_sender_check(s);
	if (whole)
		rw_scoreboard_check(b, s->sack);
}

static void check_clock(const struct rw_reconstruction *r)
{
	const struct rw_round_trip *rtt = &r->tcp.rtt;
	uint64_t rto = rw_sender_rto_ns(&r->tcp);
	CHECK(rto >= 200000000 && rto <= 120000000000);
	CHECK((rtt->srtt_ns == 0) == (r->rtt_samples.count == 0));
	CHECK(rtt->least_ns <= rtt->srtt_ns || r->rtt_samples.count == 0);
}

static void check_events(const struct rw_reconstruction *r, const struct rw_events *events,
			 const struct rw_reconstruction *before, const struct rw_packet *p)
{
	const struct rw_sender *s = &r->tcp;
	CHECK(events->count <= 3);
	for (uint32_t i = 0; i < events->count; i++) {
		const struct rw_event *e = &events->event[i];
		CHECK(e->time_ns == p->time_ns);
		CHECK(e->state == (i ? events->event[i - 1].state_after : before->tcp.state));
		CHECK(e->state_after <= RW_SENDER_LOSS);
		CHECK(e->kind != RW_EVENT_SEND || e->segments ||
		      e->reducing); /* none: a packet showed data that is not in the capture */
		CHECK(i + 1 < events->count || e->state_after == s->state);
		CHECK(e->kind != RW_EVENT_ACK || e->in_flight == rw_sender_in_flight(s));
	}
}

static void check_ack(const struct rw_reconstruction *r, const struct rw_event *e,
		      const struct rw_reconstruction *before, const struct rw_packet *p)
{
	const struct rw_sender *s = &r->tcp, *was = &before->tcp;
	int32_t beyond = rw_seq_diff(p->ack, was->next);
	uint32_t mss = was->segment_bytes, unseen = beyond > 0 ? ((uint32_t)beyond + mss - 1) / mss : 0;
	CHECK(e->kind == RW_EVENT_ACK && e->ack == p->ack && e->una == (before->started ? was->una : p->ack));
	CHECK(e->una_advanced == (s->una != e->una) && e->acked_bytes == s->una - e->una);
	CHECK(e->acked_bytes <= RW_SEQUENCE_JUMP_MAX);
	CHECK(e->in_flight_before == rw_sender_in_flight(was) && e->packets_out_before == was->board.count);
	CHECK(e->in_flight_bytes_before <= 1u << 31);
	/* Nothing is delivered twice; without SACK a duplicate ACK stands for one segment. */
	CHECK(e->delivered <= was->board.count - (s->sack ? was->board.sacked_out : 0) + unseen + !s->sack +
				  (s->dsacked - was->dsacked));
	CHECK(!s->sack || !(e->flags & RW_ACK_RAISES) || e->delivered || e->una_advanced);
}

static uint64_t fold_events(uint64_t sum, const struct rw_events *events)
{
	sum = fuzz_fold(sum, events->count);
	for (uint32_t i = 0; i < events->count; i++) {
		const struct rw_event *e = &events->event[i];
		const uint64_t said[] = {(uint64_t)e->time_ns,
					 (uint64_t)e->tick_ns,
					 e->kind,
					 e->state,
					 e->state_after,
					 e->reducing,
					 e->new_episode,
					 e->una_advanced,
					 e->whole_before,
					 e->waiting,
					 e->amid_burst,
					 e->acked_amid_burst,
					 e->bursts,
					 e->flags,
					 e->steps,
					 e->una,
					 e->ack,
					 e->acked_bytes,
					 e->delivered,
					 e->newly_lost,
					 e->marked,
					 e->rtt_ns,
					 e->srtt_ns,
					 e->rtt_newest_ns,
					 e->quiet_ns,
					 e->in_flight,
					 e->in_flight_before,
					 e->packets_out_before,
					 e->in_flight_bytes_before,
					 e->sent_before,
					 e->room,
					 e->next_before,
					 e->segments,
					 e->idle_timeouts,
					 e->idle_restarts,
					 e->first_flight,
					 e->first_flight_is,
					 e->first_flight_full};
		for (size_t k = 0; k < sizeof said / sizeof *said; k++)
			sum = fuzz_fold(sum, said[k]);
	}
	return sum;
}

/* A digest of the results at the end. */
static uint64_t check_end(struct rw_reconstruction *r)
{
	uint32_t median = rw_reconstruction_rtt_quantile_us(r, 50), p95 = rw_reconstruction_rtt_quantile_us(r, 95);
	CHECK(median <= p95);
	CHECK(r->rtt_samples.count == 0 || r->tcp.rtt.least_ns / 1000 <= median);
	uint64_t sum = fuzz_fold(median, p95);
	sum = fuzz_fold(sum, rw_reconstruction_unseen_retransmissions(r));
	sum = fuzz_fold(sum, (uint64_t)rw_reconstruction_paced(r));
	sum = fuzz_fold(fuzz_fold(fuzz_fold(sum, r->bytes), r->packets), r->segments_seen);
	rw_reconstruction_retire(r);
	CHECK(rw_reconstruction_rtt_quantile_us(r, 50) == median && rw_reconstruction_rtt_quantile_us(r, 95) == p95);
	rw_reconstruction_close(r);
	CHECK(r->tcp.board.budget->used == OTHERS_SEGMENTS);
	return sum;
}

static uint64_t run(const uint8_t *data, size_t size)
{
	uint64_t sum = 0;
	struct talk t = {.b = rw_bytes_of(data, size)};
	struct header h = read_header(&t.b);
	struct rw_flow_side *source = &h.flow.side[0];
	t.unit = h.flow.side[1].mss > 12 ? h.flow.side[1].mss - 12u : MSS_ETHERNET;
	t.now_ns = h.first_ns;
	for (int i = 0; i < 4; i++)
		t.edge[i] = h.isn;
	source->payload_max = largest_payload(t);
	struct rw_budget budget = {OTHERS_SEGMENTS, OTHERS_SEGMENTS + h.budget};
	struct rw_reconstruction r, before;
	rw_reconstruction_open(&r, &h.flow, h.vantage, h.send_times, h.segments_max, &budget);
	struct rw_oddity_counts oddities = {0};
	struct rw_events events;
	struct rw_packet p;
	int acks;
	while (read_packet(&t, &p, &acks)) {
		if (t.packets == h.exhausted)
			r.tcp.board.work = UINT32_MAX;
		before = r;
		if (acks) {
			CHECK(rw_reconstruction_acked(&r, &p, &events, &oddities) == 0);
			CHECK(events.count == 1);
			if (oddities.count[RW_ODDITY_WINDOW_TOO_LARGE] == 0)
				check_ack(&r, &events.event[0], &before, &p);
		} else {
			rw_reconstruction_identify(&r, &p);
			CHECK(rw_reconstruction_sent(&r, &p, &events, &oddities) == 0);
		}
		if (oddities.count[RW_ODDITY_WINDOW_TOO_LARGE] == 0)
			check_events(&r, &events, &before, &p);
		sum = fold_events(sum, &events);
		oddities.count[RW_ODDITY_WINDOW_TOO_LARGE] = 0;
		check_scoreboard(&r, r.tcp.board.count <= COUNTED_ALWAYS || t.packets % 64 == 0);
		check_clock(&r);
	}
	check_scoreboard(&r, 1);
	return fuzz_fold(sum, check_end(&r));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_both_ways(run, data, size); }
