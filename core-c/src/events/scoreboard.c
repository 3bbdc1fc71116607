/* The unacknowledged segments of a sender, RACK over them (RFC 8985), and its RTT (RFC 6298, Linux's variance). */
#include <stdlib.h>
#include <string.h>

#include "events.h"

#define MS 1000000ull
#define RTO_MIN_NS (200 * MS)
#define RTO_INITIAL_NS (1000 * MS)
#define RTO_MAX_NS (120000 * MS)
/* Longer is a clock that jumped. */
#define RTT_MAX_NS (1000000 * MS)

/*
 * Behind the last segment is no place left. Those that are there move to the front when a quarter is free there, or when there
 * may be no more places.
 */
static RW_ASIDE int make_room(struct rw_sender *s)
{
	uint32_t capacity = s->capacity ? s->capacity * 2 : 4;
	struct rw_segment *segment = s->segment;
	int spent = s->budget && s->budget->used + (capacity - s->capacity) > s->budget->most;
	if (spent && s->count == s->capacity)
		return RW_SCOREBOARD_FULL;
	if (spent || (segment && s->count <= s->capacity / 4 * 3)) {
		capacity = s->capacity;
		s->work += spent ? s->count : 0;
	} else {
		segment = malloc(capacity * sizeof *segment);
		if (!segment)
			return RW_SCOREBOARD_NO_MEMORY;
		if (s->budget)
			s->budget->used += capacity - s->capacity;
	}
	if (s->count)
		memmove(segment, s->first, s->count * sizeof *segment);
	if (segment != s->segment)
		free(s->segment);
	s->segment = s->first = segment;
	s->room = s->capacity = capacity;
	return 0;
}

int rw_scoreboard_append(struct rw_sender *s, const struct rw_segment *segment)
{
	if (s->count >= s->segments_max)
		return RW_SCOREBOARD_FULL;
	int status = s->count == s->room ? make_room(s) : 0;
	if (status)
		return status;
	s->first[s->count++] = *segment;
	return 0;
}

int rw_scoreboard_cut(struct rw_sender *s, uint32_t i, uint32_t sequence)
{
	struct rw_segment g = *rw_segment_at(s, i);
	struct rw_segment rest = g;
	rest.start = sequence;
	int status = rw_scoreboard_append(s, &rest);
	if (status)
		return status;
	for (uint32_t k = s->count - 1; k > i + 1; k--)
		*rw_segment_at(s, k) = *rw_segment_at(s, k - 1);
	s->work += s->count - i;
	rw_segment_at(s, i)->end = g.start = sequence;
	*rw_segment_at(s, i + 1) = g;
	s->sacked_out += !!(g.bits & RW_SEGMENT_SACKED);
	s->lost_out += !!(g.bits & RW_SEGMENT_LOST);
	s->retrans_out += !!(g.bits & RW_SEGMENT_RETRANSMITTED);
	return 0;
}

void rw_scoreboard_join(struct rw_sender *s, uint32_t i)
{
	struct rw_segment joined = *rw_segment_at(s, i + 1);
	joined.start = rw_segment_at(s, i)->start;
	s->sacked_out -= !!(joined.bits & RW_SEGMENT_SACKED);
	s->lost_out -= !!(joined.bits & RW_SEGMENT_LOST);
	s->retrans_out -= !!(joined.bits & RW_SEGMENT_RETRANSMITTED);
	memmove(s->first + 1, s->first, i * sizeof *s->first); /* what is sent again is near the head */
	s->work += i + 1;
	*rw_segment_at(s, i + 1) = joined;
	rw_scoreboard_drop(s, 1);
	/* Without SACK duplicate ACKs were counted, and no segment has their mark. */
	if (!s->sack && s->sacked_out > s->count - s->lost_out)
		s->sacked_out = s->count - s->lost_out;
}

void rw_scoreboard_clear(struct rw_sender *s)
{
	if (s->count) /* else there may be no array yet */
		rw_scoreboard_drop(s, s->count);
	s->sacked_out = s->lost_out = s->retrans_out = 0;
	s->seen_sacks = 0;
	s->backoff = 0;
}

/* Is segment i the first whose end lies after `sequence`? */
static int is_first_after(const struct rw_sender *s, uint32_t i, uint32_t sequence)
{
	return i < s->count && rw_seq_diff(rw_segment_at(s, i)->end, sequence) > 0 &&
	       (i == 0 || rw_seq_diff(rw_segment_at(s, i - 1)->end, sequence) <= 0);
}

uint32_t rw_scoreboard_find(const struct rw_sender *s, uint32_t sequence)
{
	uint32_t low = 0, high = s->count;
	/* Most segments are of one size, and then it is here: how a search turns cannot be foretold. */
	uint32_t likely = s->count ? (sequence - rw_segment_at(s, 0)->start) / s->segment_bytes : 0;
	if (is_first_after(s, likely, sequence))
		return likely;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (rw_seq_diff(rw_segment_at(s, middle)->end, sequence) > 0)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

void rw_scoreboard_lose(struct rw_sender *s, struct rw_segment *g)
{
	if (g->bits & RW_SEGMENT_SACKED)
		return;
	if (g->bits & RW_SEGMENT_RETRANSMITTED) {
		g->bits &= (uint8_t)~RW_SEGMENT_RETRANSMITTED;
		s->retrans_out--;
	} else if (g->bits & RW_SEGMENT_LOST) {
		return;
	}
	s->lost_total++;
	if (!(g->bits & RW_SEGMENT_LOST)) {
		g->bits |= RW_SEGMENT_LOST;
		s->lost_out++;
	}
}

/* Was (t1, end1) sent after (t2, end2)? */
static int sent_after(int64_t t1, uint32_t end1, int64_t t2, uint32_t end2)
{
	return t1 > t2 || (t1 == t2 && rw_seq_diff(end1, end2) > 0);
}

void rw_rack_advance(struct rw_sender *s, const struct rw_segment *g, int64_t now_ns)
{
	int64_t rtt = now_ns - g->sent_ns;
	if (rtt < 0)
		rtt = 0;
	if (g->bits & RW_SEGMENT_EVER && s->rtt_min_ns && (uint64_t)rtt < s->rtt_min_ns)
		return; /* acknowledges the original, not the retransmission */
	s->rack_advanced = 1;
	s->rack_rtt_ns = (uint64_t)rtt;
	if (sent_after(g->sent_ns, g->end, s->rack_sent_ns, s->rack_end)) {
		s->rack_sent_ns = g->sent_ns;
		s->rack_end = g->end;
	}
}

static uint64_t reorder_window_ns(const struct rw_sender *s)
{
	if (!s->reorder_seen && (s->state >= RW_SENDER_RECOVERY || s->sacked_out >= s->reorder_segments))
		return 0;
	uint64_t window = s->rtt_min_ns / 4 * s->reorder_steps, most = s->srtt_ns;
	return window < most ? window : most;
}

void rw_rack_mark_lost(struct rw_sender *s, int64_t now_ns)
{
	if (!s->rack_advanced)
		return;
	s->rack_advanced = 0;
	uint64_t wait = s->rack_rtt_ns + reorder_window_ns(s);
	for (uint32_t i = 0; i < s->count; i++) {
		struct rw_segment *g = rw_segment_at(s, i);
		s->work++;
		if (g->bits & RW_SEGMENT_SACKED)
			continue;
		if (g->bits & RW_SEGMENT_LOST && !(g->bits & RW_SEGMENT_RETRANSMITTED))
			continue;
		if (!sent_after(s->rack_sent_ns, s->rack_end, g->sent_ns, g->end)) {
			if (g->bits & RW_SEGMENT_EVER)
				continue; /* sent again, out of order */
			break;        /* originals lie in the order sent */
		}
		/* The kernel's clock counts microseconds. */
		if ((int64_t)(wait / 1000) - (now_ns - g->sent_ns) / 1000 <= 0)
			rw_scoreboard_lose(s, g);
	}
}

/* RFC 8985 6.2.4: the window widens once in each round trip with a DSACK, and narrows after 16 recoveries. */
void rw_rack_update_window(struct rw_sender *s, int dsack)
{
	if (s->dsack_round && rw_seq_diff(s->una, s->dsack_round_end) >= 0)
		s->dsack_round = 0;
	if (dsack && !s->dsack_round) {
		s->dsack_round = 1;
		s->dsack_round_end = s->next;
		if (s->reorder_steps < 255)
			s->reorder_steps++;
		s->reorder_persist = 16;
	} else if (!s->reorder_persist) {
		s->reorder_steps = 1;
	}
}

uint64_t rw_sender_rto_ns(const struct rw_sender *s)
{
	uint64_t rto = s->srtt_ns ? s->srtt_ns + s->rttvar_ns : RTO_INITIAL_NS;
	if (rto > RTO_MAX_NS)
		return RTO_MAX_NS;
	rto <<= s->backoff < 10 ? s->backoff : 10;
	return rto < RTO_MAX_NS ? rto : RTO_MAX_NS;
}

static uint32_t rtt_bucket(uint64_t us)
{
	if (us < 32)
		return (uint32_t)us;
	uint32_t octave = 63 - (uint32_t)__builtin_clzll(us);
	uint32_t bucket = (octave - 4) * 32 + (uint32_t)(us >> (octave - 5) & 31);
	return bucket < RW_RTT_BUCKETS ? bucket : RW_RTT_BUCKETS - 1;
}

static uint64_t rtt_bucket_start_us(uint32_t bucket)
{
	if (bucket < 32)
		return bucket;
	uint32_t octave = bucket / 32 + 4;
	return (uint64_t)(32 + bucket % 32) << (octave - 5);
}

static void count_rtt(struct rw_sender *s, uint64_t us)
{
	uint32_t sample = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
	if (s->rtt_samples < RW_RTT_EARLY) {
		s->rtt_early_us[s->rtt_samples++] = sample;
		return;
	}
	if (!s->rtt_histogram) {
		s->rtt_histogram = calloc(RW_RTT_BUCKETS, sizeof *s->rtt_histogram);
		if (!s->rtt_histogram)
			return; /* the quantiles stay those of the first samples */
		for (uint32_t i = 0; i < RW_RTT_EARLY; i++)
			s->rtt_histogram[rtt_bucket(s->rtt_early_us[i])]++;
	}
	s->rtt_histogram[rtt_bucket(sample)]++;
	s->rtt_samples++;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

static uint32_t quantile_us(const struct rw_sender *s, uint32_t percent)
{
	if (!s->rtt_samples)
		return 0;
	uint64_t rank = (s->rtt_samples - 1) * percent / 100, below = 0;
	if (!s->rtt_histogram) {
		uint32_t sorted[RW_RTT_EARLY];
		memcpy(sorted, s->rtt_early_us, sizeof sorted);
		qsort(sorted, s->rtt_samples, sizeof *sorted, by_size);
		return sorted[rank];
	}
	for (uint32_t b = 0; b < RW_RTT_BUCKETS; b++) {
		uint64_t here = s->rtt_histogram[b];
		if (below + here > rank) {
			uint64_t from = rtt_bucket_start_us(b), to = rtt_bucket_start_us(b + 1);
			uint64_t us = from + (to - from) * (2 * (rank - below) + 1) / (2 * here);
			uint64_t least = s->rtt_min_ns / 1000;
			us = us < least ? least : us;
			return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
		}
		below += here;
	}
	return 0;
}

uint32_t rw_sender_rtt_quantile_us(const struct rw_sender *s, uint32_t percent)
{
	if (s->retired)
		return percent == 50 ? s->rtt_median_us : s->rtt_p95_us;
	return quantile_us(s, percent);
}

void rw_sender_retire(struct rw_sender *s)
{
	s->rtt_median_us = quantile_us(s, 50);
	s->rtt_p95_us = quantile_us(s, 95);
	s->retired = 1;
	rw_sender_close(s);
}

void rw_sender_close(struct rw_sender *s)
{
	if (s->budget)
		s->budget->used -= s->capacity;
	rw_scoreboard_clear(s);
	free(s->segment);
	free(s->rtt_histogram);
	s->segment = s->first = NULL;
	s->rtt_histogram = NULL;
	s->capacity = s->room = 0;
}

/* RFC 6298 with Linux's variance: the largest deviation of a round trip, at least RTO_MIN, decays by a quarter. */
void rw_sender_smooth_rtt(struct rw_sender *s, uint64_t rtt_ns)
{
	if (s->retired)
		return;
	if (rtt_ns == 0)
		rtt_ns = 1000;
	if (rtt_ns > RTT_MAX_NS)
		rtt_ns = RTT_MAX_NS;
	if (!s->rtt_min_ns || rtt_ns < s->rtt_min_ns)
		s->rtt_min_ns = rtt_ns;
	if (!s->srtt_ns) {
		s->srtt_ns = rtt_ns;
		s->mdev_ns = rtt_ns / 2;
		s->rttvar_ns = 4 * s->mdev_ns > RTO_MIN_NS ? 4 * s->mdev_ns : RTO_MIN_NS;
		s->mdev_max_ns = s->rttvar_ns;
		s->rtt_sequence = s->next;
		return;
	}
	int64_t error = (int64_t)rtt_ns - (int64_t)s->srtt_ns;
	s->srtt_ns = (uint64_t)((int64_t)s->srtt_ns + error / 8);
	int64_t size = error < 0 ? -error : error, mdev = (int64_t)s->mdev_ns;
	int64_t change = size - mdev;
	/* A sudden fall of the RTT must not raise the timeout: weight 1/32 instead of 1/4. Rounded to 0; without a branch, which is chance. */
	int shift = 2 + 3 * ((error < 0) & (change > 0));
	mdev += (change + (change < 0 ? 3 : 0)) >> shift;
	s->mdev_ns = mdev > 0 ? (uint64_t)mdev : 0;
	uint64_t deviation = 4 * s->mdev_ns;
	if (deviation > s->mdev_max_ns)
		s->mdev_max_ns = deviation;
	if (s->mdev_max_ns > s->rttvar_ns)
		s->rttvar_ns = s->mdev_max_ns;
	if (rw_seq_diff(s->una, s->rtt_sequence) > 0) {
		if (s->mdev_max_ns < s->rttvar_ns)
			s->rttvar_ns -= (s->rttvar_ns - s->mdev_max_ns) / 4;
		s->rtt_sequence = s->next;
		s->mdev_max_ns = RTO_MIN_NS;
	}
}

void rw_sender_rtt(struct rw_sender *s, uint64_t rtt_ns)
{
	if (s->retired)
		return;
	rw_sender_smooth_rtt(s, rtt_ns);
	count_rtt(s, rtt_ns < 1000 ? 1 : rtt_ns < RTT_MAX_NS ? rtt_ns / 1000 : RTT_MAX_NS / 1000);
}
