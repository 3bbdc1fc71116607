/* File bytes -> timed records. Reads pcap, pcapng and snoop from a descriptor, in bounded memory. */
#ifndef RW_CAPTURE_H
#define RW_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "findings.h"

struct rw_record {
	int64_t time_ns;         /* since 1970, by the file */
	const uint8_t *bytes;    /* valid until the next call */
	uint32_t captured_bytes; /* in the file */
	uint32_t wire_bytes;     /* on the wire */
	uint32_t link_type;
	uint32_t file;           /* index among the captures opened together */
	uint32_t interface;      /* within its file */
	uint64_t offset;         /* of the record in its file */
};

/* One open file. */
struct rw_capture;

/* Reads fd from the start; the caller still owns it. RW_OK or the error. */
enum rw_status rw_capture_open(struct rw_capture **capture, int fd, uint32_t file, struct rw_oddity_counts *oddities,
			       rw_error *error);
/* Reads fd once, from where it stands: it may be a pipe. */
enum rw_status rw_capture_open_stream(struct rw_capture **capture, int fd, struct rw_oddity_counts *oddities,
				      rw_error *error);
void rw_capture_close(struct rw_capture *capture);

/* 1: a record; 0: the end (a file cut in the middle ends there, with an oddity); negative: an rw_status. */
int rw_capture_next(struct rw_capture *capture, struct rw_record *record, rw_error *error);

/* A place in a file. record: the record there, or the last one before it, from 1 on; 0: none. time_ns: its time. */
struct rw_place {
	uint64_t offset, record;
	int64_t time_ns;
};
/* Reads the file again, up to the last of the places, and fills in their records and times; 0 where it cannot be read. */
void rw_capture_find(int fd, struct rw_place *places, uint32_t count);
/* The same the other way round: sets the offset of each record, 0 where there is no such record. */
void rw_capture_locate(int fd, struct rw_place *places, uint32_t count);

/*
 * Several captures as one observation, merged by time; ties in the order given. Records of several interfaces in one capture are put in the
 * order of their times before (interfaces.c).
 */
struct rw_observation;

enum rw_status rw_observation_open(struct rw_observation **observation, const int *fds, uint32_t files,
				   struct rw_oddity_counts *oddities, rw_error *error);
void rw_observation_close(struct rw_observation *observation);
int rw_observation_next(struct rw_observation *observation, struct rw_record *record, rw_error *error);
/* Whether all records so far came in the order of one file. */
int rw_observation_is_as_filed(const struct rw_observation *observation);
/* Whether it is one file of plain records, which a reader can pass over without decoding them. */
int rw_observation_divides(const struct rw_observation *observation);
/* Grows as needed; the caller frees `bytes` after the reader is closed. */
struct rw_buffer {
	uint8_t *bytes; /* null: none yet */
	size_t capacity;
};
/*
 * For a reader of one file that keeps records longer than until the next call. Records from now on have their bytes in this buffer,
 * and those before keep theirs. 0, or 1: out of memory.
 */
int rw_observation_lend(struct rw_observation *observation, struct rw_buffer *buffer);
/* The next record if all of it is in the buffer already, where all records before it keep their bytes. 0: it is another one. */
int rw_observation_next_there(struct rw_observation *observation, struct rw_record *record);
/* Records of a file that moved before an earlier record of the file, and the place of the first of them. */
struct rw_moved {
	uint64_t records, first_offset;
};
struct rw_moved rw_observation_moved(const struct rw_observation *observation, uint32_t file);
/* Bytes of all files read so far. */
uint64_t rw_observation_offset(const struct rw_observation *observation);

/*
 * Writes the records of an open capture anew, in its format (pcap, snoop, or pcapng with its sections and interfaces), without anything else of
 * the file: no comments, names, secrets or addresses of interfaces. What was odd about the file is odd about the new one. Times
 * of pcap and pcapng are in nanoseconds. Call rw_writer_put for each record, in the order in which rw_capture_next returns them.
 */
struct rw_writer;
/* Null: out of memory, or the descriptor cannot be written. The caller still owns fd. */
struct rw_writer *rw_writer_open(const struct rw_capture *from, int fd);
/* The last record, with these bytes in place of its own. */
void rw_writer_put(struct rw_writer *writer, const struct rw_record *record, const uint8_t *bytes,
		   uint32_t captured_bytes);
/* Whether the last record must keep the length that it has: its format has no other field for it. */
int rw_writer_needs_length(const struct rw_writer *writer);
/* After the last record. 0, or the errno of a write that failed; the writer is gone. */
int rw_writer_close(struct rw_writer *writer);

#endif
