/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * CUBIC. mode=paper is RFC 9438: cubic_rfc9438.h. mode=kernel, here, is the form that Linux runs: integer
 * windows, K in 1/1024 s, the smallest delay in the look-ahead, the Reno-friendly window by credit. HyStart
 * in the first slow start is part of both.
 *
 *   avoidance  every cnt acked segments w += 1, cnt = w / (C (t + delay_min - K)^3 + W_max - w), at least 2
 *   loss, ECE  W_max = w, or w (1 + beta) / 2 when below the last one; ssthresh = beta w, beta = 717/1024
 *   timeout    the same ssthresh, then everything is forgotten
 *
 * One thing differs from Linux: Linux's cube root is a table and one Newton step, 0.2 % off; here the root is exact.
 */
#include "cubic_rfc9438.h"
#include "fixed_point.h"
#include "hystart.h"
#include "options.h"

enum { HYSTART = COMMON_OPTIONS, HZ };
enum { HZ_250, HZ_1000, HZ_100 };

static const struct rw_option cubic_options[] = {
    {"mode", "kernel|paper", RW_MODE_KERNEL,
     "kernel: Linux's integers, PRR and growth gate; paper: RFC 9438 with fractions, and "
     "ssthresh is reached at once",
     RW_OPTION_CHOICE, 0, 0},
    RW_OPTION_FLOOR_LINUX,
    {"hystart", "on|off", 0, "Linux default: leaves slow start on a long ACK train or a growing delay",
     RW_OPTION_CHOICE, 0, 0},
    {"hz", "250|1000|100", 0,
     "ticks of the kernel's clock a second, 250 with Debian and most others: the growth rate "
     "is computed once a tick; of no use to mode=paper",
     RW_OPTION_CHOICE, 0, 0},
    {0}};

/* mode=kernel: halves of the path's words. Times are nanoseconds, in whole words. */
enum {
	CNT,
	LAST_MAX,
	ORIGIN,
	K_1024,
	DELAY_MIN_US,
	ACK_CNT,
	FRIENDLY,
	LAST_CWND, /* words 0 to 3 */
	ROUND_END,
	ROUND_RTT_US,
	SAMPLES,
	FOUND       /* words 4 and 5 */
};
enum { EPOCH_NS = 6, LAST_NS, ROUND_START_NS, LAST_ACK_NS };
_Static_assert(LAST_ACK_NS < RW_PATH_WORDS, "the state fits");

#define KERNEL_HALF .of_path = 1, .half = 1, .modes = 1 << RW_MODE_KERNEL
#define KERNEL_WORD .of_path = 1, .modes = 1 << RW_MODE_KERNEL
#define PAPER_WORD .of_path = 1, .modes = 1 << RW_MODE_PAPER
static const struct rw_word_name cubic_words[] = {
    {"cnt", .index = CNT, KERNEL_HALF},
    {"last_max_cwnd", .index = LAST_MAX, KERNEL_HALF},
    {"origin_point", .index = ORIGIN, KERNEL_HALF},
    {"K_1024", .index = K_1024, KERNEL_HALF},
    {"delay_min_us", .index = DELAY_MIN_US, KERNEL_HALF},
    {"ack_cnt", .index = ACK_CNT, KERNEL_HALF},
    {"tcp_cwnd", .index = FRIENDLY, KERNEL_HALF},
    {"last_cwnd", .index = LAST_CWND, KERNEL_HALF},
    {"round_end", .index = ROUND_END, KERNEL_HALF},
    {"curr_rtt_us", .index = ROUND_RTT_US, KERNEL_HALF},
    {"samples", .index = SAMPLES, KERNEL_HALF},
    {"found", .index = FOUND, KERNEL_HALF},
    {"epoch_ns", .index = EPOCH_NS, KERNEL_WORD},
    {"last_time_ns", .index = LAST_NS, KERNEL_WORD},
    {"round_start_ns", .index = ROUND_START_NS, KERNEL_WORD},
    {"last_ack_ns", .index = LAST_ACK_NS, KERNEL_WORD},
    {"wmax", .index = PAPER_W_MAX_Q40, .fraction_bits = 40, PAPER_WORD},
    {"w_epoch", .index = PAPER_W_EPOCH_Q40, .fraction_bits = 40, PAPER_WORD},
    {"w_est", .index = PAPER_W_EST_Q40, .fraction_bits = 40, PAPER_WORD},
    {"cwnd_prior", .index = PAPER_CWND_PRIOR_Q40, .fraction_bits = 40, PAPER_WORD},
    {"K", .index = PAPER_K_Q32, .fraction_bits = 32, PAPER_WORD},
    {"t", .index = PAPER_T_Q40, .fraction_bits = 40, PAPER_WORD},
    {0}};

/* The clocks of kernel and capture may differ by this. */
enum { HYSTART_NARROW_US = 200 };
enum { BETA_1024 = 717, BETA_FRIENDLY = 15, SCALE_410 = 410 };
#define HYSTART_BURST_BYTES (4 * 65536) /* four super-segments, at the rate that slow start paces: twice cwnd/srtt */
#define SECOND_NS 1000000000ll

static int is_paper(const struct rw_connection *c) { return c->option[MODE] == RW_MODE_PAPER; }

static uint64_t tick_ns(const struct rw_connection *c)
{
	return c->option[HZ] == HZ_1000 ? 1000000 : c->option[HZ] == HZ_100 ? 10000000 : 4000000;
}

/* The root, with the bit where the cube of that is not above a. */
RW_CALL uint64_t cube_root_bit(uint64_t root, uint32_t bit, uint64_t a)
{
	uint64_t trial = root | (uint64_t)1 << (bit & 63);
	return trial * trial * trial <= a ? trial : root;
}

/* floor(cube root), bit by bit. */
static uint32_t cube_root(uint64_t a)
{
	uint64_t root = 0;
	for (int bit = 20; bit >= 0; bit--)
		root = cube_root_bit(root, (uint32_t)bit, a);
	return (uint32_t)root;
}

static void begin_round(struct rw_path *p, const struct rw_ack *ack)
{
	p->word[ROUND_START_NS] = p->word[LAST_ACK_NS] = (uint64_t)ack->time_ns;
	p->half[ROUND_END] = ack->next;
	p->half[ROUND_RTT_US] = UINT32_MAX;
	p->half[SAMPLES] = 0;
}

/* How long a receiver may delay the ACKs of a burst. */
static uint32_t ack_delay_us(const struct rw_connection *c, const struct rw_path *p)
{
	uint64_t twice_window_bytes = rw_max64((p->cwnd_q16 >> 16) * c->mss_bytes * 2, 1);
	return (uint32_t)rw_min64(rw_multiply_divide(HYSTART_BURST_BYTES, p->srtt_ns / 1000, twice_window_bytes),
				  HYSTART_ACK_DELAY_US);
}

/* By how much a round's least delay is longer than it may be. */
static int64_t delay_excess_us(const struct rw_path *p)
{
	uint32_t least = p->half[DELAY_MIN_US];
	return (int64_t)p->half[ROUND_RTT_US] - least - rw_hystart_margin_us(least);
}

static void hystart(const struct rw_connection *c, struct rw_path *p, const struct rw_ack *ack, uint32_t delay_us)
{
	if ((int32_t)(ack->una - p->half[ROUND_END]) > 0 || p->word[ROUND_START_NS] == 0)
		begin_round(p, ack);
	if (p->cwnd_q16 >> 16 < HYSTART_LOW_WINDOW)
		return;
	if (ack->time_ns - (int64_t)p->word[LAST_ACK_NS] <= HYSTART_TRAIN_NS) {
		p->word[LAST_ACK_NS] = (uint64_t)ack->time_ns;
		int64_t train_ns = ack->time_ns - (int64_t)p->word[ROUND_START_NS];
		if (rw_hystart_train_fills(train_ns, p->half[DELAY_MIN_US], ack_delay_us(c, p))) {
			p->half[FOUND] = 1;
			p->ssthresh_q16 = p->cwnd_q16;
		}
	}
	if (delay_us < p->half[ROUND_RTT_US])
		p->half[ROUND_RTT_US] = delay_us;
	if (p->half[SAMPLES] < HYSTART_SAMPLES) {
		p->half[SAMPLES]++;
		return;
	}
	if (delay_excess_us(p) > 0) {
		p->half[FOUND] = 1;
		p->ssthresh_q16 = p->cwnd_q16;
	}
}

static void cubic_rtt(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (ack->rtt_newest_ns == 0 || (is_paper(c) && p->word[PAPER_W_EPOCH_Q40]))
		return;
	/* Delays within a second after a reduction do not count. */
	if (p->word[EPOCH_NS] && ack->time_ns - (int64_t)p->word[EPOCH_NS] < SECOND_NS)
		return;
	uint32_t delay_us = (uint32_t)rw_max64(rw_min64(ack->rtt_newest_ns / 1000, UINT32_MAX), 1);
	if (p->half[DELAY_MIN_US] == 0 || p->half[DELAY_MIN_US] > delay_us)
		p->half[DELAY_MIN_US] = delay_us;
	if (c->option[HYSTART] == 0 && !p->half[FOUND] && rw_in_slow_start(p))
		hystart(c, p, ack, delay_us);
}

static void begin_epoch(struct rw_path *p, uint32_t cwnd, const struct rw_ack *ack)
{
	p->word[EPOCH_NS] = (uint64_t)ack->time_ns;
	p->half[ACK_CNT] = ack->acked_segments;
	p->half[FRIENDLY] = cwnd;
	if (p->half[LAST_MAX] <= cwnd) {
		p->half[K_1024] = 0;
		p->half[ORIGIN] = cwnd;
	} else {
		p->half[K_1024] = cube_root(((uint64_t)1 << 40) / SCALE_410 * (p->half[LAST_MAX] - cwnd));
		p->half[ORIGIN] = p->half[LAST_MAX];
	}
}

/* The curve at t, in 1/1024 s: acked segments for each segment of growth. */
static uint32_t growth_divisor(const struct rw_path *p, uint32_t cwnd, uint64_t t_1024)
{
	uint64_t k = p->half[K_1024], offset = t_1024 < k ? k - t_1024 : t_1024 - k;
	offset = rw_min64(offset, 200000); /* beyond, the cube does not fit and the window is at its largest */
	uint64_t delta = rw_multiply_divide(SCALE_410 * offset, offset * offset, (uint64_t)1 << 40);
	uint64_t origin = p->half[ORIGIN], target;
	if (t_1024 < k)
		target = origin > delta ? origin - delta : 0;
	else
		target = origin + delta;
	uint64_t cnt = target > cwnd ? cwnd / (target - cwnd) : 100ull * cwnd;
	if (p->half[LAST_MAX] == 0 && cnt > 20)
		cnt = 20;
	return (uint32_t)rw_min64(cnt, UINT32_MAX);
}

static void update(struct rw_connection *c, struct rw_path *p, const struct rw_ack *ack)
{
	uint32_t cwnd = (uint32_t)(p->cwnd_q16 >> 16);
	uint64_t tick = tick_ns(c), now = (uint64_t)ack->time_ns / tick, last = p->word[LAST_NS] / tick;
	p->half[ACK_CNT] += ack->acked_segments;
	if (p->half[LAST_CWND] == cwnd && now - last <= (uint64_t)SECOND_NS / 32 / tick)
		return;
	if (!p->word[EPOCH_NS] || now != last) {
		p->half[LAST_CWND] = cwnd;
		p->word[LAST_NS] = (uint64_t)ack->time_ns;
		if (!p->word[EPOCH_NS])
			begin_epoch(p, cwnd, ack);
		uint64_t ticks =
		    now - p->word[EPOCH_NS] / tick + ((uint64_t)p->half[DELAY_MIN_US] * 1000 + tick - 1) / tick;
		p->half[CNT] = growth_divisor(p, cwnd, rw_multiply_divide(ticks, 1024 * tick, SECOND_NS));
	}
	uint32_t step = (uint32_t)rw_max64((uint64_t)cwnd * BETA_FRIENDLY >> 3, 1);
	if (p->half[ACK_CNT] > step) {
		uint32_t grown = (p->half[ACK_CNT] - 1) / step;
		p->half[ACK_CNT] -= grown * step;
		p->half[FRIENDLY] += grown;
	}
	if (p->half[FRIENDLY] > cwnd) {
		uint32_t most = cwnd / (p->half[FRIENDLY] - cwnd);
		if (p->half[CNT] > most)
			p->half[CNT] = most;
	}
	if (p->half[CNT] < 2)
		p->half[CNT] = 2;
}

static void cubic_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	if (is_paper(c))
		rfc9438_delivered(&c->path[ack->path], ack);
}

static void cubic_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = (uint64_t)ack->acked_segments << 16;
	if (rw_in_slow_start(p)) {
		acked_q16 = rw_slow_start(p, acked_q16);
		if (acked_q16 == 0)
			return;
	}
	if (is_paper(c)) {
		rfc9438_avoidance(p, ack, acked_q16);
		return;
	}
	struct rw_ack rest = *ack;
	rest.acked_segments = (uint32_t)(acked_q16 >> 16);
	update(c, p, &rest);
	rw_additive_increase(p, p->half[CNT], rest.acked_segments);
}

/*
 * The window may be the sender's and not full, or one segment above it, since its root is not Linux's: then its sender counts
 * this ACK. The curve does, the window waits.
 */
static void cubic_withheld(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	if (!is_paper(c) && !rw_in_slow_start(p))
		update(c, p, ack);
}

/* Not before the next round: a round's least delay only falls. */
static uint32_t cubic_resume(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	int64_t excess_us = delay_excess_us(p);
	if (is_paper(c) || !p->half[FOUND] || excess_us <= 0 || excess_us >= HYSTART_NARROW_US)
		return 0;
	p->half[FOUND] = p->half[ROUND_RTT_US] = 0;
	p->word[LAST_ACK_NS] = p->word[EPOCH_NS] = 0;
	p->ssthresh_q16 = RW_SSTHRESH_UNSET;
	return 1;
}

static void cubic_loss(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	if (is_paper(c)) {
		rfc9438_reduce(p, c->option[MIN_SSTHRESH]);
		return;
	}
	uint32_t cwnd = (uint32_t)(p->cwnd_q16 >> 16);
	p->word[EPOCH_NS] = 0;
	p->half[LAST_MAX] = cwnd < p->half[LAST_MAX] ? (uint32_t)((uint64_t)cwnd * (1024 + BETA_1024) / 2048) : cwnd;
	rw_set_ssthresh(p, (uint64_t)cwnd * BETA_1024 / 1024 << 16, c->option[MIN_SSTHRESH]);
}

static void cubic_timeout(struct rw_connection *c, uint32_t path)
{
	if (is_paper(c)) {
		rfc9438_timeout(&c->path[path], c->option[MIN_SSTHRESH]);
		return;
	}
	cubic_loss(c, path);
	for (int i = 0; i < RW_PATH_WORDS; i++)
		c->path[path].word[i] = 0;
}

/* Idle time does not count on the curve. */
static void cubic_idle(struct rw_connection *c, uint32_t path, int64_t now_ns, uint64_t idle_ns)
{
	if (is_paper(c)) {
		rfc9438_idle(&c->path[path], now_ns, idle_ns);
		return;
	}
	uint64_t *epoch = &c->path[path].word[EPOCH_NS];
	if (*epoch)
		*epoch = rw_min64(*epoch + idle_ns, (uint64_t)now_ns);
}

const struct rw_control rw_control_cubic = {
    .name = "cubic",
    .source = "RFC 9438; Linux tcp_cubic",
    .formula = "w(t) = 0.4 (t - K)^3 + W_max, K = cbrt((W_max - w)/0.4), D = 0.3 w",
    .deviations =
	"mode=paper: ssthresh follows the window, not the flight; where W_max is below the window that an epoch "
	"begins with, it becomes that window; an undo does not bring W_max back. mode=kernel takes the cube root exactly, Linux by a table and one Newton step (0.2 % apart).",
    .multipath = 0,
    .options = cubic_options,
    .words = cubic_words,
    .delivered = cubic_delivered,
    .rtt = cubic_rtt,
    .idle = cubic_idle,
    .ack = cubic_ack,
    .withheld = cubic_withheld,
    .resume = cubic_resume,
    .tick_ns = tick_ns,
    .loss = cubic_loss,
    .timeout = cubic_timeout,
};
