/* test_tune.c - a group measures itself, and all ranks choose alike before and after. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/refine.h"
#include "support/world.h"

static const char *const names[] = {"allreduce", "broadcast", "allgather", "reduce_scatter",
                                    "reduce",    "alltoall",  "barrier"};

/* Every rank would carry everything out in the same way. */
static void check_alike(struct world *world)
{
    for (size_t n = 0; n < sizeof(names) / sizeof(*names); n++)
        for (size_t count = 1; count < (size_t)1 << 24; count *= 3)
            for (int numerics = TC_NUMERICS_CANONICAL; numerics <= TC_NUMERICS_EXACT; numerics++) {
                const char *first = NULL;
                tc_options options;

                tc_options_default(&options);
                options.numerics = numerics;
                for (int r = 0; r < world->size; r++) {
                    const char *name = tc_algorithm(world->group[r], names[n], count, TC_DTYPE_F32,
                                                    TC_REDUCE_SUM, &options);

                    assert_non_null(name);
                    first = first == NULL ? name : first;
                    assert_string_equal(name, first);
                }
            }
}

static void all_reduce(struct world *world, uint64_t tag)
{
    static float data[WORLD_MAX][100000];
    tc_future *futures[WORLD_MAX];

    for (int r = 0; r < world->size; r++)
        futures[r] = tc_allreduce_async(world->group[r], tag, data[r], data[r], 100000,
                                        TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    for (int r = 0; r < world->size; r++) {
        assert_int_equal(world_wait(world, futures[r]), TC_OK);
        tc_future_release(futures[r]);
    }
}

static void tune(struct world *world)
{
    tc_future *futures[WORLD_MAX];

    for (int r = 0; r < world->size; r++)
        futures[r] = tc_dist_tune_async(world->group[r]);
    for (int r = 0; r < world->size; r++) {
        if (world_wait(world, futures[r]) != TC_OK)
            fail_msg("rank %d: %s", r, tc_future_error(futures[r])->message);
        tc_future_release(futures[r]);
    }
}

static void all_ranks_choose_alike_after_each_measurement(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 7};

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        struct world world;

        world_open(&world, sizes[s], NULL);
        check_alike(&world);
        for (uint64_t i = 0; i < 2; i++) {
            tune(&world);
            check_alike(&world);
            all_reduce(&world, i);
        }
        world_close(&world);
    }
}

/* The other rank has not come, so this one cannot be done. */
static void calls_meanwhile_are_refused(void **state)
{
    struct world world;
    tc_future *first, *second, *other;
    float data[4] = {0};

    (void)state;
    world_open(&world, 2, NULL);
    first = tc_dist_tune_async(world.group[0]);
    second = tc_dist_tune_async(world.group[0]);
    other = tc_allreduce_async(world.group[0], 1, data, data, 4, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    assert_int_equal(world_wait(&world, second), TC_ERR_BUSY);
    assert_int_equal(world_wait(&world, other), TC_ERR_BUSY);
    assert_non_null(strstr(tc_future_error(other)->message, "tuned"));
    tc_future_release(second);
    tc_future_release(other);
    second = tc_dist_tune_async(world.group[1]);
    assert_int_equal(world_wait(&world, first), TC_OK);
    assert_int_equal(world_wait(&world, second), TC_OK);
    tc_future_release(first);
    tc_future_release(second);
    all_reduce(&world, 1);
    world_close(&world);
}

static void a_rank_that_leaves_ends_the_measurement(void **state)
{
    struct world world;
    tc_future *future;

    (void)state;
    world_open(&world, 3, NULL);
    future = tc_dist_tune_async(world.group[0]);
    assert_int_equal(tc_dist_close(world.group[2]), TC_OK);
    world.group[2] = NULL;
    assert_int_equal(world_wait(&world, future), TC_ERR_PEER_LOST);
    assert_int_equal(tc_future_error(future)->rank, 2);
    tc_future_release(future);
    for (int r = 0; r < 2; r++) {
        tc_dist_close(world.group[r]);
        world.group[r] = NULL;
    }
    world_close(&world);
}

/* Its bits follow the plan, which the links of the day may not choose unasked. */
static void an_unasked_measurement_leaves_fast_folds_alone(void **state)
{
    struct world fixed, measured;
    tc_config config;
    tc_options options;

    (void)state;
    tc_config_default(&config);
    config.hosts = "2,2";
    config.tune = "off";
    world_open(&fixed, 4, &config);
    config.tune = "auto";
    world_open(&measured, 4, &config);
    tc_options_default(&options);
    options.numerics = TC_NUMERICS_FAST;
    for (size_t count = 1; count < (size_t)1 << 26; count *= 2)
        assert_string_equal(tc_algorithm(measured.group[1], "allreduce", count, TC_DTYPE_F32,
                                         TC_REDUCE_SUM, &options),
                            tc_algorithm(fixed.group[1], "allreduce", count, TC_DTYPE_F32,
                                         TC_REDUCE_SUM, &options));
    check_alike(&measured);
    tune(&measured);
    check_alike(&measured);
    world_close(&measured);
    world_close(&fixed);
}

/* With every 256th ordered call, and tagged ones beside: no rank is ever told of another call. */
static void a_group_that_is_refined_as_it_runs_goes_on(void **state)
{
    enum { SIZE = 3, FLIGHT = 40, ROUNDS = 40 };
    static float data[SIZE][2 * FLIGHT][500];
    tc_future *futures[SIZE][2 * FLIGHT];
    struct world world;
    tc_config config;

    (void)state;
    tc_config_default(&config);
    config.tune = "measure";
    config.tune_every_ms = 1;
    world_open(&world, SIZE, &config);
    for (int round = 0; round < ROUNDS; round++) {
        for (int r = 0; r < SIZE; r++)
            for (int n = 0; n < 2 * FLIGHT; n++)
                futures[r][n] = tc_allreduce_async(
                    world.group[r], n < FLIGHT ? TC_TAG_ORDERED : (uint64_t)n, data[r][n],
                    data[r][n], 500, TC_DTYPE_F32, TC_REDUCE_MAX, NULL);
        for (int r = 0; r < SIZE; r++)
            for (int n = 0; n < 2 * FLIGHT; n++) {
                if (world_wait(&world, futures[r][n]) != TC_OK)
                    fail_msg("rank %d: %s", r, tc_future_error(futures[r][n])->message);
                tc_future_release(futures[r][n]);
            }
    }
    for (int r = 0; r < SIZE; r++)
        assert_int_equal(tci_refine_every_ms(tci_comm_of(world.group[r])), 1);
    check_alike(&world);
    world_close(&world);
}

static void a_group_is_refined_only_where_it_was_measured(void **state)
{
    static const struct {
        const char *tune;
        int every_ms;
        uint64_t wanted;
    } cases[] = {{"off", 5, 0}, {"auto", 5, 0}, {"measure", -1, 0}, {"measure", 0, 60000}};

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        struct world world;
        tc_config config;

        tc_config_default(&config);
        config.tune = cases[c].tune;
        config.tune_every_ms = cases[c].every_ms;
        world_open(&world, 2, &config);
        for (int r = 0; r < 2; r++)
            assert_int_equal(tci_refine_every_ms(tci_comm_of(world.group[r])), cases[c].wanted);
        world_close(&world);
    }
}

static void expect_algorithm(const struct world *world, size_t bytes, tc_dtype_t dtype,
                             const char *name)
{
    for (int r = 0; r < world->size; r++)
        assert_string_equal(tc_algorithm(world->group[r], "allreduce", bytes / tc_dtype_size(dtype),
                                         dtype, TC_REDUCE_SUM, NULL),
                            name);
}

/* What was measured there and is not in the model: docs/bounds.md. */
static void over_tcp_on_one_host_few_ranks_choose_what_was_measured(void **state)
{
    struct world world;
    cpu_set_t cores;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(cores), &cores), 0);
    assert_int_equal(setenv("TCDIST_SHM", "0", 1), 0);

    world_open(&world, 2, NULL);
    check_alike(&world);
    if (CPU_COUNT(&cores) >= 2) {
        expect_algorithm(&world, 256 << 10, TC_DTYPE_F32, "oneshot");
        expect_algorithm(&world, 256 << 10, TC_DTYPE_BF16, "oneshot");
        expect_algorithm(&world, 1 << 20, TC_DTYPE_F32, "direct");
        expect_algorithm(&world, 4 << 20, TC_DTYPE_F32, "direct");
        expect_algorithm(&world, 256 << 10, TC_DTYPE_F8E4M3, "direct"); /* its folds take long */
    }
    world_close(&world);

    world_open(&world, 4, NULL);
    check_alike(&world);
    if (CPU_COUNT(&cores) < 4) {
        expect_algorithm(&world, 4, TC_DTYPE_F32, "centralized");
        expect_algorithm(&world, 512 << 10, TC_DTYPE_F32, "centralized");
        expect_algorithm(&world, 4 << 20, TC_DTYPE_F32, "direct");
    }
    world_close(&world);
    assert_int_equal(unsetenv("TCDIST_SHM"), 0);
}

/* How many processors the system shows: as it has them, one, or none that it would tell of. */
static enum { AS_THEY_ARE, ONE, NOT_KNOWN } shown;

/* In place of the system library's. */
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    if (shown == NOT_KNOWN) {
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, bytes);
    if (shown == AS_THEY_ARE)
        return syscall(SYS_sched_getaffinity, pid, bytes, set) < 0 ? -1 : 0;
    CPU_SET(0, set);
    return 0;
}

/* Ranks a core, in sixteenths. */
static void expect_load(uint32_t load)
{
    struct world world;

    world_open(&world, 2, NULL);
    for (int r = 0; r < 2; r++)
        assert_int_equal(tci_comm_of(world.group[r])->tuning.figures.load, load);
    world_close(&world);
}

static void ranks_share_no_processors_that_are_not_known(void **state)
{
    (void)state;
    shown = ONE;
    expect_load(32);
    shown = NOT_KNOWN;
    expect_load(16);
    shown = AS_THEY_ARE;
}

static void no_group_has_nothing_to_tune(void **state)
{
    (void)state;
    assert_int_equal(tc_dist_tune(NULL), TC_ERR_INVALID_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_choose_alike_after_each_measurement),
        cmocka_unit_test(calls_meanwhile_are_refused),
        cmocka_unit_test(a_rank_that_leaves_ends_the_measurement),
        cmocka_unit_test(an_unasked_measurement_leaves_fast_folds_alone),
        cmocka_unit_test(a_group_that_is_refined_as_it_runs_goes_on),
        cmocka_unit_test(a_group_is_refined_only_where_it_was_measured),
        cmocka_unit_test(over_tcp_on_one_host_few_ranks_choose_what_was_measured),
        cmocka_unit_test(ranks_share_no_processors_that_are_not_known),
        cmocka_unit_test(no_group_has_nothing_to_tune),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
