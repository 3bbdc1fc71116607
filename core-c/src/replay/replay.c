/* The second pass: every ACK through every controller. The first is records.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "rw_ways.h"
#include "state.h"

#define BATCH_ROWS 16384
#define FLOWS_MAX (1u << 21)
#define WINDOW_SEGMENTS (1u << 18)
#define TOTAL_SEGMENTS (1u << 23)
#define BATCH_ROWS_MAX (1u << 22)
/* Limits: the disorder of records within a capture, and the sum of set-backs of a clock. */
#define SET_BACK_NS 1000000000ll
#define SET_BACK_MOST_NS (86400 * SET_BACK_NS)

static rw_status read_choices(rw_replay *r, const rw_choice *choices, rw_error *error)
{
	for (uint32_t k = 0; k < r->choices; k++) {
		r->choice[k].control = rw_control_find(choices[k].name);
		if (!r->choice[k].control)
			return rw_unknown_control(choices[k].name, error);
		r->samples_rates |= r->choice[k].control->rate != NULL;
		r->keeps_flights |= r->choice[k].control->lost != NULL;
		rw_status status = rw_control_options(&choices[k], r->choice[k].control, &r->choice[k].settings, error);
		if (status != RW_OK)
			return status;
	}
	return RW_OK;
}

/* The requested detectors, then those that controllers need. */
static rw_status read_detectors(rw_replay *r, rw_error *error)
{
	uint32_t which;
	int64_t option[RW_MAX_OPTIONS];
	for (uint32_t k = 0; k < r->limits.detectors; k++) {
		rw_status status = rw_detector_options(&r->limits.detector[k], &which, option, error);
		if (status != RW_OK)
			return status;
		r->detector[which].wanted = r->detector[which].shown = r->detects = 1;
		memcpy(r->detector[which].option, option, sizeof option);
	}
	for (uint32_t k = 0; k < r->choices; k++) {
		which = r->choice[k].settings.detector - 1u;
		if (r->choice[k].settings.detector == 0)
			continue;
		r->detector[which].shown |= k < r->choices - r->limits.candidates;
		if (r->detector[which].wanted)
			continue;
		rw_choice defaults = {rw_detector_name(which), NULL, 0};
		rw_status status = rw_detector_options(&defaults, &which, r->detector[which].option, error);
		if (status != RW_OK)
			return status;
		r->detector[which].wanted = r->detects = 1;
	}
	return RW_OK;
}

static rw_status open_shared_bottlenecks(rw_replay *r, rw_error *error)
{
	uint32_t which;
	int64_t option[RW_MAX_OPTIONS];
	if (!r->limits.shared_bottlenecks)
		return RW_OK;
	rw_status status = rw_detector_options(r->limits.shared_bottlenecks, &which, option, error);
	if (status != RW_OK)
		return status;
	if (which != rw_detector_find("sbd")) {
		rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "%s cannot compare all flows of a capture",
			     rw_detector_name(which));
		return RW_ERROR_BAD_VALUE;
	}
	r->shared_bottlenecks = rw_shared_bottlenecks_open(&r->survey, option);
	return r->shared_bottlenecks ? RW_OK : rw_out_of_memory(error);
}

/* Leaves out the candidates that only a host with MPTCP runs, where the survey found none. */
static void leave_out_candidates(rw_replay *r)
{
	for (uint32_t c = 0; c < r->survey.connections; c++)
		if (r->survey.connection[c].mptcp)
			return;
	for (; r->limits.candidates && r->choice[r->choices - 1].control->multipath; r->limits.candidates--)
		r->choices--;
}

/* Decides which flows are replayed at send times, and opens the reader ahead. */
static rw_status correct_vantage(rw_replay *r, rw_error *error)
{
	uint32_t needed = 0;
	r->send_times = calloc(r->survey.flows + 1, 1);
	if (!r->send_times)
		return rw_out_of_memory(error);
	for (uint32_t i = 0; i < r->survey.flows; i++) {
		const struct rw_flow *f = &r->survey.flow[i];
		r->send_times[i] = (uint8_t)rw_send_times_of(f, rw_vantage_of(f));
		needed += r->send_times[i] != RW_SEND_TIMES_CAPTURED;
	}
	return needed ? rw_lookahead_open(&r->lookahead, r->fds, r->files, &r->survey, r->send_times, error) : RW_OK;
}

static struct rw_violations *violations_of(void *owner, uint32_t connection, uint8_t choice)
{
	rw_replay *r = owner;
	struct rw_violations **v = &r->live_connection[connection].violations;
	if (!*v)
		*v = calloc(r->choices, sizeof **v);
	if (*v && r->slice && (*v)[choice].count == 0 && rw_slice_tell_violations(r->slice, *v + choice))
		return NULL;
	return *v ? *v + choice : NULL;
}

/* Opens the second pass of this thread. */
static rw_status open_pass(rw_replay *r, rw_error *error)
{
	if (r->survey.was_mixed) {
		r->ahead = calloc(1, sizeof *r->ahead);
		if (!r->ahead)
			return rw_out_of_memory(error);
		r->ahead->got = 1;
	}
	return rw_pass_open(&r->pass, r->fds, r->files, &r->survey, &r->survey.index, RW_ALL_SHARES, !r->lookahead,
			    error);
}

static rw_status open_segments(rw_replay *r, rw_error *error)
{
	uint32_t connection = r->limits.segments_of;
	if (!r->limits.segments)
		return RW_OK;
	if (connection >= r->survey.connections) {
		rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "there is no connection %u; the captures have %u",
			     connection, r->survey.connections);
		return RW_ERROR_BAD_VALUE;
	}
	r->limits.jobs = 1; /* the slices of several threads carry no segments */
	int failed = rw_segments_open(&r->segments, connection, r->survey.connection[connection].subflows);
	return failed ? rw_out_of_memory(error) : RW_OK;
}

rw_status rw_replay_open(rw_replay **out, const int *fds, uint32_t files, const rw_choice *choices,
			 uint32_t choice_count, const rw_limits *limits, rw_error *error)
{
	memset(error, 0, sizeof *error);
	if (files == 0) {
		rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "no capture given");
		return RW_ERROR_BAD_VALUE;
	}
	rw_replay *r = calloc(1, sizeof *r);
	if (!r)
		return rw_out_of_memory(error);
	if (limits)
		r->limits = *limits;
	r->files = files;
	r->choices = choice_count;
	if (r->limits.candidates > choice_count)
		r->limits.candidates = choice_count;
	r->batch_rows = r->limits.batch_rows ? r->limits.batch_rows : BATCH_ROWS;
	if (r->batch_rows > BATCH_ROWS_MAX)
		r->batch_rows = BATCH_ROWS_MAX;
	/* A requested bound needs a single purse. */
	r->purses = r->limits.total_segments ? 1 : RW_PURSES;
	for (uint32_t i = 0; i < r->purses; i++)
		r->purse[i].most = r->limits.total_segments ? r->limits.total_segments : TOTAL_SEGMENTS / RW_PURSES;
	r->fds = malloc(files * sizeof *r->fds);
	r->choice = calloc(choice_count + 1, sizeof *r->choice);
	int failed = rw_survey_open(&r->survey, r->limits.flows_max ? r->limits.flows_max : FLOWS_MAX);
	rw_status status = r->fds && r->choice && !failed ? read_choices(r, choices, error) : rw_out_of_memory(error);
	if (status == RW_OK)
		status = read_detectors(r, error);
	if (status == RW_OK) {
		memcpy(r->fds, fds, files * sizeof *fds);
		for (uint32_t i = 0; i < files; i++) {
			struct stat st;
			r->total_bytes += fstat(fds[i], &st) == 0 ? (uint64_t)st.st_size : 0;
		}
		status = rw_records_survey(r, error);
	}
	if (status == RW_OK)
		leave_out_candidates(r);
	if (status == RW_OK)
		status = open_shared_bottlenecks(r, error);
	if (status == RW_OK) {
		r->live = calloc(r->survey.flows + 1, sizeof *r->live);
		r->outcome = calloc(r->survey.flows + 1, sizeof *r->outcome);
		r->live_connection = calloc(r->survey.connections + 1, sizeof *r->live_connection);
		r->recording = (struct rw_recording){.log = r->limits.transitions ? &r->log : NULL,
						     .owner = r,
						     .violations = violations_of,
						     .monitor = r->limits.monitor != 0};
		r->oddities.record = 0; /* from here on the records of the second pass */
		for (uint32_t i = 0; i < RW_ODDITY_COUNT; i++)
			r->surveyed_oddities |= (uint64_t)(r->oddities.count[i] != 0) << i;
		if (!r->live || !r->outcome || !r->live_connection ||
		    rw_columns_allocate(&r->columns, r->batch_rows, r->choice, choice_count))
			status = rw_out_of_memory(error);
	}
	if (status == RW_OK)
		status = open_segments(r, error);
	if (status == RW_OK)
		status = correct_vantage(r, error);
	if (status == RW_OK && !r->lookahead)
		rw_survey_trim(&r->survey);
	r->announces = r->limits.monitor || r->limits.transitions || r->lookahead;
	if (status == RW_OK)
		status = rw_jobs_open(&r->jobs, r, error);
	if (status == RW_OK && !r->jobs)
		status = open_pass(r, error);
	if (status != RW_OK) {
		rw_replay_close(r);
		return status;
	}
	*out = r;
	return RW_OK;
}
static RW_ASIDE void add_event_marks(rw_replay *r, const struct rw_flow *f, const struct rw_event *e)
{
	if (e->kind == RW_EVENT_TIMEOUT)
		rw_add_mark(r, f, e->time_ns, RW_MARK_TIMEOUT, e->new_episode);
	if (e->kind == RW_EVENT_SEND && e->idle_timeouts)
		rw_add_mark(r, f, e->time_ns, RW_MARK_IDLE, e->idle_timeouts);
	if (e->steps & RW_STEP_TAIL_LOSS)
		rw_add_mark(r, f, e->time_ns, RW_MARK_TAIL_LOSS, 0);
	if (e->steps & RW_STEP_UNDO)
		rw_add_mark(r, f, e->time_ns, RW_MARK_UNDO, 0);
	if (e->steps & (RW_STEP_EXIT | RW_STEP_OPEN))
		rw_add_mark(r, f, e->time_ns, RW_MARK_RECOVERED, 0);
	if (e->steps & RW_STEP_RECOVERY)
		rw_add_mark(r, f, e->time_ns, RW_MARK_FAST_RETRANSMIT, 0);
	if (e->steps & RW_STEP_CWR)
		rw_add_mark(r, f, e->time_ns, RW_MARK_ECE, 0);
}

/* The flight was larger than this window, so it is not the sender's. */
static RW_ASIDE void exceed(const rw_replay *r, struct window *w, const struct rw_event *e)
{
	if (w->exceeded++)
		return;
	w->first_record = r->as_filed ? r->oddities.record : 0;
	w->first_ns = e->time_ns;
}

static RW_ASIDE void add_model(struct columns *c, uint32_t choice, uint64_t i, struct window *w,
			       const struct rw_shadow_row *row)
{
	c->bandwidth_q24[choice][i] = row->bandwidth_q24;
	c->pacing_q24[choice][i] = row->pacing_q24;
	w->paced += row->paced;
	w->paced_matched += row->at_pace;
	w->paced_own += row->version == RW_PACED_AS_OWN;
	w->paced_other += row->version == RW_PACED_AS_OTHER;
	w->paced_either += row->at_pace || row->version == RW_PACED_AS_OTHER;
}

static void add_row(rw_replay *r, struct live *l, const struct rw_event *e)
{
	struct columns *c = &r->columns;
	uint64_t i = r->rows;
	c->time_ns[i] = e->time_ns;
	c->connection[i] = l->connection;
	c->subflow[i] = l->id;
	c->una[i] = e->una;
	c->ack[i] = e->ack;
	c->acked_bytes[i] = e->acked_bytes;
	c->acked_segments[i] = e->delivered;
	c->rtt_us[i] = e->rtt_ns && e->rtt_ns < 1000 ? 1 : rw_to_us(e->rtt_ns);
	c->srtt_us[i] = rw_to_us(e->srtt_ns);
	c->in_flight_bytes[i] = e->in_flight_bytes_before;
	c->window_bytes[i] = l->sender.tcp.window_bytes;
	c->segment_bytes[i] = l->sender.tcp.segment_bytes;
	c->next[i] = e->next_before;
	if (l->rows == 0)
		l->sequence = e->una;
	l->position += rw_seq_diff(e->ack, l->sequence);
	l->sequence = e->ack;
	c->position[i] = l->position;
	c->flags[i] = e->flags;
	uint32_t full = rw_event_fills_window(e);
	struct rw_ack ack = rw_shadow_ack_of(l->slot, e);
	l->full_rows += full;
	l->rows++;
	uint8_t *shadow = l->shadows;
	for (uint32_t k = 0; k < r->choices; k++, shadow += l->shadow_bytes) {
		struct rw_shadow_row row;
		rw_shadow_ack((struct rw_shadow *)(void *)shadow, e, &ack, l->sender.tcp.rtt.srtt_ns, &row);
		c->cwnd_before_q16[k][i] = row.cwnd_before_q16;
		c->cwnd_q16[k][i] = row.cwnd_q16;
		c->ssthresh_q16[k][i] = row.ssthresh_q16;
		c->phase[k][i] = row.phase;
		struct window *w = &l->window[k];
		w->sum_q16 += row.cwnd_q16;
		w->last_q16 = row.cwnd_q16;
		if (row.cwnd_q16 > w->most_q16)
			w->most_q16 = row.cwnd_q16;
		uint64_t above = (row.cwnd_before_q16 >> 16) - e->in_flight_before;
		if (full) {
			w->matched += above == 0;
			w->near += above + 1 <= 2;
			if ((int64_t)above < -1)
				exceed(r, w, e);
		}
		if (c->bandwidth_q24[k])
			add_model(c, k, i, w, &row);
	}
	r->rows++;
}

/* Reports an event to the comparison of all flows, at once or through the slices of several threads. e null: the end. */
static int tell_bottlenecks(rw_replay *r, uint32_t number, const struct rw_event *e)
{
	if (!rw_shared_bottlenecks_judges(r->shared_bottlenecks, number))
		return 0;
	if (r->slice)
		return rw_slice_tell_bottlenecks(r->slice, r->oddities.record, number, e);
	if (e)
		return rw_shared_bottlenecks_event(r->shared_bottlenecks, number, e);
	rw_shared_bottlenecks_end(r->shared_bottlenecks, number);
	return 0;
}

/* Handles any event. */
static RW_ASIDE int apply_event(rw_replay *r, uint32_t number, struct live *l, const struct rw_event *e)
{
	const struct rw_flow *f = l->flow;
	struct live_connection *lc = &r->live_connection[f->connection];
	int compares_subflows = r->detects && !lc->closing && r->survey.connection[f->connection].subflows > 1;
	add_event_marks(r, f, e);
	if (r->shared_bottlenecks && tell_bottlenecks(r, number, e))
		return 1;
	if (e->kind == RW_EVENT_SEND && !lc->shadows)
		return 0;
	if (!lc->shadows && rw_connection_need_shadows(r, f->connection, l->slot, e->srtt_ns))
		return 1;
	if (compares_subflows && !lc->detect && rw_connection_open_detectors(r, f->connection, e->time_ns))
		return 1;
	if (lc->detect)
		rw_connection_detect(r, f->connection, l->slot, e, l->sender.tcp.rtt.srtt_ns);
	l->shadows = lc->shadows;
	l->ready = !r->shared_bottlenecks && !compares_subflows && !lc->detect;
	if (e->kind == RW_EVENT_ACK) {
		add_row(r, l, e);
		return 0;
	}
	for (uint32_t k = 0; k < r->choices; k++)
		rw_shadow_event(rw_connection_shadow(r, f->connection, k), l->slot, e, l->sender.tcp.rtt.srtt_ns, NULL);
	return 0;
}

static int apply(rw_replay *r, uint32_t number, struct live *l, const struct rw_events *events)
{
	if (!l->established || l->slot == NO_SLOT)
		return 0;
	for (uint32_t i = 0; i < events->count; i++) {
		const struct rw_event *e = &events->event[i];
		if (RW_SHORT_WAY(l->ready) && e->kind == RW_EVENT_ACK && !(e->steps & ~RW_STEP_RAISE))
			add_row(r, l, e);
		else if (apply_event(r, number, l, e))
			return 1;
	}
	return 0;
}

/*
 * Away from the sender neither half of a handshake is a round trip; both together are one, with the delay of the host near the
 * capture point included. If the sender opened the flow, its own timestamps give the round trip without that delay.
 */
static uint64_t handshake_rtt_ns(const struct rw_flow *f, const struct live *l, const struct rw_packet *p)
{
	int32_t ticks = rw_seq_diff(p->ts_value, l->syn_value);
	if (l->sender.ticks.counts && f->source == f->initiator && p->has_timestamps && l->syn_value && ticks > 0 &&
	    ticks * RW_CLOCK_TICK_NS < p->time_ns - l->syn_ns)
		return (uint64_t)ticks * RW_CLOCK_TICK_NS;
	return (uint64_t)(p->time_ns - l->syn_ns);
}

/* The handshake seen from the data sender: its first RTT sample, and when it may send. */
static RW_ASIDE void handshake(const struct rw_flow *f, struct live *l, int from_source, const struct rw_packet *p,
			       int *ready)
{
	int source_opens = f->source == f->initiator, beside = l->sender.vantage <= RW_VANTAGE_SENDER;
	*ready = 0;
	if (!beside && f->handshake && !l->sender.tcp.rtt.srtt_ns && p->time_ns == f->established_ns && l->syns == 1 &&
	    l->syn_acks == 1)
		rw_reconstruction_rtt(&l->sender, handshake_rtt_ns(f, l, p));
	if (p->flags & RW_TCP_SYN) {
		if (p->flags & RW_TCP_ACK) {
			if (l->syn_acks < 255)
				l->syn_acks++;
			l->syn_ack_ns = p->time_ns;
			if (source_opens && !from_source && !l->established) {
				if (l->syns == 1 && beside)
					rw_reconstruction_rtt(&l->sender, (uint64_t)(p->time_ns - l->syn_ns));
				*ready = 1;
			}
		} else {
			if (l->syns < 255)
				l->syns++;
			l->syn_ns = p->time_ns;
			l->syn_value = p->has_timestamps ? p->ts_value : 0;
		}
		return;
	}
	/* A packet before the answer to a SYN belongs to a refused attempt: some hosts try again with the same number. */
	if (l->established || (f->handshake && p->time_ns < f->syn_ack_ns))
		return;
	if (beside && f->handshake && !source_opens && !from_source && l->syn_acks == 1)
		rw_reconstruction_rtt(&l->sender, (uint64_t)(p->time_ns - l->syn_ack_ns));
	*ready = 1;
}

static RW_ASIDE struct live *open_flow(rw_replay *r, uint32_t number)
{
	struct live *l = calloc(1, sizeof *l + r->choices * sizeof *l->window);
	if (!l)
		return NULL;
	const struct rw_flow *f = &r->survey.flow[number];
	uint32_t segments = r->limits.window_segments ? r->limits.window_segments : WINDOW_SEGMENTS;
	l->flow = f;
	l->connection = f->connection;
	l->id = f->id;
	l->shadow_bytes = (uint32_t)rw_shadow_bytes(rw_connection_paths(r, f->connection));
	l->packets_left = f->side[0].packets + f->side[1].packets;
	l->slot = NO_SLOT;
	rw_reconstruction_open(&l->sender, f, rw_vantage_of(f), r->send_times[number], segments,
			       &r->purse[r->survey.connection[f->connection].share % r->purses]);
	if (r->samples_rates && rw_reconstruction_sample_rates(&l->sender, r->keeps_flights)) {
		free(l);
		return NULL;
	}
	l->source = f->source;
	r->live[number] = l;
	return l;
}

static RW_ASIDE int cover(rw_replay *r, const struct rw_flow *f, const struct rw_packet *p)
{
	const struct rw_mptcp *m = &p->mptcp;
	struct live_connection *lc = &r->live_connection[f->connection];
	const struct rw_flow_connection *c = &r->survey.connection[f->connection];
	if (!m->dss_mapping || m->data_length == 0)
		return 0;
	int first = !!(m->seen & 1 << RW_MP_CAPABLE);
	if (first ? !c->has_idsn : m->subflow_sequence == 0)
		return 0; /* a mapping without a place, or only a DATA_FIN */
	if (!lc->coverage && !(lc->coverage = calloc(1, sizeof *lc->coverage)))
		return 1;
	if (first)
		return rw_coverage_add(lc->coverage, c->idsn + 1, 1, m->data_length);
	/* A DATA_FIN takes a number of its own after the data. */
	return rw_coverage_add(lc->coverage, m->data_sequence, m->dss_wide, m->data_length - m->dss_data_fin);
}

/* Handles a packet that may open or end its subflow. */
static RW_ASIDE int replay_edge(rw_replay *r, uint32_t number, struct live *l, int from_source,
				const struct rw_packet *p)
{
	const struct rw_flow *f = l->flow;
	struct rw_events events = {.count = 0};
	int ready = 0;
	if ((p->flags & RW_TCP_SYN) || !l->established || p->time_ns == f->established_ns)
		handshake(f, l, from_source, p, &ready);
	if (ready)
		rw_connection_establish(r, f, l, p);
	if (from_source) {
		if (rw_reconstruction_sent(&l->sender, p, &events, &r->oddities) || (p->mptcp.seen && cover(r, f, p)))
			return 1;
		l->fin |= !!(p->flags & RW_TCP_FIN);
	} else {
		/* The packet that completes a handshake makes no row, because nothing was outstanding. */
		int completes = ready && f->handshake && p->payload_bytes == 0 && l->sender.tcp.board.count == 0;
		if (l->established && p->flags & RW_TCP_ACK && !(p->flags & (RW_TCP_SYN | RW_TCP_RST)) && !completes &&
		    rw_reconstruction_acked(&l->sender, p, &events, &r->oddities))
			return 1;
	}
	if (events.count && apply(r, number, l, &events))
		return 1;
	if (p->flags & RW_TCP_RST || (l->fin && l->sender.tcp.board.count == 0))
		rw_connection_leave(r, f, l, p->time_ns);
	return 0;
}

/* Handles a packet between a subflow's handshake and its end. */
static inline int replay_middle(rw_replay *r, uint32_t number, struct live *l, int from_source,
				const struct rw_packet *p)
{
	struct rw_events events;
	events.count = 0;
	if (!from_source) {
		if (p->flags & RW_TCP_ACK && rw_reconstruction_acked(&l->sender, p, &events, &r->oddities))
			return 1;
	} else if (rw_reconstruction_sent(&l->sender, p, &events, &r->oddities) ||
		   (p->mptcp.seen && cover(r, l->flow, p))) {
		return 1;
	}
	return events.count && apply(r, number, l, &events);
}

/* Whether the segments of the flow's connection are asked for. */
static inline int shows_segments(const rw_replay *r, const struct live *l)
{
	return r->segments.path && l->connection == r->segments.connection;
}

static int replay_flow_packet(rw_replay *r, uint32_t number, struct live *l, int from_source, struct rw_packet *p)
{
	/* A subflow's clock does not go back: a record out of order gets the latest time, and a clock that was set back is corrected. */
	p->time_ns += l->set_back_ns;
	int64_t back = l->last_ns - p->time_ns;
	if (back > SET_BACK_NS && back <= SET_BACK_MOST_NS - l->set_back_ns)
		l->set_back_ns += back;
	if (back > 0)
		p->time_ns = l->last_ns;
	l->last_ns = p->time_ns;
	if (from_source)
		l->ce_packets += p->ecn == RW_ECN_CE;
	if (l->left)
		return from_source && p->mptcp.seen ? cover(r, l->flow, p) : 0;
	int failed;
	if (!RW_SHORT_WAY(l->established) || l->fin || p->flags & (RW_TCP_SYN | RW_TCP_FIN | RW_TCP_RST) ||
	    p->time_ns == l->flow->established_ns)
		failed = replay_edge(r, number, l, from_source, p);
	else
		failed = replay_middle(r, number, l, from_source, p);
	return failed || (shows_segments(r, l) && rw_segments_see(r, l, from_source, p));
}

/*
 * Frees a flow's sender after the flow's last packet, even if the flow is not closed, because in a large capture most flows are idle
 * most of the time. Controllers stay while the connection has other subflows, which they couple with this one.
 */
static RW_ASIDE void end_flow(rw_replay *r, uint32_t number)
{
	const struct rw_flow *f = &r->survey.flow[number];
	struct live_connection *lc = &r->live_connection[f->connection];
	struct live *l = r->live[number];
	struct outcome outcome;
	rw_outcome_of(l, &outcome);
	if (!(r->outcome[number] = rw_outcomes_add(&r->outcomes, &outcome, r->choices)))
		r->no_memory = 1;
	rw_reconstruction_close(&l->sender);
	free(l);
	r->live[number] = NULL;
	if (r->lookahead)
		rw_lookahead_end(r->lookahead, number);
	if (++lc->over == r->survey.connection[f->connection].subflows)
		rw_connection_release(r, f->connection);
	if (r->shared_bottlenecks)
		r->no_memory |= (uint8_t)tell_bottlenecks(r, number, NULL);
}

/* Handles a packet of a flow, in the order captured. 0, or 1: out of memory. */
static int replay_captured(rw_replay *r, uint32_t number, struct live *l, int from_source, struct rw_packet *p)
{
	const struct rw_packet *sent;
	/* No data is sent before the end of the handshake. */
	if (l->sender.corrected == RW_SEND_TIMES_CAPTURED || (p->flags & RW_TCP_SYN && p->payload_bytes == 0))
		return replay_flow_packet(r, number, l, from_source, p);
	while ((sent = rw_lookahead_take(r->lookahead, number, p->time_ns))) {
		struct rw_packet packet = *sent;
		if (replay_flow_packet(r, number, l, 1, &packet))
			return 1;
	}
	if (from_source && rw_lookahead_waits(l->flow, p))
		return 0; /* it was one of these */
	return replay_flow_packet(r, number, l, from_source, p);
}

/* The long way: any packet. */
static RW_ASIDE int replay_packet(rw_replay *r, struct rw_noted *noted)
{
	uint32_t number = noted->flow;
	struct rw_packet *p = &noted->packet;
	if (number == RW_FLOW_NONE)
		return 0;
	struct live *l = r->live[number];
	if (noted->copy) {
		rw_oddity_add(&r->oddities, RW_ODDITY_CAPTURED_TWICE, p->file, p->offset);
		return 0;
	}
	if (!l && r->outcome[number])
		return 0; /* the file has changed since the survey */
	if (!l && !(l = open_flow(r, number)))
		return 1;
	int from_source = noted->side == l->source;
	if (l->sender.identification.asked && from_source && !l->left)
		rw_reconstruction_identify(&l->sender, p);
	if (replay_captured(r, number, l, from_source, p))
		return 1;
	l->under_way = l->established && !l->fin && !l->left && !shows_segments(r, l) &&
		       !l->sender.identification.asked && l->sender.corrected == RW_SEND_TIMES_CAPTURED &&
		       l->last_ns > l->flow->established_ns;
	if (--l->packets_left == 0)
		end_flow(r, number);
	return 0;
}

/* The short way for most packets, with the results of replay_packet. 0: another packet. */
static inline int replay_under_way(rw_replay *r, struct rw_noted *noted, int *failed)
{
	struct rw_packet *p = &noted->packet;
	struct live *l = noted->flow == RW_FLOW_NONE ? NULL : r->live[noted->flow];
	if (!l || !RW_SHORT_WAY(l->under_way) || noted->copy || p->flags & (RW_TCP_SYN | RW_TCP_FIN | RW_TCP_RST))
		return 0;
	int64_t now = p->time_ns + l->set_back_ns;
	if (now < l->last_ns || l->packets_left == 1)
		return 0;
	p->time_ns = l->last_ns = now;
	int from_source = noted->side == l->source;
	if (p->ecn == RW_ECN_CE)
		l->ce_packets += (uint32_t)from_source;
	l->packets_left--;
	*failed = replay_middle(r, noted->flow, l, from_source, p);
	return 1;
}

/* How many packets may follow until the next test for a full batch; a packet adds at most one row. */
static uint32_t room_in_batch(const rw_replay *r)
{
	uint64_t used = r->rows > r->marks ? r->rows : r->marks;
	used = used > r->log.count ? used : r->log.count;
	used = used > r->segments.count ? used : r->segments.count;
	if (used >= r->batch_rows)
		return 0;
	return r->announces ? 1 : r->batch_rows - (uint32_t)used;
}

/* Announces the next packet to the reader ahead and to the observers of steps. */
static RW_ASIDE rw_status announce(rw_replay *r, int64_t time_ns, rw_error *error)
{
	r->recording.now_ns = time_ns;
	r->recording.row = r->slice ? r->oddities.record : r->rows_before + r->rows;
	return r->lookahead ? rw_lookahead_read(r->lookahead, time_ns, error) : RW_OK;
}

static RW_ASIDE void finish(rw_replay *r)
{
	r->ended = 1;
	if (r->shared_bottlenecks)
		rw_shared_bottlenecks_finish(r->shared_bottlenecks);
	rw_summary *s = &r->summary;
	rw_records_number(r);
	for (int i = 0; i < RW_ODDITY_COUNT; i++) {
		s->oddity[i] = r->oddities.count[i];
		s->oddity_offset[i] = r->oddities.first_offset[i];
		s->oddity_record[i] = r->oddities.first_record[i];
		s->oddity_ns[i] = r->oddities.first_ns[i];
		s->oddity_file[i] = r->oddities.first_file[i];
	}
	s->rows = r->rows_before + r->rows;
}

void rw_replay_watch(rw_replay *r, const struct rw_watcher *watcher)
{
	r->watcher = watcher;
	r->announces = 1;
}

uint32_t rw_replay_flows(const rw_replay *r) { return r->survey.flows; }

const struct rw_shadow *rw_replay_shadow(const rw_replay *r, uint32_t connection, uint32_t choice)
{
	return r->live_connection[connection].shadows ? rw_connection_shadow(r, connection, choice) : NULL;
}

static RW_ASIDE rw_status watched_record(rw_replay *r, struct rw_noted *noted, rw_error *error)
{
	int failed = replay_packet(r, noted);
	const struct live *l = noted->flow == RW_FLOW_NONE || noted->copy ? NULL : r->live[noted->flow];
	if (!failed && l) {
		struct rw_watched watched = {.flow = l->flow,
					     .number = noted->flow,
					     .path = l->slot,
					     .paths = rw_connection_paths(r, l->flow->connection),
					     .sender = &l->sender,
					     .packet = &noted->packet,
					     .from_source = noted->side == l->source};
		failed = r->watcher->packet(r->watcher->to, r, &watched);
	}
	return failed ? rw_out_of_memory(error) : RW_OK;
}

/* Replays one record, whose number the caller has counted. */
static inline rw_status replay_record(rw_replay *r, struct rw_noted *noted, rw_error *error)
{
	int failed;
	r->oddities.now_ns = noted->packet.time_ns;
	if (r->announces) {
		rw_status status = announce(r, noted->packet.time_ns, error);
		if (status != RW_OK || r->watcher)
			return status == RW_OK ? watched_record(r, noted, error) : status;
	}
	if (!replay_under_way(r, noted, &failed))
		failed = replay_packet(r, noted);
	return failed ? rw_out_of_memory(error) : RW_OK;
}

rw_status rw_replay_step(rw_replay *r, struct rw_noted *noted, rw_error *error)
{
	return replay_record(r, noted, error);
}

static inline void fetch(const void *place, size_t bytes)
{
	enum { LINE = 64 };
	for (size_t at = 0; at < bytes; at += LINE)
		__builtin_prefetch((const uint8_t *)place + at, 1);
}

/* The packet that stands so many places behind the next one; null: there is none, or it has no flow. */
static const struct rw_noted *ahead_by(const struct ahead *a, uint32_t places)
{
	const struct rw_noted *n = &a->noted[(a->first + places) % RW_AHEAD];
	return places < a->count && n->flow != RW_FLOW_NONE ? n : NULL;
}

/* Prefetches the state of a flow, with its windows. */
static void fetch_flow(const rw_replay *r, const struct rw_noted *n)
{
	if (n && r->live[n->flow])
		fetch(r->live[n->flow], sizeof **r->live + r->choices * sizeof *(*r->live)->window);
}

/* Prefetches the memory to which a flow's state points, which should have arrived. */
static void fetch_pointed(const rw_replay *r, const struct rw_noted *n)
{
	const struct live *l = n ? r->live[n->flow] : NULL;
	if (!l)
		return;
	__builtin_prefetch(l->sender.tcp.board.first, 1);
	if (l->ready)
		fetch(l->shadows, (size_t)r->choices * l->shadow_bytes);
}

/*
 * The next packet, through a ring of packets that were read ahead, so that the state of their flows can be prefetched: first the
 * pointer to it, then the state, then the memory to which the state points. Returns as rw_pass_next.
 */
static int next_of_mixed(rw_replay *r, struct rw_noted **noted, rw_error *error)
{
	enum { STATE_AHEAD = 10, POINTED_AHEAD = 5 };
	struct ahead *a = r->ahead;
	while (a->count < RW_AHEAD && a->got > 0) {
		struct rw_noted *n = &a->noted[(a->first + a->count) % RW_AHEAD];
		a->got = rw_pass_next(r->pass, n, error);
		a->count += a->got > 0;
		if (a->got > 0 && n->flow != RW_FLOW_NONE)
			__builtin_prefetch(&r->live[n->flow]);
	}
	if (!a->count)
		return a->got;
	fetch_flow(r, ahead_by(a, STATE_AHEAD));
	fetch_pointed(r, ahead_by(a, POINTED_AHEAD));
	*noted = &a->noted[a->first];
	a->first = (a->first + 1) % RW_AHEAD;
	a->count--;
	return 1;
}

/* Fills a batch in this thread. */
static RW_FLAT rw_status replay_records(rw_replay *r, rw_error *error)
{
	struct rw_noted one, *noted = &one;
	for (uint32_t left; !r->ended && (left = room_in_batch(r));) {
		for (; left; left--) {
			int got = r->ahead ? next_of_mixed(r, &noted, error) : rw_pass_next(r->pass, noted, error);
			if (got < 0)
				return (rw_status)-got;
			if (got == 0) {
				finish(r);
				break;
			}
			rw_pass_count(&r->survey, noted, &r->oddities.record);
			rw_status status = replay_record(r, noted, error);
			if (status != RW_OK)
				return status;
		}
		if (r->no_memory || r->recording.no_memory || r->log.no_memory)
			return rw_out_of_memory(error);
	}
	return RW_OK;
}

/* Fills a batch from several threads. */
static rw_status take_slices(rw_replay *r, rw_error *error)
{
	int ended = 0;
	rw_status status = r->ended ? RW_OK : rw_jobs_next(r->jobs, r, &ended, error);
	if (ended)
		finish(r);
	return status;
}

rw_status rw_replay_next(rw_replay *r, rw_batch *batch, rw_error *error)
{
	memset(batch, 0, sizeof *batch);
	memset(error, 0, sizeof *error);
	r->rows_before += r->rows;
	r->rows = r->marks = r->sets = r->log.count = r->segments.count = 0;
	rw_status status = r->jobs ? take_slices(r, error) : replay_records(r, error);
	if (status != RW_OK)
		return status;
	const struct columns *c = &r->columns;
	*batch = (rw_batch){r->rows,
			    c->time_ns,
			    c->connection,
			    c->subflow,
			    c->una,
			    c->ack,
			    c->acked_bytes,
			    c->acked_segments,
			    c->rtt_us,
			    c->srtt_us,
			    c->in_flight_bytes,
			    c->window_bytes,
			    c->segment_bytes,
			    c->next,
			    c->position,
			    c->flags,
			    (const uint64_t *const *)c->cwnd_before_q16,
			    (const uint64_t *const *)c->cwnd_q16,
			    (const uint64_t *const *)c->ssthresh_q16,
			    (const uint8_t *const *)c->phase,
			    (const uint64_t *const *)c->bandwidth_q24,
			    (const uint64_t *const *)c->pacing_q24,
			    r->marks,
			    c->mark_time_ns,
			    c->mark_row,
			    c->mark_connection,
			    c->mark_subflow,
			    c->mark_kind,
			    c->mark_value,
			    r->sets,
			    c->set_time_ns,
			    c->set_connection,
			    c->set_subflow,
			    c->set_detector,
			    c->set_state,
			    c->set_number,
			    r->log.count,
			    r->log.row,
			    r->segments.count,
			    r->segments.row};
	return RW_OK;
}

void rw_replay_progress(const rw_replay *r, uint64_t *done, uint64_t *total)
{
	*done = r->jobs ? rw_jobs_progress(r->jobs) : rw_pass_offset(r->pass, r->total_bytes);
	*total = r->total_bytes;
}

void rw_replay_close(rw_replay *r)
{
	if (!r)
		return;
	if (r->jobs)
		rw_jobs_stop(r->jobs);
	for (uint32_t i = 0; r->live && i < r->survey.flows; i++)
		if (r->live[i]) {
			rw_reconstruction_close(&r->live[i]->sender);
			free(r->live[i]);
		}
	rw_outcomes_free(r->outcomes);
	free(r->outcome);
	for (uint32_t i = 0; r->live_connection && i < r->survey.connections; i++) {
		struct live_connection *lc = &r->live_connection[i];
		rw_connection_release(r, i);
		free(lc->violations);
		if (lc->coverage)
			rw_coverage_free(lc->coverage);
		free(lc->coverage);
	}
	free(r->log.row);
	rw_segments_close(&r->segments);
	rw_columns_free(&r->columns, r->columns.phase ? r->choices : 0);
	rw_pass_close(r->pass);
	free(r->ahead);
	rw_lookahead_close(r->lookahead);
	rw_shared_bottlenecks_close(r->shared_bottlenecks);
	free(r->send_times);
	if (r->jobs)
		rw_jobs_close(r->jobs);
	rw_survey_free(&r->survey);
	free(r->live);
	free(r->live_connection);
	free(r->choice);
	free(r->fds);
	free(r);
}
