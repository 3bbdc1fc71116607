#include "shadow.h"
#include "rw_ways.h"

#include "ticks.h"

#include <string.h>

enum { OPTION_MODE = 0 };
/* After this many idle times that did not reduce the window, the sender keeps it always. A single one may have been too short. */
enum { KEEPS_WINDOWS = 2 };
/* This many ACKs in turn that each release twice the delivered segments show slow start; an application does not do so. */
enum { DOUBLINGS = 4 };
/*
 * What held a rate-based sender back: its window, where that had no room for more segments than these; its pace, for so many times
 * what the bandwidth needs at most (BBR's Drain takes three); a timer may be late, in microseconds.
 */
enum { LIMITED_ROOM = 6, SLOWEST_PACE = 4, TIMER_LATE_US = 1000 };

static int kernel_mode(const struct rw_shadow *s) { return s->connection->option[OPTION_MODE] == RW_MODE_KERNEL; }
static int rate_based(const struct rw_shadow *s) { return s->control->rate != NULL; }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

void rw_shadow_stepped(const struct rw_shadow *s, uint8_t kind, uint32_t path)
{
	struct rw_transition transition = {.kind = kind, .path = (uint8_t)path};
	if (s->observer)
		s->observer->stepped(s->observer, s, &transition);
}

static RW_ASIDE void tell_of_ack(const struct rw_shadow *s, uint8_t kind, const struct rw_ack *ack)
{
	struct rw_transition transition = {.kind = kind,
					   .path = (uint8_t)ack->path,
					   .acked_segments = ack->acked_segments,
					   .marked_segments = ack->marked_segments,
					   .una = ack->una,
					   .next = ack->next,
					   .rtt_ns = ack->rtt_ns};
	s->observer->stepped(s->observer, s, &transition);
}

/* Reports a step that an ACK causes. */
static inline void stepped_by(const struct rw_shadow *s, uint8_t kind, const struct rw_ack *ack)
{
	if (s->observer)
		tell_of_ack(s, kind, ack);
}

void rw_shadow_open(struct rw_shadow *s, const struct rw_control *control, const struct rw_settings *settings,
		    uint32_t paths, uint32_t mss_bytes)
{
	uint8_t *at = (uint8_t *)(s + 1);
	memset(s, 0, rw_shadow_bytes(paths));
	s->path = (struct rw_shadow_path *)(void *)at;
	s->connection = (struct rw_connection *)(void *)(at + paths * sizeof *s->path);
	s->connection->paths = paths;
	s->control = control;
	s->gate = settings->gate == RW_GATE_AUTO
		      ? settings->option[OPTION_MODE] == RW_MODE_KERNEL ? RW_GATE_OWN : RW_GATE_OBSERVED
		      : settings->gate;
	s->losses = settings->losses;
	memcpy(s->connection->option, settings->option, sizeof s->connection->option);
	s->connection->mss_bytes = mss_bytes;
	s->learns_ticks = control->tick_ns && settings->option[OPTION_MODE] == RW_MODE_KERNEL &&
			  s->gate == RW_GATE_OWN && s->losses == RW_LOSSES_RECORDED;
	if (control->open)
		control->open(s->connection);
}

void rw_shadow_close(struct rw_shadow *s) { rw_ticks_end(s); }

static void sample(struct rw_shadow *s, const struct rw_ack *ack, uint64_t srtt_ns)
{
	s->connection->path[ack->path].srtt_ns = srtt_ns;
	if (s->control->rtt)
		s->control->rtt(s->connection, ack);
}

void rw_shadow_place(struct rw_shadow *s, uint32_t path, uint64_t cwnd_q16, uint64_t ssthresh_q16, uint64_t srtt_ns)
{
	struct rw_path *p = &s->connection->path[path];
	memset(p, 0, sizeof *p);
	memset(&s->path[path], 0, sizeof s->path[path]);
	s->path[path].initial_window = RW_INITIAL_WINDOW;
	p->cwnd_q16 = cwnd_q16;
	p->ssthresh_q16 = ssthresh_q16;
	p->initial = ssthresh_q16 == RW_SSTHRESH_UNSET;
	p->live = 1;
	if (s->control->begin)
		s->control->begin(s->connection, path);
	if (srtt_ns) {
		struct rw_ack first = {.path = path, .rtt_ns = srtt_ns};
		sample(s, &first, srtt_ns);
	}
}

void rw_shadow_join(struct rw_shadow *s, uint32_t path, uint64_t srtt_ns)
{
	rw_shadow_place(s, path, (uint64_t)RW_INITIAL_WINDOW << 16, RW_SSTHRESH_UNSET, srtt_ns);
	if (s->control->join)
		s->control->join(s->connection, path);
	if (s->ticks)
		rw_ticks_join(s, path, srtt_ns);
	rw_shadow_stepped(s, RW_TRANSITION_JOIN, path);
}

void rw_shadow_leave(struct rw_shadow *s, uint32_t path)
{
	if (s->control->leave)
		s->control->leave(s->connection, path);
	s->connection->path[path].live = 0;
	if (s->ticks)
		rw_ticks_leave(s, path);
	rw_shadow_stepped(s, RW_TRANSITION_LEAVE, path);
}

void rw_shadow_set(struct rw_shadow *s, uint32_t path, uint8_t set, uint8_t state)
{
	s->connection->path[path].group = set;
	s->connection->path[path].group_state = state;
	if (s->control->grouped)
		s->control->grouped(s->connection, path);
}

void rw_shadow_regrouped(struct rw_shadow *s, uint32_t first_path)
{
	if (s->control->regrouped)
		s->control->regrouped(s->connection);
	rw_shadow_stepped(s, RW_TRANSITION_SETS, first_path);
}

void rw_shadow_rtt(struct rw_shadow *s, const struct rw_ack *ack, uint64_t srtt_ns)
{
	sample(s, ack, srtt_ns);
	stepped_by(s, RW_TRANSITION_RTT, ack);
}

void rw_shadow_delivered(struct rw_shadow *s, const struct rw_ack *ack)
{
	if (!s->control->delivered)
		return;
	s->control->delivered(s->connection, ack);
	stepped_by(s, RW_TRANSITION_DELIVERED, ack);
}

void rw_shadow_raise(struct rw_shadow *s, const struct rw_ack *ack)
{
	struct rw_path *p = &s->connection->path[ack->path];
	if (p->flight_max_q16 < p->cwnd_q16)
		p->flight_max_q16 = p->cwnd_q16; /* a window that grows was in use */
	s->control->ack(s->connection, ack);
	stepped_by(s, RW_TRANSITION_ACK, ack);
}

RW_ASIDE void rw_shadow_withhold(struct rw_shadow *s, const struct rw_ack *ack)
{
	if (!s->control->withheld)
		return;
	s->control->withheld(s->connection, ack);
	rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, ack->path);
}

static void end_interval(struct rw_path *p)
{
	if (p->flight_max_q16)
		p->flight_peak_q16 = larger(p->flight_max_q16, p->cwnd_q16);
	p->flight_max_q16 = 0;
}

void rw_shadow_reduce(struct rw_shadow *s, uint32_t path, int marked)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	h->prior_ssthresh_q16 = rw_window_kept_ssthresh(p->cwnd_q16, p->ssthresh_q16);
	h->prior_cwnd_q16 = p->cwnd_q16;
	h->prr = (struct rw_prr){0, 0};
	h->restart_q16 = 0;
	p->cwnd_cnt = 0;
	end_interval(p);
	if (marked && s->control->ece)
		s->control->ece(s->connection, path);
	else
		s->control->loss(s->connection, path);
	if (!kernel_mode(s) && !rate_based(s)) {
		p->cwnd_q16 = p->ssthresh_q16;
		p->cwnd_rem_q40 = 0;
	}
	rw_shadow_stepped(s, marked ? RW_TRANSITION_ECE : RW_TRANSITION_LOSS, path);
}

void rw_shadow_timeout(struct rw_shadow *s, uint32_t path, uint32_t in_flight, int new_episode)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	h->adrift = 0;
	h->restart_q16 = 0;
	if (new_episode) {
		h->prior_ssthresh_q16 = rw_window_kept_ssthresh(p->cwnd_q16, p->ssthresh_q16);
		h->prior_cwnd_q16 = p->cwnd_q16;
		end_interval(p);
		if (s->control->timeout)
			s->control->timeout(s->connection, path);
		else
			s->control->loss(s->connection, path);
	}
	p->cwnd_q16 = rw_window_of(kernel_mode(s) ? (uint64_t)in_flight + 1 : 1);
	p->cwnd_rem_q40 = 0;
	p->cwnd_cnt = 0;
	rw_shadow_stepped(s, new_episode ? RW_TRANSITION_TIMEOUT : RW_TRANSITION_MACHINERY, path);
}

uint32_t rw_shadow_phase(const struct rw_shadow *s, uint32_t path, uint8_t sender_state)
{
	const struct rw_path *p = &s->connection->path[path];
	switch (sender_state) {
	case RW_SENDER_CWR:
		return RW_PHASE_CWR;
	case RW_SENDER_RECOVERY:
		return RW_PHASE_RECOVERY;
	case RW_SENDER_LOSS:
		return RW_PHASE_LOSS;
	default:
		if (s->control->phase)
			return s->control->phase(s->connection, path);
		return p->cwnd_q16 < p->ssthresh_q16 ? RW_PHASE_SLOW_START : RW_PHASE_CONGESTION_AVOIDANCE;
	}
}

/* More was sent at once than the usual initial window, so the host or the route has a larger one. */
static RW_ASIDE void begin_larger(struct rw_shadow *s, uint32_t path, uint32_t initial)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	int untouched = p->cwnd_q16 == (uint64_t)h->initial_window << 16;
	h->initial_window = initial;
	if (!untouched)
		return;
	p->cwnd_q16 = rw_window_of(initial);
	rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
}

static void restart_after_idle(struct rw_shadow *s, uint32_t path, uint32_t timeouts, uint32_t times)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	h->restart_q16 = p->cwnd_q16;
	h->restart_ssthresh_q16 = p->ssthresh_q16;
	for (uint32_t i = 0; i < times; i++) {
		p->ssthresh_q16 = rw_window_kept_ssthresh(p->cwnd_q16, p->ssthresh_q16);
		p->cwnd_q16 = rw_window_after_idle(p->cwnd_q16, h->initial_window, timeouts);
	}
	h->restarted_q16 = p->cwnd_q16;
	rw_shadow_stepped(s, RW_TRANSITION_IDLE, path);
}

/* A flight after an idle time is larger than the reduced window, so the sender reduced its window less often, or not at all. */
static RW_ASIDE void outlast(struct rw_shadow *s, uint32_t path, uint32_t flight)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	uint64_t before_q16 = h->restart_q16;
	uint64_t once_q16 = rw_window_after_idle(before_q16, h->initial_window, 1);
	int kept = flight > rw_window_segments(once_q16);
	p->cwnd_q16 = larger(p->cwnd_q16, kept ? before_q16 : once_q16);
	if (kept)
		p->ssthresh_q16 = h->restart_ssthresh_q16;
	h->kept += (uint8_t)kept;
	h->restart_q16 = 0;
	rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
}

/*
 * How often MPTCP halves a window after an idle time depends on the data that it queued before it sent; some hosts do not halve it.
 * The next flight shows the window: the window is not smaller than the flight, and not larger if it ended the flight.
 */
static void check_restart(struct rw_shadow *s, uint32_t path, const struct rw_event *e)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	uint32_t flight = e->first_flight, before = rw_window_segments(h->restart_q16);
	uint64_t next = p->cwnd_q16;
	if (!before)
		return;
	if (e->waiting == RW_WAITING_MORE && e->room)
		h->restarted_q16 = 0;
	/* Whether the flight belongs to another window, or did not fill the window. */
	if (!kernel_mode(s) ||
	    (!h->use.limited && h->restart_ssthresh_q16 == RW_SSTHRESH_UNSET && flight > before + 1)) {
		h->restart_q16 = 0;
		return;
	}
	while (e->first_flight_full && rw_window_segments(next) > flight &&
	       rw_window_after_idle(next, h->initial_window, 1) < next)
		next = rw_window_after_idle(next, h->initial_window, 1);
	if (rw_window_segments(next) == flight)
		p->cwnd_q16 = next;
	if (flight > rw_window_segments(p->cwnd_q16) + rw_window_segments(p->cwnd_q16) / 4) {
		outlast(s, path, flight);
		return;
	}
	if (flight == rw_window_segments(p->cwnd_q16))
		h->kept = 0;
	rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
}

/* Whether the path is in its first slow start: it has no threshold, or still the initial one. */
static int in_first_slow_start(const struct rw_path *p, const struct rw_shadow_path *h)
{
	return p->ssthresh_q16 == RW_SSTHRESH_UNSET || (!h->prior_cwnd_q16 && p->cwnd_q16 < p->ssthresh_q16);
}

static RW_ASIDE void see_first_flight(struct rw_shadow *s, uint32_t path, const struct rw_event *e)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	if (e->first_flight_is == RW_FLIGHT_UNSEEN) {
		h->adrift = (uint8_t)kernel_mode(s);
		h->use.until = e->next_before;
	} else if (e->first_flight_is == RW_FLIGHT_RESTARTED) {
		check_restart(s, path, e);
	} else if (e->first_flight_is == RW_FLIGHT_SECOND) {
		h->initial_window = e->first_flight;
		if (in_first_slow_start(p, h) && rw_window_segments(p->cwnd_q16) > e->in_flight_before) {
			p->cwnd_q16 = rw_window_of(e->in_flight_before);
			rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
		}
	} else if (e->first_flight > h->initial_window) {
		begin_larger(s, path, e->first_flight);
	}
}

/* A window that grew before the capture is unknown; it is taken as the largest flight until its first reduction. */
static RW_ASIDE void follow_flight(struct rw_shadow *s, uint32_t path, uint32_t flight)
{
	struct rw_path *p = &s->connection->path[path];
	if (rw_window_segments(p->cwnd_q16) < flight)
		p->cwnd_q16 = rw_window_of(flight);
	p->ssthresh_q16 = p->cwnd_q16;
	rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
}

/*
 * The first flight that fills a window exceeds it: then the initial window was larger, because nothing before had filled it. A
 * probe may add one segment. losses=reached keeps windows that are smaller than the flight.
 */
static RW_ASIDE void begin_larger_later(struct rw_shadow *s, uint32_t path, uint32_t flight)
{
	struct rw_path *p = &s->connection->path[path];
	if (!kernel_mode(s) || s->losses == RW_LOSSES_REACHED)
		return;
	if (p->cwnd_q16 == (uint64_t)s->path[path].initial_window << 16) {
		begin_larger(s, path, flight);
	} else {
		p->cwnd_q16 = rw_window_of(flight);
		rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
	}
}

static int doubles(struct rw_shadow_path *h, const struct rw_event *e)
{
	/* An ACK of segments that were SACKed before delivers nothing, and releases nothing. */
	int goes_on = h->doubled && e->delivered && e->una == h->doubled_una && e->sent_before == 2 * h->doubled &&
		      e->in_flight_before == h->doubled_flight + h->doubled;
	h->doublings = !goes_on ? 0 : h->doublings < DOUBLINGS ? h->doublings + 1 : DOUBLINGS;
	h->doubled_una = e->ack;
	h->doubled = e->delivered;
	h->doubled_flight = e->in_flight_before;
	return h->doublings >= DOUBLINGS;
}

/*
 * Slow start at a full window sends two segments for each delivered one. If that happens below the replayed window, the sender's
 * window is smaller: it began smaller, or a reduction is not in the capture. 1: the window was set to the flight.
 */
static RW_ASIDE int see_doubling(struct rw_shadow *s, uint32_t path, const struct rw_event *e)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	/* A sender may wait if there is room for less than a burst. */
	if (!doubles(h, e) || (p->cwnd_q16 >> 16) - e->in_flight_before <= e->sent_before)
		return 0;
	p->cwnd_q16 = rw_window_of(e->in_flight_before);
	rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
	return 1;
}

/* More is in flight than the window allows, and there was no loss yet. */
static RW_ASIDE void see_larger(struct rw_shadow *s, uint32_t path, const struct rw_event *e)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	if (p->ssthresh_q16 == RW_SSTHRESH_UNSET) {
		if (!h->use.limited)
			begin_larger_later(s, path, e->in_flight_before);
	} else if (s->control->resume && s->losses == RW_LOSSES_RECORDED && p->cwnd_q16 >= p->ssthresh_q16 &&
		   doubles(h, e) && s->control->resume(s->connection, path)) {
		p->cwnd_q16 = rw_window_of(e->in_flight_before);
		rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
	}
}

/* How many segments a sender may hold back to send them later in a larger burst, although its window allows them. */
static uint64_t held_back(const struct rw_shadow_path *h, const struct rw_event *e, uint64_t cwnd)
{
	/* With segmentation offload it is up to a third of the window. Amid a burst the sender holds nothing back. */
	if (e->bursts)
		return e->amid_burst ? 0 : cwnd / 3;
	if (!e->whole_before || e->sent_before < 2)
		return 0;
	/* A sender with two segments to send waits until the window allows both. */
	return e->waiting == RW_WAITING_UNKNOWN ? h->use.limited : e->waiting == RW_WAITING_MORE;
}

/*
 * The first flight behind which more data waited, where the one after the idle time was all that there was to send: a window that has
 * not grown since, and that was halved once more, would have ended it.
 */
static void see_smaller(struct rw_shadow *s, uint32_t path, const struct rw_event *e)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	uint64_t next = h->restarted_q16;
	uint32_t flight = e->in_flight_before;
	h->restarted_q16 = 0;
	if (p->cwnd_q16 != next)
		return;
	uint64_t most = flight + held_back(h, e, rw_window_segments(next));
	while (rw_window_segments(next) > most && rw_window_after_idle(next, h->initial_window, 1) < next)
		next = rw_window_after_idle(next, h->initial_window, 1);
	if (next == p->cwnd_q16 || rw_window_segments(next) < flight || rw_window_segments(next) > most)
		return;
	p->cwnd_q16 = next;
	rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
}

/* Later flights may show it too, until slow start has restored the window. Returns the window in segments. */
static RW_ASIDE uint64_t check_later_flight(struct rw_shadow *s, uint32_t path, const struct rw_event *e)
{
	const struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	if (p->cwnd_q16 >= p->ssthresh_q16)
		h->restart_q16 = 0;
	else if (e->state == RW_SENDER_OPEN && e->in_flight_before > rw_window_segments(p->cwnd_q16) + 1)
		outlast(s, path, e->in_flight_before);
	else if (h->restarted_q16 && e->state == RW_SENDER_OPEN && e->sent_before >= 2 && e->whole_before && e->room &&
		 e->waiting == RW_WAITING_MORE && !e->amid_burst && !e->bursts)
		see_smaller(s, path, e);
	return rw_window_segments(p->cwnd_q16);
}

/* Whether the flight filled the window. A window that fell below the flight does not limit a sender without data to send. */
static int is_limit(const struct rw_event *e, uint64_t cwnd)
{
	if (e->in_flight_before >= cwnd)
		return e->sent_before || e->waiting != RW_WAITING_NOTHING || e->whole_before;
	/* At the end of its burst the sender had not yet looked at the ACKs that arrived amid the burst. */
	return e->acked_amid_burst && e->in_flight_before + e->acked_amid_burst == cwnd;
}

/* Whether the sends since the ACK before show that the window was the limit. */
static void validate(struct rw_shadow *s, uint32_t path, const struct rw_event *e)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	uint64_t cwnd = p->cwnd_q16 >> 16;
	uint32_t flight = e->in_flight_before;
	if (h->restart_q16 && kernel_mode(s) && s->losses == RW_LOSSES_RECORDED)
		cwnd = check_later_flight(s, path, e);
	int limited = is_limit(e, cwnd);
	if (h->adrift) {
		if (e->state < RW_SENDER_CWR)
			follow_flight(s, path, flight);
		return;
	}
	if (!limited && e->sent_before && !rw_event_starved(e) && cwnd - flight <= e->room)
		limited = cwnd - flight <= held_back(h, e, cwnd);
	else if (flight > cwnd + 1 && e->steps & RW_STEP_RAISE && !h->prior_cwnd_q16)
		see_larger(s, path, e);
	if (!limited && p->cwnd_q16 < p->ssthresh_q16 && e->steps & RW_STEP_RAISE && e->whole_before &&
	    !rw_event_starved(e) && e->room && !e->bursts && kernel_mode(s) && s->losses == RW_LOSSES_RECORDED)
		limited = see_doubling(s, path, e);
	if (e->sent_before || limited)
		rw_window_used(&h->use, limited, e->packets_out_before, e->una, e->next_before);
}

static void reduce_rate(struct rw_path *p, struct rw_shadow_path *h, const struct rw_event *e)
{
	struct rw_prr_ack ack = {e->in_flight, e->delivered, e->newly_lost, e->una_advanced};
	if (e->delivered == 0 || h->prior_cwnd_q16 == 0)
		return;
	uint32_t ssthresh = rw_window_segments(p->ssthresh_q16), prior = rw_window_segments(h->prior_cwnd_q16);
	p->cwnd_q16 = rw_window_of(rw_prr_window(&h->prr, ssthresh, prior, &ack));
}

int rw_shadow_undo(struct rw_shadow *s, uint32_t path)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	if (!h->prior_ssthresh_q16)
		return 0;
	if (!rate_based(s))
		p->cwnd_q16 = larger(p->cwnd_q16, h->prior_cwnd_q16);
	p->ssthresh_q16 = larger(p->ssthresh_q16, h->prior_ssthresh_q16);
	h->prior_ssthresh_q16 = 0;
	if (s->control->undo)
		s->control->undo(s->connection, path);
	rw_shadow_stepped(s, RW_TRANSITION_UNDO, path);
	return 1;
}

static RW_ASIDE void apply_steps(struct rw_shadow *s, uint32_t path, const struct rw_event *e)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	int kernel = kernel_mode(s);
	if (e->steps & (RW_STEP_RECOVERY | RW_STEP_CWR | RW_STEP_TAIL_LOSS))
		h->spared = s->losses == RW_LOSSES_REACHED && rw_window_segments(p->cwnd_q16) < e->in_flight_before;
	if (h->spared) {
		/* This lasts until the episode ends; a window that does not change cannot be undone. */
		h->spared = e->state_after >= RW_SENDER_CWR;
		h->prior_ssthresh_q16 = 0;
		return;
	}
	if (e->steps & RW_STEP_TAIL_LOSS) {
		rw_shadow_reduce(s, path, 0);
		if (!rate_based(s))
			p->cwnd_q16 = p->ssthresh_q16;
		rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
	}
	if (e->steps & RW_STEP_UNDO)
		rw_shadow_undo(s, path);
	if (e->steps & RW_STEP_EXIT && kernel && !rate_based(s) && p->ssthresh_q16 != RW_SSTHRESH_UNSET) {
		p->cwnd_q16 = p->ssthresh_q16;
		rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
	}
	if (e->steps & (RW_STEP_RECOVERY | RW_STEP_CWR)) {
		rw_shadow_reduce(s, path, !!(e->steps & RW_STEP_CWR));
		/* In the capture's first round trip, data that was sent before the capture looks lost. */
		if (rw_seq_diff(e->una, h->use.until) > 0)
			h->adrift = 0;
	}
	if (e->steps & RW_STEP_NO_UNDO)
		h->prior_ssthresh_q16 = 0;
	uint8_t recovering = e->state_after == RW_SENDER_CWR || e->state_after == RW_SENDER_RECOVERY;
	if (recovering != p->recovering) {
		p->recovering = recovering;
		rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
	}
	if (e->steps & RW_STEP_REDUCE && kernel && !rate_based(s)) {
		reduce_rate(p, h, e);
		rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
	}
}

/* The ACK at the time of the sender's clock; uses `shifted` if the two clocks differ. */
static inline const struct rw_ack *on_clock(const struct rw_shadow *s, const struct rw_ack *ack, struct rw_ack *shifted)
{
	if (RW_SHORT_WAY(!s->clock_ns))
		return ack;
	*shifted = *ack;
	shifted->time_ns += s->clock_ns;
	return shifted;
}

/* The last step of an ACK: the growth of the window, if any. told: the ACK at the time of the sender's clock. */
static inline void grow(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *told,
			struct rw_shadow_row *row)
{
	struct rw_path *p = &s->connection->path[told->path];
	int allowed = s->gate == RW_GATE_OWN
			  ? rw_window_may_grow(&s->path[told->path].use, p->cwnd_q16, p->ssthresh_q16)
			  : !(e->flags & (RW_ACK_APP_LIMITED | RW_ACK_RWND_LIMITED));
	if (e->steps & RW_STEP_RAISE && allowed)
		rw_shadow_raise(s, told);
	else if (e->steps & RW_STEP_RAISE && e->in_flight_before + 1 >= p->cwnd_q16 >> 16)
		rw_shadow_withhold(s, told);
	row->cwnd_q16 = p->cwnd_q16;
	row->ssthresh_q16 = p->ssthresh_q16;
}

void rw_shadow_grow(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, struct rw_shadow_row *row)
{
	struct rw_ack shifted;
	grow(s, e, on_clock(s, ack, &shifted), row);
}

/* The phase of the sender's clock matters only after its first slow start. */
static RW_ASIDE void learn_ticks(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack,
				 uint64_t srtt_ns, struct rw_shadow_row *row)
{
	if (!s->ticks) {
		if (e->tick_ns && s->connection->path[ack->path].ssthresh_q16 != RW_SSTHRESH_UNSET)
			rw_ticks_begin(s, e, ack);
		rw_shadow_grow(s, e, ack, row);
		return;
	}
	rw_shadow_grow(s, e, ack, row);
	if (rw_ticks_ack(s, e, ack, srtt_ns, row))
		rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, ack->path);
}

/* From now on the sender is limited by something else than the path, until all of what is in flight is delivered (3.4). */
static void limit(struct rw_shadow_path *h, uint64_t delivered, uint32_t in_flight)
{
	if (delivered > h->limited_until)
		h->limited_from = delivered;
	h->limited_until = delivered + in_flight;
}

/* Was it so when a packet left? */
static int is_limited(const struct rw_shadow_path *h, uint64_t prior_delivered)
{
	return h->limited_until && prior_delivered >= h->limited_from && prior_delivered <= h->limited_until;
}

void rw_shadow_lost(struct rw_shadow *s, const struct rw_lost *lost)
{
	s->control->lost(s->connection, lost);
	rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, lost->path);
}

void rw_shadow_rate(struct rw_shadow *s, const struct rw_rate *sample)
{
	struct rw_path *p = &s->connection->path[sample->path];
	struct rw_shadow_path *h = &s->path[sample->path];
	struct rw_rate told = *sample;
	struct rw_model model;
	if (p->flight_max_q16 < p->cwnd_q16)
		p->flight_max_q16 = p->cwnd_q16;
	told.app_limited |= (uint8_t)is_limited(h, sample->prior_delivered);
	s->control->rate(s->connection, &told);
	s->control->model(s->connection, sample->path, &model);
	if (model.app_limits)
		limit(h, sample->delivered, sample->in_flight);
	rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, sample->path);
}

/*
 * Did the application limit a rate-based sender? A packet that left though neither pace nor window had held it back for long was not
 * there before.
 */
static void see_application(struct rw_shadow *s, uint32_t path, const struct rw_event *e, const struct rw_model *model)
{
	const struct rw_rate *r = &e->rate->sample;
	uint64_t cwnd = s->connection->path[path].cwnd_q16 >> 16,
		 room = cwnd / 8 > LIMITED_ROOM ? cwnd / 8 : LIMITED_ROOM;
	uint64_t sent_q24 = (uint64_t)e->rate->waited_segments << 24, waited_us = e->rate->waited_ns / 1000;
	int waits = model->bandwidth_q24 && waited_us > SLOWEST_PACE * sent_q24 / model->bandwidth_q24 + TIMER_LATE_US;
	if (waits && e->in_flight_before + room < cwnd && e->room)
		limit(&s->path[path], r->delivered - r->acked_segments, e->in_flight_before);
}

/* Tells a rate-based controller of segments that were found lost: [from, to) of those that the event has. */
static void tell_lost(struct rw_shadow *s, uint32_t path, const struct rw_event *e, uint32_t from, uint32_t to)
{
	if (!s->control->lost || s->path[path].spared)
		return;
	for (; from < to; from++) {
		const struct rw_segment_lost *of = &e->rate->lost[from];
		struct rw_lost lost = {.path = path,
				       .in_flight = of->in_flight,
				       .lost_since = of->lost,
				       .delivered = of->delivered,
				       .time_ns = e->time_ns,
				       .app_limited =
					   of->app_limited || is_limited(&s->path[path], of->prior_delivered),
				       .continues = of->continues,
				       .selective = e->rate->sample.selective};
		rw_shadow_lost(s, &lost);
	}
}

/* Whether the window limited the sender; one that lets go bursts waits for the room of a whole one. */
static void see_use(struct rw_shadow_path *h, const struct rw_event *e, uint64_t cwnd)
{
	uint32_t burst = e->rate->burst_segments;
	int limited = e->in_flight_before + (burst > 1 ? burst - 1 : 0) >= cwnd;
	if (e->sent_before || limited)
		rw_window_used(&h->use, limited, e->packets_out_before, e->una, e->next_before);
}

/* How much longer this pace holds the next packet back: what left last takes its time. */
static uint64_t held_ns(const struct rw_event *e, uint64_t pacing_q24)
{
	uint64_t takes_ns = pacing_q24 ? ((uint64_t)e->rate->burst_segments * 1000 << 24) / pacing_q24 : 0;
	uint64_t since_ns = (uint64_t)(e->time_ns - e->rate->burst_ns);
	return takes_ns > since_ns ? takes_ns - since_ns : 0;
}

/*
 * What the flight shows of the recorded sender's window. A sender that had data, room at the receiver, and no pace to wait for, sent
 * until its window was full; it may wait for the room of a whole burst.
 */
static void see_window(const struct rw_event *e, const struct rw_model *model, struct rw_rate *r)
{
	uint64_t slower = model->pacing_q24 < model->bandwidth_q24 ? model->pacing_q24 : model->bandwidth_q24;
	uint32_t burst = e->rate->burst_segments;
	if (e->bursts)
		return;
	if (e->sent_before)
		r->window_least = e->in_flight_before;
	r->window_since_ns = e->rate->burst_ns - e->rate->answered_ns;
	if (e->room && !rw_event_starved(e) && !e->amid_burst && !held_ns(e, slower))
		r->window_most = e->in_flight_before + (burst > 2 ? burst - 1 : 1);
}

/* Where the flight fills the window, an ACK let the last data go and no timer, unless even a busy host would have answered it sooner. */
static void forget_pace(const struct rw_event *e, uint64_t cwnd, struct rw_rate *r)
{
	if (r->in_flight_before + 1 < cwnd || e->rate->answered_ns >= TIMER_LATE_US * 1000)
		return;
	r->paced_segments = 0;
	r->paced_ns = 0;
}

/* Did the recorded sender let data go at this pace, within a sixteenth? */
static int is_at_pace(const struct rw_rate *r, uint64_t pacing_q24)
{
	uint64_t would_ns = pacing_q24 ? ((uint64_t)r->paced_segments * 1000 << 24) / pacing_q24 : 0;
	uint64_t apart_ns = would_ns > r->paced_ns ? would_ns - r->paced_ns : r->paced_ns - would_ns;
	return apart_ns <= would_ns / 16;
}

/* The version whose pace is nearer, if that is within a thirty-second. */
static uint8_t version_of(const struct rw_rate *r, const struct rw_version_paces *paces)
{
	if (!paces->own_q24)
		return RW_PACED_AS_EITHER;
	uint64_t pace = ((uint64_t)r->paced_segments * 1000 << 24) / r->paced_ns;
	uint64_t own = paces->own_q24, other = paces->other_q24;
	uint64_t from_own = pace > own ? pace - own : own - pace;
	uint64_t from_other = pace > other ? pace - other : other - pace;
	if (from_own <= from_other)
		return from_own <= own / 32 ? RW_PACED_AS_OWN : RW_PACED_AS_EITHER;
	return from_other <= other / 32 ? RW_PACED_AS_OTHER : RW_PACED_AS_EITHER;
}

/* How the recorded sender's pace before an ACK fits the controller, as the ACK finds it. */
static void see_pace(const struct rw_shadow *s, const struct rw_rate *r, uint64_t pacing_q24, struct rw_shadow_row *row)
{
	struct rw_version_paces paces;
	row->paced = r->paced_ns != 0;
	row->at_pace = (uint8_t)(row->paced && is_at_pace(r, pacing_q24));
	row->version = RW_PACED_AS_EITHER;
	if (!row->paced || !s->control->versions)
		return;
	s->control->versions(s->connection, r->path, &paces);
	row->version = version_of(r, &paces);
}

/*
 * A rate-based controller: the window is what it says, whatever the sender's state. infers: the sample lacks what only the sender knew,
 * whether its application limited it and how long its pace holds back.
 */
static RW_ASIDE void tell_rate(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack,
			       uint64_t srtt_ns, int infers, struct rw_shadow_row *row)
{
	struct rw_path *p = &s->connection->path[ack->path];
	if (e->first_flight && e->first_flight_is == RW_FLIGHT_INITIAL &&
	    e->first_flight > s->path[ack->path].initial_window)
		begin_larger(s, ack->path, e->first_flight);
	row->cwnd_before_q16 = p->cwnd_q16;
	row->phase = (uint8_t)rw_shadow_phase(s, ack->path, e->state);
	if (ack->acked_segments)
		rw_shadow_delivered(s, ack);
	if (ack->rtt_ns | ack->rtt_newest_ns)
		rw_shadow_rtt(s, ack, srtt_ns);
	struct rw_shadow_path *h = &s->path[ack->path];
	if (e->rate && infers)
		see_use(h, e, p->cwnd_q16 >> 16);
	if (e->rate)
		tell_lost(s, ack->path, e, 0, e->rate->lost_before);
	apply_steps(s, ack->path, e);
	struct rw_model model;
	s->control->model(s->connection, ack->path, &model);
	row->paced = row->at_pace = row->version = 0;
	if (e->rate) {
		struct rw_rate sample = e->rate->sample;
		tell_lost(s, ack->path, e, e->rate->lost_before, e->rate->lost_count);
		sample.path = ack->path;
		sample.window_limited = h->use.limited;
		if (infers) {
			see_application(s, ack->path, e, &model);
			sample.held_ns = held_ns(e, model.pacing_q24);
			see_window(e, &model, &sample);
			forget_pace(e, p->cwnd_q16 >> 16, &sample);
		}
		see_pace(s, &sample, model.pacing_q24, row);
		rw_shadow_rate(s, &sample);
		s->control->model(s->connection, ack->path, &model);
	}
	row->bandwidth_q24 = model.bandwidth_q24;
	row->pacing_q24 = model.pacing_q24;
	row->cwnd_q16 = p->cwnd_q16;
	row->ssthresh_q16 = p->ssthresh_q16;
}

void rw_shadow_used(struct rw_shadow *s, uint32_t path, const struct rw_window_spending *sent)
{
	rw_window_used(&s->path[path].use, sent->limited, sent->packets_out, sent->una, sent->next);
}

/* What an ACK changes once it is known how the window was used. */
static inline void respond(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, uint64_t srtt_ns,
			   struct rw_shadow_row *row)
{
	uint32_t path = ack->path;
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	struct rw_ack shifted;
	const struct rw_ack *told = on_clock(s, ack, &shifted);
	row->cwnd_before_q16 = p->cwnd_q16;
	row->phase = (uint8_t)rw_shadow_phase(s, path, e->state);
	if (ack->acked_segments)
		rw_shadow_delivered(s, told);
	if (ack->rtt_ns | ack->rtt_newest_ns)
		rw_shadow_rtt(s, told, srtt_ns);
	/* Most ACKs have no steps, only growth (below). */
	int nothing = !(e->steps & ~RW_STEP_RAISE || h->spared || p->recovering || e->state_after >= RW_SENDER_CWR);
	if (!RW_SHORT_WAY(nothing))
		apply_steps(s, path, e);
	if (s->learns_ticks)
		learn_ticks(s, e, ack, srtt_ns, row);
	else
		grow(s, e, told, row);
}

void rw_shadow_ack(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, uint64_t srtt_ns,
		   struct rw_shadow_row *row)
{
	if (rate_based(s)) {
		tell_rate(s, e, ack, srtt_ns, 1, row);
		return;
	}
	if (e->first_flight)
		see_first_flight(s, ack->path, e);
	validate(s, ack->path, e);
	respond(s, e, ack, srtt_ns, row);
}

void rw_shadow_respond(struct rw_shadow *s, const struct rw_event *e, const struct rw_ack *ack, uint64_t srtt_ns,
		       struct rw_shadow_row *row)
{
	if (rate_based(s))
		tell_rate(s, e, ack, srtt_ns, 0, row);
	else
		respond(s, e, ack, srtt_ns, row);
}

void rw_shadow_event(struct rw_shadow *s, uint32_t path, const struct rw_event *e, uint64_t srtt_ns,
		     struct rw_shadow_row *row)
{
	struct rw_path *p = &s->connection->path[path];
	struct rw_shadow_path *h = &s->path[path];
	struct rw_ack ack;
	if (s->ticks && e->kind != RW_EVENT_ACK)
		rw_ticks_event(s, path, e, srtt_ns);
	switch (e->kind) {
	case RW_EVENT_SEND:
		if (e->reducing)
			h->prr.out += e->segments;
		if (e->idle_timeouts && h->kept < KEEPS_WINDOWS && !rate_based(s))
			restart_after_idle(s, path, e->idle_timeouts, e->idle_restarts);
		if (e->quiet_ns && s->control->idle)
			s->control->idle(s->connection, path, e->time_ns + s->clock_ns, e->quiet_ns);
		break;
	case RW_EVENT_TIMEOUT:
		/* A window that was spared a reduction has not had this episode's reduction yet. */
		rw_shadow_timeout(s, path, e->in_flight, e->new_episode || h->spared);
		h->spared = 0;
		if (p->recovering) {
			p->recovering = 0;
			rw_shadow_stepped(s, RW_TRANSITION_MACHINERY, path);
		}
		break;
	case RW_EVENT_RECOVERY:
		apply_steps(s, path, e);
		break;
	default:
		ack = rw_shadow_ack_of(path, e);
		rw_shadow_ack(s, e, &ack, srtt_ns, row);
	}
}
