/* Tables of captures, connections and subflows: identities after the survey, results after the end. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

enum rw_vantage rw_vantage_of(const struct rw_flow *f)
{
	switch (f->near) {
	case 0:
		return RW_VANTAGE_MIDDLE;
	case 3:
		return RW_VANTAGE_UNKNOWN;
	default:
		return f->near - 1 == f->source ? RW_VANTAGE_SENDER : RW_VANTAGE_RECEIVER;
	}
}

/* Null: out of memory. */
static void *take(struct outcomes **outcomes, size_t bytes)
{
	struct outcomes *last = *outcomes;
	uint32_t words = (uint32_t)(bytes / sizeof *last->word);
	if (!last || RW_OUTCOMES_WORDS - last->used < words) {
		struct outcomes *more = malloc(sizeof *more);
		if (!more)
			return NULL;
		more->before = last;
		more->used = 0;
		*outcomes = last = more;
	}
	last->used += words;
	return &last->word[last->used - words];
}

struct outcome *rw_outcomes_add(struct outcomes **outcomes, const struct outcome *o, uint32_t choices)
{
	size_t bytes = o->window ? choices * sizeof *o->window : 0;
	struct outcome *copy = take(outcomes, sizeof *copy);
	struct window *window = copy && bytes ? take(outcomes, bytes) : NULL;
	if (!copy || (bytes && !window))
		return NULL;
	*copy = *o;
	copy->window = window;
	if (bytes)
		memcpy(window, o->window, bytes);
	return copy;
}

void rw_outcomes_free(struct outcomes *outcomes)
{
	while (outcomes) {
		struct outcomes *before = outcomes->before;
		free(outcomes);
		outcomes = before;
	}
}

void rw_outcome_of(const struct live *l, struct outcome *o)
{
	const struct rw_reconstruction *s = &l->sender;
	const struct rw_sender *tcp = &s->tcp;
	*o = (struct outcome){
	    .bytes = s->bytes,
	    .retransmitted_packets = tcp->retransmitted + rw_reconstruction_unseen_retransmissions(s),
	    .retransmitted_bytes = s->retransmitted_bytes,
	    .unseen_bytes = s->unseen_bytes,
	    .acks = s->acks,
	    .rows = l->rows,
	    .full_rows = l->full_rows,
	    .window = l->rows ? l->window : NULL,
	    .first_data_ns = s->first_data_ns,
	    .last_advance_ns = s->last_advance_ns,
	    .first_unseen_ns = s->first_unseen_ns,
	    .spurious = tcp->spurious > UINT32_MAX ? UINT32_MAX : (uint32_t)tcp->spurious,
	    .ece_acks = (uint32_t)s->ece_acks,
	    .ce_packets = l->ce_packets,
	    .fast_retransmits = (uint32_t)tcp->fast_retransmits,
	    .timeouts = (uint32_t)tcp->timeouts,
	    .rtt_samples = (uint32_t)s->rtt_samples.count,
	    .rtt_min_us = rw_to_us(tcp->rtt.least_ns),
	    .rtt_median_us = rw_reconstruction_rtt_quantile_us(s, 50),
	    .rtt_p95_us = rw_reconstruction_rtt_quantile_us(s, 95),
	    .window_first = s->window_first,
	    .window_most = s->window_most,
	    .crowded_out = l->crowded_out,
	    .gave_up = s->gave_up,
	    .paced = (uint8_t)rw_reconstruction_paced(s),
	};
}

/* While workers run, only they may read their flows and connections. */
static int workers_run(const rw_replay *r) { return r->jobs && !r->ended; }

/* Null: it had no packet yet. live: the place for the results of a flow that is not over. */
static const struct outcome *outcome_now(const rw_replay *r, uint32_t number, struct outcome *live)
{
	if (workers_run(r))
		return NULL;
	if (!r->live[number])
		return r->outcome[number];
	rw_outcome_of(r->live[number], live);
	return live;
}

static void describe_subflow(const rw_replay *r, uint32_t number, rw_subflow_row *row)
{
	const struct rw_flow *f = &r->survey.flow[number];
	struct outcome live;
	const struct outcome *o = outcome_now(r, number, &live);
	const struct rw_flow_side *source = &f->side[f->source], *sink = &f->side[!f->source];
	memset(row, 0, sizeof *row);
	row->connection = f->connection;
	row->id = f->id;
	row->file = f->file;
	row->interface = f->interface;
	row->family = f->family;
	memcpy(row->src, f->address[f->source], 16);
	memcpy(row->dst, f->address[!f->source], 16);
	row->sport = f->port[f->source];
	row->dport = f->port[!f->source];
	row->vantage = rw_vantage_of(f);
	row->send_times = r->send_times[number];
	row->ecn = rw_flow_ecn(f);
	row->cut = f->cut;
	row->copied = f->copied;
	row->handshake = f->handshake;
	row->one_direction = !source->packets || !sink->packets;
	row->closed = source->fin || sink->fin || source->rst || sink->rst;
	row->backup = f->backup;
	row->sack = source->sack_permitted && sink->sack_permitted;
	row->timestamps = source->timestamps && sink->timestamps;
	row->packets = source->packets;
	row->reverse_packets = sink->packets;
	row->reverse_bytes = sink->bytes;
	row->first_ns = f->first_ns;
	row->last_ns = f->last_ns;
	if (f->handshake && f->established_ns)
		row->handshake_rtt_us =
		    rw_to_us((uint64_t)(f->established_ns > f->syn_ns ? f->established_ns - f->syn_ns : 0));
	row->mss_bytes = source->payload_max;
	if (sink->mss && row->mss_bytes > sink->mss)
		row->mss_bytes = sink->mss;
	row->bytes = source->bytes;
	if (r->shared_bottlenecks)
		row->bottleneck_state =
		    (uint8_t)rw_shared_bottlenecks_of(r->shared_bottlenecks, number, &row->bottleneck);
	if (!o)
		return;
	row->bytes = o->bytes;
	row->retransmitted_packets = o->retransmitted_packets;
	row->retransmitted_bytes = o->retransmitted_bytes;
	row->spurious_retransmissions = o->spurious;
	row->unseen_bytes = o->unseen_bytes;
	row->acks = o->acks;
	row->ece_acks = o->ece_acks;
	row->paced = o->paced;
	row->ce_packets = o->ce_packets;
	row->fast_retransmits = o->fast_retransmits;
	row->timeouts = o->timeouts;
	row->rtt_samples = o->rtt_samples;
	row->rtt_min_us = o->rtt_min_us;
	row->rtt_median_us = o->rtt_median_us;
	row->rtt_p95_us = o->rtt_p95_us;
	row->first_data_ns = o->first_data_ns;
	row->last_ack_ns = o->last_advance_ns;
	row->first_unseen_ns = o->first_unseen_ns;
	row->window_first_bytes = o->window_first;
	row->window_most_bytes = o->window_most;
	row->replayed = !o->crowded_out;
	row->window_too_large = o->gave_up;
}

void rw_replay_summary(const rw_replay *r, rw_summary *summary) { *summary = r->summary; }

uint32_t rw_replay_connections(const rw_replay *r) { return r->survey.connections; }
uint32_t rw_replay_subflows(const rw_replay *r) { return r->survey.flows; }

void rw_replay_subflow(const rw_replay *r, uint32_t place, rw_subflow_row *row)
{
	memset(row, 0, sizeof *row);
	if (place < r->survey.flows)
		describe_subflow(r, r->survey.subflow[place], row);
}

void rw_replay_connection(const rw_replay *r, uint32_t number, rw_connection_row *row)
{
	memset(row, 0, sizeof *row);
	if (number >= r->survey.connections)
		return;
	const struct rw_flow_connection *from = &r->survey.connection[number];
	const struct rw_coverage *coverage = workers_run(r) ? NULL : r->live_connection[number].coverage;
	/* Data after a fallback has no mapping. */
	int mapped = coverage && coverage->covered && !from->fallback;
	row->id = number;
	row->mptcp = from->mptcp;
	row->version = from->version;
	row->has_token = from->has_token;
	row->token = from->token;
	row->fallback = from->fallback;
	row->checksum = from->checksum;
	row->fast_closed = from->fast_closed;
	row->subflows = from->subflows;
	row->first_subflow = from->first_subflow;
	row->data_bytes = mapped ? coverage->covered : 0;
	for (uint32_t k = 0; k < from->subflows; k++) {
		rw_subflow_row sub;
		rw_replay_subflow(r, from->first_subflow + k, &sub);
		if (k == 0 || sub.first_ns < row->first_ns)
			row->first_ns = sub.first_ns;
		if (k == 0 || sub.last_ns > row->last_ns)
			row->last_ns = sub.last_ns;
		if (sub.first_data_ns && (!row->first_data_ns || sub.first_data_ns < row->first_data_ns))
			row->first_data_ns = sub.first_data_ns;
		if (sub.last_ack_ns > row->last_ack_ns)
			row->last_ack_ns = sub.last_ack_ns;
		if (!mapped)
			row->data_bytes += sub.bytes;
	}
}

void rw_replay_window(const rw_replay *r, uint32_t subflow, uint32_t choice, rw_window_row *row)
{
	memset(row, 0, sizeof *row);
	if (subflow >= r->survey.flows || choice >= r->choices)
		return;
	struct outcome live;
	const struct outcome *o = outcome_now(r, r->survey.subflow[subflow], &live);
	if (!o || !o->window)
		return;
	const struct window *w = &o->window[choice];
	*row = (rw_window_row){o->rows,    w->sum_q16,       w->most_q16,  w->last_q16,     o->full_rows,
			       w->matched, w->near,          w->exceeded,  w->first_record, w->first_ns,
			       w->paced,   w->paced_matched, w->paced_own, w->paced_other,  w->paced_either};
}

void rw_replay_violations(const rw_replay *r, uint32_t connection, uint32_t choice, rw_violation_row *row)
{
	memset(row, 0, sizeof *row);
	if (connection >= r->survey.connections || choice >= r->choices || workers_run(r) ||
	    !r->live_connection[connection].violations)
		return;
	const struct rw_violations *v = &r->live_connection[connection].violations[choice];
	*row =
	    (rw_violation_row){v->count, v->first_row, v->first_ns, v->first_check, v->first_transition, v->first_path};
}

/* How many of `count` rows there are from `first` on, at most `most`. */
static uint32_t left_from(uint32_t first, uint32_t count, uint32_t most)
{
	uint32_t left = first < count ? count - first : 0;
	return left < most ? left : most;
}

uint32_t rw_replay_connection_rows(const rw_replay *r, uint32_t first, rw_connection_row *rows, uint32_t most)
{
	uint32_t found = left_from(first, r->survey.connections, most);
	for (uint32_t i = 0; i < found; i++)
		rw_replay_connection(r, first + i, &rows[i]);
	return found;
}

uint32_t rw_replay_subflow_rows(const rw_replay *r, uint32_t first, rw_subflow_row *rows, uint32_t most)
{
	uint32_t found = left_from(first, r->survey.flows, most);
	for (uint32_t i = 0; i < found; i++)
		rw_replay_subflow(r, first + i, &rows[i]);
	return found;
}

uint32_t rw_replay_window_rows(const rw_replay *r, uint32_t choice, uint32_t first, rw_window_row *rows, uint32_t most)
{
	uint32_t found = left_from(first, r->survey.flows, most);
	for (uint32_t i = 0; i < found; i++)
		rw_replay_window(r, first + i, choice, &rows[i]);
	return found;
}

uint32_t rw_replay_violation_rows(const rw_replay *r, uint32_t choice, uint32_t first, rw_violation_row *rows,
				  uint32_t most)
{
	uint32_t found = left_from(first, r->survey.connections, most);
	for (uint32_t i = 0; i < found; i++)
		rw_replay_violations(r, first + i, choice, &rows[i]);
	return found;
}

uint64_t rw_replay_monitored(const rw_replay *r) { return r->recording.transitions; }

uint64_t rw_replay_monitored_of(const rw_replay *r, uint32_t connection)
{
	return connection < r->survey.connections && !workers_run(r) ? r->live_connection[connection].monitored : 0;
}
