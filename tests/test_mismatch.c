/* test_mismatch.c - calls of one tag that differ in one field: every rank is told. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, also rdma */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "core/alloc.h"
#include "core/base.h"
#include "sim/world_sim.h"
#include "support/differ.h"

static const int sizes[] = {2, 3, 5};

static void in_the_simulator(int kind, enum field field, bool is_large, bool is_ordered)
{
    struct sim_world_config config;
    struct scene scene;

    sim_world_config_default(&config);
    config.net.eager_max = EAGER_BYTES;
    for (size_t s = 0; s < TCI_LEN(sizes); s++)
        for (int odd = 0; odd < sizes[s]; odd++) {
            struct place place = {.size = sizes[s]};
            uint64_t live = tci_alloc_live();

            if (!set_scene(&scene, &place, kind, field, is_large, is_ordered))
                return;
            config.net.jitter = odd * 3;
            place.sim = sim_world_new((uint32_t)sizes[s], &config);
            scene.odd = odd;
            differ(&scene, 0);
            /* Nobody waited for a deadline. */
            assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
            sim_world_free(place.sim);
            assert_int_equal(tci_alloc_live(), live);
        }
}

static void one_field_differs_in_the_simulator(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int field = 0; field < FIELDS; field++)
            for (int i = 0; i < 4; i++)
                in_the_simulator(kind, (enum field)field, i % 2 == 1, i / 2 == 1);
}

/* ---- Send and receive ------------------------------------------------------------------------ */

static void a_receive_differs_from_its_send(void **state)
{
    struct place place = {.size = 3};
    struct sim_world_config config;
    uint64_t live = tci_alloc_live();
    tc_config tcp;

    (void)state;
    sim_world_config_default(&config);
    config.net.eager_max = EAGER_BYTES;
    place.sim = sim_world_new(3, &config);
    exchange_each(&place);
    assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
    sim_world_free(place.sim);
    place.sim = NULL;
    tc_config_default(&tcp);
    tcp.eager_bytes = EAGER_BYTES;
    world_open(&place.tcp, 3, &tcp);
    exchange_each(&place);
    world_close(&place.tcp);
    assert_int_equal(tci_alloc_live(), live);
}

/* Both are roots, and done when they have sent: whom its future did not tell is told at the end. */
static void roots_that_only_send_are_told_by_finalize(void **state)
{
    struct place place = {.size = 2};
    tc_future *futures[2], *left[2];
    float value = 0;

    (void)state;
    world_open(&place.tcp, 2, NULL);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_broadcast_async(place.tcp.group[r], TC_TAG_ORDERED, &value, 1, TC_DTYPE_F32,
                                        r, NULL);
    for (int r = 0; r < 2; r++) {
        (void)wait_for(&place, futures[r]);
        left[r] = tc_dist_finalize_async(place.tcp.group[r]);
        place.tcp.group[r] = NULL;
    }
    for (int r = 0; r < 2; r++) {
        bool is_done = tc_future_test(futures[r]) == TC_OK;
        tc_future *told = is_done ? left[r] : futures[r];

        assert_int_equal(wait_for(&place, left[r]), is_done ? TC_ERR_MISMATCH : TC_OK);
        assert_int_equal(tc_future_test(told), TC_ERR_MISMATCH);
        assert_non_null(strstr(tc_future_error(told)->message, "rank 0 calls broadcast("));
        assert_non_null(strstr(tc_future_error(told)->message, "rank 1 calls broadcast("));
    }
    for (int r = 0; r < 2; r++) {
        tc_future_release(futures[r]);
        tc_future_release(left[r]);
    }
    world_close(&place.tcp);
}

/* ---- Many ranks ------------------------------------------------------------------------------ */

/* The news is told once to each rank, not by each to each. */
static void one_of_many_ranks_is_found_and_named(void **state)
{
    static const int kinds[] = {COLL_ALLREDUCE, COLL_BROADCAST, COLL_GATHER, COLL_REDUCE};
    struct place place = {.size = WORLD_MAX};
    struct scene scene;

    (void)state;
    for (size_t k = 0; k < TCI_LEN(kinds); k++)
        for (int i = 0; i < 4; i++) {
            enum field field = is_rooted(kinds[k]) ? BY_ROOT : BY_OP;

            assert_true(set_scene(&scene, &place, kinds[k], field, i % 2 == 1, i / 2 == 1));
            scene.odd = 37;
            place.sim = sim_world_new(WORLD_MAX, NULL);
            differ(&scene, 0);
            assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
            sim_world_free(place.sim);
        }
}

/* ---- Algorithms ------------------------------------------------------------------------------ */

static const struct {
    enum tci_coll coll;
    enum coll_kind kind;
} kinds_of_plans[] = {
    {TCI_COLL_ALLREDUCE, COLL_ALLREDUCE}, {TCI_COLL_BROADCAST, COLL_BROADCAST},
    {TCI_COLL_ALLGATHER, COLL_ALLGATHER}, {TCI_COLL_REDUCE_SCATTER, COLL_REDUCE_SCATTER},
    {TCI_COLL_REDUCE, COLL_REDUCE},       {TCI_COLL_GATHER, COLL_GATHER},
    {TCI_COLL_SCATTER, COLL_SCATTER},     {TCI_COLL_ALLTOALL, COLL_ALLTOALL}};

/* Two plans of one collective. */
static void differ_in_plan(enum coll_kind kind, const struct tci_plan *one,
                           const struct tci_plan *other, bool is_large)
{
    struct sim_world_config config;
    struct scene scene;

    sim_world_config_default(&config);
    config.net.eager_max = EAGER_BYTES;
    for (size_t s = 0; s < TCI_LEN(sizes); s++) {
        struct place place = {.size = sizes[s]};

        (void)set_scene(&scene, &place, (int)kind, BY_DTYPE, is_large, false);
        scene.field = BY_ALGORITHM;
        scene.pair[1] = scene.pair[0];
        scene.pair[0].numerics = scene.pair[1].numerics = TC_NUMERICS_FAST;
        scene.pair[0].algorithm = one->name;
        scene.pair[1].algorithm = other->name;
        scene.odd = (int)(one->id + other->id) % sizes[s];
        place.sim = sim_world_new((uint32_t)sizes[s], &config);
        differ(&scene, 0);
        assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
        sim_world_free(place.sim);
    }
}

static void every_two_algorithms_differ(void **state)
{
    (void)state;
    for (size_t k = 0; k < TCI_LEN(kinds_of_plans); k++)
        for (const struct tci_plan *const *one = tci_plans; *one != NULL; one++)
            for (const struct tci_plan *const *other = tci_plans; *other != NULL; other++)
                for (int i = 0; i < 2 && one != other; i++)
                    if ((*one)->coll == kinds_of_plans[k].coll &&
                        (*other)->coll == kinds_of_plans[k].coll)
                        differ_in_plan(kinds_of_plans[k].kind, *one, *other, i == 1);
}

/* One group for all cases of a size: what one leaves behind must not disturb the next. */
static void one_field_differs_over_tcp(void **state)
{
    int every = test_effort() == 0 ? 7 : test_effort() == 1 ? 2 : 1, at = 0;
    struct scene scene;
    tc_config config;

    (void)state;
    tc_config_default(&config);
    config.eager_bytes = EAGER_BYTES;
    for (size_t s = 0; s < TCI_LEN(sizes); s++) {
        struct place place = {.size = sizes[s]};
        int told = 0;

        world_open(&place.tcp, sizes[s], &config);
        for (int kind = 0; kind < KINDS; kind++)
            for (int field = 0; field < FIELDS; field++)
                for (int i = 0; i < 4; i++) {
                    if (at++ % every != 0 ||
                        !set_scene(&scene, &place, kind, (enum field)field, i % 2 == 1, i / 2 == 1))
                        continue;
                    scene.odd = at % sizes[s];
                    differ(&scene, at / 2 % sizes[s]);
                }
        for (int r = 0; r < sizes[s]; r++)
            told += tc_dist_health(place.tcp.group[r], NULL) == TC_ERR_MISMATCH;
        assert_true(!place.is_told || told > 0);
        world_close(&place.tcp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_field_differs_in_the_simulator),
        cmocka_unit_test(every_two_algorithms_differ),
        cmocka_unit_test(one_field_differs_over_tcp),
        cmocka_unit_test(a_receive_differs_from_its_send),
        cmocka_unit_test(roots_that_only_send_are_told_by_finalize),
        cmocka_unit_test(one_of_many_ranks_is_found_and_named),
    };

    hush_log();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
