/* test_tensor_parallel.c - the example that splits a network: the same bits, or within rounding. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tool_run.h"

#define DATA "--data", TEST_SOURCE_DIR "/examples/digits/digits.csv.gz"

/* A network that learns enough to compare, soon also under a sanitizer. */
#define SMALL DATA, "--hidden", "32", "--epochs", "2"

#define RANKS(n, ...)                                                                              \
    ((const char *const[]){"tcrun", "-n", n, "--no-prefix", "--", program_path, __VA_ARGS__, NULL})

static char program_path[4096];

static void run(struct tool_run *run_out, const char *const argv[], int exit_code)
{
    tool_start(run_out, NULL, argv);
    tool_finish(run_out);
    if (run_out->exit_code != exit_code)
        fail_msg("exit code %d, not %d; standard output:\n%s\nstandard error:\n%s",
                 run_out->exit_code, exit_code, run_out->out.data, run_out->err.data);
}

static double number_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);

    assert_non_null(at);
    return strtod(at + strlen(word), NULL);
}

/* What follows a word, up to the line's end. */
static const char *line_after(const char *text, const char *word, char *line, size_t room)
{
    const char *at = strstr(text, word);

    assert_non_null(at);
    (void)snprintf(line, room, "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

/* ---- Both ways ------------------------------------------------------------------------------ */

static void split_networks_give_the_unsplit_ones_result(void **state)
{
    static const char *const ranks[] = {"1", "2", "4"};
    char first[256], line[256];

    (void)state;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        struct tool_run split;
        double loss;

        run(&split, RANKS(ranks[i], SMALL), 0);
        loss = number_after(split.out.data, "unsplit  loss ");

        /* The hash of the weights: of all numbers of ranks the same. */
        line_after(split.out.data, "gather   after training, all parameters and all outputs", line,
                   sizeof line);
        if (i == 0)
            memcpy(first, line, sizeof first);
        assert_string_equal(line, first);
        assert_true(number_after(split.out.data, "gather   loss ") == loss);
        assert_true(fabs(number_after(split.out.data, "reduce   loss ") - loss) <= 1e-3 * loss);
        assert_true(number_after(split.out.data, "no output is off by more than ") < 1e-3);
        assert_string_equal(split.err.data, "");
        tool_close(&split);
    }
}

static void the_network_learns_the_digits(void **state)
{
    struct tool_run alone;

    (void)state;
    run(&alone, RANKS("1", DATA, "--hidden", "64", "--split", "gather", "--epochs", "6"), 0);

    assert_true(number_after(alone.out.data, "   test ") >= 90);
    tool_close(&alone);
}

/* Five ranks share 40 hidden features and 10 outputs, without spare ones. */
static void five_ranks_need_no_spare_outputs(void **state)
{
    struct tool_run five;

    (void)state;
    run(&five, RANKS("5", DATA, "--hidden", "40", "--outputs", "10", "--epochs", "1"), 0);

    assert_non_null(strstr(five.out.data, "have the unsplit network's bits"));
    tool_close(&five);
}

static void one_way_may_be_chosen(void **state)
{
    struct tool_run two;

    (void)state;
    run(&two, RANKS("2", SMALL, "--split", "reduce", "--outputs", "11"), 0);

    assert_non_null(strstr(two.out.data, "reduce   loss "));
    assert_null(strstr(two.out.data, "gather"));
    tool_close(&two);
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

static void an_uneven_split_names_the_layer(void **state)
{
    static const struct {
        const char *ranks, *hidden, *outputs, *split, *told;
    } cases[] = {
        {"4", "30", "16", "reduce",
         "tensor_parallel: reduce: layer 1 has 30 output features, which 4 ranks can not share "
         "evenly"},
        {"3", "32", "12", "gather",
         "tensor_parallel: gather: layer 1 has 32 output features, which 3 ranks can not share "
         "evenly"},
        {"4", "32", "10", "both",
         "tensor_parallel: gather: layer 2 has 10 output features, which 4 ranks can not share "
         "evenly"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tool_run uneven;

        run(&uneven,
            RANKS(cases[i].ranks, DATA, "--hidden", cases[i].hidden, "--outputs", cases[i].outputs,
                  "--split", cases[i].split),
            2);

        assert_int_equal(tool_count(uneven.err.data, cases[i].told), 1);
        assert_int_equal(tool_count(uneven.err.data, "tensor_parallel: "), 1);
        assert_string_equal(uneven.out.data, "");
        tool_close(&uneven);
    }
}

static void failures_exit_with_1_and_mistakes_with_2(void **state)
{
    static const char *const mistakes[][2] = {
        {"--split", "sideways"}, {"--outputs", "9"}, {"--hidden", "0"}, {"--epochs", "-1"}};
    struct tool_run failed;

    (void)state;
    run(&failed, RANKS("2", "--data", "/nowhere.csv"), 1);
    assert_int_equal(tool_count(failed.err.data, "tensor_parallel: /nowhere.csv: "), 1);
    tool_close(&failed);

    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        run(&failed, RANKS("1", mistakes[i][0], mistakes[i][1]), 2);
        assert_non_null(strstr(failed.err.data, "--help"));
        tool_close(&failed);
    }
}

static void help_comes_once_and_quiet_says_nothing(void **state)
{
    struct tool_run two;

    (void)state;
    run(&two, RANKS("2", "--help"), 0);
    assert_int_equal(tool_count(two.out.data, "--split=HOW"), 1);
    tool_close(&two);
    run(&two, RANKS("2", SMALL, "--quiet"), 0);
    assert_string_equal(two.out.data, "");
    assert_string_equal(two.err.data, "");
    tool_close(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_networks_give_the_unsplit_ones_result),
        cmocka_unit_test(the_network_learns_the_digits),
        cmocka_unit_test(five_ranks_need_no_spare_outputs),
        cmocka_unit_test(one_way_may_be_chosen),
        cmocka_unit_test(an_uneven_split_names_the_layer),
        cmocka_unit_test(failures_exit_with_1_and_mistakes_with_2),
        cmocka_unit_test(help_comes_once_and_quiet_says_nothing),
    };

    /* What is slow is warned of, and a machine may be slow. */
    setenv("TCDIST_LOG", "error", 1);
    (void)snprintf(program_path, sizeof program_path, "%s",
                   tool_path("../examples/tensor_parallel"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
