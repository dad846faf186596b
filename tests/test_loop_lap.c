/* test_loop_lap.c - who holds the loop for long is named in the log. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/loop_room.h"
#include "tcdist/tcdist.h"

static char last[512];

static void hear(tc_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    if (level == TC_LOG_WARN && strstr(line, "the loop was held for ") != NULL)
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

static void take_long(tc_future *future, void *arg)
{
    (void)future;
    (void)arg;
    clock_pass_ms(300);
}

static void a_continuation_that_takes_long_is_told_of(void **state)
{
    tc_context *context = context_open(TC_LOOP_MANUAL);
    tc_future *promise = tc_promise_create(context);

    (void)state;
    assert_int_equal(tc_future_then(promise, take_long, NULL), TC_OK);
    assert_int_equal(tc_promise_settle(promise, TC_OK), TC_OK);
    for (int i = 0; i < 1000 && last[0] == '\0'; i++)
        assert_int_equal(tc_poll(context, 0), TC_OK);
    assert_non_null(strstr(last, "by continuations of the application (1 called)"));
    tc_future_release(promise);
    tc_shutdown(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_continuation_that_takes_long_is_told_of, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
