/* test_loop_wait.c - waiters turn a loop without a thread, one at a time, and hand it over. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base.h"
#include "core/context.h"
#include "loop/loop.h"
#include "loop/state.h"
#include "support/loop_room.h"
#include "tcdist/future.h"

#define WAIT_MS 20000

static const int all_modes[] = {TC_LOOP_THREAD, TC_LOOP_MANUAL, TC_LOOP_HOST};

/* ---- Several waiters ------------------------------------------------------------------------ */

enum { WAITERS = 4, ROUNDS = 300 };

struct waiter {
    tc_future *promises[ROUNDS];
    atomic_uint at; /* round that it has come to */
    unsigned failures;
};

static void *wait_for_each(void *arg)
{
    struct waiter *self = arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        atomic_store(&self->at, i);
        if (tc_future_wait(self->promises[i], WAIT_MS) != TC_OK)
            self->failures++;
    }
    return NULL;
}

/* The main thread settles and turns nothing: whoever holds the loop has to hand it over when its
 * own promise is settled first. */
static void waiters_hand_the_loop_over(void **state)
{
    static struct waiter waiters[WAITERS];

    (void)state;
    for (size_t m = 0; m < TCI_LEN(all_modes); m++) {
        tc_context *context = context_open(all_modes[m]);
        pthread_t threads[WAITERS];

        for (unsigned w = 0; w < WAITERS; w++) {
            waiters[w].failures = 0;
            for (unsigned i = 0; i < ROUNDS; i++)
                waiters[w].promises[i] = tc_promise_create(context);
        }
        for (unsigned w = 0; w < WAITERS; w++)
            assert_int_equal(pthread_create(&threads[w], NULL, wait_for_each, &waiters[w]), 0);
        for (unsigned i = 0; i < ROUNDS; i++) {
            for (unsigned k = 0; k < WAITERS; k++)
                tc_promise_settle(waiters[(i + k) % WAITERS].promises[i], TC_OK);
            if (i % 3 == 0)
                sched_yield();
        }
        for (unsigned w = 0; w < WAITERS; w++)
            pthread_join(threads[w], NULL);

        for (unsigned w = 0; w < WAITERS; w++) {
            assert_int_equal(waiters[w].failures, 0);
            for (unsigned i = 0; i < ROUNDS; i++)
                tc_future_release(waiters[w].promises[i]);
        }
        assert_int_equal(tc_shutdown(context), TC_OK);
    }
}

struct single {
    tc_future *promise;
    tc_status_t status;
};

static void *wait_long(void *arg)
{
    struct single *self = arg;

    self->status = tc_future_wait(self->promise, WAIT_MS);
    return NULL;
}

static void a_waiter_whose_time_is_up_leaves_the_loop_to_the_next(void **state)
{
    (void)state;
    for (size_t m = 0; m < TCI_LEN(all_modes); m++) {
        tc_context *context = context_open(all_modes[m]);
        struct single late = {.promise = tc_promise_create(context)};
        tc_future *never = tc_promise_create(context);
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, wait_long, &late), 0);
        assert_int_equal(tc_future_wait(never, 30), TC_PENDING);
        assert_int_equal(tc_promise_settle(late.promise, TC_OK), TC_OK);
        pthread_join(thread, NULL);

        assert_int_equal(late.status, TC_OK);
        tc_future_release(late.promise);
        tc_future_release(never);
        assert_int_equal(tc_shutdown(context), TC_OK);
    }
}

/* The loop's thread lets them through when it has nothing to do but to wait for calls. */
static void who_sleeps_is_counted_where_the_loop_looks(void **state)
{
    tc_context *context = context_open(TC_LOOP_THREAD);
    atomic_uint *sleepers = atomic_load(&tci_loop_of(context->exec)->sleepers);
    struct single late = {.promise = tc_promise_create(context)};
    pthread_t thread;

    (void)state;
    assert_non_null(sleepers);
    assert_int_equal(atomic_load(sleepers), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &late), 0);
    for (unsigned ms = 0; ms < WAIT_MS / 2 && atomic_load(sleepers) == 0; ms++)
        clock_pass_ms(1);
    assert_int_equal(atomic_load(sleepers), 1);
    assert_int_equal(tc_promise_settle(late.promise, TC_OK), TC_OK);
    pthread_join(thread, NULL);

    assert_int_equal(atomic_load(sleepers), 0);
    tc_future_release(late.promise);
    assert_int_equal(tc_shutdown(context), TC_OK);
}

/* ---- What a continuation may not do --------------------------------------------------------- */

struct forbidden {
    tc_context *context;
    tc_future *other;
    tc_status_t wait, poll, shutdown;
    atomic_bool was_called;
};

static void try_all(tc_future *future, void *arg)
{
    struct forbidden *self = arg;

    (void)future;
    self->wait = tc_future_wait(self->other, 10);
    self->poll = tc_poll(self->context, 0);
    self->shutdown = tc_shutdown(self->context);
    atomic_store(&self->was_called, true);
}

static void a_continuation_may_neither_wait_nor_poll_nor_end_the_context(void **state)
{
    (void)state;
    for (size_t m = 0; m < TCI_LEN(all_modes); m++) {
        tc_context *context = context_open(all_modes[m]);
        tc_future *promise = tc_promise_create(context);
        struct forbidden self = {.context = context, .other = tc_promise_create(context)};

        tc_future_then(promise, try_all, &self);
        tc_promise_settle(promise, TC_OK);
        tc_future_wait(promise, WAIT_MS);
        while (!atomic_load(&self.was_called))
            tc_future_wait(self.other, 1);

        assert_int_equal(self.wait, TC_ERR_INVALID_ARG);
        assert_int_equal(self.poll, TC_ERR_INVALID_ARG);
        assert_int_equal(self.shutdown, TC_ERR_INVALID_ARG);
        tc_future_release(promise);
        tc_future_release(self.other);
        assert_int_equal(tc_shutdown(context), TC_OK);
    }
}

/* ---- One descriptor for a foreign loop ------------------------------------------------------ */

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd slot = {.fd = fd, .events = POLLIN};

    return poll(&slot, 1, timeout_ms) == 1;
}

/* A dispatch may be called for in vain, but not again and again. */
static void dispatch_all(tc_context *context)
{
    for (int i = 0; is_readable(tc_fd(context), 0); i++) {
        assert_true(i < 10);
        assert_int_equal(tc_dispatch(context), TC_OK);
    }
}

static void *settle(void *promise)
{
    tc_promise_settle(promise, TC_OK);
    return NULL;
}

static void the_descriptor_is_readable_when_there_is_work_and_silent_else(void **state)
{
    static const int modes[] = {TC_LOOP_MANUAL, TC_LOOP_HOST};

    (void)state;
    for (size_t m = 0; m < TCI_LEN(modes); m++) {
        tc_context *context = context_open(modes[m]);
        int fd = tc_fd(context);

        assert_true(fd >= 0);
        for (int i = 0; i < 200; i++) {
            tc_future *promise = tc_promise_create(context);
            pthread_t thread;

            dispatch_all(context);
            assert_false(is_readable(fd, 0));
            assert_int_equal(tc_timeout_ms(context), -1);
            assert_int_equal(pthread_create(&thread, NULL, settle, promise), 0);
            assert_true(is_readable(fd, WAIT_MS));
            pthread_join(thread, NULL);
            dispatch_all(context);
            assert_int_equal(tc_future_test(promise), TC_OK);
            tc_future_release(promise);
        }
        assert_int_equal(tc_shutdown(context), TC_OK);
    }
}

static void note_ring(struct tci_timer *timer)
{
    timer->fn = NULL;
}

struct set_timer {
    struct tci_loop *loop;
    struct tci_timer timer;
    uint64_t deadline_ns;
};

static void set(void *arg)
{
    struct set_timer *self = arg;
    struct tci_exec *exec = tci_loop_exec(self->loop);

    self->timer.fn = note_ring;
    exec->ops->timer_set(exec, &self->timer, self->deadline_ns);
}

static void the_descriptor_is_readable_at_the_next_deadline(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_HOST, -1);
    struct set_timer timer = {.loop = loop, .deadline_ns = clock_now_ns() + 50 * TCI_NS_PER_MS};
    int timeout_ms;

    (void)state;
    tci_loop_call(loop, set, &timer);
    timeout_ms = tci_loop_timeout_ms(loop);
    while (timer.timer.fn != NULL) {
        assert_true(is_readable(tci_loop_fd(loop), WAIT_MS));
        assert_int_equal(tci_loop_turn(loop, 0), TC_OK);
    }

    assert_in_range(timeout_ms, 0, 50);
    assert_true(clock_now_ns() >= timer.deadline_ns);
    tci_loop_free(loop);
}

static void a_thread_of_the_contexts_own_gives_no_descriptor(void **state)
{
    tc_context *context = context_open(TC_LOOP_THREAD);

    (void)state;
    assert_int_equal(tc_fd(context), -1);
    assert_int_equal(tc_poll(context, 0), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dispatch(context), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_shutdown(context), TC_OK);
}

/* ---- A call that is carried out within itself ----------------------------------------------- */

struct look {
    struct tci_task task;
    struct tci_exec *exec;
    uint64_t now_ns;
};

static void look_at_clock(struct tci_task *task)
{
    struct look *look = tci_container_of(task, struct look, task);

    look->now_ns = look->exec->ops->now_ns(look->exec);
}

static void no_time_goes_back_within_a_call(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, 0);
    struct tci_exec *exec = tci_loop_exec(loop);
    struct look posted = {.task.fn = look_at_clock, .exec = exec}, own = posted, next = posted;
    uint64_t begin_ns = clock_now_ns();

    (void)state;
    exec->ops->post_remote(exec, &posted.task);
    exec->ops->run_or_post(exec, &own.task, begin_ns - 1); /* as if held up on its way */
    assert_true(posted.now_ns >= begin_ns);
    assert_true(own.now_ns >= posted.now_ns);
    exec->ops->run_or_post(exec, &next.task, begin_ns - 1);
    assert_true(next.now_ns >= own.now_ns);
    tci_loop_free(loop);
}

static bool is_true(void *arg)
{
    (void)arg;
    return true;
}

struct asker {
    struct tci_loop *loop;
    atomic_bool is_over;
};

static void *ask_once(void *arg)
{
    struct asker *asker = arg;

    tci_loop_await(asker->loop, is_true, NULL);
    atomic_store(&asker->is_over, true);
    return NULL;
}

/* Nothing else happens: no later turn would have a reason to ask. */
static void what_another_thread_waits_for_is_asked_within_a_call(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, 0);
    struct tci_exec *exec = tci_loop_exec(loop);
    struct look own = {.task.fn = look_at_clock, .exec = exec};
    struct asker asker = {.loop = loop};
    uint64_t end_ns = clock_now_ns() + WAIT_MS * UINT64_C(1000000);
    pthread_t thread;

    (void)state;
    assert_true(tci_loop_try_enter(loop));
    assert_int_equal(pthread_create(&thread, NULL, ask_once, &asker), 0);
    while (atomic_load(&loop->waiting) == 0)
        sched_yield();
    pthread_mutex_lock(&loop->lock); /* free once it sleeps */
    pthread_mutex_unlock(&loop->lock);
    atomic_store(&loop->owner, 0); /* left, and this thread is the first to come again */
    exec->ops->run_or_post(exec, &own.task, clock_now_ns());
    while (!atomic_load(&asker.is_over) && clock_now_ns() < end_ns)
        sched_yield();
    assert_true(atomic_load(&asker.is_over));
    pthread_join(thread, NULL);
    tci_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiters_hand_the_loop_over),
        cmocka_unit_test(a_waiter_whose_time_is_up_leaves_the_loop_to_the_next),
        cmocka_unit_test(who_sleeps_is_counted_where_the_loop_looks),
        cmocka_unit_test(a_continuation_may_neither_wait_nor_poll_nor_end_the_context),
        cmocka_unit_test(the_descriptor_is_readable_when_there_is_work_and_silent_else),
        cmocka_unit_test(the_descriptor_is_readable_at_the_next_deadline),
        cmocka_unit_test(a_thread_of_the_contexts_own_gives_no_descriptor),
        cmocka_unit_test(no_time_goes_back_within_a_call),
        cmocka_unit_test(what_another_thread_waits_for_is_asked_within_a_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
