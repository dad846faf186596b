/* test_future.c - futures that settle, chain and cancel, on a loop that turns when told. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/future_room.h"

static void settle(tc_future *future, tc_status_t status)
{
    room_settle(future, status, NULL);
}

/* ---- Outcome -------------------------------------------------------------------------------- */

static void a_new_future_is_pending(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);

    assert_int_equal(tc_future_test(future), TC_PENDING);
    assert_int_equal(tc_future_wait(future, 0), TC_PENDING);
    assert_null(tc_future_error(future));
    settle(future, TC_OK);
    tc_future_release(future);
}

static void a_settled_future_tells_its_outcome(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);
    struct tci_error error = {.pub = {.status = TC_OK}};

    tci_error_set(&error, TC_ERR_PEER_LOST, 3, 9, "allreduce", "rank 3 is lost");
    room_settle(future, TC_ERR_PEER_LOST, &error);

    assert_int_equal(tc_future_test(future), TC_ERR_PEER_LOST);
    assert_int_equal(tc_future_wait(future, -1), TC_ERR_PEER_LOST);
    assert_string_equal(tc_future_error(future)->message, "rank 3 is lost");
    assert_int_equal(tc_future_error(future)->rank, 3);
    assert_string_equal(tc_last_error()->message, "rank 3 is lost");
    tc_future_release(future);
}

static void a_failure_without_a_record_gets_one(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);

    settle(future, TC_ERR_TIMEOUT);

    assert_int_equal(tc_future_error(future)->status, TC_ERR_TIMEOUT);
    assert_string_equal(tc_future_error(future)->message, "timeout");
    tc_future_release(future);
}

static void settling_twice_ends_the_process(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        tci_future_settle(tc_future_ref(future), TC_OK, NULL);
        tci_future_settle(future, TC_OK, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);

    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    settle(future, TC_OK);
    tc_future_release(future);
}

static void the_caller_may_release_before_the_settling(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);

    tc_future_release(future);

    settle(future, TC_OK); /* leaks are seen when the room is left */
    tc_future_release(NULL);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

static void a_wait_ends_when_the_time_is_up(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);

    assert_int_equal(tc_future_wait(future, 250), TC_PENDING);

    assert_int_equal(atomic_load(&room->fake.now_ns), 250 * TCI_NS_PER_MS);
    settle(future, TC_OK);
    assert_int_equal(tc_future_wait(future, -1), TC_OK);
    tc_future_release(future);
}

static void a_wait_whose_deadline_overflows_has_none(void **state)
{
    struct room *room = *state;
    tc_future *promise = tc_promise_create(room->context);

    atomic_store(&room->fake.now_ns, TCI_NEVER - 5);
    tc_promise_settle(promise, TC_OK);

    assert_int_equal(tc_future_wait(promise, 1000), TC_OK);
    tc_future_release(promise);
}

static tc_future *other;

static void wait_inside(tc_future *future, void *arg)
{
    tc_status_t *seen = arg;

    seen[0] = tc_future_wait(future, -1);
    seen[1] = tc_future_wait(other, -1);
    seen[2] = tc_last_error() == NULL ? TC_OK : tc_last_error()->status;
    seen[3] = tc_future_wait(other, 0);
}

static void waiting_in_a_continuation_is_refused(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);
    tc_status_t seen[4];

    other = tci_future_new(room->context, NULL, NULL);
    tc_future_then(future, wait_inside, seen);
    settle(future, TC_OK);
    fake_exec_run(&room->fake);

    assert_int_equal(seen[0], TC_OK); /* it is settled */
    assert_int_equal(seen[1], TC_ERR_INVALID_ARG);
    assert_int_equal(seen[2], TC_ERR_INVALID_ARG);
    assert_int_equal(seen[3], TC_PENDING); /* a test is no wait */
    settle(other, TC_OK);
    tc_future_release(other);
    tc_future_release(future);
}

/* ---- Descriptor ----------------------------------------------------------------------------- */

static bool is_readable(int fd)
{
    struct pollfd watch = {.fd = fd, .events = POLLIN};

    return poll(&watch, 1, 0) == 1;
}

static void the_descriptor_is_readable_from_the_settling_on(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);
    int fd = tc_future_fd(future);

    assert_true(fd >= 0);
    assert_false(is_readable(fd));
    settle(future, TC_OK);

    assert_true(is_readable(fd));
    assert_int_equal(tc_future_fd(future), fd);
    tc_future_release(future);
}

static void the_descriptor_of_a_settled_future_is_readable(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);

    settle(future, TC_ERR_BUSY);

    assert_true(is_readable(tc_future_fd(future)));
    tc_future_release(future);
}

/* ---- Continuations -------------------------------------------------------------------------- */

static void continuations_run_on_the_loop_in_order(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);

    tc_future_then(future, room_note, NOTE("a"));
    tc_future_then(future, room_note, NOTE("b"));
    tc_future_then(future, room_note, NOTE("c"));
    settle(future, TC_OK);
    tc_future_then(future, room_note, NOTE("d"));
    tc_future_then(future, room_note, NOTE("e"));
    tc_future_release(future);
    assert_string_equal(room_notes, "");
    fake_exec_run(&room->fake);

    assert_string_equal(room_notes, "abcde");
    assert_int_equal(room->fake.user_runs, 5);
}

static void add_two(tc_future *future, void *arg)
{
    room_note(future, arg);
    tc_future_then(future, room_note, NOTE("1"));
    tc_future_then(future, room_note, NOTE("2"));
}

static void a_continuation_may_add_continuations(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);

    tc_future_then(future, add_two, NOTE("a"));
    tc_future_then(future, room_note, NOTE("b"));
    settle(future, TC_OK);
    tc_future_release(future);
    fake_exec_run(&room->fake);

    assert_string_equal(room_notes, "ab12");
}

static void one_continuation_needs_no_memory(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);

    tci_alloc_fail_at(1, 1);
    assert_int_equal(tc_future_then(future, room_note, NOTE("a")), TC_OK);
    assert_int_equal(tc_future_then(future, room_note, NOTE("b")), TC_ERR_ALLOC);
    settle(future, TC_OK);
    fake_exec_run(&room->fake);
    assert_int_equal(tc_future_then(future, room_note, NOTE("c")), TC_OK);
    tci_alloc_fail_at(0, 0);
    fake_exec_run(&room->fake);

    assert_string_equal(room_notes, "ac");
    tc_future_release(future);
}

static void a_hook_of_the_librarys_own_uses_no_memory(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_new(room->context, NULL, NULL);
    struct tci_future_hook early = {.fn = room_note, .arg = NOTE("a")};
    struct tci_future_hook late = {.fn = room_note, .arg = NOTE("b")};
    uint64_t total = tci_alloc_total();

    tci_future_hook(future, &early);
    settle(future, TC_OK);
    tci_future_hook(future, &late);
    fake_exec_run(&room->fake);

    assert_string_equal(room_notes, "ab");
    assert_int_equal(tci_alloc_total(), total);
    tc_future_release(future);
}

/* ---- Cancelling ----------------------------------------------------------------------------- */

static void count_cancel(void *arg)
{
    int *count = arg;

    ++*count;
}

static void cancelling_twice_asks_once_and_on_the_loop(void **state)
{
    struct room *room = *state;
    int count = 0;
    tc_future *future = tci_future_new(room->context, count_cancel, &count);

    tc_future_cancel(future);
    tc_future_cancel(future);
    assert_int_equal(count, 0);
    fake_exec_run(&room->fake);

    assert_int_equal(count, 1);
    settle(future, TC_ERR_CANCELLED);
    tc_future_release(future);
}

static void cancelling_what_settles_first_is_harmless(void **state)
{
    struct room *room = *state;
    int count = 0;
    tc_future *future = tci_future_new(room->context, count_cancel, &count);

    tc_future_cancel(future);
    settle(future, TC_OK);
    tc_future_cancel(future);
    tc_future_release(future);
    fake_exec_run(&room->fake);

    assert_int_equal(count, 0);
}

/* ---- Failed at the call --------------------------------------------------------------------- */

static void a_failed_future_carries_its_cause(void **state)
{
    struct room *room = *state;
    tc_future *future = tci_future_fail(room->context, TC_ERR_INVALID_ARG, "send", "peer %d", 9);

    assert_int_equal(tc_future_test(future), TC_ERR_INVALID_ARG);
    assert_string_equal(tc_future_error(future)->message, "peer 9");
    assert_string_equal(tc_future_error(future)->operation, "send");
    tc_future_release(future);
}

static void without_memory_a_failed_future_still_works(void **state)
{
    struct room *room = *state;
    tc_future *future, *again;

    tci_alloc_fail_at(1, 1);
    future = tci_future_fail(room->context, TC_ERR_INVALID_ARG, "send", "peer %d", 9);
    again = tc_promise_create(room->context);

    assert_int_equal(tc_future_wait(future, -1), TC_ERR_ALLOC);
    assert_int_equal(tc_future_then(future, room_note, NOTE("a")), TC_OK);
    assert_int_equal(tc_future_test(again), TC_ERR_ALLOC);
    assert_int_equal(tc_promise_settle(again, TC_OK), TC_ERR_INVALID_ARG);
    assert_true(is_readable(tc_future_fd(future)));
    tc_future_cancel(future);
    fake_exec_run(&room->fake);
    tci_alloc_fail_at(0, 0);
    assert_string_equal(room_notes, "a");
    tc_future_release(future);
    tc_future_release(again);
}

static void without_a_context_a_future_has_failed(void **state)
{
    tc_future *future = tc_promise_create(NULL);
    (void)state;

    assert_int_equal(tc_future_wait(future, -1), TC_ERR_INVALID_ARG);
    assert_string_equal(tc_last_error()->message, "the group, or the context, is NULL");
    assert_string_equal(tc_future_error(future)->message, "the group, or the context, is NULL");
    assert_int_equal(tc_future_fd(future), -1);
    assert_int_equal(tc_future_then(future, room_note, NOTE("a")), TC_ERR_INVALID_ARG);
    tc_future_cancel(future);
    assert_ptr_equal(tc_future_ref(future), future);
    tc_future_release(future);
    tc_future_release(future);
    tc_future_release(future);
}

static void null_is_a_callers_mistake(void **state)
{
    (void)state;
    assert_int_equal(tc_future_wait(NULL, 1), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_future_test(NULL), TC_ERR_INVALID_ARG);
    assert_null(tc_future_error(NULL));
    assert_int_equal(tc_future_fd(NULL), -1);
    assert_int_equal(tc_future_then(NULL, room_note, NULL), TC_ERR_INVALID_ARG);
    assert_null(tc_future_ref(NULL));
    tc_future_cancel(NULL);
}

/* ---- The end of the context ----------------------------------------------------------------- */

static void a_held_future_outlives_its_context(void **state)
{
    uint64_t live = tci_alloc_live();
    struct room left;
    tc_future *future;
    (void)state;

    room_init(&left);
    future = tci_future_fail(left.context, TC_ERR_CLOSED, "send", "closed");
    room_fini(&left);

    assert_int_equal(tc_future_wait(future, -1), TC_ERR_CLOSED);
    assert_true(is_readable(tc_future_fd(future)));
    assert_int_equal(tc_future_then(future, room_note, NOTE("a")), TC_ERR_CLOSED);
    tc_future_cancel(future);
    tc_future_release(future);
    assert_int_equal(tci_alloc_live(), live);
}

static void a_context_without_memory_is_null(void **state)
{
    uint64_t live = tci_alloc_live();
    (void)state;

    for (uint64_t n = 1; n <= 2; n++) {
        tci_alloc_fail_at(n, 0);
        assert_null(tci_context_new(64));
    }
    tci_alloc_fail_at(0, 0);
    assert_int_equal(tci_alloc_live(), live);
}

#define IN_ROOM(test) cmocka_unit_test_setup_teardown(test, room_enter, room_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(a_new_future_is_pending),
        IN_ROOM(a_settled_future_tells_its_outcome),
        IN_ROOM(a_failure_without_a_record_gets_one),
        IN_ROOM(settling_twice_ends_the_process),
        IN_ROOM(the_caller_may_release_before_the_settling),
        IN_ROOM(a_wait_ends_when_the_time_is_up),
        IN_ROOM(a_wait_whose_deadline_overflows_has_none),
        IN_ROOM(waiting_in_a_continuation_is_refused),
        IN_ROOM(the_descriptor_is_readable_from_the_settling_on),
        IN_ROOM(the_descriptor_of_a_settled_future_is_readable),
        IN_ROOM(continuations_run_on_the_loop_in_order),
        IN_ROOM(a_continuation_may_add_continuations),
        IN_ROOM(one_continuation_needs_no_memory),
        IN_ROOM(a_hook_of_the_librarys_own_uses_no_memory),
        IN_ROOM(cancelling_twice_asks_once_and_on_the_loop),
        IN_ROOM(cancelling_what_settles_first_is_harmless),
        IN_ROOM(a_failed_future_carries_its_cause),
        IN_ROOM(without_memory_a_failed_future_still_works),
        IN_ROOM(without_a_context_a_future_has_failed),
        IN_ROOM(null_is_a_callers_mistake),
        IN_ROOM(a_held_future_outlives_its_context),
        IN_ROOM(a_context_without_memory_is_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
