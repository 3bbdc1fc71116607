/* The first pass: learns the facts about each flow that its replay needs, and which flows are one connection. */
#include <stdlib.h>
#include <string.h>

#include "flow.h"
#include "hash.h"
#include "journal.h"
#include "rw_ways.h"
#include "search.h"

int rw_survey_open(struct rw_survey *s, uint32_t flows_max)
{
	memset(s, 0, sizeof *s);
	s->copies = rw_copies_open();
	return rw_flow_index_open(&s->index, flows_max) || !s->copies;
}

#define COPIES_MIN 3
/* No SYN is retransmitted sooner. */
#define ANSWER_FIRST_NS 20000000ll

static RW_ASIDE int make_room(struct rw_survey *s)
{
	if (s->flows < s->room)
		return 1;
	uint32_t room = s->room ? s->room * 2 : 64;
	struct rw_flow *grown = realloc(s->flow, room * sizeof *grown);
	if (!grown)
		return 0;
	s->flow = grown;
	s->room = room;
	return 1;
}

static RW_ASIDE void begin(struct rw_survey *s, struct rw_flow *f, const struct rw_packet *p, uint32_t replaces,
			   uint64_t record)
{
	size_t n = p->family == 4 ? 4 : 16;
	memset(f, 0, sizeof *f);
	f->first_record = record;
	f->next_same = RW_FLOW_NONE;
	f->first_same = s->flows;
	if (replaces != RW_FLOW_NONE) {
		s->flow[replaces].next_same = s->flows;
		f->first_same = s->flow[replaces].first_same;
	}
	f->family = p->family;
	f->share = (uint8_t)rw_packet_share(p);
	memcpy(f->address[0], p->source, n);
	memcpy(f->address[1], p->destination, n);
	f->port[0] = p->source_port;
	f->port[1] = p->destination_port;
	f->first_ns = p->time_ns;
	f->file = p->file;
	f->interface = p->interface;
	f->offset = p->offset;
}

/* The three bits in which accurate ECN counts. */
static uint8_t ace_of(const struct rw_packet *p)
{
	return (uint8_t)(!!(p->flags & RW_TCP_AE) << 2 | !!(p->flags & RW_TCP_CWR) << 1 | !!(p->flags & RW_TCP_ECE));
}

enum rw_ecn_mode rw_flow_ecn(const struct rw_flow *f)
{
	/* The nonce's answer (RFC 3540) to an accurate SYN means classic ECN (RFC 9768, table 2). */
	enum { CLASSIC_ANSWER = 1, NONCE_ANSWER = 5, CLASSIC_SYN = 3, ACCURATE_SYN = 7 };
	uint8_t asked = f->side[f->initiator].syn_ecn, answered = f->side[!f->initiator].syn_ecn;
	if (!f->handshake)
		return RW_ECN_UNKNOWN;
	if (asked == ACCURATE_SYN && (answered == 2 || answered == 3 || answered == 4 || answered == 6))
		return RW_ECN_ACCURATE;
	if ((asked == CLASSIC_SYN || asked == ACCURATE_SYN) && (answered == CLASSIC_ANSWER || answered == NONCE_ANSWER))
		return RW_ECN_CLASSIC;
	return RW_ECN_OFF;
}

static RW_ASIDE void see_handshake(struct rw_flow *f, int side, const struct rw_packet *p)
{
	struct rw_flow_side *s = &f->side[side];
	f->cut |= (p->flags & RW_TCP_CUT) != 0;
	if (p->flags & RW_TCP_SYN) {
		s->syn = 1;
		s->isn = p->sequence;
		s->sack_permitted = p->sack_permitted;
		s->timestamps = p->has_timestamps;
		s->syn_ecn = ace_of(p);
		s->syn_window = p->window;
		s->has_window_scale = p->has_window_scale;
		s->window_scale = p->window_scale;
		if (p->option_mss)
			s->mss = p->mss;
		if (!(p->flags & RW_TCP_ACK)) {
			f->initiator = (uint8_t)side;
			f->syn_ns = p->time_ns; /* the last SYN counts, because it was answered */
			/* With two interfaces or processors, one slightly late, the answer may be captured first. */
			if (f->syn_ack_ns && f->side[!side].syn && !f->handshake && !f->established_ns &&
			    p->time_ns - f->syn_ack_ns < ANSWER_FIRST_NS) {
				f->handshake = 1;
				f->syn_ns = p->time_ns < f->syn_ack_ns ? p->time_ns : f->syn_ack_ns;
			}
		} else if (!f->syn_ack_ns) {
			f->syn_ack_ns = p->time_ns;
			f->initiator = (uint8_t)!side;
			f->handshake = f->side[!side].syn;
		}
	} else if (f->syn_ack_ns && !f->established_ns && side == f->initiator && (p->flags & RW_TCP_ACK)) {
		f->established_ns = p->time_ns;
		f->established_late = p->payload_bytes || f->side[!side].bytes;
	}
}

static RW_ASIDE void see_mptcp(struct rw_survey *s, struct rw_flow *f, int side, const struct rw_packet *p)
{
	const struct rw_mptcp *m = &p->mptcp;
	if (m->seen & 1 << RW_MP_CAPABLE) {
		if (p->flags & RW_TCP_SYN)
			f->capable |= (uint8_t)(1 << side);
		/* A client offers its highest version; the answer and later options decide (RFC 8684 3.1). */
		if (!f->has_version || side != f->initiator || !(p->flags & RW_TCP_SYN)) {
			f->version = m->version;
			f->has_version = 1;
		}
		f->checksum |= m->checksum_required;
		f->confirmed |= !(p->flags & RW_TCP_SYN);
		for (int i = 0; i < m->keys; i++) {
			f->key[side ^ i] = m->key[i];
			f->has_key[side ^ i] = 1;
		}
	}
	if (m->seen & 1 << RW_MP_JOIN) {
		f->joined = s->joins = 1;
		if (m->has_join_token) {
			f->join_token = m->join_token;
			f->has_token = 1;
		}
		f->backup |= m->join_backup;
	}
	/* All other options occur only on a flow that is MPTCP already. */
	if (m->seen & ~(1u << RW_MP_CAPABLE))
		f->data_level = 1;
	if (m->dss_mapping && m->data_length == 0 && !m->dss_data_fin && m->seen & 1 << RW_MP_DSS)
		f->infinite = 1;
	if (m->seen & (1 << RW_MP_PRIO | 1 << RW_MP_FASTCLOSE)) {
		if (m->seen & 1 << RW_MP_PRIO && !m->prio_elsewhere)
			f->backup = m->prio_backup;
		f->fast_closed |= !!(m->seen & 1 << RW_MP_FASTCLOSE);
	}
}

/* Handles the first packet of a side, and packets that begin or end it. */
static RW_ASIDE void see_edge(struct rw_flow_side *s, const struct rw_packet *p)
{
	uint32_t syn = (p->flags & RW_TCP_SYN) != 0;
	/* A refusal or a stray ACK may come before the SYN. The data begins at the SYN's number. */
	if (!s->seen || (syn && s->bytes == 0)) {
		s->seen = 1;
		s->first_sequence = s->end = p->sequence + syn;
	}
	s->fin |= (p->flags & RW_TCP_FIN) != 0;
	s->rst |= (p->flags & RW_TCP_RST) != 0;
}

/* Returns whether it has data and all of it is new. */
static inline int see_data(struct rw_flow_side *s, const struct rw_packet *p)
{
	s->packets++;
	if (!s->seen || p->flags & (RW_TCP_SYN | RW_TCP_FIN | RW_TCP_RST))
		see_edge(s, p);
	if (!p->payload_bytes)
		return 0;
	if (p->payload_bytes > s->payload_max)
		s->payload_max = p->payload_bytes;
	uint32_t end = p->sequence + !!(p->flags & RW_TCP_SYN) + p->payload_bytes;
	/* A zero-window or keep-alive probe carries a byte that was sent before, or will be sent. */
	int32_t beyond = rw_seq_diff(end, s->end);
	if (beyond <= 0)
		return 0;
	int fresh = (uint32_t)beyond >= p->payload_bytes;
	s->bytes += fresh ? p->payload_bytes : (uint32_t)beyond;
	s->end = end;
	return fresh;
}

static RW_ASIDE void pass_over(struct rw_survey *s, struct rw_noted *n, uint64_t record)
{
	const struct rw_packet *p = &n->packet;
	n->flow = RW_FLOW_NONE;
	if (s->beyond_packets++)
		return;
	s->beyond_record = record;
	s->beyond_offset = p->offset;
	s->beyond_ns = p->time_ns;
	s->beyond_file = p->file;
}

/* The long way: finds the flow of any packet, which may begin one. 0, or 1: out of memory. */
static RW_ASIDE int find_flow(struct rw_survey *s, struct rw_noted *n, const uint64_t *known, uint64_t record)
{
	int side = 0;
	uint64_t hash = known ? *known : rw_flow_index_hash(&s->index, &n->packet);
	uint32_t replaces,
	    number = rw_flow_index_add(&s->index, s->flow, s->flows, &n->packet, hash, record, &side, &replaces);
	if (number == RW_FLOW_BEYOND) {
		pass_over(s, n, record);
		return 0;
	}
	if (number == RW_FLOW_NONE || (number == s->flows && !make_room(s)))
		return 1;
	if (number == s->flows) {
		begin(s, &s->flow[number], &n->packet, replaces, record);
		s->flows++;
	}
	n->flow = number;
	n->side = (uint8_t)side;
	return 0;
}

uint64_t rw_survey_hint_slot(const struct rw_survey *s, const struct rw_packet *p)
{
	uint64_t hash = rw_flow_index_hash(&s->index, p);
	__builtin_prefetch(rw_flow_index_slot(&s->index, hash));
	return hash;
}

void rw_survey_hint_flow(const struct rw_survey *s, uint64_t hash)
{
	enum { LINE = 64 };
	const struct rw_flow_slot *slot = rw_flow_index_slot(&s->index, hash);
	if (!slot->used)
		return;
	const uint8_t *flow = (const uint8_t *)&s->flow[slot->flow];
	for (size_t at = 0; at < sizeof *s->flow; at += LINE)
		__builtin_prefetch(flow + at, 1);
}

int rw_survey_packet(struct rw_survey *s, struct rw_noted *n, const uint64_t *hash, uint64_t record)
{
	const struct rw_packet *p = &n->packet;
	const struct rw_flow_recent *recent = p->flags & RW_TCP_SYN ? NULL : rw_flow_index_recent(&s->index, p);
	if (recent) {
		n->flow = recent->flow;
		n->side = recent->side;
	} else {
		s->looked_up++;
		int side = 0;
		n->flow = hash && !(p->flags & RW_TCP_SYN) ? rw_flow_index_known(&s->index, s->flow, p, *hash, &side)
							   : RW_FLOW_NONE;
		n->side = (uint8_t)side;
		if (n->flow == RW_FLOW_NONE && find_flow(s, n, hash, record))
			return 1;
		if (n->flow == RW_FLOW_NONE)
			return 0;
	}
	struct rw_flow *f = &s->flow[n->flow];
	struct rw_flow_side *from = &f->side[n->side];
	f->last_ns = p->time_ns;
	int fresh = see_data(from, p);
	enum rw_copy copy = rw_copies_see(s->copies, f, n->side, p, RW_SHORT_WAY(fresh));
	n->copy = copy != RW_COPY_NONE;
	if (copy) {
		from->copies++;
		if (copy == RW_COPY_CERTAIN)
			return 0;
		from->nameless_acks += !p->payload_bytes && !(p->flags & (RW_TCP_SYN | RW_TCP_FIN));
	}
	if (!RW_SHORT_WAY(!(p->flags & (RW_TCP_SYN | RW_TCP_CUT)) && f->established_ns))
		see_handshake(f, n->side, p);
	if (p->mptcp.seen)
		see_mptcp(s, f, n->side, p);
	return rw_clock_packet(f, n->side, p);
}

/*
 * Next to a host, that host's answer in the handshake takes less than a tenth of the whole round trip. If the whole is under a
 * millisecond, both hosts are near, and the shorter part decides.
 */
static uint8_t capture_point(const struct rw_flow *f)
{
	if (!f->handshake || !f->syn_ns || !f->established_ns)
		return rw_clock_near(f);
	int64_t out = f->syn_ack_ns - f->syn_ns, back = f->established_ns - f->syn_ack_ns, all = out + back;
	if (out < 0 || back < 0)
		return 3;
	if (all < 1000000)
		return (uint8_t)(1 + (back <= out ? f->initiator : !f->initiator));
	if (back <= all / 10)
		return (uint8_t)(1 + f->initiator);
	if (out <= all / 10)
		return (uint8_t)(1 + !f->initiator);
	/* Both parts are long, but the second one perhaps only because its packet was delayed, or was not the first. */
	return f->established_late ? rw_clock_near(f) : 0;
}

/* Then both ends are next to the capture point, also the sender. */
static int on_one_host(const struct rw_flow *f)
{
	const uint8_t *a = f->address[0], *b = f->address[1];
	return memcmp(a, b, f->family == 4 ? 4 : 16) == 0 || (f->family == 4 && a[0] == 127 && b[0] == 127);
}

struct token_owner {
	uint32_t token, flow;
	uint8_t side;
};

static int by_token(const void *a, const void *b)
{
	const struct token_owner *x = a, *y = b;
	if (x->token != y->token)
		return x->token < y->token ? -1 : 1;
	return x->flow < y->flow ? -1 : x->flow > y->flow;
}

/* The owner of a token: the last one that began before the join, else the first one. */
static const struct token_owner *find_owner(const struct token_owner *owners, uint32_t count, uint32_t token,
					    uint32_t flow)
{
	struct rw_search first = {0, count};
	while (rw_search_goes_on(&first))
		rw_search_answer(&first, owners[rw_search_middle(&first)].token < token);
	if (first.low == count || owners[first.low].token != token)
		return NULL;
	struct rw_search later = {first.low, count}; /* the first one of another token, or that began after the join */
	while (rw_search_goes_on(&later)) {
		const struct token_owner *o = &owners[rw_search_middle(&later)];
		rw_search_answer(&later, o->token == token && o->flow < flow);
	}
	return &owners[later.low > first.low ? later.low - 1 : first.low];
}

static int is_mptcp(const struct rw_flow *f)
{
	if (f->joined || f->data_level || f->confirmed)
		return 1;
	/* Data without options after both SYNs had one: a middlebox removes them (RFC 8684 3.7). */
	return f->capable == 3 && f->side[0].bytes + f->side[1].bytes == 0;
}

/* The first flow of each flow's connection, and the orientation of joined flows relative to it. */
struct grouping {
	struct token_owner *owner;
	uint32_t owners;
	uint32_t *leader;
	uint8_t *turned; /* side 0 of the flow is the host of side 1 of its leader */
};

static void collect_owners(const struct rw_survey *s, struct grouping *g)
{
	for (uint32_t i = 0; i < s->flows; i++) {
		const struct rw_flow *f = &s->flow[i];
		if (f->joined || !is_mptcp(f))
			continue;
		for (uint8_t side = 0; side < 2; side++)
			if (f->has_key[side]) {
				struct token_owner o = {rw_key_identify(f->key[side], f->version).token, i, side};
				g->owner[g->owners++] = o;
			}
	}
	qsort(g->owner, g->owners, sizeof *g->owner, by_token);
}

static void group(struct rw_survey *s, struct grouping *g)
{
	for (uint32_t i = 0; i < s->flows; i++)
		g->leader[i] = i;
	if (!s->joins)
		return;
	collect_owners(s, g);
	uint32_t known = g->owners;
	for (uint32_t i = 0; i < s->flows; i++) {
		const struct rw_flow *f = &s->flow[i];
		if (!f->joined || !f->has_token)
			continue;
		uint8_t target = (uint8_t)!f->initiator; /* the host that owns the token */
		const struct token_owner *o = find_owner(g->owner, known, f->join_token, i);
		if (o) {
			g->leader[i] = o->flow;
			g->turned[i] = target != o->side;
		}
	}
	/* Joins whose connection is not in the capture: the same token means the same connection. */
	uint32_t orphans = 0;
	for (uint32_t i = 0; i < s->flows; i++)
		if (s->flow[i].joined && s->flow[i].has_token && g->leader[i] == i) {
			struct token_owner o = {s->flow[i].join_token, i, (uint8_t)!s->flow[i].initiator};
			g->owner[orphans++] = o;
		}
	qsort(g->owner, orphans, sizeof *g->owner, by_token);
	for (uint32_t k = 1; k < orphans; k++)
		if (g->owner[k].token == g->owner[k - 1].token) {
			uint32_t first = g->leader[g->owner[k - 1].flow];
			g->leader[g->owner[k].flow] = first;
			g->turned[g->owner[k].flow] = g->owner[k].side != !s->flow[first].initiator;
		}
}

static void describe(struct rw_survey *s, struct rw_flow_connection *c)
{
	const struct rw_flow *lead = &s->flow[s->subflow[c->first_subflow]];
	c->mptcp = 0;
	c->version = -1;
	for (uint32_t k = 0; k < c->subflows; k++) {
		const struct rw_flow *f = &s->flow[s->subflow[c->first_subflow + k]];
		c->mptcp |= (uint8_t)is_mptcp(f);
		c->checksum |= f->checksum;
		c->fast_closed |= f->fast_closed;
		if (!f->joined) {
			lead = f;
			if (f->has_version)
				c->version = (int8_t)f->version;
		}
	}
	if (!c->mptcp)
		c->version = -1;
	c->fallback = c->mptcp ? c->subflows == 1 && lead->infinite : lead->capable != 0;
	c->unmatched = (uint8_t)lead->joined;
	int responder = !lead->initiator;
	if (c->mptcp && lead->joined) {
		c->token = lead->join_token;
		c->has_token = lead->has_token;
	} else if (c->mptcp && lead->has_key[responder]) {
		c->token = rw_key_identify(lead->key[responder], lead->version).token;
		c->has_token = 1;
	}
	if (c->mptcp && !lead->joined && lead->has_key[lead->source]) {
		c->idsn = rw_key_identify(lead->key[lead->source], lead->version).idsn;
		c->has_idsn = 1;
	}
}

/* One or two repeated frames come from the network, or from a retransmission with the number of its original. */
static void judge_copies(struct rw_flow *f)
{
	uint64_t copies = (uint64_t)f->side[0].copies + f->side[1].copies,
		 packets = f->side[0].packets + f->side[1].packets;
	/* ACKs without number or timestamp show nothing. If other frames were captured twice, these were, too. */
	uint64_t acks = (uint64_t)f->side[0].nameless_acks + f->side[1].nameless_acks;
	copies -= acks;
	packets -= packets > 2 * acks ? 2 * acks : packets;
	f->copied = copies >= COPIES_MIN && copies * 4 >= packets;
	for (int side = 0; f->copied && side < 2; side++)
		f->side[side].packets -= f->side[side].copies;
}

/* The bytes that the two hosts of each connection sent; the first is the host of side 0 of its leader. */
typedef uint64_t sent_bytes[2];

/*
 * Numbers connections in the order of their first packet, and judges each flow by itself. It visits the flows only once, because
 * they take much more memory than a cache has.
 */
static void make_connections(struct rw_survey *s, const struct grouping *g, uint32_t *connection_of, sent_bytes *sent)
{
	for (uint32_t i = 0; i < s->flows; i++) {
		uint32_t lead = g->leader[i];
		struct rw_flow *f = &s->flow[i];
		if (connection_of[lead] == RW_FLOW_NONE) {
			connection_of[lead] = s->connections;
			s->connection[s->connections].share = f->share;
			s->connection[s->connections++].first_flow = i;
		}
		f->connection = connection_of[lead];
		f->id = s->connection[f->connection].subflows++;
		for (int side = 0; side < 2; side++)
			sent[f->connection][side ^ g->turned[i]] += f->side[side].bytes;
		judge_copies(f);
		s->copied_flows += f->copied;
		f->near = capture_point(f);
	}
}

/* Lists the subflows of each connection. */
static void list_subflows(struct rw_survey *s, const struct grouping *g, const uint32_t *connection_of)
{
	uint32_t first = 0;
	for (uint32_t c = 0; c < s->connections; c++) {
		s->connection[c].first_subflow = first;
		first += s->connection[c].subflows;
		s->connection[c].subflows = 0;
	}
	for (uint32_t i = 0; i < s->flows; i++) {
		struct rw_flow_connection *c = &s->connection[connection_of[g->leader[i]]];
		s->subflow[c->first_subflow + c->subflows++] = i;
	}
}

/* Sets the side that sends the data, in each flow of a connection: it is the same host for all. */
static void find_source(struct rw_survey *s, const struct grouping *g, const struct rw_flow_connection *c,
			const sent_bytes sent)
{
	for (uint32_t k = 0; k < c->subflows; k++) {
		uint32_t number = s->subflow[c->first_subflow + k];
		struct rw_flow *f = &s->flow[number];
		uint8_t source = sent[0] == sent[1] ? s->flow[g->leader[number]].initiator : sent[1] > sent[0];
		f->source = source ^ g->turned[number];
		if (on_one_host(f))
			f->near = (uint8_t)(1 + f->source);
		f->counts_ms = (uint8_t)rw_clock_ticks(f, f->source);
	}
}

static void close_shards(struct rw_survey *s)
{
	for (uint32_t i = 0; i < s->shards; i++) {
		rw_journal_close(s->shard[i].journal);
		free(s->shard[i].flow);
	}
	free(s->shard);
	s->shard = NULL;
	s->shards = 0;
}

/* The part whose last flow began last. */
static uint32_t part_with_last(struct rw_survey *const *part, uint32_t parts)
{
	uint32_t last = parts;
	for (uint32_t i = 0; i < parts; i++)
		if (part[i]->flows && (last == parts || part[i]->flow[part[i]->flows - 1].first_record >
							    part[last]->flow[part[last]->flows - 1].first_record))
			last = i;
	return last;
}

/* Moves the flows of all parts, the last first, and gives the memory back on the way: both copies never are there in whole. */
static void move_flows(struct rw_survey *whole, struct rw_survey *const *part, uint32_t parts)
{
	enum { GIVE_BACK = 4096 };
	for (uint32_t number = whole->flows; number--;) {
		uint32_t last = part_with_last(part, parts);
		struct rw_survey *from = part[last];
		uint32_t left = --from->flows;
		whole->flow[number] = from->flow[left];
		whole->shard[last].flow[left] = number;
		if (left && left % GIVE_BACK == 0) {
			struct rw_flow *less = realloc(from->flow, left * sizeof *less);
			from->flow = less ? less : from->flow;
		}
	}
}

int rw_survey_join(struct rw_survey *whole, struct rw_survey *const *part, uint32_t parts)
{
	uint64_t flows = 0;
	int noted = 1, beyond = 0;
	whole->shard = calloc(parts, sizeof *whole->shard);
	if (!whole->shard)
		return 1;
	whole->shards = parts;
	for (uint32_t i = 0; i < parts; i++) {
		flows += part[i]->flows;
		beyond |= part[i]->beyond_packets != 0;
		if (!(whole->shard[i].flow = calloc(part[i]->flows + 1, sizeof *whole->shard[i].flow)))
			return 1;
		noted &= part[i]->journal != NULL;
		whole->was_mixed |= part[i]->was_mixed;
		whole->joins |= part[i]->joins;
	}
	if (beyond || flows > whole->index.flows_max) {
		close_shards(whole);
		return -1;
	}
	if (!(whole->flow = malloc((flows + 1) * sizeof *whole->flow)))
		return 1;
	whole->flows = whole->room = (uint32_t)flows;
	move_flows(whole, part, parts);
	for (uint32_t i = 0; i < parts; i++) {
		whole->shard[i].journal = part[i]->journal;
		part[i]->journal = NULL;
	}
	for (uint32_t i = 0; i < whole->flows; i++) {
		struct rw_flow *f = &whole->flow[i];
		const uint32_t *number = whole->shard[f->share % parts].flow;
		f->first_same = number[f->first_same];
		if (f->next_same != RW_FLOW_NONE)
			f->next_same = number[f->next_same];
	}
	if (noted)
		return 0;
	close_shards(whole);
	return rw_flow_index_fill(&whole->index, whole->flow, whole->flows);
}

int rw_survey_finish(struct rw_survey *s)
{
	uint32_t n = s->flows ? s->flows : 1;
	rw_flow_index_rewind(&s->index, s->flow);
	struct grouping g = {calloc((size_t)n * 2, sizeof *g.owner), 0, calloc(n, sizeof *g.leader), calloc(n, 1)};
	uint32_t *connection_of = malloc(n * sizeof *connection_of); /* by the leader */
	sent_bytes *sent = calloc(n, sizeof *sent);
	s->connection = calloc(n, sizeof *s->connection);
	s->subflow = calloc(n, sizeof *s->subflow);
	int failed = !g.owner || !g.leader || !g.turned || !connection_of || !sent || !s->connection || !s->subflow;
	if (!failed) {
		group(s, &g);
		memset(connection_of, 0xff, n * sizeof *connection_of);
		make_connections(s, &g, connection_of, sent);
		list_subflows(s, &g, connection_of);
		for (uint32_t c = 0; c < s->connections; c++) {
			find_source(s, &g, &s->connection[c], sent[c]);
			describe(s, &s->connection[c]);
		}
	}
	free(g.owner);
	free(g.leader);
	free(g.turned);
	free(connection_of);
	free(sent);
	return failed;
}

static void forget_clocks(struct rw_survey *s)
{
	for (uint32_t i = 0; i < s->flows; i++) {
		free(s->flow[i].clock);
		s->flow[i].clock = NULL;
	}
}

void rw_survey_trim(struct rw_survey *s)
{
	forget_clocks(s);
	rw_copies_close(s->copies);
	s->copies = NULL;
	if (s->journal || s->shards) /* else packets are looked up again */
		rw_flow_index_close(&s->index);
}

void rw_survey_free(struct rw_survey *s)
{
	forget_clocks(s);
	rw_flow_index_close(&s->index);
	rw_journal_close(s->journal);
	close_shards(s);
	rw_copies_close(s->copies);
	free(s->flow);
	free(s->connection);
	free(s->subflow);
	memset(s, 0, sizeof *s);
}
