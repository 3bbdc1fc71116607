#include "check.h"
#include "events.h"

#include <string.h>

/* RFC 9768 tables 2 and 3; RFC 3168. AE, CWR, ECE as a number. */
static void what_the_handshake_agreed_on(void **state)
{
	(void)state;
	static const struct {
		uint8_t asked, answered;
		enum rw_ecn_mode mode;
	} cases[] = {{0, 0, RW_ECN_OFF},      {3, 0, RW_ECN_OFF},      {3, 1, RW_ECN_CLASSIC},  {7, 1, RW_ECN_CLASSIC},
		     {7, 0, RW_ECN_OFF},      {7, 2, RW_ECN_ACCURATE}, {7, 3, RW_ECN_ACCURATE}, {7, 4, RW_ECN_ACCURATE},
		     {7, 6, RW_ECN_ACCURATE}, {7, 7, RW_ECN_OFF},      {7, 5, RW_ECN_CLASSIC},  {3, 2, RW_ECN_OFF},
		     {0, 1, RW_ECN_OFF}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (uint8_t initiator = 0; initiator < 2; initiator++) {
			struct rw_flow f;
			memset(&f, 0, sizeof f);
			f.handshake = 1;
			f.initiator = initiator;
			f.side[initiator].syn_ecn = cases[i].asked;
			f.side[!initiator].syn_ecn = cases[i].answered;
			assert_int_equal(rw_flow_ecn(&f), cases[i].mode);
			f.handshake = 0;
			assert_int_equal(rw_flow_ecn(&f), RW_ECN_UNKNOWN);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_the_handshake_agreed_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
