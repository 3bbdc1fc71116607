/*
 * A later pass over the captures that a survey has read: record by record, each with its flow. It reads the survey's journal if that
 * has all records, else the files again; both give the same.
 */
#ifndef RW_PASS_H
#define RW_PASS_H

#include "journal.h"

struct rw_pass;

/* A bit for each share of the flows (rw_packet_share). */
#define RW_ALL_SHARES ((1u << RW_SHARES) - 1)

/*
 * fds and survey must live longer. index: of the survey, rewound; the pass changes it. shares: packets of other shares may be left
 * out, or have no flow. last: nobody reads the same shares later.
 */
enum rw_status rw_pass_open(struct rw_pass **pass, const int *fds, uint32_t files, const struct rw_survey *survey,
			    struct rw_flow_index *index, uint32_t shares, int last, rw_error *error);
void rw_pass_close(struct rw_pass *pass);
/*
 * 1: a record; 0: the end; negative: an rw_status. noted->copy: a copy, which the caller must skip. After a survey in shards, the
 * offset of a packet is the number of its record.
 */
int rw_pass_next(struct rw_pass *pass, struct rw_noted *noted, rw_error *error);
/* Sets *record, the number of the record that rw_pass_next returned before, to the number of the record that it returned last. */
static inline void rw_pass_count(const struct rw_survey *survey, const struct rw_noted *noted, uint64_t *record)
{
	(*record)++;
	if (survey->shards)
		*record = noted->record;
}
/* The progress, of total_bytes. */
uint64_t rw_pass_offset(const struct rw_pass *pass, uint64_t total_bytes);

#endif
