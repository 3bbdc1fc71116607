#include "jobs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "rw_ways.h"
#include "search.h"
#include "state.h"

/* A thread that waits for slices, or for room for them, wakes once there are several: to sleep takes longer than a slice. */
enum { SLICE_RECORDS = 4096, WORKERS_MAX = 64, SLICES = 6, SEVERAL = SLICES / 2 };

/* An event for the comparison of all flows. */
struct told {
	uint64_t record;
	int64_t time_ns;
	uint64_t rtt_ns;
	uint32_t flow, delivered, newly_lost;
	uint16_t steps;
	uint8_t kind, state_after, over;
};

struct rw_slice {
	struct columns columns;
	uint64_t *record; /* the record of each row, and UINT64_MAX after the last one */
	uint64_t rows, marks, sets, done_bytes;
	struct told *told;
	uint64_t told_count, told_room;
	struct rw_violations **violations;
	uint64_t violations_count, violations_room;
	rw_error error;
	uint8_t ended;
	uint32_t *place; /* the place of each merged row in the batch */
	uint64_t row, mark, set; /* the next of each to be merged */
};

struct worker {
	rw_replay
	    view; /* the worker's copy of the replay: tables of flows and connections are shared, results are its own */
	struct rw_flow_index index;
	struct rw_jobs *jobs;
	uint8_t number, running;
	uint32_t shares; /* a bit for each share of the flows that has some of its own */
	pthread_t thread;
	struct rw_noted noted; /* the packet that was read last */
	uint64_t record; /* its number */
	uint8_t waits; /* it belongs to a later slice */
	struct rw_slice slice[SLICES];
	uint64_t made, merged; /* numbers of slices */
	uint8_t over; /* an error ended it, which its last slice has */
};

struct rw_jobs {
	pthread_mutex_t lock;
	pthread_cond_t made, merged; /* the merging thread waits for the one, workers for the other */
	uint32_t workers, slice_records;
	uint8_t stop;
	uint8_t shared; /* some connection has flows in the shares of two workers */
	uint64_t done_bytes;
	uint8_t *worker_of; /* of each flow */
	struct worker *worker;
};

/* Makes room for one more element in an array. 0, or 1: out of memory. */
static int grow(void **array, uint64_t count, uint64_t *room, size_t bytes)
{
	if (count < *room)
		return 0;
	uint64_t more = *room ? *room * 2 : 64;
	void *grown = realloc(*array, more * bytes);
	if (!grown)
		return 1;
	*array = grown;
	*room = more;
	return 0;
}

int rw_slice_tell_bottlenecks(struct rw_slice *s, uint64_t record, uint32_t flow, const struct rw_event *e)
{
	if (grow((void **)&s->told, s->told_count, &s->told_room, sizeof *s->told))
		return 1;
	struct told *t = &s->told[s->told_count++];
	*t = (struct told){.record = record, .flow = flow, .over = !e};
	if (e) {
		t->time_ns = e->time_ns;
		t->rtt_ns = e->rtt_ns;
		t->delivered = e->delivered;
		t->newly_lost = e->newly_lost;
		t->steps = e->steps;
		t->kind = e->kind;
		t->state_after = e->state_after;
	}
	return 0;
}

int rw_slice_tell_violations(struct rw_slice *s, struct rw_violations *v)
{
	if (grow((void **)&s->violations, s->violations_count, &s->violations_room, sizeof *s->violations))
		return 1;
	s->violations[s->violations_count++] = v;
	return 0;
}

static RW_FLAT rw_status fill(struct worker *w, struct rw_slice *s)
{
	rw_replay *r = &w->view;
	struct rw_noted *noted = &w->noted;
	uint64_t last = (w->made + 1) * w->jobs->slice_records;
	r->columns = s->columns;
	r->slice = s;
	r->rows = r->marks = r->sets = 0;
	s->told_count = s->violations_count = 0;
	rw_status status = RW_OK;
	while (status == RW_OK) {
		if (!w->waits) {
			int got = rw_pass_next(r->pass, noted, &s->error);
			if (got <= 0) {
				s->ended = 1;
				status = (rw_status)-got;
				break;
			}
			rw_pass_count(&r->survey, noted, &w->record);
		}
		w->waits = w->record > last;
		if (w->waits)
			break;
		r->oddities.record = w->record;
		if (noted->flow == RW_FLOW_NONE || w->jobs->worker_of[noted->flow] != w->number)
			continue;
		uint64_t rows = r->rows;
		status = rw_replay_step(r, noted, &s->error);
		if (r->rows != rows)
			s->record[rows] = r->oddities.record;
	}
	if (status == RW_OK && (r->no_memory || r->recording.no_memory))
		status = rw_out_of_memory(&s->error);
	s->columns = r->columns; /* the arrays of marks and sets may have moved */
	s->rows = r->rows;
	s->record[s->rows] = UINT64_MAX;
	s->marks = r->marks;
	s->sets = r->sets;
	s->done_bytes = rw_pass_offset(r->pass, r->total_bytes);
	s->error.status = (int32_t)status;
	return status;
}

static void *work(void *argument)
{
	struct worker *w = argument;
	struct rw_jobs *j = w->jobs;
	pthread_mutex_lock(&j->lock);
	for (;;) {
		if (w->made - w->merged == SLICES)
			while (!j->stop && w->made - w->merged > SEVERAL)
				pthread_cond_wait(&j->merged, &j->lock);
		if (j->stop || w->over)
			break;
		struct rw_slice *s = &w->slice[w->made % SLICES];
		pthread_mutex_unlock(&j->lock);
		int failed = fill(w, s) != RW_OK; /* after the end it fills empty slices until it is stopped */
		pthread_mutex_lock(&j->lock);
		w->over = (uint8_t)failed;
		w->made++;
		if (failed || w->made - w->merged == SEVERAL)
			pthread_cond_signal(&j->made);
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

/* Gives each share of the connections to the worker with the fewest packets so far, the largest share first. */
static void deal_out(const struct rw_jobs *j, const struct rw_survey *survey, uint8_t worker_of[RW_SHARES])
{
	uint64_t packets[RW_SHARES] = {0}, load[WORKERS_MAX] = {0};
	for (uint32_t i = 0; i < survey->flows; i++) {
		const struct rw_flow *f = &survey->flow[i];
		packets[survey->connection[f->connection].share] += f->side[0].packets + f->side[1].packets + 1;
	}
	for (uint32_t round = 0; round < RW_SHARES; round++) {
		uint32_t share = 0;
		uint8_t least = 0;
		for (uint32_t i = 1; i < RW_SHARES; i++)
			if (packets[i] > packets[share])
				share = i;
		for (uint32_t i = 1; i < j->workers; i++)
			if (load[i] < load[least])
				least = (uint8_t)i;
		worker_of[share] = least;
		load[least] += packets[share];
		packets[share] = 0;
	}
}

/* Which worker has each flow, and of which shares each worker has to read: its own, and those of its connections' other subflows. */
static void assign_flows(struct rw_jobs *j, const struct rw_survey *survey)
{
	uint8_t worker_of[RW_SHARES] = {0};
	if (survey->shards)
		for (uint32_t share = 0; share < RW_SHARES; share++)
			worker_of[share] = (uint8_t)(share % survey->shards % j->workers);
	else
		deal_out(j, survey, worker_of);
	for (uint32_t i = 0; i < survey->flows; i++) {
		const struct rw_flow *f = &survey->flow[i];
		j->worker_of[i] = worker_of[survey->connection[f->connection].share];
		j->worker[j->worker_of[i]].shares |= 1u << f->share;
		j->shared |= worker_of[f->share] != j->worker_of[i];
	}
}

static rw_status open_slices(struct rw_jobs *j, struct worker *w)
{
	for (int i = 0; i < SLICES; i++) {
		struct rw_slice *s = &w->slice[i];
		s->record = calloc(j->slice_records + 1, sizeof *s->record);
		s->place = calloc(j->slice_records, sizeof *s->place);
		if (!s->record || !s->place ||
		    rw_columns_allocate(&s->columns, j->slice_records, w->view.choice, w->view.choices))
			return RW_ERROR_MEMORY;
	}
	return RW_OK;
}

/* From the files: no journal has its packets. */
static int is_read_again(const struct rw_survey *s) { return !s->journal && !s->shards; }

static rw_status open_worker(struct rw_jobs *j, struct worker *w, rw_replay *r, rw_error *error)
{
	w->jobs = j;
	w->number = (uint8_t)(w - j->worker);
	w->view = *r;
	rw_replay *v = &w->view;
	v->pass = NULL;
	v->outcomes = NULL;
	memset(&v->oddities, 0, sizeof v->oddities);
	v->recording.owner = v;
	if (open_slices(j, w) != RW_OK ||
	    (is_read_again(&r->survey) && rw_flow_index_copy(&w->index, &r->survey.index)))
		return rw_out_of_memory(error);
	return rw_pass_open(&v->pass, r->fds, r->files, &r->survey, &w->index, w->shares,
			    r->survey.shards && !j->shared, error);
}

rw_status rw_jobs_open(struct rw_jobs **out, rw_replay *r, rw_error *error)
{
	uint32_t workers = r->limits.jobs < RW_SHARES ? r->limits.jobs : RW_SHARES;
	/* Logging steps, reading ahead and a bound on all segments need one thread. */
	if (workers < 2 || r->survey.connections < 2 || r->lookahead || r->limits.transitions ||
	    r->limits.total_segments)
		return RW_OK;
	struct rw_jobs *j = calloc(1, sizeof *j);
	if (!j)
		return rw_out_of_memory(error);
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->made, NULL);
	pthread_cond_init(&j->merged, NULL);
	j->slice_records = r->batch_rows < SLICE_RECORDS ? r->batch_rows : SLICE_RECORDS;
	j->workers = workers;
	j->worker_of = calloc(r->survey.flows, 1);
	j->worker = calloc(workers, sizeof *j->worker);
	rw_status status = j->worker_of && j->worker ? RW_OK : rw_out_of_memory(error);
	if (status == RW_OK)
		assign_flows(j, &r->survey);
	for (uint32_t i = 0; status == RW_OK && i < workers; i++)
		status = open_worker(j, &j->worker[i], r, error);
	for (uint32_t i = 0; status == RW_OK && i < workers; i++) {
		if (pthread_create(&j->worker[i].thread, NULL, work, &j->worker[i]))
			status = rw_out_of_memory(error);
		else
			j->worker[i].running = 1;
	}
	if (status != RW_OK) {
		rw_jobs_stop(j);
		rw_jobs_close(j);
		return status;
	}
	*out = j;
	return RW_OK;
}

void rw_jobs_stop(struct rw_jobs *j)
{
	pthread_mutex_lock(&j->lock);
	j->stop = 1;
	pthread_cond_broadcast(&j->merged);
	pthread_mutex_unlock(&j->lock);
	for (uint32_t i = 0; j->worker && i < j->workers; i++)
		if (j->worker[i].running)
			pthread_join(j->worker[i].thread, NULL);
}

void rw_jobs_close(struct rw_jobs *j)
{
	for (uint32_t i = 0; j->worker && i < j->workers; i++) {
		struct worker *w = &j->worker[i];
		for (int k = 0; k < SLICES; k++) {
			rw_columns_free(&w->slice[k].columns, w->slice[k].columns.phase ? w->view.choices : 0);
			free(w->slice[k].record);
			free(w->slice[k].place);
			free(w->slice[k].told);
			free(w->slice[k].violations);
		}
		rw_outcomes_free(w->view.outcomes);
		rw_pass_close(w->view.pass);
		rw_flow_index_close(&w->index);
	}
	free(j->worker);
	free(j->worker_of);
	pthread_cond_destroy(&j->made);
	pthread_cond_destroy(&j->merged);
	pthread_mutex_destroy(&j->lock);
	free(j);
}

uint64_t rw_jobs_progress(const struct rw_jobs *j) { return j->done_bytes; }

/* The record of a slice's next mark or set; UINT64_MAX: no more. */
static uint64_t next_mark_or_set(const struct rw_slice *s)
{
	uint64_t least = UINT64_MAX;
	if (s->mark < s->marks && s->columns.mark_record[s->mark] < least)
		least = s->columns.mark_record[s->mark];
	if (s->set < s->sets && s->columns.set_record[s->set] < least)
		least = s->columns.set_record[s->set];
	return least;
}

/* The record of a slice's next result; UINT64_MAX: no more. */
static uint64_t next_record(const struct rw_slice *s)
{
	uint64_t row = s->record[s->row], other = next_mark_or_set(s);
	return row < other ? row : other;
}

/* The short way: places the rows of all records before the next one with a mark or a set. */
static void merge_rows(rw_replay *r, struct rw_slice *const *slice, uint32_t slices)
{
	uint64_t end = UINT64_MAX, place = r->rows;
	for (uint32_t i = 0; i < slices; i++) {
		uint64_t other = next_mark_or_set(slice[i]);
		end = other < end ? other : end;
	}
	for (;;) {
		struct rw_slice *first = NULL;
		uint64_t least = end, second = end;
		for (uint32_t i = 0; i < slices; i++) {
			uint64_t record = slice[i]->record[slice[i]->row];
			if (record < least) {
				second = least;
				least = record;
				first = slice[i];
			} else if (record < second) {
				second = record;
			}
		}
		if (!first)
			break;
		uint64_t row = first->row;
		while (first->record[row] < second)
			first->place[row++] = (uint32_t)place++;
		first->row = row;
	}
	r->rows = place;
}

/* Takes all results of one record from a slice. */
static void merge_record(rw_replay *r, struct rw_slice *s, uint64_t record)
{
	const struct columns *c = &s->columns;
	for (;;) {
		for (; s->mark < s->marks && c->mark_record[s->mark] == record && c->mark_row[s->mark] <= s->row;
		     s->mark++)
			rw_take_mark(r, c, s->mark);
		if (s->row == s->rows || s->record[s->row] != record)
			break;
		s->place[s->row++] = (uint32_t)r->rows++;
	}
	for (; s->set < s->sets && c->set_record[s->set] == record; s->set++)
		rw_take_set(r, c, s->set);
}

static uint64_t rows_before(const struct rw_slice *s, uint64_t record)
{
	struct rw_search before = {0, s->rows};
	while (rw_search_goes_on(&before))
		rw_search_answer(&before, s->record[rw_search_middle(&before)] < record);
	return before.low;
}

/* first: rows of the whole replay before these slices. */
static void place_violations(struct rw_slice *const *slice, uint32_t slices, uint64_t first)
{
	for (uint32_t i = 0; i < slices; i++)
		for (uint64_t k = 0; k < slice[i]->violations_count; k++) {
			struct rw_violations *v = slice[i]->violations[k];
			uint64_t row = first;
			for (uint32_t n = 0; n < slices; n++)
				row += rows_before(slice[n], v->first_row);
			v->first_row = row;
		}
}

static rw_status tell_bottlenecks(rw_replay *r, struct rw_slice *const *slice, uint32_t slices, rw_error *error)
{
	uint64_t at[WORKERS_MAX] = {0};
	for (;;) {
		uint32_t first = slices;
		for (uint32_t i = 0; i < slices; i++)
			if (at[i] < slice[i]->told_count &&
			    (first == slices || slice[i]->told[at[i]].record < slice[first]->told[at[first]].record))
				first = i;
		if (first == slices)
			return RW_OK;
		const struct told *t = &slice[first]->told[at[first]++];
		struct rw_event e = {.time_ns = t->time_ns,
				     .rtt_ns = t->rtt_ns,
				     .delivered = t->delivered,
				     .newly_lost = t->newly_lost,
				     .steps = t->steps,
				     .kind = t->kind,
				     .state_after = t->state_after};
		if (t->over)
			rw_shared_bottlenecks_end(r->shared_bottlenecks, t->flow);
		else if (rw_shared_bottlenecks_event(r->shared_bottlenecks, t->flow, &e))
			return rw_out_of_memory(error);
	}
}

static rw_status merge(rw_replay *r, struct rw_slice *const *slice, uint32_t slices, rw_error *error)
{
	uint64_t first = r->rows_before + r->rows;
	for (uint32_t i = 0; i < slices; i++)
		slice[i]->row = slice[i]->mark = slice[i]->set = 0;
	for (;;) {
		if (RW_SHORT_WAY(1))
			merge_rows(r, slice, slices);
		uint64_t least = UINT64_MAX;
		uint32_t from = 0;
		for (uint32_t i = 0; i < slices; i++) {
			uint64_t record = next_record(slice[i]);
			if (record < least) {
				least = record;
				from = i;
			}
		}
		if (least == UINT64_MAX)
			break;
		merge_record(r, slice[from], least);
	}
	for (uint32_t i = 0; i < slices; i++)
		rw_take_rows(r, &slice[i]->columns, slice[i]->place, slice[i]->rows);
	place_violations(slice, slices, first);
	if (r->no_memory)
		return rw_out_of_memory(error);
	return r->shared_bottlenecks ? tell_bottlenecks(r, slice, slices, error) : RW_OK;
}

/* Adds up the workers' counts. */
static void count_all(struct rw_jobs *j, rw_replay *r)
{
	struct rw_oddity_counts second = {0}, *o = &r->oddities;
	for (uint32_t i = 0; i < j->workers; i++)
		rw_oddities_join(&second, &j->worker[i].view.oddities);
	/* What the first pass has found already stays the first. */
	for (uint32_t i = 0; i < RW_ODDITY_COUNT; i++)
		if (r->surveyed_oddities >> i & 1) {
			o->count[i] += second.count[i];
			second.count[i] = 0;
		}
	rw_oddities_join(o, &second);
	for (uint32_t i = 0; i < j->workers; i++)
		r->recording.transitions += j->worker[i].view.recording.transitions;
}

/* Waits until every worker has made slices that are not merged. The lock is held. */
static void wait_for_slices(struct rw_jobs *j)
{
	uint32_t have = 0, several = 0;
	for (uint32_t i = 0; i < j->workers; i++)
		have += j->worker[i].made != j->worker[i].merged;
	while (have < j->workers && several < j->workers) {
		pthread_cond_wait(&j->made, &j->lock);
		several = 0;
		for (uint32_t i = 0; i < j->workers; i++)
			several += j->worker[i].over || j->worker[i].made - j->worker[i].merged >= SEVERAL;
	}
}

rw_status rw_jobs_next(struct rw_jobs *j, rw_replay *r, int *ended, rw_error *error)
{
	struct rw_slice *slice[WORKERS_MAX];
	*ended = 0;
	while (!*ended && r->rows + j->slice_records <= r->batch_rows && r->marks < r->batch_rows) {
		*ended = 1;
		pthread_mutex_lock(&j->lock);
		wait_for_slices(j);
		for (uint32_t i = 0; i < j->workers; i++)
			slice[i] = &j->worker[i].slice[j->worker[i].merged % SLICES];
		pthread_mutex_unlock(&j->lock);
		for (uint32_t i = 0; i < j->workers; i++) {
			if (slice[i]->error.status != RW_OK) {
				*error = slice[i]->error;
				return (rw_status)error->status;
			}
			*ended &= slice[i]->ended;
		}
		rw_status status = merge(r, slice, j->workers, error);
		if (status != RW_OK)
			return status;
		j->done_bytes = slice[0]->done_bytes;
		pthread_mutex_lock(&j->lock);
		int waited_for = 0;
		for (uint32_t i = 0; i < j->workers; i++)
			waited_for |= j->worker[i].made - ++j->worker[i].merged == SEVERAL;
		if (waited_for)
			pthread_cond_broadcast(&j->merged);
		pthread_mutex_unlock(&j->lock);
	}
	if (*ended) {
		rw_jobs_stop(j);
		for (uint32_t i = 0; i < j->workers; i++)
			j->worker[i].running = 0;
		count_all(j, r);
	}
	return RW_OK;
}
