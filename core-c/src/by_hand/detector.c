/* One connection's detector of shared bottlenecks, driven by hand as a replay drives it. */
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "detect.h"
#include "sbd.h"

struct rw_hand_detector {
	struct rw_detect *detect;
};

/* By hand nothing is reported: the caller asks. */
static void changed(void *to, int64_t time_ns, uint32_t path, const struct rw_detected_path *now)
{
	(void)to, (void)time_ns, (void)path, (void)now;
}

static void complete(void *to, uint32_t first) { (void)to, (void)first; }

static const struct rw_detect_sink sink = {changed, complete, NULL, NULL};

rw_status rw_hand_detector_open(rw_hand_detector **out, const rw_choice *choice, rw_error *error)
{
	int64_t option[RW_MAX_OPTIONS];
	uint32_t which;
	memset(error, 0, sizeof *error);
	rw_status status = rw_detector_options(choice, &which, option, error);
	if (status != RW_OK)
		return status;
	rw_hand_detector *w = calloc(1, sizeof *w);
	if (w)
		w->detect = rw_detect_open(which, option, INT64_MIN);
	if (!w || !w->detect) {
		free(w);
		rw_error_set(error, RW_ERROR_MEMORY, 0, 0, 0, "out of memory");
		return RW_ERROR_MEMORY;
	}
	*out = w;
	return RW_OK;
}

void rw_hand_detector_close(rw_hand_detector *w)
{
	if (w)
		rw_detect_close(w->detect);
	free(w);
}

static int is_live(const rw_hand_detector *w, uint32_t path)
{
	return path < RW_MAX_PATHS && w->detect->state->path[path].live;
}

rw_status rw_hand_detector_join(rw_hand_detector *w, int64_t time_ns, uint64_t srtt_ns, uint32_t *path, rw_error *error)
{
	uint32_t i = 0;
	while (i < RW_MAX_PATHS && is_live(w, i))
		i++;
	if (i == RW_MAX_PATHS)
		return rw_bad_value(error, "a connection has at most 8 paths");
	rw_detect_advance(w->detect, time_ns, &sink);
	rw_detect_join(w->detect, i, srtt_ns, &sink);
	*path = i;
	return RW_OK;
}

rw_status rw_hand_detector_leave(rw_hand_detector *w, uint32_t path, int64_t time_ns, rw_error *error)
{
	if (!is_live(w, path))
		return rw_bad_value(error, "no such path");
	rw_detect_advance(w->detect, time_ns, &sink);
	rw_detect_leave(w->detect, path, &sink);
	return RW_OK;
}

rw_status rw_hand_detector_congestion(rw_hand_detector *w, uint32_t path, uint32_t event, int64_t time_ns,
				      rw_error *error)
{
	if (!is_live(w, path))
		return rw_bad_value(error, "no such path");
	if (event > RW_HAND_DETECTOR_TIMEOUT)
		return rw_bad_value(error, "no such event");
	rw_detect_advance(w->detect, time_ns, &sink);
	rw_detect_congestion(w->detect, path, (enum rw_congestion)event, &sink);
	return RW_OK;
}

rw_status rw_hand_detector_delivery(rw_hand_detector *w, uint32_t path, uint32_t delivered, uint32_t lost,
				    uint64_t delay_ns, uint64_t srtt_ns, int64_t time_ns, rw_error *error)
{
	if (!is_live(w, path))
		return rw_bad_value(error, "no such path");
	uint64_t before = w->detect->state->path[path].srtt_ns;
	int64_t sample = (int64_t)(delay_ns < RW_DETECTION_DELAY_MAX ? delay_ns : RW_DETECTION_DELAY_MAX);
	if (!srtt_ns)
		srtt_ns = before && sample ? (uint64_t)((int64_t)before + (sample - (int64_t)before) / 8)
					   : before + (uint64_t)sample;
	rw_detect_advance(w->detect, time_ns, &sink);
	struct rw_delivery a = {path, delivered, lost, delay_ns};
	rw_detect_delivery(w->detect, &a, srtt_ns);
	return RW_OK;
}

void rw_hand_detector_advance(rw_hand_detector *w, int64_t time_ns) { rw_detect_advance(w->detect, time_ns, &sink); }

rw_status rw_hand_detector_path(const rw_hand_detector *w, uint32_t path, rw_hand_detector_row *row, rw_error *error)
{
	if (!is_live(w, path))
		return rw_bad_value(error, "no such path");
	const struct rw_detected_path *p = &w->detect->state->path[path];
	*row = (rw_hand_detector_row){p->set, p->state, p->srtt_ns};
	return RW_OK;
}

static const struct rw_statistic *statistic_at(const rw_hand_detector *w, uint32_t index)
{
	const struct rw_statistic *s = w->detect->detector->statistics;
	for (uint32_t i = 0; s[i].name; i++)
		if (i == index)
			return &s[i];
	return NULL;
}

void rw_hand_detector_statistic_describe(const rw_hand_detector *w, uint32_t index, rw_statistic_info *info)
{
	const struct rw_statistic *s = statistic_at(w, index);
	memset(info, 0, sizeof *info);
	if (s)
		*info = (rw_statistic_info){s->name, s->unit, s->fraction_bits};
}

rw_status rw_hand_detector_statistic(const rw_hand_detector *w, uint32_t index, uint32_t path, int64_t *value,
				     rw_error *error)
{
	if (!is_live(w, path) || !statistic_at(w, index))
		return rw_bad_value(error, "no such value");
	*value = w->detect->detector->statistic(w->detect->state, path, index);
	return RW_OK;
}

rw_status rw_sbd_group_flows(const rw_choice *choice, rw_flow_statistics *flow, uint32_t flows, rw_error *error)
{
	int64_t option[RW_MAX_OPTIONS];
	uint32_t which;
	struct rw_sbd_statistics s[RW_SBD_FLOWS];
	uint8_t group[RW_SBD_FLOWS];
	memset(error, 0, sizeof *error);
	rw_status status = rw_detector_options(choice, &which, option, error);
	if (status != RW_OK)
		return status;
	if (flows > RW_SBD_FLOWS)
		return rw_bad_value(error, "at most 64 flows");
	for (uint32_t i = 0; i < flows; i++) {
		if (flow[i].var_ns > RW_DETECTION_DELAY_MAX || flow[i].freq_q16 > RW_Q16_ONE ||
		    flow[i].loss_q16 > RW_Q16_ONE || flow[i].skew_q16 > (int64_t)RW_Q16_ONE ||
		    flow[i].skew_q16 < -(int64_t)RW_Q16_ONE)
			return rw_bad_value(error, "skew -1 to 1, freq and loss 0 to 1, var up to 1099 s");
		s[i] = (struct rw_sbd_statistics){
		    0, flow[i].var_ns, flow[i].skew_q16, flow[i].freq_q16, flow[i].loss_q16, flow[i].bottleneck};
		s[i].bottleneck = (uint8_t)rw_sbd_is_bottleneck(&s[i], option);
	}
	rw_sbd_group(s, flows, option, group);
	for (uint32_t i = 0; i < flows; i++) {
		flow[i].bottleneck = s[i].bottleneck;
		flow[i].group = group[i];
	}
	return RW_OK;
}
