/* test_tcrun_output.c - what tcrun does with the output and the input of its ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tool_run.h"

#define TCRUN(...) ((const char *const[]){"tcrun", __VA_ARGS__, NULL})

/* A shell's way to write so many times the letter x, without a line end. */
#define WRITE_X(count) "head -c " count " /dev/zero | tr '\\0' x"

#define SAY_READY_AND_WAIT "echo ready$TCDIST_RANK; exec sleep 1000"

/* ---- Lines ----------------------------------------------------------------------------------- */

static void the_two_outputs_stay_apart(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "1", "sh", "-c", "echo one; echo two >&2"));
    tool_finish(&run);

    assert_string_equal(run.out.data, "[0] one\n");
    assert_string_equal(run.err.data, "[0] two\n");
    tool_close(&run);
}

static void ranks_are_padded_to_the_same_width(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "11", "echo", "x"));
    tool_finish(&run);

    assert_non_null(strstr(run.out.data, "[ 9] x\n"));
    assert_non_null(strstr(run.out.data, "[10] x\n"));
    assert_int_equal(run.out.len, 11 * strlen("[ 0] x\n"));
    tool_close(&run);
}

static void only_a_newline_ends_a_line_and_the_last_is_completed(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "1", "printf", "1%%\\r2%%\\n\\n3%%\\r"));
    tool_finish(&run);

    assert_string_equal(run.out.data, "[0] 1%\r2%\n[0] \n[0] 3%\r\n");
    tool_close(&run);

    tool_start(&run, NULL, TCRUN("-n", "1", "--no-prefix", "printf", "a\\nb"));
    tool_finish(&run);

    assert_string_equal(run.out.data, "a\nb\n");
    tool_close(&run);
}

/* Each rank writes its lines in two pieces to both outputs, which are the same pipe. */
static void lines_of_ranks_never_mix(void **state)
{
    enum { RANKS = 8, LINES = 400 };
    struct tool_setup setup = {.is_joined = true};
    struct tool_run run;
    size_t count = 0;

    (void)state;
    tool_start(&run, &setup,
               TCRUN("-n", "8", "sh", "-c",
                     "for i in $(seq 400); do printf 'out '; printf 'err ' >&2;"
                     " echo $i $TCDIST_RANK; echo $i $TCDIST_RANK >&2; done"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    for (char *line = strtok(run.out.data, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        unsigned prefix;
        unsigned number;
        unsigned rank;
        char which[4];
        char end;

        assert_int_equal(sscanf(line, "[%u] %3[a-z] %u %u%c", &prefix, which, &number, &rank, &end),
                         4);
        assert_int_equal(prefix, rank);
        count++;
    }
    assert_int_equal(count, RANKS * LINES * 2);
    tool_close(&run);
}

static void a_long_line_stays_whole(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "1", "sh", "-c", WRITE_X("3000000") "; echo; echo end"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_int_equal(strspn(run.out.data + 4, "x"), 3000000);
    assert_string_equal(run.out.data + 4 + 3000000, "\n[0] end\n");
    tool_close(&run);
}

/* Resident memory at its highest, in KiB. */
static long highest_memory(pid_t pid)
{
    char path[64];
    char line[256];
    long value = -1;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            value = strtol(line + 6, NULL, 10);
    }
    (void)fclose(file);
    return value;
}

static void a_line_without_end_takes_no_more_memory(void **state)
{
    struct tool_run run;
    char *buf = malloc(1 << 20);
    size_t total = 0;
    long before = 0;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "1", "cat", "/dev/zero"));
    while (total < (size_t)128 << 20) {
        ssize_t n;

        tool_wait_readable(run.out_fd);
        n = read(run.out_fd, buf, 1 << 20);
        assert_true(n > 0);
        total += (size_t)n;
        if (before == 0 && total > 1 << 20)
            before = highest_memory(run.pid);
    }
    assert_true(highest_memory(run.pid) - before < 8 << 10);
    tool_kill(&run, SIGTERM);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 143);
    free(buf);
    tool_close(&run);
}

/* Rank 0 stops inside a line longer than all buffers; rank 1 speaks once that has been seen. */
static void a_silent_rank_inside_a_long_line_does_not_hold_up_others(void **state)
{
    char dir[] = "/tmp/tcrun-XXXXXX";
    struct tool_run run;
    int fifo;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(mkfifo("go", 0600), 0);
    tool_start(&run, NULL,
               TCRUN("-n", "2", "sh", "-c",
                     "if [ $TCDIST_RANK = 0 ]; then " WRITE_X(
                         "200000") "; exec sleep 1000; fi; "
                                   "read word < go; echo $word; exec sleep 1000"));
    while (run.out.len < 200000 + strlen("[0] "))
        tool_read(&run, "the long line");
    fifo = open("go", O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fifo, "word\n", 5), 5);
    close(fifo);
    tool_wait_out(&run, "x\n[1] word\n");
    tool_kill(&run, SIGTERM);
    tool_finish(&run);

    unlink("go");
    assert_int_equal(chdir("/"), 0);
    rmdir(dir);
    tool_close(&run);
}

/* One rank never ends its line and never pauses; the other one is heard all the same. */
static void an_endless_line_does_not_hold_up_others(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "2", "sh", "-c",
                     "[ $TCDIST_RANK = 0 ] && exec tr '\\0' x < /dev/zero; "
                     "for i in 1 2 3; do echo heard $i; done; exec sleep 1000"));
    tool_wait_out(&run, "[1] heard 3\n");
    tool_kill(&run, SIGTERM);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 143);
    tool_close(&run);
}

/* ---- Readers --------------------------------------------------------------------------------- */

/* The ranks are far done with writing, or blocked in it, before the first byte is read. */
static void a_slow_reader_loses_nothing(void **state)
{
    struct tool_run run;
    const char *end;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "2", "sh", "-c",
                     "if [ $TCDIST_RANK = 0 ]; then seq 200000; else echo go >&2; seq 9; fi"));
    assert_true(fcntl(run.out_fd, F_SETPIPE_SZ, 4096) >= 0);
    tool_wait_readable(run.err_fd);
    tool_wait_readable(run.out_fd);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "\n"), 200009);
    assert_int_equal(tool_count(run.out.data, "[0] "), 200000);
    end = strstr(run.out.data, "[0] 199999\n");
    assert_non_null(end);
    assert_non_null(strstr(end, "[0] 200000\n"));
    tool_close(&run);
}

static void a_reader_that_sleeps_does_not_hold_up_a_signal(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "2", "--timeout-kill", "0.2", "yes"));
    tool_wait_readable(run.out_fd);
    tool_kill(&run, SIGTERM);
    tool_wait_readable(run.pidfd);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 143);
    tool_close(&run);
}

static void a_reader_that_has_gone_ends_all_as_a_broken_pipe_does(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "4", "yes"));
    tool_wait_readable(run.out_fd);
    close(run.out_fd);
    run.out_fd = -1;
    tool_finish(&run);

    assert_int_equal(run.exit_code, 128 + SIGPIPE);
    assert_string_equal(run.err.data, "");
    tool_close(&run);
}

static void a_full_disk_is_told_and_ends_all(void **state)
{
    struct tool_setup setup = {.out_fd = open("/dev/full", O_WRONLY | O_CLOEXEC)};
    struct tool_run run;

    (void)state;
    tool_start(&run, &setup, TCRUN("-n", "4", "yes"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err.data, "tcrun: cannot write the output of the ranks: "
                                      "No space left on device\n");
    close(setup.out_fd);
    tool_close(&run);
}

static void a_file_is_appended_to(void **state)
{
    char path[] = "/tmp/tcrun-XXXXXX";
    struct tool_setup setup = {.out_fd = mkstemp(path), .is_joined = true};
    struct tool_run run;
    char buf[64] = "";

    (void)state;
    assert_int_equal(write(setup.out_fd, "head\n", 5), 5);
    tool_start(&run, &setup, TCRUN("-n", "1", "sh", "-c", "echo one; exec >&2; echo two"));
    tool_finish(&run);

    assert_true(pread(setup.out_fd, buf, sizeof buf - 1, 0) > 0);
    assert_int_equal(strncmp(buf, "head\n[0] ", 9), 0);
    assert_int_equal(tool_count(buf, "\n"), 3);
    close(setup.out_fd);
    unlink(path);
    tool_close(&run);
}

/* A socket can't be opened a second time, so tcrun writes it in small pieces. */
static void a_socket_gets_everything(void **state)
{
    struct tool_setup setup = {0};
    struct tool_run run;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    setup.out_fd = pair[1];
    tool_start(&run, &setup, TCRUN("-n", "1", "seq", "100000"));
    close(pair[1]);
    close(run.out_fd);
    run.out_fd = pair[0];
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "\n"), 100000);
    tool_close(&run);
}

static void close_standard(void *arg)
{
    (void)arg;
    for (int fd = 0; fd < 3; fd++)
        close(fd);
}

static void closed_standard_descriptors_do_no_harm(void **state)
{
    struct tool_setup setup = {.prepare = close_standard};
    struct tool_run run;

    (void)state;
    tool_start(&run, &setup,
               TCRUN("-n", "2", "sh", "-c", "cat; echo x; echo x >&2; exit $((3 + $?))"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 3);
    tool_close(&run);
}

/* ---- Input ----------------------------------------------------------------------------------- */

static void ranks_read_the_input_that_is_theirs(void **state)
{
    static const struct {
        const char *option;
        size_t readers;
    } modes[] = {{"--stdin=all", 3}, {"--stdin=0", 1}, {"--stdin=none", 0}};
    struct tool_setup setup = {.input = "hello\n"};

    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct tool_run run;

        tool_start(&run, &setup, TCRUN("-n", "3", modes[i].option, "sh", "-c", "cat; echo end"));
        tool_finish(&run);

        assert_int_equal(run.exit_code, 0);
        assert_int_equal(tool_count(run.out.data, "] hello\n"), modes[i].readers);
        assert_int_equal(modes[i].readers == 0 || strstr(run.out.data, "[0] hello\n") != NULL, 1);
        assert_int_equal(tool_count(run.out.data, "] end\n"), 3);
        tool_close(&run);
    }
}

/* More than pipes hold: rank 1 reads nothing, rank 2 a little. */
static void who_does_not_read_holds_up_nobody(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "1", "sh", "-c",
                     "head -c 3000000 /dev/zero | \"$0\" -n 4 sh -c 'case $TCDIST_RANK in "
                     "1) exec sleep 0;; 2) head -c 10 | wc -c; exit;; esac; cat | wc -c'",
                     tool_path("tcrun")));
    tool_finish(&run);

    assert_string_equal(run.err.data, "");
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "] 3000000\n"), 2);
    assert_int_equal(tool_count(run.out.data, "] 10\n"), 1);
    tool_close(&run);
}

static void take_terminal(void *arg)
{
    int fd = *(const int *)arg;

    dup2(fd, STDIN_FILENO);
    setsid();
    ioctl(STDIN_FILENO, TIOCSCTTY, 0);
}

static void a_terminal_is_carried_to_all_ranks(void **state)
{
    struct tool_setup setup = {.prepare = take_terminal};
    struct tool_run run;
    int master;
    int slave;

    (void)state;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    fcntl(master, F_SETFD, FD_CLOEXEC);
    setup.arg = &slave;
    tool_start(&run, &setup, TCRUN("-n", "2", "sh", "-c", "cat; echo end"));
    close(slave);
    assert_int_equal(write(master, "typed\n", 6), 6);
    tool_wait_out(&run, "[0] typed\n");
    tool_wait_out(&run, "[1] typed\n");
    assert_int_equal(write(master, "\004", 1), 1);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "] end\n"), 2);
    close(master);
    tool_close(&run);
}

static void an_interrupt_typed_at_the_terminal_ends_all(void **state)
{
    struct tool_setup setup = {.prepare = take_terminal};
    struct tool_run run;
    int master;
    int slave;

    (void)state;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    fcntl(master, F_SETFD, FD_CLOEXEC);
    setup.arg = &slave;
    tool_start(&run, &setup, TCRUN("-n", "2", "sh", "-c", SAY_READY_AND_WAIT));
    close(slave);
    tool_wait_out(&run, "ready0");
    tool_wait_out(&run, "ready1");
    assert_int_equal(write(master, "\003", 1), 1);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 130);
    close(master);
    tool_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_two_outputs_stay_apart),
        cmocka_unit_test(ranks_are_padded_to_the_same_width),
        cmocka_unit_test(only_a_newline_ends_a_line_and_the_last_is_completed),
        cmocka_unit_test(lines_of_ranks_never_mix),
        cmocka_unit_test(a_long_line_stays_whole),
        cmocka_unit_test(a_line_without_end_takes_no_more_memory),
        cmocka_unit_test(a_silent_rank_inside_a_long_line_does_not_hold_up_others),
        cmocka_unit_test(an_endless_line_does_not_hold_up_others),
        cmocka_unit_test(a_slow_reader_loses_nothing),
        cmocka_unit_test(a_reader_that_sleeps_does_not_hold_up_a_signal),
        cmocka_unit_test(a_reader_that_has_gone_ends_all_as_a_broken_pipe_does),
        cmocka_unit_test(a_full_disk_is_told_and_ends_all),
        cmocka_unit_test(a_file_is_appended_to),
        cmocka_unit_test(a_socket_gets_everything),
        cmocka_unit_test(closed_standard_descriptors_do_no_harm),
        cmocka_unit_test(ranks_read_the_input_that_is_theirs),
        cmocka_unit_test(who_does_not_read_holds_up_nobody),
        cmocka_unit_test(a_terminal_is_carried_to_all_ranks),
        cmocka_unit_test(an_interrupt_typed_at_the_terminal_ends_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
