/* coll_case.h - one collective on rank-distinct data, and what it must give: a plain loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_COLL_CASE_H
#define TEST_COLL_CASE_H

#include "support/world.h"

enum coll_kind {
    COLL_ALLREDUCE,
    COLL_REDUCE_SCATTER,
    COLL_BROADCAST,
    COLL_ALLGATHER,
    COLL_REDUCE,
    COLL_GATHER,
    COLL_SCATTER,
    COLL_ALLTOALL,
    COLL_ALLGATHERV,
    COLL_REDUCE_SCATTERV,
    COLL_ALLTOALLV,
    COLL_KINDS
};

/* What is called, the same on every rank. */
struct coll_case {
    enum coll_kind kind;
    size_t count; /* the v-forms make their counts from it */
    tc_dtype_t dtype;
    tc_reduce_op_t op;
    int root;
    bool in_place;
    int numerics;          /* tc_numerics_t; with FAST the data is such that order is free */
    const char *algorithm; /* NULL: the library chooses */
    uint64_t tag;
    unsigned seed;
};

/* A case under way. */
struct coll_run {
    struct coll_case what;
    int size;
    size_t send_bytes[WORLD_MAX], recv_bytes[WORLD_MAX];
    size_t unit;                                      /* bytes of `count` elements */
    unsigned char *input[WORLD_MAX];                  /* what each rank gave, kept for the check */
    unsigned char *send[WORLD_MAX], *recv[WORLD_MAX]; /* guarded on both sides */
    tc_future *future[WORLD_MAX];
};

/* Make the data of all ranks. */
void coll_prepare(struct coll_run *run, const struct coll_case *what, int size);
/* Call it on one rank. */
void coll_start(struct coll_run *run, tc_dist_ctx *group, int rank);
/* All have settled well: compare, free.  Fails the test with the case in words. */
void coll_check(struct coll_run *run);
/* Free without comparing; all have settled. */
void coll_drop(struct coll_run *run);
/* Whether the kind folds; may be asked for in place; has a root. */
bool coll_folds(enum coll_kind kind);
bool coll_can_be_in_place(enum coll_kind kind);
/* "allreduce of 5 f32, sum, in place, canonical, 3 ranks" */
const char *coll_describe(const struct coll_run *run, char *text, size_t text_bytes);

#endif
