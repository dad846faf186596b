/* exec_sim.c - the port of time and turn in virtual time: a heap of events for all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/exec_sim.h"

#include <stdlib.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/future.h"

uint64_t sim_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---- The heap ------------------------------------------------------------------------------- */

static bool is_before(const struct sim_slot *a, const struct sim_slot *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void push(struct sim_clock *clock, struct sim_slot slot)
{
    size_t at = clock->count++;

    if (at == clock->room) {
        clock->room = tci_max(1024, 2 * clock->room);
        clock->slots = realloc(clock->slots, clock->room * sizeof(*clock->slots));
        TC_ASSERT(clock->slots != NULL);
    }
    for (; at > 0 && is_before(&slot, &clock->slots[(at - 1) / 2]); at = (at - 1) / 2)
        clock->slots[at] = clock->slots[(at - 1) / 2];
    clock->slots[at] = slot;
}

static struct sim_slot pop(struct sim_clock *clock)
{
    struct sim_slot first = clock->slots[0], last = clock->slots[--clock->count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < clock->count) {
        if (child + 1 < clock->count && is_before(&clock->slots[child + 1], &clock->slots[child]))
            child++;
        if (!is_before(&clock->slots[child], &last))
            break;
        clock->slots[at] = clock->slots[child];
        at = child;
    }
    if (clock->count > 0)
        clock->slots[at] = last;
    return first;
}

void sim_clock_init(struct sim_clock *clock)
{
    *clock = (struct sim_clock){.seq = 1};
}

void sim_clock_fini(struct sim_clock *clock)
{
    TC_ASSERT(clock->turning == NULL);
    free(clock->slots);
    *clock = (struct sim_clock){0};
}

void sim_clock_add(struct sim_clock *clock, uint64_t at_ns, struct sim_event *event)
{
    struct sim_slot slot = {.at_ns = at_ns, .seq = clock->seq++, .event = event};

    if (slot.at_ns < clock->now_ns)
        slot.at_ns = clock->now_ns;
    push(clock, slot);
}

/* ---- Turning -------------------------------------------------------------------------------- */

static void queue_init(struct sim_queue *queue)
{
    queue->head = NULL;
    queue->tail = &queue->head;
}

static void queue_add(struct sim_queue *queue, struct tci_task *task)
{
    task->next = NULL;
    *queue->tail = task;
    queue->tail = &task->next;
}

static void queue_run(struct sim_queue *queue)
{
    struct tci_task *task = queue->head;

    queue_init(queue);
    while (task != NULL) {
        struct tci_task *next = task->next;

        task->fn(task);
        task = next;
    }
}

static void want_turn(struct sim_exec *exec)
{
    if (exec->has_turn || exec->clock->turning == exec)
        return; /* whoever turns it looks again in the end */
    exec->has_turn = true;
    sim_clock_add(exec->clock, exec->clock->now_ns, &exec->turn);
}

static void run_timers(struct sim_exec *exec)
{
    struct tci_timer *timer;

    while ((timer = tci_heap_first(&exec->timers)) != NULL &&
           timer->deadline_ns <= exec->clock->now_ns + exec->ahead_ns) {
        tci_heap_clear(&exec->timers, timer);
        timer->fn(timer);
    }
}

/* When a timer is due by the common clock. */
static uint64_t due_ns(const struct sim_exec *exec, const struct tci_timer *timer)
{
    return timer->deadline_ns - tci_min(exec->ahead_ns, timer->deadline_ns);
}

static void want_wake(struct sim_exec *exec)
{
    const struct tci_timer *first = tci_heap_first(&exec->timers);

    if (first == NULL || first->deadline_ns == TCI_NEVER || due_ns(exec, first) >= exec->wake_ns)
        return;
    exec->wake_ns = due_ns(exec, first); /* a later `wake` stays in the clock: it is harmless */
    sim_clock_add(exec->clock, exec->wake_ns, &exec->wake);
}

static void on_turn(struct sim_event *event)
{
    event->exec->has_turn = false;
}

static void on_wake(struct sim_event *event)
{
    if (event->exec->clock->now_ns >= event->exec->wake_ns)
        event->exec->wake_ns = TCI_NEVER;
}

/* A wake-up whose timer is gone must not move the clock. */
static bool is_stale(const struct sim_slot *slot)
{
    struct sim_exec *exec = slot->event->exec;
    const struct tci_timer *first;

    if (slot->event != &exec->wake)
        return false;
    first = tci_heap_first(&exec->timers);
    return exec->is_dead || first == NULL || due_ns(exec, first) > slot->at_ns;
}

static void happen(struct sim_clock *clock, struct sim_event *event)
{
    struct sim_exec *exec = event->exec;

    clock->turning = exec;
    clock->events++;
    event->fn(event);
    if (!exec->is_dead) {
        queue_run(&exec->posted);
        queue_run(&exec->user);
        run_timers(exec);
    }
    clock->turning = NULL;
    if (exec->is_dead)
        return;
    want_wake(exec);
    if (exec->posted.head != NULL || exec->user.head != NULL)
        want_turn(exec);
}

bool sim_clock_step(struct sim_clock *clock, uint64_t end_ns)
{
    while (clock->count > 0 && clock->slots[0].at_ns < end_ns) {
        struct sim_slot slot = pop(clock);
        struct sim_exec *exec = slot.event->exec;

        if (is_stale(&slot)) {
            if (slot.at_ns >= exec->wake_ns)
                exec->wake_ns = TCI_NEVER;
            if (!exec->is_dead)
                want_wake(exec);
            continue;
        }
        if (slot.at_ns < exec->stalled_to_ns) {
            slot.at_ns = exec->stalled_to_ns; /* keeps its number, hence its place */
            push(clock, slot);
            continue;
        }
        clock->now_ns = slot.at_ns;
        happen(clock, slot.event);
        return true;
    }
    return false;
}

/* ---- The port ------------------------------------------------------------------------------- */

static struct sim_exec *of(struct tci_exec *self)
{
    return (struct sim_exec *)self;
}

static uint64_t now_ns(struct tci_exec *self)
{
    return of(self)->clock->now_ns + of(self)->ahead_ns;
}

static void post(struct tci_exec *self, struct tci_task *task)
{
    queue_add(&of(self)->posted, task);
    want_turn(of(self));
}

static void post_user(struct tci_exec *self, struct tci_task *task)
{
    queue_add(&of(self)->user, task);
    want_turn(of(self));
}

static int timer_set(struct tci_exec *self, struct tci_timer *timer, uint64_t deadline_ns)
{
    int rc = tci_heap_set(&of(self)->timers, timer, deadline_ns);

    want_wake(of(self));
    return rc;
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
    return of(self)->clock->turning == of(self);
}

static void wait_for(struct tci_exec *self, struct tc_future *future, uint64_t deadline_ns)
{
    struct sim_clock *clock = of(self)->clock;

    while (!tci_future_is_settled(future) && sim_clock_step(clock, deadline_ns))
        ;
    /* Nothing would ever happen: the caller would hang. */
    TC_ASSERT(tci_future_is_settled(future) || deadline_ns != TCI_NEVER);
    if (!tci_future_is_settled(future) && clock->now_ns < deadline_ns)
        clock->now_ns = deadline_ns;
}

static const struct tci_exec_ops ops = {
    .now_ns = now_ns,
    .post = post,
    .post_remote = post, /* one thread is all there is */
    .post_user = post_user,
    .timer_set = timer_set,
    .timer_clear = timer_clear,
    .source_add = no_source,
    .source_del = no_source,
    .is_here = is_here,
    .wait = wait_for,
};

void sim_exec_init(struct sim_exec *exec, struct sim_clock *clock)
{
    *exec = (struct sim_exec){.exec = {.ops = &ops}, .clock = clock, .wake_ns = TCI_NEVER};
    queue_init(&exec->posted);
    queue_init(&exec->user);
    exec->turn = (struct sim_event){.exec = exec, .fn = on_turn};
    exec->wake = (struct sim_event){.exec = exec, .fn = on_wake};
}

void sim_exec_fini(struct sim_exec *exec)
{
    TC_ASSERT(exec->posted.head == NULL && exec->user.head == NULL);
    TC_ASSERT(tci_heap_first(&exec->timers) == NULL);
    tci_heap_fini(&exec->timers);
}
