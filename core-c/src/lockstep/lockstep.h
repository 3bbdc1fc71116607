/*
 * The simulator's sender beside a captured one. See rewindow.h.
 *
 * The capture is replayed twice. First the lengths of MPTCP's mappings are learned: they are what the layer above gave to a subflow's
 * sender, as writes are an application's. Then each ACK goes to the replay and to the simulated senders, and each segment of the
 * captured sender is paired with one of theirs.
 */
#ifndef RW_LOCKSTEP_H
#define RW_LOCKSTEP_H

#include "pairing.h"
#include "transmitter.h"
#include "watch.h"

enum { RW_TICK_PARTS = 400 };

/* What a subflow was given in one piece: sequence numbers [start, end), before or when the first of it left. */
struct rw_given {
	uint32_t start, end;
	int64_t left_ns;
};

/* A captured sender. */
struct rw_source {
	struct rw_given *given; /* MPTCP's mappings, in order */
	uint32_t givens, room;
	uint32_t next_given; /* the first that it was not given yet */
	uint32_t first_twin; /* its simulated senders, one for each choice; UINT32_MAX: none */
	uint32_t highest;    /* the end of what it has sent */
	uint32_t una;        /* before the packet that comes */
	int64_t heard_ns;    /* the last packet from the receiver */
	uint8_t state;       /* rw_sender_state, before it */
	uint8_t begun;
};

/* A simulated sender beside a captured one. */
struct rw_twin {
	struct rw_transmitter tx; /* the first member: its owner finds the twin by it */
	struct rw_lockstep *all;
	struct rw_kernel kernel;
	struct rw_pairing pairing;
	uint32_t flow, row;
	int64_t apart_ns; /* until then neither sender was too far ahead */
	uint8_t in_step;
	rw_lockstep_run run; /* the free run */
};

struct rw_lockstep_choice {
	const struct rw_control *control;
	struct rw_settings settings;
};

struct rw_lockstep {
	uint32_t choices, flows, connections;
	struct rw_lockstep_choice *choice;
	struct rw_source *source;      /* of each flow */
	struct rw_shadow **shadow;     /* of each connection under each choice; null: none yet */
	struct rw_twin **twin;
	struct rw_transmitter_owner owner;
	uint32_t twins, twins_room;
	rw_lockstep_row *row; /* of each twin */
	rw_lockstep_run *run;
	uint64_t runs, runs_room;
	rw_lockstep_window *window;
	uint64_t windows, windows_room;
	uint64_t timed[RW_TICK_PARTS]; /* retransmissions that timers let out, by where in a tick */
	uint64_t phase_ns; /* of the host's clock, as in struct rw_kernel */
	uint8_t failed;    /* out of memory */
};

#endif
