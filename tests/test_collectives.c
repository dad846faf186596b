/* test_collectives.c - every collective over TCP against a plain loop, in all its variety. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, also tcp, also shared, long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/coll_case.h"

/* Cases of a batch run at once, each under its own tag. */
enum { BATCH = 64 };

static const tc_dtype_t dtypes[] = {TC_DTYPE_F16,    TC_DTYPE_BF16,   TC_DTYPE_F32,  TC_DTYPE_I8,
                                    TC_DTYPE_I32,    TC_DTYPE_F64,    TC_DTYPE_U8,   TC_DTYPE_I16,
                                    TC_DTYPE_U16,    TC_DTYPE_U32,    TC_DTYPE_I64,  TC_DTYPE_U64,
                                    TC_DTYPE_F8E4M3, TC_DTYPE_F8E5M2, TC_DTYPE_BOOL, TC_DTYPE_C64};

struct batch {
    struct world *world;
    struct coll_run runs[BATCH];
    int count;
    uint64_t total;
};

/* Ranks start the batch in different orders: tags tell the cases apart. */
static void flush(struct batch *batch)
{
    struct world *world = batch->world;

    for (int r = 0; r < world->size; r++)
        for (int i = 0; i < batch->count; i++) {
            int at = (i + r * 7) % batch->count;
            coll_start(&batch->runs[r % 2 == 0 ? at : batch->count - 1 - at], world->group[r], r);
        }
    for (int i = 0; i < batch->count; i++) {
        for (int r = 0; r < world->size; r++) {
            char text[160];
            if (world_wait(world, batch->runs[i].future[r]) != TC_OK)
                fail_msg("%s: %s", coll_describe(&batch->runs[i], text, sizeof(text)),
                         tc_future_error(batch->runs[i].future[r])->message);
        }
        coll_check(&batch->runs[i]);
    }
    batch->total += (uint64_t)batch->count;
    batch->count = 0;
}

static void add(struct batch *batch, struct coll_case what)
{
    what.tag = (uint64_t)batch->count * UINT64_C(0x9e3779b97f4a7c15);
    what.seed = (unsigned)(batch->total * BATCH + (uint64_t)batch->count);
    coll_prepare(&batch->runs[batch->count++], &what, batch->world->size);
    if (batch->count == BATCH)
        flush(batch);
}

/* All kinds, in place and not, for one type, operator, count and way of rounding.  Those that only
 * move bytes need no operator, so one is enough. */
static void add_kinds(struct batch *batch, struct coll_case what)
{
    for (int kind = 0; kind < COLL_KINDS; kind++) {
        if (!coll_folds(kind) && (what.op != TC_REDUCE_SUM || what.numerics == TC_NUMERICS_FAST))
            continue;
        what.kind = kind;
        what.root = (int)((what.count + (size_t)kind) % (size_t)batch->world->size);
        for (int in_place = kind == COLL_BROADCAST; in_place < 2; in_place++) {
            what.in_place = in_place;
            if (!in_place || coll_can_be_in_place(kind))
                add(batch, what);
        }
    }
}

static void run_types(struct world *world, const size_t *counts, size_t n_counts)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    unsigned pick = 0;

    assert_non_null(batch);
    batch->world = world;
    for (size_t t = 0; t < sizeof(dtypes) / sizeof(dtypes[0]); t++)
        for (int op = TC_REDUCE_SUM; op <= TC_REDUCE_BXOR; op++) {
            if (tc_reduce_supported(dtypes[t], (tc_reduce_op_t)op) != TC_OK)
                continue;
            for (size_t c = 0; c < n_counts; c++)
                for (int fast = 0; fast < 2; fast++) {
                    struct coll_case what = {.count = counts[c],
                                             .dtype = dtypes[t],
                                             .op = (tc_reduce_op_t)op,
                                             .numerics =
                                                 fast ? TC_NUMERICS_FAST : TC_NUMERICS_CANONICAL};
                    /* The quick run takes every seventh, another one each time. */
                    if (test_effort() == 0 && pick++ % 7 != 0)
                        continue;
                    add_kinds(batch, what);
                }
        }
    if (batch->count > 0)
        flush(batch);
    print_message("%llu collectives of %d ranks\n", (unsigned long long)batch->total, world->size);
    free(batch);
}

static void ranks(int size, int mode)
{
    size_t n = (size_t)size;
    const size_t counts[] = {0, 1, 2, 3, n - 1, n + 1, 257, 4099};
    struct world world;
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = mode;
    world_open(&world, size, &config);
    run_types(&world, counts, sizeof(counts) / sizeof(counts[0]));
    world_close(&world);
}

#define RANKS(n)                                                                                   \
    static void every_type_and_operator_on_##n##_ranks(void **state)                               \
    {                                                                                              \
        (void)state;                                                                               \
        ranks(n, TC_LOOP_THREAD);                                                                  \
    }
RANKS(1)
RANKS(2)
RANKS(3)
RANKS(4)
RANKS(5)
RANKS(6)
RANKS(7)
RANKS(8)
RANKS(9)

static void a_loop_that_the_caller_turns_gives_the_same(void **state)
{
    (void)state;
    ranks(3, TC_LOOP_MANUAL);
}

/* Sizes above the eager limit, several lanes, odd lengths; each algorithm by name. */
static void long_payloads(int size, size_t segment_bytes, const char *hosts)
{
    static const struct {
        enum coll_kind kind;
        const char *name;
        bool fast;
    } ways[] = {{COLL_ALLREDUCE, "oneshot", false},
                {COLL_ALLREDUCE, "direct", false},
                {COLL_ALLREDUCE, "ring", true},
                {COLL_ALLREDUCE, "tree", true},
                {COLL_REDUCE_SCATTER, "direct", false},
                {COLL_REDUCE_SCATTER, "ring", true},
                {COLL_ALLGATHER, "direct", false},
                {COLL_ALLGATHER, "ring", false},
                {COLL_BROADCAST, "oneshot", false},
                {COLL_BROADCAST, "tree", false},
                {COLL_BROADCAST, "direct", false},
                {COLL_REDUCE, "oneshot", false},
                {COLL_REDUCE, "direct", false},
                {COLL_GATHER, "direct", false},
                {COLL_SCATTER, "direct", false},
                {COLL_ALLTOALL, "direct", false},
                {COLL_ALLGATHERV, "direct", false},
                {COLL_ALLGATHERV, "ring", false},
                {COLL_REDUCE_SCATTERV, "ring", true},
                {COLL_REDUCE_SCATTERV, "direct", false},
                {COLL_ALLTOALLV, "direct", false},
                {COLL_REDUCE, "tree", true},
                {COLL_GATHER, "tree", false},
                {COLL_SCATTER, "tree", false},
                {COLL_ALLREDUCE, "centralized", false},
                {COLL_ALLREDUCE, "two_level", true},
                {COLL_BROADCAST, "two_level", false},
                {COLL_REDUCE, "two_level", true},
                {COLL_ALLGATHER, "bruck", false},
                {COLL_ALLGATHERV, "dissemination", false},
                {COLL_REDUCE_SCATTER, "pairwise", true},
                {COLL_REDUCE_SCATTERV, "pairwise", true},
                {COLL_ALLTOALL, "bruck", false},
                {COLL_ALLTOALL, "pairwise", false},
                {COLL_ALLTOALLV, "pairwise", false},
                {COLL_ALLREDUCE, "wide_chain", false},
                {COLL_REDUCE, "wide_chain", false}};
    static const size_t counts[] = {16384, 65537, 1000003};
    static const tc_dtype_t types[] = {TC_DTYPE_F32, TC_DTYPE_BF16, TC_DTYPE_U8};
    struct batch *batch = calloc(1, sizeof(*batch));
    struct world world;
    tc_config config;

    assert_non_null(batch);
    tc_config_default(&config);
    config.segment_bytes = segment_bytes;
    config.hosts = hosts;
    world_open(&world, size, &config);
    batch->world = &world;
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (size_t c = 0; c < (test_effort() == 0 ? 2u : 3u); c++)
            for (int k = 0; k < 4; k++) {
                struct coll_case what = {.kind = ways[w].kind,
                                         .count = counts[c],
                                         .dtype = types[k % 3],
                                         .op = k == 3 ? TC_REDUCE_MAX : TC_REDUCE_SUM,
                                         .root = size - 1,
                                         .in_place = ways[w].kind == COLL_BROADCAST ||
                                                     (k & 1 && coll_can_be_in_place(ways[w].kind)),
                                         .numerics = ways[w].fast ? TC_NUMERICS_FAST
                                                                  : TC_NUMERICS_CANONICAL,
                                         .algorithm = ways[w].name};
                add(batch, what);
                if (batch->count == 12)
                    flush(batch);
            }
    if (batch->count > 0)
        flush(batch);
    world_close(&world);
    free(batch);
}

static void long_payloads_on_2_ranks(void **state)
{
    (void)state;
    long_payloads(2, 0, NULL);
}

static void long_payloads_on_3_ranks_in_small_segments(void **state)
{
    (void)state;
    long_payloads(3, 4096, "1,2");
}

static void long_payloads_on_5_ranks(void **state)
{
    (void)state;
    long_payloads(5, 100000, "=0,1,0,2,1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operator_on_1_ranks),
        cmocka_unit_test(every_type_and_operator_on_2_ranks),
        cmocka_unit_test(every_type_and_operator_on_3_ranks),
        cmocka_unit_test(every_type_and_operator_on_4_ranks),
        cmocka_unit_test(every_type_and_operator_on_5_ranks),
        cmocka_unit_test(every_type_and_operator_on_6_ranks),
        cmocka_unit_test(every_type_and_operator_on_7_ranks),
        cmocka_unit_test(every_type_and_operator_on_8_ranks),
        cmocka_unit_test(every_type_and_operator_on_9_ranks),
        cmocka_unit_test(a_loop_that_the_caller_turns_gives_the_same),
        cmocka_unit_test(long_payloads_on_2_ranks),
        cmocka_unit_test(long_payloads_on_3_ranks_in_small_segments),
        cmocka_unit_test(long_payloads_on_5_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
