/* test_elastic.c - training goes on while workers are killed, to the weights of a simulation. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, serial */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/tool_run.h"
#include "support/world.h"

#define DATA "--data", TEST_SOURCE_DIR "/examples/digits/digits.csv.gz"

#define ELASTIC(...) ((const char *const[]){"../examples/elastic", DATA, __VA_ARGS__, NULL})

static void run(struct tool_run *run_out, const char *const argv[], int exit_code)
{
    tool_start(run_out, NULL, argv);
    tool_finish(run_out);
    if (run_out->exit_code != exit_code)
        fail_msg("exit code %d, not %d; standard output:\n%s\nstandard error:\n%s",
                 run_out->exit_code, exit_code, run_out->out.data, run_out->err.data);
}

/* The program compares the weights itself, bit for bit, and ends with 1 where they differ. */
static void weights_are_those_of_the_same_history(void **state)
{
    int seeds = test_effort() == 2 ? 20 : 2;

    (void)state;
    for (int s = 1; s <= seeds; s++) {
        struct tool_run train;
        char seed[16];

        (void)snprintf(seed, sizeof seed, "%d", s);
        run(&train,
            test_effort() == 2 ? ELASTIC("--seed", seed, "--steps", "500")
                               : ELASTIC("--seed", seed, "--steps", "60", "--kill-every", "10",
                                         "--hidden", "16", "--rows", "8"),
            0);
        assert_non_null(strstr(train.out.data, "those of a plain simulation, bit for bit"));
        /* Some moments pass before the supervisor sees them. */
        size_t killed = tool_count(train.out.data, "is killed");
        assert_true(killed >= 2);
        assert_int_equal(tool_count(train.out.data, " joins, as rank 3 of 4"), killed);
        tool_close(&train);
    }
}

static void who_dies_while_another_joins_stops_nobody(void **state)
{
    int seeds = test_effort() == 2 ? 20 : 1;

    (void)state;
    for (int s = 1; s <= seeds; s++) {
        struct tool_run train;
        char seed[16];

        (void)snprintf(seed, sizeof seed, "%d", s);
        run(&train,
            ELASTIC("--seed", seed, "--steps", "60", "--kill-every", "10", "--hidden", "16",
                    "--rows", "8", "--disturb"),
            0);
        assert_non_null(strstr(train.out.data, "those of a plain simulation, bit for bit"));
        assert_true(tool_count(train.out.data, "is killed") >= 2);
        tool_close(&train);
    }
}

static void nobody_has_to_be_killed(void **state)
{
    struct tool_run train;

    (void)state;
    run(&train, ELASTIC("-n", "3", "-k", "0", "--steps", "20", "--hidden", "16", "--rows", "8"), 0);
    assert_non_null(strstr(train.out.data, "0 workers killed, 3 at the end"));
    tool_close(&train);
    run(&train, ELASTIC("-n", "1"), 2);
    tool_close(&train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_the_same_history),
        cmocka_unit_test(who_dies_while_another_joins_stops_nobody),
        cmocka_unit_test(nobody_has_to_be_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
