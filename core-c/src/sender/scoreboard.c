#include "scoreboard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "sequence.h"

enum { FIRST_CAPACITY = 4 };

/*
 * There is no place behind the last segment. The segments move to the front of the array when a quarter of it is free there, or
 * when the budget allows no larger one.
 */
static RW_ASIDE enum rw_scoreboard_status make_room(struct rw_scoreboard *b)
{
	uint32_t capacity = b->capacity ? b->capacity * 2 : FIRST_CAPACITY;
	struct rw_segment *segment = b->segment;
	int spent = b->budget && b->budget->used + (capacity - b->capacity) > b->budget->most;
	if (spent && b->count == b->capacity)
		return RW_SCOREBOARD_FULL;
	if (spent || (segment && b->count <= b->capacity / 4 * 3)) {
		capacity = b->capacity;
		b->work += spent ? b->count : 0;
	} else {
		segment = malloc(capacity * sizeof *segment);
		if (!segment)
			return RW_SCOREBOARD_NO_MEMORY;
		if (b->budget)
			b->budget->used += capacity - b->capacity;
	}
	if (b->count)
		memmove(segment, b->first, b->count * sizeof *segment);
	if (segment != b->segment)
		free(b->segment);
	b->segment = b->first = segment;
	b->room = b->capacity = capacity;
	return RW_SCOREBOARD_OK;
}

enum rw_scoreboard_status rw_scoreboard_append(struct rw_scoreboard *b, const struct rw_segment *segment)
{
	if (b->count >= b->segments_max)
		return RW_SCOREBOARD_FULL;
	enum rw_scoreboard_status status = b->count == b->room ? make_room(b) : RW_SCOREBOARD_OK;
	if (status)
		return status;
	b->first[b->count++] = *segment;
	return RW_SCOREBOARD_OK;
}

enum rw_scoreboard_status rw_scoreboard_cut(struct rw_scoreboard *b, uint32_t i, uint32_t sequence)
{
	struct rw_segment g = *rw_segment_at(b, i);
	struct rw_segment rest = g;
	rest.start = sequence;
	enum rw_scoreboard_status status = rw_scoreboard_append(b, &rest);
	if (status)
		return status;
	for (uint32_t k = b->count - 1; k > i + 1; k--)
		*rw_segment_at(b, k) = *rw_segment_at(b, k - 1);
	b->work += b->count - i;
	rw_segment_at(b, i)->end = g.start = sequence;
	*rw_segment_at(b, i + 1) = g;
	b->sacked_out += !!(g.bits & RW_SEGMENT_SACKED);
	b->lost_out += !!(g.bits & RW_SEGMENT_LOST);
	b->retrans_out += !!(g.bits & RW_SEGMENT_RETRANSMITTED);
	return RW_SCOREBOARD_OK;
}

void rw_scoreboard_join(struct rw_scoreboard *b, uint32_t i)
{
	struct rw_segment joined = *rw_segment_at(b, i + 1);
	joined.start = rw_segment_at(b, i)->start;
	b->sacked_out -= !!(joined.bits & RW_SEGMENT_SACKED);
	b->lost_out -= !!(joined.bits & RW_SEGMENT_LOST);
	b->retrans_out -= !!(joined.bits & RW_SEGMENT_RETRANSMITTED);
	memmove(b->first + 1, b->first, i * sizeof *b->first); /* what is sent again is near the head */
	b->work += i + 1;
	*rw_segment_at(b, i + 1) = joined;
	rw_scoreboard_drop(b, 1);
}

void rw_scoreboard_clear(struct rw_scoreboard *b)
{
	if (b->count) /* else there may be no array yet */
		rw_scoreboard_drop(b, b->count);
	b->sacked_out = b->lost_out = b->retrans_out = 0;
}

void rw_scoreboard_close(struct rw_scoreboard *b)
{
	if (b->budget)
		b->budget->used -= b->capacity;
	rw_scoreboard_clear(b);
	free(b->segment);
	b->segment = b->first = NULL;
	b->capacity = b->room = 0;
}

/* Is segment i the first whose end lies after `sequence`? */
static int is_first_after(const struct rw_scoreboard *b, uint32_t i, uint32_t sequence)
{
	return i < b->count && rw_seq_diff(rw_segment_at(b, i)->end, sequence) > 0 &&
	       (i == 0 || rw_seq_diff(rw_segment_at(b, i - 1)->end, sequence) <= 0);
}

uint32_t rw_scoreboard_find(const struct rw_scoreboard *b, uint32_t sequence)
{
	uint32_t low = 0, high = b->count;
	/* Most segments have one size, and then the segment is here: the branches of a search cannot be predicted. */
	uint32_t likely = b->count ? (sequence - rw_segment_at(b, 0)->start) / b->typical_bytes : 0;
	if (is_first_after(b, likely, sequence))
		return likely;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (rw_seq_diff(rw_segment_at(b, middle)->end, sequence) > 0)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

void rw_scoreboard_lose(struct rw_scoreboard *b, struct rw_segment *g)
{
	if (g->bits & RW_SEGMENT_SACKED)
		return;
	if (g->bits & RW_SEGMENT_RETRANSMITTED) {
		g->bits &= (uint8_t)~RW_SEGMENT_RETRANSMITTED;
		b->retrans_out--;
	} else if (g->bits & RW_SEGMENT_LOST) {
		return;
	}
	b->losses++;
	if (!(g->bits & RW_SEGMENT_LOST)) {
		g->bits |= RW_SEGMENT_LOST;
		b->lost_out++;
	}
}

#ifndef NDEBUG
void rw_scoreboard_check(const struct rw_scoreboard *b, int sack)
{
	uint32_t sacked = 0, lost = 0, retransmitted = 0;
	assert(b->count <= b->room && b->room <= b->capacity);
	assert(b->count <= b->segments_max);
	for (uint32_t i = 0; i < b->count; i++) {
		const struct rw_segment *g = rw_segment_at(b, i);
		assert(rw_seq_diff(g->end, g->start) > 0);
		assert(i == 0 || g->start == rw_segment_at(b, i - 1)->end);
		assert(!(g->bits & RW_SEGMENT_SACKED && g->bits & RW_SEGMENT_LOST));
		assert(!(g->bits & RW_SEGMENT_RETRANSMITTED) || g->bits & RW_SEGMENT_EVER);
		sacked += !!(g->bits & RW_SEGMENT_SACKED);
		lost += !!(g->bits & RW_SEGMENT_LOST);
		retransmitted += !!(g->bits & RW_SEGMENT_RETRANSMITTED);
	}
	assert(lost == b->lost_out && retransmitted == b->retrans_out);
	assert(sack ? sacked == b->sacked_out : sacked == 0 && b->sacked_out <= b->count);
}
#endif
