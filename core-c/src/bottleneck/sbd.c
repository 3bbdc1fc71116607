/*
 * Shared bottlenecks by statistics of delay and loss (RFC 8382; MPTCP-SBD, INFOCOM 2016).
 *
 *   every T: E = mean delay; skew = sum(below - above)/samples, var = sum|delay - E before|/samples, freq = crossings of
 *   mean +- p_v var per interval, loss = lost/(lost + delivered), over the last N intervals
 *   congested: skew < c_s, or < c_h if it was congested before, or loss > p_l; congested flows are sorted and cut at gaps, by freq,
 *   var, then loss or skew
 *   together: in at least TOGETHER of the last OBSERVATIONS groupings
 *
 * grouping=correlation asks instead whether the means of two flows' intervals rise and fall together. It can, because all
 * intervals here are of one clock.
 */
#include "sbd.h"

static const struct rw_option sbd_options[] = {
    {"grouping", "statistics|correlation", 0,
     "statistics: RFC 8382; correlation: the delays of two flows in one queue "
     "rise and fall together, which needs one clock for all flows, as a capture has",
     RW_OPTION_CHOICE, 0, 0},
    {"T_ms", "10 to 10000", 350 << 16, "base interval; RFC 8382", RW_OPTION_Q16, 10 << 16, 10000 << 16},
    {"N", "2 to 50", 50 << 16, "intervals remembered; RFC 8382", RW_OPTION_Q16, 2 << 16, 50 << 16},
    {"intervals_min", "2 to 50", 10 << 16,
     "before the first grouping: 1/p_f, below which one crossing is more than the gap p_f", RW_OPTION_Q16, 2 << 16,
     50 << 16},
    {"observations", "1 to 16", 10 << 16, "groupings that one decision rests on; the MPTCP-SBD kernel's", RW_OPTION_Q16,
     1 << 16, 16 << 16},
    {"together", "1 to 16", 5 << 16,
     "of them, so many with two flows in one group put them in one set; the MPTCP-SBD kernel's", RW_OPTION_Q16, 1 << 16,
     16 << 16},
    {"c_s", "-1 to 1", RW_Q16(1, 10), "congested below this skewness; RFC 8382 (the MPTCP-SBD kernel: -0.01)",
     RW_OPTION_Q16, -65536, 65536},
    {"c_h", "-1 to 1", RW_Q16(3, 10), "stays congested below this one; RFC 8382", RW_OPTION_Q16, -65536, 65536},
    {"p_f", "0 to 1", RW_Q16(1, 10), "gap of frequency; RFC 8382", RW_OPTION_Q16, 0, 65536},
    {"p_mad", "0 to 1", RW_Q16(1, 10), "gap of variability, of the larger; RFC 8382", RW_OPTION_Q16, 0, 65536},
    {"p_s", "0 to 2", RW_Q16(15, 100), "gap of skewness; RFC 8382 (the MPTCP-SBD kernel: 0.1)", RW_OPTION_Q16, 0,
     131072},
    {"p_d", "0 to 1", RW_Q16(1, 10), "gap of loss, of the larger; RFC 8382", RW_OPTION_Q16, 0, 65536},
    {"p_v", "0 to 10", RW_Q16(7, 10), "a crossing leaves mean +- p_v var; RFC 8382", RW_OPTION_Q16, 0, 655360},
    {"p_l", "0 to 1", RW_Q16(5, 100),
     "congested above this loss; RFC 8382 as we remember it, no copy was at hand (the MPTCP-SBD kernel: 0.1)",
     RW_OPTION_Q16, 0, 65536},
    {"r_min", "0 to 1", RW_Q16(7072, 10000),
     "correlated from here on: each flow's delay explains half of the other's variance", RW_OPTION_Q16, 0, 65536},
    {0}};

enum { STAT_E, STAT_MEAN, STAT_SKEW, STAT_VAR, STAT_FREQ, STAT_LOSS, STAT_BOTTLENECK, STAT_INTERVALS };
static const struct rw_statistic sbd_statistics[] = {
    {"E_T", "ns", 0},      {"mean_delay", "ns", 0}, {"skew_est", "", 16},
    {"var_est", "ns", 0},  {"freq_est", "", 16},    {"pkt_loss", "", 16},
    {"bottleneck", "", 0}, {"intervals", "", 0},    {0}};

static uint32_t whole(const int64_t *option, uint32_t which) { return (uint32_t)((uint64_t)option[which] >> 16); }
static uint64_t apart(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }
static uint32_t fewer(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* A signed quotient, rounded towards zero: BPF divides unsigned numbers only. */
static int64_t ratio_q16(int64_t a, uint32_t b)
{
	uint64_t size = (uint64_t)(a < 0 ? -a : a) * 65536 / b;
	return a < 0 ? -(int64_t)size : (int64_t)size;
}

void rw_sbd_clear(struct rw_sbd_flow *f)
{
	f->count = f->next = 0;
	f->base_ns = f->previous_ns = f->sum_ns = f->mad_ns = 0;
	f->samples = f->below = f->above = f->delivered = f->lost = 0;
	f->bottleneck = 0;
}

void rw_sbd_add(struct rw_sbd_flow *f, uint64_t delay_ns, uint32_t delivered, uint32_t lost)
{
	/* Far more samples than an interval has; keeps sums within 64 bits. */
	f->delivered = fewer(f->delivered, 1 << 30) + fewer(delivered, 1 << 30);
	f->lost = fewer(f->lost, 1 << 30) + fewer(lost, 1 << 30);
	if (delay_ns == 0 || f->samples == 1 << 22)
		return;
	if (delay_ns > RW_DETECTION_DELAY_MAX)
		delay_ns = RW_DETECTION_DELAY_MAX;
	f->samples++;
	f->sum_ns += delay_ns;
	if (f->count == 0)
		return;
	f->mad_ns += apart(delay_ns, f->previous_ns);
	f->below += delay_ns < f->base_ns;
	f->above += delay_ns > f->base_ns;
}

/* One of the last N intervals; i: 0 is the newest. */
static uint32_t remembered(const struct rw_sbd_flow *f, const int64_t *option)
{
	return fewer(f->count, whole(option, RW_SBD_N));
}

static const struct rw_sbd_interval *ago(const struct rw_sbd_flow *f, uint32_t i)
{
	return &f->interval[(f->next + 2 * RW_SBD_INTERVALS - 1 - i) % RW_SBD_INTERVALS];
}

int rw_sbd_close(struct rw_sbd_flow *f, const int64_t *option, uint32_t number)
{
	if (f->samples == 0)
		return 0;
	uint64_t sum = 0;
	uint32_t first = f->count == 0, n;
	if (!first && number - ago(f, 0)->number > whole(option, RW_SBD_N)) {
		f->count = 0; /* the flow was idle for longer than N intervals */
		first = 1;
	}
	struct rw_sbd_interval *i = &f->interval[f->next % RW_SBD_INTERVALS];
	i->mean_ns = f->sum_ns / f->samples;
	i->number = number;
	i->mad_ns = first ? 0 : f->mad_ns;
	i->samples = first ? 0 : f->samples;
	i->balance = first ? 0 : (int32_t)f->below - (int32_t)f->above;
	i->delivered = f->delivered;
	i->lost = f->lost;
	f->previous_ns = i->mean_ns;
	f->next = (f->next + 1) % RW_SBD_INTERVALS;
	f->count = fewer(f->count + 1, RW_SBD_INTERVALS);
	n = remembered(f, option);
	for (uint32_t k = 0; k < RW_SBD_INTERVALS && k < n; k++)
		sum += ago(f, k)->mean_ns;
	f->base_ns = sum / n;
	f->sum_ns = f->mad_ns = 0;
	f->samples = f->below = f->above = f->delivered = f->lost = 0;
	return 1;
}

void rw_sbd_summarise(const struct rw_sbd_flow *f, const int64_t *option, struct rw_sbd_statistics *out)
{
	uint32_t n = remembered(f, option), crossings = 0;
	uint64_t sum = 0, mad = 0, samples = 0, delivered = 0, lost = 0;
	int64_t balance = 0;
	int side = 0;
	for (uint32_t k = 0; k < RW_SBD_INTERVALS && k < n; k++) {
		const struct rw_sbd_interval *i = ago(f, k);
		sum += i->mean_ns;
		mad += i->mad_ns >> 6; /* 50 intervals with 2^22 samples of 2^40 ns would overflow */
		samples += i->samples;
		balance += i->balance;
		delivered += i->delivered;
		lost += i->lost;
	}
	out->bottleneck = f->bottleneck;
	out->mean_ns = n ? sum / n : 0;
	out->var_ns = samples ? (mad / samples << 6) + ((mad % samples << 6) / samples) : 0;
	out->skew_q16 = samples ? ratio_q16(balance, (uint32_t)samples) : 0;
	out->loss_q16 = lost ? (lost << 16) / (lost + delivered) : 0;
	uint64_t band = out->var_ns * (uint64_t)option[RW_SBD_P_V] >> 16;
	for (uint32_t k = 0; k < RW_SBD_INTERVALS && k < n; k++) {
		uint64_t mean = ago(f, k)->mean_ns;
		int now = mean > out->mean_ns + band ? 1 : mean + band < out->mean_ns ? -1 : 0;
		crossings += now && side && now != side;
		side = now ? now : side;
	}
	out->freq_q16 = n ? ((uint64_t)crossings << 16) / n : 0;
}

int rw_sbd_is_bottleneck(const struct rw_sbd_statistics *s, const int64_t *option)
{
	return s->skew_q16 < option[RW_SBD_C_S] || (s->bottleneck && s->skew_q16 < option[RW_SBD_C_H]) ||
	       (int64_t)s->loss_q16 > option[RW_SBD_P_L];
}

enum key { BY_FREQ, BY_VAR, BY_LAST };

/* The key that flows are sorted by, shifted so that it is not negative. */
static uint64_t key_of(const struct rw_sbd_statistics *s, enum key key, int lossy)
{
	switch (key) {
	case BY_FREQ:
		return s->freq_q16;
	case BY_VAR:
		return s->var_ns;
	default:
		return lossy ? s->loss_q16 : (uint64_t)(s->skew_q16 + 65536 * 4);
	}
}

static int is_gap(uint64_t large, uint64_t small, enum key key, int lossy, const int64_t *option)
{
	uint64_t gap = large - small;
	switch (key) {
	case BY_FREQ:
		return gap > (uint64_t)option[RW_SBD_P_F];
	case BY_VAR:
		return gap > large * (uint64_t)option[RW_SBD_P_MAD] >> 16;
	default:
		return lossy ? gap > large * (uint64_t)option[RW_SBD_P_D] >> 16 : gap > (uint64_t)option[RW_SBD_P_S];
	}
}

/* Cuts each group between two neighbours, in the order of a key, that are too far apart. */
static void cut(const struct rw_sbd_statistics *s, uint32_t n, const int64_t *option, enum key key, uint8_t *group)
{
	uint8_t order[RW_SBD_FLOWS], cuts = 0, before = 0;
	uint64_t lossy = 0; /* a bit for each group */
	for (uint32_t i = 0; i < RW_SBD_FLOWS && i < n; i++)
		if (group[i] && (int64_t)s[i].loss_q16 > option[RW_SBD_P_L])
			lossy |= (uint64_t)1 << ((group[i] - 1u) & 63);
	for (uint32_t i = 0; i < RW_SBD_FLOWS && i < n; i++) {
		int mine = lossy >> ((group[i] - 1u) & 63) & 1;
		uint32_t place = 0;
		for (uint32_t k = 0; k < RW_SBD_FLOWS && k < i; k++)
			place += group[k] < group[i] ||
				 (group[k] == group[i] && key_of(&s[k], key, mine) >= key_of(&s[i], key, mine));
		for (uint32_t k = 0; k < RW_SBD_FLOWS && k < i; k++)
			if (i - k > place)
				order[i - k] = order[i - k - 1];
		order[place % RW_SBD_FLOWS] = (uint8_t)i;
	}
	for (uint32_t i = 0; i < RW_SBD_FLOWS && i < n; i++) {
		uint8_t now = group[order[i] % RW_SBD_FLOWS];
		int mine = lossy >> ((now - 1u) & 63) & 1;
		if (now == 0)
			continue;
		if (before == 0 || now != before ||
		    is_gap(key_of(&s[order[i - 1] % RW_SBD_FLOWS], key, mine),
			   key_of(&s[order[i] % RW_SBD_FLOWS], key, mine), key, mine, option))
			cuts++;
		before = now;
		group[order[i] % RW_SBD_FLOWS] = cuts;
	}
}

void rw_sbd_group(const struct rw_sbd_statistics *s, uint32_t n, const int64_t *option, uint8_t *group)
{
	for (uint32_t i = 0; i < RW_SBD_FLOWS && i < n; i++)
		group[i] = s[i].bottleneck ? 1 : 0;
	cut(s, n, option, BY_FREQ, group);
	cut(s, n, option, BY_VAR, group);
	cut(s, n, option, BY_LAST, group);
}

/* Finds the next pair of intervals of a and b with the same number, newest first; 0: there is none. */
static int common(const struct rw_sbd_flow *a, const struct rw_sbd_flow *b, uint32_t na, uint32_t nb, uint32_t *i,
		  uint32_t *k)
{
	for (uint32_t step = 0; step < 2 * RW_SBD_INTERVALS && *i < na && *k < nb; step++) {
		int32_t ahead = (int32_t)(ago(a, *i)->number - ago(b, *k)->number);
		if (ahead == 0)
			return 1;
		*(ahead > 0 ? i : k) += 1;
	}
	return 0;
}

/* How many bits, an even number, to shift right so that the value is below 2^24. */
static uint32_t excess(uint64_t x)
{
	uint32_t bits = 0;
	for (uint32_t step = 0; step < 20 && x >> bits >= 1 << 24; step++)
		bits += 2;
	return bits;
}

int rw_sbd_correlated(const struct rw_sbd_flow *a, const struct rw_sbd_flow *b, const int64_t *option)
{
	uint32_t na = remembered(a, option), nb = remembered(b, option), n = 0, i = 0, k = 0;
	uint64_t sum_a = 0, sum_b = 0, square_a = 0, square_b = 0;
	int64_t product = 0;
	for (uint32_t step = 0; step < RW_SBD_INTERVALS && common(a, b, na, nb, &i, &k); step++, i++, k++) {
		sum_a += ago(a, i)->mean_ns;
		sum_b += ago(b, k)->mean_ns;
		n++;
	}
	if (n < whole(option, RW_SBD_INTERVALS_MIN))
		return -1;
	i = k = 0;
	for (uint32_t step = 0; step < RW_SBD_INTERVALS && common(a, b, na, nb, &i, &k); step++, i++, k++) {
		/* In units of 2^12 ns: 50 squares of 2^28 stay within 63 bits. */
		int64_t x = ((int64_t)(ago(a, i)->mean_ns - sum_a / n)) >> 12,
			y = ((int64_t)(ago(b, k)->mean_ns - sum_b / n)) >> 12;
		square_a += (uint64_t)(x * x);
		square_b += (uint64_t)(y * y);
		product += x * y;
	}
	if (product <= 0 || square_a == 0 || square_b == 0)
		return 0;
	uint32_t ea = excess(square_a), eb = excess(square_b);
	uint64_t together = (uint64_t)product >> (ea + eb) / 2, least = (uint64_t)option[RW_SBD_R_MIN];
	/* r^2 = together^2 / (a b), each below 2^24 */
	return together * together / 256 >= ((square_a >> ea) * (square_b >> eb) / 256 * (least * least >> 16)) >> 16;
}

/* The connection's detector. */

struct pair {
	uint16_t together; /* a bit for each of the last observations; the lowest is the newest */
	uint8_t observed;
};

struct sbd {
	struct rw_detection common;
	int64_t start_ns;
	uint32_t number; /* of the current interval */
	uint8_t began;
	struct rw_sbd_flow flow[RW_MAX_PATHS];
	struct pair pair[RW_MAX_PATHS][RW_MAX_PATHS]; /* the first index is the lower */
};

static struct sbd *sbd_of(struct rw_detection *d) { return (struct sbd *)(void *)d; }
static int64_t interval_ns(const struct rw_detection *d) { return d->option[RW_SBD_T_MS] * 1000000 >> 16; }

static void forget_pairs(struct sbd *s, uint32_t path)
{
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		struct pair *p = i < path ? &s->pair[i][path] : &s->pair[path][i];
		p->together = 0;
		p->observed = 0;
	}
}

static int decided_together(const struct rw_detection *d, const struct pair *p)
{
	uint32_t n = 0;
	for (uint32_t bit = 0; bit < 16; bit++)
		n += p->together >> bit & 1;
	return p->observed >= whole(d->option, RW_SBD_OBSERVATIONS) && n >= whole(d->option, RW_SBD_TOGETHER);
}

/* Paths that pairs connect are a set; its number is that of its lowest path. */
static void decide_sets(struct rw_detection *d)
{
	struct sbd *s = sbd_of(d);
	uint8_t lowest[RW_MAX_PATHS];
	for (uint8_t i = 0; i < RW_MAX_PATHS; i++)
		lowest[i] = i;
	/* The lowest number travels along a chain of at most seven pairs. */
	for (uint32_t round = 0; round < RW_MAX_PATHS; round++)
		for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
			for (uint32_t k = i + 1; k < RW_MAX_PATHS; k++) {
				if (!d->path[i].live || !d->path[k].live || !decided_together(d, &s->pair[i][k]))
					continue;
				uint8_t least = lowest[i] < lowest[k] ? lowest[i] : lowest[k];
				lowest[i] = lowest[k] = least;
			}
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		uint32_t n = 0;
		for (uint32_t k = 0; k < RW_MAX_PATHS; k++)
			n += lowest[k] == lowest[i];
		d->path[i].set = n > 1 ? (uint8_t)(lowest[i] + 1) : 0;
		d->path[i].state = n > 1 ? RW_GROUP_FINAL : RW_GROUP_MONITOR;
	}
}

static void observe(struct rw_detection *d)
{
	struct sbd *s = sbd_of(d);
	struct rw_sbd_statistics now[RW_MAX_PATHS];
	uint8_t ready[RW_MAX_PATHS], group[RW_MAX_PATHS];
	uint32_t least = whole(d->option, RW_SBD_INTERVALS_MIN),
		 mask = (1u << whole(d->option, RW_SBD_OBSERVATIONS)) - 1;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		struct rw_sbd_flow *f = &s->flow[i];
		ready[i] = d->path[i].live && rw_sbd_close(f, d->option, s->number) && f->count >= least;
		rw_sbd_summarise(f, d->option, &now[i]);
		now[i].bottleneck = ready[i] && rw_sbd_is_bottleneck(&now[i], d->option);
		if (ready[i])
			f->bottleneck = now[i].bottleneck;
	}
	rw_sbd_group(now, RW_MAX_PATHS, d->option, group);
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		for (uint32_t k = i + 1; k < RW_MAX_PATHS; k++) {
			struct pair *p = &s->pair[i][k];
			if (!ready[i] || !ready[k])
				continue;
			int same = group[i] && group[i] == group[k];
			if (d->option[RW_SBD_GROUPING] == RW_SBD_BY_CORRELATION)
				same = rw_sbd_correlated(&s->flow[i], &s->flow[k], d->option);
			if (same < 0)
				continue;
			p->together = (uint16_t)((p->together << 1 | same) & mask);
			if (p->observed < 255)
				p->observed++;
		}
	decide_sets(d);
}

static void sbd_join(struct rw_detection *d, uint32_t path)
{
	struct sbd *s = sbd_of(d);
	if (!s->began) {
		s->began = 1;
		s->start_ns = d->now_ns;
	}
	rw_sbd_clear(&s->flow[path]);
	forget_pairs(s, path);
}

static void sbd_leave(struct rw_detection *d, uint32_t path)
{
	forget_pairs(sbd_of(d), path);
	decide_sets(d);
}

static void sbd_delivery(struct rw_detection *d, const struct rw_delivery *a)
{
	rw_sbd_add(&sbd_of(d)->flow[a->path], a->delay_ns, a->delivered_segments, a->lost_segments);
}

/* The end of an interval belongs to the next one. Empty intervals are skipped in one step. */
static int sbd_decide(struct rw_detection *d, int64_t until_ns)
{
	struct sbd *s = sbd_of(d);
	int64_t length = interval_ns(d), end = s->start_ns + length;
	uint32_t measured = 0;
	if (!s->began || until_ns < end)
		return 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		measured |= d->path[i].live && s->flow[i].samples;
	if (!measured) {
		uint64_t passed = (uint64_t)(until_ns - s->start_ns) / (uint64_t)length;
		s->number += (uint32_t)passed;
		s->start_ns += (int64_t)passed * length;
		return 0;
	}
	if (end > d->now_ns)
		d->now_ns = end;
	observe(d);
	s->number++;
	s->start_ns = end;
	return 1;
}

static int64_t sbd_statistic(const struct rw_detection *d, uint32_t path, uint32_t index)
{
	const struct rw_sbd_flow *f = &((const struct sbd *)(const void *)d)->flow[path];
	struct rw_sbd_statistics now;
	rw_sbd_summarise(f, d->option, &now);
	switch (index) {
	case STAT_E:
		return (int64_t)f->previous_ns;
	case STAT_MEAN:
		return (int64_t)now.mean_ns;
	case STAT_SKEW:
		return now.skew_q16;
	case STAT_VAR:
		return (int64_t)now.var_ns;
	case STAT_FREQ:
		return (int64_t)now.freq_q16;
	case STAT_LOSS:
		return (int64_t)now.loss_q16;
	case STAT_BOTTLENECK:
		return f->bottleneck;
	default:
		return f->count;
	}
}

const struct rw_detector rw_detector_sbd = {
    .name = "sbd",
    .source = "RFC 8382; MPTCP-SBD (INFOCOM 2016)",
    .formula =
	"congested: skew < c_s or loss > p_l; one group: freq, var and skew (loss) without gaps of p_f, p_mad, p_s (p_d)",
    .deviations =
	"Round trips stand for one-way delays. All N intervals weigh the same and serve skewness too, as in the "
	"MPTCP-SBD kernel (RFC 8382: M of them, the older ones less). Grouping begins before N intervals have passed.",
    .options = sbd_options,
    .statistics = sbd_statistics,
    .bytes = sizeof(struct sbd),
    .join = sbd_join,
    .leave = sbd_leave,
    .delivery = sbd_delivery,
    .decide = sbd_decide,
    .statistic = sbd_statistic,
};
