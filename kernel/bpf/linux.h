/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The fields of Linux's structures that the glue uses. Their places are those of the kernel that loads the program (CO-RE): only
 * names and types stand here.
 */
#ifndef RW_KERNEL_LINUX_H
#define RW_KERNEL_LINUX_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum bpf_map_type { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_QUEUE = 22, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	__u16 skc_num; /* the local port */
};

struct sock {
	struct sock_common __sk_common;
};

struct inet_connection_sock {
	void *icsk_ulp_data;
	__u64 icsk_ca_priv[13];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 tcp_mstamp; /* microseconds */
	__u32 snd_cwnd, snd_ssthresh, snd_cwnd_clamp;
	__u32 prior_ssthresh;
	__u32 srtt_us; /* eight times the smoothed round trip */
	__u32 delivered;
	__u32 snd_una, snd_nxt;
	__u32 mss_cache;
	__u32 max_packets_out;
	__u32 lsndtime; /* ticks of the kernel's clock */
	__u8 is_cwnd_limited : 1; /* the window ended the last flight */
	_Bool is_mptcp;
};

struct mptcp_subflow_context {
	struct sock *conn;
};

struct mptcp_sock {
	__u32 token;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us; /* of the newest segment; -1: none */
	__u32 in_flight;
};

enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };

enum tcp_ca_event { CA_EVENT_TX_START, CA_EVENT_CWND_RESTART, CA_EVENT_COMPLETE_CWR, CA_EVENT_LOSS };

enum tcp_ca_ack_event_flags { CA_ACK_ECE = 4 };

/* A tcp_congestion_ops of which the other members are not set. */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[16];
};

#pragma clang attribute pop

#endif
