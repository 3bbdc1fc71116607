/* Records of Ethernet, IPv4 and TCP, copied from templates into a large buffer and patched there. */
#ifndef BENCH_FRAMES_H
#define BENCH_FRAMES_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TCP_FIN = 1, TCP_SYN = 2, TCP_PSH = 8, TCP_ACK = 16 };

enum {
	SNAP_BYTES = 96,
	HEADER_BYTES = 54,      /* Ethernet, IPv4, TCP without options */
	TIMESTAMPS_BYTES = 12,  /* always the first option */
	SYN_OPTIONS_BYTES = 12, /* after the timestamps: MSS, SACK permitted, window scale */
	WINDOW_SCALE = 7,
	WINDOW = 8192           /* before scaling */
};

/* A pcap record as it is in the file; numbers of the protocols are in network order. */
struct frame {
	uint32_t seconds, ticks, captured, wire;
	uint8_t ethernet[14];
	uint8_t version, tos;
	uint16_t length, identification, fragment;
	uint8_t ttl, protocol;
	uint16_t checksum;
	uint32_t source, destination;
	uint16_t source_port, destination_port;
	uint32_t sequence, ack;
	uint8_t header_words, flags;
	uint16_t window, tcp_checksum, urgent;
	uint8_t before_timestamps[4];
	uint32_t ts_value, ts_echo;
	uint8_t options[SNAP_BYTES - HEADER_BYTES - TIMESTAMPS_BYTES];
} __attribute__((packed));

_Static_assert(sizeof(struct frame) == 16 + SNAP_BYTES, "a record of one whole snap length");

/* One direction of a flow. */
struct address {
	uint32_t source, destination;
	uint16_t source_port, destination_port;
};

struct output {
	int fd;
	uint64_t packets, bytes;
	int64_t clock_ns; /* of the last record */
	uint32_t tick_ns; /* of the records' stamps: 1, or 1000 for microseconds */
	size_t used;
	uint8_t buffer[1 << 20];
};

_Noreturn void die(const char *reason);

/* Opens path, or standard output when it is null, and writes the file header. */
struct output *output_open(const char *path, uint32_t tick_ns);
void output_flush(struct output *o);

/* A packet of this direction: no payload, timestamps, and `options` bytes of other options (a multiple of four). */
void frame_template(struct frame *f, const struct address *a, uint8_t flags);
void frame_shape(struct frame *f, uint32_t options, uint32_t payload);
/* Fills the first SYN_OPTIONS_BYTES of the options. */
void frame_syn_options(struct frame *f, uint16_t mss);

static inline struct address address_reverse(struct address a)
{
	return (struct address){a.destination, a.source, a.destination_port, a.source_port};
}

/* A copy of the template in the output, at time_ns or, when the link was busy then, spacing_ns after the last record. */
static inline struct frame *output_next(struct output *o, const struct frame *template, int64_t time_ns,
					int64_t spacing_ns)
{
	if (o->used + sizeof *template > sizeof o->buffer)
		output_flush(o);
	struct frame *f = (struct frame *)(void *)(o->buffer + o->used);
	memcpy(f, template, sizeof *f);
	int64_t free_ns = o->clock_ns + spacing_ns;
	o->clock_ns = time_ns > free_ns ? time_ns : free_ns;
	f->seconds = (uint32_t)(o->clock_ns / 1000000000);
	f->ticks = (uint32_t)(o->clock_ns % 1000000000) / o->tick_ns;
	return f;
}

/* The frame that output_next gave is complete. TCP checksums stay zero: payload is not in the file. */
static inline void output_done(struct output *o, struct frame *f)
{
	uint32_t sum = 0;
	const uint8_t *ip = &f->version;
	f->checksum = 0;
	for (int i = 0; i < 20; i += 2) {
		uint16_t word;
		memcpy(&word, ip + i, 2);
		sum += word;
	}
	sum = (sum & 0xffff) + (sum >> 16);
	f->checksum = (uint16_t)~((sum & 0xffff) + (sum >> 16));
	size_t n = 16 + f->captured;
	o->used += n;
	o->bytes += n;
	o->packets++;
}

/* TCP's clock of timestamps: milliseconds. */
static inline uint32_t timestamp(int64_t time_ns) { return htobe32((uint32_t)(time_ns / 1000000)); }

#endif
