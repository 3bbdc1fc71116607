#include "findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rw_oddities_join(struct rw_oddity_counts *to, const struct rw_oddity_counts *from)
{
	for (uint32_t i = 0; i < RW_ODDITY_COUNT; i++) {
		if (from->count[i] && (!to->count[i] || from->first_record[i] < to->first_record[i])) {
			to->first_offset[i] = from->first_offset[i];
			to->first_record[i] = from->first_record[i];
			to->first_ns[i] = from->first_ns[i];
			to->first_file[i] = from->first_file[i];
		}
		to->count[i] += from->count[i];
	}
}

void rw_error_set(rw_error *error, enum rw_status status, uint32_t file, uint64_t block, uint64_t offset,
		  const char *format, ...)
{
	error->status = status;
	error->file = file;
	error->block = block;
	error->offset = offset;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(error->reason, sizeof error->reason, format, arguments);
	va_end(arguments);
}

void rw_error_add_name(rw_error *error, uint32_t place, const char *name)
{
	size_t used = strlen(error->reason);
	snprintf(error->reason + used, sizeof error->reason - used, "%s%s", place ? ", " : "; there are: ", name);
}

rw_status rw_out_of_memory(rw_error *error)
{
	rw_error_set(error, RW_ERROR_MEMORY, 0, 0, 0, "out of memory");
	return RW_ERROR_MEMORY;
}

rw_status rw_bad_value(rw_error *error, const char *reason)
{
	rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "%s", reason);
	return RW_ERROR_BAD_VALUE;
}
