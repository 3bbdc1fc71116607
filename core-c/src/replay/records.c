/* The first pass: every record of the captures, and what there is to say of them as a whole. */
#include "rw_ways.h"
#include "state.h"

/* Sixteen million packets of long transfers; with many flows less. */
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

/* The time of any record. */
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
	/* Most records are later than all before, or of the same microsecond as the one before. */
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

/* For the passes that follow, as long as there is room. */
static void note(struct rw_survey *s, const struct rw_noted *noted)
{
	if (s->journal && rw_journal_write(s->journal, noted)) {
		rw_journal_close(s->journal);
		s->journal = NULL;
	}
}

static RW_ASIDE int not_surveyed(rw_replay *r, enum rw_survey_status why, const struct rw_record *record,
				 rw_error *error)
{
	if (why != RW_SURVEY_TOO_MANY_FLOWS)
		return -(int)rw_out_of_memory(error);
	rw_error_set(error, RW_ERROR_LIMIT, record->file, r->summary.records, record->offset, "more than %u flows",
		     r->survey.flows_max);
	return -RW_ERROR_LIMIT;
}

/* The packets of an aggregate of frames, all of one record. The last is left to be noted. */
static RW_ASIDE enum rw_survey_status survey_several(rw_replay *r, const struct rw_record *record,
						     struct rw_fragments *fragments, struct rw_noted *noted)
{
	struct rw_packet packet;
	enum rw_survey_status failed = RW_SURVEY_OK;
	for (int i = 0; !failed && rw_packet_next(record, &packet, fragments, &r->oddities) == RW_PARSE_TCP; i++) {
		if (i) {
			note(&r->survey, noted);
			r->as_filed = 0;
		}
		noted->packet = packet;
		r->summary.tcp_packets++;
		failed = rw_survey_packet(&r->survey, noted, r->oddities.record);
	}
	return failed;
}

/* Every record of an observation. 0, or a negative rw_status. */
static RW_FLAT int survey_records(rw_replay *r, struct rw_observation *observation, struct rw_fragments *fragments,
				  rw_error *error)
{
	rw_summary *s = &r->summary;
	struct rw_record record;
	struct rw_noted noted;
	int64_t previous_ns = INT64_MIN;
	uint32_t originals = r->limits.copies < r->files ? r->files - r->limits.copies : 0;
	int got;
	while ((got = rw_observation_next(observation, &record, error)) > 0) {
		r->oddities.record++;
		if (record.file < originals) {
			count_record(r, &record, previous_ns);
			previous_ns = record.time_ns;
		}
		noted.flow = RW_FLOW_NONE;
		enum rw_parse parsed = rw_packet_parse(&record, &noted.packet, fragments, &r->oddities);
		if (parsed == RW_PARSE_TCP) {
			s->tcp_packets++;
			enum rw_survey_status failed = rw_survey_packet(&r->survey, &noted, r->oddities.record);
			if (failed)
				return not_surveyed(r, failed, &record, error);
		} else if (parsed == RW_PARSE_SEVERAL) {
			enum rw_survey_status failed = survey_several(r, &record, fragments, &noted);
			if (failed)
				return not_surveyed(r, failed, &record, error);
		}
		note(&r->survey, &noted);
	}
	return got;
}

/* Of the captures themselves, not of what was decoded of them. */
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

/* Something that a flow has from its first record on. */
static void add_oddity_of(rw_replay *r, const struct rw_flow *f, enum rw_oddity which)
{
	r->oddities.record = f->first_record;
	r->oddities.now_ns = f->first_ns;
	rw_oddity_add(&r->oddities, which, f->file, f->offset);
}

/* Where most of the data was seen from, and what the flows themselves lack. */
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
	int got = fragments && r->survey.journal ? survey_records(r, observation, fragments, error)
						 : -(int)rw_out_of_memory(error);
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
	judge_flows(r);
	return RW_OK;
}

/* Was it found while the record was read, which was not counted yet? */
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
