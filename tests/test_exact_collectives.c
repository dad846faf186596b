/* test_exact_collectives.c - exact numerics over TCP: the same bits whatever carries them. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, also rdma, also shared */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/coll_case.h"

static const tc_dtype_t floats[] = {TC_DTYPE_F64,    TC_DTYPE_F32,    TC_DTYPE_F16, TC_DTYPE_BF16,
                                    TC_DTYPE_F8E4M3, TC_DTYPE_F8E5M2, TC_DTYPE_C64, TC_DTYPE_I16};

enum { FLOATS = sizeof(floats) / sizeof(floats[0]), AT_ONCE = 16 };

/* Cases under way on one world; coll_run is large. */
static struct coll_run runs[AT_ONCE];

/* Start each case on all ranks, in one order, so that some may be ordered; then compare. */
static void run_cases(struct world *world, const struct coll_case *cases, int count)
{
    for (int i = 0; i < count; i++) {
        coll_prepare(&runs[i], &cases[i], world->size);
        for (int rank = 0; rank < world->size; rank++)
            coll_start(&runs[i], world->group[rank], rank);
    }
    for (int i = 0; i < count; i++) {
        for (int rank = 0; rank < world->size; rank++) {
            char text[160];

            if (world_wait(world, runs[i].future[rank]) != TC_OK)
                fail_msg("%s: %s", coll_describe(&runs[i], text, sizeof(text)),
                         tc_future_error(runs[i].future[rank])->message);
        }
        coll_check(&runs[i]);
    }
}

/* All-reduce and reduce-scatter, SUM and AVG and an operator that is exact by itself, in place and
 * not, tagged and ordered. */
static void run_type(struct world *world, tc_dtype_t dtype, size_t count, const char *algorithm)
{
    struct coll_case cases[AT_ONCE];
    int n = 0;

    for (int k = 0; k < AT_ONCE; k++) {
        enum coll_kind kind = k & 1 ? COLL_REDUCE_SCATTER : COLL_ALLREDUCE;
        bool has_max = dtype != TC_DTYPE_C64;

        if (kind == COLL_REDUCE_SCATTER && algorithm != NULL && strcmp(algorithm, "oneshot") == 0)
            continue;
        cases[n] = (struct coll_case){
            .kind = kind,
            .count = count,
            .dtype = dtype,
            .op = k & 8 && has_max ? TC_REDUCE_MAX
                  : k & 4          ? TC_REDUCE_AVG
                                   : TC_REDUCE_SUM,
            .in_place = (k & 2) != 0,
            .numerics = TC_NUMERICS_EXACT,
            .algorithm = algorithm,
            .tag = k % 3 == 0 ? TC_TAG_ORDERED : (uint64_t)k,
            .seed = (unsigned)(count * 31 + (size_t)k + (size_t)dtype * 7),
        };
        n++;
    }
    run_cases(world, cases, n);
}

static void run_ranks(int size, int loop_mode)
{
    static const size_t counts[] = {0, 1, 3, 67, 4099};
    struct world world;
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = loop_mode;
    world_open(&world, size, &config);
    for (size_t t = 0; t < FLOATS; t++) {
        for (size_t c = 0; c < (size <= 4 ? 5 : 4); c++)
            run_type(&world, floats[t], counts[c], NULL);
    }
    world_close(&world);
}

static void results_are_the_reference_on_1_to_9_ranks(void **state)
{
    (void)state;
    for (int size = 1; size <= 9; size++) {
        if (test_effort() > 0 || size <= 3 || size == 9)
            run_ranks(size, TC_LOOP_THREAD);
    }
}

static void results_are_the_reference_on_a_loop_that_the_caller_turns(void **state)
{
    (void)state;
    run_ranks(4, TC_LOOP_MANUAL);
}

/* Several segments, so several lanes, and lengths that no lane divides. */
static void run_long(int size, size_t segment_bytes)
{
    static const char *const algorithms[] = {NULL, "oneshot", "direct"};
    struct world world;
    tc_config config;

    tc_config_default(&config);
    config.segment_bytes = segment_bytes;
    world_open(&world, size, &config);
    for (size_t a = 0; a < 3; a++) {
        run_type(&world, TC_DTYPE_F32, 20011, algorithms[a]);
        run_type(&world, TC_DTYPE_F64, 5003, algorithms[a]);
        run_type(&world, TC_DTYPE_BF16, 9999, algorithms[a]);
    }
    world_close(&world);
}

static void results_are_the_reference_in_several_lanes(void **state)
{
    (void)state;
    run_long(2, 5000);
    run_long(3, 4096);
    run_long(5, 30000);
}

/* ---- The numbering of ranks ------------------------------------------------------------------ */

/* Each element of `values` goes to another rank in each turn: the results are the same. */
static void the_numbering_of_the_ranks_does_not_matter(void **state)
{
    static const float values[5] = {1e8f, 1, -1e8f, 0x1p-60f, 0x1p-149f};
    struct world world;
    tc_options options;
    uint32_t first = 0;

    (void)state;
    tc_options_default(&options);
    options.numerics = TC_NUMERICS_EXACT;
    world_open(&world, 5, NULL);
    for (int turn = 0; turn < 20; turn++) {
        tc_future *futures[5];
        float data[5];

        for (int rank = 0; rank < 5; rank++) {
            data[rank] = values[turn < 10 ? (rank + turn) % 5 : (5 + turn - rank) % 5];
            futures[rank] = tc_allreduce_async(world.group[rank], 1, &data[rank], &data[rank], 1,
                                               TC_DTYPE_F32, TC_REDUCE_SUM, &options);
        }
        for (int rank = 0; rank < 5; rank++) {
            uint32_t bits;

            assert_int_equal(world_wait(&world, futures[rank]), TC_OK);
            memcpy(&bits, &data[rank], sizeof(bits));
            first = turn == 0 && rank == 0 ? bits : first;
            assert_int_equal(bits, first);
            tc_future_release(futures[rank]);
        }
    }
    assert_int_equal(first, 0x3f800000); /* 1 and 2^-60, rounded */
    world_close(&world);
}

/* ---- Settings -------------------------------------------------------------------------------- */

static void a_default_for_the_group_counts_where_it_can(void **state)
{
    struct world world;
    tc_config config;

    (void)state;
    tc_config_default(&config);
    config.numerics = TC_NUMERICS_EXACT;
    config.algorithm = "ring"; /* which exact numerics pass over */
    world_open(&world, 4, &config);
    for (size_t t = 0; t < FLOATS; t++) {
        struct coll_case what = {.kind = COLL_ALLREDUCE,
                                 .count = 100,
                                 .dtype = floats[t],
                                 .numerics = TC_NUMERICS_EXACT};

        coll_prepare(&runs[0], &what, 4);
        runs[0].what.numerics = TC_NUMERICS_DEFAULT;
        for (int rank = 0; rank < 4; rank++)
            coll_start(&runs[0], world.group[rank], rank);
        for (int rank = 0; rank < 4; rank++)
            assert_int_equal(world_wait(&world, runs[0].future[rank]), TC_OK);
        runs[0].what.numerics = TC_NUMERICS_EXACT;
        coll_check(&runs[0]);
    }
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_the_reference_on_1_to_9_ranks),
        cmocka_unit_test(results_are_the_reference_on_a_loop_that_the_caller_turns),
        cmocka_unit_test(results_are_the_reference_in_several_lanes),
        cmocka_unit_test(the_numbering_of_the_ranks_does_not_matter),
        cmocka_unit_test(a_default_for_the_group_counts_where_it_can),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
