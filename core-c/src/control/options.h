/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Options that several controllers have, in the places they have in all of them: `mode` first, then the floor. */
#ifndef RW_OPTIONS_H
#define RW_OPTIONS_H

#include "rw_control.h"

enum { MODE, MIN_SSTHRESH, COMMON_OPTIONS };

/* For real senders' algorithms that keep fractions of a segment. */
#define RW_OPTION_MODE_SENDER                                                                                          \
	{"mode",                                                                                                       \
	 "kernel|paper",                                                                                               \
	 RW_MODE_KERNEL,                                                                                               \
	 "kernel: PRR and Linux's own growth gate; paper: ssthresh is reached at once, growth "                        \
	 "while the recorded sender was not limited by application or receiver",                                       \
	 RW_OPTION_CHOICE,                                                                                             \
	 0,                                                                                                            \
	 0}

/* For those whose window Linux keeps in whole segments, grown as Reno's. */
#define RW_OPTION_MODE_INTEGER                                                                                         \
	{"mode",                                                                                                       \
	 "kernel|paper",                                                                                               \
	 RW_MODE_KERNEL,                                                                                               \
	 "kernel follows Linux's integer window, paper the fractional formula",                                        \
	 RW_OPTION_CHOICE,                                                                                             \
	 0,                                                                                                            \
	 0}

#define RW_OPTION_MODE_PAPER                                                                                           \
	{"mode",                                                                                                       \
	 "kernel|paper",                                                                                               \
	 RW_MODE_PAPER,                                                                                                \
	 "paper: ssthresh is reached at once, growth while the recorded sender was not "                               \
	 "limited by application or receiver; kernel: PRR and Linux's own growth gate",                                \
	 RW_OPTION_CHOICE,                                                                                             \
	 0,                                                                                                            \
	 0}

/* For those whose kernel module differs in its arithmetic, too. */
#define RW_OPTION_MODE_MODULE                                                                                          \
	{"mode",                                                                                                       \
	 "kernel|paper",                                                                                               \
	 RW_MODE_PAPER,                                                                                                \
	 "paper: the formula, and ssthresh is reached at once; kernel: the integers of "                               \
	 "the Linux MPTCP module (one step for each ACK, whole segments), PRR and Linux's own growth gate",            \
	 RW_OPTION_CHOICE,                                                                                             \
	 0,                                                                                                            \
	 0}

#define RW_OPTION_FLOOR(segments, why)                                                                                 \
	{"min_ssthresh", "1 to 1024 segments", (segments) << 16, why, RW_OPTION_Q16, 1 << 16, 1024 << 16}
#define RW_OPTION_FLOOR_LINUX RW_OPTION_FLOOR(2, "RFC 5681 and Linux floor; 1 is used by some simulators")

/* Of the baselines that the papers compare with, the last in their tables. */
#define RW_OPTION_SSTHRESH                                                                                             \
	{"ssthresh",                                                                                                   \
	 "none|static",                                                                                                \
	 0,                                                                                                            \
	 "what a subflow begins with: no threshold, as Linux; static: 65535 bytes, as the papers' simulations",        \
	 RW_OPTION_CHOICE,                                                                                             \
	 0,                                                                                                            \
	 0}

#endif
