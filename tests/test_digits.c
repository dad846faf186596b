/* test_digits.c - the digits example: it learns, the same on any number of ranks, and draws it. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, needs libcjson */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "support/tool_run.h"

#define DATA "--data", TEST_SOURCE_DIR "/examples/digits/digits.csv.gz"

/* A net that learns enough to compare, soon also under a sanitizer. */
#define SMALL DATA, "--hidden", "32", "--batch", "100"

#define ALONE(...) ((const char *const[]){"../examples/digits", __VA_ARGS__, NULL})
#define RANKS(n, ...)                                                                              \
    ((const char *const[]){"tcrun", "-n", n, "--no-prefix", "--", digits_path, __VA_ARGS__, NULL})
#define RANKS_ENV(n, env, ...)                                                                     \
    ((const char *const[]){"tcrun", "-n", n, "--no-prefix", "--env", env, "--", digits_path,       \
                           __VA_ARGS__, NULL})

enum { EPOCHS_MAX = 64, RANKS_TRACED = 3, FILE_BYTES_MAX = 1 << 20 };

static char digits_path[4096];
static char folder[] = "/tmp/test_digits.XXXXXX"; /* for files, removed at the end */

/* ---- Helpers -------------------------------------------------------------------------------- */

static void run(struct tool_run *run_out, const char *const argv[], int exit_code)
{
    tool_start(run_out, NULL, argv);
    tool_finish(run_out);
    if (run_out->exit_code != exit_code)
        fail_msg("exit code %d, not %d; standard output:\n%s\nstandard error:\n%s",
                 run_out->exit_code, exit_code, run_out->out.data, run_out->err.data);
}

/* The numbers that follow a word, one for each time it is there. */
static size_t numbers_after(const char *text, const char *word, double *numbers)
{
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, word)) != NULL && count < EPOCHS_MAX; count++) {
        at += strlen(word);
        numbers[count] = strtod(at, NULL);
    }
    return count;
}

/* A file of the folder; a static string. */
static const char *in_folder(const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static char *read_all(const char *name, size_t *len_out)
{
    FILE *file = fopen(in_folder(name), "r");
    char *bytes = calloc(FILE_BYTES_MAX + 1, 1);

    assert_non_null(file);
    assert_non_null(bytes);
    *len_out = fread(bytes, 1, FILE_BYTES_MAX + 1, file);
    assert_in_range(*len_out, 1, FILE_BYTES_MAX);
    fclose(file);
    unlink(in_folder(name));
    return bytes;
}

/* `count` invented digits, of which number `bad` (from 1) is replaced by a text. */
static void write_data(size_t count, size_t bad, const char *text)
{
    FILE *file = fopen(in_folder("data.csv"), "w");

    assert_non_null(file);
    for (size_t i = 1; i <= count; i++) {
        for (size_t j = 0; j < 64 && i != bad; j++)
            fprintf(file, "%zu,", (i * 7 + j * (i % 10)) % 17);
        if (i == bad)
            fprintf(file, "%s\n", text);
        else
            fprintf(file, "%zu\n", i % 10);
    }
    fclose(file);
}

/* ---- Learning ------------------------------------------------------------------------------- */

static void one_rank_learns_the_digits(void **state)
{
    const char *effort = getenv("TCDIST_TEST_EFFORT");
    bool is_quick = effort != NULL && strcmp(effort, "quick") == 0;
    double test[EPOCHS_MAX];
    struct tool_run alone;
    size_t epochs;

    (void)state;
    run(&alone, ALONE(DATA, "--hidden", is_quick ? "64" : "256"), 0);
    epochs = numbers_after(alone.out.data, "   test ", test);

    assert_in_range(epochs, 1, EPOCHS_MAX - 1);
    assert_true(test[epochs - 1] >= 95);
    assert_string_equal(alone.err.data, "");
    tool_close(&alone);
}

static void assert_same_curve(const char *left, const char *right)
{
    double losses[2][EPOCHS_MAX];
    size_t epochs = numbers_after(left, " loss ", losses[0]);

    assert_in_range(epochs, 1, EPOCHS_MAX - 1);
    assert_int_equal(numbers_after(right, " loss ", losses[1]), epochs);
    for (size_t i = 0; i < epochs; i++) {
        assert_true(losses[0][i] > 0);
        assert_true(fabs(losses[1][i] - losses[0][i]) <= 1e-3 * losses[0][i]);
    }
}

static void four_ranks_follow_the_loss_curve_of_one(void **state)
{
    struct tool_run one, four;

    (void)state;
    run(&one, RANKS("1", SMALL, "--epochs", "4"), 0);
    run(&four, RANKS("4", SMALL, "--epochs", "4"), 0);

    assert_same_curve(one.out.data, four.out.data);
    assert_non_null(strstr(four.out.data, "weights are the same bits on all 4 ranks (hash "));
    assert_non_null(strstr(four.out.data, " hidden behind compute"));
    tool_close(&one);
    tool_close(&four);
}

static void a_rank_may_have_nothing_to_do(void **state)
{
    struct tool_run one, five;

    (void)state;
    write_data(40, 0, NULL);
    run(&one, ALONE("--data", in_folder("data.csv"), "--hidden", "8", "--batch", "3"), 0);
    run(&five, RANKS("5", "--data", in_folder("data.csv"), "--hidden", "8", "--batch", "3"), 0);
    unlink(in_folder("data.csv"));

    assert_same_curve(one.out.data, five.out.data);
    tool_close(&one);
    tool_close(&five);
}

static void seed_and_ranks_decide_every_bit(void **state)
{
    static const char *const envs[] = {"TCDIST_LOOP_MODE=thread", "TCDIST_LOOP_MODE=thread",
                                       "TCDIST_LOOP_MODE=manual", "TCDIST_SEGMENT_BYTES=4096"};
    char *first = NULL;
    size_t first_len = 0;

    (void)state;
    for (size_t i = 0; i < sizeof envs / sizeof *envs; i++) {
        struct tool_run three;
        char *weights;
        size_t len;

        run(&three,
            RANKS_ENV("3", envs[i], SMALL, "--epochs", "2", "--weights", in_folder("weights")), 0);
        weights = read_all("weights", &len);
        if (i == 0) {
            first = weights;
            first_len = len;
        } else {
            assert_int_equal(len, first_len);
            assert_memory_equal(weights, first, len);
            free(weights);
        }
        tool_close(&three);
    }
    free(first);
}

static void another_seed_gives_other_weights(void **state)
{
    struct tool_run one, two;

    (void)state;
    run(&one, ALONE(SMALL, "--epochs", "1", "--seed", "1"), 0);
    run(&two, ALONE(SMALL, "--epochs", "1", "--seed", "2"), 0);

    assert_string_not_equal(strstr(one.out.data, "weights have the hash "),
                            strstr(two.out.data, "weights have the hash "));
    tool_close(&one);
    tool_close(&two);
}

/* ---- Compressed gradients -------------------------------------------------------------------- */

static double last_after(const char *text, const char *word)
{
    double numbers[EPOCHS_MAX];
    size_t count = numbers_after(text, word, numbers);

    assert_in_range(count, 1, EPOCHS_MAX - 1);
    return numbers[count - 1];
}

/* As good as with whole gradients, but for two points in a hundred; the largest hundredth of each
 * layer takes more steps until every weight has had its turn. */
static void compressed_gradients_learn_as_well(void **state)
{
    static const struct {
        const char *how, *epochs;
        double saved;
    } cases[] = {{"bf16", "8", 49},
                 {"f8e4m3", "8", 74},
                 {"topk:0.01", "30", 95},
                 {"f16", "8", 49},
                 {"f8e5m2", "8", 74}};
    const char *effort = getenv("TCDIST_TEST_EFFORT");
    bool is_quick = effort != NULL && strcmp(effort, "quick") == 0;
    struct tool_run whole;
    double test;

    (void)state;
    run(&whole, RANKS("3", SMALL, "--epochs", "8"), 0);
    assert_null(strstr(whole.out.data, " saved"));
    test = last_after(whole.out.data, "   test ");
    assert_true(test >= 93);
    for (size_t i = 0; i < (is_quick ? 3 : sizeof cases / sizeof *cases); i++) {
        struct tool_run small;
        double reached;

        run(&small, RANKS("3", SMALL, "--epochs", cases[i].epochs, "--compress", cases[i].how), 0);
        reached = last_after(small.out.data, "   test ");
        if (reached < test - 2)
            fail_msg("%s: %.2f %%, with whole gradients %.2f %%", cases[i].how, reached, test);
        assert_true(numbers_after(small.out.data, " MB: ", &reached) == 1);
        assert_true(reached >= cases[i].saved);
        assert_non_null(strstr(small.out.data, "weights are the same bits on all 3 ranks"));
        tool_close(&small);
    }
    tool_close(&whole);
}

/* ---- Timeline ------------------------------------------------------------------------------- */

static bool is_text(const cJSON *object, const char *name, const char *text)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));

    return value != NULL && strcmp(value, text) == 0;
}

/* Each rank has steps and collectives, and what begins ends. */
static void check_events(const cJSON *events)
{
    int steps[RANKS_TRACED] = {0};
    int begun[RANKS_TRACED] = {0};
    int ended[RANKS_TRACED] = {0};
    const cJSON *event;

    cJSON_ArrayForEach(event, events)
    {
        double rank = cJSON_GetNumberValue(cJSON_GetObjectItem(event, "pid"));

        assert_true(rank >= 0 && rank < RANKS_TRACED);
        assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(event, "ts")) >= 0);
        steps[(int)rank] += is_text(event, "ph", "X") && is_text(event, "name", "step");
        begun[(int)rank] += is_text(event, "ph", "b") && is_text(event, "name", "allreduce");
        ended[(int)rank] += is_text(event, "ph", "e") && is_text(event, "name", "allreduce");
    }
    for (int rank = 0; rank < RANKS_TRACED; rank++) {
        assert_true(steps[rank] > 0);
        assert_true(begun[rank] > 0);
        assert_int_equal(begun[rank], ended[rank]);
    }
}

static void the_timeline_is_drawn_and_parses(void **state)
{
    char page_path[128];
    struct tool_run three;
    char *page, *trace;
    size_t page_len, trace_len;
    cJSON *root;

    (void)state;
    (void)snprintf(page_path, sizeof page_path, "%s", in_folder("page.html"));
    run(&three,
        RANKS("3", SMALL, "--epochs", "1", "--timeline", page_path, "--trace", in_folder("t.json")),
        0);
    page = read_all("page.html", &page_len);
    trace = read_all("t.json", &trace_len);

    assert_non_null(strstr(three.out.data, page_path));
    assert_non_null(strstr(page, "<!doctype html>"));
    assert_non_null(strstr(page, "rank 2</text>"));
    assert_non_null(strstr(page, "<title>allreduce 0: tag 0"));
    assert_non_null(strstr(page, "<title>backward 3: layer 3"));
    assert_non_null(strstr(page, "</html>"));
    assert_null(strstr(page, "src="));
    assert_null(strstr(page, "href="));
    root = cJSON_Parse(trace);
    assert_non_null(root);
    check_events(cJSON_GetObjectItem(root, "traceEvents"));
    cJSON_Delete(root);
    free(page);
    free(trace);
    tool_close(&three);
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

static void bad_data_is_told_with_its_line(void **state)
{
#define ZEROS_16 "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
#define PIXELS   ZEROS_16 ZEROS_16 ZEROS_16 ZEROS_16
    static const struct {
        const char *line, *told;
    } cases[] = {
        {PIXELS "10", "data.csv:7: field 65 is '10', not a class from 0 to 9\n"},
        {"0,17," PIXELS, "data.csv:7: field 2 is '17', not a pixel from 0 to 16\n"},
        {"0,-1," PIXELS, "data.csv:7: field 2 is '-1', not a pixel from 0 to 16\n"},
        {"0,0,four", "data.csv:7: field 3 is 'four', not a pixel from 0 to 16\n"},
        {PIXELS "1,2", "data.csv:7: 66 fields instead of 65\n"},
        {"1,2,3", "data.csv:7: 3 fields instead of 65\n"},
        {"", "data.csv:7: field 1 is '', not a pixel from 0 to 16\n"},
        {PIXELS PIXELS PIXELS PIXELS PIXELS PIXELS PIXELS PIXELS PIXELS,
         "data.csv:7: the line is longer than 1022 characters\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tool_run alone;

        write_data(20, 7, cases[i].line);
        run(&alone, ALONE("--data", in_folder("data.csv")), 1);

        assert_non_null(strstr(alone.err.data, cases[i].told));
        assert_string_equal(alone.out.data, "");
        tool_close(&alone);
    }
    unlink(in_folder("data.csv"));
}

static void many_ranks_tell_of_bad_data_once(void **state)
{
    struct tool_run three;

    (void)state;
    run(&three, RANKS("3", "--data", in_folder("nowhere.csv")), 1);

    assert_int_equal(tool_count(three.err.data, "nowhere.csv: No such file or directory; name the "
                                                "file of the digits with --data=FILE\n"),
                     1);
    assert_int_equal(tool_count(three.err.data, "digits: "), 1);
    tool_close(&three);
}

static void too_few_digits_and_broken_files_are_told(void **state)
{
    struct tool_run alone;
    FILE *file;

    (void)state;
    write_data(9, 0, NULL);
    run(&alone, ALONE("--data", in_folder("data.csv")), 1);
    assert_non_null(strstr(alone.err.data, "data.csv: holds 9 digits, at least 10 are needed\n"));
    tool_close(&alone);

    file = fopen(in_folder("data.csv"), "w");
    assert_non_null(file);
    assert_int_equal(fwrite("\x1f\x8b\x08\0\0\0\0\0\0\x03\xff\xff\xff\xff", 1, 14, file), 14);
    fclose(file);
    run(&alone, ALONE("--data", in_folder("data.csv")), 1);
    assert_non_null(strstr(alone.err.data, "data.csv: after line 0: "));
    tool_close(&alone);
    unlink(in_folder("data.csv"));
}

static void what_can_not_be_written_is_told(void **state)
{
    static const char *const options[] = {"--timeline", "--trace", "--weights"};

    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        struct tool_run two;

        run(&two, RANKS("2", SMALL, "--epochs", "1", options[i], "/nowhere/file"), 1);

        assert_non_null(strstr(two.err.data, "digits: /nowhere/file: No such file or directory\n"));
        assert_int_equal(tool_count(two.err.data, "digits: "), 1);
        tool_close(&two);
    }
}

static void a_loss_that_explodes_is_told(void **state)
{
    struct tool_run two;

    (void)state;
    run(&two, RANKS("2", SMALL, "--epochs", "3", "--learning-rate", "100"), 1);

    assert_int_equal(tool_count(two.err.data, "digits: the loss is no number any more"), 1);
    tool_close(&two);
}

static void mistakes_in_options_exit_with_2(void **state)
{
    static const char *const cases[][2] = {
        {"--epochs", "0"},       {"--epochs", "-1"},         {"--batch", "many"},
        {"--hidden", "5000"},    {"--seed", "-1"},           {"--learning-rate", "0"},
        {"--no-such-thing", ""}, {"--learning-rate", "nan"}, {"--compress", "f32"},
        {"--compress", "topk:"}, {"--compress", "topk:0"},   {"--compress", "topk:1.5"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tool_run alone;

        run(&alone, ALONE(cases[i][0], cases[i][1]), 2);

        assert_non_null(strstr(alone.err.data, "--help"));
        tool_close(&alone);
    }
}

static void help_comes_once_and_quiet_says_nothing(void **state)
{
    struct tool_run three, alone;

    (void)state;
    run(&three, RANKS("3", "--help"), 0);
    run(&alone, ALONE(SMALL, "--epochs", "1", "--quiet"), 0);

    assert_int_equal(tool_count(three.out.data, "--learning-rate"), 1);
    assert_string_equal(alone.out.data, "");
    assert_string_equal(alone.err.data, "");
    tool_close(&three);
    tool_close(&alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_learns_the_digits),
        cmocka_unit_test(four_ranks_follow_the_loss_curve_of_one),
        cmocka_unit_test(a_rank_may_have_nothing_to_do),
        cmocka_unit_test(seed_and_ranks_decide_every_bit),
        cmocka_unit_test(another_seed_gives_other_weights),
        cmocka_unit_test(compressed_gradients_learn_as_well),
        cmocka_unit_test(the_timeline_is_drawn_and_parses),
        cmocka_unit_test(bad_data_is_told_with_its_line),
        cmocka_unit_test(many_ranks_tell_of_bad_data_once),
        cmocka_unit_test(too_few_digits_and_broken_files_are_told),
        cmocka_unit_test(what_can_not_be_written_is_told),
        cmocka_unit_test(a_loss_that_explodes_is_told),
        cmocka_unit_test(mistakes_in_options_exit_with_2),
        cmocka_unit_test(help_comes_once_and_quiet_says_nothing),
    };
    int failed;

    /* What is slow is warned of, and a machine may be slow. */
    setenv("TCDIST_LOG", "error", 1);
    (void)snprintf(digits_path, sizeof digits_path, "%s", tool_path("../examples/digits"));
    if (mkdtemp(folder) == NULL)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
