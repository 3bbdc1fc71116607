#include "generate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARGUMENTS_MAX = 3 };

static struct report bulk(struct output *o, const uint64_t *n) { return generate_bulk(o, n[0]); }
static struct report mptcp(struct output *o, const uint64_t *n)
{
	if (n[1] != 2 && n[1] != 4 && n[1] != 8)
		die("a connection has 2, 4 or 8 subflows");
	return generate_mptcp(o, n[0], (uint32_t)n[1]);
}
static struct report lossy(struct output *o, const uint64_t *n)
{
	return generate_lossy(o, n[0], (uint32_t)n[1], (uint32_t)n[2]);
}
static struct report many(struct output *o, const uint64_t *n) { return generate_many(o, n[0]); }
static struct report churn(struct output *o, const uint64_t *n) { return generate_churn(o, n[0]); }
static struct report interleaved(struct output *o, const uint64_t *n)
{
	return generate_interleaved(o, n[0], (uint32_t)n[1]);
}
static struct report balanced(struct output *o, const uint64_t *n)
{
	return generate_balanced(o, n[0], (uint32_t)n[1]);
}
static struct report brief(struct output *o, const uint64_t *n) { return generate_short(o, n[0], (uint32_t)n[1]); }
static struct report offload(struct output *o, const uint64_t *n) { return generate_offload(o, n[0]); }

static const struct {
	const char *name;
	struct report (*write)(struct output *o, const uint64_t *numbers);
	int arguments;
	uint32_t tick_ns;
	const char *usage;
} captures[] = {
    {"bulk", bulk, 1, 1, "PACKETS"},
    {"bulk-us", bulk, 1, 1000, "PACKETS"},
    {"mptcp", mptcp, 2, 1, "PACKETS SUBFLOWS"},
    {"lossy", lossy, 3, 1, "PACKETS WINDOW LOST_ONE_IN"},
    {"many", many, 1, 1, "CONNECTIONS"},
    {"churn", churn, 1, 1, "BYTES"},
    {"interleaved", interleaved, 2, 1, "BYTES FLOWS"},
    {"balanced", balanced, 2, 1, "BYTES FLOWS"},
    {"short", brief, 2, 1, "CONNECTIONS AT_ONCE"},
    {"offload", offload, 1, 1, "BYTES"},
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

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof captures / sizeof *captures; i++) {
		int arguments = captures[i].arguments;
		uint64_t numbers[ARGUMENTS_MAX];
		if (strcmp(argv[1], captures[i].name) != 0 || (argc != 2 + arguments && argc != 3 + arguments))
			continue;
		for (int k = 0; k < arguments; k++) {
			numbers[k] = amount(argv[2 + k]);
			if (k && numbers[k] > 1 << 24)
				die("the number is too large");
		}
		struct output *o = output_open(argv[2 + arguments], captures[i].tick_ns);
		struct report r = captures[i].write(o, numbers);
		output_flush(o);
		fprintf(stderr, "packets=%llu bytes=%llu connections=%llu retransmissions=%llu\n",
			(unsigned long long)o->packets, (unsigned long long)o->bytes, (unsigned long long)r.connections,
			(unsigned long long)r.retransmissions);
		return 0;
	}
	fputs("usage:\n", stderr);
	for (size_t i = 0; i < sizeof captures / sizeof *captures; i++)
		fprintf(stderr, "  generate %s %s [OUT]\n", captures[i].name, captures[i].usage);
	fputs("Numbers may end in k, m or g. Without OUT the capture goes to standard output.\n", stderr);
	return 2;
}
