/*
 * Errors, which end the work, and oddities of the input, which are counted while the work continues. Every room reports them.
 * This room depends only on the public header.
 */
#ifndef RW_FINDINGS_H
#define RW_FINDINGS_H

#include <stdint.h>

#include "rewindow.h"

/* Counts per named oddity, with the place and time of the first. */
struct rw_oddity_counts {
	uint64_t record; /* number of the record that is being read, from 1 on; the reader keeps it and now_ns */
	int64_t now_ns;
	uint64_t count[RW_ODDITY_COUNT];
	uint64_t first_offset[RW_ODDITY_COUNT], first_record[RW_ODDITY_COUNT];
	int64_t first_ns[RW_ODDITY_COUNT];
	uint32_t first_file[RW_ODDITY_COUNT];
};

static inline void rw_oddity_add(struct rw_oddity_counts *o, enum rw_oddity which, uint32_t file, uint64_t offset)
{
	if (o->count[which]++ == 0) {
		o->first_offset[which] = offset;
		o->first_record[which] = o->record;
		o->first_ns[which] = o->now_ns;
		o->first_file[which] = file;
	}
}

/* Adds what another reader of the same records has counted. */
void rw_oddities_join(struct rw_oddity_counts *to, const struct rw_oddity_counts *from);

/* file, block, offset: where the input is wrong; 0 where the error has no place. format: the reason, as printf takes it. */
void rw_error_set(rw_error *error, enum rw_status status, uint32_t file, uint64_t block, uint64_t offset,
		  const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Adds a known name to the reason: "...; there are: a, b". place: 0 for the first name. */
void rw_error_add_name(rw_error *error, uint32_t place, const char *name);

/* These set the error and return its status. */
rw_status rw_out_of_memory(rw_error *error);
rw_status rw_bad_value(rw_error *error, const char *reason);

#endif
