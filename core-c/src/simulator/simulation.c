/* Building a simulation, running it, and what came of it. */
#include "simulation.h"

#include <stdlib.h>
#include <string.h>

#include "agenda.h"
#include "findings.h"
#include "growing.h"

#define MS 1000000ull
#define KEYS ((uint64_t)1 << 63) /* entities that draw MPTCP's keys, and BBR's first phases */
#define PHASES ((uint64_t)3 << 62)
/* A receive buffer begins with so many bytes (tcp_rmem). */
#define RECEIVE_BUFFER_FIRST 131072

enum { OPTIONS_MAX = 40 };

rw_status rw_simulation_open(rw_simulation **out, uint64_t seed, uint64_t tick_ns, uint32_t rows, rw_error *error)
{
	memset(error, 0, sizeof *error);
	if (tick_ns < MS || tick_ns > 10 * MS)
		return rw_bad_value(error, "a kernel's tick is 1 to 10 ms");
	rw_simulation *s = calloc(1, sizeof *s);
	if (!s)
		return rw_out_of_memory(error);
	s->seed = seed;
	s->wires_free = RW_NO_WIRE;
	s->keeps_rows = rows != 0;
	struct rw_random random = {.seed = seed, .entity = UINT64_MAX};
	s->kernel.tick_ns = tick_ns;
	s->kernel.phase_ns = rw_random_next(&random) % tick_ns;
	s->kernel.ts_phase_ns = rw_random_next(&random) % MS;
	s->kernel.ts_first = 1 + (rw_random_next(&random) >> 2);
	s->network = rw_network_open(seed);
	s->agenda = calloc(1, sizeof *s->agenda);
	if (!s->network || !s->agenda || rw_agenda_open(s->agenda, RW_ENTITIES)) {
		rw_simulation_close(s);
		return rw_out_of_memory(error);
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
		if (s->connection[i].scheduled)
			rw_scheduled_close(s->connection[i].scheduled);
		free(s->connection[i].scheduled);
		free(s->connection[i].write);
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
		return rw_bad_value(error, "a link's discipline or limit is out of its bounds");
	if (v->delay_ns > time_most || v->jitter_ns > time_most || v->stall_ns > time_most || v->reorder_ns > time_most)
		return rw_bad_value(error, "a link's time is longer than 13 days");
	if (v->discipline == RW_DROPS_BY_RED &&
	    (v->red_min_packets == 0 || v->red_max_packets <= v->red_min_packets || v->red_max_packets > 1 << 20 ||
	     v->red_weight_shift > 31 || v->red_probability_q32 > UINT32_MAX))
		return rw_bad_value(error, "RED's thresholds are 0 < min < max <= 2^20");
	static const enum rw_discipline disciplines[] = {RW_DROP_TAIL, RW_ECN_THRESHOLD, RW_RED, RW_CODEL};
	struct rw_link_settings settings = {
	    .rate_bps = v->rate_bps,
	    .delay_ns = v->delay_ns,
	    .jitter_ns = v->jitter_ns,
	    .stall_q32 = v->stall_q32,
	    .stall_ns = v->stall_ns,
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
		return rw_bad_value(error, "there are too many links");
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
		   ? rw_bad_value(error, "a link's changes are in order of time")
		   : RW_OK;
}

rw_status rw_simulation_add_traffic(rw_simulation *s, uint32_t link, const rw_traffic_values *v, rw_error *error)
{
	memset(error, 0, sizeof *error);
	struct rw_source_settings settings = {v->rate_bps, v->packet_bytes, v->from_ns, v->to_ns, v->on_ns, v->off_ns};
	return v->from_ns < 0 || rw_network_add_source(s->network, link, &settings) < 0
		   ? rw_bad_value(error, "cross traffic needs a link and a rate")
		   : RW_OK;
}

/* Did the user choose a value for the option? */
static int chooses(const rw_choice *choice, const char *name)
{
	size_t n = strlen(name);
	for (uint32_t i = 0; i < choice->option_count; i++)
		if (strncmp(choice->options[i], name, n) == 0 && choice->options[i][n] == '=')
			return 1;
	return 0;
}

/*
 * What a sender draws at random, here once for the connection: BBR the phase that its cycle begins in (BBR draft 4.3.4.2), BBRv3 the
 * seed of its waits (draft-ietf-ccwg-bbr-06, 5.3.3.8). A replay has an option for it.
 */
static void draw(const rw_simulation *s, struct rw_simulated_connection *c, const rw_choice *choice, const char *name)
{
	int place = rw_option_find(c->control->options, name, strlen(name));
	if (place < 0 || chooses(choice, name))
		return;
	const struct rw_option *option = &c->control->options[place];
	struct rw_random random = {.seed = s->seed, .entity = PHASES + s->connections};
	uint64_t drawn = rw_random_next(&random), values = 1;
	if (option->kind == RW_OPTION_CHOICE) {
		for (const char *at = option->values; (at = strchr(at, '|')); at++)
			values++;
		c->control_settings.option[place] = (int64_t)(drawn % values);
	} else {
		values = (uint64_t)option->high_q16 >> 16;
		c->control_settings.option[place] = (int64_t)((1 + drawn % values) << 16);
	}
}

rw_status rw_simulation_add_transfer(rw_simulation *s, const rw_transfer_settings *settings,
				     const rw_choice *controller, uint32_t *transfer, rw_error *error)
{
	memset(error, 0, sizeof *error);
	if (s->begun || s->connections >= RW_SIMULATED_CONNECTIONS_MAX)
		return rw_bad_value(error, "a transfer is added before the simulation runs");
	if (settings->start_ns < 0 || !settings->write_bytes || !settings->send_buffer_bytes ||
	    !settings->receive_buffer_bytes || settings->receive_buffer_bytes > 1 << 30)
		return rw_bad_value(error, "a transfer needs a start, writes and buffers");
	struct rw_simulated_connection *grown = rw_one_more(s->connection, s->connections, sizeof *grown);
	if (!grown)
		return rw_out_of_memory(error);
	s->connection = grown;
	struct rw_simulated_connection *c = &s->connection[s->connections];
	memset(c, 0, sizeof *c);
	c->settings = *settings;
	c->first = s->subflows;
	c->control = rw_control_find(controller->name);
	if (!c->control)
		return rw_unknown_control(controller->name, error);
	rw_status status = rw_control_options(controller, c->control, &c->control_settings, error);
	if (status != RW_OK)
		return status;
	draw(s, c, controller, "first_phase");
	draw(s, c, controller, "seed");
	c->first_data_ns = c->last_acked_ns = -1;
	struct rw_random random = {.seed = s->seed, .entity = KEYS + s->connections};
	for (int i = 0; i < 4; i++)
		c->key[i / 2] = c->key[i / 2] << 32 | rw_random_next(&random);
	*transfer = s->connections++;
	s->incomplete++;
	return RW_OK;
}

/* The word of a path that has SB-CC's beta; -1: there is none. */
static int8_t beta_word(const struct rw_control *control)
{
	for (const struct rw_word_name *word = control->words; word->name; word++)
		if (strcmp(word->name, "beta") == 0 && word->of_path && word->fraction_bits == 32 && !word->half)
			return (int8_t)word->index;
	return -1;
}

rw_status rw_simulation_set_scheduler(rw_simulation *s, const rw_choice *scheduler, rw_error *error)
{
	memset(error, 0, sizeof *error);
	struct rw_simulated_connection *c = s->connections ? &s->connection[s->connections - 1] : NULL;
	if (s->begun || !c || !c->settings.multipath || c->scheduled)
		return rw_bad_value(error,
				    "an MPTCP transfer has one scheduler, which is set before the simulation runs");
	struct rw_scheduled *d = calloc(1, sizeof *d);
	if (!d)
		return rw_out_of_memory(error);
	c->scheduled = d;
	d->previous = RW_NO_SUBFLOW;
	d->beta_word = beta_word(c->control);
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		d->penalized_ns[i] = -1;
	return rw_scheduler_options(scheduler, &d->scheduler, d->option, error);
}

rw_status rw_simulation_set_writes(rw_simulation *s, const rw_write_values *writes, uint32_t count, rw_error *error)
{
	memset(error, 0, sizeof *error);
	struct rw_simulated_connection *c = s->connections ? &s->connection[s->connections - 1] : NULL;
	if (s->begun || !c || c->write || !count)
		return rw_bad_value(error, "a transfer's writes are set once, before the simulation runs");
	for (uint32_t i = 0; i < count; i++)
		if (!writes[i].bytes || writes[i].after_ns > INT64_MAX / 4)
			return rw_bad_value(error, "a write has data and a time");
	c->write = malloc(count * sizeof *c->write);
	if (!c->write)
		return rw_out_of_memory(error);
	memcpy(c->write, writes, count * sizeof *c->write);
	c->writes = count;
	return RW_OK;
}

rw_status rw_simulation_add_path(rw_simulation *s, const uint32_t *links, uint32_t count, const uint32_t *back,
				 uint32_t back_count, const rw_path_ends *ends, rw_error *error)
{
	const uint32_t mtu_bytes = ends->mtu_bytes, family = ends->family;
	memset(error, 0, sizeof *error);
	struct rw_simulated_connection *c = s->connections ? &s->connection[s->connections - 1] : NULL;
	if (s->begun || !c || c->subflows == RW_MAX_PATHS || s->subflows == RW_SIMULATED_SUBFLOWS_MAX)
		return rw_bad_value(error, "a transfer has 1 to 8 paths");
	if (mtu_bytes < 576 || mtu_bytes > 65535 || (family != 4 && family != 6))
		return rw_bad_value(error, "an MTU is 576 to 65535 bytes, a family is 4 or 6");
	struct rw_simulated_subflow *grown = rw_one_more(s->subflow, s->subflows, sizeof *grown);
	if (!grown)
		return rw_out_of_memory(error);
	s->subflow = grown;
	struct rw_simulated_subflow *f = &s->subflow[s->subflows];
	memset(f, 0, sizeof *f);
	int route = rw_network_add_route(s->network, links, count);
	int route_back = rw_network_add_route(s->network, back, back_count);
	if (route < 0 || route_back < 0)
		return rw_bad_value(error, "a path has 1 to 16 links, which were added before");
	f->connection = s->connections - 1;
	f->route = (uint16_t)route;
	f->route_back = (uint16_t)route_back;
	if (c->settings.multipath && !c->stream && !(c->stream = calloc(1, sizeof *c->stream)))
		return rw_out_of_memory(error);
	f->header_bytes = (family == 4 ? RW_IP4_BYTES : RW_IP6_BYTES) + RW_TCP_BYTES +
			  (c->settings.timestamps ? RW_TIMESTAMP_BYTES : 0);
	f->mss = mtu_bytes - f->header_bytes - (c->stream ? RW_DATA_MAPPING_BYTES : 0);
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
 * A run
 */

static rw_status begin(rw_simulation *s, rw_error *error)
{
	s->begun = 1;
	for (uint32_t i = 0; i < s->connections; i++) {
		struct rw_simulated_connection *c = &s->connection[i];
		if (!c->subflows)
			return rw_bad_value(error, "a transfer has no path");
		c->shadow = malloc(rw_shadow_bytes(c->subflows));
		if (!c->shadow)
			return rw_out_of_memory(error);
		rw_shadow_open(c->shadow, c->control, &c->control_settings, c->subflows, s->subflow[c->first].mss);
		if (c->control_settings.detector && c->subflows > 1) {
			int64_t option[RW_MAX_OPTIONS];
			rw_choice defaults = {rw_detector_name(c->control_settings.detector - 1u), NULL, 0};
			uint32_t which;
			rw_detector_options(&defaults, &which, option, error);
			c->detect = rw_detect_open(which, option, c->settings.start_ns);
			if (!c->detect)
				return rw_out_of_memory(error);
		}
		c->shadow->learns_ticks = 0;
		c->shadow->clock_ns = c->control->rate ? 0 : (int64_t)s->kernel.phase_ns;
		c->owner = rw_ends_owner(s, c);
		for (uint32_t k = c->first; c->scheduled && k < c->first + c->subflows; k++)
			if (!c->scheduled->segment_bytes || s->subflow[k].mss < c->scheduled->segment_bytes)
				c->scheduled->segment_bytes = s->subflow[k].mss;
		c->write_ns = c->reinject_ns = RW_NEVER;
		uint64_t buffer_first = c->settings.receive_buffer_first_bytes;
		rw_receive_window_open(&c->receive_window, buffer_first ? buffer_first : RECEIVE_BUFFER_FIRST,
				       c->settings.receive_buffer_bytes, s->subflow[c->first].mss);
		for (uint32_t k = c->first; k < c->first + c->subflows; k++) {
			struct rw_simulated_subflow *f = &s->subflow[k];
			uint32_t options =
			    (c->settings.timestamps ? RW_TIMESTAMP_BYTES : 0) + (c->stream ? RW_DATA_ACK_BYTES : 0);
			struct rw_receiver_settings receives = {.mss = f->mss,
								.blocks_max = (OPTIONS_MAX - options - 4) / 8,
								.sack = c->settings.sack != 0,
								.timestamps = c->settings.timestamps != 0,
								.ecn = c->settings.ecn != 0};
			rw_transmitter_open(&f->tx, &c->owner, &s->kernel, c->shadow, k - c->first, f->mss,
					    c->settings.sack != 0, NULL);
			f->tx.ecn = c->settings.ecn != 0;
			f->tx.detect = c->detect;
			rw_receiver_open(&f->rx, &receives, &s->kernel, &c->receive_window);
			rw_agenda_add(s->agenda, 2 * k, RW_NEVER);
			rw_agenda_add(s->agenda, 2 * k + 1, RW_NEVER);
		}
		rw_agenda_add(s->agenda, RW_FIRST_APPLICATION + i, c->settings.start_ns);
	}
	return RW_OK;
}

rw_status rw_simulation_run(rw_simulation *s, int64_t until_ns, rw_error *error)
{
	memset(error, 0, sizeof *error);
	rw_status status = s->begun ? RW_OK : begin(s, error);
	if (status != RW_OK)
		return status;
	while (s->incomplete && !s->failed) {
		struct rw_network_packet packet;
		int64_t due_ns = s->agenda->entities ? rw_agenda_first(s->agenda).due_ns : RW_NEVER;
		int64_t to_ns = due_ns < until_ns ? due_ns : until_ns;
		enum rw_network_outcome outcome = rw_network_advance(s->network, to_ns, &packet);
		if (outcome == RW_NETWORK_FAILED)
			break;
		if (outcome == RW_NETWORK_WAITING) {
			s->now_ns = to_ns;
			if (due_ns > until_ns)
				return RW_OK;
			rw_ends_do_next(s);
		} else if (outcome == RW_NETWORK_LOST) {
			rw_wire_free(s, (uint32_t)packet.user);
		} else {
			s->now_ns = packet.time_ns;
			rw_ends_deliver(s, &packet);
		}
	}
	return s->incomplete ? rw_out_of_memory(error) : RW_OK;
}

rw_status rw_simulation_capture(rw_simulation *s, int fd, uint32_t receivers, rw_error *error)
{
	memset(error, 0, sizeof *error);
	if (s->begun || s->trace)
		return rw_bad_value(error, "a capture begins before the simulation runs");
	s->trace = malloc(sizeof *s->trace);
	if (!s->trace)
		return rw_out_of_memory(error);
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
				  .established_ns = f->established_ns,
				  .handshake_ns = f->handshake_ns,
				  .closing_ns = f->closing_ns};
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
