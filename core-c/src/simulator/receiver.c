#include "receiver.h"

#include <stdlib.h>
#include <string.h>

#include "fixed_point.h"
#include "kernel.h"
#include "link.h"

#define MS 1000000ull
/* Delayed ACKs: ip-sysctl(7) and RFC 5681 4.2; so many at once when a connection begins or goes on after a pause. */
#define DELAY_MIN_NS (40 * MS)
#define DELAY_MAX_NS (200 * MS)
#define HELD_MAX_NS MS /* tcp_comp_sack_delay_ns */
/* What the kernel counts of its buffer for a segment: what it allocates for a packet of usual size, or more for a longer one. */
#define SEGMENT_MEMORY 2304
#define SEGMENT_MORE 704
#define WINDOW_UNIT 1024
#define WINDOW_FIRST 65535 /* what the first segment that it sends can say (RFC 7323 2.2) */
enum { QUICK_ACKS = 16, QUICK_ACKS_CE = 2, HELD_ACKS_MAX = 44 /* tcp_comp_sack_nr */, HELDS_FIRST = 8 };

void rw_receiver_open(struct rw_receiver *r, const struct rw_receiver_settings *settings,
		      const struct rw_kernel *kernel, struct rw_receive_window *window)
{
	memset(r, 0, sizeof *r);
	r->settings = *settings;
	r->kernel = kernel;
	r->ack_due_ns = r->held_due_ns = RW_NEVER;
	r->window = window;
	r->threshold = rw_min64(window->clamp, WINDOW_FIRST);
}

void rw_receiver_close(struct rw_receiver *r)
{
	free(r->held);
	r->held = NULL;
	r->helds = r->held_room = 0;
}

/*
 * Data beyond the next
 */

static int grow_helds(struct rw_receiver *r)
{
	uint32_t room = r->held_room ? 2 * r->held_room : HELDS_FIRST;
	struct rw_range *grown = realloc(r->held, room * sizeof *grown);
	if (!grown)
		return 1;
	r->held = grown;
	r->held_room = room;
	return 0;
}

/* The block becomes the newest; those within it are no longer blocks of their own. */
static void report_first(struct rw_receiver *r, struct rw_range block)
{
	struct rw_range kept[RW_SACK_BLOCKS_MAX] = {block};
	uint8_t n = 1;
	for (uint8_t i = 0; i < r->recents && n < RW_SACK_BLOCKS_MAX; i++) {
		struct rw_range old = r->recent[i];
		if (rw_seq_diff(old.start, block.start) < 0 || rw_seq_diff(old.end, block.end) > 0)
			kept[n++] = old;
	}
	memcpy(r->recent, kept, sizeof kept);
	r->recents = n;
}

/* Keeps [start, end) beyond a hole. Returns 0: all of it was there. */
static int hold(struct rw_receiver *r, uint32_t start, uint32_t end)
{
	uint32_t at = r->helds;
	while (at && rw_seq_diff(r->held[at - 1].end, start) >= 0)
		at--;
	uint32_t behind = at;
	struct rw_range joined = {start, end};
	while (behind < r->helds && rw_seq_diff(r->held[behind].start, end) <= 0) {
		struct rw_range old = r->held[behind++];
		if (rw_seq_diff(old.start, start) <= 0 && rw_seq_diff(old.end, end) >= 0)
			return 0;
		if (rw_seq_diff(old.start, joined.start) < 0)
			joined.start = old.start;
		if (rw_seq_diff(old.end, joined.end) > 0)
			joined.end = old.end;
	}
	if (behind == at && r->helds == r->held_room && grow_helds(r)) {
		r->failed = 1;
		return 1;
	}
	memmove(&r->held[at + 1], &r->held[behind], (r->helds - behind) * sizeof *r->held);
	r->helds = r->helds - (behind - at) + 1;
	r->held[at] = joined;
	report_first(r, joined);
	return 1;
}

/* What was held and is next now. */
static void join_held(struct rw_receiver *r)
{
	uint32_t n = 0;
	while (n < r->helds && rw_seq_diff(r->held[n].start, r->next) <= 0) {
		if (rw_seq_diff(r->held[n].end, r->next) > 0)
			r->next = r->held[n].end;
		n++;
	}
	if (n == 0)
		return;
	memmove(r->held, &r->held[n], (r->helds - n) * sizeof *r->held);
	r->helds -= n;
	uint8_t left = 0;
	for (uint8_t i = 0; i < r->recents; i++)
		if (rw_seq_diff(r->recent[i].start, r->next) > 0)
			r->recent[left++] = r->recent[i];
	r->recents = left;
}

/*
 * When it acknowledges
 */

static void acknowledge_quickly(struct rw_receiver *r, uint32_t most)
{
	uint32_t window = r->right - r->next, n = window / (2 * r->settings.mss);
	n = n < 2 ? 2 : n;
	n = n < most ? n : most;
	if (n > r->quick)
		r->quick = n;
}

/* The delay follows how far apart segments come. */
static void follow_pace(struct rw_receiver *r, int64_t now_ns)
{
	uint64_t apart = (uint64_t)(now_ns - r->last_data_ns);
	if (!r->delay_ns) {
		acknowledge_quickly(r, QUICK_ACKS);
		r->delay_ns = DELAY_MIN_NS;
	} else if (apart <= DELAY_MIN_NS / 2) {
		r->delay_ns = r->delay_ns / 2 + DELAY_MIN_NS / 2;
	} else if (apart < r->delay_ns) {
		r->delay_ns = r->delay_ns / 2 + apart;
	} else if (apart > 200 * MS) {
		acknowledge_quickly(r, QUICK_ACKS);
	}
	if (r->delay_ns > DELAY_MAX_NS)
		r->delay_ns = DELAY_MAX_NS;
	r->last_data_ns = now_ns;
}

/* While there is a hole the first three ACKs leave at once; more are held back a little, so that one tells of several segments. */
static int hold_ack(struct rw_receiver *r, int64_t now_ns)
{
	if (!r->settings.sack || r->held_acks >= HELD_ACKS_MAX)
		return 0;
	if (r->held_next != r->next) {
		r->held_next = r->next;
		r->duplicates = 0;
	}
	if (r->duplicates < RW_DUPLICATE_ACKS) {
		r->duplicates++;
		return 0;
	}
	r->held_acks++;
	if (r->held_due_ns == RW_NEVER) {
		uint64_t most = r->rtt_ns / 3;
		r->held_due_ns = now_ns + (int64_t)(most < HELD_MAX_NS ? most : HELD_MAX_NS);
	}
	return 1;
}

/* Data came: is an ACK sent at once? Otherwise a timer runs. */
static int decide(struct rw_receiver *r, int64_t now_ns)
{
	if (r->must_ack || rw_seq_diff(r->next, r->acked) > (int32_t)r->settings.mss || r->quick)
		return 1;
	if (r->helds)
		return !hold_ack(r, now_ns);
	if (r->ack_due_ns == RW_NEVER)
		r->ack_due_ns = rw_kernel_fires_ns(r->kernel, now_ns, r->delay_ns);
	return 0;
}

/*
 * The window
 */

static uint64_t memory_of(uint32_t mss) { return rw_max64(SEGMENT_MEMORY, (uint64_t)mss + SEGMENT_MORE); }

/* How much of a buffer is offered as a window: the kernel counts in parts of 256. */
static uint64_t offered_of(uint64_t buffer_bytes, uint32_t mss)
{
	return buffer_bytes * (256 * (uint64_t)mss / memory_of(mss)) / 256;
}

void rw_receive_window_open(struct rw_receive_window *w, uint64_t buffer_first, uint64_t buffer_most, uint32_t mss)
{
	memset(w, 0, sizeof *w);
	w->most = offered_of(buffer_most, mss);
	w->clamp = rw_min64(offered_of(buffer_first, mss), w->most);
	w->space = 10 * (uint64_t)mss;
}

void rw_receive_window_begin(struct rw_receive_window *w, int64_t now_ns) { w->space_since_ns = now_ns; }

/* A round trip has passed in which so much was read. */
static void enlarge(struct rw_receive_window *w, uint64_t came, uint64_t beyond)
{
	uint64_t wanted = 2 * came + 4 * rw_multiply_divide(came, came - w->space, w->space) + beyond;
	w->clamp = rw_max64(w->clamp, rw_min64(wanted, w->most));
	w->space = came;
}

void rw_receive_window_read(struct rw_receive_window *w, const struct rw_reading *r, int64_t now_ns)
{
	if (!r->rtt_ns || (uint64_t)(now_ns - w->space_since_ns) < r->rtt_ns)
		return;
	if (r->position - w->space_from > w->space)
		enlarge(w, r->position - w->space_from, r->beyond);
	w->space_since_ns = now_ns;
	w->space_from = r->position;
}

/* A segment brought something new. It takes a part of the buffer until it is read. */
static void grow(struct rw_receiver *r)
{
	uint64_t clamp = r->window->clamp, taken = offered_of(memory_of(r->settings.mss), r->settings.mss);
	uint64_t room = clamp > taken ? clamp - taken : 0;
	if (r->threshold >= room)
		return;
	r->threshold = rw_min64(r->threshold + 2 * (uint64_t)r->settings.mss, room);
	r->quick |= 1;
}

uint32_t rw_receive_window_offer(struct rw_receive_window *w, uint64_t threshold, const struct rw_arrived *arrived)
{
	uint64_t position = arrived->position, room = w->clamp - rw_min64(w->clamp, arrived->waiting);
	uint64_t window = rw_min64(threshold, room);
	if (w->right > position)
		window = rw_max64(window, w->right - position);
	/* The window scale option (RFC 7323 2) tells multiples. */
	window = (window + WINDOW_UNIT - 1) / WINDOW_UNIT * WINDOW_UNIT;
	w->right = position + window;
	return (uint32_t)window;
}

/*
 * With timestamps the first whole segment that echoes a timestamp has a sample. The estimate follows queues, as the sender's does
 * (RFC 6298 2), and a shorter sample at once. Without timestamps a window's worth of data takes a round trip, at least: the shortest counts.
 */
static void measure_round_trip(struct rw_receiver *r, const struct rw_arrival *a)
{
	if (a->echo_rtt_ns) {
		if (a->ts_echo == r->ts_echoed || a->bytes < r->settings.mss)
			return;
		r->ts_echoed = a->ts_echo;
		int is_longer = r->rtt_ns && a->echo_rtt_ns > r->rtt_ns;
		r->rtt_ns = is_longer ? r->rtt_ns - r->rtt_ns / 8 + a->echo_rtt_ns / 8 : a->echo_rtt_ns;
		return;
	}
	if (r->rtt_since_ns && rw_seq_diff(r->next, r->rtt_end) < 0)
		return;
	uint64_t took = (uint64_t)(a->time_ns - r->rtt_since_ns);
	if (r->rtt_since_ns && (!r->rtt_ns || took < r->rtt_ns))
		r->rtt_ns = took;
	r->rtt_since_ns = a->time_ns;
	r->rtt_end = r->right;
}

int rw_receiver_take(struct rw_receiver *r, const struct rw_arrival *a)
{
	uint32_t start = a->sequence, end = start + a->bytes;
	if (a->reduced) {
		r->echo_ce = 0;
		/* Measured: each segment that tells of a reduction is acknowledged at once. */
		r->must_ack |= a->bytes > 0;
	}
	if (a->marked && r->settings.ecn) {
		if (!r->echo_ce)
			acknowledge_quickly(r, QUICK_ACKS_CE);
		r->echo_ce = 1;
	}
	if (rw_seq_diff(end, r->next) <= 0) {
		/* Nothing new: RFC 2883 tells the sender so; a probe of a closed window is answered, too. */
		if (a->bytes && r->settings.sack) {
			r->duplicate = (struct rw_range){start, end};
			r->has_duplicate = 1;
		}
		acknowledge_quickly(r, QUICK_ACKS);
		r->delay_ns = DELAY_MIN_NS;
		return 1;
	}
	if (rw_seq_diff(end, r->right) > 0)
		return 1; /* beyond the window: not taken */
	/* RFC 7323 4.3: of the segment that is next in what was acknowledged. */
	if (rw_seq_diff(start, r->acked) <= 0)
		r->ts_recent = a->ts_value;
	if (rw_seq_diff(start, r->next) > 0) {
		int is_new = hold(r, start, end);
		if (!is_new && r->settings.sack) {
			r->duplicate = (struct rw_range){start, end};
			r->has_duplicate = 1;
			r->must_ack = 1;
		}
		follow_pace(r, a->time_ns);
		if (is_new)
			grow(r);
		return decide(r, a->time_ns);
	}
	int hole = r->helds > 0;
	uint32_t before = r->next;
	r->next = end;
	join_held(r);
	r->in_order += r->next - before;
	r->pushed |= a->pushed;
	if (hole && !r->helds)
		r->must_ack = 1;
	follow_pace(r, a->time_ns);
	measure_round_trip(r, a);
	grow(r);
	return decide(r, a->time_ns);
}

int rw_receiver_read(const struct rw_receiver *r) { return r->pushed && !r->helds; }

int64_t rw_receiver_next_ns(const struct rw_receiver *r)
{
	return r->ack_due_ns < r->held_due_ns ? r->ack_due_ns : r->held_due_ns;
}

int rw_receiver_due(struct rw_receiver *r, int64_t now_ns)
{
	int due = r->ack_due_ns <= now_ns || r->held_due_ns <= now_ns;
	if (r->ack_due_ns <= now_ns) {
		/* The delay was in vain: a longer one is tried. */
		r->delay_ns = 2 * r->delay_ns < DELAY_MAX_NS ? 2 * r->delay_ns : DELAY_MAX_NS;
		r->ack_due_ns = RW_NEVER;
	}
	if (r->held_due_ns <= now_ns)
		r->held_due_ns = RW_NEVER;
	return due;
}

uint64_t rw_receiver_waiting(const struct rw_receiver *r)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < r->helds; i++)
		bytes += r->held[i].end - r->held[i].start;
	return bytes;
}

void rw_receiver_acknowledge(struct rw_receiver *r, const struct rw_arrived *arrived, struct rw_acknowledgment *ack)
{
	uint32_t window = rw_receive_window_offer(r->window, r->threshold, arrived);
	if (rw_seq_diff(r->next + window, r->right) > 0)
		r->right = r->next + window;
	*ack = (struct rw_acknowledgment){
	    .ack = r->next, .window_bytes = window, .ts_echo = r->ts_recent, .echo_ce = r->echo_ce};
	uint32_t most = (uint32_t)rw_min64(r->settings.blocks_max, RW_SACK_BLOCKS_MAX);
	if (r->has_duplicate)
		ack->sack[ack->sacks++] = r->duplicate;
	for (uint8_t i = 0; r->settings.sack && i < r->recents && ack->sacks < most; i++)
		ack->sack[ack->sacks++] = r->recent[i];
	r->has_duplicate = r->must_ack = r->pushed = 0;
	r->acked = r->next;
	r->quick -= r->quick > 0;
	r->ack_due_ns = r->held_due_ns = RW_NEVER;
	r->held_acks = 0;
}
