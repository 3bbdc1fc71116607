/*
 * DWC's grouping by coinciding losses and delays, as far as SB-CC (I, II) and its ns-3 port describe it.
 *
 *   at a loss on r, k is correlated if it lost in the observation window, or srtt_k > max - fraction (max - min)
 *   r and the correlated subflows are a set; members of r's set that are not correlated leave it
 *
 * The detector decides at the loss itself, so that a window falls with its set. It need not wait for the future half of the
 * window: a subflow that loses later looks back at r over the longer of the two windows. One difference shows: a member that
 * loses within srtt/2 after r leaves the set, and comes back at its own loss.
 */
#include "rw_bottleneck.h"

enum { DELAY_FRACTION, MEMORY_S, COUNT_ECE };
enum { PARTS = 10 }; /* of the memory; the oldest part is dropped at once */

static const struct rw_option dwc_options[] = {
    {"delay_fraction", "0 to 1", RW_Q16(3, 10),
     "a delay in this upper part of its range counts as congestion; the ns-3 port's, "
     "attributed to the paper",
     RW_OPTION_Q16, 0, 1 << 16},
    {"memory_s", "0.1 to 3600", 5 << 16, "how long the range of delays remembers; the ns-3 port's", RW_OPTION_Q16, 6554,
     3600 << 16},
    {"count_ece", "off|on", 0, "on: an ECE counts as a loss; off, as described: DWC knows no ECN", RW_OPTION_CHOICE, 0,
     0},
    {0}};

enum { RTT_MIN, RTT_MAX, THRESHOLD };
static const struct rw_statistic dwc_statistics[] = {
    {"rtt_min", "ns", 0}, {"rtt_max", "ns", 0}, {"threshold", "ns", 0}, {0}};

struct range {
	uint64_t part, least_ns, most_ns; /* part 0: no sample yet */
};

struct dwc_path {
	int64_t loss_ns;
	uint8_t lost;
	struct range range[PARTS];
};

struct dwc {
	struct rw_detection common;
	struct dwc_path path[RW_MAX_PATHS];
};

static struct dwc *dwc_of(struct rw_detection *d) { return (struct dwc *)(void *)d; }

/* The number of the memory's tenth that this time lies in; never 0. */
static uint64_t part_now(const struct rw_detection *d)
{
	uint64_t part_ns = ((uint64_t)d->option[MEMORY_S] * 1000000000u >> 16) / PARTS;
	return ((uint64_t)d->now_ns + ((uint64_t)1 << 63)) / (part_ns ? part_ns : 1) + 1;
}

static void dwc_join(struct rw_detection *d, uint32_t path)
{
	struct dwc_path *p = &dwc_of(d)->path[path];
	p->lost = 0;
	for (uint32_t i = 0; i < PARTS; i++)
		p->range[i].part = 0;
}

static void dwc_delivery(struct rw_detection *d, const struct rw_delivery *a)
{
	if (a->delay_ns == 0)
		return;
	uint64_t part = part_now(d);
	struct range *r = &dwc_of(d)->path[a->path].range[part % PARTS];
	if (r->part != part) {
		r->part = part;
		r->least_ns = r->most_ns = a->delay_ns;
	}
	if (a->delay_ns < r->least_ns)
		r->least_ns = a->delay_ns;
	if (a->delay_ns > r->most_ns)
		r->most_ns = a->delay_ns;
}

static int64_t dwc_statistic(const struct rw_detection *d, uint32_t path, uint32_t index)
{
	const struct dwc_path *p = &((const struct dwc *)(const void *)d)->path[path];
	uint64_t least = UINT64_MAX, most = 0, now = part_now(d);
	for (uint32_t i = 0; i < PARTS; i++) {
		const struct range *r = &p->range[i];
		if (r->part == 0 || now - r->part >= PARTS)
			continue;
		least = r->least_ns < least ? r->least_ns : least;
		most = r->most_ns > most ? r->most_ns : most;
	}
	if (most == 0)
		return 0;
	if (index == RTT_MIN)
		return (int64_t)least;
	if (index == RTT_MAX)
		return (int64_t)most;
	return (int64_t)(most - ((most - least) * (uint64_t)d->option[DELAY_FRACTION] >> 16));
}

static int correlated(struct rw_detection *d, uint32_t lost, uint32_t other)
{
	const struct dwc_path *p = &dwc_of(d)->path[other];
	uint64_t a = d->path[lost].srtt_ns, b = d->path[other].srtt_ns, threshold;
	if (p->lost && d->now_ns - p->loss_ns <= (int64_t)((a > b ? a : b) / 2))
		return 1;
	threshold = (uint64_t)dwc_statistic(d, other, THRESHOLD);
	return threshold && b > threshold;
}

static void set_path(struct rw_detected_path *p, uint8_t set)
{
	p->set = set;
	p->state = set ? RW_GROUP_FINAL : RW_GROUP_MONITOR;
}

/* Dissolves a set with one member. */
static void drop_single(struct rw_detection *d)
{
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		uint32_t n = 0;
		for (uint32_t k = 0; k < RW_MAX_PATHS; k++)
			n += d->path[k].live && d->path[k].set == d->path[i].set;
		if (n < 2)
			set_path(&d->path[i], 0);
	}
}

static void dwc_leave(struct rw_detection *d, uint32_t path)
{
	set_path(&d->path[path], 0);
	drop_single(d);
}

/* The number of the set, or the lowest free number for a new set. */
static uint8_t number_for(const struct rw_detection *d, uint32_t path)
{
	uint32_t used = 1;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (d->path[i].live)
			used |= 1u << d->path[i].set;
	for (uint8_t n = 1; n < RW_MAX_PATHS && !d->path[path].set; n++)
		if (!(used >> n & 1))
			return n;
	return d->path[path].set;
}

static void dwc_congestion(struct rw_detection *d, uint32_t path, enum rw_congestion kind)
{
	struct dwc *s = dwc_of(d);
	if (kind == RW_CONGESTION_ECE && !d->option[COUNT_ECE])
		return;
	uint8_t old = d->path[path].set, number = number_for(d, path);
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		struct rw_detected_path *p = &d->path[i];
		if (!p->live || i == path)
			continue;
		if (correlated(d, path, i))
			set_path(p, number);
		else if (old && p->set == old)
			set_path(p, 0);
	}
	set_path(&d->path[path], number);
	drop_single(d);
	s->path[path].lost = 1;
	s->path[path].loss_ns = d->now_ns;
}

const struct rw_detector rw_detector_dwc = {
    .name = "dwc",
    .source = "DWC (ICNP 2011) as SB-CC paper I-II and its ns-3 port have it",
    .formula = "at a loss on r: k joins r if it lost within srtt/2, or srtt_k > max R_k - 0.3 (max R_k - min R_k)",
    .deviations =
	"DWC-like: the paper was not at hand. Who belongs to a set between losses is not described: members that are "
	"not correlated at a loss leave it. Decided at the loss, without the future half of the window.",
    .options = dwc_options,
    .statistics = dwc_statistics,
    .bytes = sizeof(struct dwc),
    .join = dwc_join,
    .leave = dwc_leave,
    .congestion = dwc_congestion,
    .delivery = dwc_delivery,
    .statistic = dwc_statistic,
};
