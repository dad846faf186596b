/* test_split.c - sub-groups: who is in them, in what order, over whose links, for how long. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, also rdma */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/comm.h"
#include "support/subgroups.h"

static struct world world;
static uint64_t live_before;

static void open_world(int size, int mode)
{
    tc_config config;

    live_before = tci_alloc_live();
    tc_config_default(&config);
    config.loop_mode = mode;
    world_open(&world, size, &config);
}

static void close_world(void)
{
    world_close(&world);
    assert_int_equal(tci_alloc_live(), live_before);
}

/* ---- Who is in a group, and in what order ---------------------------------------------------- */

static void ranks_are_ordered_by_key_and_then_by_rank(void **state)
{
    static const int colors[8] = {3, 0, 3, 3, -1, 0, 3, -7};
    static const int keys[8] = {5, 0, -2, 5, 1, 0, INT32_MIN, 0};
    static const int ranks[8] = {2, 0, 1, 3, -1, 1, 0, -1};
    struct subgroups groups;

    (void)state;
    open_world(8, TC_LOOP_THREAD);
    for (int i = 0; i < 3; i++) {
        subgroups_split(&groups, &world, world.group, colors, keys);
        for (int r = 0; r < 8; r++) {
            assert_int_equal(groups.group[r] != NULL, colors[r] >= 0);
            assert_int_equal(tc_dist_rank(groups.group[r]), ranks[r]);
            assert_int_equal(tc_dist_world_size(groups.group[r]), colors[r] < 0    ? 0
                                                                  : colors[r] == 3 ? 4
                                                                                   : 2);
        }
        subgroups_check(&groups, 9);
        subgroups_finalize(&groups);
    }
    close_world();
}

static void what_is_sent_goes_to_the_rank_of_the_group(void **state)
{
    int colors[6] = {0, 1, 0, 1, 0, 1}, keys[6] = {0, -1, -2, -3, -4, -5};
    int32_t values[6], got[6] = {0};
    tc_future *futures[12];
    struct subgroups groups;

    (void)state;
    open_world(6, TC_LOOP_MANUAL);
    subgroups_split(&groups, &world, world.group, colors, keys);
    for (int r = 0; r < 6; r++) {
        int me = tc_dist_rank(groups.group[r]);

        values[r] = colors[r] * 10 + me;
        futures[2 * r] =
            tc_send_async(groups.group[r], 4, &values[r], 1, TC_DTYPE_I32, (me + 1) % 3, NULL);
        futures[2 * r + 1] =
            tc_recv_async(groups.group[r], 4, &got[r], 1, TC_DTYPE_I32, (me + 2) % 3, NULL);
    }
    for (int i = 0; i < 12; i++) {
        assert_int_equal(world_wait(&world, futures[i]), TC_OK);
        tc_future_release(futures[i]);
    }
    for (int r = 0; r < 6; r++)
        assert_int_equal(got[r], colors[r] * 10 + (tc_dist_rank(groups.group[r]) + 2) % 3);
    subgroups_finalize(&groups);
    close_world();
}

/* Of three ranks the last two are ranks 0 and 1 of their group; 1 expects more than 0 sends. */
static void who_sends_another_number_is_named_by_its_rank_in_the_group(void **state)
{
    static const size_t ones[2] = {1, 1}, two[2] = {2, 1};
    int colors[3] = {-1, 0, 0}, keys[3] = {0, 0, 1};
    int32_t in[2] = {1, 2}, out[2][3];
    tc_future *futures[2];
    const tc_error *error;
    struct subgroups groups;

    (void)state;
    open_world(3, TC_LOOP_MANUAL);
    subgroups_split(&groups, &world, world.group, colors, keys);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_alltoallv_async(groups.group[1 + r], 5, in, ones, NULL, out[r],
                                        r == 1 ? two : ones, NULL, TC_DTYPE_I32, NULL);
    (void)world_wait(&world, futures[0]); /* it may have had all that it needs */
    assert_int_equal(world_wait(&world, futures[1]), TC_ERR_MISMATCH);
    error = tc_future_error(futures[1]);
    assert_non_null(strstr(error->message, "rank 1 expects 8 bytes from rank 0"));
    assert_int_equal(error->rank, 0);
    for (int r = 0; r < 2; r++)
        tc_future_release(futures[r]);
    for (int r = 1; r < 3; r++)
        tc_dist_close(groups.group[r]);
    close_world();
}

static void a_group_of_a_group_can_be_split_again(void **state)
{
    struct subgroups half, quarter, pair;
    int colors[8], keys[8];

    (void)state;
    open_world(8, TC_LOOP_MANUAL);
    for (int r = 0; r < 8; r++) {
        colors[r] = r % 2;
        keys[r] = -r;
    }
    subgroups_split(&half, &world, world.group, colors, keys);
    for (int r = 0; r < 8; r++)
        colors[r] = r % 4;
    subgroups_split(&quarter, &world, half.group, colors, keys);
    for (int r = 0; r < 8; r++)
        keys[r] = r;
    subgroups_split(&pair, &world, quarter.group, colors, keys);
    for (int r = 0; r < 8; r++) {
        assert_int_equal(tc_dist_world_size(half.group[r]), 4);
        assert_int_equal(tc_dist_rank(half.group[r]), 3 - r / 2);
        assert_int_equal(tc_dist_world_size(quarter.group[r]), 2);
        assert_int_equal(tc_dist_rank(quarter.group[r]), r < 4);
        assert_int_equal(tc_dist_rank(pair.group[r]), r >= 4);
    }
    subgroups_check(&half, 7);
    subgroups_finalize(&half);
    subgroups_check(&quarter, 7);
    subgroups_finalize(&quarter);
    subgroups_check(&pair, 7);
    subgroups_finalize(&pair);
    close_world();
}

static void a_group_of_one_needs_no_links(void **state)
{
    struct subgroups groups, again;
    int colors[3] = {0, 1, 2}, keys[3] = {0};
    float in[2] = {1, 2}, out[2];

    (void)state;
    for (int size = 1; size <= 3; size += 2) {
        open_world(size, TC_LOOP_THREAD);
        subgroups_split(&groups, &world, world.group, colors, keys);
        subgroups_split(&again, &world, groups.group, colors, keys);
        for (int r = 0; r < size; r++) {
            assert_null(tci_comm_of(again.group[r])->transport);
            tc_future *send = tc_send_async(again.group[r], 1, in, 2, TC_DTYPE_F32, 0, NULL);
            tc_future *recv = tc_recv_async(again.group[r], 1, out, 2, TC_DTYPE_F32, 0, NULL);
            assert_int_equal(world_wait(&world, send), TC_OK);
            assert_int_equal(world_wait(&world, recv), TC_OK);
            assert_memory_equal(in, out, sizeof(in));
            tc_future_release(send);
            tc_future_release(recv);
        }
        subgroups_check(&again, 3);
        subgroups_finalize(&groups);
        subgroups_finalize(&again);
        close_world();
    }
}

/* ---- Many groups ---------------------------------------------------------------------------- */

enum { MANY = 256 };

static void many_groups_share_the_descriptors_of_one(void **state)
{
    static struct subgroups groups[MANY];
    unsigned descriptors;

    (void)state;
    open_world(8, TC_LOOP_MANUAL);
    link_all_pairs(&world);
    descriptors = count_descriptors();
    for (uint64_t g = 0; g < MANY; g++)
        subgroups_pick(&groups[g], &world, world.group, g == 0 ? 0xff : g);
    for (int g = 0; g < MANY; g++)
        subgroups_check(&groups[g], 5); /* one tag in all of them */
    assert_int_equal(count_descriptors(), descriptors);
    for (int g = 0; g < MANY; g++)
        subgroups_finalize(&groups[g * 37 % MANY]);
    assert_int_equal(count_descriptors(), descriptors);
    subgroups_pick(&groups[0], &world, world.group, 0x3c);
    subgroups_check(&groups[0], 5);
    subgroups_finalize(&groups[0]);
    close_world();
}

/* Memory and descriptors after so many groups are those after a few. */
static void thousands_of_groups_come_and_go_in_flat_memory(void **state)
{
    uint64_t target = test_effort() == 0 ? 1000 : 10000, made = 0, live = 0;
    unsigned descriptors = 0;
    struct subgroups groups;

    (void)state;
    open_world(4, TC_LOOP_MANUAL);
    link_all_pairs(&world);
    while (made < target) {
        int colors[4], keys[4];

        for (int r = 0; r < 4; r++) {
            colors[r] = made % 3 == 0 ? r % 2 : r / 2;
            keys[r] = (int)(made % 7) * -r;
        }
        subgroups_split(&groups, &world, world.group, colors, keys);
        subgroups_check(&groups, 11);
        subgroups_finalize(&groups);
        made += 2;
        if (made == target / 5) {
            live = tci_alloc_live();
            descriptors = count_descriptors();
        }
    }
    assert_in_range(tci_alloc_live(), live - 64, live + 64); /* free lists keep a few */
    assert_int_equal(count_descriptors(), descriptors);
    close_world();
}

/* ---- Threads -------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 60 };

struct worker {
    pthread_t thread;
    tc_dist_ctx *group;
    int bad;
};

static void *work(void *arg)
{
    struct worker *me = arg;
    int64_t n = tc_dist_world_size(me->group);

    for (int i = 0; i < ROUNDS; i++) {
        int64_t value = tc_dist_rank(me->group) + i;
        tc_future *future = tc_allreduce_async(me->group, i % 3 == 0 ? TC_TAG_ORDERED : 6, &value,
                                               &value, 1, TC_DTYPE_I64, TC_REDUCE_SUM, NULL);
        me->bad += tc_future_wait(future, 60000) != TC_OK || value != n * (n - 1) / 2 + n * i;
        tc_future_release(future);
    }
    me->bad += tc_dist_finalize(me->group) != TC_OK;
    return NULL;
}

static void threads_use_a_group_each_under_the_same_tags(void **state)
{
    struct worker workers[4][THREADS];
    struct subgroups groups[THREADS];

    (void)state;
    open_world(4, TC_LOOP_THREAD);
    for (int t = 0; t < THREADS; t++) {
        int colors[4], keys[4];
        for (int r = 0; r < 4; r++) {
            colors[r] = t == 0 ? 0 : r >> (t - 1) & 1;
            keys[r] = t % 2 == 0 ? r : -r;
        }
        subgroups_split(&groups[t], &world, world.group, colors, keys);
    }
    for (int r = 0; r < 4; r++)
        for (int t = 0; t < THREADS; t++) {
            workers[r][t] = (struct worker){.group = groups[t].group[r]};
            pthread_create(&workers[r][t].thread, NULL, work, &workers[r][t]);
        }
    for (int r = 0; r < 4; r++)
        for (int t = 0; t < THREADS; t++) {
            pthread_join(workers[r][t].thread, NULL);
            assert_int_equal(workers[r][t].bad, 0);
        }
    close_world();
}

/* Several splits of several groups go on at once, each in its own order. */
static void splits_of_different_groups_overlap(void **state)
{
    enum { EACH = 8 };
    tc_dist_ctx *made[2][EACH][4];
    struct subgroups parents[2];

    (void)state;
    open_world(4, TC_LOOP_THREAD);
    subgroups_pick(&parents[0], &world, world.group, 0xf);
    subgroups_pick(&parents[1], &world, world.group, 0xf);
    for (int round = 0; round < 5; round++) {
        tc_future *futures[2][EACH][4];
        for (int i = 0; i < 2 * EACH; i++)
            for (int r = 0; r < 4; r++) {
                int p = (r + i) % 2, e = i / 2; /* ranks take the parents in turn, unlike */
                futures[p][e][r] =
                    tc_dist_split_async(parents[p].group[r], (e + r) % 2, p * r, &made[p][e][r]);
            }
        for (int p = 0; p < 2; p++)
            for (int e = 0; e < EACH; e++) {
                struct subgroups groups = {.world = &world};
                for (int r = 0; r < 4; r++) {
                    assert_int_equal(world_wait(&world, futures[p][e][r]), TC_OK);
                    tc_future_release(futures[p][e][r]);
                    groups.group[r] = made[p][e][r];
                    assert_int_equal(tc_dist_world_size(made[p][e][r]), 2);
                }
                subgroups_check(&groups, 1);
                subgroups_finalize(&groups);
            }
    }
    subgroups_finalize(&parents[1]);
    subgroups_finalize(&parents[0]);
    close_world();
}

/* ---- Who goes first ------------------------------------------------------------------------- */

static void a_group_outlives_its_parent(void **state)
{
    struct subgroups first, second, worlds = {.world = &world};
    unsigned before = count_descriptors();

    (void)state;
    open_world(5, TC_LOOP_MANUAL);
    subgroups_pick(&first, &world, world.group, 0x07);
    subgroups_pick(&second, &world, first.group, 0x05);
    memcpy(worlds.group, world.group, sizeof(worlds.group));
    subgroups_check(&first, 1);
    subgroups_finalize(&worlds); /* also on ranks 3 and 4, which have no other one */
    memset(world.group, 0, sizeof(world.group));
    for (int r = 3; r < 5; r++) {
        assert_int_equal(tc_shutdown(world.context[r]), TC_OK);
        world.context[r] = NULL;
    }
    subgroups_check(&first, 2);
    subgroups_check(&second, 2);
    subgroups_finalize(&first);
    subgroups_check(&second, 3);
    subgroups_pick(&first, &world, second.group, 0x05);
    subgroups_finalize(&second);
    subgroups_check(&first, 4);
    subgroups_finalize(&first);
    close_world();
    assert_int_equal(count_descriptors(), before);
}

/* A connection lives until no group is over it any more, on either side. */
static void a_connection_ends_with_the_last_group_over_it(void **state)
{
    struct subgroups halves, worlds = {.world = &world};
    int colors[4] = {0, 0, 1, 1}, keys[4] = {0};
    unsigned linked;

    (void)state;
    setenv("TCDIST_SHM", "0", 1); /* shared memory would need some, too */
    open_world(4, TC_LOOP_MANUAL);
    unsetenv("TCDIST_SHM");
    link_all_pairs(&world);
    linked = count_descriptors();
    subgroups_split(&halves, &world, world.group, colors, keys);
    memcpy(worlds.group, world.group, sizeof(worlds.group));
    subgroups_finalize(&worlds);
    memset(world.group, 0, sizeof(world.group));
    while (count_descriptors() > linked - 8) /* four connections between the halves, two ends */
        for (int r = 0; r < 4; r++)
            assert_int_equal(tc_poll(world.context[r], 1), TC_OK);
    subgroups_check(&halves, 1);
    assert_int_equal(count_descriptors(), linked - 8);
    subgroups_finalize(&halves);
    close_world();
}

static void two_ranks_of_one_thread_finalize_in_turn(void **state)
{
    tc_future *futures[2];

    (void)state;
    open_world(2, TC_LOOP_MANUAL);
    for (int r = 0; r < 2; r++) {
        futures[r] = tc_dist_finalize_async(world.group[r]);
        world.group[r] = NULL;
    }
    for (int r = 0; r < 2; r++) {
        assert_int_equal(world_wait(&world, futures[r]), TC_OK);
        tc_future_release(futures[r]);
    }
    close_world();
}

static void finalizing_is_cut_short_by_a_shutdown(void **state)
{
    tc_future *future;

    (void)state;
    open_world(2, TC_LOOP_THREAD);
    future = tc_dist_finalize_async(world.group[0]); /* rank 1 does not come */
    assert_int_equal(tc_shutdown(world.context[0]), TC_OK);
    assert_int_equal(tc_future_test(future), TC_ERR_CLOSED);
    tc_future_release(future);
    future = tc_dist_finalize_async(NULL);
    assert_int_equal(tc_future_test(future), TC_ERR_INVALID_ARG);
    tc_future_release(future);
    assert_int_equal(tc_dist_finalize(world.group[1]), TC_ERR_PEER_LOST);
    world.context[0] = NULL;
    world.group[0] = world.group[1] = NULL;
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_ordered_by_key_and_then_by_rank),
        cmocka_unit_test(what_is_sent_goes_to_the_rank_of_the_group),
        cmocka_unit_test(who_sends_another_number_is_named_by_its_rank_in_the_group),
        cmocka_unit_test(a_group_of_a_group_can_be_split_again),
        cmocka_unit_test(a_group_of_one_needs_no_links),
        cmocka_unit_test(many_groups_share_the_descriptors_of_one),
        cmocka_unit_test(thousands_of_groups_come_and_go_in_flat_memory),
        cmocka_unit_test(threads_use_a_group_each_under_the_same_tags),
        cmocka_unit_test(splits_of_different_groups_overlap),
        cmocka_unit_test(a_group_outlives_its_parent),
        cmocka_unit_test(a_connection_ends_with_the_last_group_over_it),
        cmocka_unit_test(two_ranks_of_one_thread_finalize_in_turn),
        cmocka_unit_test(finalizing_is_cut_short_by_a_shutdown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
