/* test_tcrun_ssh.c - tcrun over a real ssh, to hosts in networks of their own. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, serial */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chaos/lab.h"
#include "support/ssh_lab.h"
#include "support/tool_run.h"

/* What must not take longer than 5 s, on a machine that may be 20 times as slow. */
enum { GONE_MS_MAX = 59000 };

static struct ssh_lab lab;

#define TCRUN(...)                                                                                 \
    ((const char *const[]){"tcrun", "--ssh", lab.ssh, "--hosts",                                   \
                           "10.77.0.1:2,10.77.0.2,10.77.0.100", __VA_ARGS__, NULL})

/* Says where it is, and holds the fifo open as long as any of it is left; none goes by itself. */
static const char *hold(void)
{
    static char script[256];

    snprintf(script, sizeof script,
             "exec 9>%s; trap '' HUP TERM; setsid sleep 600 & echo up$TCDIST_RANK; "
             "while :; do sleep 1; done",
             lab.fifo_path);
    return script;
}

static void wait_up(struct tool_run *run)
{
    tool_wait_out(run, "up0");
    tool_wait_out(run, "up1");
    tool_wait_out(run, "up2");
    tool_wait_out(run, "up3");
}

static void assert_nobody_is_left(const char *after)
{
    int took_ms = ssh_lab_wait_nobody(&lab);

    printf("%s: nobody is left on any host after %.2f s\n", after, took_ms / 1000.0);
    assert_true(took_ms < GONE_MS_MAX);
}

static void write_host_file(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs("{\"backend\": \"ring\", \"hosts\": [\n"
          "{\"ssh\": \"root@10.77.0.1\", \"ips\": [\"10.77.0.1\"], \"slots\": 2},\n"
          "{\"ssh\": \"root@10.77.0.2\", \"ips\": [\"10.77.0.2\"]},\n"
          "{\"ssh\": \"10.77.0.100\", \"ips\": [\"10.77.0.100\"]}]}\n",
          file);
    assert_int_equal(fclose(file), 0);
}

static void a_group_trains_across_hosts(void **state)
{
    char program[256], hosts[128];
    const char *path = tool_path("tcrun");
    struct tool_run run;

    (void)state;
    snprintf(hosts, sizeof hosts, "%s/hosts.json", lab.folder);
    write_host_file(hosts);
    snprintf(program, sizeof program, "%.*s/examples/digits",
             (int)(strstr(path, "/tools/tcrun") - path), path);
    tool_start(&run, NULL,
               (const char *const[]){"tcrun", "--ssh", lab.ssh, "--hostfile", hosts, "--key=auto",
                                     "--verbose", program, "--data",
                                     TEST_SOURCE_DIR "/examples/digits/digits.csv.gz", "--epochs",
                                     "1", NULL});
    tool_finish(&run);
    unlink(hosts);

    if (run.exit_code != 0)
        fail_msg("%s%s", run.out.data, run.err.data);
    assert_non_null(strstr(run.out.data, "the same bits on all 4 ranks"));
    assert_non_null(strstr(run.err.data, "tcrun: 4 ranks meet at tcp://10.77.0.1:"));
    tool_close(&run);
}

static void a_killed_tcrun_leaves_nobody(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("sh", "-c", hold()));
    wait_up(&run);
    tool_kill(&run, SIGKILL);
    assert_nobody_is_left("tcrun killed");
    tool_finish(&run);
    tool_close(&run);
}

static void a_killed_ssh_leaves_nobody(void **state)
{
    struct tool_run run;
    pid_t ssh;

    (void)state;
    tool_start(&run, NULL, TCRUN("sh", "-c", hold()));
    wait_up(&run);
    ssh = ssh_lab_find(run.pid, "ssh");
    assert_true(ssh > 0);
    assert_int_equal(kill(ssh, SIGKILL), 0);
    assert_nobody_is_left("ssh killed");
    tool_finish(&run);

    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err.data, " is lost, with "));
    tool_close(&run);
}

static void a_cut_network_leaves_nobody(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("sh", "-c", hold()));
    wait_up(&run);
    assert_true(lab_host_drop(lab.hosts[1], true, -1));
    assert_true(lab_host_drop(lab.hosts[1], false, -1));
    assert_nobody_is_left("network cut");
    tool_finish(&run);

    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err.data, "tcrun: 10.77.0.2 is lost, with rank 2: nothing is heard "
                                         "of it any more"));
    tool_close(&run);
}

static void a_host_that_does_not_let_us_in_is_told(void **state)
{
    char ssh[640];
    struct tool_run run;

    (void)state;
    snprintf(ssh, sizeof ssh,
             "ssh -F none -i %s/other -oStrictHostKeyChecking=no "
             "-oUserKnownHostsFile=/dev/null -oLogLevel=ERROR",
             lab.folder);
    tool_start(&run, NULL,
               (const char *const[]){"tcrun", "--ssh", ssh, "--hosts", "10.77.0.1", "true", NULL});
    tool_finish(&run);

    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err.data, "tcrun: 10.77.0.1: cannot be reached by ssh, ssh ended "
                                         "with code 255: "));
    assert_non_null(strstr(run.err.data, "Permission denied"));
    tool_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_trains_across_hosts),
        cmocka_unit_test(a_killed_tcrun_leaves_nobody),
        cmocka_unit_test(a_killed_ssh_leaves_nobody),
        cmocka_unit_test(a_host_that_does_not_let_us_in_is_told),
        cmocka_unit_test(a_cut_network_leaves_nobody), /* the last: it stays cut */
    };
    const char *why = ssh_lab_open(&lab);
    int failed;

    if (why != NULL) {
        printf("skipped: %s\n", why);
        ssh_lab_close(&lab);
        return 77;
    }
    failed = cmocka_run_group_tests_name("tcrun_ssh", tests, NULL, NULL);
    ssh_lab_close(&lab);
    return failed;
}
