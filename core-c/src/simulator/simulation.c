#include "simulation.h"

#include <stdlib.h>
#include <string.h>

#include "agenda.h"
#include "findings.h"
#include "hash.h"

#define MS 1000000ull
/* When a simulation begins, in its captures. */
#define TRACE_ZERO_NS (1000000000 * (int64_t)1000000000)
#define KEYS ((uint64_t)1 << 63) /* entities that draw MPTCP's keys */
enum { MP_VERSION = 1 };
#define SYN_TIMEOUT_NS (1000 * MS)
/* A receive buffer begins with so many bytes (tcp_rmem). */
#define RECEIVE_BUFFER_FIRST 131072
/* Of a subflow's send buffer so much is data; the rest is the kernel's own accounting for each segment. */
#define DATA_SHARE(bytes) ((bytes) / 3 * 2)
#define SEGMENT_ROOM 2304 /* what the tuning of the send buffer counts for a segment */
/* Linux gives one subflow so much data at a time. */
#define BURST_BYTES 65428

enum {
	SUBFLOWS_MAX = 1 << 16,
	CONNECTIONS_MAX = 1 << 16,
	WIRES_MAX = 1 << 22,
	/* Entities of the agenda: of each subflow the sender and the receiver, of each connection the application. */
	FIRST_APPLICATION = 2 * SUBFLOWS_MAX,
	ENTITIES = FIRST_APPLICATION + CONNECTIONS_MAX,
	NO_WIRE = UINT32_MAX,
	IP4_BYTES = 20,
	IP6_BYTES = 40,
	TCP_BYTES = 20,
	TIMESTAMP_BYTES = 12,
	SYN_OPTION_BYTES = 20,
	DATA_MAPPING_BYTES = 24,
	DATA_ACK_BYTES = 12,
	OPTIONS_MAX = 40,
	STALE_TIMEOUTS = 4,
	SYN_RETRIES = 6
};

static rw_status out_of_memory(rw_error *error)
{
	rw_error_set(error, RW_ERROR_MEMORY, 0, 0, 0, "out of memory");
	return RW_ERROR_MEMORY;
}

static rw_status bad_value(rw_error *error, const char *what)
{
	rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "%s", what);
	return RW_ERROR_BAD_VALUE;
}

rw_status rw_simulation_open(rw_simulation **out, uint64_t seed, uint64_t tick_ns, uint32_t rows, rw_error *error)
{
	memset(error, 0, sizeof *error);
	if (tick_ns < MS || tick_ns > 10 * MS)
		return bad_value(error, "a kernel's tick is 1 to 10 ms");
	rw_simulation *s = calloc(1, sizeof *s);
	if (!s)
		return out_of_memory(error);
	s->seed = seed;
	s->wires_free = NO_WIRE;
	s->keeps_rows = rows != 0;
	struct rw_random random = {.seed = seed, .entity = UINT64_MAX};
	s->kernel = (struct rw_kernel){.tick_ns = tick_ns, .phase_ns = rw_random_next(&random) % tick_ns};
	s->kernel.ts_first = 1 + (rw_random_next(&random) >> 2);
	s->network = rw_network_open(seed);
	s->agenda = calloc(1, sizeof *s->agenda);
	if (!s->network || !s->agenda || rw_agenda_open(s->agenda, ENTITIES)) {
		rw_simulation_close(s);
		return out_of_memory(error);
	}
	*out = s;
	return RW_OK;
}

void rw_simulation_close(rw_simulation *s)
{
	if (!s)
		return;
	rw_network_close(s->network);
	if (s->agenda)
		rw_agenda_close(s->agenda);
	free(s->agenda);
	for (uint32_t i = 0; i < s->subflows; i++) {
		rw_transmitter_close(&s->subflow[i].tx);
		rw_receiver_close(&s->subflow[i].rx);
	}
	for (uint32_t i = 0; i < s->connections; i++) {
		if (s->connection[i].shadow)
			rw_shadow_close(s->connection[i].shadow);
		free(s->connection[i].shadow);
		rw_detect_close(s->connection[i].detect);
		if (s->connection[i].stream)
			rw_stream_close(s->connection[i].stream);
		free(s->connection[i].stream);
	}
	free(s->trace);
	free(s->connection);
	free(s->subflow);
	free(s->wire);
	free(s->row);
	free(s);
}

/*
 * What is simulated
 */

rw_status rw_simulation_add_link(rw_simulation *s, const rw_link_values *v, uint32_t *link, rw_error *error)
{
	const uint64_t time_most = (uint64_t)1 << 50;
	memset(error, 0, sizeof *error);
	if (v->discipline > RW_DROPS_BY_CODEL || v->limit_packets > UINT32_MAX)
		return bad_value(error, "a link's discipline or limit is out of its bounds");
	if (v->delay_ns > time_most || v->jitter_ns > time_most || v->reorder_ns > time_most)
		return bad_value(error, "a link's time is longer than 13 days");
	if (v->discipline == RW_DROPS_BY_RED &&
	    (v->red_min_packets == 0 || v->red_max_packets <= v->red_min_packets || v->red_max_packets > 1 << 20 ||
	     v->red_weight_shift > 31 || v->red_probability_q32 > UINT32_MAX))
		return bad_value(error, "RED's thresholds are 0 < min < max <= 2^20");
	static const enum rw_discipline disciplines[] = {RW_DROP_TAIL, RW_ECN_THRESHOLD, RW_RED, RW_CODEL};
	struct rw_link_settings settings = {
	    .rate_bps = v->rate_bps,
	    .delay_ns = v->delay_ns,
	    .jitter_ns = v->jitter_ns,
	    .loss_q32 = v->loss_q32,
	    .burst = {v->good_to_bad_q32, v->bad_to_good_q32, v->loss_good_q32, v->loss_bad_q32},
	    .reorder_q32 = v->reorder_q32,
	    .reorder_ns = v->reorder_ns,
	    .queue = {.discipline = disciplines[v->discipline],
		      .limit_packets = (uint32_t)v->limit_packets,
		      .limit_bytes = v->limit_bytes,
		      .threshold_packets = v->threshold_packets,
		      .ecn = v->ecn != 0,
		      .red = {v->red_min_packets, v->red_max_packets, (uint32_t)v->red_probability_q32,
			      (uint8_t)v->red_weight_shift, v->red_gentle != 0},
		      .codel = {v->codel_target_ns, v->codel_interval_ns}}};
	int number = rw_network_add_link(s->network, &settings);
	if (number < 0)
		return bad_value(error, "there are too many links");
	*link = (uint32_t)number;
	return RW_OK;
}

rw_status rw_simulation_add_change(rw_simulation *s, uint32_t link, const rw_link_change_values *v, rw_error *error)
{
	memset(error, 0, sizeof *error);
	struct rw_link_change change = {.at_ns = v->at_ns,
					.rate_bps = v->rate_bps,
					.loss_q32 = v->loss_q32,
					.delay_ns = v->delay_ns,
					.down = v->down != 0,
					.has_rate = (v->has & RW_HAS_RATE) != 0,
					.has_loss = (v->has & RW_HAS_LOSS) != 0,
					.has_delay = (v->has & RW_HAS_DELAY) != 0,
					.has_down = (v->has & RW_HAS_DOWN) != 0};
	return v->at_ns < 0 || rw_network_add_change(s->network, link, &change)
		   ? bad_value(error, "a link's changes are in order of time")
		   : RW_OK;
}

rw_status rw_simulation_add_traffic(rw_simulation *s, uint32_t link, const rw_traffic_values *v, rw_error *error)
{
	memset(error, 0, sizeof *error);
	struct rw_source_settings settings = {v->rate_bps, v->packet_bytes, v->from_ns, v->to_ns, v->on_ns, v->off_ns};
	return v->from_ns < 0 || rw_network_add_source(s->network, link, &settings) < 0
		   ? bad_value(error, "cross traffic needs a link and a rate")
		   : RW_OK;
}

/* One more place in an array that grows as its length passes powers of two. Null: out of memory. */
static void *one_more(void *array, uint32_t length, size_t bytes)
{
	if (length & (length - 1))
		return array;
	return realloc(array, (length ? 2 * (size_t)length : 1) * bytes);
}

rw_status rw_simulation_add_transfer(rw_simulation *s, const rw_transfer_settings *settings,
				     const rw_choice *controller, uint32_t *transfer, rw_error *error)
{
	memset(error, 0, sizeof *error);
	if (s->begun || s->connections >= CONNECTIONS_MAX)
		return bad_value(error, "a transfer is added before the simulation runs");
	if (settings->start_ns < 0 || !settings->write_bytes || !settings->send_buffer_bytes ||
	    !settings->receive_buffer_bytes || settings->receive_buffer_bytes > 1 << 30)
		return bad_value(error, "a transfer needs a start, writes and buffers");
	struct rw_simulated_connection *grown = one_more(s->connection, s->connections, sizeof *grown);
	if (!grown)
		return out_of_memory(error);
	s->connection = grown;
	struct rw_simulated_connection *c = &s->connection[s->connections];
	memset(c, 0, sizeof *c);
	c->settings = *settings;
	c->first = s->subflows;
	c->control = rw_control_find(controller->name);
	if (!c->control)
		return rw_unknown_control(controller->name, error);
	if (c->control->rate)
		return bad_value(error, "the simulator's senders do not pace: it runs window-based controllers only");
	rw_status status = rw_control_options(controller, c->control, &c->control_settings, error);
	if (status != RW_OK)
		return status;
	c->first_data_ns = c->last_acked_ns = -1;
	struct rw_random random = {.seed = s->seed, .entity = KEYS + s->connections};
	for (int i = 0; i < 4; i++)
		c->key[i / 2] = c->key[i / 2] << 32 | rw_random_next(&random);
	*transfer = s->connections++;
	s->incomplete++;
	return RW_OK;
}

rw_status rw_simulation_add_path(rw_simulation *s, const uint32_t *links, uint32_t count, const uint32_t *back,
				 uint32_t back_count, const rw_path_ends *ends, rw_error *error)
{
	const uint32_t mtu_bytes = ends->mtu_bytes, family = ends->family;
	memset(error, 0, sizeof *error);
	struct rw_simulated_connection *c = s->connections ? &s->connection[s->connections - 1] : NULL;
	if (s->begun || !c || c->subflows == RW_MAX_PATHS || s->subflows == SUBFLOWS_MAX)
		return bad_value(error, "a transfer has 1 to 8 paths");
	if (mtu_bytes < 576 || mtu_bytes > 65535 || (family != 4 && family != 6))
		return bad_value(error, "an MTU is 576 to 65535 bytes, a family is 4 or 6");
	struct rw_simulated_subflow *grown = one_more(s->subflow, s->subflows, sizeof *grown);
	if (!grown)
		return out_of_memory(error);
	s->subflow = grown;
	struct rw_simulated_subflow *f = &s->subflow[s->subflows];
	memset(f, 0, sizeof *f);
	int route = rw_network_add_route(s->network, links, count);
	int route_back = rw_network_add_route(s->network, back, back_count);
	if (route < 0 || route_back < 0)
		return bad_value(error, "a path has 1 to 16 links, which were added before");
	f->connection = s->connections - 1;
	f->route = (uint16_t)route;
	f->route_back = (uint16_t)route_back;
	if (c->settings.multipath && !c->stream && !(c->stream = calloc(1, sizeof *c->stream)))
		return out_of_memory(error);
	f->header_bytes =
	    (family == 4 ? IP4_BYTES : IP6_BYTES) + TCP_BYTES + (c->settings.timestamps ? TIMESTAMP_BYTES : 0);
	f->mss = mtu_bytes - f->header_bytes - (c->stream ? DATA_MAPPING_BYTES : 0);
	f->syn_due_ns = RW_NEVER;
	f->established_ns = -1;
	f->ends.family = (uint8_t)family;
	memcpy(f->ends.address[0], ends->from, sizeof f->ends.address[0]);
	memcpy(f->ends.address[1], ends->to, sizeof f->ends.address[1]);
	f->ends.port[0] = ends->from_port;
	f->ends.port[1] = ends->to_port;
	c->subflows++;
	s->subflows++;
	return RW_OK;
}

/*
 * Segments
 */

/* A segment that is filled by the caller; null: out of memory, or too many are under way. */
static struct rw_wire *take_wire(rw_simulation *s, uint32_t *number)
{
	if (s->wires_free == NO_WIRE) {
		if (s->wires == s->wires_room) {
			uint32_t room = s->wires_room ? 2 * s->wires_room : 1024;
			struct rw_wire *grown = room <= WIRES_MAX ? realloc(s->wire, room * sizeof *grown) : NULL;
			if (!grown) {
				s->failed = 1;
				return NULL;
			}
			s->wire = grown;
			s->wires_room = room;
		}
		*number = s->wires++;
	} else {
		*number = s->wires_free;
		s->wires_free = s->wire[*number].free_next;
	}
	return &s->wire[*number];
}

static void free_wire(rw_simulation *s, uint32_t number)
{
	s->wire[number].free_next = s->wires_free;
	s->wires_free = number;
}

/* SYNs carry more options; a SACK option has 2 bytes for itself and 2 to align it. */
static uint32_t packet_bytes(const rw_simulation *s, const struct rw_wire *w)
{
	const struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	uint32_t options = w->flags & RW_FLAG_SYN ? SYN_OPTION_BYTES - TIMESTAMP_BYTES
			   : w->sacks             ? 4 + 8u * w->sacks
						  : 0;
	if (s->connection[f->connection].stream)
		options += w->bytes ? DATA_MAPPING_BYTES : DATA_ACK_BYTES;
	return f->header_bytes + options + w->bytes;
}

/* RFC 3168 6.1: only data, and not a SYN, is sent as capable of ECN. */
static int ecn_capable(const rw_simulation *s, const struct rw_wire *w)
{
	return s->connection[s->subflow[w->subflow].connection].settings.ecn && w->bytes;
}

/* What the capture has of a segment that leaves a host (side: 0 the sender of data) or reaches it. */
static void trace(rw_simulation *s, const struct rw_wire *w, int side)
{
	if (!s->trace || side != s->traced_side)
		return;
	const struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	const struct rw_simulated_connection *c = &s->connection[f->connection];
	int syn = w->flags & RW_FLAG_SYN, first = w->subflow == c->first;
	int third = !syn && !w->back && !w->bytes;
	struct rw_trace_packet p = {.time_ns = TRACE_ZERO_NS + s->now_ns,
				    .ends = &f->ends,
				    .from = w->back,
				    .syn = syn != 0,
				    .ack_flag = !syn || w->back,
				    .push = (w->flags & RW_FLAG_PSH) != 0,
				    .ece = (w->flags & RW_FLAG_ECE) != 0 || (syn && c->settings.ecn),
				    .cwr = (w->flags & RW_FLAG_CWR) != 0 || (syn && c->settings.ecn && !w->back),
				    .ecn_capable = (uint8_t)ecn_capable(s, w),
				    .marked = w->marked,
				    .sack_permitted = c->settings.sack != 0,
				    .timestamps = c->settings.timestamps != 0,
				    .sacks = w->sacks,
				    .identification = w->identification,
				    .sequence = w->back ? !syn : w->sequence,
				    .ack = w->back ? (syn ? 1 : w->ack) : 1,
				    .bytes = w->bytes,
				    .window_bytes = w->back ? w->window_bytes : UINT16_MAX,
				    .mss = f->mss + (c->settings.timestamps ? TIMESTAMP_BYTES : 0) +
					   (c->stream ? DATA_MAPPING_BYTES : 0),
				    .ts_value = w->ts_value,
				    .ts_echo = w->ts_echo,
				    .key = {c->key[0], c->key[1]}};
	memcpy(p.sack, w->sack, sizeof p.sack);
	if (c->stream) {
		struct rw_key_identity sends = rw_key_identify(c->key[0], MP_VERSION),
				       receives = rw_key_identify(c->key[1], MP_VERSION);
		p.option = !syn && !third ? RW_TRACE_DATA : first ? RW_TRACE_CAPABLE : RW_TRACE_JOIN;
		p.token = receives.token;
		p.nonce = 1 + w->subflow;
		p.data_ack = w->back ? sends.idsn + 1 + w->data_ack : receives.idsn + 1;
		if (w->bytes) {
			struct rw_mapping m = w->mapping;
			p.data_sequence = sends.idsn + 1 + m.data;
			p.mapping_start = m.start;
			p.mapping_bytes = (uint16_t)m.bytes;
		}
	}
	rw_trace_packet(s->trace, &p);
}

static void send_wire(rw_simulation *s, const struct rw_wire *wire)
{
	uint32_t number;
	struct rw_wire *w = take_wire(s, &number);
	if (!w)
		return;
	*w = *wire;
	struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	w->identification = f->identification[w->back]++;
	trace(s, w, w->back);
	switch (rw_network_send(s->network, s->now_ns, w->back ? f->route_back : f->route, number, packet_bytes(s, w),
				ecn_capable(s, w))) {
	case RW_NETWORK_LOST:
		free_wire(s, number);
		break;
	case RW_NETWORK_FAILED:
		s->failed = 1;
		break;
	default:
		break;
	}
}

/*
 * Who has something to do. An entity that will be due later than the agenda has it is looked at then: timers are mostly put off.
 */

static void plan(rw_simulation *s, uint32_t entity, int64_t due_ns)
{
	if (due_ns < s->agenda->due_ns[entity])
		rw_agenda_set(s->agenda, entity, due_ns);
}

static int64_t sender_due_ns(const struct rw_simulated_subflow *f)
{
	return f->state == RW_SUBFLOW_ESTABLISHED ? f->tx.due_ns : f->syn_due_ns;
}

static void plan_subflow(rw_simulation *s, uint32_t subflow)
{
	const struct rw_simulated_subflow *f = &s->subflow[subflow];
	plan(s, 2 * subflow, sender_due_ns(f));
	plan(s, 2 * subflow + 1, rw_receiver_next_ns(&f->rx));
}

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
static uint64_t send_buffer_bytes(const rw_simulation *s, const struct rw_simulated_connection *c)
{
	uint64_t bytes = 0;
	for (uint32_t i = c->first; i < c->first + c->subflows; i++)
		if (s->subflow[i].state == RW_SUBFLOW_ESTABLISHED)
			bytes += buffer_bytes(c, &s->subflow[i]);
	return c->stream ? bytes : DATA_SHARE(bytes);
}

static uint64_t queued_bytes(const struct rw_simulated_subflow *f) { return f->tx.end - f->tx.tcp.una; }

/* A subflow that timed out so often without an answer is given nothing. */
static int may_carry(const struct rw_simulated_subflow *f)
{
	return f->state == RW_SUBFLOW_ESTABLISHED && f->tx.tcp.backoff < STALE_TIMEOUTS;
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
		uint64_t linger = rw_multiply_divide(queued_bytes(f), (uint64_t)1 << 32, rate);
		if (linger < least) {
			least = linger;
			best = f;
		}
	}
	return best && queued_bytes(best) < DATA_SHARE(buffer_bytes(c, best)) ? best : NULL;
}

static void begin_burst(rw_simulation *s, struct rw_simulated_connection *c, struct rw_simulated_subflow *f)
{
	uint64_t queued = queued_bytes(f), rate = rw_transmitter_pace(&f->tx);
	c->carrier = (uint32_t)(f - s->subflow);
	c->burst = BURST_BYTES / f->mss * f->mss;
	f->rate_bytes = rw_multiply_divide(f->rate_bytes ? f->rate_bytes : rate, queued, queued + c->burst) +
			rw_multiply_divide(rate, c->burst, queued + c->burst);
}

/* Data goes to a subflow, and leaves as far as its window allows. */
static void carry(rw_simulation *s, struct rw_simulated_connection *c, struct rw_simulated_subflow *f, uint64_t data,
		  uint32_t bytes)
{
	if (rw_stream_give(c->stream, f->tx.path, f->tx.tcp.next, f->tx.end, data, bytes))
		s->failed = 1;
	f->tx.end += bytes;
	rw_transmitter_push(&f->tx, s->now_ns);
	plan_subflow(s, (uint32_t)(f - s->subflow));
}

/* What was written goes to subflows, as long as one has room and the receiver's window allows. */
static void give_data(rw_simulation *s, struct rw_simulated_connection *c)
{
	struct rw_stream *d = c->stream;
	while (d->given < c->written && d->given < d->window_end && !s->failed) {
		struct rw_simulated_subflow *f = c->burst ? &s->subflow[c->carrier] : NULL;
		if (!f || !may_carry(f)) {
			f = soonest(s, c);
			if (!f)
				return;
			begin_burst(s, c, f);
		}
		uint64_t n = rw_min64(c->burst, rw_min64(c->written, d->window_end) - d->given);
		if (c->reinject_ns == RW_NEVER)
			c->reinject_ns = s->now_ns + (int64_t)rw_sender_rto_ns(&f->tx.tcp);
		carry(s, c, f, d->given, (uint32_t)n);
		d->given += n;
		c->burst -= (uint32_t)n;
	}
}

/*
 * The application: it writes until the buffer is full, and goes on when a third of it is free.
 */

static void write_more(rw_simulation *s, uint32_t connection)
{
	struct rw_simulated_connection *c = &s->connection[connection];
	uint64_t room = send_buffer_bytes(s, c), queued = c->written - c->acked;
	if (c->blocked && queued > room / 3 * 2)
		return;
	c->blocked = 0;
	uint64_t before = c->written;
	while (s->now_ns >= c->write_ns) {
		if (s->now_ns >= c->settings.stop_ns) {
			c->write_ns = RW_NEVER;
			break;
		}
		queued = c->written - c->acked;
		uint64_t free = room > queued ? room - queued : 0, n = c->chunk < free ? c->chunk : free;
		c->written += n;
		c->chunk -= n;
		if (c->chunk) {
			c->blocked = 1;
			break;
		}
		uint64_t left = c->settings.bytes ? c->settings.bytes - c->written : UINT64_MAX;
		c->chunk = left < c->settings.write_bytes ? left : c->settings.write_bytes;
		c->write_ns = left == 0 ? RW_NEVER : s->now_ns + (int64_t)c->settings.pause_ns;
	}
	if (c->write_ns != RW_NEVER && c->write_ns > s->now_ns)
		plan(s, FIRST_APPLICATION + connection, c->write_ns);
	if (c->written != before && c->first_data_ns < 0)
		c->first_data_ns = s->now_ns;
	if (c->stream) {
		give_data(s, c);
		return;
	}
	struct rw_simulated_subflow *f = &s->subflow[c->first];
	f->tx.end += (uint32_t)(c->written - before);
	rw_transmitter_push(&f->tx, s->now_ns);
}

static void see_completion(rw_simulation *s, struct rw_simulated_connection *c)
{
	int wrote_all = c->write_ns == RW_NEVER || s->now_ns >= c->settings.stop_ns;
	if (c->complete || !wrote_all || c->acked != c->written)
		return;
	c->complete = 1;
	s->incomplete--;
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
	send_wire(s, &w);
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
	s->row[s->rows++] =
	    (rw_simulation_row){e->time_ns,
				row->cwnd_q16,
				row->ssthresh_q16,
				t->tcp.rtt.srtt_ns,
				(uint32_t)((const struct rw_simulated_subflow *)(const void *)t - s->subflow),
				e->in_flight,
				t->tcp.una,
				t->tcp.next};
}

static void send_ack(rw_simulation *s, uint32_t subflow)
{
	struct rw_simulated_subflow *f = &s->subflow[subflow];
	struct rw_acknowledgment ack;
	const struct rw_stream *stream = s->connection[f->connection].stream;
	rw_receiver_acknowledge(&f->rx, &ack);
	struct rw_wire w = {.subflow = subflow,
			    .back = 1,
			    .ack = ack.ack,
			    .window_bytes = ack.window_bytes,
			    .ts_value = rw_kernel_timestamp(&s->kernel, s->now_ns),
			    .ts_echo = ack.ts_echo,
			    .flags = RW_FLAG_ACK | (ack.echo_ce ? RW_FLAG_ECE : 0),
			    .data_ack = stream ? stream->next : 0,
			    .sacks = ack.sacks};
	memcpy(w.sack, ack.sack, sizeof w.sack);
	send_wire(s, &w);
}

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
	send_wire(s, &w);
}

static rw_status begin(rw_simulation *s, rw_error *error)
{
	s->begun = 1;
	for (uint32_t i = 0; i < s->connections; i++) {
		struct rw_simulated_connection *c = &s->connection[i];
		if (!c->subflows)
			return bad_value(error, "a transfer has no path");
		c->shadow = malloc(rw_shadow_bytes(c->subflows));
		if (!c->shadow)
			return out_of_memory(error);
		rw_shadow_open(c->shadow, c->control, &c->control_settings, c->subflows, s->subflow[c->first].mss);
		if (c->control_settings.detector && c->subflows > 1) {
			int64_t option[RW_MAX_OPTIONS];
			rw_choice defaults = {rw_detector_name(c->control_settings.detector - 1u), NULL, 0};
			uint32_t which;
			rw_detector_options(&defaults, &which, option, error);
			c->detect = rw_detect_open(which, option, c->settings.start_ns);
			if (!c->detect)
				return out_of_memory(error);
		}
		c->shadow->learns_ticks = 0;
		c->shadow->clock_ns = (int64_t)s->kernel.phase_ns;
		c->owner = (struct rw_transmitter_owner){
		    .leave = leave, .reach = c->stream ? reach : NULL, .row = s->keeps_rows ? keep_row : NULL, .to = s};
		c->write_ns = c->reinject_ns = RW_NEVER;
		for (uint32_t k = c->first; k < c->first + c->subflows; k++) {
			struct rw_simulated_subflow *f = &s->subflow[k];
			uint32_t options =
			    (c->settings.timestamps ? TIMESTAMP_BYTES : 0) + (c->stream ? DATA_ACK_BYTES : 0);
			struct rw_receiver_settings receives = {.mss = f->mss,
								.blocks_max = (OPTIONS_MAX - options - 4) / 8,
								.buffer_first = RECEIVE_BUFFER_FIRST,
								.buffer_most = c->settings.receive_buffer_bytes,
								.sack = c->settings.sack != 0,
								.timestamps = c->settings.timestamps != 0,
								.ecn = c->settings.ecn != 0};
			if (receives.buffer_first > receives.buffer_most)
				receives.buffer_first = receives.buffer_most;
			rw_transmitter_open(&f->tx, &c->owner, &s->kernel, c->shadow, k - c->first, f->mss,
					    c->settings.sack != 0, NULL);
			f->tx.ecn = c->settings.ecn != 0;
			f->tx.detect = c->detect;
			rw_receiver_open(&f->rx, &receives, &s->kernel);
			rw_agenda_add(s->agenda, 2 * k, RW_NEVER);
			rw_agenda_add(s->agenda, 2 * k + 1, RW_NEVER);
		}
		rw_agenda_add(s->agenda, FIRST_APPLICATION + i, c->settings.start_ns);
	}
	return RW_OK;
}

/* How old the timestamp is that the segment echoes: milliseconds, at least one. */
static uint64_t echoed_ns(const rw_simulation *s, const struct rw_wire *w)
{
	uint32_t age = rw_kernel_timestamp(&s->kernel, s->now_ns) - w->ts_echo;
	return (age ? age : 1) * MS;
}

static void send_bare(rw_simulation *s, uint32_t subflow)
{
	struct rw_simulated_subflow *f = &s->subflow[subflow];
	struct rw_wire ack = {.subflow = subflow,
			      .flags = RW_FLAG_ACK,
			      .sequence = 1,
			      .ts_value = rw_kernel_timestamp(&s->kernel, s->now_ns),
			      .ts_echo = f->ts_recent};
	send_wire(s, &ack);
}

/* Further subflows of MPTCP begin when the receiver has announced their addresses, one in each round trip. */
static void plan_joins(rw_simulation *s, const struct rw_simulated_connection *c, uint64_t rtt_ns)
{
	for (uint32_t i = 1; i < c->subflows; i++) {
		s->subflow[c->first + i].syn_due_ns = s->now_ns + (int64_t)(i * rtt_ns);
		plan_subflow(s, c->first + i);
	}
}

static void begin_writing(rw_simulation *s, uint32_t connection)
{
	struct rw_simulated_connection *c = &s->connection[connection];
	c->write_ns = s->now_ns;
	uint64_t bytes = c->settings.bytes ? c->settings.bytes : UINT64_MAX;
	c->chunk = bytes < c->settings.write_bytes ? bytes : c->settings.write_bytes;
	write_more(s, connection);
}

/* The SYN/ACK has come. */
static void establish(rw_simulation *s, const struct rw_wire *w)
{
	struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	struct rw_simulated_connection *c = &s->connection[f->connection];
	int joins = w->subflow != c->first;
	if (f->state == RW_SUBFLOW_JOINS)
		send_bare(s, w->subflow);
	if (f->state != RW_SUBFLOW_SYN_SENT)
		return;
	f->state = joins ? RW_SUBFLOW_JOINS : RW_SUBFLOW_ESTABLISHED;
	f->syn_due_ns = RW_NEVER;
	f->established_ns = s->now_ns;
	f->ts_recent = w->ts_value;
	/* Karn: no sample of a SYN that was sent again. */
	uint64_t rtt_ns = f->syns == 1 ? (uint64_t)(s->now_ns - f->syn_ns) : 0;
	rw_transmitter_establish(&f->tx, 1, w->window_bytes, rtt_ns, s->now_ns);
	send_bare(s, w->subflow);
	if (joins) {
		f->syn_due_ns = rw_kernel_fires_ns(&s->kernel, s->now_ns, rw_sender_rto_ns(&f->tx.tcp));
		return;
	}
	if (c->stream) {
		c->stream->window_end = w->window_bytes;
		plan_joins(s, c, (uint64_t)(s->now_ns - f->syn_ns));
	}
	begin_writing(s, f->connection);
}

static void reach_receiver(rw_simulation *s, const struct rw_wire *w)
{
	struct rw_simulated_subflow *f = &s->subflow[w->subflow];
	struct rw_receiver *r = &f->rx;
	if (w->flags & RW_FLAG_SYN) {
		struct rw_wire answer = {.subflow = w->subflow,
					 .back = 1,
					 .flags = RW_FLAG_SYN | RW_FLAG_ACK,
					 .ts_value = rw_kernel_timestamp(&s->kernel, s->now_ns),
					 .ts_echo = w->ts_value};
		r->next = r->acked = 1;
		r->right = 1 + (uint32_t)r->threshold;
		r->ts_recent = w->ts_value;
		answer.window_bytes = r->right - r->next;
		send_wire(s, &answer);
		return;
	}
	if (w->bytes == 0 && w->sequence == r->next) {
		/* The handshake's end, which a subflow that joins wants answered. */
		if (w->subflow != s->connection[f->connection].first)
			send_ack(s, w->subflow);
		return;
	}
	struct rw_arrival arrival = {.time_ns = s->now_ns,
				     .sequence = w->sequence,
				     .bytes = w->bytes,
				     .ts_value = w->ts_value,
				     .echo_rtt_ns = r->settings.timestamps ? echoed_ns(s, w) : 0,
				     .marked = w->marked,
				     .reduced = (w->flags & RW_FLAG_CWR) != 0,
				     .pushed = (w->flags & RW_FLAG_PSH) != 0};
	int acknowledges = rw_receiver_take(r, &arrival);
	struct rw_stream *stream = s->connection[f->connection].stream;
	if (stream && rw_stream_receive(stream, f->tx.path, r->next))
		s->failed = 1;
	if (acknowledges)
		send_ack(s, w->subflow);
	if (r->failed)
		s->failed = 1;
}

/* How long the connection waits for its data to be acknowledged before it goes on another subflow, too. */
static uint64_t patience_ns(const rw_simulation *s, const struct rw_simulated_connection *c)
{
	uint64_t longest = 0;
	for (uint32_t i = c->first; i < c->first + c->subflows; i++) {
		const struct rw_simulated_subflow *f = &s->subflow[i];
		if (f->state == RW_SUBFLOW_ESTABLISHED && f->tx.tcp.board.count)
			longest = rw_max64(longest, rw_sender_rto_ns(&f->tx.tcp));
	}
	return longest;
}

static void plan_reinjection(rw_simulation *s, struct rw_simulated_connection *c)
{
	uint64_t patience = patience_ns(s, c);
	c->reinject_ns = c->stream->una < c->stream->given && patience
			     ? rw_kernel_fires_ns(&s->kernel, s->now_ns, patience)
			     : RW_NEVER;
	plan(s, FIRST_APPLICATION + (uint32_t)(c - s->connection), c->reinject_ns);
}

/* MPTCP's own acknowledgment and window. Returns how much data it covers. */
static uint64_t data_acknowledged(rw_simulation *s, struct rw_simulated_connection *c, const struct rw_wire *w)
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

/* The oldest data that waits goes once more, on a subflow that has nothing else to do. */
static void reinject(rw_simulation *s, struct rw_simulated_connection *c)
{
	struct rw_stream *d = c->stream;
	for (uint32_t i = c->first; i < c->first + c->subflows && d->una < d->given; i++) {
		struct rw_simulated_subflow *f = &s->subflow[i];
		if (!may_carry(f) || f->tx.tcp.board.count || f->tx.end != f->tx.tcp.next)
			continue;
		uint64_t n = d->given - d->una;
		carry(s, c, f, d->una, (uint32_t)(n < BURST_BYTES ? n : BURST_BYTES));
		break;
	}
	plan_reinjection(s, c);
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
	if (f->state == RW_SUBFLOW_JOINS) {
		f->state = RW_SUBFLOW_ESTABLISHED;
		f->syn_due_ns = RW_NEVER;
	}
	rw_transmitter_acknowledge(&f->tx, &ack);
	s->failed |= f->tx.failed;
	f->window_max = (uint32_t)rw_max64(f->window_max, rw_transmitter_window(&f->tx));
	uint64_t advanced = c->stream ? data_acknowledged(s, c, w) : f->tx.tcp.una - una;
	if (advanced) {
		c->acked += advanced;
		c->last_acked_ns = s->now_ns;
		if (c->blocked)
			write_more(s, f->connection);
		see_completion(s, c);
	}
	if (c->stream)
		give_data(s, c);
}

static void deliver(rw_simulation *s, const struct rw_network_packet *p)
{
	/* What answers it may move the array. */
	struct rw_wire w = s->wire[p->user];
	free_wire(s, (uint32_t)p->user);
	w.marked = p->marked;
	trace(s, &w, !w.back);
	if (w.back)
		reach_sender(s, &w);
	else
		reach_receiver(s, &w);
	plan_subflow(s, w.subflow);
}

static void begin_transfer(rw_simulation *s, uint32_t connection)
{
	struct rw_simulated_connection *c = &s->connection[connection];
	send_syn(s, c->first);
	plan_subflow(s, c->first);
}

static void application_due(rw_simulation *s, uint32_t connection)
{
	struct rw_simulated_connection *c = &s->connection[connection];
	if (s->subflow[c->first].state == RW_SUBFLOW_WAITS) {
		begin_transfer(s, connection);
		return;
	}
	if (c->reinject_ns <= s->now_ns)
		reinject(s, c);
	write_more(s, connection);
	see_completion(s, c);
	plan_subflow(s, c->first);
}

static void sender_due(rw_simulation *s, uint32_t subflow)
{
	struct rw_simulated_subflow *f = &s->subflow[subflow];
	if (f->state == RW_SUBFLOW_ESTABLISHED) {
		rw_transmitter_due(&f->tx, s->now_ns);
	} else if (f->state == RW_SUBFLOW_JOINS) {
		f->syn_due_ns = rw_kernel_fires_ns(&s->kernel, s->now_ns, SYN_TIMEOUT_NS);
		send_bare(s, subflow);
	} else {
		send_syn(s, subflow);
	}
	s->failed |= f->tx.failed;
	plan_subflow(s, subflow);
}

static void receiver_due(rw_simulation *s, uint32_t subflow)
{
	if (rw_receiver_due(&s->subflow[subflow].rx, s->now_ns))
		send_ack(s, subflow);
	plan_subflow(s, subflow);
}

/* When the entity really is due: the agenda may have it earlier. */
static int64_t really_due_ns(const rw_simulation *s, uint32_t entity)
{
	if (entity >= FIRST_APPLICATION) {
		const struct rw_simulated_connection *c = &s->connection[entity - FIRST_APPLICATION];
		int64_t write_ns = s->subflow[c->first].state == RW_SUBFLOW_WAITS ? c->settings.start_ns
				   : c->blocked                                   ? RW_NEVER
										  : c->write_ns;
		return write_ns < c->reinject_ns ? write_ns : c->reinject_ns;
	}
	const struct rw_simulated_subflow *f = &s->subflow[entity / 2];
	return entity % 2 ? rw_receiver_next_ns(&f->rx) : sender_due_ns(f);
}

static void do_next(rw_simulation *s)
{
	uint32_t entity = rw_agenda_first(s->agenda);
	int64_t due_ns = really_due_ns(s, entity);
	if (due_ns > s->now_ns) {
		rw_agenda_set(s->agenda, entity, due_ns);
		return;
	}
	rw_agenda_set(s->agenda, entity, RW_NEVER);
	if (entity >= FIRST_APPLICATION)
		application_due(s, entity - FIRST_APPLICATION);
	else if (entity % 2)
		receiver_due(s, entity / 2);
	else
		sender_due(s, entity / 2);
}

rw_status rw_simulation_run(rw_simulation *s, int64_t until_ns, rw_error *error)
{
	memset(error, 0, sizeof *error);
	rw_status status = s->begun ? RW_OK : begin(s, error);
	if (status != RW_OK)
		return status;
	while (s->incomplete && !s->failed) {
		struct rw_network_packet packet;
		int64_t due_ns = s->agenda->entities ? s->agenda->due_ns[rw_agenda_first(s->agenda)] : RW_NEVER;
		int64_t to_ns = due_ns < until_ns ? due_ns : until_ns;
		enum rw_network_outcome outcome = rw_network_advance(s->network, to_ns, &packet);
		if (outcome == RW_NETWORK_FAILED)
			break;
		if (outcome == RW_NETWORK_WAITING) {
			s->now_ns = to_ns;
			if (due_ns > until_ns)
				return RW_OK;
			do_next(s);
		} else if (outcome == RW_NETWORK_LOST) {
			free_wire(s, (uint32_t)packet.user);
		} else {
			s->now_ns = packet.time_ns;
			deliver(s, &packet);
		}
	}
	return s->incomplete ? out_of_memory(error) : RW_OK;
}

rw_status rw_simulation_capture(rw_simulation *s, int fd, uint32_t receivers, rw_error *error)
{
	memset(error, 0, sizeof *error);
	if (s->begun || s->trace)
		return bad_value(error, "a capture begins before the simulation runs");
	s->trace = malloc(sizeof *s->trace);
	if (!s->trace)
		return out_of_memory(error);
	s->traced_side = receivers != 0;
	rw_trace_open(s->trace, fd);
	return RW_OK;
}

rw_status rw_simulation_finish_capture(rw_simulation *s, rw_error *error)
{
	memset(error, 0, sizeof *error);
	int failed = s->trace ? rw_trace_close(s->trace) : 0;
	if (failed)
		rw_error_set(error, RW_ERROR_READ, 0, 0, 0, "the capture cannot be written: %s", strerror(failed));
	return failed ? RW_ERROR_READ : RW_OK;
}

/*
 * What came of it
 */

int64_t rw_simulation_now_ns(const rw_simulation *s) { return s->now_ns; }

void rw_simulation_transfer(const rw_simulation *s, uint32_t transfer, rw_transfer_row *row)
{
	const struct rw_simulated_connection *c = &s->connection[transfer];
	*row = (rw_transfer_row){c->acked, c->complete, c->first_data_ns, c->last_acked_ns};
}

void rw_simulation_subflow(const rw_simulation *s, uint32_t subflow, rw_simulated_row *row)
{
	const struct rw_simulated_subflow *f = &s->subflow[subflow];
	const struct rw_sender *tcp = &f->tx.tcp;
	const struct rw_path *path = f->tx.shadow ? &f->tx.shadow->connection->path[f->tx.path] : NULL;
	*row = (rw_simulated_row){.bytes = f->established_ns < 0 ? 0 : tcp->una - 1,
				  .segments = f->tx.segments,
				  .retransmitted = tcp->retransmitted,
				  .timeouts = tcp->timeouts,
				  .fast_retransmits = tcp->fast_retransmits,
				  .spurious = tcp->spurious,
				  .cwnd_q16 = path ? path->cwnd_q16 : 0,
				  .ssthresh_q16 = path ? path->ssthresh_q16 : RW_SSTHRESH_UNSET,
				  .srtt_ns = tcp->rtt.srtt_ns,
				  .established_ns = f->established_ns};
}

void rw_simulation_link(const rw_simulation *s, uint32_t link, rw_link_counts_row *row)
{
	const struct rw_link_counts *c = rw_network_counts(s->network, link);
	*row =
	    (rw_link_counts_row){c->forwarded,    c->bytes,  c->dropped_full, c->dropped_early,     c->dropped_loss,
				 c->dropped_down, c->marked, c->reordered,    c->queue_packets_max, c->queue_bytes_max};
}

const rw_simulation_row *rw_simulation_rows(const rw_simulation *s, uint64_t *count)
{
	*count = s->rows;
	return s->row;
}
