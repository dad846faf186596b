/* traced_ranks.h - ranks that are processes and leave traces in a folder of the test's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_TRACED_RANKS_H
#define TEST_TRACED_RANKS_H

#include <sys/types.h>

#include "tcdist/tcdist.h"

enum { TRACED_MAX = 4 };

struct traced_rank {
    int rank, size;
    tc_context *context;
    tc_dist_ctx *group;
    int out; /* reports */
};

/* What a rank does, in its process; what waits is left waiting when it returns with `stays`. */
typedef void traced_body(struct traced_rank *self);

struct traced_ranks {
    int size;
    char dir[64];
    pid_t pids[TRACED_MAX];
    int reports[TRACED_MAX];      /* read ends */
    const char *urls[TRACED_MAX]; /* of each rank, or NULL: over loopback */
};

/* A new folder; before traced_start. */
void traced_init(struct traced_ranks *ranks, int size);
/* Each rank forms the group and does what the body says; then it says so, and, with `stays`, waits
 * to be killed; else it leaves the group and ends.  traced_await returns when all have said so, and
 * without `stays` when all have ended well. */
void traced_start(struct traced_ranks *ranks, traced_body *body, bool stays);
void traced_await(struct traced_ranks *ranks, bool stays);
/* All that are left are killed, the folder is removed. */
void traced_fini(struct traced_ranks *ranks);

/* In a rank: wait for it; anything but TC_OK ends the rank, and with it the test. */
void traced_wait(struct traced_rank *self, tc_future *future);
/* In a rank: until its loop has taken up so many operations. */
void traced_entered(struct traced_rank *self, uint64_t operations);

/* The path of a rank's trace into path. */
void traced_path(const struct traced_ranks *ranks, int rank, char path[128]);

#endif
