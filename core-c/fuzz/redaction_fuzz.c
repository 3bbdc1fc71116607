/*
 * Any bytes as a capture that is redacted, without and with a key. What the core reads of the copy is what it reads of the capture,
 * except for addresses; a copy has nothing that a further redaction would take away.
 */
#include "format.h"
#include "fuzz.h"
#include "packet.h"

enum { LINK_NFLOG = 239, LINK_PPI = 192, HEADERS_MAX = 512 };

static const uint8_t KEY[16] = "0123456789abcde";

struct whole {
	uint8_t *bytes;
	size_t n;
};

static struct whole read_whole(int fd)
{
	struct whole w = {.n = (size_t)lseek(fd, 0, SEEK_END)};
	w.bytes = malloc(w.n + 1);
	CHECK(w.bytes && pread(fd, w.bytes, w.n, 0) == (ssize_t)w.n);
	return w;
}

static rw_status redacted(const uint8_t *data, size_t size, const uint8_t *key, rw_redaction_row *row, int *out)
{
	rw_error error;
	int fd = fuzz_file(data, size);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	*out = fuzz_file(NULL, 0);
	rw_status status = rw_redact(fd, *out, key, row, &error);
	close(fd);
	return status;
}

/* The first TCP packet of a record, and what was odd. */
static enum rw_parse parsed(const struct rw_record *r, struct rw_packet *p, struct rw_oddity_counts *odd)
{
	memset(odd, 0, sizeof *odd);
	memset(p, 0, sizeof *p);
	struct rw_fragments *fragments = rw_fragments_open();
	CHECK(fragments);
	enum rw_parse got = rw_packet_parse(r, p, fragments, odd);
	int several = got == RW_PARSE_SEVERAL;
	if (several)
		got = rw_packet_next(r, p, fragments, odd);
	rw_fragments_close(fragments);
	return got;
}

static void compare(const struct rw_record *a, const struct rw_record *b)
{
	struct rw_packet p, q;
	struct rw_oddity_counts odd, other;
	CHECK(a->time_ns == b->time_ns && a->wire_bytes == b->wire_bytes && a->link_type == b->link_type);
	CHECK(a->interface == b->interface && b->captured_bytes <= a->captured_bytes);
	enum rw_parse got = parsed(a, &p, &odd), again = parsed(b, &q, &other);
	/* A TCP header in several fragments is not kept; a record without TCP is only searched so far. */
	if (odd.count[RW_ODDITY_IP_FRAGMENT] || (got != RW_PARSE_TCP && a->captured_bytes > HEADERS_MAX))
		return;
	/* The length of an aggregate's frames, and of NFLOG's attributes, is not checked here: they are guesses. */
	if (a->link_type == LINK_NFLOG || a->link_type == LINK_PPI)
		return;
	CHECK(got == again);
	if (got != RW_PARSE_TCP)
		return;
	CHECK(p.sequence == q.sequence && p.ack == q.ack && p.flags == q.flags && p.window == q.window);
	CHECK(p.payload_bytes == q.payload_bytes && p.source_port == q.source_port &&
	      p.destination_port == q.destination_port);
	CHECK(p.family == q.family && p.ecn == q.ecn && p.tcp_header_bytes == q.tcp_header_bytes);
	CHECK(p.has_timestamps == q.has_timestamps && p.sack_count == q.sack_count && p.mptcp.seen == q.mptcp.seen);
	CHECK(memcmp(p.sack, q.sack, p.sack_count * sizeof *p.sack) == 0);
	CHECK(!p.mptcp.seen || memcmp(&p.mptcp, &q.mptcp, sizeof p.mptcp) == 0);
}

/* Of a pcap whose first records are impossible the reader guesses the form, from bytes that a copy may not have. */
static int is_guessed(int fd)
{
	struct rw_oddity_counts odd = {0};
	struct rw_capture *c;
	struct rw_record record;
	rw_error error;
	int guessed = 0;
	CHECK(rw_capture_open(&c, fd, 0, &odd, &error) == RW_OK);
	/* A capture that is appended to another one has a header of its own. */
	do
		guessed = c->next == rw_pcap_next && c->record_header_bytes != 16;
	while (!guessed && rw_capture_next(c, &record, &error) > 0);
	rw_capture_close(c);
	return guessed;
}

static uint64_t compare_all(const uint8_t *data, size_t size, int out, const rw_redaction_row *row)
{
	struct rw_oddity_counts odd = {0}, other = {0};
	struct rw_capture *a, *b;
	struct rw_record from, to;
	rw_error error;
	int fd = fuzz_file(data, size), got;
	uint64_t records = 0;
	CHECK(rw_capture_open(&a, fd, 0, &odd, &error) == RW_OK);
	CHECK(rw_capture_open(&b, out, 0, &other, &error) == RW_OK);
	while ((got = rw_capture_next(a, &from, &error)) > 0) {
		CHECK(rw_capture_next(b, &to, &error) == 1);
		compare(&from, &to);
		records++;
	}
	CHECK(got == 0 && rw_capture_next(b, &to, &error) == 0);
	CHECK(row->records == records && row->kept_bytes <= row->captured_bytes);
	for (int i = 0; i < RW_ODDITY_COUNT; i++)
		CHECK(odd.count[i] == other.count[i]);
	rw_capture_close(a);
	rw_capture_close(b);
	close(fd);
	return records;
}

static uint64_t run(const uint8_t *data, size_t size)
{
	uint64_t sum = 0;
	for (int with_key = 0; with_key < 2; with_key++) {
		rw_redaction_row row, second;
		int out, again;
		rw_status status = redacted(data, size, with_key ? KEY : NULL, &row, &out);
		if (status != RW_OK) {
			CHECK(status == RW_ERROR_NOT_A_CAPTURE);
			close(out);
			return 0;
		}
		if (is_guessed(out)) {
			close(out);
			return sum;
		}
		sum = fuzz_fold(sum, compare_all(data, size, out, &row));
		struct whole once = read_whole(out);
		CHECK(redacted(once.bytes, once.n, NULL, &second, &again) == RW_OK);
		struct whole twice = read_whole(again);
		CHECK(once.n == twice.n && memcmp(once.bytes, twice.bytes, once.n) == 0);
		sum = fuzz_fold_bytes(sum, once.bytes, once.n);
		free(once.bytes);
		free(twice.bytes);
		close(out);
		close(again);
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_both_ways(run, data, size); }
