/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
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

static const struct rw_option detector_options[] = {
    {"trigger_loss", "off|on", 0,
     "on: a loss begins a judgement as an ECE does, for paths without ECN; off, as in print: "
     "losses only confirm",
     RW_OPTION_CHOICE, 0, 0},
    {0}};

static const struct rw_statistic sbcc_statistics[] = {{0}};

struct sbcc_path {
	int64_t ece_ns, event_ns; /* the last ECE; the last event */
	uint8_t had_ece;
	uint8_t recent; /* the last event was still inside the past half of the window when it was last looked at */
};

enum { PLACES = RW_MAX_PATHS + RW_SETS_MAX };

struct sbcc {
	struct rw_detection common;
	struct sbcc_path path[RW_MAX_PATHS];
	struct rw_judgement judgement[PLACES]; /* of each path while it is monitored, then of set 1 and so on */
};

static struct sbcc *sbcc_of(struct rw_detection *d) { return (struct sbcc *)(void *)d; }

static struct rw_judgement *judgement_of(struct sbcc *s, uint32_t set)
{
	return &s->judgement[RW_MAX_PATHS + (set - 1) % RW_SETS_MAX];
}

RW_CALL uint32_t members(const struct sbcc *s RW_NEVER_NULL, uint32_t set)
{
	const struct rw_detected_path *path = s->common.path;
	uint32_t n = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		n += path[i].live && path[i].set == set;
	return n;
}

RW_CALL int dissolve(struct sbcc *s RW_NEVER_NULL, uint32_t set)
{
	struct rw_detected_path *path = s->common.path;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (path[i].set == set) {
			path[i].set = 0;
			path[i].state = RW_GROUP_MONITOR;
		}
	judgement_of(s, set)->waits = 0;
	return 0;
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
	p->had_ece = p->recent = sbcc_of(d)->judgement[path].waits = 0;
}

static void sbcc_leave(struct rw_detection *d, uint32_t path)
{
	struct sbcc *s = sbcc_of(d);
	uint32_t set = d->path[path].set;
	for (uint32_t i = 0; i < PLACES; i++)
		forget(&s->judgement[i], path);
	s->judgement[path].waits = 0;
	if (set && members(s, set) <= 2)
		dissolve(s, set);
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
	for (uint32_t i = 0; i < PLACES; i++)
		note(d, &s->judgement[i], path);
	if (kind != RW_CONGESTION_ECE && !d->option[TRIGGER_LOSS])
		return;
	uint32_t set = d->path[path].set;
	struct rw_judgement *j = set ? judgement_of(s, set) : &s->judgement[path];
	if (!j->waits)
		begin(d, j, path);
}

/* The first set without members; 0: there is none. */
RW_CALL uint32_t free_set(const struct sbcc *s RW_NEVER_NULL)
{
	for (uint32_t n = 1; n <= RW_SETS_MAX; n++)
		if (members(s, n) == 0)
			return n;
	return 0;
}

/* A bit for each of these paths that is still monitored. */
RW_CALL uint32_t monitored(const struct sbcc *s RW_NEVER_NULL, uint32_t of)
{
	const struct rw_detected_path *path = s->common.path;
	uint32_t found = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		found |= (uint32_t)(path[i].live && path[i].set == 0) << i;
	return found & of;
}

/* A new set: the trigger, and each monitored path that had an event. */
RW_CALL int judge_alone(struct sbcc *s RW_NEVER_NULL, uint32_t trigger)
{
	struct rw_judgement *j = &s->judgement[trigger % RW_MAX_PATHS];
	uint32_t found = monitored(s, j->seen), number = free_set(s);
	j->waits = 0;
	if (!found || number == 0)
		return 0;
	judgement_of(s, number)->waits = 0;
	found |= 1u << trigger % RW_MAX_PATHS;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		if (!(found >> i & 1))
			continue;
		s->common.path[i].set = (uint8_t)number;
		s->common.path[i].state = RW_GROUP_JUDGEMENT;
		s->judgement[i].waits = 0;
	}
	return 0;
}

RW_CALL int judge_set(struct sbcc *s RW_NEVER_NULL, uint32_t set)
{
	struct rw_detected_path *path = s->common.path;
	struct rw_judgement *j = judgement_of(s, set);
	int holds = 1;
	j->waits = 0;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (path[i].live && i != j->trigger && (j->seen >> i & 1) != (path[i].set == set))
			holds = 0;
	if (!holds)
		return dissolve(s, set);
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		if (path[i].live && path[i].set == set)
			path[i].state = RW_GROUP_FINAL;
	return 0;
}

static const struct rw_judgement *sbcc_judgement(const struct rw_detection *d, uint32_t place)
{
	return &((const struct sbcc *)(const void *)d)->judgement[place % PLACES];
}

/* 1 plus the place of the earliest judgement that is due. An event at the very time of `until` still counts, so it is due before. */
RW_CALL uint32_t next_due(const struct sbcc *s RW_NEVER_NULL, int64_t until_ns)
{
	int64_t earliest = until_ns;
	uint32_t found = 0;
	for (uint32_t i = 0; i < PLACES; i++) {
		const struct rw_judgement *j = &s->judgement[i];
		if (j->waits && j->due_ns < earliest) {
			earliest = j->due_ns;
			found = i + 1;
		}
	}
	return found;
}

static int sbcc_decide(struct rw_detection *d, int64_t until_ns)
{
	struct sbcc *s = sbcc_of(d);
	uint32_t found = next_due(s, until_ns), place = found - 1;
	if (place >= PLACES)
		return 0;
	int64_t due_ns = s->judgement[place].due_ns;
	if (due_ns > d->now_ns)
		d->now_ns = due_ns;
	if (place < RW_MAX_PATHS)
		judge_alone(s, place);
	else
		judge_set(s, place - RW_MAX_PATHS + 1);
	return (int)found;
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
    .options = detector_options,
    .statistics = sbcc_statistics,
    .bytes = sizeof(struct sbcc),
    .join = sbcc_join,
    .leave = sbcc_leave,
    .congestion = sbcc_congestion,
    .decide = sbcc_decide,
    .judgement = sbcc_judgement,
};
