#include "check.h"
#include "packets.h"
#include "pseudonyms.h"

static const uint8_t KEY[RW_KEY_BYTES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The example of the paper's appendix A, and two of the reference implementation's vectors. */
static void siphash_is_siphash(void **state)
{
	(void)state;
	uint8_t input[15];
	for (uint8_t i = 0; i < sizeof input; i++)
		input[i] = i;
	assert_true(rw_siphash(KEY, input, 15) == 0xa129ca6149be45e5);
	assert_true(rw_siphash(KEY, input, 0) == 0x726fdb47dd0e0e31);
	assert_true(rw_siphash(KEY, input, 8) == 0x93f5f5799a932462);
}

static unsigned common_bits(const uint8_t *a, const uint8_t *b, unsigned bytes)
{
	unsigned n = 0;
	while (n < bytes * 8 && ((a[n / 8] ^ b[n / 8]) >> (7 - n % 8) & 1) == 0)
		n++;
	return n;
}

/* For each length there is a pair with exactly such a common prefix; the cache must not matter, so addresses come again. */
static void prefixes_stay_as_long(void **state)
{
	(void)state;
	static const unsigned bytes_of[] = {4, 16};
	struct rw_pseudonyms *p = rw_pseudonyms_open(KEY);
	for (int f = 0; f < 2; f++) {
		unsigned bytes = bytes_of[f], family = bytes == 4 ? 4 : 6, changed = 0;
		for (uint32_t i = 0; i < bytes * 8 * 40; i++) {
			uint8_t a[16] = {0}, b[16], to_a[16] = {0}, to_b[16] = {0};
			for (unsigned j = 0; j < bytes; j++)
				a[j] = b[j] = (uint8_t)((i / (bytes * 8) * 0x9e3779b1u + j * 0x85ebca6bu) >> 13);
			unsigned differs = i % (bytes * 8);
			b[differs / 8] ^= (uint8_t)(0x80 >> differs % 8);
			rw_pseudonym(p, family, a, to_a);
			rw_pseudonym(p, family, b, to_b);
			assert_int_equal(common_bits(to_a, to_b, bytes), differs);
			changed += memcmp(a, to_a, bytes) != 0;
		}
		assert_int_equal(changed, bytes * 8 * 40);
	}
	rw_pseudonyms_close(p);
}

static void other_keys_give_other_pseudonyms(void **state)
{
	(void)state;
	uint8_t address[4] = {10, 0, 0, 1}, one[4], other[4], key[RW_KEY_BYTES] = {1};
	struct rw_pseudonyms *p = rw_pseudonyms_open(KEY), *q = rw_pseudonyms_open(key);
	rw_pseudonym(p, 4, address, one);
	rw_pseudonym(q, 4, address, other);
	assert_memory_not_equal(one, other, 4);
	rw_pseudonyms_close(p);
	rw_pseudonyms_close(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(siphash_is_siphash),
	    cmocka_unit_test(prefixes_stay_as_long),
	    cmocka_unit_test(other_keys_give_other_pseudonyms),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
