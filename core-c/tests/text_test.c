#include "check.h"
#include <float.h>
#include <rewindow.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rw_text_table table_of(const rw_text_column *column, uint32_t columns, const char *after)
{
	return (rw_text_table){.column = column,
			       .columns = columns,
			       .between = ",",
			       .between_bytes = 1,
			       .before_parts = "",
			       .after = after,
			       .after_bytes = (uint32_t)strlen(after)};
}

static const char *text_of_double(double value)
{
	static char out[64];
	rw_text_column column = {.kind = RW_TEXT_DOUBLE, .stride = sizeof value, .values = &value, .before = ""};
	rw_text_table table = table_of(&column, 1, "");
	uint32_t first = 0, part = 0;
	uint64_t bytes;
	assert_int_equal(rw_text_rows(&table, NULL, NULL, 1, &first, &part, out, sizeof out - 1, &bytes), 1);
	out[bytes] = '\0';
	return out;
}

/* As Python's repr writes them. */
static void doubles_in_the_fewest_digits(void **unused)
{
	(void)unused;
	static const struct {
		double value;
		const char *text;
	} known[] = {
	    {0.0, "0.0"},
	    {-0.0, "-0.0"},
	    {1.0, "1.0"},
	    {-2.5, "-2.5"},
	    {0.1, "0.1"},
	    {1.0 / 3, "0.3333333333333333"},
	    {2080994.8359407047, "2080994.8359407047"},
	    {0.04000088, "0.04000088"},
	    {1e-4, "0.0001"},
	    {1.5e-5, "1.5e-05"},
	    {1e15, "1000000000000000.0"},
	    {9007199254740993.0, "9007199254740992.0"},
	    {1e16, "1e+16"},
	    {1.25e100, "1.25e+100"},
	    {146660888644929.125, "146660888644929.12"},
	    {DBL_MAX, "1.7976931348623157e+308"},
	    {5e-324, "5e-324"},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		assert_string_equal(text_of_double(known[i].value), known[i].text);
	uint64_t state = 88172645463325252ull;
	for (int i = 0; i < 200000; i++) {
		state ^= state << 13, state ^= state >> 7, state ^= state << 17;
		double value = (double)(state >> 40) * 8e9 / (double)((state & 0xffffff) + 1);
		assert_true(strtod(text_of_double(value), NULL) == value);
	}
}

static void addresses_as_rfc_5952_has_them(void **unused)
{
	(void)unused;
	static const struct {
		uint8_t raw[16];
		uint8_t family;
		const char *text;
	} known[] = {
	    {{10, 0, 11, 255}, 4, "10.0.11.255"},
	    {{0}, 6, "::"},
	    {{[15] = 1}, 6, "::1"},
	    {{0x20, 0x01, 0x0d, 0xb8}, 6, "2001:db8::"},
	    {{0x20, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xa, 0xbc}, 6, "2001:0:1::abc"},
	    {{1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0}, 6, "101:0:101:0:101:0:101:0"},
	};
	char out[40];
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		out[rw_text_address(known[i].raw, known[i].family, out)] = '\0';
		assert_string_equal(out, known[i].text);
	}
}

/* Whatever fits at once, the pieces are the same text, and nothing is written beyond the capacity. */
static void pieces_make_the_whole(void **unused)
{
	(void)unused;
	enum { ROWS = 5, PARTS = 6 };
	uint16_t number[ROWS] = {0, 65535, 7, 42, 1};
	int64_t time[ROWS] = {0, -1, INT64_MAX, INT64_MIN, 1700000000000000000};
	uint8_t missing[ROWS] = {0, 0, 1, 0, 0}, truth[PARTS] = {1, 0, 1, 1, 0, 1};
	uint32_t code[PARTS] = {0, 1, 1, 0, 1, 0}, count[ROWS] = {1, 0, 3, 1, 1}, sizes[2] = {1, 11};
	const char *texts[2] = {"a", "a long text"};
	rw_text_column columns[] = {
	    {RW_TEXT_UNSIGNED, 2, 2, number, missing, .before = "{n:", .before_bytes = 3},
	    {RW_TEXT_SIGNED, 8, 8, time, .before = ",t:", .before_bytes = 3},
	};
	rw_text_column part_columns[] = {
	    {RW_TEXT_BOOLEAN, 1, 1, truth, .before = "(", .before_bytes = 1},
	    {RW_TEXT_CODED, 4, 4, code, .before = " ", .before_bytes = 1, .texts = texts, .text_bytes = sizes,
	     .text_count = 2},
	};
	rw_text_table table = table_of(columns, 2, "]}"), part = table_of(part_columns, 2, ")");
	table.before_parts = ",p:[", table.before_parts_bytes = 4;
	const char *whole =
	    "{n:0,t:0,p:[(true a)]},{n:65535,t:-1,p:[]},"
	    "{n:null,t:9223372036854775807,p:[(false a long text),(true a long text),(true a)]},"
	    "{n:42,t:-9223372036854775808,p:[(false a long text)]},{n:1,t:1700000000000000000,p:[(true a)]}";
	int pieces_most = 0;
	for (uint64_t capacity = 0; capacity < 1000; capacity++) {
		char *out = malloc(capacity + 1), all[1000] = "";
		uint32_t first = 0, first_part = 0;
		uint64_t bytes;
		int pieces = 0;
		while (rw_text_rows(&table, &part, count, ROWS, &first, &first_part, out, capacity, &bytes)) {
			assert_true(bytes <= capacity);
			strncat(all, out, bytes);
			pieces++;
		}
		if (first == ROWS) {
			assert_string_equal(all, whole);
			assert_int_equal(first_part, PARTS);
			pieces_most = pieces > pieces_most ? pieces : pieces_most;
		} else {
			assert_true(strncmp(all, whole, strlen(all)) == 0 && capacity < 400);
		}
		free(out);
	}
	assert_true(pieces_most > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(doubles_in_the_fewest_digits),
	    cmocka_unit_test(addresses_as_rfc_5952_has_them),
	    cmocka_unit_test(pieces_make_the_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
