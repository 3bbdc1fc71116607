/*
 * Two bytes of link type, one that says how much longer the packet was on the wire, one of how many records came before
 * (fragments of it, most likely), each with two bytes of length; then what was captured of the last one. A link type
 * that is not known becomes one that is, except for one.
 */
#include "fuzz.h"
#include "packet.h"
#include "rewindow.h"

enum { LINK_UNKNOWN = 0xffff, LINK_NFLOG = 239, PAYLOAD_MAX = 1 << 20, BEFORE_MAX = 7 };

static const uint16_t LINK_TYPES[] = {0, 1, 9, 10, 12, 14, 50, 101, 105, 108, 113, 127, 228, 229, 239, 242, 276};

static uint16_t link_type_of(uint16_t number)
{
	if (number == LINK_UNKNOWN || rw_link_type_name(number))
		return number;
	return LINK_TYPES[number % (sizeof LINK_TYPES / sizeof *LINK_TYPES)];
}

static enum rw_parse parse(const struct rw_record *r, uint8_t before, struct rw_packet *p)
{
	struct rw_oddity_counts oddities = {0};
	memset(p, before, sizeof *p);
	struct rw_fragments *fragments = rw_fragments_open();
	CHECK(fragments);
	enum rw_parse got = rw_packet_parse(r, p, fragments, &oddities);
	int several = got == RW_PARSE_SEVERAL;
	if (got == RW_PARSE_OTHER) /* a fragment comes again, and may be complete then */
		CHECK(rw_packet_parse(r, p, fragments, &oddities) == got);
	else if (several) /* the first of them */
		got = rw_packet_next(r, p, fragments, &oddities);
	CHECK(got != RW_PARSE_SEVERAL);
	rw_fragments_close(fragments);
	uint64_t odd = 0;
	for (int i = 0; i < RW_ODDITY_COUNT; i++) {
		odd += oddities.count[i];
		CHECK(oddities.count[i] == 0 ||
		      (oddities.first_offset[i] == r->offset && oddities.first_file[i] == r->file));
	}
	CHECK(several || odd <= (oddities.count[RW_ODDITY_IP_FRAGMENT] ? 4 : got == RW_PARSE_TCP ? 1 : 2));
	return got;
}

static void check_packet(const struct rw_record *r, const struct rw_packet *p)
{
	CHECK(p->time_ns == r->time_ns && p->offset == r->offset && p->file == r->file && p->interface == r->interface);
	CHECK(p->family == 4 || p->family == 6);
	CHECK(p->ecn <= RW_ECN_CE);
	CHECK((p->flags & ~RW_TCP_CUT) <= 0x1ff);
	CHECK(p->tcp_header_bytes >= 20 && p->tcp_header_bytes <= 60 && p->tcp_header_bytes % 4 == 0);
	CHECK(p->payload_bytes <= PAYLOAD_MAX);
	CHECK(p->sack_count <= RW_SACK_MAX);
	CHECK(p->window_scale <= 14);
	CHECK(p->mptcp.seen < 1 << (RW_MP_TCPRST + 1));
	if (!p->mptcp.seen)
		return;
	CHECK(p->mptcp.keys <= 2);
	/* A mapping of no option would count bytes that nobody sent. */
	CHECK(!p->mptcp.dss_mapping || p->mptcp.seen & (1 << RW_MP_DSS | 1 << RW_MP_CAPABLE));
}

/* A packet without what it does not announce. */
static struct rw_packet announced(const struct rw_packet *p)
{
	struct rw_packet q;
	size_t n = p->family == 4 ? 4 : 16;
	memset(&q, 0, sizeof q);
	q.time_ns = p->time_ns;
	q.family = p->family;
	q.ecn = p->ecn;
	q.identification = p->family == 4 ? p->identification : 0;
	memcpy(q.source, p->source, n);
	memcpy(q.destination, p->destination, n);
	q.source_port = p->source_port;
	q.destination_port = p->destination_port;
	q.sequence = p->sequence;
	q.ack = p->ack;
	q.flags = p->flags;
	q.window = p->window;
	q.payload_bytes = p->payload_bytes;
	q.tcp_header_bytes = p->tcp_header_bytes;
	q.has_timestamps = p->has_timestamps;
	q.ts_value = p->has_timestamps ? p->ts_value : 0;
	q.ts_echo = p->has_timestamps ? p->ts_echo : 0;
	q.sack_permitted = p->sack_permitted;
	q.window_scale = p->has_window_scale ? p->window_scale : 0;
	q.mss = p->option_mss ? p->mss : 0;
	q.sack_count = p->sack_count;
	memcpy(q.sack, p->sack, p->sack_count * sizeof *q.sack);
	if (p->mptcp.seen)
		q.mptcp = p->mptcp;
	return q;
}

static uint64_t fold_packet(uint64_t sum, enum rw_parse got, const struct rw_packet *p)
{
	sum = fuzz_fold(sum, got);
	if (got != RW_PARSE_TCP)
		return sum;
	struct rw_packet q = announced(p);
	return fuzz_fold_bytes(sum, &q, sizeof q);
}

/* The records that come before, and the last one, as one reader sees them. */
static uint64_t parse_all(struct rw_bytes b, struct rw_record r, uint8_t before, uint32_t more_on_wire)
{
	struct rw_fragments *fragments = rw_fragments_open();
	struct rw_oddity_counts oddities = {0};
	struct rw_packet p;
	uint64_t sum = 0;
	int64_t step_ns = before & 128 ? 20000000000 : 1000; /* that waits too long, the third time */
	CHECK(fragments);
	for (uint64_t left = before % (BEFORE_MAX + 1) + 1; left > 0; left--) {
		struct rw_bytes part = left > 1 ? rw_bytes_take(&b, rw_bytes_u16(&b)) : b;
		r.bytes = part.at;
		r.captured_bytes = (uint32_t)rw_bytes_left(&part);
		r.wire_bytes = r.captured_bytes + more_on_wire;
		r.time_ns += step_ns;
		r.offset++;
		enum rw_parse got = rw_packet_parse(&r, &p, fragments, &oddities);
		uint32_t frames = 0;
		for (int several = got == RW_PARSE_SEVERAL; several; several = got == RW_PARSE_TCP) {
			got = rw_packet_next(&r, &p, fragments, &oddities);
			if (got == RW_PARSE_TCP)
				check_packet(&r, &p);
			sum = fold_packet(sum, got, &p);
			CHECK(++frames <= r.captured_bytes / 14 + 1);
		}
		if (got == RW_PARSE_TCP)
			check_packet(&r, &p);
		sum = fold_packet(sum, got, &p);
	}
	CHECK(rw_fragments_lost(fragments) <= oddities.count[RW_ODDITY_IP_FRAGMENT]);
	rw_fragments_close(fragments);
	return fuzz_fold_bytes(sum, &oddities, sizeof oddities);
}

static uint64_t run(const uint8_t *data, size_t size)
{
	struct rw_bytes b = rw_bytes_of(data, size);
	uint16_t link_type = link_type_of(rw_bytes_u16(&b));
	uint8_t longer = rw_bytes_u8(&b), before = rw_bytes_u8(&b);
	uint32_t more_on_wire = (uint32_t)longer * longer * 20;
	struct rw_packet packet, again;
	struct rw_record r = {.time_ns = 7, .file = 1, .interface = 2, .offset = 3, .link_type = link_type};
	uint64_t sum = parse_all(b, r, before, more_on_wire);
	for (uint32_t i = before % (BEFORE_MAX + 1); i > 0; i--)
		rw_bytes_take(&b, rw_bytes_u16(&b));
	const uint8_t *last = b.at;
	uint32_t captured = (uint32_t)rw_bytes_left(&b);
	r.bytes = last;
	r.captured_bytes = captured;
	r.wire_bytes = captured + more_on_wire;
	enum rw_parse got = parse(&r, 0, &packet);
	if (got == RW_PARSE_TCP)
		check_packet(&r, &packet);
	CHECK(parse(&r, 0xff, &again) == got);
	if (got == RW_PARSE_TCP) {
		struct rw_packet one = announced(&packet), other = announced(&again);
		CHECK(memcmp(&one, &other, sizeof one) == 0);
	}
	/* A shorter snap length never changes what a packet was: it may only hide it. */
	for (uint32_t cut = captured; cut > 0; cut = cut / 2) {
		uint8_t *bytes = malloc(cut); /* the sanitizer sees a byte too many */
		CHECK(bytes);
		memcpy(bytes, last, cut);
		r.bytes = bytes;
		r.captured_bytes = cut;
		if (parse(&r, 0, &again) == RW_PARSE_TCP &&
		    r.link_type != LINK_NFLOG) { /* whose byte order is a guess */
			check_packet(&r, &again);
			CHECK(got == RW_PARSE_TCP);
			CHECK(again.sequence == packet.sequence && again.ack == packet.ack &&
			      (again.flags | RW_TCP_CUT) == (packet.flags | RW_TCP_CUT));
			CHECK(again.payload_bytes == packet.payload_bytes && again.source_port == packet.source_port);
		}
		free(bytes);
	}
	return fold_packet(sum, got, &packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_both_ways(run, data, size); }
