/* MPTCP options: RFC 6824 (version 0) and RFC 8684 (version 1). */
#include "packet.h"

static int parse_capable(struct rw_bytes b, uint8_t version, struct rw_mptcp *m)
{
	size_t rest = rw_bytes_left(&b);
	/* After subtype and flags: nothing (v1 SYN), one or two keys, and in v1 with data a length and a checksum. */
	if (rest != 1 && rest != 9 && rest != 17 && rest != 19 && rest != 21)
		return 0;
	uint8_t flags = rw_bytes_u8(&b);
	m->version = version;
	m->checksum_required = flags >> 7;
	m->keys = rest >= 17 ? 2 : rest >= 9 ? 1 : 0;
	for (int i = 0; i < m->keys; i++)
		m->key[i] = rw_bytes_u64(&b);
	if (rest >= 19) { /* RFC 8684 3.1: the mapping of the first data, from data sequence number IDSN + 1 */
		m->dss_mapping = 1;
		m->data_length = rw_bytes_u16(&b);
		m->subflow_sequence = 1;
	}
	return 1;
}

static int parse_join(struct rw_bytes b, uint8_t low, uint16_t tcp_flags, struct rw_mptcp *m)
{
	size_t rest = rw_bytes_left(&b);
	if (tcp_flags & RW_TCP_SYN) {
		if (rest != ((tcp_flags & RW_TCP_ACK) ? 13u : 9u))
			return 0;
		m->join_backup = low & 1;
		m->join_address_id = rw_bytes_u8(&b);
		if (!(tcp_flags & RW_TCP_ACK)) {
			m->join_token = rw_bytes_u32(&b);
			m->has_join_token = 1;
		}
		return 1;
	}
	return rest == 21;
}

static int parse_dss(struct rw_bytes b, struct rw_mptcp *m)
{
	uint8_t flags = rw_bytes_u8(&b);
	if (flags & 1) {
		m->dss_data_ack = 1;
		m->data_ack = flags & 2 ? rw_bytes_u64(&b) : rw_bytes_u32(&b);
	}
	m->dss_data_fin = flags >> 4 & 1;
	if (flags & 4) {
		m->dss_mapping = 1;
		m->dss_wide = flags >> 3 & 1;
		m->data_sequence = m->dss_wide ? rw_bytes_u64(&b) : rw_bytes_u32(&b);
		m->subflow_sequence = rw_bytes_u32(&b);
		m->data_length = rw_bytes_u16(&b);
		if (rw_bytes_left(&b) >= 2)
			rw_bytes_skip(&b, 2); /* checksum */
	}
	if (b.short_read) {
		m->dss_data_ack = m->dss_mapping = m->dss_data_fin = 0;
		return 0;
	}
	return 1;
}

int rw_parse_dss_alone(struct rw_bytes b, uint32_t bytes, struct rw_mptcp *m)
{
	enum { HEAD = 4, PLACE_AND_LENGTH = 6, CHECKSUM = 2, NOP = 1 };
	const uint8_t *h = rw_bytes_view(&b, bytes);
	if (!h || bytes < HEAD || h[0] != RW_OPTION_MPTCP || h[2] >> 4 != RW_MP_DSS)
		return 0;
	uint32_t flags = h[3], ack = flags & 1 ? flags & 2 ? 8 : 4 : 0, sequence = flags & 4 ? flags & 8 ? 8 : 4 : 0;
	uint32_t fields = ack + (sequence ? sequence + PLACE_AND_LENGTH : 0), length = h[1];
	if (length != HEAD + fields && (length != HEAD + fields + CHECKSUM || !sequence))
		return 0;
	if (length > bytes)
		return 0;
	for (uint32_t i = length; i < bytes; i++)
		if (h[i] != NOP)
			return 0;
	const uint8_t *at = h + HEAD;
	*m = (struct rw_mptcp){.seen = 1 << RW_MP_DSS, .dss_data_ack = ack != 0, .dss_data_fin = flags >> 4 & 1};
	if (ack)
		m->data_ack = ack == 8 ? rw_load_u64(at) : rw_load_u32(at);
	if (!sequence)
		return 1;
	m->dss_mapping = 1;
	m->dss_wide = sequence == 8;
	m->data_sequence = m->dss_wide ? rw_load_u64(at + ack) : rw_load_u32(at + ack);
	m->subflow_sequence = rw_load_u32(at + ack + sequence);
	m->data_length = rw_load_u16(at + ack + sequence + 4);
	return 1;
}

int rw_parse_mptcp(struct rw_bytes b, uint16_t tcp_flags, struct rw_mptcp *m)
{
	if (!rw_bytes_has(&b, 1))
		return 0;
	uint8_t first = rw_bytes_u8(&b), subtype = first >> 4, low = first & 15;
	int good = 1;
	switch (subtype) {
	case RW_MP_CAPABLE:
		good = parse_capable(b, low, m);
		break;
	case RW_MP_JOIN:
		good = parse_join(b, low, tcp_flags, m);
		break;
	case RW_MP_DSS:
		good = parse_dss(b, m);
		break;
	case RW_MP_PRIO:
		m->prio_backup = low & 1;
		m->prio_elsewhere = rw_bytes_left(&b) > 0;
		break;
	case RW_MP_ADD_ADDR:
		good = rw_bytes_left(&b) >= 5;
		break;
	case RW_MP_REMOVE_ADDR:
		good = rw_bytes_left(&b) >= 1;
		break;
	case RW_MP_FAIL:
	case RW_MP_FASTCLOSE:
		good = rw_bytes_left(&b) >= 9;
		break;
	case RW_MP_TCPRST:
		good = rw_bytes_left(&b) >= 1;
		break;
	default:
		return 1; /* reserved and experimental subtypes */
	}
	if (good)
		m->seen |= (uint16_t)(1u << subtype);
	return good;
}
