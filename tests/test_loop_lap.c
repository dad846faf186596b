/* test_loop_lap.c - who holds the loop for long is named in the log, and whether it ran. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/loop_room.h"
#include "tcdist/tcdist.h"

static char last[512];
static unsigned told;

static void hear(tc_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    if (level == TC_LOG_WARN && (strstr(line, "the loop was held for ") != NULL ||
                                 strstr(line, "the loop stood still for ") != NULL)) {
        snprintf(last, sizeof(last), "%s", line);
        told++;
    }
}

static int setup(void **state)
{
    (void)state;
    last[0] = '\0';
    told = 0;
    tc_log_set_sink(hear, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tc_log_set_sink(NULL, NULL);
    return 0;
}

static double seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void take_long(tc_future *future, void *arg)
{
    (void)future;
    (void)arg;
    clock_pass_ms(300);
}

static void note_run(tc_future *future, void *arg)
{
    (void)future;
    *(bool *)arg = true;
}

/* Arg is told how long it took for 300 ms of a processor. */
static void compute_long(tc_future *future, void *arg)
{
    double begin = seconds(CLOCK_MONOTONIC), ran = seconds(CLOCK_THREAD_CPUTIME_ID);

    (void)future;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) - ran < 0.3) {
    }
    *(double *)arg = seconds(CLOCK_MONOTONIC) - begin;
}

static void hear_of(void (*long_one)(tc_future *future, void *arg), void *arg)
{
    tc_context *context = context_open(TC_LOOP_MANUAL);
    tc_future *promise = tc_promise_create(context);

    assert_int_equal(tc_future_then(promise, long_one, arg), TC_OK);
    assert_int_equal(tc_promise_settle(promise, TC_OK), TC_OK);
    for (int i = 0; i < 1000 && last[0] == '\0'; i++)
        assert_int_equal(tc_poll(context, 0), TC_OK);
    tc_future_release(promise);
    tc_shutdown(context);
}

static void a_continuation_that_takes_long_is_told_of(void **state)
{
    double took = 0;

    (void)state;
    hear_of(compute_long, &took);
    if (took < 0.5) /* it had the processor for most of the time */
        assert_non_null(strstr(last, "was held for "));
    assert_non_null(strstr(last, " continuations of the application (1 called), and "));
}

/* As it is with one that others keep from the processor. */
static void one_that_does_not_run_is_not_said_to_have_taken_it(void **state)
{
    (void)state;
    hear_of(take_long, NULL);
    assert_non_null(strstr(last, "the loop stood still for "));
    assert_non_null(strstr(last, " in continuations of the application (1 called), and ran for "));
    assert_non_null(strstr(last, "if nothing waits there, others had the processor"));
}

/* For a quarter of the time at most. */
static void take_long_and_compute(tc_future *future, void *arg)
{
    double ran = seconds(CLOCK_THREAD_CPUTIME_ID);

    (void)future;
    (void)arg;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) - ran < 0.1) {
    }
    clock_pass_ms(300);
}

static void one_that_runs_for_the_lesser_part_is_not_said_to_have_taken_it(void **state)
{
    (void)state;
    hear_of(take_long_and_compute, NULL);
    assert_non_null(strstr(last, "the loop stood still for "));
}

struct turner {
    tc_context *context;
    pthread_t thread;
};

static void *poll_until_heard(void *arg)
{
    struct turner *turner = arg;

    for (int i = 0; i < 1000 && last[0] == '\0'; i++)
        (void)tc_poll(turner->context, 0);
    return NULL;
}

/* What one thread has had of a processor says nothing of another one, which turns the loop next. */
static void what_another_thread_has_run_is_not_counted(void **state)
{
    struct turner turner = {.context = context_open(TC_LOOP_MANUAL)};
    tc_future *promise = tc_promise_create(turner.context);
    double ran = seconds(CLOCK_THREAD_CPUTIME_ID);

    (void)state;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) - ran < 0.5) {
    }
    assert_int_equal(tc_future_then(promise, take_long, NULL), TC_OK);
    assert_int_equal(tc_poll(turner.context, 0), TC_OK);
    assert_int_equal(tc_promise_settle(promise, TC_OK), TC_OK);
    assert_int_equal(pthread_create(&turner.thread, NULL, poll_until_heard, &turner), 0);
    pthread_join(turner.thread, NULL);
    assert_non_null(strstr(last, "the loop stood still for "));
    tc_future_release(promise);
    tc_shutdown(turner.context);
}

/* Within a second; what took longer on a busy machine is told of again. */
static void one_that_takes_long_again_and_again_is_told_of_once(void **state)
{
    tc_context *context = context_open(TC_LOOP_MANUAL);
    double begin = seconds(CLOCK_MONOTONIC);

    (void)state;
    for (int i = 0; i < 2; i++) {
        tc_future *promise = tc_promise_create(context);
        bool has_run = false;

        assert_int_equal(tc_future_then(promise, take_long, NULL), TC_OK);
        assert_int_equal(tc_future_then(promise, note_run, &has_run), TC_OK);
        assert_int_equal(tc_promise_settle(promise, TC_OK), TC_OK);
        while (!has_run)
            assert_int_equal(tc_poll(context, 0), TC_OK);
        tc_future_release(promise);
    }
    assert_true(told >= 1);
    if (seconds(CLOCK_MONOTONIC) - begin < 0.9)
        assert_int_equal(told, 1);
    tc_shutdown(context);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_continuation_that_takes_long_is_told_of),
        CASE(one_that_does_not_run_is_not_said_to_have_taken_it),
        CASE(one_that_runs_for_the_lesser_part_is_not_said_to_have_taken_it),
        CASE(what_another_thread_has_run_is_not_counted),
        CASE(one_that_takes_long_again_and_again_is_told_of_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
