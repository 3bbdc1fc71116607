/*
 * Any network: links of any settings, routes over them, changes, cross traffic, and packets at any times. Invariants: no packet
 * arrives twice or is forgotten, time does not go back, and a link without reordering keeps the order.
 */
#include <string.h>

#include "bytes.h"
#include "fuzz.h"
#include "network.h"

enum { LINKS = 4, ROUTES = 4, PACKETS = 512, TRAFFIC_MAX = 4096 };

/* Two bytes: a number of up to `bits` bits, most often of few significant ones. */
static uint64_t read_number(struct rw_bytes *b, int bits)
{
	uint8_t size = rw_bytes_u8(b);
	return ((uint64_t)rw_bytes_u8(b) << (size & 63)) & (((uint64_t)1 << bits) - 1);
}

static struct rw_queue_settings read_queue(struct rw_bytes *b)
{
	uint8_t bits = rw_bytes_u8(b);
	uint32_t min = 1 + (uint32_t)read_number(b, 10);
	return (struct rw_queue_settings){.discipline = (enum rw_discipline)(bits & 3),
					  .ecn = bits >> 2 & 1,
					  .limit_packets = (uint32_t)read_number(b, 10),
					  .limit_bytes = read_number(b, 24),
					  .threshold_packets = (uint32_t)read_number(b, 8),
					  .red = {.min_packets = min,
						  .max_packets = min + 1 + (uint32_t)read_number(b, 10),
						  .max_probability_q32 = (uint32_t)read_number(b, 32),
						  .weight_shift = bits >> 4 & 15,
						  .gentle = bits >> 3 & 1},
					  .codel = {(int64_t)read_number(b, 50), 1 + (int64_t)read_number(b, 49)}};
}

static struct rw_link_settings read_link(struct rw_bytes *b)
{
	return (struct rw_link_settings){
	    .rate_bps = read_number(b, 63),
	    .delay_ns = read_number(b, 50),
	    .jitter_ns = read_number(b, 50),
	    .stall_q32 = read_number(b, 33),
	    .stall_ns = read_number(b, 50),
	    .loss_q32 = read_number(b, 33),
	    .burst = {read_number(b, 33), read_number(b, 33), read_number(b, 33), read_number(b, 33)},
	    .reorder_q32 = read_number(b, 33),
	    .reorder_ns = read_number(b, 50),
	    .queue = read_queue(b)};
}

struct watch {
	uint8_t under_way[PACKETS];
	int64_t now_ns;
	uint64_t last[ROUTES]; /* 1 + the newest packet that a route delivered */
	int ordered[ROUTES];
};

static void leave(struct watch *w, const struct rw_network_packet *p, int delivered)
{
	CHECK(p->user < PACKETS && w->under_way[p->user]);
	CHECK(p->time_ns >= w->now_ns);
	w->under_way[p->user] = 0;
	w->now_ns = p->time_ns;
	if (!delivered)
		return;
	CHECK(!w->ordered[p->route] || p->user >= w->last[p->route]);
	w->last[p->route] = p->user + 1;
}

static void advance(struct rw_network *n, struct watch *w, int64_t until_ns)
{
	struct rw_network_packet p;
	enum rw_network_outcome outcome;
	while ((outcome = rw_network_advance(n, until_ns, &p)) == RW_NETWORK_DELIVERED || outcome == RW_NETWORK_LOST)
		leave(w, &p, outcome == RW_NETWORK_DELIVERED);
	CHECK(outcome == RW_NETWORK_WAITING);
	CHECK(rw_network_next_ns(n) > until_ns || rw_network_next_ns(n) == RW_NEVER);
	if (until_ns > w->now_ns)
		w->now_ns = until_ns;
}

/* Traffic with a bounded number of packets. */
static void add_source(struct rw_network *n, struct rw_bytes *b)
{
	struct rw_source_settings s = {.rate_bps = 1 + read_number(b, 40),
				       .packet_bytes = 1 + (uint32_t)read_number(b, 20),
				       .from_ns = (int64_t)read_number(b, 40),
				       .on_ns = read_number(b, 40),
				       .off_ns = read_number(b, 40)};
	uint64_t packet_ns = rw_multiply_divide(8ull * s.packet_bytes, 1000000000, s.rate_bps) + 1;
	s.to_ns = s.from_ns + (int64_t)rw_min64(packet_ns * (read_number(b, 12) % TRAFFIC_MAX), (uint64_t)1 << 50);
	/* Each on-time is a packet at least: no more of those than of packets. */
	if (s.off_ns && s.off_ns < packet_ns)
		s.off_ns = packet_ns;
	CHECK(rw_network_add_source(n, rw_bytes_u8(b) % LINKS, &s) >= 0);
}

static void add_routes(struct rw_network *n, struct watch *w, const struct rw_link_settings *link, struct rw_bytes *b)
{
	for (int r = 0; r < ROUTES; r++) {
		uint32_t route[3], count = 1 + rw_bytes_u8(b) % 3;
		w->ordered[r] = 1;
		for (uint32_t i = 0; i < count; i++) {
			route[i] = rw_bytes_u8(b) % LINKS;
			w->ordered[r] &= !link[route[i]].reorder_q32;
			for (uint32_t k = 0; k < i; k++)
				if (route[k] == route[i])
					w->ordered[r] = 0; /* packets that pass a link twice may mix */
		}
		CHECK(rw_network_add_route(n, route, count) == r);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rw_bytes b = rw_bytes_of(data, size);
	struct rw_link_settings link[LINKS];
	struct watch w = {.now_ns = 0};
	struct rw_network *n = rw_network_open(read_number(&b, 63));
	CHECK(n);
	for (int i = 0; i < LINKS; i++) {
		link[i] = read_link(&b);
		CHECK(rw_network_add_link(n, &link[i]) == i);
	}
	add_routes(n, &w, link, &b);
	for (int i = rw_bytes_u8(&b) % 3; i > 0; i--)
		add_source(n, &b);
	int64_t at_ns[LINKS] = {0};
	for (int i = rw_bytes_u8(&b) % 5; i > 0; i--) {
		uint32_t which = rw_bytes_u8(&b) % LINKS;
		uint8_t bits = rw_bytes_u8(&b);
		struct rw_link_change c = {at_ns[which] += (int64_t)read_number(&b, 40),
					   read_number(&b, 63),
					   read_number(&b, 33),
					   read_number(&b, 50),
					   bits & 1,
					   bits >> 1 & 1,
					   bits >> 2 & 1,
					   bits >> 3 & 1,
					   bits >> 4 & 1};
		CHECK(rw_network_add_change(n, which, &c) == 0);
	}
	for (uint64_t i = 0; i < PACKETS && b.left; i++) {
		uint8_t bits = rw_bytes_u8(&b);
		if (bits & 0x30)
			advance(n, &w, w.now_ns + (int64_t)read_number(&b, 40));
		uint32_t bytes = 1 + (uint32_t)read_number(&b, 16);
		enum rw_network_outcome o = rw_network_send(n, w.now_ns, bits & 3, i, bytes, bits >> 2 & 1);
		CHECK(o == RW_NETWORK_WAITING || o == RW_NETWORK_LOST);
		w.under_way[i] = o == RW_NETWORK_WAITING;
	}
	advance(n, &w, RW_NEVER - 1);
	for (int i = 0; i < PACKETS; i++)
		CHECK(!w.under_way[i]);
	rw_network_close(n);
	return 0;
}
