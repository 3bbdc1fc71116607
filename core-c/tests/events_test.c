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

/* A bulk sender beside the capture point: its segments have 1000 bytes. */
enum { MSS = 1000 };

static struct rw_reconstruction sender;

static void begin(void)
{
	struct rw_flow f;
	memset(&f, 0, sizeof f);
	f.handshake = 1;
	f.side[0].syn = f.side[1].syn = 1;
	f.side[1].mss = MSS;
	f.side[1].syn_window = 60000;
	rw_reconstruction_open(&sender, &f, RW_VANTAGE_SENDER, 0, 1000, NULL);
	assert_int_equal(rw_reconstruction_sample_rates(&sender, 0), 0);
}

static void send(int64_t us, uint32_t bytes)
{
	struct rw_packet p;
	struct rw_events events;
	struct rw_oddity_counts oddities;
	memset(&p, 0, sizeof p);
	memset(&oddities, 0, sizeof oddities);
	p.time_ns = us * 1000;
	p.sequence = sender.started ? sender.tcp.next : 1;
	p.payload_bytes = bytes;
	p.flags = RW_TCP_ACK;
	p.tcp_header_bytes = 20;
	assert_int_equal(rw_reconstruction_sent(&sender, &p, &events, &oddities), 0);
}

/* What a rate-based controller is told of an ACK of so many bytes more. */
static struct rw_event_rate acknowledge(int64_t us, uint32_t bytes, uint16_t window)
{
	struct rw_packet p;
	struct rw_events events;
	struct rw_oddity_counts oddities;
	memset(&p, 0, sizeof p);
	memset(&oddities, 0, sizeof oddities);
	p.time_ns = us * 1000;
	p.ack = sender.tcp.una + bytes;
	p.window = window;
	p.flags = RW_TCP_ACK;
	p.tcp_header_bytes = 20;
	assert_int_equal(rw_reconstruction_acked(&sender, &p, &events, &oddities), 0);
	assert_int_equal(events.count, 1);
	assert_non_null(events.event[0].rate);
	return *events.event[0].rate;
}

/* A receiver without room held the sender back for 40 ms, and no application that had nothing to send. */
static void a_receiver_without_room_is_no_pause_of_the_application(void **state)
{
	(void)state;
	for (int shut = 0; shut < 2; shut++) {
		begin();
		for (int i = 0; i < 8; i++)
			send(1000 + i, MSS);
		acknowledge(20000, MSS, shut ? 7 * MSS : 60000);
		acknowledge(30000, MSS, 60000);
		send(60000, MSS);
		assert_int_equal(acknowledge(70000, MSS, 60000).waited_ns, shut ? 0 : 59000000);
		send(90000, MSS); /* the next pause is the application's */
		assert_int_equal(acknowledge(91000, MSS, 60000).waited_ns, 30000000);
		rw_reconstruction_close(&sender);
	}
}

/* Two segments every 2 ms; in the last row, one burst is the end of what MPTCP mapped. */
static void the_pace_is_the_time_between_two_timers_that_were_not_late(void **state)
{
	(void)state;
	static const struct {
		uint32_t at_us[4], second_bytes[4], paced_segments, paced_us;
	} cases[] = {
	    {{2000, 4000, 6000, 8000}, {MSS, MSS, MSS, MSS}, 8, 8000},
	    {{2000, 4600, 6000, 8000}, {MSS, MSS, MSS, MSS}, 6, 6600}, /* the second is late, and the third on time */
	    {{2000, 4000, 5600, 7200}, {MSS, MSS, MSS, MSS}, 8, 7200}, /* it has become faster */
	    {{2000, 4000, 5600, 7600}, {MSS, MSS - 400, MSS, MSS}, 6, 6000},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		begin();
		send(1000000, MSS);
		send(1000010, MSS);
		for (int k = 0; k < 4; k++) {
			send(1000000 + cases[i].at_us[k], MSS);
			send(1000010 + cases[i].at_us[k], cases[i].second_bytes[k]);
		}
		struct rw_event_rate told = acknowledge(1010000, MSS, 60000);
		assert_int_equal(told.sample.paced_segments, cases[i].paced_segments);
		assert_int_equal(told.sample.paced_ns, cases[i].paced_us * 1000);
		rw_reconstruction_close(&sender);
	}
}

/* After too much work, or a jump of more than a gigabyte, the sender's segments are forgotten, and followed anew. */
static void a_sender_that_is_given_up_is_told_and_followed_anew(void **state)
{
	(void)state;
	for (int jump = 0; jump < 2; jump++) {
		struct rw_packet p;
		struct rw_events events;
		struct rw_oddity_counts oddities;
		begin();
		for (int i = 0; i < 8; i++)
			send(1000 + i, MSS);
		memset(&p, 0, sizeof p);
		memset(&oddities, 0, sizeof oddities);
		p.time_ns = 2000000;
		p.offset = 77;
		p.sequence = sender.tcp.next + (jump ? RW_SEQUENCE_JUMP_MAX : 0);
		p.payload_bytes = MSS;
		p.flags = RW_TCP_ACK;
		p.tcp_header_bytes = 20;
		if (!jump)
			sender.tcp.board.work = UINT64_MAX;
		assert_int_equal(sender.gave_up, 0);
		assert_int_equal(rw_reconstruction_sent(&sender, &p, &events, &oddities), 0);
		assert_int_equal(sender.gave_up, 1);
		assert_int_equal(oddities.count[RW_ODDITY_WINDOW_TOO_LARGE], 1);
		assert_int_equal(oddities.first_offset[RW_ODDITY_WINDOW_TOO_LARGE], 77);
		uint32_t una = sender.tcp.una;
		send(3000, MSS);
		acknowledge(20000, MSS, 60000);
		assert_int_equal(sender.tcp.una, una + MSS);
		assert_int_equal(sender.tcp.board.work < 1000, 1);
		rw_reconstruction_close(&sender);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_the_handshake_agreed_on),
	    cmocka_unit_test(a_receiver_without_room_is_no_pause_of_the_application),
	    cmocka_unit_test(the_pace_is_the_time_between_two_timers_that_were_not_late),
	    cmocka_unit_test(a_sender_that_is_given_up_is_told_and_followed_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
