/* turn.c - one turn of the loop, and whether to turn again at once, to spin, or to sleep. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/assert.h"
#include "core/future.h"
#include "loop/state.h"

/* Completions a source may take in before the next one has its turn. */
#define BUDGET 64
/* Passes and time without asking the reactor while there is always something to do, or while we
 * spin: what it costs (1 us) stays small, and other descriptors wait no longer than that. */
#define ASK_PASSES 64
#define ASK_NS     (100 * TCI_NS_PER_US)
/* Looks at the sources between two at the clock and at all else, while we spin: 0.3 us. */
#define GLANCES 16
/* Waits that may end without a whole turn, one after the other, and how long after the reactor was
 * asked last: then timers, descriptors and all else, too. */
#define SHORT_WAITS 16
#define SHORT_NS    TCI_NS_PER_MS
/* The clock of lap.c is behind by a tick of the system at most. */
#define TICK_MAX_NS (20 * TCI_NS_PER_MS)
/* ---- The parts of a turn -------------------------------------------------------------------- */

static struct tci_task *take_queue(struct tci_queue *queue)
{
    struct tci_task *head = queue->head;

    queue->head = NULL;
    queue->tail = &queue->head;
    return head;
}

/* Run the tasks of a chain; what they post waits for the next chain. */
static unsigned run_tasks(struct tci_task *task)
{
    unsigned count = 0;

    while (task != NULL) {
        struct tci_task *next = task->next;

        task->fn(task);
        task = next;
        count++;
    }
    return count;
}

/* User code is called from here and from nowhere else. */
static unsigned run_user(struct tci_loop *loop)
{
    unsigned count;

    if (loop->user.head == NULL)
        return 0;
    loop->is_in_user = true;
    tci_trace_beat(tci_loop_trace(loop), TCI_PART_USER, 0);
    count = run_tasks(take_queue(&loop->user));
    tci_trace_beat(tci_loop_trace(loop), TCI_PART_TURNING, 0);
    loop->is_in_user = false;
    return count;
}

/* Sources may come and go while one of them is polled: loop->cursor moves with that. */
static unsigned poll_sources(struct tci_loop *loop)
{
    unsigned count = 0;

    TC_ASSERT(loop->cursor == NULL);
    for (struct tci_source *source = loop->sources; source != NULL; source = loop->cursor) {
        loop->cursor = source->next;
        count += source->poll(source, BUDGET);
    }
    loop->cursor = NULL;
    return count;
}

/* As far as the first that has something. */
static bool poll_for_one(struct tci_loop *loop)
{
    bool has_one = false;

    TC_ASSERT(loop->cursor == NULL);
    for (struct tci_source *source = loop->sources; source != NULL && !has_one;
         source = loop->cursor) {
        loop->cursor = source->next;
        has_one = source->poll(source, BUDGET) != 0;
    }
    loop->cursor = NULL;
    return has_one;
}

static bool arm_sources(struct tci_loop *loop)
{
    bool is_armed = true;

    TC_ASSERT(loop->cursor == NULL);
    for (struct tci_source *source = loop->sources; source != NULL && is_armed;
         source = loop->cursor) {
        loop->cursor = source->next;
        is_armed = source->arm(source);
    }
    loop->cursor = NULL;
    return is_armed;
}

/* A timer that arms itself again for now waits for the next turn. */
static unsigned run_timers(struct tci_loop *loop)
{
    size_t count_max = loop->timers.count;
    unsigned count = 0;

    while (count < count_max) {
        struct tci_timer *timer = tci_heap_first(&loop->timers);

        if (timer == NULL || timer->deadline_ns > loop->lap_ns + TICK_MAX_NS ||
            timer->deadline_ns > tci_loop_now(loop))
            break;
        tci_heap_clear(&loop->timers, timer);
        timer->fn(timer);
        count++;
    }
    return count;
}

uint64_t tci_loop_next_ns(struct tci_loop *loop)
{
    struct tci_timer *timer = tci_heap_first(&loop->timers);
    uint64_t due_ns = tci_trace_due_ns(tci_loop_trace(loop));

    return timer == NULL ? due_ns : tci_min(timer->deadline_ns, due_ns);
}

/* ---- The turn ------------------------------------------------------------------------------- */

bool tci_loop_is_drained(struct tci_loop *loop)
{
    return loop->posted.head == NULL && loop->user.head == NULL && tci_inbox_is_empty(&loop->inbox);
}

unsigned tci_loop_pass(struct tci_loop *loop)
{
    unsigned done;

    TC_ASSERT(tci_loop_is_here(loop) && !loop->is_in_wait);
    loop->is_now_stale = true;
    loop->passes++;
    tci_loop_lap_begin(loop);
    done = tci_loop_lap(loop, "calls of other threads", run_tasks(tci_inbox_take(&loop->inbox)));
    if (done != 0 && loop->mode == TC_LOOP_THREAD)
        loop->was_called = true;
    done += tci_loop_lap(loop, "posted tasks", run_tasks(take_queue(&loop->posted)));
    done += tci_loop_lap(loop, "transports", poll_sources(loop));
    /* the engine, above all */
    done += tci_loop_lap(loop, "the engine", run_tasks(take_queue(&loop->posted)));
    done += tci_loop_lap(loop, "continuations of the application", run_user(loop));
    done += tci_loop_lap(loop, "timers", run_timers(loop));
    if (loop->calls != NULL && (done != 0 || loop->events != loop->events_seen))
        tci_loop_call_check(loop);
    loop->events_seen = loop->events;
    return done;
}

void tci_loop_ask(struct tci_loop *loop, uint64_t timeout_ns)
{
    if (timeout_ns > 0)
        tci_trace_beat(tci_loop_trace(loop), TCI_PART_ASLEEP, 0);
    loop->passes = 0;
    loop->is_now_stale = true; /* for what is called after the sleep */
    loop->is_in_wait = true;
    loop->reactor->wait(loop->reactor, timeout_ns);
    loop->is_in_wait = false;
    loop->is_now_stale = true;
    loop->asked_ns = tci_loop_now(loop);
}

bool tci_loop_may_sleep(struct tci_loop *loop)
{
    if (loop->posted.head != NULL || loop->user.head != NULL || !arm_sources(loop))
        return false;
    if (loop->posted.head != NULL || loop->user.head != NULL)
        return false; /* arming brought it up */
    return tci_wake_sleep(loop);
}

/* ---- Turn after turn ------------------------------------------------------------------------ */

static void sleep_until(struct tci_loop *loop, uint64_t deadline_ns)
{
    uint64_t next_ns;

    if (!tci_loop_may_sleep(loop))
        return;
    next_ns = tci_loop_next_ns(loop);
    if (next_ns < deadline_ns)
        deadline_ns = next_ns;
    loop->is_now_stale = true;
    if (deadline_ns == TCI_NEVER)
        tci_loop_ask(loop, TCI_NEVER);
    else if (deadline_ns > tci_loop_now(loop))
        tci_loop_ask(loop, deadline_ns - loop->now_ns);
    tci_wake_rise(loop);
}

/* Look at the sources alone for a moment; whether something came. */
static bool glance(struct tci_loop *loop)
{
    for (unsigned i = 0; i < GLANCES && tci_loop_is_drained(loop); i++)
        if (poll_sources(loop) != 0)
            return true;
    return false;
}

/* What a glance has found goes on at once: it may be all that the waiter waits for, and one more
 * look at the sources can take long.  Whether it was. */
static bool is_done_by_glance(struct tci_loop *loop, const struct tci_waiter *waiter)
{
    loop->is_now_stale = true;
    tci_loop_lap_begin(loop);
    (void)tci_loop_lap(loop, "the engine", run_tasks(take_queue(&loop->posted)));
    return loop->user.head == NULL && loop->calls == NULL && tci_waiter_is_done(waiter);
}

/* Whether the next wait is to be a whole turn.  Whatever takes a short way has been begun by now,
 * with the time of that: the clock need not be read. */
static bool is_turn_due(const struct tci_loop *loop)
{
    return loop->short_waits >= SHORT_WAITS || loop->now_ns - loop->asked_ns >= SHORT_NS;
}

static void begin_turn(struct tci_loop *loop)
{
    loop->short_waits = 0;
    if (loop->now_ns - loop->asked_ns >= SHORT_NS)
        tci_loop_ask(loop, 0);
}

/* A waiter whose peers are as quick as this rank has what it waits for with the next message or
 * two: those are looked for first, and no more of a turn.  Where ranks share cores a peer may need
 * this very one, and it is let through as soon as nothing is there; what it sends is looked for
 * before anything else of a turn, too.  Whether that was all. */
static bool is_done_shortly(struct tci_loop *loop, const struct tci_waiter *waiter)
{
    bool is_shared = tci_loop_shares_cores(loop);

    if (waiter->is_done == NULL || loop->calls != NULL)
        return false;
    loop->short_waits++;
    loop->is_now_stale = true;
    for (unsigned i = 0; i < GLANCES && loop->user.head == NULL; i++) {
        bool is_new = run_tasks(take_queue(&loop->posted)) != 0;

        if (is_new && loop->user.head == NULL && tci_waiter_is_done(waiter))
            return true;
        if (!tci_loop_is_drained(loop))
            return false;
        if (!poll_for_one(loop) && is_shared && !tci_spin_lets_through(loop))
            return false;
    }
    /* What the last look has found: a whole turn looks at everything else before it is seen. */
    return run_tasks(take_queue(&loop->posted)) != 0 && loop->user.head == NULL &&
           tci_waiter_is_done(waiter);
}

static void note_progress(struct tci_loop *loop)
{
    tci_spin_progress(&loop->spin);
    if (loop->mode != TC_LOOP_THREAD)
        tci_loop_tell(loop);
}

void tci_loop_run(struct tci_loop *loop, const struct tci_waiter *waiter, bool is_once)
{
    bool is_last = false;

    tci_spin_begin(&loop->spin);
    if (is_turn_due(loop))
        begin_turn(loop);
    else if (!is_once && loop->mode != TC_LOOP_THREAD && is_done_shortly(loop, waiter))
        return;
    while (!loop->is_stopping) {
        unsigned events = loop->events;
        unsigned done = tci_loop_pass(loop);

        if (tci_waiter_is_done(waiter))
            break;
        if (done != 0)
            note_progress(loop);
        if (is_last || (is_once && done != 0) ||
            (waiter->deadline_ns != TCI_NEVER && waiter->deadline_ns <= tci_loop_now(loop)))
            break;
        if (done == 0 && !tci_spin_goes_on(loop)) {
            sleep_until(loop, waiter->deadline_ns);
        } else if (done == 0 && loop->spin.yields == 0 && glance(loop)) {
            note_progress(loop);
            if (is_done_by_glance(loop, waiter))
                break;
        } else if (loop->passes >= ASK_PASSES || tci_loop_now(loop) - loop->asked_ns >= ASK_NS) {
            tci_loop_ask(loop, 0);
        }
        if (loop->events != events) {
            note_progress(loop);
            is_last = is_once; /* one more pass, for what they posted */
        }
    }
}

/* With MANUAL what is asked for need not wait for the turn, if no other thread is at it: a message
 * is on its way when the call returns.  What was posted before comes first. */
bool tci_loop_run_or_post(struct tci_exec *exec, struct tci_task *task, uint64_t now_ns)
{
    struct tci_loop *loop = tci_loop_of(exec);
    bool is_idle, owes_turn;

    if (loop->mode != TC_LOOP_MANUAL || !tci_loop_try_enter(loop)) {
        tci_wake_post(loop, task);
        return false;
    }
    /* The time is known, unless others have posted since, or turned the loop. */
    if (run_tasks(tci_inbox_take(&loop->inbox)) == 0) {
        loop->now_ns = tci_max(loop->now_ns, now_ns);
        loop->is_now_stale = false;
    }
    is_idle = loop->posted.head == NULL;
    task->fn(task);
    /* The peers may have been waiting for this alone: then that was all, and there is no wait. */
    if (is_idle && loop->posted.head != NULL && !is_turn_due(loop)) {
        loop->short_waits++;
        (void)run_tasks(take_queue(&loop->posted));
    }
    if (loop->calls != NULL)
        tci_loop_call_check(loop); /* no turn that follows may find anything else to do */
    owes_turn = loop->user.head != NULL || is_turn_due(loop);
    tci_loop_let_go(loop); /* it was away, and is */
    return owes_turn;
}
