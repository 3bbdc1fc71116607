#include "generate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
	const char *name;
	struct report (*write)(struct output *o, uint64_t amount);
} captures[] = {
    {"bulk", generate_bulk},
    {"mptcp", generate_mptcp},
    {"many", generate_many},
    {"churn", generate_churn},
};

/* A count, or a size such as 500m or 10g, in powers of 1000. */
static uint64_t amount(const char *text)
{
	char *end;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10), scale = 1;
	if (*end == 'k')
		scale = 1000, end++;
	else if (*end == 'm')
		scale = 1000000, end++;
	else if (*end == 'g')
		scale = 1000000000, end++;
	if (errno || *end || end == text || *text == '-' || n == 0 || n > UINT64_MAX / scale)
		die("the amount is not a positive number");
	return n * scale;
}

static uint32_t number(const char *text)
{
	uint64_t n = amount(text);
	if (n > 1 << 24)
		die("the number is too large");
	return (uint32_t)n;
}

static int report(struct output *o, struct report r)
{
	output_flush(o);
	fprintf(stderr, "packets=%llu bytes=%llu connections=%llu retransmissions=%llu\n",
		(unsigned long long)o->packets, (unsigned long long)o->bytes, (unsigned long long)r.connections,
		(unsigned long long)r.retransmissions);
	return 0;
}

int main(int argc, char **argv)
{
	if ((argc == 5 || argc == 6) && strcmp(argv[1], "lossy") == 0) {
		struct output *o = output_open(argv[5]);
		return report(o, generate_lossy(o, amount(argv[2]), number(argv[3]), number(argv[4])));
	}
	if (argc == 3 || argc == 4) {
		for (size_t i = 0; i < sizeof captures / sizeof *captures; i++) {
			if (strcmp(argv[1], captures[i].name) != 0)
				continue;
			uint64_t n = amount(argv[2]);
			struct output *o = output_open(argv[3]);
			return report(o, captures[i].write(o, n));
		}
	}
	fputs("usage: generate bulk|mptcp PACKETS [OUT]\n"
	      "       generate lossy PACKETS WINDOW LOST_ONE_IN [OUT]\n"
	      "       generate many CONNECTIONS [OUT]\n"
	      "       generate churn BYTES [OUT]\n"
	      "BYTES may end in k, m or g. Without OUT the capture goes to standard output.\n",
	      stderr);
	return 2;
}
