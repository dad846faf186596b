/* overlap.h - how much of the communication was hidden behind the compute. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_OVERLAP_H
#define SHARED_OVERLAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tcdist/tcdist.h"

/* Three clocks of one rank.  `busy` runs while at least one watched collective is between its start
 * and its end; `blocked` while the program stands in tc_future_wait(); `exposed` while both are so.
 * What of `busy` was not `exposed` was hidden. */
struct overlap {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t idle;
    unsigned running; /* watched collectives now */
    bool is_blocked;
    uint64_t at_ns; /* the clocks are right up to here */
    uint64_t busy_ns;
    uint64_t blocked_ns;
    uint64_t exposed_ns;
};

void overlap_init(struct overlap *overlap);
void overlap_fini(struct overlap *overlap);

/* Around the call that starts a collective; overlap_watch() gives the future back. */
void overlap_start(struct overlap *overlap);
tc_future *overlap_watch(struct overlap *overlap, tc_future *future);

/* Around tc_future_wait(). */
void overlap_block(struct overlap *overlap, bool is_blocked);

/* Sets the clocks to 0; nothing may be running. */
void overlap_reset(struct overlap *overlap);

/* Waits until the last continuation of a watched collective has run; turns the context's loop
 * where nobody else does. */
void overlap_finish(struct overlap *overlap, tc_context *context, bool is_turned);

#endif
