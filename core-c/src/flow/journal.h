/*
 * What the survey has read of each record, in as few bytes as a later pass needs: about eight for a packet that goes on
 * where its flow's last one ended. Fields are written as what they differ by from the packet before, of the same side of
 * the same flow. It is never longer than the capture, and never longer than it may be: then it is dropped.
 */
#ifndef RW_JOURNAL_H
#define RW_JOURNAL_H

#include "flow.h"

struct rw_journal;

/* Null: out of memory. */
struct rw_journal *rw_journal_open(uint64_t bytes_max);
/*
 * For one of several threads: notes have the numbers of their records instead of their places, and together the threads' journals
 * take no more than *left bytes. Written and read by the functions for notes with numbers.
 */
struct rw_journal *rw_journal_open_numbered(_Atomic uint64_t *left);
void rw_journal_close(struct rw_journal *journal);
/* The next record. 0, or 1: there is no room for it, and the journal is of no use any more. */
int rw_journal_write(struct rw_journal *journal, const struct rw_noted *noted);
/* noted->record is higher than the one before. Sets the packet's offset to 0. */
int rw_journal_write_numbered(struct rw_journal *journal, struct rw_noted *noted);

/* Reads from the start, once everything is written. releases: nobody reads after it, what it has passed is freed. Null: out of memory. */
struct rw_journal_reader;
struct rw_journal_reader *rw_journal_read(struct rw_journal *journal, int releases);
void rw_journal_reader_close(struct rw_journal_reader *reader);
/*
 * 1: a record; 0: the end. Writes every field of noted that a journal knows (addresses, ports, interface and what only a survey
 * asks of options it does not), and sets those of options that it does not to 0.
 */
int rw_journal_next(struct rw_journal_reader *reader, struct rw_noted *noted);
/* The same of notes with numbers: sets noted->record, and the packet's offset to 0. */
int rw_journal_next_numbered(struct rw_journal_reader *reader, struct rw_noted *noted);
/* How much has been read, of 2^16. */
uint32_t rw_journal_share_q16(const struct rw_journal_reader *reader);

#endif
