/* test_join.c - all of several futures, the first of them, and promises. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "support/future_room.h"

static void make(struct room *room, tc_future **futures, size_t n)
{
    for (size_t i = 0; i < n; i++)
        futures[i] = tc_promise_create(room->context);
}

static void settle(struct room *room, tc_future *promise, tc_status_t status)
{
    assert_int_equal(tc_promise_settle(promise, status), TC_OK);
    fake_exec_run(&room->fake);
}

static void release(tc_future **futures, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tc_future_release(futures[i]);
}

/* ---- All ------------------------------------------------------------------------------------ */

static void all_of_none_is_done(void **state)
{
    struct room *room = *state;
    tc_future *all = tc_future_all(room->context, NULL, 0);

    assert_int_equal(tc_future_test(all), TC_OK);
    tc_future_release(all);
}

static void all_is_done_when_the_last_is(void **state)
{
    struct room *room = *state;
    tc_future *futures[3], *all;

    make(room, futures, 3);
    settle(room, futures[2], TC_OK);
    all = tc_future_all(room->context, futures, 3);
    settle(room, futures[0], TC_OK);
    assert_int_equal(tc_future_test(all), TC_PENDING);
    settle(room, futures[1], TC_OK);

    assert_int_equal(tc_future_test(all), TC_OK);
    release(futures, 3);
    tc_future_release(all);
}

static void all_has_the_error_of_the_first_that_failed(void **state)
{
    struct room *room = *state;
    tc_future *futures[3], *all;

    make(room, futures, 3);
    all = tc_future_all(room->context, futures, 3);
    settle(room, futures[2], TC_ERR_PEER_LOST);
    settle(room, futures[0], TC_ERR_TIMEOUT);
    assert_int_equal(tc_future_test(all), TC_PENDING); /* it waits for all of them */
    settle(room, futures[1], TC_OK);

    assert_int_equal(tc_future_test(all), TC_ERR_PEER_LOST);
    assert_string_equal(tc_future_error(all)->message, tc_future_error(futures[2])->message);
    release(futures, 3);
    tc_future_release(all);
}

static void all_keeps_its_futures_and_may_be_released(void **state)
{
    struct room *room = *state;
    tc_future *futures[2], *all;

    make(room, futures, 2);
    all = tc_future_all(room->context, futures, 2);
    settle(room, futures[0], TC_OK);
    tc_future_release(futures[0]);
    tc_future_release(all);
    settle(room, futures[1], TC_OK);

    tc_future_release(futures[1]);
}

static void the_same_future_twice_is_two(void **state)
{
    struct room *room = *state;
    tc_future *futures[2], *all;

    make(room, futures, 1);
    futures[1] = tc_future_ref(futures[0]);
    all = tc_future_all(room->context, futures, 2);
    settle(room, futures[0], TC_OK);

    assert_int_equal(tc_future_test(all), TC_OK);
    release(futures, 2);
    tc_future_release(all);
}

static void cancelling_all_cancels_each(void **state)
{
    struct room *room = *state;
    tc_future *futures[3], *all;

    make(room, futures, 3);
    all = tc_future_all(room->context, futures, 3);
    settle(room, futures[1], TC_OK);
    tc_future_release(futures[1]);
    tc_future_cancel(all);
    fake_exec_run(&room->fake);

    assert_int_equal(tc_future_test(all), TC_ERR_CANCELLED);
    assert_int_equal(tc_future_test(futures[0]), TC_ERR_CANCELLED);
    assert_int_equal(tc_future_test(futures[2]), TC_ERR_CANCELLED);
    tc_future_release(futures[0]);
    tc_future_release(futures[2]);
    tc_future_release(all);
}

/* ---- Any ------------------------------------------------------------------------------------ */

static void any_has_the_outcome_of_the_first(void **state)
{
    struct room *room = *state;
    tc_future *futures[3], *any;

    make(room, futures, 3);
    any = tc_future_any(room->context, futures, 3);
    assert_int_equal(tc_future_test(any), TC_PENDING);
    settle(room, futures[1], TC_ERR_BUSY);
    assert_int_equal(tc_future_test(any), TC_ERR_BUSY);
    assert_int_equal(tc_future_test(futures[0]), TC_PENDING);
    tc_future_release(any);
    settle(room, futures[0], TC_OK);
    settle(room, futures[2], TC_OK);

    release(futures, 3);
}

static void cancelling_any_cancels_each(void **state)
{
    struct room *room = *state;
    tc_future *futures[2], *any;

    make(room, futures, 2);
    any = tc_future_any(room->context, futures, 2);
    tc_future_cancel(any);
    fake_exec_run(&room->fake);

    assert_int_equal(tc_future_test(any), TC_ERR_CANCELLED);
    assert_int_equal(tc_future_test(futures[1]), TC_ERR_CANCELLED);
    release(futures, 2);
    tc_future_release(any);
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

static void expect_failed(tc_future *future, tc_status_t status)
{
    assert_int_equal(tc_future_test(future), status);
    tc_future_release(future);
}

static void mistakes_are_failed_futures(void **state)
{
    struct room *room = *state, elsewhere;
    tc_future *futures[2] = {NULL, NULL};

    room_init(&elsewhere);
    make(room, futures, 1);
    expect_failed(tc_future_all(room->context, futures, 2), TC_ERR_INVALID_ARG);
    expect_failed(tc_future_any(room->context, futures, 2), TC_ERR_INVALID_ARG);
    expect_failed(tc_future_all(room->context, NULL, 2), TC_ERR_INVALID_ARG);
    expect_failed(tc_future_any(room->context, NULL, 0), TC_ERR_INVALID_ARG);
    expect_failed(tc_future_all(NULL, futures, 1), TC_ERR_INVALID_ARG);
    make(&elsewhere, futures + 1, 1);
    expect_failed(tc_future_all(room->context, futures, 2), TC_ERR_INVALID_ARG);

    release(futures, 2);
    room_fini(&elsewhere);
}

static void futures_without_a_context_have_failed_in_a_list_too(void **state)
{
    struct room *room = *state;
    tc_future *futures[2], *all, *any;

    futures[0] = tc_promise_create(NULL);
    make(room, futures + 1, 1);
    all = tc_future_all(room->context, futures, 2);
    any = tc_future_any(room->context, futures, 2);
    assert_int_equal(tc_future_test(any), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_future_test(all), TC_PENDING);
    settle(room, futures[1], TC_OK);

    assert_int_equal(tc_future_test(all), TC_ERR_INVALID_ARG);
    expect_failed(tc_future_all(room->context, futures, 1), TC_ERR_INVALID_ARG);
    release(futures, 2);
    tc_future_release(all);
    tc_future_release(any);
}

static void every_lack_of_memory_is_a_failed_future(void **state)
{
    struct room *room = *state;
    tc_future *futures[2];
    tc_status_t status = TC_ERR_ALLOC;

    make(room, futures, 2);
    for (uint64_t n = 1; status == TC_ERR_ALLOC; n++) {
        tc_future *all;

        assert_in_range(n, 1, 10);
        tci_alloc_fail_at(n, 1);
        all = tc_future_all(room->context, futures, 2);
        tci_alloc_fail_at(0, 0);
        status = tc_future_test(all);
        tc_future_release(all);
    }

    assert_int_equal(status, TC_PENDING);
    settle(room, futures[0], TC_OK);
    settle(room, futures[1], TC_OK);
    release(futures, 2);
}

/* ---- Promises ------------------------------------------------------------------------------- */

static void the_first_settling_of_a_promise_counts(void **state)
{
    struct room *room = *state;
    tc_future *promise = tc_promise_create(room->context);

    assert_int_equal(tc_promise_settle(promise, TC_PENDING), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_promise_settle(promise, TC_ERR_DISPATCH), TC_OK);
    assert_int_equal(tc_promise_settle(promise, TC_OK), TC_ERR_INVALID_ARG);
    tc_future_cancel(promise);
    assert_int_equal(tc_future_test(promise), TC_PENDING); /* the loop settles */
    fake_exec_run(&room->fake);

    assert_int_equal(tc_future_test(promise), TC_ERR_DISPATCH);
    assert_string_equal(tc_future_error(promise)->message,
                        "the application settled it with dispatch");
    tc_future_release(promise);
}

static void only_promises_are_settled_by_the_application(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);

    assert_int_equal(tc_promise_settle(future, TC_OK), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_promise_settle(NULL, TC_OK), TC_ERR_INVALID_ARG);
    room_settle(future, TC_OK, NULL);
    tc_future_release(future);
}

static void a_promise_may_be_released_once_it_is_decided(void **state)
{
    struct room *room = *state;
    tc_future *promise = tc_promise_create(room->context);

    tc_future_then(promise, room_note, NOTE("a"));
    tc_promise_settle(promise, TC_OK);
    tc_future_release(promise);
    fake_exec_run(&room->fake);

    assert_string_equal(room_notes, "a");
}

static void a_promise_may_be_dropped(void **state)
{
    struct room *room = *state;

    tc_future_release(tc_promise_create(room->context));

    assert_null(room->context->promises);
}

static void cancelling_settles_a_promise(void **state)
{
    struct room *room = *state;
    tc_future *promise = tc_promise_create(room->context);

    tc_future_cancel(promise);
    fake_exec_run(&room->fake);

    assert_int_equal(tc_future_test(promise), TC_ERR_CANCELLED);
    assert_int_equal(tc_promise_settle(promise, TC_OK), TC_ERR_INVALID_ARG);
    tc_future_release(promise);
}

static void close_all(struct tci_task *task)
{
    struct room *room = tci_container_of(task, struct room, closing);

    tci_promise_close_all(room->context);
}

static void the_end_of_a_context_closes_what_is_undecided(void **state)
{
    struct room *room = *state;
    tc_future *futures[3], *all;

    make(room, futures, 3);
    all = tc_future_all(room->context, futures, 3);
    tc_promise_settle(futures[1], TC_OK);
    room->closing.fn = close_all;
    fake_exec_only(&room->fake, &room->closing);
    fake_exec_run(&room->fake);

    assert_int_equal(tc_future_test(futures[0]), TC_ERR_CLOSED);
    assert_int_equal(tc_future_test(futures[1]), TC_OK);
    assert_int_equal(tc_future_test(futures[2]), TC_ERR_CLOSED);
    assert_int_equal(tc_future_test(all), TC_ERR_CLOSED);
    release(futures, 3);
    tc_future_release(all);
}

#define IN_ROOM(test) cmocka_unit_test_setup_teardown(test, room_enter, room_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(all_of_none_is_done),
        IN_ROOM(all_is_done_when_the_last_is),
        IN_ROOM(all_has_the_error_of_the_first_that_failed),
        IN_ROOM(all_keeps_its_futures_and_may_be_released),
        IN_ROOM(the_same_future_twice_is_two),
        IN_ROOM(cancelling_all_cancels_each),
        IN_ROOM(any_has_the_outcome_of_the_first),
        IN_ROOM(cancelling_any_cancels_each),
        IN_ROOM(mistakes_are_failed_futures),
        IN_ROOM(futures_without_a_context_have_failed_in_a_list_too),
        IN_ROOM(every_lack_of_memory_is_a_failed_future),
        IN_ROOM(the_first_settling_of_a_promise_counts),
        IN_ROOM(only_promises_are_settled_by_the_application),
        IN_ROOM(a_promise_may_be_released_once_it_is_decided),
        IN_ROOM(a_promise_may_be_dropped),
        IN_ROOM(cancelling_settles_a_promise),
        IN_ROOM(the_end_of_a_context_closes_what_is_undecided),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
