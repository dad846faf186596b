/* test_future_threads.c - many threads on the same futures while a loop settles them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "core/assert.h"
#include "support/future_room.h"

#define THREADS 8
#define FUTURES 400u

/* An operation that settles when it is told to by post_remote, or is cancelled. */
struct op {
    struct tci_task task;
    tc_future *future;
    bool is_settled;
    atomic_uint continuations;
};

struct hammer {
    struct room *room;
    struct op ops[FUTURES];
    pthread_barrier_t start;
    atomic_uint then_count, faults;
};

struct worker {
    struct hammer *hammer;
    unsigned number;
    pthread_t thread;
};

static struct hammer hammer; /* too large for a stack */

static void end_op(struct op *op, tc_status_t status)
{
    if (op->is_settled)
        return;
    op->is_settled = true;
    tci_future_settle(op->future, status, NULL);
}

static void run_op(struct tci_task *task)
{
    end_op(tci_container_of(task, struct op, task), TC_OK);
}

static void cancel_op(void *arg)
{
    end_op(arg, TC_ERR_CANCELLED);
}

static void count(tc_future *future, void *arg)
{
    (void)future;
    atomic_fetch_add_explicit(&((struct op *)arg)->continuations, 1, memory_order_relaxed);
}

static bool is_outcome(tc_status_t status)
{
    return status == TC_OK || status == TC_ERR_CANCELLED;
}

static bool poll_until_readable(tc_future *future)
{
    struct pollfd watch = {.fd = tc_future_fd(future), .events = POLLIN};
    int rc;

    do {
        rc = poll(&watch, 1, 60000);
    } while (rc < 0 && errno == EINTR);
    return rc == 1 && is_outcome(tc_future_test(future));
}

/* One thing of six with one future; true when all is as it should be. */
static bool touch(struct hammer *at, struct op *op, unsigned what)
{
    tc_future *all;
    bool is_good;

    switch (what % 6) {
    case 0:
        return is_outcome(tc_future_wait(op->future, 60000));
    case 1:
        tc_future_cancel(op->future);
        return true;
    case 2:
        atomic_fetch_add_explicit(&at->then_count, 1, memory_order_relaxed);
        return tc_future_then(op->future, count, op) == TC_OK;
    case 3:
        return poll_until_readable(op->future);
    case 4:
        all = tc_future_all(at->room->context, &op->future, 1);
        is_good = is_outcome(tc_future_wait(all, 60000));
        tc_future_release(all);
        return is_good;
    default:
        return tc_future_wait(op->future, 0) == TC_PENDING || tc_future_error(op->future) == NULL ||
               tc_future_error(op->future)->status == TC_ERR_CANCELLED;
    }
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct hammer *at = worker->hammer;
    struct tci_exec *exec = &at->room->fake.exec;

    pthread_barrier_wait(&at->start);
    for (unsigned i = 0; i < FUTURES; i++) {
        struct op *op = &at->ops[i];

        /* Exactly one thread starts each, early or late. */
        if (i % THREADS == worker->number)
            exec->ops->post_remote(exec, &op->task);
        if (!touch(at, op, worker->number + i / THREADS) || !touch(at, op, 5 * worker->number + i))
            atomic_fetch_add_explicit(&at->faults, 1, memory_order_relaxed);
        tc_future_release(op->future);
    }
    return NULL;
}

static void make_ops(struct hammer *at)
{
    for (unsigned i = 0; i < FUTURES; i++) {
        struct op *op = &at->ops[i];

        *op = (struct op){.task = {.fn = run_op}};
        op->future = tci_future_new(at->room->context, cancel_op, op);
        for (unsigned t = 1; t < THREADS; t++)
            tc_future_ref(op->future);
    }
}

static void threads_wait_cancel_chain_and_release(void **state)
{
    struct worker workers[THREADS];
    unsigned continuations = 0;

    hammer.room = *state;
    make_ops(&hammer);
    fake_exec_start(&hammer.room->fake);
    pthread_barrier_init(&hammer.start, NULL, THREADS);
    for (unsigned t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.hammer = &hammer, .number = t};
        assert_int_equal(pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
    }
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(workers[t].thread, NULL);
    fake_exec_stop(&hammer.room->fake);

    for (unsigned i = 0; i < FUTURES; i++)
        continuations += atomic_load(&hammer.ops[i].continuations);
    assert_int_equal(continuations, atomic_load(&hammer.then_count));
    assert_int_equal(atomic_load(&hammer.faults), 0);
    pthread_barrier_destroy(&hammer.start);
}

/* ---- Promises ------------------------------------------------------------------------------- */

#define PROMISES 500u

struct race {
    tc_context *context;
    tc_future *promises[PROMISES];
    pthread_barrier_t start;
    atomic_uint wins;
};

static struct race race;

static void *settle_promises(void *arg)
{
    struct race *at = arg;

    pthread_barrier_wait(&at->start);
    for (unsigned i = 0; i < PROMISES; i++) {
        tc_future *dropped = tc_promise_create(at->context);

        if (tc_promise_settle(at->promises[i], TC_OK) == TC_OK)
            atomic_fetch_add_explicit(&at->wins, 1, memory_order_relaxed);
        TC_ASSERT(tc_future_wait(at->promises[i], -1) == TC_OK);
        tc_future_release(dropped);
    }
    return NULL;
}

static void one_of_many_settlers_wins_each_promise(void **state)
{
    struct room *room = *state;
    pthread_t threads[4];

    race.context = room->context;
    atomic_store(&race.wins, 0);
    for (unsigned i = 0; i < PROMISES; i++)
        race.promises[i] = tc_promise_create(room->context);
    fake_exec_start(&room->fake);
    pthread_barrier_init(&race.start, NULL, TCI_LEN(threads));
    for (unsigned t = 0; t < TCI_LEN(threads); t++)
        assert_int_equal(pthread_create(&threads[t], NULL, settle_promises, &race), 0);
    for (unsigned t = 0; t < TCI_LEN(threads); t++)
        pthread_join(threads[t], NULL);
    fake_exec_stop(&room->fake);

    assert_int_equal(atomic_load(&race.wins), PROMISES);
    for (unsigned i = 0; i < PROMISES; i++)
        tc_future_release(race.promises[i]);
    pthread_barrier_destroy(&race.start);
}

static void a_blocked_wait_ends_in_time(void **state)
{
    struct room *room = *state;
    tc_future *promise = tc_promise_create(room->context);
    uint64_t begin, end;

    fake_exec_start(&room->fake);
    begin = room->fake.exec.ops->now_ns(&room->fake.exec);
    assert_int_equal(tc_future_wait(promise, 20), TC_PENDING);
    end = room->fake.exec.ops->now_ns(&room->fake.exec);
    fake_exec_stop(&room->fake);

    assert_true(end - begin >= 20 * TCI_NS_PER_MS);
    tc_future_release(promise);
}

#define IN_ROOM(test) cmocka_unit_test_setup_teardown(test, room_enter, room_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(threads_wait_cancel_chain_and_release),
        IN_ROOM(one_of_many_settlers_wins_each_promise),
        IN_ROOM(a_blocked_wait_ends_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
