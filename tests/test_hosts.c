/* test_hosts.c - host files in all their forms are read, checked and written. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 60, single */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hosts.h"

static void parse(struct hosts *hosts, const char *text)
{
    char why[HOSTS_WHY_ROOM] = "";

    if (!hosts_parse(hosts, text, strlen(text), why))
        fail_msg("%s: %s", text, why);
}

static void mlx_lists_are_read(void **state)
{
    struct hosts hosts;

    (void)state;
    parse(&hosts, " [{\"ssh\": \"a\", \"ips\": [\"10.0.0.1\", \"10.1.0.1\"],"
                  "   \"rdma\": [null, \"mlx5_0\", [\"mlx5_1\", \"mlx5_2\"]]},"
                  "  {\"ssh\": \"me@b\", \"ips\": [\"fd00::2\"], \"rdma\": [\"mlx5_0\", null, []]},"
                  "  {\"ssh\": \"10.0.0.3\", \"slots\": 4}]\n");

    assert_int_equal(hosts.count, 3);
    assert_string_equal(hosts.at[0].name, "a");
    assert_int_equal(hosts.at[0].ip_count, 2);
    assert_string_equal(hosts.at[0].ips[1], "10.1.0.1");
    assert_int_equal(hosts.at[0].slots, 1);
    assert_int_equal(hosts.at[0].rdma[0].count, 0);
    assert_string_equal(hosts.at[0].rdma[1].names[0], "mlx5_0");
    assert_int_equal(hosts.at[0].rdma[2].count, 2);
    assert_int_equal(hosts.at[1].rdma[2].count, 0);
    assert_null(hosts.at[2].rdma);
    assert_int_equal(hosts.at[2].slots, 4);
    assert_string_equal(hosts.at[2].ips[0], "10.0.0.3");
    assert_null(hosts.backend);
    hosts_fini(&hosts);
}

static void mlx_dictionaries_are_read(void **state)
{
    struct hosts hosts;

    (void)state;
    parse(&hosts, "{\"backend\": \"ring\", \"envs\": [\"A=1\", \"B=x=y\"], \"hosts\": ["
                  "{\"ssh\": \"a\", \"ips\": []}, \"b\"]}");
    assert_string_equal(hosts.backend, "ring");
    assert_int_equal(hosts.env_count, 2);
    assert_string_equal(hosts.envs[1], "B=x=y");
    assert_int_equal(hosts.count, 2);
    assert_string_equal(hosts.at[1].name, "b");
    hosts_fini(&hosts);

    parse(&hosts, "{\"envs\": {\"A\": \"1\"}, \"hosts\": [{\"ssh\": \"a\"}]}");
    assert_string_equal(hosts.envs[0], "A=1");
    hosts_fini(&hosts);
}

static void plain_lines_are_read(void **state)
{
    struct hosts hosts;

    (void)state;
    parse(&hosts, "# the cluster\n\nnode1 slots=2 max_slots=8  # two cards\r\n"
                  "  me@node2:3\tip=10.0.0.2,10.1.0.2\n[fd00::7]:2\nfd00::8");
    assert_int_equal(hosts.count, 4);
    assert_string_equal(hosts.at[0].name, "node1");
    assert_int_equal(hosts.at[0].slots, 2);
    assert_int_equal(hosts.at[0].ip_count, 0);
    assert_string_equal(hosts.at[1].name, "me@node2");
    assert_int_equal(hosts.at[1].slots, 3);
    assert_string_equal(hosts.at[1].ips[1], "10.1.0.2");
    assert_string_equal(hosts.at[2].name, "fd00::7");
    assert_int_equal(hosts.at[2].slots, 2);
    assert_string_equal(hosts.at[3].ips[0], "fd00::8");
    hosts_fini(&hosts);
}

static void names_are_read(void **state)
{
    char why[HOSTS_WHY_ROOM];
    struct hosts hosts;

    (void)state;
    assert_true(hosts_parse_names(&hosts, "a,b:2,10.0.0.7:3", why));
    assert_int_equal(hosts.count, 3);
    assert_int_equal(hosts.at[1].slots, 2);
    assert_string_equal(hosts.at[2].ips[0], "10.0.0.7");
    hosts_fini(&hosts);
    assert_false(hosts_parse_names(&hosts, "a,,b", why));
    assert_false(hosts_parse_names(&hosts, "a;rm", why));
}

static void what_is_wrong_is_told(void **state)
{
    static const struct {
        const char *text, *why;
    } files[] = {
        {"", "no host"},
        {"# nothing\n", "no host"},
        {"[]", "no host"},
        {"a\nb slots=0\n", "line 2: 'slots=0'"},
        {"a slots=99999\n", "'slots=99999'"},
        {"-oProxyCommand=x\n", "no name of a host"},
        {"a@-b\n", "no name of a host"},
        {"$(x)\n", "no name of a host"},
        {"a ip=1;2\n", "no address"},
        {"a gpus=2\n", "neither slots=N"},
        {"[{\"ssh\": \"a\"}", "line 1: that is no JSON"},
        {"[{\"ssh\": \"a\"}]\nx", "line 2: that is no JSON"},
        {"[[\"10.0.0.1:5000\"]]", "as MLX_HOSTFILE does"},
        {"[{\"ips\": []}]", "hosts[0]: no \"ssh\""},
        {"[{\"ssh\": \"-x\"}]", "no name of a host"},
        {"[{\"ssh\": \"a b\"}]", "no name of a host"},
        {"[{\"ssh\": \"a\", \"ips\": \"10.0.0.1\"}]", "no list of addresses"},
        {"[{\"ssh\": \"a\", \"ips\": [7]}]", "no list of addresses"},
        {"[{\"ssh\": \"a\", \"slots\": 1.5}]", "no number of ranks"},
        {"[{\"ssh\": \"a\", \"slots\": 1e9}]", "no number of ranks"},
        {"[{\"ssh\": \"a\", \"rdma\": [null, \"x\"]}]", "one entry for each host"},
        {"[{\"ssh\": \"a\", \"rdma\": [\"x\"]}]", "to the host itself"},
        {"[{\"ssh\": \"a\", \"rdma\": [7]}]", "neither null nor names"},
        {"{\"hosts\": 7}", "neither a list of hosts"},
        {"{\"envs\": [\"1A=2\"], \"hosts\": []}", "not NAME=VALUE"},
        {"{\"envs\": [7], \"hosts\": []}", "no text"},
        {"{\"backend\": 7, \"hosts\": []}", "no name"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char why[HOSTS_WHY_ROOM] = "";
        struct hosts hosts;

        assert_false(hosts_parse(&hosts, files[i].text, strlen(files[i].text), why));
        if (strstr(why, files[i].why) == NULL)
            fail_msg("'%s' gives '%s'", files[i].text, why);
        assert_int_equal(hosts.count, 0);
    }
}

static void a_file_that_is_not_there_is_told(void **state)
{
    char why[HOSTS_WHY_ROOM];
    struct hosts hosts;

    (void)state;
    assert_false(hosts_read(&hosts, "/no/such/file", why));
    assert_string_equal(why, "the host file '/no/such/file': No such file or directory");
}

static void what_is_written_is_read_again(void **state)
{
    static const char text[] =
        "{\"backend\": \"jaccl\", \"envs\": [\"A=\\\"q\\\"\\n\"], \"hosts\": ["
        "{\"ssh\": \"a\", \"ips\": [\"10.0.0.1\", \"fe80::1%eth0\"], \"slots\": 2,"
        " \"rdma\": [null, [\"d0\", \"d1\"]]},"
        "{\"ssh\": \"b\", \"ips\": [], \"rdma\": [\"d2\", null]}]}";

    (void)state;
    for (int form = HOSTS_LIST; form <= HOSTS_PLAIN; form++) {
        struct hosts hosts, again;
        char *written = NULL;
        size_t len;
        FILE *file = open_memstream(&written, &len);

        parse(&hosts, text);
        hosts_write(file, &hosts, (enum hosts_form)form);
        assert_int_equal(fclose(file), 0);
        parse(&again, written);

        assert_int_equal(again.count, 2);
        assert_string_equal(again.at[0].name, "a");
        assert_int_equal(again.at[0].slots, 2);
        assert_string_equal(again.at[0].ips[1], "fe80::1%eth0");
        assert_int_equal(again.at[1].ip_count, 0);
        if (form != HOSTS_PLAIN)
            assert_string_equal(again.at[0].rdma[1].names[1], "d1");
        if (form == HOSTS_DICTIONARY) {
            assert_string_equal(again.backend, "jaccl");
            assert_string_equal(again.envs[0], "A=\"q\"\n");
        }
        hosts_fini(&hosts);
        hosts_fini(&again);
        free(written);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlx_lists_are_read),
        cmocka_unit_test(mlx_dictionaries_are_read),
        cmocka_unit_test(plain_lines_are_read),
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(a_file_that_is_not_there_is_told),
        cmocka_unit_test(what_is_written_is_read_again),
    };

    return cmocka_run_group_tests_name("hosts", tests, NULL, NULL);
}
