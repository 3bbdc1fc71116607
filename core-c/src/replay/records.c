/* The first pass: reads every record of the captures, and makes the summary. */
#include <pthread.h>
#include <stdlib.h>

#include "relay.h"
#include "rw_ways.h"
#include "state.h"

/*
 * Packets go in parcels from one stage of the first pass to the next, between threads and where the packets of many flows are
 * mixed, so that the flows of the next packets can be prefetched.
 */
enum { PARCEL_PACKETS = 128 };

struct read_packet {
	struct rw_noted noted;
	uint64_t record; /* from 1 on */
	uint64_t hash;   /* of its four-tuple, if flows are mixed */
	uint8_t tcp;
};

struct parcel {
	uint32_t count;
	struct read_packet packet[PARCEL_PACKETS];
};

/* Sixteen million packets of long transfers; fewer of short connections. */
#define JOURNAL_KIB (1u << 17)

static RW_ASIDE void count_link_type(rw_summary *s, uint32_t link_type)
{
	uint32_t i = 0;
	while (i < s->link_types && s->link_type[i] != link_type)
		i++;
	if (i == s->link_types) {
		if (i == sizeof s->link_type / sizeof *s->link_type)
			return;
		s->link_type[s->link_types++] = link_type;
	}
	s->link_type_packets[i]++;
}

/* Takes the time of any record. */
static RW_ASIDE void count_time(rw_replay *r, const struct rw_record *record, int64_t previous_ns)
{
	rw_summary *s = &r->summary;
	if (s->records == 1)
		s->first_ns = s->last_ns = record->time_ns;
	if (record->time_ns < s->first_ns)
		s->first_ns = record->time_ns;
	if (record->time_ns > s->last_ns)
		s->last_ns = record->time_ns;
	if (record->time_ns < previous_ns)
		rw_oddity_add(&r->oddities, RW_ODDITY_BACKWARD_TIMESTAMP, record->file, record->offset);
}

static void count_record(rw_replay *r, const struct rw_record *record, int64_t previous_ns)
{
	rw_summary *s = &r->summary;
	r->oddities.now_ns = record->time_ns;
	s->bytes += record->wire_bytes;
	s->records++;
	/* The short way: most records are later than all before, or have the same microsecond as the one before. */
	if (RW_SHORT_WAY(s->records > 1) && record->time_ns >= s->last_ns)
		s->last_ns = record->time_ns;
	else
		count_time(r, record, previous_ns);
	if (record->interface >= s->interfaces)
		s->interfaces = record->interface + 1;
	if (s->link_type[0] == record->link_type && s->link_types)
		s->link_type_packets[0]++;
	else
		count_link_type(s, record->link_type);
}

/* Writes the journal for later passes, while there is room. */
static void note(struct rw_survey *s, const struct rw_noted *noted)
{
	if (s->journal && rw_journal_write(s->journal, noted)) {
		rw_journal_close(s->journal);
		s->journal = NULL;
	}
}

/*
 * The first pass has two stages. The reading stage takes records from the files, counts them and decodes them; it owns the summary
 * and the oddities. The surveying stage finds each packet's flow, learns from the packet and writes it into the journal; it owns
 * the survey. With several jobs each stage is a thread.
 */
struct reading {
	rw_replay *r;
	struct rw_observation *observation;
	struct rw_fragments *fragments;
	struct rw_record record; /* with `frames`, the current aggregate */
	int64_t previous_ns;
	uint32_t originals; /* files before those that hold copies */
	uint32_t frames;    /* 1 + how many packets of an aggregate were taken; 0: the record is no aggregate */
	int got;            /* of rw_observation_next */
	rw_error error;
};

/* The next packet of an aggregate, which is one record. An aggregate without TCP gives a record without a packet. */
static RW_ASIDE int read_frame(struct reading *d, struct read_packet *p)
{
	p->tcp = rw_packet_next(&d->record, &p->noted.packet, d->fragments, &d->r->oddities) == RW_PARSE_TCP;
	int first = d->frames == 1;
	d->frames = p->tcp ? d->frames + 1 : 0;
	if (!first && p->tcp)
		d->r->as_filed = 0;
	return first || p->tcp;
}

/* The next packet, or record without a packet. 1, or 0: no more, and `got` has the reason. */
static inline int read_packet(struct reading *d, struct read_packet *p)
{
	rw_replay *r = d->r;
	p->noted.flow = RW_FLOW_NONE;
	p->noted.copy = 0;
	do {
		if (!d->frames) {
			d->got = rw_observation_next(d->observation, &d->record, &d->error);
			if (d->got <= 0)
				return 0;
			r->oddities.record++;
			if (d->record.file < d->originals) {
				count_record(r, &d->record, d->previous_ns);
				d->previous_ns = d->record.time_ns;
			}
			enum rw_parse parsed =
			    rw_packet_parse(&d->record, &p->noted.packet, d->fragments, &r->oddities);
			p->tcp = parsed == RW_PARSE_TCP;
			d->frames = parsed == RW_PARSE_SEVERAL;
		}
	} while (d->frames && !read_frame(d, p));
	p->record = r->oddities.record;
	r->summary.tcp_packets += p->tcp;
	return 1;
}

/* hash: null, or of its four-tuple. 0, or a negative rw_status. */
static inline int survey_packet(rw_replay *r, struct read_packet *p, const uint64_t *hash, rw_error *error)
{
	if (p->tcp && rw_survey_packet(&r->survey, &p->noted, hash, p->record))
		return -(int)rw_out_of_memory(error);
	note(&r->survey, &p->noted);
	return 0;
}

/* With many flows, their memory is prefetched some packets ahead. */
enum { HINT_SLOT = 12, HINT_FLOW = 6, HINT_FLOWS_MIN = 2048 };

/* The interval, in packets, at which the mixing of flows is tested. Few flows stay in the nearest caches. */
static void judge_mixture(struct rw_survey *s, uint32_t packets)
{
	s->mixed = s->flows > HINT_FLOWS_MIN && s->looked_up * 2 > packets;
	s->was_mixed |= s->mixed;
	s->looked_up = 0;
}

/* Runs both stages packet by packet, until the packets of many flows are mixed. */
static RW_FLAT int survey_one_by_one(struct reading *d, struct read_packet *p, rw_error *error)
{
	struct rw_survey *s = &d->r->survey;
	int failed = 0;
	while (!failed && !s->mixed && read_packet(d, p)) {
		failed = survey_packet(d->r, p, NULL, error);
		if (p->record % PARCEL_PACKETS == 0)
			judge_mixture(s, PARCEL_PACKETS);
	}
	return failed;
}

/* Fills `parcel`, or as much of it as there are records. */
static RW_FLAT void read_parcel(struct reading *d, struct parcel *parcel)
{
	parcel->count = 0;
	while (parcel->count < PARCEL_PACKETS && read_packet(d, &parcel->packet[parcel->count]))
		parcel->count++;
}

static inline void hint_slot(const struct rw_survey *s, struct read_packet *p)
{
	if (p->tcp)
		p->hash = rw_survey_hint_slot(s, &p->noted.packet);
}

/* 0, or a negative rw_status. */
static RW_FLAT int survey_parcel(struct rw_replay *r, struct parcel *parcel, rw_error *error)
{
	struct rw_survey *s = &r->survey;
	uint32_t hinted = s->mixed ? parcel->count : 0;
	int failed = 0;
	for (uint32_t i = 0; i < HINT_SLOT && i < hinted; i++)
		hint_slot(s, &parcel->packet[i]);
	for (uint32_t i = 0; !failed && i < parcel->count; i++) {
		struct read_packet *p = &parcel->packet[i];
		if (i + HINT_SLOT < hinted)
			hint_slot(s, &p[HINT_SLOT]);
		if (i + HINT_FLOW < hinted && p[HINT_FLOW].tcp)
			rw_survey_hint_flow(s, p[HINT_FLOW].hash);
		failed = survey_packet(r, p, hinted ? &p->hash : NULL, error);
	}
	judge_mixture(s, parcel->count);
	return failed;
}

static void *reading_thread(void *argument)
{
	struct rw_relay *relay = argument;
	struct reading *d = rw_relay_owner(relay);
	struct parcel *parcel;
	do {
		parcel = rw_relay_empty(relay);
		if (parcel)
			read_parcel(d, parcel);
		rw_relay_filled(relay, parcel && d->got > 0);
	} while (parcel && d->got > 0);
	return NULL;
}

/* Runs both stages at once. 0, or a negative rw_status, as `survey_records`. */
static int survey_in_two_threads(struct reading *d, rw_error *error)
{
	struct rw_relay *relay = rw_relay_open(sizeof(struct parcel), d);
	struct parcel *parcel;
	pthread_t thread;
	int failed = 0;
	if (!relay)
		return -(int)rw_out_of_memory(error);
	if (pthread_create(&thread, NULL, reading_thread, relay)) {
		rw_relay_close(relay);
		return 1;
	}
	while (!failed && (parcel = rw_relay_full(relay))) {
		failed = survey_parcel(d->r, parcel, error);
		rw_relay_emptied(relay);
	}
	rw_relay_stop(relay);
	pthread_join(thread, NULL);
	rw_relay_close(relay);
	return failed;
}

/* Runs both stages in turn. 0, or a negative rw_status. */
static int survey_in_one_thread(struct reading *d, rw_error *error)
{
	struct parcel *parcel = malloc(sizeof *parcel);
	int failed = 0;
	if (!parcel)
		return -(int)rw_out_of_memory(error);
	do {
		if (d->r->survey.mixed) {
			read_parcel(d, parcel);
			failed = survey_parcel(d->r, parcel, error);
		} else {
			failed = survey_one_by_one(d, parcel->packet, error);
		}
	} while (!failed && d->got > 0);
	free(parcel);
	return failed;
}

/* Surveys every record of an observation. 0, or a negative rw_status. */
static int survey_records(struct reading *d, rw_error *error)
{
	int failed = d->r->limits.jobs > 1 ? survey_in_two_threads(d, error) : 1;
	if (failed > 0) /* one thread was requested, or a second one cannot be started */
		failed = survey_in_one_thread(d, error);
	if (!failed && d->got < 0) {
		*error = d->error;
		return d->got;
	}
	return failed;
}

/* The captures themselves, without decoded copies. */
static void add_late_records(rw_replay *r, const struct rw_observation *observation)
{
	for (uint32_t file = 0; file + r->limits.copies < r->files; file++) {
		struct rw_moved moved = rw_observation_moved(observation, file);
		if (!moved.records)
			continue;
		rw_oddity_add(&r->oddities, RW_ODDITY_LATE_RECORD, file, moved.first_offset);
		r->oddities.count[RW_ODDITY_LATE_RECORD] += moved.records - 1;
	}
}

static void add_flows_beyond(rw_replay *r)
{
	const struct rw_survey *s = &r->survey;
	if (!s->beyond_packets)
		return;
	r->oddities.record = s->beyond_record;
	r->oddities.now_ns = s->beyond_ns;
	rw_oddity_add(&r->oddities, RW_ODDITY_TOO_MANY_FLOWS, s->beyond_file, s->beyond_offset);
	r->oddities.count[RW_ODDITY_TOO_MANY_FLOWS] = s->beyond_packets;
}

/* Counts an oddity of a flow, at the flow's first record. */
static void add_oddity_of(rw_replay *r, const struct rw_flow *f, enum rw_oddity which)
{
	r->oddities.record = f->first_record;
	r->oddities.now_ns = f->first_ns;
	rw_oddity_add(&r->oddities, which, f->file, f->offset);
}

/* The capture point of most of the data, and oddities of flows. */
static void judge_flows(rw_replay *r)
{
	uint64_t bytes[4] = {0};
	for (uint32_t i = 0; i < r->survey.flows; i++) {
		const struct rw_flow *f = &r->survey.flow[i];
		bytes[rw_vantage_of(f)] += f->side[f->source].bytes + 1;
		if (!f->side[0].syn && !f->side[1].syn)
			add_oddity_of(r, f, RW_ODDITY_NO_HANDSHAKE);
	}
	bytes[RW_VANTAGE_UNKNOWN] = 0;
	for (uint8_t v = 0; v < 4; v++)
		if (bytes[v] > bytes[r->summary.vantage])
			r->summary.vantage = v;
	for (uint32_t c = 0; c < r->survey.connections; c++)
		if (r->survey.connection[c].unmatched)
			add_oddity_of(r, &r->survey.flow[r->survey.connection[c].first_flow], RW_ODDITY_UNMATCHED_JOIN);
}

rw_status rw_records_survey(rw_replay *r, rw_error *error)
{
	struct rw_observation *observation;
	rw_status status = rw_observation_open(&observation, r->fds, r->files, &r->oddities, error);
	if (status != RW_OK)
		return status;
	rw_observation_map(observation);
	struct rw_fragments *fragments = rw_fragments_open();
	r->survey.journal =
	    rw_journal_open((uint64_t)(r->limits.journal_kib ? r->limits.journal_kib : JOURNAL_KIB) << 10);
	r->as_filed = 1;
	struct reading reading = {.r = r,
				  .observation = observation,
				  .fragments = fragments,
				  .previous_ns = INT64_MIN,
				  .originals = r->limits.copies < r->files ? r->files - r->limits.copies : 0};
	int got = fragments && r->survey.journal ? survey_records(&reading, error) : -(int)rw_out_of_memory(error);
	r->summary.packets = r->summary.records;
	if (fragments)
		r->oddities.count[RW_ODDITY_LOST_FRAGMENT] = rw_fragments_lost(fragments);
	rw_fragments_close(fragments);
	add_late_records(r, observation);
	r->as_filed &= (uint8_t)rw_observation_is_as_filed(observation);
	rw_observation_close(observation);
	if (got < 0)
		return (rw_status)-got;
	if (rw_survey_finish(&r->survey))
		return rw_out_of_memory(error);
	add_flows_beyond(r);
	judge_flows(r);
	return RW_OK;
}

/* Whether it was found during the reading of the record, before the record was counted. */
static int is_counted_late(const rw_replay *r, uint32_t oddity)
{
	return !r->as_filed || oddity == RW_ODDITY_BAD_TIMESTAMP || oddity == RW_ODDITY_NO_TIMESTAMP ||
	       oddity == RW_ODDITY_DROPPED_PACKETS;
}

void rw_records_number(rw_replay *r)
{
	struct rw_oddity_counts *o = &r->oddities;
	for (uint32_t file = 0; file < r->files; file++) {
		struct rw_place place[RW_ODDITY_COUNT];
		uint32_t which[RW_ODDITY_COUNT], places = 0;
		for (uint32_t i = 0; i < RW_ODDITY_COUNT; i++)
			if (o->count[i] && i != RW_ODDITY_LOST_FRAGMENT && is_counted_late(r, i) &&
			    o->first_file[i] == file) {
				place[places].offset = o->first_offset[i];
				which[places++] = i;
			}
		if (places)
			rw_capture_find(r->fds[file], place, places);
		for (uint32_t k = 0; k < places; k++) {
			o->first_record[which[k]] = place[k].record;
			o->first_ns[which[k]] = place[k].time_ns;
		}
	}
}
