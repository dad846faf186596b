/* test_tcperf.c - tcperf measures every operation, finds what is wrong, and writes it down. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tool_run.h"

static char tcperf[PATH_MAX + 64]; /* its path */

/* tcperf on `ranks` ranks; once each, without a warm-up. */
#define TCPERF(ranks, ...)                                                                         \
    ((const char *const[]){"tcrun", "-n", ranks, "--no-prefix", tcperf, "-w", "1", "-n", "1",      \
                           __VA_ARGS__, NULL})

#define ALONE(...) ((const char *const[]){"tcperf", "-w", "1", "-n", "1", __VA_ARGS__, NULL})

static void run_to_end(struct tool_run *run, const char *const argv[])
{
    tool_start(run, NULL, argv);
    tool_finish(run);
}

/* Runs and expects that nothing was wrong; the caller closes. */
static void run_well(struct tool_run *run, const char *const argv[])
{
    run_to_end(run, argv);
    assert_string_equal(run->err.data, "");
    assert_int_equal(run->exit_code, 0);
}

/* ---- Checking ------------------------------------------------------------------------------- */

static void alone_every_operation_is_right(void **state)
{
    struct tool_run run;

    (void)state;
    run_well(&run, ALONE("--op", "all", "-e", "4K"));

    assert_non_null(strstr(run.out.data, "# reduce_scatter\n"));
    assert_non_null(strstr(run.out.data, "# wrong elements: 0\n"));
    tool_close(&run);
}

/* An odd size with a tail in every vector, more than one chunk of the check. */
static void every_type_and_operator_is_right_on_three_ranks(void **state)
{
    struct tool_run run;

    (void)state;
    run_well(&run, TCPERF("3", "--op", "all", "-d", "all", "-o", "all", "-b", "50001", "-e",
                          "50001", "--root", "2"));

    assert_non_null(strstr(run.out.data, "# wrong elements: 0\n"));
    assert_non_null(strstr(run.out.data, "# f32 band left out: not defined\n"));
    tool_close(&run);
}

static void fast_numerics_are_near_enough(void **state)
{
    struct tool_run run;

    (void)state;
    run_well(&run, TCPERF("3", "--op", "allreduce,reduce_scatter", "-d", "all", "-o",
                          "sum,avg,prod", "-b", "40K", "-e", "40K", "--numerics", "fast"));

    assert_non_null(strstr(run.out.data, "# wrong elements: 0\n"));
    tool_close(&run);
}

static void exact_numerics_are_right_and_have_no_product_of_floats(void **state)
{
    struct tool_run run;

    (void)state;
    run_well(&run, TCPERF("3", "--op", "allreduce,reduce_scatter", "-d", "all", "-o",
                          "sum,avg,prod,min", "-b", "50001", "-e", "50001", "--numerics", "exact"));

    assert_non_null(strstr(run.out.data, "# wrong elements: 0\n"));
    assert_non_null(strstr(run.out.data, "# f32 prod left out: not defined\n"));
    assert_non_null(strstr(run.out.data, "loop thread, exact, algorithm chosen"));
    tool_close(&run);
}

static void many_in_flight_are_right_in_both_loops(void **state)
{
    static const char *const loops[] = {"thread", "manual"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct tool_run run;

        run_well(&run, TCPERF("2", "--op", "all", "--tags", "16", "--loop", loops[i], "--sync",
                              "-c", "2", "-e", "256K", "-f", "16"));

        assert_non_null(strstr(run.out.data, "16 in flight"));
        tool_close(&run);
    }
}

/* All operations, one size.  A barrier has nothing to spoil, a reduce and a gather have nothing on
 * rank 1; four have two places, three have one: 2 * 4 + 3. */
static void a_spoiled_result_is_found_and_told(void **state)
{
    struct tool_run run;

    (void)state;
    run_to_end(&run, TCPERF("2", "--op", "all", "-b", "8K", "-e", "8K", "--spoil", "1"));

    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.out.data, "# wrong elements: 11\n"));
    assert_int_equal(tool_count(run.err.data, "tcperf: rank 1: "), 11);
    assert_non_null(strstr(run.err.data, "allreduce of 2048 f32: element 0 of collective 0 is 0x"));
    tool_close(&run);
}

static void a_spoiled_result_is_found_with_fast_numerics(void **state)
{
    struct tool_run run;

    (void)state;
    run_to_end(&run, TCPERF("2", "-b", "8K", "-e", "8K", "--spoil", "0", "--numerics", "fast",
                            "--out-of-place"));

    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.out.data, "# wrong elements: 1\n"));
    tool_close(&run);
}

static void without_a_check_nothing_is_called_wrong(void **state)
{
    struct tool_run run;

    (void)state;
    run_well(&run, TCPERF("2", "-b", "8K", "-e", "8K", "--spoil", "1", "-c", "0"));

    assert_null(strstr(run.out.data, "wrong elements"));
    tool_close(&run);
}

/* ---- What is written ------------------------------------------------------------------------ */

static void sizes_are_whole_elements_of_every_block(void **state)
{
    struct tool_run run;

    (void)state;
    run_well(&run, TCPERF("3", "--op", "allgather", "-d", "f64", "-b", "1", "-e", "1K", "-f", "32",
                          "--in-place", "--csv", "-"));

    assert_non_null(strstr(run.out.data, "\nallgather,24,1,f64,none,in,3,1,back_to_back,1,"));
    assert_non_null(strstr(run.out.data, "\nallgather,1008,42,f64,none,in,3,1,back_to_back,1,"));
    /* 1, 32 and 1024 bytes; the first two are one element a rank, and one line. */
    assert_int_equal(tool_count(run.out.data, "\n"), 3);
    tool_close(&run);
}

static void csv_has_a_line_for_each_result(void **state)
{
    struct tool_run run;

    (void)state;
    run_well(&run,
             TCPERF("2", "-b", "1K", "-e", "4K", "-d", "f32,bf16", "-o", "sum,max", "--csv", "-"));

    /* The head, then 2 sizes, 2 types, 2 operators, 2 places. */
    assert_int_equal(tool_count(run.out.data, "\n"), 17);
    assert_int_equal(tool_count(run.out.data, ",0,oneshot\n"), 16);
    assert_non_null(strstr(run.out.data, "\nallreduce,4096,2048,bf16,max,out,2,1,"));
    tool_close(&run);
}

static void json_has_the_same_or_is_refused(void **state)
{
    struct tool_run run;

    (void)state;
    run_to_end(&run, TCPERF("2", "-b", "1K", "-e", "1K", "--json", "-"));

    if (strstr(run.err.data, "built without cJSON") != NULL) {
        assert_int_equal(run.exit_code, 2);
    } else {
        assert_int_equal(run.exit_code, 0);
        assert_int_equal(run.out.data[0], '{');
        assert_int_equal(tool_count(run.out.data, "\"busbw_gbs\":"), 2);
        assert_int_equal(tool_count(run.out.data, "\"wrong\":\t0"), 2);
    }
    tool_close(&run);
}

static void an_algorithm_that_is_not_possible_is_said(void **state)
{
    struct tool_run run;

    (void)state;
    run_to_end(&run, TCPERF("2", "-b", "1K", "-e", "1K", "--algorithm", "ring"));
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err.data, "rank order"));
    tool_close(&run);

    run_well(&run, TCPERF("2", "-b", "1K", "-e", "1K", "--algorithm", "direct", "--op",
                          "allreduce,barrier"));
    assert_non_null(strstr(run.out.data, "# barrier: not as asked: "));
    assert_int_equal(tool_count(run.out.data, "  direct\n"), 2);
    assert_int_equal(tool_count(run.out.data, "  dissemination\n"), 1);
    tool_close(&run);
}

static void a_table_that_is_written_can_be_read(void **state)
{
    struct tool_run run;
    char path[] = "/tmp/tcdist-tune-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    run_to_end(&run, TCPERF("2", "-b", "64", "-e", "64", "--budget", "0.001", "--tune", path));
    if (run.exit_code == 2) {
        assert_non_null(strstr(run.err.data, "built without cJSON"));
    } else {
        assert_int_equal(run.exit_code, 0);
        assert_true(tool_count(run.out.data, "  wide_chain\n") > 0);
        tool_close(&run);
        setenv("TCDIST_TUNE", path, 1);
        run_well(&run, TCPERF("2", "-b", "64", "-e", "64", "--op", "all"));
        unsetenv("TCDIST_TUNE");
        tool_close(&run);
        run_well(&run, TCPERF("2", "-b", "64", "-e", "64", "--budget", "0.001", "--tune", "-"));
        assert_int_equal(run.out.data[0], '{');
        assert_int_equal(tool_count(run.out.data, "\"allreduce\""), 6); /* each with its end */
    }
    tool_close(&run);
    unlink(path);
}

static void a_file_that_cannot_be_written_ends_all_ranks(void **state)
{
    struct tool_run run;

    (void)state;
    run_to_end(&run, TCPERF("2", "--csv", "/nowhere/at/all"));

    assert_int_equal(run.exit_code, 3);
    assert_non_null(strstr(run.err.data, "tcperf: cannot write '/nowhere/at/all'"));
    tool_close(&run);

    run_to_end(&run, TCPERF("2", "--tune", "/nowhere/at/all"));
    if (run.exit_code != 2) { /* built with cJSON */
        assert_int_equal(run.exit_code, 3);
        assert_non_null(strstr(run.err.data, "tcperf: cannot write '/nowhere/at/all'"));
        assert_int_equal(tool_count(run.out.data, "# allreduce"), 0); /* nothing was measured */
    }
    tool_close(&run);
}

/* ---- Options -------------------------------------------------------------------------------- */

static void mistakes_are_told(void **state)
{
    static const struct {
        const char *argv[4];
        const char *told;
    } mistakes[] = {
        {{"tcperf", "--op", "allreduce,nothing"}, "'nothing' is not known"},
        {{"tcperf", "--op", "nothing"}, "there are allreduce, broadcast, allgather, "},
        {{"tcperf", "-d", "f31"}, "'f31' is not known here; there are f16, bf16, f32, "},
        {{"tcperf", "-o", "sum,"}, "'' is not known"},
        {{"tcperf", "-b", "1X"}, "'1X' is not a size from 1 to 1024G, such as 4096, 4K, "},
        {{"tcperf", "-b", "x"}, "'x' is not a size"},
        {{"tcperf", "-e", "0"}, "'0' is not a size"},
        {{"tcperf", "-e", "1025G"}, "'1025G' is not a size"},
        {{"tcperf", "-e", "1Ki"}, "'1Ki' is not a size"},
        {{"tcperf", "-e", "1KBB"}, "'1KBB' is not a size"},
        {{"tcperf", "-e", "-1K"}, "'-1K' is not a size"},
        {{"tcperf", "-b", "32M"}, "--min-bytes is more than --max-bytes"},
        {{"tcperf", "-f", "1"}, "'1' is not a number"},
        {{"tcperf", "-n", "-1"}, "'-1' is not a number"},
        {{"tcperf", "--tags", "1K"}, "'1K' is not a number"},
        {{"tcperf", "--loop", "host"}, "'host' is neither thread nor manual"},
        {{"tcperf", "--budget", "0"}, "'0' is not a number of seconds"},
        {{"tcperf", "--root", "1"}, "root 1 is no rank of 1"},
        {{"tcperf", "allreduce"}, "unexpected argument 'allreduce': operations are named by --op"},
        {{"tcperf", "--csv=-", "--json=-"}, "tcperf: "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct tool_run run;

        run_to_end(&run, mistakes[i].argv);

        assert_int_equal(run.exit_code, 2);
        assert_string_equal(run.out.data, "");
        assert_non_null(strstr(run.err.data, mistakes[i].told));
        tool_close(&run);
    }
}

static void units_of_sizes_are_powers_of_1024(void **state)
{
    static const char *const sizes[] = {"2048", "2048B", "2K", "2k", "2KB", "2KiB"};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct tool_run run;

        run_well(&run, ALONE("-b", sizes[i], "-e", sizes[i], "-n", "1", "--csv", "-"));
        assert_true(tool_count(run.out.data, "allreduce,2048,512,f32,") > 0);
        tool_close(&run);
    }
}

/* 4 PiB. */
static void buffers_that_memory_cannot_hold_are_refused(void **state)
{
    struct tool_run run;

    (void)state;
    run_to_end(&run, TCPERF("2", "-b", "1000G", "-e", "1000G", "--tags", "1000"));

    assert_int_equal(run.exit_code, 3);
    assert_non_null(strstr(run.err.data, "the buffers of 2 ranks on this host take 4e+06 GiB"));
    assert_non_null(strstr(run.err.data, "choose a smaller --max-bytes, fewer --tags"));
    tool_close(&run);
}

static void help_and_version_are_there(void **state)
{
    struct tool_run run;

    (void)state;
    run_to_end(&run, ALONE("--version"));
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out.data, "tcperf (tcdist) ", 16);
    tool_close(&run);

    run_to_end(&run, ALONE("--help"));
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out.data, "--min-bytes"));
    tool_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_every_operation_is_right),
        cmocka_unit_test(every_type_and_operator_is_right_on_three_ranks),
        cmocka_unit_test(fast_numerics_are_near_enough),
        cmocka_unit_test(exact_numerics_are_right_and_have_no_product_of_floats),
        cmocka_unit_test(many_in_flight_are_right_in_both_loops),
        cmocka_unit_test(a_spoiled_result_is_found_and_told),
        cmocka_unit_test(a_spoiled_result_is_found_with_fast_numerics),
        cmocka_unit_test(without_a_check_nothing_is_called_wrong),
        cmocka_unit_test(sizes_are_whole_elements_of_every_block),
        cmocka_unit_test(csv_has_a_line_for_each_result),
        cmocka_unit_test(an_algorithm_that_is_not_possible_is_said),
        cmocka_unit_test(a_table_that_is_written_can_be_read),
        cmocka_unit_test(json_has_the_same_or_is_refused),
        cmocka_unit_test(a_file_that_cannot_be_written_ends_all_ranks),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(units_of_sizes_are_powers_of_1024),
        cmocka_unit_test(buffers_that_memory_cannot_hold_are_refused),
        cmocka_unit_test(help_and_version_are_there),
    };

    /* What is slow is warned of, and a machine may be slow. */
    setenv("TCDIST_LOG", "error", 1);
    (void)snprintf(tcperf, sizeof tcperf, "%s", tool_path("tcperf"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
