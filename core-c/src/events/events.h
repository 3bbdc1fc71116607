/*
 * A subflow's packets -> the events that its sender saw and caused, ACK by ACK.
 *
 * A reconstruction follows a sender through a capture. It reports the packets that were sent and that arrived to the model of
 * sender/, and infers facts that the capture does not show: why data was retransmitted, which packets were lost before the capture
 * point, what limited the sender. Retransmissions in the capture overrule the reconstruction. Events do not depend on a window, so
 * the same events drive every controller.
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

/* Flights that show the size of the window. */
enum rw_flight {
	RW_FLIGHT_NONE,
	RW_FLIGHT_INITIAL,
	RW_FLIGHT_SECOND,    /* the segments after the first ACK of data, with the rest of the initial flight */
	RW_FLIGHT_RESTARTED, /* the first one after an idle time */
	RW_FLIGHT_UNSEEN     /* it began before the capture */
};

/* What rate-based controllers are told of an ACK, and what a shadow infers from before. */
struct rw_event_rate {
	struct rw_rate sample; /* without the path */
	/* The longest pause between two bursts since the ACK before, and how much left in the first of them. */
	uint64_t waited_ns;
	uint32_t waited_segments;
	uint32_t burst_segments; /* what left last */
	int64_t burst_ns;        /* and when */
	int64_t answered_ns; /* after the ACK before it */
	/* What was found lost since the ACK before, and how much of that before this ACK; valid as long as the event. */
	const struct rw_segment_lost *lost;
	uint32_t lost_before, lost_count;
};

/* MPTCP: how much of the data that this subflow was given is not sent yet. */
enum rw_waiting {
	RW_WAITING_UNKNOWN, /* always so without MPTCP */
	RW_WAITING_NOTHING,
	RW_WAITING_PART, /* less than a segment */
	RW_WAITING_ONE, /* one segment, and less than two */
	RW_WAITING_MORE
};

struct rw_event {
	int64_t time_ns;
	/* when a millisecond of the sender's clock began; 0: unknown, or the capture point is not next to the sender */
	int64_t tick_ns;
	uint8_t kind;
	uint8_t state, state_after; /* rw_sender_state */
	uint8_t reducing; /* SEND: in CWR or recovery */
	uint8_t new_episode; /* TIMEOUT: the first of an episode */
	uint8_t una_advanced;
	uint8_t whole_before; /* the last of the new segments before this ACK was a full one */
	uint8_t waiting; /* rw_waiting, before this ACK */
	uint8_t amid_burst; /* data left less than RW_BURST_GAP_NS before this ACK: the burst may go on */
	uint8_t bursts; /* segmentation offload: one packet in the capture may be many segments */
	uint16_t flags; /* rw_ack_flag */
	uint16_t steps; /* rw_step */
	uint32_t una, ack, acked_bytes;
	uint32_t delivered, newly_lost; /* segments, by this event */
	uint32_t marked; /* delivered segments that were reported as marked by ECN */
	uint64_t rtt_ns, srtt_ns; /* this sample or 0; srtt before it */
	uint64_t rtt_newest_ns; /* of the newest segment that this ACK covers, or 0 */
	uint64_t quiet_ns; /* SEND with nothing in flight: time since the last one */
	uint32_t in_flight; /* segments, after */
	uint32_t in_flight_before, packets_out_before, in_flight_bytes_before;
	uint32_t sent_before; /* new segments since the ACK before */
	/* segments that ACKs delivered amid the last burst, before the sender looked at these ACKs */
	uint32_t acked_amid_burst;
	uint32_t room; /* how many more segments fit into the receiver's window; without bursts: at most one */
	uint32_t next_before; /* the sender's next sequence number before this ACK */
	uint32_t segments; /* SEND: how many */
	uint32_t idle_timeouts; /* SEND after an idle period: its length in RTOs */
	uint32_t idle_restarts; /* how often it reduces the window */
	uint32_t first_flight; /* the first ACK of a flight that shows the window: the flight's segments; else 0 */
	uint8_t first_flight_is; /* rw_flight */
	const struct rw_event_rate *
	    rate; /* ACK, for rate-based controllers: valid until the next packet; null: an old ACK, or none is replayed */
	uint8_t first_flight_full; /* the window ended the flight: there was more to send, and the receiver had room */
};

/* MPTCP: less than a segment of this subflow's data was left to send. */
static inline int rw_event_starved(const struct rw_event *e)
{
	return e->waiting == RW_WAITING_NOTHING || e->waiting == RW_WAITING_PART;
}

/* One packet leads to at most three events. */
struct rw_events {
	struct rw_event event[3];
	uint32_t count;
};

/* The number of samples that are kept one by one; most flows have no more. */
enum { RW_RTT_EARLY = 8 };

/* A logarithmic histogram: steps in each octave, and octaves, from 1 us on. */
enum { RW_RTT_STEPS = 32, RW_RTT_OCTAVES = 32 };

/* Round trips for the metrics. */
struct rw_rtt_samples {
	uint64_t count;
	uint32_t early_us[RW_RTT_EARLY];
	/* null while there are only early samples; RW_RTT_STEPS counts for each octave that it covers */
	uint32_t *histogram;
	uint8_t first_octave, octaves; /* the octaves that it covers; a flow's round trips lie in one or two */
	uint32_t median_us, p95_us; /* kept when the flow has ended */
};

/* The IPv4 identifications of a sender's packets, where the capture point is away from the sender. */
struct rw_identification {
	uint32_t end; /* of the data captured so far */
	uint16_t next; /* expected */
	uint8_t asked; /* the capture point is away from the sender, and the packets have identifications */
	uint8_t started;
	uint64_t in_order, consecutive, out_of_order, missing;
	uint64_t holes; /* segments whose first transmission is not in the capture */
};

/* For rate-based controllers. */
struct rw_rates {
	struct rw_delivery_rate path;
	struct rw_event_rate told; /* of the last ACK */
	/* Packets that leave at once are a burst: the last one, and what left on a timer since the ACK before, in what time. */
	int64_t began_ns; /* when the flow was established */
	int64_t burst_ns, last_ns, paced_since_ns, answered_ns;
	uint32_t burst_bytes, paced_bytes, waited_bytes;
	uint64_t paced_ns, waited_ns;
	uint64_t gap_ns; /* from the burst before the last one to the last one */
	uint32_t gap_bytes; /* and how much left in that one; 0: there was none */
	uint8_t by_timer; /* the last burst left on one */
	uint8_t doubted; /* the last gap may have been the pace, or made up for a burst that left late */
	uint8_t shut; /* since then the receiver had no room for a segment */
};

struct rw_reconstruction {
	struct rw_sender tcp;
	struct rw_rates *rates; /* null: no controller is rate-based */
	/* From the survey. */
	uint32_t peer_mss; /* 0: not known */
	uint32_t payload_max;
	uint8_t segment_header; /* TCP header of the last data packet, in bytes; 0: there was none yet */
	uint8_t vantage, peer_scale, handshake;
	uint8_t accurate_ecn, ce_counter; /* RFC 9768: the peer's count of CE marks, modulo 8 */
	uint8_t corrected; /* the caller delivers packets at their send times */
	uint8_t beside; /* the capture point is next to the sender, and packets come at their capture times */
	uint8_t retired;
	uint64_t packets; /* the packets that caused tcp.board.work */
	uint64_t segments_seen;
	/* The sender's position in its data */
	uint32_t first_sequence; /* where the flight that shows the window began */
	int64_t last_ack_ns, burst_ns;
	int64_t flight_ns; /* when the flight after an idle time began */
	int64_t recovery_ns; /* when an ACK began recovery, while nothing was retransmitted yet; 0: not so */
	uint32_t
	    waited_for; /* segments that were SACKed when the last recovery retransmitted late; 0: it was not late */
	/* Since the ACK before */
	uint32_t sent_since;
	uint32_t acked_amid_burst; /* as in struct rw_event */
	uint32_t acked_amid_data; /* the same, if the next data belongs to the burst before the last ACK */
	uint32_t initial,
	    first_acked; /* segments of the initial flight, and how many of them its first ACK delivered */
	uint8_t flight; /* rw_flight: the flight that began at first_sequence */
	uint8_t retransmitted_since, quiet_acks;
	/* MPTCP: the newest mapping: the low half of its data sequence number, and its end on this subflow. */
	uint32_t mapping, mapping_end;
	uint8_t mapped;
	/* The mapping is one whole segment: a sender that maps each packet does not show how much more data it had. */
	uint8_t maps_packets;
	uint8_t window_probe; /* a byte was sent at una to a closed window */
	uint8_t started, bursts, whole, gave_up;
	uint8_t steady; /* in RW_SENDER_OPEN, with some data acknowledged and a timer running; rw_settle keeps it */
	uint8_t syns; /* bits: a SYN without ACK was sent, one with ACK was sent */
	uint8_t fin_sent;
	uint32_t fin; /* its sequence number: where the data ends */
	struct rw_tick_clock ticks; /* of the sender's timestamps */
	/* Receiver-side RTT: when a timestamp value left the receiver. */
	uint32_t echo_value;
	int64_t echo_ns;
	/* Metrics; tcp has more. */
	struct rw_rtt_samples rtt_samples;
	uint64_t bytes, retransmitted_bytes, unseen_bytes;
	uint64_t sends, timed_sends; /* data packets; those that followed neither an ACK nor other data closely */
	uint64_t acks, ece_acks;
	uint32_t window_first, window_most; /* that the receiver offered after the handshake, bytes */
	int64_t first_data_ns, last_advance_ns,
	    first_unseen_ns; /* last_advance_ns: data was acknowledged, not only a FIN */
	struct rw_identification identification;
};

void rw_reconstruction_open(struct rw_reconstruction *r, const struct rw_flow *flow, uint8_t vantage, int corrected,
			    uint32_t segments_max, struct rw_budget *budget);
/* ACKs sample the delivery rate from now on. Call it before the first packet. 0, or 1: out of memory. */
int rw_reconstruction_sample_rates(struct rw_reconstruction *r, int keeps_flights);
/* The flow has ended: keeps the metrics and frees the rest. No packet may follow. */
void rw_reconstruction_retire(struct rw_reconstruction *r);
void rw_reconstruction_close(struct rw_reconstruction *r);

/* For every packet of the sender, in the order captured: follows the IPv4 identifications, and sets p->overtaken. */
void rw_reconstruction_identify(struct rw_reconstruction *r, struct rw_packet *p);
/* A packet of the sender. 0, or 1: out of memory. Counts oddities. */
int rw_reconstruction_sent(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out,
			   struct rw_oddity_counts *oddities);
/* A packet that reached the sender, with ACK set, after the handshake. 0, or 1: out of memory. */
int rw_reconstruction_acked(struct rw_reconstruction *r, const struct rw_packet *p, struct rw_events *out,
			    struct rw_oddity_counts *oddities);
/* What such a packet says, as the sender's model is told of it. marks: new ones of ECN. Valid as long as the packet. */
struct rw_sender_ack rw_reconstruction_ack(const struct rw_reconstruction *r, const struct rw_packet *p, uint8_t marks);
/* The handshake's round trip. */
void rw_reconstruction_rtt(struct rw_reconstruction *r, uint64_t rtt_ns);

/* Whether a timer released much of its data. */
int rw_reconstruction_paced(const struct rw_reconstruction *r);
/* Retransmissions that were lost before the capture point; 0 next to the sender. */
uint64_t rw_reconstruction_unseen_retransmissions(const struct rw_reconstruction *r);
/* Quantile of the round trips, percent; only 50 or 95 after rw_reconstruction_retire. 0: no samples. */
uint32_t rw_reconstruction_rtt_quantile_us(const struct rw_reconstruction *r, uint32_t percent);

#endif
