/* The queue of core-c/src/network behind a C interface that C++ can include. */
#ifndef RW_BENCH_OURS_H
#define RW_BENCH_OURS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ours;

/* What becomes of a packet. */
enum fate { FATE_PASSED, FATE_MARKED, FATE_DROPPED };

/* Bytes of each packet; its time on the link is RED's unit of idle time. */
struct ours_settings {
	int codel, ecn, gentle;
	uint32_t limit_packets, packet_bytes;
	uint64_t packet_ns, seed;
	double min_packets, max_packets, probability; /* RED's thresholds and its probability at the upper one */
	uint8_t weight_shift;
};

/* Null: out of memory. */
struct ours *ours_open(const struct ours_settings *settings);
void ours_close(struct ours *o);
/* A packet comes: its fate so far. */
enum fate ours_put(struct ours *o, int64_t now_ns, uint64_t number);
/* How many packets wait. */
uint32_t ours_waiting(const struct ours *o);
/* The link is free: 0 where nothing waits; else the oldest packet, to be called
 * again where that was dropped. */
int ours_take(struct ours *o, int64_t now_ns, uint64_t *number, enum fate *fate);

#ifdef __cplusplus
}
#endif
#endif
