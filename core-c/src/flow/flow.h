/*
 * Packets -> flows (one four-tuple used once) -> connections.
 *
 * Flows are numbered by first appearance. A later pass over the same capture finds the same numbers, so that what the
 * first pass learnt about a flow is known from its first packet on.
 */
#ifndef RW_FLOW_H
#define RW_FLOW_H

#include "packet.h"
#include "sequence.h"

#define RW_FLOW_NONE UINT32_MAX
#define RW_FLOW_BEYOND (UINT32_MAX - 1) /* there are as many flows as may be */

struct rw_flow;

/* Seldom is a TCP timestamp clock (RFC 7323) other than this: Linux, BSD and Windows count milliseconds. */
#define RW_CLOCK_TICK_NS 1000000ll

/*
 * What the timestamps of one side tell of where it is: when a packet left its TCP, and how soon its own values are
 * echoed. Kept for flows that carry some data.
 */
struct rw_side_clock {
	uint32_t first_value, last_value, packets;
	int64_t first_ns, last_ns;
	int64_t window_end_ns, least_ns; /* smallest lag behind the clock within some seconds, and until when */
	uint32_t queued;             /* packets that lagged behind the others by more than a few ticks */
	uint32_t lag_most_us;
	uint32_t pending_value;      /* a value on its way to the other side and back */
	int64_t pending_ns;          /* 0: none */
	uint64_t echo_ns;            /* the soonest return; 0: none */
};

struct rw_flow_clock {
	struct rw_side_clock side[2];
};

/* What the handshake agreed on (RFC 3168; RFC 9768, accurate ECN, tables 2 and 3). */
enum rw_ecn_mode rw_flow_ecn(const struct rw_flow *flow);

/* Recognises a frame that passed before, within half a second. Null: out of memory. */
struct rw_copies;
struct rw_copies *rw_copies_open(void);
void rw_copies_close(struct rw_copies *copies);
/*
 * Every TCP packet of a capture in turn, of one side of a flow. fresh: it cannot have passed before, as all of its data is new.
 * Nameless: the very same soon after, but neither number nor clock say whether it is a copy or was sent again. An ACK may well be;
 * data is not in so short a time.
 */
enum rw_copy { RW_COPY_NONE = 0, RW_COPY_CERTAIN = 1, RW_COPY_NAMELESS = 2 };
enum rw_copy rw_copies_see(struct rw_copies *copies, const struct rw_flow *flow, int side,
			   const struct rw_packet *packet, int fresh);

/* One record, as it is noted for later passes. */
struct rw_noted {
	uint32_t flow; /* RW_FLOW_NONE: no packet of a flow; of `packet` then only time_ns, offset and file are set */
	uint8_t side, copy; /* copy: a frame that was captured before (rw_copies_see) */
	uint64_t record; /* its number, from 1 on */
	struct rw_packet packet;
};

/* One side of a flow, as the first pass saw it. */
struct rw_flow_side {
	uint64_t packets;
	uint64_t bytes; /* payload by sequence numbers: sent twice counts once */
	uint32_t copies, nameless_acks; /* the second are among the first */
	uint32_t isn, first_sequence, end; /* end: after the highest payload byte */
	uint32_t payload_max;
	uint16_t mss; /* of its SYN: what the other side may send; 0: not seen */
	uint8_t seen, syn, fin, rst, sack_permitted, timestamps, window_scale, has_window_scale;
	uint8_t syn_ecn; /* AE, CWR, ECE of its SYN, as a number */
	uint16_t syn_window; /* bytes: the window of its SYN, which is never scaled */
};

struct rw_flow {
	uint8_t family, share, address[2][16]; /* share: rw_packet_share */
	uint16_t port[2];
	uint32_t file, interface; /* of its first packet, and where in the file it is */
	uint64_t offset;
	struct rw_flow_side side[2];
	int64_t first_ns, last_ns, syn_ns, syn_ack_ns, established_ns;
	uint8_t initiator;   /* which side sent the SYN; 0 when none was seen */
	uint8_t handshake;   /* SYN and SYN/ACK seen */
	uint8_t near;        /* 1 + side next to the capture point; 0: between, 3: not known */
	uint8_t capable;     /* bit for each side that sent MP_CAPABLE in its SYN */
	uint8_t confirmed;   /* MP_CAPABLE after the SYNs */
	uint8_t joined;      /* MP_JOIN in its SYN */
	uint8_t data_level;  /* an option other than MP_CAPABLE seen */
	uint8_t version, has_version, checksum, backup, fast_closed;
	uint8_t cut;         /* of some of its packets options other than MPTCP's were not captured whole */
	uint8_t infinite;    /* a mapping without an end: it has fallen back (RFC 8684 3.7) */
	uint8_t established_late; /* by a packet that may have waited: with data, or after data */
	uint8_t has_key[2], has_token;
	uint64_t key[2];     /* by side */
	uint32_t join_token; /* of the side that was joined */
	/* set by rw_survey_finish */
	uint8_t copied;      /* its frames were captured more than once: copies are passed over, and not counted */
	uint32_t connection, id;
	uint8_t source;      /* the side that sent more data in its connection */
	struct rw_flow_clock *clock; /* null: too little data, or no timestamps */
	uint64_t first_record;      /* the record that it begins with */
	/* from this record on its four-tuple is that of a flow beyond the limit; 0: never */
	uint64_t beyond_record;
	uint32_t first_same, next_same; /* flows of the same four-tuple: the first, and the one after this */
};

/* Four-tuples -> the flow that uses each of them just now. */
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
	size_t capacity, count;
	uint32_t flows_max;
	uint64_t seed[2];
	struct rw_flow_recent recent[1 << RW_FLOW_RECENT_BITS];
};

/* These return 0, or 1 when memory or randomness is not to be had. */
int rw_flow_index_open(struct rw_flow_index *index, uint32_t flows_max);
int rw_flow_index_copy(struct rw_flow_index *to, const struct rw_flow_index *from);
void rw_flow_index_close(struct rw_flow_index *index);

/* Of a packet's four-tuple, the same for both directions. */
uint64_t rw_flow_index_hash(const struct rw_flow_index *index, const struct rw_packet *packet);
/*
 * First pass: the flow of a packet, or `next` when its four-tuple is new or used again; then *replaces is the flow that
 * had it before. side: 0 when the packet comes from the flow's first sender, else 1. RW_FLOW_NONE: out of memory. RW_FLOW_BEYOND: `next` would be one more than flows_max, and the
 * packet, like all later ones of its flow, belongs to none. hash: of the packet's four-tuple.
 */
uint32_t rw_flow_index_add(struct rw_flow_index *index, struct rw_flow *flows, uint32_t next,
			   const struct rw_packet *packet, uint64_t hash, uint64_t record, int *side,
			   uint32_t *replaces);
/* The first slot that a four-tuple of this hash may be in. */
const struct rw_flow_slot *rw_flow_index_slot(const struct rw_flow_index *index, uint64_t hash);
/* Knows the flows of a survey, as after its last packet. 0, or 1 when memory is used up. */
int rw_flow_index_fill(struct rw_flow_index *index, const struct rw_flow *flows, uint32_t count);
/* Back to the capture's start, for a later pass. */
void rw_flow_index_rewind(struct rw_flow_index *index, const struct rw_flow *flows);
/* The same for most packets, without a look at the table: null where it has to be asked. No SYN may be asked for. */
const struct rw_flow_recent *rw_flow_index_recent(struct rw_flow_index *index, const struct rw_packet *packet);

/* Later passes, record by record: RW_FLOW_NONE for what was not there before. */
uint32_t rw_flow_index_find(struct rw_flow_index *index, const struct rw_flow *flows, const struct rw_packet *packet,
			    uint64_t record, int *side);

struct rw_flow_connection {
	uint32_t first_flow; /* lowest flow number */
	uint32_t subflows, first_subflow; /* in survey->subflow */
	uint32_t token;
	int8_t version;
	uint8_t mptcp, has_token, fallback, unmatched, checksum, fast_closed;
	uint64_t idsn; /* of the data sender, when its key was seen */
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
	struct rw_journal *journal; /* of every record; null: there is none, it was too long, or shards have it */
	struct rw_shard
	    *shard;     /* shard k has the packets of the shares k, k + shards, ...; null: they were not divided */
	uint32_t shards;
	struct rw_flow_index index;
	struct rw_copies *copies;
	uint32_t copied_flows;
	/* packets whose flow was not the last one of their direction; whoever reads it sets it to 0 */
	uint32_t looked_up;
	uint8_t mixed;      /* packets of many flows follow one another, by the parcel before */
	uint8_t was_mixed;  /* by any parcel */
	struct rw_flow *flow;
	uint32_t flows, room;
	/* packets of flows beyond the limit, and the place of the first */
	uint64_t beyond_packets, beyond_record, beyond_offset;
	int64_t beyond_ns;
	uint32_t beyond_file;
	struct rw_flow_connection *connection;
	uint32_t connections;
	uint32_t *subflow; /* flow numbers, connection after connection */
};

/* 0, or 1 when memory is used up. clock.c */
int rw_clock_packet(struct rw_flow *flow, int side, const struct rw_packet *packet);
/* Does this side count milliseconds, as far as the flow shows? */
int rw_clock_ticks(const struct rw_flow *flow, int side);
/* Did a queue behind this side's TCP, on the same host, hold its packets before they were captured? */
int rw_clock_queued(const struct rw_flow *flow, int side);
/* The side next to the capture point, as `near`, by how soon timestamps are echoed. */
uint8_t rw_clock_near(const struct rw_flow *flow);

/* flows_max: 1 at least. 0, or 1 when memory is used up. */
int rw_survey_open(struct rw_survey *survey, uint32_t flows_max);
/*
 * A TCP packet: sets where it belongs, which is nowhere (RW_FLOW_NONE) for one of a flow beyond flows_max. record: its number in the
 * capture. hash: null, or what rw_survey_hint_slot returned for this packet. 0, or 1 when memory is used up.
 */
int rw_survey_packet(struct rw_survey *survey, struct rw_noted *noted, const uint64_t *hash, uint64_t record);
/* Packets that come soon: have the processor fetch their places in the index, and later their flows. The first returns the hash
 * that the others take. */
uint64_t rw_survey_hint_slot(const struct rw_survey *survey, const struct rw_packet *packet);
void rw_survey_hint_flow(const struct rw_survey *survey, uint64_t hash);
/*
 * Makes one survey of those of `parts` threads, as one thread would have made it; `whole` is open and empty. Takes their flows and
 * journals; the parts have then to be freed. 0; 1: memory is used up; -1: there are more flows than one survey may have.
 */
int rw_survey_join(struct rw_survey *whole, struct rw_survey *const *part, uint32_t parts);
/* After the last packet: connections; the index is rewound. 0, or 1 when memory is used up. */
int rw_survey_finish(struct rw_survey *survey);
void rw_survey_free(struct rw_survey *survey);

#endif
