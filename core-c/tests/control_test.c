/* What holds of every controller of the registry, below what a Controller by hand can reach. */
#include "check.h"
#include "shadow.h"

#include <string.h>

/* Linux gives a congestion controller 104 bytes for each subflow (icsk_ca_priv). */
_Static_assert(sizeof((struct rw_path *)0)->word <= 104, "the controller's own state of a path");

static const char *const modes[] = {"mode=paper", "mode=kernel"};

/* The kernel's modules read the raw window of the others (algorithms' own choice, LIA and BALIA). */
static int reads_raw_windows(const struct rw_control *control, int mode)
{
	return mode == RW_MODE_KERNEL && (strcmp(control->name, "lia") == 0 || strcmp(control->name, "balia") == 0 ||
					  strcmp(control->name, "wvegas") == 0);
}

static void open_connection(struct rw_connection *c, const struct rw_control *control, const char *mode)
{
	struct rw_settings settings;
	rw_choice choice = {control->name, &mode, 1};
	rw_error error;
	assert_int_equal(rw_control_options(&choice, control, &settings, &error), RW_OK);
	memset(c, 0, sizeof *c);
	c->paths = RW_MAX_PATHS;
	c->mss_bytes = 1460;
	memcpy(c->option, settings.option, sizeof c->option);
	if (control->open)
		control->open(c);
}

static void place(struct rw_connection *c, const struct rw_control *control, uint32_t path, uint32_t cwnd,
		  uint32_t ssthresh)
{
	struct rw_path *p = &c->path[path];
	memset(p, 0, sizeof *p);
	p->cwnd_q16 = (uint64_t)cwnd << 16;
	p->ssthresh_q16 = (uint64_t)ssthresh << 16;
	p->srtt_ns = 100000000;
	p->live = 1;
	p->group = 1;
	p->group_state = RW_GROUP_FINAL;
	struct rw_ack first = {.path = path, .rtt_ns = p->srtt_ns};
	if (control->rtt)
		control->rtt(c, &first);
	if (control->join)
		control->join(c, path);
}

/* Path 0 after an ACK and a loss, beside a path in recovery with a window of its own, or with its ssthresh as window. */
static struct rw_path beside(const struct rw_control *control, int mode, int recovering)
{
	struct rw_connection c;
	open_connection(&c, control, modes[!mode]);
	place(&c, control, 0, 40, 20);
	place(&c, control, 1, 20, 20);
	if (recovering) {
		c.path[1].cwnd_q16 = (uint64_t)33 << 16;
		c.path[1].recovering = 1;
	}
	for (uint32_t i = 1; i <= 50; i++) {
		struct rw_ack ack = {.path = 0, .acked_segments = 2, .una = 2 * i, .next = 2 * i + 40};
		if (control->delivered)
			control->delivered(&c, &ack);
		struct rw_rate rate = {.acked_segments = 2,
				       .delivered = 2 * i + 40,
				       .prior_delivered = 2 * i,
				       .in_flight = 40,
				       .interval_ns = 100000000,
				       .time_ns = i * 5000000ll};
		if (control->rate)
			control->rate(&c, &rate);
		else
			control->ack(&c, &ack);
	}
	control->loss(&c, 0);
	return c.path[0];
}

static void a_subflow_in_recovery_counts_with_its_ssthresh(void **unused)
{
	(void)unused;
	for (int i = 0; rw_control_list[i]; i++)
		for (int mode = RW_MODE_KERNEL; mode <= RW_MODE_PAPER; mode++) {
			const struct rw_control *control = rw_control_list[i];
			struct rw_path a = beside(control, mode, 1), b = beside(control, mode, 0);
			int same = a.cwnd_q16 == b.cwnd_q16 && a.cwnd_rem_q40 == b.cwnd_rem_q40 &&
				   a.cwnd_cnt == b.cwnd_cnt && a.ssthresh_q16 == b.ssthresh_q16;
			if (!same && !reads_raw_windows(control, mode))
				fail_msg("%s, %s: the transient window was counted", control->name, modes[!mode]);
		}
}

/* What tells versions after so many ACKs of a path with a steady rate: 50 end in Startup, 200 in ProbeBW. */
static struct rw_version_paces paces_after(const char *name, uint32_t acks)
{
	const struct rw_control *control = rw_control_find(name);
	struct rw_connection c;
	struct rw_version_paces paces;
	open_connection(&c, control, "mode=kernel");
	place(&c, control, 0, 40, 20);
	for (uint32_t i = 1; i <= acks; i++) {
		struct rw_rate rate = {.acked_segments = 2,
				       .delivered = 2 * i + 40,
				       .prior_delivered = 2 * i,
				       .in_flight = 40,
				       .interval_ns = 100000000,
				       .time_ns = i * 5000000ll};
		control->rate(&c, &rate);
	}
	control->versions(&c, 0, &paces);
	return paces;
}

static void assert_close(uint64_t a, uint64_t b)
{
	assert_true(a && b);
	assert_true((a > b ? a - b : b - a) * 64 <=
		    a); /* the first pace of version 3 lacks the margin of a hundredth */
}

/* A pace that one version takes for the other's is the other's own. */
static void versions_agree_on_whose_a_pace_is(void **unused)
{
	(void)unused;
	uint64_t apart[2];
	for (uint32_t i = 0; i < 2; i++) {
		struct rw_version_paces one = paces_after("bbr", i ? 200 : 50),
					three = paces_after("bbr3", i ? 200 : 50);
		assert_close(one.own_q24, three.other_q24);
		assert_close(one.other_q24, three.own_q24);
		apart[i] = one.other_q24 * 1000 / one.own_q24;
	}
	assert_in_range(apart[0], 957, 960); /* 2.77 to 2.89 */
	assert_in_range(apart[1], 1195, 1202); /* 0.9 to 0.75 */
}

static void names_and_state_have_places(void **unused)
{
	(void)unused;
	for (int i = 0; rw_control_list[i]; i++) {
		const struct rw_control *control = rw_control_list[i];
		assert_ptr_equal(rw_control_find(control->name), control); /* no name twice */
		assert_true(*control->source && *control->formula);
		assert_string_equal(control->options[0].name, "mode");
		int options = 0;
		while (control->options[options].name)
			options++;
		assert_true(options <= RW_MAX_OPTIONS);
		for (const struct rw_word_name *w = control->words; w->name; w++)
			assert_true(w->index < (w->of_path ? RW_PATH_WORDS : RW_CONNECTION_WORDS) << w->half);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_subflow_in_recovery_counts_with_its_ssthresh),
	    cmocka_unit_test(versions_agree_on_whose_a_pace_is),
	    cmocka_unit_test(names_and_state_have_places),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
