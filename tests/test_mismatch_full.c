/* test_mismatch_full.c - with TC_CHECK_FULL no rank is done where another has called otherwise. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
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

static const struct {
    enum tci_coll coll;
    enum coll_kind kind;
} rooted[] = {{TCI_COLL_BROADCAST, COLL_BROADCAST},
              {TCI_COLL_REDUCE, COLL_REDUCE},
              {TCI_COLL_GATHER, COLL_GATHER},
              {TCI_COLL_SCATTER, COLL_SCATTER}};

/* ---- Calls that differ ----------------------------------------------------------------------- */

/* A plan of its own for both calls, where they can have it; false: they cannot differ then. */
static bool name_plan(struct scene *scene, const struct tci_plan *plan)
{
    if (plan == NULL)
        return true;
    if (scene->field == BY_ALGORITHM || (scene->field == BY_NUMERICS && !plan->canonical))
        return false;
    if (scene->field != BY_NUMERICS)
        scene->pair[0].numerics = scene->pair[1].numerics = TC_NUMERICS_FAST;
    scene->pair[0].algorithm = plan->name;
    scene->pair[1].algorithm = scene->field == BY_KIND ? NULL : plan->name;
    return true;
}

/* Each odd rank; `plan` NULL: what the library chooses. */
static void in_the_simulator(int kind, const struct tci_plan *plan, enum field field, int variant)
{
    struct sim_world_config config;
    struct scene scene;

    sim_world_config_default(&config);
    config.net.eager_max = EAGER_BYTES;
    config.check = TC_CHECK_FULL;
    for (size_t s = 0; s < TCI_LEN(sizes); s++)
        for (int odd = 0; odd < sizes[s]; odd++) {
            struct place place = {.size = sizes[s], .is_full = true};
            uint64_t live = tci_alloc_live();

            if (!set_scene(&scene, &place, kind, field, variant % 2 == 1, variant / 2 == 1) ||
                !name_plan(&scene, plan))
                return;
            config.net.jitter = odd * 3;
            place.sim = sim_world_new((uint32_t)sizes[s], &config);
            scene.odd = odd;
            differ(&scene, (odd + variant) % sizes[s]);
            /* Nobody waited for a deadline. */
            assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
            sim_world_free(place.sim);
            assert_int_equal(tci_alloc_live(), live);
        }
}

static void every_collective_fails_everywhere(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int field = 0; field < FIELDS; field++)
            for (int variant = 0; variant < 4; variant++)
                in_the_simulator(kind, NULL, (enum field)field, variant);
}

static void every_plan_with_a_root_fails_everywhere(void **state)
{
    (void)state;
    for (size_t k = 0; k < TCI_LEN(rooted); k++)
        for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++)
            for (int field = 0; field < FIELDS && (*plan)->coll == rooted[k].coll; field++)
                for (int variant = 0; variant < 4; variant++)
                    in_the_simulator(rooted[k].kind, *plan, (enum field)field, variant);
}

static void one_of_many_ranks_fails_them_all(void **state)
{
    struct sim_world_config config;
    struct place place = {.size = WORLD_MAX, .is_full = true};
    struct scene scene;

    (void)state;
    sim_world_config_default(&config);
    config.check = TC_CHECK_FULL;
    for (size_t k = 0; k < TCI_LEN(rooted); k++)
        for (int odd = 0; odd < WORLD_MAX; odd += 21) {
            assert_true(set_scene(&scene, &place, (int)rooted[k].kind, BY_ROOT, odd == 21, false));
            scene.odd = odd;
            place.sim = sim_world_new(WORLD_MAX, &config);
            differ(&scene, 0);
            assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
            sim_world_free(place.sim);
        }
}

/* One group for all cases of a size: what one leaves behind must not disturb the next. */
static void between_processes_links(int size)
{
    int every = test_effort() == 0 ? 31 : test_effort() == 1 ? 11 : 1, at = 0;
    struct place place = {.size = size, .is_full = true};
    struct scene scene;
    tc_config config;

    tc_config_default(&config);
    config.eager_bytes = EAGER_BYTES;
    config.check = TC_CHECK_FULL;
    world_open(&place.tcp, size, &config);
    for (size_t k = 0; k < TCI_LEN(rooted); k++)
        for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++)
            for (int field = 0; field < FIELDS && (*plan)->coll == rooted[k].coll; field++)
                for (int variant = 0; variant < 4; variant++) {
                    if (at++ % every != 0 ||
                        !set_scene(&scene, &place, (int)rooted[k].kind, (enum field)field,
                                   variant % 2 == 1, variant / 2 == 1) ||
                        !name_plan(&scene, *plan))
                        continue;
                    scene.odd = at / every % size;
                    differ(&scene, at / 2 % size);
                }
    for (int i = 0; i < 4; i++) {
        assert_true(set_scene(&scene, &place, COLL_ALLTOALLV, BY_COUNT, i % 2 == 1, i / 2 == 1));
        scene.odd = i % size;
        differ(&scene, 0);
    }
    for (int r = 0; r < size; r++) /* nothing is left to be told */
        assert_int_equal(tc_dist_health(place.tcp.group[r], NULL), TC_OK);
    world_close(&place.tcp);
}

static void over_connections_all_fail(void **state)
{
    (void)state;
    setenv("TCDIST_SHM", "0", 1);
    for (size_t s = 0; s < TCI_LEN(sizes); s++)
        between_processes_links(sizes[s]);
    unsetenv("TCDIST_SHM");
}

static void over_shared_memory_all_fail(void **state)
{
    (void)state;
    for (size_t s = 0; s < TCI_LEN(sizes); s++)
        between_processes_links(sizes[s]);
}

static void a_sender_fails_as_its_receiver_does(void **state)
{
    struct place place = {.size = 3, .is_full = true};
    struct sim_world_config config;
    tc_config tcp;

    (void)state;
    sim_world_config_default(&config);
    config.net.eager_max = EAGER_BYTES;
    config.check = TC_CHECK_FULL;
    place.sim = sim_world_new(3, &config);
    exchange_each(&place);
    assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
    sim_world_free(place.sim);
    place.sim = NULL;
    tc_config_default(&tcp);
    tcp.eager_bytes = EAGER_BYTES;
    tcp.check = TC_CHECK_FULL;
    world_open(&place.tcp, 3, &tcp);
    exchange_each(&place);
    world_close(&place.tcp);
}

/* ---- Calls that agree ------------------------------------------------------------------------ */

/* Each kind, again and again under one tag, while ranks run ahead of each other. */
static void equal_calls_end_well(void **state)
{
    struct sim_world_config config;
    struct coll_run run;
    uint64_t live = tci_alloc_live();

    (void)state;
    sim_world_config_default(&config);
    config.net.eager_max = EAGER_BYTES;
    config.check = TC_CHECK_FULL;
    for (uint32_t size = 1; size <= 9; size++) {
        struct sim_world *world = sim_world_new(size, &config);

        for (int round = 0; round < 4 * COLL_KINDS; round++) {
            struct coll_case what = {.kind = (enum coll_kind)(round % COLL_KINDS),
                                     .count = round % 3 == 0 ? LARGE : SMALL,
                                     .dtype = TC_DTYPE_F32,
                                     .op = TC_REDUCE_SUM,
                                     .root = round % (int)size,
                                     .tag = TAG,
                                     .seed = (unsigned)round};

            run = (struct coll_run){0};
            coll_prepare(&run, &what, (int)size);
            for (uint32_t r = 0; r < size; r++)
                coll_start(&run, sim_group(world, r), (int)r);
            assert_true(sim_world_run(world, run.future, size, TCI_NEVER));
            coll_check(&run);
        }
        sim_world_free(world);
    }
    assert_int_equal(tci_alloc_live(), live);
}

/* The price: who only sends is done when the last rank has called. */
static void a_root_waits_for_the_last_rank(void **state)
{
    for (int check = TC_CHECK_CHEAP; check <= TC_CHECK_FULL; check++) {
        struct sim_world_config config;
        struct sim_world *world;
        tc_future *futures[5] = {NULL};
        float values[5] = {1};

        (void)state;
        sim_world_config_default(&config);
        config.check = check;
        world = sim_world_new(5, &config);
        for (uint32_t r = 0; r < 4; r++)
            futures[r] =
                tc_broadcast_async(sim_group(world, r), TAG, &values[r], 1, TC_DTYPE_F32, 0, NULL);
        (void)sim_world_run(world, futures, 1, 50 * TCI_NS_PER_MS);
        assert_int_equal(tc_future_test(futures[0]), check == TC_CHECK_FULL ? TC_PENDING : TC_OK);
        futures[4] =
            tc_broadcast_async(sim_group(world, 4), TAG, &values[4], 1, TC_DTYPE_F32, 0, NULL);
        assert_true(sim_world_run(world, futures, 5, TCI_NEVER));
        for (int r = 0; r < 5; r++) {
            assert_int_equal(tc_future_test(futures[r]), TC_OK);
            assert_true(values[r] == 1);
            tc_future_release(futures[r]);
        }
        sim_world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_fails_everywhere),
        cmocka_unit_test(every_plan_with_a_root_fails_everywhere),
        cmocka_unit_test(one_of_many_ranks_fails_them_all),
        cmocka_unit_test(over_connections_all_fail),
        cmocka_unit_test(over_shared_memory_all_fail),
        cmocka_unit_test(a_sender_fails_as_its_receiver_does),
        cmocka_unit_test(equal_calls_end_well),
        cmocka_unit_test(a_root_waits_for_the_last_rank),
    };

    hush_log();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
