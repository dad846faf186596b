/* row_world.h - ranks as threads, linked by socket pairs that the test makes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ROW_WORLD_H
#define TEST_ROW_WORLD_H

#include <pthread.h>

#include "tcdist/tcdist.h"

enum { ROW_RANKS_MAX = 8, ROW_URL_BYTES = 128 };

enum row_form { ROW_RING, ROW_FULL };

struct row_rank {
    int rank, size;
    char url[ROW_URL_BYTES];
    int numerics; /* of the context */
    int timeout_ms;
    const char *key; /* of the context; NULL: none */
    int encryption;
    void (*body)(struct row_rank *self); /* in the rank's own thread: no assert_* */
    void *arg;
    pthread_t thread;
    tc_context *context;
    tc_dist_ctx *group;
    tc_status_t status; /* of the first call that failed: joining, or finalizing */
    int culprit;
    char why[400];
    bool is_right;
};

/* URLs of `size` ranks over new socket pairs. */
void row_world_link(struct row_rank *ranks, int size, enum row_form form);
/* Called by row_world_run when all contexts are there, before the ranks join; NULL: nothing. */
extern void (*row_world_before)(void);
/* Each rank joins, runs its body, finalizes; returns when all have ended. */
void row_world_run(struct row_rank *ranks, int size);
/* The same, and fails the test unless all find everything right. */
void row_world_run_well(struct row_rank *ranks, int size);

void row_world_want(struct row_rank *self, bool holds, int line);
#define WANT(what) row_world_want(self, what, __LINE__)

#endif
