/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * HyStart's two tests, as Linux makes them: whether a train of ACKs, or the least delay of a round trip, has grown too long
 * for slow start to go on. CUBIC and the estimator of slow-start thresholds keep the state of a round each in words of
 * their own, CUBIC's under the kernel's names.
 */
#ifndef RW_HYSTART_H
#define RW_HYSTART_H

#include "fixed_point.h"

#define HYSTART_TRAIN_NS 2000000 /* ACKs of one train are no further apart */
enum {
	HYSTART_SAMPLES = 8,
	HYSTART_LOW_WINDOW = 16,
	HYSTART_ACK_DELAY_US = 1000, /* the longest that a receiver is taken to delay the ACKs of a burst */
	HYSTART_MARGIN_MIN_US = 4000,
	HYSTART_MARGIN_MAX_US = 16000
};

/* Without pacing a train longer than half the delay fills the path. */
RW_INLINE int rw_hystart_train_fills(int64_t train_ns, uint32_t delay_min_us, uint32_t ack_delay_us)
{
	return train_ns > (int64_t)((delay_min_us + ack_delay_us) / 2) * 1000;
}

/* A round trip's least delay may be so much longer than the least of all. */
RW_INLINE uint32_t rw_hystart_margin_us(uint32_t delay_us)
{
	return (uint32_t)rw_min64(rw_max64(delay_us >> 3, HYSTART_MARGIN_MIN_US), HYSTART_MARGIN_MAX_US);
}

#endif
