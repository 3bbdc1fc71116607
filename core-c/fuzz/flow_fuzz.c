/*
 * A few hosts and ports talk TCP and MPTCP; a few bytes describe each packet (`read_packet`). Invariants: flows and connections are
 * numbered without gaps and refer to each other, and the same packets give the same result again.
 */
#include "flow.h"
#include "fuzz.h"
#include "hash.h"

enum { KEYS = 8, TUPLES = 64, PACKETS_MAX = 2048 };

struct talk {
	struct rw_bytes b;
	int64_t now_ns;
	uint64_t packets;
	uint32_t next[TUPLES]; /* sequence number, by tuple and direction */
};

static uint64_t key_of(uint32_t i) { return 0x0123456789abcdefu * (i % KEYS + 1); }

static void read_mptcp(struct talk *t, struct rw_packet *p)
{
	struct rw_mptcp *m = &p->mptcp;
	uint8_t kind = rw_bytes_u8(&t->b), which = rw_bytes_u8(&t->b);
	m->seen = (uint16_t)(1u << (kind % 9));
	switch (kind % 9) {
	case RW_MP_CAPABLE:
		m->version = which >> 6;
		m->keys = (uint8_t)(kind / 9 % 3);
		m->checksum_required = kind >> 7;
		m->key[0] = key_of(which);
		m->key[1] = key_of(which >> 3);
		break;
	case RW_MP_JOIN:
		m->join_backup = kind >> 7;
		m->has_join_token = (p->flags & (RW_TCP_SYN | RW_TCP_ACK)) == RW_TCP_SYN;
		m->join_token = which & 0x80 ? which : rw_key_identify(key_of(which), which >> 3 & 1).token;
		break;
	case RW_MP_DSS:
		m->dss_mapping = 1;
		m->data_length = which;
		break;
	default:
		break;
	}
}

/*
 * Bytes: tuple (2 bits of hosts, 2 of ports, direction, family, 2 of time), more of the port, TCP flags, where the sequence number goes on,
 * payload, then what the SYN or an MPTCP option says.
 */
static int read_packet(struct talk *t, struct rw_packet *p)
{
	if (rw_bytes_left(&t->b) < 4 || t->packets++ == PACKETS_MAX)
		return 0;
	memset(p, 0, sizeof *p);
	uint8_t tuple = rw_bytes_u8(&t->b), from_client = tuple >> 4 & 1;
	static const int64_t steps_ns[] = {0, 1000, 40000000, -5000};
	t->now_ns += steps_ns[tuple >> 6];
	p->time_ns = t->now_ns;
	p->offset = t->packets;
	p->family = tuple & 32 ? 6 : 4;
	/* Hosts 0 and 0: one host that talks to itself, on many ports. */
	uint8_t client = tuple & 1, server = tuple & 2;
	uint16_t port = (uint16_t)(1000 + (tuple >> 2 & 3) + (client || server ? 0 : 4 * rw_bytes_u8(&t->b)));
	p->source[3] = from_client ? client : server;
	p->destination[3] = from_client ? server : client;
	p->source_port = from_client ? port : 1001;
	p->destination_port = from_client ? 1001 : port;
	p->flags = rw_bytes_u8(&t->b);
	uint8_t where = rw_bytes_u8(&t->b), length = rw_bytes_u8(&t->b);
	uint32_t *next = &t->next[tuple & (TUPLES - 1)];
	p->sequence = where & 1 ? *next - (where >> 1) : *next + (uint32_t)(where >> 1) * 100000000u;
	p->payload_bytes = length & 0x80 ? (length & 0x7fu) * 8192 : length;
	*next = p->sequence + p->payload_bytes + !!(p->flags & (RW_TCP_SYN | RW_TCP_FIN));
	p->tcp_header_bytes = 20;
	if (p->flags & RW_TCP_SYN) {
		uint8_t options = rw_bytes_u8(&t->b);
		p->has_timestamps = options & 1;
		p->sack_permitted = options >> 1 & 1;
		p->option_mss = options >> 2 & 1;
		p->mss = p->option_mss ? (uint16_t)((options >> 4) * 100) : 0;
		p->has_window_scale = options >> 3 & 1;
		p->window_scale = p->has_window_scale ? options >> 4 & 7 : 0;
	}
	if (p->flags & RW_TCP_URG) /* an MPTCP option: the bit has no other meaning to a flow */
		read_mptcp(t, p);
	return 1;
}

static int is_of_flow(const struct rw_flow *f, int side, const struct rw_packet *p)
{
	return f->family == p->family && f->port[side] == p->source_port && f->port[!side] == p->destination_port &&
	       memcmp(f->address[side], p->source, 16) == 0 && memcmp(f->address[!side], p->destination, 16) == 0;
}

static int owns(const struct rw_flow *f, uint32_t token)
{
	for (int side = 0; side < 2; side++)
		if (f->has_key[side] && rw_key_identify(f->key[side], f->version).token == token)
			return 1;
	return 0;
}

/* A join belongs to the connection of its token's owner; without an owner, to that of other joins with the same token. */
static void check_join(const struct rw_survey *s, const struct rw_flow *f)
{
	int owned = 0, with_owner = 0;
	for (uint32_t i = 0; i < s->flows; i++) {
		const struct rw_flow *o = &s->flow[i];
		if (!o->joined && s->connection[o->connection].mptcp && owns(o, f->join_token)) {
			owned = 1;
			with_owner |= o->connection == f->connection;
		}
		if (o->joined && o->has_token && o->connection == f->connection)
			CHECK(o->join_token == f->join_token || !s->connection[f->connection].unmatched);
	}
	CHECK(owned == with_owner);
	CHECK(owned == !s->connection[f->connection].unmatched);
}

static void check_flows(const struct rw_survey *s, const uint64_t packets)
{
	uint64_t seen = 0;
	for (uint32_t i = 0; i < s->flows; i++) {
		const struct rw_flow *f = &s->flow[i];
		CHECK(f->connection < s->connections);
		const struct rw_flow_connection *c = &s->connection[f->connection];
		CHECK(f->id < c->subflows);
		CHECK(s->subflow[c->first_subflow + f->id] == i);
		CHECK(f->source <= 1 && f->initiator <= 1 && f->near <= 3);
		if (f->joined && f->has_token)
			check_join(s, f);
		for (int side = 0; side < 2; side++) {
			const struct rw_flow_side *d = &f->side[side];
			seen += d->packets + (f->copied ? d->copies : 0);
			CHECK(d->bytes == 0 || d->payload_max);
			CHECK(f->copied || d->bytes <= d->packets * (uint64_t)d->payload_max);
			CHECK(!f->handshake || d->syn);
		}
	}
	CHECK(seen == packets);
}

static void check_connections(const struct rw_survey *s)
{
	uint32_t subflows = 0;
	CHECK(s->connections <= s->flows);
	for (uint32_t i = 0; i < s->connections; i++) {
		const struct rw_flow_connection *c = &s->connection[i];
		CHECK(c->subflows > 0 && c->first_subflow == subflows);
		CHECK(c->first_flow == s->subflow[c->first_subflow]);
		CHECK(i == 0 || c->first_flow > s->connection[i - 1].first_flow);
		CHECK(c->subflows == 1 || c->mptcp);
		CHECK(!c->mptcp || !c->fallback || c->subflows == 1);
		CHECK(c->mptcp || (c->version == -1 && !c->has_token && !c->has_idsn));
		uint32_t founders =
		    0; /* a founder need not be the first flow, because a join may come before its MP_CAPABLE */
		for (uint32_t k = 0; k < c->subflows; k++) {
			CHECK(k == 0 || s->subflow[subflows + k] > s->subflow[subflows + k - 1]);
			founders += !s->flow[s->subflow[subflows + k]].joined;
		}
		CHECK(founders == !c->unmatched);
		subflows += c->subflows;
	}
	CHECK(subflows == s->flows);
}

/* Returns the number of packets. */
static uint64_t survey(struct talk t, struct rw_survey *s)
{
	struct rw_noted n;
	uint64_t packets = 0, beyond = 0;
	while (read_packet(&t, &n.packet)) {
		CHECK(rw_survey_packet(s, &n, NULL, ++packets) == 0);
		beyond += n.flow == RW_FLOW_NONE;
		CHECK(s->flows <= s->index.flows_max);
		CHECK(n.flow == RW_FLOW_NONE ? s->flows == s->index.flows_max : n.flow < s->flows);
	}
	CHECK(beyond == s->beyond_packets);
	return packets;
}

/* An answer to a packet belongs to the same flow and comes from the other side. */
static void check_answer(const struct rw_survey *s, struct rw_flow_index *index, const struct rw_packet *p,
			 uint64_t record, uint32_t flow, int from)
{
	struct rw_packet answer = *p;
	memcpy(answer.source, p->destination, 16);
	memcpy(answer.destination, p->source, 16);
	answer.source_port = p->destination_port;
	answer.destination_port = p->source_port;
	answer.flags = RW_TCP_ACK;
	int side, itself = memcmp(p->source, p->destination, 16) == 0 && p->source_port == p->destination_port;
	CHECK(rw_flow_index_find(index, s->flow, &answer, record, &side) == flow && side == (itself ? from : !from));
}

/* A later pass finds each packet's flow and side again, with the same counts as the survey. */
static void find_again(struct talk t, struct rw_survey *s, struct rw_flow_index *index)
{
	uint64_t (*counted)[2] = calloc(s->flows + 1, sizeof *counted), beyond = 0;
	struct rw_packet p;
	CHECK(counted);
	for (uint64_t record = 1; read_packet(&t, &p); record++) {
		int side = -1;
		uint32_t flow = rw_flow_index_find(index, s->flow, &p, record, &side);
		if (flow == RW_FLOW_NONE) {
			beyond++;
			continue;
		}
		CHECK(flow < s->flows && side >> 1 == 0);
		CHECK(s->flow[flow].first_record <= record);
		CHECK(is_of_flow(&s->flow[flow], side, &p));
		if (record % 8 == 7) /* seldom, because it changes the index's memory of the packet before */
			check_answer(s, index, &p, record, flow, side);
		counted[flow][side]++;
	}
	for (uint32_t i = 0; i < s->flows; i++)
		for (int side = 0; side < 2; side++)
			CHECK(counted[i][side] ==
			      s->flow[i].side[side].packets + (s->flow[i].copied ? s->flow[i].side[side].copies : 0));
	CHECK(beyond == s->beyond_packets);
	free(counted);
}

/* A digest of the survey's result, without addresses of memory. */
static uint64_t fold_survey(const struct rw_survey *s)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < s->flows; i++) {
		struct rw_flow f = s->flow[i];
		struct rw_flow_clock clock = {0};
		if (f.clock)
			clock = *f.clock;
		f.clock = NULL;
		sum = fuzz_fold_bytes(sum, &f, sizeof f);
		sum = fuzz_fold_bytes(sum, &clock, sizeof clock);
	}
	for (uint32_t i = 0; i < s->connections; i++)
		sum = fuzz_fold_bytes(sum, &s->connection[i], sizeof s->connection[i]);
	return sum;
}

static uint64_t run(const uint8_t *data, size_t size)
{
	struct talk t = {.b = rw_bytes_of(data, size), .now_ns = 1000000000};
	uint8_t most = rw_bytes_u8(&t.b);
	struct rw_survey s;
	struct rw_flow_index copy;
	CHECK(rw_survey_open(&s, most < 128 ? 1u << 20 : most - 127u) == 0);
	uint64_t packets = survey(t, &s);
	CHECK(rw_survey_finish(&s) == 0);
	check_flows(&s, packets - s.beyond_packets);
	check_connections(&s);
	uint64_t sum = fold_survey(&s);
	CHECK(rw_flow_index_copy(&copy, &s.index) == 0);
	find_again(t, &s, &s.index);
	find_again(t, &s, &copy);
	rw_flow_index_close(&copy);
	rw_survey_free(&s);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_both_ways(run, data, size); }
