/*
 * Data when it was sent, where it was captured later: behind a queue on the sender's own host, or away from the sender.
 *
 * A reader of its own runs ahead of the replay by as long as packets took at most. TCP's timestamps (RFC 7323) say in
 * which millisecond a packet left TCP; the packet that waited least sets the clock. Away from the sender all of
 * the round trip lies before the capture: an ACK passes here when the sender gets it, and data was sent a shortest
 * round trip before it could pass here. Without timestamps only that constant is known.
 */
#ifndef RW_LOOKAHEAD_H
#define RW_LOOKAHEAD_H

#include "flow.h"

struct rw_lookahead;

/* How the times of sending are found; anything but captured needs this reader. vantage: where the flow was captured. */
enum rw_send_times rw_send_times_of(const struct rw_flow *flow, uint8_t vantage);

/* send_times: a byte for each flow of the survey, as above; it is read until the reader is closed. */
enum rw_status rw_lookahead_open(struct rw_lookahead **lookahead, const int *fds, uint32_t files,
				 const struct rw_survey *survey, const uint8_t *send_times, rw_error *error);
void rw_lookahead_close(struct rw_lookahead *lookahead);

/* Reads ahead of a record of time_ns. RW_OK or the error. */
enum rw_status rw_lookahead_read(struct rw_lookahead *lookahead, int64_t time_ns, rw_error *error);

/*
 * Does a packet of the data sender wait for the time when it was sent? Those of the handshake, and a RST, are taken
 * as they are captured.
 */
int rw_lookahead_waits(const struct rw_flow *flow, const struct rw_packet *packet);
/*
 * The next packet that the flow's data sender had sent by now_ns, with the time of sending in it; null when there is
 * none. One that was captured by then is always given. Valid until the next call.
 */
const struct rw_packet *rw_lookahead_take(struct rw_lookahead *lookahead, uint32_t flow, int64_t now_ns);

/* The replay has had the flow's last packet. */
void rw_lookahead_end(struct rw_lookahead *lookahead, uint32_t flow);

#endif
