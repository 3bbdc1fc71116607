/*
 * A later pass over the captures that a survey has read: record by record, each with its flow. It reads the survey's journal if that
 * has all records, else the files again; both give the same.
 */
#ifndef RW_PASS_H
#define RW_PASS_H

#include "journal.h"

struct rw_pass;

/* fds and survey must live longer. index: of the survey, rewound; the pass changes it. */
enum rw_status rw_pass_open(struct rw_pass **pass, const int *fds, uint32_t files, const struct rw_survey *survey,
			    struct rw_flow_index *index, int last, rw_error *error);
void rw_pass_close(struct rw_pass *pass);
/* 1: a record; 0: the end; negative: an rw_status. noted->copy: a copy, which the caller must skip. */
int rw_pass_next(struct rw_pass *pass, struct rw_noted *noted, rw_error *error);
/* The progress, of total_bytes. */
uint64_t rw_pass_offset(const struct rw_pass *pass, uint64_t total_bytes);

#endif
