/*
 * A model of Linux's TCP sender: SACK scoreboard (RFC 6675, RFC 2883), RACK and tail loss probe (RFC 8985), retransmission timeout
 * (RFC 6298) with F-RTO (RFC 5682), and the undo of a reduction by timestamps (RFC 3522) and DSACK (RFC 3708).
 *
 * It decides the effect of an ACK or a timer. It has no congestion window, and does not know whether its caller follows a capture
 * (events/) or simulates. The caller reports, in the order of time, the packets that were sent and that arrived:
 *
 *   rw_sender_send           new data left
 *   rw_sender_resend         data left again
 *   rw_sender_acknowledge    an ACK arrived; the answer has its effect on the windows
 *   rw_sender_time_out       the retransmission timer fired
 *   rw_sender_probe          a tail loss probe left
 *   rw_sender_detect_losses, rw_sender_enter_recovery   the reordering timer fired
 *
 * Times are nanoseconds on any clock that does not go back. The machinery around a controller's window is in window.h.
 */
#ifndef RW_SENDER_H
#define RW_SENDER_H

#include "delivery_rate.h"
#include "rw_ways.h"
#include "round_trip.h"
#include "scoreboard.h"
#include "sequence.h"

/* Effects on the windows, to be applied in the order of the bits. */
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

enum rw_sender_state { RW_SENDER_OPEN, RW_SENDER_DISORDER, RW_SENDER_CWR, RW_SENDER_RECOVERY, RW_SENDER_LOSS };

enum {
	RW_DUPLICATE_ACKS = 3, /* RFC 5681's threshold */
	RW_SACK_BLOCKS_MAX = 4,
	/* Reordering by more segments counts as this much. */
	RW_REORDERING_MAX = 300
};
/* A number further ahead belongs to another connection. */
#define RW_SEQUENCE_JUMP_MAX (1 << 30)

/* [start, end) was sent again at sent_ns, all of it or, if it was sent once more since, some of it. */
struct rw_resent {
	uint32_t start, end;
	int64_t sent_ns;
};

/* A ring, the oldest first. */
struct rw_resent_queue {
	struct rw_resent *entry; /* `capacity` of them, a power of two; null until something is sent again */
	uint32_t first, count, capacity;
};

/* RACK (RFC 8985): the segment that was sent last of all that were delivered, and how much reordering the path has. */
struct rw_rack {
	int64_t sent_ns;
	uint64_t rtt_ns;
	uint32_t end;
	/* segments: with so many SACKed above it one is lost, while reordering was not seen by RACK */
	uint32_t reordering;
	uint8_t advanced; /* a segment was delivered since the last search for losses */
	uint8_t reordering_seen;
	/* 6.2.4: the reordering window in quarters of the shortest round trip, and for how many recoveries it stays. */
	uint8_t window_steps, window_persist;
	uint8_t dsack_round; /* it has been widened in the round trip that ends with dsack_round_end */
	uint32_t dsack_round_end;
	/*
	 * The segments that may be lost, in the order in which they were sent last. Those that were sent once lie in sequence order,
	 * and below this sequence number each of them is SACKed or known to be lost. Those that were sent again are in the queue.
	 */
	uint32_t originals;
	struct rw_resent_queue resent;
};

/* A reduction that may still prove unnecessary. */
struct rw_undo {
	uint8_t possible;
	uint8_t has_retransmit_ts;
	int32_t retransmits; /* how many retransmissions no DSACK has reported yet; negative: there were none */
	uint32_t mark; /* una at its beginning */
	uint32_t retransmit_ts; /* timestamp of the first retransmission */
};

/* Tail loss probe (RFC 8985 7): one is under way, and `high` was next when it left. */
struct rw_tail_probe {
	uint8_t outstanding, retransmitted;
	uint32_t high;
};

struct rw_sender {
	struct rw_scoreboard board;
	struct rw_round_trip rtt;
	struct rw_rack rack;
	struct rw_undo undo;
	struct rw_tail_probe probe;
	struct rw_delivery_rate *rate; /* null: nobody asks for samples of it */
	uint32_t una, next; /* the first unacknowledged sequence number, the next one to be sent */
	uint32_t high; /* next when the episode (CWR, recovery, loss) began: it ends once this is acknowledged */
	uint32_t highest_sack; /* the highest sequence number that was SACKed; una when that lies higher */
	uint32_t segment_bytes; /* payload of a full segment */
	uint32_t threshold; /* RW_DUPLICATE_ACKS, or the threshold that the host was observed to use */
	uint32_t window_bytes; /* the receiver's; UINT32_MAX: not known */
	int64_t timer_ns; /* since when the retransmission timer runs; 0: it does not */
	int64_t last_send_ns;
	uint8_t state; /* rw_sender_state */
	uint8_t sack; /* both ends agreed on SACK */
	uint8_t untimed; /* send times are unknown, so ACKs give no round trip */
	uint8_t f_rto, backoff; /* backoff: timeouts in turn */
	uint8_t seen_sacks;
	struct rw_range seen_sack[RW_SACK_BLOCKS_MAX]; /* of the last ACK */
	/* Metrics */
	uint64_t fast_retransmits, timeouts;
	uint64_t retransmitted; /* packets; the caller counts them */
	uint64_t dsacked; /* segments reported as received twice, whoever sent them twice */
	uint64_t spurious; /* of those, the sender's retransmissions */
};

/* Data that leaves. */
struct rw_transmission {
	uint32_t start, end;
	int64_t time_ns;
	int64_t sent_ns; /* when its burst began: round trips and RACK count from then on */
	uint32_t ts_value; /* TCP's timestamp (RFC 7323) */
	uint8_t has_timestamp;
	uint8_t unseen; /* the caller only assumes that it was sent */
};

struct rw_sender_ack {
	int64_t time_ns;
	uint32_t ack, window_bytes;
	uint32_t ts_echo;
	uint8_t has_timestamp, carries_data;
	uint8_t ece; /* RFC 3168's flag, or RFC 9768's counter has advanced */
	uint8_t sacks;
	const struct rw_range *sack; /* `sacks` of them, RW_SACK_BLOCKS_MAX at most */
	uint64_t echo_rtt_ns; /* round trip by the echoed timestamp, for an ACK that gives no other; 0: none */
};

struct rw_sender_answer {
	uint16_t steps; /* rw_step */
	uint8_t ignored; /* an old ACK, or another connection's: the sender is as before */
	uint8_t advanced; /* una did */
	uint8_t data_acked; /* a segment was taken off the scoreboard */
	uint8_t duplicate; /* RFC 5681 */
	uint8_t rtt_by_echo;
	uint8_t no_memory; /* out of memory: the sender cannot continue */
	uint8_t
	    asks_for_new; /* F-RTO: new data is to be sent if there is some, and not what may be lost (RFC 5682 2.1, 2b) */
	uint32_t delivered; /* segments: newly acknowledged, SACKed or reported by a DSACK */
	uint32_t newly_lost; /* segments */
	/* segments that are SACKed and not acknowledged; without SACK, before this ACK is counted */
	uint32_t still_sacked;
	uint32_t unseen_bytes; /* acknowledged in RW_SEGMENT_UNSEEN segments */
	uint32_t beyond_bytes; /* acknowledged though they were never sent */
	uint64_t rtt_ns; /* 0: no sample */
	uint64_t rtt_newest_ns; /* of the newest segment that is delivered, for decisions by delay; 0: none */
	struct rw_rate_sample rate; /* where somebody asks */
};

/* segments_max: most unacknowledged segments; budget may be null. The struct may be moved. */
void rw_sender_open(struct rw_sender *s, uint32_t segment_bytes, int sack, uint32_t segments_max,
		    struct rw_budget *budget);
void rw_sender_close(struct rw_sender *s);
/* From now on ACKs sample the delivery rate into *rate, which lives as long as the sender; before the first data. */
static inline void rw_sender_sample_rate(struct rw_sender *s, struct rw_delivery_rate *rate)
{
	s->rate = rate;
	s->board.asks_for_losses = rate && rate->keeps_flights ? rate : NULL;
}
/* The first data will have this sequence number. */
void rw_sender_start(struct rw_sender *s, uint32_t sequence);
/* Forgets all outstanding segments and goes on at `sequence` as if nothing had been lost. */
void rw_sender_forget(struct rw_sender *s, uint32_t sequence);

/*
 * Becomes as `from` is, with copies of its segments; budget and delivery rate stay its own. After another status than
 * RW_SCOREBOARD_OK it is to be closed.
 */
enum rw_scoreboard_status rw_sender_copy(struct rw_sender *s, const struct rw_sender *from);

/* From now on a full segment has so many bytes, not 0. */
static inline void rw_sender_cut_by(struct rw_sender *s, uint32_t segment_bytes)
{
	s->segment_bytes = s->board.typical_bytes = segment_bytes;
}

/*
 * New data [start, end), start = next; it is cut into segments of segment_bytes, whose number is added to *segments. After a
 * status other than RW_SCOREBOARD_OK some of them may be there: the caller forgets them all.
 */
enum rw_scoreboard_status rw_sender_send(struct rw_sender *s, const struct rw_transmission *sent, uint32_t *segments);
/*
 * Data [start, end) below next leaves again; *segments: how many it is. What was not known to be lost is lost now: the sender
 * knew. RW_SCOREBOARD_OK or RW_SCOREBOARD_NO_MEMORY.
 */
enum rw_scoreboard_status rw_sender_resend(struct rw_sender *s, const struct rw_transmission *sent, uint32_t *segments);
/* Packets have left: notes what is in flight with them, where the delivery rate asks. The other functions that send do so themselves. */
void rw_sender_note_flight(struct rw_sender *s, int64_t sent_ns);
/* The newest segments [start, end) leave again as a tail loss probe, which only asks for an answer. */
enum rw_scoreboard_status rw_sender_probe(struct rw_sender *s, const struct rw_transmission *sent, uint32_t *segments);
/* The data that was sent last is a tail loss probe: there was new data to send (RFC 8985 7.3). */
void rw_sender_probed_with_new(struct rw_sender *s);
void rw_sender_acknowledge(struct rw_sender *s, const struct rw_sender_ack *ack, struct rw_sender_answer *answer);
/* Returns whether a loss episode begins, so that windows are reduced. */
int rw_sender_time_out(struct rw_sender *s, int64_t now_ns);
/* RACK looks for losses, whether an ACK brought news or not. */
void rw_sender_detect_losses(struct rw_sender *s, int64_t now_ns);
/* Returns whether windows are reduced: not if the sender was in CWR or recovery, where they were reduced already. */
int rw_sender_enter_recovery(struct rw_sender *s);
/* The handshake's round trip. */
void rw_sender_rtt(struct rw_sender *s, uint64_t rtt_ns);

/* A tick of a kernel's clock at 250 Hz, as with Debian and most others: a capture does not tell it. */
#define RW_SENDER_TICK_NS ((int64_t)4000000)

/* How many retransmission timeouts the sender, whose clock has such ticks, has been idle; 0 while something is outstanding. */
uint32_t rw_sender_idle_timeouts(const struct rw_sender *s, int64_t now_ns, int64_t tick_ns);

static inline uint32_t rw_sender_in_flight(const struct rw_sender *s) { return rw_scoreboard_in_flight(&s->board); }

static inline uint64_t rw_sender_rto_ns(const struct rw_sender *s)
{
	return rw_round_trip_timeout_ns(&s->rtt, s->backoff);
}

/* RFC 8985 7.2: when a tail loss probe leaves after the last ACK or new data. */
uint64_t rw_sender_probe_timeout_ns(const struct rw_sender *s);
/*
 * RFC 8985 6.3: segments were sent before one that was delivered, and are not lost yet. So long until all of them are, by
 * rw_sender_detect_losses; 0: there are none.
 */
uint64_t rw_sender_reordering_wait_ns(const struct rw_sender *s, int64_t now_ns);

static inline int rw_sender_reducing(const struct rw_sender *s)
{
	return s->state == RW_SENDER_CWR || s->state == RW_SENDER_RECOVERY;
}

/* Inside this room: RACK. A segment was delivered; losses are looked for; the reordering window follows a DSACK. */
void rw_rack_delivered(struct rw_sender *s, const struct rw_segment *g, int64_t now_ns);
void rw_rack_mark_lost(struct rw_sender *s, int64_t now_ns);
void rw_rack_update_window(struct rw_sender *s, int dsack);
/* Segments were sent again, after all that were before. */
enum rw_scoreboard_status rw_rack_resent(struct rw_sender *s, const struct rw_transmission *sent);
/* RACK is as that of `from`. */
enum rw_scoreboard_status rw_rack_copy(struct rw_rack *rack, const struct rw_rack *from);
/* Segments that were marked lost no longer are: they are found anew. Takes time as the window is long. */
enum rw_scoreboard_status rw_rack_restart(struct rw_sender *s);

/*
 * The short ways for the most frequent packets. Each has the effects of the functions above for such a packet.
 */

/* Whether [next, next + bytes), at most one segment, may take the short way. Others must be in flight, so that a timer runs. */
static inline int rw_sender_continues(const struct rw_sender *s, uint32_t bytes)
{
	const struct rw_scoreboard *b = &s->board;
	return bytes - 1 < s->segment_bytes && b->count > b->sacked_out + b->lost_out &&
	       rw_scoreboard_places(b) < b->room && b->count + 3 <= b->segments_max &&
	       s->next + bytes - s->una <= RW_SEQUENCE_JUMP_MAX;
}

static inline void rw_sender_continue(struct rw_sender *s, uint32_t bytes, int64_t time_ns, int64_t sent_ns,
				      uint32_t ts_value)
{
	uint32_t start = s->next, end = start + bytes;
	struct rw_scoreboard *b = &s->board;
	b->first[rw_scoreboard_places(b)] =
	    (struct rw_segment){.start = start, .end = end, .sent_ns = sent_ns, .ts_value = ts_value};
	b->count++;
	s->next = end;
	s->last_send_ns = time_ns;
}

/*
 * Most ACKs cover whole segments that were sent once, of an undisturbed sender. Returns how many segments; 0: another ACK. The ACK
 * must have no SACK blocks and no ECE.
 */
static inline uint32_t rw_sender_plain_segments(const struct rw_sender *s, uint32_t ack)
{
	enum { FEW = 8 }; /* sooner looked at than divided by */
	const struct rw_scoreboard *b = &s->board;
	uint32_t n = 0, places = rw_scoreboard_places(b), bytes = ack - s->una;
	if (ack - s->una - 1 >= s->next - s->una)
		return 0;
	if (s->state != RW_SENDER_OPEN || b->sacked_out | b->lost_out | b->retrans_out || s->probe.outstanding ||
	    s->untimed)
		return 0;
	const struct rw_segment *g = b->first;
	/* Many of one size, none of which was touched: the last of them tells that it is the last. */
	if (RW_SHORT_WAY(bytes > FEW * b->typical_bytes) && rw_seq_diff(s->una, b->touched) >= 0) {
		n = bytes / b->typical_bytes;
		if (n <= places && g[n - 1].end == ack)
			return g->sent_ns ? n : 0;
		n = 0;
	}
	/* Each segment that is visited here leaves the scoreboard next. */
	while (n < places && rw_seq_diff(g[n].end, ack) <= 0 && g[n].bits == 0 && g[n].more == 0)
		n++;
	return n && g[n - 1].end == ack && g->sent_ns ? n : 0;
}

struct rw_plain_answer {
	uint64_t rtt_ns, rtt_newest_ns;
	int64_t newest_sent_ns;
};

/* Samples the delivery rate at an ACK. 0, or 1: out of memory. */
int rw_sender_sample(struct rw_sender *s, const struct rw_delivered *delivered, struct rw_rate_sample *sample);

/* segments: the result of rw_sender_plain_segments. */
static inline struct rw_plain_answer rw_sender_acknowledge_plain(struct rw_sender *s, uint32_t ack, uint32_t segments,
								 int64_t now_ns)
{
	int64_t first_ns = s->board.first->sent_ns;
	const struct rw_segment *last = &s->board.first[segments - 1];
	struct rw_plain_answer answer = {now_ns > first_ns ? (uint64_t)(now_ns - first_ns) : 1,
					 now_ns > last->sent_ns ? (uint64_t)(now_ns - last->sent_ns) : 1,
					 last->sent_ns};
	rw_rack_delivered(s, last, now_ns); /* they were sent one after another */
	rw_scoreboard_drop(&s->board, segments);
	s->una = ack;
	if (rw_seq_diff(s->highest_sack, ack) < 0)
		s->highest_sack = ack;
	rw_round_trip_sample(&s->rtt, answer.rtt_ns, s->una, s->next);
	rw_rack_update_window(s, 0);
	s->backoff = 0;
	s->timer_ns = now_ns;
	return answer;
}

#ifdef NDEBUG
static inline void rw_sender_check(const struct rw_sender *s) { (void)s; }
#else
/* Aborts unless the invariants in check.c hold. */
void rw_sender_check(const struct rw_sender *s);
#endif

#endif
