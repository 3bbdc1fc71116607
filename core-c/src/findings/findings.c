#include "findings.h"

#include <stdarg.h>
#include <stdio.h>

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
