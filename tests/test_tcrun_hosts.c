/* test_tcrun_hosts.c - tcrun on several hosts, with a shell in the place of ssh. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, waits */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tool_run.h"

/* A folder with what takes the place of ssh, and a host file: "one" has two ranks, "two" one. */
static char folder[] = "/tmp/tcrun-hosts-XXXXXX";
static char ssh_option[64], hosts_option[64];

#define TCRUN(...)                                                                                 \
    ((const char *const[]){"tcrun", ssh_option, hosts_option, "--heartbeat=0", "--timeout-kill=1", \
                           __VA_ARGS__, NULL})

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

/* The host it is given goes into the environment, so that ranks can tell where they are. */
static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    write_file("ssh.sh", "#!/bin/sh\n"
                         "if [ \"$1\" = nowhere ]; then\n"
                         "    echo 'no route to host' >&2; exit 255\n"
                         "fi\n"
                         "export HOST=$1 SSH=$$; shift\n"
                         "echo 'Welcome!'; exec sh -c \"$*\"\n");
    write_file("far.sh", "#!/bin/sh\n"
                         "export HOST=$1; shift\n"
                         "echo $$ >\"$(dirname \"$0\")/line\"\n"
                         "cat | sh -c \"$*\" | cat\n");
    write_file("hosts", "{\"envs\": [\"FROM=file\", \"OVER=file\"], \"hosts\": [\n"
                        "{\"ssh\": \"one\", \"ips\": [\"127.0.0.1\"], \"slots\": 2},\n"
                        "{\"ssh\": \"two\", \"ips\": [\"127.0.0.1\", \"127.0.0.2\"]}]}\n");
    snprintf(ssh_option, sizeof ssh_option, "--ssh=%s/ssh.sh", folder);
    snprintf(hosts_option, sizeof hosts_option, "--hostfile=%s/hosts", folder);
    return 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"ssh.sh", "far.sh", "hosts", "line", "timeline.html"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void ranks_of_several_hosts_know_their_place(void **state)
{
    struct tool_run run;

    (void)state;
    setenv("TCDIST_LOG", "error", 1);
    tool_start(&run, NULL,
               TCRUN("--env", "OVER=option", "sh", "-c",
                     "echo $HOST $TCDIST_RANK/$TCDIST_WORLD_SIZE $TCDIST_LOCAL_RANK/"
                     "$TCDIST_LOCAL_SIZE ${TCDIST_RENDEZVOUS_FD+fd} $FROM $OVER $TCDIST_LOG"));
    unsetenv("TCDIST_LOG");
    tool_finish(&run);

    assert_string_equal(run.err.data, "");
    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "[0] one 0/3 0/2 fd file option error\n");
    tool_says(&run, "[1] one 1/3 1/2 file option error\n");
    tool_says(&run, "[2] two 2/3 0/1 file option error\n");
    tool_close(&run);
}

/* "one" has two places, and "two" one. */
static void ranks_are_repeated_on_each_host(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("--repeat-hosts=2", "sh", "-c",
                     "echo $HOST $TCDIST_RANK/$TCDIST_WORLD_SIZE $TCDIST_LOCAL_RANK/"
                     "$TCDIST_LOCAL_SIZE"));
    tool_finish(&run);

    assert_string_equal(run.err.data, "");
    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "[0] one 0/6 0/4\n");
    tool_says(&run, "[3] one 3/6 3/4\n");
    tool_says(&run, "[4] two 4/6 0/2\n");
    tool_says(&run, "[5] two 5/6 1/2\n");
    tool_close(&run);
}

/* Each host's own ranks share what it has: here it is one and the same. */
static void ranks_are_bound_on_each_host(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("--bind=cores", "--verbose", "sh", "-c",
                     "echo $HOST $(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status)"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    for (unsigned rank = 0; rank < 3; rank++) {
        const char *host = rank < 2 ? "one" : "two";
        char start[64], line[512];
        const char *list;

        snprintf(start, sizeof start, "tcrun: %s: rank %u is bound to processors ", host, rank);
        tool_errs(&run, start);
        list = strstr(run.err.data, start) + strlen(start);
        snprintf(line, sizeof line, "[%u] %s %.*s\n", rank, host, (int)strcspn(list, "\n"), list);
        tool_says(&run, line);
    }
    tool_close(&run);
}

static void programs_of_mlx_and_torch_know_theirs(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(
        &run, NULL,
        TCRUN("--connections-per-ip=2", "--starting-port=5000", "sh", "-c",
              "echo $MLX_RANK $(cat $MLX_HOSTFILE); "
              "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT "
              "$TCDIST_CONNECTIONS"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    for (char rank = '0'; rank < '3'; rank++) {
        char line[256];

        snprintf(line, sizeof line,
                 "[%c] %c [[\"127.0.0.1:5000\", \"127.0.0.1:5001\"], [\"127.0.0.1:5002\", "
                 "\"127.0.0.1:5003\"], [\"127.0.0.1:5004\", \"127.0.0.1:5005\", "
                 "\"127.0.0.2:5006\", \"127.0.0.2:5007\"]]\n",
                 rank, rank);
        tool_says(&run, line);
    }
    tool_says(&run, "[1] 1 3 1 2 127.0.0.1 5008 2\n");
    tool_says(&run, "[2] 2 3 0 1 127.0.0.1 5008 4\n");
    tool_close(&run);
}

/* Each rank of a host has a device; one that the user names stays. */
static void programs_of_mlx_on_nccl_know_theirs(void **state)
{
    static const char show[] =
        "echo $MLX_RANK $MLX_WORLD_SIZE $NCCL_HOST_IP $NCCL_PORT $CUDA_VISIBLE_DEVICES";
    struct tool_run run;

    (void)state;
    tool_start(
        &run, NULL,
        TCRUN("--backend=nccl", "--nccl-port=12345", "--starting-port=5000", "sh", "-c", show));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "[0] 0 3 127.0.0.1 12345 0\n");
    tool_says(&run, "[1] 1 3 127.0.0.1 12345 1\n");
    tool_says(&run, "[2] 2 3 127.0.0.1 12345 0\n");
    tool_close(&run);

    tool_start(&run, NULL,
               TCRUN("--backend=nccl", "--env=CUDA_VISIBLE_DEVICES=5", "--starting-port=5000", "sh",
                     "-c", show));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "[1] 1 3 127.0.0.1 5000 5\n");
    tool_close(&run);
}

/* Part of a machine: by number, by identifier, and with fewer devices than ranks. */
static void devices_that_tcrun_was_given_are_shared_out(void **state)
{
    static const struct {
        const char *given, *first, *second, *third;
    } rows[] = {
        {"4,5,6", "[0] <4>\n", "[1] <5>\n", "[2] <6>\n"},
        {"GPU-8932f937,MIG-7", "[0] <GPU-8932f937>\n", "[1] <MIG-7>\n", "[2] <>\n"},
        {"", "[0] <>\n", "[1] <>\n", "[2] <>\n"},
    };
    static const char *const argv[] = {
        "tcrun", "-n3", "--backend=nccl", "sh", "-c", "echo \"<$CUDA_VISIBLE_DEVICES>\"", NULL};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tool_run run;

        setenv("CUDA_VISIBLE_DEVICES", rows[i].given, 1);
        tool_start(&run, NULL, argv);
        unsetenv("CUDA_VISIBLE_DEVICES");
        tool_finish(&run);
        assert_int_equal(run.exit_code, 0);
        tool_says(&run, rows[i].first);
        tool_says(&run, rows[i].second);
        tool_says(&run, rows[i].third);
        tool_close(&run);
    }
}

static void devices_are_listed_for_jaccl(void **state)
{
    static const char *const argv[] = {"tcrun",
                                       ssh_option,
                                       "--hostfile",
                                       "/dev/stdin",
                                       "--stdin=none",
                                       "sh",
                                       "-c",
                                       "echo $MLX_RANK $MLX_JACCL_COORDINATOR $MLX_JACCL_RING "
                                       "$MLX_DISTRIBUTED_BACKEND "
                                       "$(cat $MLX_IBV_DEVICES)",
                                       NULL};
    struct tool_setup setup = {
        .input = "{\"backend\": \"jaccl-ring\", \"hosts\": [\n"
                 "{\"ssh\": \"one\", \"ips\": [\"127.0.0.1\"], \"rdma\": [null, [\"a\", \"b\"]]},\n"
                 "{\"ssh\": \"two\", \"rdma\": [[\"c\", \"d\"], null]}]}\n"};
    struct tool_run run;

    (void)state;
    tool_start(&run, &setup, argv);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    tool_says(
        &run,
        "[0] 0 127.0.0.1:32323 1 jaccl-ring [[null, [\"a\", \"b\"]], [[\"c\", \"d\"], null]]\n");
    tool_says(
        &run,
        "[1] 1 127.0.0.1:32323 1 jaccl-ring [[null, [\"a\", \"b\"]], [[\"c\", \"d\"], null]]\n");
    tool_close(&run);
}

static void a_group_forms_across_hosts(void **state)
{
    char program[256], timeline[128];
    struct tool_run run;
    struct stat st;

    (void)state;
    snprintf(program, sizeof program, "%s/../../examples/digits", tool_path("tcrun"));
    snprintf(program, sizeof program, "%.*s/examples/digits",
             (int)(strstr(tool_path("tcrun"), "/tools/tcrun") - tool_path("tcrun")),
             tool_path("tcrun"));
    snprintf(timeline, sizeof timeline, "%s/timeline.html", folder);
    tool_start(&run, NULL,
               TCRUN("--timeline", timeline, "--key=auto", program, "--data",
                     TEST_SOURCE_DIR "/examples/digits/digits.csv.gz", "--epochs", "1"));
    tool_finish(&run);

    assert_string_equal(run.err.data, "");
    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "the same bits on all 3 ranks");
    assert_int_equal(stat(timeline, &st), 0);
    assert_true(st.st_size > 1000);
    tool_close(&run);
}

static void what_would_be_run_is_said(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("--print-command", "--key=auto", "--cwd=/", "prog", "it's", "x"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "host one: ");
    tool_says(&run, " --agent=0");
    tool_says(&run, "file MLX_HOSTFILE: [[\"127.0.0.1:32323\"]");
    tool_says(&run, "rendezvous tcp://127.0.0.1:0: port 0 stands for a free one");
    tool_says(&run, "rank 2 on two: cd / && env ");
    tool_says(&run, " TCDIST_RANK=2 ");
    tool_says(&run, " TCDIST_KEY=*** ");
    tool_says(&run, " prog 'it'\\''s' x\n");
    tool_close(&run);
}

/* ---- Input and output ------------------------------------------------------------------------ */

static void input_reaches_all_and_output_comes_back_whole(void **state)
{
    struct tool_setup setup = {.input = "hello\n"};
    struct tool_run run;

    (void)state;
    tool_start(&run, &setup,
               TCRUN("--no-prefix", "sh", "-c",
                     "cat; head -c 1000000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo e >&2"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "hello\n"), 3);
    assert_int_equal(run.out.len, 3 * (6 + 1000000 + 10101 + 1));
    assert_string_equal(run.err.data, "e\ne\ne\n");
    tool_close(&run);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

static void the_first_failure_is_told_with_its_host(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("sh", "-c", "test $RANK != 2 || exit 7; exec sleep 600"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 7);
    tool_errs(&run, " on two) exited with code 7\n");
    assert_int_equal(tool_count(run.err.data, "\n"), 1);
    tool_close(&run);

    tool_start(&run, NULL,
               TCRUN("--verbose", "sh", "-c", "test $RANK != 1 || kill -9 $$; exec sleep 600"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 137);
    tool_errs(&run, " on one) was killed by signal 9 (SIGKILL)\n");
    tool_errs(&run, "tcrun: rank 1 was the first to fail\n");
    tool_errs(&run, " on two) was killed by signal 15 (SIGTERM)\n");
    tool_close(&run);
}

static void a_host_that_is_out_of_reach_ends_all(void **state)
{
    static const char *const argv[] = {
        "tcrun", ssh_option, "--hosts", "localhost,nowhere", "--rendezvous=tcp://127.0.0.1:1",
        "sleep", "600",      NULL};
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, argv);
    tool_finish(&run);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err.data, "tcrun: nowhere: cannot be reached by ssh, ssh ended with "
                                      "code 255: no route to host\n");
    tool_close(&run);
}

static void a_command_or_folder_that_is_missing_there_is_told(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("/no/such/program"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 127);
    tool_errs(&run, "cannot run '/no/such/program': No such file or directory\n");
    tool_close(&run);
}

static void a_signal_reaches_ranks_of_all_hosts(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("sh", "-c",
                     "trap 'echo bye$RANK; exit' TERM; echo up$RANK; "
                     "while :; do sleep 0.1; done"));
    tool_wait_out(&run, "up0");
    tool_wait_out(&run, "up1");
    tool_wait_out(&run, "up2");
    tool_kill(&run, SIGTERM);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 143);
    tool_says(&run, "bye0");
    tool_says(&run, "bye1");
    tool_says(&run, "bye2");
    tool_close(&run);
}

/* tool_finish() waits until no descendant is left. */
static void a_killed_tcrun_leaves_nobody_on_any_host(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("sh", "-c",
                     "trap '' TERM HUP; setsid sleep 600 & echo up$RANK; "
                     "sleep 600; sleep 600"));
    tool_wait_out(&run, "up0");
    tool_wait_out(&run, "up1");
    tool_wait_out(&run, "up2");
    tool_kill(&run, SIGKILL);
    tool_finish(&run);
    tool_close(&run);
}

static void a_killed_ssh_ends_all(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("sh", "-c",
                     "trap '' TERM HUP; echo up$RANK; test $RANK != 2 || kill -9 $SSH; "
                     "sleep 600; sleep 600"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 1);
    tool_errs(&run, "tcrun: two is lost, with rank 2: the connection has ended");
    tool_close(&run);
}

/* Stopped in the middle, the line is silent both ways, and nothing ends by itself. */
static void a_silent_line_ends_all_on_both_sides(void **state)
{
    char far[64], path[96], children[64], line[256] = "";
    struct tool_run run;
    int pid = 0;
    FILE *file;

    (void)state;
    snprintf(far, sizeof far, "--ssh=%s/far.sh", folder);
    tool_start(&run, NULL,
               (const char *const[]){"tcrun", far, "--hosts=127.0.0.1,two", "--heartbeat=2",
                                     "--timeout-kill=1", "--rendezvous=tcp://127.0.0.1:1", "sh",
                                     "-c", "trap '' TERM; echo up$RANK; while :; do sleep 1; done",
                                     NULL});
    tool_wait_out(&run, "up0");
    tool_wait_out(&run, "up1");
    snprintf(path, sizeof path, "%s/line", folder);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);

    /* The shell's children: a cat, the agent, a cat. */
    snprintf(children, sizeof children, "/proc/%d/task/%d/children", pid, pid);
    file = fopen(children, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    {
        int first, agent, last;

        assert_int_equal(sscanf(line, "%d %d %d", &first, &agent, &last), 3);
        kill(first, SIGSTOP);
        kill(last, SIGSTOP);
        tool_wait_err(&run, "tcrun: two is lost, with rank 1: nothing is heard of it any more");
        while (run.out_fd >= 0)
            tool_read(&run, "the end of tcrun");
        kill(first, SIGKILL);
        kill(last, SIGKILL);
    }
    tool_finish(&run);
    assert_int_equal(run.exit_code, 1);
    tool_close(&run);
}

static void nonsense_from_the_other_side_is_refused(void **state)
{
    struct tool_setup setup = {.input = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"};
    struct tool_run run;

    (void)state;
    tool_start(&run, &setup, (const char *const[]){"tcrun", "--agent=0", NULL});
    tool_finish(&run);
    assert_int_equal(run.exit_code, 1);
    tool_close(&run);
}

static void mistakes_about_hosts_are_told(void **state)
{
    static const struct {
        const char *argv[8], *why;
    } mistakes[] = {
        {{"tcrun", "--hosts", "a;b", "true"}, "'a;b' is no name of a host"},
        {{"tcrun", "--hostfile", "/no/such", "true"}, "No such file"},
        {{"tcrun", "--hosts", "a", "-n2", "true"}, "take 1 ranks, not 2"},
        {{"tcrun", "--hosts", "a", "--hosts", "b", "true"}, "once"},
        {{"tcrun", "--hosts", "a", "--repeat-hosts=0", "true"}, "'0' is not a number of ranks"},
        {{"tcrun", "-n2", "--backend=mpi", "true"}, "mpirun"},
        {{"tcrun", "-n2", "--backend=carrier-pigeon", "true"}, "not one of any, ring"},
        {{"tcrun", "--hosts", "10.0.0.1,10.0.0.2", "--backend=jaccl", "true"}, "no rdma device"},
        {{"tcrun", "-n2", "--starting-port=65535", "true"}, "ports from 65535 on"},
        {{"tcrun", "-n2", "--stdin=some", "true"}, "not one of all, 0 and none"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct tool_run run;

        tool_start(&run, NULL, mistakes[i].argv);
        tool_finish(&run);
        assert_int_equal(run.exit_code, 2);
        tool_errs(&run, mistakes[i].why);
        tool_close(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_several_hosts_know_their_place),
        cmocka_unit_test(ranks_are_repeated_on_each_host),
        cmocka_unit_test(ranks_are_bound_on_each_host),
        cmocka_unit_test(programs_of_mlx_and_torch_know_theirs),
        cmocka_unit_test(programs_of_mlx_on_nccl_know_theirs),
        cmocka_unit_test(devices_that_tcrun_was_given_are_shared_out),
        cmocka_unit_test(devices_are_listed_for_jaccl),
        cmocka_unit_test(a_group_forms_across_hosts),
        cmocka_unit_test(what_would_be_run_is_said),
        cmocka_unit_test(input_reaches_all_and_output_comes_back_whole),
        cmocka_unit_test(the_first_failure_is_told_with_its_host),
        cmocka_unit_test(a_host_that_is_out_of_reach_ends_all),
        cmocka_unit_test(a_command_or_folder_that_is_missing_there_is_told),
        cmocka_unit_test(a_signal_reaches_ranks_of_all_hosts),
        cmocka_unit_test(a_killed_tcrun_leaves_nobody_on_any_host),
        cmocka_unit_test(a_killed_ssh_ends_all),
        cmocka_unit_test(a_silent_line_ends_all_on_both_sides),
        cmocka_unit_test(nonsense_from_the_other_side_is_refused),
        cmocka_unit_test(mistakes_about_hosts_are_told),
    };

    return cmocka_run_group_tests_name("tcrun_hosts", tests, make_folder, remove_folder);
}
