#include "lockstep.h"

#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "fixed_point.h"
#include "link.h"
#include "search.h"

#define TICK_NS 4000000ull
/* A host answers an ACK, or does a timer's work, within it. */
#define ANSWER_NS 500000
/* What a kernel may hold back of a window where packets are super-segments: a third (ip-sysctl(7), tcp_tso_win_divisor). */
#define HELD_SHARE 3
/* One more place in an array that doubles. Null: out of memory, and the array is as before. */
static void *one_more(void *array, uint64_t count, uint64_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	uint64_t more = *room ? 2 * *room : 64;
	void *grown = realloc(array, more * bytes);
	if (grown)
		*room = more;
	return grown;
}

/*
 * What is learned before the senders run: the phase of the host's ticks, and what subflows were given
 */

/* A retransmission that no ACK let out: a timer did, and timers fire at ticks. */
static void keep_timed(struct rw_lockstep *all, struct rw_source *s, const struct rw_packet *p)
{
	uint32_t end = p->sequence + p->payload_bytes;
	int again = s->begun && rw_seq_diff(p->sequence, s->highest) < 0;
	if (!s->begun || rw_seq_diff(end, s->highest) > 0)
		s->highest = end;
	s->begun = 1;
	if (again && p->time_ns - s->heard_ns >= ANSWER_NS)
		all->timed[(uint64_t)p->time_ns % TICK_NS / (TICK_NS / RW_TICK_PARTS)]++;
}

/* Where in a tick most of them left, within the time that a timer's work takes. */
static uint64_t phase_of_ticks(const struct rw_lockstep *all)
{
	uint64_t most = 0, part_ns = TICK_NS / RW_TICK_PARTS;
	uint32_t best = 0;
	for (uint32_t i = 0; i < RW_TICK_PARTS; i++) {
		uint64_t near = 0;
		for (uint32_t j = 0; j < ANSWER_NS / part_ns; j++)
			near += all->timed[(i + j) % RW_TICK_PARTS];
		if (all->timed[i] && near > most) {
			most = near;
			best = i;
		}
	}
	return (TICK_NS - best * part_ns) % TICK_NS;
}

static int keep_mapping(struct rw_lockstep *all, const struct rw_watched *w)
{
	const struct rw_mptcp *m = &w->packet->mptcp;
	if (!m->seen || !m->dss_mapping || !m->data_length)
		return 0;
	/* The mapping of data that leaves for the first time begins with it: the capture is the sender's own. */
	struct rw_source *s = &all->source[w->number];
	uint32_t start = w->packet->sequence + !!(w->packet->flags & RW_TCP_SYN);
	if (s->givens && rw_seq_diff(start, s->given[s->givens - 1].end) < 0)
		return 0;
	uint64_t room = s->room;
	struct rw_given *grown = one_more(s->given, s->givens, &room, sizeof *grown);
	if (!grown)
		return 1;
	s->given = grown;
	s->room = (uint32_t)room;
	s->given[s->givens++] = (struct rw_given){start, start + m->data_length, w->packet->time_ns};
	return 0;
}

static int learn(void *to, const rw_replay *replay, const struct rw_watched *w)
{
	struct rw_lockstep *all = to;
	const struct rw_packet *p = w->packet;
	struct rw_source *s = &all->source[w->number];
	(void)replay;
	if (!w->from_source) {
		s->heard_ns = p->time_ns;
		return 0;
	}
	if (p->payload_bytes && !(p->flags & RW_TCP_SYN))
		keep_timed(all, s, p);
	return keep_mapping(all, w);
}

static uint32_t reach(void *to, const struct rw_transmitter *t, uint32_t start)
{
	const struct rw_lockstep *all = to;
	const struct rw_twin *twin = (const struct rw_twin *)(const void *)t;
	const struct rw_source *s = &all->source[twin->flow];
	struct rw_search first = {0, s->givens}; /* that ends behind `start` */
	while (rw_search_goes_on(&first))
		rw_search_answer(&first, rw_seq_diff(s->given[rw_search_middle(&first)].end, start) <= 0);
	if (first.low == s->givens || rw_seq_diff(s->given[first.low].start, start) > 0)
		return t->end;
	return s->given[first.low].end;
}

/*
 * A free run
 */

static void begin_run(struct rw_twin *twin, int64_t now_ns)
{
	rw_pairing_forget(&twin->pairing);
	twin->in_step = 1;
	twin->apart_ns = now_ns;
	twin->run = (rw_lockstep_run){.sender = twin->row, .from_ns = now_ns, .to_ns = now_ns};
	twin->all->row[twin->row].runs++;
}

static void end_run(struct rw_twin *twin, rw_parting parting, int64_t now_ns)
{
	struct rw_lockstep *all = twin->all;
	rw_lockstep_run *grown = one_more(all->run, all->runs, &all->runs_room, sizeof *grown);
	twin->in_step = 0;
	if (!grown) {
		all->failed = 1;
		return;
	}
	all->run = grown;
	twin->run.parting = parting;
	twin->run.to_ns = now_ns;
	all->run[all->runs++] = twin->run;
}

static void take(struct rw_twin *twin, enum rw_pairing_side side, const rw_lockstep_segment *segment, int64_t now_ns)
{
	rw_lockstep_segment other;
	switch (rw_pairing_take(&twin->pairing, side, segment, &other)) {
	case RW_PAIRED_AGREES:
		twin->run.segments++;
		twin->all->row[twin->row].agreed++;
		break;
	case RW_PAIRED_PARTS:
		twin->run.captured = side == RW_CAPTURED ? *segment : other;
		twin->run.simulated = side == RW_CAPTURED ? other : *segment;
		end_run(twin, RW_PARTING_OTHER, now_ns);
		break;
	case RW_PAIRED_NO_MEMORY:
		twin->all->failed = 1;
		break;
	default:
		break;
	}
}

static int leave(void *to, struct rw_transmitter *t, const struct rw_departing *segment, int64_t now_ns)
{
	struct rw_twin *twin = (struct rw_twin *)(void *)t;
	(void)to;
	/* A probe of a closed window carries no data. */
	if (twin->in_step && segment->start != segment->end) {
		rw_lockstep_segment sent = {segment->start, segment->end, segment->again};
		take(twin, RW_SIMULATED, &sent, now_ns);
	}
	return twin->all->failed;
}

/*
 * How far one sender may be ahead of the other when an ACK comes: less than a burst, which a kernel may hold back to send it with
 * what the ACK lets out.
 */
static uint32_t lead_most(const struct rw_twin *twin, const struct rw_reconstruction *captured)
{
	uint32_t burst = rw_transmitter_burst(&twin->tx), third = rw_transmitter_window(&twin->tx) / HELD_SHARE;
	return captured->bursts && third > burst ? third : burst;
}

/* One sender is too far ahead. */
static void part(struct rw_twin *twin, rw_parting parting, int64_t now_ns)
{
	const struct rw_pairing *p = &twin->pairing;
	if (p->count)
		*(p->side == RW_SIMULATED ? &twin->run.simulated : &twin->run.captured) = p->waiting[p->first];
	end_run(twin, parting, now_ns);
}

static void see_lead(struct rw_twin *twin, const struct rw_reconstruction *captured, int64_t now_ns)
{
	if (twin->pairing.count <= lead_most(twin, captured))
		twin->apart_ns = now_ns;
	else if (now_ns - twin->apart_ns >= ANSWER_NS)
		part(twin, twin->pairing.side == RW_SIMULATED ? RW_PARTING_AHEAD : RW_PARTING_BEHIND, now_ns);
}

/*
 * Twins
 */

static struct rw_shadow *shadow_of(struct rw_lockstep *all, const struct rw_watched *w, uint32_t choice)
{
	struct rw_shadow **at = &all->shadow[w->flow->connection * all->choices + choice];
	if (!*at) {
		*at = malloc(rw_shadow_bytes(w->paths));
		if (!*at)
			return NULL;
		rw_shadow_open(*at, all->choice[choice].control, &all->choice[choice].settings, w->paths,
			       w->sender->tcp.segment_bytes);
		(*at)->learns_ticks = 0;
	}
	return *at;
}

static void name(rw_lockstep_row *row, const struct rw_watched *w, uint32_t choice)
{
	const struct rw_flow *f = w->flow;
	*row = (rw_lockstep_row){.connection = f->connection,
				 .subflow = f->id,
				 .choice = choice,
				 .family = f->family,
				 .sport = f->port[f->source],
				 .dport = f->port[!f->source]};
	memcpy(row->src, f->address[f->source], sizeof row->src);
	memcpy(row->dst, f->address[!f->source], sizeof row->dst);
}

static struct rw_twin *add_twin(struct rw_lockstep *all)
{
	uint64_t room = all->twins_room, rows_room = all->twins_room;
	struct rw_twin **twins = one_more(all->twin, all->twins, &room, sizeof *twins);
	if (!twins)
		return NULL;
	all->twin = twins;
	rw_lockstep_row *rows = one_more(all->row, all->twins, &rows_room, sizeof *rows);
	struct rw_twin *twin = rows ? calloc(1, sizeof *twin) : NULL;
	if (!twin)
		return NULL;
	all->row = rows;
	all->twins_room = (uint32_t)room;
	twin->all = all;
	twin->row = all->twins;
	all->twin[all->twins++] = twin;
	return twin;
}

/* The timestamps of the captured sender's clock, at most a millisecond late: none is taken for a later one. */
static uint32_t first_timestamp(const struct rw_tick_clock *clock)
{
	return clock->first - (uint32_t)(clock->first_ns / RW_CLOCK_TICK_NS) - 1;
}

/* What the captured sender had been given by then. */
static uint32_t given_by(struct rw_source *s, uint32_t all, int64_t now_ns)
{
	while (s->next_given < s->givens && s->given[s->next_given].left_ns <= now_ns)
		s->next_given++;
	return s->next_given == s->givens ? all : s->given[s->next_given].start;
}

/* The first data leaves. */
static int begin(struct rw_lockstep *all, const struct rw_watched *w)
{
	const struct rw_packet *p = w->packet;
	const struct rw_flow_side *side = &w->flow->side[w->flow->source];
	struct rw_source *source = &all->source[w->number];
	source->begun = 1;
	source->first_twin = UINT32_MAX;
	source->highest = p->sequence;
	int beside = w->sender->vantage == RW_VANTAGE_SENDER && w->sender->beside, whole = w->flow->handshake;
	/* MPTCP, whose mappings the snap length has cut off */
	int cut = w->flow->data_level && source->givens == 0;
	uint32_t bytes = side->end - p->sequence;
	if (!beside || !whole || cut || w->sender->accurate_ecn || w->path >= w->paths ||
	    bytes < RW_INITIAL_WINDOW * w->sender->tcp.segment_bytes)
		return 0;
	source->first_twin = all->twins;
	for (uint32_t k = 0; k < all->choices; k++) {
		struct rw_shadow *shadow = shadow_of(all, w, k);
		struct rw_twin *twin = shadow ? add_twin(all) : NULL;
		if (!twin)
			return 1;
		name(&all->row[twin->row], w, k);
		twin->flow = w->number;
		twin->kernel = (struct rw_kernel){
		    .tick_ns = TICK_NS, .phase_ns = all->phase_ns, .ts_first = first_timestamp(&w->sender->ticks)};
		rw_transmitter_open(&twin->tx, &all->owner, &twin->kernel, shadow, w->path,
				    w->sender->tcp.segment_bytes, w->sender->tcp.sack, NULL);
		twin->tx.ecn = rw_flow_ecn(w->flow) == RW_ECN_CLASSIC;
		begin_run(twin, p->time_ns);
		rw_transmitter_establish(&twin->tx, p->sequence, w->sender->tcp.window_bytes,
					 w->sender->tcp.rtt.srtt_ns, p->time_ns);
		twin->tx.closes = source->givens > 0;
		twin->tx.end = given_by(source, side->end, p->time_ns);
		rw_transmitter_push(&twin->tx, p->time_ns);
	}
	return 0;
}

/* The twin becomes as the captured sender is. */
static int put_right(struct rw_twin *twin, const rw_replay *replay, const struct rw_watched *w, uint32_t choice)
{
	const struct rw_shadow *followed = rw_replay_shadow(replay, w->flow->connection, choice);
	struct rw_shadow *own = twin->tx.shadow;
	uint32_t end = given_by(&twin->all->source[w->number], w->flow->side[w->flow->source].end, w->packet->time_ns);
	/* A FIN, or data without a mapping, has left already. */
	if (!followed || rw_seq_diff(w->sender->tcp.next, end) > 0)
		return 0;
	if (rw_sender_copy(&twin->tx.tcp, &w->sender->tcp) != RW_SCOREBOARD_OK)
		return 1;
	own->path[w->path] = followed->path[w->path];
	own->connection->path[w->path] = followed->connection->path[w->path];
	twin->tx.resend_from = twin->tx.tcp.una;
	twin->tx.losses_seen = twin->tx.tcp.board.losses;
	twin->tx.closed_backoff = 0;
	twin->tx.timer = RW_TIMER_NONE;
	twin->tx.end = end;
	begin_run(twin, w->packet->time_ns);
	rw_transmitter_push(&twin->tx, w->packet->time_ns);
	return 0;
}

/* Timeouts that the captured sender does not have leave retransmissions that wait for its own: so they end. */
static void run_timers(struct rw_twin *twin, const struct rw_reconstruction *captured, int64_t now_ns)
{
	while (twin->in_step && !twin->tx.failed && twin->tx.due_ns <= now_ns) {
		int64_t due_ns = twin->tx.due_ns;
		rw_transmitter_due(&twin->tx, due_ns);
		if (twin->in_step)
			see_lead(twin, captured, due_ns);
	}
}

/* There is more data. */
static void give(struct rw_twin *twin, const struct rw_watched *w, uint32_t end)
{
	const struct rw_flow_side *side = &w->flow->side[w->flow->source];
	int64_t now_ns = w->packet->time_ns;
	/* MPTCP sends the end of a mapping at once; other data goes on behind it. */
	twin->tx.closes = twin->all->source[w->number].givens || (side->fin && end == side->end);
	twin->run.to_ns = now_ns;
	run_timers(twin, w->sender, now_ns);
	if (!twin->in_step || twin->tx.end == end)
		return;
	twin->tx.end = end;
	rw_transmitter_push(&twin->tx, now_ns);
}

static int keep_window(struct rw_twin *twin, const struct rw_watched *w)
{
	struct rw_lockstep *all = twin->all;
	rw_lockstep_window *grown = one_more(all->window, all->windows, &all->windows_room, sizeof *grown);
	if (!grown)
		return 1;
	all->window = grown;
	all->window[all->windows++] = (rw_lockstep_window){w->packet->time_ns, twin->row, all->source[w->number].una,
							   twin->in_step ? rw_transmitter_window(&twin->tx) : 0};
	return 0;
}

static int acknowledge(struct rw_twin *twin, const rw_replay *replay, const struct rw_watched *w, uint32_t choice)
{
	const struct rw_packet *p = w->packet;
	const struct rw_source *source = &twin->all->source[w->number];
	const struct rw_shadow *followed = rw_replay_shadow(replay, w->flow->connection, choice);
	run_timers(twin, w->sender, p->time_ns);
	if (twin->in_step)
		see_lead(twin, w->sender, p->time_ns);
	if (keep_window(twin, w))
		return 1;
	int ended = source->state >= RW_SENDER_CWR && w->sender->tcp.state < RW_SENDER_CWR;
	if (!twin->in_step)
		return ended ? put_right(twin, replay, w, choice) : 0;
	/* When the sender's clock ticks is a fact of the host. In slow start nothing depends on it, and HyStart on time alone. */
	if (followed && twin->tx.shadow->control->tick_ns &&
	    !rw_in_slow_start(&twin->tx.shadow->connection->path[twin->tx.path]))
		twin->tx.shadow->clock_ns = followed->clock_ns;
	struct rw_sender_ack ack = rw_reconstruction_ack(w->sender, p, (p->flags & RW_TCP_ECE) != 0);
	uint32_t end = w->flow->side[w->flow->source].end;
	if (rw_seq_diff(ack.ack, end) > 0)
		ack.ack = end; /* the FIN takes a number */
	if (rw_seq_diff(ack.ack, twin->tx.tcp.next) > 0) {
		part(twin, RW_PARTING_BEHIND, p->time_ns);
		return 0;
	}
	rw_transmitter_acknowledge(&twin->tx, &ack);
	return 0;
}

/* The captured sender's packet, segment by segment. */
static void see_sent(struct rw_twin *twin, const struct rw_watched *w, uint32_t highest)
{
	const struct rw_packet *p = w->packet;
	uint32_t mss = w->sender->tcp.segment_bytes, end = p->sequence + p->payload_bytes;
	rw_lockstep_row *row = &twin->all->row[twin->row];
	run_timers(twin, w->sender, p->time_ns);
	for (uint32_t at = p->sequence; at != end;) {
		rw_lockstep_segment segment = {.start = at, .again = rw_seq_diff(at, highest) < 0};
		at = end - at > mss ? at + mss : end;
		segment.end = at;
		row->segments++;
		if (twin->in_step)
			take(twin, RW_CAPTURED, &segment, p->time_ns);
	}
}

static int see_packet(void *to, const rw_replay *replay, const struct rw_watched *w)
{
	struct rw_lockstep *all = to;
	struct rw_source *source = &all->source[w->number];
	const struct rw_packet *p = w->packet;
	int data = w->from_source && p->payload_bytes && !(p->flags & RW_TCP_SYN);
	if (data && !source->begun && begin(all, w))
		return 1;
	int acks = !w->from_source && p->flags & RW_TCP_ACK && !(p->flags & (RW_TCP_SYN | RW_TCP_RST));
	const struct rw_flow_side *side = &w->flow->side[w->flow->source];
	uint32_t given = given_by(source, side->end, p->time_ns);
	for (uint32_t k = 0; source->begun && source->first_twin != UINT32_MAX && k < all->choices; k++) {
		struct rw_twin *twin = all->twin[source->first_twin + k];
		if (twin->in_step)
			give(twin, w, given);
		if (data)
			see_sent(twin, w, source->highest);
		else if (acks && acknowledge(twin, replay, w, k))
			return 1;
		all->failed |= twin->tx.failed;
	}
	if (data && rw_seq_diff(p->sequence + p->payload_bytes, source->highest) > 0)
		source->highest = p->sequence + p->payload_bytes;
	source->una = w->sender->tcp.una;
	source->state = w->sender->tcp.state;
	return all->failed;
}

/*
 * The whole
 */

static rw_status replay_all(struct rw_lockstep *all, const int *fds, uint32_t files, const rw_choice *choices,
			    int (*packet)(void *, const rw_replay *, const struct rw_watched *), rw_error *error)
{
	rw_replay *replay;
	const struct rw_watcher watcher = {packet, all};
	rw_status status = rw_replay_open(&replay, fds, files, choices, choices ? all->choices : 0, NULL, error);
	if (status != RW_OK)
		return status;
	if (!all->source) {
		all->flows = rw_replay_flows(replay);
		all->connections = rw_replay_connections(replay);
		all->source = calloc(all->flows + 1, sizeof *all->source);
		all->shadow = calloc((size_t)all->connections * all->choices + 1, sizeof *all->shadow);
		if (!all->source || !all->shadow)
			status = rw_out_of_memory(error);
	} else if (all->flows != rw_replay_flows(replay) || all->connections != rw_replay_connections(replay)) {
		rw_error_set(error, RW_ERROR_READ, 0, 0, 0, "the capture has changed while it was read");
		status = RW_ERROR_READ;
	}
	rw_batch batch;
	rw_replay_watch(replay, &watcher);
	while (status == RW_OK && (status = rw_replay_next(replay, &batch, error)) == RW_OK)
		if (batch.rows == 0 && batch.marks == 0)
			break;
	rw_replay_close(replay);
	return status;
}

static rw_status read_choices(struct rw_lockstep *all, const rw_choice *choices, rw_error *error)
{
	for (uint32_t k = 0; k < all->choices; k++) {
		struct rw_lockstep_choice *choice = &all->choice[k];
		choice->control = rw_control_find(choices[k].name);
		if (!choice->control)
			return rw_unknown_control(choices[k].name, error);
		rw_status status = rw_control_options(&choices[k], choice->control, &choice->settings, error);
		if (status != RW_OK)
			return status;
		if (choice->control->rate || choice->settings.detector) {
			rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0,
				     "lockstep is for window-based controllers without a detector, and not for %s",
				     choices[k].name);
			return RW_ERROR_BAD_VALUE;
		}
	}
	return RW_OK;
}

rw_status rw_lockstep_open(rw_lockstep **out, const int *fds, uint32_t files, const rw_choice *choices,
			   uint32_t choice_count, rw_error *error)
{
	memset(error, 0, sizeof *error);
	struct rw_lockstep *all = calloc(1, sizeof *all);
	if (!all)
		return rw_out_of_memory(error);
	all->choices = choice_count;
	all->owner = (struct rw_transmitter_owner){.leave = leave, .reach = reach, .to = all};
	all->choice = calloc(choice_count + 1, sizeof *all->choice);
	rw_status status = all->choice ? read_choices(all, choices, error) : rw_out_of_memory(error);
	if (status == RW_OK)
		status = replay_all(all, fds, files, NULL, learn, error);
	if (status == RW_OK) {
		all->phase_ns = phase_of_ticks(all);
		for (uint32_t i = 0; i < all->flows; i++)
			all->source[i].begun = 0;
		status = replay_all(all, fds, files, choices, see_packet, error);
	}
	for (uint32_t i = 0; status == RW_OK && i < all->twins; i++)
		if (all->twin[i]->in_step)
			end_run(all->twin[i], RW_PARTING_NONE, all->twin[i]->run.to_ns);
	if (status == RW_OK && all->failed)
		status = rw_out_of_memory(error);
	if (status != RW_OK) {
		rw_lockstep_close(all);
		return status;
	}
	*out = all;
	return RW_OK;
}

void rw_lockstep_close(rw_lockstep *all)
{
	if (!all)
		return;
	for (uint32_t i = 0; i < all->twins; i++) {
		rw_transmitter_close(&all->twin[i]->tx);
		rw_pairing_close(&all->twin[i]->pairing);
		free(all->twin[i]);
	}
	for (uint32_t i = 0; all->source && i < all->flows; i++)
		free(all->source[i].given);
	for (uint64_t i = 0; all->shadow && i < (uint64_t)all->connections * all->choices; i++) {
		if (all->shadow[i])
			rw_shadow_close(all->shadow[i]);
		free(all->shadow[i]);
	}
	free(all->choice);
	free(all->source);
	free(all->shadow);
	free(all->twin);
	free(all->row);
	free(all->run);
	free(all->window);
	free(all);
}

const rw_lockstep_row *rw_lockstep_senders(const rw_lockstep *all, uint64_t *count)
{
	*count = all->twins;
	return all->row;
}

const rw_lockstep_run *rw_lockstep_runs(const rw_lockstep *all, uint64_t *count)
{
	*count = all->runs;
	return all->run;
}

const rw_lockstep_window *rw_lockstep_windows(const rw_lockstep *all, uint64_t *count)
{
	*count = all->windows;
	return all->window;
}
