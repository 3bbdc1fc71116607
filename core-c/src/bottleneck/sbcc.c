/*
 * SB-CC's detector in two stages (SB-CC paper III.A.1, Algorithm 1, Fig. 2 and 3).
 *
 *   monitor    an ECE on r: each other monitored subflow with an event in its observation window joins r in a set
 *   judgement  the next ECE on a member: if every other member had an event in its window, and no outsider had: final;
 *              else monitor
 *   final      every ECE on a member begins the same judgement again
 *
 * In print the observation window of a subflow is w/2 packets to each side; here it is srtt/2, which is as long. A decision
 * waits until the future half has passed for every subflow. An event is a loss or a run of ECEs: RFC 3168's receivers
 * repeat the echo for a whole round trip, and that run is one event.
 */
#include "rw_bottleneck.h"

enum { TRIGGER_LOSS };

static const struct rw_option sbcc_options[] = {
    {"trigger_loss", "off|on", "off",
     "on: a loss begins a judgement as an ECE does, for paths without ECN; off, as in print: "
     "losses only confirm",
     RW_OPTION_CHOICE, 0, 0},
    {0}};

static const struct rw_statistic sbcc_statistics[] = {{0}};

struct sbcc_path {
	int64_t ece_ns, event_ns; /* the last ECE; the last event */
	uint8_t had_ece;
	uint8_t recent; /* the last event was still inside the past half of the window when it was last looked at */
	struct rw_judgement alone; /* the judgement of a monitored path */
};

struct sbcc {
	struct rw_detection common;
	struct sbcc_path path[RW_MAX_PATHS];
	struct rw_judgement set[RW_SETS_MAX]; /* set[0] is the judgement of set 1 */
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

static void forget(struct rw_judgement *j, uint32_t path)
{
	j->seen &= (uint8_t)~(1 << path);
	j->open &= (uint8_t)~(1 << path);
	if (j->trigger == path)
		j->waits = 0;
}

static void sbcc_join(struct rw_detection *d, uint32_t path)
{
	struct sbcc_path *p = &sbcc_of(d)->path[path];
	p->had_ece = p->recent = p->alone.waits = 0;
}

static void sbcc_leave(struct rw_detection *d, uint32_t path)
{
	struct sbcc *s = sbcc_of(d);
	uint32_t set = d->path[path].set;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		forget(&s->path[i].alone, path);
	for (uint32_t i = 0; i < RW_SETS_MAX; i++)
		forget(&s->set[i], path);
	s->path[path].alone.waits = 0;
	if (set && members(d, set) <= 2)
		dissolve(d, set);
}

/* Does an event that long ago lie inside the past half of the path's window? */
static int in_window(const struct rw_detection *d, uint32_t path, int64_t ago_ns)
{
	return ago_ns <= (int64_t)(d->path[path].srtt_ns / 2);
}

/* A half that was found over stays over, even if the round trip grows: an old event must not become recent again. */
static void fade(struct rw_detection *d)
{
	struct sbcc *s = sbcc_of(d);
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (s->path[i].recent && !in_window(d, i, d->now_ns - s->path[i].event_ns))
			s->path[i].recent = 0;
}

static void begin(struct rw_detection *d, struct rw_judgement *j, uint32_t trigger)
{
	const struct sbcc *s = sbcc_of(d);
	uint64_t longest = 0;
	j->waits = 1;
	j->trigger = (uint8_t)trigger;
	j->since_ns = d->now_ns;
	j->seen = j->open = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		if (!d->path[i].live)
			continue;
		if (d->path[i].srtt_ns > longest)
			longest = d->path[i].srtt_ns;
		if (i == trigger)
			continue;
		j->open |= (uint8_t)(1 << i);
		if (s->path[i].recent)
			j->seen |= (uint8_t)(1 << i);
	}
	j->due_ns = d->now_ns + (int64_t)(longest / 2);
}

static void note(const struct rw_detection *d, struct rw_judgement *j, uint32_t path)
{
	uint8_t bit = (uint8_t)(1 << path);
	if (!j->waits || !(j->open & bit))
		return; /* a path that joins later is not part of the judgement */
	if (in_window(d, path, d->now_ns - j->since_ns))
		j->seen |= bit;
	else
		j->open &= (uint8_t)~bit;
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
	fade(d);
	p->recent = 1;
	p->event_ns = d->now_ns;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		note(d, &s->path[i].alone, path);
	for (uint32_t i = 0; i < RW_SETS_MAX; i++)
		note(d, &s->set[i], path);
	if (kind != RW_CONGESTION_ECE && !d->option[TRIGGER_LOSS])
		return;
	uint32_t set = d->path[path].set;
	struct rw_judgement *j = set ? &s->set[(set - 1) % RW_SETS_MAX] : &p->alone;
	if (!j->waits)
		begin(d, j, path);
}

/* A new set: the trigger, and each monitored path that had an event. */
static void judge_alone(struct rw_detection *d, uint32_t trigger)
{
	struct sbcc *s = sbcc_of(d);
	uint8_t seen = s->path[trigger].alone.seen, number = 0, found = 0;
	s->path[trigger].alone.waits = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		found |= (seen >> i & 1) && d->path[i].live && d->path[i].set == 0;
	for (uint8_t n = RW_SETS_MAX; n >= 1; n--)
		if (members(d, n) == 0)
			number = n;
	if (!found || number == 0)
		return;
	s->set[(number - 1) % RW_SETS_MAX].waits = 0;
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
	struct rw_judgement *j = &sbcc_of(d)->set[set - 1];
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

static const struct rw_judgement *sbcc_judgement(const struct rw_detection *d, uint32_t place)
{
	const struct sbcc *s = (const struct sbcc *)(const void *)d;
	return place < RW_MAX_PATHS ? &s->path[place].alone : &s->set[(place - RW_MAX_PATHS) % RW_SETS_MAX];
}

/* An event at the very time of `until` still counts, so only judgements due before it are taken. */
static int sbcc_decide(struct rw_detection *d, int64_t until_ns)
{
	struct sbcc *s = sbcc_of(d);
	int64_t earliest = until_ns;
	uint32_t which = RW_MAX_PATHS + RW_SETS_MAX;
	for (uint32_t i = 0; i < RW_MAX_PATHS + RW_SETS_MAX; i++) {
		const struct rw_judgement *j = i < RW_MAX_PATHS ? &s->path[i].alone : &s->set[i - RW_MAX_PATHS];
		if (j->waits && j->due_ns < earliest) {
			earliest = j->due_ns;
			which = i;
		}
	}
	if (which == RW_MAX_PATHS + RW_SETS_MAX)
		return 0;
	if (earliest > d->now_ns)
		d->now_ns = earliest;
	if (which < RW_MAX_PATHS)
		judge_alone(d, which);
	else
		judge_set(d, which - RW_MAX_PATHS + 1);
	return (int)which + 1;
}

const struct rw_detector rw_detector_sbcc = {
    .name = "sbcc",
    .source = "SB-CC paper III.A.1, Algorithm 1",
    .formula =
	"an ECE on r and an event on k within srtt_k/2 of it: preliminary; again, for all members and nobody else: final",
    .deviations =
	"The window of w/2 packets to each side of Fig. 2 is srtt/2 of the observed subflow, which is as long. A run of "
	"ECEs that follow one another within a round trip is one event: RFC 3168's receivers repeat them. Three "
	"states, as in the text; a set of which only one member is left is none.",
    .options = sbcc_options,
    .statistics = sbcc_statistics,
    .bytes = sizeof(struct sbcc),
    .join = sbcc_join,
    .leave = sbcc_leave,
    .congestion = sbcc_congestion,
    .decide = sbcc_decide,
    .judgement = sbcc_judgement,
};
