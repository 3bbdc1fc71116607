/* Detectors, told what a replay tells them and what nobody should. */
#include "check.h"
#include "detect.h"
#include "sbd.h"
#include "shadow.h"

#include <string.h>

#define MS 1000000ll

static uint32_t changes;

static void changed(void *to, int64_t time_ns, uint32_t path, const struct rw_detected_path *now)
{
	(void)to, (void)time_ns, (void)path, (void)now;
	changes++;
}

static void complete(void *to, uint32_t first) { (void)to, (void)first; }

static const struct rw_detect_sink sink = {changed, complete, NULL, NULL};

static struct rw_detect *detector(const char *name, const char *const *options, uint32_t count)
{
	int64_t option[RW_MAX_OPTIONS];
	uint32_t which;
	rw_choice choice = {name, options, count};
	rw_error error;
	assert_int_equal(rw_detector_options(&choice, &which, option, &error), RW_OK);
	struct rw_detect *w = rw_detect_open(which, option, 0);
	assert_non_null(w);
	changes = 0;
	return w;
}

static struct rw_detect *with_paths(const char *name, uint32_t paths, uint64_t srtt_ns)
{
	struct rw_detect *w = detector(name, NULL, 0);
	for (uint32_t i = 0; i < paths; i++)
		rw_detect_join(w, i, srtt_ns, &sink);
	return w;
}

static void event(struct rw_detect *w, int64_t ms, uint32_t path, enum rw_congestion kind)
{
	rw_detect_advance(w, ms * MS, &sink);
	rw_detect_congestion(w, path, kind, &sink);
}

static const struct rw_detected_path *path(const struct rw_detect *w, uint32_t i) { return &w->state->path[i]; }

static void eight_paths_are_four_sets_at_most(void **state)
{
	(void)state;
	struct rw_detect *w = with_paths("sbcc", 8, 60 * MS);
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 8; i++)
			event(w, 1000 * (round + 1) + 100 * (i / 2) + i % 2, i, RW_CONGESTION_ECE);
	rw_detect_advance(w, 4000 * MS, &sink);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(path(w, i)->set, i / 2 + 1);
		assert_int_equal(path(w, i)->state, RW_GROUP_FINAL);
	}
	assert_int_equal(changes, 16); /* each to judgement and to final */
	rw_detect_close(w);
}

static void a_place_used_again_knows_nothing_of_who_left(void **state)
{
	(void)state;
	struct rw_detect *w = with_paths("sbcc", 2, 60 * MS);
	event(w, 1000, 1, RW_CONGESTION_ECE);
	rw_detect_leave(w, 1, &sink);
	rw_detect_join(w, 1, 60 * MS, &sink);
	event(w, 1010, 0, RW_CONGESTION_ECE); /* the other's event was another subflow's */
	rw_detect_advance(w, 2000 * MS, &sink);
	assert_int_equal(path(w, 0)->set, 0);
	assert_int_equal(changes, 0);
	rw_detect_close(w);

	w = with_paths("dwc", 2, 60 * MS);
	event(w, 1000, 1, RW_CONGESTION_LOSS);
	rw_detect_leave(w, 1, &sink);
	rw_detect_join(w, 1, 60 * MS, &sink);
	event(w, 1010, 0, RW_CONGESTION_LOSS);
	assert_int_equal(path(w, 0)->set, 0);
	rw_detect_close(w);
}

static void who_joins_under_judgement_is_no_witness(void **state)
{
	(void)state;
	struct rw_detect *w = with_paths("sbcc", 2, 60 * MS);
	for (int ms = 1000; ms <= 2000; ms += 1000) {
		event(w, ms, 0, RW_CONGESTION_ECE);
		event(w, ms + 5, 1, RW_CONGESTION_ECE);
		if (ms == 2000)
			rw_detect_join(w, 2, 60 * MS, &sink);
	}
	rw_detect_advance(w, 3000 * MS, &sink);
	assert_int_equal(path(w, 0)->state, RW_GROUP_FINAL);
	assert_int_equal(path(w, 2)->set, 0);
	event(w, 4000, 0, RW_CONGESTION_ECE); /* joined, it refutes */
	event(w, 4005, 1, RW_CONGESTION_ECE);
	event(w, 4006, 2, RW_CONGESTION_LOSS);
	rw_detect_advance(w, 5000 * MS, &sink);
	assert_int_equal(path(w, 0)->set, 0);
	rw_detect_close(w);
}

static void time_does_not_go_back(void **state)
{
	(void)state;
	for (uint32_t which = 0; rw_detector_list[which]; which++) {
		struct rw_detect *w = with_paths(rw_detector_list[which]->name, 8, 60 * MS);
		static const int64_t times[] = {5, 3, INT64_MAX, 0, INT64_MIN, 7, INT64_MAX - 1};
		for (uint32_t i = 0; i < 200; i++) {
			int64_t before = w->state->now_ns;
			rw_detect_advance(w, times[i % 7], &sink);
			assert_true(w->state->now_ns >= before);
			struct rw_delivery a = {i % 8, UINT32_MAX, UINT32_MAX, i % 3 ? UINT64_MAX : 1};
			rw_detect_delivery(w, &a, i % 5 ? UINT64_MAX : 0);
			rw_detect_congestion(w, i % 8, (enum rw_congestion)(i % 3), &sink);
			if (i % 11 == 0) {
				rw_detect_leave(w, i % 8, &sink);
				rw_detect_join(w, i % 8, UINT64_MAX, &sink);
			}
		}
		rw_detect_close(w);
	}
}

static void a_long_rest_is_passed_over_at_once(void **state)
{
	(void)state;
	struct rw_detect *w = with_paths("sbd", 2, 60 * MS);
	struct rw_delivery a = {0, 1, 0, 50 * MS};
	rw_detect_advance(w, 1, &sink);
	rw_detect_delivery(w, &a, 50 * MS);
	/* Fifty years of intervals of 350 ms: four and a half thousand million of them. */
	rw_detect_advance(w, (int64_t)1577880000 * 1000 * MS, &sink);
	rw_detect_delivery(w, &a, 50 * MS);
	rw_detect_advance(w, ((int64_t)1577880000 * 1000 + 400) * MS, &sink);
	assert_int_equal(w->detector->statistic(w->state, 0, 7), 1); /* what it measured before is too old */
	rw_detect_close(w);
}

/* Interval means of a flow, as its samples. */
static struct rw_sbd_flow flow_of(const uint32_t *delay_ms, uint32_t n, const int64_t *option)
{
	struct rw_sbd_flow f;
	rw_sbd_clear(&f);
	for (uint32_t i = 0; i < n; i++) {
		rw_sbd_add(&f, delay_ms[i] * (uint64_t)MS, 10, i % 2);
		assert_int_equal(rw_sbd_close(&f, option, i), 1);
		assert_int_equal(rw_sbd_close(&f, option, i), 0);
	}
	return f;
}

static void correlation_of_known_series(void **state)
{
	(void)state;
	struct rw_detect *w = detector("sbd", (const char *const[]){"intervals_min=5"}, 1);
	const int64_t *option = w->state->option;
	static const uint32_t x[] = {10, 20, 30, 20, 10, 30, 40, 10}, same[] = {110, 120, 130, 120, 110, 130, 140, 110};
	static const uint32_t inverse[] = {40, 30, 20, 30, 40, 20, 10, 40}, flat[] = {7, 7, 7, 7, 7, 7, 7, 7};
	static const uint32_t near[] = {10, 20, 30, 20, 10, 30, 10, 20}; /* r = 0.323 with x */
	struct rw_sbd_flow a = flow_of(x, 8, option), b = flow_of(same, 8, option), c = flow_of(inverse, 8, option),
			   d = flow_of(flat, 8, option), e = flow_of(near, 8, option), few = flow_of(x, 4, option);
	assert_int_equal(rw_sbd_correlated(&a, &b, option), 1);
	assert_int_equal(rw_sbd_correlated(&a, &a, option), 1);
	assert_int_equal(rw_sbd_correlated(&a, &c, option), 0);
	assert_int_equal(rw_sbd_correlated(&a, &d, option), 0);
	assert_int_equal(rw_sbd_correlated(&a, &e, option), 0);
	assert_int_equal(rw_sbd_correlated(&a, &few, option), -1);
	int64_t lower[RW_MAX_OPTIONS];
	memcpy(lower, option, sizeof lower);
	lower[RW_SBD_R_MIN] = 32 * 65536 / 100;
	assert_int_equal(rw_sbd_correlated(&a, &e, lower), 1);
	lower[RW_SBD_R_MIN] = 33 * 65536 / 100;
	assert_int_equal(rw_sbd_correlated(&a, &e, lower), 0);
	rw_detect_close(w);
}

static void loss_decides_where_there_is_some(void **state)
{
	(void)state;
	struct rw_detect *w = detector("sbd", NULL, 0);
	struct rw_sbd_statistics s[4] = {{.var_ns = 1000, .loss_q16 = 6554},
					 {.var_ns = 1000, .loss_q16 = 6300},
					 {.var_ns = 1000, .loss_q16 = 4000},
					 {.var_ns = 1000, .skew_q16 = 60000}};
	uint8_t group[4];
	for (uint32_t i = 0; i < 4; i++)
		s[i].bottleneck = (uint8_t)rw_sbd_is_bottleneck(&s[i], w->state->option);
	rw_sbd_group(s, 4, w->state->option, group);
	assert_int_equal(group[0], group[1]); /* 10 % and 9.6 % */
	assert_int_not_equal(group[0], group[2]); /* 6.1 % is more than a tenth away */
	assert_int_not_equal(group[2], 0);
	assert_int_equal(group[3], 0); /* neither skewed nor lossy: not congested */
	rw_detect_close(w);
}

/* The option `detector` names the registry's detectors in their order. */
static void names_and_numbers(void **state)
{
	(void)state;
	rw_error error;
	uint32_t wanted[] = {3, 1, 2, 3, 0};
	static const char *const names[] = {"mptcp-sbd", "sbcc", "dwc", "sbcc", "sbcc"};
	static const char *const options[] = {NULL, NULL, NULL, "detector=sbd", "detector=none"};
	for (int i = 0; i < 5; i++) {
		rw_choice choice = {names[i], &options[i], options[i] != NULL};
		struct rw_settings settings;
		assert_int_equal(rw_control_options(&choice, rw_control_find(names[i]), &settings, &error), RW_OK);
		assert_int_equal(settings.detector, wanted[i]);
		if (settings.detector && options[i] == NULL)
			assert_string_equal(rw_detector_name(settings.detector - 1u),
					    rw_control_find(names[i])->detector);
	}
	rw_choice none = {"newreno", &options[3], 1};
	struct rw_settings settings;
	assert_int_equal(rw_control_options(&none, rw_control_find("newreno"), &settings, &error),
			 RW_ERROR_UNKNOWN_OPTION);
	assert_null(rw_detector_name(rw_detector_count()));
}

/* The state of a connection's detectors is bounded: what the map of an eBPF build would hold. */
static void state_sizes(void **state)
{
	(void)state;
	assert_true(rw_detector_list[0]->bytes <= 1024);
	assert_true(rw_detector_list[1]->bytes <= 4096);
	assert_true(rw_detector_list[2]->bytes <= 20000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(eight_paths_are_four_sets_at_most),
	    cmocka_unit_test(a_place_used_again_knows_nothing_of_who_left),
	    cmocka_unit_test(who_joins_under_judgement_is_no_witness),
	    cmocka_unit_test(time_does_not_go_back),
	    cmocka_unit_test(a_long_rest_is_passed_over_at_once),
	    cmocka_unit_test(correlation_of_known_series),
	    cmocka_unit_test(loss_decides_where_there_is_some),
	    cmocka_unit_test(names_and_numbers),
	    cmocka_unit_test(state_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
