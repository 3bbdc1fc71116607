/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00; the sections in this file are that draft's).
 *
 *   BtlBw    the largest delivery rate of the last 10 round trips, but for app-limited samples below it (4.1.1)
 *   RTprop   the shortest round trip of the last 10 s (4.1.2)
 *   inflight(g) = g BtlBw RTprop + 3 quanta;  pacing rate = pacing_gain BtlBw (4.2)
 *   cwnd     += acked up to inflight(cwnd_gain), 4 at least; 4 in ProbeRTT (4.2.3)
 *   Startup  both gains 2/ln 2, until BtlBw grew by less than a quarter in three round trips; then Drain (4.3.2, 4.3.3)
 *   ProbeBW  pacing gains 5/4, 3/4, 1, 1, 1, 1, 1, 1, each for RTprop; cwnd_gain 2 (4.3.4)
 *   ProbeRTT for 200 ms and a round trip, when RTprop was not seen again for 10 s (4.3.5)
 *   recovery one round trip of packet conservation; the window before is restored (4.2.3.4)
 *
 * mode=paper is the draft. mode=kernel adds what Linux 6.18 was measured to do: the window has room for as much as ACKs were seen
 * to come in bulk (draft-cardwell-iccrg-bbr-congestion-control-02, 4.5.5), is even, and is larger by two segments in the first
 * phase of a cycle; the pace is a hundredth slower.
 */
#include "fixed_point.h"
#include "options.h"

enum { FIRST_PHASE = COMMON_OPTIONS };

enum state { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };

enum {
	FILTER_ROUNDS = 10, /* BtlBwFilterLen */
	RTT_FILTER_MS = 10000, /* RTpropFilterLen, ProbeRTTInterval */
	PROBE_RTT_MS = 200,
	CYCLE_PHASES = 8,
	FULL_ROUNDS = 3,
	PIPE_SEGMENTS = 4, /* BBRMinPipeCwnd */
	FIRST_PHASE_SEGMENTS = 2, /* by which Linux's window is larger then */
	EXTRA_ROUNDS = 5, /* of each half of the filter */
	EXTRA_MOST_US = 100000,
	EPOCH_ACKED_MAX = 1 << 20,
	POLICED_ROUNDS_MIN = 4,
	POLICED_ROUNDS_MAX = 16,
	POLICED_FOR_ROUNDS = 48,
	POLICED_LOSS = 50, /* of GAIN_ONE that are delivered */
	POLICED_APART_BITS = 4000 /* bits a second, or an eighth */
};
/* Gains in parts of GAIN_ONE. */
enum { GAIN_ONE = 256, GAIN_HIGH = 739, GAIN_DRAIN = 88, GAIN_CWND = 2 * GAIN_ONE };
enum {
	GAIN_FASTER = 320,
	GAIN_SLOWER = 192,
	GAIN_SLOWER_V3 = 230, /* 0.9 */
	GAIN_HIGH_V3 = 709, /* 2.77 */
	PACE_WITHIN = 28 /* a measured pace is a gain's within such a part of it */
};
static const uint16_t cycle_gain[CYCLE_PHASES] = {GAIN_FASTER, GAIN_SLOWER, 256, 256, 256, 256, 256, 256};

/* A path's words. Bandwidths are segments each microsecond, Q24; times wrap. */
struct bbr {
	uint32_t bw_q24[3];  /* the best, second and third best sample of the filter */
	uint16_t bw_round[3]; /* and the round trips that they were taken in */
	uint16_t rounds;
	uint32_t round_end; /* delivered, when the round trip ends */
	uint32_t min_rtt_us; /* 0: no sample */
	uint32_t min_rtt_ms; /* when it was taken */
	uint32_t probe_rtt_end_ms;
	uint32_t cycle_us; /* when the phase began */
	uint32_t prior_cwnd; /* the last good one, segments */
	uint32_t full_bw_q24;
	uint32_t pacing_q24;
	uint16_t extra_acked[2]; /* segments beyond what the bandwidth explains, in each half of the filter */
	uint32_t epoch_us; /* since when ACKs are counted for it, */
	uint32_t epoch_acked; /* and how many segments they covered */
	uint32_t limited_from; /* delivered: what left from here on, for so many more segments, left during ProbeRTT */
	uint32_t policed_bw_q24; /* of the last interval that a policer seemed to limit; 0: none */
	uint32_t policed_delivered, policed_ms; /* when this interval began */
	uint32_t held_q24; /* a bandwidth above the filter's, which the recorded sender's pace shows; 0: none */
	uint32_t fallen_q24; /* the filter's before it fell last; 0: it did not */
	uint32_t startup_segments; /* what the window would be if Startup had not ended */
	uint16_t policed_lost; /* segments since then; it stops at its largest value, as the next one does */
	uint16_t limited_segments;
	uint32_t state : 2;
	uint32_t repair : 2;
	uint32_t full_rounds : 2;
	uint32_t phase : 3;
	uint32_t extra_half : 1;
	uint32_t extra_rounds : 3;
	uint32_t policed_rounds : 6;
	uint32_t policed : 1; /* policed_bw_q24 is the bandwidth */
	uint32_t policed_sampling : 1;
	uint32_t started : 1; /* there was an ACK: the times are set */
	uint32_t full : 1; /* BBR.filled_pipe */
	uint32_t conserves : 1;
	uint32_t round_start : 1;
	uint32_t idle_restart : 1;
	uint32_t has_probe_rtt_end : 1;
	uint32_t probe_rtt_round_done : 1;
	uint32_t probed : 1; /* the recorded sender was seen to send faster in this first phase */
	uint32_t slowed : 1; /* the last pace that was measured is that of the second phase */
	uint32_t limits : 1; /* limited_from and limited_segments hold */
	uint32_t smaller
	    : 1; /* the recorded window was seen without the first phase's segments, where they were expected */
	uint32_t unseen_limits : 1; /* the application limits the recorded sender more often than the capture shows */
	uint32_t doubted : 2; /* paces in a row that contradict the state */
	uint32_t lowered : 1; /* the last pace that was measured is that of the filter's bandwidth, not of held_q24 */
} __attribute__((may_alias));
_Static_assert(sizeof(struct bbr) <= sizeof(((struct rw_path *)0)->word), "the state fits");

#define HALF(field) (__builtin_offsetof(struct bbr, field) / sizeof(uint32_t))

static const struct rw_option bbr_options[] = {
    {"mode", "kernel|paper", RW_MODE_KERNEL,
     "kernel: with what Linux was measured to do beside the draft; paper: the draft alone", RW_OPTION_CHOICE, 0, 0},
    RW_OPTION_FLOOR_LINUX,
    {"first_phase", "0|2|3|4|5|6|7", 1,
     "of the cycle in ProbeBW, where a sender begins at random (4.3.4.2); a replay follows the recorded sender's",
     RW_OPTION_CHOICE, 0, 0},
    {0}};

static const struct rw_word_name bbr_words[] = {{"bandwidth_per_us", 1, HALF(bw_q24[0]), 24, .half = 1},
						{"min_rtt_us", 1, HALF(min_rtt_us), 0, .half = 1},
						{"prior_cwnd", 1, HALF(prior_cwnd), 0, .half = 1},
						{"full_bandwidth_per_us", 1, HALF(full_bw_q24), 24, .half = 1},
						{"pacing_per_us", 1, HALF(pacing_q24), 24, .half = 1},
						{0}};

static struct bbr *bbr_of(struct rw_path *p) { return (struct bbr *)(void *)p->word; }
static int is_kernel(const struct rw_connection *c) { return c->option[MODE] == RW_MODE_KERNEL; }
static uint32_t us_of(int64_t time_ns) { return (uint32_t)((uint64_t)time_ns / 1000); }
static uint32_t ms_of(int64_t time_ns) { return (uint32_t)((uint64_t)time_ns / 1000000); }
static int after(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0; }
static uint32_t segments_of(const struct rw_path *p) { return (uint32_t)(p->cwnd_q16 >> 16); }

/* Bandwidths: BBR.BtlBw, or what a policer allows. */
static uint64_t bandwidth_q24(const struct bbr *b)
{
	uint32_t best = b->held_q24 > b->bw_q24[0] ? b->held_q24 : b->bw_q24[0];
	return b->policed ? b->policed_bw_q24 : best;
}

static void set_window(struct rw_path *p, uint64_t segments)
{
	p->cwnd_q16 = rw_min64(segments, RW_CWND_MAX_Q16 >> 16) << 16;
}

static uint32_t pacing_gain(const struct bbr *b)
{
	switch (b->state) {
	case STARTUP:
		return GAIN_HIGH;
	case DRAIN:
		return GAIN_DRAIN;
	case PROBE_BW:
		return b->policed ? GAIN_ONE : cycle_gain[b->phase];
	default:
		return GAIN_ONE;
	}
}

static uint32_t cwnd_gain(const struct bbr *b)
{
	return b->state <= DRAIN ? GAIN_HIGH : b->state == PROBE_BW ? GAIN_CWND : GAIN_ONE;
}

/*
 * Windows (4.2)
 */

/* BBRSetSendQuantum: what leaves at once, in segments. */
static uint64_t quantum(const struct rw_connection *c, const struct bbr *b)
{
	uint64_t mss = c->mss_bytes ? c->mss_bytes : 1, bits_per_s = (b->pacing_q24 * 1000000ull >> 24) * mss * 8;
	uint64_t in_1ms = rw_min64(bits_per_s / 8000, 65536) / mss;
	uint64_t least = bits_per_s < 1200000 ? 1 : 2;
	return rw_max64(bits_per_s < 24000000 ? 0 : in_1ms, least);
}

/* gain BtlBw RTprop, rounded up. */
static uint64_t product(const struct bbr *b, uint32_t gain)
{
	uint64_t bdp_q24 = rw_multiply_divide(bandwidth_q24(b) * b->min_rtt_us, gain, GAIN_ONE);
	return (bdp_q24 + (1 << 24) - 1) >> 24;
}

static uint64_t with_quanta(const struct rw_connection *c, const struct bbr *b, uint64_t segments)
{
	segments += 3 * quantum(c, b);
	if (!is_kernel(c))
		return segments;
	segments += segments & 1;
	return segments + (b->state == PROBE_BW && b->phase == 0 ? FIRST_PHASE_SEGMENTS : 0);
}

/* BBRInflight. */
static uint64_t inflight(const struct rw_connection *c, const struct bbr *b, uint32_t gain)
{
	return b->min_rtt_us ? with_quanta(c, b, product(b, gain)) : RW_INITIAL_WINDOW;
}

static uint64_t target_window(const struct rw_connection *c, const struct bbr *b)
{
	uint64_t extra = b->extra_acked[0] > b->extra_acked[1] ? b->extra_acked[0] : b->extra_acked[1];
	if (!b->min_rtt_us)
		return RW_INITIAL_WINDOW;
	if (!is_kernel(c) || !b->full)
		return inflight(c, b, cwnd_gain(b));
	extra = rw_min64(extra, bandwidth_q24(b) * EXTRA_MOST_US >> 24);
	return with_quanta(c, b, product(b, cwnd_gain(b)) + extra);
}

/* Linux paces by a hundredth less (draft 02, BBRPacingMarginPercent), so that a queue drains. */
static uint32_t pace_q24(const struct rw_connection *c, uint64_t bandwidth_q24, uint32_t gain)
{
	uint64_t rate = bandwidth_q24 * gain / GAIN_ONE;
	return (uint32_t)rw_min64(is_kernel(c) ? rate * 99 / 100 : rate, UINT32_MAX);
}

/* BBRSetPacingRateWithGain. */
static void set_pacing(const struct rw_connection *c, struct bbr *b, uint32_t gain)
{
	uint32_t rate = pace_q24(c, bandwidth_q24(b), gain);
	if (b->full || rate > b->pacing_q24)
		b->pacing_q24 = rate;
}

/* BBRSaveCwnd. */
static void save_window(struct bbr *b, const struct rw_path *p)
{
	uint32_t cwnd = segments_of(p);
	int unmodulated = b->repair == RW_REPAIR_NONE && b->state != PROBE_RTT;
	b->prior_cwnd = unmodulated || cwnd > b->prior_cwnd ? cwnd : b->prior_cwnd;
}

static void restore_window(const struct bbr *b, struct rw_path *p)
{
	set_window(p, rw_max64(segments_of(p), b->prior_cwnd));
}

/* BBRModulateCwndForRecovery: whether packets are conserved. Returns the repair before this ACK. */
static uint8_t update_repair(struct bbr *b, const struct rw_rate *r)
{
	uint8_t before = b->repair;
	b->repair = r->repair;
	if (r->repair == RW_REPAIR_RECOVERY && before != RW_REPAIR_RECOVERY) {
		b->conserves = 1;
		b->round_end = (uint32_t)r->delivered;
	} else if (r->repair == RW_REPAIR_NONE && before != RW_REPAIR_NONE) {
		b->conserves = 0;
	}
	return before;
}

/* BBRModulateCwndForRecovery: what becomes of a window. before: the repair before this ACK. */
static uint64_t modulated(const struct bbr *b, uint64_t cwnd, uint8_t before, const struct rw_rate *r)
{
	uint64_t conserved = (uint64_t)r->in_flight + r->acked_segments;
	if (r->lost_segments)
		cwnd = cwnd > r->lost_segments ? cwnd - r->lost_segments : 1;
	if (r->repair == RW_REPAIR_RECOVERY && before != RW_REPAIR_RECOVERY)
		cwnd = conserved;
	else if (r->repair == RW_REPAIR_NONE && before != RW_REPAIR_NONE)
		cwnd = rw_max64(cwnd, b->prior_cwnd);
	return b->conserves ? rw_max64(cwnd, conserved) : cwnd;
}

/* The growth of a window while the pipe is not known to be full. */
static uint64_t grown_in_startup(uint64_t cwnd, uint64_t target, const struct rw_rate *r)
{
	if (cwnd < target || r->delivered < RW_INITIAL_WINDOW)
		cwnd += r->acked_segments;
	return rw_max64(cwnd, PIPE_SEGMENTS);
}

/* BBRSetCwnd; and the window that there would be if Startup had not ended. */
static void update_window(const struct rw_connection *c, struct bbr *b, struct rw_path *p, const struct rw_rate *r)
{
	if (r->acked_segments) {
		uint8_t before = update_repair(b, r);
		uint64_t target = target_window(c, b), cwnd = modulated(b, segments_of(p), before, r);
		uint64_t in_startup = b->full ? modulated(b, b->startup_segments, before, r) : cwnd;
		if (!b->conserves) {
			in_startup = grown_in_startup(in_startup, inflight(c, b, GAIN_HIGH), r);
			cwnd = b->full ? rw_max64(rw_min64(cwnd + r->acked_segments, target), PIPE_SEGMENTS)
				       : grown_in_startup(cwnd, target, r);
		}
		set_window(p, cwnd);
		b->startup_segments = (uint32_t)rw_min64(in_startup, UINT32_MAX);
	}
	if (b->state == PROBE_RTT)
		set_window(p, rw_min64(segments_of(p), PIPE_SEGMENTS));
}

/*
 * The model of the path (4.1)
 */

static void put_bandwidth(struct bbr *b, int from, uint32_t bw_q24)
{
	for (int i = from; i < 3; i++) {
		b->bw_q24[i] = bw_q24;
		b->bw_round[i] = b->rounds;
	}
}

static void take_next_bandwidth(struct bbr *b)
{
	for (int i = 0; i < 2; i++) {
		b->bw_q24[i] = b->bw_q24[i + 1];
		b->bw_round[i] = b->bw_round[i + 1];
	}
}

static uint32_t rounds_since(const struct bbr *b, int i) { return (uint16_t)(b->rounds - b->bw_round[i]); }

/*
 * The windowed maximum of Nichols: the best sample, the best one since that, and the best one since the second. Where the second
 * or third is as old as the one before it, a part of the window has passed without a better one.
 */
static void filter_bandwidth(struct bbr *b, uint32_t bw_q24)
{
	if (bw_q24 >= b->bw_q24[0] || rounds_since(b, 2) > FILTER_ROUNDS) {
		put_bandwidth(b, 0, bw_q24);
		return;
	}
	if (bw_q24 >= b->bw_q24[1])
		put_bandwidth(b, 1, bw_q24);
	else if (bw_q24 >= b->bw_q24[2])
		put_bandwidth(b, 2, bw_q24);
	if (rounds_since(b, 0) > FILTER_ROUNDS) {
		take_next_bandwidth(b);
		put_bandwidth(b, 2, bw_q24);
		if (rounds_since(b, 0) > FILTER_ROUNDS) {
			take_next_bandwidth(b);
			put_bandwidth(b, 2, bw_q24);
		}
	} else if (b->bw_round[1] == b->bw_round[0] && rounds_since(b, 0) > FILTER_ROUNDS / 4) {
		put_bandwidth(b, 1, bw_q24);
	} else if (b->bw_round[2] == b->bw_round[1] && rounds_since(b, 0) > FILTER_ROUNDS / 2) {
		put_bandwidth(b, 2, bw_q24);
	}
}

/* The sample is of a packet that left in ProbeRTT, or before all of what was in flight then was delivered. */
static int limited_by_probe(const struct bbr *b, const struct rw_rate *r)
{
	uint32_t prior = (uint32_t)r->prior_delivered;
	return b->limits && !after(b->limited_from, prior) && !after(prior, b->limited_from + b->limited_segments);
}

static int app_limited(const struct bbr *b, const struct rw_rate *r)
{
	return r->app_limited || limited_by_probe(b, r);
}

static void begin_phase(struct bbr *b, uint32_t phase, int64_t now_ns)
{
	b->probed = b->probed && phase == 0 && b->phase == 0;
	b->smaller = 0;
	b->phase = phase;
	b->cycle_us = us_of(now_ns);
}

static void enter_probe_bw(const struct rw_connection *c, struct bbr *b, int64_t now_ns)
{
	static const uint8_t first[] = {0, 2, 3, 4, 5, 6, 7};
	b->state = PROBE_BW;
	begin_phase(b, first[(uint32_t)c->option[FIRST_PHASE] % sizeof first], now_ns);
}

/*
 * A policer drops what is above its rate: where a fifth or more of what is sent is lost at about one rate in two intervals of 4 to
 * 16 round trips, that is the bandwidth for 48 round trips. The draft has nothing of this; that Linux does it was measured.
 */

static void begin_policed_interval(struct bbr *b, const struct rw_rate *r)
{
	b->policed_ms = ms_of(r->time_ns);
	b->policed_delivered = (uint32_t)r->delivered;
	b->policed_lost = 0;
	b->policed_rounds = 0;
}

static void forget_policer(struct bbr *b)
{
	b->policed = b->policed_sampling = 0;
	b->policed_bw_q24 = 0;
	b->policed_rounds = 0;
}

/* Another interval had this bandwidth. */
static void see_policed_rate(const struct rw_connection *c, struct bbr *b, const struct rw_rate *r, uint64_t bw_q24)
{
	uint64_t before = b->policed_bw_q24, apart = bw_q24 > before ? bw_q24 - before : before - bw_q24;
	uint64_t apart_bits_per_s = (apart * 1000000 >> 24) * c->mss_bytes * 8;
	begin_policed_interval(b, r);
	b->policed_bw_q24 = (uint32_t)rw_min64(bw_q24, UINT32_MAX);
	if (before && (apart * 8 <= before || apart_bits_per_s <= POLICED_APART_BITS)) {
		b->policed_bw_q24 = (uint32_t)rw_min64((bw_q24 + before) / 2, UINT32_MAX);
		b->policed = 1;
	}
}

/* Returns whether the cycle begins anew, since the policer is forgotten. */
static int look_for_policer(const struct rw_connection *c, struct bbr *b, const struct rw_rate *r, int limited)
{
	if (b->policed) {
		int over = b->state == PROBE_BW && b->round_start && b->policed_rounds + 1 >= POLICED_FOR_ROUNDS;
		b->policed_rounds += b->state == PROBE_BW && b->round_start && !over;
		if (over)
			forget_policer(b);
		return over;
	}
	if (!b->policed_sampling) {
		if (!r->lost_segments)
			return 0;
		begin_policed_interval(b, r);
		b->policed_sampling = 1;
	} else {
		b->policed_lost = (uint16_t)rw_min64((uint64_t)b->policed_lost + r->lost_segments, UINT16_MAX);
	}
	b->policed_rounds += b->round_start;
	if (limited || b->policed_rounds > POLICED_ROUNDS_MAX) {
		forget_policer(b);
		return 0;
	}
	uint32_t delivered = (uint32_t)r->delivered - b->policed_delivered, ms = ms_of(r->time_ns) - b->policed_ms;
	if (b->policed_rounds < POLICED_ROUNDS_MIN || !r->lost_segments || !delivered || !ms ||
	    (uint64_t)b->policed_lost * GAIN_ONE < (uint64_t)delivered * POLICED_LOSS)
		return 0;
	see_policed_rate(c, b, r, ((uint64_t)delivered << 24) / ((uint64_t)ms * 1000));
	return 0;
}

/* BBRUpdateRound, BBRUpdateBtlBw. */
static void update_bandwidth(const struct rw_connection *c, struct bbr *b, const struct rw_rate *r)
{
	b->round_start = 0;
	if (!r->interval_ns || r->delivered <= r->prior_delivered)
		return;
	if (!after(b->round_end, (uint32_t)r->prior_delivered)) {
		b->round_end = (uint32_t)r->delivered;
		b->rounds++;
		b->round_start = 1;
		b->conserves = 0;
	}
	if (is_kernel(c) && look_for_policer(c, b, r, app_limited(b, r)))
		enter_probe_bw(c, b, r->time_ns);
	uint64_t interval_us = rw_max64(r->interval_ns / 1000, 1);
	uint64_t bw = rw_multiply_divide(r->delivered - r->prior_delivered, 1 << 24, interval_us);
	bw = rw_min64(bw, UINT32_MAX);
	uint32_t before = b->bw_q24[0];
	if (bw >= b->bw_q24[0] || !app_limited(b, r))
		filter_bandwidth(b, (uint32_t)bw);
	if (b->bw_q24[0] < before && !b->held_q24) {
		b->fallen_q24 = before;
		b->held_q24 = b->unseen_limits && b->state == STARTUP ? before : 0;
	} else if (b->bw_q24[0] >= b->held_q24) {
		b->held_q24 = 0;
	}
}

/* How much more than the bandwidth explains was acknowledged at once (draft 02, BBRUpdateACKAggregation). */
static void update_aggregation(struct bbr *b, const struct rw_path *p, const struct rw_rate *r)
{
	uint32_t now_us = us_of(r->time_ns);
	if (!r->acked_segments || !r->interval_ns || r->delivered <= r->prior_delivered)
		return;
	if (b->round_start && ++b->extra_rounds >= EXTRA_ROUNDS) {
		b->extra_rounds = 0;
		b->extra_half = !b->extra_half;
		b->extra_acked[b->extra_half] = 0;
	}
	uint64_t expected = bandwidth_q24(b) * (now_us - b->epoch_us) >> 24;
	if (b->epoch_acked <= expected || b->epoch_acked + r->acked_segments >= EPOCH_ACKED_MAX) {
		b->epoch_acked = 0;
		b->epoch_us = now_us;
		expected = 0;
	}
	b->epoch_acked = (uint32_t)rw_min64(b->epoch_acked + (uint64_t)r->acked_segments, EPOCH_ACKED_MAX - 1);
	uint64_t extra = rw_min64(b->epoch_acked - expected, rw_min64(segments_of(p), UINT16_MAX));
	if (extra > b->extra_acked[b->extra_half])
		b->extra_acked[b->extra_half] = (uint16_t)extra;
}

/*
 * States (4.3)
 */

/*
 * What is still in flight of so many segments when the next one may leave, as Linux was measured to count: at a low rate the pace
 * lasts for long, and meanwhile the bottleneck delivers.
 */
static uint64_t in_flight_then(const struct rw_connection *c, const struct bbr *b, const struct rw_rate *r,
			       uint64_t now)
{
	if (!is_kernel(c))
		return now;
	uint64_t delivered = rw_multiply_divide(bandwidth_q24(b), r->held_ns, 1000ull << 24);
	now += pacing_gain(b) > GAIN_ONE ? quantum(c, b) : 0;
	return now > delivered ? now - delivered : 0;
}

/* BBRCheckCyclePhase. */
static void check_phase(const struct rw_connection *c, struct bbr *b, const struct rw_rate *r)
{
	if (b->state != PROBE_BW)
		return;
	uint32_t gain = pacing_gain(b);
	int over = us_of(r->time_ns) - b->cycle_us > b->min_rtt_us;
	uint64_t before = in_flight_then(c, b, r, r->in_flight_before);
	if (gain > GAIN_ONE)
		over = over && (r->lost_segments || before >= inflight(c, b, gain));
	else if (gain < GAIN_ONE)
		over = over || before <= inflight(c, b, GAIN_ONE);
	if (over)
		begin_phase(b, (b->phase + 1) % CYCLE_PHASES, r->time_ns);
}

static int is_near(uint64_t pace, uint32_t gain)
{
	return (pace > gain ? pace - gain : gain - pace) * PACE_WITHIN <= gain;
}

/* The recorded sender's pace as a gain of a bandwidth, in parts of GAIN_ONE. */
static uint64_t gain_seen(const struct rw_rate *r, uint64_t bw_q24)
{
	return rw_multiply_divide((uint64_t)r->paced_segments << 24, 1000 * GAIN_ONE, r->paced_ns) / bw_q24;
}

/*
 * A sender knows when its application limits it, and does not count such samples (3.4); a capture shows only long pauses. So a replay
 * may forget a bandwidth that the recorded sender still has: then the recorded one lets go faster than any gain of this bandwidth allows.
 */
static void follow_bandwidth(struct bbr *b, const struct rw_rate *r)
{
	uint32_t most = b->state == STARTUP ? GAIN_HIGH : GAIN_FASTER;
	if (b->policed || b->state == PROBE_RTT || b->state == DRAIN || !r->paced_ns || !b->bw_q24[0])
		return;
	uint64_t gain = gain_seen(r, b->bw_q24[0]);
	if (b->held_q24) {
		int is_lower = is_near(gain, most) && gain_seen(r, b->held_q24) < most;
		if (is_lower && b->lowered)
			b->held_q24 = 0;
		b->lowered = (uint32_t)is_lower;
	} else if (b->fallen_q24 && gain * PACE_WITHIN > most * (PACE_WITHIN + 1) &&
		   is_near(gain_seen(r, b->fallen_q24), most)) {
		b->held_q24 = b->fallen_q24;
		b->unseen_limits = 1;
		b->lowered = 0;
	}
}

/*
 * For the same reason a replay may leave Startup before the recorded sender does, which lets go at Startup's pace then. From then on
 * Startup lasts until that pace is not seen any more.
 */
static void follow_startup(struct bbr *b, struct rw_path *p, const struct rw_rate *r)
{
	if (b->policed || b->state == PROBE_RTT || !r->paced_ns || !b->bw_q24[0])
		return;
	uint64_t gain = gain_seen(r, bandwidth_q24(b));
	int begins = is_near(gain, GAIN_HIGH);
	if (b->state == STARTUP) {
		int drains = b->unseen_limits && is_near(gain, GAIN_DRAIN);
		if (begins && b->unseen_limits)
			b->full_rounds = 0;
		b->full = drains && b->doubted;
		b->doubted = (uint32_t)drains;
		return;
	}
	if (after(b->cycle_us, us_of(r->paced_since_ns)))
		return;
	if (!begins) {
		b->doubted = 0;
		return;
	}
	if (++b->doubted < 2)
		return;
	b->doubted = 0;
	b->unseen_limits = 1;
	b->state = STARTUP;
	b->full = 0;
	b->full_rounds = 0;
	set_window(p, b->startup_segments);
}

/*
 * The phase that the recorded sender's pace shows, where its replay has begun the cycle in another one (4.3.4.2): it lets go faster
 * in the first phase than in all others, slower in the second. No sender is faster than its pace, but one without data is slower, so a
 * slower pace must be seen twice. A pace that was chosen before this phase began says nothing of it.
 */
static void follow_pace(const struct rw_connection *c, struct bbr *b, const struct rw_rate *r)
{
	uint32_t since_us = us_of(r->paced_since_ns);
	if (b->state != PROBE_BW || b->policed || !r->paced_ns || !b->bw_q24[0] || after(b->cycle_us, since_us))
		return;
	uint64_t pace = gain_seen(r, bandwidth_q24(b));
	/* The ACK that changed the pace came between the burst before and this one: half of that time is the mean. */
	int64_t since_ns = (int64_t)((uint64_t)r->paced_since_ns - (quantum(c, b) * 1000 << 24) / bandwidth_q24(b) / 2);
	uint32_t slowed_before = b->slowed;
	b->slowed = is_near(pace, GAIN_SLOWER);
	if (is_near(pace, GAIN_FASTER)) {
		b->probed = 1;
		if (b->phase != 0)
			begin_phase(b, 0, since_ns);
	} else if (b->slowed) {
		if (slowed_before && b->phase != 1)
			begin_phase(b, 1, since_ns);
	} else if (is_near(pace, GAIN_ONE) && b->phase < 2) {
		begin_phase(b, b->phase == 0 && !b->probed ? CYCLE_PHASES - 1 : 2, since_ns);
	}
}

/*
 * The phase that the recorded sender's window shows, where its flight fills it: only in the first phase it has room for two segments
 * more. Where it was seen without them twice in a row, the first phase is over, or comes later.
 */
static void follow_window(const struct rw_connection *c, struct bbr *b, const struct rw_path *p,
			  const struct rw_rate *r)
{
	uint64_t cwnd = segments_of(p), plain = cwnd - (b->phase == 0 ? FIRST_PHASE_SEGMENTS : 0);
	int is_plain = r->window_most >= plain && r->window_most < plain + FIRST_PHASE_SEGMENTS;
	if (b->state != PROBE_BW || b->policed || b->conserves || !is_kernel(c) || cwnd != target_window(c, b))
		return;
	if (b->phase == 0 && r->window_most) {
		uint32_t again = is_plain && b->smaller;
		if (again)
			begin_phase(b, b->probed ? 1 : CYCLE_PHASES - 1, r->time_ns);
		b->smaller = is_plain && b->phase != 1;
	} else if (b->phase != 0 && r->window_least > plain && r->window_least <= plain + FIRST_PHASE_SEGMENTS) {
		begin_phase(b, 0, r->window_since_ns);
		b->probed = 1;
	} else if (b->phase == CYCLE_PHASES - 1 && b->smaller && is_plain) {
		b->cycle_us = us_of(r->time_ns);
	}
}

/* BBRCheckFullPipe. */
static void check_full_pipe(struct bbr *b, const struct rw_rate *r)
{
	if (b->full || !b->round_start || app_limited(b, r))
		return;
	if (b->bw_q24[0] >= (uint64_t)b->full_bw_q24 * 5 / 4) {
		b->full_bw_q24 = b->bw_q24[0];
		b->full_rounds = 0;
		return;
	}
	b->full = ++b->full_rounds >= FULL_ROUNDS;
}

/* BBRCheckDrain. */
static void check_drain(const struct rw_connection *c, struct bbr *b, const struct rw_rate *r)
{
	if (b->state == STARTUP && b->full) {
		b->state = DRAIN;
		b->cycle_us = us_of(r->time_ns);
	}
	if (b->state == DRAIN && in_flight_then(c, b, r, r->in_flight) <= inflight(c, b, GAIN_ONE))
		enter_probe_bw(c, b, r->time_ns);
}

/* BBRExitProbeRTT, when ProbeRTT has lasted long enough. */
static void check_probe_rtt_end(const struct rw_connection *c, struct bbr *b, struct rw_path *p, int64_t now_ns)
{
	if (!b->has_probe_rtt_end || !after(ms_of(now_ns), b->probe_rtt_end_ms))
		return;
	b->min_rtt_ms = ms_of(now_ns);
	restore_window(b, p);
	if (b->full)
		enter_probe_bw(c, b, now_ns);
	else
		b->state = STARTUP;
}

/* BBRHandleProbeRTT. */
static void probe_rtt(const struct rw_connection *c, struct bbr *b, struct rw_path *p, const struct rw_rate *r)
{
	uint32_t until = (uint32_t)r->delivered + r->in_flight;
	b->limited_segments = (uint16_t)rw_min64(until - b->limited_from, UINT16_MAX);
	if (!b->has_probe_rtt_end) {
		if (r->in_flight > PIPE_SEGMENTS)
			return;
		b->has_probe_rtt_end = 1;
		b->probe_rtt_end_ms = ms_of(r->time_ns) + PROBE_RTT_MS;
		b->probe_rtt_round_done = 0;
		b->round_end = (uint32_t)r->delivered;
		return;
	}
	if (b->round_start)
		b->probe_rtt_round_done = 1;
	if (b->probe_rtt_round_done)
		check_probe_rtt_end(c, b, p, r->time_ns);
}

/* BBRUpdateRTprop, BBRCheckProbeRTT. */
static void update_rtt(const struct rw_connection *c, struct bbr *b, struct rw_path *p, const struct rw_rate *r)
{
	uint32_t now_ms = ms_of(r->time_ns), rtt_us = (uint32_t)rw_min64(rw_max64(r->rtt_ns / 1000, 1), UINT32_MAX);
	int expired = after(now_ms, b->min_rtt_ms + RTT_FILTER_MS);
	if (r->rtt_ns &&
	    (!b->min_rtt_us || rtt_us < b->min_rtt_us || expired || (rtt_us == b->min_rtt_us && !is_kernel(c)))) {
		b->min_rtt_us = rtt_us;
		b->min_rtt_ms = now_ms;
	}
	if (expired && !b->idle_restart && b->state != PROBE_RTT) {
		b->state = PROBE_RTT;
		save_window(b, p);
		b->has_probe_rtt_end = 0;
		b->limits = 1;
		b->limited_from = (uint32_t)r->delivered;
	}
	if (b->state == PROBE_RTT)
		probe_rtt(c, b, p, r);
	if (r->delivered > r->prior_delivered)
		b->idle_restart = 0;
}

static void start(struct bbr *b, const struct rw_rate *r)
{
	b->started = 1;
	b->min_rtt_ms = ms_of(r->began_ns);
	b->epoch_us = us_of(r->time_ns);
}

static void bbr_rate(struct rw_connection *c, const struct rw_rate *r)
{
	struct rw_path *p = &c->path[r->path];
	struct bbr *b = bbr_of(p);
	if (!b->started)
		start(b, r);
	follow_window(c, b, p, r);
	follow_bandwidth(b, r);
	follow_startup(b, p, r);
	follow_pace(c, b, r);
	update_bandwidth(c, b, r);
	if (is_kernel(c))
		update_aggregation(b, p, r);
	check_phase(c, b, r);
	check_full_pipe(b, r);
	check_drain(c, b, r);
	update_rtt(c, b, p, r);
	set_pacing(c, b, pacing_gain(b));
	update_window(c, b, p, r);
}

/* BBRInitPacingRate, with the handshake's round trip. */
static void bbr_begin(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	bbr_of(p)->pacing_q24 = pace_q24(c, ((uint64_t)segments_of(p) << 24) / 1000, GAIN_HIGH);
}

static void bbr_rtt(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	struct bbr *b = bbr_of(p);
	uint64_t rtt_us = rw_max64(p->srtt_ns / 1000, 1);
	if (b->min_rtt_us)
		return;
	b->min_rtt_us = (uint32_t)rw_min64(rtt_us, UINT32_MAX);
	b->pacing_q24 = pace_q24(c, ((uint64_t)segments_of(p) << 24) / rtt_us, GAIN_HIGH);
}

/* The window that recovery begins with is what is restored after it; there is no threshold. */
static void bbr_loss(struct rw_connection *c, uint32_t path) { save_window(bbr_of(&c->path[path]), &c->path[path]); }

static void bbr_timeout(struct rw_connection *c, uint32_t path)
{
	struct bbr *b = bbr_of(&c->path[path]);
	bbr_loss(c, path);
	b->repair = RW_REPAIR_TIMEOUT;
	b->full_bw_q24 = 0;
	b->round_start = 1;
}

/* What looked like losses did not limit the bandwidth. */
static void bbr_undo(struct rw_connection *c, uint32_t path)
{
	struct bbr *b = bbr_of(&c->path[path]);
	b->full_bw_q24 = 0;
	b->full_rounds = 0;
	forget_policer(b);
}

/* BBRHandleRestartFromIdle. */
static void bbr_idle(struct rw_connection *c, uint32_t path, int64_t now_ns, uint64_t idle_ns)
{
	struct rw_path *p = &c->path[path];
	struct bbr *b = bbr_of(p);
	(void)idle_ns;
	if (!b->started)
		return;
	b->idle_restart = 1;
	b->epoch_us = us_of(now_ns);
	b->epoch_acked = 0;
	if (b->state == PROBE_BW)
		set_pacing(c, b, GAIN_ONE);
	else if (b->state == PROBE_RTT && is_kernel(c))
		check_probe_rtt_end(c, b, p, now_ns);
}

static uint32_t bbr_phase(const struct rw_connection *c, uint32_t path)
{
	return RW_PHASE_STARTUP + ((const struct bbr *)(const void *)c->path[path].word)->state;
}

static void bbr_model(const struct rw_connection *c, uint32_t path, struct rw_model *model)
{
	const struct bbr *b = (const struct bbr *)(const void *)c->path[path].word;
	*model = (struct rw_model){bandwidth_q24(b), b->pacing_q24, (uint64_t)b->min_rtt_us * 1000};
}

/* Version 3 begins with a smaller gain, and drains what it probed more slowly (draft-ietf-ccwg-bbr-06, 5.6.2). */
static void bbr_versions(const struct rw_connection *c, uint32_t path, struct rw_version_paces *paces)
{
	const struct bbr *b = (const struct bbr *)(const void *)c->path[path].word;
	if (b->state == STARTUP)
		*paces = (struct rw_version_paces){b->pacing_q24, (uint64_t)b->pacing_q24 * GAIN_HIGH_V3 / GAIN_HIGH};
	else if (b->state == PROBE_BW && !b->policed)
		*paces = (struct rw_version_paces){pace_q24(c, b->bw_q24[0], GAIN_SLOWER),
						   pace_q24(c, b->bw_q24[0], GAIN_SLOWER_V3)};
	else
		*paces = (struct rw_version_paces){0};
}

const struct rw_control rw_control_bbr = {
    .name = "bbr",
    .source = "draft-cardwell-iccrg-bbr-congestion-control-00; Linux tcp_bbr",
    .formula = "pacing = gain BtlBw, cwnd = gain BtlBw RTprop + 3 quanta",
    .deviations =
	"gains in parts of 256; BtlBw is the windowed maximum of three samples. mode=kernel adds what Linux was "
	"measured to do: room for ACKs in bulk, even windows, two segments more in a cycle's first phase, a pace that is a "
	"hundredth slower, and a policer's rate in place of BtlBw where two intervals lose a fifth of what is sent at about "
	"one rate.",
    .multipath = 0,
    .options = bbr_options,
    .words = bbr_words,
    .loss = bbr_loss,
    .timeout = bbr_timeout,
    .undo = bbr_undo,
    .begin = bbr_begin,
    .rtt = bbr_rtt,
    .idle = bbr_idle,
    .phase = bbr_phase,
    .rate = bbr_rate,
    .model = bbr_model,
    .versions = bbr_versions,
};
