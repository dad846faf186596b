/* fake_exec.c - a loop that turns when a test says so, in a time of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fake_exec.h"

#include "core/assert.h"
#include "core/base.h"
#include "core/future.h"
#include "core/trace.h"

static _Thread_local struct fake_exec *turning;

static struct fake_exec *of(struct tci_exec *exec)
{
    return tci_container_of(exec, struct fake_exec, exec);
}

/* ---- Queues --------------------------------------------------------------------------------- */

static void queue_init(struct fake_queue *queue)
{
    queue->head = NULL;
    queue->tail = &queue->head;
}

static void queue_add(struct fake_queue *queue, struct tci_task *task)
{
    task->next = NULL;
    *queue->tail = task;
    queue->tail = &task->next;
}

static unsigned queue_run(struct fake_queue *queue)
{
    struct tci_task *task = queue->head;
    unsigned count = 0;

    queue_init(queue);
    while (task != NULL) {
        struct tci_task *next = task->next;

        task->fn(task);
        task = next;
        count++;
    }
    return count;
}

/* ---- The port ------------------------------------------------------------------------------- */

static uint64_t now_ns(struct tci_exec *self)
{
    struct fake_exec *fake = of(self);

    if (atomic_load_explicit(&fake->has_thread, memory_order_acquire))
        return tci_trace_now();
    return atomic_load_explicit(&fake->now_ns, memory_order_relaxed);
}

static void post(struct tci_exec *self, struct tci_task *task)
{
    queue_add(&of(self)->posted, task);
}

static void post_remote(struct tci_exec *self, struct tci_task *task)
{
    struct fake_exec *fake = of(self);

    tci_inbox_push(&fake->inbox, task);
    sem_post(&fake->work);
}

static void post_user(struct tci_exec *self, struct tci_task *task)
{
    queue_add(&of(self)->user, task);
}

static int timer_set(struct tci_exec *self, struct tci_timer *timer, uint64_t deadline_ns)
{
    return tci_heap_set(&of(self)->timers, timer, deadline_ns);
}

static void timer_clear(struct tci_exec *self, struct tci_timer *timer)
{
    tci_heap_clear(&of(self)->timers, timer);
}

static void no_source(struct tci_exec *self, struct tci_source *source)
{
    (void)self;
    (void)source;
    TC_UNREACHABLE();
}

static bool is_here(struct tci_exec *self)
{
    return turning == of(self);
}

static void wait_for(struct tci_exec *self, struct tc_future *future, uint64_t deadline_ns)
{
    struct fake_exec *fake = of(self);

    if (atomic_load_explicit(&fake->has_thread, memory_order_acquire)) {
        tci_future_block(future, deadline_ns);
        return;
    }
    fake_exec_run(fake);
    while (!tci_future_is_settled(future) && now_ns(self) < deadline_ns) {
        struct tci_timer *timer = tci_heap_first(&fake->timers);
        uint64_t next = timer == NULL ? deadline_ns : timer->deadline_ns;

        TC_ASSERT(timer != NULL || deadline_ns != TCI_NEVER); /* nothing would ever happen */
        fake_exec_advance(fake, (next < deadline_ns ? next : deadline_ns) - now_ns(self));
    }
}

static const struct tci_exec_ops ops = {
    .now_ns = now_ns,
    .post = post,
    .post_remote = post_remote,
    .post_user = post_user,
    .timer_set = timer_set,
    .timer_clear = timer_clear,
    .source_add = no_source,
    .source_del = no_source,
    .is_here = is_here,
    .wait = wait_for,
};

/* ---- Turning -------------------------------------------------------------------------------- */

void fake_exec_init(struct fake_exec *fake)
{
    *fake = (struct fake_exec){.exec = {.ops = &ops}};
    tci_inbox_init(&fake->inbox);
    queue_init(&fake->posted);
    queue_init(&fake->user);
    sem_init(&fake->work, 0, 0);
}

void fake_exec_fini(struct fake_exec *fake)
{
    TC_ASSERT(fake->posted.head == NULL && fake->user.head == NULL);
    TC_ASSERT(tci_inbox_is_empty(&fake->inbox));
    tci_heap_fini(&fake->timers);
    sem_destroy(&fake->work);
}

static unsigned run_timers(struct fake_exec *fake)
{
    struct tci_timer *timer = tci_heap_first(&fake->timers);

    if (timer == NULL || timer->deadline_ns > now_ns(&fake->exec))
        return 0;
    tci_heap_clear(&fake->timers, timer);
    timer->fn(timer);
    return 1;
}

static unsigned turn(struct fake_exec *fake)
{
    struct fake_queue remote = {.head = tci_inbox_take(&fake->inbox)};
    unsigned count = queue_run(&remote);
    unsigned user;

    count += queue_run(&fake->posted);
    user = queue_run(&fake->user);
    fake->user_runs += user;
    return count + user + run_timers(fake);
}

unsigned fake_exec_run(struct fake_exec *fake)
{
    struct fake_exec *outer = turning;
    unsigned count = 0, more;

    TC_ASSERT(outer != fake);
    turning = fake;
    do {
        more = turn(fake);
        count += more;
    } while (more > 0);
    turning = outer;
    return count;
}

void fake_exec_only(struct fake_exec *fake, struct tci_task *task)
{
    struct fake_exec *outer = turning;

    turning = fake;
    task->fn(task);
    turning = outer;
}

unsigned fake_exec_advance(struct fake_exec *fake, uint64_t span_ns)
{
    atomic_fetch_add_explicit(&fake->now_ns, span_ns, memory_order_relaxed);
    return fake_exec_run(fake);
}

static void *turn_on_thread(void *arg)
{
    struct fake_exec *fake = arg;

    while (!atomic_load_explicit(&fake->is_ending, memory_order_acquire)) {
        while (sem_wait(&fake->work) != 0)
            ;
        fake_exec_run(fake);
    }
    return NULL;
}

void fake_exec_start(struct fake_exec *fake)
{
    int rc;

    atomic_store_explicit(&fake->is_ending, false, memory_order_relaxed);
    atomic_store_explicit(&fake->has_thread, true, memory_order_release);
    rc = pthread_create(&fake->thread, NULL, turn_on_thread, fake);
    TC_ASSERT(rc == 0);
}

void fake_exec_stop(struct fake_exec *fake)
{
    atomic_store_explicit(&fake->is_ending, true, memory_order_release);
    sem_post(&fake->work);
    pthread_join(fake->thread, NULL);
    atomic_store_explicit(&fake->has_thread, false, memory_order_release);
    fake_exec_run(fake);
}
