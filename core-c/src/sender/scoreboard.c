#include "scoreboard.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "delivery_rate.h"
#include "search.h"
#include "sequence.h"

enum { FIRST_CAPACITY = 4, PIECES_MAX = 1 << 24 };

_Static_assert(sizeof(struct rw_segment) == offsetof(struct rw_segment, ts_value) + 8,
	       "the last word has bits and pieces");

/* May the budget be charged with n more places? */
static int can_afford(const struct rw_scoreboard *b, uint32_t n)
{
	return !b->budget || b->budget->used + n <= b->budget->most;
}

static void charge(struct rw_scoreboard *b, uint32_t n)
{
	if (b->budget)
		b->budget->used += n;
}

/*
 * Behind the last place there are fewer than n. All move to the front of the array when that makes enough and a quarter of it was
 * free there, or when the budget allows no larger one.
 */
static RW_ASIDE enum rw_scoreboard_status make_room(struct rw_scoreboard *b, uint32_t n)
{
	uint32_t places = rw_scoreboard_places(b), capacity = b->capacity;
	struct rw_segment *segment = b->segment;
	int fits = places + n <= capacity;
	if (!fits || places > capacity / 4 * 3) {
		do
			capacity = capacity ? capacity * 2 : FIRST_CAPACITY;
		while (capacity < places + n);
		if (!can_afford(b, capacity - b->capacity)) {
			if (!fits)
				return RW_SCOREBOARD_FULL;
			capacity = b->capacity;
			b->work += places;
		}
	}
	if (capacity != b->capacity) {
		segment = malloc(capacity * sizeof *segment);
		if (!segment)
			return RW_SCOREBOARD_NO_MEMORY;
		charge(b, capacity - b->capacity);
	}
	if (places)
		memmove(segment, b->first, places * sizeof *segment);
	if (segment != b->segment)
		free(b->segment);
	b->segment = b->first = segment;
	b->room = b->capacity = capacity;
	return RW_SCOREBOARD_OK;
}

typedef uint32_t quad __attribute__((vector_size(16)));

/* n segments, whole ones, from the beginning of `all` on. */
static inline void fill(struct rw_segment *at, uint32_t n, const struct rw_segment *all, uint32_t segment_bytes)
{
	enum { PAIRS_FROM = 8 };
	struct rw_segment *end = at + n;
	uint32_t start = all->start;
	uint64_t same;
	memcpy(&same, &all->ts_value, sizeof same);
	if (n >= PAIRS_FROM) {
		/* Segmentation offload sends many at once: two of them are three vectors, and only numbers differ in the next two. */
		struct rw_segment pair[2] = {*all, *all};
		pair[0].end = pair[1].start = start + segment_bytes;
		pair[1].end = pair[1].start + segment_bytes;
		quad part[3], more = {2 * segment_bytes, 2 * segment_bytes}, behind = {0, 0, more[0], more[1]};
		memcpy(part, pair, sizeof part);
		quad first = part[0], second = part[1], third = part[2];
		for (; end - at >= 2; at += 2, start += 2 * segment_bytes) {
			memcpy(at, &first, sizeof first);
			memcpy((uint8_t *)at + sizeof first, &second, sizeof second);
			memcpy((uint8_t *)at + 2 * sizeof first, &third, sizeof third);
			first += more;
			second += behind;
		}
	}
	/* Field by field: a struct that is put together in parts and copied whole waits for its parts. */
	for (; at < end; at++, start += segment_bytes) {
		at->start = start;
		at->end = start + segment_bytes;
		at->sent_ns = all->sent_ns;
		memcpy(&at->ts_value, &same, sizeof same);
	}
}

enum rw_scoreboard_status rw_scoreboard_append(struct rw_scoreboard *b, const struct rw_segment *all,
					       uint32_t segment_bytes, uint32_t *segments)
{
	uint32_t bytes = all->end - all->start, n = bytes / segment_bytes + (bytes % segment_bytes != 0);
	uint32_t places = rw_scoreboard_places(b);
	if (n > b->segments_max || b->count > b->segments_max - n)
		return RW_SCOREBOARD_FULL;
	enum rw_scoreboard_status status = b->room - places < n ? make_room(b, n) : RW_SCOREBOARD_OK;
	if (status)
		return status;
	fill(b->first + places, n, all, segment_bytes);
	if (n)
		b->first[places + n - 1].end = all->end;
	if (all->bits)
		rw_scoreboard_touch(b, all->end);
	b->count += n;
	*segments += n;
	return RW_SCOREBOARD_OK;
}

static enum rw_scoreboard_status make_room_for_pieces(struct rw_scoreboard *b)
{
	uint32_t capacity = b->pieces_capacity ? b->pieces_capacity * 2 : FIRST_CAPACITY;
	if (capacity > PIECES_MAX || !can_afford(b, capacity - b->pieces_capacity))
		return RW_SCOREBOARD_FULL;
	struct rw_segment *piece = realloc(b->piece, capacity * sizeof *piece);
	if (!piece)
		return RW_SCOREBOARD_NO_MEMORY;
	charge(b, capacity - b->pieces_capacity);
	b->piece = piece;
	b->pieces_capacity = capacity;
	return RW_SCOREBOARD_OK;
}

/* A place for a piece, as `more` has it; 0: there is none. */
static uint32_t take_piece(struct rw_scoreboard *b)
{
	uint32_t taken = b->free_piece;
	if (taken)
		b->free_piece = b->piece[taken - 1].more;
	else if (b->pieces < b->pieces_capacity)
		taken = ++b->pieces;
	return taken;
}

static void free_piece(struct rw_scoreboard *b, uint32_t piece)
{
	b->piece[piece - 1].more = b->free_piece;
	b->free_piece = piece;
}

enum rw_scoreboard_status rw_scoreboard_cut(struct rw_scoreboard *b, struct rw_cursor *c, uint32_t sequence)
{
	if (b->count >= b->segments_max)
		return RW_SCOREBOARD_FULL;
	if (!b->free_piece && b->pieces == b->pieces_capacity) {
		/* The cursor may be at a piece, and those move. */
		ptrdiff_t at = c->at == &b->first[c->place] ? -1 : c->at - b->piece;
		enum rw_scoreboard_status status = make_room_for_pieces(b);
		if (status)
			return status;
		c->at = at < 0 ? &b->first[c->place] : &b->piece[at];
	}
	uint32_t rest = take_piece(b);
	struct rw_segment *g = c->at;
	rw_scoreboard_touch(b, g->end);
	b->piece[rest - 1] = *g;
	b->piece[rest - 1].start = g->end = sequence;
	g->more = rest;
	b->count++;
	b->hidden--;
	b->sacked_out += !!(g->bits & RW_SEGMENT_SACKED);
	b->lost_out += !!(g->bits & RW_SEGMENT_LOST);
	b->retrans_out += !!(g->bits & RW_SEGMENT_RETRANSMITTED);
	return RW_SCOREBOARD_OK;
}

/* Segment g, in a place of its own, is replaced by its next piece. */
static void move_up(struct rw_scoreboard *b, struct rw_segment *g)
{
	uint32_t next = g->more;
	*g = b->piece[next - 1];
	free_piece(b, next);
}

void rw_scoreboard_join(struct rw_scoreboard *b, struct rw_cursor c)
{
	struct rw_cursor next = rw_cursor_next(b, c);
	struct rw_segment second = *next.at;
	rw_scoreboard_touch(b, second.end);
	b->sacked_out -= !!(second.bits & RW_SEGMENT_SACKED);
	b->lost_out -= !!(second.bits & RW_SEGMENT_LOST);
	b->retrans_out -= !!(second.bits & RW_SEGMENT_RETRANSMITTED);
	b->count--;
	b->hidden++;
	/* Empty places between the two lie behind the second one now. */
	for (uint32_t i = c.place + 1; i < next.place; i++, b->work++)
		b->first[i].start = b->first[i].end = second.end;
	if (c.at->more) {
		uint32_t joined = c.at->more;
		c.at->more = second.more;
		free_piece(b, joined);
	} else if (second.more) {
		move_up(b, next.at);
	} else {
		*next.at = (struct rw_segment){.start = second.end, .end = second.end, .bits = RW_SEGMENT_EMPTY};
	}
	c.at->end = second.end;
	c.at->sent_ns = second.sent_ns;
	c.at->ts_value = second.ts_value;
}

void rw_scoreboard_drop_head(struct rw_scoreboard *b)
{
	rw_scoreboard_touch(b, b->first->end);
	b->count--;
	if (b->first->more) {
		b->hidden++;
		move_up(b, b->first);
		return;
	}
	b->first++;
	b->room--;
	while (rw_scoreboard_places(b) && b->first->bits & RW_SEGMENT_EMPTY) {
		b->first++;
		b->room--;
		b->hidden--;
	}
}

void rw_scoreboard_clear(struct rw_scoreboard *b)
{
	uint32_t places = rw_scoreboard_places(b);
	if (places) { /* else there may be no array yet */
		b->first += places;
		b->room -= places;
	}
	b->count = b->hidden = b->pieces = b->free_piece = 0;
	b->sacked_out = b->lost_out = b->retrans_out = 0;
}

void rw_scoreboard_close(struct rw_scoreboard *b)
{
	if (b->budget)
		b->budget->used -= b->capacity + b->pieces_capacity;
	rw_scoreboard_clear(b);
	free(b->segment);
	free(b->piece);
	b->segment = b->first = b->piece = NULL;
	b->capacity = b->room = b->pieces_capacity = 0;
}

/* Is this the last place that begins at `sequence` or before? */
static int holds(const struct rw_scoreboard *b, uint32_t place, uint32_t sequence)
{
	uint32_t places = rw_scoreboard_places(b);
	return place < places && rw_seq_diff(b->first[place].start, sequence) <= 0 &&
	       (place + 1 == places || rw_seq_diff(b->first[place + 1].start, sequence) > 0);
}

struct rw_cursor rw_scoreboard_find(const struct rw_scoreboard *b, uint32_t sequence)
{
	if (b->count == 0 || rw_seq_diff(b->first->start, sequence) > 0)
		return rw_cursor_from(b, 0);
	/* Most segments have one size, and then the segment is here: the branches of a search cannot be predicted. */
	uint32_t place = (sequence - b->first->start) / b->typical_bytes;
	if (!holds(b, place, sequence)) {
		struct rw_search behind = {1, rw_scoreboard_places(b)}; /* the first place does not begin behind it */
		while (rw_search_goes_on(&behind))
			rw_search_answer(&behind,
					 rw_seq_diff(b->first[rw_search_middle(&behind)].start, sequence) <= 0);
		place = (uint32_t)behind.low - 1;
	}
	struct rw_cursor c = rw_cursor_from(b, place);
	while (c.at && rw_seq_diff(c.at->end, sequence) <= 0)
		c = rw_cursor_next(b, c);
	return c;
}

void rw_scoreboard_lose(struct rw_scoreboard *b, struct rw_segment *g)
{
	if (g->bits & RW_SEGMENT_SACKED)
		return;
	if (g->bits & RW_SEGMENT_RETRANSMITTED) {
		g->bits &= ~(uint32_t)RW_SEGMENT_RETRANSMITTED;
		b->retrans_out--;
	} else if (g->bits & RW_SEGMENT_LOST) {
		return;
	}
	b->losses++;
	rw_scoreboard_touch(b, g->end);
	if (!(g->bits & RW_SEGMENT_LOST)) {
		g->bits |= RW_SEGMENT_LOST;
		b->lost_out++;
	}
	if (b->asks_for_losses) {
		struct rw_found_lost found = {g->sent_ns, g->start, g->end, b->losses};
		rw_delivery_rate_lost(b->asks_for_losses, &found);
	}
}

enum rw_scoreboard_status rw_scoreboard_copy(struct rw_scoreboard *b, const struct rw_scoreboard *from)
{
	uint32_t places = rw_scoreboard_places(from);
	enum rw_scoreboard_status status = RW_SCOREBOARD_OK;
	rw_scoreboard_clear(b);
	if (b->room < places)
		status = make_room(b, places);
	while (!status && b->pieces_capacity < from->pieces)
		status = make_room_for_pieces(b);
	if (status)
		return status;
	if (places)
		memcpy(b->first, from->first, places * sizeof *b->first);
	if (from->pieces)
		memcpy(b->piece, from->piece, from->pieces * sizeof *b->piece);
	b->pieces = from->pieces;
	b->free_piece = from->free_piece;
	b->count = from->count;
	b->hidden = from->hidden;
	b->sacked_out = from->sacked_out;
	b->lost_out = from->lost_out;
	b->retrans_out = from->retrans_out;
	b->typical_bytes = from->typical_bytes;
	b->losses = from->losses;
	b->touched = from->touched;
	return RW_SCOREBOARD_OK;
}

#ifndef NDEBUG
void rw_scoreboard_check(const struct rw_scoreboard *b, int sack)
{
	uint32_t count = 0, sacked = 0, lost = 0, retransmitted = 0;
	const struct rw_segment *before = NULL;
	assert(rw_scoreboard_places(b) <= b->room && b->room <= b->capacity && b->count <= b->segments_max);
	for (struct rw_cursor c = rw_cursor_from(b, 0); c.at; before = c.at, c = rw_cursor_next(b, c)) {
		const struct rw_segment *g = c.at;
		assert(rw_seq_diff(g->end, g->start) > 0);
		assert(!before || g->start == before->end);
		/* Short ways end at a segment with bits, so that no empty place follows what they drop. */
		assert(g != &b->first[c.place] || c.place == 0 || before->bits & RW_SEGMENT_EVER ||
		       !(b->first[c.place - 1].bits & RW_SEGMENT_EMPTY));
		assert(!(g->bits & RW_SEGMENT_SACKED && g->bits & RW_SEGMENT_LOST));
		assert(!(g->bits & RW_SEGMENT_SACKED) || rw_seq_diff(g->sacked_to, g->end) >= 0);
		assert(!(g->bits & RW_SEGMENT_RETRANSMITTED) || g->bits & RW_SEGMENT_EVER);
		assert((!g->bits && !g->more) || rw_seq_diff(b->touched, g->end) >= 0);
		count++;
		sacked += !!(g->bits & RW_SEGMENT_SACKED);
		lost += !!(g->bits & RW_SEGMENT_LOST);
		retransmitted += !!(g->bits & RW_SEGMENT_RETRANSMITTED);
	}
	assert(count == b->count && (count > 0) == (rw_scoreboard_places(b) > 0));
	assert(lost == b->lost_out && retransmitted == b->retrans_out);
	assert(sack ? sacked == b->sacked_out : sacked == 0 && b->sacked_out <= b->count);
}
#endif
