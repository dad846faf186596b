/* test_failure.c - what fails says who and why, on every rank, and harms nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, also rdma, waits */
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
#include "support/coll_case.h"

enum { RANKS = 4, LARGE = 600000, SHORT_MS = 2000 };

static struct world world;
static float data[WORLD_MAX][2 * LARGE];

static int open_world(void **state)
{
    (void)state;
    world_open(&world, RANKS, NULL);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

static tc_options with_timeout(int ms)
{
    tc_options options;

    tc_options_default(&options);
    options.timeout_ms = ms;
    return options;
}

static tc_future *sum(int rank, uint64_t tag, size_t count, const tc_options *options)
{
    return tc_allreduce_async(world.group[rank], tag, data[rank], data[rank], count, TC_DTYPE_F32,
                              TC_REDUCE_SUM, options);
}

/* The same in other memory, for calls that run beside those. */
static tc_future *sum_beside(int rank, uint64_t tag, size_t count, const tc_options *options)
{
    float *beside = data[rank] + LARGE;

    return tc_allreduce_async(world.group[rank], tag, beside, beside, count, TC_DTYPE_F32,
                              TC_REDUCE_SUM, options);
}

/* A future that fails so, and whose message contains all of `says` (parts end with NULL). */
static void fails(tc_future *future, tc_status_t status, int rank, const char *const *says)
{
    tc_status_t got = world_wait(&world, future);
    const tc_error *error = tc_future_error(future);

    if (got != status || error == NULL || error->rank != rank)
        fail_msg("expected %s of rank %d, got %s: rank %d, %s", tc_status_string(status), rank,
                 tc_status_string(got), error == NULL ? -9 : error->rank,
                 error == NULL ? "no error" : error->message);
    for (size_t i = 0; says != NULL && says[i] != NULL; i++)
        if (strstr(error->message, says[i]) == NULL)
            fail_msg("\"%s\" is missing in: %s", says[i], error->message);
    tc_future_release(future);
}

#define SAYS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void succeeds(tc_future *future)
{
    if (world_wait(&world, future) != TC_OK)
        fail_msg("%s", tc_future_error(future)->message);
    tc_future_release(future);
}

/* The group, and this tag, go on. */
static void all_sum(uint64_t tag, size_t count)
{
    tc_future *futures[RANKS];

    for (int r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < count; i++)
            data[r][i] = (float)(r + 1);
        futures[r] = sum(r, tag, count, NULL);
    }
    for (int r = 0; r < RANKS; r++) {
        succeeds(futures[r]);
        assert_true(data[r][0] == 10.0f && data[r][count - 1] == 10.0f);
    }
}

/* ---- ranks that do not enter --------------------------------------------------------------- */

static void who_does_not_enter_is_named_and_fails_when_it_comes(void **state)
{
    tc_options options = with_timeout(SHORT_MS);

    (void)state;
    for (int absent = 0; absent < RANKS; absent++) {
        tc_future *futures[RANKS] = {0};
        size_t count = absent % 2 == 0 ? 10 : LARGE;
        all_sum(1000 + (uint64_t)absent, 5);
        for (int r = 0; r < RANKS; r++)
            if (r != absent)
                futures[r] = sum_beside(r, 77, count, &options);
        all_sum(2000 + (uint64_t)absent, 5);
        for (int r = 0; r < RANKS; r++)
            if (r != absent)
                fails(futures[r], TC_ERR_TIMEOUT, absent,
                      SAYS("allreduce, tag 77", "has not entered it within 2000 ms",
                           "what it entered last is allreduce, tag 2"));
        all_sum(3000 + (uint64_t)absent, 5); /* what was told before has arrived by now */
        tc_future *late = sum_beside(absent, 77, count, NULL);
        fails(late, TC_ERR_TIMEOUT, absent, SAYS("has not entered it within 2000 ms"));
        all_sum(77, 10);
        all_sum(77, LARGE);
    }
}

static void a_rank_that_fails_often_ahead_of_the_others_stays_in_step(void **state)
{
    enum { USES = 5 };

    (void)state;
    for (int u = 0; u < USES; u++) {
        tc_future *future = sum(2, 5, 10, NULL);
        tc_future_cancel(future);
        fails(future, TC_ERR_CANCELLED, 2, SAYS("rank 2 has cancelled it"));
    }
    for (int r = 0; r < RANKS; r++)
        for (int u = 0; u < USES && r != 2; u++)
            fails(sum(r, 5, 10, NULL), TC_ERR_CANCELLED, 2, NULL);
    all_sum(5, 10);
}

static void the_next_use_never_takes_data_of_a_failed_one(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        tc_future *doomed[RANKS], *next[RANKS];
        int bad = i % RANKS;
        size_t count = i % 3 == 0 ? LARGE / 8 : 7;
        for (int r = 0; r < RANKS; r++) {
            for (size_t e = 0; e < count; e++)
                data[r][e] = data[r][LARGE + e] = 1.0f;
            if (r != bad)
                doomed[r] = sum(r, 6, count, NULL);
        }
        doomed[bad] = sum(bad, 6, count, NULL);
        tc_future_cancel(doomed[bad]);
        for (int k = 0; k < RANKS; k++) {
            int r = (bad + k) % RANKS;
            if (world_wait(&world, doomed[r]) != TC_OK)
                assert_int_equal(tc_future_error(doomed[r])->rank, bad);
            for (size_t e = 0; e < count; e++)
                data[r][LARGE + e] = 8.0f;
            next[r] = tc_allreduce_async(world.group[r], 6, data[r] + LARGE, data[r] + LARGE, count,
                                         TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
        }
        for (int r = 0; r < RANKS; r++) {
            if (tc_future_test(doomed[r]) == TC_OK && data[r][0] != 4.0f)
                fail_msg("rank %d took %g in round %d", r, (double)data[r][0], i);
            tc_future_release(doomed[r]);
            succeeds(next[r]);
            assert_true(data[r][LARGE] == 32.0f);
        }
    }
}

/* ---- calls that differ --------------------------------------------------------------------- */

struct call {
    int kind; /* 0 allreduce, 1 broadcast, 2 barrier, 3 allgather */
    size_t count;
    tc_dtype_t dtype;
    int op, root, numerics;
    const char *algorithm, *says;
};

static tc_future *call(int rank, uint64_t tag, const struct call *what)
{
    tc_options options = with_timeout(2000);

    options.numerics = what->numerics;
    options.algorithm = what->algorithm;
    switch (what->kind) {
    case 0:
        return tc_allreduce_async(world.group[rank], tag, data[rank], data[rank], what->count,
                                  what->dtype, (tc_reduce_op_t)what->op, &options);
    case 1:
        return tc_broadcast_async(world.group[rank], tag, data[rank], what->count, what->dtype,
                                  what->root, &options);
    case 2:
        return tc_barrier_async(world.group[rank], tag, &options);
    default:
        return tc_allgather_async(world.group[rank], tag, data[rank] + LARGE, data[rank],
                                  what->count, what->dtype, &options);
    }
}

static const struct call differing[][2] = {
    {{0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, NULL, "allreduce(10 x f32, sum"},
     {0, 11, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, NULL, "allreduce(11 x f32, sum"}},
    {{0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, NULL, "allreduce(10 x f32"},
     {0, LARGE, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, NULL, "allreduce(600000 x f32"}},
    {{0, LARGE, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, NULL, "allreduce(600000 x f32"},
     {0, LARGE - 1, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, NULL, "allreduce(599999 x f32"}},
    {{0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, NULL, "x f32, sum"},
     {0, 10, TC_DTYPE_I32, TC_REDUCE_SUM, 0, 0, NULL, "x i32, sum"}},
    {{0, LARGE, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, NULL, "x f32, sum"},
     {0, LARGE, TC_DTYPE_F32, TC_REDUCE_MAX, 0, 0, NULL, "x f32, max"}},
    {{0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, NULL, "allreduce("},
     {2, 0, TC_DTYPE_F32, 0, 0, 0, NULL, "barrier"}},
    {{0, LARGE, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, NULL, "allreduce("},
     {3, LARGE / 4, TC_DTYPE_F32, 0, 0, 0, NULL, "allgather("}},
    {{1, 10, TC_DTYPE_F32, 0, 0, 0, NULL, "root 0"},
     {1, 10, TC_DTYPE_F32, 0, 2, 0, NULL, "root 2"}},
    {{1, LARGE, TC_DTYPE_F32, 0, 1, 0, NULL, "root 1"},
     {1, LARGE, TC_DTYPE_F32, 0, 3, 0, NULL, "root 3"}},
    {{0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, "oneshot", "sum, oneshot)"},
     {0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, 0, 0, "direct", "sum, direct)"}},
    {{0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, 0, TC_NUMERICS_FAST, NULL, ", fast)"},
     {0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, 0, TC_NUMERICS_CANONICAL, NULL, "sum"}},
    {{0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, 0, TC_NUMERICS_EXACT, NULL, ", exact)"},
     {0, 10, TC_DTYPE_F32, TC_REDUCE_SUM, 0, TC_NUMERICS_CANONICAL, NULL, "sum"}},
    {{0, LARGE, TC_DTYPE_F32, TC_REDUCE_SUM, 0, TC_NUMERICS_EXACT, NULL, ", exact)"},
     {0, LARGE, TC_DTYPE_F32, TC_REDUCE_SUM, 0, TC_NUMERICS_FAST, NULL, ", fast)"}},
};

/* Who is done by sending alone learns of another call later, and its health tells. */
static bool somebody_knows(void)
{
    for (;; usleep(1000))
        for (int r = 0; r < RANKS; r++)
            if (tc_dist_health(world.group[r], NULL) == TC_ERR_MISMATCH)
                return true;
}

/* The rank that differs fails if it waits for another, and those that were not done yet. */
static void differ(size_t c, int other, uint64_t tag)
{
    const struct call *pair = differing[c];
    tc_future *futures[RANKS];
    int failed = 0;

    for (int r = 0; r < RANKS; r++)
        futures[r] = call(r, tag, &pair[r == other]);
    for (int r = 0; r < RANKS; r++) {
        tc_status_t status = world_wait(&world, futures[r]);
        const tc_error *error = tc_future_error(futures[r]);
        failed += status != TC_OK;
        if (status == TC_OK && pair[0].kind == 1)
            continue; /* whoever only sends is done when it has sent */
        if (status != TC_ERR_MISMATCH || strstr(error->message, pair[0].says) == NULL ||
            strstr(error->message, pair[1].says) == NULL)
            fail_msg("case %zu, other %d, rank %d: %s, %s", c, other, r, tc_status_string(status),
                     error == NULL ? "" : error->message);
        assert_int_equal(error->tag, tag);
        assert_true(error->rank >= 0);
    }
    assert_true(pair[0].kind == 1 ? failed > 0 || somebody_knows() : failed >= 2);
    for (int r = 0; r < RANKS; r++)
        tc_future_release(futures[r]);
}

static void calls_that_differ_are_shown_side_by_side(void **state)
{
    (void)state;
    for (size_t c = 0; c < TCI_LEN(differing); c++) {
        for (int other = 0; other < RANKS; other++)
            differ(c, other, 100 + c);
        all_sum(100 + c, 10);
        all_sum(100 + c, LARGE);
    }
}

static void a_receive_of_another_length_fails_and_the_next_one_works(void **state)
{
    static const size_t counts[][2] = {{10, 11}, {10, LARGE}, {LARGE, 10}, {LARGE, LARGE + 1}};
    tc_options options = with_timeout(2000);

    (void)state;
    for (int order = 0; order < 2; order++)
        for (size_t c = 0; c < TCI_LEN(counts); c++) {
            tc_future *send = NULL, *recv = NULL;
            for (int k = 0; k < 2; k++) {
                if (k == order)
                    send = tc_send_async(world.group[1], 9, data[1], counts[c][0], TC_DTYPE_F32, 2,
                                         &options);
                else
                    recv = tc_recv_async(world.group[2], 9, data[2], counts[c][1], TC_DTYPE_F32, 1,
                                         &options);
                if (k == 0 && order == 0 && counts[c][0] < 100)
                    succeeds(tc_future_ref(send)); /* small ones leave at once */
            }
            if (world_wait(&world, send) != TC_OK)
                assert_int_equal(tc_future_test(send), TC_ERR_MISMATCH);
            else
                assert_true(counts[c][0] < 100);
            tc_future_release(send);
            assert_int_equal(world_wait(&world, recv), TC_ERR_MISMATCH);
            assert_non_null(strstr(tc_future_error(recv)->message, "rank 1 calls"));
            assert_non_null(strstr(tc_future_error(recv)->message, "rank 2 calls"));
            tc_future_release(recv);
            for (int again = 0; again < 2; again++) {
                recv = tc_recv_async(world.group[2], 9, data[2], 10 + counts[c][0], TC_DTYPE_F32, 1,
                                     &options);
                send = tc_send_async(world.group[1], 9, data[1], 10 + counts[c][0], TC_DTYPE_F32, 2,
                                     &options);
                succeeds(recv);
                succeeds(send);
            }
        }
}

static void a_rank_sends_to_itself(void **state)
{
    static const size_t counts[] = {0, 1, 1000, LARGE};

    (void)state;
    for (size_t c = 0; c < TCI_LEN(counts); c++)
        for (int order = 0; order < 2; order++) {
            uint64_t tag = c % 2 == 0 ? 9 : TC_TAG_ORDERED;
            tc_future *futures[2];
            for (size_t i = 0; i < counts[c]; i++)
                data[0][i] = (float)i;
            memset(data[1], 0, sizeof(data[1]));
            for (int k = 0; k < 2; k++)
                futures[k] = k == order ? tc_send_async(world.group[3], tag, data[0], counts[c],
                                                        TC_DTYPE_F32, 3, NULL)
                                        : tc_recv_async(world.group[3], tag, data[1], counts[c],
                                                        TC_DTYPE_F32, 3, NULL);
            succeeds(futures[0]);
            succeeds(futures[1]);
            assert_memory_equal(data[0], data[1], counts[c] * sizeof(float));
        }
}

static void a_send_to_oneself_fails_with_its_receive(void **state)
{
    tc_options options = with_timeout(100);

    (void)state;
    for (int i = 0; i < 4; i++) {
        tc_future *recv = NULL, *send = tc_send_async(world.group[0], 9, data[0], 10, TC_DTYPE_F32,
                                                      0, i == 2 ? &options : NULL);
        if (i == 0)
            recv = tc_recv_async(world.group[0], 9, data[1], 9, TC_DTYPE_F32, 0, NULL);
        if (i == 1 || i == 3)
            tc_future_cancel(send);
        fails(send, i == 0 ? TC_ERR_MISMATCH : i == 2 ? TC_ERR_TIMEOUT : TC_ERR_CANCELLED, 0, NULL);
        if (i > 0)
            recv = tc_recv_async(world.group[0], 9, data[1], 10, TC_DTYPE_F32, 0, NULL);
        fails(recv, i == 0 ? TC_ERR_MISMATCH : i == 2 ? TC_ERR_TIMEOUT : TC_ERR_CANCELLED, 0, NULL);
    }
}

/* ---- cancelling ---------------------------------------------------------------------------- */

static void cancelling_ends_it_on_every_rank(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        tc_future *futures[RANKS] = {0};
        int who = i % RANKS, failed = 0;
        size_t count = i % 2 == 0 ? 20 : LARGE;
        bool early = i % 3 == 0; /* before one of the ranks has entered */
        for (int r = 0; r < RANKS; r++)
            if (!early || r != (who + 1) % RANKS)
                futures[r] = sum(r, 12, count, NULL);
        tc_future_cancel(futures[who]);
        tc_future_cancel(futures[who]);
        if (early) {
            fails(tc_future_ref(futures[who]), TC_ERR_CANCELLED, who,
                  SAYS("allreduce, tag 12: rank", "has cancelled it"));
            futures[(who + 1) % RANKS] = sum((who + 1) % RANKS, 12, count, NULL);
        }
        for (int r = 0; r < RANKS; r++) {
            if (world_wait(&world, futures[r]) != TC_OK) {
                failed++;
                assert_int_equal(tc_future_test(futures[r]), TC_ERR_CANCELLED);
                assert_int_equal(tc_future_error(futures[r])->rank, who);
            }
            tc_future_cancel(futures[r]);
            tc_future_release(futures[r]);
        }
        if (early)
            assert_true(failed >= 1);
        all_sum(12, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_does_not_enter_is_named_and_fails_when_it_comes),
        cmocka_unit_test(a_rank_that_fails_often_ahead_of_the_others_stays_in_step),
        cmocka_unit_test(the_next_use_never_takes_data_of_a_failed_one),
        cmocka_unit_test(calls_that_differ_are_shown_side_by_side),
        cmocka_unit_test(a_receive_of_another_length_fails_and_the_next_one_works),
        cmocka_unit_test(a_rank_sends_to_itself),
        cmocka_unit_test(a_send_to_oneself_fails_with_its_receive),
        cmocka_unit_test(cancelling_ends_it_on_every_rank),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}
