/* test_reasons.c - an error says of what class the fault of its rank is. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 200, waits, long */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/world.h"

enum { RANKS = 3, SHORT_MS = 1000 };

static struct world world;

static tc_future *meet(int rank, uint64_t tag, int timeout_ms)
{
    tc_options options;

    tc_options_default(&options);
    options.timeout_ms = timeout_ms;
    return tc_barrier_async(world.group[rank], tag, &options);
}

/* It has failed, or will, so; gives it back. */
static void fails(tc_future *future, tc_status_t status, int rank, tc_reason_t reason)
{
    const tc_error *error;

    assert_int_equal(world_wait(&world, future), status);
    error = tc_future_error(future);
    if (error->rank != rank || tc_error_reason(error) != reason)
        fail_msg("rank %d, %s: %s", error->rank, tc_reason_string(tc_error_reason(error)),
                 error->message);
    tc_future_release(future);
}

static void who_does_not_come_has_never_started(void **state)
{
    tc_dist_options options;
    tc_context *context;
    tc_dist_ctx *group;
    tc_future *joined;
    char url[64];

    (void)state;
    tc_dist_options_default(&options);
    options.listen_fd = world_listen(url, sizeof(url));
    options.world_size = 2;
    options.rendezvous_url = url;
    options.timeout_ms = 200;
    assert_int_equal(tc_init(&context), TC_OK);
    joined = tc_dist_init_async(context, &options, &group);
    fails(joined, TC_ERR_TIMEOUT, 1, TC_REASON_NEVER_STARTED);
    assert_int_equal(tc_shutdown(context), TC_OK);
}

/* What the others have ruled comes before what they say after it. */
static void hear_others(int rank)
{
    tc_future *futures[2 * RANKS];
    int32_t said = 1, heard[RANKS];
    int count = 0;

    for (int r = 0; r < RANKS; r++)
        if (r != rank) {
            futures[count++] =
                tc_recv_async(world.group[rank], 6, &heard[r], 1, TC_DTYPE_I32, r, NULL);
            futures[count++] = tc_send_async(world.group[r], 6, &said, 1, TC_DTYPE_I32, rank, NULL);
        }
    for (int i = 0; i < count; i++) {
        assert_int_equal(world_wait(&world, futures[i]), TC_OK);
        tc_future_release(futures[i]);
    }
}

static void who_is_elsewhere_has_not_entered(void **state)
{
    tc_future *futures[RANKS];

    (void)state;
    world_open(&world, RANKS, NULL);
    for (int absent = 0; absent < RANKS; absent++) {
        for (int r = 0; r < RANKS; r++)
            if (r != absent)
                futures[r] = meet(r, 7, SHORT_MS);
        for (int r = 0; r < RANKS; r++)
            if (r != absent)
                fails(futures[r], TC_ERR_TIMEOUT, absent, TC_REASON_NOT_ENTERED);
        hear_others(absent);
        fails(meet(absent, 7, -1), TC_ERR_TIMEOUT, absent, TC_REASON_NOT_ENTERED);
    }
    world_close(&world);
}

struct stuck {
    sem_t entered, may_go_on;
};

static void block(tc_future *future, void *arg)
{
    struct stuck *stuck = arg;

    (void)future;
    sem_post(&stuck->entered);
    while (sem_wait(&stuck->may_go_on) != 0)
        ;
}

/* Its host answers; when it goes on, so does the group. */
static void a_loop_stuck_in_a_continuation_is_stalled(void **state)
{
    (void)state;
    world_open(&world, RANKS, NULL);
    for (int who = 0; who < RANKS; who++) {
        tc_future *promise = tc_promise_create(world.context[who]), *futures[RANKS];
        struct stuck stuck;

        sem_init(&stuck.entered, 0, 0);
        sem_init(&stuck.may_go_on, 0, 0);
        assert_int_equal(tc_future_then(promise, block, &stuck), TC_OK);
        assert_int_equal(tc_promise_settle(promise, TC_OK), TC_OK);
        while (sem_wait(&stuck.entered) != 0)
            ;
        for (int r = 0; r < RANKS; r++)
            futures[r] = meet(r, 8, r == who ? -1 : 4 * SHORT_MS);
        for (int r = 0; r < RANKS; r++)
            if (r != who)
                fails(futures[r], TC_ERR_TIMEOUT, who, TC_REASON_LOOP_STALLED);
        sem_post(&stuck.may_go_on);
        (void)world_wait(&world, futures[who]);
        tc_future_release(futures[who]);
        tc_future_release(promise);
        for (int r = 0; r < RANKS; r++)
            futures[r] = meet(r, 9, -1);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(world_wait(&world, futures[r]), TC_OK);
            tc_future_release(futures[r]);
        }
        sem_destroy(&stuck.entered);
        sem_destroy(&stuck.may_go_on);
    }
    world_close(&world);
}

static void who_closes_its_group_has_exited(void **state)
{
    tc_future *futures[RANKS];
    int lost = -1;

    (void)state;
    for (int who = 0; who < RANKS; who++) {
        world_open(&world, RANKS, NULL);
        for (int r = 0; r < RANKS; r++)
            if (r != who)
                futures[r] = meet(r, 7, -1);
        assert_int_equal(tc_dist_close(world.group[who]), TC_OK);
        world.group[who] = NULL;
        for (int r = 0; r < RANKS; r++)
            if (r != who) {
                fails(futures[r], TC_ERR_PEER_LOST, who, TC_REASON_EXITED);
                assert_int_equal(tc_dist_health(world.group[r], &lost), TC_ERR_PEER_LOST);
                assert_int_equal(lost, who);
                assert_int_equal(tc_error_reason(tc_last_error()), TC_REASON_EXITED);
            }
        world_close(&world);
    }
}

/* Another rank is lost after the first; what comes then still names that one. */
static void the_first_loss_stays_the_error_of_the_group(void **state)
{
    int lost = -1;

    (void)state;
    for (int first = 0; first < RANKS; first++) {
        int second = (first + 1) % RANKS, here = (first + 2) % RANKS;
        tc_future *waits;

        world_open(&world, RANKS, NULL);
        waits = meet(here, 7, -1);
        assert_int_equal(tc_dist_close(world.group[first]), TC_OK);
        world.group[first] = NULL;
        fails(waits, TC_ERR_PEER_LOST, first, TC_REASON_EXITED);
        assert_int_equal(tc_dist_close(world.group[second]), TC_OK);
        world.group[second] = NULL;
        for (uint64_t tag = 8; tag < 200; tag++)
            fails(meet(here, tag, -1), TC_ERR_PEER_LOST, first, TC_REASON_EXITED);
        assert_int_equal(tc_dist_health(world.group[here], &lost), TC_ERR_PEER_LOST);
        assert_int_equal(lost, first);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_does_not_come_has_never_started),
        cmocka_unit_test(who_is_elsewhere_has_not_entered),
        cmocka_unit_test(a_loop_stuck_in_a_continuation_is_stalled),
        cmocka_unit_test(who_closes_its_group_has_exited),
        cmocka_unit_test(the_first_loss_stays_the_error_of_the_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
