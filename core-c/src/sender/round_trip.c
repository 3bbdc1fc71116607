#include "round_trip.h"

#include "sequence.h"

#define MS 1000000ull
#define RTO_MIN_NS (200 * MS)
#define RTO_INITIAL_NS (1000 * MS)
#define RTO_MAX_NS (120000 * MS)
/* An ACK that is too fast for the clock took this long. */
#define RTT_MIN_NS 1000

enum { BACKOFF_MAX = 10 };

uint64_t rw_round_trip_timeout_ns(const struct rw_round_trip *r, uint32_t backoff)
{
	uint64_t rto = r->srtt_ns ? r->srtt_ns + r->rttvar_ns : RTO_INITIAL_NS;
	if (rto > RTO_MAX_NS)
		return RTO_MAX_NS;
	rto <<= backoff < BACKOFF_MAX ? backoff : BACKOFF_MAX;
	return rto < RTO_MAX_NS ? rto : RTO_MAX_NS;
}

static void first_sample(struct rw_round_trip *r, uint64_t rtt_ns, uint32_t next)
{
	r->srtt_ns = rtt_ns;
	r->mdev_ns = rtt_ns / 2;
	r->rttvar_ns = 4 * r->mdev_ns > RTO_MIN_NS ? 4 * r->mdev_ns : RTO_MIN_NS;
	r->mdev_max_ns = r->rttvar_ns;
	r->sequence = next;
}

/* The variance is the largest deviation of a round trip, at least RTO_MIN_NS, and falls by a quarter in each round trip. */
void rw_round_trip_sample(struct rw_round_trip *r, uint64_t rtt_ns, uint32_t una, uint32_t next)
{
	if (rtt_ns == 0)
		rtt_ns = RTT_MIN_NS;
	if (rtt_ns > RW_RTT_MAX_NS)
		rtt_ns = RW_RTT_MAX_NS;
	if (!r->least_ns || rtt_ns < r->least_ns)
		r->least_ns = rtt_ns;
	if (!r->srtt_ns) {
		first_sample(r, rtt_ns, next);
		return;
	}
	int64_t error = (int64_t)rtt_ns - (int64_t)r->srtt_ns;
	r->srtt_ns = (uint64_t)((int64_t)r->srtt_ns + error / 8);
	int64_t size = error < 0 ? -error : error, mdev = (int64_t)r->mdev_ns;
	int64_t change = size - mdev;
	/*
	 * The gain is 1/4, and 1/32 where the round trip has suddenly become shorter, which must not raise the timeout. Rounded
	 * towards 0. A branch on the sign of the error could not be predicted.
	 */
	int shift = 2 + 3 * ((error < 0) & (change > 0));
	mdev += (change + (change < 0 ? 3 : 0)) >> shift;
	r->mdev_ns = mdev > 0 ? (uint64_t)mdev : 0;
	uint64_t deviation = 4 * r->mdev_ns;
	if (deviation > r->mdev_max_ns)
		r->mdev_max_ns = deviation;
	if (r->mdev_max_ns > r->rttvar_ns)
		r->rttvar_ns = r->mdev_max_ns;
	if (rw_seq_diff(una, r->sequence) > 0) {
		if (r->mdev_max_ns < r->rttvar_ns)
			r->rttvar_ns -= (r->rttvar_ns - r->mdev_max_ns) / 4;
		r->sequence = next;
		r->mdev_max_ns = RTO_MIN_NS;
	}
}
