/* One record -> one TCP packet. The only state is that of incomplete datagrams. */
#ifndef RW_PACKET_H
#define RW_PACKET_H

#include <stddef.h>
#include <stdint.h>

#include "bytes.h"
#include "capture.h"
#include "sequence.h"

enum rw_tcp_flag {
	RW_TCP_FIN = 1,
	RW_TCP_SYN = 2,
	RW_TCP_RST = 4,
	RW_TCP_PSH = 8,
	RW_TCP_ACK = 16,
	RW_TCP_URG = 32,
	RW_TCP_ECE = 64,
	RW_TCP_CWR = 128,
	RW_TCP_AE = 256,
	RW_TCP_CUT = 1 << 15 /* not of the header: SACK blocks may be among what was cut of its options */
};

/* RFC 3168: the two ECN bits of the IP header. */
enum { RW_ECN_NOT = 0, RW_ECN_ECT1 = 1, RW_ECN_ECT0 = 2, RW_ECN_CE = 3 };

/* RFC 8684 section 8, IANA's subtypes. */
enum rw_mptcp_subtype {
	RW_MP_CAPABLE = 0,
	RW_MP_JOIN = 1,
	RW_MP_DSS = 2,
	RW_MP_ADD_ADDR = 3,
	RW_MP_REMOVE_ADDR = 4,
	RW_MP_PRIO = 5,
	RW_MP_FAIL = 6,
	RW_MP_FASTCLOSE = 7,
	RW_MP_TCPRST = 8
};

enum { RW_SACK_MAX = 4 };

/* What a packet's MPTCP options say; `seen` has a bit for each subtype that was well formed. */
struct rw_mptcp {
	uint16_t seen;
	uint8_t version;           /* of MP_CAPABLE */
	uint8_t keys;              /* of MP_CAPABLE: how many */
	uint8_t checksum_required;
	uint8_t join_backup, join_address_id;
	uint8_t dss_data_ack, dss_mapping, dss_data_fin, dss_wide; /* wide: the DSN has 64 bits */
	uint8_t has_join_token;
	uint8_t prio_backup,
	    prio_elsewhere; /* prio_elsewhere: MP_PRIO names another subflow's address (RFC 6824 3.3.8) */
	uint32_t join_token;
	uint64_t key[2];           /* sender's, receiver's */
	uint64_t data_ack, data_sequence;
	uint32_t subflow_sequence; /* relative to the subflow's ISN */
	uint16_t data_length;
};

struct rw_packet {
	int64_t time_ns;
	uint64_t offset;
	uint32_t file;
	uint8_t source[16], destination[16]; /* the first four bytes of an IPv4 address, no more */
	uint16_t source_port, destination_port;
	uint32_t interface;
	uint16_t identification; /* IPv4; else 0 */
	/* a packet that was sent after this one was captured before it; set by who follows the identifications */
	uint8_t overtaken;
	/* These 24 bytes mostly follow from the packet before (journal.c). All of them are always set. */
	uint32_t sequence, ack;
	uint32_t payload_bytes; /* on the wire, however much was captured */
	uint16_t flags;
	uint16_t window;
	uint8_t family; /* 4 or 6 */
	uint8_t ecn;
	uint8_t tcp_header_bytes;
	/* Options. A field is set only where the option was there; the timestamps are 0 without it. */
	uint8_t has_timestamps, sack_permitted, has_window_scale, sack_count, option_mss;
	uint8_t window_scale;
	uint16_t mss;
	uint32_t ts_value, ts_echo;
	struct rw_range sack[RW_SACK_MAX];
	struct rw_mptcp mptcp; /* where `seen` is 0, no other field is set */
};

/* RW_PARSE_SEVERAL: an aggregate of frames, at least one of them with TCP; rw_packet_next returns them. */
enum rw_parse { RW_PARSE_OTHER = 0, RW_PARSE_TCP = 1, RW_PARSE_SEVERAL = 2 };

/* One reader's incomplete datagrams and rest of an aggregate. Null: out of memory. */
struct rw_fragments;
struct rw_fragments *rw_fragments_open(void);
void rw_fragments_close(struct rw_fragments *fragments);
/* How many datagrams were never complete. */
uint64_t rw_fragments_lost(const struct rw_fragments *fragments);

/*
 * Counts oddities. A record without a whole TCP header is RW_PARSE_OTHER. A fragmented segment is the packet of the record that
 * completes it.
 */
enum rw_parse rw_packet_parse(const struct rw_record *record, struct rw_packet *packet, struct rw_fragments *fragments,
			      struct rw_oddity_counts *oddities);
/*
 * Flows are divided into shares by their four-tuple, the same for both directions and in every run: threads that each take some
 * of the shares need to know nothing of one another. There are few shares, because tables of each of them must stay in a near cache.
 */
enum { RW_SHARES = 8 };
uint32_t rw_packet_share(const struct rw_packet *packet);
/*
 * The share of a record whose first bytes tell it: a whole TCP segment, with IPv4 or IPv6, and Ethernet or nothing around it. It is
 * a packet of that share or none. 0: it is another record, and may be anything.
 */
int rw_record_share(const struct rw_record *record, uint32_t *share);
/* After RW_PARSE_SEVERAL: the next TCP packet of the same record, whose bytes must still be valid. RW_PARSE_OTHER: no more. */
enum rw_parse rw_packet_next(const struct rw_record *record, struct rw_packet *packet, struct rw_fragments *fragments,
			     struct rw_oddity_counts *oddities);

/*
 * Where a record's headers and addresses are, for who keeps nothing else of it (redaction/). What is not in the list was not
 * recognised.
 */
enum rw_layer_kind {
	RW_LAYER_IPV4, /* a header with its options */
	RW_LAYER_IPV6, /* a header of 40 bytes, without extension headers */
	RW_LAYER_ADDRESS_V6, /* an address in an extension header */
	RW_LAYER_UDP, /* a header of 8 bytes */
	RW_LAYER_TCP, /* a header with its options */
	RW_LAYER_CARRIED, /* content between headers, or a sum over content: never kept */
	RW_LAYER_NAMES_HOST /* may name hosts: addresses of a link, fields that no later header needs */
};
enum { RW_LAYERS_MAX = 256 };
struct rw_layer {
	enum rw_layer_kind kind;
	uint32_t at, bytes; /* within the record */
	uint32_t payload_bytes; /* of TCP, on the wire */
	uint8_t source[16], destination[16]; /* of TCP's pseudo-header */
};
struct rw_layers {
	uint32_t count;
	uint32_t headers_end; /* of the last header that was recognised */
	uint8_t too_many; /* the list is not complete */
	uint8_t fixed_length; /* a header says how many captured bytes follow it: to cut them would contradict it */
	struct rw_layer layer[RW_LAYERS_MAX];
};
/* As rw_packet_parse, and to the end of an aggregate; fills in the layers. The packet is the last one. */
enum rw_parse rw_packet_layers(const struct rw_record *record, struct rw_packet *packet, struct rw_fragments *fragments,
			       struct rw_oddity_counts *oddities, struct rw_layers *layers);

/* Inside this folder. `wire`: bytes that were on the wire from here on. */
struct rw_parser {
	const struct rw_record *record;
	struct rw_packet *packet;
	struct rw_fragments *fragments;
	struct rw_oddity_counts *oddities;
	uint8_t depth; /* IP headers so far; bounds tunnels in tunnels */
	uint8_t ether_types; /* so far; bounds Ethernet in Ethernet */
	struct rw_layers *layers; /* null: nobody asks for them */
};

/* Adds a layer that begins at `start`; what the record does not have of it is left out. For rw_layer_seen. */
void rw_layer_add(struct rw_parser *p, enum rw_layer_kind kind, const uint8_t *start, size_t bytes);
/* A header ended here. */
void rw_layer_end(struct rw_parser *p, const uint8_t *end);

static inline void rw_layer_seen(struct rw_parser *p, enum rw_layer_kind kind, const uint8_t *start, size_t bytes)
{
	if (__builtin_expect(p->layers != NULL, 0))
		rw_layer_add(p, kind, start, bytes);
}

static inline void rw_layer_ends(struct rw_parser *p, const uint8_t *end)
{
	if (__builtin_expect(p->layers != NULL, 0))
		rw_layer_end(p, end);
}

static inline enum rw_parse rw_parse_odd(struct rw_parser *p, enum rw_oddity which)
{
	rw_oddity_add(p->oddities, which, p->record->file, p->record->offset);
	return RW_PARSE_OTHER;
}

/* Two NOPs, and kind and length of a timestamps option. */
#define RW_TIMESTAMPS_ALONE 0x0101080au

_Static_assert(offsetof(struct rw_packet, destination_port) == offsetof(struct rw_packet, source_port) + 2 &&
		   offsetof(struct rw_packet, ack) == offsetof(struct rw_packet, sequence) + 4 &&
		   offsetof(struct rw_packet, flags) == offsetof(struct rw_packet, payload_bytes) + 4 &&
		   offsetof(struct rw_packet, window) == offsetof(struct rw_packet, payload_bytes) + 6 &&
		   offsetof(struct rw_packet, tcp_header_bytes) == offsetof(struct rw_packet, family) + 2 &&
		   offsetof(struct rw_packet, has_timestamps) == offsetof(struct rw_packet, family) + 3 &&
		   offsetof(struct rw_packet, window_scale) == offsetof(struct rw_packet, family) + 8 &&
		   offsetof(struct rw_packet, ts_echo) == offsetof(struct rw_packet, ts_value) + 4,
	       "fields that are stored at once");

/* Reads the 20 bytes that every TCP header has. */
static inline void rw_parse_tcp_fixed(struct rw_packet *packet, const uint8_t *h, uint32_t payload_bytes)
{
	uint32_t bits = rw_load_u32(h + 12), ports = rw_load_u32(h);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	ports = ports >> 16 | ports << 16;
#endif
	memcpy(&packet->source_port, &ports, sizeof ports); /* both */
	rw_store_fields(packet, offsetof(struct rw_packet, sequence), rw_load_fields(h + 4));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	bits = bits >> 16 | bits << 16;
	uint64_t flags_and_window = bits & 0xffff01ff;
#else
	uint64_t flags_and_window = bits & 0x01ffffff;
#endif
	rw_store_fields(packet, offsetof(struct rw_packet, payload_bytes),
			rw_field(payload_bytes, 0, 4) | rw_field(flags_and_window, 4, 4));
}

static inline uint8_t rw_tcp_header_bytes(const uint8_t *h) { return (uint8_t)((h[12] >> 4) * 4); }

enum rw_parse rw_parse_ether_type(struct rw_parser *p, struct rw_bytes b, uint32_t wire, uint16_t type);
enum rw_parse rw_parse_ethernet(struct rw_parser *p, struct rw_bytes b, uint32_t wire);
enum rw_parse rw_parse_llc(struct rw_parser *p, struct rw_bytes b, uint32_t wire);
/* The rest of an aggregate, for rw_packet_next. */
struct rw_aggregate {
	struct rw_bytes rest;
	uint32_t wire;
};
struct rw_aggregate *rw_aggregate_of(struct rw_fragments *fragments);
/* The aggregate's next frame with TCP. */
enum rw_parse rw_parse_aggregate(struct rw_parser *p);
/* padded: the header is padded to a multiple of four bytes. swapped: its first two bytes are swapped. */
enum rw_wireless { RW_WIRELESS_PLAIN = 0, RW_WIRELESS_PADDED = 1, RW_WIRELESS_SWAPPED = 2 };
enum rw_parse rw_parse_wireless(struct rw_parser *p, struct rw_bytes b, uint32_t wire, enum rw_wireless form);
enum rw_parse rw_parse_ppp(struct rw_parser *p, struct rw_bytes b, uint32_t wire);
/* The content of an L2TPv3 session, over UDP or IP. */
enum rw_parse rw_parse_l2tpv3(struct rw_parser *p, struct rw_bytes b, uint32_t wire);
/* Does an Ethernet header with a known type begin at this offset? */
int rw_looks_like_ethernet(struct rw_bytes b, size_t at);
enum rw_parse rw_parse_gre(struct rw_parser *p, struct rw_bytes b, uint32_t wire);
enum rw_parse rw_parse_udp(struct rw_parser *p, struct rw_bytes b, uint32_t wire);
enum rw_parse rw_parse_ip(struct rw_parser *p, struct rw_bytes b, uint32_t wire);
enum rw_parse rw_parse_tcp(struct rw_parser *p, struct rw_bytes b, uint32_t wire);
/* A fragment of TCP from byte `offset` on. b and wire: the bytes after the IP header, captured and on the wire. */
enum rw_parse rw_parse_fragment(struct rw_parser *p, struct rw_bytes b, uint32_t wire, uint32_t identification,
				uint32_t offset, int more);
enum { RW_OPTION_MPTCP = 30 };
/* The content of one option of that kind, after kind and length. 0: malformed. */
int rw_parse_mptcp(struct rw_bytes b, uint16_t tcp_flags, struct rw_mptcp *mptcp);
/* The short way: the next bytes are one whole DSS and padding, as behind the timestamps of an established subflow. 0: others. */
int rw_parse_dss_alone(struct rw_bytes b, uint32_t bytes, struct rw_mptcp *mptcp);

#endif
