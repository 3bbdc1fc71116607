/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* NMCC (e-NMCC paper III): nmcc.h's increase; loss, ECE, timeout: ssthresh = w / 2. */
#include "nmcc.h"
#include "options.h"

enum { SSTHRESH = COMMON_OPTIONS };

static const struct rw_option nmcc_options[] = {RW_OPTION_MODE_PAPER, RW_OPTION_FLOOR_LINUX, RW_OPTION_SSTHRESH, {0}};
static const struct rw_word_name nmcc_words[] = {{0}};

static void nmcc_ack(struct rw_connection *c, const struct rw_ack *ack) { rw_nmcc_ack(c, ack); }
static void nmcc_loss(struct rw_connection *c, uint32_t path) { rw_halve(&c->path[path], 0, c->option[MIN_SSTHRESH]); }

static void nmcc_begin(struct rw_connection *c, uint32_t path)
{
	rw_begin_with_ssthresh(c, path, c->option[SSTHRESH] != 0, 0);
}

const struct rw_control rw_control_nmcc = {
    .name = "nmcc",
    .source = "e-NMCC paper, section III",
    .formula = "I = 1/(m^2 w), in slow start 1/m^2; m^2 = sum Omega_k / max Omega_k; D = w/2",
    .deviations =
	"All subflows are coupled, where the paper couples those reported to share a bottleneck (its footnote "
	"1).",
    .multipath = 1,
    .options = nmcc_options,
    .words = nmcc_words,
    .begin = nmcc_begin,
    .ack = nmcc_ack,
    .loss = nmcc_loss,
};
