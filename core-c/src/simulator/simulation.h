/*
 * A simulation: hosts' connections over a network (network/), in virtual time. One thread; nothing but its settings and its seed
 * decides what comes of it, on every machine.
 */
#ifndef RW_SIMULATION_H
#define RW_SIMULATION_H

#include "network.h"
#include "receiver.h"
#include "rewindow.h"
#include "scheduling.h"
#include "stream.h"
#include "trace.h"
#include "transmitter.h"

enum { RW_FLAG_SYN = 1, RW_FLAG_ACK = 2, RW_FLAG_ECE = 4, RW_FLAG_CWR = 8, RW_FLAG_PSH = 16 };

enum {
	RW_SIMULATED_SUBFLOWS_MAX = 1 << 16,
	RW_SIMULATED_CONNECTIONS_MAX = 1 << 16,
	/* Entities of the agenda: of each subflow the sender and the receiver, of each connection the application. */
	RW_FIRST_APPLICATION = 2 * RW_SIMULATED_SUBFLOWS_MAX,
	RW_ENTITIES = RW_FIRST_APPLICATION + RW_SIMULATED_CONNECTIONS_MAX,
	/* Parts of a packet. */
	RW_IP4_BYTES = 20,
	RW_IP6_BYTES = 40,
	RW_TCP_BYTES = 20,
	RW_TIMESTAMP_BYTES = 12,
	RW_DATA_MAPPING_BYTES = 24,
	RW_DATA_ACK_BYTES = 12,
	RW_CACHE_LINE_BYTES = 64
};
#define RW_NO_WIRE UINT32_MAX

/* A TCP segment under way: one line of the cache. */
struct rw_wire {
	uint16_t subflow, bytes;
	union {
		uint32_t ts_value;
		uint32_t free_next; /* of a place that is free */
	};
	uint32_t ts_echo;
	uint16_t identification;
	uint8_t flags, sacks : 3, marked : 1;
	uint8_t back : 1; /* from the receiver of data to its sender */
	uint8_t announces : 1; /* an address, for the next subflow to join (RFC 8684 3.4.1), or echoes that */
	union {
		struct { /* from the sender */
			uint32_t sequence;
			struct rw_mapping mapping;
		};
		struct { /* back */
			uint32_t ack, window_bytes;
			uint64_t data_ack; /* MPTCP's, and data sequence numbers count from 0 */
			struct rw_range sack[RW_SACK_BLOCKS_MAX];
		};
	};
};
_Static_assert(sizeof(struct rw_wire) == RW_CACHE_LINE_BYTES, "a segment is one line of the cache");
_Static_assert(RW_SIMULATED_SUBFLOWS_MAX - 1 <= UINT16_MAX, "a subflow's number fits");

/* RFC 8684 3.2: a subflow that joins carries no data before the receiver has answered its third packet. */
enum rw_subflow_state { RW_SUBFLOW_WAITS, RW_SUBFLOW_SYN_SENT, RW_SUBFLOW_JOINS, RW_SUBFLOW_ESTABLISHED };

struct rw_simulated_subflow {
	struct rw_transmitter tx;
	struct rw_receiver rx;
	uint32_t connection;
	uint16_t route, route_back;
	uint8_t state; /* rw_subflow_state */
	uint32_t syns;
	int64_t syn_ns, syn_due_ns;
	uint32_t mss, header_bytes; /* IP and TCP with the options of every segment */
	int64_t established_ns;
	uint64_t handshake_ns, closing_ns; /* as in rw_simulated_row */
	uint32_t ts_recent; /* of the receiver, which data echoes */
	struct rw_trace_ends ends;
	uint16_t identification[2]; /* of each end's packets */
	uint32_t window_max; /* the largest congestion window so far, segments */
	/* MPTCP's scheduler: the mean rate at which it was given data, bytes/s; 0: it was not yet */
	uint64_t rate_bytes;
	/* MPTCP: how often in a row the connection's data had waited for too long and nothing had come back on this subflow; whether
	 * anything has since */
	uint8_t silences, heard;
};

struct rw_simulated_connection {
	rw_transfer_settings settings;
	struct rw_settings control_settings;
	const struct rw_control *control;
	struct rw_shadow *shadow;
	struct rw_detect *detect; /* null: one subflow, or a controller that has no use for sets */
	struct rw_transmitter_owner owner;
	uint32_t first, subflows; /* its subflows lie side by side */
	struct rw_stream *stream; /* null: plain TCP */
	struct rw_receive_window receive_window;
	struct rw_scheduled *scheduled; /* null: TCP, or the kernel's own scheduler */
	uint64_t key[2];          /* MPTCP's, of the sender and of the receiver */
	int64_t reinject_ns;      /* when data goes once more on another subflow, or RW_NEVER */
	/* The application */
	uint64_t written, acked;
	uint64_t chunk; /* of the write under way: so much is not in the buffer yet */
	int64_t write_ns; /* when it may write next, or RW_NEVER */
	uint8_t blocked; /* until enough of the buffer is free */
	uint8_t awaits;  /* the next write, until all data before it is acknowledged */
	rw_write_values *write; /* null: the settings tell */
	uint32_t writes, next_write;
	uint8_t complete;
	int64_t first_data_ns, last_acked_ns;
};

struct rw_simulation {
	uint64_t seed;
	struct rw_network *network;
	struct rw_agenda *agenda;
	struct rw_kernel kernel;
	struct rw_wire *wire;
	uint32_t wires, wires_free, wires_room;
	struct rw_simulated_connection *connection;
	struct rw_simulated_subflow *subflow;
	uint32_t connections, subflows, incomplete;
	int64_t now_ns;
	uint8_t begun, failed, keeps_rows;
	struct rw_trace *trace; /* null: no capture is written */
	uint8_t traced_side;    /* beside the senders of data: 0; beside their receivers: 1 */
	rw_simulation_row *row;
	uint64_t rows, rows_room;
};

/* Segments: wires.c. One leaves its end now; its place is free again; the capture on that side has it (0: of the data's sender). */
void rw_wire_send(rw_simulation *s, const struct rw_wire *wire);
void rw_wire_free(rw_simulation *s, uint32_t number);
void rw_wire_trace(rw_simulation *s, const struct rw_wire *w, int side);

/* Applications and MPTCP's data: application.c. The connection can be written to. */
void rw_application_begin(rw_simulation *s, uint32_t connection);
/* Writes as much as the buffer takes, and sends as much of it as windows allow. */
void rw_application_write(rw_simulation *s, uint32_t connection);
/* MPTCP: what was written goes to subflows, as long as one has room and the receiver's window allows. */
void rw_application_give(rw_simulation *s, struct rw_simulated_connection *c);
/* MPTCP's own acknowledgment and window. Returns how much data it covers. */
uint64_t rw_application_acknowledged(rw_simulation *s, struct rw_simulated_connection *c, const struct rw_wire *w);
/* The subflow is given data [start, end), which leaves as far as its window allows. */
void rw_application_carry(rw_simulation *s, struct rw_simulated_connection *c, struct rw_simulated_subflow *f,
			  uint64_t start, uint64_t end);
/* How much data the connection's send buffer holds. */
uint64_t rw_application_buffer_bytes(const rw_simulation *s, const struct rw_simulated_connection *c);
/* What rw_application_give does, where a scheduler of the registry decides: scheduling.c. */
void rw_scheduling_give(rw_simulation *s, struct rw_simulated_connection *c);
/* MPTCP: data has waited too long, and goes once more on another subflow. */
void rw_application_reinject(rw_simulation *s, struct rw_simulated_connection *c);
/* Has everything that the application writes been acknowledged? */
void rw_application_see_completion(rw_simulation *s, struct rw_simulated_connection *c);

/* The ends of subflows: ends.c. An entity is due at that time, or was before. */
void rw_simulation_plan(rw_simulation *s, uint32_t entity, int64_t due_ns);
void rw_simulation_plan_subflow(rw_simulation *s, uint32_t subflow);
struct rw_transmitter_owner rw_ends_owner(rw_simulation *s, const struct rw_simulated_connection *c);
/* A packet has crossed the network. */
void rw_ends_deliver(rw_simulation *s, const struct rw_network_packet *p);
/* The entity that is due first does what is due. */
void rw_ends_do_next(rw_simulation *s);

#endif
