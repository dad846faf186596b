/* test_tcrun_end.c - how tcrun ends ranks: failures, signals and what is left behind. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, waits, long */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tool_run.h"

#define TCRUN(...) ((const char *const[]){"tcrun", __VA_ARGS__, NULL})

enum { GOODBYES = 20000 }; /* lines that a rank of --await-signal ends with */

static const char *self_path; /* this program, which plays a rank when told so */

/* ---- Failing ------------------------------------------------------------------------------- */

/* Each rank says its process id, that of its guard, and waits. */
#define SAY_AND_WAIT "echo pid$TCDIST_RANK=$$; echo guard$TCDIST_RANK=$PPID; exec sleep 1000"

static void wait_for_four(struct tool_run *run)
{
    tool_wait_out(run, "guard0=");
    tool_wait_out(run, "guard1=");
    tool_wait_out(run, "guard2=");
    tool_wait_out(run, "guard3=");
    tool_wait_out(run, "\n");
}

static void a_killed_rank_is_named_and_the_others_end(void **state)
{
    struct tool_run run;
    char expected[128];
    int pid;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "4", "sh", "-c", SAY_AND_WAIT));
    wait_for_four(&run);
    pid = tool_number_after(&run, "pid2=");
    assert_int_equal(kill(pid, SIGKILL), 0);
    tool_finish(&run);

    (void)snprintf(expected, sizeof expected,
                   "tcrun: rank 2 (pid %d) was killed by signal 9 (SIGKILL)\n", pid);
    assert_string_equal(run.err.data, expected);
    assert_int_equal(run.exit_code, 137);
    tool_close(&run);
}

static void a_failing_rank_gives_its_exit_code(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "4", "sh", "-c", "[ $TCDIST_RANK = 1 ] && exit 7; exec sleep 1000"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 7);
    assert_int_equal(tool_count(run.err.data, "\n"), 1);
    assert_non_null(strstr(run.err.data, "tcrun: rank 1 (pid "));
    assert_non_null(strstr(run.err.data, ") exited with code 7\n"));
    tool_close(&run);
}

/* Longer than the others have to say why they end. */
#define GO_ON "[ $TCDIST_RANK = 1 ] && exit 7; sleep 2; echo on; "

static void the_others_go_on_where_that_is_asked_for(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "4", "--keep-going", "sh", "-c", GO_ON));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "on\n"), 3);
    assert_int_equal(tool_count(run.err.data, "\n"), 1);
    assert_non_null(strstr(run.err.data, ") exited with code 7\n"));
    tool_close(&run);

    tool_start(&run, NULL, TCRUN("-n", "3", "--keep-going", "sh", "-c", GO_ON "exit 3"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 7);
    assert_int_equal(tool_count(run.out.data, "on\n"), 2);
    assert_non_null(strstr(run.err.data, "tcrun: rank 1 was the first to fail\n"));
    tool_close(&run);
}

/* tcrun is stopped meanwhile, so it learns of both failures at once. */
static void the_first_failure_counts_not_the_lowest_rank(void **state)
{
    struct tool_run run;
    int guards[2];

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "4", "sh", "-c", SAY_AND_WAIT));
    wait_for_four(&run);
    tool_kill(&run, SIGSTOP);
    guards[0] = pidfd_open(tool_number_after(&run, "guard3="), 0);
    guards[1] = pidfd_open(tool_number_after(&run, "guard1="), 0);
    assert_true(guards[0] >= 0 && guards[1] >= 0);
    assert_int_equal(kill(tool_number_after(&run, "pid3="), SIGUSR1), 0);
    tool_wait_readable(guards[0]);
    assert_int_equal(kill(tool_number_after(&run, "pid1="), SIGUSR2), 0);
    tool_wait_readable(guards[1]);
    close(guards[0]);
    close(guards[1]);
    tool_kill(&run, SIGCONT);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 128 + SIGUSR1);
    assert_non_null(strstr(run.err.data, "tcrun: rank 3 (pid "));
    tool_close(&run);
}

/* The others learn of a loss by themselves, and have an error to tell.  Were it not for their time
 * SIGTERM would come first; a slow machine may need another try. */
static void the_others_have_time_to_say_why_they_end(void **state)
{
    int said = 0;

    (void)state;
    for (int i = 0; i < 5 && said < 3; i++) {
        struct tool_run run;

        tool_start(&run, NULL,
                   TCRUN("-n", "4", "sh", "-c",
                         "[ $TCDIST_RANK = 1 ] && exit 7; trap 'exit 1' TERM; sleep 0.1; "
                         "echo rank 1 is lost; exit 1"));
        tool_finish(&run);
        assert_int_equal(run.exit_code, 7);
        assert_int_equal(tool_count(run.err.data, "\n"), 1);
        said = tool_count(run.out.data, "rank 1 is lost\n");
        tool_close(&run);
    }
    assert_int_equal(said, 3);
}

static void a_rank_that_ignores_the_end_is_killed_after_the_grace(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "2", "--timeout-kill", "0.1", "sh", "-c",
                     "trap '' TERM; echo pid$TCDIST_RANK=$$; while :; do sleep 1000; done"));
    tool_wait_out(&run, "pid0=");
    tool_wait_out(&run, "pid1=");
    assert_int_equal(kill(tool_number_after(&run, "pid1="), SIGKILL), 0);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 137);
    assert_int_equal(tool_count(run.err.data, "\n"), 1);
    tool_close(&run);
}

static void what_a_rank_says_while_it_ends_is_forwarded(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "2", "--timeout-kill", "1000", self_path, "--await-signal"));
    tool_wait_out(&run, "pid0=");
    tool_wait_out(&run, "pid1=");
    tool_wait_out(&run, "\n");
    assert_int_equal(kill(tool_number_after(&run, "pid0="), SIGKILL), 0);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 137);
    assert_int_equal(tool_count(run.out.data, "[1] got Terminated\n"), GOODBYES);
    tool_close(&run);
}

/* ---- Signals ------------------------------------------------------------------------------- */

static void a_signal_is_passed_on_and_ends_the_job(void **state)
{
    static const struct {
        int sig;
        const char *said;
    } cases[] = {
        {SIGINT, "] got Interrupt\n"}, {SIGTERM, "] got Terminated\n"}, {SIGHUP, "] got Hangup\n"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tool_run run;

        tool_start(&run, NULL,
                   TCRUN("-n", "2", "--timeout-kill", "1000", self_path, "--await-signal"));
        tool_wait_out(&run, "pid0=");
        tool_wait_out(&run, "pid1=");
        tool_kill(&run, cases[i].sig);
        tool_finish(&run);

        assert_int_equal(run.exit_code, 128 + cases[i].sig);
        assert_int_equal(tool_count(run.out.data, cases[i].said), 2 * GOODBYES);
        tool_close(&run);
    }
}

static void whoever_ignores_an_interrupt_gets_sigterm(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "2", "--timeout-kill", "4", self_path, "--await-signal", "term"));
    tool_wait_out(&run, "pid0=");
    tool_wait_out(&run, "pid1=");
    tool_kill(&run, SIGINT);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 130);
    assert_int_equal(tool_count(run.out.data, "] got Terminated\n"), 2 * GOODBYES);
    tool_close(&run);
}

static void the_second_interrupt_kills_at_once(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "2", "--timeout-kill", "1000", "sh", "-c",
                     "trap '' INT; echo ready$TCDIST_RANK; exec sleep 1000"));
    tool_wait_out(&run, "ready0");
    tool_wait_out(&run, "ready1");
    tool_kill(&run, SIGINT);
    tool_wait_err(&run, "tcrun: SIGINT: ending all ranks\n");
    tool_kill(&run, SIGINT);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 130);
    tool_close(&run);
}

static void ignore_hangup(void *arg)
{
    (void)arg;
    signal(SIGHUP, SIG_IGN);
}

static void a_signal_that_the_caller_ignores_stays_ignored(void **state)
{
    struct tool_setup setup = {.prepare = ignore_hangup};
    struct tool_run run;

    (void)state;
    tool_start(&run, &setup, TCRUN("-n", "1", "sh", "-c", "echo ready; exec sleep 1000"));
    tool_wait_out(&run, "ready");
    tool_kill(&run, SIGHUP);
    tool_kill(&run, SIGTERM);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 143);
    assert_null(strstr(run.err.data, "SIGHUP"));
    tool_close(&run);
}

/* ---- Nobody is left ------------------------------------------------------------------------ */

/* A grandchild in the process group, one outside it, and one whose parent has gone. */
#define WITH_FAMILY "sleep 1000 & setsid sleep 1000 & setsid sh -c 'sleep 1000 & :'; "

static void a_killed_tcrun_leaves_nobody(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "3", "sh", "-c", WITH_FAMILY "echo ready$TCDIST_RANK; wait"));
    tool_wait_out(&run, "ready0");
    tool_wait_out(&run, "ready1");
    tool_wait_out(&run, "ready2");
    tool_kill(&run, SIGKILL);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 137);
    tool_close(&run);
}

static void grandchildren_of_a_good_end_are_ended(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "3", "sh", "-c", WITH_FAMILY "echo done"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "] done\n"), 3);
    tool_close(&run);
}

static void grandchildren_of_a_failure_are_ended(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "3", "--timeout-kill", "0.1", "sh", "-c",
                     "trap '' TERM; " WITH_FAMILY "exit 9"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 9);
    tool_close(&run);
}

/* Not even the guards can end a process that is no descendant, here this one. */
static void a_stranger_who_holds_the_output_open_does_not_hold_up_the_end(void **state)
{
    struct tool_run run;
    char path[64];
    int fd;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "4", "sh", "-c", SAY_AND_WAIT));
    wait_for_four(&run);
    (void)snprintf(path, sizeof path, "/proc/%d/fd/1", tool_number_after(&run, "pid1="));
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "last\n", 5), 5);
    assert_int_equal(kill(tool_number_after(&run, "pid2="), SIGKILL), 0);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 137);
    assert_int_equal(tool_count(run.out.data, "[1] last\n"), 1);
    close(fd);
    tool_close(&run);
}

static void a_killed_guard_takes_its_rank_along(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "4", "sh", "-c", "sleep 1000 & " SAY_AND_WAIT));
    wait_for_four(&run);
    assert_int_equal(kill(tool_number_after(&run, "guard1="), SIGKILL), 0);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 137);
    assert_non_null(strstr(run.err.data, "tcrun: rank 1 (pid "));
    tool_close(&run);
}

static void ranks_die_with_tcrun_and_all_guards(void **state)
{
    static const char *const names[] = {"guard0=", "guard1=", "guard2=", "guard3="};
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "4", "sh", "-c", SAY_AND_WAIT));
    wait_for_four(&run);
    tool_kill(&run, SIGSTOP);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(kill(tool_number_after(&run, names[i]), SIGKILL), 0);
    tool_kill(&run, SIGKILL);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 137);
    tool_close(&run);
}

static void a_stopped_guard_does_not_hold_up_the_end(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "4", "--timeout-kill", "0", "sh", "-c", "sleep 1000 & " SAY_AND_WAIT));
    wait_for_four(&run);
    assert_int_equal(kill(tool_number_after(&run, "guard1="), SIGSTOP), 0);
    tool_kill(&run, SIGTERM);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 143);
    tool_close(&run);
}

/* ---- A rank --------------------------------------------------------------------------------- */

/* A shell would defer its trap when the signal comes just before it starts the next command. */
static int await_signal(bool is_term_only)
{
    sigset_t set;
    int sig;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    if (is_term_only) {
        signal(SIGINT, SIG_IGN);
    } else {
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGHUP);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("pid%s=%d\n", getenv("TCDIST_RANK"), (int)getpid());
    (void)fflush(stdout);
    sigwait(&set, &sig);
    for (int i = 0; i < GOODBYES; i++)
        printf("got %s\n", strsignal(sig));
    return 0;
}

int main(int argc, char **argv)
{
    static char self[4096];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_is_named_and_the_others_end),
        cmocka_unit_test(a_failing_rank_gives_its_exit_code),
        cmocka_unit_test(the_others_go_on_where_that_is_asked_for),
        cmocka_unit_test(the_first_failure_counts_not_the_lowest_rank),
        cmocka_unit_test(the_others_have_time_to_say_why_they_end),
        cmocka_unit_test(a_rank_that_ignores_the_end_is_killed_after_the_grace),
        cmocka_unit_test(what_a_rank_says_while_it_ends_is_forwarded),
        cmocka_unit_test(a_signal_is_passed_on_and_ends_the_job),
        cmocka_unit_test(whoever_ignores_an_interrupt_gets_sigterm),
        cmocka_unit_test(the_second_interrupt_kills_at_once),
        cmocka_unit_test(a_signal_that_the_caller_ignores_stays_ignored),
        cmocka_unit_test(a_killed_tcrun_leaves_nobody),
        cmocka_unit_test(grandchildren_of_a_good_end_are_ended),
        cmocka_unit_test(grandchildren_of_a_failure_are_ended),
        cmocka_unit_test(a_stranger_who_holds_the_output_open_does_not_hold_up_the_end),
        cmocka_unit_test(a_killed_guard_takes_its_rank_along),
        cmocka_unit_test(ranks_die_with_tcrun_and_all_guards),
        cmocka_unit_test(a_stopped_guard_does_not_hold_up_the_end),
    };

    if (argc > 1 && strcmp(argv[1], "--await-signal") == 0)
        return await_signal(argc > 2);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    self_path = self;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
