/*
 * One record: two bytes of link type, one that says how much longer the packet was on the wire, then what was captured.
 * A link type that is not known becomes one that is, except for one.
 */
#include "fuzz.h"
#include "packet.h"
#include "rewindow.h"

enum { HEADER = 3, LINK_UNKNOWN = 0xffff, LINK_NFLOG = 239, PAYLOAD_MAX = 1 << 20 };

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
	enum rw_parse got = rw_packet_parse(r, p, &oddities);
	uint64_t odd = 0;
	for (int i = 0; i < RW_ODDITY_COUNT; i++) {
		odd += oddities.count[i];
		CHECK(oddities.count[i] == 0 || (oddities.first_offset[i] == r->offset && oddities.first_file[i] == r->file));
	}
	CHECK(odd <= 1);
	return got;
}

static void check_packet(const struct rw_record *r, const struct rw_packet *p)
{
	CHECK(p->time_ns == r->time_ns && p->offset == r->offset && p->file == r->file && p->interface == r->interface);
	CHECK(p->family == 4 || p->family == 6);
	CHECK(p->ecn <= RW_ECN_CE);
	CHECK(p->flags <= 0x1ff);
	CHECK(p->tcp_header_bytes >= 20 && p->tcp_header_bytes <= 60 && p->tcp_header_bytes % 4 == 0);
	CHECK(p->payload_bytes <= PAYLOAD_MAX);
	CHECK(p->sack_count <= RW_SACK_MAX);
	CHECK(p->window_scale <= 14);
	CHECK(p->mptcp.keys <= 2);
	CHECK(p->mptcp.seen < 1 << (RW_MP_TCPRST + 1));
	/* A mapping of no option would count bytes that nobody sent. */
	CHECK(!p->mptcp.dss_mapping || p->mptcp.seen & (1 << RW_MP_DSS | 1 << RW_MP_CAPABLE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEADER)
		return 0;
	struct rw_packet packet, again;
	uint32_t captured = (uint32_t)(size - HEADER);
	struct rw_record r = {.time_ns = 7, .bytes = data + HEADER, .captured_bytes = captured, .file = 1, .interface = 2,
			      .offset = 3, .wire_bytes = captured + (uint32_t)data[2] * data[2] * 20,
			      .link_type = link_type_of((uint16_t)(data[0] << 8 | data[1]))};
	enum rw_parse got = parse(&r, 0, &packet);
	if (got == RW_PARSE_TCP)
		check_packet(&r, &packet);
	CHECK(parse(&r, 0xff, &again) == got && memcmp(&packet, &again, sizeof packet) == 0);
	/* A shorter snap length never changes what a packet was: it may only hide it. */
	for (uint32_t cut = captured; cut > 0; cut = cut / 2) {
		uint8_t *bytes = malloc(cut); /* the sanitizer sees a byte too many */
		CHECK(bytes);
		memcpy(bytes, data + HEADER, cut);
		r.bytes = bytes;
		r.captured_bytes = cut;
		if (parse(&r, 0, &again) == RW_PARSE_TCP && r.link_type != LINK_NFLOG) { /* whose byte order is a guess */
			check_packet(&r, &again);
			CHECK(got == RW_PARSE_TCP);
			CHECK(again.sequence == packet.sequence && again.ack == packet.ack && again.flags == packet.flags);
			CHECK(again.payload_bytes == packet.payload_bytes && again.source_port == packet.source_port);
		}
		free(bytes);
	}
	return 0;
}
