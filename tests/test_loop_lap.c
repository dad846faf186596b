/* test_loop_lap.c - who holds the loop for long is named in the log, and whether it ran. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
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

static void hear(tc_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    if (level == TC_LOG_WARN && (strstr(line, "the loop was held for ") != NULL ||
                                 strstr(line, "the loop stood still for ") != NULL))
        snprintf(last, sizeof(last), "%s", line);
}

static int setup(void **state)
{
    (void)state;
    last[0] = '\0';
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_continuation_that_takes_long_is_told_of, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_does_not_run_is_not_said_to_have_taken_it, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
