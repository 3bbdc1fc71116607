/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * MPTCP-SBD (Ferlin et al. 2016): subflows that RFC 8382's detector finds behind one bottleneck are coupled by OLIA or
 * LIA, each group by itself; any other is NewReno.
 *
 *   loss, ECE, timeout  ssthresh = w / 2
 */
#include "lia.h"
#include "olia.h"
#include "options.h"

enum { INNER = COMMON_OPTIONS, BEST, SSTHRESH };
enum { INNER_OLIA, INNER_LIA };

static const struct rw_option sbd_options[] = {
    RW_OPTION_MODE_PAPER,
    RW_OPTION_FLOOR_LINUX,
    {"inner", "olia|lia", 0, "what couples a group: the authors' choice, or RFC 6356", RW_OPTION_CHOICE, 0, 0},
    RW_OPTION_OLIA_BEST,
    RW_OPTION_SSTHRESH,
    {0}};

static const struct rw_word_name sbd_words[] = {RW_OLIA_PATH_WORDS, {0}};

static void sbd_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, 0);
}

static void sbd_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	uint32_t group = rw_final_group(p);
	if (acked_q16 == 0)
		return;
	if (!group) {
		rw_congestion_avoidance_q40(p, rw_reno_step_q40(p->cwnd_q16), acked_q16);
	} else if (c->option[INNER] == INNER_LIA) {
		struct rw_sums t = rw_sum_group(c, group);
		rw_congestion_avoidance_q40(p, rw_lia_step_q40(&t, p), acked_q16);
	} else {
		rw_olia_avoid(c, ack->path, group, c->option[BEST], acked_q16);
	}
}

static void sbd_loss(struct rw_connection *c, uint32_t path)
{
	rw_olia_lost(&c->path[path]);
	rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_mptcp_sbd = {
    .name = "mptcp-sbd",
    .source = "Ferlin et al. 2016, RFC 8382",
    .formula = "in a group: I, D as olia (or lia) over the group; outside: I = 1/w, D = w/2",
    .deviations = "The paper was not at hand: RFC 8382's grouping, OLIA within each group (inner), NewReno "
		  "outside.",
    .multipath = 1,
    .detector = "sbd",
    .options = sbd_options,
    .words = sbd_words,
    .begin = sbd_begin,
    .delivered = rw_olia_delivered,
    .ack = sbd_ack,
    .loss = sbd_loss,
};
