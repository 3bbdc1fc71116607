/* The switch of the builds for tests. */
#include "rw_ways.h"

#ifdef REWINDOW_BOTH_WAYS
int rw_long_way;
#endif
