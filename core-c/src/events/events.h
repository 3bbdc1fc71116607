/*
 * A subflow's packets -> what its sender knew and did, ACK by ACK.
 *
 * The sender is rebuilt as Linux runs it: SACK scoreboard, RACK (RFC 8985), tail loss probe,
 * retransmission timeout with F-RTO (RFC 5682), undo by timestamps (RFC 3522) and DSACK (RFC 3708), ECN (RFC 3168).
 * Retransmissions in the capture overrule the reconstruction where the two differ. None of this depends on a window:
 * the same events drive every controller.
 */
#ifndef RW_EVENTS_H
#define RW_EVENTS_H

#include "flow.h"

enum rw_event_kind {
	RW_EVENT_ACK,      /* a packet with an acknowledgment reached the sender */
	RW_EVENT_SEND,     /* the sender sent payload after an idle time, or while its window is reduced */
	RW_EVENT_TIMEOUT,  /* retransmission timeout */
	RW_EVENT_RECOVERY  /* recovery began between ACKs: RACK's reordering timer */
};

/* What an ACK led to, in the order of the bits. */
enum rw_step {
	RW_STEP_TAIL_LOSS = 1, /* reduce once, at once */
	RW_STEP_UNDO = 2,
	RW_STEP_EXIT = 4,      /* CWR or recovery ends at ssthresh */
	RW_STEP_OPEN = 8,      /* a loss episode ends */
	RW_STEP_RECOVERY = 16, /* enter recovery with a reduction */
	RW_STEP_CWR = 32,
	RW_STEP_NO_UNDO = 64,  /* an ECE forbids to undo the reduction */
	RW_STEP_REDUCE = 128,  /* proportional rate reduction (RFC 6937) */
	RW_STEP_RAISE = 256    /* windows may grow */
};

/* Flights that show how large the window is. */
enum rw_flight {
	RW_FLIGHT_NONE,
	RW_FLIGHT_INITIAL,
	RW_FLIGHT_SECOND,   /* what the first ACK of data set free, and the rest of the initial flight */
	RW_FLIGHT_RESTARTED, /* the first one after an idle time */
	RW_FLIGHT_UNSEEN    /* that had begun before the capture did */
};

enum rw_sender_state { RW_SENDER_OPEN, RW_SENDER_DISORDER, RW_SENDER_CWR, RW_SENDER_RECOVERY, RW_SENDER_LOSS };

struct rw_event {
	int64_t time_ns;
	uint8_t kind;
	uint8_t state, state_after; /* rw_sender_state */
	uint8_t reducing;           /* SEND: in CWR or recovery */
	uint8_t new_episode;        /* TIMEOUT: the first of an episode */
	uint8_t una_advanced;
	uint8_t whole_before;       /* the last of the new segments before this ACK was a full one */
	uint8_t starved;            /* MPTCP: of what this subflow was given, less than a segment was left to send */
	uint8_t bursts;             /* segmentation offload: one packet in the capture may be many segments */
	uint16_t flags;             /* rw_ack_flag */
	uint16_t steps;
	uint32_t una, ack, acked_bytes;
	uint32_t delivered, newly_lost; /* segments, by this event */
	uint32_t marked;            /* of those delivered, reported as marked by ECN */
	uint64_t rtt_ns, srtt_ns;   /* this sample or 0; srtt before it */
	uint64_t rtt_newest_ns;     /* of the newest segment that this ACK covers, or 0 */
	uint64_t quiet_ns;          /* SEND with nothing in flight: since the last one */
	uint32_t in_flight;         /* segments, after */
	uint32_t in_flight_before, packets_out_before, in_flight_bytes_before;
	uint32_t sent_before;       /* new segments since the ACK before */
	uint32_t room;              /* for how many more the receiver had room; without bursts: for one */
	uint32_t next_before;       /* the sender's next sequence number before this ACK */
	uint32_t segments;          /* SEND: how many */
	uint32_t idle_timeouts;     /* SEND after an idle period: how many RTOs it lasted */
	uint32_t idle_restarts;     /* how often the window is reduced for it */
	uint32_t first_flight;      /* ACK, the first one of a flight that tells of the window: its segments, or 0 */
	uint8_t first_flight_is;    /* rw_flight */
	uint8_t first_flight_full;  /* there was more to send, and the receiver had room: the window ended it */
};

/* One packet leads to at most three events. */
struct rw_events {
	struct rw_event event[3];
	uint32_t count;
};

struct rw_segment {
	uint32_t start, end;
	int64_t sent_ns;
	uint32_t ts_value; /* of its last transmission */
	uint8_t bits;
};

struct rw_range {
	uint32_t start, end;
};

/* Segments of all senders together: many flows with large windows must not use up memory. */
struct rw_budget {
	uint64_t used, most;
};

/* So many samples are kept as they are: most flows have no more. */
enum { RW_RTT_EARLY = 8 };

/* Logarithmic histogram: 32 steps an octave, from 1 us on. */
#define RW_RTT_BUCKETS (32 * 32)

struct rw_sender {
	/* What the survey knows. */
	uint32_t peer_mss;          /* 0: not known */
	uint32_t payload_max;
	uint32_t segment_bytes;     /* of the last data packet, what one segment carries */
	uint8_t segment_header;     /* its TCP header, in bytes; 0: there was none yet */
	uint8_t sack, vantage, peer_scale, handshake;
	uint8_t accurate_ecn, ce_counter; /* RFC 9768: the peer's count of CE marks, modulo 8 */
	uint8_t corrected;          /* packets come when they were sent, wherever they were captured */
	uint8_t beside, afar; /* beside the sender, or beside the receiver, and packets come when they were captured */
	uint32_t segments_max;
	struct rw_budget *budget;
	uint64_t work, packets; /* segments looked at; packets that caused it */
	uint64_t segments_seen;
	uint8_t retired;
	/* Scoreboard: the unacknowledged segments in sequence order, `count` of them from `first` on. */
	struct rw_segment *segment; /* `capacity` of them */
	struct rw_segment *first; /* of those: `room` lie from here to their end */
	uint32_t room, count, capacity;
	uint32_t first_sequence, una, next, high, highest_sack;
	uint32_t sacked_out, lost_out, retrans_out;
	struct rw_range seen_sack[RW_SACK_MAX];
	uint8_t seen_sacks;
	/* Timers and RTT, nanoseconds. */
	uint64_t srtt_ns, mdev_ns, mdev_max_ns, rttvar_ns, rtt_min_ns;
	uint32_t rtt_sequence;
	uint8_t backoff;
	int64_t timer_ns, last_send_ns, last_ack_ns, burst_ns;
	/* RACK */
	int64_t rack_sent_ns;
	uint64_t rack_rtt_ns;
	uint32_t rack_end, reorder_segments, threshold; /* the last: what the second begins with */
	int64_t recovery_ns; /* an ACK began it, and nothing has been sent again yet; 0: no */
	uint32_t waited_for; /* so many segments were SACKed when the last one did begin; 0: as expected */
	uint8_t rack_advanced, reorder_seen, reorder_steps, reorder_persist, dsack_round;
	uint32_t dsack_round_end;
	/* Loss state */
	uint8_t state, undo_possible, f_rto;
	int32_t undo_retransmits;
	uint32_t undo_mark;
	uint32_t first_retransmit_ts;
	uint8_t has_retransmit_ts;
	uint8_t probe_outstanding, probe_retransmitted;
	uint32_t probe_high;
	/* Since the ACK before */
	uint32_t sent_since;
	uint32_t initial, first_acked; /* segments of the initial flight; how many its first ACK delivered */
	uint8_t flight; /* rw_flight: what began at first_sequence */
	uint8_t retransmitted_since, quiet_acks;
	/* MPTCP: the newest mapping, by the low half of its data sequence number, and where it ends on this subflow. */
	uint32_t mapping, mapping_end;
	uint8_t mapped;
	uint32_t window_bytes;
	uint8_t window_probe; /* a byte was sent at una to a closed window */
	uint8_t started, bursts, whole, gave_up;
	uint8_t
	    steady; /* in RW_SENDER_OPEN, some of its data was acknowledged, and a timer runs; kept by rw_sender_settle */
	uint8_t syns; /* bits: one without ACK was sent, one with */
	uint32_t lost_total;
	/* The clock of its timestamps, where that counts milliseconds: value 0 after tick_first began at tick_ns. */
	uint8_t ticks, ticking;
	uint32_t tick_first, tick_last;
	int64_t tick_ns, tick_seen_ns;
	/* Receiver-side RTT: when a timestamp value left the receiver. */
	uint32_t echo_value;
	int64_t echo_ns;
	/* Metrics */
	uint64_t bytes, retransmitted_packets, retransmitted_bytes, spurious, unseen_bytes;
	uint64_t dsacked; /* segments reported as received twice, whoever sent them twice */
	uint64_t sends, timed_sends; /* data packets; those that neither an ACK nor other data went right before */
	uint64_t acks, ece_acks, fast_retransmits, timeouts, rtt_samples;
	uint32_t rtt_early_us[RW_RTT_EARLY], rtt_median_us, rtt_p95_us;
	uint32_t *rtt_histogram; /* RW_RTT_BUCKETS, after the early samples */
	int64_t first_data_ns, last_advance_ns, first_unseen_ns;
	struct {
		uint32_t end; /* of the data captured so far */
		uint16_t next; /* expected */
		uint8_t asked; /* the capture point is behind the sender, and the packets have numbers */
		uint8_t started;
		uint64_t in_order, consecutive, out_of_order, missing;
		uint64_t holes; /* segments that were not seen the first time */
	} identification; /* of IPv4 */
};

void rw_sender_open(struct rw_sender *s, const struct rw_flow *flow, uint8_t vantage, int corrected,
		    uint32_t segments_max, struct rw_budget *budget);
/* The flow has ended: keeps the metrics, frees the rest. It must be given no more packets. */
void rw_sender_retire(struct rw_sender *s);
void rw_sender_close(struct rw_sender *s);

/* Every packet of the sender, in the order captured: its number among the sender's packets. Sets p->overtaken. */
void rw_sender_identify(struct rw_sender *s, struct rw_packet *p);
/* A packet of the sender. 0, or 1 when memory is used up; oddities may be counted. */
int rw_sender_sent(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
		   struct rw_oddity_counts *oddities);
/* A packet that reached the sender, with ACK set, after the handshake. */
void rw_sender_acked(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
		     struct rw_oddity_counts *oddities);
/* Did much of its data leave on a timer? */
int rw_sender_paced(const struct rw_sender *s);
/* A sample: of an ACK, or the handshake's own. */
void rw_sender_rtt(struct rw_sender *s, uint64_t rtt_ns);
/* One that its sender heeds, but too coarse for the metrics. */
void rw_sender_smooth_rtt(struct rw_sender *s, uint64_t rtt_ns);
/* Retransmissions that were lost before they reached the capture point; 0 beside the sender. */
uint64_t rw_sender_unseen_retransmissions(const struct rw_sender *s);
/* Quantile q in percent of the samples; 0 when there are none. */
uint32_t rw_sender_rtt_quantile_us(const struct rw_sender *s, uint32_t percent);

/* Inside this folder: the scoreboard. */
enum {
	RW_SEGMENT_SACKED = 1,
	RW_SEGMENT_LOST = 2,
	RW_SEGMENT_RETRANSMITTED = 4,
	RW_SEGMENT_EVER = 8,
	RW_SEGMENT_UNSEEN = 16
};

static inline struct rw_segment *rw_segment_at(const struct rw_sender *s, uint32_t i) { return &s->first[i]; }

static inline uint32_t rw_in_flight(const struct rw_sender *s)
{
	uint32_t gone = s->sacked_out + s->lost_out, there = s->count + s->retrans_out;
	return there > gone ? there - gone : 0;
}

enum { RW_SCOREBOARD_NO_MEMORY = 1, RW_SCOREBOARD_FULL = 2 };

/* The first n are acknowledged. */
static inline void rw_scoreboard_drop(struct rw_sender *s, uint32_t n)
{
	s->first += n;
	s->room -= n;
	s->count -= n;
}

/* 0, RW_SCOREBOARD_NO_MEMORY or RW_SCOREBOARD_FULL. */
int rw_scoreboard_append(struct rw_sender *s, const struct rw_segment *segment);
/* Cuts segment i in two at a sequence number within it. Status as above. */
int rw_scoreboard_cut(struct rw_sender *s, uint32_t i, uint32_t sequence);
/* Makes one of segment i and the next, which is in the same state. */
void rw_scoreboard_join(struct rw_sender *s, uint32_t i);
void rw_scoreboard_clear(struct rw_sender *s);
/* The first segment whose end lies after `sequence`; count when there is none. */
uint32_t rw_scoreboard_find(const struct rw_sender *s, uint32_t sequence);
void rw_scoreboard_lose(struct rw_sender *s, struct rw_segment *g);

enum { RW_DUPLICATE_ACKS = 3 };
/* Further ahead is another connection's number, not this one's. */
#define RW_SEQUENCE_JUMP_MAX (1 << 30)

void rw_sender_start(struct rw_sender *s, uint32_t sequence);
struct rw_event *rw_sender_add_event(struct rw_sender *s, struct rw_events *out, uint8_t kind, int64_t time_ns);
/* Returns whether windows are reduced by it (not from CWR: they were already). */
int rw_sender_enter_recovery(struct rw_sender *s);
/* acknowledgment.c. Returns whether it was a plain one, whose event is complete. */
int rw_sender_process_ack(struct rw_sender *s, const struct rw_packet *p, struct rw_events *out,
			  struct rw_oddity_counts *oddities);

/* After what may have changed it. */
static inline void rw_sender_settle(struct rw_sender *s)
{
	s->steady = s->state == RW_SENDER_OPEN && s->una != s->first_sequence && s->first_data_ns && s->timer_ns;
}

void rw_rack_advance(struct rw_sender *s, const struct rw_segment *g, int64_t now_ns);
void rw_rack_mark_lost(struct rw_sender *s, int64_t now_ns);
void rw_rack_update_window(struct rw_sender *s, int dsack);
uint64_t rw_sender_rto_ns(const struct rw_sender *s);

#endif
