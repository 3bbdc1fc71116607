/*
 * Packets of a simulation as a pcapng file: headers only, of raw IP, in nanoseconds from 1970. What tcpdump would have written beside
 * a host.
 */
#ifndef RW_TRACE_H
#define RW_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "scoreboard.h"

enum { RW_TRACE_BUFFER = 1 << 16, RW_TRACE_WINDOW_SCALE = 10 };

struct rw_trace {
	int fd;
	size_t used;
	int error; /* errno of a write that failed; 0: none */
	uint8_t buffer[RW_TRACE_BUFFER];
};

/* The ends of a subflow: the side that sends data first. */
struct rw_trace_ends {
	uint8_t family; /* 4 or 6 */
	uint8_t address[2][16];
	uint16_t port[2];
};

enum rw_trace_option { RW_TRACE_PLAIN, RW_TRACE_CAPABLE, RW_TRACE_JOIN, RW_TRACE_DATA };

/* What the TCP header and its options say. Numbers of MPTCP are the wire's. */
struct rw_trace_packet {
	int64_t time_ns;
	const struct rw_trace_ends *ends;
	uint8_t from; /* index of the end that sends it */
	uint8_t syn, ack_flag, push, ece, cwr;
	uint8_t ecn_capable, marked;
	uint8_t option; /* rw_trace_option */
	uint8_t sack_permitted, timestamps, sacks;
	uint32_t sequence, ack, bytes, window_bytes, mss;
	uint32_t ts_value, ts_echo;
	struct rw_range sack[4];
	uint64_t key[2];       /* CAPABLE: of the two ends */
	uint32_t token, nonce; /* JOIN */
	uint64_t data_ack, data_sequence;
	uint32_t mapping_start; /* relative to the subflow's first sequence number */
	uint16_t mapping_bytes; /* 0: no mapping */
};

void rw_trace_open(struct rw_trace *t, int fd);
void rw_trace_packet(struct rw_trace *t, const struct rw_trace_packet *p);
/* Writes what is left. 0, or errno. */
int rw_trace_close(struct rw_trace *t);

#endif
