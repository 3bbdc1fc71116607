/*
 * Encapsulations of Ethernet, PPP or IP: LLC/SNAP (RFC 1042), 802.11, PPP (RFC 1661), GRE (RFC 2784,
 * 2890, 2637) and mirrored frames in it (draft-foschiano-erspan), VXLAN (RFC 7348) and its generic protocol extension
 * (draft-ietf-nvo3-vxlan-gpe), GENEVE (RFC 8926), GTP-U (3GPP TS 29.281), L2TP (RFC 2661, 3931), Teredo (RFC 4380), LISP
 * (RFC 9300), CAPWAP (RFC 5415), MPLS in UDP (RFC 7510), TZSP. The innermost TCP is the packet.
 */
#include "packet.h"

enum {
	PPP_IPV4 = 0x0021,
	PPP_COMPRESSED_TCP = 0x002d,
	PPP_UNCOMPRESSED_TCP = 0x002f,
	PPP_MULTILINK = 0x003d,
	PPP_IPV6 = 0x0057,
	PPP_MULTIPLEXED = 0x0059,
	PPP_MPLS = 0x0281
};
enum {
	ETHER_IPV4 = 0x0800,
	ETHER_IPV6 = 0x86dd,
	ETHER_TRANSPARENT_BRIDGING = 0x6558,
	ETHER_PPP = 0x880b,
	ETHER_ARUBA_FIRST = 0x8200,
	ETHER_ARUBA_LAST = 0x8210,
	ETHER_ERSPAN = 0x88be,
	ETHER_ERSPAN_III = 0x22eb,
	ETHER_WCCP = 0x883e,
	ETHER_MPLS = 0x8847,
	ETHER_NSH = 0x894f
};
enum {
	PORT_L2TP = 1701,
	PORT_GTP_U = 2152,
	PORT_TEREDO = 3544,
	PORT_LISP = 4341,
	PORT_VXLAN = 4789,
	PORT_VXLAN_GPE = 4790,
	PORT_CAPWAP = 5247,
	PORT_GENEVE = 6081,
	PORT_MPLS = 6635,
	PORT_VXLAN_LINUX = 8472,
	PORT_TZSP = 37008
};
#define GTP_EXTENSIONS_MAX 8
#define GTP_G_PDU 255

static uint32_t less(uint32_t wire, size_t n) { return wire > n ? wire - (uint32_t)n : 0; }

enum rw_parse rw_parse_ethernet(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at, 12);
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
	enum {
		SAP_SNAP = 0xaaaa,
		SAP_IP = 0x0606,
		OUI_BRIDGED = 0x0080c2,
		BRIDGED_ETHERNET = 7,
		BRIDGED_ETHERNET_FCS = 1
	};
	uint16_t access = rw_bytes_u16(&b);
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	if (access == SAP_IP) {
		rw_bytes_skip(&b, 1);
		return b.short_read ? rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER) : rw_parse_ip(p, b, less(wire, 3));
	}
	if (access != SAP_SNAP)
		return RW_PARSE_OTHER;
	uint32_t control_and_oui = rw_bytes_u32(&b);
	uint16_t type = rw_bytes_u16(&b);
	/* RFC 2684, 2427 */
	if ((control_and_oui & 0xffffff) == OUI_BRIDGED && !b.short_read)
		return type == BRIDGED_ETHERNET || type == BRIDGED_ETHERNET_FCS ? rw_parse_ethernet(p, b, less(wire, 8))
										: RW_PARSE_OTHER;
	return rw_parse_ether_type(p, b, less(wire, 8), type);
}

enum rw_parse rw_parse_wireless(struct rw_parser *p, struct rw_bytes b, uint32_t wire, enum rw_wireless form)
{
	enum { QUALITY_AGGREGATE = 0x80 };
	uint16_t control_field = rw_bytes_u16(&b);
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	if (form == RW_WIRELESS_SWAPPED)
		control_field = __builtin_bswap16(control_field);
	uint8_t first = (uint8_t)(control_field >> 8), second = (uint8_t)control_field;
	int data = (first >> 2 & 3) == 2, without_payload = first >> 4 & 4, quality = first >> 7;
	if (!data || without_payload || second & 0x40) /* encrypted */
		return RW_PARSE_OTHER;
	size_t header = 24 + ((second & 3) == 3 ? 6 : 0);
	rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 2, 18);
	if (header > 24)
		rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 22, 6);
	rw_bytes_skip(&b, header - 2);
	uint8_t control = 0;
	if (quality) {
		control = rw_bytes_u8(&b);
		rw_bytes_skip(&b, 1);
		header += 2;
	}
	size_t rest = quality && second & 0x80 ? 4 : 0;
	rest += form == RW_WIRELESS_PADDED ? (4 - (header + rest) % 4) % 4 : 0;
	rw_bytes_skip(&b, rest);
	header += rest;
	if (!(control & QUALITY_AGGREGATE))
		return rw_parse_llc(p, b, less(wire, header));
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	*rw_aggregate_of(p->fragments) = (struct rw_aggregate){b, less(wire, header)};
	return RW_PARSE_SEVERAL;
}

/*
 * Subframes of an A-MSDU (IEEE 802.11-2020 9.3.2.2): addresses, a length, LLC, and padding to four bytes. An aggregate
 * inside a subframe takes the place of the outer one.
 */
enum rw_parse rw_parse_aggregate(struct rw_parser *p)
{
	enum { SUBFRAME_BYTES = 14 };
	struct rw_aggregate *a = rw_aggregate_of(p->fragments);
	while (a->wire >= SUBFRAME_BYTES) { /* a shorter rest is a frame check sequence */
		const uint8_t *h = rw_bytes_view(&a->rest, SUBFRAME_BYTES);
		if (!h) {
			a->wire = 0;
			return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
		}
		uint32_t length = rw_load_u16(h + 12);
		enum { SNAP_BYTES = 8 };
		rw_layer_seen(p, RW_LAYER_NAMES_HOST, h, 12);
		struct rw_bytes frame = rw_bytes_take(&a->rest, length);
		const uint8_t *frame_end = frame.at + rw_bytes_left(&frame);
		rw_layer_ends(p, rw_bytes_left(&frame) < SNAP_BYTES ? frame_end : frame.at + SNAP_BYTES);
		int cut = frame.short_read;
		frame.short_read = 0;
		rw_bytes_skip(&a->rest, -(SUBFRAME_BYTES + length) & 3u);
		a->wire = less(a->wire, (SUBFRAME_BYTES + length + 3) & ~3u);
		enum rw_parse got = rw_parse_llc(p, frame, length);
		if (p->layers) {
			const uint8_t *headers_end = p->record->bytes + p->layers->headers_end;
			rw_layer_seen(p, RW_LAYER_CARRIED, headers_end, (size_t)(frame_end - headers_end));
			rw_layer_ends(p, frame_end);
		}
		if (got == RW_PARSE_TCP)
			return RW_PARSE_TCP;
		if (got == RW_PARSE_OTHER && cut)
			a->wire = 0; /* the record has no more bytes; the cut is counted */
	}
	return RW_PARSE_OTHER;
}

/* Does a PPP header with IP in it begin at this offset? */
static int looks_like_ppp(struct rw_bytes b, size_t at)
{
	rw_bytes_skip(&b, at);
	uint16_t protocol = rw_bytes_u8(&b);
	if (protocol == 0xff) {
		rw_bytes_skip(&b, 1);
		protocol = rw_bytes_u8(&b);
	}
	if (protocol == 0)
		protocol = rw_bytes_u8(&b);
	uint8_t version = rw_bytes_u8(&b) >> 4;
	return !b.short_read && ((protocol == PPP_IPV4 && version == 4) || (protocol == PPP_IPV6 && version == 6));
}

/*
 * Multilink PPP (RFC 1990). The fragment that begins a packet has the packet's headers, which say its length; the others are
 * skipped. The sequence number has 24 bits, or 12 where both sides agreed on that.
 */
static enum rw_parse parse_multilink(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { BEGINS = 0x80, NUMBER_LONG = 4, NUMBER_SHORT = 2 };
	if (!rw_bytes_has(&b, 1))
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	if (!(*b.at & BEGINS))
		return RW_PARSE_OTHER;
	size_t header = !looks_like_ppp(b, NUMBER_LONG) && looks_like_ppp(b, NUMBER_SHORT) ? NUMBER_SHORT : NUMBER_LONG;
	rw_bytes_skip(&b, header);
	return rw_parse_ppp(p, b, less(wire, header));
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
	if (!(protocol & 1)) { /* a protocol number ends in an odd octet; an odd first octet is a compressed number */
		protocol = (uint16_t)(protocol << 8 | rw_bytes_u8(&b));
		header++;
	}
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	wire = less(wire, header);
	if (protocol == PPP_MPLS)
		return rw_parse_ether_type(p, b, wire, ETHER_MPLS);
	if (protocol == PPP_MULTILINK)
		return parse_multilink(p, b, wire);
	/* RFC 1144: the first packet of a connection has the connection's number in place of the protocol TCP. RFC 3153. */
	if (protocol == PPP_COMPRESSED_TCP || protocol == PPP_UNCOMPRESSED_TCP || protocol == PPP_MULTIPLEXED)
		return rw_parse_odd(p, RW_ODDITY_COMPRESSED_PPP);
	return protocol == PPP_IPV4 || protocol == PPP_IPV6 ? rw_parse_ip(p, b, wire) : RW_PARSE_OTHER;
}

/* ERSPAN. Type I has no header, type II has 8 bytes, type III has 12 bytes and an optional 8 more. */
static enum rw_parse parse_erspan(struct rw_parser *p, struct rw_bytes b, uint32_t wire, int with_header)
{
	enum { FRAME_IP = 2 };
	if (!with_header)
		return rw_parse_ethernet(p, b, wire);
	uint8_t version = rw_bytes_u8(&b) >> 4;
	rw_bytes_skip(&b, 7);
	uint16_t bits = 0;
	size_t header = 8;
	if (version == 2) {
		rw_bytes_skip(&b, 2);
		bits = rw_bytes_u16(&b);
		rw_bytes_skip(&b, bits & 1 ? 8 : 0);
		header += 4 + (bits & 1 ? 8 : 0);
	}
	if (b.short_read)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	wire = less(wire, header);
	return (bits >> 10 & 31) == FRAME_IP ? rw_parse_ip(p, b, wire) : rw_parse_ethernet(p, b, wire);
}

enum rw_parse rw_parse_gre(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	uint16_t flags = rw_bytes_u16(&b), protocol = rw_bytes_u16(&b);
	size_t header = 4;
	if (flags & 0xc000) { /* checksum and offset */
		rw_layer_seen(p, RW_LAYER_CARRIED, b.at, 2);
		header += 4;
	}
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
		return rw_parse_wireless(p, b, wire, RW_WIRELESS_PLAIN);
	if (protocol == ETHER_ERSPAN || protocol == ETHER_ERSPAN_III)
		return parse_erspan(p, b, wire, flags & 0x1000);
	if (protocol == ETHER_WCCP) { /* a redirect header (draft-wilson-wrec-wccp-v2), or none */
		int redirect = rw_bytes_left(&b) && *b.at >> 4 != 4;
		rw_bytes_skip(&b, redirect ? 4 : 0);
		return rw_parse_ip(p, b, less(wire, redirect ? 4 : 0));
	}
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
		next = flags & 4 ? next : 0; /* 5.1: a number or an N-PDU number alone leaves it undefined */
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
	rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 4, header - 8);
	rw_bytes_skip(&b, header - 4);
	if (first >> 6 || b.short_read)
		return RW_PARSE_OTHER;
	wire = less(wire, header);
	return protocol == ETHER_TRANSPARENT_BRIDGING ? rw_parse_ethernet(p, b, wire)
						      : rw_parse_ether_type(p, b, wire, protocol);
}

static enum rw_parse parse_vxlan_gpe(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { NEXT_GIVEN = 4, NEXT_IPV4 = 1, NEXT_IPV6 = 2, NEXT_NSH = 4 };
	uint8_t flags = rw_bytes_u8(&b);
	rw_bytes_skip(&b, 2);
	uint8_t next = rw_bytes_u8(&b);
	rw_bytes_skip(&b, 4);
	wire = less(wire, 8);
	if (flags & NEXT_GIVEN && (next == NEXT_IPV4 || next == NEXT_IPV6))
		return rw_parse_ip(p, b, wire);
	if (flags & NEXT_GIVEN && next == NEXT_NSH)
		return rw_parse_ether_type(p, b, wire, ETHER_NSH);
	return flags & 8 ? rw_parse_ethernet(p, b, wire) : RW_PARSE_OTHER;
}

/* Does an Ethernet header begin at this offset, and IP behind it if its type says IP? */
static int looks_like_frame(struct rw_bytes b, size_t at)
{
	if (!rw_looks_like_ethernet(b, at))
		return 0;
	rw_bytes_skip(&b, at + 12);
	uint16_t type = rw_bytes_u16(&b);
	uint8_t version = rw_bytes_u8(&b) >> 4;
	return (type != ETHER_IPV4 || version == 4) && (type != ETHER_IPV6 || version == 6);
}

/*
 * L2TPv3 (RFC 3931): a session number, a cookie of 0, 4 or 8 bytes, a sublayer of 0 or 4, then Ethernet or PPP. Both sides agreed
 * on these lengths when they set the session up, and the capture need not show that. Session 0 carries control messages.
 */
enum rw_parse rw_parse_l2tpv3(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { BEFORE_MAX = 12 };
	uint32_t session = rw_bytes_u32(&b);
	wire = less(wire, 4);
	for (uint32_t before = 0; session && before <= BEFORE_MAX; before += 4) {
		int ppp = looks_like_ppp(b, before);
		if (!ppp && !looks_like_frame(b, before))
			continue;
		rw_bytes_skip(&b, before);
		return ppp ? rw_parse_ppp(p, b, less(wire, before)) : rw_parse_ethernet(p, b, less(wire, before));
	}
	return b.short_read ? rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER) : RW_PARSE_OTHER;
}

static enum rw_parse parse_l2tp(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { CONTROL = 0x8000, LENGTH = 0x4000, SEQUENCE = 0x0800, OFFSET = 0x0200, VERSION = 15 };
	uint16_t flags = rw_bytes_u16(&b);
	if (!(flags & CONTROL) && (flags & VERSION) == 3) {
		rw_bytes_skip(&b, 2);
		return rw_parse_l2tpv3(p, b, less(wire, 4));
	}
	if (flags & CONTROL || (flags & VERSION) != 2)
		return RW_PARSE_OTHER;
	size_t header = 6 + (flags & LENGTH ? 2 : 0) + (flags & SEQUENCE ? 4 : 0);
	rw_bytes_skip(&b, header - 2);
	if (flags & OFFSET) {
		size_t padding = rw_bytes_u16(&b);
		rw_bytes_skip(&b, padding);
		header += 2 + padding;
	}
	return rw_parse_ppp(p, b, less(wire, header));
}

/* Teredo: IPv6, perhaps behind an origin indication. A packet with authentication is a request to a server. */
static enum rw_parse parse_teredo(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { ORIGIN_BYTES = 8 };
	if (rw_bytes_left(&b) > 1 && b.at[0] == 0 && b.at[1] == 0) {
		rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 2, ORIGIN_BYTES - 2);
		rw_bytes_skip(&b, ORIGIN_BYTES);
		wire = less(wire, ORIGIN_BYTES);
	}
	return rw_bytes_left(&b) && *b.at >> 4 == 6 ? rw_parse_ip(p, b, wire) : RW_PARSE_OTHER;
}

static enum rw_parse parse_capwap(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum { WIRELESS = 0x100, FRAGMENT = 0x80 };
	uint8_t preamble = rw_bytes_u8(&b), length = rw_bytes_u8(&b);
	uint16_t bits = rw_bytes_u16(&b);
	size_t header = (size_t)(length >> 3) * 4;
	if (preamble || header < 8 || bits & FRAGMENT)
		return RW_PARSE_OTHER;
	rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at + 4, header - 8);
	rw_bytes_skip(&b, header - 4);
	wire = less(wire, header);
	if (!(bits & WIRELESS))
		return rw_parse_ethernet(p, b, wire);
	/* Cisco's access points swap the first two bytes of a data frame (version 0, type 2). */
	int swapped = rw_bytes_left(&b) > 1 && (b.at[0] & 15) != 8 && (b.at[1] & 15) == 8;
	return rw_parse_wireless(p, b, wire, swapped ? RW_WIRELESS_SWAPPED : RW_WIRELESS_PLAIN);
}

/* TZSP, frames that a sniffer forwards: tags up to an end tag, then the frame. */
static enum rw_parse parse_tzsp(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	enum {
		VERSION = 1,
		RECEIVED = 0,
		TRANSMIT = 1,
		FRAME_ETHERNET = 1,
		FRAME_WIRELESS = 18,
		TAG_PADDING = 0,
		TAG_END = 1
	};
	uint8_t version = rw_bytes_u8(&b), type = rw_bytes_u8(&b);
	uint16_t frame = rw_bytes_u16(&b);
	if (version != VERSION || (type != RECEIVED && type != TRANSMIT))
		return RW_PARSE_OTHER;
	size_t before = rw_bytes_left(&b) + 4;
	for (uint8_t tag = TAG_PADDING; tag != TAG_END && !b.short_read;) {
		tag = rw_bytes_u8(&b);
		if (tag != TAG_PADDING && tag != TAG_END) {
			uint8_t length = rw_bytes_u8(&b);
			rw_layer_seen(p, RW_LAYER_NAMES_HOST, b.at, length);
			rw_bytes_skip(&b, length);
		}
	}
	wire = less(wire, before - rw_bytes_left(&b));
	if (frame == FRAME_WIRELESS)
		return rw_parse_wireless(p, b, wire, RW_WIRELESS_PLAIN);
	return frame == FRAME_ETHERNET ? rw_parse_ethernet(p, b, wire) : RW_PARSE_OTHER;
}

enum rw_parse rw_parse_udp(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	rw_layer_seen(p, RW_LAYER_UDP, b.at, 8);
	uint16_t source = rw_bytes_u16(&b), destination = rw_bytes_u16(&b);
	rw_bytes_skip(&b, 4);
	wire = less(wire, 8);
	if (b.short_read)
		return RW_PARSE_OTHER;
	switch (destination) {
	case PORT_VXLAN:
	case PORT_VXLAN_LINUX:
		return parse_vxlan(p, b, wire);
	case PORT_VXLAN_GPE:
		return parse_vxlan_gpe(p, b, wire);
	case PORT_GENEVE:
		return parse_geneve(p, b, wire);
	case PORT_LISP:
		rw_bytes_skip(&b, 8);
		return rw_parse_ip(p, b, less(wire, 8));
	case PORT_MPLS:
		return rw_parse_ether_type(p, b, wire, ETHER_MPLS);
	case PORT_TZSP:
		return parse_tzsp(p, b, wire);
	default:
		break;
	}
	/* Servers of these protocols answer from their own port to any port. */
	switch (source == PORT_GTP_U || source == PORT_L2TP || source == PORT_TEREDO || source == PORT_CAPWAP
		    ? source
		    : destination) {
	case PORT_GTP_U:
		return parse_gtp(p, b, wire);
	case PORT_L2TP:
		return parse_l2tp(p, b, wire);
	case PORT_TEREDO:
		return parse_teredo(p, b, wire);
	case PORT_CAPWAP:
		return parse_capwap(p, b, wire);
	default:
		return RW_PARSE_OTHER;
	}
}
