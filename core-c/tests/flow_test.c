#include "check.h"
#include "coverage.h"
#include "flow.h"
#include "hash.h"
#include "packets.h"

static void check_digest(const uint8_t *digest, size_t n, const char *hex)
{
	char text[65];
	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	assert_string_equal(text, hex);
}

/* FIPS 180-4's own examples, and the empty message. */
static void hash_vectors(void **state)
{
	(void)state;
	uint8_t d[32];
	rw_sha1_block((const uint8_t *)"abc", 3, d);
	check_digest(d, 20, "a9993e364706816aba3e25717850c26c9cd0d89d");
	rw_sha1_block((const uint8_t *)"", 0, d);
	check_digest(d, 20, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	rw_sha256_block((const uint8_t *)"abc", 3, d);
	check_digest(d, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	rw_sha256_block((const uint8_t *)"", 0, d);
	check_digest(d, 32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void addresses(struct rw_packet *p, int from_client, uint16_t flags, uint32_t sequence)
{
	memset(p, 0, sizeof *p);
	p->family = 4;
	p->source[0] = from_client ? 1 : 2;
	p->destination[0] = from_client ? 2 : 1;
	p->source_port = from_client ? 1000 : 80;
	p->destination_port = from_client ? 80 : 1000;
	p->flags = flags;
	p->sequence = sequence;
}

static uint32_t find(struct rw_flow_table *t, int from_client, uint16_t flags, uint32_t sequence, int *side)
{
	struct rw_packet p;
	addresses(&p, from_client, flags, sequence);
	return rw_flow_find(t, &p, side);
}

static void four_tuples_are_used_again(void **state)
{
	(void)state;
	struct rw_flow_table *t = rw_flow_table_open();
	int side;
	assert_int_equal(find(t, 1, RW_TCP_SYN, 100, &side), 0);
	assert_int_equal(side, 0);
	assert_int_equal(find(t, 0, RW_TCP_SYN | RW_TCP_ACK, 900, &side), 0);
	assert_int_equal(side, 1);
	assert_int_equal(find(t, 1, RW_TCP_SYN, 100, &side), 0); /* a retransmission */
	assert_int_equal(find(t, 1, RW_TCP_ACK, 101, &side), 0);
	assert_int_equal(find(t, 1, RW_TCP_SYN, 5000, &side), 1);
	assert_int_equal(find(t, 0, RW_TCP_SYN | RW_TCP_ACK, 7000, &side), 1);
	assert_int_equal(find(t, 1, RW_TCP_FIN | RW_TCP_ACK, 5001, &side), 1);
	assert_int_equal(find(t, 0, RW_TCP_SYN, 1, &side), 2); /* from the other end, after the close */
	assert_int_equal(side, 0);
	rw_flow_table_close(t);
}

static void many_flows_keep_their_numbers(void **state)
{
	(void)state;
	struct rw_flow_table *t = rw_flow_table_open();
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < 20000; i++) {
			struct rw_packet p;
			int side;
			addresses(&p, 1, RW_TCP_ACK, 0);
			p.source[1] = (uint8_t)(i >> 8);
			p.source[2] = (uint8_t)i;
			assert_int_equal(rw_flow_find(t, &p, &side), i);
		}
	rw_flow_table_close(t);
}

static void coverage_is_a_union(void **state)
{
	(void)state;
	struct rw_coverage c = {0};
	uint64_t base = 0xfffffff0; /* the low half wraps */
	rw_coverage_add(&c, base, 1, 100);
	assert_int_equal(c.covered, 100);
	rw_coverage_add(&c, base + 50, 1, 100); /* overlaps */
	assert_int_equal(c.covered, 150);
	rw_coverage_add(&c, base + 300, 1, 100); /* apart */
	rw_coverage_add(&c, base + 200, 1, 50);
	assert_int_equal(c.count, 3);
	rw_coverage_add(&c, (uint32_t)(base + 150), 0, 150); /* 32 bits: nearest */
	assert_int_equal(c.count, 1);
	assert_int_equal(c.covered, 400);
	rw_coverage_add(&c, base - 20, 1, 10); /* before the first */
	assert_int_equal(c.covered, 410);
	rw_coverage_free(&c);
}

static void coverage_against_a_bitmap(void **state)
{
	(void)state;
	static uint8_t seen[4096];
	struct rw_coverage c = {0};
	uint32_t random = 12345;
	memset(seen, 0, sizeof seen);
	rw_coverage_add(&c, 0, 1, 1);
	seen[0] = 1;
	for (int i = 0; i < 300; i++) {
		random = random * 1664525 + 1013904223;
		uint32_t start = random >> 8 & 0xfff, n = random >> 24 & 31;
		if (start + n > sizeof seen)
			continue;
		rw_coverage_add(&c, start, i & 1, n);
		memset(seen + start, 1, n);
		uint64_t covered = 0;
		for (size_t k = 0; k < sizeof seen; k++)
			covered += seen[k];
		assert_int_equal(c.covered, covered);
	}
	rw_coverage_free(&c);
}

static void coverage_of_endless_holes_is_bounded(void **state)
{
	(void)state;
	enum { HOLES = 20000, SPANS = 4096 };
	for (int backwards = 0; backwards < 2; backwards++) {
		struct rw_coverage c = {0};
		for (uint64_t i = 0; i < HOLES; i++)
			rw_coverage_add(&c, 1000000 + 10 * (backwards ? HOLES - i : i), 1, 1);
		assert_int_equal(c.count, SPANS);
		assert_int_equal(c.room, SPANS);
		assert_int_equal(c.covered, HOLES);
		rw_coverage_add(&c, 1000000, 1, 10 * HOLES + 1);
		assert_int_equal(c.count, 1);
		assert_in_range(c.covered, HOLES, 10 * HOLES + 1);
		rw_coverage_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hash_vectors),
	    cmocka_unit_test(four_tuples_are_used_again),
	    cmocka_unit_test(many_flows_keep_their_numbers),
	    cmocka_unit_test(coverage_is_a_union),
	    cmocka_unit_test(coverage_against_a_bitmap),
	    cmocka_unit_test(coverage_of_endless_holes_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
