/*
 * What carries Ethernet, PPP or IP inside something else: LLC/SNAP (RFC 1042), 802.11, PPP (RFC 1661), GRE (RFC 2784,
 * 2890, 2637), VXLAN (RFC 7348), GENEVE (RFC 8926), GTP-U (3GPP TS 29.281). The innermost TCP is the packet.
 */
#include "packet.h"

enum { PPP_IPV4 = 0x0021, PPP_IPV6 = 0x0057 };
enum { ETHER_TRANSPARENT_BRIDGING = 0x6558, ETHER_PPP = 0x880b, ETHER_ARUBA_FIRST = 0x8200, ETHER_ARUBA_LAST = 0x8210 };
enum { PORT_GTP_U = 2152, PORT_VXLAN = 4789, PORT_GENEVE = 6081, PORT_VXLAN_LINUX = 8472 };
#define GTP_EXTENSIONS_MAX 8
#define GTP_G_PDU 255

static uint32_t less(uint32_t wire, size_t n) { return wire > n ? wire - (uint32_t)n : 0; }

enum rw_parse rw_parse_ethernet(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	rw_bytes_skip(&b, 12);
	uint16_t type = rw_bytes_u16(&b);
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	if (type <= 1500) /* IEEE 802.3: a length, then LLC */
		return rw_parse_llc(p, b, less(wire, 14));
	return rw_parse_ether_type(p, b, less(wire, 14), type);
}

enum rw_parse rw_parse_llc(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	uint16_t access = rw_bytes_u16(&b);
	if (access != 0xaaaa)
		return RW_PARSE_OTHER;
	rw_bytes_skip(&b, 4);
	uint16_t type = rw_bytes_u16(&b);
	return rw_parse_ether_type(p, b, less(wire, 8), type);
}

enum rw_parse rw_parse_wireless(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	uint8_t first = rw_bytes_u8(&b), second = rw_bytes_u8(&b);
	int data = (first >> 2 & 3) == 2, without_payload = first >> 4 & 4, quality = first >> 7;
	if (!data || without_payload || second & 0x40) /* encrypted */
		return RW_PARSE_OTHER;
	size_t header = 24 + ((second & 3) == 3 ? 6 : 0) + (quality ? 2 : 0) + (quality && second & 0x80 ? 4 : 0);
	rw_bytes_skip(&b, header - 2);
	return rw_parse_llc(p, b, less(wire, header));
}

enum rw_parse rw_parse_ppp(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	uint16_t protocol = rw_bytes_u8(&b);
	size_t header = 1;
	if (protocol == 0xff) { /* address and control, as in HDLC framing */
		rw_bytes_skip(&b, 1);
		protocol = rw_bytes_u8(&b);
		header = 3;
	}
	if (!(protocol & 1)) { /* the last octet of a protocol number is odd: one alone is a compressed one */
		protocol = (uint16_t)(protocol << 8 | rw_bytes_u8(&b));
		header++;
	}
	return protocol == PPP_IPV4 || protocol == PPP_IPV6 ? rw_parse_ip(p, b, less(wire, header)) : RW_PARSE_OTHER;
}

enum rw_parse rw_parse_gre(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	uint16_t flags = rw_bytes_u16(&b), protocol = rw_bytes_u16(&b);
	size_t header = 4;
	if (flags & 0xc000)
		header += 4; /* checksum and offset */
	if (flags & 0x2000)
		header += 4; /* key */
	if (flags & 0x1000)
		header += 4; /* sequence number */
	if ((flags & 7) == 1 && flags & 0x0080)
		header += 4; /* PPTP's acknowledgment number */
	rw_bytes_skip(&b, header - 4);
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	wire = less(wire, header);
	if (protocol == ETHER_TRANSPARENT_BRIDGING)
		return rw_parse_ethernet(p, b, wire);
	if (protocol == ETHER_PPP)
		return rw_parse_ppp(p, b, wire);
	if (protocol >= ETHER_ARUBA_FIRST && protocol <= ETHER_ARUBA_LAST)
		return rw_parse_wireless(p, b, wire);
	return rw_parse_ether_type(p, b, wire, protocol);
}

static enum rw_parse parse_gtp(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	uint8_t flags = rw_bytes_u8(&b), message = rw_bytes_u8(&b);
	rw_bytes_skip(&b, 6);
	if (flags >> 5 != 1 || message != GTP_G_PDU)
		return RW_PARSE_OTHER;
	size_t header = 8;
	if (flags & 7) {
		rw_bytes_skip(&b, 3);
		uint8_t next = rw_bytes_u8(&b);
		header += 4;
		for (int i = 0; next && i < GTP_EXTENSIONS_MAX && !b.short_read; i++) {
			size_t length = (size_t)rw_bytes_u8(&b) * 4;
			if (length == 0)
				return rw_parse_odd(p, RW_ODDITY_BAD_OPTION_LENGTH);
			rw_bytes_skip(&b, length - 2);
			next = rw_bytes_u8(&b);
			header += length;
		}
	}
	return rw_parse_ip(p, b, less(wire, header));
}

static enum rw_parse parse_vxlan(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	uint8_t flags = rw_bytes_u8(&b);
	rw_bytes_skip(&b, 7);
	return flags & 8 ? rw_parse_ethernet(p, b, less(wire, 8)) : RW_PARSE_OTHER;
}

static enum rw_parse parse_geneve(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	uint8_t first = rw_bytes_u8(&b);
	size_t header = 8 + (size_t)(first & 63) * 4;
	rw_bytes_skip(&b, 1);
	uint16_t protocol = rw_bytes_u16(&b);
	rw_bytes_skip(&b, header - 4);
	if (first >> 6 || b.short_read)
		return RW_PARSE_OTHER;
	wire = less(wire, header);
	return protocol == ETHER_TRANSPARENT_BRIDGING ? rw_parse_ethernet(p, b, wire)
						      : rw_parse_ether_type(p, b, wire, protocol);
}

enum rw_parse rw_parse_udp(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	uint16_t source = rw_bytes_u16(&b), destination = rw_bytes_u16(&b);
	rw_bytes_skip(&b, 4);
	wire = less(wire, 8);
	if (b.short_read)
		return RW_PARSE_OTHER;
	switch (destination) {
	case PORT_GTP_U:
		return parse_gtp(p, b, wire);
	case PORT_VXLAN:
	case PORT_VXLAN_LINUX:
		return parse_vxlan(p, b, wire);
	case PORT_GENEVE:
		return parse_geneve(p, b, wire);
	default:
		return source == PORT_GTP_U ? parse_gtp(p, b, wire) : RW_PARSE_OTHER;
	}
}
