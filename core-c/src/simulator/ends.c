/* The two ends of each subflow: what reaches them, what they answer, and when their timers are due. */
#include "simulation.h"

#include <stdlib.h>
#include <string.h>

#include "agenda.h"

#define MS 1000000ull
#define SYN_TIMEOUT_NS (1000 * MS)

enum { SYN_RETRIES = 6 };

/*
 * Who has something to do. An entity that will be due later than the agenda has it is looked at then: timers are mostly put off.
 */

void rw_simulation_plan(rw_simulation *s, uint32_t entity, int64_t due_ns)
{
	if (due_ns < rw_agenda_due_ns(s->agenda, entity))
		rw_agenda_set(s->agenda, entity, due_ns);
}

static int64_t sender_due_ns(const struct rw_simulated_subflow *f)
{
	return f->state == RW_SUBFLOW_ESTABLISHED ? rw_transmitter_due_ns(&f->tx) : f->syn_due_ns;
}

void rw_simulation_plan_subflow(rw_simulation *s, uint32_t subflow)
{
	const struct rw_simulated_subflow *f = &s->subflow[subflow];
	rw_simulation_plan(s, 2 * subflow, sender_due_ns(f));
	rw_simulation_plan(s, 2 * subflow + 1, rw_receiver_next_ns(&f->rx));
}

/*
 * Senders and receivers
 */

static uint32_t reach(void *to, const struct rw_transmitter *t, uint32_t start)
{
	rw_simulation *s = to;
	const struct rw_simulated_subflow *f = (const struct rw_simulated_subflow *)(const void *)t;
	return rw_stream_reach(s->connection[f->connection].stream, t->path, start);
}

static int leave(void *to, struct rw_transmitter *t, const struct rw_departing *segment, int64_t now_ns)
{
	rw_simulation *s = to;
	struct rw_simulated_subflow *f = (struct rw_simulated_subflow *)(void *)t;
	struct rw_wire w = {.subflow = (uint32_t)(f - s->subflow),
			    .sequence = segment->start,
			    .bytes = segment->end - segment->start,
			    .flags = (uint8_t)(RW_FLAG_ACK | (segment->reduced ? RW_FLAG_CWR : 0) |
					       (segment->pushed ? RW_FLAG_PSH : 0)),
			    .ts_value = rw_kernel_timestamp(&s->kernel, now_ns),
			    .ts_echo = f->ts_recent};
	struct rw_stream *stream = s->connection[f->connection].stream;
	if (stream && w.bytes)
		w.mapping = rw_stream_mapping(stream, t->path, w.sequence);
	rw_wire_send(s, &w);
	return s->failed;
}

static void keep_row(void *to, const struct rw_transmitter *t, const struct rw_event *e,
		     const struct rw_shadow_row *row)
{
	rw_simulation *s = to;
	if (s->rows == s->rows_room) {
		uint64_t room = s->rows_room ? 2 * s->rows_room : 4096;
		rw_simulation_row *grown = realloc(s->row, room * sizeof *grown);
		if (!grown) {
			s->failed = 1;
			return;
		}
		s->row = grown;
		s->rows_room = room;
	}
	s->row[s->rows++] = (rw_simulation_row){
	    .time_ns = e->time_ns,
	    .cwnd_q16 = row->cwnd_q16,
	    .ssthresh_q16 = row->ssthresh_q16,
	    .srtt_ns = t->tcp.rtt.srtt_ns,
	    .rtt_ns = e->rtt_ns,
	    .subflow = (uint32_t)((const struct rw_simulated_subflow *)(const void *)t - s->subflow),
	    .in_flight = e->in_flight,
	    .una = t->tcp.una,
	    .next = t->tcp.next,
	    .delivered = e->delivered,
	    .flags = e->flags & RW_ACK_ECE,
	};
}

/* How much the receiver's application has read of the connection's data. */
static uint64_t taken(const rw_simulation *s, const struct rw_simulated_subflow *f)
{
	const struct rw_stream *stream = s->connection[f->connection].stream;
	return stream ? stream->next : f->rx.in_order;
}

/* The application reads at once. The window's buffer is for the longest round trip of the subflows (RFC 8684 3.3.1). */
static void read_arrivals(rw_simulation *s, const struct rw_simulated_subflow *f)
{
	struct rw_simulated_connection *c = &s->connection[f->connection];
	struct rw_reading reading = {.position = taken(s, f)};
	if (c->stream && c->stream->helds)
		reading.beyond = c->stream->held[c->stream->helds - 1].end - c->stream->next;
	else if (!c->stream && f->rx.helds)
		reading.beyond = f->rx.held[f->rx.helds - 1].end - f->rx.next;
	for (uint32_t i = c->first; i < c->first + c->subflows; i++)
		reading.rtt_ns = rw_max64(reading.rtt_ns, s->subflow[i].rx.rtt_ns);
	rw_receive_window_read(&c->receive_window, &reading, s->now_ns);
}

static uint64_t bytes_of(const struct rw_data_range *range, uint32_t count)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < count; i++)
		bytes += range[i].end - range[i].start;
	return bytes;
}

static struct rw_arrived arrived(const rw_simulation *s, const struct rw_simulated_subflow *f)
{
	const struct rw_stream *stream = s->connection[f->connection].stream;
	uint64_t waiting = stream ? bytes_of(stream->held, stream->helds) : rw_receiver_waiting(&f->rx);
	return (struct rw_arrived){taken(s, f), waiting};
}

static void send_ack_that(rw_simulation *s, uint32_t subflow, int announces)
{
	struct rw_simulated_subflow *f = &s->subflow[subflow];
	struct rw_acknowledgment ack;
	const struct rw_stream *stream = s->connection[f->connection].stream;
	struct rw_arrived now = arrived(s, f);
	rw_receiver_acknowledge(&f->rx, &now, &ack);
	struct rw_wire w = {.subflow = subflow,
			    .back = 1,
			    .ack = ack.ack,
			    .window_bytes = ack.window_bytes,
			    .ts_value = rw_kernel_timestamp(&s->kernel, s->now_ns),
			    .ts_echo = ack.ts_echo,
			    .flags = RW_FLAG_ACK | (ack.echo_ce ? RW_FLAG_ECE : 0),
			    .data_ack = stream ? stream->next : 0,
			    .sacks = ack.sacks,
			    .announces = announces != 0};
	memcpy(w.sack, ack.sack, sizeof w.sack);
	rw_wire_send(s, &w);
}

static void send_ack(rw_simulation *s, uint32_t subflow) { send_ack_that(s, subflow, 0); }

static void send_syn(rw_simulation *s, uint32_t subflow)
{
	struct rw_simulated_subflow *f = &s->subflow[subflow];
	struct rw_wire w = {
	    .subflow = subflow, .flags = RW_FLAG_SYN, .ts_value = rw_kernel_timestamp(&s->kernel, s->now_ns)};
	f->state = RW_SUBFLOW_SYN_SENT;
	f->syn_ns = s->now_ns;
	f->syn_due_ns = f->syns < SYN_RETRIES
			    ? rw_kernel_fires_ns(&s->kernel, s->now_ns, (uint64_t)SYN_TIMEOUT_NS << f->syns)
			    : RW_NEVER;
	f->syns++;
	rw_wire_send(s, &w);
}

struct rw_transmitter_owner rw_ends_owner(rw_simulation *s, const struct rw_simulated_connection *c)
{
	return (struct rw_transmitter_owner){
	    .leave = leave, .reach = c->stream ? reach : NULL, .row = s->keeps_rows ? keep_row : NULL, .to = s};
}

/* How old the timestamp is that the segment echoes: milliseconds, at least one. */
static uint64_t echoed_ns(const rw_simulation *s, const struct rw_wire *w)
{
	uint32_t age = rw_kernel_timestamp(&s->kernel, s->now_ns) - w->ts_echo;
	return (age ? age : 1) * MS;
}

static void send_bare(rw_simulation *s, uint32_t subflow, int announces)
{
	struct rw_simulated_subflow *f = &s->subflow[subflow];
	struct rw_wire ack = {.subflow = subflow,
			      .flags = RW_FLAG_ACK,
			      .sequence = 1,
			      .ts_value = rw_kernel_timestamp(&s->kernel, s->now_ns),
			      .ts_echo = f->ts_recent,
			      .announces = announces != 0};
	rw_wire_send(s, &ack);
}

/* The next subflow that has not begun, or null. */
static struct rw_simulated_subflow *next_to_join(const rw_simulation *s, const struct rw_simulated_connection *c)
{
	for (uint32_t i = c->first; i < c->first + c->subflows; i++)
		if (s->subflow[i].state == RW_SUBFLOW_WAITS)
			return &s->subflow[i];
	return NULL;
}

/*
 * Further subflows of MPTCP begin when the receiver has announced their addresses. Measured: it announces the first when the handshake is
 * over, and each other one when the sender has echoed the one before. Where that is lost, a subflow begins after a second all the same.
 */
static void plan_join(rw_simulation *s, const struct rw_simulated_connection *c, uint64_t wait_ns)
{
	struct rw_simulated_subflow *f = next_to_join(s, c);
	if (!f)
		return;
	f->syn_due_ns = s->now_ns + (int64_t)wait_ns;
	rw_simulation_plan_subflow(s, (uint32_t)(f - s->subflow));
}

static void join_announced(rw_simulation *s, const struct rw_simulated_connection *c)
{
	struct rw_simulated_subflow *f = next_to_join(s, c);
	send_bare(s, c->first, 1);
	if (!f)
		return;
	send_syn(s, (uint32_t)(f - s->subflow));
	rw_simulation_plan_subflow(s, (uint32_t)(f - s->subflow));
	plan_join(s, c, SYN_TIMEOUT_NS);
}

/* Until the third ACK of a join is answered it is sent again (RFC 8684 3.2). Measured: every two round trips, however often. */
static void plan_join_again(const rw_simulation *s, struct rw_simulated_subflow *f)
{
	uint64_t srtt_ns = f->tx.tcp.rtt.srtt_ns;
	f->syn_due_ns = rw_kernel_fires_ns(&s->kernel, s->now_ns, srtt_ns ? 2 * srtt_ns : SYN_TIMEOUT_NS);
}

/* The SYN/ACK has come. */
static void establish(rw_simulation *s, const struct rw_wire *w)
{
	struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	struct rw_simulated_connection *c = &s->connection[f->connection];
	int joins = w->subflow != c->first;
	if (f->state == RW_SUBFLOW_JOINS)
		send_bare(s, w->subflow, 0);
	if (f->state != RW_SUBFLOW_SYN_SENT)
		return;
	f->state = joins ? RW_SUBFLOW_JOINS : RW_SUBFLOW_ESTABLISHED;
	f->syn_due_ns = RW_NEVER;
	f->established_ns = s->now_ns;
	f->ts_recent = w->ts_value;
	/* Karn: no sample of a SYN that was sent again, but for what its timestamp tells (RFC 7323 4.1). */
	f->handshake_ns = f->syns == 1 ? (uint64_t)(s->now_ns - f->syn_ns) : 0;
	uint64_t rtt_ns = !f->handshake_ns && c->settings.timestamps ? echoed_ns(s, w) : f->handshake_ns;
	rw_transmitter_establish(&f->tx, 1, w->window_bytes, rtt_ns, s->now_ns);
	send_bare(s, w->subflow, 0);
	if (joins) {
		plan_join_again(s, f);
		return;
	}
	if (c->stream) {
		c->stream->window_end = w->window_bytes;
		plan_join(s, c, SYN_TIMEOUT_NS);
	}
	rw_application_begin(s, f->connection);
}

/*
 * The application has read all that came in order; data of another subflow may have waited for what lay before it. Measured: while data
 * waits, MPTCP's reader acknowledges nothing.
 */
static void acknowledge_read(rw_simulation *s, const struct rw_simulated_connection *c)
{
	if (c->stream && c->stream->helds)
		return;
	for (uint32_t i = c->first; i < c->first + c->subflows; i++)
		if (rw_receiver_read(&s->subflow[i].rx)) {
			send_ack(s, i);
			rw_simulation_plan_subflow(s, i);
		}
}

static void announce(rw_simulation *s, const struct rw_simulated_connection *c)
{
	if (next_to_join(s, c))
		send_ack_that(s, c->first, 1);
}

static void reach_receiver(rw_simulation *s, const struct rw_wire *w)
{
	struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	struct rw_simulated_connection *c = &s->connection[f->connection];
	struct rw_receiver *r = &f->rx;
	if (w->flags & RW_FLAG_SYN) {
		struct rw_wire answer = {.subflow = w->subflow,
					 .back = 1,
					 .flags = RW_FLAG_SYN | RW_FLAG_ACK,
					 .ts_value = rw_kernel_timestamp(&s->kernel, s->now_ns),
					 .ts_echo = w->ts_value};
		r->next = r->acked = 1;
		answer.window_bytes = (uint32_t)r->threshold;
		r->right = 1 + answer.window_bytes;
		r->ts_recent = w->ts_value;
		rw_wire_send(s, &answer);
		return;
	}
	if (w->announces) {
		announce(s, c);
		return;
	}
	if (w->bytes == 0 && w->sequence == r->next) {
		/* The handshake's end, which a subflow that joins wants answered. */
		if (w->subflow != c->first) {
			send_ack(s, w->subflow);
			return;
		}
		rw_receive_window_begin(r->window, s->now_ns);
		announce(s, c);
		return;
	}
	struct rw_arrival arrival = {.time_ns = s->now_ns,
				     .sequence = w->sequence,
				     .bytes = w->bytes,
				     .ts_value = w->ts_value,
				     .ts_echo = w->ts_echo,
				     .echo_rtt_ns = r->settings.timestamps ? echoed_ns(s, w) : 0,
				     .marked = w->marked,
				     .reduced = (w->flags & RW_FLAG_CWR) != 0,
				     .pushed = (w->flags & RW_FLAG_PSH) != 0};
	uint64_t before = taken(s, f);
	int acknowledges = rw_receiver_take(r, &arrival);
	struct rw_stream *stream = c->stream;
	if (stream && rw_stream_receive(stream, f->tx.path, r->next))
		s->failed = 1;
	/* Measured: MPTCP's window grows by what the application reads at once, and it reads only where data came in order. */
	int reads = taken(s, f) != before || !stream;
	if (reads)
		read_arrivals(s, f);
	if (acknowledges)
		send_ack(s, w->subflow);
	if (reads)
		acknowledge_read(s, c);
	if (r->failed)
		s->failed = 1;
}

static void reach_sender(rw_simulation *s, const struct rw_wire *w)
{
	struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	struct rw_simulated_connection *c = &s->connection[f->connection];
	if (w->flags & RW_FLAG_SYN) {
		establish(s, w);
		return;
	}
	struct rw_sender_ack ack = {.time_ns = s->now_ns,
				    .ack = w->ack,
				    .window_bytes = w->window_bytes,
				    .ts_echo = w->ts_echo,
				    .has_timestamp = c->settings.timestamps != 0,
				    .ece = (w->flags & RW_FLAG_ECE) != 0,
				    .sacks = w->sacks,
				    .sack = w->sack};
	uint32_t una = f->tx.tcp.una;
	if (ack.has_timestamp)
		ack.echo_rtt_ns = echoed_ns(s, w);
	f->ts_recent = w->ts_value;
	f->heard = 1;
	f->silences = 0;
	if (f->state == RW_SUBFLOW_JOINS) {
		f->state = RW_SUBFLOW_ESTABLISHED;
		f->syn_due_ns = RW_NEVER;
	}
	rw_transmitter_acknowledge(&f->tx, &ack);
	s->failed |= f->tx.failed;
	if (w->announces)
		join_announced(s, c);
	f->window_max = (uint32_t)rw_max64(f->window_max, rw_transmitter_window(&f->tx));
	uint64_t advanced = c->stream ? rw_application_acknowledged(s, c, w) : f->tx.tcp.una - una;
	if (advanced) {
		c->acked += advanced;
		c->last_acked_ns = s->now_ns;
	}
	if ((advanced && c->awaits) || c->blocked)
		rw_application_write(s, f->connection);
	if (advanced)
		rw_application_see_completion(s, c);
	if (c->stream)
		rw_application_give(s, c);
}

void rw_ends_deliver(rw_simulation *s, const struct rw_network_packet *p)
{
	/* What answers it may move the array. */
	struct rw_wire w = s->wire[p->user];
	rw_wire_free(s, (uint32_t)p->user);
	w.marked = p->marked;
	rw_wire_trace(s, &w, !w.back);
	if (w.back)
		reach_sender(s, &w);
	else
		reach_receiver(s, &w);
	rw_simulation_plan_subflow(s, w.subflow);
}

static void begin_transfer(rw_simulation *s, uint32_t connection)
{
	struct rw_simulated_connection *c = &s->connection[connection];
	send_syn(s, c->first);
	rw_simulation_plan_subflow(s, c->first);
}

static void application_due(rw_simulation *s, uint32_t connection)
{
	struct rw_simulated_connection *c = &s->connection[connection];
	if (s->subflow[c->first].state == RW_SUBFLOW_WAITS) {
		begin_transfer(s, connection);
		return;
	}
	if (c->reinject_ns <= s->now_ns)
		rw_application_reinject(s, c);
	rw_application_write(s, connection);
	rw_application_see_completion(s, c);
	rw_simulation_plan_subflow(s, c->first);
}

static void sender_due(rw_simulation *s, uint32_t subflow)
{
	struct rw_simulated_subflow *f = &s->subflow[subflow];
	if (f->state == RW_SUBFLOW_ESTABLISHED) {
		rw_transmitter_due(&f->tx, s->now_ns);
	} else if (f->state == RW_SUBFLOW_JOINS) {
		plan_join_again(s, f);
		send_bare(s, subflow, 0);
	} else {
		int waited = f->state == RW_SUBFLOW_WAITS;
		send_syn(s, subflow);
		if (waited) /* in vain for its announcement, which the next one's would follow */
			plan_join(s, &s->connection[f->connection], SYN_TIMEOUT_NS);
	}
	s->failed |= f->tx.failed;
	/* A scheduler of the registry leaves what a subflow in loss was given to the others. */
	if (s->connection[f->connection].scheduled)
		rw_application_give(s, &s->connection[f->connection]);
	rw_simulation_plan_subflow(s, subflow);
}

static void receiver_due(rw_simulation *s, uint32_t subflow)
{
	if (rw_receiver_due(&s->subflow[subflow].rx, s->now_ns))
		send_ack(s, subflow);
	rw_simulation_plan_subflow(s, subflow);
}

/* When the entity really is due: the agenda may have it earlier. */
static int64_t really_due_ns(const rw_simulation *s, uint32_t entity)
{
	if (entity >= RW_FIRST_APPLICATION) {
		const struct rw_simulated_connection *c = &s->connection[entity - RW_FIRST_APPLICATION];
		int64_t write_ns = s->subflow[c->first].state == RW_SUBFLOW_WAITS ? c->settings.start_ns
				   : c->blocked                                   ? RW_NEVER
										  : c->write_ns;
		return write_ns < c->reinject_ns ? write_ns : c->reinject_ns;
	}
	const struct rw_simulated_subflow *f = &s->subflow[entity / 2];
	return entity % 2 ? rw_receiver_next_ns(&f->rx) : sender_due_ns(f);
}

void rw_ends_do_next(rw_simulation *s)
{
	uint32_t entity = rw_agenda_first(s->agenda).entity;
	int64_t due_ns = really_due_ns(s, entity);
	if (due_ns > s->now_ns) {
		rw_agenda_set(s->agenda, entity, due_ns);
		return;
	}
	rw_agenda_set(s->agenda, entity, RW_NEVER);
	if (entity >= RW_FIRST_APPLICATION)
		application_due(s, entity - RW_FIRST_APPLICATION);
	else if (entity % 2)
		receiver_due(s, entity / 2);
	else
		sender_due(s, entity / 2);
}
