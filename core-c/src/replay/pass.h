/*
 * A later pass over the captures that a survey has read: record by record, each with its flow. From the survey's journal
 * where that has all of them, else from the files again; the two tell the same.
 */
#ifndef RW_PASS_H
#define RW_PASS_H

#include "journal.h"

struct rw_pass;

/* A bit for each share of the flows (rw_packet_share). */
#define RW_ALL_SHARES ((1u << RW_SHARES) - 1)

/*
 * fds, survey and what they point to live longer. index: of the survey, rewound; it is used up. shares: packets of others may be
 * left out, or be of no flow. last: nobody reads the same shares later.
 */
enum rw_status rw_pass_open(struct rw_pass **pass, const int *fds, uint32_t files, const struct rw_survey *survey,
			    struct rw_flow_index *index, uint32_t shares, int last, rw_error *error);
void rw_pass_close(struct rw_pass *pass);
/*
 * 1: a record; 0: the end; negative: an rw_status. noted->copy: the packet is to be passed over, its flow was captured twice.
 * Where a survey was made in shards, the offset of a packet is the number of its record.
 */
int rw_pass_next(struct rw_pass *pass, struct rw_noted *noted, rw_error *error);
/* How far it is, of total_bytes. */
uint64_t rw_pass_offset(const struct rw_pass *pass, uint64_t total_bytes);

#endif
