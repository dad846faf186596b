/* test_loop_turn.c - what one turn leaves to the next one, and what ends a poll. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120 */
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base.h"
#include "loop/loop.h"
#include "loop/state.h"
#include "support/loop_room.h"

/* ---- Timers --------------------------------------------------------------------------------- */

struct again {
    struct tci_timer timer;
    struct tci_exec *exec;
    unsigned rings;
};

static void ring_again(struct tci_timer *timer)
{
    struct again *again = tci_container_of(timer, struct again, timer);

    again->rings++;
    assert_int_equal(again->exec->ops->timer_set(again->exec, timer, 1), 0);
}

static void turn_with_timer(void *arg)
{
    struct again *again = arg;
    struct tci_loop *loop = tci_loop_of(again->exec);

    again->timer.fn = ring_again;
    assert_int_equal(again->exec->ops->timer_set(again->exec, &again->timer, 1), 0);
    for (unsigned turns = 1; turns <= 3; turns++) {
        tci_loop_pass(loop);
        assert_int_equal(again->rings, turns);
    }
    again->exec->ops->timer_clear(again->exec, &again->timer);
}

/* Runs fn as whoever turns the loop. */
static void as_owner(struct tci_loop *loop, void (*fn)(void *arg), void *arg)
{
    assert_true(tci_loop_try_enter(loop));
    fn(arg);
    tci_loop_leave(loop);
}

static void a_timer_that_is_set_again_for_now_waits_for_the_next_turn(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, -1);
    struct again again = {.exec = tci_loop_exec(loop)};

    (void)state;
    as_owner(loop, turn_with_timer, &again);
    tci_loop_free(loop);
}

/* ---- Sleep ---------------------------------------------------------------------------------- */

struct armed {
    struct tci_source source;
    struct tci_task task;
    struct tci_exec *exec;
    bool is_posting, has_run;
};

static unsigned poll_nothing(struct tci_source *source, unsigned budget)
{
    (void)source;
    (void)budget;
    return 0;
}

static void note_run(struct tci_task *task)
{
    tci_container_of(task, struct armed, task)->has_run = true;
}

/* It has nothing itself, and gives the loop something to do. */
static bool arm_and_post(struct tci_source *source)
{
    struct armed *armed = tci_container_of(source, struct armed, source);

    if (armed->is_posting)
        armed->exec->ops->post(armed->exec, &armed->task);
    armed->is_posting = false;
    return true;
}

static bool expects_nothing(struct tci_source *source)
{
    (void)source;
    return false;
}

static void sleep_with_source(void *arg)
{
    struct armed *armed = arg;
    struct tci_loop *loop = tci_loop_of(armed->exec);

    armed->exec->ops->source_add(armed->exec, &armed->source);
    assert_false(tci_loop_may_sleep(loop));
    tci_loop_pass(loop);
    assert_true(armed->has_run);
    assert_true(tci_loop_may_sleep(loop));
    tci_wake_rise(loop);
    armed->exec->ops->source_del(armed->exec, &armed->source);
}

static void what_a_source_posts_as_it_is_armed_keeps_the_loop_awake(void **state)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, -1);
    struct armed armed = {
        .source = {.poll = poll_nothing, .arm = arm_and_post, .expects = expects_nothing},
        .task = {.fn = note_run},
        .exec = tci_loop_exec(loop),
        .is_posting = true};

    (void)state;
    as_owner(loop, sleep_with_source, &armed);
    tci_loop_free(loop);
}

/* ---- Polls ---------------------------------------------------------------------------------- */

/* A byte comes that nobody posts anything for. */
struct byte {
    struct tci_watch watch;
    struct tci_loop *loop;
    int fds[2];
    bool has_come;
};

static void take_byte(struct tci_watch *watch, uint32_t ready)
{
    (void)ready;
    tci_container_of(watch, struct byte, watch)->has_come = true;
    tci_watch_del(watch);
}

static void watch_byte(void *arg)
{
    struct byte *byte = arg;

    byte->watch.fn = take_byte;
    assert_int_equal(tci_watch_add(byte->loop, &byte->watch, byte->fds[0], TC_READABLE), 0);
}

static void *send_byte(void *arg)
{
    const struct byte *byte = arg;

    clock_pass_ms(30);
    assert_int_equal(write(byte->fds[1], "x", 1), 1);
    return NULL;
}

/* However long it might take. */
static void a_poll_ends_with_what_a_descriptor_has_brought(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) {
        struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, -1);
        struct byte byte = {.loop = loop};
        pthread_t thread;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, byte.fds), 0);
        tci_loop_call(loop, watch_byte, &byte);
        if (is_late)
            assert_int_equal(pthread_create(&thread, NULL, send_byte, &byte), 0);
        else
            (void)send_byte(&byte);
        assert_int_equal(tci_loop_turn(loop, -1), TC_OK);
        assert_true(byte.has_come);
        if (is_late)
            pthread_join(thread, NULL);
        close(byte.fds[0]);
        close(byte.fds[1]);
        tci_loop_free(loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_that_is_set_again_for_now_waits_for_the_next_turn),
        cmocka_unit_test(what_a_source_posts_as_it_is_armed_keeps_the_loop_awake),
        cmocka_unit_test(a_poll_ends_with_what_a_descriptor_has_brought),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
