#include "pairing.h"

#include <stdlib.h>

enum { ROOM_FIRST = 16 };

static int grow(struct rw_pairing *p)
{
	uint32_t room = p->room ? 2 * p->room : ROOM_FIRST;
	rw_lockstep_segment *grown = malloc(room * sizeof *grown);
	if (!grown)
		return 1;
	for (uint32_t i = 0; i < p->count; i++)
		grown[i] = p->waiting[(p->first + i) & (p->room - 1)];
	free(p->waiting);
	p->waiting = grown;
	p->first = 0;
	p->room = room;
	return 0;
}

enum rw_paired rw_pairing_take(struct rw_pairing *p, enum rw_pairing_side side, const rw_lockstep_segment *segment,
			       rw_lockstep_segment *other)
{
	if (p->count && p->side != side) {
		*other = p->waiting[p->first];
		p->first = (p->first + 1) & (p->room - 1);
		p->count--;
		return other->start == segment->start && other->end == segment->end && other->again == segment->again
			   ? RW_PAIRED_AGREES
			   : RW_PAIRED_PARTS;
	}
	if (p->count == p->room && grow(p))
		return RW_PAIRED_NO_MEMORY;
	p->side = (uint8_t)side;
	p->waiting[(p->first + p->count++) & (p->room - 1)] = *segment;
	return RW_PAIRED_WAITS;
}

void rw_pairing_close(struct rw_pairing *p)
{
	free(p->waiting);
	p->waiting = NULL;
	p->first = p->count = p->room = 0;
}
