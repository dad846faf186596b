/* test_loop_short.c - waits that end at once leave nothing behind that a turn has to look at. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base.h"
#include "core/context.h"
#include "core/future.h"
#include "loop/loop.h"
#include "support/loop_room.h"
#include "tcdist/future.h"

#define WAIT_MS 20000

/* An operation whose peers are quick: it ends in its call, or with the first look at its source. */
struct quick {
    tc_context *context;
    struct tci_exec *exec;
    struct tci_source source;
    struct tci_task start, end;
    tc_future *future;
    bool ends_in_call, has_come;
    unsigned polls_left; /* until what has come is seen */
    unsigned polls;
    struct tci_timer *due; /* from its start on, for a turn to find; NULL: none */
};

static void end_quick(struct tci_task *task)
{
    struct quick *quick = tci_container_of(task, struct quick, end);

    tci_future_settle(quick->future, TC_OK, NULL);
}

static void start_quick(struct tci_task *task)
{
    struct quick *quick = tci_container_of(task, struct quick, start);

    if (quick->due != NULL)
        assert_int_equal(quick->exec->ops->timer_set(quick->exec, quick->due, 1), 0);
    if (quick->ends_in_call)
        tci_future_settle(quick->future, TC_OK, NULL);
    else
        quick->has_come = true;
}

static unsigned poll_quick(struct tci_source *source, unsigned budget)
{
    struct quick *quick = tci_container_of(source, struct quick, source);

    (void)budget;
    quick->polls++;
    if (!quick->has_come || quick->polls_left-- > 0)
        return 0;
    quick->polls_left = 0;
    quick->has_come = false;
    quick->end.fn = end_quick;
    quick->exec->ops->post(quick->exec, &quick->end);
    return 1;
}

static bool arm_quick(struct tci_source *source)
{
    return !tci_container_of(source, struct quick, source)->has_come;
}

static bool expects_quick(struct tci_source *source)
{
    return tci_container_of(source, struct quick, source)->has_come;
}

static void add_quick(void *arg)
{
    struct quick *quick = arg;

    quick->exec->ops->source_add(quick->exec, &quick->source);
}

static void del_quick(void *arg)
{
    struct quick *quick = arg;

    quick->exec->ops->source_del(quick->exec, &quick->source);
}

static void open_quick(struct quick *quick, bool ends_in_call)
{
    *quick = (struct quick){.context = context_open(TC_LOOP_MANUAL), .ends_in_call = ends_in_call};
    quick->exec = quick->context->exec;
    quick->source =
        (struct tci_source){.poll = poll_quick, .arm = arm_quick, .expects = expects_quick};
    tci_loop_call(tci_loop_of(quick->exec), add_quick, quick);
}

static void close_quick(struct quick *quick)
{
    tci_loop_call(tci_loop_of(quick->exec), del_quick, quick);
    assert_int_equal(tc_shutdown(quick->context), TC_OK);
}

static void make_future(struct quick *quick)
{
    quick->future = tci_future_new(quick->context, NULL, NULL);
    assert_non_null(quick->future);
}

static void begin_made(struct quick *quick)
{
    quick->start = (struct tci_task){.fn = start_quick};
    if (quick->exec->ops->run_or_post(quick->exec, &quick->start, clock_now_ns()))
        tci_context_owe_turn(quick->context);
}

static tc_future *begin(struct quick *quick)
{
    make_future(quick);
    begin_made(quick);
    return quick->future;
}

static void call(struct quick *quick)
{
    tc_future *future = begin(quick);

    assert_int_equal(tc_future_wait(future, WAIT_MS), TC_OK);
    tc_future_release(future);
}

/* ---- Timers --------------------------------------------------------------------------------- */

struct alarm {
    struct tci_exec *exec;
    struct tci_timer timer;
    bool has_rung;
};

static void ring(struct tci_timer *timer)
{
    tci_container_of(timer, struct alarm, timer)->has_rung = true;
}

static void set_alarm(void *arg)
{
    struct alarm *alarm = arg;

    alarm->timer.fn = ring;
    assert_int_equal(
        alarm->exec->ops->timer_set(alarm->exec, &alarm->timer, clock_now_ns() + TCI_NS_PER_MS), 0);
}

static void clear_alarm(void *arg)
{
    struct alarm *alarm = arg;

    alarm->exec->ops->timer_clear(alarm->exec, &alarm->timer);
}

/* ---- Looks ---------------------------------------------------------------------------------- */

/* Ranks that share cores look at their sources once before they let others through. */
static void what_the_only_look_has_found_ends_the_wait(void **state)
{
    enum { WAITS = 100 };
    struct quick quick;
    unsigned before;

    (void)state;
    open_quick(&quick, false);
    tci_loop_set_local_ranks(tci_loop_of(quick.exec), 100000);
    call(&quick);
    before = quick.polls;
    for (int i = 0; i < WAITS; i++)
        call(&quick);
    assert_int_equal(quick.polls - before, WAITS);
    close_quick(&quick);
}

/* A peer on this core sends when it is let through.  Now and then a turn is due before that. */
static void a_peer_is_let_through_before_a_whole_turn(void **state)
{
    uint64_t end_ns = clock_now_ns() + WAIT_MS * TCI_NS_PER_MS;
    struct alarm alarm = {.timer.fn = ring, .has_rung = true};
    struct quick quick;

    (void)state;
    open_quick(&quick, false);
    tci_loop_set_local_ranks(tci_loop_of(quick.exec), 100000);
    alarm.exec = quick.exec;
    quick.due = &alarm.timer;
    while (alarm.has_rung && clock_now_ns() < end_ns) {
        alarm.has_rung = false;
        quick.polls_left = 1;
        call(&quick);
    }
    assert_false(alarm.has_rung);
    tci_loop_call(tci_loop_of(quick.exec), clear_alarm, &alarm);
    close_quick(&quick);
}

/* ---- Descriptors ---------------------------------------------------------------------------- */

struct pipe_watch {
    struct tci_loop *loop;
    struct tci_watch watch;
    int fds[2];
    bool was_called;
};

static void on_byte(struct tci_watch *watch, uint32_t ready)
{
    (void)ready;
    tci_container_of(watch, struct pipe_watch, watch)->was_called = true;
    tci_watch_del(watch);
}

static void add_pipe(void *arg)
{
    struct pipe_watch *pipe = arg;

    pipe->watch.fn = on_byte;
    assert_int_equal(tci_watch_add(pipe->loop, &pipe->watch, pipe->fds[0], TC_READABLE), 0);
}

static void look_at_descriptors(bool ends_in_call)
{
    uint64_t end_ns = clock_now_ns() + WAIT_MS * TCI_NS_PER_MS;
    struct pipe_watch pipe = {.was_called = false};
    struct quick quick;

    open_quick(&quick, ends_in_call);
    pipe.loop = tci_loop_of(quick.exec);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pipe.fds), 0);
    tci_loop_call(pipe.loop, add_pipe, &pipe);
    assert_int_equal(write(pipe.fds[1], "x", 1), 1);
    while (!pipe.was_called && clock_now_ns() < end_ns)
        call(&quick);

    assert_true(pipe.was_called);
    close(pipe.fds[0]);
    close(pipe.fds[1]);
    close_quick(&quick);
}

static void descriptors_are_looked_at_however_short_all_waits_are(void **state)
{
    (void)state;
    look_at_descriptors(false);
}

static void descriptors_are_looked_at_though_no_wait_has_to_wait(void **state)
{
    (void)state;
    look_at_descriptors(true);
}

/* ---- Pauses --------------------------------------------------------------------------------- */

/* The waits of who calls seldom are short as well, and each of them may be the last for long. */
static void a_wait_after_a_pause_runs_the_timers_that_are_due(void **state)
{
    static const bool ends[] = {false, true};

    (void)state;
    for (size_t e = 0; e < TCI_LEN(ends); e++) {
        struct quick quick;

        open_quick(&quick, ends[e]);
        for (int i = 0; i < 5; i++) {
            struct alarm alarm = {.exec = quick.exec};

            tci_loop_call(tci_loop_of(quick.exec), set_alarm, &alarm);
            call(&quick);
            clock_pass_ms(50); /* the loop's clock for timers may be behind by 20 */
            call(&quick);
            assert_true(alarm.has_rung);
        }
        close_quick(&quick);
    }
}

/* ---- Continuations -------------------------------------------------------------------------- */

static void note(tc_future *future, void *arg)
{
    (void)future;
    *(bool *)arg = true;
}

static void a_continuation_added_before_a_wait_has_run_after_it(void **state)
{
    static const bool ends[] = {false, true};

    (void)state;
    for (size_t e = 0; e < TCI_LEN(ends); e++) {
        struct quick quick;

        open_quick(&quick, ends[e]);
        for (int i = 0; i < 100; i++) {
            bool has_run = false;
            tc_future *future = begin(&quick);

            assert_int_equal(tc_future_then(future, note, &has_run), TC_OK);
            assert_int_equal(tc_future_wait(future, WAIT_MS), TC_OK);
            assert_true(has_run);
            tc_future_release(future);
        }
        close_quick(&quick);
    }
}

/* Up to what is seen while the loop spins, between two turns. */
static void a_continuation_has_run_however_late_the_end_is_seen(void **state)
{
    struct quick quick;

    (void)state;
    open_quick(&quick, false);
    for (unsigned polls = 1; polls < 100; polls++) {
        bool has_run = false;
        tc_future *future;

        quick.polls_left = polls;
        future = begin(&quick);
        assert_int_equal(tc_future_then(future, note, &has_run), TC_OK);
        assert_int_equal(tc_future_wait(future, WAIT_MS), TC_OK);
        assert_true(has_run);
        tc_future_release(future);
    }
    close_quick(&quick);
}

/* As of a call that ends another operation, too. */
static void a_continuation_of_what_ends_in_a_call_has_run_after_the_wait(void **state)
{
    struct quick quick;

    (void)state;
    open_quick(&quick, true);
    for (int i = 0; i < 100; i++) {
        bool has_run = false;

        make_future(&quick);
        assert_int_equal(tc_future_then(quick.future, note, &has_run), TC_OK);
        begin_made(&quick);
        assert_int_equal(tc_future_wait(quick.future, WAIT_MS), TC_OK);
        assert_true(has_run);
        tc_future_release(quick.future);
    }
    close_quick(&quick);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_only_look_has_found_ends_the_wait),
        cmocka_unit_test(a_peer_is_let_through_before_a_whole_turn),
        cmocka_unit_test(descriptors_are_looked_at_however_short_all_waits_are),
        cmocka_unit_test(descriptors_are_looked_at_though_no_wait_has_to_wait),
        cmocka_unit_test(a_wait_after_a_pause_runs_the_timers_that_are_due),
        cmocka_unit_test(a_continuation_added_before_a_wait_has_run_after_it),
        cmocka_unit_test(a_continuation_has_run_however_late_the_end_is_seen),
        cmocka_unit_test(a_continuation_of_what_ends_in_a_call_has_run_after_the_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
