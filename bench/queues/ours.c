#include "ours.h"

#include <stdlib.h>

#include "queue.h"

#define Q32 4294967296.0
#define MS 1000000

struct ours {
	struct rw_queue queue;
	struct rw_random random;
	struct ours_settings settings;
};

struct ours *ours_open(const struct ours_settings *settings)
{
	struct rw_queue_settings q = {
	    .discipline = settings->codel ? RW_CODEL : RW_RED,
	    .limit_packets = settings->limit_packets,
	    .ecn = (uint8_t)settings->ecn,
	    .red = {.min_packets = (uint32_t)settings->min_packets,
		    .max_packets = (uint32_t)settings->max_packets,
		    .max_probability_q32 = (uint32_t)(settings->probability * Q32),
		    .weight_shift = settings->weight_shift,
		    .gentle = (uint8_t)settings->gentle},
	    .codel = {.target_ns = 5 * MS, .interval_ns = 100 * MS},
	};
	struct ours *o = calloc(1, sizeof *o);
	if (!o)
		return NULL;
	rw_queue_open(&o->queue, &q);
	o->random.seed = settings->seed;
	o->settings = *settings;
	return o;
}

void ours_close(struct ours *o)
{
	rw_queue_close(&o->queue);
	free(o);
}

enum fate ours_put(struct ours *o, int64_t now_ns, uint64_t number)
{
	struct rw_parcel parcel = {
	    .user = number, .bytes = o->settings.packet_bytes, .ecn_capable = (uint8_t)(o->settings.ecn != 0)};
	switch (rw_queue_put(&o->queue, &parcel, now_ns, o->settings.packet_ns, &o->random)) {
	case RW_QUEUE_TAKEN:
		return FATE_PASSED;
	case RW_QUEUE_MARKED:
		return FATE_MARKED;
	case RW_QUEUE_FAILED:
		abort();
	default:
		return FATE_DROPPED;
	}
}

uint32_t ours_waiting(const struct ours *o) { return o->queue.waiting.count; }

int ours_take(struct ours *o, int64_t now_ns, uint64_t *number, enum fate *fate)
{
	struct rw_parcel parcel;
	enum rw_queue_take taken = rw_queue_take(&o->queue, now_ns, &parcel);
	if (taken == RW_QUEUE_EMPTY)
		return 0;
	*number = parcel.user;
	*fate = taken == RW_QUEUE_DROP ? FATE_DROPPED : parcel.marked ? FATE_MARKED : FATE_PASSED;
	return 1;
}
