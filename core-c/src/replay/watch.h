/*
 * Who watches a replay sees each packet of a flow after it was replayed, with the sender that the replay follows and its shadows. A
 * watched replay has one thread, and takes the long way.
 */
#ifndef RW_WATCH_H
#define RW_WATCH_H

#include "events.h"
#include "rewindow.h"
#include "shadow.h"

struct rw_watched {
	const struct rw_flow *flow;
	uint32_t number; /* of the flow */
	uint32_t path;   /* of the subflow among its connection's; RW_MAX_PATHS and more: it has none */
	uint32_t paths;  /* places that the connection's controllers have */
	const struct rw_reconstruction *sender;
	const struct rw_packet *packet;
	uint8_t from_source; /* the side that sends the data */
};

struct rw_watcher {
	/* 0, or 1: out of memory */
	int (*packet)(void *to, const rw_replay *replay, const struct rw_watched *watched);
	void *to;
};

/* Call it before the first rw_replay_next of a replay with one job. The watcher must live as long as the replay. */
void rw_replay_watch(rw_replay *replay, const struct rw_watcher *watcher);
/* Null: the connection has none yet, or no more. */
const struct rw_shadow *rw_replay_shadow(const rw_replay *replay, uint32_t connection, uint32_t choice);
uint32_t rw_replay_flows(const rw_replay *replay);

#endif
