/*
 * The scoreboard: the segments that a sender has sent and that no ACK has covered yet, in sequence order and without gaps.
 *
 * The counts `sacked_out`, `lost_out` and `retrans_out` are the numbers of segments with the bit of that name. Without SACK
 * the sender counts duplicate ACKs in sacked_out instead (RFC 6582), and no segment has its bit.
 */
#ifndef RW_SCOREBOARD_H
#define RW_SCOREBOARD_H

#include <stdint.h>

enum {
	RW_SEGMENT_SACKED = 1,
	RW_SEGMENT_LOST = 2,
	RW_SEGMENT_RETRANSMITTED = 4, /* its last retransmission is in flight, as far as the sender knows */
	RW_SEGMENT_EVER = 8,          /* it was sent again at least once */
	RW_SEGMENT_UNSEEN = 16,       /* nobody saw it leave: whoever follows a sender takes it for sent */
	RW_SEGMENT_JUDGED = 32 /* RACK has found it lost, and it has not left again: an undo may have taken that back */
};

struct rw_segment {
	uint32_t start, end;
	int64_t sent_ns; /* of its last transmission */
	uint32_t ts_value; /* of the same; 0: it had no timestamp */
	uint8_t bits;
};

/* Places for segments, of all senders together: many senders with large windows must not use up memory. */
struct rw_budget {
	uint64_t used, most;
};

struct rw_scoreboard {
	struct rw_segment *segment; /* `capacity` places */
	struct rw_segment *first; /* the first segment; `room` places lie from it to the end of the array */
	uint32_t room, count, capacity;
	uint32_t sacked_out, lost_out, retrans_out;
	uint32_t segments_max; /* count never exceeds it */
	uint32_t typical_bytes; /* what most segments carry: where a search begins; not 0 */
	uint32_t losses; /* how often a segment was marked lost, modulo 2^32 */
	struct rw_budget *budget; /* null: no limit */
	uint64_t work; /* segments that were looked at one by one */
};

enum rw_scoreboard_status { RW_SCOREBOARD_OK, RW_SCOREBOARD_NO_MEMORY, RW_SCOREBOARD_FULL };

static inline struct rw_segment *rw_segment_at(const struct rw_scoreboard *b, uint32_t i) { return &b->first[i]; }

/* RFC 6675's pipe: what is in the network. */
static inline uint32_t rw_scoreboard_in_flight(const struct rw_scoreboard *b)
{
	uint32_t gone = b->sacked_out + b->lost_out, there = b->count + b->retrans_out;
	return there > gone ? there - gone : 0;
}

/* The first n segments are acknowledged. The caller keeps the counts. */
static inline void rw_scoreboard_drop(struct rw_scoreboard *b, uint32_t n)
{
	b->first += n;
	b->room -= n;
	b->count -= n;
}

enum rw_scoreboard_status rw_scoreboard_append(struct rw_scoreboard *b, const struct rw_segment *segment);
/* Cuts segment i in two at a sequence number within it. */
enum rw_scoreboard_status rw_scoreboard_cut(struct rw_scoreboard *b, uint32_t i, uint32_t sequence);
/* Makes one of segment i and the next, whose bits are the same. */
void rw_scoreboard_join(struct rw_scoreboard *b, uint32_t i);
/* The first segment whose end lies after `sequence`; count when there is none. */
uint32_t rw_scoreboard_find(const struct rw_scoreboard *b, uint32_t sequence);
/* The segment was lost, or its retransmission was. Does nothing to one that was SACKed or is known to be lost. */
void rw_scoreboard_lose(struct rw_scoreboard *b, struct rw_segment *g);
/* Forgets all segments. */
void rw_scoreboard_clear(struct rw_scoreboard *b);
/* Frees them and gives their places back to the budget. */
void rw_scoreboard_close(struct rw_scoreboard *b);

#ifdef NDEBUG
static inline void rw_scoreboard_check(const struct rw_scoreboard *b, int sack) { (void)b, (void)sack; }
#else
/* Aborts unless the counts equal a recount and the segments lie one behind the other. */
void rw_scoreboard_check(const struct rw_scoreboard *b, int sack);
#endif

#endif
