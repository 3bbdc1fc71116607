/*
 * SB-CC's detector in two stages (SB-CC paper III.A.1, Algorithm 1, Fig. 2 and 3).
 *
 *   monitor    an ECE on r: each other monitored subflow with an event in its observation window joins r in a set
 *   judgement  the next ECE on a member: every other member had an event in its window and nobody outside: final; else monitor
 *   final      every ECE on a member asks the same again
 *
 * The window of the observed subflow is w/2 packets to each side in print; here srtt/2, which is as long. Its future half
 * must have passed, for every subflow, before a decision. An event is a loss or a run of ECEs: RFC 3168's receivers repeat
 * the echo for a whole round trip, and that is one event.
 */
#include "rw_bottleneck.h"

enum { TRIGGER_LOSS };
enum { SETS = RW_MAX_PATHS / 2 };

static const struct rw_option sbcc_options[] = {
    {"trigger_loss", "off|on", "off", "on: a loss begins a judgement as an ECE does, for paths without ECN; off, as in print: "
     "losses only confirm", RW_OPTION_CHOICE, 0, 0},
    {0}};

static const struct rw_statistic sbcc_statistics[] = {{0}};

/* A decision that waits for the future half of the observation windows. */
struct judgement {
	int64_t since_ns, due_ns;
	uint8_t waits, trigger;
	uint8_t seen; /* a bit for each path that had an event in its window */
};

struct sbcc_path {
	int64_t ece_ns, event_ns; /* the last ECE; the last event */
	uint8_t had_ece, had_event;
	struct judgement alone;   /* of a monitored path */
};

struct sbcc {
	struct rw_detection common;
	struct sbcc_path path[RW_MAX_PATHS];
	struct judgement set[SETS]; /* of set 1 and so on */
};

static struct sbcc *sbcc_of(struct rw_detection *d) { return (struct sbcc *)(void *)d; }

static uint32_t members(const struct rw_detection *d, uint32_t set)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		n += d->path[i].live && d->path[i].set == set;
	return n;
}

static void dissolve(struct rw_detection *d, uint32_t set)
{
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (d->path[i].set == set) {
			d->path[i].set = 0;
			d->path[i].state = RW_GROUP_MONITOR;
		}
	sbcc_of(d)->set[set - 1].waits = 0;
}

static void forget(struct judgement *j, uint32_t path)
{
	j->seen &= (uint8_t)~(1 << path);
	if (j->trigger == path)
		j->waits = 0;
}

static void sbcc_join(struct rw_detection *d, uint32_t path)
{
	struct sbcc_path *p = &sbcc_of(d)->path[path];
	p->had_ece = p->had_event = p->alone.waits = 0;
}

static void sbcc_leave(struct rw_detection *d, uint32_t path)
{
	struct sbcc *s = sbcc_of(d);
	uint32_t set = d->path[path].set;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		forget(&s->path[i].alone, path);
	for (uint32_t i = 0; i < SETS; i++)
		forget(&s->set[i], path);
	s->path[path].alone.waits = 0;
	if (set && members(d, set) <= 2)
		dissolve(d, set);
}

/* Is what happened on a path `ago` inside the half of its window? */
static int in_window(const struct rw_detection *d, uint32_t path, int64_t ago_ns)
{
	return ago_ns <= (int64_t)(d->path[path].srtt_ns / 2);
}

static void begin(struct rw_detection *d, struct judgement *j, uint32_t trigger)
{
	const struct sbcc *s = sbcc_of(d);
	uint64_t longest = 0;
	j->waits = 1;
	j->trigger = (uint8_t)trigger;
	j->since_ns = d->now_ns;
	j->seen = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		if (!d->path[i].live)
			continue;
		if (d->path[i].srtt_ns > longest)
			longest = d->path[i].srtt_ns;
		if (i != trigger && s->path[i].had_event && in_window(d, i, d->now_ns - s->path[i].event_ns))
			j->seen |= (uint8_t)(1 << i);
	}
	j->due_ns = d->now_ns + (int64_t)(longest / 2);
}

static void note(const struct rw_detection *d, struct judgement *j, uint32_t path)
{
	if (j->waits && j->trigger != path && in_window(d, path, d->now_ns - j->since_ns))
		j->seen |= (uint8_t)(1 << path);
}

static void sbcc_congestion(struct rw_detection *d, uint32_t path, enum rw_congestion kind)
{
	struct sbcc *s = sbcc_of(d);
	struct sbcc_path *p = &s->path[path];
	if (kind == RW_CONGESTION_ECE) {
		int same_run = p->had_ece && d->now_ns - p->ece_ns < (int64_t)d->path[path].srtt_ns;
		p->had_ece = 1;
		p->ece_ns = d->now_ns;
		if (same_run)
			return;
	}
	p->had_event = 1;
	p->event_ns = d->now_ns;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		note(d, &s->path[i].alone, path);
	for (uint32_t i = 0; i < SETS; i++)
		note(d, &s->set[i], path);
	if (kind != RW_CONGESTION_ECE && !d->option[TRIGGER_LOSS])
		return;
	uint32_t set = d->path[path].set;
	struct judgement *j = set ? &s->set[(set - 1) % SETS] : &p->alone;
	if (!j->waits)
		begin(d, j, path);
}

/* A new set of the trigger and the monitored paths among those seen. */
static void judge_alone(struct rw_detection *d, uint32_t trigger)
{
	struct sbcc *s = sbcc_of(d);
	uint8_t seen = s->path[trigger].alone.seen, number = 0, found = 0;
	s->path[trigger].alone.waits = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		found |= (seen >> i & 1) && d->path[i].live && d->path[i].set == 0;
	for (uint8_t n = SETS; n >= 1; n--)
		if (members(d, n) == 0)
			number = n;
	if (!found || number == 0)
		return;
	s->set[(number - 1) % SETS].waits = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		struct rw_detected_path *p = &d->path[i];
		if (i != trigger && (!(seen >> i & 1) || !p->live || p->set))
			continue;
		p->set = number;
		p->state = RW_GROUP_JUDGEMENT;
		s->path[i].alone.waits = 0;
	}
}

static void judge_set(struct rw_detection *d, uint32_t set)
{
	struct judgement *j = &sbcc_of(d)->set[set - 1];
	int holds = 1;
	j->waits = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (d->path[i].live && i != j->trigger && (j->seen >> i & 1) != (d->path[i].set == set))
			holds = 0;
	if (!holds) {
		dissolve(d, set);
		return;
	}
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (d->path[i].live && d->path[i].set == set)
			d->path[i].state = RW_GROUP_FINAL;
}

/* What happens when a judgement is due still counts: due before `until`, not at it. */
static int sbcc_decide(struct rw_detection *d, int64_t until_ns)
{
	struct sbcc *s = sbcc_of(d);
	int64_t earliest = until_ns;
	uint32_t which = RW_MAX_PATHS + SETS;
	for (uint32_t i = 0; i < RW_MAX_PATHS + SETS; i++) {
		const struct judgement *j = i < RW_MAX_PATHS ? &s->path[i].alone : &s->set[i - RW_MAX_PATHS];
		if (j->waits && j->due_ns < earliest) {
			earliest = j->due_ns;
			which = i;
		}
	}
	if (which == RW_MAX_PATHS + SETS)
		return 0;
	if (earliest > d->now_ns)
		d->now_ns = earliest;
	if (which < RW_MAX_PATHS)
		judge_alone(d, which);
	else
		judge_set(d, which - RW_MAX_PATHS + 1);
	return 1;
}

const struct rw_detector rw_detector_sbcc = {
    .name = "sbcc",
    .source = "SB-CC paper III.A.1, Algorithm 1",
    .formula = "an ECE on r and an event on k within srtt_k/2 of it: preliminary; again, for all members and nobody else: final",
    .deviations = "The window of w/2 packets to each side of Fig. 2 is srtt/2 of the observed subflow, which is as long. A run of "
		  "ECEs that follow one another within a round trip is one event: RFC 3168's receivers repeat them. Three "
		  "states, as in the text; a set of which only one member is left is none.",
    .options = sbcc_options,
    .statistics = sbcc_statistics,
    .bytes = sizeof(struct sbcc),
    .join = sbcc_join,
    .leave = sbcc_leave,
    .congestion = sbcc_congestion,
    .decide = sbcc_decide,
};
