/* test_split_early.c - members of a new group that use it before all others have it. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/manual_world.h"

/* Offers travel as Bruck's all-gather has it.  STILL sends its own to OTHER and stands still before
 * it has heard from FAST, so that SLOW waits for what STILL has to pass on, while FAST learns all
 * from SLOW and OTHER. */
enum { STILL, FAST, SLOW, OTHER, FOUR };
static tc_future *splits[FOUR];
static tc_dist_ctx *made[FOUR];

static void turn_all_but_still(int times)
{
    for (int i = 0; i < times; i++)
        for (int r = FAST; r <= OTHER; r++)
            manual_turn(r, 1);
}

static void split_with_one_fast_member(void)
{
    static const int keys[FOUR] = {0, -2, -1, 1}; /* FAST is rank 0, SLOW is rank 1 */

    memset(made, 0, sizeof(made));
    link_all_pairs(&manual_world);
    for (int r = 0; r < FOUR; r++) {
        splits[r] = tc_dist_split_async(manual_world.group[r], 0, keys[r], &made[r]);
        if (r == STILL)
            manual_turn(STILL, 20);
    }
    while (tc_future_test(splits[FAST]) == TC_PENDING)
        turn_all_but_still(1);
    assert_int_equal(tc_future_test(splits[FAST]), TC_OK);
    assert_int_equal(tc_future_test(splits[SLOW]), TC_PENDING);
    assert_int_equal(tc_dist_rank(made[FAST]), 0);
}

static void the_others_follow(void)
{
    for (int r = 0; r < FOUR; r++)
        manual_settles(splits[r], TC_OK, 0, NULL);
}

static void finalize_made(void)
{
    struct subgroups groups = {.world = &manual_world};

    memcpy(groups.group, made, sizeof(made));
    subgroups_finalize(&groups);
}

static void messages_to_a_group_that_is_not_there_yet_are_kept(void **state)
{
    static uint8_t sent[300000], got[300000];
    static const size_t lens[] = {1, 1000, 300000};
    tc_future *sends[3];

    (void)state;
    manual_open(FOUR, 0);
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (uint8_t)(i * 7);
    split_with_one_fast_member();
    for (uint64_t t = 0; t < 3; t++)
        sends[t] = tc_send_async(made[FAST], t, sent, lens[t], TC_DTYPE_U8, 1, NULL);
    turn_all_but_still(50);
    assert_int_equal(tc_future_test(splits[SLOW]), TC_PENDING);
    assert_int_equal(manual_held_bytes(SLOW), 1001); /* the last waits at its sender */
    the_others_follow();
    for (uint64_t t = 0; t < 3; t++) {
        manual_settles(tc_recv_async(made[SLOW], t, got, lens[t], TC_DTYPE_U8, 0, NULL), TC_OK, 0,
                       NULL);
        assert_memory_equal(sent, got, lens[t]);
        manual_settles(sends[t], TC_OK, 0, NULL);
    }
    assert_int_equal(manual_held_bytes(SLOW), 0);
    finalize_made();
    manual_close();
}

/* More than the window of a link: the rest waits at the sender. */
static void a_flood_to_a_group_that_is_not_there_yet_is_bounded(void **state)
{
    enum { COUNT = 300, LEN = 50000, WINDOW = 4 << 20 };
    static uint8_t bytes[COUNT][LEN];
    tc_future *sends[COUNT], *recvs[COUNT];

    (void)state;
    manual_open(FOUR, 0);
    split_with_one_fast_member();
    for (int i = 0; i < COUNT; i++)
        sends[i] = tc_send_async(made[FAST], (uint64_t)i, bytes[i], LEN, TC_DTYPE_U8, 1, NULL);
    turn_all_but_still(500);
    assert_in_range(manual_held_bytes(SLOW), WINDOW / 2, WINDOW);
    the_others_follow();
    for (int i = 0; i < COUNT; i++)
        recvs[i] = tc_recv_async(made[SLOW], (uint64_t)i, bytes[i], LEN, TC_DTYPE_U8, 0, NULL);
    for (int i = 0; i < COUNT; i++) {
        manual_settles(sends[i], TC_OK, 0, NULL);
        manual_settles(recvs[i], TC_OK, 0, NULL);
    }
    finalize_made();
    manual_close();
}

static void calls_that_differ_are_found_before_the_group_is_there(void **state)
{
    float data[8] = {0};
    tc_future *first;

    (void)state;
    manual_open(FOUR, 0);
    split_with_one_fast_member();
    first = tc_broadcast_async(made[FAST], 3, data, 4, TC_DTYPE_F32, 0, NULL);
    turn_all_but_still(50);
    the_others_follow();
    tc_future *second =
        tc_allreduce_async(made[SLOW], 3, data, data + 4, 4, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    assert_int_equal(world_wait(&manual_world, second), TC_ERR_MISMATCH);
    assert_non_null(strstr(tc_future_error(second)->message, "broadcast"));
    tc_future_release(second);
    (void)world_wait(&manual_world, first); /* its data may have left before */
    tc_future_release(first);
    for (int r = 0; r < FOUR; r++)
        tc_dist_close(made[r]);
    manual_close();
}

static void news_of_a_group_that_is_not_there_yet_are_kept(void **state)
{
    float data[4] = {0};

    (void)state;
    for (int closes = 0; closes < 2; closes++) {
        manual_open(FOUR, 0);
        split_with_one_fast_member();
        tc_future *future =
            tc_allreduce_async(made[FAST], 3, data, data, 4, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
        manual_turn(FAST, 5);
        if (closes)
            assert_int_equal(tc_dist_close(made[FAST]), TC_OK);
        else
            tc_future_cancel(future);
        turn_all_but_still(50);
        manual_settles(future, closes ? TC_ERR_CLOSED : TC_ERR_CANCELLED, 0, NULL);
        the_others_follow();
        for (int r = 0; r < FOUR; r++) {
            if (r == FAST)
                continue;
            if (closes)
                assert_int_equal(manual_lost_rank(made[r]), 0);
            manual_settles(
                tc_allreduce_async(made[r], 3, data, data, 4, TC_DTYPE_F32, TC_REDUCE_SUM, NULL),
                closes ? TC_ERR_PEER_LOST : TC_ERR_CANCELLED, 0, NULL);
            if (closes)
                assert_int_equal(tc_dist_close(made[r]), TC_OK);
        }
        if (!closes)
            finalize_made();
        for (int r = 0; r < FOUR; r++) /* the parent is well */
            assert_int_equal(tc_dist_health(manual_world.group[r], NULL), TC_OK);
        manual_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_to_a_group_that_is_not_there_yet_are_kept),
        cmocka_unit_test(a_flood_to_a_group_that_is_not_there_yet_is_bounded),
        cmocka_unit_test(calls_that_differ_are_found_before_the_group_is_there),
        cmocka_unit_test(news_of_a_group_that_is_not_there_yet_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
