/* Smoothed round trips and the retransmission timeout: RFC 6298 with Linux's variance. */
#ifndef RW_ROUND_TRIP_H
#define RW_ROUND_TRIP_H

#include <stdint.h>

/* A longer sample is a clock that jumped: it counts as this long. */
#define RW_RTT_MAX_NS 1000000000000ull

struct rw_round_trip {
	uint64_t srtt_ns; /* 0: no sample yet */
	uint64_t mdev_ns, mdev_max_ns, rttvar_ns;
	uint64_t least_ns;  /* the shortest sample; 0: none */
	uint32_t sequence;  /* the variance may shrink once this is acknowledged */
};

/* una, next: the first unacknowledged sequence number and the next one to be sent. */
void rw_round_trip_sample(struct rw_round_trip *r, uint64_t rtt_ns, uint32_t una, uint32_t next);
/* backoff: how many timeouts in turn there were. */
uint64_t rw_round_trip_timeout_ns(const struct rw_round_trip *r, uint32_t backoff);

#endif
