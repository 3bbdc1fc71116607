/* Rows as text: the values of columns, each after a literal text, in the forms of JSON and Python's repr. */
#include <float.h>
#include <math.h>
#include <rewindow.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 32, ADDRESS_BYTES_MAX = 40, EXACT_DIGITS = 15, DIGITS_MAX = 17, POWERS = 23 };

static const uint64_t POWER_OF_TEN[20] = {1,
					  10,
					  100,
					  1000,
					  10000,
					  100000,
					  1000000,
					  10000000,
					  100000000,
					  1000000000,
					  10000000000,
					  100000000000,
					  1000000000000,
					  10000000000000,
					  100000000000000,
					  1000000000000000,
					  10000000000000000,
					  100000000000000000,
					  1000000000000000000,
					  10000000000000000000u};
/* Each of these is a double without error. */
static const double EXACT_POWER[POWERS] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
					   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static char *put_text(char *at, const char *text, size_t bytes)
{
	if (bytes)
		memcpy(at, text, bytes);
	return at + bytes;
}

static char *put_unsigned(char *at, uint64_t value)
{
	char digits[20];
	size_t count = 0;
	do
		digits[sizeof digits - ++count] = (char)('0' + value % 10);
	while (value /= 10);
	return put_text(at, digits + sizeof digits - count, count);
}

/* `digits` digits, with leading zeros. */
static char *put_padded(char *at, uint64_t value, int digits)
{
	for (int i = digits; i-- > 0; value /= 10)
		at[i] = (char)('0' + value % 10);
	return at + digits;
}

/* value / 10^places, 0 <= places <= 19 + leading zeros; at least one digit stands behind the point. */
static char *put_decimal(char *at, uint64_t value, int places)
{
	for (; places > 1 && value % 10 == 0; places--)
		value /= 10;
	if (places <= 0) {
		at = put_unsigned(at, value);
		return put_text(at, ".0", 2);
	}
	uint64_t whole = places < 20 ? value / POWER_OF_TEN[places] : 0;
	at = put_unsigned(at, whole);
	*at++ = '.';
	return put_padded(at, places < 20 ? value % POWER_OF_TEN[places] : value, places);
}

/* The fewest digits that suffice, by the C library, without the locale's decimal point. */
static char *put_double_slowly(char *at, double value)
{
	char text[40], digits[DIGITS_MAX + 1], again[40];
	int exponent = 0, count = 0;
	for (int precision = value < DBL_MIN ? 1 : EXACT_DIGITS; precision <= DIGITS_MAX; precision++) {
		snprintf(text, sizeof text, "%.*e", precision - 1, value);
		const char *c = text;
		for (count = 0; *c != 'e'; c++)
			if (*c >= '0' && *c <= '9')
				digits[count++] = *c;
		digits[count] = '\0';
		exponent = (int)strtol(c + 1, NULL, 10);
		snprintf(again, sizeof again, "%se%d", digits, exponent - (count - 1));
		if (strtod(again, NULL) == value)
			break;
	}
	while (count > 1 && digits[count - 1] == '0')
		count--;
	if (exponent >= -4 && exponent < 16) {
		if (exponent < 0)
			at = put_text(at, "0.0000", (size_t)(1 - exponent));
		for (int i = 0; i < count || i <= exponent; i++) {
			*at++ = (char)(i < count ? digits[i] : '0');
			if (i == exponent)
				*at++ = '.';
		}
		if (exponent >= count - 1)
			*at++ = '0';
		return at;
	}
	*at++ = digits[0];
	if (count > 1) {
		*at++ = '.';
		at = put_text(at, digits + 1, (size_t)count - 1);
	}
	*at++ = 'e';
	*at++ = exponent < 0 ? '-' : '+';
	unsigned size = (unsigned)abs(exponent);
	return size < 10 ? put_padded(at, size, 2) : put_unsigned(at, size);
}

/* Digits before the decimal point; for a value below 1, less one for each zero behind it. */
static int whole_digits(double value)
{
	int digits = 0;
	if (value < 1)
		for (; value * EXACT_POWER[1 - digits] < 1; digits--)
			;
	else
		while (value >= EXACT_POWER[digits])
			digits++;
	return digits;
}

/* value = mantissa / 2^shift with 16 or 17 digits, computed exactly: 1 <= value < 2^53, no power of two. */
static char *put_long_double_text(char *at, double value, int whole)
{
	int exponent;
	uint64_t mantissa = (uint64_t)ldexp(frexp(value, &exponent), 53);
	int shift = 53 - exponent; /* 1 to 52 */
	for (int places = EXACT_DIGITS + 1 - whole;; places++) {
		unsigned __int128 scaled = (unsigned __int128)mantissa * POWER_OF_TEN[places];
		unsigned __int128 half = (unsigned __int128)1 << (shift - 1), odd = scaled >> shift & 1;
		unsigned __int128 rounded =
		    (scaled + half - 1 + odd) >> shift << shift; /* a tie goes to the even digit */
		unsigned __int128 error = rounded > scaled ? rounded - scaled : scaled - rounded;
		/* Half the distance to the next double is 1/2 in units of the mantissa. */
		if (2 * error < POWER_OF_TEN[places] || places + whole == DIGITS_MAX)
			return put_decimal(at, (uint64_t)(rounded >> shift), places);
	}
}

/* The shortest decimal that reads as the same double; of a power of two perhaps one digit longer. */
static char *put_double(char *at, double value)
{
	if (value < 0 || (value == 0 && signbit(value))) {
		*at++ = '-';
		value = -value;
	}
	if (value == 0)
		return put_text(at, "0.0", 3);
	if (value < 1e-4 || value >= 9007199254740992.0)
		return put_double_slowly(at, value);
	/* Up to 15 digits, a quotient of two exact doubles is the double that these digits read as. */
	int whole = whole_digits(value), places = EXACT_DIGITS - whole;
	if (places >= 0 && places < POWERS) {
		double digits = rint(value * EXACT_POWER[places]);
		if (digits / EXACT_POWER[places] == value)
			return put_decimal(at, (uint64_t)digits, places);
	}
	int exponent;
	if (value < 1 || whole > EXACT_DIGITS || frexp(value, &exponent) == 0.5)
		return put_double_slowly(at, value);
	return put_long_double_text(at, value, whole);
}

/* As RFC 5952 says, without the form that has an IPv4 address inside. */
static char *put_address_v6(char *at, const uint8_t *raw)
{
	uint16_t group[8];
	int best = 0, best_count = 1;
	for (int i = 0; i < 8; i++)
		group[i] = (uint16_t)(raw[2 * i] << 8 | raw[2 * i + 1]);
	for (int i = 0, count = 0; i < 8; i++) {
		count = group[i] ? 0 : count + 1;
		if (count > best_count)
			best_count = count, best = i + 1 - count;
	}
	int skip = best_count > 1;
	for (int i = 0; i < 8; i++) {
		if (skip && i == best) {
			*at++ = ':', i += best_count - 1;
			if (i == 7)
				*at++ = ':';
			continue;
		}
		if (i)
			*at++ = ':';
		int begun = 0;
		for (int bits = 12; bits >= 0; bits -= 4) {
			unsigned digit = group[i] >> bits & 15;
			begun |= digit || bits == 0;
			if (begun)
				*at++ = "0123456789abcdef"[digit];
		}
	}
	return at;
}

static char *put_address(char *at, const uint8_t *raw, uint8_t family)
{
	if (family == 6)
		return put_address_v6(at, raw);
	for (int i = 0; i < 4; i++) {
		if (i)
			*at++ = '.';
		at = put_unsigned(at, raw[i]);
	}
	return at;
}

static uint64_t unsigned_at(const void *value, uint8_t width)
{
	uint8_t byte;
	uint16_t half;
	uint32_t word;
	uint64_t all;
	switch (width) {
	case 1:
		memcpy(&byte, value, sizeof byte);
		return byte;
	case 2:
		memcpy(&half, value, sizeof half);
		return half;
	case 4:
		memcpy(&word, value, sizeof word);
		return word;
	default:
		memcpy(&all, value, sizeof all);
		return all;
	}
}

static char *put_value(char *at, const rw_text_column *c, uint32_t row)
{
	at = put_text(at, c->before, c->before_bytes);
	if (c->missing && c->missing[row])
		return put_text(at, "null", 4);
	const uint8_t *value = (const uint8_t *)c->values + (size_t)row * c->stride;
	int64_t number;
	double real;
	uint32_t code;
	switch ((rw_text_kind)c->kind) {
	case RW_TEXT_UNSIGNED:
		return put_unsigned(at, unsigned_at(value, c->width));
	case RW_TEXT_SIGNED:
		memcpy(&number, value, sizeof number);
		if (number < 0)
			*at++ = '-';
		return put_unsigned(at, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
	case RW_TEXT_BOOLEAN:
		return *value ? put_text(at, "true", 4) : put_text(at, "false", 5);
	case RW_TEXT_DOUBLE:
		memcpy(&real, value, sizeof real);
		return put_double(at, real);
	case RW_TEXT_ADDRESS:
		*at++ = '"';
		at = put_address(at, value, c->family[row]);
		*at++ = '"';
		return at;
	case RW_TEXT_CODED:
		memcpy(&code, value, sizeof code);
		return put_text(at, c->texts[code], c->text_bytes[code]);
	}
	return at;
}

static char *put_row(char *at, const rw_text_table *table, uint32_t row)
{
	for (uint32_t i = 0; i < table->columns; i++)
		at = put_value(at, &table->column[i], row);
	return at;
}

/* The largest size of one row, without its parts. */
static size_t row_bytes_max(const rw_text_table *table)
{
	size_t most = (size_t)table->between_bytes + table->before_parts_bytes + table->after_bytes;
	for (uint32_t i = 0; i < table->columns; i++) {
		const rw_text_column *c = &table->column[i];
		size_t longest = c->kind == RW_TEXT_ADDRESS ? ADDRESS_BYTES_MAX + 2 : NUMBER_BYTES_MAX;
		for (uint32_t k = 0; c->kind == RW_TEXT_CODED && k < c->text_count; k++)
			if (c->text_bytes[k] > longest)
				longest = c->text_bytes[k];
		most += c->before_bytes + longest;
	}
	return most;
}

uint32_t rw_text_rows(const rw_text_table *table, const rw_text_table *part, const uint32_t *part_count, uint32_t rows,
		      uint32_t *first, uint32_t *first_part, char *out, uint64_t capacity, uint64_t *bytes)
{
	char *at = out;
	size_t longest = row_bytes_max(table), part_longest = part ? row_bytes_max(part) : 0;
	uint32_t row = *first, place = *first_part;
	for (; row < rows; row++) {
		uint32_t parts = part ? part_count[row] : 0;
		if (longest + (size_t)parts * part_longest > capacity - (size_t)(at - out))
			break;
		if (row)
			at = put_text(at, table->between, table->between_bytes);
		at = put_row(at, table, row);
		at = put_text(at, table->before_parts, table->before_parts_bytes);
		for (uint32_t k = 0; k < parts; k++, place++) {
			if (k)
				at = put_text(at, part->between, part->between_bytes);
			at = put_row(at, part, place);
			at = put_text(at, part->after, part->after_bytes);
		}
		at = put_text(at, table->after, table->after_bytes);
	}
	uint32_t written = row - *first;
	*first = row, *first_part = place;
	*bytes = (uint64_t)(at - out);
	return written;
}

uint32_t rw_text_address(const uint8_t *raw, uint8_t family, char *out)
{
	return (uint32_t)(put_address(out, raw, family) - out);
}
