/* Delivery-rate samples: cases computed by hand from the pseudo code of draft-cheng-iccrg-delivery-rate-estimation-00, section 3. */
#include "check.h"
#include "delivery_rate.h"

#define MS 1000000ll

enum { START_MS = 1000 };

/* The sampler of one flow, which is a subflow of MPTCP or not; times in the tests are milliseconds. */
static struct rw_delivery_rate d;

static void begin(int is_subflow)
{
	rw_delivery_rate_open(&d);
	d.is_subflow = (uint8_t)is_subflow;
}

static void restart(int64_t now_ms) { assert_int_equal(rw_delivery_rate_restart(&d, now_ms * MS), 0); }

/* The ACK at now_ms delivers so many segments; the newest of them left at sent_ms. */
static struct rw_rate_sample ack(int64_t now_ms, int64_t sent_ms, uint32_t segments)
{
	struct rw_delivered delivered = {now_ms * MS, sent_ms * MS, (uint64_t)((now_ms - sent_ms) * MS), segments};
	struct rw_rate_sample sample;
	assert_int_equal(rw_delivery_rate_sample(&d, &delivered, &sample), 0);
	return sample;
}

#define IS(sample, has_delivered, has_prior, has_interval_ms, has_app_limited)                                         \
	do {                                                                                                           \
		struct rw_rate_sample s_ = (sample);                                                                   \
		assert_int_equal(s_.delivered, has_delivered);                                                         \
		assert_int_equal(s_.prior_delivered, has_prior);                                                       \
		assert_int_equal(s_.interval_ns, (has_interval_ms) * MS);                                              \
		assert_int_equal(s_.app_limited, has_app_limited);                                                     \
	} while (0)

/*
 * Four packets leave at 1000, 1010, 1020, 1030 ms: all have C.delivered = 1 (the SYN), C.first_sent_time = C.delivered_time = 1000.
 * A fifth leaves at 1105, after the first ACK: C.delivered = 2, C.delivered_time = 1100, and C.first_sent_time = 1000, when the
 * packet left that was acknowledged last.
 */
static void samples_of_a_steady_sender(void **state)
{
	(void)state;
	begin(0);
	restart(START_MS);
	IS(ack(1100, 1000, 1), 2, 1, 100, 1); /* ack_elapsed 1100 - 1000; send_elapsed 0 */
	IS(ack(1110, 1010, 1), 3, 1, 110, 1); /* send_elapsed 1010 - 1000 */
	IS(ack(1130, 1030, 2), 5, 1, 130, 1);
	IS(ack(1205, 1105, 1), 6, 2, 105, 0); /* ack_elapsed 1205 - 1100, send_elapsed 1105 - 1000 */
	rw_delivery_rate_close(&d);
}

/* ACKs that come in bulk are no faster than what they acknowledge was sent: send_elapsed is the interval. */
static void sending_took_longer(void **state)
{
	(void)state;
	begin(0);
	restart(START_MS);
	ack(1100, 1000, 1);
	ack(1300, 1090, 1);
	/* Sent at 1290, before the ACK at 1300: C.delivered 2, C.delivered_time 1100, C.first_sent_time 1000. */
	IS(ack(1380, 1290, 1), 4, 2, 290, 0); /* ack_elapsed 280 */
	rw_delivery_rate_close(&d);
}

/* An interval that is shorter than the shortest round trip has no sample: the ACK is of an earlier transmission. */
static void too_short_an_interval(void **state)
{
	(void)state;
	begin(0);
	restart(START_MS);
	ack(1060, 1000, 1);
	restart(2000);
	struct rw_delivered again = {2040 * MS, 2000 * MS, 0, 1};
	struct rw_rate_sample sample;
	assert_int_equal(rw_delivery_rate_sample(&d, &again, &sample), 0);
	IS(sample, 3, 2, 0, 1); /* ack_elapsed 40, less than 60 */
	rw_delivery_rate_close(&d);
}

/* The application had nothing to send until 2000 ms: what leaves until then is delivered is limited by it. */
static void the_application_limits(void **state)
{
	(void)state;
	begin(0);
	restart(START_MS);
	ack(1100, 1000, 4);
	assert_int_equal(d.app_limited, 0);
	restart(2000); /* C.app_limited = C.delivered + C.pipe = 5 + 0 */
	assert_int_equal(d.app_limited, 5);
	IS(ack(2100, 2000, 1), 6, 5, 100, 1); /* the idle time is in no interval */
	assert_int_equal(d.app_limited, 0); /* C.delivered is 6, more than 5 */
	IS(ack(2110, 2010, 1), 7, 5, 110, 1); /* it left while the mark stood */
	IS(ack(2210, 2105, 1), 8, 6, 110, 0); /* ack_elapsed 2210 - 2100, send_elapsed 2105 - 2000 */
	rw_delivery_rate_close(&d);
}

/* More data comes at 1050 ms, while four packets are in flight: C.app_limited = C.delivered + C.pipe = 2 + 4. */
static void data_that_comes_late(void **state)
{
	(void)state;
	begin(0);
	restart(START_MS);
	ack(1020, 1000, 1);
	assert_int_equal(rw_delivery_rate_app_limits(&d, 1050 * MS, 4), 0);
	assert_int_equal(d.app_limited, 6);
	IS(ack(1110, 1040, 1), 3, 2, 90, 0); /* it left before */
	IS(ack(1120, 1060, 1), 4, 2, 100, 1);
	IS(ack(1140, 1080, 3), 7, 2, 120, 1); /* C.delivered is more than 6: the limit ends */
	IS(ack(1230, 1150, 1), 8, 7, 90, 0);
	rw_delivery_rate_close(&d);
}

/* What was measured of Linux's MPTCP: only a subflow's first data is marked. */
static void a_subflow_is_marked_once(void **state)
{
	(void)state;
	begin(1);
	restart(START_MS);
	IS(ack(1100, 1000, 1), 2, 1, 100, 1);
	restart(2000);
	IS(ack(2100, 2000, 1), 3, 2, 100, 0);
	assert_int_equal(rw_delivery_rate_app_limits(&d, 2150 * MS, 4), 0);
	assert_int_equal(d.app_limited, 0);
	rw_delivery_rate_close(&d);
}

/* An ACK that delivers nothing new, or what it delivers is not known: no sample, and no interval begins. */
static void an_ack_without_a_packet(void **state)
{
	(void)state;
	begin(0);
	restart(START_MS);
	struct rw_delivered delivered = {1100 * MS, 0, 0, 0};
	struct rw_rate_sample sample;
	assert_int_equal(rw_delivery_rate_sample(&d, &delivered, &sample), 0);
	IS(sample, 1, 0, 0, 0);
	assert_int_equal(d.app_limited, 1);
	IS(ack(1110, 1005, 1), 2, 1, 110, 1);
	rw_delivery_rate_close(&d);
}

/* Intervals are kept until the oldest packet that is in flight left later, and the ring grows for more. */
static void many_intervals(void **state)
{
	(void)state;
	begin(0);
	restart(START_MS);
	for (int i = 1; i <= 1000; i++)
		ack(1000 + 10 * i, 1000, 1);
	/* It left at 6005, after the ACK at 6000: 501 were delivered then. C.first_sent_time is 1000 all the time. */
	IS(ack(11010, 6005, 1), 1002, 501, 5010, 0);
	uint32_t kept = d.count;
	assert_int_equal(rw_delivery_rate_make_room(&d, 8005 * MS), 0);
	assert_true(d.count < kept);
	IS(ack(11020, 8005, 1), 1003, 701, 7005, 0);
	struct rw_rate_sample forgotten = ack(11030, 1500, 1);
	assert_int_equal(forgotten.interval_ns, 0);
	rw_delivery_rate_close(&d);
}

static void leaves(int64_t sent_ms, uint32_t in_flight, uint32_t losses)
{
	struct rw_flight_sent sent = {sent_ms * MS, in_flight, losses};
	assert_int_equal(rw_delivery_rate_sent(&d, &sent), 0);
}

static void is_lost(int64_t sent_ms, uint32_t start, uint32_t losses)
{
	struct rw_found_lost found = {sent_ms * MS, start, start + 10, losses};
	rw_delivery_rate_lost(&d, &found);
}

#define LOST(of, has_in_flight, has_lost, has_delivered, has_prior, has_continues)                                     \
	do {                                                                                                           \
		struct rw_segment_lost l_ = (of);                                                                      \
		assert_int_equal(l_.in_flight, has_in_flight);                                                         \
		assert_int_equal(l_.lost, has_lost);                                                                   \
		assert_int_equal(l_.delivered, has_delivered);                                                         \
		assert_int_equal(l_.prior_delivered, has_prior);                                                       \
		assert_int_equal(l_.continues, has_continues);                                                         \
	} while (0)

/* P.tx_in_flight, C.lost - P.lost and C.delivered of each packet that is found lost (draft-ietf-ccwg-bbr-06, 4.1.2.2, 5.5.10.2). */
static void what_is_lost(void **state)
{
	(void)state;
	uint32_t before, count;
	begin(0);
	d.keeps_flights = 1;
	restart(START_MS);
	leaves(1000, 4, 0);
	leaves(1010, 6, 0);
	ack(1100, 1000, 1);
	leaves(1105, 7, 0);
	is_lost(1010, 110, 1);
	is_lost(1010, 120, 2);
	rw_delivery_rate_begin_ack(&d);
	is_lost(1105, 150, 3);
	const struct rw_segment_lost *lost = rw_delivery_rate_take_lost(&d, &before, &count);
	assert_int_equal(before, 2);
	assert_int_equal(count, 3);
	LOST(lost[0], 6, 1, 2, 1, 0);
	LOST(lost[1], 6, 2, 2, 1, 1);
	LOST(lost[2], 7, 3, 2, 2, 0);
	rw_delivery_rate_take_lost(&d, &before, &count);
	assert_int_equal(before + count, 0);
	leaves(1200, 5, 3);
	is_lost(1200, 160, 4); /* behind the last one that was found before */
	is_lost(900, 10, 5); /* nobody saw it leave */
	lost = rw_delivery_rate_take_lost(&d, &before, &count);
	assert_int_equal(before, 0);
	assert_int_equal(count, 2);
	LOST(lost[0], 5, 1, 2, 2, 1);
	LOST(lost[1], 0, 0, 2, 0, 0);
	struct rw_rate_sample sample = {0};
	rw_delivery_rate_add_flight(&d, 1010 * MS, 5, &sample);
	assert_int_equal(sample.sent_in_flight, 6);
	assert_int_equal(sample.lost_since, 5);
	rw_delivery_rate_close(&d);
}

/* Without a controller that asks, nothing is kept. */
static void losses_that_nobody_asks_for(void **state)
{
	(void)state;
	uint32_t before, count;
	begin(0);
	is_lost(1010, 110, 1);
	rw_delivery_rate_take_lost(&d, &before, &count);
	assert_int_equal(count, 0);
	assert_null(d.lost);
	rw_delivery_rate_close(&d);
}

/* Flights are kept until the oldest packet that is outstanding left later. */
static void many_flights(void **state)
{
	(void)state;
	begin(0);
	d.keeps_flights = 1;
	for (uint32_t i = 1; i <= 1000; i++)
		leaves(1000 + i, i, i / 2);
	struct rw_rate_sample sample = {0};
	rw_delivery_rate_add_flight(&d, 1007 * MS, 500, &sample);
	assert_int_equal(sample.sent_in_flight, 7);
	assert_int_equal(sample.lost_since, 497);
	assert_int_equal(rw_delivery_rate_make_room_for_flights(&d, 1900 * MS), 0);
	assert_int_equal(d.flights, 101);
	sample = (struct rw_rate_sample){0};
	rw_delivery_rate_add_flight(&d, 1007 * MS, 500, &sample);
	assert_int_equal(sample.sent_in_flight, 0);
	rw_delivery_rate_add_flight(&d, 1900 * MS, 500, &sample);
	assert_int_equal(sample.sent_in_flight, 900);
	leaves(1950, 3, 500); /* a clock that went back */
	assert_int_equal(d.flights, 51);
	uint32_t capacity = d.flight_capacity;
	assert_int_equal(rw_delivery_rate_make_room_for_flights(&d, 1900 * MS), 0);
	assert_int_equal(d.flight_capacity, 2 * capacity); /* all of them are of packets that are outstanding */
	rw_delivery_rate_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(samples_of_a_steady_sender),
	    cmocka_unit_test(sending_took_longer),
	    cmocka_unit_test(too_short_an_interval),
	    cmocka_unit_test(the_application_limits),
	    cmocka_unit_test(data_that_comes_late),
	    cmocka_unit_test(a_subflow_is_marked_once),
	    cmocka_unit_test(an_ack_without_a_packet),
	    cmocka_unit_test(many_intervals),
	    cmocka_unit_test(what_is_lost),
	    cmocka_unit_test(losses_that_nobody_asks_for),
	    cmocka_unit_test(many_flights),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
