/* Packet schedulers, driven by hand. Names, options and numbers are checked here, so that a scheduler need not check them. */
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "rw_scheduler.h"
#include "shadow.h"

struct rw_scheduling {
	const struct rw_scheduler *scheduler;
	int64_t option[RW_MAX_OPTIONS];
};

_Static_assert(sizeof((rw_sending_view *)0)->subflow / sizeof(rw_subflow_view) == RW_MAX_PATHS, "as many subflows");
_Static_assert(sizeof((rw_sending_view *)0)->span / sizeof(rw_span_view) == RW_MAX_SPANS, "as many spans");

/* Beyond any real data, and small enough that sums of two do not wrap. */
#define SEGMENTS_MAX ((uint64_t)1 << 60)
/* A thousand seconds: beyond any round trip. */
#define RTT_MAX_NS 1000000000000ull

uint32_t rw_scheduler_count(void)
{
	uint32_t n = 0;
	while (rw_scheduler_list[n])
		n++;
	return n;
}

void rw_scheduler_describe(uint32_t index, rw_scheduler_info *info)
{
	const struct rw_scheduler *s = rw_scheduler_list[index];
	*info = (rw_scheduler_info){s->name, s->source, s->rule, s->deviations, 0};
	while (s->options[info->options].name)
		info->options++;
}

void rw_scheduler_option(uint32_t index, uint32_t option, rw_option_info *info)
{
	*info = rw_option_describe(&rw_scheduler_list[index]->options[option]);
}

rw_status rw_scheduling_open(rw_scheduling **out, const rw_choice *choice, rw_error *error)
{
	memset(error, 0, sizeof *error);
	rw_scheduling *s = calloc(1, sizeof *s);
	if (!s)
		return rw_out_of_memory(error);
	rw_status status = rw_scheduler_options(choice, &s->scheduler, s->option, error);
	if (status != RW_OK) {
		free(s);
		return status;
	}
	*out = s;
	return RW_OK;
}

void rw_scheduling_close(rw_scheduling *s) { free(s); }

static const char *wrong_subflow(const rw_subflow_view *f)
{
	if (f->cwnd_q16 < RW_Q16_ONE || f->cwnd_q16 > RW_CWND_MAX_Q16)
		return "cwnd must be 1 to 1048576 segments";
	if (f->srtt_ns > RTT_MAX_NS)
		return "srtt must be at most 1000 seconds";
	if (f->beta_q32 > (uint64_t)1 << 32)
		return "beta must be 0 to 1";
	return NULL;
}

static const char *wrong_queue(const rw_sending_view *v)
{
	if (v->spans > RW_MAX_SPANS)
		return "the send queue has at most 16 spans";
	if (v->oldest > SEGMENTS_MAX || v->window_end > SEGMENTS_MAX)
		return "a data sequence is at most 2^60 segments";
	uint64_t end = 0;
	for (uint32_t i = 0; i < v->spans; i++) {
		const rw_span_view *span = &v->span[i];
		if (span->first > SEGMENTS_MAX || span->segments > SEGMENTS_MAX)
			return "a data sequence is at most 2^60 segments";
		if (span->segments == 0 || span->first < end)
			return "the spans of a send queue are not empty and do not overlap";
		end = span->first + span->segments;
	}
	return NULL;
}

static rw_status read_view(const rw_scheduling *scheduling, const rw_sending_view *v, struct rw_sending *s,
			   rw_error *error)
{
	memset(error, 0, sizeof *error);
	if (v->subflows == 0 || v->subflows > RW_MAX_PATHS)
		return rw_bad_value(error, "a scheduler chooses among 1 to 8 subflows");
	const char *wrong = wrong_queue(v);
	for (uint32_t i = 0; i < v->subflows && !wrong; i++)
		wrong = wrong_subflow(&v->subflow[i]);
	if (wrong)
		return rw_bad_value(error, wrong);
	memset(s, 0, sizeof *s);
	memcpy(s->option, scheduling->option, sizeof s->option);
	s->subflows = v->subflows;
	s->previous = v->previous;
	for (uint32_t i = 0; i < v->subflows; i++) {
		const rw_subflow_view *f = &v->subflow[i];
		s->subflow[i] = (struct rw_sender_subflow){
		    f->cwnd_q16, f->ssthresh_q16, f->srtt_ns, f->since_penalty_ns, f->beta_q32,   f->in_flight,
		    f->queued,   f->established,  f->lost,    f->backup,           f->recovering, f->group};
	}
	for (uint32_t i = 0; i < v->spans; i++)
		s->queue.span[i] = (struct rw_span){v->span[i].first, v->span[i].segments, v->span[i].sent_on};
	s->queue.spans = v->spans;
	s->queue.oldest_sent_on = v->oldest_sent_on;
	s->queue.oldest = v->oldest;
	s->queue.window_end = v->window_end;
	s->queue.buffer_segments = v->buffer_segments;
	return RW_OK;
}

rw_status rw_scheduling_pick(const rw_scheduling *scheduling, const rw_sending_view *view, rw_decision_row *row,
			     rw_error *error)
{
	struct rw_sending s;
	struct rw_decision d;
	rw_status status = read_view(scheduling, view, &s, error);
	if (status != RW_OK)
		return status;
	scheduling->scheduler->pick(&s, &d);
	*row = (rw_decision_row){d.kind, d.subflow, d.first, d.segments, d.skipped, d.penalized, {0}, {0}};
	for (uint32_t i = 0; i < s.subflows; i++)
		if (d.penalized >> i & 1) {
			rw_penalize(&s.subflow[i]);
			row->cwnd_q16[i] = s.subflow[i].cwnd_q16;
			row->ssthresh_q16[i] = s.subflow[i].ssthresh_q16;
		}
	return RW_OK;
}

rw_status rw_scheduling_forward(const rw_scheduling *scheduling, const rw_sending_view *view, uint32_t subflow,
				rw_forward_row *each, uint64_t *skipped, rw_error *error)
{
	struct rw_sending s;
	struct rw_forward f[RW_MAX_PATHS] = {0};
	rw_status status = read_view(scheduling, view, &s, error);
	if (status != RW_OK)
		return status;
	if (!scheduling->scheduler->forward) {
		rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "%s predicts nothing", scheduling->scheduler->name);
		return RW_ERROR_BAD_VALUE;
	}
	if (subflow >= s.subflows)
		return rw_bad_value(error, "no such subflow");
	*skipped = scheduling->scheduler->forward(&s, subflow, f);
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++)
		each[i] = (rw_forward_row){f[i].rounds_q24, f[i].m_q24, f[i].segments_q24};
	return RW_OK;
}
