#include "network.h"

#include "agenda.h"
#include "growing.h"

#include <stdlib.h>
#include <string.h>

#define NO_ROUTE UINT16_MAX /* of cross traffic */

enum { ENTITIES_MAX = RW_NETWORK_LINKS_MAX + RW_NETWORK_SOURCES_MAX, FIRST_SOURCE = RW_NETWORK_LINKS_MAX };

struct route {
	uint32_t count, link[RW_ROUTE_LINKS_MAX];
};

struct source {
	struct rw_source_settings settings;
	struct rw_random random;
	uint32_t link;
	int64_t next_ns;     /* its next packet, or RW_NEVER */
	int64_t on_until_ns; /* when it pauses */
};

/* Links and sources are entities: link i is number i, source i number FIRST_SOURCE + i. */
struct rw_network {
	uint64_t seed;
	struct rw_link *link;
	struct route *route;
	struct source *source;
	uint32_t links, routes, sources;
	struct rw_agenda agenda;
	/* Events before this time, and at it those of lower numbers, have happened. */
	int64_t now_ns;
	uint32_t current;
};

struct rw_network *rw_network_open(uint64_t seed)
{
	struct rw_network *n = calloc(1, sizeof *n);
	if (n && rw_agenda_open(&n->agenda, ENTITIES_MAX)) {
		rw_network_close(n);
		return NULL;
	}
	if (n)
		n->seed = seed;
	return n;
}

void rw_network_close(struct rw_network *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->links; i++)
		rw_link_close(&n->link[i]);
	free(n->link);
	free(n->route);
	free(n->source);
	rw_agenda_close(&n->agenda);
	free(n);
}

int rw_network_add_link(struct rw_network *n, const struct rw_link_settings *settings)
{
	struct rw_link *grown = n->links < RW_NETWORK_LINKS_MAX ? rw_one_more(n->link, n->links, sizeof *grown) : NULL;
	if (!grown)
		return -1;
	n->link = grown;
	rw_link_open(&n->link[n->links], settings, n->seed, n->links);
	rw_agenda_add(&n->agenda, n->links, RW_NEVER);
	return (int)n->links++;
}

int rw_network_add_route(struct rw_network *n, const uint32_t *links, uint32_t count)
{
	if (!count || count > RW_ROUTE_LINKS_MAX || n->routes >= RW_NETWORK_ROUTES_MAX)
		return -1;
	for (uint32_t i = 0; i < count; i++)
		if (links[i] >= n->links)
			return -1;
	struct route *grown = rw_one_more(n->route, n->routes, sizeof *grown);
	if (!grown)
		return -1;
	n->route = grown;
	n->route[n->routes].count = count;
	memcpy(n->route[n->routes].link, links, count * sizeof *links);
	return (int)n->routes++;
}

int rw_network_add_change(struct rw_network *n, uint32_t link, const struct rw_link_change *change)
{
	const struct rw_link *l = link < n->links ? &n->link[link] : NULL;
	if (!l || (l->changes && l->change[l->changes - 1].at_ns > change->at_ns) ||
	    rw_link_add_change(&n->link[link], change))
		return -1;
	rw_agenda_set(&n->agenda, link, rw_link_next_ns(&n->link[link]));
	return 0;
}

/* Draws how long a source sends or pauses; at least a nanosecond, so that time advances. */
static uint64_t period_ns(struct source *s, uint64_t mean_ns)
{
	return rw_max64(rw_random_exponential(&s->random, mean_ns), 1);
}

/* The next packet is due `gap_ns` after the last one, or after the pause if one begins before. */
static void plan_packet(struct source *s, int64_t last_ns, uint64_t gap_ns)
{
	int64_t due_ns = rw_later(last_ns, gap_ns);
	if (s->settings.off_ns && due_ns >= s->on_until_ns) {
		int64_t silent_ns = s->on_until_ns > last_ns ? s->on_until_ns : last_ns;
		due_ns = rw_later(silent_ns, period_ns(s, s->settings.off_ns));
		s->on_until_ns = rw_later(due_ns, period_ns(s, s->settings.on_ns));
	}
	s->next_ns = due_ns < s->settings.to_ns ? due_ns : RW_NEVER;
}

int rw_network_add_source(struct rw_network *n, uint32_t link, const struct rw_source_settings *settings)
{
	struct source *grown = link < n->links && settings->rate_bps && n->sources < RW_NETWORK_SOURCES_MAX
				   ? rw_one_more(n->source, n->sources, sizeof *grown)
				   : NULL;
	if (!grown)
		return -1;
	n->source = grown;
	struct source *s = &n->source[n->sources];
	memset(s, 0, sizeof *s);
	s->settings = *settings;
	s->link = link;
	s->random.seed = n->seed;
	s->random.entity = FIRST_SOURCE + n->sources;
	s->on_until_ns = rw_later(settings->from_ns, period_ns(s, settings->on_ns));
	plan_packet(s, settings->from_ns, 0);
	rw_agenda_add(&n->agenda, FIRST_SOURCE + n->sources, s->next_ns);
	return (int)n->sources++;
}

static void plan_link(struct rw_network *n, uint32_t link)
{
	int64_t next_ns = rw_link_next_ns(&n->link[link]);
	if (next_ns != rw_agenda_due_ns(&n->agenda, link))
		rw_agenda_set(&n->agenda, link, next_ns);
}

static enum rw_link_outcome put(struct rw_network *n, uint32_t link, const struct rw_parcel *parcel, int64_t now_ns)
{
	struct rw_link *l = &n->link[link];
	if (now_ns != n->now_ns) {
		n->now_ns = now_ns;
		n->current = UINT32_MAX;
	}
	if (link < n->current && rw_link_pass(l, now_ns + 1))
		return RW_LINK_FAILED;
	enum rw_link_outcome outcome = rw_link_put(l, parcel, now_ns);
	plan_link(n, link);
	return outcome;
}

enum rw_network_outcome rw_network_send(struct rw_network *n, int64_t now_ns, uint16_t route, uint64_t user,
					uint32_t bytes, int ecn_capable)
{
	struct rw_parcel parcel = {.user = user, .bytes = bytes, .route = route, .ecn_capable = ecn_capable != 0};
	switch (put(n, n->route[route].link[0], &parcel, now_ns)) {
	case RW_LINK_DROPPED:
		return RW_NETWORK_LOST;
	case RW_LINK_FAILED:
		return RW_NETWORK_FAILED;
	default:
		return RW_NETWORK_WAITING;
	}
}

int64_t rw_network_next_ns(const struct rw_network *n)
{
	return n->agenda.entities ? rw_agenda_first(&n->agenda).due_ns : RW_NEVER;
}

/* Drops of cross traffic are not reported. */
static enum rw_link_outcome send_traffic(struct rw_network *n, uint32_t source)
{
	struct source *s = &n->source[source];
	struct rw_parcel parcel = {.bytes = s->settings.packet_bytes, .route = NO_ROUTE};
	uint64_t packet_ns =
	    rw_max64(rw_multiply_divide(8 * (uint64_t)parcel.bytes, 1000000000, s->settings.rate_bps), 1);
	int64_t now = s->next_ns;
	plan_packet(s, now, packet_ns);
	rw_agenda_set(&n->agenda, FIRST_SOURCE + source, s->next_ns);
	return put(n, s->link, &parcel, now) == RW_LINK_FAILED ? RW_LINK_FAILED : RW_LINK_NOTHING;
}

/* A packet left a link and enters the next link of its route. NOTHING, LEAVES (the route's end), DROPPED or FAILED. */
static enum rw_link_outcome go_on(struct rw_network *n, struct rw_parcel *parcel, int64_t now_ns)
{
	if (parcel->route == NO_ROUTE)
		return RW_LINK_NOTHING;
	const struct route *route = &n->route[parcel->route];
	if (++parcel->hop == route->count)
		return RW_LINK_LEAVES;
	enum rw_link_outcome outcome = put(n, route->link[parcel->hop], parcel, now_ns);
	return outcome == RW_LINK_TAKEN ? RW_LINK_NOTHING : outcome;
}

static enum rw_link_outcome step_link(struct rw_network *n, uint32_t link, struct rw_parcel *parcel, int64_t now_ns)
{
	enum rw_link_outcome outcome = rw_link_step(&n->link[link], parcel);
	plan_link(n, link);
	if (outcome == RW_LINK_LEAVES)
		return go_on(n, parcel, now_ns);
	return outcome == RW_LINK_DROPPED && parcel->route == NO_ROUTE ? RW_LINK_NOTHING : outcome;
}

enum rw_network_outcome rw_network_advance(struct rw_network *n, int64_t until_ns, struct rw_network_packet *packet)
{
	for (int64_t now; (now = rw_network_next_ns(n)) <= until_ns && now != RW_NEVER;) {
		struct rw_parcel parcel;
		uint32_t entity = rw_agenda_first(&n->agenda).entity;
		n->now_ns = now;
		n->current = entity;
		enum rw_link_outcome outcome = entity >= FIRST_SOURCE ? send_traffic(n, entity - FIRST_SOURCE)
								      : step_link(n, entity, &parcel, now);
		if (outcome == RW_LINK_FAILED)
			return RW_NETWORK_FAILED;
		if (outcome != RW_LINK_LEAVES && outcome != RW_LINK_DROPPED)
			continue;
		*packet = (struct rw_network_packet){parcel.user, now, parcel.bytes, parcel.route, parcel.marked};
		return outcome == RW_LINK_LEAVES ? RW_NETWORK_DELIVERED : RW_NETWORK_LOST;
	}
	if (until_ns != RW_NEVER && until_ns >= n->now_ns) {
		n->now_ns = until_ns;
		n->current = UINT32_MAX;
	}
	return RW_NETWORK_WAITING;
}

/* The link as it is now. One that has no memory left has done what it could. */
static const struct rw_link *link_now(struct rw_network *n, uint32_t link)
{
	rw_link_pass(&n->link[link], n->now_ns + (link < n->current));
	plan_link(n, link);
	return &n->link[link];
}

uint64_t rw_network_crossing_ns(struct rw_network *n, uint16_t route, int64_t now_ns)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < n->route[route].count; i++)
		sum += rw_link_crossing_ns(link_now(n, n->route[route].link[i]), now_ns);
	return sum;
}

const struct rw_link_counts *rw_network_counts(struct rw_network *n, uint32_t link)
{
	return &link_now(n, link)->counts;
}
