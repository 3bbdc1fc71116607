/*
 * IPv4 identifications: most senders number the packets of a connection one by one. Away from the sender, missing numbers are
 * packets that were lost before the capture point. Those that were not first transmissions were retransmissions.
 */
#include "reconstruction.h"

/* A larger gap is not loss: the numbers were used elsewhere. */
#define MISSING_MAX 256

RW_ASIDE void rw_reconstruction_identify(struct rw_reconstruction *r, struct rw_packet *p)
{
	struct rw_identification *id = &r->identification;
	if (!id->asked)
		return;
	uint32_t mss = rw_reconstruction_segment_bytes(r, p);
	uint16_t segments = p->payload_bytes > mss ? (uint16_t)((p->payload_bytes + mss - 1) / mss) : 1;
	int16_t ahead = (int16_t)(p->identification - id->next);
	/* If data is in order and no loss is known, nothing was retransmitted: other packets of the host took the numbers. */
	int undisturbed = r->tcp.state == RW_SENDER_OPEN && p->sequence == id->end;
	uint32_t end = p->sequence + p->payload_bytes + !!(p->flags & RW_TCP_SYN);
	if (!id->started || rw_seq_diff(end, id->end) > 0)
		id->end = end;
	if (id->started) {
		if (ahead < 0) {
			p->overtaken = 1;
			id->out_of_order++;
			if (id->missing)
				id->missing--;
			return;
		}
		if (ahead > MISSING_MAX)
			id->out_of_order++;
		else if (!undisturbed)
			id->missing += (uint64_t)ahead;
		id->consecutive += ahead == 0;
		id->in_order++;
	}
	id->started = 1;
	id->next = (uint16_t)(p->identification + segments);
}

uint64_t rw_reconstruction_unseen_retransmissions(const struct rw_reconstruction *r)
{
	const struct rw_identification *id = &r->identification;
	uint64_t elsewhere = id->in_order - id->consecutive;
	/* Random counters, and counters that a host shares among flows, are not usable. */
	if (id->out_of_order * 20 > id->in_order || elsewhere > 4 + id->in_order / 10)
		return 0;
	return id->missing > id->holes ? id->missing - id->holes : 0;
}
