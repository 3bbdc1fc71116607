/* Segments under way: their places, their sizes, and what a capture has of them. */
#include "simulation.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"

/* When a simulation begins, in its captures. */
#define TRACE_ZERO_NS (1000000000 * (int64_t)1000000000)

enum { WIRES_MAX = 1 << 22, MP_VERSION = 1, SYN_OPTION_BYTES = 20 };

/* A segment that is filled by the caller; null: out of memory, or too many are under way. */
static struct rw_wire *take_wire(rw_simulation *s, uint32_t *number)
{
	if (s->wires_free == RW_NO_WIRE) {
		if (s->wires == s->wires_room) {
			uint32_t room = s->wires_room ? 2 * s->wires_room : 1024;
			struct rw_wire *grown =
			    room <= WIRES_MAX ? aligned_alloc(RW_CACHE_LINE_BYTES, room * sizeof *grown) : NULL;
			if (!grown) {
				s->failed = 1;
				return NULL;
			}
			if (s->wires)
				memcpy(grown, s->wire, s->wires * sizeof *grown);
			free(s->wire);
			s->wire = grown;
			s->wires_room = room;
		}
		*number = s->wires++;
	} else {
		*number = s->wires_free;
		s->wires_free = s->wire[*number].free_next;
	}
	return &s->wire[*number];
}

void rw_wire_free(rw_simulation *s, uint32_t number)
{
	s->wire[number].free_next = s->wires_free;
	s->wires_free = number;
}

/* SYNs carry more options; a SACK option has 2 bytes for itself and 2 to align it. */
static uint32_t packet_bytes(const rw_simulation *s, const struct rw_wire *w)
{
	const struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	uint32_t options = w->flags & RW_FLAG_SYN ? SYN_OPTION_BYTES - RW_TIMESTAMP_BYTES
			   : w->sacks             ? 4 + 8u * w->sacks
						  : 0;
	if (s->connection[f->connection].stream)
		options += w->bytes ? RW_DATA_MAPPING_BYTES : RW_DATA_ACK_BYTES;
	return f->header_bytes + options + w->bytes;
}

/* RFC 3168 6.1: only data, and not a SYN, is sent as capable of ECN. */
static int ecn_capable(const rw_simulation *s, const struct rw_wire *w)
{
	return s->connection[s->subflow[w->subflow].connection].settings.ecn && w->bytes;
}

/* What the capture has of a segment that leaves a host (side: 0 the sender of data) or reaches it. */
void rw_wire_trace(rw_simulation *s, const struct rw_wire *w, int side)
{
	if (!s->trace || side != s->traced_side)
		return;
	const struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	const struct rw_simulated_connection *c = &s->connection[f->connection];
	int syn = w->flags & RW_FLAG_SYN, first = w->subflow == c->first;
	int third = !syn && !w->back && !w->bytes && !w->announces;
	struct rw_trace_packet p = {.time_ns = TRACE_ZERO_NS + s->now_ns,
				    .ends = &f->ends,
				    .from = w->back,
				    .syn = syn != 0,
				    .ack_flag = !syn || w->back,
				    .push = (w->flags & RW_FLAG_PSH) != 0,
				    .ece = (w->flags & RW_FLAG_ECE) != 0 || (syn && c->settings.ecn),
				    .cwr = (w->flags & RW_FLAG_CWR) != 0 || (syn && c->settings.ecn && !w->back),
				    .ecn_capable = (uint8_t)ecn_capable(s, w),
				    .marked = w->marked,
				    .sack_permitted = c->settings.sack != 0,
				    .timestamps = c->settings.timestamps != 0,
				    .sacks = w->sacks,
				    .identification = w->identification,
				    .sequence = w->back ? !syn : w->sequence,
				    .ack = w->back ? (syn ? 1 : w->ack) : 1,
				    .bytes = w->bytes,
				    .window_bytes = w->back ? w->window_bytes : UINT16_MAX,
				    .mss = f->mss + (c->settings.timestamps ? RW_TIMESTAMP_BYTES : 0) +
					   (c->stream ? RW_DATA_MAPPING_BYTES : 0),
				    .ts_value = w->ts_value,
				    .ts_echo = w->ts_echo,
				    .key = {c->key[0], c->key[1]}};
	if (w->back)
		memcpy(p.sack, w->sack, sizeof p.sack);
	if (c->stream) {
		struct rw_key_identity sends = rw_key_identify(c->key[0], MP_VERSION),
				       receives = rw_key_identify(c->key[1], MP_VERSION);
		p.option = !syn && !third ? RW_TRACE_DATA : first ? RW_TRACE_CAPABLE : RW_TRACE_JOIN;
		p.token = receives.token;
		p.nonce = 1 + w->subflow;
		p.data_ack = w->back ? sends.idsn + 1 + w->data_ack : receives.idsn + 1;
		if (w->bytes) {
			struct rw_mapping m = w->mapping;
			p.data_sequence = sends.idsn + 1 + m.data;
			p.mapping_start = m.start;
			p.mapping_bytes = (uint16_t)m.bytes;
		}
	}
	rw_trace_packet(s->trace, &p);
}

void rw_wire_send(rw_simulation *s, const struct rw_wire *wire)
{
	uint32_t number;
	struct rw_wire *w = take_wire(s, &number);
	if (!w)
		return;
	*w = *wire;
	struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	w->identification = f->identification[w->back]++;
	rw_wire_trace(s, w, w->back);
	switch (rw_network_send(s->network, s->now_ns, w->back ? f->route_back : f->route, number, packet_bytes(s, w),
				ecn_capable(s, w))) {
	case RW_NETWORK_LOST:
		rw_wire_free(s, number);
		break;
	case RW_NETWORK_FAILED:
		s->failed = 1;
		break;
	default:
		break;
	}
}
