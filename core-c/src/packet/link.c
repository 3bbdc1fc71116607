/* Link layers. Numbers: the tcpdump group's link-layer header types. */
#include "packet.h"
#include "rw_ways.h"

enum link_type {
	LINK_NULL = 0,
	LINK_ETHERNET = 1,
	LINK_PPP = 9,
	LINK_FDDI = 10,
	LINK_RAW_BSD = 12,
	LINK_RAW_OPENBSD = 14,
	LINK_RAW = 101,
	LINK_LOOP = 108,
	LINK_PPP_HDLC = 50,
	LINK_WIRELESS = 105,
	LINK_LINUX_SLL = 113,
	LINK_PRISM = 119,
	LINK_RADIOTAP = 127,
	LINK_AVS = 163,
	LINK_PPI = 192,
	LINK_MPLS = 219,
	LINK_IPV4 = 228,
	LINK_IPV6 = 229,
	LINK_NFLOG = 239,
	LINK_IPOIB = 242,
	LINK_LINUX_SLL2 = 276
};

static const struct {
	uint32_t link_type;
	const char *name;
} link_names[] = {{LINK_NULL, "null"},
		  {LINK_ETHERNET, "ethernet"},
		  {LINK_RAW_BSD, "raw"},
		  {LINK_RAW_OPENBSD, "raw"},
		  {LINK_RAW, "raw"},
		  {LINK_LOOP, "loop"},
		  {LINK_LINUX_SLL, "linux_sll"},
		  {LINK_IPV4, "ipv4"},
		  {LINK_IPV6, "ipv6"},
		  {LINK_LINUX_SLL2, "linux_sll2"},
		  {LINK_PPP, "ppp"},
		  {LINK_PPP_HDLC, "ppp"},
		  {LINK_FDDI, "fddi"},
		  {LINK_WIRELESS, "ieee802_11"},
		  {LINK_RADIOTAP, "radiotap"},
		  {LINK_NFLOG, "nflog"},
		  {LINK_IPOIB, "ipoib"},
		  {LINK_PRISM, "prism"},
		  {LINK_AVS, "avs"},
		  {LINK_PPI, "ppi"},
		  {LINK_MPLS, "mpls"}};

const char *rw_link_type_name(uint32_t link_type)
{
	for (size_t i = 0; i < sizeof link_names / sizeof *link_names; i++)
		if (link_names[i].link_type == link_type)
			return link_names[i].name;
	return NULL;
}

enum ether_type {
	ETHER_IPV4 = 0x0800,
	ETHER_IPV6 = 0x86dd,
	ETHER_VLAN = 0x8100,
	ETHER_QINQ = 0x88a8,
	ETHER_QINQ_OLD = 0x9100,
	ETHER_QINQ_OLDER = 0x9200,
	ETHER_QINQ_OLDEST = 0x9300,
	ETHER_MPLS = 0x8847,
	ETHER_MPLS_UPSTREAM = 0x8848,
	ETHER_PPPOE_SESSION = 0x8864,
	ETHER_MACSEC = 0x88e5,
	ETHER_ARISTA = 0xd28b,
	ETHER_BACKBONE = 0x88e7,
	ETHER_CISCO_METADATA = 0x8909,
	ETHER_VN_TAG = 0x8926,
	ETHER_E_TAG = 0x893f,
	ETHER_NSH = 0x894f,
	ETHER_TRILL = 0x22f3,
	ETHER_LENGTH_MAX = 1500
};

/* No network nests more tags. */
#define TAGS_MAX 8
/* The bound for Ethernet in MPLS in Ethernet without IP between them. */
#define LAYERS_MAX 16

static uint32_t less(uint32_t wire, uint32_t n) { return wire > n ? wire - n : 0; }

int rw_looks_like_ethernet(struct rw_bytes b, size_t at)
{
	rw_bytes_skip(&b, at + 12);
	uint16_t type = rw_bytes_u16(&b);
	return !b.short_read && (type == ETHER_IPV4 || type == ETHER_IPV6 || type == ETHER_VLAN || type == ETHER_QINQ ||
				 type == ETHER_MPLS || type == ETHER_PPPOE_SESSION);
}

/* Does an IP header with a possible length begin here? A header that is cut is judged by its beginning. */
static int looks_like_ip(struct rw_bytes b, uint32_t wire)
{
	uint16_t first = rw_bytes_u16(&b), second = rw_bytes_u16(&b), third = rw_bytes_u16(&b);
	if (first >> 12 == 4)
		return (first >> 8 & 15) >= 5 && second <= wire;
	return first >> 12 == 6 && third + 40u <= wire;
}

/* MPLS labels (RFC 3032), then IP, or Ethernet with or without a control word (RFC 4448). No field says which. */
static enum rw_parse parse_mpls(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { CONTROL_WORD = 4 };
	int bottom = 0;
	for (int label = 0; label < TAGS_MAX && !bottom && !b.short_read; label++) {
		bottom = rw_bytes_u32(&b) >> 8 & 1;
		wire = less(wire, 4);
	}
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	if (!bottom)
		return RW_PARSE_OTHER;
	if (rw_bytes_left(&b) && *b.at >> 4 == 0 && rw_looks_like_ethernet(b, CONTROL_WORD)) {
		rw_bytes_skip(&b, CONTROL_WORD);
		return rw_parse_ethernet(p, b, less(wire, CONTROL_WORD));
	}
	if (!looks_like_ip(b, wire) && rw_looks_like_ethernet(b, 0))
		return rw_parse_ethernet(p, b, wire);
	return rw_parse_ip(p, b, wire);
}

/* IEEE 802.1AE (MACsec) without encryption. Returns the Ethernet type that follows; 0: none. */
static uint16_t parse_macsec(struct rw_parser *p, struct rw_bytes *b, uint32_t *wire)
{
	enum { ENCRYPTED = 0x08, CHANGED = 0x04, CHANNEL = 0x20 };
	uint8_t control = rw_bytes_u8(b);
	size_t rest = control & CHANNEL ? 13 : 5;
	if (control & CHANNEL)
		rw_layer_seen(p, RW_LAYER_NAMES_HOST, b->at + 5, 8);
	rw_bytes_skip(b, rest);
	*wire = less(*wire, (uint32_t)rest + 3);
	uint16_t type = rw_bytes_u16(b);
	return control & (ENCRYPTED | CHANGED) ? 0 : type;
}

/* Arista's switches put a time into frames: a kind, its form, and 48 or 64 bits. Returns the Ethernet type that follows. */
static uint16_t parse_arista(struct rw_bytes *b, uint32_t *wire)
{
	enum { FORM_48_BITS = 0x20 };
	rw_bytes_skip(b, 2);
	uint32_t rest = (rw_bytes_u16(b) & 0xff) == FORM_48_BITS ? 6 : 8;
	rw_bytes_skip(b, rest);
	*wire = less(*wire, 6 + rest);
	return rw_bytes_u16(b);
}

/* RFC 8300: service chains. */
static enum rw_parse parse_nsh(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { NEXT_IPV4 = 1, NEXT_IPV6 = 2, NEXT_ETHERNET = 3, NEXT_NSH = 4, NEXT_MPLS = 5 };
	uint32_t length = (rw_bytes_u16(&b) & 63u) * 4;
	rw_bytes_skip(&b, 1);
	uint8_t next = rw_bytes_u8(&b);
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	if (length < 8)
		return rw_parse_odd(p, RW_ODDITY_BAD_LENGTH);
	rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 4, length > 8 ? length - 8 : 0);
	rw_bytes_skip(&b, length - 4);
	wire = less(wire, length);
	switch (next) {
	case NEXT_IPV4:
	case NEXT_IPV6:
		return rw_parse_ip(p, b, wire);
	case NEXT_ETHERNET:
		return rw_parse_ethernet(p, b, wire);
	case NEXT_NSH:
		return rw_parse_ether_type(p, b, wire, ETHER_NSH);
	case NEXT_MPLS:
		return rw_parse_ether_type(p, b, wire, ETHER_MPLS);
	default:
		return RW_PARSE_OTHER;
	}
}

enum rw_parse rw_parse_ether_type(struct rw_parser *p, struct rw_bytes b, uint32_t wire, uint16_t type)
{
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	if (p->ether_types++ == LAYERS_MAX)
		return RW_PARSE_OTHER;
	for (int depth = 0; depth < TAGS_MAX; depth++) {
		switch (type) {
		case ETHER_IPV4:
		case ETHER_IPV6:
			return rw_parse_ip(p, b, wire);
		case ETHER_E_TAG:
		case ETHER_VN_TAG:
		case ETHER_VLAN:
		case ETHER_QINQ:
		case ETHER_QINQ_OLD:
		case ETHER_QINQ_OLDER:
		case ETHER_QINQ_OLDEST:
		case ETHER_CISCO_METADATA: {
			uint32_t tag = type == ETHER_E_TAG || type == ETHER_CISCO_METADATA ? 8
				       : type == ETHER_VN_TAG                              ? 6
											   : 4;
			rw_bytes_skip(&b, tag - 2);
			type = rw_bytes_u16(&b);
			wire = less(wire, tag);
			break;
		}
		case ETHER_MACSEC:
			type = parse_macsec(p, &b, &wire);
			break;
		case ETHER_ARISTA:
			type = parse_arista(&b, &wire);
			break;
		case ETHER_MPLS:
		case ETHER_MPLS_UPSTREAM:
			return parse_mpls(p, b, wire);
		case ETHER_PPPOE_SESSION:
			rw_bytes_skip(&b, 6);
			return rw_parse_ppp(p, b, less(wire, 6));
		case ETHER_BACKBONE: /* IEEE 802.1ah: a service, then the customer's frame */
			rw_bytes_skip(&b, 4);
			return rw_parse_ethernet(p, b, less(wire, 4));
		case ETHER_TRILL: { /* RFC 6325 3: six bytes and options, in words */
			uint32_t header = 6 + (rw_bytes_u16(&b) >> 6 & 31u) * 4;
			rw_bytes_skip(&b, header - 2);
			return rw_parse_ethernet(p, b, less(wire, header));
		}
		case ETHER_NSH:
			return parse_nsh(p, b, wire);
		default: /* IEEE 802.3 behind a tag, and 4 in Linux' cooked captures: LLC */
			return type && type <= ETHER_LENGTH_MAX ? rw_parse_llc(p, b, wire) : RW_PARSE_OTHER;
		}
		if (b.short_read)
			return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	}
	return RW_PARSE_OTHER;
}

/* BSD loopback: the address family in the writer's byte order. AF_INET6 differs between systems, so IP's version decides. */
static enum rw_parse parse_null(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	uint32_t family = rw_bytes_u32(&b);
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	if (family > 0xffff)
		family = __builtin_bswap32(family);
	int ip = family == 2 || family == 10 || family == 24 || family == 28 || family == 30;
	return ip ? rw_parse_ip(p, b, less(wire, 4)) : RW_PARSE_OTHER;
}

/* Netlink packet logging: attributes in the writer's byte order; one of them is the packet. */
static enum rw_parse parse_nflog(struct rw_parser *p, struct rw_bytes b)
{
	enum { HEADER = 4, PAYLOAD = 9 };
	rw_bytes_skip(&b, HEADER);
	b.swapped = 1; /* little-endian where that gives a possible length */
	if (p->layers)
		p->layers->fixed_length = 1;
	while (rw_bytes_left(&b) >= 4) {
		struct rw_bytes start = b;
		uint16_t length = rw_bytes_u16(&b), type = rw_bytes_u16(&b);
		if (length < 4 || length - 4u > rw_bytes_left(&b)) {
			b = start;
			b.swapped = 0;
			length = rw_bytes_u16(&b);
			type = rw_bytes_u16(&b);
			if (length < 4 || length - 4u > rw_bytes_left(&b))
				return rw_parse_odd(p, RW_ODDITY_BAD_LENGTH);
		}
		if ((type & 0x7fff) == PAYLOAD) {
			b.swapped = 0;
			return rw_parse_ip(p, rw_bytes_take(&b, length - 4u), length - 4u);
		}
		rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at, length - 4u);
		size_t padded = ((length + 3u) & ~3u) - 4u;
		rw_bytes_skip(&b, padded < rw_bytes_left(&b) ? padded : rw_bytes_left(&b));
	}
	return RW_PARSE_OTHER;
}

/* radiotap.org: little-endian; words that say which fields follow, of which only the first two matter here. */
static enum rw_parse parse_radiotap(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { PRESENT_TIMER = 1, PRESENT_FLAGS = 2, FLAG_PADDED = 0x20 };
	struct rw_bytes whole = b;
	b.swapped = 1;
	rw_bytes_skip(&b, 2);
	uint32_t length = rw_bytes_u16(&b), present = rw_bytes_u32(&b), at = 8;
	for (uint32_t word = present; word >> 31 && !b.short_read; at += 4)
		word = rw_bytes_u32(&b);
	if (present & PRESENT_TIMER) {
		uint32_t aligned = (at + 7) & ~7u;
		rw_bytes_skip(&b, aligned - at + 8);
		at = aligned + 8;
	}
	uint8_t flags = present & PRESENT_FLAGS && at < length ? rw_bytes_u8(&b) : 0;
	rw_bytes_skip(&whole, length > 4 ? length : 4);
	return rw_parse_wireless(p, whole, less(wire, length),
				 flags & FLAG_PADDED ? RW_WIRELESS_PADDED : RW_WIRELESS_PLAIN);
}

static enum rw_parse parse_link(struct rw_parser *p, uint32_t link_type, struct rw_bytes b, uint32_t wire);

/* AVS: a version and a length, big-endian. Some drivers write it where the link type announces Prism's header. */
#define AVS_VERSION_1 0x80211001
#define AVS_VERSION_2 0x80211002

/* A receiver's header before an 802.11 frame, with its own length: Prism's in the writer's byte order, or AVS. */
static enum rw_parse parse_receiver(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { HEADER_MAX = 0xffff };
	struct rw_bytes head = b;
	uint32_t version = rw_bytes_u32(&head), length = rw_bytes_u32(&head);
	if (version != AVS_VERSION_1 && version != AVS_VERSION_2 && length > HEADER_MAX)
		length = __builtin_bswap32(length);
	rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 8, length > 8 ? length - 8 : 0);
	rw_bytes_skip(&b, length);
	if (head.short_read || b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	return rw_parse_wireless(p, b, less(wire, length), RW_WIRELESS_PLAIN);
}

/* Per-packet information (CACE, 2007): little-endian; fields, and a packet of any other link type. */
static enum rw_parse parse_ppi(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { HEADER = 8 };
	struct rw_bytes head = b;
	head.swapped = 1;
	rw_bytes_skip(&head, 2);
	uint32_t length = rw_bytes_u16(&head), link_type = rw_bytes_u32(&head);
	rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + HEADER, length > HEADER ? length - HEADER : 0);
	rw_bytes_skip(&b, length > HEADER ? length : HEADER);
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	return link_type == LINK_PPI ? RW_PARSE_OTHER : parse_link(p, link_type, b, less(wire, length));
}

static enum rw_parse parse_link(struct rw_parser *p, uint32_t link_type, struct rw_bytes b, uint32_t wire)
{
	switch (link_type) {
	case LINK_ETHERNET:
		return rw_parse_ethernet(p, b, wire);
	case LINK_PPP:
	case LINK_PPP_HDLC:
		return rw_parse_ppp(p, b, wire);
	case LINK_FDDI:
		rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 1, 12);
		rw_bytes_skip(&b, 13);
		return rw_parse_llc(p, b, less(wire, 13));
	case LINK_WIRELESS:
		return rw_parse_wireless(p, b, wire, RW_WIRELESS_PLAIN);
	case LINK_RADIOTAP:
		return parse_radiotap(p, b, wire);
	case LINK_PRISM:
	case LINK_AVS:
		return parse_receiver(p, b, wire);
	case LINK_PPI:
		return parse_ppi(p, b, wire);
	case LINK_MPLS:
		return rw_parse_ether_type(p, b, wire, ETHER_MPLS);
	case LINK_NFLOG:
		return parse_nflog(p, b);
	case LINK_IPOIB: {
		rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 8, 32);
		rw_bytes_skip(&b, 40); /* global route header */
		uint16_t type = rw_bytes_u16(&b);
		rw_bytes_skip(&b, 2);
		return rw_parse_ether_type(p, b, less(wire, 44), type);
	}
	case LINK_RAW:
	case LINK_RAW_BSD:
	case LINK_RAW_OPENBSD:
	case LINK_IPV4:
	case LINK_IPV6:
		return rw_parse_ip(p, b, wire);
	case LINK_LINUX_SLL: {
		rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 6, 8);
		rw_bytes_skip(&b, 14);
		uint16_t type = rw_bytes_u16(&b);
		return rw_parse_ether_type(p, b, less(wire, 16), type);
	}
	case LINK_LINUX_SLL2: {
		rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 12, 8);
		uint16_t type = rw_bytes_u16(&b);
		rw_bytes_skip(&b, 18);
		return rw_parse_ether_type(p, b, less(wire, 20), type);
	}
	case LINK_NULL:
	case LINK_LOOP:
		return parse_null(p, b, wire);
	default:
		return rw_parse_odd(p, RW_ODDITY_UNKNOWN_LINK_TYPE);
	}
}

/*
 * What most records are: Ethernet, and a whole packet of IPv4 without options that carries TCP. Returns the IP header, with 40
 * bytes behind it, or null: something else. first: type, version and header length, service, length, identification.
 */
static inline const uint8_t *plain_ipv4(const struct rw_record *record, uint64_t *first)
{
	struct rw_bytes b = rw_bytes_of(record->bytes, record->captured_bytes);
	const uint8_t *h = rw_bytes_view(&b, 14 + 20 + 20);
	if (!h || record->link_type != LINK_ETHERNET)
		return NULL;
	*first = rw_load_u64(h + 12);
	uint64_t second = rw_load_u64(h + 20); /* fragment, hops, protocol and what follows */
	return *first >> 40 == (ETHER_IPV4 << 8 | 0x45) && (second >> 32 & 0x3fff00ff) == 6 ? h + 14 : NULL;
}

static RW_ASIDE enum rw_parse parse_any(const struct rw_record *record, struct rw_packet *packet,
					struct rw_fragments *fragments, struct rw_oddity_counts *oddities)
{
	struct rw_parser p = {record, packet, fragments, oddities, 0, 0};
	struct rw_bytes b = rw_bytes_of(record->bytes, record->captured_bytes);
	uint64_t first;
	const uint8_t *ip = RW_SHORT_WAY(record->link_type == LINK_ETHERNET) ? plain_ipv4(record, &first) : NULL;
	uint32_t length = ip ? first >> 16 & 0xffff : 0;
	if (length >= 20) { /* with other options than parse_plain knows: SACK, MPTCP */
		packet->family = 4;
		packet->ecn = first >> 32 & 3;
		packet->identification = (uint16_t)first;
		memcpy(packet->source, ip + 12, 4);
		memcpy(packet->destination, ip + 16, 4);
		rw_bytes_skip(&b, 14 + 20);
		return rw_parse_tcp(&p, b, length - 20);
	}
	if (record->link_type == LINK_ETHERNET) /* most are */
		return rw_parse_ethernet(&p, b, record->wire_bytes);
	return parse_link(&p, record->link_type, b, record->wire_bytes);
}

/* kinds: family, header length and whether there are timestamps, as the packet's fields from `family` on. */
static inline void take_plain(struct rw_packet *packet, const uint8_t *ip, uint64_t first, uint32_t header,
			      uint64_t kinds, uint64_t stamps)
{
	packet->identification = (uint16_t)first;
	memcpy(packet->source, ip + 12, 4);
	memcpy(packet->destination, ip + 16, 4);
	rw_parse_tcp_fixed(packet, ip + 20, (uint32_t)(first >> 16 & 0xffff) - 20 - header);
	rw_store_fields(packet, offsetof(struct rw_packet, family), kinds | rw_field(first >> 32 & 3, 1, 1));
	packet->window_scale = 0;
	rw_store_fields(packet, offsetof(struct rw_packet, ts_value), stamps);
}

/* The short way: of those packets the ones whose TCP options are timestamps or none. 0: another one, for parse_any. */
static int parse_plain(const struct rw_record *record, struct rw_packet *packet)
{
	uint64_t first;
	const uint8_t *ip = plain_ipv4(record, &first);
	if (!ip)
		return 0;
	const uint8_t *tcp = ip + 20;
	uint32_t length = first >> 16 & 0xffff, header = rw_tcp_header_bytes(tcp);
	if (length < 20 + header)
		return 0;
	/* Family, header length and timestamps; there is no other option, so the rest of these eight bytes is 0. */
	uint64_t stamps = 0, kinds = rw_field(4, 0, 1) | rw_field(20, 2, 1);
	if (header == 32) {
		struct rw_bytes b = rw_bytes_of(record->bytes, record->captured_bytes);
		rw_bytes_skip(&b, 14 + 20 + 20);
		const uint8_t *options = rw_bytes_view(&b, 12);
		if (!options || rw_load_u32(options) != RW_TIMESTAMPS_ALONE)
			return 0;
		stamps = rw_load_fields(options + 4);
		kinds = rw_field(4, 0, 1) | rw_field(32, 2, 1) | rw_field(1, 3, 1);
	} else if (header != 20) {
		return 0;
	}
	take_plain(packet, ip, first, header, kinds, stamps);
	return 1;
}

/* The same for those with timestamps and a DSS of MPTCP behind them. */
static RW_ASIDE int parse_plain_dss(const struct rw_record *record, struct rw_packet *packet)
{
	enum { HEADERS = 14 + 20 + 20, STAMPS = 12 };
	uint64_t first;
	const uint8_t *ip = plain_ipv4(record, &first);
	uint32_t header = ip ? rw_tcp_header_bytes(ip + 20) : 0;
	if (header <= 20 + STAMPS || (first >> 16 & 0xffff) < 20 + header)
		return 0;
	struct rw_bytes b = rw_bytes_of(record->bytes, record->captured_bytes);
	rw_bytes_skip(&b, HEADERS);
	const uint8_t *options = rw_bytes_view(&b, STAMPS);
	if (!options || rw_load_u32(options) != RW_TIMESTAMPS_ALONE ||
	    !rw_parse_dss_alone(b, header - 20 - STAMPS, &packet->mptcp))
		return 0;
	take_plain(packet, ip, first, header, rw_field(4, 0, 1) | rw_field(header, 2, 1) | rw_field(1, 3, 1),
		   rw_load_fields(options + 4));
	return 1;
}

/* Neighbouring numbers, as hosts give their connections, come into different shares. */
static uint32_t share_of(uint32_t addresses, uint32_t ports)
{
	enum { SHARE_BITS = 3 };
	_Static_assert(1 << SHARE_BITS == RW_SHARES, "as many");
	return (addresses * 0x85ebca6bu + ports) * 0x9e3779b1u >> (32 - SHARE_BITS);
}

static uint32_t sum_of_words(const uint8_t *address, uint32_t words)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < words; i++)
		sum += rw_load_u32(address + 4 * i);
	return sum;
}

uint32_t rw_packet_share(const struct rw_packet *p)
{
	uint32_t words = p->family == 4 ? 1 : 4;
	return share_of(sum_of_words(p->source, words) + sum_of_words(p->destination, words),
			(uint32_t)p->source_port + p->destination_port);
}

/* IPv6, or IP without Ethernet. */
static RW_ASIDE int share_of_other(const struct rw_record *record, uint32_t *share)
{
	enum { V4_HEADER = 20, V6_HEADER = 40, PORTS = 4, TCP = 6 };
	struct rw_bytes b = rw_bytes_of(record->bytes, record->captured_bytes);
	if (record->link_type == LINK_ETHERNET) {
		rw_bytes_skip(&b, 12);
		if (rw_bytes_u16(&b) != ETHER_IPV6)
			return 0;
	} else if (record->link_type != LINK_RAW) {
		return 0;
	}
	const uint8_t *ip = rw_bytes_view(&b, V4_HEADER);
	if (!ip)
		return 0;
	int whole = ip[0] == 0x45 && record->link_type == LINK_RAW && ip[9] == TCP && !(rw_load_u16(ip + 6) & 0x3fff);
	uint32_t rest = whole ? PORTS : V6_HEADER - V4_HEADER + PORTS;
	if (!whole && (ip[0] >> 4 != 6 || ip[6] != TCP))
		return 0;
	const uint8_t *ports = rw_bytes_view(&b, rest);
	if (!ports)
		return 0;
	ports += rest - PORTS;
	uint32_t addresses = whole ? sum_of_words(ip + 12, 2) : sum_of_words(ip + 8, 8);
	*share = share_of(addresses, (uint32_t)rw_load_u16(ports) + rw_load_u16(ports + 2));
	return 1;
}

int rw_record_share(const struct rw_record *record, uint32_t *share)
{
	uint64_t first;
	const uint8_t *ip = plain_ipv4(record, &first);
	if (!ip)
		return share_of_other(record, share);
	*share = share_of(rw_load_u32(ip + 12) + rw_load_u32(ip + 16),
			  (uint32_t)rw_load_u16(ip + 20) + rw_load_u16(ip + 22));
	return 1;
}

static inline void begin(const struct rw_record *record, struct rw_packet *packet)
{
	packet->time_ns = record->time_ns;
	packet->offset = record->offset;
	packet->file = record->file;
	packet->interface = record->interface;
	packet->overtaken = 0;
	packet->mptcp.seen = 0;
}

static inline void without_options(struct rw_packet *packet)
{
	packet->has_timestamps = packet->sack_permitted = packet->has_window_scale = packet->sack_count = 0;
	packet->option_mss = packet->window_scale = 0;
	packet->ts_value = packet->ts_echo = 0;
}

enum rw_parse rw_packet_parse(const struct rw_record *record, struct rw_packet *packet, struct rw_fragments *fragments,
			      struct rw_oddity_counts *oddities)
{
	begin(record, packet);
	if (RW_SHORT_WAY(parse_plain(record, packet) || parse_plain_dss(record, packet)))
		return RW_PARSE_TCP;
	without_options(packet);
	return parse_any(record, packet, fragments, oddities);
}

RW_ASIDE enum rw_parse rw_packet_next(const struct rw_record *record, struct rw_packet *packet,
				      struct rw_fragments *fragments, struct rw_oddity_counts *oddities)
{
	struct rw_parser p = {record, packet, fragments, oddities, 0, 0};
	begin(record, packet);
	without_options(packet);
	return rw_parse_aggregate(&p);
}

/* A fragmented header is put together elsewhere: only what lies in the record is one of its layers. */
static int is_inside(const struct rw_parser *p, const uint8_t *at)
{
	uintptr_t first = (uintptr_t)p->record->bytes, place = (uintptr_t)at;
	return place >= first && place - first <= p->record->captured_bytes;
}

void rw_layer_end(struct rw_parser *p, const uint8_t *end)
{
	if (!is_inside(p, end))
		return;
	uint32_t at = (uint32_t)(end - p->record->bytes);
	if (at > p->layers->headers_end)
		p->layers->headers_end = at;
}

void rw_layer_add(struct rw_parser *p, enum rw_layer_kind kind, const uint8_t *start, size_t bytes)
{
	struct rw_layers *all = p->layers;
	if (!is_inside(p, start) || bytes == 0)
		return;
	if (all->count == RW_LAYERS_MAX) {
		all->too_many = 1;
		return;
	}
	struct rw_layer *l = &all->layer[all->count++];
	uint32_t at = (uint32_t)(start - p->record->bytes), left = p->record->captured_bytes - at;
	l->kind = kind;
	l->at = at;
	l->bytes = bytes < left ? (uint32_t)bytes : left;
	l->payload_bytes = 0;
	if (kind == RW_LAYER_TCP) {
		l->payload_bytes = p->packet->payload_bytes;
		memcpy(l->source, p->packet->source, sizeof l->source);
		memcpy(l->destination, p->packet->destination, sizeof l->destination);
	}
	if (kind != RW_LAYER_CARRIED && kind != RW_LAYER_NAMES_HOST && kind != RW_LAYER_ADDRESS_V6)
		rw_layer_end(p, start + l->bytes);
}

enum rw_parse rw_packet_layers(const struct rw_record *record, struct rw_packet *packet, struct rw_fragments *fragments,
			       struct rw_oddity_counts *oddities, struct rw_layers *layers)
{
	struct rw_parser p = {record, packet, fragments, oddities, 0, 0, layers};
	layers->count = layers->headers_end = 0;
	layers->too_many = layers->fixed_length = 0;
	begin(record, packet);
	without_options(packet);
	memset(packet->source, 0, sizeof packet->source);
	memset(packet->destination, 0, sizeof packet->destination);
	enum rw_parse got =
	    parse_link(&p, record->link_type, rw_bytes_of(record->bytes, record->captured_bytes), record->wire_bytes);
	if (got != RW_PARSE_SEVERAL)
		return got;
	do {
		p = (struct rw_parser){record, packet, fragments, oddities, 0, 0, layers};
		begin(record, packet);
		without_options(packet);
	} while (rw_parse_aggregate(&p) == RW_PARSE_TCP);
	return RW_PARSE_SEVERAL;
}
