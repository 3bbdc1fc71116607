/*
 * Long transfers, captured beside their sender: NewReno (RFC 5681, RFC 6582) with SACK (RFC 6675), byte counting (RFC 3465)
 * and proportional rate reduction (RFC 6937) over a path with a bottleneck, a queue without end and rare losses.
 *
 * Sequence numbers are counted in segments. The path keeps order, so what the receiver answers to a segment is known when
 * the segment is sent: it goes into a queue of ACKs, and the capture is the merged queues. Lost segments are known to
 * the simulation at once (`holes`), to the sender when three segments above them were SACKed.
 */
#include "generate.h"
#include "hash.h"

enum {
	MSS = 1448,
	DSS_BYTES = 28,      /* data ACK and data sequence number of 8 bytes, mapping, two bytes of padding */
	DATA_ACK_BYTES = 12,
	INITIAL_WINDOW = 10, /* RFC 6928 */
	WINDOW_MAX = 512,    /* segments; the receive window allows more */
	QUEUE = 1024,        /* ACKs on their way: at most one for each segment in flight */
	HOLES_MAX = 16,
	SACK_BLOCKS_MAX = 3,
	ONE_WAY_NS = 10000000,
	LINE_NS = 1200,      /* a full segment at 10 Gbit/s */
	ACK_LINE_NS = 100,
	LOSS_FIRST_MIN = 64, /* the loss that ends slow start */
	LOSS_FIRST_SPAN = 448,
	LOSS_SPAN = 4000,    /* then one in 2000 on average */
	LOSS_WINDOW_MIN = 8, /* so that three segments always follow a lost one */
	LAST_WITHOUT_LOSS = 1024, /* packets before the end: what they lost would not be repaired in time */
	SENDERS = 8,
	REORDER_MAX = 1 << 17 /* data segments that were sent on one subflow before one that is missing on another */
};

/* RFC 8684 3.3: which fields a DSS option has. */
enum { DSS_DATA_ACK = 1, DSS_DATA_ACK_WIDE = 2, DSS_MAPPING = 4, DSS_MAPPING_WIDE = 8, DSS_DATA_FIN = 16 };

struct ack {
	int64_t time_ns;
	uint32_t ack, sacked, high; /* segments; high: after the highest that was SACKed */
	uint32_t ts_echo;
	uint32_t blocks[SACK_BLOCKS_MAX][2];
	uint32_t block_count;
};

/* The data level of one MPTCP connection, in segments. */
struct data_level {
	uint64_t client_key, server_key, client_idsn, server_idsn;
	uint32_t next, una, open; /* open: subflows that have not closed */
	int64_t arrival_ns[REORDER_MAX]; /* INT64_MAX: lost, or never sent */
};

struct sender {
	enum { START, SYN_SENT, JOINING, OPEN, FIN_SENT, CLOSED } state;
	struct frame data, data_ack, peer_ack;
	uint16_t identification, peer_identification;
	uint32_t initial_sequence, peer_sequence, mss;
	/* what the sender knows */
	uint32_t una, next, cwnd, ssthresh, growth;
	uint32_t sacked, high;
	uint32_t recovering, recover, prr_delivered, prr_out, recover_flight;
	uint32_t peer_ts; /* the newest of the peer, to be echoed */
	/* the path and the receiver */
	int64_t gap_ns, bottleneck_free_ns;
	uint32_t holes[HOLES_MAX], hole_count;
	uint32_t received_high, last_acked, pending, ts_recent;
	uint32_t until_loss;
	uint64_t random;
	/* ACKs on their way */
	struct ack queue[QUEUE];
	uint32_t head, tail;
	/* MPTCP */
	struct data_level *level;
	uint32_t subflow;
	uint32_t data_index[QUEUE]; /* of each segment in flight */
};

struct transfers {
	struct output *out;
	uint64_t wanted, scheduled, retransmissions;
	uint32_t count;
	int64_t next_ns[SENDERS]; /* of each sender: its first ACK on the way */
	struct sender senders[SENDERS];
	struct data_level levels[SENDERS / 2];
};

/* Packets that may still be begun: every sender also closes with three. */
static int64_t budget(const struct transfers *t)
{
	return (int64_t)(t->wanted - t->out->packets - t->scheduled) - 3 * (int64_t)t->count;
}

static void schedule(struct transfers *t, struct sender *s, const struct ack *a)
{
	if (s->tail - s->head == QUEUE)
		die("more ACKs on their way than a window has segments");
	if (s->head == s->tail)
		t->next_ns[s - t->senders] = a->time_ns;
	s->queue[s->tail++ % QUEUE] = *a;
	t->scheduled++;
}

/* When a segment that is sent now comes out of the bottleneck and arrives. */
static int64_t cross(struct transfers *t, struct sender *s, int64_t gap_ns)
{
	int64_t now_ns = t->out->clock_ns;
	s->bottleneck_free_ns = (s->bottleneck_free_ns > now_ns ? s->bottleneck_free_ns : now_ns) + gap_ns;
	return s->bottleneck_free_ns + ONE_WAY_NS;
}

static void describe_sacks(const struct sender *s, struct ack *a)
{
	uint32_t end = s->received_high;
	for (uint32_t i = s->hole_count; i-- > 0; end = s->holes[i]) {
		if (s->holes[i] + 1 >= end)
			continue;
		a->sacked += end - s->holes[i] - 1;
		if (a->block_count < SACK_BLOCKS_MAX) {
			a->blocks[a->block_count][0] = s->holes[i] + 1;
			a->blocks[a->block_count++][1] = end;
		}
	}
	a->high = a->sacked ? s->received_high : 0;
}

/* The receiver: every second segment is acknowledged, and at once what is out of order or fills a hole. */
static void arrive(struct transfers *t, struct sender *s, uint32_t segment, int fills_hole, uint32_t ts_value)
{
	int64_t arrival_ns = cross(t, s, s->gap_ns);
	if (s->level)
		s->level->arrival_ns[s->data_index[segment % QUEUE] % REORDER_MAX] = arrival_ns;
	if (segment == s->last_acked)
		s->ts_recent = ts_value; /* RFC 7323 4.3 */
	if (segment >= s->received_high)
		s->received_high = segment + 1;
	s->pending++;
	if (!fills_hole && !s->hole_count && s->pending < 2)
		return;
	struct ack a = {.time_ns = arrival_ns + ONE_WAY_NS, .ts_echo = s->ts_recent};
	a.ack = s->hole_count ? s->holes[0] : s->received_high;
	if (s->hole_count)
		describe_sacks(s, &a);
	s->last_acked = a.ack;
	s->pending = 0;
	schedule(t, s, &a);
}

static void write_data_ack(struct frame *f, uint64_t data_ack)
{
	const uint8_t head[4] = {30, DATA_ACK_BYTES, 0x20, DSS_DATA_ACK | DSS_DATA_ACK_WIDE};
	uint64_t wide = htobe64(data_ack);
	memcpy(f->options, head, 4);
	memcpy(f->options + 4, &wide, 8);
	frame_shape(f, DATA_ACK_BYTES, 0);
}

static void write_mapping(struct frame *f, uint64_t data_ack, uint64_t data_sequence, uint32_t relative, uint16_t bytes)
{
	const uint8_t head[4] = {30, DSS_BYTES - 2, 0x20,
				 DSS_DATA_ACK | DSS_DATA_ACK_WIDE | DSS_MAPPING | DSS_MAPPING_WIDE};
	uint64_t wide[2] = {htobe64(data_ack), htobe64(data_sequence)};
	relative = htobe32(relative);
	bytes = htobe16(bytes);
	memcpy(f->options, head, 4);
	memcpy(f->options + 4, wide, 16);
	memcpy(f->options + 20, &relative, 4);
	memcpy(f->options + 24, &bytes, 2);
	memset(f->options + 26, 1, 2);
	frame_shape(f, DSS_BYTES, 0);
}

/* RFC 8684 3.1: the first data repeats the keys and maps itself. */
static void write_first_mapping(struct frame *f, const struct sender *s)
{
	const uint8_t head[4] = {30, 22, 0x01, 0x01};
	uint64_t keys[2] = {htobe64(s->level->client_key), htobe64(s->level->server_key)};
	uint16_t bytes = htobe16((uint16_t)s->mss);
	memcpy(f->options, head, 4);
	memcpy(f->options + 4, keys, 16);
	memcpy(f->options + 20, &bytes, 2);
	memset(f->options + 22, 1, 2);
	frame_shape(f, 24, s->mss);
}

static void emit_segment(struct transfers *t, struct sender *s, uint32_t segment)
{
	struct frame *f = output_next(t->out, &s->data, 0, LINE_NS);
	f->identification = htobe16(++s->identification);
	f->sequence = htobe32(s->initial_sequence + 1 + segment * s->mss);
	f->ack = htobe32(s->peer_sequence + 1);
	f->ts_value = timestamp(t->out->clock_ns);
	f->ts_echo = s->peer_ts;
	if (s->level && !s->subflow && !segment) {
		write_first_mapping(f, s);
	} else if (s->level) {
		uint64_t wide = htobe64(s->level->client_idsn + 1 + (uint64_t)s->data_index[segment % QUEUE] * s->mss);
		uint32_t relative = htobe32(1 + segment * s->mss);
		memcpy(f->options + 12, &wide, 8);
		memcpy(f->options + 20, &relative, 4);
	}
	output_done(t->out, f);
}

static void retransmit(struct transfers *t, struct sender *s)
{
	uint32_t segment = s->holes[0];
	memmove(s->holes, s->holes + 1, --s->hole_count * sizeof *s->holes);
	emit_segment(t, s, segment);
	arrive(t, s, segment, 1, timestamp(t->out->clock_ns));
	t->retransmissions++;
}

static int lose(struct transfers *t, struct sender *s)
{
	if (--s->until_loss)
		return 0;
	s->until_loss = 1 + (uint32_t)(draw(&s->random) % LOSS_SPAN);
	return s->cwnd >= LOSS_WINDOW_MIN && s->hole_count < HOLES_MAX && budget(t) > LAST_WITHOUT_LOSS;
}

static void send_new(struct transfers *t, struct sender *s)
{
	uint32_t segment = s->next++;
	if (s->level) {
		if (s->level->next - s->level->una >= REORDER_MAX)
			die("a subflow ran too far ahead of another");
		s->data_index[segment % QUEUE] = s->level->next;
		s->level->arrival_ns[s->level->next++ % REORDER_MAX] = INT64_MAX;
	}
	emit_segment(t, s, segment);
	if (lose(t, s))
		s->holes[s->hole_count++] = segment;
	else
		arrive(t, s, segment, 0, timestamp(t->out->clock_ns));
}

static void grow(struct sender *s, uint32_t delivered)
{
	if (s->cwnd < s->ssthresh) {
		uint32_t step = s->ssthresh - s->cwnd < delivered ? s->ssthresh - s->cwnd : delivered;
		s->cwnd += step;
		delivered -= step;
	}
	s->growth += delivered;
	if (s->growth >= s->cwnd) {
		s->growth -= s->cwnd;
		s->cwnd++;
	}
	if (s->cwnd > WINDOW_MAX)
		s->cwnd = WINDOW_MAX;
}

/* Holes that the sender knows of: in recovery everything below what was SACKed is taken for lost. */
static uint32_t known_lost(const struct sender *s)
{
	uint32_t n = 0;
	while (n < s->hole_count && s->holes[n] < s->high)
		n++;
	return n;
}

static uint32_t in_flight(const struct sender *s)
{
	return s->next - s->una - s->sacked - (s->recovering ? known_lost(s) : 0);
}

static void recover(struct transfers *t, struct sender *s, uint32_t delivered)
{
	uint32_t flight = in_flight(s), allowed;
	s->prr_delivered += delivered;
	if (flight > s->ssthresh) {
		uint64_t share = ((uint64_t)s->prr_delivered * s->ssthresh + s->recover_flight - 1) / s->recover_flight;
		allowed = share > s->prr_out ? (uint32_t)share - s->prr_out : 0;
	} else {
		uint32_t bank = s->prr_delivered > s->prr_out ? s->prr_delivered - s->prr_out : 0;
		allowed = (bank > delivered ? bank : delivered) + 1;
		if (allowed > s->ssthresh - flight)
			allowed = s->ssthresh - flight;
	}
	if (!s->prr_out && !allowed)
		allowed = 1; /* the fast retransmit */
	s->cwnd = flight + allowed;
	for (; allowed; allowed--, s->prr_out++) {
		if (known_lost(s))
			retransmit(t, s);
		else if (budget(t) > 0)
			send_new(t, s);
	}
}

static void receive_ack(struct transfers *t, struct sender *s, const struct ack *a)
{
	uint32_t acked = a->ack - s->una, delivered = acked + a->sacked - s->sacked;
	int full = in_flight(s) >= s->cwnd;
	s->una = a->ack;
	s->sacked = a->sacked;
	s->high = a->high;
	if (s->recovering && s->una >= s->recover) {
		s->recovering = 0;
		s->cwnd = s->ssthresh;
	}
	if (!s->recovering && s->sacked >= 3) {
		s->recovering = 1;
		s->recover = s->next;
		s->recover_flight = s->next - s->una;
		s->ssthresh = s->cwnd > 4 ? s->cwnd / 2 : 2;
		s->prr_delivered = s->prr_out = s->growth = 0;
	}
	if (s->recovering) {
		recover(t, s, delivered);
		return;
	}
	if (acked && full)
		grow(s, delivered); /* what was SACKed in recovery counts once */
	while (in_flight(s) < s->cwnd && budget(t) > 0)
		send_new(t, s);
}

/* From the sender or, `peer`, from the receiver: a packet that is not sent often. */
static struct frame *begin_rare(struct transfers *t, struct sender *s, const struct frame *template, int peer,
				int64_t time_ns)
{
	struct frame *f = output_next(t->out, template, time_ns, ACK_LINE_NS);
	uint32_t next = s->initial_sequence + 1 + s->next * s->mss;
	f->identification = htobe16(peer ? ++s->peer_identification : ++s->identification);
	f->sequence = htobe32(peer ? s->peer_sequence + 1 : next);
	f->ack = htobe32(peer ? next : s->peer_sequence + 1);
	f->ts_value = timestamp(peer ? time_ns - ONE_WAY_NS : t->out->clock_ns);
	f->ts_echo = peer ? s->ts_recent : s->peer_ts;
	return f;
}

static void emit_ack(struct transfers *t, struct sender *s, const struct ack *a)
{
	struct frame *f = output_next(t->out, &s->peer_ack, a->time_ns, ACK_LINE_NS);
	f->identification = htobe16(++s->peer_identification);
	f->sequence = htobe32(s->peer_sequence + 1);
	f->ack = htobe32(s->initial_sequence + 1 + a->ack * s->mss);
	f->ts_value = s->peer_ts = timestamp(a->time_ns - ONE_WAY_NS);
	f->ts_echo = a->ts_echo;
	uint8_t *option = f->options;
	uint32_t blocks = a->block_count;
	if (s->level) {
		struct data_level *l = s->level;
		while (l->una != l->next && l->arrival_ns[l->una % REORDER_MAX] <= a->time_ns - ONE_WAY_NS)
			l->una++;
		uint64_t data_ack = htobe64(l->client_idsn + 1 + (uint64_t)l->una * s->mss);
		memcpy(option + 4, &data_ack, 8);
		option += DATA_ACK_BYTES;
		blocks = blocks ? 1 : 0; /* there is room for one */
	}
	if (blocks) {
		const uint8_t head[4] = {1, 1, 5, (uint8_t)(2 + 8 * blocks)};
		memcpy(option, head, 4);
		option += 4;
		for (uint32_t i = 0; i < blocks; i++, option += 8) {
			uint32_t edge[2];
			for (int j = 0; j < 2; j++)
				edge[j] = htobe32(s->initial_sequence + 1 + a->blocks[i][j] * s->mss);
			memcpy(option, edge, 8);
		}
		frame_shape(f, (uint32_t)(option - f->options), 0);
	}
	output_done(t->out, f);
}

/* MP_CAPABLE (RFC 8684 3.1) or MP_JOIN (3.2) of the three packets of a handshake; returns its length. */
static uint32_t handshake_option(struct sender *s, int packet, uint8_t *option)
{
	static const uint8_t capable_bytes[3] = {4, 12, 20}, join_bytes[3] = {12, 16, 24};
	struct data_level *l = s->level;
	uint32_t n = s->subflow ? join_bytes[packet] : capable_bytes[packet];
	uint64_t keys[2] = {htobe64(packet == 1 ? l->server_key : l->client_key), htobe64(l->server_key)};
	option[0] = 30;
	option[1] = (uint8_t)n;
	if (!s->subflow) {
		option[2] = 0x01; /* version 1 */
		option[3] = 0x01; /* HMAC-SHA256 */
		memcpy(option + 4, keys, n - 4);
		return n;
	}
	option[2] = 0x10;
	option[3] = (uint8_t)(packet == 2 ? 0 : s->subflow); /* address id */
	uint32_t token = htobe32(rw_key_identify(l->server_key, 1).token);
	for (uint32_t i = 4; i < n; i++)
		option[i] = (uint8_t)draw(&s->random); /* nonces, and HMACs that nobody checks */
	if (packet == 0)
		memcpy(option + 4, &token, 4);
	return n;
}

static void emit_syn(struct transfers *t, struct sender *s, int peer, int64_t time_ns)
{
	struct frame *f = begin_rare(t, s, peer ? &s->peer_ack : &s->data_ack, peer, time_ns);
	f->flags = peer ? TCP_SYN | TCP_ACK : TCP_SYN;
	f->sequence = htobe32(peer ? s->peer_sequence : s->initial_sequence);
	f->identification = 0;
	if (!peer) {
		f->ack = 0;
		s->ts_recent = f->ts_value;
	}
	frame_syn_options(f, MSS + TIMESTAMPS_BYTES);
	uint32_t n = SYN_OPTIONS_BYTES;
	if (s->level)
		n += handshake_option(s, peer, f->options + n);
	frame_shape(f, n, 0);
	output_done(t->out, f);
	if (peer)
		s->peer_ts = f->ts_value;
}

static void emit_third(struct transfers *t, struct sender *s)
{
	struct frame *f = begin_rare(t, s, &s->data_ack, 0, 0);
	if (s->level)
		frame_shape(f, handshake_option(s, 2, f->options), 0);
	output_done(t->out, f);
}

static void emit_fin(struct transfers *t, struct sender *s, int peer, int64_t time_ns)
{
	struct frame *f = begin_rare(t, s, peer ? &s->peer_ack : &s->data_ack, peer, time_ns);
	f->flags |= TCP_FIN;
	if (peer)
		f->ack = htobe32(be32toh(f->ack) + 1);
	if (s->level && s->level->open == 1) { /* the last subflow of its connection carries the DATA_FIN */
		const struct data_level *l = s->level;
		uint64_t next = l->client_idsn + 1 + (uint64_t)l->next * s->mss;
		write_mapping(f, peer ? next + 1 : l->server_idsn + 1, peer ? l->server_idsn + 1 : next, 0, 1);
		f->options[3] |= DSS_DATA_FIN;
	}
	output_done(t->out, f);
}

static void emit_last(struct transfers *t, struct sender *s)
{
	struct frame *f = begin_rare(t, s, &s->data_ack, 0, 0);
	f->sequence = htobe32(be32toh(f->sequence) + 1);
	f->ack = htobe32(s->peer_sequence + 2);
	if (s->level && --s->level->open == 0)
		write_data_ack(f, s->level->server_idsn + 2);
	output_done(t->out, f);
}

/* A packet without data on its way: what answers it comes one round trip later. */
static void await(struct transfers *t, struct sender *s)
{
	const struct ack answer = {.time_ns = cross(t, s, 0) + ONE_WAY_NS, .ack = s->next};
	schedule(t, s, &answer);
}

static void open_window(struct transfers *t, struct sender *s)
{
	s->state = OPEN;
	while (in_flight(s) < s->cwnd && budget(t) > 0)
		send_new(t, s);
}

static void handle(struct transfers *t, struct sender *s, const struct ack *a)
{
	switch (s->state) {
	case START:
		t->out->clock_ns = a->time_ns > t->out->clock_ns ? a->time_ns : t->out->clock_ns;
		emit_syn(t, s, 0, a->time_ns);
		s->state = SYN_SENT;
		await(t, s);
		return;
	case SYN_SENT:
		emit_syn(t, s, 1, a->time_ns);
		emit_third(t, s);
		if (s->subflow) {
			s->state = JOINING;
			await(t, s);
			return;
		}
		open_window(t, s);
		break;
	case JOINING: /* RFC 8684 3.2: data waits for the fourth packet */
		emit_ack(t, s, a);
		open_window(t, s);
		break;
	case OPEN:
		emit_ack(t, s, a);
		receive_ack(t, s, a);
		break;
	case FIN_SENT:
		emit_fin(t, s, 1, a->time_ns);
		emit_last(t, s);
		s->state = CLOSED;
		return;
	case CLOSED:
		return;
	}
	if (s->head == s->tail && budget(t) <= 0) {
		emit_fin(t, s, 0, 0);
		s->state = FIN_SENT;
		await(t, s);
	}
}

static void prepare(struct transfers *t, uint32_t i, struct address a, struct data_level *level, uint32_t rate_mbit,
		    int64_t start_ns)
{
	struct sender *s = &t->senders[i];
	struct address back = address_reverse(a);
	s->random = i + 1;
	s->initial_sequence = (uint32_t)draw(&s->random);
	s->peer_sequence = (uint32_t)draw(&s->random);
	s->until_loss = LOSS_FIRST_MIN + (uint32_t)(draw(&s->random) % LOSS_FIRST_SPAN);
	s->level = level;
	s->mss = level ? MSS - DSS_BYTES : MSS;
	s->cwnd = INITIAL_WINDOW;
	s->ssthresh = UINT32_MAX;
	s->gap_ns = (MSS + TIMESTAMPS_BYTES + HEADER_BYTES) * 8000ll / rate_mbit;
	frame_template(&s->data, &a, TCP_ACK);
	frame_shape(&s->data, 0, s->mss);
	frame_template(&s->data_ack, &a, TCP_ACK);
	frame_template(&s->peer_ack, &back, TCP_ACK);
	if (level) {
		write_mapping(&s->data, level->server_idsn + 1, 0, 0, (uint16_t)s->mss);
		frame_shape(&s->data, DSS_BYTES, s->mss);
		write_data_ack(&s->data_ack, level->server_idsn + 1);
		write_data_ack(&s->peer_ack, level->client_idsn + 1);
	}
	const struct ack start = {.time_ns = start_ns};
	schedule(t, s, &start);
	t->count++;
}

static void run(struct transfers *t)
{
	for (;;) {
		uint32_t first = 0;
		for (uint32_t i = 1; i < t->count; i++)
			if (t->next_ns[i] < t->next_ns[first])
				first = i;
		if (t->next_ns[first] == INT64_MAX)
			break;
		struct sender *s = &t->senders[first];
		const struct ack *a = &s->queue[s->head++ % QUEUE];
		t->next_ns[first] = s->head == s->tail ? INT64_MAX : s->queue[s->head % QUEUE].time_ns;
		t->scheduled--;
		handle(t, s, a);
	}
	for (uint32_t i = 0; i < t->count; i++)
		if (t->senders[i].state != CLOSED)
			die("a connection did not come to its end");
}

static struct address endpoints(uint32_t connection, uint32_t subflow)
{
	return (struct address){0x0a000001 + (subflow << 16) + connection, 0xc6120001,
				(uint16_t)(40000 + 7 * connection), 5001};
}

struct report generate_bulk(struct output *o, uint64_t packets)
{
	static const uint32_t rates_mbit[SENDERS] = {10, 20, 30, 40, 60, 80, 120, 160};
	static struct transfers t;
	t.out = o;
	t.wanted = packets;
	for (uint32_t i = 0; i < SENDERS; i++)
		prepare(&t, i, endpoints(i, 0), NULL, rates_mbit[i], o->clock_ns + i * 3000000);
	run(&t);
	return (struct report){SENDERS, t.retransmissions};
}

struct report generate_mptcp(struct output *o, uint64_t packets, uint32_t subflows)
{
	static const uint32_t rates_mbit[SENDERS] = {10, 40, 20, 20, 30, 80, 60, 120};
	static struct transfers t;
	uint64_t random = 0x6d70746370;
	t.out = o;
	t.wanted = packets;
	for (uint32_t i = 0; i < SENDERS / subflows; i++) {
		struct data_level *l = &t.levels[i];
		l->client_key = draw(&random);
		l->server_key = draw(&random);
		l->client_idsn = rw_key_identify(l->client_key, 1).idsn;
		l->server_idsn = rw_key_identify(l->server_key, 1).idsn;
		l->open = subflows;
		for (uint32_t j = 0; j < subflows; j++) { /* a join waits until the first subflow carried data */
			prepare(&t, i * subflows + j, endpoints(i, j), l, rates_mbit[i * subflows + j],
				o->clock_ns + i * 3000000 + j * 5 * ONE_WAY_NS);
			t.senders[i * subflows + j].subflow = j;
		}
	}
	run(&t);
	return (struct report){SENDERS / subflows, t.retransmissions};
}
