/*
 * The scoreboard: the segments that a sender has sent and that no ACK has covered yet, in sequence order and without gaps.
 *
 * They stand in places of an array, which moves on as segments are appended behind and acknowledged in front. A segment that is
 * cut keeps its place and has its further pieces in a chain of their own; of two that are joined the second leaves its place
 * empty. So both take a constant time, and a segment is found by its sequence number at once where most have one size, else by
 * binary search.
 *
 * The counts `sacked_out`, `lost_out` and `retrans_out` are the numbers of segments with the bit of that name. Without SACK
 * the sender counts duplicate ACKs in sacked_out instead (RFC 6582), and no segment has its bit.
 */
#ifndef RW_SCOREBOARD_H
#define RW_SCOREBOARD_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "sequence.h"

enum {
	RW_SEGMENT_SACKED = 1,
	RW_SEGMENT_LOST = 2,
	RW_SEGMENT_RETRANSMITTED = 4, /* its last retransmission is in flight, as far as the sender knows */
	RW_SEGMENT_EVER = 8,          /* it was sent again at least once */
	RW_SEGMENT_UNSEEN = 16,       /* nobody saw it leave: whoever follows a sender takes it for sent */
	RW_SEGMENT_JUDGED =
	    32, /* RACK has found it lost, and it has not left again: an undo may have taken that back */
	RW_SEGMENT_EMPTY = 64         /* no segment: an empty place, behind one that was joined and sent again */
};

struct rw_segment {
	uint32_t start, end;
	int64_t sent_ns; /* of its last transmission */
	union {
		uint32_t ts_value;  /* of the same; 0: it had no timestamp */
		uint32_t sacked_to; /* of one that is SACKed: everything from it up to here is */
	};
	uint32_t bits : 8;
	uint32_t more : 24; /* 1 + the place of its next piece in `piece`; 0: none */
};

/* Places for segments, of all senders together: many senders with large windows must not use up memory. */
struct rw_budget {
	uint64_t used, most;
};

struct rw_scoreboard {
	struct rw_segment *segment; /* `capacity` places */
	struct rw_segment *first;   /* the first one used; `room` places lie from it to the end of the array */
	uint32_t room, count, capacity; /* count: segments */
	uint32_t hidden; /* places that are used less segments, modulo 2^32: empty ones less pieces */
	uint32_t sacked_out, lost_out, retrans_out;
	uint32_t segments_max;      /* count never exceeds it */
	uint32_t typical_bytes;     /* what most segments carry: where a search begins; not 0 */
	uint32_t losses;            /* how often a segment was marked lost, modulo 2^32 */
	uint32_t touched;           /* segments from this sequence number on are of one piece and have no bits */
	struct rw_delivery_rate *asks_for_losses; /* is told of each of them; null: nobody is */
	struct rw_budget *budget;   /* null: no limit */
	uint64_t work;              /* segments that were looked at one by one */
	struct rw_segment *piece;   /* `pieces_capacity` places for pieces; null until a segment is cut */
	uint32_t pieces, pieces_capacity; /* pieces: that were ever used */
	uint32_t free_piece;        /* a chain, as `more` */
};

enum rw_scoreboard_status { RW_SCOREBOARD_OK, RW_SCOREBOARD_NO_MEMORY, RW_SCOREBOARD_FULL };

/* A segment while the scoreboard is gone through. */
struct rw_cursor {
	struct rw_segment *at; /* null: behind the last */
	uint32_t place;
};

/* How many places are used. */
static inline uint32_t rw_scoreboard_places(const struct rw_scoreboard *b) { return b->count + b->hidden; }

/* The first place that is not empty, from `place` on. */
static inline struct rw_cursor rw_cursor_from(const struct rw_scoreboard *b, uint32_t place)
{
	uint32_t places = rw_scoreboard_places(b);
	while (place < places && b->first[place].bits & RW_SEGMENT_EMPTY)
		place++;
	return (struct rw_cursor){place < places ? &b->first[place] : NULL, place};
}

static inline struct rw_cursor rw_cursor_next(const struct rw_scoreboard *b, struct rw_cursor c)
{
	if (c.at->more)
		return (struct rw_cursor){&b->piece[c.at->more - 1], c.place};
	return rw_cursor_from(b, c.place + 1);
}

/* The first segment; null: there is none. Its place is never empty. */
static inline struct rw_segment *rw_scoreboard_head(const struct rw_scoreboard *b)
{
	return b->count ? b->first : NULL;
}

/* RFC 6675's pipe: what is in the network. */
static inline uint32_t rw_scoreboard_in_flight(const struct rw_scoreboard *b)
{
	uint32_t gone = b->sacked_out + b->lost_out, there = b->count + b->retrans_out;
	return there > gone ? there - gone : 0;
}

/* A segment that ends here is given a bit, or cut; or it is acknowledged, so that `touched` is never far behind. */
static inline void rw_scoreboard_touch(struct rw_scoreboard *b, uint32_t end)
{
	if (rw_seq_diff(b->touched, end) < 0)
		b->touched = end;
}

/* The first n places, whose segments are of one piece, are acknowledged. The caller keeps the counts of bits. */
static inline void rw_scoreboard_drop(struct rw_scoreboard *b, uint32_t n)
{
	rw_scoreboard_touch(b, b->first[n - 1].end);
	b->first += n;
	b->room -= n;
	b->count -= n;
	assert(b->count == 0 || !(b->first->bits & RW_SEGMENT_EMPTY));
}

/* The first segment is acknowledged. The caller keeps the counts of bits. */
void rw_scoreboard_drop_head(struct rw_scoreboard *b);
/*
 * Behind the last segment: what is `all` in one is cut into segments of segment_bytes, not 0; the last one may be shorter. Their
 * number is added to *segments.
 */
enum rw_scoreboard_status rw_scoreboard_append(struct rw_scoreboard *b, const struct rw_segment *all,
					       uint32_t segment_bytes, uint32_t *segments);
/* Cuts the cursor's segment in two at a sequence number within it; the cursor stays at the first. */
enum rw_scoreboard_status rw_scoreboard_cut(struct rw_scoreboard *b, struct rw_cursor *c, uint32_t sequence);
/*
 * The cursor's segment and the next one, whose bits are the same, become one, which was sent when the second was. It is to be
 * sent again: rw_cursor_next and the short ways rely on its bits.
 */
void rw_scoreboard_join(struct rw_scoreboard *b, struct rw_cursor c);
/* The first segment whose end lies after `sequence`. */
struct rw_cursor rw_scoreboard_find(const struct rw_scoreboard *b, uint32_t sequence);
/* The segment was lost, or its retransmission was. Does nothing to one that was SACKed or is known to be lost. */
void rw_scoreboard_lose(struct rw_scoreboard *b, struct rw_segment *g);
/* Forgets all segments. */
void rw_scoreboard_clear(struct rw_scoreboard *b);
/* The same segments as `from` has; the budget stays its own. After another status than RW_SCOREBOARD_OK it is empty. */
enum rw_scoreboard_status rw_scoreboard_copy(struct rw_scoreboard *b, const struct rw_scoreboard *from);
/* Frees them and gives their places back to the budget. */
void rw_scoreboard_close(struct rw_scoreboard *b);

#ifdef NDEBUG
static inline void rw_scoreboard_check(const struct rw_scoreboard *b, int sack) { (void)b, (void)sack; }
#else
/* Aborts unless the counts equal a recount and the segments lie one behind the other. */
void rw_scoreboard_check(const struct rw_scoreboard *b, int sack);
#endif

#endif
