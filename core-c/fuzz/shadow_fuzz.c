/*
 * What recorded events do to up to eight windows under one controller: no capture is needed to have flights of 2^19
 * segments, round trips of a microsecond beside one of a day, and steps in any order. Windows stay in their range.
 */
#include <stdlib.h>

#include "bytes.h"
#include "fuzz.h"
#include "shadow.h"

static const rw_choice CHOICES[] = {
    {"newreno", NULL, 0},
    {"newreno", (const char *const[]){"mode=paper", "min_ssthresh=1", "gate=own"}, 3},
    {"newreno", (const char *const[]){"min_ssthresh=1024"}, 1},
    {"cubic", NULL, 0},
    {"cubic", (const char *const[]){"mode=paper", "hz=100", "hystart=off", "min_ssthresh=1"}, 4},
    {"cubic", (const char *const[]){"hz=1000", "min_ssthresh=1024"}, 2},
    {"uncoupled", NULL, 0},
    {"css", NULL, 0},
    {"css", (const char *const[]){"mode=kernel", "join_weighted=on", "L_scale=on", "L=1024"}, 4},
    {"css", (const char *const[]){"alpha_form=product", "con_ssthresh=1048576", "alpha0=4", "L=1024"}, 4},
    {"tccc", NULL, 0},
    {"tccc", (const char *const[]){"mode=kernel", "aca_md=eq8", "losses=reached", "min_ssthresh=1"}, 4},
    {"tccc", (const char *const[]){"aca_md=eq8", "aca_safe=off", "join_weighted=on", "min_ssthresh=1"}, 4},
    {"tccc", (const char *const[]){"con_ssthresh=1", "alpha0=1.0001"}, 2}};

enum {
	CHOICE_COUNT = sizeof CHOICES / sizeof *CHOICES,
	FLIGHT_BITS = 19, /* the default limit of a window, each segment sent twice */
	DELIVERED_BITS = 24, /* 2^30 bytes that the capture never showed */
	BURST_BITS = 14,
	RTT_BITS = 62,
	STEP_ALL = 511,
	LEAVE = 31,
};
#define SRTT_MAX_NS 1000000000000000u
#define LATEST_NS ((int64_t)UINT32_MAX * 1000000000)

/* A subflow as its sender goes on. */
struct path {
	uint64_t srtt_ns;
	uint32_t una, next;
	uint8_t live, state;
};

struct talk {
	struct rw_bytes b;
	int64_t now_ns;
	struct path path[RW_MAX_PATHS];
	struct rw_shadow *shadow;
	uint64_t sum; /* of what came out */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Two bytes: a number of up to `bits` bits, most often of few significant ones. */
static uint64_t read_number(struct rw_bytes *b, uint32_t bits)
{
	uint8_t size = rw_bytes_u8(b);
	uint32_t shift = (size >> 1 & 63) % (bits - 8);
	uint64_t number = (uint64_t)(rw_bytes_u8(b) | (size & 1) << 8) << shift;
	return size & 128 ? number | ((1ull << shift) - 1) : number;
}

static void read_ack(struct talk *t, struct path *p, uint8_t first, uint8_t bits, struct rw_event *e)
{
	e->kind = RW_EVENT_ACK;
	e->steps = rw_bytes_u16(&t->b) & STEP_ALL;
	e->delivered = (uint32_t)read_number(&t->b, DELIVERED_BITS);
	if (e->steps & RW_STEP_REDUCE) /* what was never seen ends a reduction: it is beyond its end */
		e->delivered = (uint32_t)least(e->delivered, 1 << (FLIGHT_BITS - 1));
	e->flags = bits & 128 ? RW_ACK_APP_LIMITED : 0;
	e->sent_before = (uint32_t)read_number(&t->b, BURST_BITS);
	e->whole_before = e->sent_before & 1;
	e->room = e->sent_before >> 1;
	e->first_flight = bits & 16 ? e->in_flight_before : 0;
	e->first_flight_is = (uint8_t)(RW_FLIGHT_INITIAL + e->sent_before % 3);
	e->first_flight_full = e->delivered & 1;
	p->una += e->delivered * 1000;
	e->ack = p->una;
	e->rtt_ns = first & 64 ? read_number(&t->b, RTT_BITS) : 0;
	e->rtt_newest_ns = first & 128 ? read_number(&t->b, RTT_BITS) : 0;
	if (e->rtt_ns) {
		int64_t rtt = (int64_t)least(e->rtt_ns, SRTT_MAX_NS), srtt = (int64_t)p->srtt_ns;
		p->srtt_ns = (uint64_t)(srtt ? srtt + (rtt - srtt) / 8 : rtt);
	}
}

static void read_send(struct talk *t, struct path *p, uint8_t bits, struct rw_event *e)
{
	e->kind = RW_EVENT_SEND;
	e->segments = (uint32_t)read_number(&t->b, BURST_BITS);
	p->next += e->segments * 1000;
	if (bits & 128) {
		uint8_t idle = rw_bytes_u8(&t->b);
		e->idle_timeouts = idle & 63;
		e->idle_restarts = 1 + (idle >> 7);
		e->quiet_ns = least(read_number(&t->b, RTT_BITS), (uint64_t)t->now_ns);
	}
}

/* First byte: 3 bits of path, 3 of kind (31 with the two above: it leaves); a path that is not there joins. */
static void read_event(struct talk *t)
{
	uint8_t first = rw_bytes_u8(&t->b), number = first & 7;
	struct path *p = &t->path[number];
	if (!p->live) {
		memset(p, 0, sizeof *p);
		p->srtt_ns = least(read_number(&t->b, RTT_BITS), SRTT_MAX_NS);
		p->live = 1;
		rw_shadow_join(t->shadow, number, p->srtt_ns);
		return;
	}
	if (first >> 3 == LEAVE) {
		p->live = 0;
		rw_shadow_leave(t->shadow, number);
		return;
	}
	t->now_ns = (int64_t)least((uint64_t)t->now_ns + read_number(&t->b, 50), (uint64_t)LATEST_NS);
	uint8_t bits = rw_bytes_u8(&t->b);
	struct rw_event e = {.time_ns = t->now_ns,
			     .state = p->state,
			     .una = p->una,
			     .next_before = p->next,
			     .srtt_ns = p->srtt_ns,
			     .bursts = bits >> 3 & 1,
			     .reducing = bits >> 4 & 1,
			     .new_episode = bits >> 5 & 1,
			     .una_advanced = bits >> 6 & 1};
	p->state = e.state_after = (bits & 7) % (RW_SENDER_LOSS + 1);
	e.in_flight = e.in_flight_before = e.packets_out_before = (uint32_t)read_number(&t->b, FLIGHT_BITS);
	switch (first >> 3 & 7) {
	case 0:
		read_send(t, p, bits, &e);
		break;
	case 1:
		e.kind = RW_EVENT_TIMEOUT;
		break;
	case 2:
		e.kind = RW_EVENT_RECOVERY;
		e.delivered = 1;
		e.steps = RW_STEP_REDUCE | RW_STEP_RECOVERY;
		break;
	default:
		read_ack(t, p, first, bits, &e);
		break;
	}
	struct rw_shadow_row row = {0};
	rw_shadow_event(t->shadow, number, &e, p->srtt_ns, &row);
	if (e.kind == RW_EVENT_ACK)
		CHECK(rw_phase_name(row.phase) && row.cwnd_before_q16 >= RW_Q16_ONE && row.cwnd_q16 >= RW_Q16_ONE);
	t->sum = fuzz_fold(t->sum, row.cwnd_before_q16);
	t->sum = fuzz_fold(t->sum, row.cwnd_q16);
	t->sum = fuzz_fold(t->sum, row.ssthresh_q16 ^ row.phase);
}

static uint64_t run(const uint8_t *data, size_t size)
{
	static const uint32_t segment_bytes[] = {1460, 0, 65535, 1};
	struct talk t = {.b = rw_bytes_of(data, size)};
	const rw_choice *choice = &CHOICES[rw_bytes_u8(&t.b) % CHOICE_COUNT];
	const struct rw_control *control = rw_control_find(choice->name);
	struct rw_settings settings;
	rw_error error;
	uint8_t start = rw_bytes_u8(&t.b);
	CHECK(control && rw_control_options(choice, control, &settings, &error) == RW_OK);
	/* A block of just its size: the sanitizer sees a path too many. */
	t.shadow = malloc(rw_shadow_bytes(RW_MAX_PATHS));
	CHECK(t.shadow);
	rw_shadow_open(t.shadow, control, &settings, RW_MAX_PATHS, segment_bytes[start & 3]);
	t.now_ns = start & 4 ? 0 : 1000000000;
	while (rw_bytes_left(&t.b)) {
		read_event(&t);
		for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
			const struct rw_path *p = &t.shadow->connection->path[i];
			CHECK(p->live == t.path[i].live);
			CHECK(!p->live || (p->cwnd_q16 >= RW_Q16_ONE && p->cwnd_q16 <= RW_CWND_MAX_Q16));
			CHECK(!p->live || p->ssthresh_q16 >= RW_Q16_ONE);
		}
	}
	free(t.shadow);
	return t.sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_both_ways(run, data, size); }
