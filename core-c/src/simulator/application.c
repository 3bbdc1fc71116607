/* What a connection's application writes, the buffers that it fills, and which subflow carries MPTCP's data. */
#include "simulation.h"

#include "fixed_point.h"

/*
 * What the kernel's accounting adds to the data of each burst that has left: the heads of a packet. Measured: two thirds of a buffer of
 * 512 kB hold 259448 bytes in 98 bursts, and not 262144 in 99, so that it is between 800 and 835.
 */
#define BURST_OVERHEAD_BYTES 832
#define SEGMENT_ROOM 2304 /* what the tuning of the send buffer counts for a segment */
/* Linux gives one subflow so much data at a time. */
#define BURST_BYTES 65428
/*
 * A write to MPTCP fills pieces of this size, while there is any room. Measured: the first write that finds an empty buffer of 46 kB
 * leaves two of them, and of a piece that is acknowledged in part the part is free.
 */
#define PIECE_BYTES 32728

/* A subflow is stale after so many silences in a row. Measured: 1.2 to 1.4 s after its path failed. */
enum { STALE_SILENCES = 4 };
#define PATIENCE_LEAST_NS 200000000ull

/*
 * Buffers, and MPTCP's data: who carries what
 */

/* What the kernel's tuning lets a subflow's send buffer hold, in bytes of its own accounting: it grows with the window only. */
static uint64_t buffer_bytes(const struct rw_simulated_connection *c, const struct rw_simulated_subflow *f)
{
	uint64_t bytes = 2 * rw_max64(f->window_max, RW_INITIAL_WINDOW) * SEGMENT_ROOM;
	return bytes < c->settings.send_buffer_bytes ? bytes : c->settings.send_buffer_bytes;
}

/* An MPTCP connection holds as much data as its subflows' buffers have bytes: each carries a copy. */
uint64_t rw_application_buffer_bytes(const rw_simulation *s, const struct rw_simulated_connection *c)
{
	uint64_t bytes = 0;
	for (uint32_t i = c->first; i < c->first + c->subflows; i++)
		if (s->subflow[i].state == RW_SUBFLOW_ESTABLISHED)
			bytes += buffer_bytes(c, &s->subflow[i]);
	return bytes;
}

static uint64_t queued_bytes(const struct rw_simulated_subflow *f) { return f->tx.end - f->tx.tcp.una; }

/*
 * What a subflow's data takes of its buffer: segments that left together are one piece of memory. SACKed segments are joined to one.
 * Measured: a writer that waits for room goes on in a recovery in which nothing is acknowledged in order.
 */
static uint64_t held_bytes(const struct rw_simulated_subflow *f)
{
	const struct rw_scoreboard *b = &f->tx.tcp.board;
	uint64_t sacked = f->tx.tcp.sack ? b->sacked_out : 0;
	return queued_bytes(f) + ((b->count - sacked) * BURST_OVERHEAD_BYTES << 16) / (uint64_t)f->tx.together_q16;
}

/* A stale subflow is given nothing. */
static int may_carry(const struct rw_simulated_subflow *f)
{
	return f->state == RW_SUBFLOW_ESTABLISHED && f->silences < STALE_SILENCES;
}

/* The subflow that will have sent first what it has: that is given the next burst, if its buffer has room. Null: none has. */
static struct rw_simulated_subflow *soonest(rw_simulation *s, const struct rw_simulated_connection *c)
{
	struct rw_simulated_subflow *best = NULL;
	uint64_t least = UINT64_MAX;
	for (uint32_t i = c->first; i < c->first + c->subflows; i++) {
		struct rw_simulated_subflow *f = &s->subflow[i];
		if (!may_carry(f))
			continue;
		uint64_t rate = f->rate_bytes ? f->rate_bytes : rw_transmitter_pace(&f->tx);
		uint64_t linger = rw_multiply_divide(held_bytes(f), (uint64_t)1 << 32, rate);
		if (linger < least) {
			least = linger;
			best = f;
		}
	}
	return best && held_bytes(best) < buffer_bytes(c, best) ? best : NULL;
}

/* The pace of a subflow counts on average over what it was given. */
static void average_pace(struct rw_simulated_subflow *f)
{
	uint64_t held = held_bytes(f), rate = rw_transmitter_pace(&f->tx);
	f->rate_bytes = rw_multiply_divide(f->rate_bytes ? f->rate_bytes : rate, held, held + BURST_BYTES) +
			rw_multiply_divide(rate, BURST_BYTES, held + BURST_BYTES);
}

void rw_application_carry(rw_simulation *s, struct rw_simulated_connection *c, struct rw_simulated_subflow *f,
			  uint64_t start, uint64_t end)
{
	struct rw_stream *d = c->stream;
	if (c->reinject_ns == RW_NEVER)
		c->reinject_ns = s->now_ns + (int64_t)rw_sender_rto_ns(&f->tx.tcp);
	if (c->scheduled && rw_scheduled_carry(c->scheduled, f->tx.path, start, end))
		s->failed = 1;
	d->given = rw_max64(d->given, end);
	while (start < end) {
		uint32_t bytes = RW_MAPPING_BYTES_MAX / f->mss * f->mss;
		if (end - start <= RW_MAPPING_BYTES_MAX)
			bytes = (uint32_t)(end - start);
		if (rw_stream_give(d, f->tx.path, f->tx.tcp.next, f->tx.end, start, bytes))
			s->failed = 1;
		f->tx.end += bytes;
		start += bytes;
		rw_transmitter_push(&f->tx, s->now_ns);
	}
	rw_simulation_plan_subflow(s, (uint32_t)(f - s->subflow));
}

/* What was written goes to subflows, as long as one has room and the receiver's window allows. */
void rw_application_give(rw_simulation *s, struct rw_simulated_connection *c)
{
	struct rw_stream *d = c->stream;
	if (c->scheduled) {
		rw_scheduling_give(s, c);
		return;
	}
	while (d->given < c->written && d->given < d->window_end && !s->failed) {
		struct rw_simulated_subflow *f = soonest(s, c);
		if (!f)
			return;
		uint64_t end = rw_min64(d->given + BURST_BYTES / f->mss * f->mss, rw_min64(c->written, d->window_end));
		average_pace(f);
		rw_application_carry(s, c, f, d->given, end);
	}
}

/*
 * The application, a loop of poll(2) and write(2): whenever a third of the buffer is free, it writes what it has, as far as there is room.
 */

/* How much it writes next, and when. */
static void plan_write(const rw_simulation *s, struct rw_simulated_connection *c, uint64_t pause_ns)
{
	if (!c->write) {
		uint64_t left = c->settings.bytes ? c->settings.bytes - c->written : UINT64_MAX;
		c->chunk = rw_min64(left, c->settings.write_bytes);
		c->write_ns = left == 0 ? RW_NEVER : s->now_ns + (int64_t)pause_ns;
		return;
	}
	c->write_ns = RW_NEVER;
	if (c->next_write == c->writes)
		return;
	const rw_write_values *write = &c->write[c->next_write++];
	c->chunk = write->bytes;
	c->awaits = write->after_acknowledged && c->acked != c->written;
	if (!c->awaits)
		c->write_ns = (write->after_acknowledged ? s->now_ns : c->settings.start_ns) + (int64_t)write->after_ns;
}

static void see_acknowledged(const rw_simulation *s, struct rw_simulated_connection *c)
{
	if (!c->awaits || c->acked != c->written)
		return;
	c->awaits = 0;
	c->write_ns = s->now_ns + (int64_t)c->write[c->next_write - 1].after_ns;
}

/* A write puts into the buffer what has room: MPTCP takes whole pieces, as long as there is any. */
static void take_data(struct rw_simulated_connection *c, uint64_t held, uint64_t room)
{
	uint64_t n = rw_min64(c->chunk, room - held);
	if (c->stream)
		n = rw_min64(c->chunk, (room - held + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_BYTES);
	c->written += n;
	c->chunk -= n;
}

void rw_application_write(rw_simulation *s, uint32_t connection)
{
	struct rw_simulated_connection *c = &s->connection[connection];
	see_acknowledged(s, c);
	uint64_t room = rw_application_buffer_bytes(s, c), before = c->written;
	c->blocked = 0;
	while (s->now_ns >= c->write_ns) {
		if (s->now_ns >= c->settings.stop_ns) {
			c->write_ns = RW_NEVER;
			break;
		}
		uint64_t held =
		    c->stream ? c->written - c->acked : c->written - before + held_bytes(&s->subflow[c->first]);
		if (held > room / 3 * 2) {
			c->blocked = 1;
			break;
		}
		take_data(c, held, room);
		if (!c->chunk)
			plan_write(s, c, c->settings.pause_ns);
	}
	if (c->write_ns != RW_NEVER && c->write_ns > s->now_ns)
		rw_simulation_plan(s, RW_FIRST_APPLICATION + connection, c->write_ns);
	if (c->written != before && c->first_data_ns < 0)
		c->first_data_ns = s->now_ns;
	if (c->stream) {
		rw_application_give(s, c);
		return;
	}
	struct rw_simulated_subflow *f = &s->subflow[c->first];
	f->tx.end += (uint32_t)(c->written - before);
	rw_transmitter_push(&f->tx, s->now_ns);
}

void rw_application_see_completion(rw_simulation *s, struct rw_simulated_connection *c)
{
	int wrote_all = (c->write_ns == RW_NEVER && !c->awaits) || s->now_ns >= c->settings.stop_ns;
	if (c->complete || !wrote_all || c->acked != c->written)
		return;
	c->complete = 1;
	s->incomplete--;
	for (uint32_t i = c->first; i < c->first + c->subflows; i++) {
		struct rw_simulated_subflow *f = &s->subflow[i];
		if (f->state == RW_SUBFLOW_ESTABLISHED)
			f->closing_ns = rw_network_crossing_ns(s->network, f->route, s->now_ns) +
					rw_network_crossing_ns(s->network, f->route_back, s->now_ns);
	}
}

void rw_application_begin(rw_simulation *s, uint32_t connection)
{
	struct rw_simulated_connection *c = &s->connection[connection];
	plan_write(s, c, 0);
	rw_application_write(s, connection);
}

/*
 * Data that waits for its acknowledgment
 */

/* How long the connection waits for its data to be acknowledged before it goes on another subflow, too. Silent ones do not count. */
static uint64_t patience_ns(const rw_simulation *s, const struct rw_simulated_connection *c)
{
	uint64_t longest = PATIENCE_LEAST_NS;
	for (uint32_t i = c->first; i < c->first + c->subflows; i++) {
		const struct rw_simulated_subflow *f = &s->subflow[i];
		if (f->state == RW_SUBFLOW_ESTABLISHED && f->tx.tcp.board.count && !f->silences)
			longest = rw_max64(longest, rw_sender_rto_ns(&f->tx.tcp));
	}
	return longest;
}

static void plan_reinjection(rw_simulation *s, struct rw_simulated_connection *c)
{
	c->reinject_ns =
	    c->stream->una < c->stream->given ? rw_kernel_fires_ns(&s->kernel, s->now_ns, patience_ns(s, c)) : RW_NEVER;
	rw_simulation_plan(s, RW_FIRST_APPLICATION + (uint32_t)(c - s->connection), c->reinject_ns);
}

/* MPTCP's own acknowledgment and window. Returns how much data it covers. */
uint64_t rw_application_acknowledged(rw_simulation *s, struct rw_simulated_connection *c, const struct rw_wire *w)
{
	struct rw_stream *d = c->stream;
	uint64_t before = d->una, window_end = w->data_ack + w->window_bytes;
	if (window_end > d->window_end)
		d->window_end = window_end;
	if (w->data_ack > before) {
		d->una = w->data_ack;
		plan_reinjection(s, c);
	}
	return d->una - before;
}

/* Who has data under way and said nothing since the last time? Returns whether one has become stale, and another has not. */
static int count_silences(rw_simulation *s, const struct rw_simulated_connection *c)
{
	int became_stale = 0, others = 0;
	for (uint32_t i = c->first; i < c->first + c->subflows; i++) {
		struct rw_simulated_subflow *f = &s->subflow[i];
		int was_stale = !may_carry(f);
		if (f->heard || !f->tx.tcp.board.count)
			f->silences = 0;
		else if (f->silences < STALE_SILENCES)
			f->silences++;
		f->heard = 0;
		became_stale |= !was_stale && f->silences == STALE_SILENCES;
		others |= may_carry(f);
	}
	return became_stale && others;
}

/*
 * The oldest data that waits goes once more, a piece of it, on a subflow that has nothing else to do. Measured: when a subflow has become
 * stale, all data that is not acknowledged goes once more.
 */
void rw_application_reinject(rw_simulation *s, struct rw_simulated_connection *c)
{
	struct rw_stream *d = c->stream;
	if (count_silences(s, c) && !c->scheduled) {
		d->given = d->una;
		rw_application_give(s, c);
	}
	for (uint32_t i = c->first; i < c->first + c->subflows && d->una < d->given; i++) {
		struct rw_simulated_subflow *f = &s->subflow[i];
		if (!may_carry(f) || f->tx.tcp.board.count || f->tx.end != f->tx.tcp.next)
			continue;
		uint64_t end = rw_min64(d->given, (d->una / PIECE_BYTES + 1) * PIECE_BYTES);
		if (c->scheduled)
			end = rw_scheduled_given(c->scheduled, d->una, end);
		if (end > d->una)
			rw_application_carry(s, c, f, d->una, end);
		break;
	}
	plan_reinjection(s, c);
}
