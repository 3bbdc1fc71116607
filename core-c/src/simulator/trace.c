#include "trace.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
	PACKET_MAX = 40 + 60,
	BLOCK_MAX = 32 + PACKET_MAX + 4,
	LINK_RAW = 101,
	SNAP = 256,
	SECTION_BLOCK = 0x0a0d0d0a,
	INTERFACE_BLOCK = 1,
	PACKET_BLOCK = 6,
	BYTE_ORDER = 0x1a2b3c4d,
	TSRESOL_OPTION = 9,
	NANOSECONDS = 9,
	FLAG_SYN = 2,
	FLAG_PSH = 8,
	FLAG_ACK = 16,
	FLAG_ECE = 64,
	FLAG_CWR = 128,
	KIND_NOP = 1,
	KIND_MSS = 2,
	KIND_SCALE = 3,
	KIND_SACK_PERMITTED = 4,
	KIND_SACK = 5,
	KIND_TIMESTAMPS = 8,
	KIND_MPTCP = 30,
	MP_CAPABLE = 0,
	MP_JOIN = 1,
	MP_DSS = 2,
	MP_VERSION = 1,
	MP_SHA256 = 1,
	DSS_ACK = 1,
	DSS_ACK_8 = 2,
	DSS_MAPPING = 4,
	DSS_SEQUENCE_8 = 8,
	HOP_LIMIT = 64,
	PROTOCOL_TCP = 6,
	ECT0 = 2,
	CE = 3
};

static void flush(struct rw_trace *t)
{
	for (size_t done = 0; done < t->used && !t->error;) {
		ssize_t n = write(t->fd, t->buffer + done, t->used - done);
		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			t->error = errno;
	}
	t->used = 0;
}

/* The host's byte order, as a pcapng section may have. */
static void put(struct rw_trace *t, const void *bytes, size_t n)
{
	memcpy(t->buffer + t->used, bytes, n);
	t->used += n;
}

static void put32(struct rw_trace *t, uint32_t value) { put(t, &value, sizeof value); }
static void put16(struct rw_trace *t, uint16_t value) { put(t, &value, sizeof value); }

void rw_trace_open(struct rw_trace *t, int fd)
{
	t->fd = fd;
	t->used = 0;
	t->error = 0;
	const uint32_t section_bytes = 28, interface_bytes = 32;
	put32(t, SECTION_BLOCK);
	put32(t, section_bytes);
	put32(t, BYTE_ORDER);
	put16(t, 1);
	put16(t, 0);
	put32(t, UINT32_MAX);
	put32(t, UINT32_MAX); /* the section's length is not told */
	put32(t, section_bytes);
	put32(t, INTERFACE_BLOCK);
	put32(t, interface_bytes);
	put16(t, LINK_RAW);
	put16(t, 0);
	put32(t, SNAP);
	put16(t, TSRESOL_OPTION);
	put16(t, 1);
	put32(t, NANOSECONDS);
	put32(t, 0); /* end of options */
	put32(t, interface_bytes);
}

int rw_trace_close(struct rw_trace *t)
{
	flush(t);
	return t->error;
}

/* Headers, in the network's byte order. */
struct header {
	uint8_t byte[PACKET_MAX];
	size_t used;
};

static void be(struct header *h, uint64_t value, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--)
		h->byte[h->used++] = (uint8_t)(value >> 8 * i);
}

static void nops(struct header *h, size_t begin)
{
	while ((h->used - begin) % 4)
		be(h, KIND_NOP, 1);
}

static void put_capable(struct header *h, const struct rw_trace_packet *p)
{
	int keys = !p->syn ? 2 : p->ack_flag ? 1 : 0;
	be(h, KIND_MPTCP, 1);
	be(h, 4 + 8 * (unsigned)keys, 1);
	be(h, MP_CAPABLE << 4 | MP_VERSION, 1);
	be(h, MP_SHA256, 1);
	if (keys)
		be(h, p->key[p->from], 8);
	if (keys == 2)
		be(h, p->key[1 - p->from], 8);
}

/* HMACs are not computed: nobody who reads a capture can check them without the keys' packets, and readers here do not. */
static void put_join(struct header *h, const struct rw_trace_packet *p)
{
	be(h, KIND_MPTCP, 1);
	be(h, !p->syn ? 24 : p->ack_flag ? 16 : 12, 1);
	be(h, MP_JOIN << 4, 1);
	be(h, p->syn, 1); /* address identifier, and 0 in the third packet */
	if (!p->syn) {
		be(h, 0, 4);
		be(h, 0, 8);
		be(h, 0, 8);
	} else if (p->ack_flag) {
		be(h, 0, 8);
		be(h, p->nonce, 4);
	} else {
		be(h, p->token, 4);
		be(h, p->nonce, 4);
	}
}

static void put_data(struct header *h, const struct rw_trace_packet *p)
{
	be(h, KIND_MPTCP, 1);
	if (!p->mapping_bytes) {
		be(h, 12, 1);
		be(h, MP_DSS << 4, 1);
		be(h, DSS_ACK | DSS_ACK_8, 1);
		be(h, p->data_ack, 8);
		return;
	}
	be(h, 22, 1);
	be(h, MP_DSS << 4, 1);
	be(h, DSS_ACK | DSS_MAPPING | DSS_SEQUENCE_8, 1);
	be(h, p->data_ack, 4);
	be(h, p->data_sequence, 8);
	be(h, p->mapping_start, 4);
	be(h, p->mapping_bytes, 2);
}

static void put_options(struct header *h, const struct rw_trace_packet *p)
{
	size_t begin = h->used;
	if (p->syn) {
		be(h, KIND_MSS, 1);
		be(h, 4, 1);
		be(h, p->mss, 2);
	}
	if (p->syn && p->sack_permitted) {
		be(h, KIND_SACK_PERMITTED, 1);
		be(h, 2, 1);
	}
	if (p->timestamps) {
		if (!(p->syn && p->sack_permitted))
			be(h, (uint64_t)KIND_NOP << 8 | KIND_NOP, 2);
		be(h, KIND_TIMESTAMPS, 1);
		be(h, 10, 1);
		be(h, p->ts_value, 4);
		be(h, p->ts_echo, 4);
	}
	if (p->syn) {
		be(h, KIND_NOP, 1);
		be(h, KIND_SCALE, 1);
		be(h, 3, 1);
		be(h, RW_TRACE_WINDOW_SCALE, 1);
	}
	if (p->option == RW_TRACE_CAPABLE)
		put_capable(h, p);
	else if (p->option == RW_TRACE_JOIN)
		put_join(h, p);
	else if (p->option == RW_TRACE_DATA)
		put_data(h, p);
	nops(h, begin);
	/* What does not fit: MPTCP comes first, and a header has 60 bytes. */
	size_t room = begin + 40 - h->used;
	uint32_t sacks = p->sacks;
	while (sacks && 4 + 8 * (size_t)sacks > room)
		sacks--;
	if (sacks) {
		be(h, (uint64_t)KIND_NOP << 8 | KIND_NOP, 2);
		be(h, KIND_SACK, 1);
		be(h, 2 + 8 * sacks, 1);
		for (uint32_t i = 0; i < sacks; i++)
			be(h, (uint64_t)p->sack[i].start << 32 | p->sack[i].end, 8);
	}
}

static void put_tcp(struct header *h, const struct rw_trace_packet *p)
{
	size_t begin = h->used;
	uint32_t window = p->syn ? p->window_bytes : p->window_bytes >> RW_TRACE_WINDOW_SCALE;
	be(h, p->ends->port[p->from], 2);
	be(h, p->ends->port[1 - p->from], 2);
	be(h, p->sequence, 4);
	be(h, p->ack_flag ? p->ack : 0, 4);
	be(h, 0, 1);
	be(h,
	   (p->syn ? FLAG_SYN : 0) | (p->ack_flag ? FLAG_ACK : 0) | (p->push ? FLAG_PSH : 0) | (p->ece ? FLAG_ECE : 0) |
	       (p->cwr ? FLAG_CWR : 0),
	   1);
	be(h, window < UINT16_MAX ? window : UINT16_MAX, 2);
	be(h, 0, 4); /* checksum, as with offload, and urgent pointer */
	put_options(h, p);
	h->byte[begin + 12] = (uint8_t)((h->used - begin) / 4 << 4);
}

static uint32_t ip_and_tcp(struct header *h, const struct rw_trace_packet *p)
{
	const struct rw_trace_ends *e = p->ends;
	uint8_t ecn = p->marked ? CE : p->ecn_capable ? ECT0 : 0;
	struct header tcp = {.used = 0};
	put_tcp(&tcp, p);
	uint32_t payload = (uint32_t)tcp.used + p->bytes;
	if (e->family == 4) {
		be(h, 0x45, 1);
		be(h, ecn, 1);
		be(h, payload + 20, 2);
		be(h, 0x00004000, 4); /* not to be fragmented */
		be(h, HOP_LIMIT, 1);
		be(h, PROTOCOL_TCP, 1);
		be(h, 0, 2);
	} else {
		be(h, (uint32_t)6 << 28 | (uint32_t)ecn << 20, 4);
		be(h, payload, 2);
		be(h, PROTOCOL_TCP, 1);
		be(h, HOP_LIMIT, 1);
	}
	size_t address_bytes = e->family == 4 ? 4 : 16;
	for (int i = 0; i < 2; i++) {
		memcpy(h->byte + h->used, e->address[i == 0 ? p->from : 1 - p->from], address_bytes);
		h->used += address_bytes;
	}
	memcpy(h->byte + h->used, tcp.byte, tcp.used);
	h->used += tcp.used;
	return payload + (e->family == 4 ? 20 : 40);
}

void rw_trace_packet(struct rw_trace *t, const struct rw_trace_packet *p)
{
	static const uint8_t zeros[4];
	struct header h = {.used = 0};
	uint32_t length = ip_and_tcp(&h, p), captured = (uint32_t)h.used, padding = -captured & 3;
	uint32_t block = 32 + captured + padding;
	if (t->used + BLOCK_MAX > sizeof t->buffer)
		flush(t);
	put32(t, PACKET_BLOCK);
	put32(t, block);
	put32(t, 0);
	put32(t, (uint32_t)((uint64_t)p->time_ns >> 32));
	put32(t, (uint32_t)p->time_ns);
	put32(t, captured);
	put32(t, length);
	put(t, h.byte, captured);
	put(t, zeros, padding);
	put32(t, block);
}
