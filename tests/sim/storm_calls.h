/* storm_calls.h - calls of every kind, made from a seed, whose results a plain loop knows. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_STORM_CALLS_H
#define TEST_STORM_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/tcdist.h"

enum { STORM_RANKS_MAX = 9, STORM_COUNT_MAX = 3000 };

enum storm_kind {
    STORM_BARRIER,
    STORM_ALLREDUCE,
    STORM_BROADCAST,
    STORM_ALLGATHER,
    STORM_REDUCE_SCATTER,
    STORM_ALLTOALL,
    STORM_REDUCE,
    STORM_GATHER,
    STORM_SCATTER,
    STORM_SHIFT, /* each sends to the next rank, and receives from the one before */
    STORM_KINDS
};

/* The same on every rank; elements are u64, sums of them do not depend on order. */
struct storm_call {
    enum storm_kind kind;
    uint64_t tag;
    size_t count; /* a rank, where each has a block */
    int root, size;
    const char *algorithm; /* NULL: the cheapest */
    int numerics;
    int8_t priority;
};

/* From a state of sim_random(). */
void storm_call_draw(struct storm_call *call, int size, uint64_t tag, uint64_t *random);

/* One rank's part in a call: its memory, and up to two futures (NULL: none). */
struct storm_part {
    const struct storm_call *call;
    int rank;
    uint64_t *send, *recv; /* owned */
    tc_future *futures[2];
};
void storm_part_init(struct storm_part *part, const struct storm_call *call, int rank);
void storm_part_start(struct storm_part *part, tc_dist_ctx *group);
/* Whether what it has received is right; asked when its futures say so. */
bool storm_part_is_right(const struct storm_part *part);
void storm_part_fini(struct storm_part *part);

const char *storm_kind_name(enum storm_kind kind);

#endif
