/* test_tcdoctor.c - tcdoctor tells what is wrong with a job, and that nothing is. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, serial */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chaos/lab.h"
#include "support/ssh_lab.h"
#include "support/tool_run.h"

static struct ssh_lab lab;
static char doctor[512];   /* its path */
static const char *no_lab; /* why there are no hosts; NULL: there are */

static void ranks_of_this_host_are_well(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, (const char *const[]){"tcdoctor", "-n", "3", "--large=1", NULL});
    tool_finish(&run);

    assert_string_equal(run.err.data, "");
    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "rank 2 of 3: ");
    tool_says(&run, "started by tcdist, transports tcp");
    tool_says(&run, "all is well: ");
    tool_close(&run);
}

static void a_process_alone_is_well(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, (const char *const[]){"tcdoctor", NULL});
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "rank 0 of 1: ");
    tool_says(&run, "this rank was alone");
    tool_close(&run);
}

/* 1 is for what is found in a job that was examined. */
static void what_can_not_be_examined_is_exit_code_2(void **state)
{
    static const char *const mistakes[][5] = {
        {"tcdoctor", "--hosts=nosuch", "--ssh=false"},
        {"tcdoctor", "--hosts=a;b"},
        {"tcdoctor", "nosuch"},
        {"tcdoctor", "--ssh=false"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        tool_refuses(mistakes[i]);
}

/* Each forms groups of its own, however many do so at a time. */
static void jobs_side_by_side_do_not_meet(void **state)
{
    const char *effort = getenv("TCDIST_TEST_EFFORT");
    int pairs = effort != NULL && strcmp(effort, "full") == 0 ? 100 : 5;

    (void)state;
    for (int i = 0; i < pairs; i++) {
        struct tool_run runs[2];

        for (int k = 0; k < 2; k++)
            tool_start(&runs[k], NULL,
                       (const char *const[]){"tcdoctor", "-n", "2", "--large=0", NULL});
        for (int k = 0; k < 2; k++) {
            tool_finish(&runs[k]);
            if (runs[k].exit_code != 0)
                fail_msg("job %d: %s%s", 2 * i + k, runs[k].out.data, runs[k].err.data);
            tool_close(&runs[k]);
        }
    }
    printf("%d jobs, two at a time\n", 2 * pairs);
}

/* A port that this test holds, so that nobody answers there; the URL of it. */
static int hold_port(char url[64])
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    snprintf(url, 64, "tcp://127.0.0.1:%u", (unsigned)ntohs(addr.sin_port));
    return fd;
}

static void who_does_not_come_is_named(void **state)
{
    char url[64];
    int port = hold_port(url);
    struct tool_run run;

    (void)state;
    /* Of 2 ranks only one is started: by tcrun, which tells it otherwise. */
    tool_start(&run, NULL,
               (const char *const[]){"tcrun", "-n1", "sh", "-c",
                                     "TCDIST_WORLD_SIZE=2 exec \"$0\" --timeout=0.5", doctor,
                                     NULL});
    tool_finish(&run);
    assert_int_equal(run.exit_code, 1);
    tool_says(&run, "rank 1 of 2: not there\n");
    tool_says(&run, "rank 1 has not come to tcp://127.0.0.1:");
    tool_close(&run);

    setenv("TCDIST_RANK", "1", 1);
    setenv("TCDIST_WORLD_SIZE", "2", 1);
    setenv("TCDIST_RENDEZVOUS", url, 1);
    tool_start(&run, NULL, (const char *const[]){"tcdoctor", "--timeout=0.5", NULL});
    unsetenv("TCDIST_RANK");
    unsetenv("TCDIST_WORLD_SIZE");
    unsetenv("TCDIST_RENDEZVOUS");
    tool_finish(&run);
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err.data, "tcdoctor: rank 1 of 2 cannot reach rank 0 at tcp://"));
    assert_non_null(strstr(run.err.data, "Connection refused"));
    tool_close(&run);
    close(port);
}

static void a_place_that_is_a_file_does_too(void **state)
{
    char url[128];
    struct tool_run run;

    (void)state;
    snprintf(url, sizeof url, "file:///tmp/tcdoctor-%d", (int)getpid());
    tool_start(
        &run, NULL,
        (const char *const[]){"tcrun", "-n2", "--rendezvous", url, doctor, "--large=1", NULL});
    tool_finish(&run);
    unlink(url + strlen("file://"));
    if (run.exit_code != 0)
        fail_msg("%s%s", run.out.data, run.err.data);
    tool_says(&run, "all is well: ");
    tool_close(&run);
}

/* ---- Networks -------------------------------------------------------------------------------- */

/* Adds a rule to what comes into a host. */
static void add_rule(int host, const char *rule)
{
    char command[256];

    snprintf(command, sizeof command, "nsenter -t %d -n nft 'add rule inet lab in %s drop'",
             (int)lab.hosts[host], rule);
    assert_int_equal(system(command), 0);
}

static void clear_rules(int host)
{
    char command[128];

    snprintf(command, sizeof command, "nsenter -t %d -n nft 'flush chain inet lab in'",
             (int)lab.hosts[host]);
    assert_int_equal(system(command), 0);
}

static void run_on_hosts(struct tool_run *run)
{
    tool_start(run, NULL,
               (const char *const[]){"tcdoctor", "--ssh", lab.ssh, "--try=1", "--timeout=4",
                                     "--hosts", "10.77.0.1,10.77.0.2,10.77.0.3", "--large=1",
                                     NULL});
    tool_finish(run);
}

static void hosts_that_are_well_are_said_to_be(void **state)
{
    struct tool_run run;

    (void)state;
    ssh_lab_need(no_lab);
    run_on_hosts(&run);
    if (run.exit_code != 0)
        fail_msg("%s%s", run.out.data, run.err.data);
    tool_says(&run, " eth0 10.77.0.3");
    tool_says(&run, "all is well: ");
    tool_close(&run);
}

static void a_firewall_in_one_direction_is_told(void **state)
{
    struct tool_run run;

    (void)state;
    ssh_lab_need(no_lab);
    add_rule(2, "ip saddr 10.77.0.2 tcp flags & (syn | ack) == syn");
    run_on_hosts(&run);
    clear_rules(2);

    assert_int_equal(run.exit_code, 1);
    tool_says(&run, "rank 2 reaches rank 1 on 10.77.0.2 but not back, on 10.77.0.3 no answer: "
                    "firewall or NAT?\n");
    tool_close(&run);
}

static void a_blocked_pair_is_told(void **state)
{
    struct tool_run run;

    (void)state;
    ssh_lab_need_time(no_lab);
    add_rule(2, "ip saddr 10.77.0.2");
    run_on_hosts(&run);
    clear_rules(2);

    assert_int_equal(run.exit_code, 1);
    tool_says(&run, "ranks 1 and 2 do not reach each other; 1 tried 10.77.0.3: no answer; 2 tried "
                    "10.77.0.2: no answer: no route, or a firewall?\n");
    tool_close(&run);
}

static void packets_that_are_too_large_are_told(void **state)
{
    struct tool_run run;

    (void)state;
    ssh_lab_need_time(no_lab);
    add_rule(2, "ip saddr 10.77.0.2 meta length > 1000");
    run_on_hosts(&run);
    clear_rules(2);

    assert_int_equal(run.exit_code, 1);
    tool_says(&run, "small messages from rank 1 reach rank 2 on 10.77.0.3, large ones do not:");
    tool_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_this_host_are_well),
        cmocka_unit_test(a_process_alone_is_well),
        cmocka_unit_test(what_can_not_be_examined_is_exit_code_2),
        cmocka_unit_test(jobs_side_by_side_do_not_meet),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(a_place_that_is_a_file_does_too),
        cmocka_unit_test(hosts_that_are_well_are_said_to_be),
        cmocka_unit_test(a_firewall_in_one_direction_is_told),
        cmocka_unit_test(a_blocked_pair_is_told),
        cmocka_unit_test(packets_that_are_too_large_are_told),
    };
    int failed;

    snprintf(doctor, sizeof doctor, "%s", tool_path("tcdoctor"));
    no_lab = ssh_lab_open(&lab);
    failed = cmocka_run_group_tests_name("tcdoctor", tests, NULL, NULL);
    ssh_lab_close(&lab);
    return failed;
}
