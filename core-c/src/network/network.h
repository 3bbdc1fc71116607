/*
 * Links, routes over them, and cross traffic, in virtual time. The emulator (lab/) drives a network by the real clock, a
 * simulator by its own clock, with the same queues.
 *
 * Deterministic: the same calls with the same times give the same answers on every machine. Events of one time come in the
 * order of their links' and sources' numbers.
 */
#ifndef RW_NETWORK_H
#define RW_NETWORK_H

#include <stdint.h>

#include "link.h"

enum {
	RW_NETWORK_LINKS_MAX = 4096,
	RW_NETWORK_ROUTES_MAX = 65535,
	RW_ROUTE_LINKS_MAX = 16,
	RW_NETWORK_SOURCES_MAX = 4096
};

struct rw_network;

/* Null: out of memory. */
struct rw_network *rw_network_open(uint64_t seed);
void rw_network_close(struct rw_network *n);

/* Each returns the number of what it added, from 0 on, or -1: out of memory, or more than the limits above. */
int rw_network_add_link(struct rw_network *n, const struct rw_link_settings *settings);
int rw_network_add_route(struct rw_network *n, const uint32_t *links, uint32_t count);

/* Adds a change of one link; its changes must be added in order of time. 0, or -1 as above. */
int rw_network_add_change(struct rw_network *n, uint32_t link, const struct rw_link_change *change);

/* Cross traffic: packets that cross one link, do not react to loss, and leave the network. */
struct rw_source_settings {
	uint64_t rate_bps; /* while it sends; at least 1 */
	uint32_t packet_bytes;
	int64_t from_ns, to_ns;
	uint64_t on_ns, off_ns; /* means of exponential times; each on-time begins with a packet. off_ns 0: always on */
};

int rw_network_add_source(struct rw_network *n, uint32_t link, const struct rw_source_settings *settings);

enum rw_network_outcome { RW_NETWORK_WAITING, RW_NETWORK_DELIVERED, RW_NETWORK_LOST, RW_NETWORK_FAILED };

/* A packet that left the network. */
struct rw_network_packet {
	uint64_t user; /* as it was given to rw_network_send */
	int64_t time_ns;
	uint32_t bytes;
	uint16_t route;
	uint8_t marked; /* a discipline marked it: congestion experienced */
};

/*
 * A packet enters at the start of a route, not before the latest time of an earlier call. WAITING: it is on its way; LOST: the
 * first link dropped it; FAILED: out of memory. bytes: as the links count them.
 */
enum rw_network_outcome rw_network_send(struct rw_network *n, int64_t now_ns, uint16_t route, uint64_t user,
					uint32_t bytes, int ecn_capable);

/* The time of the next event, or RW_NEVER. */
int64_t rw_network_next_ns(const struct rw_network *n);

/* Lets time pass until a packet leaves the network or is lost, or until until_ns: WAITING. */
enum rw_network_outcome rw_network_advance(struct rw_network *n, int64_t until_ns, struct rw_network_packet *packet);

/* How long a packet of no bytes would need that enters the route now and is not lost, if nothing else entered it meanwhile. */
uint64_t rw_network_crossing_ns(struct rw_network *n, uint16_t route, int64_t now_ns);

const struct rw_link_counts *rw_network_counts(struct rw_network *n, uint32_t link);

#endif
