/*
 * IPv4 (RFC 791) and IPv6 (RFC 8200) with its extension headers, jumbograms (RFC 2675) and BIG TCP. The addresses
 * of a packet are those of TCP's pseudo-header: the last address of a source route, and a mobile node's home address.
 */
#include "packet.h"

enum {
	PROTOCOL_HOP_BY_HOP = 0,
	PROTOCOL_IPV4 = 4,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	PROTOCOL_IPV6 = 41,
	PROTOCOL_GRE = 47,
	PROTOCOL_ROUTING = 43,
	PROTOCOL_FRAGMENT = 44,
	PROTOCOL_AH = 51,
	PROTOCOL_DESTINATION = 60,
	PROTOCOL_ETHERIP = 97,
	PROTOCOL_PIM = 103,
	PROTOCOL_L2TP = 115,
	PROTOCOL_MOBILITY = 135,
	PROTOCOL_MPLS = 137,
	PROTOCOL_HIP = 139,
	PROTOCOL_SHIM6 = 140,
	PROTOCOL_ETHERNET = 143
};
#define ETHER_MPLS 0x8847
#define EXTENSIONS_MAX 16

/* No network nests IP in IP deeper. */
#define DEPTH_MAX 8

static enum rw_parse parse_protocol(struct rw_parser *p, struct rw_bytes b, uint32_t wire, uint8_t protocol)
{
	for (int i = 0; protocol == PROTOCOL_AH && i < EXTENSIONS_MAX; i++) {
		protocol = rw_bytes_u8(&b);
		uint32_t length = ((uint32_t)rw_bytes_u8(&b) + 2) * 4;
		rw_bytes_skip(&b, length - 2);
		if (b.short_read)
			return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
		if (length > wire)
			return rw_parse_odd(p, RW_ODDITY_BAD_LENGTH);
		wire -= length;
	}
	switch (protocol) {
	case PROTOCOL_TCP:
		return rw_parse_tcp(p, b, wire);
	case PROTOCOL_UDP:
		return rw_parse_udp(p, b, wire);
	case PROTOCOL_GRE:
		return rw_parse_gre(p, b, wire);
	case PROTOCOL_IPV4:
	case PROTOCOL_IPV6:
		return rw_parse_ip(p, b, wire);
	case PROTOCOL_ETHERIP: /* RFC 3378: two bytes with a version */
		rw_bytes_skip(&b, 2);
		return rw_parse_ethernet(p, b, wire > 2 ? wire - 2 : 0);
	case PROTOCOL_ETHERNET: /* RFC 8986 */
		return rw_parse_ethernet(p, b, wire);
	case PROTOCOL_L2TP:
		return rw_parse_l2tpv3(p, b, wire);
	case PROTOCOL_PIM: { /* RFC 7761 4.9.3: a register carries the packet of the multicast source */
		uint8_t version_and_type = rw_bytes_u8(&b);
		rw_bytes_skip(&b, 7);
		return version_and_type == 0x21 ? rw_parse_ip(p, b, wire > 8 ? wire - 8 : 0) : RW_PARSE_OTHER;
	}
	case PROTOCOL_MPLS: /* RFC 4023 */
		return rw_parse_ether_type(p, b, wire, ETHER_MPLS);
	default:
		return RW_PARSE_OTHER;
	}
}

static enum rw_parse parse_ipv4(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	struct rw_packet *packet = p->packet;
	const uint8_t *h = rw_bytes_view(&b, 20);
	if (!h)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	uint32_t header = (uint32_t)(h[0] & 15) * 4;
	packet->ecn = h[1] & 3;
	uint32_t total = rw_load_u16(h + 2);
	packet->identification = rw_load_u16(h + 4);
	uint16_t fragment = rw_load_u16(h + 6);
	uint8_t protocol = h[9];
	packet->family = 4;
	memcpy(packet->source, h + 12, 4);
	memcpy(packet->destination, h + 16, 4);
	if (total == 0)
		total = wire; /* segmentation offload leaves the length 0 above 64 KiB */
	if (header < 20 || total < header)
		return rw_parse_odd(p, RW_ODDITY_BAD_LENGTH);
	rw_layer_seen(p, RW_LAYER_IPV4, h, header);
	rw_bytes_skip(&b, header - 20);
	if (fragment & 0x3fff && protocol == PROTOCOL_TCP)
		return rw_parse_fragment(p, b, total - header, packet->identification, (fragment & 0x1fffu) * 8,
					 fragment >> 13 & 1);
	/* The first fragment of another protocol may be a tunnel's. It has the inner headers, with their own lengths. */
	if (fragment & 0x1fff)
		return RW_PARSE_OTHER;
	return parse_protocol(p, b, total - header, protocol);
}

/* RFC 2675: the length of a jumbogram stands in a hop-by-hop option. */
static uint32_t jumbo_length(struct rw_bytes options)
{
	while (rw_bytes_left(&options) > 1) {
		uint8_t type = rw_bytes_u8(&options);
		if (type == 0)
			continue; /* Pad1 */
		uint8_t length = rw_bytes_u8(&options);
		if (type == 0xc2 && length == 4)
			return rw_bytes_u32(&options);
		rw_bytes_skip(&options, length);
	}
	return 0;
}

/*
 * The final destination: source routes (type 0, RFC 2460: the last address), mobile nodes (2, RFC 6275: the only one),
 * segment routing (4, RFC 8754: the first). b: the bytes after the header's length.
 */
static void see_route(struct rw_parser *p, struct rw_bytes b)
{
	struct rw_packet *packet = p->packet;
	uint32_t addresses = (uint32_t)rw_bytes_left(&b) / 16;
	uint8_t type = rw_bytes_u8(&b), segments_left = rw_bytes_u8(&b);
	rw_bytes_skip(&b, 4);
	for (struct rw_bytes rest = b; p->layers && rw_bytes_left(&rest) >= 16; rw_bytes_skip(&rest, 16))
		rw_layer_add(p, RW_LAYER_ADDRESS_V6, rest.at, 16);
	if (!segments_left || !addresses || (type != 0 && type != 2 && type != 4))
		return;
	if (type == 0)
		rw_bytes_skip(&b, (size_t)(addresses - 1) * 16);
	const uint8_t *last = rw_bytes_view(&b, 16);
	if (last)
		memcpy(packet->destination, last, 16);
}

/* RFC 6275 6.3: the home address of the mobile node that sent the packet. */
static void see_home(struct rw_parser *p, struct rw_bytes options)
{
	struct rw_packet *packet = p->packet;
	enum { PAD1 = 0, HOME_ADDRESS = 0xc9 };
	while (rw_bytes_left(&options) > 1) {
		uint8_t type = rw_bytes_u8(&options);
		if (type == PAD1)
			continue;
		struct rw_bytes value = rw_bytes_take(&options, rw_bytes_u8(&options));
		const uint8_t *home = type == HOME_ADDRESS ? rw_bytes_view(&value, 16) : NULL;
		if (home) {
			memcpy(packet->source, home, 16);
			rw_layer_seen(p, RW_LAYER_ADDRESS_V6, home, 16);
		}
		rw_layer_seen(p, RW_LAYER_NAMES_HOST, value.at, rw_bytes_left(&value));
	}
}

static enum rw_parse parse_ipv6(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	struct rw_packet *packet = p->packet;
	const uint8_t *h = rw_bytes_view(&b, 40);
	if (!h)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	rw_layer_seen(p, RW_LAYER_IPV6, h, 40);
	packet->ecn = h[1] >> 4 & 3;
	uint32_t payload = rw_load_u16(h + 4);
	uint8_t next = h[6];
	packet->family = 6;
	packet->identification = 0;
	memcpy(packet->source, h + 8, 16);
	memcpy(packet->destination, h + 24, 16);
	int jumbo = payload == 0;
	if (jumbo)
		payload = wire > 40 ? wire - 40 : 0;
	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		uint32_t length;
		switch (next) {
		case PROTOCOL_HOP_BY_HOP:
		case PROTOCOL_ROUTING:
		case PROTOCOL_DESTINATION:
		case PROTOCOL_MOBILITY:
		case PROTOCOL_HIP:
		case PROTOCOL_SHIM6: {
			uint8_t kind = next;
			next = rw_bytes_u8(&b);
			length = ((uint32_t)rw_bytes_u8(&b) + 1) * 8;
			struct rw_bytes options = rw_bytes_take(&b, length - 2);
			uint32_t jumbogram = kind == PROTOCOL_HOP_BY_HOP ? jumbo_length(options) : 0;
			if (jumbogram && jumbo)
				payload = jumbogram;
			if (kind == PROTOCOL_ROUTING)
				see_route(p, options);
			else if (kind == PROTOCOL_DESTINATION)
				see_home(p, options);
			else if (!jumbogram)
				rw_layer_seen(p, RW_LAYER_NAMES_HOST, options.at, rw_bytes_left(&options));
			break;
		}
		case PROTOCOL_AH:
			next = rw_bytes_u8(&b);
			length = ((uint32_t)rw_bytes_u8(&b) + 2) * 4;
			rw_bytes_skip(&b, length - 2);
			break;
		case PROTOCOL_FRAGMENT: {
			next = rw_bytes_u8(&b);
			rw_bytes_skip(&b, 1);
			uint16_t place = rw_bytes_u16(&b);
			uint32_t identification = rw_bytes_u32(&b);
			length = 8;
			/* An offset, or more fragments follow; with neither it is an atomic fragment (RFC 6946). */
			if (place & 0xfff9 && next == PROTOCOL_TCP && !b.short_read && payload >= 8)
				return rw_parse_fragment(p, b, payload - 8, identification, place & 0xfff8u, place & 1);
			if (place & 0xfff8)
				return RW_PARSE_OTHER;
			break;
		}
		default:
			return parse_protocol(p, b, payload, next);
		}
		rw_layer_ends(p, b.at);
		if (b.short_read)
			return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
		if (length > payload)
			return rw_parse_odd(p, RW_ODDITY_BAD_LENGTH);
		payload -= length;
	}
	return rw_parse_odd(p, RW_ODDITY_BAD_OPTION_LENGTH);
}

enum rw_parse rw_parse_ip(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	if (!rw_bytes_has(&b, 1))
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	if (p->depth++ == DEPTH_MAX)
		return RW_PARSE_OTHER;
	switch (*b.at >> 4) {
	case 4:
		return parse_ipv4(p, b, wire);
	case 6:
		return parse_ipv6(p, b, wire);
	default:
		return RW_PARSE_OTHER;
	}
}
