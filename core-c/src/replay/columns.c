/* The columns of a batch: rows, marks and sets. */
#include <stdlib.h>

#include "state.h"

int rw_columns_allocate(struct columns *c, uint32_t rows, const struct choice *choice, uint32_t choices)
{
	int failed = 0;
#define COLUMN(field, n) failed |= !(c->field = calloc((n), sizeof *c->field))
	COLUMN(time_ns, rows);
	COLUMN(connection, rows);
	COLUMN(subflow, rows);
	COLUMN(una, rows);
	COLUMN(ack, rows);
	COLUMN(acked_bytes, rows);
	COLUMN(acked_segments, rows);
	COLUMN(rtt_us, rows);
	COLUMN(srtt_us, rows);
	COLUMN(in_flight_bytes, rows);
	COLUMN(window_bytes, rows);
	COLUMN(segment_bytes, rows);
	COLUMN(next, rows);
	COLUMN(position, rows);
	COLUMN(flags, rows);
	COLUMN(cwnd_before_q16, choices + 1);
	COLUMN(cwnd_q16, choices + 1);
	COLUMN(ssthresh_q16, choices + 1);
	COLUMN(phase, choices + 1);
	COLUMN(bandwidth_q24, choices + 1);
	COLUMN(pacing_q24, choices + 1);
	for (uint32_t k = 0; !failed && k < choices; k++) {
		COLUMN(cwnd_before_q16[k], rows);
		COLUMN(cwnd_q16[k], rows);
		COLUMN(ssthresh_q16[k], rows);
		COLUMN(phase[k], rows);
		if (choice[k].control->rate) {
			COLUMN(bandwidth_q24[k], rows);
			COLUMN(pacing_q24[k], rows);
		}
	}
#undef COLUMN
	return failed;
}

void rw_columns_free(struct columns *c, uint32_t choices)
{
	for (uint32_t k = 0; k < choices; k++) {
		free(c->cwnd_before_q16 ? c->cwnd_before_q16[k] : NULL);
		free(c->cwnd_q16 ? c->cwnd_q16[k] : NULL);
		free(c->ssthresh_q16 ? c->ssthresh_q16[k] : NULL);
		free(c->phase ? c->phase[k] : NULL);
		free(c->bandwidth_q24 ? c->bandwidth_q24[k] : NULL);
		free(c->pacing_q24 ? c->pacing_q24[k] : NULL);
	}
	void *all[] = {c->time_ns,
		       c->connection,
		       c->subflow,
		       c->una,
		       c->ack,
		       c->acked_bytes,
		       c->acked_segments,
		       c->rtt_us,
		       c->srtt_us,
		       c->in_flight_bytes,
		       c->window_bytes,
		       c->segment_bytes,
		       c->next,
		       c->position,
		       c->flags,
		       c->mark_time_ns,
		       c->mark_row,
		       c->mark_connection,
		       c->mark_subflow,
		       c->mark_value,
		       c->mark_kind,
		       c->mark_record,
		       c->set_record,
		       c->set_time_ns,
		       c->set_connection,
		       c->set_subflow,
		       c->set_detector,
		       c->set_state,
		       c->set_number,
		       c->cwnd_before_q16,
		       c->cwnd_q16,
		       c->ssthresh_q16,
		       c->phase,
		       c->bandwidth_q24,
		       c->pacing_q24};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

#define GROW(field)                                                                                                    \
	do {                                                                                                           \
		void *grown = realloc(c->field, room * sizeof *c->field);                                              \
		failed |= !grown;                                                                                      \
		c->field = grown ? grown : c->field;                                                                   \
	} while (0)

/* One packet may release many waiting sends, each with marks of its own. 0, or 1: out of memory. */
static int make_room_for_marks(struct columns *c)
{
	uint64_t room = c->mark_room ? c->mark_room * 2 : 1024;
	int failed = 0;
	GROW(mark_time_ns);
	GROW(mark_row);
	GROW(mark_connection);
	GROW(mark_record);
	GROW(mark_subflow);
	GROW(mark_value);
	GROW(mark_kind);
	if (!failed)
		c->mark_room = room;
	return failed;
}

static int make_room_for_sets(struct columns *c)
{
	uint64_t room = c->set_room ? c->set_room * 2 : 256;
	int failed = 0;
	GROW(set_time_ns);
	GROW(set_connection);
	GROW(set_record);
	GROW(set_subflow);
	GROW(set_detector);
	GROW(set_state);
	GROW(set_number);
	if (!failed)
		c->set_room = room;
	return failed;
}
#undef GROW

void rw_add_mark(rw_replay *r, const struct rw_flow *f, int64_t time_ns, rw_mark kind, uint32_t value)
{
	struct columns *c = &r->columns;
	if (r->marks == c->mark_room && make_room_for_marks(c)) {
		r->no_memory = 1; /* the current packet is the last one */
		return;
	}
	uint64_t i = r->marks++;
	c->mark_time_ns[i] = time_ns;
	c->mark_row[i] = r->rows_before + r->rows;
	c->mark_connection[i] = f->connection;
	c->mark_record[i] = r->oddities.record;
	c->mark_subflow[i] = f->id;
	c->mark_kind[i] = (uint8_t)kind;
	c->mark_value[i] = value;
}

void rw_add_set(rw_replay *r, const struct rw_flow *f, uint8_t detector, int64_t time_ns,
		const struct rw_detected_path *now)
{
	if (!r->detector[detector].shown)
		return;
	struct columns *c = &r->columns;
	if (r->sets == c->set_room && make_room_for_sets(c)) {
		r->no_memory = 1;
		return;
	}
	uint64_t i = r->sets++;
	c->set_time_ns[i] = time_ns;
	c->set_connection[i] = f->connection;
	c->set_record[i] = r->oddities.record;
	c->set_subflow[i] = f->id;
	c->set_detector[i] = detector;
	c->set_state[i] = now->state;
	c->set_number[i] = now->set;
}

void rw_take_mark(rw_replay *r, const struct columns *from, uint64_t i)
{
	struct columns *c = &r->columns;
	if (r->marks == c->mark_room && make_room_for_marks(c)) {
		r->no_memory = 1;
		return;
	}
	uint64_t k = r->marks++;
	c->mark_time_ns[k] = from->mark_time_ns[i];
	c->mark_row[k] = r->rows_before + r->rows;
	c->mark_connection[k] = from->mark_connection[i];
	c->mark_record[k] = from->mark_record[i];
	c->mark_subflow[k] = from->mark_subflow[i];
	c->mark_kind[k] = from->mark_kind[i];
	c->mark_value[k] = from->mark_value[i];
}

void rw_take_set(rw_replay *r, const struct columns *from, uint64_t i)
{
	struct columns *c = &r->columns;
	if (r->sets == c->set_room && make_room_for_sets(c)) {
		r->no_memory = 1;
		return;
	}
	uint64_t k = r->sets++;
	c->set_time_ns[k] = from->set_time_ns[i];
	c->set_connection[k] = from->set_connection[i];
	c->set_record[k] = from->set_record[i];
	c->set_subflow[k] = from->set_subflow[i];
	c->set_detector[k] = from->set_detector[i];
	c->set_state[k] = from->set_state[i];
	c->set_number[k] = from->set_number[i];
}

void rw_take_rows(rw_replay *r, const struct columns *from, const uint32_t *place, uint64_t rows)
{
	struct columns *c = &r->columns;
#define TAKE(field)                                                                                                    \
	do {                                                                                                           \
		__typeof__(c->field) to = c->field, of = from->field;                                                  \
		_Pragma("GCC unroll 8") for (uint64_t i = 0; i < rows; i++) to[place[i]] = of[i];                      \
	} while (0)
	TAKE(time_ns);
	TAKE(connection);
	TAKE(subflow);
	TAKE(una);
	TAKE(ack);
	TAKE(acked_bytes);
	TAKE(acked_segments);
	TAKE(rtt_us);
	TAKE(srtt_us);
	TAKE(in_flight_bytes);
	TAKE(window_bytes);
	TAKE(segment_bytes);
	TAKE(next);
	TAKE(position);
	TAKE(flags);
	for (uint32_t k = 0; k < r->choices; k++) {
		TAKE(cwnd_before_q16[k]);
		TAKE(cwnd_q16[k]);
		TAKE(ssthresh_q16[k]);
		TAKE(phase[k]);
		if (c->bandwidth_q24[k]) {
			TAKE(bandwidth_q24[k]);
			TAKE(pacing_q24[k]);
		}
	}
#undef TAKE
}
