/*
 * Linux's TCP receiver: reassembly, SACK (RFC 2018) and DSACK (RFC 2883) blocks, delayed acknowledgments with quick-ACK mode, ACKs
 * that are held back while there is a hole, ECN echo (RFC 3168), and the receive window that grows with what arrives.
 *
 * It decides what is acknowledged and when; the simulation makes the segment and sends it.
 */
#ifndef RW_RECEIVER_H
#define RW_RECEIVER_H

#include <stdint.h>

#include "scoreboard.h"
#include "sender.h"

struct rw_kernel;

/*
 * What a connection's receivers offer: all subflows of an MPTCP connection have one window together (RFC 8684 3.3.1). The buffer is
 * enlarged to hold twice what is read in a round trip (dynamic right-sizing, Fisk and Feng 2001), more where that grows, and what waits
 * beyond a hole. Positions are bytes that arrived in order since the connection began, at the level of MPTCP's data. Measured on Linux
 * 6.18: the first buffers that it chooses are these to the byte (docs/simulator.md).
 */
struct rw_receive_window {
	uint64_t most;  /* what the largest buffer allows */
	uint64_t clamp; /* what the buffer allows now */
	uint64_t right; /* the right edge of what was offered; it never moves left */
	/* How much was read in the round trip that the buffer was enlarged for; where and when this round trip began. */
	uint64_t space, space_from;
	int64_t space_since_ns;
};

/* What was read so far. */
struct rw_reading {
	uint64_t position;
	uint64_t beyond; /* so far beyond it lies the end of what arrived; 0: nothing waits for a hole to be filled */
	uint64_t rtt_ns; /* the longest of the subflows; 0: not known */
};

/* buffer_first, buffer_most: bytes; the kernel's tuning enlarges it from the one to the other. */
void rw_receive_window_open(struct rw_receive_window *w, uint64_t buffer_first, uint64_t buffer_most, uint32_t mss);
/* The handshake is over. */
void rw_receive_window_begin(struct rw_receive_window *w, int64_t now_ns);
void rw_receive_window_read(struct rw_receive_window *w, const struct rw_reading *r, int64_t now_ns);
/* What the reader has of the connection's data. waiting: bytes that came and lie beyond a hole, which take their part of the buffer. */
struct rw_arrived {
	uint64_t position, waiting;
};

/* How many bytes an ACK offers beyond what was read: at most `threshold`, but what was offered before. */
uint32_t rw_receive_window_offer(struct rw_receive_window *w, uint64_t threshold, const struct rw_arrived *arrived);

struct rw_receiver_settings {
	uint32_t mss; /* what the other end's segments carry at most */
	uint32_t blocks_max; /* SACK blocks for which an ACK has room */
	uint8_t sack, timestamps, ecn;
};

struct rw_receiver {
	struct rw_receiver_settings settings;
	const struct rw_kernel *kernel;
	uint32_t next; /* expected */
	uint64_t in_order; /* so many bytes before it */
	uint32_t acked; /* `next` in the last ACK */
	uint32_t right; /* the right edge of the window that was offered; it never moves left */
	struct rw_receive_window *window;
	/*
	 * What it offers, at most: it grows with each of its own segments, up to what the connection's buffer allows. Measured: while it
	 * grows, each segment is acknowledged at once; a subflow that carries little needs long for that.
	 */
	uint64_t threshold;
	/* Ranges beyond `next`, in sequence order. */
	struct rw_range *held;
	uint32_t helds, held_room;
	struct rw_range recent[RW_SACK_BLOCKS_MAX]; /* those that changed last, newest first */
	uint8_t recents, has_duplicate;
	struct rw_range duplicate; /* to be reported by the next ACK */
	/* ACKs */
	uint32_t quick; /* so many more ACKs are sent at once */
	uint64_t delay_ns; /* of a delayed ACK; 0: there was no data yet */
	int64_t last_data_ns;
	int64_t ack_due_ns; /* a delayed ACK, or RW_NEVER */
	int64_t held_due_ns; /* an ACK that is held back while there is a hole, or RW_NEVER */
	uint32_t duplicates, held_next, held_acks;
	uint8_t must_ack; /* before anything else happens */
	uint8_t pushed; /* so was data that is not acknowledged yet: its ACK is sent when the application has read it */
	uint8_t echo_ce; /* until the sender says that it has reduced its window */
	uint64_t rtt_ns; /* of the receiver's own; without timestamps the shortest; 0: not known */
	uint32_t ts_echoed; /* by the last segment that had a sample */
	int64_t rtt_since_ns; /* without timestamps: since when it waits for data up to rtt_end */
	uint32_t rtt_end;
	uint32_t ts_recent; /* the timestamp that the next ACK echoes */
	int failed; /* out of memory */
};

struct rw_arrival {
	int64_t time_ns;
	uint32_t sequence, bytes;
	uint32_t ts_value, ts_echo;
	uint64_t echo_rtt_ns; /* by the timestamp that it echoes; 0: it echoes none */
	uint8_t marked; /* congestion experienced */
	uint8_t reduced; /* RFC 3168's CWR */
	uint8_t pushed; /* PSH */
};

/* The window is the connection's, and lives longer than the receiver. */
void rw_receiver_open(struct rw_receiver *r, const struct rw_receiver_settings *settings,
		      const struct rw_kernel *kernel, struct rw_receive_window *window);
void rw_receiver_close(struct rw_receiver *r);

/* Data arrives. Returns 1 if an ACK is to be sent at once. How much more lies in order: `next`. */
int rw_receiver_take(struct rw_receiver *r, const struct rw_arrival *arrival);
/* The application has read what lies in order, and nothing more is there to be read: returns 1 if an ACK is to be sent. */
int rw_receiver_read(const struct rw_receiver *r);
/* A timer of the receiver is due: returns 1 if an ACK is to be sent. */
int rw_receiver_due(struct rw_receiver *r, int64_t now_ns);
/* When the next of its timers is due, or RW_NEVER. */
int64_t rw_receiver_next_ns(const struct rw_receiver *r);

struct rw_acknowledgment {
	uint32_t ack, window_bytes, ts_echo;
	uint8_t sacks, echo_ce;
	struct rw_range sack[RW_SACK_BLOCKS_MAX];
};

/* Bytes that came and lie beyond a hole. */
uint64_t rw_receiver_waiting(const struct rw_receiver *r);
/* The ACK that is sent now. The application reads at once what is in order. */
void rw_receiver_acknowledge(struct rw_receiver *r, const struct rw_arrived *arrived, struct rw_acknowledgment *ack);

#endif
