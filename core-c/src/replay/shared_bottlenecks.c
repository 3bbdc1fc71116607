/*
 * All flows have the same intervals, by the capture's clock. At the end of an interval, every pair of flows that had samples in it
 * gives an observation. Two flows share a bottleneck if they have at least OBSERVATIONS observations and were together in at least
 * the share TOGETHER/OBSERVATIONS of them.
 */
#include "shared_bottlenecks.h"

#include <stdlib.h>
#include <string.h>

enum { BULK_BYTES_MIN = 15000 };

struct flow_pair {
	uint32_t observed, together;
};

struct rw_shared_bottlenecks {
	int64_t option[RW_MAX_OPTIONS];
	int64_t start_ns, length_ns;
	uint32_t number, flows, room;
	uint8_t began;
	uint8_t *place;                /* for each flow of the capture: 1 + its index here; 0: it is not compared */
	uint32_t flow[RW_SBD_FLOWS];
	struct rw_sbd_flow *seen[RW_SBD_FLOWS]; /* null before a flow's first sample, and after its last packet */
	uint8_t congested[RW_SBD_FLOWS];        /* at least once */
	uint32_t bottleneck[RW_SBD_FLOWS];
	struct flow_pair pair[RW_SBD_FLOWS][RW_SBD_FLOWS]; /* the first index is the lower */
};

static uint64_t bytes_of(const struct rw_survey *s, uint32_t flow)
{
	return s->flow[flow].side[s->flow[flow].source].bytes;
}

/* The flows that send most, unordered. */
static void choose(struct rw_shared_bottlenecks *a, const struct rw_survey *s)
{
	uint32_t least = 0;
	for (uint32_t i = 0; i < s->flows; i++) {
		uint64_t bytes = bytes_of(s, i);
		if (bytes < BULK_BYTES_MIN)
			continue;
		if (a->flows < RW_SBD_FLOWS) {
			a->flow[a->flows++] = i;
		} else if (bytes > bytes_of(s, a->flow[least])) {
			a->flow[least] = i;
		} else {
			continue;
		}
		least = 0;
		for (uint32_t k = 1; k < a->flows; k++)
			if (bytes_of(s, a->flow[k]) < bytes_of(s, a->flow[least]))
				least = k;
	}
	for (uint32_t k = 0; k < a->flows; k++)
		a->place[a->flow[k]] = (uint8_t)(k + 1);
}

struct rw_shared_bottlenecks *rw_shared_bottlenecks_open(const struct rw_survey *survey, const int64_t *option)
{
	struct rw_shared_bottlenecks *a = calloc(1, sizeof *a);
	if (a)
		a->place = calloc(survey->flows + 1, 1);
	if (!a || !a->place) {
		free(a);
		return NULL;
	}
	memcpy(a->option, option, sizeof a->option);
	a->length_ns = option[RW_SBD_T_MS] * 1000000 >> 16;
	a->room = survey->flows;
	choose(a, survey);
	return a;
}

void rw_shared_bottlenecks_close(struct rw_shared_bottlenecks *a)
{
	if (!a)
		return;
	for (uint32_t i = 0; i < RW_SBD_FLOWS; i++)
		free(a->seen[i]);
	free(a->place);
	free(a);
}

static void observe(struct rw_shared_bottlenecks *a)
{
	struct rw_sbd_statistics now[RW_SBD_FLOWS] = {{0}};
	uint8_t ready[RW_SBD_FLOWS] = {0}, group[RW_SBD_FLOWS];
	uint32_t least = (uint32_t)(a->option[RW_SBD_INTERVALS_MIN] >> 16);
	for (uint32_t i = 0; i < a->flows; i++) {
		struct rw_sbd_flow *f = a->seen[i];
		if (!f || !rw_sbd_close(f, a->option, a->number) || f->count < least)
			continue;
		ready[i] = 1;
		rw_sbd_summarise(f, a->option, &now[i]);
		f->bottleneck = now[i].bottleneck = (uint8_t)rw_sbd_is_bottleneck(&now[i], a->option);
	}
	rw_sbd_group(now, a->flows, a->option, group);
	for (uint32_t i = 0; i < a->flows; i++)
		for (uint32_t k = i + 1; k < a->flows; k++) {
			if (!ready[i] || !ready[k])
				continue;
			int same = group[i] && group[i] == group[k];
			if (a->option[RW_SBD_GROUPING] == RW_SBD_BY_CORRELATION)
				same = rw_sbd_correlated(a->seen[i], a->seen[k], a->option);
			if (same < 0)
				continue;
			a->pair[i][k].observed++;
			a->pair[i][k].together += (uint32_t)same;
		}
}

static int anything_measured(const struct rw_shared_bottlenecks *a)
{
	for (uint32_t i = 0; i < a->flows; i++)
		if (a->seen[i] && a->seen[i]->samples)
			return 1;
	return 0;
}

/* Skips intervals without measurements. */
static void advance(struct rw_shared_bottlenecks *a, int64_t now_ns)
{
	if (!a->began) {
		a->began = 1;
		a->start_ns = now_ns;
	}
	if (now_ns < a->start_ns + a->length_ns)
		return;
	if (anything_measured(a)) {
		observe(a);
		a->number++;
		a->start_ns += a->length_ns;
	}
	int64_t passed = (now_ns - a->start_ns) / a->length_ns;
	a->number += (uint32_t)passed;
	a->start_ns += passed * a->length_ns;
}

/*
 * Whether the flow is past its first congestion. Flows that start together fill their queues together, wherever these are, so slow
 * start and the recovery from it do not count.
 */
static int is_settled(struct rw_shared_bottlenecks *a, uint32_t place, const struct rw_event *e)
{
	if (e->kind == RW_EVENT_TIMEOUT || e->steps & (RW_STEP_RECOVERY | RW_STEP_CWR | RW_STEP_TAIL_LOSS))
		a->congested[place] = 1;
	return a->seen[place] ||
	       (a->congested[place] && e->kind == RW_EVENT_ACK && e->state_after <= RW_SENDER_DISORDER);
}

int rw_shared_bottlenecks_judges(const struct rw_shared_bottlenecks *a, uint32_t flow) { return a->place[flow] != 0; }

int rw_shared_bottlenecks_event(struct rw_shared_bottlenecks *a, uint32_t flow, const struct rw_event *e)
{
	uint32_t place = a->place[flow];
	if (place == 0 || !is_settled(a, --place, e) || e->kind != RW_EVENT_ACK)
		return 0;
	if (!a->seen[place]) {
		a->seen[place] = malloc(sizeof **a->seen);
		if (!a->seen[place])
			return 1;
		rw_sbd_clear(a->seen[place]);
	}
	advance(a, e->time_ns);
	rw_sbd_add(a->seen[place], e->rtt_ns, e->delivered, e->newly_lost);
	return 0;
}

void rw_shared_bottlenecks_end(struct rw_shared_bottlenecks *a, uint32_t flow)
{
	uint32_t place = a->place[flow];
	if (place == 0)
		return;
	free(a->seen[place - 1]);
	a->seen[place - 1] = NULL;
}

static int decided(const struct rw_shared_bottlenecks *a, const struct flow_pair *p)
{
	return p->observed >= (uint32_t)(a->option[RW_SBD_OBSERVATIONS] >> 16);
}

static int together(const struct rw_shared_bottlenecks *a, const struct flow_pair *p)
{
	return decided(a, p) && (uint64_t)p->together * (uint64_t)a->option[RW_SBD_OBSERVATIONS] >=
				    (uint64_t)p->observed * (uint64_t)a->option[RW_SBD_TOGETHER];
}

/* Bottlenecks are the connected components of the pairs, numbered from 1 on. */
void rw_shared_bottlenecks_finish(struct rw_shared_bottlenecks *a)
{
	uint32_t next = 0, queue[RW_SBD_FLOWS];
	for (uint32_t i = 0; i < a->flows; i++) {
		if (a->bottleneck[i])
			continue;
		uint32_t head = 0, tail = 0;
		queue[tail++] = i;
		while (head < tail) {
			uint32_t at = queue[head++];
			for (uint32_t k = 0; k < a->flows; k++) {
				const struct flow_pair *p = at < k ? &a->pair[at][k] : &a->pair[k][at];
				if (k == at || k == i || a->bottleneck[k] || !together(a, p))
					continue;
				a->bottleneck[k] = next + 1;
				queue[tail++] = k;
			}
		}
		if (tail > 1)
			a->bottleneck[i] = ++next;
	}
}

rw_bottleneck_state rw_shared_bottlenecks_of(const struct rw_shared_bottlenecks *a, uint32_t flow, uint32_t *number)
{
	*number = 0;
	uint32_t place = flow < a->room ? a->place[flow] : 0;
	if (place == 0)
		return RW_BOTTLENECK_NOT_JUDGED;
	*number = a->bottleneck[--place];
	if (*number)
		return RW_BOTTLENECK_SHARED;
	for (uint32_t k = 0; k < a->flows; k++)
		if (k != place && decided(a, place < k ? &a->pair[place][k] : &a->pair[k][place]))
			return RW_BOTTLENECK_ALONE;
	return RW_BOTTLENECK_UNDECIDED;
}
