/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * One controller of core-c/src/control as a congestion control of Linux: an eBPF struct_ops around the unchanged C file.
 *
 *   -DRW_CONTROL_FILE='"tccc.c"' -DRW_CONTROL=rw_control_tccc -DRW_KERNEL_NAME='"rw_tccc"' -DRW_HAS_ECE=0
 *
 * A controller of sets brings its detector of shared bottlenecks with it, also unchanged:
 *
 *   -DRW_DETECTOR_FILE='"../bottleneck/sbcc.c"' -DRW_DETECTOR=rw_detector_sbcc -DRW_DETECTION='struct sbcc'
 *
 * The subflows of an MPTCP connection share one struct shared, found by the connection's token; a plain TCP socket has one for
 * itself, found by its address. Each congestion control callback does the same five things: it holds the connection, takes over
 * what the kernel did to the window since (proportional rate reduction, idle restart), tells the controller of the event, hands
 * the window back to the kernel, and lets the connection go.
 *
 * A window that the controller changes on another subflow reaches that subflow's socket with its own next callback: a program may
 * write to the socket that it was called for, and to no other.
 */
#include "linux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Verified once, not at each place that calls it. Weak: the compiler may assume nothing of its arguments that the verifier does not
   know. */
#define RW_CALL __attribute__((noinline, weak))
#define RW_NEVER_NULL __attribute__((btf_decl_tag("arg:nonnull")))

#include RW_CONTROL_FILE
#ifdef RW_DETECTOR
#include RW_DETECTOR_FILE
#endif
#include "rewindow.h"
#include "rw_bottleneck.h"

char _license[] SEC("license") = "GPL v2";

extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym;
extern void bpf_local_irq_save(unsigned long *flags) __ksym;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

#define SSTHRESH_INFINITE 0x7fffffffu /* snd_ssthresh that is not set */
/* RFC 8684, 3.3.1: what Linux puts into every full segment, a mapping by a 64-bit data sequence number and a 32-bit acknowledgment. */
#define MPTCP_DATA_OPTION_BYTES 24
#define NS_PER_US 1000

/* The loader's. */
const volatile struct {
	__s64 option[RW_MAX_OPTIONS]; /* in the order of the controller's table */
	__s64 detector_option[RW_MAX_OPTIONS];
	__u64 ns_per_tick; /* of the kernel's clock; 0: not known, and the controller hears of no idle time */
} settings SEC(".rodata.settings");

/* What the kernel's socket and the controller's path had when they were last the same, and what an undo needs. */
struct subflow {
	__u64 prior_cwnd_q16, prior_ssthresh_q16;
	__u64 ssthresh_q16; /* the controller's, when `ssthresh` was the kernel's */
	__u32 cwnd, ssthresh;
	__u32 srtt_8us, delivered;
	__u16 port;
	__u8 taken;
	__u8 timed_out; /* the kernel is about to set the window for it */
	__u8 restarted; /* the kernel is about to reduce the window for an idle time */
	__u8 pad[3];
};

struct shared {
	__u64 key; /* token or socket; 0: free */
	__u32 held, users;
	__u32 undecided_1; /* the path whose loss may turn out to be a timeout, plus 1 */
	__u32 marked; /* that loss was a mark */
	__u32 place; /* of this connection */
	__u32 leaving; /* a bit for each path whose socket is gone and which has not left the connection yet */
	struct rw_connection c;
	struct subflow subflow[RW_MAX_PATHS];
#ifdef RW_DETECTOR
	RW_DETECTION detection;
#endif
	/* The controller before the last loss: the kernel tells a timeout from a loss only after ssthresh(). */
	struct rw_path lost_path[RW_MAX_PATHS];
	__u64 lost_word[RW_CONNECTION_WORDS];
};

/* The loader chooses how many connections there may be, and fills the queue with the places in `connections`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shared);
} connections SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} unused SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} places SEC(".maps");

struct {
	__u64 joined, left; /* subflows */
	__u64 refused; /* subflows without a place: the kernel's Reno runs instead */
	__u64 missed; /* events during which another processor held the connection for too long */
	__u64 losses, timeouts, undone;
	__u64 untraced; /* steps for which the trace had no room */
} counts SEC(".data.counts");
#define COUNT(what) __sync_fetch_and_add(&counts.what, 1)

/* Steps are written down until that time of the monotonic clock, which whoever reads them moves on. */
struct {
	__u64 until_ns;
} tracing SEC(".data.tracing");

/* A step of a controller, and the connection after it. */
struct step {
	__u64 time_ns, key, rtt_ns, rtt_newest_ns;
	__u32 acked_segments, marked_segments, una, next;
	__u32 mss_bytes;
	__u16 port;
	__u8 kind; /* rw_transition_kind */
	__u8 path;
	__u64 word[RW_CONNECTION_WORDS];
	struct rw_path paths[RW_MAX_PATHS];
};
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} steps SEC(".maps");

/* In icsk_ca_priv: where the subflow is. */
struct seat {
	__u32 place_1; /* of its connection, plus 1; 0: it has none */
	__u32 path;
	__u32 echo; /* the last ACK that was looked at reports a mark */
	__s32 rtt_us; /* of the newest segment that the ACK under way delivered; 0 or less: none */
};

static __always_inline struct tcp_sock *tcp_of(struct sock *sk) { return (struct tcp_sock *)sk; }

static __always_inline struct seat *seat_of(struct sock *sk)
{
	return (struct seat *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline __u64 key_of(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	if (!bpf_core_type_exists(struct mptcp_sock) || !tp->is_mptcp)
		return (__u64)sk;
	struct mptcp_subflow_context *subflow = bpf_rdonly_cast(((struct inet_connection_sock *)sk)->icsk_ulp_data,
								bpf_core_type_id_kernel(struct mptcp_subflow_context));
	struct mptcp_sock *connection = bpf_rdonly_cast(subflow->conn, bpf_core_type_id_kernel(struct mptcp_sock));
	return connection->token;
}

/* By words: the compiler would call memset and memcpy for as much as this, and there is no such function. */
static __always_inline void clear(void *to, __u32 bytes)
{
	for (__u32 i = 0; i < bytes / 8; i++)
		((volatile __u64 *)to)[i] = 0;
}
static __always_inline void copy(void *to, const void *from, __u32 bytes)
{
	for (__u32 i = 0; i < bytes / 8; i++)
		((volatile __u64 *)to)[i] = ((const __u64 *)from)[i];
}

/* The controller's callbacks. An index is bounded where it is used: the verifier knows nothing of arguments. */
#define BOUNDED(path) asm volatile("%0 &= 7" : "+r"(path))
_Static_assert(RW_MAX_PATHS == 8, "BOUNDED");

#define TELLS_OF_PATH(event)                                                                                           \
	RW_CALL int tell_##event(struct rw_connection *c RW_NEVER_NULL, __u32 path)                                    \
	{                                                                                                              \
		BOUNDED(path);                                                                                         \
		if (RW_CONTROL.event)                                                                                  \
			RW_CONTROL.event(c, path);                                                                     \
		return 0;                                                                                              \
	}
#define TELLS_OF_ACK(event)                                                                                            \
	RW_CALL int tell_##event(struct rw_connection *c RW_NEVER_NULL, const struct rw_ack *told RW_NEVER_NULL)       \
	{                                                                                                              \
		struct rw_ack ack = *told;                                                                             \
		BOUNDED(ack.path);                                                                                     \
		if (RW_CONTROL.event)                                                                                  \
			RW_CONTROL.event(c, &ack);                                                                     \
		return 0;                                                                                              \
	}

TELLS_OF_PATH(begin)
TELLS_OF_PATH(join)
TELLS_OF_PATH(leave)
TELLS_OF_PATH(loss)
TELLS_OF_PATH(ece)
TELLS_OF_PATH(timeout)
TELLS_OF_PATH(undo)
TELLS_OF_ACK(delivered)
TELLS_OF_ACK(rtt)
TELLS_OF_ACK(ack)

RW_CALL int tell_open(struct rw_connection *c RW_NEVER_NULL)
{
	if (RW_CONTROL.open)
		RW_CONTROL.open(c);
	return 0;
}

RW_CALL int tell_idle(struct rw_connection *c RW_NEVER_NULL, __u32 path, __s64 now_ns, __u64 idle_ns)
{
	BOUNDED(path);
	if (RW_CONTROL.idle)
		RW_CONTROL.idle(c, path, now_ns, idle_ns);
	return 0;
}

#ifdef RW_DETECTOR
RW_CALL int detect_join(RW_DETECTION *d RW_NEVER_NULL, __u32 path, __u64 srtt_ns)
{
	BOUNDED(path);
	d->common.path[path] = (struct rw_detected_path){.srtt_ns = srtt_ns, .live = 1};
	RW_DETECTOR.join(&d->common, path);
	return 0;
}

RW_CALL int detect_leave(RW_DETECTION *d RW_NEVER_NULL, __u32 path)
{
	BOUNDED(path);
	RW_DETECTOR.leave(&d->common, path);
	d->common.path[path].live = d->common.path[path].set = d->common.path[path].state = 0;
	return 0;
}

RW_CALL int detect_congestion(RW_DETECTION *d RW_NEVER_NULL, __u32 path, __u32 kind)
{
	BOUNDED(path);
	RW_DETECTOR.congestion(&d->common, path, (enum rw_congestion)kind);
	return 0;
}

RW_CALL int detect_decide(RW_DETECTION *d RW_NEVER_NULL, __s64 until_ns)
{
	return RW_DETECTOR.decide(&d->common, until_ns);
}

/* The decisions that were due before this time; a place among the judgements is decided once at most. */
RW_CALL int detect_advance(RW_DETECTION *d RW_NEVER_NULL, __s64 now_ns)
{
	for (__u32 i = 0; i < RW_MAX_PATHS + RW_SETS_MAX; i++)
		if (!detect_decide(d, now_ns))
			break;
	if (now_ns > d->common.now_ns)
		d->common.now_ns = now_ns;
	return 0;
}

/* Tells the controller of the sets that changed. 1: some did. */
RW_CALL int regroup(struct rw_connection *c RW_NEVER_NULL, const RW_DETECTION *d RW_NEVER_NULL)
{
	int changed = 0;
	for (__u32 i = 0; i < RW_MAX_PATHS; i++) {
		struct rw_path *p = &c->path[i];
		const struct rw_detected_path *found = &d->common.path[i];
		if (p->group == found->set && p->group_state == found->state)
			continue;
		p->group = found->set;
		p->group_state = found->state;
		changed = 1;
		if (RW_CONTROL.grouped)
			RW_CONTROL.grouped(c, i);
	}
	if (changed && RW_CONTROL.regrouped)
		RW_CONTROL.regrouped(c);
	return changed;
}
#endif

RW_CALL int write_step(const struct shared *s RW_NEVER_NULL, __u32 path, __u32 kind,
		       const struct rw_ack *ack RW_NEVER_NULL, __u64 time_ns)
{
	struct step *step = bpf_ringbuf_reserve(&steps, sizeof *step, 0);
	BOUNDED(path);
	if (!step) {
		COUNT(untraced);
		return 0;
	}
	step->time_ns = time_ns;
	step->key = s->key;
	step->rtt_ns = ack->rtt_ns;
	step->rtt_newest_ns = ack->rtt_newest_ns;
	step->acked_segments = ack->acked_segments;
	step->marked_segments = ack->marked_segments;
	step->una = ack->una;
	step->next = ack->next;
	step->mss_bytes = s->c.mss_bytes;
	step->port = s->subflow[path].port;
	step->kind = (__u8)kind;
	step->path = (__u8)path;
	bpf_probe_read_kernel(step->word, sizeof step->word, s->c.word);
	bpf_probe_read_kernel(step->paths, sizeof step->paths, s->c.path);
	bpf_ringbuf_submit(step, 0);
	return 0;
}

static __always_inline __u64 now_ns(const struct tcp_sock *tp) { return tp->tcp_mstamp * NS_PER_US; }

static __always_inline void stepped_by(__u64 time_ns, const struct shared *s, __u32 kind, const struct rw_ack *ack)
{
	if (time_ns < tracing.until_ns)
		write_step(s, ack->path, kind, ack, time_ns);
}

static __always_inline void stepped(__u64 time_ns, const struct shared *s, __u32 kind, __u32 path)
{
	struct rw_ack none = {.path = path};
	stepped_by(time_ns, s, kind, &none);
}

/* The detector hears that time has passed, and of the path's round trip; and the controller of the sets that were decided. */
static __always_inline void detect(const struct tcp_sock *tp, struct shared *s, __u32 path)
{
#ifdef RW_DETECTOR
	detect_advance(&s->detection, (__s64)now_ns(tp));
	s->detection.common.path[path].srtt_ns = (__u64)tp->srtt_us * NS_PER_US / 8;
	if (regroup(&s->c, &s->detection))
		stepped(now_ns(tp), s, RW_TRANSITION_SETS, path);
#endif
}

static __always_inline void congested(struct shared *s, __u32 path, __u32 kind)
{
#ifdef RW_DETECTOR
	detect_congestion(&s->detection, path, kind);
#endif
}

static __always_inline __u32 whole_segments(__u64 q16)
{
	return q16 >> 16 >= SSTHRESH_INFINITE ? SSTHRESH_INFINITE : (__u32)(q16 >> 16);
}

static __always_inline __u64 ssthresh_q16(__u32 segments)
{
	return segments >= SSTHRESH_INFINITE ? RW_SSTHRESH_UNSET : (__u64)segments << 16;
}

enum { CWND_MAX = RW_CWND_MAX_Q16 >> 16 };

/*
 * A kernel may go on without the program that it called, and then takes for its result what was on the stack: the return address of
 * the function before, whose low half is beyond every window (docs/kernel.md). With such a threshold proportional rate reduction makes a
 * window that is nobody's, too. The event is missed, and what the controller has stays.
 */
static __always_inline int is_nobodys(__u32 kernels, __u32 most, __u32 ours)
{
	return kernels > most && kernels != ours;
}

/* What the kernel did to the window since the last callback. A fraction stays where it left the whole segments as they were. */
static __always_inline void pull(struct tcp_sock *tp, struct shared *s, __u32 path)
{
	struct rw_path *p = &s->c.path[path];
	struct subflow *f = &s->subflow[path];
	int no_ssthresh = is_nobodys(tp->snd_ssthresh, SSTHRESH_INFINITE, f->ssthresh);
	if (no_ssthresh || is_nobodys(tp->snd_cwnd, CWND_MAX, f->cwnd)) {
		COUNT(missed);
		tp->snd_cwnd = f->cwnd;
		if (no_ssthresh)
			tp->snd_ssthresh = f->ssthresh;
	}
	__u32 cwnd = tp->snd_cwnd, ssthresh = tp->snd_ssthresh;
	if (cwnd == f->cwnd && ssthresh == f->ssthresh)
		return;
	if (cwnd != f->cwnd)
		p->cwnd_q16 = (__u64)cwnd << 16;
	if (ssthresh != f->ssthresh)
		f->ssthresh_q16 = p->ssthresh_q16 = ssthresh_q16(ssthresh);
	f->cwnd = cwnd;
	f->ssthresh = ssthresh;
	stepped(now_ns(tp), s, f->restarted ? RW_TRANSITION_IDLE : RW_TRANSITION_MACHINERY, path);
	f->restarted = 0;
}

/* The last loss was no timeout. */
static __always_inline void settle(__u64 time_ns, struct shared *s)
{
	__u32 path = s->undecided_1 - 1;
	if (!s->undecided_1)
		return;
	s->undecided_1 = 0;
	BOUNDED(path);
	stepped(time_ns, s, s->marked ? RW_TRANSITION_ECE : RW_TRANSITION_LOSS, path);
}

/*
 * Subflows on other processors may have events at the same time. Interrupts are off while a connection is held, so its holder is
 * never one that this processor has interrupted. No bpf_spin_lock: the verifier allows no calls of global functions under one.
 *
 * A holder whose virtual processor does not run may keep others waiting for longer than they can. They then miss an event, but
 * a subflow must not miss its end: its place, and its socket's address, will be another one's. It therefore never waits. It says
 * in `leaving` that it is gone, and whoever holds the connection next takes it out before anything else. A holder that lets go looks
 * once more. Both exchanges are atomic, so either the holder sees the leaving subflow, or that one sees the connection let go.
 */
enum { HOLD_TRIES = 1 << 17, ATTENTIONS = 2 * RW_MAX_PATHS };

static __always_inline int try_once(struct shared *s) { return __sync_val_compare_and_swap(&s->held, 0, 1) == 0; }

static __always_inline void free_if_unused(struct shared *s)
{
	if (s->users)
		return;
	__u64 key = s->key;
	__u32 place = s->place;
	bpf_map_delete_elem(&places, &key);
	s->key = 0;
	bpf_map_push_elem(&unused, &place, BPF_ANY);
}

static __always_inline void leave(struct shared *s, __u32 path, __u64 time_ns)
{
	settle(time_ns, s);
#ifdef RW_DETECTOR
	detect_advance(&s->detection, (__s64)time_ns);
	detect_leave(&s->detection, path);
	if (regroup(&s->c, &s->detection))
		stepped(time_ns, s, RW_TRANSITION_SETS, path);
#endif
	tell_leave(&s->c, path);
	BOUNDED(path);
	s->c.path[path].live = 0;
	stepped(time_ns, s, RW_TRANSITION_LEAVE, path);
	s->subflow[path].taken = 0;
	s->users--;
}

/* Of a connection that is held: takes out the subflows that are gone, and gives its place back after the last one. */
RW_CALL int take_out_the_gone(struct shared *s RW_NEVER_NULL, __u64 time_ns)
{
	__u32 gone = __sync_lock_test_and_set(&s->leaving, 0);
	if (!gone)
		return 0;
	for (__u32 path = 0; path < RW_MAX_PATHS; path++)
		if (gone >> path & 1)
			leave(s, path, time_ns);
	free_if_unused(s);
	return 0;
}

/* Of a connection that is not held by this processor, while subflows of it are gone: a holder takes them out, or this does. */
RW_CALL int attend(struct shared *s RW_NEVER_NULL, __u64 time_ns)
{
	for (__u32 i = 0; i < ATTENTIONS; i++) {
		if (!*(volatile __u32 *)&s->leaving || !try_once(s))
			return 0;
		take_out_the_gone(s, time_ns);
		__sync_lock_test_and_set(&s->held, 0);
	}
	return 0;
}

struct hold_attempt {
	struct shared *s;
	int held;
};

static long try_to_hold(__u32 tries, struct hold_attempt *attempt)
{
	(void)tries;
	attempt->held = try_once(attempt->s);
	return attempt->held;
}

static __always_inline int hold(const struct tcp_sock *tp, struct shared *s)
{
	struct hold_attempt attempt = {s, try_once(s)};
	if (!attempt.held)
		bpf_loop(HOLD_TRIES, try_to_hold, &attempt, 0);
	if (!attempt.held) {
		COUNT(missed);
		return 0;
	}
	if (s->leaving)
		take_out_the_gone(s, now_ns(tp));
	return 1;
}

static __always_inline void let_go(const struct tcp_sock *tp, struct shared *s)
{
	__sync_lock_test_and_set(&s->held, 0);
	if (*(volatile __u32 *)&s->leaving)
		attend(s, now_ns(tp));
}

static __always_inline void kernel_has_ssthresh(struct rw_path *p, struct subflow *f, __u32 segments)
{
	f->ssthresh = segments;
	f->ssthresh_q16 = p->ssthresh_q16;
}

/* What the controller did, here or on another subflow's event. */
static __always_inline void push(struct tcp_sock *tp, struct rw_path *p, struct subflow *f)
{
	if (p->ssthresh_q16 != f->ssthresh_q16) {
		kernel_has_ssthresh(p, f, whole_segments(p->ssthresh_q16));
		tp->snd_ssthresh = f->ssthresh;
	}
	__u64 most_q16 = (__u64)tp->snd_cwnd_clamp << 16;
	p->cwnd_q16 = rw_max64(rw_min64(p->cwnd_q16, most_q16), RW_Q16_ONE);
	__u32 cwnd = whole_segments(p->cwnd_q16);
	if (cwnd != f->cwnd) {
		f->cwnd = cwnd;
		tp->snd_cwnd = cwnd;
	}
}

/* The connection of a socket, and its path in it; null: it has none. */
static __always_inline struct shared *connection_of(struct sock *sk, __u32 *path)
{
	struct seat *seat = seat_of(sk);
	__u32 place = seat->place_1 - 1, at = seat->path;
	BOUNDED(at);
	*path = at;
	return bpf_map_lookup_elem(&connections, &place);
}

/* A place for a connection that is new. Returns it held, or null where there is none or another subflow was faster. */
static __always_inline struct shared *new_connection(const struct tcp_sock *tp, __u64 key, __u32 mss_bytes,
						     __u32 *place)
{
	if (bpf_map_pop_elem(&unused, place))
		return 0;
	struct shared *s = bpf_map_lookup_elem(&connections, place);
	if (s && hold(tp, s)) {
		if (bpf_map_update_elem(&places, &key, place, BPF_NOEXIST) == 0) {
			s->key = key;
			s->place = *place;
			s->users = 0;
			s->undecided_1 = 0;
			clear(s->subflow, sizeof s->subflow);
			clear(&s->c, sizeof s->c);
			for (__u32 i = 0; i < RW_MAX_OPTIONS; i++)
				s->c.option[i] = settings.option[i];
#ifdef RW_DETECTOR
			clear(&s->detection, sizeof s->detection);
			for (__u32 i = 0; i < RW_MAX_OPTIONS; i++)
				s->detection.common.option[i] = settings.detector_option[i];
#endif
			s->c.mss_bytes = mss_bytes;
			s->c.paths = RW_MAX_PATHS;
			tell_open(&s->c);
			return s;
		}
		let_go(tp, s);
	}
	bpf_map_push_elem(&unused, place, BPF_ANY);
	return 0;
}

/* The one that the first subflow made, held. */
static __always_inline struct shared *known_connection(const struct tcp_sock *tp, __u64 key, __u32 *place)
{
	__u32 *at = bpf_map_lookup_elem(&places, &key);
	if (!at)
		return 0;
	*place = *at;
	struct shared *s = bpf_map_lookup_elem(&connections, place);
	if (!s || !hold(tp, s))
		return 0;
	if (s->key == key)
		return s;
	let_go(tp, s); /* its last subflow has left meanwhile */
	return 0;
}

static __always_inline __u32 free_path(const struct shared *s)
{
	for (__u32 i = 0; i < RW_MAX_PATHS; i++)
		if (!s->subflow[i].taken)
			return i;
	return RW_MAX_PATHS;
}

static __always_inline void join(struct tcp_sock *tp, struct shared *s, __u32 path)
{
	BOUNDED(path);
	struct rw_path *p = &s->c.path[path];
	struct subflow *f = &s->subflow[path];
	struct rw_ack first = {.path = path, .rtt_ns = (__u64)(tp->srtt_us >> 3) * NS_PER_US};
	clear(p, sizeof *p);
	clear(f, sizeof *f);
	f->taken = 1;
	f->port = ((struct sock *)tp)->__sk_common.skc_num;
	f->cwnd = tp->snd_cwnd;
	f->srtt_8us = tp->srtt_us;
	f->delivered = tp->delivered;
	p->cwnd_q16 = (__u64)f->cwnd << 16;
	p->ssthresh_q16 = ssthresh_q16(tp->snd_ssthresh);
	kernel_has_ssthresh(p, f, tp->snd_ssthresh);
	p->initial = p->ssthresh_q16 == RW_SSTHRESH_UNSET;
	p->live = 1;
	s->users++;
	tell_begin(&s->c, path);
	if (first.rtt_ns) {
		p->srtt_ns = first.rtt_ns;
		tell_rtt(&s->c, &first);
	}
	tell_join(&s->c, path);
	push(tp, p, f);
	stepped(now_ns(tp), s, RW_TRANSITION_JOIN, path);
#ifdef RW_DETECTOR
	detect(tp, s, path);
	detect_join(&s->detection, path, p->srtt_ns);
#endif
}

SEC("struct_ops")
void BPF_PROG(rw_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct seat *seat = seat_of(sk);
	unsigned long flags;
	__u64 key = key_of(sk);
	__u32 place = 0, path = RW_MAX_PATHS;
	__u32 mss_bytes = tp->mss_cache - (key == (__u64)sk ? 0 : MPTCP_DATA_OPTION_BYTES);
	seat->place_1 = 0;
	seat->rtt_us = 0;
	bpf_local_irq_save(&flags);
	struct shared *s = known_connection(tp, key, &place);
	if (!s)
		s = new_connection(tp, key, mss_bytes, &place);
	if (!s)
		s = known_connection(tp, key, &place);
	if (s) {
		settle(now_ns(tp), s);
		path = free_path(s);
		if (path < RW_MAX_PATHS)
			join(tp, s, path);
		free_if_unused(s);
		let_go(tp, s);
	}
	bpf_local_irq_restore(&flags);
	if (path < RW_MAX_PATHS) {
		seat->place_1 = place + 1;
		seat->path = path;
		COUNT(joined);
	} else {
		COUNT(refused);
	}
}

SEC("struct_ops")
void BPF_PROG(rw_release, struct sock *sk)
{
	unsigned long flags;
	__u32 path;
	struct shared *s = connection_of(sk, &path);
	if (!s)
		return;
	bpf_local_irq_save(&flags);
	__sync_fetch_and_or(&s->leaving, 1u << path);
	attend(s, now_ns(tcp_of(sk)));
	bpf_local_irq_restore(&flags);
	seat_of(sk)->place_1 = 0;
	COUNT(left);
}

/*
 * The sample that moved the smoothed round trip from `before` to `after` (RFC 6298: an eighth of their difference, exact in these
 * units); 0: none did. The kernel tells the newest segment's round trip only, and smooths the oldest one's.
 */
static __always_inline __u64 oldest_rtt_ns(__u32 before_8us, __u32 after_8us, __s32 newest_us)
{
	if (before_8us == 0)
		return (__u64)(after_8us >> 3) * NS_PER_US;
	if (before_8us == after_8us && newest_us <= 0)
		return 0;
	return (__u64)(after_8us - before_8us + (before_8us >> 3)) * NS_PER_US;
}

/*
 * An ACK, before recovery and growth: what it delivered, its round trip, and whether it reports a mark. newest_us: of the newest
 * segment; 0 or less: none.
 */
static __always_inline void arrived(struct sock *sk, __s32 newest_us, __u32 echo)
{
	struct tcp_sock *tp = tcp_of(sk);
	unsigned long flags;
	__u32 path;
	struct shared *s = connection_of(sk, &path);
	if (!s)
		return;
	bpf_local_irq_save(&flags);
	if (hold(tp, s)) {
		struct rw_path *p = &s->c.path[path];
		struct subflow *f = &s->subflow[path];
		struct rw_ack ack = {.path = path,
				     .acked_segments = tp->delivered - f->delivered,
				     .rtt_ns = oldest_rtt_ns(f->srtt_8us, tp->srtt_us, newest_us),
				     .rtt_newest_ns = newest_us > 0 ? (__u64)newest_us * NS_PER_US : 0,
				     .time_ns = (__s64)now_ns(tp),
				     .una = tp->snd_una,
				     .next = tp->snd_nxt};
		if (echo)
			ack.marked_segments = ack.acked_segments;
		f->delivered = tp->delivered;
		f->srtt_8us = tp->srtt_us;
		settle(now_ns(tp), s);
		pull(tp, s, path);
		detect(tp, s, path);
		if (ack.acked_segments && RW_CONTROL.delivered) {
			tell_delivered(&s->c, &ack);
			stepped_by(now_ns(tp), s, RW_TRANSITION_DELIVERED, &ack);
		}
		if (ack.rtt_ns | ack.rtt_newest_ns) {
			p->srtt_ns = (__u64)tp->srtt_us * NS_PER_US / 8;
			tell_rtt(&s->c, &ack);
			stepped_by(now_ns(tp), s, RW_TRANSITION_RTT, &ack);
		}
		push(tp, p, f);
		if (ack.marked_segments)
			congested(s, path, RW_CONGESTION_ECE);
		let_go(tp, s);
	}
	bpf_local_irq_restore(&flags);
}

#if RW_HAS_ECE
/* Linux 6.18 tells what an ACK delivered first, then whether it reports a mark, and then asks for a threshold. */
SEC("struct_ops")
void BPF_PROG(rw_pkts_acked, struct sock *sk, const struct ack_sample *sample) { seat_of(sk)->rtt_us = sample->rtt_us; }

SEC("struct_ops")
void BPF_PROG(rw_in_ack_event, struct sock *sk, __u32 flags)
{
	struct seat *seat = seat_of(sk);
	__s32 newest_us = seat->rtt_us;
	seat->rtt_us = 0;
	seat->echo = flags & CA_ACK_ECE;
	arrived(sk, newest_us, seat->echo);
}
#else
SEC("struct_ops")
void BPF_PROG(rw_pkts_acked, struct sock *sk, const struct ack_sample *sample) { arrived(sk, sample->rtt_us, 0); }
#endif

/* An ACK outside of recovery. Linux's gate: the window grows while it is the limit, in slow start up to twice what was in flight. */
SEC("struct_ops")
void BPF_PROG(rw_cong_avoid, struct sock *sk, __u32 una, __u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	unsigned long flags;
	__u32 path;
	struct shared *s = connection_of(sk, &path);
	__u8 limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
	__u32 cwnd = tp->snd_cwnd;
	if (!s) {
		tcp_reno_cong_avoid(sk, una, acked);
		return;
	}
	bpf_local_irq_save(&flags);
	if (hold(tp, s)) {
		struct rw_path *p = &s->c.path[path];
		struct subflow *f = &s->subflow[path];
		settle(now_ns(tp), s);
		pull(tp, s, path);
		if (limited || (cwnd < tp->snd_ssthresh && cwnd < 2 * tp->max_packets_out)) {
			struct rw_ack ack = {.path = path,
					     .acked_segments = acked,
					     .time_ns = (__s64)now_ns(tp),
					     .una = tp->snd_una,
					     .next = tp->snd_nxt};
			p->flight_max_q16 = rw_max64(p->flight_max_q16, p->cwnd_q16);
			tell_ack(&s->c, &ack);
			stepped_by(now_ns(tp), s, RW_TRANSITION_ACK, &ack);
		}
		push(tp, p, f);
		let_go(tp, s);
	}
	bpf_local_irq_restore(&flags);
}

static __always_inline void remember(struct shared *s, __u32 path)
{
	copy(s->lost_path, s->c.path, sizeof s->lost_path);
	copy(s->lost_word, s->c.word, sizeof s->lost_word);
}

SEC("struct_ops")
__u32 BPF_PROG(rw_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	unsigned long flags;
	__u32 path, reduced = 0;
	struct shared *s = connection_of(sk, &path);
	if (!s)
		return tcp_reno_ssthresh(sk);
	bpf_local_irq_save(&flags);
	if (hold(tp, s)) {
		struct rw_path *p = &s->c.path[path];
		struct subflow *f = &s->subflow[path];
		settle(now_ns(tp), s);
		pull(tp, s, path);
		detect(tp, s, path);
		f->prior_cwnd_q16 = p->cwnd_q16;
		f->prior_ssthresh_q16 = p->ssthresh_q16;
		p->cwnd_cnt = 0;
		if (p->flight_max_q16)
			p->flight_peak_q16 = rw_max64(p->flight_max_q16, p->cwnd_q16);
		p->flight_max_q16 = 0;
		if (RW_CONTROL.timeout)
			remember(s, path);
		s->marked = RW_HAS_ECE && seat_of(sk)->echo;
		if (s->marked)
			tell_ece(&s->c, path);
		else {
			congested(s, path, RW_CONGESTION_LOSS);
			tell_loss(&s->c, path);
		}
		s->undecided_1 = path + 1;
		COUNT(losses);
		reduced = whole_segments(p->ssthresh_q16);
		kernel_has_ssthresh(p, f, reduced);
		let_go(tp, s);
	}
	bpf_local_irq_restore(&flags);
	return reduced ? reduced : tcp_reno_ssthresh(sk);
}

/* What ssthresh() was asked for was a timeout. */
static __always_inline void time_out(struct tcp_sock *tp, struct shared *s, __u32 path)
{
	struct rw_path *p = &s->c.path[path];
	struct subflow *f = &s->subflow[path];
	int told_of_loss = s->undecided_1 == path + 1;
	COUNT(timeouts);
	f->timed_out = 1;
	if (told_of_loss)
		s->undecided_1 = 0;
	if (!RW_CONTROL.timeout || !told_of_loss)
		return; /* a timeout is a loss; or another subflow's event has come between, which cannot be taken back */
	copy(s->c.path, s->lost_path, sizeof s->lost_path);
	copy(s->c.word, s->lost_word, sizeof s->lost_word);
	tell_timeout(&s->c, path);
	kernel_has_ssthresh(p, f, whole_segments(p->ssthresh_q16));
	tp->snd_ssthresh = f->ssthresh;
}

SEC("struct_ops")
void BPF_PROG(rw_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_of(sk);
	unsigned long flags;
	__u32 path;
	if (event != CA_EVENT_TX_START && event != CA_EVENT_CWND_RESTART && event != CA_EVENT_COMPLETE_CWR &&
	    event != CA_EVENT_LOSS)
		return;
	struct shared *s = connection_of(sk, &path);
	if (!s)
		return;
	__u64 idle_ns = (__u64)((__u32)bpf_jiffies64() - tp->lsndtime) * settings.ns_per_tick;
	bpf_local_irq_save(&flags);
	if (hold(tp, s)) {
		struct rw_path *p = &s->c.path[path];
		struct subflow *f = &s->subflow[path];
		if (event == CA_EVENT_LOSS) {
			time_out(tp, s, path);
		} else if (event == CA_EVENT_CWND_RESTART) {
			settle(now_ns(tp), s);
			pull(tp, s, path);
			f->restarted = 1;
			/* The kernel halves whole segments, down to the initial window; a smaller window keeps its fraction. */
			if (f->cwnd > RW_INITIAL_WINDOW)
				p->cwnd_q16 = (__u64)f->cwnd << 16;
		} else if (event == CA_EVENT_TX_START) {
			settle(now_ns(tp), s);
			pull(tp, s, path);
			if (idle_ns)
				tell_idle(&s->c, path, (__s64)now_ns(tp), idle_ns);
			push(tp, p, f);
		} else {
			settle(now_ns(tp), s);
			pull(tp, s, path);
			if (f->cwnd == f->ssthresh) /* a reduction ends at ssthresh, with its fraction */
				p->cwnd_q16 = p->ssthresh_q16;
			stepped(now_ns(tp), s, RW_TRANSITION_MACHINERY, path);
		}
		let_go(tp, s);
	}
	bpf_local_irq_restore(&flags);
}

SEC("struct_ops")
void BPF_PROG(rw_set_state, struct sock *sk, __u8 state)
{
	struct tcp_sock *tp = tcp_of(sk);
	unsigned long flags;
	__u32 path;
	struct shared *s = connection_of(sk, &path);
	if (!s)
		return;
	bpf_local_irq_save(&flags);
	if (hold(tp, s)) {
		struct rw_path *p = &s->c.path[path];
		struct subflow *f = &s->subflow[path];
		__u8 recovering = state == TCP_CA_CWR || state == TCP_CA_Recovery;
		settle(now_ns(tp), s);
		if (recovering != p->recovering) {
			p->recovering = recovering;
			stepped(now_ns(tp), s, RW_TRANSITION_MACHINERY, path);
		}
		if (state == TCP_CA_Loss) { /* the kernel has set the window, to one segment more than is in flight */
			f->cwnd = tp->snd_cwnd;
			p->cwnd_q16 = (__u64)f->cwnd << 16;
			p->cwnd_rem_q40 = 0;
			p->cwnd_cnt = 0;
			stepped(now_ns(tp), s, f->timed_out ? RW_TRANSITION_TIMEOUT : RW_TRANSITION_MACHINERY, path);
			f->timed_out = 0;
		}
		let_go(tp, s);
	}
	bpf_local_irq_restore(&flags);
}

SEC("struct_ops")
__u32 BPF_PROG(rw_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	unsigned long flags;
	__u32 path, undone = 0;
	struct shared *s = connection_of(sk, &path);
	if (!s)
		return tcp_reno_undo_cwnd(sk);
	bpf_local_irq_save(&flags);
	if (hold(tp, s)) {
		struct rw_path *p = &s->c.path[path];
		struct subflow *f = &s->subflow[path];
		__u32 kept = tp->prior_ssthresh;
		settle(now_ns(tp), s);
		pull(tp, s, path);
		p->cwnd_q16 = rw_max64(p->cwnd_q16, f->prior_cwnd_q16);
		if (kept > f->ssthresh) { /* the kernel takes it back when this returns */
			p->ssthresh_q16 = rw_max64(f->prior_ssthresh_q16, ssthresh_q16(kept));
			kernel_has_ssthresh(p, f, kept);
		}
		tell_undo(&s->c, path);
		stepped(now_ns(tp), s, RW_TRANSITION_UNDO, path);
		COUNT(undone);
		undone = whole_segments(p->cwnd_q16);
		f->cwnd = undone;
		let_go(tp, s);
	}
	bpf_local_irq_restore(&flags);
	return undone ? undone : tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops rw_ops = {
    .init = (void *)rw_init,
    .release = (void *)rw_release,
#if RW_HAS_ECE
    .in_ack_event = (void *)rw_in_ack_event,
#endif
    .pkts_acked = (void *)rw_pkts_acked,
    .cong_avoid = (void *)rw_cong_avoid,
    .ssthresh = (void *)rw_ssthresh,
    .cwnd_event = (void *)rw_cwnd_event,
    .set_state = (void *)rw_set_state,
    .undo_cwnd = (void *)rw_undo_cwnd,
    .name = RW_KERNEL_NAME,
};
