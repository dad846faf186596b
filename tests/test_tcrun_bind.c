/* test_tcrun_bind.c - tcrun keeps ranks to processors where it is told to. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120 */
#include <sched.h>
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
#include "tcdist/tcdist.h"

#define TCRUN(...) ((const char *const[]){"tcrun", __VA_ARGS__, NULL})
#define SHOW       "sed", "-n", "s/^Cpus_allowed_list:.//p", "/proc/self/status"

static const char *self_path; /* this program, which plays a rank when told so */

/* Those that this test may use. */
static unsigned cpus[CPU_SETSIZE], count;

static int find_processors(void **state)
{
    cpu_set_t set;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus[count++] = cpu;
    return 0;
}

/* As taskset does: tcrun may use the first so many. */
static void limit(void *arg)
{
    unsigned wanted = *(const unsigned *)arg;
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned i = 0; i < wanted; i++)
        CPU_SET(cpus[i], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        abort();
}

static void run_on(struct tool_run *run, unsigned wanted, const char *const argv[])
{
    struct tool_setup setup = {.prepare = limit, .arg = &wanted};

    tool_start(run, &setup, argv);
    tool_finish(run);
    assert_int_equal(run->exit_code, 0);
}

static void has(const struct tool_run *run, unsigned rank, unsigned cpu)
{
    char line[64];

    snprintf(line, sizeof line, "[%u] %u\n", rank, cpu);
    tool_says(run, line);
}

static void need(unsigned wanted)
{
    if (count < wanted)
        skip();
}

static void ranks_have_one_processor_each(void **state)
{
    struct tool_run run;

    (void)state;
    need(2);
    run_on(&run, 2, TCRUN("-n", "2", "--bind", "cores", SHOW));

    has(&run, 0, cpus[0]);
    has(&run, 1, cpus[1]);
    assert_string_equal(run.err.data, "");
    tool_close(&run);
}

/* Neighbours are apart. */
static void more_ranks_than_processors_share_them(void **state)
{
    struct tool_run run;

    (void)state;
    need(2);
    run_on(&run, 2, TCRUN("-n", "4", "--bind", "cores", SHOW));

    for (unsigned rank = 0; rank < 4; rank++)
        has(&run, rank, cpus[rank % 2]);
    assert_string_equal(run.err.data, "tcrun: 4 bound ranks share 2 processors and take turns; "
                                      "start at most 2 here to give each its own\n");
    tool_close(&run);
}

static void where_there_is_one_processor_all_have_it(void **state)
{
    struct tool_run run;

    (void)state;
    run_on(&run, 1, TCRUN("-n", "3", "--bind", "cores", SHOW));

    for (unsigned rank = 0; rank < 3; rank++)
        has(&run, rank, cpus[0]);
    tool_close(&run);
}

/* Neither by default nor by the word. */
static void unbound_ranks_may_use_all_that_tcrun_may(void **state)
{
    static const char *const modes[] = {"--bind=none", "--no-prefix"};
    struct tool_run run;

    (void)state;
    need(2);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        run_on(&run, 2, TCRUN("-n", "2", modes[i], SHOW));

        assert_int_equal(tool_count(run.out.data, "-") + tool_count(run.out.data, ","), 2);
        tool_close(&run);
    }
}

static void it_is_said_and_shown_who_has_what(void **state)
{
    struct tool_run run;
    char text[64];

    (void)state;
    need(2);
    run_on(&run, 2, TCRUN("-n", "2", "--bind", "cores", "--verbose", "true"));
    snprintf(text, sizeof text, "tcrun: rank 1 is bound to processors %u\n", cpus[1]);
    tool_errs(&run, text);
    tool_close(&run);

    run_on(&run, 2, TCRUN("-n", "2", "--bind", "cores", "--print-command", "true"));
    snprintf(text, sizeof text, " taskset --cpu-list %u true\n", cpus[1]);
    tool_says(&run, text);
    tool_close(&run);
}

/* Four on two processors share them, though each has but one. */
static void bound_ranks_know_that_they_share(void **state)
{
    struct tool_run run;

    (void)state;
    need(2);
    run_on(&run, 2,
           TCRUN("-n", "4", "--bind", "cores", "--backend", "tcp", self_path, "--algorithm"));
    assert_int_equal(tool_count(run.out.data, "] centralized\n"), 4);
    tool_close(&run);

    run_on(&run, 2,
           TCRUN("-n", "2", "--bind", "cores", "--backend", "tcp", self_path, "--algorithm"));
    assert_int_equal(tool_count(run.out.data, "] oneshot\n"), 2);
    tool_close(&run);
}

static void refuses(const char *const argv[], const char *says)
{
    struct tool_run run;

    tool_start(&run, NULL, argv);
    tool_finish(&run);
    assert_int_equal(run.exit_code, 2);
    tool_errs(&run, says);
    tool_close(&run);
}

static void another_word_is_refused(void **state)
{
    (void)state;
    refuses(TCRUN("-n", "2", "--bind", "sockets", "true"), "'sockets' is not one of cores and");
}

static void a_value_that_was_forgotten_is_missed(void **state)
{
    (void)state;
    refuses(TCRUN("-n", "2", "--bind", "--", "true"),
            "'--' is not one of cores and none, which --bind");
}

/* Those are the command's own. */
static void what_follows_the_command_is_not_looked_at(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-np", "1", "--no-prefix", "echo", "--bind-to", "--bind", "--"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out.data, "--bind-to --bind --\n");
    tool_close(&run);
}

/* A rank: how small sums are made. */
static int say_algorithm(void)
{
    tc_context *context;
    tc_dist_ctx *group;

    if (tc_init(&context) != TC_OK || tc_dist_init_env(context, &group) != TC_OK)
        return 1;
    puts(tc_algorithm(group, "allreduce", 1, TC_DTYPE_F32, TC_REDUCE_SUM, NULL));
    (void)tc_dist_finalize(group);
    tc_shutdown(context);
    return 0;
}

int main(int argc, char **argv)
{
    static char self[4096];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_one_processor_each),
        cmocka_unit_test(more_ranks_than_processors_share_them),
        cmocka_unit_test(where_there_is_one_processor_all_have_it),
        cmocka_unit_test(unbound_ranks_may_use_all_that_tcrun_may),
        cmocka_unit_test(it_is_said_and_shown_who_has_what),
        cmocka_unit_test(bound_ranks_know_that_they_share),
        cmocka_unit_test(another_word_is_refused),
        cmocka_unit_test(a_value_that_was_forgotten_is_missed),
        cmocka_unit_test(what_follows_the_command_is_not_looked_at),
    };

    if (argc > 1 && strcmp(argv[1], "--algorithm") == 0)
        return say_algorithm();
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    self_path = self;
    return cmocka_run_group_tests(tests, find_processors, NULL);
}
