/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Short ways and the long way.
 *
 * A short way does for most inputs, in less time, exactly what the long way beside it does for every input. In a build
 * for tests (CMake option REWINDOW_BOTH_WAYS, which sanitizers and fuzzers imply) a test sets rw_long_way to 1 and no short way is taken until it sets the
 * variable to 0 again: the same input is run in both ways and must give the same result. In a release the switch does not
 * exist. It is written only while no replay runs.
 */
#ifndef RW_WAYS_H
#define RW_WAYS_H

#ifdef REWINDOW_BOTH_WAYS
extern int rw_long_way;
#define RW_SHORT_WAY(condition) (!rw_long_way && (condition))
#else
#define RW_SHORT_WAY(condition) (condition)
#endif

#endif
