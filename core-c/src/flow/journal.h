/*
 * The survey's record of each packet for later passes, in few bytes: about eight for a packet that continues where its flow's last
 * one ended. Fields are written as differences from the packet before, of the same side of the same flow. A journal is never longer
 * than the capture; one that reaches its limit is dropped.
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
/* Writes the next record. 0, or 1: there is no room for it, and the journal must be dropped. */
int rw_journal_write(struct rw_journal *journal, const struct rw_noted *noted);
/* noted->record is higher than the one before. Sets the packet's offset to 0. */
int rw_journal_write_numbered(struct rw_journal *journal, struct rw_noted *noted);

/* Reads from the start, after everything was written. releases: this is the last reader, and frees what it has read. Null: out of memory. */
struct rw_journal_reader;
struct rw_journal_reader *rw_journal_read(struct rw_journal *journal, int releases);
void rw_journal_reader_close(struct rw_journal_reader *reader);
/*
 * 1: a record; 0: the end. Writes every field of noted that a journal has. It does not have addresses, ports, the interface, and
 * the options that only a survey needs; it sets the fields of these options to 0.
 */
int rw_journal_next(struct rw_journal_reader *reader, struct rw_noted *noted);
/* The same for notes with numbers: sets noted->record, and the packet's offset to 0. */
int rw_journal_next_numbered(struct rw_journal_reader *reader, struct rw_noted *noted);
/* The share that has been read, in units of 2^-16. */
uint32_t rw_journal_share_q16(const struct rw_journal_reader *reader);

#endif
