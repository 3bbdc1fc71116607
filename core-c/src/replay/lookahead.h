/*
 * Delivers data at its send time where it was captured later: behind a queue on the sender's own host, or away from the sender.
 *
 * A second reader runs ahead of the replay, by the longest delay of packets. TCP timestamps (RFC 7323) tell in which millisecond a
 * packet left TCP; the packet that waited least sets the clock. Away from the sender, the time at which an ACK passes the capture
 * point counts as its arrival at the sender, so that data was sent at least a shortest round trip before it passes. Without
 * timestamps only this constant is known.
 */
#ifndef RW_LOOKAHEAD_H
#define RW_LOOKAHEAD_H

#include "flow.h"

struct rw_lookahead;

/* How a flow's send times are found; all ways but `captured` need this reader. vantage: where the flow was captured. */
enum rw_send_times rw_send_times_of(const struct rw_flow *flow, uint8_t vantage);

/* send_times: a byte for each flow of the survey, as above; it must live as long as the reader. */
enum rw_status rw_lookahead_open(struct rw_lookahead **lookahead, const int *fds, uint32_t files,
				 const struct rw_survey *survey, const uint8_t *send_times, rw_error *error);
void rw_lookahead_close(struct rw_lookahead *lookahead);

/* Reads ahead of a record of time_ns. RW_OK or the error. */
enum rw_status rw_lookahead_read(struct rw_lookahead *lookahead, int64_t time_ns, rw_error *error);

/*
 * Whether a packet of the data sender is replayed at its send time. Packets of the handshake, and a RST, are replayed at their
 * capture times.
 */
int rw_lookahead_waits(const struct rw_flow *flow, const struct rw_packet *packet);
/*
 * The next packet that the flow's data sender had sent by now_ns, with its send time; null: none. A packet that was captured by
 * then is always returned. Valid until the next call.
 */
const struct rw_packet *rw_lookahead_take(struct rw_lookahead *lookahead, uint32_t flow, int64_t now_ns);

/* The replay has processed the flow's last packet. */
void rw_lookahead_end(struct rw_lookahead *lookahead, uint32_t flow);

#endif
