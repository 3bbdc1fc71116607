/*
 * Any events for a detector of up to eight paths, in any order, with times that go back and delays of any size. Invariants: sets
 * have at least two members, and states that agree. Then groups flows by statistics of any size.
 */
#include "bytes.h"
#include "fuzz.h"
#include "rewindow.h"
#include "rw_control.h"

static const rw_choice CHOICES[] = {
    {"sbcc", NULL, 0},
    {"sbcc", (const char *const[]){"trigger_loss=on"}, 1},
    {"dwc", NULL, 0},
    {"dwc", (const char *const[]){"memory_s=0.1", "delay_fraction=1", "count_ece=on"}, 3},
    {"dwc", (const char *const[]){"memory_s=3600", "delay_fraction=0"}, 2},
    {"sbd", NULL, 0},
    {"sbd", (const char *const[]){"T_ms=10", "N=2", "intervals_min=2", "observations=1", "together=1", "c_s=1"}, 6},
    {"sbd", (const char *const[]){"grouping=correlation", "T_ms=10", "intervals_min=2", "observations=2", "r_min=0"},
     5}};

enum { CHOICE_COUNT = sizeof CHOICES / sizeof *CHOICES, FLOWS = 64 };

/* Two bytes: a number of up to 64 bits, most often of few significant ones. */
static uint64_t read_number(struct rw_bytes *b)
{
	uint8_t size = rw_bytes_u8(b);
	uint64_t number = (uint64_t)rw_bytes_u8(b) << (size & 63);
	return size & 64 ? number | (((uint64_t)1 << (size & 63)) - 1) : number;
}

static void check_sets(const rw_hand_detector *w)
{
	uint32_t members[256] = {0};
	rw_hand_detector_row row;
	rw_error error;
	for (uint32_t i = 0; i < RW_MAX_PATHS; i++) {
		if (rw_hand_detector_path(w, i, &row, &error) != RW_OK)
			continue;
		CHECK(rw_group_state_name(row.state));
		CHECK((row.set == 0) == (row.state == RW_GROUP_MONITOR));
		members[row.set] += row.set != 0;
		rw_statistic_info info;
		for (uint32_t k = 0; rw_hand_detector_statistic_describe(w, k, &info), info.name; k++) {
			int64_t value;
			CHECK(rw_hand_detector_statistic(w, k, i, &value, &error) == RW_OK);
		}
	}
	for (uint32_t i = 0; i < 256; i++)
		CHECK(members[i] != 1);
}

static void group_any(struct rw_bytes *b)
{
	rw_flow_statistics flow[FLOWS];
	rw_error error;
	uint32_t n = rw_bytes_u8(b) % (FLOWS + 2);
	memset(flow, 0, sizeof flow);
	for (uint32_t i = 0; i < n && i < FLOWS; i++) {
		flow[i].skew_q16 = (int64_t)read_number(b);
		flow[i].var_ns = read_number(b);
		flow[i].freq_q16 = read_number(b);
		flow[i].loss_q16 = read_number(b);
		flow[i].bottleneck = rw_bytes_u8(b) & 1;
	}
	if (rw_sbd_group_flows(&CHOICES[5], flow, n, &error) == RW_OK)
		for (uint32_t i = 0; i < n; i++)
			CHECK(flow[i].group <= n && (flow[i].group != 0) == flow[i].bottleneck);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rw_bytes b = rw_bytes_of(data, size);
	rw_error error;
	rw_hand_detector *w;
	uint8_t which = rw_bytes_u8(&b) % (CHOICE_COUNT + 1);
	if (which == CHOICE_COUNT) {
		group_any(&b);
		return 0;
	}
	CHECK(rw_hand_detector_open(&w, &CHOICES[which], &error) == RW_OK);
	int64_t now_ns = 0;
	while (rw_bytes_left(&b)) {
		/* 3 bits of path, 3 of the event, 2 of the time. */
		uint8_t first = rw_bytes_u8(&b);
		uint32_t path = first & 7, joined;
		if (first >> 6 == 1)
			now_ns = (int64_t)((uint64_t)now_ns + 1000000u * rw_bytes_u8(&b));
		else if (first >> 6 == 2)
			now_ns = (int64_t)read_number(&b);
		switch (first >> 3 & 7) {
		case 0:
			rw_hand_detector_join(w, now_ns, read_number(&b), &joined, &error);
			break;
		case 1:
			rw_hand_detector_leave(w, path, now_ns, &error);
			break;
		case 2:
		case 3:
		case 4:
			rw_hand_detector_congestion(w, path, (first >> 3 & 7) - 2u, now_ns, &error);
			break;
		case 5:
			rw_hand_detector_advance(w, now_ns);
			break;
		default:
			rw_hand_detector_delivery(w, path, (uint32_t)read_number(&b), (uint32_t)read_number(&b),
						  read_number(&b), read_number(&b), now_ns, &error);
			break;
		}
		check_sets(w);
	}
	rw_hand_detector_close(w);
	return 0;
}
