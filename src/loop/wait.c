/* wait.c - who turns the loop: its thread, or the waiters, one at a time. */
/* SPDX-License-Identifier: Apache-2.0 */

/* With MANUAL and HOST a waiter becomes the loop's owner and turns it.  One who comes while
 * another thread turns it sleeps on loop->news, which is told after each turn that did something
 * (its future may have settled) and when the owner leaves (it may turn the loop itself).  Nobody
 * touches the mutex while nobody else waits: the owner looks at loop->waiting, where the waiter
 * counts itself before it looks whether it has to sleep. */
#include <pthread.h>

#include "core/assert.h"
#include "core/cond.h"
#include "core/future.h"
#include "loop/state.h"

/* How long a waiter polls a future that the loop's thread will settle before it sleeps, when there
 * is a core for both of them: a bit more than a futex wake-up costs (9 to 13 us). */
#define GLANCE_NS (20 * TCI_NS_PER_US)

/* ---- The owner ------------------------------------------------------------------------------ */

uintptr_t tci_loop_me(void)
{
    static _Thread_local char me;

    return (uintptr_t)&me;
}

bool tci_loop_try_enter(struct tci_loop *loop)
{
    uintptr_t nobody = 0;

    /* acquire: pairs with the release in tci_loop_leave, all that the last owner did is visible */
    if (!atomic_compare_exchange_strong_explicit(&loop->owner, &nobody, tci_loop_me(),
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    tci_wake_rise(loop);
    loop->is_now_stale = true;
    return true;
}

/* See to it that the host's loop comes back when there is something to do. */
static void park(struct tci_loop *loop)
{
    struct tci_reactor *reactor = loop->reactor;
    uint64_t due_ns = tci_loop_may_sleep(loop) ? tci_loop_next_ns(loop) : 0;
    uint64_t now_ns;

    /* relaxed: read by tci_loop_timeout_ms, on the thread that dispatches */
    atomic_store_explicit(&loop->due_ns, due_ns, memory_order_relaxed);
    if (loop->armed_ns <= due_ns)
        return; /* also when both are "never"; one that comes early does no harm */
    loop->is_now_stale = true;
    now_ns = tci_loop_now(loop);
    reactor->ops.timer_arm(reactor->arg, due_ns > now_ns ? due_ns - now_ns : 0, tci_loop_on_timer,
                           loop);
    loop->armed_ns = due_ns;
}

void tci_loop_leave(struct tci_loop *loop)
{
    if (loop->mode != TC_LOOP_THREAD)
        tci_trace_beat(tci_loop_trace(loop), TCI_PART_AWAY, 0);
    tci_loop_let_go(loop);
}

void tci_loop_let_go(struct tci_loop *loop)
{
    TC_ASSERT(tci_loop_is_here(loop) && !loop->is_in_user);
    /* relaxed: who asks for it later parks the loop then */
    if (atomic_load_explicit(&loop->wants_park, memory_order_relaxed))
        park(loop);
    /* release: pairs with the acquire in tci_loop_try_enter */
    atomic_store_explicit(&loop->owner, 0, memory_order_release);
    tci_loop_tell(loop);
}

void tci_loop_tell(struct tci_loop *loop)
{
    /* acq_rel, and a write: pairs with the one in enter.  Either that one comes first, and the
     * waiter is told, or it sees ours, and with it all that happened here before. */
    if (atomic_fetch_add_explicit(&loop->waiting, 0, memory_order_acq_rel) == 0)
        return;
    pthread_mutex_lock(&loop->lock);
    pthread_cond_broadcast(&loop->news);
    pthread_mutex_unlock(&loop->lock);
}

/* ---- Waiting for the owner ------------------------------------------------------------------ */

/* Whether the calling thread may turn the loop at all: a lent reactor's verbs belong to its
 * thread, and a loop with a thread to that. */
static bool may_turn(const struct tci_loop *loop)
{
    return loop->mode != TC_LOOP_THREAD && (!loop->is_lent || loop->home == tci_loop_me());
}

/* Become the owner; false when the waiter has what it waits for, or its time is up. */
static bool enter(struct tci_loop *loop, const struct tci_waiter *waiter)
{
    bool is_mine = may_turn(loop);
    bool is_in = is_mine && tci_loop_try_enter(loop);
    bool has_time = true;

    if (is_in)
        return true;
    pthread_mutex_lock(&loop->lock);
    /* acq_rel: pairs with the one in tci_loop_tell */
    atomic_fetch_add_explicit(&loop->waiting, 1, memory_order_acq_rel);
    while (has_time && !tci_waiter_is_done(waiter)) {
        is_in = is_mine && tci_loop_try_enter(loop);
        if (is_in)
            break;
        has_time = tci_cond_wait(&loop->news, &loop->lock, waiter->deadline_ns);
    }
    /* relaxed: at worst we are told in vain */
    atomic_fetch_sub_explicit(&loop->waiting, 1, memory_order_relaxed);
    pthread_mutex_unlock(&loop->lock);
    return is_in;
}

static void wait_for(struct tci_loop *loop, const struct tci_waiter *waiter)
{
    if (!enter(loop, waiter))
        return;
    tci_loop_run(loop, waiter, false);
    tci_loop_leave(loop);
}

/* ---- What others ask for -------------------------------------------------------------------- */

static bool is_settled(void *arg)
{
    return tci_future_is_settled(arg);
}

void tci_loop_wait(struct tci_exec *exec, struct tc_future *future, uint64_t deadline_ns)
{
    struct tci_loop *loop = tci_loop_of(exec);
    struct tci_waiter waiter = {.is_done = is_settled, .arg = future, .deadline_ns = deadline_ns};
    uint64_t until_ns;

    TC_ASSERT(!tci_loop_is_here(loop));
    if (may_turn(loop)) {
        wait_for(loop, &waiter);
        return;
    }
    if (loop->mode == TC_LOOP_THREAD && loop->spin_us != 0 && tci_loop_has_spare_cores(loop)) {
        until_ns = tci_loop_clock() + GLANCE_NS;
        while (!tci_future_is_settled(future) && tci_loop_clock() < until_ns) {
        }
    }
    tci_future_block(future, deadline_ns);
}

tc_status_t tci_loop_turn(struct tci_loop *loop, int timeout_ms)
{
    struct tci_waiter waiter = {.deadline_ns = TCI_NEVER};
    unsigned events;

    if (loop->mode == TC_LOOP_THREAD)
        return tci_fail(TC_ERR_INVALID_ARG, "poll",
                        "this context has a thread that turns its loop");
    if (tci_loop_is_here(loop))
        return tci_fail(TC_ERR_INVALID_ARG, "poll",
                        "called inside a continuation, which the loop is waiting for");
    if (!may_turn(loop))
        return tci_fail(TC_ERR_INVALID_ARG, "poll",
                        "only the thread of the reactor may turn this context's loop");
    if (timeout_ms >= 0)
        waiter.deadline_ns = tci_loop_clock() + (uint64_t)timeout_ms * TCI_NS_PER_MS;
    if (!enter(loop, &waiter))
        return TC_OK; /* another thread turned it all the while */
    events = loop->events;
    tci_loop_ask(loop, 0);
    if (loop->events != events)
        waiter.deadline_ns = 0; /* one pass, for what they posted */
    tci_loop_run(loop, &waiter, true);
    tci_loop_leave(loop);
    return TC_OK;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static bool is_call_done(void *arg)
{
    struct tci_errand *call = arg;

    /* acquire: pairs with the release in finish_call, publishes what fn did */
    return atomic_load_explicit(&call->is_done, memory_order_acquire);
}

/* The call's memory is gone once the lock is released. */
static void finish_call(struct tci_loop *loop, struct tci_errand *call)
{
    pthread_mutex_lock(&loop->lock);
    /* release: pairs with the acquire in is_call_done */
    atomic_store_explicit(&call->is_done, true, memory_order_release);
    pthread_cond_broadcast(&loop->news);
    pthread_mutex_unlock(&loop->lock);
}

static void begin_call(struct tci_task *task)
{
    struct tci_errand *call = tci_container_of(task, struct tci_errand, task);
    struct tci_loop *loop = call->loop;

    if (call->is_true == NULL) {
        call->fn(call->arg);
        finish_call(loop, call);
        return;
    }
    call->next = loop->calls; /* asked at the end of this turn for the first time */
    loop->calls = call;
}

void tci_loop_call_check(struct tci_loop *loop)
{
    struct tci_errand **at = &loop->calls;

    while (*at != NULL) {
        struct tci_errand *call = *at;

        if (call->is_true(call->arg)) {
            *at = call->next;
            finish_call(loop, call);
        } else {
            at = &call->next;
        }
    }
}

static void make_call(struct tci_loop *loop, struct tci_errand *call)
{
    struct tci_waiter waiter = {.is_done = is_call_done, .arg = call, .deadline_ns = TCI_NEVER};

    TC_ASSERT(!tci_loop_is_here(loop));
    call->loop = loop;
    call->task.fn = begin_call;
    tci_wake_post(loop, &call->task);
    wait_for(loop, &waiter);
    /* Whoever finished it may still hold the lock, inside of the loop. */
    pthread_mutex_lock(&loop->lock);
    pthread_mutex_unlock(&loop->lock);
}

void tci_loop_call(struct tci_loop *loop, void (*fn)(void *arg), void *arg)
{
    struct tci_errand call = {.fn = fn, .arg = arg};

    make_call(loop, &call);
}

void tci_loop_await(struct tci_loop *loop, bool (*is_true)(void *arg), void *arg)
{
    struct tci_errand call = {.is_true = is_true, .arg = arg};

    make_call(loop, &call);
}

/* ---- The loop's own thread ------------------------------------------------------------------ */

void *tci_loop_main(void *arg)
{
    struct tci_loop *loop = arg;
    struct tci_waiter forever = {.deadline_ns = TCI_NEVER};

    atomic_store(&loop->owner, tci_loop_me());
    tci_loop_run(loop, &forever, false);
    atomic_store(&loop->owner, 0);
    return NULL;
}
