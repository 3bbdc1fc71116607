/*
 * RFC 8382's summary statistics of one flow's delay and loss, and its grouping of up to RW_SBD_FLOWS flows: the subflows of a
 * connection (sbd.c), or the flows of a capture.
 *
 * Time is cut into intervals that are the same for all flows. An interval without a sample does not count.
 */
#ifndef RW_SBD_H
#define RW_SBD_H

#include "rw_bottleneck.h"

enum { RW_SBD_INTERVALS = 50, RW_SBD_FLOWS = 64 };

enum {
	RW_SBD_GROUPING,
	RW_SBD_T_MS,
	RW_SBD_N,
	RW_SBD_INTERVALS_MIN,
	RW_SBD_OBSERVATIONS,
	RW_SBD_TOGETHER,
	RW_SBD_C_S,
	RW_SBD_C_H,
	RW_SBD_P_F,
	RW_SBD_P_MAD,
	RW_SBD_P_S,
	RW_SBD_P_D,
	RW_SBD_P_V,
	RW_SBD_P_L,
	RW_SBD_R_MIN
};
enum { RW_SBD_BY_STATISTICS, RW_SBD_BY_CORRELATION };

struct rw_sbd_interval {
	uint64_t mean_ns, mad_ns; /* mad_ns: sum of |delay - mean of the interval before| */
	uint32_t number;
	uint32_t samples;         /* how many the sums count; 0 in the first interval, which has no mean before it */
	int32_t balance;          /* samples below the mean of the intervals before, minus those above */
	uint32_t delivered, lost;
};

struct rw_sbd_flow {
	struct rw_sbd_interval interval[RW_SBD_INTERVALS]; /* a ring */
	uint32_t count, next;
	uint64_t base_ns, previous_ns; /* means of the last N intervals and of the last one; valid when count != 0 */
	/* of the current interval */
	uint64_t sum_ns, mad_ns;
	uint32_t samples, below, above, delivered, lost;
	uint8_t bottleneck; /* congested, by the last verdict */
};

struct rw_sbd_statistics {
	uint64_t mean_ns, var_ns;
	int64_t skew_q16;
	uint64_t freq_q16, loss_q16;
	uint8_t bottleneck; /* in: congested, by the verdict before */
};

/* option: values in the order above. */
void rw_sbd_clear(struct rw_sbd_flow *flow);
void rw_sbd_add(struct rw_sbd_flow *flow, uint64_t delay_ns, uint32_t delivered, uint32_t lost);
/* Ends an interval. 1 when it had samples. */
int rw_sbd_close(struct rw_sbd_flow *flow, const int64_t *option, uint32_t number);
void rw_sbd_summarise(const struct rw_sbd_flow *flow, const int64_t *option, struct rw_sbd_statistics *out);
int rw_sbd_is_bottleneck(const struct rw_sbd_statistics *s, const int64_t *option);
/* The group of each of n flows: flows with equal numbers are together; 0: in no group. n: at most RW_SBD_FLOWS. */
void rw_sbd_group(const struct rw_sbd_statistics *s, uint32_t n, const int64_t *option, uint8_t *group);
/*
 * Did the delays of two flows rise and fall together, with a correlation of at least R_MIN over their common intervals?
 * 0: no, 1: yes, -1: they have fewer than INTERVALS_MIN intervals in common.
 */
int rw_sbd_correlated(const struct rw_sbd_flow *a, const struct rw_sbd_flow *b, const int64_t *option);

#endif
