/* TCP (RFC 9293) and its options. */
#include "packet.h"
#include "rw_ways.h"

enum {
	OPTION_END = 0,
	OPTION_NOP = 1,
	OPTION_MSS = 2,
	OPTION_WINDOW_SCALE = 3,
	OPTION_SACK_PERMITTED = 4,
	OPTION_SACK = 5,
	OPTION_TIMESTAMPS = 8
};

/* Twice the largest segment that segmentation offload makes (512 KiB). */
#define PAYLOAD_MAX (1u << 20)

static void parse_sack(struct rw_bytes b, struct rw_packet *packet)
{
	while (packet->sack_count < RW_SACK_MAX && rw_bytes_left(&b) >= 8) {
		packet->sack[packet->sack_count].start = rw_bytes_u32(&b);
		packet->sack[packet->sack_count].end = rw_bytes_u32(&b);
		packet->sack_count++;
	}
}

/* 0: the list of options contradicts itself. last: the kind of the option that was read last, perhaps only in part. */
static int parse_options(struct rw_bytes b, struct rw_packet *packet, uint8_t *last)
{
	while (rw_bytes_left(&b)) {
		uint8_t kind = *last = rw_bytes_u8(&b);
		if (kind == OPTION_END)
			return 1;
		if (kind == OPTION_NOP)
			continue;
		uint8_t length = rw_bytes_u8(&b);
		if (length < 2)
			return 0;
		struct rw_bytes value = rw_bytes_take(&b, length - 2u);
		if (value.short_read)
			return 0;
		switch (kind) {
		case OPTION_MSS:
			if (length != 4)
				return 0;
			packet->mss = rw_bytes_u16(&value);
			packet->option_mss = 1;
			break;
		case OPTION_WINDOW_SCALE:
			if (length != 3)
				return 0;
			packet->window_scale = rw_bytes_u8(&value);
			if (packet->window_scale > 14)
				packet->window_scale = 14; /* RFC 7323 2.3 */
			packet->has_window_scale = 1;
			break;
		case OPTION_SACK_PERMITTED:
			packet->sack_permitted = 1;
			break;
		case OPTION_SACK:
			if ((length - 2) % 8)
				return 0;
			parse_sack(value, packet);
			break;
		case OPTION_TIMESTAMPS:
			if (length != 10)
				return 0;
			packet->ts_value = rw_bytes_u32(&value);
			packet->ts_echo = rw_bytes_u32(&value);
			packet->has_timestamps = 1;
			break;
		case RW_OPTION_MPTCP:
			if (!packet->mptcp.seen)
				memset(&packet->mptcp, 0, sizeof packet->mptcp);
			if (!rw_parse_mptcp(value, packet->flags, &packet->mptcp))
				return 0;
			break;
		default:
			break;
		}
	}
	return 1;
}

enum rw_parse rw_parse_tcp(struct rw_parser *p, struct rw_bytes b, uint32_t wire)
{
	struct rw_packet *packet = p->packet;
	const uint8_t *h = rw_bytes_view(&b, 20);
	if (!h)
		return rw_parse_odd(p, RW_ODDITY_TRUNCATED_HEADER);
	uint8_t header = rw_tcp_header_bytes(h);
	if (header < 20 || header > wire || wire - header > PAYLOAD_MAX)
		return rw_parse_odd(p, RW_ODDITY_BAD_LENGTH);
	rw_parse_tcp_fixed(packet, h, wire - header);
	packet->tcp_header_bytes = header;
	rw_layer_seen(p, RW_LAYER_TCP, h, header);
	uint32_t length = header - 20u;
	struct rw_bytes options = rw_bytes_take(&b, length);
	/* Most stacks put timestamps first, in this form (RFC 7323, appendix A). */
	if (RW_SHORT_WAY(rw_bytes_left(&options) >= 12) && rw_load_u32(options.at) == RW_TIMESTAMPS_ALONE) {
		rw_store_fields(packet, offsetof(struct rw_packet, ts_value), rw_load_fields(options.at + 4));
		packet->has_timestamps = 1;
		rw_bytes_skip(&options, 12);
		if (length == 12)
			return RW_PARSE_TCP;
	}
	int cut = options.short_read;
	options.short_read = 0;
	uint8_t last = OPTION_END;
	int good = parse_options(options, packet, &last);
	if (cut && last != RW_OPTION_MPTCP && !packet->sack_count) /* stacks put MPTCP options last */
		packet->flags |= RW_TCP_CUT;
	if (cut || !good)
		rw_parse_odd(p, cut ? RW_ODDITY_TRUNCATED_HEADER : RW_ODDITY_BAD_OPTION_LENGTH);
	return RW_PARSE_TCP;
}
