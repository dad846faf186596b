/* test_tcconfig.c - tcconfig finds out who reaches whom, and writes host files that tcrun takes. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, serial */
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

static struct ssh_lab lab;
static const char *no_lab; /* why there are no hosts; NULL: there are */

#define FOUR_HOSTS "10.77.0.1,10.77.0.2:2,10.77.0.3,10.77.0.4"

#define TCCONFIG(...)                                                                              \
    ((const char *const[]){"tcconfig", "--ssh", lab.ssh, "--try=1", "--large=0.25", __VA_ARGS__,   \
                           NULL})

__attribute__((format(printf, 1, 2))) static void command(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (system(text) != 0)
        fail_msg("failed: %s", text);
}

/* Packets between two hosts are dropped, or no more. */
static void part(int a, int b)
{
    command("nsenter -t %d -n nft 'add rule inet lab in ip saddr %s drop'", (int)lab.hosts[a],
            lab_host_address(b));
}

static void unite(int a)
{
    command("nsenter -t %d -n nft 'flush chain inet lab in'", (int)lab.hosts[a]);
}

/* ---- Without hosts --------------------------------------------------------------------------- */

static void this_host_alone_is_described(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               (const char *const[]){"tcconfig", "--hosts", "localhost", "--form=list", NULL});
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "{\"ssh\": \"localhost\", \"ips\": []}");
    tool_errs(&run, "one host, alone");
    tool_close(&run);
}

static void mistakes_are_told(void **state)
{
    static const char *const mistakes[][4] = {
        {"tcconfig"},
        {"tcconfig", "--hosts", "a;b"},
        {"tcconfig", "--hosts=a", "--over=air"},
        {"tcconfig", "--hosts=a", "--backend=mpi"},
        {"tcconfig", "--hosts=a", "--form=xml"},
        {"tcconfig", "--hostfile=/no/such"},
        {"tcconfig", "a"},
        {"tcconfig", "--agent=1/1/1/1"},
        {"tcconfig", "--agent=0/1/x"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        tool_refuses(mistakes[i]);
}

static void names_that_are_possible_are_listed(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, (const char *const[]){"tcconfig", "--hosts=a", "--backend=foo", NULL});
    tool_finish(&run);
    assert_non_null(
        strstr(run.err.data, "'foo' is not one of any, ring, tcp, rdma, jaccl, jaccl-ring"));
    tool_close(&run);
}

/* ---- With hosts ------------------------------------------------------------------------------ */

static void a_mesh_becomes_a_host_file_for_tcrun(void **state)
{
    char path[128];
    struct tool_run run;

    (void)state;
    ssh_lab_need(no_lab);
    snprintf(path, sizeof path, "%s/hosts.json", lab.folder);
    tool_start(&run, NULL,
               TCCONFIG("--hosts", FOUR_HOSTS, "--output", path, "--env", "FROM=tcconfig"));
    tool_finish(&run);
    if (run.exit_code != 0)
        fail_msg("%s%s", run.out.data, run.err.data);
    tool_says(&run, "10.77.0.1 -> 10.77.0.2: eth0 -> eth0 10.77.0.2: ");
    tool_says(&run, " MB/s\n");
    tool_says(&run, "the 4 hosts form a mesh\n");
    tool_close(&run);

    tool_start(&run, NULL,
               (const char *const[]){"tcrun", "--ssh", lab.ssh, "--hostfile", path, "sh", "-c",
                                     "echo $RANK/$WORLD_SIZE $FROM; cat $MLX_HOSTFILE", NULL});
    tool_finish(&run);
    unlink(path);
    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "[4] 4/5 tcconfig\n");
    tool_says(&run, "[0] [[\"10.77.0.1:32323\"], [\"10.77.0.2:32324\"], [\"10.77.0.2:32325\"], "
                    "[\"10.77.0.3:32326\"], [\"10.77.0.4:32327\"]]\n");
    tool_close(&run);
}

static void hosts_without_a_mesh_are_ordered_as_a_ring(void **state)
{
    struct tool_run run;

    (void)state;
    ssh_lab_need(no_lab);
    part(1, 0);
    tool_start(&run, NULL, TCCONFIG("--hosts", FOUR_HOSTS, "--form=plain"));
    tool_finish(&run);
    unite(1);

    assert_int_equal(run.exit_code, 0);
    tool_errs(&run,
              "the 4 hosts form a ring, but no mesh: 10.77.0.1 and 10.77.0.2 are not linked both "
              "ways\naround the ring: 10.77.0.1 10.77.0.3 10.77.0.2 10.77.0.4\n");
    assert_string_equal(run.out.data, "10.77.0.1 slots=1\n10.77.0.3 slots=1\n10.77.0.2 slots=2\n"
                                      "10.77.0.4 slots=1\n");
    tool_close(&run);
}

static void hosts_without_a_ring_are_no_group(void **state)
{
    struct tool_run run;

    (void)state;
    ssh_lab_need_time(no_lab);
    part(1, 0);
    tool_start(&run, NULL, TCCONFIG("--hosts", "10.77.0.1,10.77.0.2,10.77.0.3"));
    tool_finish(&run);
    unite(1);

    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.out.data, "");
    tool_errs(&run, "form neither a mesh nor a ring: 10.77.0.1 and 10.77.0.2");
    tool_close(&run);

    tool_start(&run, NULL, TCCONFIG("--hosts", "10.77.0.1,10.77.0.2", "--backend=jaccl"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 1);
    tool_errs(&run, "can't be a group for jaccl: 10.77.0.1 and 10.77.0.2 are not "
                    "linked by active devices");
    tool_close(&run);
}

static void a_host_out_of_reach_is_told_or_left_out(void **state)
{
    struct tool_run run;

    (void)state;
    ssh_lab_need_time(no_lab);
    tool_start(&run, NULL, TCCONFIG("--hosts", "10.77.0.1,10.77.0.99,10.77.0.3"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 1);
    tool_errs(&run, "10.77.0.99: can't be reached: ssh: connect to host 10.77.0.99");
    tool_errs(&run, "1 of 3 hosts can't be reached; --ignore-unreachable");
    tool_close(&run);

    tool_start(&run, NULL,
               TCCONFIG("--hosts", "10.77.0.1,10.77.0.99,10.77.0.3", "--ignore-unreachable",
                        "--form=plain"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out.data, "10.77.0.1 slots=1\n10.77.0.3 slots=1\n");
    tool_close(&run);
}

static void who_reaches_whom_is_drawn(void **state)
{
    struct tool_run run;

    (void)state;
    ssh_lab_need(no_lab);
    tool_start(&run, NULL, TCCONFIG("--hosts", "10.77.0.1,10.77.0.2", "--dot"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    tool_says(&run, "digraph hosts {\n");
    tool_says(&run,
              "  \"10.77.0.1\" -> \"10.77.0.2\" [taillabel=\"eth0\", headlabel=\"eth0\", label=\"");
    tool_says(&run, "\"];\n}\n");
    tool_close(&run);
}

/* A cable between two hosts, without any address but those that links give themselves. */
static void wire(int a, int b)
{
    command("ip link add cable0 type veth peer name cable1 && ip link set cable0 netns %d && "
            "ip link set cable1 netns %d",
            (int)lab.hosts[a], (int)lab.hosts[b]);
    for (int end = 0; end < 2; end++)
        command("nsenter -t %d -n sh -c 'echo 0 >/proc/sys/net/ipv6/conf/cable%d/accept_dad && "
                "ip link set cable%d up'",
                (int)lab.hosts[end == 0 ? a : b], end, end);
}

static void a_cable_without_addresses_gets_some_when_told(void **state)
{
    struct tool_run run;

    (void)state;
    ssh_lab_need(no_lab);
    wire(0, 1);
    tool_start(&run, NULL, TCCONFIG("--hosts", "10.77.0.1,10.77.0.2,10.77.0.3"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    if (strstr(run.err.data, ", fe80:") == NULL) {
        tool_close(&run);
        printf("skipped: there is no IPv6 here, by which bare wires are found\n");
        skip();
    }
    tool_errs(&run, "  10.77.0.1: ip addr add 192.168.0.1/30 dev cable0 && ip link "
                    "set cable0 up\n");
    tool_errs(&run, "  10.77.0.2: ip addr add 192.168.0.2/30 dev cable1 && ip link "
                    "set cable1 up\n");
    tool_close(&run);

    tool_start(&run, NULL, TCCONFIG("--hosts", "10.77.0.1,10.77.0.2", "--auto-setup"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    tool_errs(&run, "after that:\n");
    /* The faster one comes first, which may be either. */
    tool_says(&run, "\"192.168.0.1\"");
    tool_says(&run, "\"192.168.0.2\"");
    tool_says(&run, "\"10.77.0.2\"");
    tool_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_host_alone_is_described),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(names_that_are_possible_are_listed),
        cmocka_unit_test(a_mesh_becomes_a_host_file_for_tcrun),
        cmocka_unit_test(hosts_without_a_mesh_are_ordered_as_a_ring),
        cmocka_unit_test(hosts_without_a_ring_are_no_group),
        cmocka_unit_test(a_host_out_of_reach_is_told_or_left_out),
        cmocka_unit_test(who_reaches_whom_is_drawn),
        cmocka_unit_test(a_cable_without_addresses_gets_some_when_told),
    };
    int failed;

    no_lab = ssh_lab_open(&lab);
    failed = cmocka_run_group_tests_name("tcconfig", tests, NULL, NULL);
    ssh_lab_close(&lab);
    return failed;
}
