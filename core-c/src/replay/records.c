/* The first pass: reads every record of the captures, and makes the summary. */
#include <pthread.h>
#include <stdlib.h>

#include "stretches.h"
#include "rw_ways.h"
#include "state.h"

/* While packets of many flows are mixed, they go in parcels, so that the flows of the next packets can be prefetched. */
enum { PARCEL_PACKETS = 128 };

struct read_packet {
	struct rw_noted noted;
	uint64_t hash; /* of its four-tuple, if flows are mixed */
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
static RW_ASIDE void count_time(rw_summary *s, struct rw_oddity_counts *oddities, const struct rw_record *record,
				int64_t previous_ns)
{
	if (s->records == 1)
		s->first_ns = s->last_ns = record->time_ns;
	if (record->time_ns < s->first_ns)
		s->first_ns = record->time_ns;
	if (record->time_ns > s->last_ns)
		s->last_ns = record->time_ns;
	if (record->time_ns < previous_ns)
		rw_oddity_add(oddities, RW_ODDITY_BACKWARD_TIMESTAMP, record->file, record->offset);
}

static void count_record(rw_summary *s, struct rw_oddity_counts *oddities, const struct rw_record *record,
			 int64_t previous_ns)
{
	oddities->now_ns = record->time_ns;
	s->bytes += record->wire_bytes;
	s->records++;
	/* The short way: most records are later than all before, or have the same microsecond as the one before. */
	if (RW_SHORT_WAY(s->records > 1) && record->time_ns >= s->last_ns)
		s->last_ns = record->time_ns;
	else
		count_time(s, oddities, record, previous_ns);
	if (record->interface >= s->interfaces)
		s->interfaces = record->interface + 1;
	if (s->link_type[0] == record->link_type && s->link_types)
		s->link_type_packets[0]++;
	else
		count_link_type(s, record->link_type);
}

/* Writes the journal for later passes, while there is room. divided: one of several threads writes it. */
static void note(struct rw_survey *s, int divided, struct rw_noted *noted)
{
	int full = s->journal &&
		   (divided ? rw_journal_write_numbered(s->journal, noted) : rw_journal_write(s->journal, noted));
	if (full) {
		rw_journal_close(s->journal);
		s->journal = NULL;
	}
}

/*
 * The first pass has two stages. The reading stage takes records from the files, counts them and decodes them. The surveying stage
 * finds each packet's flow, learns from the packet and writes it into the journal.
 */
struct reading {
	struct rw_survey *survey;
	rw_summary *summary;
	struct rw_oddity_counts *oddities;
	struct rw_observation *observation;
	struct rw_fragments *fragments;
	struct rw_record record; /* with `frames`, the current aggregate */
	int64_t previous_ns;
	uint32_t originals; /* files before those that hold copies */
	uint32_t frames;    /* 1 + how many packets of an aggregate were taken; 0: the record is no aggregate */
	uint8_t as_filed;   /* each packet is a record of its own */
	int got;            /* of rw_observation_next */
	rw_error error;
	uint8_t thread_of[RW_SHARES]; /* for which it reads stretches */
	/* One of several threads, which takes its parts of the stretches. */
	struct rw_stretches *stretches;
	uint32_t thread;
	const struct rw_piece *piece, *end;
};

static inline void count_read(struct reading *d)
{
	d->oddities->record++;
	if (d->record.file < d->originals) {
		count_record(d->summary, d->oddities, &d->record, d->previous_ns);
		d->previous_ns = d->record.time_ns;
	}
}

/* The next record, which it counts. 1, or 0: no more, and `got` has the reason. */
static inline int read_record(struct reading *d)
{
	d->got = rw_observation_next(d->observation, &d->record, &d->error);
	if (d->got <= 0)
		return 0;
	count_read(d);
	return 1;
}

/* The next packet of an aggregate, which is one record. An aggregate without TCP gives a record without a packet. */
static RW_ASIDE int read_frame(struct reading *d, struct read_packet *p)
{
	p->tcp = rw_packet_next(&d->record, &p->noted.packet, d->fragments, d->oddities) == RW_PARSE_TCP;
	int first = d->frames == 1;
	d->frames = p->tcp ? d->frames + 1 : 0;
	if (!first && p->tcp)
		d->as_filed = 0;
	return first || p->tcp;
}

/* The next packet, or record without a packet. 1, or 0: no more, and `got` has the reason. */
static inline int read_packet(struct reading *d, struct read_packet *p)
{
	p->noted.flow = RW_FLOW_NONE;
	p->noted.copy = 0;
	do {
		if (!d->frames) {
			if (!read_record(d))
				return 0;
			enum rw_parse parsed = rw_packet_parse(&d->record, &p->noted.packet, d->fragments, d->oddities);
			p->tcp = parsed == RW_PARSE_TCP;
			d->frames = parsed == RW_PARSE_SEVERAL;
		}
	} while (d->frames && !read_frame(d, p));
	p->noted.record = d->oddities->record;
	d->summary->tcp_packets += p->tcp;
	return 1;
}

/* Puts a record into a stretch, into the part of the thread to which its first bytes tell that it belongs. 0: there is no place for it. */
static inline int sort_record(struct reading *d, struct rw_stretch *b)
{
	uint32_t share = 0;
	struct rw_packet *packet = NULL;
	if (!rw_record_share(&d->record, &share)) {
		packet = &b->packet[b->packets++];
		enum rw_parse parsed = rw_packet_parse(&d->record, packet, d->fragments, d->oddities);
		if (parsed == RW_PARSE_SEVERAL) {
			d->as_filed = 0;
			return 0;
		}
		if (parsed == RW_PARSE_TCP)
			share = rw_packet_share(packet);
		else
			packet->family = 0;
	}
	struct rw_part *part = &b->part[d->thread_of[share]];
	struct rw_piece *piece = &part->piece[part->count++];
	piece->record = d->record;
	piece->number = d->oddities->record;
	piece->packet = packet;
	b->records++;
	return 1;
}

/* Reads a stretch of records for several threads: the next one, and those behind it that its buffer has. */
static RW_FLAT int read_stretch(void *owner, struct rw_stretch *b)
{
	struct reading *d = owner;
	if (rw_observation_lend(d->observation, &b->buffer)) {
		d->got = -(int)rw_out_of_memory(&d->error);
		return 0;
	}
	if (!read_record(d) || !sort_record(d, b))
		return 0;
	while (!rw_stretch_is_full(b) && rw_observation_next_there(d->observation, &d->record)) {
		count_read(d);
		if (!sort_record(d, b))
			return 0;
	}
	return 1;
}

/* The next part of a stretch. 1, or 0: no more. */
static RW_ASIDE int take_part(struct reading *d)
{
	const struct rw_part *part;
	do {
		part = rw_stretches_next(d->stretches, d->thread);
		if (!part) {
			d->got = 0;
			return 0;
		}
	} while (part->count == 0);
	d->piece = part->piece;
	d->end = d->piece + part->count;
	d->got = 1;
	return 1;
}

/* The next packet, or record without a packet, of one of several threads. 1, or 0: no more. */
static inline int read_own_packet(struct reading *d, struct read_packet *p)
{
	/* What another processor has read is far away: the pieces come first, then the two lines of the cache that have a record's headers. */
	enum { PIECES_AHEAD = 24, BYTES_AHEAD = 12, LINE = 64 };
	struct rw_noted *n = &p->noted;
	if (d->piece == d->end && !take_part(d))
		return 0;
	const struct rw_piece *piece = d->piece++;
	if (d->end - piece > PIECES_AHEAD)
		__builtin_prefetch(&piece[PIECES_AHEAD]);
	if (d->end - piece > BYTES_AHEAD) {
		__builtin_prefetch(piece[BYTES_AHEAD].record.bytes);
		__builtin_prefetch(piece[BYTES_AHEAD].record.bytes + LINE);
	}
	if (piece->packet) {
		n->packet = *piece->packet;
		p->tcp = n->packet.family != 0;
	} else {
		d->oddities->record = piece->number;
		d->oddities->now_ns = piece->record.time_ns;
		p->tcp = rw_packet_parse(&piece->record, &n->packet, d->fragments, d->oddities) == RW_PARSE_TCP;
	}
	n->flow = RW_FLOW_NONE;
	n->copy = 0;
	n->record = piece->number;
	d->summary->tcp_packets += p->tcp;
	return 1;
}

/* hash: null, or of its four-tuple. 0, or a negative rw_status. */
static inline int survey_packet(struct rw_survey *s, int divided, struct read_packet *p, const uint64_t *hash,
				rw_error *error)
{
	if (p->tcp && rw_survey_packet(s, &p->noted, hash, p->noted.record))
		return -(int)rw_out_of_memory(error);
	note(s, divided, &p->noted);
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
static inline int survey_one_by_one(struct reading *d, int divided, struct read_packet *p, rw_error *error)
{
	struct rw_survey *s = d->survey;
	int failed = 0;
	uint32_t packets = 0;
	while (!failed && !s->mixed && (divided ? read_own_packet(d, p) : read_packet(d, p))) {
		failed = survey_packet(s, divided, p, NULL, error);
		if (++packets % PARCEL_PACKETS == 0)
			judge_mixture(s, PARCEL_PACKETS);
	}
	return failed;
}

/* Fills `parcel`, or as much of it as there are records. */
static inline void read_parcel(struct reading *d, int divided, struct parcel *parcel)
{
	struct read_packet *p = parcel->packet, *end = p + PARCEL_PACKETS;
	while (p < end && (divided ? read_own_packet(d, p) : read_packet(d, p)))
		p++;
	parcel->count = (uint32_t)(p - parcel->packet);
}

static inline void hint_slot(const struct rw_survey *s, struct read_packet *p)
{
	if (p->tcp)
		p->hash = rw_survey_hint_slot(s, &p->noted.packet);
}

/* 0, or a negative rw_status. */
static inline int survey_parcel(struct rw_survey *s, int divided, struct parcel *parcel, rw_error *error)
{
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
		failed = survey_packet(s, divided, p, hinted ? &p->hash : NULL, error);
	}
	judge_mixture(s, parcel->count);
	return failed;
}

/* Surveys every record of an observation. 0, or a negative rw_status. */
static inline int survey_records(struct reading *d, int divided, rw_error *error)
{
	struct parcel *parcel = malloc(sizeof *parcel);
	int failed = 0;
	if (!parcel)
		return -(int)rw_out_of_memory(error);
	do {
		if (d->survey->mixed) {
			read_parcel(d, divided, parcel);
			failed = survey_parcel(d->survey, divided, parcel, error);
		} else {
			failed = survey_one_by_one(d, divided, parcel->packet, error);
		}
	} while (!failed && d->got > 0);
	free(parcel);
	if (!failed && d->got < 0) {
		*error = d->error;
		return d->got;
	}
	return failed;
}

static uint64_t journal_bytes(const rw_replay *r)
{
	return (uint64_t)(r->limits.journal_kib ? r->limits.journal_kib : JOURNAL_KIB) << 10;
}

/* Compiled twice, so that one thread pays nothing for shares. */
static RW_FLAT int survey_all_records(struct reading *d, rw_error *error) { return survey_records(d, 0, error); }

static RW_FLAT int survey_own_records(struct reading *d, rw_error *error) { return survey_records(d, 1, error); }

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

static void take_fragments(struct rw_oddity_counts *oddities, struct rw_fragments *fragments)
{
	if (fragments)
		oddities->count[RW_ODDITY_LOST_FRAGMENT] = rw_fragments_lost(fragments);
	rw_fragments_close(fragments);
}

/* By one thread. */
static rw_status survey_alone(rw_replay *r, rw_error *error)
{
	struct rw_observation *observation;
	rw_status status = rw_observation_open(&observation, r->fds, r->files, &r->oddities, error);
	if (status != RW_OK)
		return status;
	struct rw_fragments *fragments = rw_fragments_open();
	r->survey.journal = rw_journal_open(journal_bytes(r));
	struct reading reading = {.survey = &r->survey,
				  .summary = &r->summary,
				  .oddities = &r->oddities,
				  .observation = observation,
				  .fragments = fragments,
				  .previous_ns = INT64_MIN,
				  .as_filed = 1,
				  .originals = r->limits.copies < r->files ? r->files - r->limits.copies : 0};
	int failed =
	    fragments && r->survey.journal ? survey_all_records(&reading, error) : -(int)rw_out_of_memory(error);
	take_fragments(&r->oddities, fragments);
	add_late_records(r, observation);
	r->as_filed = reading.as_filed && rw_observation_is_as_filed(observation);
	rw_observation_close(observation);
	return (rw_status)-failed;
}

/* One of several threads that survey a capture. */
struct shard {
	struct rw_survey survey;
	rw_summary summary; /* only what is counted of packets */
	struct rw_oddity_counts oddities;
	struct reading reading;
	rw_error error;
	pthread_t thread;
	int failed;
	uint8_t running;
};

static void *survey_shard(void *argument)
{
	struct shard *s = argument;
	s->failed = survey_own_records(&s->reading, &s->error);
	if (s->failed)
		rw_stretches_stop(s->reading.stretches);
	return NULL;
}

static rw_status open_shard(struct shard *s, uint32_t number, uint32_t flows_max, struct rw_stretches *stretches,
			    _Atomic uint64_t *journal_left, rw_error *error)
{
	if (rw_survey_open(&s->survey, flows_max))
		return rw_out_of_memory(error);
	s->survey.journal = rw_journal_open_numbered(journal_left);
	s->reading = (struct reading){.survey = &s->survey,
				      .summary = &s->summary,
				      .oddities = &s->oddities,
				      .fragments = rw_fragments_open(),
				      .stretches = stretches,
				      .thread = number};
	return s->survey.journal && s->reading.fragments ? RW_OK : rw_out_of_memory(error);
}

static void close_shard(struct shard *s)
{
	rw_fragments_close(s->reading.fragments);
	rw_survey_free(&s->survey);
}

/* Runs the shards' threads, one of them this one. RW_OK, or the first error; *divided is 0: a thread could not be started. */
static rw_status run_shards(struct shard *shard, uint32_t shards, int *divided, rw_error *error)
{
	for (uint32_t i = 1; i < shards; i++) {
		shard[i].running = pthread_create(&shard[i].thread, NULL, survey_shard, &shard[i]) == 0;
		*divided &= shard[i].running;
	}
	if (*divided)
		survey_shard(&shard[0]);
	else
		rw_stretches_stop(shard[0].reading.stretches);
	for (uint32_t i = 1; i < shards; i++)
		if (shard[i].running)
			pthread_join(shard[i].thread, NULL);
	for (uint32_t i = 0; i < shards; i++)
		if (shard[i].failed) {
			*error = shard[i].error;
			return (rw_status)-shard[i].failed;
		}
	return RW_OK;
}

/* The survey of the whole capture. RW_OK; an error; or *divided is 0: there are too many flows. */
static rw_status join_shards(rw_replay *r, struct shard *shard, uint32_t shards, int *divided, rw_error *error)
{
	struct rw_survey *part[RW_SHARES];
	for (uint32_t i = 0; i < shards; i++)
		part[i] = &shard[i].survey;
	int failed = rw_survey_join(&r->survey, part, shards);
	if (failed > 0)
		return rw_out_of_memory(error);
	*divided = failed == 0;
	return RW_OK;
}

/* Takes what the reader and the shards have counted. */
static void take_counts(rw_replay *r, struct reading *d, const struct shard *shard, uint32_t shards)
{
	take_fragments(d->oddities, d->fragments);
	d->fragments = NULL;
	r->summary = *d->summary;
	r->oddities = *d->oddities;
	for (uint32_t i = 0; i < shards; i++) {
		rw_oddities_join(&r->oddities, &shard[i].oddities);
		r->summary.tcp_packets += shard[i].summary.tcp_packets;
	}
	add_late_records(r, d->observation);
	r->as_filed = 1;
}

/* Surveys what an observation, already open, has. As survey_in_shards. */
static rw_status survey_stretches(rw_replay *r, struct reading *d, uint32_t shards, int *divided, rw_error *error)
{
	uint32_t opened = 0;
	_Atomic uint64_t journal_left = journal_bytes(r);
	struct shard *shard = calloc(shards, sizeof *shard);
	rw_status status = shard && d->stretches && d->fragments ? RW_OK : rw_out_of_memory(error);
	for (; status == RW_OK && opened < shards; opened++)
		status =
		    open_shard(&shard[opened], opened, r->survey.index.flows_max, d->stretches, &journal_left, error);
	if (status == RW_OK)
		status = run_shards(shard, shards, divided, error);
	if (status == RW_OK && d->got < 0) {
		*error = d->error;
		status = (rw_status)-d->got;
	}
	*divided &= status == RW_OK && d->as_filed;
	if (*divided)
		status = join_shards(r, shard, shards, divided, error);
	if (*divided && status == RW_OK)
		take_counts(r, d, shard, shards);
	for (uint32_t i = 0; i < opened; i++)
		close_shard(&shard[i]);
	free(shard);
	return status;
}

/*
 * The first pass by several threads: each surveys the flows of its shares. RW_OK; an error; or *divided is 0: the packets cannot be
 * divided, or the flows are too many, and nothing is surveyed.
 */
static rw_status survey_in_shards(rw_replay *r, uint32_t shards, int *divided, rw_error *error)
{
	rw_summary summary = {0};
	struct rw_oddity_counts oddities = {0};
	struct reading reading = {
	    .summary = &summary, .oddities = &oddities, .previous_ns = INT64_MIN, .originals = 1, .as_filed = 1};
	for (uint32_t i = 0; i < RW_SHARES; i++)
		reading.thread_of[i] = (uint8_t)(i % shards);
	rw_status status = rw_observation_open(&reading.observation, r->fds, r->files, &oddities, error);
	if (status != RW_OK)
		return status;
	*divided = rw_observation_divides(reading.observation);
	if (*divided) {
		reading.stretches = rw_stretches_open(shards, read_stretch, &reading);
		reading.fragments = rw_fragments_open();
		status = survey_stretches(r, &reading, shards, divided, error);
		rw_fragments_close(reading.fragments);
	}
	rw_observation_close(reading.observation);
	rw_stretches_close(reading.stretches);
	return status;
}

rw_status rw_records_survey(rw_replay *r, rw_error *error)
{
	int divided = 0;
	uint32_t shards = r->limits.jobs < RW_SHARES ? r->limits.jobs : RW_SHARES;
	rw_status status =
	    shards > 1 && r->files == 1 && !r->limits.copies ? survey_in_shards(r, shards, &divided, error) : RW_OK;
	if (status == RW_OK && !divided)
		status = survey_alone(r, error);
	if (status != RW_OK)
		return status;
	r->summary.packets = r->summary.records;
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

/* Of what the second pass found in the shards' journals, records are known instead of their places. */
static void locate(rw_replay *r)
{
	struct rw_oddity_counts *o = &r->oddities;
	struct rw_place place[RW_ODDITY_COUNT];
	uint32_t which[RW_ODDITY_COUNT], places = 0;
	for (uint32_t i = 0; i < RW_ODDITY_COUNT; i++)
		if (o->count[i] && !(r->surveyed_oddities >> i & 1)) {
			place[places].record = o->first_offset[i];
			which[places++] = i;
		}
	if (places)
		rw_capture_locate(r->fds[0], place, places);
	for (uint32_t k = 0; k < places; k++)
		o->first_offset[which[k]] = place[k].offset;
}

void rw_records_number(rw_replay *r)
{
	struct rw_oddity_counts *o = &r->oddities;
	if (r->survey.shards)
		locate(r);
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
