#include "pass.h"

#include <stdlib.h>

/* What comes next of a shard. */
struct head {
	struct rw_journal_reader *reader;
	const uint32_t *flow;
	struct rw_noted noted;
	uint8_t there;
};

struct rw_pass {
	const struct rw_survey *survey;
	struct rw_journal_reader *reader; /* null: from shards, or from the files */
	struct head *head;                /* null: there are no shards */
	uint32_t heads, shares;
	struct rw_observation *observation;
	struct rw_flow_index *index;
	struct rw_fragments *fragments;
	struct rw_record read; /* of an aggregate, further packets come before the next record */
	int several;
	struct rw_copies *copies; /* null: no flow has copies */
	struct rw_oddity_counts ignored; /* the survey has counted these already */
	uint64_t record;
};

/* The next packet of an aggregate; for one without packets, a record without a packet, once. */
static RW_ASIDE enum rw_parse next_of_several(struct rw_pass *pass, struct rw_packet *packet)
{
	enum rw_parse parsed = rw_packet_next(&pass->read, packet, pass->fragments, &pass->ignored);
	pass->several = parsed == RW_PARSE_TCP;
	return parsed;
}

static int next_of_shard(struct head *h, struct rw_noted *n)
{
	if (!rw_journal_next_numbered(h->reader, n))
		return 0;
	if (n->flow != RW_FLOW_NONE)
		n->flow = h->flow[n->flow];
	n->packet.offset = n->record;
	return 1;
}

static void read_head(struct head *h) { h->there = (uint8_t)next_of_shard(h, &h->noted); }

static enum rw_status open_heads(struct rw_pass *pass, int last)
{
	const struct rw_survey *s = pass->survey;
	if (!(pass->head = calloc(s->shards, sizeof *pass->head)))
		return RW_ERROR_MEMORY;
	for (uint32_t i = 0; i < s->shards; i++) {
		uint32_t wanted = 0;
		for (uint32_t share = i; share < RW_SHARES; share += s->shards)
			wanted |= pass->shares & 1u << share;
		if (!wanted)
			continue;
		struct head *h = &pass->head[pass->heads];
		if (!(h->reader = rw_journal_read(s->shard[i].journal, last)))
			return RW_ERROR_MEMORY;
		h->flow = s->shard[i].flow;
		pass->heads++;
	}
	for (uint32_t i = 0; pass->heads > 1 && i < pass->heads; i++)
		read_head(&pass->head[i]);
	return RW_OK;
}

enum rw_status rw_pass_open(struct rw_pass **out, const int *fds, uint32_t files, const struct rw_survey *survey,
			    struct rw_flow_index *index, uint32_t shares, int last, rw_error *error)
{
	struct rw_pass *pass = calloc(1, sizeof *pass);
	enum rw_status status = RW_ERROR_MEMORY;
	if (pass) {
		pass->survey = survey;
		pass->index = index;
		pass->shares = shares;
		if (survey->shards) {
			status = open_heads(pass, last);
		} else if (survey->journal) {
			pass->reader = rw_journal_read(survey->journal, last);
			status = pass->reader ? RW_OK : RW_ERROR_MEMORY;
		} else {
			pass->fragments = rw_fragments_open();
			pass->copies = survey->copied_flows ? rw_copies_open() : NULL;
			if (pass->fragments && (pass->copies || !survey->copied_flows))
				status = rw_observation_open(&pass->observation, fds, files, &pass->ignored, error);
		}
	}
	if (status != RW_OK) {
		if (status == RW_ERROR_MEMORY)
			rw_error_set(error, RW_ERROR_MEMORY, 0, 0, 0, "out of memory");
		rw_pass_close(pass);
		return status;
	}
	*out = pass;
	return RW_OK;
}

void rw_pass_close(struct rw_pass *pass)
{
	if (!pass)
		return;
	rw_journal_reader_close(pass->reader);
	for (uint32_t i = 0; i < pass->heads; i++)
		rw_journal_reader_close(pass->head[i].reader);
	free(pass->head);
	rw_observation_close(pass->observation);
	rw_fragments_close(pass->fragments);
	rw_copies_close(pass->copies);
	free(pass);
}

static RW_ASIDE int read_again(struct rw_pass *pass, struct rw_noted *n, rw_error *error)
{
	int side, got;
	uint32_t share;
	enum rw_parse parsed = pass->several ? next_of_several(pass, &n->packet) : RW_PARSE_OTHER;
	if (parsed != RW_PARSE_TCP) {
		if ((got = rw_observation_next(pass->observation, &pass->read, error)) <= 0)
			return got;
		pass->record++;
		if (pass->shares != RW_ALL_SHARES && rw_record_share(&pass->read, &share) &&
		    !(pass->shares & 1u << share)) {
			n->flow = RW_FLOW_NONE;
			n->copy = 0;
			n->packet.time_ns = pass->read.time_ns;
			return 1;
		}
		parsed = rw_packet_parse(&pass->read, &n->packet, pass->fragments, &pass->ignored);
	}
	n->flow = RW_FLOW_NONE;
	n->copy = 0;
	if (parsed == RW_PARSE_SEVERAL)
		parsed = next_of_several(pass, &n->packet);
	if (parsed != RW_PARSE_TCP)
		return 1;
	/* No flow: the file has grown since the survey. */
	n->flow = rw_flow_index_find(pass->index, pass->survey->flow, &n->packet, pass->record, &side);
	if (n->flow != RW_FLOW_NONE) {
		n->side = (uint8_t)side;
		n->copy = pass->copies && rw_copies_see(pass->copies, &pass->survey->flow[n->flow], side, &n->packet,
							0) != RW_COPY_NONE;
	}
	return 1;
}

/* The next record of all shards together. */
static int next_of_shards(struct rw_pass *pass, struct rw_noted *n)
{
	struct head *first = NULL;
	if (pass->heads == 1)
		return next_of_shard(pass->head, n);
	for (uint32_t i = 0; i < pass->heads; i++) {
		struct head *h = &pass->head[i];
		if (h->there && (!first || h->noted.record < first->noted.record))
			first = h;
	}
	if (!first)
		return 0;
	*n = first->noted;
	read_head(first);
	return 1;
}

int rw_pass_next(struct rw_pass *pass, struct rw_noted *n, rw_error *error)
{
	int got;
	if (pass->reader)
		got = rw_journal_next(pass->reader, n);
	else
		got = pass->head ? next_of_shards(pass, n) : read_again(pass, n, error);
	if (got > 0 && n->copy)
		n->copy = n->flow != RW_FLOW_NONE && pass->survey->flow[n->flow].copied;
	return got;
}

uint64_t rw_pass_offset(const struct rw_pass *pass, uint64_t total_bytes)
{
	const struct rw_journal_reader *reader = pass->heads ? pass->head[0].reader : pass->reader;
	if (!reader)
		return pass->head ? total_bytes : rw_observation_offset(pass->observation);
	return total_bytes / 65536 * rw_journal_share_q16(reader) +
	       total_bytes % 65536 * rw_journal_share_q16(reader) / 65536;
}
