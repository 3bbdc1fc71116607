/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What Linux's BBR takes a path to be, at each ACK without data, before the
 * kernel processes it: the same moment as a row of the trace point tcp_probe.
 *
 * struct bbr is what Linux keeps in icsk_ca_priv of a socket. Its fields stand
 * here by name and type only. The loader finds their places in the running
 * kernel's type information (CO-RE), and refuses the program where a field is
 * not there.
 */
#include "linux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL v2";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr___probed {
	__u8 in6_u[16];
};

struct sock_common___probed {
	__be32 skc_daddr, skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	__u16 skc_family;
	struct in6_addr___probed skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock___probed {
	struct sock_common___probed __sk_common;
	unsigned long sk_pacing_rate; /* bytes a second */
};

struct tcp_congestion_ops___probed {
	char name[16];
};

struct inet_connection_sock___probed {
	const struct tcp_congestion_ops___probed *icsk_ca_ops;
	__u64 icsk_ca_priv[13];
	__u8 icsk_ca_state : 5;
};

struct tcp_sock___probed {
	struct inet_connection_sock___probed inet_conn;
	__u32 snd_una, snd_nxt, snd_cwnd;
	__u32 delivered, lost, app_limited;
	__u32 rate_delivered, rate_interval_us;
	__u32 packets_out, sacked_out, lost_out, retrans_out;
};

struct sk_buff___probed {
	__u32 len;
	unsigned char *data;
};

struct minmax_sample {
	__u32 t, v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct bbr {
	__u32 min_rtt_us;
	struct minmax bw;
	__u32 rtt_cnt;
	__u32 mode : 3;
	__u32 packet_conservation : 1;
	__u32 idle_restart : 1;
	__u32 lt_is_sampling : 1;
	__u32 lt_rtt_cnt : 7;
	__u32 lt_use_bw : 1;
	__u32 lt_bw;
	__u32 pacing_gain : 10;
	__u32 cwnd_gain : 10;
	__u32 full_bw_reached : 1;
	__u32 cycle_idx : 3;
	__u32 prior_cwnd;
	__u16 extra_acked[2];
};

#pragma clang attribute pop

enum { AF_INET6 = 10, TCP_OFFSET = 12 };

/* lab/bbr_states.py reads it. */
struct state {
	__u64 time_ns; /* monotonic */
	__u64 pacing_bytes_s;
	__u8 source[16], destination[16]; /* an IPv4 address has the first four bytes */
	__u32 una, next, cwnd, delivered, lost, app_limited, sampled_segments, sampled_us, in_flight;
	__u32 bw_q24[3];
	__u32 policed_bw_q24, rounds, min_rtt_us, pacing_gain, cwnd_gain, prior_cwnd;
	__u16 extra_acked[2];
	__u16 source_port, destination_port;
	__u8 is_ipv6, mode, phase, repair, full, conserves, idle_restart, policed, policed_sampling, policed_rounds;
	__u8 unused[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} states SEC(".maps");

/* States that found no room. */
__u64 lost SEC(".data.lost");

static __always_inline int is_bbr(const struct inet_connection_sock___probed *of)
{
	char name[16] = {0};
	BPF_CORE_READ_STR_INTO(&name, of, icsk_ca_ops, name);
	return name[0] == 'b' && name[1] == 'b' && name[2] == 'r' && !name[3];
}

static __always_inline int carries_data(const struct sk_buff___probed *packet)
{
	__u8 offset = 0;
	bpf_probe_read_kernel(&offset, sizeof offset, BPF_CORE_READ(packet, data) + TCP_OFFSET);
	return BPF_CORE_READ(packet, len) != (__u32)(offset >> 4) * 4;
}

static __always_inline void describe_ends(struct state *s, const struct sock_common___probed *of)
{
	s->is_ipv6 = BPF_CORE_READ(of, skc_family) == AF_INET6;
	s->source_port = BPF_CORE_READ(of, skc_num);
	s->destination_port = bpf_ntohs(BPF_CORE_READ(of, skc_dport));
	if (s->is_ipv6) {
		bpf_core_read(s->source, sizeof s->source, &of->skc_v6_rcv_saddr);
		bpf_core_read(s->destination, sizeof s->destination, &of->skc_v6_daddr);
	} else {
		bpf_core_read(s->source, 4, &of->skc_rcv_saddr);
		bpf_core_read(s->destination, 4, &of->skc_daddr);
	}
}

static __always_inline void describe_sender(struct state *s, const struct tcp_sock___probed *tp)
{
	s->una = BPF_CORE_READ(tp, snd_una);
	s->next = BPF_CORE_READ(tp, snd_nxt);
	s->cwnd = BPF_CORE_READ(tp, snd_cwnd);
	s->delivered = BPF_CORE_READ(tp, delivered);
	s->lost = BPF_CORE_READ(tp, lost);
	s->app_limited = BPF_CORE_READ(tp, app_limited);
	s->sampled_segments = BPF_CORE_READ(tp, rate_delivered);
	s->sampled_us = BPF_CORE_READ(tp, rate_interval_us);
	s->in_flight = BPF_CORE_READ(tp, packets_out) - BPF_CORE_READ(tp, sacked_out) - BPF_CORE_READ(tp, lost_out) +
		       BPF_CORE_READ(tp, retrans_out);
}

static __always_inline void describe_bbr(struct state *s, const struct bbr *b)
{
	for (int i = 0; i < 3; i++)
		s->bw_q24[i] = BPF_CORE_READ(b, bw.s[i].v);
	s->policed_bw_q24 = BPF_CORE_READ(b, lt_bw);
	s->rounds = BPF_CORE_READ(b, rtt_cnt);
	s->min_rtt_us = BPF_CORE_READ(b, min_rtt_us);
	s->prior_cwnd = BPF_CORE_READ(b, prior_cwnd);
	s->extra_acked[0] = BPF_CORE_READ(b, extra_acked[0]);
	s->extra_acked[1] = BPF_CORE_READ(b, extra_acked[1]);
	s->pacing_gain = BPF_CORE_READ_BITFIELD_PROBED(b, pacing_gain);
	s->cwnd_gain = BPF_CORE_READ_BITFIELD_PROBED(b, cwnd_gain);
	s->mode = BPF_CORE_READ_BITFIELD_PROBED(b, mode);
	s->phase = BPF_CORE_READ_BITFIELD_PROBED(b, cycle_idx);
	s->full = BPF_CORE_READ_BITFIELD_PROBED(b, full_bw_reached);
	s->conserves = BPF_CORE_READ_BITFIELD_PROBED(b, packet_conservation);
	s->idle_restart = BPF_CORE_READ_BITFIELD_PROBED(b, idle_restart);
	s->policed = BPF_CORE_READ_BITFIELD_PROBED(b, lt_use_bw);
	s->policed_sampling = BPF_CORE_READ_BITFIELD_PROBED(b, lt_is_sampling);
	s->policed_rounds = BPF_CORE_READ_BITFIELD_PROBED(b, lt_rtt_cnt);
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(see_ack, const struct sock___probed *sk, const struct sk_buff___probed *packet)
{
	const struct tcp_sock___probed *tp = (const void *)sk;
	if (!is_bbr(&tp->inet_conn) || carries_data(packet))
		return 0;
	struct state *s = bpf_ringbuf_reserve(&states, sizeof *s, 0);
	if (!s) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	__builtin_memset(s, 0, sizeof *s);
	s->time_ns = bpf_ktime_get_ns();
	s->pacing_bytes_s = BPF_CORE_READ(sk, sk_pacing_rate);
	s->repair = BPF_CORE_READ_BITFIELD_PROBED(&tp->inet_conn, icsk_ca_state);
	describe_ends(s, &sk->__sk_common);
	describe_sender(s, tp);
	describe_bbr(s, (const void *)&tp->inet_conn.icsk_ca_priv);
	bpf_ringbuf_submit(s, 0);
	return 0;
}
