#include "check.h"
#include "coverage.h"
#include "flow.h"
#include "hash.h"
#include "journal.h"
#include "packets.h"
#include "search.h"
#include "tick_clock.h"

static void check_digest(const uint8_t *digest, size_t n, const char *hex)
{
	char text[65];
	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	assert_string_equal(text, hex);
}

/* FIPS 180-4's own examples, and the empty message. */
static void hash_vectors(void **state)
{
	(void)state;
	uint8_t d[32];
	rw_sha1_block((const uint8_t *)"abc", 3, d);
	check_digest(d, 20, "a9993e364706816aba3e25717850c26c9cd0d89d");
	rw_sha1_block((const uint8_t *)"", 0, d);
	check_digest(d, 20, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	rw_sha256_block((const uint8_t *)"abc", 3, d);
	check_digest(d, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	rw_sha256_block((const uint8_t *)"", 0, d);
	check_digest(d, 32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void addresses(struct rw_packet *p, int from_client, uint16_t flags, uint32_t sequence)
{
	memset(p, 0, sizeof *p);
	p->family = 4;
	p->source[0] = from_client ? 1 : 2;
	p->destination[0] = from_client ? 2 : 1;
	p->source_port = from_client ? 1000 : 80;
	p->destination_port = from_client ? 80 : 1000;
	p->flags = flags;
	p->sequence = sequence;
}

/* A packet in the first pass, and where it ended up. */
static uint32_t add(struct rw_survey *s, uint64_t record, int from_client, uint16_t flags, uint32_t sequence)
{
	struct rw_noted n;
	addresses(&n.packet, from_client, flags, sequence);
	assert_int_equal(rw_survey_packet(s, &n, NULL, record), 0);
	return s->flows - 1;
}

static uint32_t find(struct rw_survey *s, uint64_t record, int from_client, uint16_t flags, int *side)
{
	struct rw_packet p;
	addresses(&p, from_client, flags, 0);
	return rw_flow_index_find(&s->index, s->flow, &p, record, side);
}

static void four_tuples_are_used_again(void **state)
{
	(void)state;
	struct rw_survey s;
	assert_int_equal(rw_survey_open(&s, 100), 0);
	assert_int_equal(add(&s, 1, 1, RW_TCP_SYN, 100), 0);
	assert_int_equal(add(&s, 2, 0, RW_TCP_SYN | RW_TCP_ACK, 900), 0);
	assert_int_equal(add(&s, 3, 1, RW_TCP_SYN, 100), 0); /* a retransmission */
	assert_int_equal(add(&s, 4, 1, RW_TCP_ACK, 101), 0);
	assert_int_equal(add(&s, 5, 1, RW_TCP_SYN, 5000), 1);
	assert_int_equal(add(&s, 6, 0, RW_TCP_SYN | RW_TCP_ACK, 7000), 1);
	assert_int_equal(add(&s, 7, 1, RW_TCP_FIN | RW_TCP_ACK, 5001), 1);
	assert_int_equal(add(&s, 8, 0, RW_TCP_SYN, 1), 2); /* from the other end, after the close */
	assert_int_equal(add(&s, 9, 0, RW_TCP_ACK, 2), 2);
	assert_int_equal(s.flow[0].side[0].packets, 3);
	assert_int_equal(s.flow[2].side[0].packets, 2);
	assert_int_equal(rw_survey_finish(&s), 0);
	/* A later pass meets the same flows at the same records, in both directions and from any place. */
	static const struct {
		uint64_t record;
		int from_client, side;
		uint16_t flags;
		uint32_t flow;
	} later[] = {{1, 1, 0, RW_TCP_SYN, 0}, {2, 0, 1, RW_TCP_SYN | RW_TCP_ACK, 0}, {4, 1, 0, RW_TCP_ACK, 0},
		     {5, 1, 0, RW_TCP_SYN, 1}, {6, 0, 1, RW_TCP_SYN | RW_TCP_ACK, 1}, {9, 0, 0, RW_TCP_ACK, 2},
		     {9, 1, 1, RW_TCP_ACK, 2}};
	struct rw_flow_index copy;
	assert_int_equal(rw_flow_index_copy(&copy, &s.index), 0);
	for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
		int side;
		assert_int_equal(find(&s, later[i].record, later[i].from_client, later[i].flags, &side), later[i].flow);
		assert_int_equal(side, later[i].side);
	}
	struct rw_packet p;
	int side;
	addresses(&p, 1, RW_TCP_ACK, 0);
	assert_int_equal(rw_flow_index_find(&copy, s.flow, &p, 4, &side), 0); /* it has a place of its own */
	p.source_port++;
	assert_int_equal(rw_flow_index_find(&copy, s.flow, &p, 4, &side), RW_FLOW_NONE);
	rw_flow_index_close(&copy);
	rw_survey_free(&s);
}

/* Two flows whose addresses begin alike and whose ports are the same, of IPv4 and of IPv6, whichever came last. */
static void families_are_kept_apart(void **state)
{
	(void)state;
	struct rw_survey s;
	assert_int_equal(rw_survey_open(&s, 100), 0);
	for (uint64_t record = 1; record <= 8; record++) {
		struct rw_noted n;
		int client = record & 1, six = record > 2 && record % 4 > 1;
		addresses(&n.packet, client, RW_TCP_ACK, 100);
		n.packet.family = six ? 6 : 4;
		assert_int_equal(rw_survey_packet(&s, &n, NULL, record), 0);
		assert_int_equal(n.flow, six);
		assert_int_equal(n.side, !client);
	}
	assert_int_equal(s.flows, 2);
	assert_int_equal(s.flow[0].side[0].packets + s.flow[0].side[1].packets, 5);
	rw_survey_free(&s);
}

/* Most packets of an established flow teach nothing; a SYN that comes again and a header that was cut do. */
static void an_established_flow_still_learns(void **state)
{
	(void)state;
	struct rw_survey s;
	struct rw_noted n;
	assert_int_equal(rw_survey_open(&s, 100), 0);
	static const struct {
		int from_client;
		uint16_t flags;
		uint32_t sequence;
	} handshake[] = {{1, RW_TCP_SYN, 100}, {0, RW_TCP_SYN | RW_TCP_ACK, 900}, {1, RW_TCP_ACK, 101}};
	for (uint32_t i = 0; i < 3; i++) {
		addresses(&n.packet, handshake[i].from_client, handshake[i].flags, handshake[i].sequence);
		n.packet.time_ns = 3 + i;
		assert_int_equal(rw_survey_packet(&s, &n, NULL, i + 1), 0);
	}
	assert_int_equal(s.flow[0].established_ns, 5);
	assert_int_equal(s.flow[0].cut, 0);
	addresses(&n.packet, 0, RW_TCP_SYN | RW_TCP_ACK, 900);
	n.packet.window = 77;
	assert_int_equal(rw_survey_packet(&s, &n, NULL, 4), 0);
	assert_int_equal(s.flow[0].side[1].syn_window, 77);
	addresses(&n.packet, 0, RW_TCP_ACK | RW_TCP_CUT, 901);
	assert_int_equal(rw_survey_packet(&s, &n, NULL, 5), 0);
	assert_int_equal(s.flow[0].cut, 1);
	assert_int_equal(s.flows, 1);
	rw_survey_free(&s);
}

/* Captured before its question, an answer completes the handshake; a SYN of the same side is no question. */
static void an_answer_before_its_question(void **state)
{
	(void)state;
	for (int answers_itself = 0; answers_itself < 2; answers_itself++) {
		struct rw_survey s;
		assert_int_equal(rw_survey_open(&s, 100), 0);
		struct rw_noted n;
		addresses(&n.packet, 0, RW_TCP_SYN | RW_TCP_ACK, 900);
		n.packet.time_ns = 1000;
		assert_int_equal(rw_survey_packet(&s, &n, NULL, 1), 0);
		addresses(&n.packet, !answers_itself, RW_TCP_SYN, 900);
		n.packet.time_ns = 2000;
		assert_int_equal(rw_survey_packet(&s, &n, NULL, 2), 0);
		assert_int_equal(s.flows, 1);
		assert_int_equal(s.flow[0].handshake, !answers_itself);
		assert_int_equal(s.flow[0].initiator, !answers_itself);
		rw_survey_free(&s);
	}
}

static void many_flows_keep_their_numbers(void **state)
{
	(void)state;
	struct rw_survey s;
	assert_int_equal(rw_survey_open(&s, 20000), 0);
	for (int pass = 0; pass < 3; pass++) {
		for (uint32_t i = 0; i < 20000; i++) {
			struct rw_noted n;
			int side;
			addresses(&n.packet, pass != 1, RW_TCP_ACK, 0);
			uint8_t *client = pass == 1 ? n.packet.destination : n.packet.source;
			client[1] = (uint8_t)(i >> 8);
			client[2] = (uint8_t)i;
			if (pass < 2) {
				assert_int_equal(rw_survey_packet(&s, &n, NULL, 1 + pass * 20000u + i), 0);
				assert_int_equal(n.flow, i);
				assert_int_equal(n.side, pass);
				assert_int_equal(s.flow[i].side[pass].packets, 1);
			} else {
				assert_int_equal(rw_flow_index_find(&s.index, s.flow, &n.packet, 1 + i, &side), i);
			}
		}
		if (pass == 1)
			assert_int_equal(rw_survey_finish(&s), 0);
	}
	rw_survey_free(&s);
}

/* Beyond the limit packets belong to no flow, in the first pass and in later ones; those of flows within it stay theirs. */
static void flows_beyond_the_limit_are_passed_over(void **state)
{
	(void)state;
	enum { FLOWS_MAX = 2, PACKETS = 9 };
	static const struct {
		uint16_t port, flags;
		uint32_t sequence, flow;
	} packet[PACKETS] = {
	    {1, RW_TCP_SYN, 1, 0},
	    {2, RW_TCP_SYN, 1, 1},
	    {3, RW_TCP_SYN, 1, RW_FLOW_NONE},
	    {1, RW_TCP_ACK, 2, 0},
	    {3, RW_TCP_ACK, 2, RW_FLOW_NONE},
	    {1, RW_TCP_FIN | RW_TCP_ACK, 2, 0},
	    {1, RW_TCP_SYN, 70000, RW_FLOW_NONE}, /* the four-tuple is used again */
	    {1, RW_TCP_ACK, 70001, RW_FLOW_NONE},
	    {2, RW_TCP_ACK, 2, 1},
	};
	struct rw_survey s;
	struct rw_noted n;
	assert_int_equal(rw_survey_open(&s, FLOWS_MAX), 0);
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < PACKETS; i++) {
			int side;
			addresses(&n.packet, 1, packet[i].flags, packet[i].sequence);
			n.packet.source_port = packet[i].port;
			n.packet.offset = 100 * i;
			if (pass == 0)
				assert_int_equal(rw_survey_packet(&s, &n, NULL, 1 + i), 0);
			else
				n.flow = rw_flow_index_find(&s.index, s.flow, &n.packet, 1 + i, &side);
			assert_int_equal(n.flow, packet[i].flow);
		}
		if (pass == 0)
			assert_int_equal(rw_survey_finish(&s), 0);
	}
	assert_int_equal(s.flows, FLOWS_MAX);
	assert_int_equal(s.flow[0].side[0].packets, 3);
	assert_int_equal(s.beyond_packets, 4);
	assert_int_equal(s.beyond_record, 3);
	assert_int_equal(s.beyond_offset, 200);
	rw_survey_free(&s);
}

static void coverage_is_a_union(void **state)
{
	(void)state;
	struct rw_coverage c = {0};
	uint64_t base = 0xfffffff0; /* the low half wraps */
	rw_coverage_add(&c, base, 1, 100);
	assert_int_equal(c.covered, 100);
	rw_coverage_add(&c, base + 50, 1, 100); /* overlaps */
	assert_int_equal(c.covered, 150);
	rw_coverage_add(&c, base + 300, 1, 100); /* apart */
	rw_coverage_add(&c, base + 200, 1, 50);
	assert_int_equal(c.count, 3);
	rw_coverage_add(&c, (uint32_t)(base + 150), 0, 150); /* 32 bits: nearest */
	assert_int_equal(c.count, 1);
	assert_int_equal(c.covered, 400);
	rw_coverage_add(&c, base - 20, 1, 10); /* before the first */
	assert_int_equal(c.covered, 410);
	rw_coverage_free(&c);
}

static void coverage_against_a_bitmap(void **state)
{
	(void)state;
	static uint8_t seen[4096];
	struct rw_coverage c = {0};
	uint32_t random = 12345;
	memset(seen, 0, sizeof seen);
	rw_coverage_add(&c, 0, 1, 1);
	seen[0] = 1;
	for (int i = 0; i < 300; i++) {
		random = random * 1664525 + 1013904223;
		uint32_t start = random >> 8 & 0xfff, n = random >> 24 & 31;
		if (start + n > sizeof seen)
			continue;
		rw_coverage_add(&c, start, i & 1, n);
		memset(seen + start, 1, n);
		uint64_t covered = 0;
		for (size_t k = 0; k < sizeof seen; k++)
			covered += seen[k];
		assert_int_equal(c.covered, covered);
	}
	rw_coverage_free(&c);
}

static void coverage_of_endless_holes_is_bounded(void **state)
{
	(void)state;
	enum { HOLES = 20000, SPANS = 4096 };
	for (int backwards = 0; backwards < 2; backwards++) {
		struct rw_coverage c = {0};
		for (uint64_t i = 0; i < HOLES; i++)
			rw_coverage_add(&c, 1000000 + 10 * (backwards ? HOLES - i : i), 1, 1);
		assert_int_equal(c.count, SPANS);
		assert_int_equal(c.room, SPANS);
		assert_int_equal(c.covered, HOLES);
		rw_coverage_add(&c, 1000000, 1, 10 * HOLES + 1);
		assert_int_equal(c.count, 1);
		assert_in_range(c.covered, HOLES, 10 * HOLES + 1);
		rw_coverage_free(&c);
	}
}

static uint32_t random_seed = 1;

static uint32_t random_number(uint32_t below)
{
	random_seed = random_seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)random_seed * below) >> 32);
}

/* Now and then a field is another than the one expected. */
static void random_note(struct rw_noted *n, uint32_t i)
{
	static struct rw_packet last[8];
	/* Two that share a place follow each other: each goes on as is expected of the other. At first there are few flows. */
	static const uint32_t flows[] = {0, 131072, 1, 131073, 70000, 201072, 2, 12345678};
	uint32_t which = random_number(8);
	struct rw_packet *p = &last[which];
	n->flow = flows[which / 2 * 2 + random_number(2)] % (i < 20000 ? 4096 : UINT32_MAX);
	n->side = (uint8_t)random_number(2);
	n->copy = random_number(50) == 0;
	p->sequence += p->payload_bytes;
	p->identification++;
	if (random_number(4) == 0)
		p->ts_value += random_number(6), p->ts_echo += random_number(6);
	switch (random_number(20)) {
	case 0:
		p->payload_bytes = random_number(1 << 20);
		break;
	case 1:
		p->window = (uint16_t)random_number(1 << 16);
		break;
	case 2:
		p->flags = (uint16_t)random_number(1 << 9);
		break;
	case 3:
		p->ts_value = random_number(UINT32_MAX);
		break;
	case 4:
		p->sequence = random_number(UINT32_MAX);
		break;
	case 5:
		p->ack += random_number(3000);
		break;
	case 6:
		p->identification = (uint16_t)random_number(1 << 16);
		break;
	case 7:
		p->ecn = (uint8_t)random_number(4);
		break;
	case 8:
		p->tcp_header_bytes = (uint8_t)(20 + 4 * random_number(11));
		break;
	case 9:
		p->has_timestamps = (uint8_t)random_number(2);
		break;
	case 10:
		p->file = random_number(3);
		break;
	case 11:
		n->flow = RW_FLOW_NONE;
		break;
	default:
		break;
	}
	p->family = which < 6 ? 4 : 6;
	/* Often all blocks but one are those of the packet before. */
	p->sack_count = random_number(4) ? 0 : (uint8_t)random_number(RW_SACK_MAX + 1);
	for (int k = 0; k < p->sack_count; k++) {
		if (random_number(3) == 0)
			p->sack[k].start = random_number(UINT32_MAX);
		if (random_number(2))
			p->sack[k].end = random_number(UINT32_MAX);
	}
	/* No mapping; the one before again, or one behind it; or another one. */
	uint32_t mapped = random_number(4);
	if (mapped == 0 || !p->mptcp.seen)
		p->mptcp = (struct rw_mptcp){0};
	else if (mapped == 1 && random_number(2))
		p->mptcp.data_sequence += p->mptcp.data_length;
	if (random_number(8) == 0)
		p->mptcp = (struct rw_mptcp){.seen = random_number(2) ? 1 << RW_MP_DSS : 1 << RW_MP_CAPABLE,
					     .dss_mapping = 1,
					     .data_length = (uint16_t)(1 + random_number(60000)),
					     .dss_wide = (uint8_t)random_number(2),
					     .dss_data_fin = (uint8_t)random_number(2),
					     .subflow_sequence = random_number(2),
					     .data_sequence = (uint64_t)random_number(UINT32_MAX) << 20};
	static int64_t now_ns;
	static uint64_t offset;
	static const int64_t elapsed_ns[] = {0, 200, 70000000, -5000000, (int64_t)1 << 60};
	now_ns = random_number(4) ? now_ns + random_number(30000)
				  : (int64_t)((uint64_t)now_ns + (uint64_t)elapsed_ns[random_number(5)]);
	offset += random_number(9) ? 100 : random_number(40) ? random_number(2000) : (uint64_t)5 << 32;
	p->time_ns = now_ns;
	p->offset = offset;
	n->packet = *p;
	n->packet.interface = i; /* not kept */
	if (!p->has_timestamps)
		n->packet.ts_value = n->packet.ts_echo = 0;
}

static void same_packet(const struct rw_packet *a, const struct rw_packet *b)
{
	assert_int_equal(a->sequence, b->sequence);
	assert_int_equal(a->ack, b->ack);
	assert_int_equal(a->identification, b->identification);
	assert_int_equal(a->overtaken, 0);
	assert_int_equal(a->payload_bytes, b->payload_bytes);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->window, b->window);
	assert_int_equal(a->family, b->family);
	assert_int_equal(a->ecn, b->ecn);
	assert_int_equal(a->tcp_header_bytes, b->tcp_header_bytes);
	assert_int_equal(a->has_timestamps, b->has_timestamps);
	if (b->has_timestamps) {
		assert_int_equal(a->ts_value, b->ts_value);
		assert_int_equal(a->ts_echo, b->ts_echo);
	}
	assert_int_equal(a->sack_count, b->sack_count);
	assert_memory_equal(a->sack, b->sack, b->sack_count * sizeof *b->sack);
	assert_int_equal(a->mptcp.seen, b->mptcp.seen);
	if (b->mptcp.seen) {
		assert_int_equal(a->mptcp.dss_mapping, b->mptcp.dss_mapping);
		assert_int_equal(a->mptcp.dss_wide, b->mptcp.dss_wide);
		assert_int_equal(a->mptcp.dss_data_fin, b->mptcp.dss_data_fin);
		assert_int_equal(!a->mptcp.subflow_sequence, !b->mptcp.subflow_sequence);
		assert_int_equal(a->mptcp.data_length, b->mptcp.data_length);
		assert_true(a->mptcp.data_sequence == b->mptcp.data_sequence);
	}
}

static void a_journal_keeps_what_is_written(void **state)
{
	(void)state;
	enum { NOTES = 100000 };
	struct rw_journal *j = rw_journal_open(64 << 20);
	struct rw_noted *written = calloc(NOTES, sizeof *written), n;
	assert_true(j && written);
	for (uint32_t i = 0; i < NOTES; i++) {
		random_note(&written[i], i);
		assert_int_equal(rw_journal_write(j, &written[i]), 0);
	}
	for (int releases = 0; releases < 2; releases++) {
		struct rw_journal_reader *r = rw_journal_read(j, releases);
		assert_non_null(r);
		memset(&n, 0xff, sizeof n);
		for (uint32_t i = 0; i < NOTES; i++) {
			const struct rw_noted *w = &written[i];
			assert_int_equal(rw_journal_next(r, &n), 1);
			assert_int_equal(n.flow, w->flow);
			assert_int_equal(n.packet.time_ns, w->packet.time_ns);
			assert_true(n.packet.offset == w->packet.offset);
			assert_int_equal(n.packet.file, w->packet.file);
			if (n.flow == RW_FLOW_NONE)
				continue;
			assert_int_equal(n.side, w->side);
			assert_int_equal(n.copy, w->copy);
			same_packet(&n.packet, &w->packet);
		}
		assert_int_equal(rw_journal_next(r, &n), 0);
		assert_int_equal(rw_journal_share_q16(r), 1 << 16);
		rw_journal_reader_close(r);
	}
	rw_journal_close(j);
	free(written);
}

/* A packet that goes on where the last one ended takes eight bytes; beyond its bound the journal says so. */
static void a_journal_is_short_and_bounded(void **state)
{
	(void)state;
	struct rw_journal *j = rw_journal_open(64 << 10);
	struct rw_noted n = {.packet = {.family = 4, .payload_bytes = 1000, .has_timestamps = 1}};
	uint32_t notes = 0;
	assert_non_null(j);
	while (notes < 100000 && !rw_journal_write(j, &n)) {
		notes++;
		n.packet.sequence += 1000;
		n.packet.time_ns += 50000;
		n.packet.offset += 112;
	}
	assert_in_range(notes, (48 << 10) / 8 - 100, (64 << 10) / 8);
	rw_journal_close(j);
}

/* Every range of up to 40 places, with the condition's end at each place of it and at neither end. */
static void a_search_finds_where_a_condition_ends(void **state)
{
	(void)state;
	for (uint64_t first = 0; first < 3; first++)
		for (uint64_t behind = first; behind < first + 40; behind++)
			for (uint64_t end = first; end <= behind; end++) {
				struct rw_search s = {first, behind};
				int asked = 0;
				for (; rw_search_goes_on(&s); asked++) {
					assert_in_range(rw_search_middle(&s), first, behind - 1);
					rw_search_answer(&s, rw_search_middle(&s) < end);
				}
				assert_int_equal(s.low, end);
				assert_in_range(asked, 0, 6); /* 2^6 > 40 */
			}
}

/* The earliest packet of its tick tells when ticks begin; a later one moves that only by what clocks drift. */
static void a_tick_clock_keeps_the_earliest_begin(void **state)
{
	(void)state;
	struct rw_tick_clock c = {0};
	int64_t ms = RW_CLOCK_TICK_NS, at = 1000 * ms;
	uint32_t first = UINT32_MAX - 1; /* values wrap */
	assert_int_equal(rw_tick_clock_see(&c, first, at, at, 0), 0);
	assert_int_equal(c.first_ns, at);
	/* 3 ms later by the clock, captured 2.5 ms later: ticks began half a tick sooner. */
	assert_int_equal(rw_tick_clock_since_first_ns(&c, first + 3), 3 * ms);
	assert_int_equal(rw_tick_clock_see(&c, first + 3, at + 5 * ms / 2, at + 5 * ms / 2, 0), 250);
	assert_int_equal(c.first_ns, at - ms / 2);
	/* This one waited: nothing but drift, of 100 us in a second. */
	assert_int_equal(rw_tick_clock_see(&c, first + 4, at + 5 * ms / 2 + 1000 * ms, at + 1005 * ms, 0), 100000);
	assert_int_equal(c.first_ns, at - ms / 2 + 100000);
	assert_int_equal(c.last, first + 4);
	/* Captures whose time goes back do not drift. */
	assert_int_equal(rw_tick_clock_see(&c, first + 5, at, at + 1005 * ms, 0), 0);
	/* Captured after a queue: the first packet was sent a round trip before, as far as is known. */
	struct rw_tick_clock away = {0};
	rw_tick_clock_see(&away, 7, at, at, 20 * ms);
	assert_int_equal(away.first_ns, at - 20 * ms);
	rw_tick_clock_see(&away, 8, at, at - 22 * ms, 20 * ms);
	assert_int_equal(away.first_ns, at - 23 * ms);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hash_vectors),
	    cmocka_unit_test(four_tuples_are_used_again),
	    cmocka_unit_test(families_are_kept_apart),
	    cmocka_unit_test(an_established_flow_still_learns),
	    cmocka_unit_test(an_answer_before_its_question),
	    cmocka_unit_test(many_flows_keep_their_numbers),
	    cmocka_unit_test(a_journal_keeps_what_is_written),
	    cmocka_unit_test(a_journal_is_short_and_bounded),
	    cmocka_unit_test(a_search_finds_where_a_condition_ends),
	    cmocka_unit_test(a_tick_clock_keeps_the_earliest_begin),
	    cmocka_unit_test(flows_beyond_the_limit_are_passed_over),
	    cmocka_unit_test(coverage_is_a_union),
	    cmocka_unit_test(coverage_against_a_bitmap),
	    cmocka_unit_test(coverage_of_endless_holes_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
