/*
 * A subflow's packets -> what its sender knew and did, ACK by ACK.
 *
 * A reconstruction follows a sender through a capture: it tells the sender that sender/ runs what was sent and what arrived,
 * and infers what the capture does not say (why data left again, what was lost before the capture, what limited the sender).
 * Retransmissions in the capture overrule the reconstruction where the two differ. None of this depends on a window: the same
 * events drive every controller.
 */
#ifndef RW_EVENTS_H
#define RW_EVENTS_H

#include "flow.h"
#include "rw_control.h"
#include "sender.h"
#include "tick_clock.h"

enum rw_event_kind {
	RW_EVENT_ACK,     /* a packet with an acknowledgment reached the sender */
	RW_EVENT_SEND,    /* the sender sent payload after an idle time, or while its window is reduced */
	RW_EVENT_TIMEOUT, /* retransmission timeout */
	RW_EVENT_RECOVERY /* recovery began between ACKs: RACK's reordering timer */
};

/* Flights that show how large the window is. */
enum rw_flight {
	RW_FLIGHT_NONE,
	RW_FLIGHT_INITIAL,
	RW_FLIGHT_SECOND,    /* what the first ACK of data set free, and the rest of the initial flight */
	RW_FLIGHT_RESTARTED, /* the first one after an idle time */
	RW_FLIGHT_UNSEEN     /* that had begun before the capture did */
};

/* What rate-based controllers are told of an ACK, and what a shadow infers from before. */
struct rw_event_rate {
	struct rw_rate sample; /* without the path */
	/* The longest pause between two bursts since the ACK before, and how much left in the first of them. */
	uint64_t waited_ns;
	uint32_t waited_segments;
	uint32_t burst_segments; /* what left last */
	int64_t burst_ns;        /* and when */
};

struct rw_event {
	int64_t time_ns;
	/* when a millisecond of the sender's clock began; 0: not known, or ACKs were not captured beside it */
	int64_t tick_ns;
	uint8_t kind;
	uint8_t state, state_after; /* rw_sender_state */
	uint8_t reducing; /* SEND: in CWR or recovery */
	uint8_t new_episode; /* TIMEOUT: the first of an episode */
	uint8_t una_advanced;
	uint8_t whole_before; /* the last of the new segments before this ACK was a full one */
	uint8_t starved; /* MPTCP: of what this subflow was given, less than a segment was left to send */
	uint8_t bursts; /* segmentation offload: one packet in the capture may be many segments */
	uint16_t flags; /* rw_ack_flag */
	uint16_t steps; /* rw_step */
	uint32_t una, ack, acked_bytes;
	uint32_t delivered, newly_lost; /* segments, by this event */
	uint32_t marked; /* of those delivered, reported as marked by ECN */
	uint64_t rtt_ns, srtt_ns; /* this sample or 0; srtt before it */
	uint64_t rtt_newest_ns; /* of the newest segment that this ACK covers, or 0 */
	uint64_t quiet_ns; /* SEND with nothing in flight: since the last one */
	uint32_t in_flight; /* segments, after */
	uint32_t in_flight_before, packets_out_before, in_flight_bytes_before;
	uint32_t sent_before; /* new segments since the ACK before */
	uint32_t room; /* for how many more the receiver had room; without bursts: for one */
	uint32_t next_before; /* the sender's next sequence number before this ACK */
	uint32_t segments; /* SEND: how many */
	uint32_t idle_timeouts; /* SEND after an idle period: how many RTOs it lasted */
	uint32_t idle_restarts; /* how often the window is reduced for it */
	uint32_t first_flight; /* ACK, the first one of a flight that tells of the window: its segments, or 0 */
	uint8_t first_flight_is; /* rw_flight */
	const struct rw_event_rate
	    *rate; /* ACK, where rate-based controllers ask: valid until the next packet; null: it is an old one */
	uint8_t first_flight_full; /* there was more to send, and the receiver had room: the window ended it */
};

/* One packet leads to at most three events. */
struct rw_events {
	struct rw_event event[3];
	uint32_t count;
};

/* So many samples are kept as they are: most flows have no more. */
enum { RW_RTT_EARLY = 8 };

/* Logarithmic histogram: so many steps in each of so many octaves, from 1 us on. */
enum { RW_RTT_STEPS = 32, RW_RTT_OCTAVES = 32 };

/* Round trips for the metrics. */
struct rw_rtt_samples {
	uint64_t count;
	uint32_t early_us[RW_RTT_EARLY];
	/* once there are more than the early samples: RW_RTT_STEPS counts for each octave that it covers */
	uint32_t *histogram;
	uint8_t first_octave, octaves; /* the octaves that it covers; a flow's round trips lie in one or two */
	uint32_t median_us, p95_us; /* kept when the flow has ended */
};

/* The numbers of an IPv4 sender's packets, where the capture point is behind the sender. */
struct rw_identification {
	uint32_t end; /* of the data captured so far */
	uint16_t next; /* expected */
	uint8_t asked; /* the capture point is behind the sender, and the packets have numbers */
	uint8_t started;
	uint64_t in_order, consecutive, out_of_order, missing;
	uint64_t holes; /* segments that were not seen the first time */
};

/* For rate-based controllers. */
struct rw_rates {
	struct rw_delivery_rate path;
	struct rw_event_rate told; /* of the last ACK */
	/* Packets that leave at once are a burst: the last one, and what left on a timer since the ACK before, in what time. */
	int64_t burst_ns, last_ns;
	uint32_t burst_bytes, paced_bytes, waited_bytes;
	uint64_t paced_ns, waited_ns;
};

struct rw_reconstruction {
	struct rw_sender tcp;
	struct rw_rates *rates; /* null: nobody asks */
	/* What the survey knows. */
	uint32_t peer_mss; /* 0: not known */
	uint32_t payload_max;
	uint8_t segment_header; /* TCP header of the last data packet, in bytes; 0: there was none yet */
	uint8_t vantage, peer_scale, handshake;
	uint8_t accurate_ecn, ce_counter; /* RFC 9768: the peer's count of CE marks, modulo 8 */
	uint8_t corrected; /* packets come when they were sent, wherever they were captured */
	uint8_t beside; /* the capture point is beside the sender, and packets come when they were captured */
	uint8_t retired;
	uint64_t packets; /* that caused tcp.board.work */
	uint64_t segments_seen;
	/* Where the sender is in its data */
	uint32_t first_sequence; /* where the flight began that tells of the window */
	int64_t last_ack_ns, burst_ns;
	int64_t recovery_ns; /* an ACK began recovery, and nothing has left again yet; 0: no */
	uint32_t waited_for; /* so many segments were SACKed when the last recovery did send again; 0: as expected */
	/* Since the ACK before */
	uint32_t sent_since;
	uint32_t initial, first_acked; /* segments of the initial flight; how many its first ACK delivered */
	uint8_t flight; /* rw_flight: what began at first_sequence */
	uint8_t retransmitted_since, quiet_acks;
	/* MPTCP: the newest mapping, by the low half of its data sequence number, and where it ends on this subflow. */
	uint32_t mapping, mapping_end;
	uint8_t mapped;
	/* The mapping is one whole segment: a sender that maps each packet does not show how much more it was given. */
	uint8_t maps_packets;
	uint8_t window_probe; /* a byte was sent at una to a closed window */
	uint8_t started, bursts, whole, gave_up;
	uint8_t steady; /* in RW_SENDER_OPEN, some of its data was acknowledged, and a timer runs; kept by rw_settle */
	uint8_t syns; /* bits: one without ACK was sent, one with */
	struct rw_tick_clock ticks; /* of the sender's timestamps */
	/* Receiver-side RTT: when a timestamp value left the receiver. */
	uint32_t echo_value;
	int64_t echo_ns;
	/* Metrics; some more are in tcp. */
	struct rw_rtt_samples rtt_samples;
	uint64_t bytes, retransmitted_bytes, unseen_bytes;
	uint64_t sends, timed_sends; /* data packets; those that neither an ACK nor other data went right before */
	uint64_t acks, ece_acks;
	int64_t first_data_ns, last_advance_ns, first_unseen_ns;
	struct rw_identification identification;
};

void rw_reconstruction_open(struct rw_reconstruction *r, const struct rw_flow *flow, uint8_t vantage, int corrected,
			    uint32_t segments_max, struct rw_budget *budget);
/* From now on ACKs tell of the delivery rate; before the first packet. 0, or 1 when memory is used up. */
int rw_reconstruction_sample_rates(struct rw_reconstruction *r);
/* The flow has ended: keeps the metrics, frees the rest. It must be given no more packets. */
void rw_reconstruction_retire(struct rw_reconstruction *r);
void rw_reconstruction_close(struct rw_reconstruction *r);

/* Every packet of the sender, in the order captured: its number among the sender's packets. Sets p->overtaken. */
void rw_reconstruction_identify(struct rw_reconstruction *r, struct rw_packet *p);
/* A packet of the sender. 0, or 1 when memory is used up; oddities may be counted. */
int rw_reconstruction_sent(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out,
			   struct rw_oddity_counts *oddities);
/* A packet that reached the sender, with ACK set, after the handshake. 0, or 1 when memory is used up. */
int rw_reconstruction_acked(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out,
			    struct rw_oddity_counts *oddities);
/* A round trip that was measured otherwise than by an ACK of data: the handshake's. */
void rw_reconstruction_rtt(struct rw_reconstruction *r, uint64_t rtt_ns);

/* Did much of its data leave on a timer? */
int rw_reconstruction_paced(const struct rw_reconstruction *r);
/* Retransmissions that were lost before they reached the capture point; 0 beside the sender. */
uint64_t rw_reconstruction_unseen_retransmissions(const struct rw_reconstruction *r);
/* Quantile of the round trips in percent: 50 or 95 once it has retired. 0 when there are none. */
uint32_t rw_reconstruction_rtt_quantile_us(const struct rw_reconstruction *r, uint32_t percent);

#endif
