/* test_ending.c - tags, waiting, closing: operations and groups that end before their time. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, also tcp, waits, long */
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
#include "support/world.h"

enum { LARGE = 600000 };

static struct world world;
static float data[WORLD_MAX][LARGE];
static uint64_t live_before;

static void open_world(int size)
{
    live_before = tci_alloc_live();
    world_open(&world, size, NULL);
}

static void close_world(void)
{
    world_close(&world);
    assert_int_equal(tci_alloc_live(), live_before);
}

static tc_options defaults(void)
{
    tc_options options;

    tc_options_default(&options);
    return options;
}

static tc_future *sum(int rank, uint64_t tag, size_t count, const tc_options *options)
{
    return tc_allreduce_async(world.group[rank], tag, data[rank], data[rank], count, TC_DTYPE_F32,
                              TC_REDUCE_SUM, options);
}

static void settles(tc_future *future, tc_status_t status, int rank, const char *says)
{
    tc_status_t got = world_wait(&world, future);
    const tc_error *error = tc_future_error(future);

    if (got != status || (status != TC_OK && error->rank != rank) ||
        (says != NULL && strstr(error->message, says) == NULL))
        fail_msg("expected %s of rank %d, got %s: rank %d, %s", tc_status_string(status), rank,
                 tc_status_string(got), error == NULL ? -9 : error->rank,
                 error == NULL ? "no error" : error->message);
    tc_future_release(future);
}

/* ---- tags ---------------------------------------------------------------------------------- */

static void a_reserved_tag_is_refused_at_once(void **state)
{
    static const uint64_t tags[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63};

    (void)state;
    open_world(2);
    for (size_t t = 0; t < TCI_LEN(tags); t++) {
        tc_future *first = sum(0, tags[t], 10, NULL), *second = sum(0, tags[t], 10, NULL);
        assert_int_equal(tc_future_test(second), TC_ERR_BUSY);
        settles(second, TC_ERR_BUSY, -1, "still reserved");
        assert_int_equal(tc_tag_release(world.group[0], tags[t]), TC_ERR_BUSY);
        settles(sum(1, tags[t], 10, NULL), TC_OK, 0, NULL);
        settles(first, TC_OK, 0, NULL);
        assert_int_equal(tc_tag_release(world.group[0], tags[t]), TC_ERR_INVALID_ARG);
        assert_int_equal(tc_last_error()->status, TC_ERR_INVALID_ARG);
    }
    assert_int_equal(tc_tag_release(world.group[0], 4711), TC_ERR_INVALID_ARG);
    close_world();
}

static void a_tag_that_is_kept_is_released_by_hand(void **state)
{
    tc_options keep = defaults();

    (void)state;
    keep.auto_release = false;
    open_world(2);
    for (int i = 0; i < 20; i++) {
        tc_future *ordered[2];
        tc_future *futures[2] = {sum(0, 8, 10, &keep), sum(1, 8, 10, &keep)};
        for (int r = 0; r < 2; r++)
            ordered[r] = sum(r, TC_TAG_ORDERED, 10, &keep);
        for (int r = 0; r < 2; r++)
            settles(futures[r], TC_OK, 0, NULL);
        for (int r = 0; r < 2; r++) {
            settles(sum(r, 8, 10, &keep), TC_ERR_BUSY, -1, "release it");
            assert_int_equal(tc_tag_release(world.group[r], 8), TC_OK);
            assert_int_equal(tc_tag_release(world.group[r], 8), TC_ERR_INVALID_ARG);
            settles(ordered[r], TC_OK, 0, NULL);
        }
    }
    close_world();
}

static void a_kept_tag_of_a_failed_call_is_released_too(void **state)
{
    tc_options keep = defaults();

    (void)state;
    keep.auto_release = false;
    open_world(2);
    for (int i = 0; i < 5; i++) {
        tc_future *future = sum(0, 8, 10, &keep);
        tc_future_cancel(future);
        settles(future, TC_ERR_CANCELLED, 0, NULL);
        assert_int_equal(tc_tag_release(world.group[0], 8), TC_OK);
        tc_future *other = sum(1, 8, 10, &keep);
        if (world_wait(&world, other) != TC_OK) /* rank 0's data may have come first */
            assert_int_equal(tc_future_error(other)->rank, 0);
        tc_future_release(other);
        assert_int_equal(tc_tag_release(world.group[1], 8), TC_OK);
    }
    close_world();
}

/* ---- waiting for futures ------------------------------------------------------------------- */

static void a_call_fails_on_every_rank_when_what_it_waits_for_fails(void **state)
{
    tc_options behind = defaults();

    (void)state;
    open_world(3);
    for (int i = 0; i < 10; i++) {
        tc_future *promise = tc_promise_create(world.context[1]), *futures[3];
        behind.after = &promise;
        behind.n_after = 1;
        for (int r = 0; r < 3; r++)
            futures[r] = sum(r, 3, 10, r == 1 ? &behind : NULL);
        if (i % 2 == 0)
            assert_int_equal(tc_promise_settle(promise, TC_ERR_PIPELINE), TC_OK);
        else
            tc_future_cancel(promise);
        for (int r = 0; r < 3; r++)
            settles(futures[r], i % 2 == 0 ? TC_ERR_PIPELINE : TC_ERR_CANCELLED, 1,
                    "a future that it was to start after failed on rank 1");
        tc_future_release(promise);
    }
    close_world();
}

static void a_waiting_call_can_be_cancelled_and_left(void **state)
{
    tc_options behind = defaults();
    tc_future *promises[2], *futures[2];

    (void)state;
    open_world(2);
    for (int i = 0; i < 3; i++) {
        promises[i % 2] = tc_promise_create(world.context[0]);
        behind.after = promises + i % 2;
        behind.n_after = 1;
        for (int r = 0; r < 2; r++)
            futures[r] = sum(r, 3, 10, r == 0 ? &behind : NULL);
        tc_future_cancel(futures[0]);
        for (int r = 0; r < 2; r++)
            settles(futures[r], TC_ERR_CANCELLED, 0, NULL);
        if (i < 1) { /* the others are never settled: nobody waits for them any more */
            assert_int_equal(tc_promise_settle(promises[i], TC_OK), TC_OK);
            tc_future_release(promises[i]);
        }
    }
    world_close(&world);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tc_future_test(promises[i]), TC_ERR_CLOSED);
        tc_future_release(promises[i]);
    }
    assert_int_equal(tci_alloc_live(), live_before);
}

static void a_call_behind_a_failed_start_or_a_strange_future_does_not_crash(void **state)
{
    tc_options behind = defaults();
    tc_future *strange = tc_promise_create(NULL), *other, *busy[2];

    (void)state;
    open_world(2);
    behind.after = &strange;
    behind.n_after = 1;
    settles(sum(0, 3, 10, &behind), TC_ERR_INVALID_ARG, -1, "another context");
    other = tc_promise_create(world.context[1]);
    behind.after = &other;
    settles(sum(0, 3, 10, &behind), TC_ERR_INVALID_ARG, -1, "another context");
    busy[0] = sum(0, 3, 10, NULL);
    busy[1] = sum(0, 3, 10, NULL);
    behind.after = &busy[1];
    settles(sum(0, 4, 10, &behind), TC_ERR_BUSY, 0, NULL);
    settles(sum(1, 4, 10, NULL), TC_ERR_BUSY, 0, NULL);
    settles(sum(1, 3, 10, NULL), TC_OK, 0, NULL);
    settles(busy[0], TC_OK, 0, NULL);
    tc_future_release(busy[1]);
    tc_future_release(other);
    close_world();
}

/* ---- closing ------------------------------------------------------------------------------- */

static void closing_a_group_fails_what_is_pending_here_and_there(void **state)
{
    (void)state;
    for (int closer = 0; closer < 3; closer++) {
        tc_future *futures[3][6];
        int lost;
        open_world(3);
        for (int r = 0; r < 3; r++)
            for (int i = 0; i < 6; i++) /* the last rank is missing in each */
                futures[r][i] = i % 3 == r ? NULL : sum(r, (uint64_t)i, i < 3 ? 10 : LARGE, NULL);
        assert_int_equal(tc_dist_close(world.group[closer]), TC_OK);
        world.group[closer] = NULL;
        for (int r = 0; r < 3; r++)
            for (int i = 0; i < 6; i++)
                if (futures[r][i] != NULL)
                    settles(futures[r][i], r == closer ? TC_ERR_CLOSED : TC_ERR_PEER_LOST, closer,
                            NULL);
        for (int r = 0; r < 3; r++) {
            if (r == closer)
                continue;
            assert_int_equal(tc_dist_health(world.group[r], &lost), TC_ERR_PEER_LOST);
            assert_int_equal(lost, closer);
            tc_future *after = sum(r, 99, 10, NULL);
            settles(after, TC_ERR_PEER_LOST, closer, NULL);
            assert_int_equal(tc_dist_finalize(world.group[r]), TC_ERR_PEER_LOST);
            assert_int_equal(tc_last_error()->rank, closer);
            world.group[r] = NULL;
        }
        close_world();
    }
}

/* Its finalization has waited for as long as its context waits, the others wait longer. */
static void a_rank_that_waits_no_longer_has_finalized_not_crashed(void **state)
{
    tc_options patient = defaults();
    tc_future *futures[3], *left;
    tc_config config;

    (void)state;
    patient.timeout_ms = 60000;
    tc_config_default(&config);
    config.timeout_ms = 300;
    live_before = tci_alloc_live();
    world_open(&world, 3, &config);
    for (int r = 1; r < 3; r++)
        futures[r] = sum(r, 5, LARGE, &patient);
    left = tc_dist_finalize_async(world.group[0]);
    world.group[0] = NULL;
    settles(left, TC_ERR_TIMEOUT, 0, "in allreduce, tag 5, which rank 0 has not entered");
    for (int r = 1; r < 3; r++)
        settles(futures[r], TC_ERR_PEER_LOST, 0, "rank 0 has finalized its group, and waits no");
    close_world();
}

/* All finalize, and one has skipped a call, which the others wait in for longer than it does. */
static void skip_and_finalize(int skipper, int timeout_ms)
{
    tc_options options = defaults();
    tc_future *futures[3] = {NULL}, *left[3];
    tc_config config;

    options.timeout_ms = timeout_ms;
    tc_config_default(&config);
    config.timeout_ms = 300;
    live_before = tci_alloc_live();
    world_open(&world, 3, &config);
    for (int r = 0; r < 3; r++) {
        if (r != skipper)
            futures[r] = sum(r, 77, 10, &options);
        left[r] = tc_dist_finalize_async(world.group[r]);
        world.group[r] = NULL;
    }
    for (int r = 0; r < 3; r++) {
        tc_status_t status = world_wait(&world, left[r]);

        if (status != TC_OK && tc_future_error(left[r])->rank != skipper)
            fail_msg("rank %d, without rank %d: %s", r, skipper, tc_future_error(left[r])->message);
        if (status == TC_OK)
            assert_int_equal(timeout_ms, config.timeout_ms); /* both ends come at a time */
        else if (timeout_ms != config.timeout_ms)
            assert_non_null(strstr(tc_future_error(left[r])->message, "in allreduce, tag 77, "));
        tc_future_release(left[r]);
    }
    for (int r = 0; r < 3; r++)
        if (r != skipper) {
            (void)world_wait(&world, futures[r]);
            assert_int_equal(tc_future_error(futures[r])->rank, skipper);
            tc_future_release(futures[r]);
        }
    close_world();
}

static void who_has_skipped_a_call_is_named_by_all_that_finalize(void **state)
{
    (void)state;
    for (int skipper = 0; skipper < 3; skipper++) {
        skip_and_finalize(skipper, 60000);
        for (int i = 0; i < 5; i++)
            skip_and_finalize(skipper, 300);
    }
}

/* One finalizes while the others are not about to: it is the one that is gone, and they go on. */
static void who_has_not_come_to_the_end_is_not_lost_by_that(void **state)
{
    (void)state;
    for (int leaver = 0; leaver < 3; leaver++) {
        tc_future *left, *shrunk[3];
        tc_dist_ctx *next[3] = {NULL};
        tc_config config;

        tc_config_default(&config);
        config.timeout_ms = 1500; /* the others have to agree in it, too */
        live_before = tci_alloc_live();
        world_open(&world, 3, &config);
        left = tc_dist_finalize_async(world.group[leaver]);
        world.group[leaver] = NULL;
        settles(left, TC_ERR_TIMEOUT, leaver == 0 ? 1 : 0, "has not entered it");
        for (int r = 0; r < 3; r++)
            if (r != leaver)
                settles(sum(r, 5, 10, NULL), TC_ERR_PEER_LOST, leaver, "has finalized its group");
        for (int r = 0; r < 3; r++)
            if (r != leaver)
                shrunk[r] = tc_dist_shrink_async(world.group[r], &next[r]);
        for (int r = 0; r < 3; r++) {
            if (r == leaver)
                continue;
            settles(shrunk[r], TC_OK, 0, NULL);
            assert_int_equal(tc_dist_world_size(next[r]), 2);
            assert_int_equal(tc_dist_close(world.group[r]), TC_OK);
            world.group[r] = next[r];
        }
        close_world();
    }
}

static void a_call_that_a_finalized_rank_never_enters_says_so(void **state)
{
    tc_options options = defaults();
    tc_future *futures[2], *left[3];

    (void)state;
    options.timeout_ms = 2000;
    open_world(3);
    left[2] = tc_dist_finalize_async(world.group[2]);
    for (int r = 0; r < 2; r++)
        futures[r] = sum(r, 5, 10, &options);
    for (int r = 0; r < 2; r++)
        settles(futures[r], TC_ERR_TIMEOUT, 2, "it has finalized the group");
    for (int r = 0; r < 2; r++) /* the others come, and it ends in order */
        left[r] = tc_dist_finalize_async(world.group[r]);
    for (int r = 0; r < 3; r++) {
        settles(left[r], TC_OK, 0, NULL);
        world.group[r] = NULL;
    }
    close_world();
}

/* The news comes by the network: there is no future to wait for. */
static void knows_of_a_loss(int rank)
{
    for (int ms = 0; tc_dist_health(world.group[rank], NULL) == TC_OK; ms++) {
        assert_true(ms < 10000);
        usleep(1000);
    }
}

static void futures_outlive_a_shutdown_under_way(void **state)
{
    tc_future *futures[2][4], *promise, *all;

    (void)state;
    open_world(2);
    for (int i = 0; i < 4; i++)
        futures[0][i] = sum(0, (uint64_t)i, i < 2 ? 10 : LARGE, NULL);
    promise = tc_promise_create(world.context[0]);
    tc_options behind = defaults();
    behind.after = &promise;
    behind.n_after = 1;
    tc_future *waiting = sum(0, 50, 10, &behind);
    all = tc_future_all(world.context[0], futures[0], 4);
    assert_int_equal(tc_shutdown(world.context[0]), TC_OK);
    world.context[0] = NULL;
    world.group[0] = NULL;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tc_future_test(futures[0][i]), TC_ERR_CLOSED);
        assert_non_null(strstr(tc_future_error(futures[0][i])->message, "closed the group"));
        tc_future_cancel(futures[0][i]);
        tc_future_release(futures[0][i]);
    }
    assert_int_equal(tc_future_test(promise), TC_ERR_CLOSED);
    assert_int_equal(tc_future_test(waiting), TC_ERR_CLOSED);
    assert_int_equal(tc_future_test(all), TC_ERR_CLOSED);
    tc_future_release(promise);
    tc_future_release(waiting);
    tc_future_release(all);
    knows_of_a_loss(1); /* before that it may well finish with what it got from rank 0 */
    settles(sum(1, 0, 10, NULL), TC_ERR_PEER_LOST, 0, NULL);
    close_world();
}

static void a_shutdown_ends_a_rendezvous(void **state)
{
    tc_dist_options options;
    tc_context *context;
    tc_dist_ctx *group = NULL;
    char url[64];

    (void)state;
    live_before = tci_alloc_live();
    for (int early = 0; early < 2; early++) {
        assert_int_equal(tc_init(&context), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = 2;
        options.listen_fd = world_listen(url, sizeof(url));
        options.rendezvous_url = url;
        tc_future *future = tc_dist_init_async(context, &options, &group);
        if (early == 0)
            assert_int_equal(tc_future_wait(future, 30), TC_PENDING);
        assert_int_equal(tc_shutdown(context), TC_OK);
        assert_int_equal(tc_future_test(future), TC_ERR_CLOSED);
        assert_null(group);
        tc_future_release(future);
    }
    assert_int_equal(tci_alloc_live(), live_before);
}

static void a_group_of_one_sends_to_itself_and_ends_what_is_left(void **state)
{
    (void)state;
    open_world(1);
    data[0][0] = 7.0f;
    tc_future *send = tc_send_async(world.group[0], 1, data[0], LARGE, TC_DTYPE_F32, 0, NULL);
    tc_future *recv = tc_recv_async(world.group[0], 1, data[1], LARGE, TC_DTYPE_F32, 0, NULL);
    settles(send, TC_OK, 0, NULL);
    settles(recv, TC_OK, 0, NULL);
    assert_true(data[1][0] == 7.0f);
    recv = tc_recv_async(world.group[0], 1, data[1], LARGE, TC_DTYPE_F32, 0, NULL);
    assert_int_equal(tc_dist_close(world.group[0]), TC_OK);
    world.group[0] = NULL;
    settles(recv, TC_ERR_CLOSED, 0, NULL);
    close_world();
}

/* ---- loops that do not turn ---------------------------------------------------------------- */

static void a_rank_whose_loop_does_not_turn_does_not_answer(void **state)
{
    tc_options options = defaults();
    tc_config manual;

    (void)state;
    options.timeout_ms = 2000;
    tc_config_default(&manual);
    manual.loop_mode = TC_LOOP_MANUAL;
    live_before = tci_alloc_live();
    for (int still = 0; still < 3; still++) {
        tc_future *futures[3];
        world_open(&world, 3, &manual);
        for (int r = 0; r < 3; r++)
            futures[r] = sum(r, 7, LARGE, &options); /* entered by all, as far as they can tell */
        for (int r = 0; r < 3; r++)
            while (r != still && tc_future_test(futures[r]) == TC_PENDING)
                for (int k = 0; k < 3; k++)
                    if (k != still)
                        assert_int_equal(tc_poll(world.context[k], 1), TC_OK);
        for (int r = 0; r < 3; r++)
            if (r != still)
                settles(futures[r], TC_ERR_TIMEOUT, still, "does not answer");
        settles(futures[still], TC_ERR_TIMEOUT, still, NULL);
        close_world();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reserved_tag_is_refused_at_once),
        cmocka_unit_test(a_tag_that_is_kept_is_released_by_hand),
        cmocka_unit_test(a_kept_tag_of_a_failed_call_is_released_too),
        cmocka_unit_test(a_call_fails_on_every_rank_when_what_it_waits_for_fails),
        cmocka_unit_test(a_waiting_call_can_be_cancelled_and_left),
        cmocka_unit_test(a_call_behind_a_failed_start_or_a_strange_future_does_not_crash),
        cmocka_unit_test(closing_a_group_fails_what_is_pending_here_and_there),
        cmocka_unit_test(a_rank_that_waits_no_longer_has_finalized_not_crashed),
        cmocka_unit_test(who_has_skipped_a_call_is_named_by_all_that_finalize),
        cmocka_unit_test(who_has_not_come_to_the_end_is_not_lost_by_that),
        cmocka_unit_test(a_call_that_a_finalized_rank_never_enters_says_so),
        cmocka_unit_test(futures_outlive_a_shutdown_under_way),
        cmocka_unit_test(a_shutdown_ends_a_rendezvous),
        cmocka_unit_test(a_group_of_one_sends_to_itself_and_ends_what_is_left),
        cmocka_unit_test(a_rank_whose_loop_does_not_turn_does_not_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
