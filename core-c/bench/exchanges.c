/* Many short connections: each packet follows from the connection's number and how far it is. No losses. */
#include "generate.h"

#include <stdlib.h>

enum { MSS = 1448, RTT_NS = 20000000, LINE_NS = 120, REQUEST_BYTES = 300, SERVER = 0xc6120001, SERVER_PORT = 443 };

/* Eight connections for each client address. */
static struct address client_address(uint64_t number)
{
	return (struct address){0x0a000001 + (uint32_t)(number >> 3), SERVER, (uint16_t)(32768 + (number & 7) * 3583),
				SERVER_PORT};
}

/* The packets of every connection, but for addresses. */
struct script {
	struct frame syn, ack, request, response, fin;
};

static struct script write_script(void)
{
	const struct address nobody = {0};
	struct script s;
	frame_template(&s.syn, &nobody, TCP_SYN);
	frame_syn_options(&s.syn, MSS + TIMESTAMPS_BYTES);
	frame_shape(&s.syn, SYN_OPTIONS_BYTES, 0);
	frame_template(&s.ack, &nobody, TCP_ACK);
	frame_template(&s.fin, &nobody, TCP_FIN | TCP_ACK);
	frame_template(&s.request, &nobody, TCP_PSH | TCP_ACK);
	frame_shape(&s.request, 0, REQUEST_BYTES);
	frame_template(&s.response, &nobody, TCP_ACK);
	frame_shape(&s.response, 0, MSS);
	return s;
}

struct packet {
	const struct frame *template;
	struct address from;
	uint32_t sequence, ack;
	uint16_t identification;
	int64_t echo_ns;
	uint8_t flags; /* beside the template's */
};

static void send(struct output *o, const struct packet *p, int64_t time_ns)
{
	struct frame *f = output_next(o, p->template, time_ns, p->template->wire > 1000 ? LINE_NS : 100);
	f->source = htobe32(p->from.source);
	f->destination = htobe32(p->from.destination);
	f->source_port = htobe16(p->from.source_port);
	f->destination_port = htobe16(p->from.destination_port);
	f->identification = htobe16(p->identification);
	f->sequence = htobe32(p->sequence);
	f->ack = htobe32(p->ack);
	f->flags |= p->flags;
	f->ts_value = timestamp(o->clock_ns);
	f->ts_echo = p->echo_ns ? timestamp(p->echo_ns) : 0;
	output_done(o, f);
}

/*
 * Seen beside the server, one round trip after another: SYN and SYN/ACK; ACK, request and four segments of response;
 * two ACKs. Connection n begins at tick n; all are open at the end.
 */
enum { TICK_NS = 50000, TICKS_PER_RTT = RTT_NS / TICK_NS, RESPONSE_SEGMENTS = 4 };

static void many_step(struct output *o, const struct script *s, uint64_t number, int step, int64_t time_ns)
{
	struct address client = client_address(number), server = address_reverse(client);
	uint32_t ours = (uint32_t)(number * 2654435761u), theirs = ~ours;
	int64_t echo_ns = time_ns - RTT_NS;
	if (step == 0) {
		send(o, &(struct packet){.template = &s->syn, .from = client, .sequence = theirs}, time_ns);
		send(o,
		     &(struct packet){.template = &s->syn,
				      .from = server,
				      .sequence = ours,
				      .ack = theirs + 1,
				      .echo_ns = time_ns,
				      .flags = TCP_ACK},
		     time_ns);
	} else if (step == 1) {
		struct packet up = {.template = &s->ack,
				    .from = client,
				    .sequence = theirs + 1,
				    .ack = ours + 1,
				    .identification = 1,
				    .echo_ns = echo_ns};
		send(o, &up, time_ns);
		up.template = &s->request, up.identification = 2;
		send(o, &up, time_ns);
		struct packet down = {.template = &s->response,
				      .from = server,
				      .sequence = ours + 1,
				      .ack = theirs + 1 + REQUEST_BYTES,
				      .identification = 1,
				      .echo_ns = time_ns};
		for (int i = 0; i < RESPONSE_SEGMENTS; i++, down.sequence += MSS, down.identification++)
			send(o, &down, time_ns);
	} else {
		struct packet up = {.template = &s->ack,
				    .from = client,
				    .sequence = theirs + 1 + REQUEST_BYTES,
				    .ack = ours + 1,
				    .identification = 3,
				    .echo_ns = echo_ns};
		for (int i = 0; i < RESPONSE_SEGMENTS; i += 2, up.identification++) {
			up.ack += 2 * MSS;
			send(o, &up, time_ns);
		}
	}
}

struct report generate_many(struct output *o, uint64_t connections)
{
	struct script s = write_script();
	int64_t start_ns = o->clock_ns;
	for (uint64_t tick = 0; tick < connections + 2 * TICKS_PER_RTT; tick++)
		for (int step = 0; step < 3; step++) {
			uint64_t number = tick - (uint64_t)step * TICKS_PER_RTT; /* wraps before the first */
			if (number < connections)
				many_step(o, &s, number, step, start_ns + (int64_t)tick * TICK_NS);
		}
	return (struct report){connections, 0};
}

/*
 * Uploads seen beside the client. Each of `live` places holds a flow that takes its turn once a round trip: the ACKs of
 * what it sent in the turn before, then twice as much, up to a limit; after its FIN the place opens a new one.
 */
struct uploads {
	uint32_t live;
	uint32_t segments_min, segments_span;  /* of each flow; a span of 0: all have the least */
	uint32_t window_first, window_last;    /* segments */
	uint32_t frame_segments, ack_segments; /* in each frame, as with segmentation offload; covered by each ACK */
};
enum { ENDLESS = UINT32_MAX };

struct flow {
	uint64_t number;
	enum { FLOW_NEW, FLOW_SYN_SENT, FLOW_OPEN, FLOW_FIN_SENT } state;
	uint32_t left, in_flight, window; /* segments */
	uint32_t sequence, una;
	uint16_t identification, peer_identification;
	int64_t sent_ns;
};

static void take_turn(struct output *o, const struct script *s, const struct uploads *u, struct flow *f,
		      int64_t time_ns)
{
	const uint32_t theirs = 1;
	struct address client = client_address(f->number);
	struct packet down = {
	    .template = &s->ack, .from = address_reverse(client), .sequence = theirs + 1, .echo_ns = f->sent_ns};
	struct packet up = {.from = client, .ack = theirs + 1, .echo_ns = time_ns - RTT_NS};
	switch (f->state) {
	case FLOW_NEW:
		send(o, &(struct packet){.template = &s->syn, .from = client, .sequence = f->sequence++}, time_ns);
		f->una = f->sequence;
		f->state = FLOW_SYN_SENT;
		break;
	case FLOW_SYN_SENT:
		down.template = &s->syn, down.flags = TCP_ACK, down.sequence = theirs, down.ack = f->una;
		send(o, &down, time_ns);
		up.template = &s->ack, up.sequence = f->sequence;
		send(o, &up, time_ns);
		f->state = FLOW_OPEN;
		break;
	case FLOW_OPEN:
		for (uint32_t acked; f->in_flight; f->in_flight -= acked) {
			acked = f->in_flight < u->ack_segments ? f->in_flight : u->ack_segments;
			f->una += acked * MSS;
			down.ack = f->una, down.identification = ++f->peer_identification;
			send(o, &down, time_ns);
		}
		break;
	case FLOW_FIN_SENT:
		down.template = &s->fin, down.ack = f->sequence;
		send(o, &down, time_ns);
		up.template = &s->ack, up.sequence = f->sequence, up.ack++;
		send(o, &up, time_ns);
		f->state = FLOW_NEW;
		return;
	}
	f->sent_ns = o->clock_ns;
	if (f->state != FLOW_OPEN)
		return;
	f->in_flight = f->left < f->window ? f->left : f->window;
	f->left -= f->left == ENDLESS ? 0 : f->in_flight;
	f->window = 2 * f->window < u->window_last ? 2 * f->window : u->window_last;
	up.template = f->in_flight ? &s->response : &s->fin;
	for (uint32_t i = 0; i < f->in_flight; i += u->frame_segments, f->sequence += u->frame_segments * MSS) {
		up.sequence = f->sequence, up.identification = ++f->identification;
		send(o, &up, time_ns);
	}
	if (!f->in_flight) {
		up.sequence = f->sequence++;
		send(o, &up, time_ns);
		f->state = FLOW_FIN_SENT;
	}
}

/* So many connections, or bytes; an endless flow is open at the end. */
static struct report upload(struct output *o, const struct uploads *u, uint64_t connections, uint64_t bytes)
{
	struct flow *flows = calloc(u->live, sizeof *flows);
	struct script s = write_script();
	uint64_t numbers = 0, closed = 0, random = 1;
	int64_t time_ns = o->clock_ns;
	if (!flows)
		die("out of memory");
	frame_shape(&s.response, 0, u->frame_segments * MSS);
	for (uint64_t turn = 0; o->bytes < bytes && closed < connections; turn++, time_ns += 2 * RTT_NS / u->live) {
		struct flow *f = &flows[turn % u->live];
		if (f->state == FLOW_NEW && numbers == connections)
			continue;
		if (f->state == FLOW_NEW) {
			uint64_t more = u->segments_span ? draw(&random) % u->segments_span : 0;
			*f = (struct flow){.number = numbers++,
					   .left = u->segments_min + (uint32_t)more,
					   .window = u->window_first,
					   .sequence = (uint32_t)draw(&random)};
		}
		closed += f->state == FLOW_FIN_SENT;
		take_turn(o, &s, u, f, time_ns);
	}
	free(flows);
	return (struct report){numbers, 0};
}

struct report generate_churn(struct output *o, uint64_t bytes)
{
	const struct uploads u = {4000, 16, 1000, 10, 40, 1, 2};
	return upload(o, &u, UINT64_MAX, bytes);
}

struct report generate_interleaved(struct output *o, uint64_t bytes, uint32_t flows)
{
	const struct uploads u = {flows, ENDLESS, 0, 1, 1, 1, 1};
	return upload(o, &u, UINT64_MAX, bytes);
}

struct report generate_balanced(struct output *o, uint64_t bytes, uint32_t flows)
{
	const struct uploads u = {flows, ENDLESS, 0, 10, 40, 1, 2};
	return upload(o, &u, UINT64_MAX, bytes);
}

struct report generate_short(struct output *o, uint64_t connections, uint32_t live)
{
	const struct uploads u = {live, 3, 0, 10, 10, 1, 2};
	return upload(o, &u, connections, UINT64_MAX);
}

struct report generate_offload(struct output *o, uint64_t bytes)
{
	enum { FRAME_SEGMENTS = 44 }; /* as many as 64 KiB hold */
	const struct uploads u = {8, ENDLESS, 0, FRAME_SEGMENTS, 16 * FRAME_SEGMENTS, FRAME_SEGMENTS, FRAME_SEGMENTS};
	return upload(o, &u, UINT64_MAX, bytes);
}
