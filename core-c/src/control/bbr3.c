/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * BBR, version 3 (draft-ietf-ccwg-bbr-06; the sections in this file are that draft's).
 *
 *   max_bw        the largest delivery rate of this cycle of ProbeBW and the one before (5.5.2)
 *   min_rtt       the shortest round trip of 10 s, sought in ProbeRTT after 5 s without a shorter one (5.3.4)
 *   bw            min(max_bw, bw_shortterm);  bdp = bw min_rtt;  pacing rate = 0.99 pacing_gain bw (5.6.2)
 *   cwnd          += acked up to cwnd_gain bdp + extra_acked, 4 at least, bounded by inflight_longterm and inflight_shortterm (5.6.4)
 *   shortterm     after a round trip with losses, unless bandwidth is probed: max(what was delivered in it, 0.7 of before) (5.5.10.3)
 *   longterm      what was in flight when more than 2 % of it was lost while bandwidth was probed (5.5.10.2)
 *   Startup       gains 2.77 and 2, until the rate grew by less than a quarter in three rounds, or too much was lost; Drain 0.5 (5.3.1)
 *   ProbeBW       DOWN 0.9, CRUISE 1, REFILL 1, UP 1.25 with cwnd_gain 2.25; UP every 2 to 3 s or min(bdp, 63) rounds (5.3.3)
 *   ProbeRTT      half of bdp in flight, for 200 ms and a round trip (5.3.4)
 *   spurious      a recovery that proves spurious gives back bounds and state (5.5.11)
 *
 * No kernel or other implementation was at hand: this is compared with the draft alone (docs/paper-notes.md, B-1 to B-14).
 */
#include "fixed_point.h"
#include "options.h"

enum { SEED = COMMON_OPTIONS };

enum state { STARTUP, DRAIN, PROBE_RTT, DOWN, CRUISE, REFILL, UP };
enum ack_phase { ACKS_INIT, ACKS_REFILLING, ACKS_PROBE_STARTING, ACKS_PROBE_FEEDBACK, ACKS_PROBE_STOPPING };
/* What a spurious recovery returns to. */
enum undo_state { UNDO_NONE, UNDO_STARTUP, UNDO_UP };

enum {
	MIN_RTT_FILTER_MS = 10000, /* BBR.MinRTTFilterLen */
	PROBE_RTT_INTERVAL_MS = 5000,
	PROBE_RTT_MS = 200,
	WAIT_MS = 2000, /* before bandwidth is probed again, and up to so much longer: */
	WAIT_MORE_MS = 1000,
	RENO_ROUNDS = 63,
	PIPE_SEGMENTS = 4, /* BBR.MinPipeCwnd */
	FULL_ROUNDS = 3,
	DRAIN_ROUNDS = 3,
	EXTRA_ROUNDS = 5, /* of each half of BBR.extra_acked_filter */
	LOST_RANGES = 6, /* BBRStartupFullLossCnt */
	LOSS_ONE_IN = 50, /* 1/BBR.LossThresh */
	BETA_PERCENT = 70,
	HEADROOM_PERCENT = 15,
	PACE_PERCENT = 99, /* 100 - BBR.PacingMarginPercent */
	QUANTUM_BYTES_MAX = 65536,
	UP_ROUNDS_MAX = 30
};
enum { GAIN_ONE = 100, GAIN_PROBE_RTT = 50, GAIN_HIGH_V1 = 289, GAIN_SLOWER_V1 = 75 };

static const uint16_t pacing_gain[] = {
    [STARTUP] = 277,     [DRAIN] = 50, [PROBE_RTT] = GAIN_ONE, [DOWN] = 90, [CRUISE] = GAIN_ONE,
    [REFILL] = GAIN_ONE, [UP] = 125,
};
static const uint16_t cwnd_gain[] = {
    [STARTUP] = 200, [DRAIN] = 200, [PROBE_RTT] = GAIN_PROBE_RTT, [DOWN] = 200, [CRUISE] = 200,
    [REFILL] = 200,  [UP] = 225,
};

enum { SEGMENT_BITS = 21, NO_BOUND = (1 << SEGMENT_BITS) - 1, SEGMENTS_MAX = RW_CWND_MAX_Q16 >> 16 };
#define NO_RATE_BOUND UINT32_MAX

/*
 * A path's words. Bandwidths are segments each microsecond, Q24; times wrap; round_end and loss_round_end are counts of delivered
 * segments, modulo 2^32.
 */
struct bbr3 {
	uint32_t bw_q24; /* BBR.bw, as the ACK before left it */
	uint32_t max_bw_q24[2]; /* of this cycle, and of the one before */
	uint32_t bw_latest_q24, bw_short_q24, full_bw_q24, pacing_q24, undo_bw_short_q24;
	uint32_t min_rtt_us, min_rtt_ms; /* 0: no sample; and when it was taken */
	uint32_t probe_rtt_us, probe_rtt_ms; /* BBR.probe_rtt_min_delay and its stamp */
	uint32_t since_ms; /* in ProbeBW when the cycle began, in ProbeRTT when it may end */
	uint32_t epoch_us; /* BBR.extra_acked_interval_start */
	uint32_t round_end, loss_round_end;
	uint16_t extra_acked[2]; /* the largest in each half of the filter */
	uint32_t prior_cwnd : SEGMENT_BITS;
	uint32_t wait_more_ms : 10;
	uint32_t started : 1;
	uint32_t inflight_latest : SEGMENT_BITS;
	uint32_t rounds_since_up : 6; /* at most RENO_ROUNDS */
	uint32_t up_rounds : 5;
	uint32_t inflight_short : SEGMENT_BITS;
	uint32_t extra_rounds : 3;
	uint32_t drain_rounds : 3; /* at most DRAIN_ROUNDS + 1 */
	uint32_t lost_ranges : 3; /* at most LOST_RANGES */
	uint32_t extra_half : 1;
	uint32_t idle_restart : 1;
	uint32_t inflight_long : SEGMENT_BITS;
	uint32_t state : 3;
	uint32_t ack_phase : 3;
	uint32_t undo_state : 2;
	uint32_t repair : 2;
	uint32_t limits : 1; /* BBR holds the sender back below the path (MarkConnectionAppLimited) */
	uint32_t undo_inflight_short : SEGMENT_BITS;
	uint32_t full_rounds : 2;
	uint32_t full : 1; /* BBR.full_bw_reached */
	uint32_t full_now : 1;
	uint32_t round_start : 1;
	uint32_t loss_round_start : 1;
	uint32_t loss_in_round : 1;
	uint32_t probe_sample : 1; /* BBR.is_bw_probe_sample */
	uint32_t probe_too_high : 1; /* BBR.prev_probe_too_high */
	uint32_t precautionary : 1; /* BBR.prev_probe_precautionary */
	uint32_t has_end : 1; /* since_ms is ProbeRTT's end */
	uint32_t undo_inflight_long : SEGMENT_BITS;
	uint32_t picks : 8; /* of a wait */
	uint32_t probe_rtt_round_done : 1;
	uint32_t marked : 1; /* an ECN echo came, of which the next sample tells */
	uint32_t refills : 1; /* a spurious recovery ended, and bandwidth is probed again from the next sample on */
	uint32_t epoch_acked : SEGMENT_BITS; /* BBR.extra_acked_delivered */
	uint32_t up_acked : SEGMENT_BITS;
	uint32_t up_acked_per_segment : SEGMENT_BITS; /* BBR.probe_up_acked_per_inc */
} __attribute__((may_alias));
_Static_assert(sizeof(struct bbr3) <= sizeof(((struct rw_path *)0)->word), "the state fits");

#define HALF(field) (__builtin_offsetof(struct bbr3, field) / sizeof(uint32_t))
/* The n-th of the words that begin with a volume of data. */
#define VOLUME(n) (HALF(extra_acked) + 1 + (n))

static const struct rw_option bbr3_options[] = {
    {"mode", "kernel|paper", RW_MODE_KERNEL,
     "the controller is the draft's in both; of the machinery around it, kernel: after a timeout the window is what is in flight and "
     "one segment, as the draft has it (5.6.4.4); paper: one segment",
     RW_OPTION_CHOICE, 0, 0},
    RW_OPTION_FLOOR_LINUX,
    {"seed", "0 to 65535", 0,
     "of the random waits before bandwidth is probed (5.3.3.8); 0: always the longest, 3 s or 63 rounds", RW_OPTION_Q16,
     0, 65535ll << 16},
    {0}};

static const struct rw_word_name bbr3_words[] = {
    {"bandwidth_per_us", 1, HALF(bw_q24), 24, .half = 1},
    {"max_bandwidth_per_us", 1, HALF(max_bw_q24[0]), 24, .half = 1},
    {"max_bandwidth_before_per_us", 1, HALF(max_bw_q24[1]), 24, .half = 1},
    {"bandwidth_latest_per_us", 1, HALF(bw_latest_q24), 24, .half = 1},
    {"bandwidth_shortterm_per_us", 1, HALF(bw_short_q24), 24, .half = 1},
    {"full_bandwidth_per_us", 1, HALF(full_bw_q24), 24, .half = 1},
    {"pacing_per_us", 1, HALF(pacing_q24), 24, .half = 1},
    {"min_rtt_us", 1, HALF(min_rtt_us), 0, .half = 1},
    {"probe_rtt_min_us", 1, HALF(probe_rtt_us), 0, .half = 1},
    {"prior_cwnd", 1, VOLUME(0), 0, .half = 1, .bits = SEGMENT_BITS},
    {"inflight_latest", 1, VOLUME(1), 0, .half = 1, .bits = SEGMENT_BITS},
    {"inflight_shortterm", 1, VOLUME(2), 0, .half = 1, .bits = SEGMENT_BITS},
    {"inflight_longterm", 1, VOLUME(3), 0, .half = 1, .bits = SEGMENT_BITS},
    {0}};

static struct bbr3 *bbr3_of(struct rw_path *p) { return (struct bbr3 *)(void *)p->word; }
static uint32_t us_of(int64_t time_ns) { return (uint32_t)((uint64_t)time_ns / 1000); }
static uint32_t ms_of(int64_t time_ns) { return (uint32_t)((uint64_t)time_ns / 1000000); }
static int after(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0; }
static uint32_t window_of(const struct rw_path *p) { return (uint32_t)(p->cwnd_q16 >> 16); }
static uint32_t bounded(uint64_t segments) { return (uint32_t)rw_min64(segments, SEGMENTS_MAX); }
static void set_window(struct rw_path *p, uint64_t segments) { p->cwnd_q16 = (uint64_t)bounded(segments) << 16; }
static int is_probe_bw(const struct bbr3 *b) { return b->state >= DOWN; }

/*
 * Volumes of data (5.6.3, 5.6.4.2), rounded up to segments
 */

static uint32_t max_bw_q24(const struct bbr3 *b)
{
	return b->max_bw_q24[0] > b->max_bw_q24[1] ? b->max_bw_q24[0] : b->max_bw_q24[1];
}

/* C.send_quantum, of the pacing rate. */
static uint64_t quantum(const struct rw_connection *c, const struct bbr3 *b)
{
	uint64_t mss = c->mss_bytes ? c->mss_bytes : 1;
	uint64_t in_1ms = (uint64_t)b->pacing_q24 * 1000 >> 24;
	return rw_max64(rw_min64(in_1ms, QUANTUM_BYTES_MAX / mss), 2);
}

/* BDPMultiple. */
static uint64_t bdp(const struct bbr3 *b, uint32_t bw_q24, uint32_t gain)
{
	if (!b->min_rtt_us)
		return RW_INITIAL_WINDOW;
	uint64_t q24 = rw_multiply_divide((uint64_t)bw_q24 * b->min_rtt_us, gain, GAIN_ONE);
	return (q24 >> 24) + ((q24 & ((1 << 24) - 1)) != 0);
}

/* QuantizationBudget. */
static uint64_t quantized(const struct rw_connection *c, const struct bbr3 *b, uint64_t segments)
{
	segments = rw_max64(rw_max64(segments, 3 * quantum(c, b)), PIPE_SEGMENTS);
	return b->state == UP ? segments + 2 : segments;
}

static uint64_t target_inflight(const struct bbr3 *b, const struct rw_path *p)
{
	return rw_min64(bdp(b, b->bw_q24, GAIN_ONE), window_of(p));
}

static uint64_t probe_rtt_window(const struct bbr3 *b)
{
	return rw_max64(bdp(b, b->bw_q24, GAIN_PROBE_RTT), PIPE_SEGMENTS);
}

/* InflightWithHeadroom. */
static uint64_t with_headroom(const struct bbr3 *b)
{
	if (b->inflight_long == NO_BOUND)
		return NO_BOUND;
	uint64_t headroom = rw_max64((b->inflight_long * HEADROOM_PERCENT + 99) / 100, 1);
	return rw_max64(b->inflight_long > headroom ? b->inflight_long - headroom : 0, PIPE_SEGMENTS);
}

/*
 * Steps that several rules share
 */

static void save_window(struct bbr3 *b, const struct rw_path *p)
{
	uint32_t cwnd = bounded(window_of(p));
	int unmodulated = b->repair == RW_REPAIR_NONE && b->state != PROBE_RTT;
	if (unmodulated || cwnd > b->prior_cwnd)
		b->prior_cwnd = cwnd;
}

static void restore_window(const struct bbr3 *b, struct rw_path *p)
{
	set_window(p, rw_max64(window_of(p), b->prior_cwnd));
}

/* SaveStateUponLoss. */
static void save_state(struct bbr3 *b, const struct rw_path *p)
{
	save_window(b, p);
	b->undo_state = UNDO_NONE;
	b->undo_bw_short_q24 = b->bw_short_q24;
	b->undo_inflight_short = b->inflight_short;
	b->undo_inflight_long = b->inflight_long;
}

static void reset_short_term(struct bbr3 *b)
{
	b->bw_short_q24 = NO_RATE_BOUND;
	b->inflight_short = NO_BOUND;
}

static void reset_full_bw(struct bbr3 *b)
{
	b->full_bw_q24 = 0;
	b->full_rounds = 0;
	b->full_now = 0;
}

static void reset_signals(struct bbr3 *b)
{
	b->loss_in_round = 0;
	b->bw_latest_q24 = 0;
	b->inflight_latest = 0;
}

/* PickProbeWait: how long until bandwidth is probed again. The draws follow from the seed and how many there were. */
static void pick_wait(const struct rw_connection *c, struct bbr3 *b)
{
	uint32_t seed = (uint32_t)(c->option[SEED] >> 16), x = seed * 0x9E3779B1u + ++b->picks * 0x85EBCA77u;
	x = (x ^ x >> 15) * 0x2C1B3C6Du;
	x = (x ^ x >> 12) * 0x297A2D39u;
	x ^= x >> 15;
	b->rounds_since_up = seed ? x >> 31 : 0;
	b->wait_more_ms = seed ? (x & 0xFFFF) * (WAIT_MORE_MS + 1) >> 16 : WAIT_MORE_MS;
}

/*
 * ProbeBW (5.3.3.9). delivered: with which the round trip begins.
 */

static void start_down(const struct rw_connection *c, struct bbr3 *b, uint32_t delivered, int64_t now_ns)
{
	reset_signals(b);
	b->up_acked_per_segment = NO_BOUND;
	pick_wait(c, b);
	b->since_ms = ms_of(now_ns);
	b->ack_phase = ACKS_PROBE_STOPPING;
	b->round_end = delivered;
	b->state = DOWN;
}

static void start_refill(struct bbr3 *b, uint32_t delivered)
{
	reset_short_term(b);
	b->up_rounds = 0;
	b->up_acked = 0;
	b->precautionary = 0;
	b->ack_phase = ACKS_REFILLING;
	b->round_end = delivered;
	b->state = REFILL;
}

/* RaiseInflightLongtermSlope. */
static void raise_slope(struct bbr3 *b, const struct rw_path *p)
{
	uint32_t each = bounded(window_of(p) >> b->up_rounds);
	b->up_rounds += b->up_rounds < UP_ROUNDS_MAX;
	b->up_acked_per_segment = each ? each : 1;
}

static void start_up(struct bbr3 *b, const struct rw_path *p, uint32_t delivered, uint32_t rate_q24)
{
	b->ack_phase = ACKS_PROBE_STARTING;
	b->round_end = delivered;
	reset_full_bw(b);
	b->full_bw_q24 = rate_q24;
	b->state = UP;
	raise_slope(b, p);
}

/*
 * Losses (5.5.10)
 */

/* In a recovery the state before it stays saved: what is given back is what was there before the episode (5.5.11.2). */
static void note_loss(struct bbr3 *b, const struct rw_path *p, uint32_t delivered)
{
	if (!b->loss_in_round) {
		b->loss_round_end = delivered;
		if (b->repair == RW_REPAIR_NONE)
			save_state(b, p);
	}
	b->loss_in_round = 1;
}

/* IsInflightTooHigh. */
static int is_too_high(uint32_t lost, uint32_t in_flight, int selective)
{
	return (uint64_t)lost * LOSS_ONE_IN > in_flight || (lost && !selective);
}

/* InflightAtLoss, of a packet of one segment: at which flight losses exceeded the bound. */
static uint32_t inflight_at_loss(const struct rw_lost *l)
{
	uint64_t before = l->in_flight - 1ull,
		 lost_before = (uint64_t)(l->lost_since ? l->lost_since - 1 : 0) * LOSS_ONE_IN;
	uint64_t prefix = before > lost_before ? (before - lost_before) / (LOSS_ONE_IN - 1) : 0;
	return bounded(before + rw_min64(prefix, 1));
}

/* HandleInflightTooHigh. */
static void reduce_long_term(const struct rw_connection *c, struct bbr3 *b, const struct rw_lost *l, uint32_t in_flight)
{
	const struct rw_path *p = &c->path[l->path];
	b->probe_too_high = 1;
	b->probe_sample = 0;
	if (!l->app_limited)
		b->inflight_long = bounded(rw_max64(in_flight, target_inflight(b, p) * BETA_PERCENT / 100));
	if (b->state == UP) {
		b->undo_state = UNDO_UP;
		start_down(c, b, (uint32_t)l->delivered, l->time_ns);
	}
}

/* HandleLostPacket. */
static void bbr3_lost(struct rw_connection *c, const struct rw_lost *l)
{
	struct rw_path *p = &c->path[l->path];
	struct bbr3 *b = bbr3_of(p);
	note_loss(b, p, (uint32_t)l->delivered);
	if (b->lost_ranges < LOST_RANGES && (!l->continues || !b->lost_ranges))
		b->lost_ranges++;
	if (b->probe_sample && l->in_flight && is_too_high(l->lost_since, l->in_flight, l->selective))
		reduce_long_term(c, b, l, inflight_at_loss(l));
}

/* An ECN echo is congestion, as a loss is (3.7): in its round trip, and where bandwidth is probed too much was in flight. */
static void see_mark(struct rw_connection *c, struct bbr3 *b, const struct rw_rate *r)
{
	struct rw_lost at = {
	    .path = r->path, .delivered = r->delivered, .time_ns = r->time_ns, .app_limited = r->app_limited};
	if (!b->marked)
		return;
	b->marked = 0;
	note_loss(b, &c->path[r->path], (uint32_t)r->delivered);
	if (b->probe_sample)
		reduce_long_term(c, b, &at, bounded(r->sent_in_flight));
}

/* AdaptLowerBoundsFromCongestion, at the end of a round trip. */
static void adapt_short_term(struct bbr3 *b, const struct rw_path *p)
{
	if (b->state == STARTUP || b->state == REFILL || b->state == UP || !b->loss_in_round)
		return;
	uint64_t bw = b->bw_short_q24 == NO_RATE_BOUND ? max_bw_q24(b) : b->bw_short_q24;
	uint64_t segments = b->inflight_short == NO_BOUND ? window_of(p) : b->inflight_short;
	b->bw_short_q24 = (uint32_t)rw_max64(b->bw_latest_q24, bw * BETA_PERCENT / 100);
	b->inflight_short = bounded(rw_max64(b->inflight_latest, segments * BETA_PERCENT / 100));
}

/*
 * The model of the path (5.5)
 */

/* RS: of an ACK that delivers nothing, or of whose packet nothing is known, all is 0. */
struct sample {
	uint32_t rate_q24; /* RS.delivery_rate; 0: none */
	uint32_t delivered; /* RS.delivered, segments */
	int known;
};

static struct sample sample_of(const struct rw_rate *r)
{
	struct sample s = {0};
	s.known = r->acked_segments && r->delivered > r->prior_delivered && (r->prior_delivered || r->interval_ns);
	if (!s.known)
		return s;
	uint64_t delivered = r->delivered - r->prior_delivered;
	s.delivered = bounded(delivered);
	if (r->interval_ns)
		s.rate_q24 = (uint32_t)rw_min64(
		    rw_multiply_divide(delivered, 1 << 24, rw_max64(r->interval_ns / 1000, 1)), UINT32_MAX);
	return s;
}

/* UpdateLatestDeliverySignals. */
static void update_latest(struct bbr3 *b, const struct rw_rate *r, const struct sample *s)
{
	b->loss_round_start = 0;
	if (!s->known)
		return;
	b->bw_latest_q24 = s->rate_q24 > b->bw_latest_q24 ? s->rate_q24 : b->bw_latest_q24;
	b->inflight_latest = s->delivered > b->inflight_latest ? s->delivered : b->inflight_latest;
	if (!after(b->loss_round_end, (uint32_t)r->prior_delivered)) {
		b->loss_round_end = (uint32_t)r->delivered;
		b->loss_round_start = 1;
	}
}

/* UpdateRound and UpdateMaxBw. */
static void update_max_bw(struct bbr3 *b, const struct rw_rate *r, const struct sample *s)
{
	b->round_start = s->known && !after(b->round_end, (uint32_t)r->prior_delivered);
	if (b->round_start) {
		b->round_end = (uint32_t)r->delivered;
		b->rounds_since_up += b->rounds_since_up < RENO_ROUNDS;
		b->drain_rounds += b->drain_rounds <= DRAIN_ROUNDS;
	}
	if (s->rate_q24 && (s->rate_q24 >= max_bw_q24(b) || !r->app_limited) && s->rate_q24 > b->max_bw_q24[0])
		b->max_bw_q24[0] = s->rate_q24;
}

/* AdvanceMaxBwFilter: a cycle without a sample does not count. */
static void advance_max_bw(struct bbr3 *b)
{
	if (!b->max_bw_q24[0])
		return;
	b->max_bw_q24[1] = b->max_bw_q24[0];
	b->max_bw_q24[0] = 0;
}

/* UpdateACKAggregation. The filter is two halves of five rounds; in Startup it remembers one round. */
static void update_aggregation(struct bbr3 *b, const struct rw_path *p, const struct rw_rate *r)
{
	if (b->round_start && ++b->extra_rounds >= (b->full ? EXTRA_ROUNDS : 1)) {
		b->extra_rounds = 0;
		b->extra_half = !b->extra_half;
		b->extra_acked[b->extra_half] = 0;
		if (!b->full)
			b->extra_acked[!b->extra_half] = 0;
	}
	if (!r->acked_segments)
		return;
	uint32_t now_us = us_of(r->time_ns);
	uint64_t expected = (uint64_t)b->bw_q24 * (now_us - b->epoch_us) >> 24;
	if (b->epoch_acked <= expected || b->epoch_acked + (uint64_t)r->acked_segments > SEGMENTS_MAX) {
		b->epoch_acked = 0;
		b->epoch_us = now_us;
		expected = 0;
	}
	b->epoch_acked = bounded(b->epoch_acked + (uint64_t)r->acked_segments);
	uint64_t extra = rw_min64(rw_min64(b->epoch_acked - expected, window_of(p)), UINT16_MAX);
	if (extra > b->extra_acked[b->extra_half])
		b->extra_acked[b->extra_half] = (uint16_t)extra;
}

/* CheckFullBWReached. */
static void check_full_bw(struct bbr3 *b, const struct rw_rate *r, const struct sample *s)
{
	if (b->full_now || !b->round_start || r->app_limited || !s->rate_q24)
		return;
	if ((uint64_t)s->rate_q24 * 4 >= (uint64_t)b->full_bw_q24 * 5) {
		reset_full_bw(b);
		b->full_bw_q24 = s->rate_q24;
		return;
	}
	b->full_now = ++b->full_rounds >= FULL_ROUNDS;
	b->full |= b->full_now;
}

/*
 * States (5.3)
 */

/* CheckStartupHighLoss. lossy: there was a loss in the round trip that this ACK may end. */
static int has_high_loss(const struct bbr3 *b, const struct rw_rate *r, int lossy)
{
	if (r->repair != RW_REPAIR_RECOVERY)
		return 0;
	if (!r->selective)
		return lossy;
	return b->loss_round_start && b->lost_ranges >= LOST_RANGES && is_too_high(r->lost_since, r->sent_in_flight, 1);
}

/* CheckStartupDone. */
static void check_startup(struct bbr3 *b, const struct rw_rate *r, int lossy)
{
	if (b->state == STARTUP && has_high_loss(b, r, lossy)) {
		b->undo_state = UNDO_STARTUP;
		b->full = b->full_now = 1;
		b->inflight_long = bounded(rw_max64(bdp(b, b->bw_q24, GAIN_ONE), b->inflight_latest));
	}
	if (b->loss_round_start)
		b->lost_ranges = 0;
	if (b->state == STARTUP && b->full) {
		b->state = DRAIN;
		b->drain_rounds = 0;
	}
}

/* CheckDrainDone. */
static void check_drain(const struct rw_connection *c, struct bbr3 *b, const struct rw_rate *r)
{
	if (b->state != DRAIN)
		return;
	if (r->in_flight <= quantized(c, b, bdp(b, b->bw_q24, GAIN_ONE)) || b->drain_rounds > DRAIN_ROUNDS)
		start_down(c, b, (uint32_t)r->delivered, r->time_ns);
}

/* ProbeInflightLongtermUpward. */
static void raise_long_term(struct bbr3 *b, const struct rw_path *p, const struct rw_rate *r)
{
	if (!r->window_limited || window_of(p) < b->inflight_long)
		return;
	uint64_t acked = b->up_acked + (uint64_t)r->acked_segments, more = acked / b->up_acked_per_segment;
	b->up_acked = bounded(acked - more * b->up_acked_per_segment);
	b->inflight_long = bounded(b->inflight_long + more);
	if (b->round_start)
		raise_slope(b, p);
}

/* AdaptLongTermModel. Returns whether it has chosen a state. */
static int adapt_long_term(struct bbr3 *b, const struct rw_path *p, const struct rw_rate *r)
{
	if (b->ack_phase == ACKS_PROBE_STARTING && b->round_start)
		b->ack_phase = ACKS_PROBE_FEEDBACK;
	if (b->ack_phase == ACKS_PROBE_STOPPING && b->round_start) {
		b->probe_sample = 0;
		b->ack_phase = ACKS_INIT;
		if (is_probe_bw(b) && !r->app_limited)
			advance_max_bw(b);
		if (is_probe_bw(b) && b->precautionary && !b->probe_too_high) {
			start_refill(b, (uint32_t)r->delivered);
			return 1;
		}
	}
	if (b->inflight_long == NO_BOUND || is_too_high(r->lost_since, r->sent_in_flight, r->selective))
		return 0;
	if (r->sent_in_flight > b->inflight_long)
		b->inflight_long = bounded(r->sent_in_flight);
	if (b->state == UP)
		raise_long_term(b, p, r);
	return 0;
}

static int is_time_to_probe(const struct bbr3 *b, const struct rw_path *p, const struct rw_rate *r)
{
	return after(ms_of(r->time_ns), b->since_ms + WAIT_MS + b->wait_more_ms) ||
	       b->rounds_since_up >= rw_min64(target_inflight(b, p), RENO_ROUNDS);
}

static int is_time_to_cruise(const struct rw_connection *c, const struct bbr3 *b, const struct rw_rate *r)
{
	return r->in_flight <= with_headroom(b) && r->in_flight <= quantized(c, b, bdp(b, max_bw_q24(b), GAIN_ONE));
}

static int is_time_to_go_down(struct bbr3 *b, const struct rw_path *p, const struct rw_rate *r, const struct sample *s)
{
	if (b->probe_too_high && r->in_flight >= b->inflight_long) {
		b->precautionary = 1;
		return 1;
	}
	if (r->window_limited && window_of(p) >= b->inflight_long) {
		reset_full_bw(b);
		b->full_bw_q24 = s->rate_q24;
		return 0;
	}
	return b->full_now;
}

/* UpdateProbeBWCyclePhase. */
static void update_cycle(const struct rw_connection *c, struct bbr3 *b, const struct rw_path *p,
			 const struct rw_rate *r, const struct sample *s)
{
	uint32_t delivered = (uint32_t)r->delivered;
	if (!b->full || !r->acked_segments || adapt_long_term(b, p, r))
		return;
	switch (b->state) {
	case DOWN:
	case CRUISE:
		if (is_time_to_probe(b, p, r))
			start_refill(b, delivered);
		else if (b->state == DOWN && is_time_to_cruise(c, b, r))
			b->state = CRUISE;
		break;
	case REFILL:
		if (b->round_start) {
			b->probe_sample = 1;
			start_up(b, p, delivered, s->rate_q24);
		}
		break;
	case UP:
		if (is_time_to_go_down(b, p, r, s)) {
			b->probe_too_high = 0;
			start_down(c, b, delivered, r->time_ns);
		}
		break;
	default:
		break;
	}
}

/* UpdateMinRTT. Returns BBR.probe_rtt_expired. */
static int update_min_rtt(struct bbr3 *b, const struct rw_rate *r)
{
	uint32_t now_ms = ms_of(r->time_ns), rtt_us = (uint32_t)rw_min64(rw_max64(r->rtt_ns / 1000, 1), UINT32_MAX);
	int expired = after(now_ms, b->probe_rtt_ms + PROBE_RTT_INTERVAL_MS);
	if (r->rtt_ns && (!b->probe_rtt_us || rtt_us < b->probe_rtt_us || expired)) {
		b->probe_rtt_us = rtt_us;
		b->probe_rtt_ms = now_ms;
	}
	if (b->probe_rtt_us &&
	    (!b->min_rtt_us || b->probe_rtt_us < b->min_rtt_us || after(now_ms, b->min_rtt_ms + MIN_RTT_FILTER_MS))) {
		b->min_rtt_us = b->probe_rtt_us;
		b->min_rtt_ms = b->probe_rtt_ms;
	}
	return expired;
}

/* CheckProbeRTTDone, ExitProbeRTT. */
static void check_probe_rtt_end(const struct rw_connection *c, struct bbr3 *b, struct rw_path *p, uint32_t delivered,
				int64_t now_ns)
{
	if (!b->has_end || !after(ms_of(now_ns), b->since_ms))
		return;
	b->has_end = 0;
	b->probe_rtt_ms = ms_of(now_ns);
	restore_window(b, p);
	reset_short_term(b);
	if (b->full) {
		start_down(c, b, delivered, now_ns);
		b->state = CRUISE;
	} else {
		b->state = STARTUP;
	}
}

/* CheckProbeRTT. */
static void check_probe_rtt(const struct rw_connection *c, struct bbr3 *b, struct rw_path *p, const struct rw_rate *r,
			    int expired)
{
	uint32_t delivered = (uint32_t)r->delivered;
	if (b->state != PROBE_RTT && expired && !b->idle_restart) {
		b->state = PROBE_RTT;
		save_window(b, p);
		b->has_end = 0;
		b->ack_phase = ACKS_PROBE_STOPPING;
		b->round_end = delivered;
	}
	b->limits = b->state == PROBE_RTT;
	if (b->state != PROBE_RTT)
		return;
	if (!b->has_end && r->in_flight <= probe_rtt_window(b)) {
		b->has_end = 1;
		b->since_ms = ms_of(r->time_ns) + PROBE_RTT_MS;
		b->probe_rtt_round_done = 0;
		b->round_end = delivered;
	} else if (b->has_end) {
		b->probe_rtt_round_done |= b->round_start;
		if (b->probe_rtt_round_done)
			check_probe_rtt_end(c, b, p, delivered, r->time_ns);
	}
}

/*
 * Control parameters (5.6)
 */

/* SetPacingRateWithGain. */
static void set_pacing(struct bbr3 *b, uint32_t gain)
{
	uint64_t rate = (uint64_t)b->bw_q24 * gain * PACE_PERCENT / 10000;
	if (b->full || rate > b->pacing_q24)
		b->pacing_q24 = (uint32_t)rw_min64(rate, UINT32_MAX);
}

/* BoundCwndForModel. */
static uint64_t volume_cap(const struct bbr3 *b)
{
	uint64_t cap = NO_BOUND;
	if (b->state == CRUISE || b->state == PROBE_RTT)
		cap = with_headroom(b);
	else if (is_probe_bw(b))
		cap = b->inflight_long;
	return rw_max64(rw_min64(cap, b->inflight_short), PIPE_SEGMENTS);
}

/* SetCwnd. */
static void update_window(const struct rw_connection *c, const struct bbr3 *b, struct rw_path *p,
			  const struct rw_rate *r)
{
	uint64_t extra = b->extra_acked[0] > b->extra_acked[1] ? b->extra_acked[0] : b->extra_acked[1];
	uint64_t most = quantized(c, b, bdp(b, b->bw_q24, cwnd_gain[b->state]) + extra);
	uint64_t cwnd = window_of(p), grown = cwnd + r->acked_segments;
	if (b->full)
		cwnd = rw_min64(grown, most);
	else if (cwnd < most || r->delivered < RW_INITIAL_WINDOW)
		cwnd = grown;
	cwnd = rw_max64(cwnd, PIPE_SEGMENTS);
	if (b->state == PROBE_RTT)
		cwnd = rw_min64(cwnd, probe_rtt_window(b));
	set_window(p, rw_min64(cwnd, volume_cap(b)));
}

static void start(struct bbr3 *b, const struct rw_rate *r)
{
	b->started = 1;
	b->min_rtt_ms = b->probe_rtt_ms = ms_of(r->began_ns);
	b->probe_rtt_us = b->min_rtt_us;
	b->epoch_us = us_of(r->began_ns);
}

/* What happened before this ACK, and needs to know how much is delivered now. */
static void see_repair(struct bbr3 *b, struct rw_path *p, const struct rw_rate *r)
{
	if (b->refills)
		start_refill(b, (uint32_t)r->delivered);
	b->refills = 0;
	if (b->repair != RW_REPAIR_NONE && r->repair == RW_REPAIR_NONE)
		restore_window(b, p);
	b->repair = r->repair;
}

/* UpdateOnACK (5.2.3). */
static void bbr3_rate(struct rw_connection *c, const struct rw_rate *r)
{
	struct rw_path *p = &c->path[r->path];
	struct bbr3 *b = bbr3_of(p);
	struct sample s = sample_of(r);
	if (!b->started)
		start(b, r);
	see_repair(b, p, r);
	see_mark(c, b, r);
	int lossy = b->loss_in_round;
	update_latest(b, r, &s);
	update_max_bw(b, r, &s);
	if (b->loss_round_start) {
		adapt_short_term(b, p);
		b->loss_in_round = 0;
	}
	update_aggregation(b, p, r);
	check_full_bw(b, r, &s);
	check_startup(b, r, lossy);
	check_drain(c, b, r);
	update_cycle(c, b, p, r, &s);
	int expired = update_min_rtt(b, r);
	check_probe_rtt(c, b, p, r, expired);
	if (s.known)
		b->idle_restart = 0;
	if (b->loss_round_start) { /* AdvanceLatestDeliverySignals */
		b->bw_latest_q24 = s.rate_q24;
		b->inflight_latest = s.delivered;
	}
	b->bw_q24 = (uint32_t)rw_min64(max_bw_q24(b), b->bw_short_q24); /* BoundBWForModel */
	set_pacing(b, pacing_gain[b->state]);
	update_window(c, b, p, r);
}

/* InitPacingRate. */
static uint32_t first_pace_q24(const struct rw_path *p, uint64_t rtt_us)
{
	uint64_t rate = ((uint64_t)window_of(p) << 24) / rtt_us * pacing_gain[STARTUP] / GAIN_ONE;
	return (uint32_t)rw_min64(rate, UINT32_MAX);
}

/* OnInit. */
static void bbr3_begin(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	struct bbr3 *b = bbr3_of(p);
	reset_short_term(b);
	b->inflight_long = NO_BOUND;
	b->up_acked_per_segment = NO_BOUND;
	b->pacing_q24 = first_pace_q24(p, 1000);
}

static void bbr3_rtt(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	struct bbr3 *b = bbr3_of(p);
	uint64_t rtt_us = rw_max64(p->srtt_ns / 1000, 1);
	if (b->min_rtt_us)
		return;
	b->min_rtt_us = (uint32_t)rw_min64(rtt_us, UINT32_MAX);
	b->pacing_q24 = first_pace_q24(p, rtt_us);
}

/* OnEnterFastRecovery. There is no threshold. */
static void bbr3_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	struct bbr3 *b = bbr3_of(p);
	save_state(b, p);
	b->repair = RW_REPAIR_RECOVERY;
}

static void bbr3_ece(struct rw_connection *c, uint32_t path) { bbr3_of(&c->path[path])->marked = 1; }

/* OnEnterRTO. */
static void bbr3_timeout(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	struct bbr3 *b = bbr3_of(p);
	save_state(b, p);
	b->repair = RW_REPAIR_TIMEOUT;
}

/* HandleSpuriousLossDetection. */
static void bbr3_undo(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	struct bbr3 *b = bbr3_of(p);
	restore_window(b, p);
	b->loss_in_round = 0;
	reset_full_bw(b);
	b->bw_short_q24 = (uint32_t)rw_max64(b->bw_short_q24, b->undo_bw_short_q24);
	b->inflight_short = (uint32_t)rw_max64(b->inflight_short, b->undo_inflight_short) & NO_BOUND;
	b->inflight_long = (uint32_t)rw_max64(b->inflight_long, b->undo_inflight_long) & NO_BOUND;
	if (b->undo_state == UNDO_STARTUP && b->state != STARTUP) {
		b->full = 0;
		if (b->state != PROBE_RTT)
			b->state = STARTUP;
	} else if (b->undo_state == UNDO_UP && b->state != UP && b->state != PROBE_RTT) {
		b->refills = 1;
	}
	b->undo_state = UNDO_NONE;
}

/* HandleRestartFromIdle. Nothing is in flight, so that the next packet begins a round trip wherever the last one began. */
static void bbr3_idle(struct rw_connection *c, uint32_t path, int64_t now_ns, uint64_t idle_ns)
{
	struct rw_path *p = &c->path[path];
	struct bbr3 *b = bbr3_of(p);
	(void)idle_ns;
	if (!b->started)
		return;
	b->idle_restart = 1;
	b->epoch_us = us_of(now_ns);
	if (is_probe_bw(b))
		set_pacing(b, GAIN_ONE);
	else if (b->state == PROBE_RTT)
		check_probe_rtt_end(c, b, p, b->round_end, now_ns);
}

static uint32_t bbr3_phase(const struct rw_connection *c, uint32_t path)
{
	static const uint8_t phase[] = {
	    [STARTUP] = RW_PHASE_STARTUP,        [DRAIN] = RW_PHASE_DRAIN,
	    [PROBE_RTT] = RW_PHASE_PROBE_RTT,    [DOWN] = RW_PHASE_PROBE_BW_DOWN,
	    [CRUISE] = RW_PHASE_PROBE_BW_CRUISE, [REFILL] = RW_PHASE_PROBE_BW_REFILL,
	    [UP] = RW_PHASE_PROBE_BW_UP,
	};
	return phase[((const struct bbr3 *)(const void *)c->path[path].word)->state];
}

static void bbr3_model(const struct rw_connection *c, uint32_t path, struct rw_model *model)
{
	const struct bbr3 *b = (const struct bbr3 *)(const void *)c->path[path].word;
	*model = (struct rw_model){b->bw_q24, b->pacing_q24, (uint64_t)b->min_rtt_us * 1000, b->limits};
}

/* Version 1 begins with a larger gain, and drains what it probed faster (draft-cardwell-iccrg-bbr-congestion-control-00, 4.3). */
static void bbr3_versions(const struct rw_connection *c, uint32_t path, struct rw_version_paces *paces)
{
	const struct bbr3 *b = (const struct bbr3 *)(const void *)c->path[path].word;
	uint64_t slower = (uint64_t)b->bw_q24 * PACE_PERCENT / 100;
	if (b->state == STARTUP)
		*paces = (struct rw_version_paces){b->pacing_q24,
						   (uint64_t)b->pacing_q24 * GAIN_HIGH_V1 / pacing_gain[STARTUP]};
	else if (is_probe_bw(b))
		*paces = (struct rw_version_paces){slower * pacing_gain[DOWN] / GAIN_ONE,
						   slower * GAIN_SLOWER_V1 / GAIN_ONE};
	else
		*paces = (struct rw_version_paces){0};
}

const struct rw_control rw_control_bbr3 = {
    .name = "bbr3",
    .source = "draft-ietf-ccwg-bbr-06; not validated against a kernel",
    .formula =
	"pacing = 0.99 gain bw, cwnd = gain bw min_rtt + extra_acked, in flight at most inflight_longterm and inflight_shortterm",
    .deviations =
	"Not validated against a kernel: none that ran it was at hand, it is compared with the draft alone. Volumes are whole "
	"segments, of which a product is rounded up; extra_acked is the largest of two halves of five rounds; an ECN echo, for which "
	"the draft has no rule, counts as a loss. Where the draft contradicts itself: docs/paper-notes.md, B-1 to B-14.",
    .multipath = 0,
    .options = bbr3_options,
    .words = bbr3_words,
    .loss = bbr3_loss,
    .ece = bbr3_ece,
    .timeout = bbr3_timeout,
    .undo = bbr3_undo,
    .begin = bbr3_begin,
    .rtt = bbr3_rtt,
    .idle = bbr3_idle,
    .phase = bbr3_phase,
    .rate = bbr3_rate,
    .model = bbr3_model,
    .lost = bbr3_lost,
    .versions = bbr3_versions,
};
