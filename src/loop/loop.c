/* loop.c - the loop as core sees it: made, ended, and handed tasks, timers and sources. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/loop.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/cond.h"
#include "loop/sched.h"
#include "loop/state.h"
#include "loop/thread.h"

/* ---- Time ----------------------------------------------------------------------------------- */

uint64_t tci_loop_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * TCI_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t tci_loop_now(struct tci_loop *loop)
{
    if (loop->is_now_stale) {
        loop->now_ns = tci_loop_clock();
        loop->is_now_stale = false;
    }
    return loop->now_ns;
}

/* ---- The port ------------------------------------------------------------------------------- */

void tci_queue_add(struct tci_queue *queue, struct tci_task *task)
{
    task->next = NULL;
    *queue->tail = task;
    queue->tail = &task->next;
}

static uint64_t now_ns(struct tci_exec *self)
{
    struct tci_loop *loop = tci_loop_of(self);

    return tci_loop_is_here(loop) ? tci_loop_now(loop) : tci_loop_clock();
}

static uint64_t clock_ns(struct tci_exec *self)
{
    (void)self;
    return tci_loop_clock();
}

static void post(struct tci_exec *self, struct tci_task *task)
{
    TC_ASSERT(tci_loop_is_here(tci_loop_of(self)));
    tci_queue_add(&tci_loop_of(self)->posted, task);
}

static void post_remote(struct tci_exec *self, struct tci_task *task)
{
    tci_wake_post(tci_loop_of(self), task);
}

static void post_user(struct tci_exec *self, struct tci_task *task)
{
    TC_ASSERT(tci_loop_is_here(tci_loop_of(self)));
    tci_queue_add(&tci_loop_of(self)->user, task);
}

static int timer_set(struct tci_exec *self, struct tci_timer *timer, uint64_t deadline_ns)
{
    TC_ASSERT(tci_loop_is_here(tci_loop_of(self)));
    return tci_heap_set(&tci_loop_of(self)->timers, timer, deadline_ns);
}

static void timer_clear(struct tci_exec *self, struct tci_timer *timer)
{
    tci_heap_clear(&tci_loop_of(self)->timers, timer);
}

static void source_add(struct tci_exec *self, struct tci_source *source)
{
    struct tci_loop *loop = tci_loop_of(self);

    TC_ASSERT(tci_loop_is_here(loop));
    source->prev = NULL;
    source->next = loop->sources;
    if (source->next != NULL)
        source->next->prev = source;
    loop->sources = source;
}

static void source_del(struct tci_exec *self, struct tci_source *source)
{
    struct tci_loop *loop = tci_loop_of(self);

    TC_ASSERT(tci_loop_is_here(loop));
    if (loop->cursor == source)
        loop->cursor = source->next;
    if (source->prev != NULL)
        source->prev->next = source->next;
    else
        loop->sources = source->next;
    if (source->next != NULL)
        source->next->prev = source->prev;
    source->prev = source->next = NULL;
}

static bool is_here(struct tci_exec *self)
{
    return tci_loop_is_here(tci_loop_of(self));
}

static const struct tci_exec_ops exec_ops = {
    .now_ns = now_ns,
    .clock_ns = clock_ns,
    .post = post,
    .post_remote = post_remote,
    .run_or_post = tci_loop_run_or_post,
    .post_user = post_user,
    .timer_set = timer_set,
    .timer_clear = timer_clear,
    .source_add = source_add,
    .source_del = source_del,
    .is_here = is_here,
    .wait = tci_loop_wait,
};

struct tci_exec *tci_loop_exec(struct tci_loop *loop)
{
    return &loop->exec;
}

struct tci_loop *tci_loop_of(struct tci_exec *exec)
{
    return tci_container_of(exec, struct tci_loop, exec);
}

/* ---- Making and ending one ------------------------------------------------------------------ */

static void init_lock(struct tci_loop *loop)
{
    pthread_mutex_init(&loop->lock, NULL);
    (void)tci_cond_init(&loop->news);
}

static struct tci_reactor *make_reactor(const tc_config *config, struct tci_error *error)
{
    if (config->loop_mode == TC_LOOP_THREAD)
        return tci_reactor_libevent_new(error);
    if (config->loop_mode == TC_LOOP_HOST && config->reactor != NULL)
        return tci_reactor_host_new(config->reactor, config->reactor_arg, error);
    return tci_reactor_own_new(error);
}

static tc_status_t start_thread(struct tci_loop *loop, struct tci_error *error)
{
    int failed = tci_thread_start(tci_loop_main, loop, &loop->thread);

    if (failed != 0) {
        errno = failed;
        return tci_error_system(error, TC_ERR_TRANSPORT, "start the loop's thread");
    }
    loop->has_thread = true;
    tci_sched_name(loop->thread, "tcdist");
    return TC_OK;
}

static void init_loop(struct tci_loop *loop, const tc_config *config)
{
    loop->exec.ops = &exec_ops;
    loop->mode = config->loop_mode;
    loop->is_lent = config->loop_mode == TC_LOOP_HOST && config->reactor != NULL;
    loop->spin_us = config->spin_us;
    tci_spin_init(&loop->spin);
    atomic_init(&loop->cores, tci_sched_cores());
    loop->home = tci_loop_me();
    tci_process_get(&loop->process);
    loop->bell = (struct tci_bell)TCI_NO_BELL;
    loop->armed_ns = TCI_NEVER;
    loop->is_now_stale = true;
    loop->posted.tail = &loop->posted.head;
    loop->user.tail = &loop->user.head;
    atomic_init(&loop->local_ranks, 1);
    atomic_init(&loop->sleepers, NULL);
    atomic_init(&loop->due_ns, TCI_NEVER);
    atomic_init(&loop->wants_park, config->loop_mode == TC_LOOP_HOST);
    tci_inbox_init(&loop->inbox);
    init_lock(loop);
}

struct tci_loop *tci_loop_new(const tc_config *config, struct tci_error *error)
{
    struct tci_loop *loop = tci_alloc(sizeof(*loop));

    if (loop == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, NULL, "no memory for an event loop");
        return NULL;
    }
    init_loop(loop, config);
    loop->reactor = make_reactor(config, error);
    if (loop->reactor == NULL)
        goto fail;
    if (tci_wake_open(loop) != 0) {
        tci_error_system(error, TC_ERR_TRANSPORT, "make a descriptor that wakes the loop");
        goto fail;
    }
    if (loop->mode == TC_LOOP_THREAD) {
        if (start_thread(loop, error) != TC_OK)
            goto fail;
    } else if (loop->mode == TC_LOOP_HOST) {
        tci_loop_try_enter(loop);
        tci_loop_leave(loop); /* parked: from now on posts wake the host */
    }
    return loop;

fail:
    tci_loop_free(loop);
    return NULL;
}

static void stop(void *arg)
{
    struct tci_loop *loop = arg;

    loop->is_stopping = true;
}

void tci_loop_free(struct tci_loop *loop)
{
    if (loop == NULL)
        return;
    if (loop->has_thread) {
        tci_loop_call(loop, stop, loop);
        pthread_join(loop->thread, NULL);
    }
    if (loop->reactor != NULL) {
        tci_wake_close(loop);
        loop->reactor->ops.timer_cancel(loop->reactor->arg);
        loop->reactor->free(loop->reactor);
    }
    TC_ASSERT(loop->watches == NULL);
    pthread_cond_destroy(&loop->news);
    pthread_mutex_destroy(&loop->lock);
    tci_heap_fini(&loop->timers);
    tci_free(loop);
}

/* ---- Asked from outside --------------------------------------------------------------------- */

unsigned tci_loop_cores(const struct tci_loop *loop)
{
    return atomic_load_explicit(&loop->cores, memory_order_relaxed);
}

void tci_loop_see_cores(struct tci_loop *loop, unsigned cores)
{
    if (cores > tci_loop_cores(loop))
        atomic_store_explicit(&loop->cores, cores, memory_order_relaxed);
}

void tci_loop_set_trace(struct tci_loop *loop, struct tci_trace *trace)
{
    /* release: pairs with the acquire in tci_loop_trace, the trace is made */
    atomic_store_explicit(&loop->trace, trace, memory_order_release);
}

void tci_loop_set_sleepers(struct tci_loop *loop, atomic_uint *sleepers)
{
    /* release: pairs with the acquire in is_core_wanted */
    atomic_store_explicit(&loop->sleepers, sleepers, memory_order_release);
}

void tci_loop_set_local_ranks(struct tci_loop *loop, unsigned ranks)
{
    /* relaxed: a hint for spinning */
    atomic_store_explicit(&loop->local_ranks, ranks, memory_order_relaxed);
}

bool tci_loop_shares_cores(const struct tci_loop *loop)
{
    /* relaxed: a hint */
    return atomic_load_explicit(&loop->local_ranks, memory_order_relaxed) > tci_loop_cores(loop);
}

bool tci_loop_has_spare_cores(const struct tci_loop *loop)
{
    /* relaxed: a hint for spinning */
    return 2 * atomic_load_explicit(&loop->local_ranks, memory_order_relaxed) <=
           tci_loop_cores(loop);
}

/* From the first time that someone asks, the descriptor is kept right between turns. */
static void keep_parked(struct tci_loop *loop)
{
    /* relaxed: the park below, or that of the thread that holds the loop now, makes it so */
    if (atomic_exchange_explicit(&loop->wants_park, true, memory_order_relaxed))
        return;
    if (tci_loop_try_enter(loop))
        tci_loop_leave(loop);
}

int tci_loop_fd(struct tci_loop *loop)
{
    if (loop->reactor->fd == NULL)
        return -1;
    keep_parked(loop);
    return loop->reactor->fd(loop->reactor);
}

int tci_loop_timeout_ms(struct tci_loop *loop)
{
    uint64_t due_ns, now, left_ms;

    if (loop->reactor->fd == NULL)
        return -1;
    keep_parked(loop);
    due_ns = atomic_load_explicit(&loop->due_ns, memory_order_relaxed); /* relaxed: see park */
    if (due_ns == TCI_NEVER)
        return -1;
    now = tci_loop_clock();
    if (due_ns <= now)
        return 0;
    left_ms = (due_ns - now + TCI_NS_PER_MS - 1) / TCI_NS_PER_MS;
    return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}
