/*
 * The emulator's configuration, on standard input, one item on each line, until `go`:
 *
 *   seed value=N                                        first, if at all
 *   link name=NAME [rate_bps=N] [delay_ns=N] [jitter_ns=N] [limit_packets=N] [limit_bytes=N]
 *        [discipline=drop_tail|ecn_threshold|red|codel] [ecn=0|1] [ecn_threshold_packets=N]
 *        [red_min_packets=N] [red_max_packets=N] [red_max_p_q32=N] [red_weight_shift=N] [red_gentle=0|1]
 *        [codel_target_ns=N] [codel_interval_ns=N]
 *        [loss_q32=N] [ge_good_to_bad_q32=N] [ge_bad_to_good_q32=N] [ge_loss_good_q32=N] [ge_loss_bad_q32=N]
 *        [reorder_q32=N] [reorder_ns=N]
 *   change link=NAME at_ns=N [rate_bps=N] [delay_ns=N] [loss_q32=N] [down=0|1]
 *   traffic link=NAME kind=constant|on_off rate_bps=N packet_bytes=N from_ns=N to_ns=N [on_ns=N off_ns=N]
 *   interface name=DEVICE address=IP
 *   route from=IP to=IP links=NAME[,NAME...]
 *   go
 *
 * A link is one direction; its changes must be in order of time. Names have at most 63 letters, digits, dots, dashes and
 * underscores. Probabilities end in _q32 and are in units of 2^-32. link.h and queue.h explain each setting; the default is 0,
 * for CoDel's times that of RFC 8289.
 */
#ifndef EMULATOR_CONFIGURATION_H
#define EMULATOR_CONFIGURATION_H

#include <net/if.h>
#include <stdio.h>

#include "network.h"

enum { NAME_ROOM = 64, ADDRESS_BYTES = 16, INTERFACES_MAX = 64 };

struct interface {
	char name[IFNAMSIZ];
	uint8_t address[ADDRESS_BYTES]; /* of IPv4 the first four */
	uint8_t family;                 /* 4 or 6 */
};

struct route_between {
	uint8_t ends[2 * ADDRESS_BYTES]; /* from, to */
	uint16_t route;                  /* of the network */
	uint16_t interface;              /* by which the packet leaves */
};

struct configuration {
	struct rw_network *network;
	char (*link_name)[NAME_ROOM];
	uint32_t links;
	struct interface interface[INTERFACES_MAX];
	uint32_t interfaces;
	struct route_between *route; /* sorted by ends */
	uint32_t routes;
};

/* Reads until `go`. 0, or 1: an error, printed with the line's number. Call configuration_close in both cases. */
int configuration_read(struct configuration *c, FILE *in);
void configuration_close(struct configuration *c);

/* ends: from, to. Null: no route. */
const struct route_between *configuration_route(const struct configuration *c, const uint8_t ends[2 * ADDRESS_BYTES]);

#endif
