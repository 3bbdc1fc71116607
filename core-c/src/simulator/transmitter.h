/*
 * Linux's TCP sender in a closed loop: sender/ says what ACKs and timers mean, shadow/ runs the window around a controller, and
 * here is decided what leaves when: retransmissions, new data up to the window, tail loss probes, timeouts, probes of a closed
 * window (RFC 9293 3.8.6.1).
 */
#ifndef RW_TRANSMITTER_H
#define RW_TRANSMITTER_H

#include <stdint.h>

#include "detect.h"
#include "kernel.h"
#include "sender.h"
#include "shadow.h"

struct rw_departing {
	uint32_t start, end; /* start = end: a probe of a closed window, which asks for an ACK */
	uint8_t again;       /* not for the first time */
	uint8_t reduced;     /* RFC 3168's CWR */
	uint8_t pushed;      /* PSH: the end of a burst of several segments, or of the data */
};

struct rw_transmitter;

/* Who owns it. */
struct rw_transmitter_owner {
	/* A segment leaves. 0, or 1: out of memory. */
	int (*leave)(void *to, struct rw_transmitter *t, const struct rw_departing *segment, int64_t now_ns);
	/* How far a segment that begins here may reach; null: to the end of the data. */
	uint32_t (*reach)(void *to, const struct rw_transmitter *t, uint32_t start);
	/* Is told of each ACK's window; null: nobody asks. */
	void (*row)(void *to, const struct rw_transmitter *t, const struct rw_event *e,
		    const struct rw_shadow_row *row);
	void *to;
};

enum rw_timer { RW_TIMER_NONE, RW_TIMER_RETRANSMISSION, RW_TIMER_PROBE, RW_TIMER_REORDERING, RW_TIMER_CLOSED_WINDOW };

struct rw_transmitter {
	struct rw_sender tcp;
	struct rw_shadow *shadow;
	struct rw_detect *detect; /* of the connection; null: its controller has no use for sets */
	const struct rw_kernel *kernel;
	const struct rw_transmitter_owner *owner;
	uint32_t path; /* in the shadow */
	uint32_t end;  /* data up to here may be sent */
	uint32_t small_end; /* of the last segment that was not a whole one */
	int64_t due_ns; /* of the timer, or RW_NEVER */
	uint8_t timer;  /* rw_timer */
	uint8_t ecn, must_say_reduced;
	uint8_t closes; /* the last of the data does not wait for a whole segment: a FIN leaves with it */
	uint8_t failed;
	uint32_t resend_from, losses_seen; /* below it nothing waits to be sent again, while board.losses is this */
	uint32_t closed_backoff;
	uint64_t segments; /* new ones, that left */
	int64_t together_q16; /* how many new segments left at once, on the mean of the last ones */
	/* The pace of a rate-based controller */
	uint8_t paces;
	uint8_t drained; /* less than a segment of the data has not left (draft-ietf-ccwg-bbr, C.app_limited) */
	int64_t began_ns;       /* the handshake was over */
	int64_t next_burst_ns;  /* the pace lets nothing go before */
	int64_t release_ns;     /* something waits for that: it leaves then; or RW_NEVER */
	struct rw_delivery_rate rate;
};

void rw_transmitter_open(struct rw_transmitter *t, const struct rw_transmitter_owner *owner,
			 const struct rw_kernel *kernel, struct rw_shadow *shadow, uint32_t path, uint32_t mss,
			 int sack, struct rw_budget *budget);
void rw_transmitter_close(struct rw_transmitter *t);
/* The handshake is over; it took rtt_ns, or 0: not known. */
void rw_transmitter_establish(struct rw_transmitter *t, uint32_t sequence, uint32_t window_bytes, uint64_t rtt_ns,
			      int64_t now_ns);

/* An ACK arrives. Then whatever may leave, leaves. */
void rw_transmitter_acknowledge(struct rw_transmitter *t, const struct rw_sender_ack *ack);
/* There is more data (`end`). */
void rw_transmitter_push(struct rw_transmitter *t, int64_t now_ns);
/* When the timer or the pace is due, or RW_NEVER. */
static inline int64_t rw_transmitter_due_ns(const struct rw_transmitter *t)
{
	return t->release_ns < t->due_ns ? t->release_ns : t->due_ns;
}
/* The timer or the pace is due. */
void rw_transmitter_due(struct rw_transmitter *t, int64_t now_ns);

/*
 * The rate at which Linux would pace, in bytes per second, whether it does or not: what a rate-based controller says, less a hundredth
 * (draft-cardwell-iccrg-bbr-congestion-control-02 4.6.2, and as the lab's kernels do); else twice the window in a round trip below
 * half of ssthresh, then 1.2 times (ip-sysctl(7): tcp_pacing_ss_ratio, tcp_pacing_ca_ratio).
 */
uint64_t rw_transmitter_pace(const struct rw_transmitter *t);

/* How many segments leave at once, where the window allows: less than a burst may be held back. */
uint32_t rw_transmitter_burst(const struct rw_transmitter *t);

static inline uint32_t rw_transmitter_window(const struct rw_transmitter *t)
{
	uint32_t cwnd = rw_window_segments(t->shadow->connection->path[t->path].cwnd_q16);
	return cwnd ? cwnd : 1;
}

#endif
