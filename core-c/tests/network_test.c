/* Queues, links and networks in virtual time, against what their papers and RFCs say. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "network.h"

enum { PACKET = 1250, MS = 1000000 }; /* at 10 Mbit/s a packet takes a millisecond */

static struct rw_network *with_link(const struct rw_link_settings *settings, uint64_t seed)
{
	struct rw_network *n = rw_network_open(seed);
	const uint32_t route[] = {0};
	assert_int_equal(rw_network_add_link(n, settings), 0);
	assert_int_equal(rw_network_add_route(n, route, 1), 0);
	return n;
}

/* The next packet that leaves. */
static struct rw_network_packet delivered(struct rw_network *n)
{
	struct rw_network_packet p = {0};
	enum rw_network_outcome outcome;
	do
		outcome = rw_network_advance(n, INT64_MAX - 1, &p);
	while (outcome == RW_NETWORK_LOST);
	assert_int_equal(outcome, RW_NETWORK_DELIVERED);
	return p;
}

/* Known answers of the paper's authors (Random123, kat_vectors). */
static void test_philox(void **state)
{
	static const uint32_t counter[3][4] = {
	    {0}, {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
	static const uint32_t key[3][2] = {{0}, {UINT32_MAX, UINT32_MAX}, {0xa4093822, 0x299f31d0}};
	static const uint32_t answer[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
					      {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
					      {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
	(void)state;
	for (int i = 0; i < 3; i++) {
		uint32_t out[4];
		rw_philox(counter[i], key[i], out);
		assert_memory_equal(out, answer[i], sizeof out);
	}
}

/* Each draw against -ln(u), and all that there are from the least to the greatest u. */
static void test_exponential(void **state)
{
	struct rw_random r = {.seed = 7}, same = {.seed = 7};
	double sum = 0;
	(void)state;
	for (int i = 0; i < 20000; i++) {
		double u = (double)rw_random_next(&same) / 4294967296.0;
		uint64_t x = rw_random_exponential(&r, 1000000);
		assert_true(fabs((double)x + 1e6 * log(u)) < 1.01);
		sum += (double)x;
	}
	assert_true(fabs(sum / 20000 / 1e6 - 1) < 0.02);
	assert_int_equal(rw_random_exponential(&r, 0), 0);
}

/* Each packet after the one before, and then the delay; what finds the queue full is lost. */
static void test_drop_tail(void **state)
{
	struct rw_link_settings s = {.rate_bps = 10000000, .delay_ns = 20 * MS, .queue.limit_packets = 3};
	struct rw_network *n = with_link(&s, 1);
	(void)state;
	for (uint64_t i = 0; i < 6; i++) /* one is sent, three wait */
		assert_int_equal(rw_network_send(n, 0, 0, i, PACKET, 0), i < 4 ? RW_NETWORK_WAITING : RW_NETWORK_LOST);
	for (uint64_t i = 0; i < 4; i++) {
		struct rw_network_packet p = delivered(n);
		assert_int_equal(p.user, i);
		assert_int_equal(p.time_ns, (int64_t)(i + 1) * MS + 20 * MS);
		assert_int_equal(p.bytes, PACKET);
	}
	assert_true(rw_network_next_ns(n) == RW_NEVER);
	const struct rw_link_counts *c = rw_network_counts(n, 0);
	assert_int_equal(c->forwarded, 4);
	assert_int_equal(c->bytes, 4 * PACKET);
	assert_int_equal(c->dropped_full, 2);
	assert_int_equal(c->queue_packets_max, 3);
	rw_network_close(n);
}

static void test_limit_in_bytes(void **state)
{
	struct rw_link_settings s = {.rate_bps = 10000000, .queue.limit_bytes = 2000};
	struct rw_network *n = with_link(&s, 1);
	(void)state;
	assert_int_equal(rw_network_send(n, 0, 0, 0, PACKET, 0), RW_NETWORK_WAITING); /* is sent at once */
	assert_int_equal(rw_network_send(n, 0, 0, 1, PACKET, 0), RW_NETWORK_WAITING);
	assert_int_equal(rw_network_send(n, 0, 0, 2, 751, 0), RW_NETWORK_LOST);
	assert_int_equal(rw_network_send(n, 0, 0, 3, 750, 0), RW_NETWORK_WAITING);
	rw_network_close(n);
}

/* A packet's time is rounded up to a nanosecond, and no two packets overlap. */
static void test_times_are_rounded_up(void **state)
{
	struct rw_link_settings s = {.rate_bps = 3000000000};
	struct rw_network *n = with_link(&s, 1);
	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		rw_network_send(n, 0, 0, i, 1, 0); /* 2.67 ns each */
	assert_int_equal(delivered(n).time_ns, 3);
	assert_int_equal(delivered(n).time_ns, 6);
	rw_network_close(n);
}

/* What can be marked, and finds as many packets as the threshold says. */
static void test_ecn_threshold(void **state)
{
	struct rw_link_settings s = {
	    .rate_bps = 10000000,
	    .queue = {.discipline = RW_ECN_THRESHOLD, .threshold_packets = 2, .limit_packets = 100}};
	struct rw_network *n = with_link(&s, 1);
	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		rw_network_send(n, 0, 0, i, PACKET, i != 5);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(delivered(n).marked, i >= 3 && i != 5); /* 0 is sent, 1 finds none, 2 one, 3 two */
	assert_int_equal(rw_network_counts(n, 0)->marked, 4);
	rw_network_close(n);
}

static struct rw_queue red_queue(uint32_t max_probability_q32, uint8_t gentle, uint8_t ecn)
{
	struct rw_queue q;
	struct rw_queue_settings s = {.discipline = RW_RED,
				      .ecn = ecn,
				      .red = {.min_packets = 5,
					      .max_packets = 15,
					      .max_probability_q32 = max_probability_q32,
					      .weight_shift = 9,
					      .gentle = gentle}};
	rw_queue_open(&q, &s);
	return q;
}

/* The average is the paper's: a step of 1/512 a packet, and none below the lower threshold is dropped. */
static void test_red_average(void **state)
{
	struct rw_queue q = red_queue(1 << 30, 0, 0);
	struct rw_random random = {.seed = 1};
	struct rw_parcel p = {.bytes = PACKET};
	double average = 0;
	(void)state;
	for (int i = 0; i < 40; i++) {
		average += (i - average) / 512;
		assert_int_equal(rw_queue_put(&q, &p, 0, MS, &random), RW_QUEUE_TAKEN);
	}
	assert_true(fabs((double)q.red.average_q32 / 4294967296.0 - average) < 1e-6);
	for (int i = 39; i > 1; i--) { /* and down again, a packet less with each that comes */
		rw_queue_take(&q, 0, &p);
		rw_queue_take(&q, 0, &p);
		average += (i - 1 - average) / 512;
		rw_queue_put(&q, &p, 0, MS, &random);
	}
	assert_true(fabs((double)q.red.average_q32 / 4294967296.0 - average) < 1e-6);
	/* Empty for 300 packets' time: as if so many had found nothing (section 4 of the paper). */
	rw_queue_take(&q, 0, &p);
	rw_queue_take(&q, 10 * MS, &p);
	rw_queue_put(&q, &p, 310 * MS, MS, &random);
	assert_true(fabs((double)q.red.average_q32 / 4294967296.0 - average * pow(1 - 1.0 / 512, 300)) < 1e-6);
	rw_queue_close(&q);
}

/* With the average held at the middle of the thresholds, drops come every 1 to 1/p packets, each distance alike (section 7). */
static void test_red_spaces_drops(void **state)
{
	struct rw_queue q = red_queue((uint32_t)(0.1 * 4294967296.0), 0, 0);
	struct rw_random random = {.seed = 3};
	struct rw_parcel p = {.bytes = PACKET};
	int drops = 0, since = 0, longest = 0, sum = 0;
	(void)state;
	for (int i = 0; i < 10; i++)
		rw_queue_put(&q, &p, 0, MS, &random);
	for (int i = 0; i < 40000; i++) {
		q.red.average_q32 = (uint64_t)10 << 32;
		since++;
		if (rw_queue_put(&q, &p, 0, MS, &random) == RW_QUEUE_EARLY) {
			drops++;
			sum += since;
			longest = since > longest ? since : longest;
			since = 0;
		} else {
			rw_queue_take(&q, 0, &p);
		}
	}
	assert_in_range(longest, 15, 20); /* 1/p is 20 */
	assert_true(fabs((double)sum / drops - 10.5) < 0.2);
	rw_queue_close(&q);
}

static enum rw_queue_put red_at(uint32_t average, uint8_t gentle, uint8_t ecn)
{
	struct rw_queue q = red_queue(UINT32_MAX, gentle, ecn);
	struct rw_random random = {.seed = 3};
	struct rw_parcel p = {.bytes = PACKET, .ecn_capable = 1};
	enum rw_queue_put put;
	for (uint32_t i = 0; i < average; i++) {
		q.red.average_q32 = 0;
		rw_queue_put(&q, &p, 0, MS, &random);
	}
	q.red.average_q32 = (uint64_t)average << 32;
	q.red.since_drop = 1;
	put = rw_queue_put(&q, &p, 0, MS, &random);
	rw_queue_close(&q);
	return put;
}

/* Between the thresholds a mark does; beyond, it is a drop (RFC 3168, section 7); gentle RED reaches 1 at twice the upper one. */
static void test_red_marks_and_drops(void **state)
{
	(void)state;
	assert_int_equal(red_at(4, 0, 1), RW_QUEUE_TAKEN);
	assert_int_equal(red_at(14, 0, 1), RW_QUEUE_MARKED);
	assert_int_equal(red_at(14, 0, 0), RW_QUEUE_EARLY);
	assert_int_equal(red_at(15, 0, 1), RW_QUEUE_EARLY);
	assert_int_equal(red_at(30, 1, 1), RW_QUEUE_EARLY);
}

static void test_gentle_red_rises(void **state)
{
	struct rw_queue q = red_queue((uint32_t)(0.1 * 4294967296.0), 1, 0);
	struct rw_random random = {.seed = 5};
	struct rw_parcel p = {.bytes = PACKET};
	int drops = 0;
	(void)state;
	for (int i = 0; i < 22; i++)
		rw_queue_put(&q, &p, 0, MS, &random);
	for (int i = 0; i < 20000; i++) {
		q.red.average_q32 = (uint64_t)22 << 32; /* 0.1 + 0.9 * 7/15 */
		q.red.since_drop = 0;
		if (rw_queue_put(&q, &p, 0, MS, &random) == RW_QUEUE_EARLY)
			drops++;
		else
			rw_queue_take(&q, 0, &p);
	}
	assert_true(fabs(drops / 20000.0 - 0.52) < 0.02);
	rw_queue_close(&q);
}

/*
 * A queue that stays 20 ms long: the first drop comes an interval after the delay passed the target, and each further one
 * after interval / sqrt(count) (RFC 8289, section 5.4). ecn: marks at the same times.
 */
static void drop_times(uint8_t ecn)
{
	const int64_t step = MS / 10;
	struct rw_queue q;
	struct rw_queue_settings s = {
	    .discipline = RW_CODEL, .ecn = ecn, .codel = {.target_ns = 5 * MS, .interval_ns = 100 * MS}};
	struct rw_random random = {.seed = 1};
	double next = 0;
	int chosen = 0;
	rw_queue_open(&q, &s);
	for (int64_t now = 0; now < 1000 * MS; now += step) {
		struct rw_parcel p = {.bytes = PACKET, .ecn_capable = 1};
		assert_int_equal(rw_queue_put(&q, &p, now, step, &random), RW_QUEUE_TAKEN);
		if (now < 20 * MS)
			continue;
		while (now - rw_parcels_at(&q.waiting, 0)->since_ns >= 20 * MS) {
			enum rw_queue_take taken;
			do { /* a link takes the next one at once */
				taken = rw_queue_take(&q, now, &p);
				if (taken == RW_QUEUE_SEND && !p.marked)
					break;
				assert_int_equal(taken, ecn ? RW_QUEUE_SEND : RW_QUEUE_DROP);
				next = chosen ? next + 100.0 * MS / sqrt(chosen) : 120.0 * MS;
				assert_true((double)now >= next && (double)now < next + 2.0 * (double)step);
				chosen++;
			} while (taken == RW_QUEUE_DROP);
		}
	}
	assert_in_range(chosen, 20, 30);
	rw_queue_close(&q);
}

static void test_codel_drops(void **state)
{
	(void)state;
	drop_times(0);
}

static void test_codel_marks(void **state)
{
	(void)state;
	drop_times(1);
}

/* RFC 8289, appendix A's dequeue, by the letter and with floating point: which packets it sends, drops or marks. */
struct codel_reference {
	int64_t since_ns[4096];
	uint32_t first, end;
	double drop_next, first_above;
	uint32_t count, last_count;
	int dropping;
};

static int reference_next(struct codel_reference *r, double now, int *ok)
{
	*ok = 0;
	if (r->first == r->end) {
		r->first_above = 0;
		return -1;
	}
	int packet = (int)r->first++;
	if (now - (double)r->since_ns[packet] < 5.0 * MS || (r->end - r->first) * PACKET <= 1500)
		r->first_above = 0;
	else if (r->first_above == 0)
		r->first_above = now + 100.0 * MS;
	else
		*ok = now >= r->first_above;
	return packet;
}

/* dropped: how many packets before the one that is returned, or before the queue was empty (-1). marked: instead of a drop. */
static int reference_dequeue(struct codel_reference *r, double now, int ecn, int *dropped, int *marked)
{
	int ok, packet = reference_next(r, now, &ok);
	*dropped = *marked = 0;
	if (r->dropping) {
		if (!ok)
			r->dropping = 0;
		while (now >= r->drop_next && r->dropping) {
			r->count++;
			if (ecn) {
				*marked = 1;
				r->drop_next += 100.0 * MS / sqrt(r->count);
				return packet;
			}
			++*dropped;
			packet = reference_next(r, now, &ok);
			if (!ok)
				r->dropping = 0;
			else
				r->drop_next += 100.0 * MS / sqrt(r->count);
		}
	} else if (ok) {
		*marked = ecn;
		if (!ecn) {
			++*dropped;
			packet = reference_next(r, now, &ok);
		}
		r->dropping = 1;
		uint32_t delta = r->count - r->last_count;
		r->count = delta > 1 && now - r->drop_next < 16 * 100.0 * MS ? delta : 1;
		r->drop_next = now + 100.0 * MS / sqrt(r->count);
		r->last_count = r->count;
	}
	return packet;
}

/* Packets come in bursts and go at a changing pace, for some minutes: long queues, short ones, none. */
static void codel_beside_its_rfc(int ecn)
{
	static struct codel_reference r;
	struct rw_queue q;
	struct rw_queue_settings s = {.discipline = RW_CODEL, .ecn = (uint8_t)ecn, .codel = {5 * MS, 100 * MS}};
	struct rw_random random = {.seed = 11};
	int chosen = 0, pace = 1, load = 1;
	memset(&r, 0, sizeof r);
	rw_queue_open(&q, &s);
	for (int64_t step = 1; r.end < 4000; step++) {
		int64_t now = step * MS;
		if (step % 400 == 1) {
			pace = 1 + (int)(rw_random_next(&random) % 3);
			load = (int)(rw_random_next(&random) % 3);
		}
		for (int i = (int)(rw_random_next(&random) % 2) * load; i > 0; i--) {
			struct rw_parcel p = {.user = r.end, .bytes = PACKET, .ecn_capable = 1};
			rw_queue_put(&q, &p, now, MS, &random);
			r.since_ns[r.end++] = now;
		}
		if (step % pace)
			continue;
		int dropped, marked, expected = reference_dequeue(&r, (double)now, ecn, &dropped, &marked);
		struct rw_parcel p = {0};
		enum rw_queue_take taken;
		chosen += dropped + marked;
		while ((taken = rw_queue_take(&q, now, &p)) == RW_QUEUE_DROP)
			dropped--;
		assert_int_equal(dropped, 0);
		assert_int_equal(taken, expected < 0 ? RW_QUEUE_EMPTY : RW_QUEUE_SEND);
		if (expected >= 0) {
			assert_int_equal(p.user, expected);
			assert_int_equal(p.marked, marked);
		}
	}
	assert_true(chosen > 40);
	rw_queue_close(&q);
}

static void test_codel_drops_as_its_rfc(void **state)
{
	(void)state;
	codel_beside_its_rfc(0);
}

static void test_codel_marks_as_its_rfc(void **state)
{
	(void)state;
	codel_beside_its_rfc(1);
}

/* A short delay ends dropping, and the queue of one packet is never too long. */
static void test_codel_leaves_dropping(void **state)
{
	struct rw_queue q;
	struct rw_queue_settings s = {.discipline = RW_CODEL, .codel = {.target_ns = 5 * MS, .interval_ns = 100 * MS}};
	struct rw_random random = {.seed = 1};
	struct rw_parcel p = {.bytes = PACKET};
	(void)state;
	rw_queue_open(&q, &s);
	for (int i = 0; i < 300; i++)
		rw_queue_put(&q, &p, 0, MS, &random);
	int dropped = 0;
	for (int i = 0; i < 200; i++)
		dropped += rw_queue_take(&q, (10ll + i) * MS, &p) == RW_QUEUE_DROP;
	assert_true(dropped > 0 && q.codel.dropping);
	while (rw_queue_take(&q, 300ll * MS, &p) != RW_QUEUE_EMPTY)
		continue;
	assert_false(q.codel.dropping);
	for (int i = 0; i < 50; i++) { /* alone in the queue, however long it waited */
		rw_queue_put(&q, &p, (300 + 40ll * i) * MS, MS, &random);
		assert_int_equal(rw_queue_take(&q, (339 + 40ll * i) * MS, &p), RW_QUEUE_SEND);
	}
	rw_queue_close(&q);
}

/* Which of `count` packets a link loses. */
static void losses(const struct rw_link_settings *s, uint64_t seed, uint8_t *lost, int count)
{
	struct rw_link l;
	struct rw_parcel p = {.bytes = PACKET};
	rw_link_open(&l, s, seed, 4);
	for (int i = 0; i < count; i++) {
		lost[i] = rw_link_put(&l, &p, (int64_t)i * MS) == RW_LINK_DROPPED;
		while (rw_link_next_ns(&l) != RW_NEVER)
			rw_link_step(&l, &p);
	}
	rw_link_close(&l);
}

enum { DRAWN = 100000 };

static void test_random_loss(void **state)
{
	static uint8_t lost[DRAWN], again[DRAWN], other[DRAWN];
	struct rw_link_settings s = {.loss_q32 = (uint64_t)(0.02 * 4294967296.0)};
	int sum = 0;
	(void)state;
	losses(&s, 1, lost, DRAWN);
	losses(&s, 1, again, DRAWN);
	losses(&s, 2, other, DRAWN);
	for (int i = 0; i < DRAWN; i++)
		sum += lost[i];
	assert_true(fabs(sum / (double)DRAWN - 0.02) < 0.002);
	assert_memory_equal(lost, again, DRAWN);
	assert_memory_not_equal(lost, other, DRAWN);
}

/* Share and bursts of Gilbert's model: p/(p+r) of the packets, 1/r in a row. */
static void test_burst_loss(void **state)
{
	static uint8_t lost[DRAWN];
	struct rw_link_settings s = {.burst = {.good_to_bad_q32 = (uint64_t)(0.01 * 4294967296.0),
					       .bad_to_good_q32 = (uint64_t)(0.25 * 4294967296.0),
					       .loss_bad_q32 = (uint64_t)1 << 32}};
	int sum = 0, bursts = 0;
	(void)state;
	losses(&s, 1, lost, DRAWN);
	for (int i = 0; i < DRAWN; i++) {
		sum += lost[i];
		bursts += lost[i] && (!i || !lost[i - 1]);
	}
	assert_true(fabs(sum / (double)DRAWN - 0.01 / 0.26) < 0.004);
	assert_true(fabs((double)sum / bursts - 4) < 0.3);
}

/* A late packet lets the others pass, which keep their order. */
static void test_reordering(void **state)
{
	struct rw_link_settings s = {.rate_bps = 10000000,
				     .delay_ns = 10 * MS,
				     .reorder_q32 = (uint64_t)(0.05 * 4294967296.0),
				     .reorder_ns = 5 * MS};
	struct rw_network *n = with_link(&s, 1);
	uint64_t late = 0, next = 0;
	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		rw_network_send(n, 0, 0, i, PACKET, 0);
	for (int i = 0; i < 1000; i++) {
		struct rw_network_packet p = delivered(n);
		int64_t usual = (int64_t)(p.user + 1) * MS + 10 * MS;
		assert_true(p.time_ns == usual || p.time_ns == usual + 5 * MS);
		late += p.time_ns != usual;
		if (p.time_ns == usual) {
			assert_true(p.user >= next);
			next = p.user + 1;
		}
	}
	assert_int_equal(late, rw_network_counts(n, 0)->reordered);
	assert_in_range(late, 30, 70);
	rw_network_close(n);
}

static void test_jitter_keeps_the_order(void **state)
{
	struct rw_link_settings s = {.rate_bps = 10000000, .delay_ns = 10 * MS, .jitter_ns = 3 * MS};
	struct rw_network *n = with_link(&s, 1);
	int64_t before = 0;
	(void)state;
	for (uint64_t i = 0; i < 500; i++)
		rw_network_send(n, 0, 0, i, PACKET, 0);
	for (uint64_t i = 0; i < 500; i++) {
		struct rw_network_packet p = delivered(n);
		assert_int_equal(p.user, i);
		assert_true(p.time_ns >= before && p.time_ns >= (int64_t)(i + 1) * MS + 10 * MS);
		before = p.time_ns;
	}
	assert_true(before > 510 * MS);
	rw_network_close(n);
}

/* Five packets wait, of which one is half sent after half its time; then the delay. */
static void test_crossing_counts_what_waits(void **state)
{
	struct rw_link_settings s = {.rate_bps = 10000000, .delay_ns = 10 * MS};
	struct rw_network *n = with_link(&s, 1);
	(void)state;
	assert_int_equal(rw_network_crossing_ns(n, 0, 0), 10 * MS);
	for (uint64_t i = 0; i < 5; i++)
		rw_network_send(n, 0, 0, i, PACKET, 0);
	assert_int_equal(rw_network_crossing_ns(n, 0, MS / 2), 5 * MS - MS / 2 + 10 * MS);
	rw_network_close(n);
}

/* What stalls is late and holds up those behind it; all others take the usual time. */
static void test_stalls_hold_up_those_behind(void **state)
{
	struct rw_link_settings s = {.rate_bps = 10000000, .stall_q32 = (uint64_t)1 << 28, .stall_ns = 20 * MS};
	struct rw_network *n = with_link(&s, 1);
	int64_t before = 0;
	uint32_t together = 0, late = 0;
	(void)state;
	for (uint64_t i = 0; i < 500; i++)
		rw_network_send(n, 0, 0, i, PACKET, 0);
	for (uint64_t i = 0; i < 500; i++) {
		struct rw_network_packet p = delivered(n);
		assert_int_equal(p.user, i);
		assert_true(p.time_ns >= before && p.time_ns >= (int64_t)(i + 1) * MS);
		late += p.time_ns > (int64_t)(i + 1) * MS;
		together += p.time_ns == before;
		before = p.time_ns;
	}
	/* One of 16 stalls, for 20 packets on the mean. */
	assert_in_range(late, 300, 450);
	assert_in_range(together, 280, 440);
	rw_network_close(n);
}

/* Half a packet at one rate, the other half at the next; a longer delay holds for what is sent from then on. */
static void test_changes(void **state)
{
	struct rw_link_settings s = {.rate_bps = 10000000, .delay_ns = 10 * MS};
	struct rw_link_change slower = {.at_ns = MS / 2, .rate_bps = 1000000, .has_rate = 1};
	struct rw_link_change longer = {.at_ns = 8 * MS, .delay_ns = 50 * MS, .has_delay = 1};
	struct rw_network *n = with_link(&s, 1);
	(void)state;
	assert_int_equal(rw_network_add_change(n, 0, &slower), 0);
	assert_int_equal(rw_network_add_change(n, 0, &longer), 0);
	assert_int_equal(rw_network_add_change(n, 0, &slower), -1); /* not in order */
	assert_int_equal(rw_network_add_change(n, 1, &longer), -1);
	rw_network_send(n, 0, 0, 0, PACKET, 0);
	rw_network_send(n, 0, 0, 1, PACKET, 0);
	assert_int_equal(delivered(n).time_ns, MS / 2 + 5 * MS + 10 * MS);
	assert_int_equal(delivered(n).time_ns, MS / 2 + 15 * MS + 50 * MS);
	rw_network_close(n);
}

/* A change of loss replaces bursts. */
static void test_a_change_of_loss(void **state)
{
	struct rw_link_settings s = {
	    .rate_bps = 10000000,
	    .burst = {.good_to_bad_q32 = (uint64_t)1 << 31, .bad_to_good_q32 = 1, .loss_bad_q32 = (uint64_t)1 << 32}};
	struct rw_link_change none = {.at_ns = 500ll * MS, .has_loss = 1};
	struct rw_network *n = with_link(&s, 1);
	int lost[2] = {0};
	(void)state;
	rw_network_add_change(n, 0, &none);
	for (int i = 0; i < 1000; i++) {
		struct rw_network_packet p;
		while (rw_network_advance(n, (int64_t)i * MS, &p) != RW_NETWORK_WAITING)
			continue;
		lost[i >= 500] += rw_network_send(n, (int64_t)i * MS, 0, 0, 100, 0) == RW_NETWORK_LOST;
	}
	assert_true(lost[0] > 400);
	assert_int_equal(lost[1], 0);
	rw_network_close(n);
}

/* What is on its way arrives; what waits and what comes is lost, until the link is up again. */
static void test_a_link_that_is_down(void **state)
{
	struct rw_link_settings s = {.rate_bps = 10000000, .delay_ns = 10 * MS};
	struct rw_link_change down = {.at_ns = 3 * MS / 2, .down = 1, .has_down = 1};
	struct rw_link_change up = {.at_ns = 20 * MS, .has_down = 1};
	struct rw_network *n = with_link(&s, 1);
	struct rw_network_packet p;
	(void)state;
	rw_network_add_change(n, 0, &down);
	rw_network_add_change(n, 0, &up);
	for (uint64_t i = 0; i < 4; i++)
		rw_network_send(n, 0, 0, i, PACKET, 0);
	assert_int_equal(rw_network_advance(n, 5 * MS, &p), RW_NETWORK_LOST);
	assert_int_equal(p.user, 2);
	assert_int_equal(rw_network_advance(n, 5 * MS, &p), RW_NETWORK_LOST);
	assert_int_equal(rw_network_advance(n, 5 * MS, &p), RW_NETWORK_WAITING);
	assert_int_equal(rw_network_send(n, 5 * MS, 0, 4, PACKET, 0), RW_NETWORK_LOST);
	assert_int_equal(delivered(n).user, 0);
	assert_int_equal(delivered(n).user, 1);
	assert_int_equal(rw_network_advance(n, 30 * MS, &p), RW_NETWORK_WAITING);
	assert_int_equal(rw_network_send(n, 30 * MS, 0, 5, PACKET, 0), RW_NETWORK_WAITING);
	assert_int_equal(delivered(n).time_ns, 41 * MS);
	assert_int_equal(rw_network_counts(n, 0)->dropped_down, 3);
	rw_network_close(n);
}

/* Over two links; a slower second one is the bottleneck. A route over links that there are not is none. */
static void test_routes(void **state)
{
	struct rw_link_settings fast = {.rate_bps = 100000000, .delay_ns = 5 * MS};
	struct rw_link_settings slow = {.rate_bps = 10000000, .delay_ns = 7 * MS, .queue.limit_packets = 4};
	struct rw_network *n = rw_network_open(1);
	const uint32_t both[] = {0, 1}, wrong[] = {0, 2};
	struct rw_network_packet p;
	int lost = 0, arrived = 0;
	(void)state;
	assert_int_equal(rw_network_add_link(n, &fast), 0);
	assert_int_equal(rw_network_add_link(n, &slow), 1);
	assert_int_equal(rw_network_add_route(n, wrong, 2), -1);
	assert_int_equal(rw_network_add_route(n, both, 0), -1);
	assert_int_equal(rw_network_add_route(n, both, 2), 0);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(rw_network_send(n, 0, 0, i, PACKET, 0), RW_NETWORK_WAITING);
	for (enum rw_network_outcome o; (o = rw_network_advance(n, 1000 * MS, &p)) != RW_NETWORK_WAITING;) {
		lost += o == RW_NETWORK_LOST;
		if (o != RW_NETWORK_DELIVERED)
			continue;
		assert_int_equal(p.user, arrived); /* 0 is sent at once, 1 to 4 wait */
		assert_int_equal(p.time_ns, MS / 10 + 12 * MS + ++arrived * MS);
	}
	assert_int_equal(arrived, 5);
	assert_int_equal(lost, 5);
	rw_network_close(n);
}

/* Cross traffic takes its share of a link's time, and is nobody's packet. */
static void test_constant_traffic(void **state)
{
	struct rw_link_settings s = {.rate_bps = 10000000};
	struct rw_source_settings half = {
	    .rate_bps = 5000000, .packet_bytes = PACKET, .from_ns = 10 * MS, .to_ns = 110 * MS};
	struct rw_network *n = with_link(&s, 1);
	struct rw_network_packet p;
	(void)state;
	assert_int_equal(rw_network_add_source(n, 1, &half), -1);
	assert_int_equal(rw_network_add_source(n, 0, &half), 0);
	assert_int_equal(rw_network_advance(n, 1000 * MS, &p), RW_NETWORK_WAITING);
	assert_int_equal(rw_network_counts(n, 0)->forwarded, 50); /* each 2 ms */
	assert_true(rw_network_next_ns(n) == RW_NEVER);
	rw_network_close(n);
}

static void test_on_off_traffic(void **state)
{
	struct rw_link_settings s = {.rate_bps = 100000000};
	struct rw_source_settings some = {.rate_bps = 10000000,
					  .packet_bytes = PACKET,
					  .to_ns = 400000ll * MS,
					  .on_ns = 300 * MS,
					  .off_ns = 700 * MS};
	struct rw_network *n = with_link(&s, 1);
	struct rw_network_packet p;
	(void)state;
	assert_int_equal(rw_network_add_source(n, 0, &some), 0);
	assert_int_equal(rw_network_advance(n, 500000ll * MS, &p), RW_NETWORK_WAITING);
	assert_true(fabs((double)rw_network_counts(n, 0)->forwarded / 400000.0 - 0.3) < 0.04);
	rw_network_close(n);
}

/* A link's losses are its own, whatever else there is. */
static void test_entities_draw_apart(void **state)
{
	struct rw_link_settings s = {.loss_q32 = 1ull << 30};
	struct rw_source_settings other = {.rate_bps = 1000000, .packet_bytes = PACKET, .to_ns = 1000 * MS};
	struct rw_network *alone = with_link(&s, 9), *beside = with_link(&s, 9);
	(void)state;
	assert_int_equal(rw_network_add_link(beside, &s), 1);
	rw_network_add_source(beside, 1, &other);
	for (int i = 0; i < 500; i++) {
		struct rw_network_packet p;
		rw_network_advance(beside, (int64_t)i * MS, &p);
		assert_int_equal(rw_network_send(alone, (int64_t)i * MS, 0, 0, PACKET, 0),
				 rw_network_send(beside, (int64_t)i * MS, 0, 0, PACKET, 0));
	}
	assert_true(rw_network_counts(beside, 1)->dropped_loss > 0);
	rw_network_close(alone);
	rw_network_close(beside);
}

/* Many links at once: packets leave in order of time. */
static void test_order_over_many_links(void **state)
{
	struct rw_network *n = rw_network_open(1);
	struct rw_random random = {.seed = 2};
	struct rw_network_packet p;
	int64_t before = 0;
	int count = 0;
	(void)state;
	for (uint32_t i = 0; i < 300; i++) {
		struct rw_link_settings s = {.rate_bps = 1000000 + rw_random_next(&random) % 10000000,
					     .delay_ns = rw_random_next(&random) % (50 * MS)};
		assert_int_equal(rw_network_add_link(n, &s), i);
		assert_int_equal(rw_network_add_route(n, &i, 1), i);
	}
	for (uint16_t i = 0; i < 3000; i++)
		rw_network_send(n, 0, i % 300, i, 100 + rw_random_next(&random) % 1400, 0);
	while (rw_network_advance(n, 10000ll * MS, &p) == RW_NETWORK_DELIVERED) {
		assert_true(p.time_ns >= before);
		before = p.time_ns;
		count++;
	}
	assert_int_equal(count, 3000);
	rw_network_close(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_philox),
	    cmocka_unit_test(test_exponential),
	    cmocka_unit_test(test_drop_tail),
	    cmocka_unit_test(test_limit_in_bytes),
	    cmocka_unit_test(test_times_are_rounded_up),
	    cmocka_unit_test(test_ecn_threshold),
	    cmocka_unit_test(test_red_average),
	    cmocka_unit_test(test_red_spaces_drops),
	    cmocka_unit_test(test_red_marks_and_drops),
	    cmocka_unit_test(test_gentle_red_rises),
	    cmocka_unit_test(test_codel_drops),
	    cmocka_unit_test(test_codel_marks),
	    cmocka_unit_test(test_codel_drops_as_its_rfc),
	    cmocka_unit_test(test_codel_marks_as_its_rfc),
	    cmocka_unit_test(test_codel_leaves_dropping),
	    cmocka_unit_test(test_random_loss),
	    cmocka_unit_test(test_burst_loss),
	    cmocka_unit_test(test_reordering),
	    cmocka_unit_test(test_jitter_keeps_the_order),
	    cmocka_unit_test(test_stalls_hold_up_those_behind),
	    cmocka_unit_test(test_crossing_counts_what_waits),
	    cmocka_unit_test(test_changes),
	    cmocka_unit_test(test_a_change_of_loss),
	    cmocka_unit_test(test_a_link_that_is_down),
	    cmocka_unit_test(test_routes),
	    cmocka_unit_test(test_constant_traffic),
	    cmocka_unit_test(test_on_off_traffic),
	    cmocka_unit_test(test_entities_draw_apart),
	    cmocka_unit_test(test_order_over_many_links),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
