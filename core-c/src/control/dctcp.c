/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCTCP (RFC 8257): the reduction follows the share of marked segments.
 *
 *   slow start, avoidance, loss, timeout  as NewReno (3.4, 3.5)
 *   once a window of data                 M = marked / acked, alpha += g (M - alpha) (3.3)
 *   ECE                                   ssthresh = w (1 - alpha / 2)
 *
 * alpha begins with 1 (3.3), so that the first mark halves the window. The receiver's part, an exact echo of each mark (3.2), is not
 * the sender's: behind a receiver of RFC 3168, which repeats an echo until it is answered, alpha is larger.
 */
#include "fixed_point.h"
#include "options.h"

enum { GAIN = COMMON_OPTIONS };

enum {
	PATH_ALPHA_Q32,
	PATH_ACKED, /* segments in this window of data */
	PATH_MARKED,
	PATH_WINDOW_END, /* the sequence number that ends it, behind SEEN; 0: the next ACK ends it */
};
#define SEEN ((uint64_t)1 << 32)
#define ALPHA_ONE ((uint64_t)1 << 32)

static const struct rw_option dctcp_options[] = {RW_OPTION_MODE_INTEGER,
						 RW_OPTION_FLOOR_LINUX,
						 {"g", "0 to 1", RW_Q16(1, 16),
						  "RFC 8257, 4.2: the weight of the newest window of data, 1/16",
						  RW_OPTION_Q16, 0, 1 << 16},
						 {0}};

static const struct rw_word_name dctcp_words[] = {
    {"alpha", 1, PATH_ALPHA_Q32, 32, 0}, {"acked", 1, PATH_ACKED, 0, 0}, {"marked", 1, PATH_MARKED, 0, 0}, {0}};

static int is_whole(const struct rw_connection *c) { return c->option[MODE] == RW_MODE_KERNEL; }

static void dctcp_begin(struct rw_connection *c, uint32_t path) { c->path[path].word[PATH_ALPHA_Q32] = ALPHA_ONE; }

static void dctcp_delivered(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t gain_q16 = (uint64_t)c->option[GAIN];
	p->word[PATH_ACKED] += ack->acked_segments;
	p->word[PATH_MARKED] += ack->marked_segments;
	if (p->word[PATH_WINDOW_END] && (int32_t)(ack->una - (uint32_t)p->word[PATH_WINDOW_END]) <= 0)
		return;
	uint64_t share_q32 = rw_multiply_divide(p->word[PATH_MARKED], ALPHA_ONE, rw_max64(p->word[PATH_ACKED], 1));
	uint64_t alpha_q32 = rw_min64(p->word[PATH_ALPHA_Q32], ALPHA_ONE);
	p->word[PATH_ALPHA_Q32] = alpha_q32 - (alpha_q32 * gain_q16 >> 16) + (share_q32 * gain_q16 >> 16);
	p->word[PATH_WINDOW_END] = SEEN | ack->next;
	p->word[PATH_ACKED] = p->word[PATH_MARKED] = 0;
}

static void dctcp_ack(struct rw_connection *c, const struct rw_ack *ack)
{
	struct rw_path *p = &c->path[ack->path];
	uint64_t acked_q16 = rw_after_slow_start(p, ack);
	if (acked_q16)
		rw_reno_avoidance(p, is_whole(c), acked_q16);
}

static void dctcp_loss(struct rw_connection *c, uint32_t path)
{
	rw_halve(&c->path[path], is_whole(c), c->option[MIN_SSTHRESH]);
}

static void dctcp_ece(struct rw_connection *c, uint32_t path)
{
	struct rw_path *p = &c->path[path];
	uint64_t left_q16 = p->cwnd_q16 - rw_multiply_divide(p->cwnd_q16, p->word[PATH_ALPHA_Q32], 2 * ALPHA_ONE);
	rw_set_ssthresh(p, is_whole(c) ? left_q16 >> 16 << 16 : left_q16, c->option[MIN_SSTHRESH]);
}

const struct rw_control rw_control_dctcp = {
    .name = "dctcp",
    .source = "RFC 8257",
    .formula = "I = 1/w; a loss D = w/2, a mark D = w alpha/2; once a window of data alpha += g (marked/acked - alpha)",
    .deviations =
	"Counts delivered segments, SACKed ones too, where RFC 8257 counts bytes of cumulative acknowledgements. The "
	"exact echo of marks is the receiver's: behind one of RFC 3168 alpha is larger.",
    .multipath = 0,
    .options = dctcp_options,
    .words = dctcp_words,
    .begin = dctcp_begin,
    .delivered = dctcp_delivered,
    .ack = dctcp_ack,
    .loss = dctcp_loss,
    .ece = dctcp_ece,
};
