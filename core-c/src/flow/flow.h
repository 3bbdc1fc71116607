/*
 * Packets -> flows (one four-tuple used once) -> connections.
 *
 * Flows are numbered in the order of their first packets. A later pass over the same capture finds the same numbers, so that it
 * knows the first pass's findings about a flow from the flow's first packet on.
 */
#ifndef RW_FLOW_H
#define RW_FLOW_H

#include "packet.h"
#include "sequence.h"

#define RW_FLOW_NONE UINT32_MAX
#define RW_FLOW_BEYOND (UINT32_MAX - 1) /* the number of flows has reached its limit */

struct rw_flow;

/* The usual TCP timestamp clock (RFC 7323): Linux, BSD and Windows count milliseconds. */
#define RW_CLOCK_TICK_NS 1000000ll

/*
 * The timestamps of one side: when its packets left TCP, and how soon its values are echoed. They show how near the side is.
 * Kept for flows with some data.
 */
struct rw_side_clock {
	uint32_t first_value, last_value, packets;
	int64_t first_ns, last_ns;
	int64_t window_end_ns, least_ns; /* smallest lag behind the clock within some seconds, and until when */
	uint32_t queued;             /* packets that lagged behind the others by more than a few ticks */
	uint32_t lag_most_us;
	uint32_t pending_value;      /* a value whose echo is awaited */
	int64_t pending_ns;          /* 0: none */
	uint64_t echo_ns;            /* the soonest return; 0: none */
};

struct rw_flow_clock {
	struct rw_side_clock side[2];
};

/* The ECN mode that the handshake agreed on (RFC 3168; RFC 9768, accurate ECN, tables 2 and 3). */
enum rw_ecn_mode rw_flow_ecn(const struct rw_flow *flow);

/* Recognises a frame that was captured within the last half second. Null: out of memory. */
struct rw_copies;
struct rw_copies *rw_copies_open(void);
void rw_copies_close(struct rw_copies *copies);
/*
 * Must be called for every TCP packet of a capture in turn. fresh: all of its data is new, so it is no copy. Nameless: the same
 * frame soon after, without an IPv4 number or timestamp that would distinguish a copy from a retransmission. An ACK may be
 * repeated so soon; data is not.
 */
enum rw_copy { RW_COPY_NONE = 0, RW_COPY_CERTAIN = 1, RW_COPY_NAMELESS = 2 };
enum rw_copy rw_copies_see(struct rw_copies *copies, const struct rw_flow *flow, int side,
			   const struct rw_packet *packet, int fresh);

/* One record, as the journal keeps it for later passes. */
struct rw_noted {
	uint32_t flow; /* RW_FLOW_NONE: no packet of a flow; only time_ns, offset and file of `packet` are set */
	uint8_t side, copy; /* copy: a frame that was captured before (rw_copies_see) */
	uint64_t record; /* its number, from 1 on, in journals with numbers */
	struct rw_packet packet;
};

/* The first pass's findings about one side of a flow. */
struct rw_flow_side {
	uint64_t packets;
	uint64_t bytes; /* unique payload, by sequence numbers */
	uint32_t copies, nameless_acks; /* copies include nameless_acks */
	uint32_t isn, first_sequence, end; /* end: the number after the highest payload byte */
	uint32_t payload_max;
	uint16_t mss; /* of its SYN, for the other side's segments; 0: not seen */
	uint8_t seen, syn, fin, rst, sack_permitted, timestamps, window_scale, has_window_scale;
	uint8_t syn_ecn; /* AE, CWR, ECE of its SYN, as a number */
	uint16_t syn_window; /* bytes: the window of its SYN, which is never scaled */
};

struct rw_flow {
	uint8_t family, share, address[2][16]; /* share: rw_packet_share */
	uint16_t port[2];
	uint32_t file, interface; /* of its first packet */
	uint64_t offset;
	struct rw_flow_side side[2];
	int64_t first_ns, last_ns, syn_ns, syn_ack_ns, established_ns;
	uint8_t initiator;   /* which side sent the SYN; 0 when none was seen */
	uint8_t handshake;   /* SYN and SYN/ACK seen */
	uint8_t near;        /* 1 + side next to the capture point; 0: between, 3: not known */
	uint8_t capable;     /* bit for each side that sent MP_CAPABLE in its SYN */
	uint8_t confirmed;   /* MP_CAPABLE after the SYNs */
	uint8_t joined;      /* MP_JOIN in its SYN */
	uint8_t data_level;  /* an MPTCP option other than MP_CAPABLE was seen */
	uint8_t version, has_version, checksum, backup, fast_closed;
	uint8_t cut;         /* the snap length cut options other than MPTCP's in some packets */
	uint8_t infinite;    /* a mapping without an end: it has fallen back (RFC 8684 3.7) */
	uint8_t established_late; /* by a packet that may have been delayed: with data, or after data */
	uint8_t has_key[2], has_token;
	uint64_t key[2];     /* by side */
	uint32_t join_token; /* of the side that received the join */
	/* set by rw_survey_finish */
	uint8_t copied;      /* its frames were captured more than once; copies are skipped and not counted */
	uint32_t connection, id;
	uint8_t source;      /* the side that sent more data in its connection */
	uint8_t counts_ms;   /* the timestamps of that side count milliseconds, as far as the flow shows */
	struct rw_flow_clock *clock; /* null: too little data, no timestamps, or forgotten */
	uint64_t first_record;      /* its first record */
	/* from this record on a flow beyond the limit has its four-tuple; 0: never */
	uint64_t beyond_record;
	uint32_t first_same, next_same; /* flows of the same four-tuple: the first, and the next one */
};

/* Four-tuples -> the flows that use them now. */
struct rw_flow_slot {
	uint32_t tag : 31, used : 1;
	uint32_t flow;
};

#define RW_FLOW_RECENT_BITS 8

struct rw_flow_recent {
	uint32_t source, destination; /* as in the packet */
	uint32_t ports;
	uint32_t flow;
	uint8_t side, family; /* family: 4, or 0 for none */
};

struct rw_flow_index {
	struct rw_flow_slot *slot;
	size_t capacity, count; /* capacity: 1 << place_bits */
	uint32_t flows_max;
	uint8_t place_bits;
	uint8_t reused; /* a four-tuple was used again, so that it has several flows */
	uint64_t seed[2];
	struct rw_flow_recent recent[1 << RW_FLOW_RECENT_BITS];
};

/* These return 0, or 1: no memory, or no random numbers. */
int rw_flow_index_open(struct rw_flow_index *index, uint32_t flows_max);
int rw_flow_index_copy(struct rw_flow_index *to, const struct rw_flow_index *from);
void rw_flow_index_close(struct rw_flow_index *index);

/* The hash of a packet's four-tuple, the same for both directions. */
uint64_t rw_flow_index_hash(const struct rw_flow_index *index, const struct rw_packet *packet);
/*
 * First pass: the flow of a packet, or `next` when its four-tuple is new or used again; then *replaces is the flow that had it
 * before. side: 0 when the packet comes from the flow's first sender, else 1. RW_FLOW_NONE: out of memory. RW_FLOW_BEYOND: `next`
 * exceeds flows_max, and the packet, like all later ones of its flow, belongs to no flow. hash: of the packet's four-tuple.
 */
uint32_t rw_flow_index_add(struct rw_flow_index *index, struct rw_flow *flows, uint32_t next,
			   const struct rw_packet *packet, uint64_t hash, uint64_t record, int *side,
			   uint32_t *replaces);
/* The first slot for a four-tuple of this hash. */
const struct rw_flow_slot *rw_flow_index_slot(const struct rw_flow_index *index, uint64_t hash);
/* Enters the flows of a survey, as after its last packet. 0, or 1: out of memory. */
int rw_flow_index_fill(struct rw_flow_index *index, const struct rw_flow *flows, uint32_t count);
/* Rewinds to the capture's start, for a later pass. */
void rw_flow_index_rewind(struct rw_flow_index *index, const struct rw_flow *flows);
/* The short way of rw_flow_index_add: the flow, if it is there and in its first slot; else RW_FLOW_NONE. Not for a SYN. */
uint32_t rw_flow_index_known(struct rw_flow_index *index, const struct rw_flow *flows, const struct rw_packet *packet,
			     uint64_t hash, int *side);
/* The short way of the same, without the table: null where the table must be searched. Not for a SYN. */
const struct rw_flow_recent *rw_flow_index_recent(struct rw_flow_index *index, const struct rw_packet *packet);

/* Later passes, record by record: RW_FLOW_NONE for a packet that the first pass did not see. */
uint32_t rw_flow_index_find(struct rw_flow_index *index, const struct rw_flow *flows, const struct rw_packet *packet,
			    uint64_t record, int *side);

struct rw_flow_connection {
	uint32_t first_flow; /* lowest flow number */
	uint32_t subflows, first_subflow; /* in survey->subflow */
	uint32_t token;
	int8_t version;
	uint8_t mptcp, has_token, fallback, unmatched, checksum, fast_closed;
	uint64_t idsn; /* of the data sender, if its key was seen */
	uint8_t has_idsn;
	uint8_t share; /* of its first flow */
};

struct rw_journal;

/* What one of several threads has noted: the packets of its shares of the flows. */
struct rw_shard {
	struct rw_journal *journal;
	uint32_t *flow; /* the numbers in the whole survey of the flows that the journal names */
};

struct rw_survey {
	struct rw_journal *journal; /* of every record; null: not requested, it was too long, or shards have it */
	struct rw_shard *
	    shard; /* shard k has the packets of the shares k, k + shards, ...; null: one thread surveyed all of them */
	uint32_t shards;
	struct rw_flow_index index;
	struct rw_copies *copies;
	uint32_t copied_flows;
	/* packets whose flow was not the last one of their direction; the reader of this number sets it to 0 */
	uint32_t looked_up;
	uint8_t mixed; /* the last parcel had packets of many flows mixed */
	uint8_t was_mixed; /* any parcel had */
	uint8_t joins; /* a flow is joined to an MPTCP connection */
	struct rw_flow *flow;
	uint32_t flows, room;
	/* packets of flows beyond the limit, and where the first is */
	uint64_t beyond_packets, beyond_record, beyond_offset;
	int64_t beyond_ns;
	uint32_t beyond_file;
	struct rw_flow_connection *connection;
	uint32_t connections;
	uint32_t *subflow; /* flow numbers, connection after connection */
};

/* clock.c. 0, or 1: out of memory. */
int rw_clock_packet(struct rw_flow *flow, int side, const struct rw_packet *packet);
/* Whether this side's clock counts milliseconds, as far as the flow shows. */
int rw_clock_ticks(const struct rw_flow *flow, int side);
/* Whether a queue on this side's host held its packets after TCP sent them and before they were captured. */
int rw_clock_queued(const struct rw_flow *flow, int side);
/* The side next to the capture point, with the values of `near`, by how soon timestamps are echoed. */
uint8_t rw_clock_near(const struct rw_flow *flow);

/* flows_max: at least 1. 0, or 1: out of memory. */
int rw_survey_open(struct rw_survey *survey, uint32_t flows_max);
/*
 * Takes a TCP packet and sets its flow, which is RW_FLOW_NONE beyond flows_max. record: its number in the capture. hash: null, or
 * the result of rw_survey_hint_slot for this packet. 0, or 1: out of memory.
 */
int rw_survey_packet(struct rw_survey *survey, struct rw_noted *noted, const uint64_t *hash, uint64_t record);
/* Prefetch the index slots of packets that come soon, and later their flows. The first returns the hash that the others take. */
uint64_t rw_survey_hint_slot(const struct rw_survey *survey, const struct rw_packet *packet);
void rw_survey_hint_flow(const struct rw_survey *survey, uint64_t hash);
/*
 * Makes one survey of the surveys of several threads, with the same result as one thread's. `whole` is open and empty. Takes the parts' flows
 * and journals; the caller must still free the parts. 0; 1: out of memory; -1: there are more flows than one survey may have.
 */
int rw_survey_join(struct rw_survey *whole, struct rw_survey *const *part, uint32_t parts);
/* After the last packet: finds connections and rewinds the index. 0, or 1: out of memory. */
int rw_survey_finish(struct rw_survey *survey);
/* Gives back what the later passes do not need, if none of them asks for the clocks of flows. */
void rw_survey_trim(struct rw_survey *survey);
void rw_survey_free(struct rw_survey *survey);

#endif
