/*
 * One transfer that keeps a window full whatever is lost, captured beside its sender: slow start to the window, then losses at
 * random, retransmissions once a segment that left later was SACKed, an ACK for every segment that arrives, with the SACK blocks
 * of RFC 2018. The link carries a full segment in LINE_NS, and the round trip is as long as the window takes to leave.
 *
 * Sequence numbers are counted in segments.
 */
#include "generate.h"

#include <stdlib.h>

enum {
	MSS = 1448,
	LINE_NS = 1200, /* a full segment at 10 Gbit/s */
	ACK_LINE_NS = 100,
	INITIAL_WINDOW = 10,
	LATER = 3, /* a segment is lost when one that left so many transmissions later has arrived */
	SACK_BLOCKS = 3,
	SCALE = 14,
	INITIAL_SEQUENCE = 1,
	PEER_SEQUENCE = 1000000
};

/* A segment on its way, or one that did not arrive. */
struct transmission {
	uint32_t segment;
	uint8_t lost;
	int64_t time_ns;
};

struct transfer {
	struct output *out;
	struct frame data, ack;
	uint64_t random, wanted, retransmissions;
	uint32_t window, one_in, mask; /* mask: of the rings, which hold more than is ever outstanding */
	uint32_t cwnd, flight, next;
	struct transmission *sent; /* in the order they left: from `arriving` to `leaving` they are on their way */
	uint32_t missing, arriving, leaving; /* missing: the oldest that was lost and is not known to be */
	uint32_t *again; /* lost segments that are to leave again */
	uint32_t again_first, again_last;
	/* The receiver: of each run of segments above `una`, its first one knows its end, its last one its start. */
	uint32_t *received, *run_start, *run_end; /* received: the segment that this place stands for, and one more */
	uint32_t una, recent[SACK_BLOCKS + 1], recents; /* starts of runs, the one that grew last first */
	uint32_t ts_recent, peer_ts;
};

static int has_arrived(const struct transfer *t, uint32_t segment)
{
	return segment < t->una || t->received[segment & t->mask] == segment + 1;
}

static int may_lose(const struct transfer *t)
{
	uint64_t last = t->wanted / 4 < 4ull * t->window ? t->wanted / 4 : 4ull * t->window; /* room to repair all */
	return t->cwnd == t->window && t->out->packets + last < t->wanted;
}

static void transmit(struct transfer *t, uint32_t segment)
{
	struct frame *f = output_next(t->out, &t->data, 0, LINE_NS);
	f->sequence = htobe32(INITIAL_SEQUENCE + 1 + segment * MSS);
	f->ack = htobe32(PEER_SEQUENCE + 1);
	f->ts_value = timestamp(t->out->clock_ns);
	f->ts_echo = t->peer_ts;
	output_done(t->out, f);
	uint8_t lost = may_lose(t) && draw(&t->random) % t->one_in == 0;
	t->sent[t->leaving++ & t->mask] = (struct transmission){segment, lost, t->out->clock_ns};
	t->flight++;
}

/* The segment arrives: the run that it is in now. */
static void arrive(struct transfer *t, uint32_t segment)
{
	uint32_t start = segment, end = segment + 1;
	if (segment > t->una && has_arrived(t, segment - 1))
		start = t->run_start[(segment - 1) & t->mask];
	if (has_arrived(t, end))
		end = t->run_end[end & t->mask];
	t->received[segment & t->mask] = segment + 1;
	t->run_start[(end - 1) & t->mask] = start;
	t->run_end[start & t->mask] = end;
	uint32_t recent[SACK_BLOCKS + 1], recents = 0;
	if (start == t->una)
		t->una = end;
	else
		recent[recents++] = start;
	for (uint32_t i = 0; i < t->recents && recents <= SACK_BLOCKS; i++)
		if ((t->recent[i] < start || t->recent[i] >= end) && t->recent[i] > t->una)
			recent[recents++] = t->recent[i];
	memcpy(t->recent, recent, sizeof recent);
	t->recents = recents;
}

static void acknowledge(struct transfer *t, int64_t time_ns)
{
	struct frame *f = output_next(t->out, &t->ack, time_ns, ACK_LINE_NS);
	uint32_t blocks = t->recents < SACK_BLOCKS ? t->recents : SACK_BLOCKS;
	f->sequence = htobe32(PEER_SEQUENCE + 1);
	f->ack = htobe32(INITIAL_SEQUENCE + 1 + t->una * MSS);
	f->ts_value = t->peer_ts = timestamp(t->out->clock_ns);
	f->ts_echo = t->ts_recent;
	if (blocks) {
		const uint8_t head[4] = {1, 1, 5, (uint8_t)(2 + 8 * blocks)};
		memcpy(f->options, head, 4);
		for (uint32_t i = 0; i < blocks; i++) {
			uint32_t start = t->recent[i], end = t->run_end[start & t->mask];
			uint32_t edge[2] = {htobe32(INITIAL_SEQUENCE + 1 + start * MSS),
					    htobe32(INITIAL_SEQUENCE + 1 + end * MSS)};
			memcpy(f->options + 4 + 8 * i, edge, 8);
		}
		frame_shape(f, 4 + 8 * blocks, 0);
	}
	output_done(t->out, f);
}

/* What left LATER transmissions before this one and has not arrived is lost. */
static void find_losses(struct transfer *t, uint32_t transmission)
{
	for (; t->missing + LATER <= transmission; t->missing++)
		if (t->sent[t->missing & t->mask].lost) {
			t->again[t->again_last++ & t->mask] = t->sent[t->missing & t->mask].segment;
			t->flight--;
		}
}

static void send(struct transfer *t)
{
	while (t->flight < t->cwnd) {
		if (t->again_first != t->again_last) {
			transmit(t, t->again[t->again_first++ & t->mask]);
			t->retransmissions++;
		} else if (t->out->packets + t->flight < t->wanted) {
			transmit(t, t->next++);
		} else {
			return;
		}
	}
}

static void shake_hands(struct transfer *t, int64_t rtt_ns)
{
	static const uint8_t flags[3] = {TCP_SYN, TCP_SYN | TCP_ACK, TCP_ACK};
	int64_t start_ns = t->out->clock_ns;
	for (int i = 0; i < 3; i++) {
		struct frame *f =
		    output_next(t->out, i == 1 ? &t->ack : &t->data, i ? start_ns + rtt_ns : start_ns, ACK_LINE_NS);
		f->flags = flags[i];
		f->sequence = htobe32(i == 1 ? PEER_SEQUENCE : INITIAL_SEQUENCE + (i == 2));
		f->ack = i == 0 ? 0 : htobe32(i == 1 ? INITIAL_SEQUENCE + 1 : PEER_SEQUENCE + 1);
		f->ts_value = timestamp(t->out->clock_ns);
		f->ts_echo = i ? timestamp(i == 1 ? start_ns : t->out->clock_ns) : 0;
		t->peer_ts = f->ts_value;
		if (i < 2) {
			frame_syn_options(f, MSS + TIMESTAMPS_BYTES);
			f->options[SYN_OPTIONS_BYTES - 1] = SCALE;
		}
		frame_shape(f, i < 2 ? SYN_OPTIONS_BYTES : 0, 0);
		output_done(t->out, f);
	}
}

static void *ring(uint32_t mask, size_t size)
{
	void *p = calloc(mask + 1, size);
	if (!p)
		die("out of memory");
	return p;
}

struct report generate_lossy(struct output *o, uint64_t packets, uint32_t window, uint32_t one_in)
{
	static struct transfer t;
	const struct address from = {0x0a000001, 0xc6120001, 40000, 5001}, back = address_reverse(from);
	int64_t rtt_ns = (int64_t)window * LINE_NS;
	t = (struct transfer){
	    .out = o, .random = 1, .wanted = packets, .window = window, .one_in = one_in, .cwnd = INITIAL_WINDOW};
	for (t.mask = 1; t.mask < 16 * window; t.mask = 2 * t.mask + 1) {
	}
	t.sent = ring(t.mask, sizeof *t.sent);
	t.again = ring(t.mask, sizeof *t.again);
	t.received = ring(t.mask, sizeof *t.received);
	t.run_start = ring(t.mask, sizeof *t.run_start);
	t.run_end = ring(t.mask, sizeof *t.run_end);
	frame_template(&t.data, &from, TCP_ACK);
	frame_template(&t.ack, &back, TCP_ACK);
	t.data.window = t.ack.window = htobe16(UINT16_MAX);
	shake_hands(&t, rtt_ns);
	frame_shape(&t.data, 0, MSS);
	send(&t);
	for (; t.arriving != t.leaving; t.arriving++) {
		const struct transmission *sent = &t.sent[t.arriving & t.mask];
		if (sent->lost)
			continue;
		uint32_t before = t.una;
		t.ts_recent = sent->segment == before ? timestamp(sent->time_ns) : t.ts_recent; /* RFC 7323 4.3 */
		arrive(&t, sent->segment);
		acknowledge(&t, sent->time_ns + rtt_ns);
		find_losses(&t, t.arriving);
		t.flight--;
		if (t.cwnd < window)
			t.cwnd++;
		send(&t);
	}
	if (t.una != t.next)
		die("a segment was never repaired");
	free(t.sent);
	free(t.again);
	free(t.received);
	free(t.run_start);
	free(t.run_end);
	return (struct report){1, t.retransmissions};
}
