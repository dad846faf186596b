/* test_networks.c - networks as they are: names, interfaces, families, firewalls; in namespaces. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, waits, long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "support/net_checks.h"

#define UNHEARD "tcp dport 29500 reject with icmp host-unreachable;"

/* ---- Names ---------------------------------------------------------------------------------- */

/* As Debian's installer leaves it: the host's own name stands for 127.0.1.1. */
static void a_name_that_is_loopback_at_home_meets_other_hosts(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = STANDS_MS,
        .hosts = {{.names = "127.0.1.1 meet"},
                  {.names = "10.77.0.1 meet"},
                  {.names = "fd77::1 meet"}},
        .ranks = 4,
        .rank = {{0, NULL}, {0, NULL}, {1, NULL}, {2, NULL}},
    };

    (void)state;
    net_stands(&net);
    assert_non_null(strstr(net_outcome.log[0], "tcp://meet:29500 is loopback here"));
}

static void the_same_without_ipv6(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = STANDS_MS,
        .hosts = {{.names = "127.0.1.1 meet", .has_no_ipv6 = true},
                  {.names = "10.77.0.1 meet", .has_no_ipv6 = true}},
        .ranks = 3,
        .rank = {{0, NULL}, {0, NULL}, {1, NULL}},
    };

    (void)state;
    net_stands(&net);
}

static void a_name_that_is_loopback_elsewhere_is_pointed_out(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = FAILS_MS,
        .hosts = {{.names = "10.77.0.1 meet"}, {.names = "127.0.1.1 meet"}},
        .ranks = 2,
        .rank = {{0, NULL}, {1, NULL}},
    };

    (void)state;
    net_run(&net);
    net_says(0, "rank 1 of 2 has not come to tcp://meet:29500 within 2 s");
    net_says(1, "rank 1 has not reached rank 0 at tcp://meet:29500 within 2 s (");
    net_says(1,
             " attempts, the last: 127.0.1.1:29500: Connection refused): that name means this host "
             "itself here: see /etc/hosts");
}

static void a_name_of_several_addresses_is_met_at_each(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = STANDS_MS,
        .hosts = {{.names = "10.77.0.1 meet\n10.78.0.1 meet"},
                  {.names = "10.78.0.1 meet", .ip = "link set eth0 down\n"}},
        .ranks = 2,
        .rank = {{0, NULL}, {1, NULL}},
    };

    (void)state;
    net_stands(&net);
}

static void a_name_that_nobody_knows_is_said(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = FAILS_MS,
        .hosts = {{.names = "10.77.0.1 meet"}},
        .ranks = 2,
        .rank = {{0, NULL}, {1, NULL}},
    };

    (void)state;
    net_run(&net);
    net_says(1, "rank 1 has not reached rank 0 at tcp://meet:29500 within 2 s (");
    net_says(1, "the last: meet: ");
}

/* ---- Interfaces ----------------------------------------------------------------------------- */

#define DOCKER                                                                                     \
    "link add docker0 type bridge\naddr add 172.17.0.1/16 dev docker0\n"                           \
    "link set docker0 up\n"

static void the_same_docker_address_on_all_hosts_disturbs_nobody(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = STANDS_MS,
        .hosts = {{.names = "127.0.1.1 meet\n172.17.0.1 meet", .ip = DOCKER},
                  {.names = "172.17.0.1 meet\n10.77.0.1 meet", .ip = DOCKER},
                  {.names = "172.17.0.1 meet\n10.77.0.1 meet", .ip = DOCKER}},
        .ranks = 3,
        .rank = {{0, NULL}, {1, NULL}, {2, NULL}},
    };

    (void)state;
    net_stands(&net);
}

/* Packets between hosts 1 and 2 have to go over eth1; 10.77.0.<x> of the other is dropped. */
#define NOT_BY_A(x) CABLE_DROP "iifname \"eth0\" ip saddr 10.77.0." #x " drop;" CABLE_END

static void ranks_are_reached_by_the_interface_that_is_chosen(void **state)
{
    static const struct net_case net = {
        .url = URL,
        .timeout_ms = STANDS_MS,
        .hosts = {{.ip = NULL}, {.nft = NOT_BY_A(3)}, {.nft = NOT_BY_A(2)}},
        .ranks = 3,
        .rank = {{0, NULL},
                 {1, "TCDIST_INTERFACE=eth1,^docker*,^lo"},
                 {2, "TCDIST_INTERFACE=^eth0,^docker*,^lo"}},
    };

    (void)state;
    net_stands(&net);
}

static void an_interface_that_is_not_there_is_said(void **state)
{
    static const struct net_case net = {
        .url = URL,
        .timeout_ms = FAILS_MS,
        .ranks = 2,
        .rank = {{0, NULL}, {1, "TCDIST_INTERFACE=ib0,ib1"}},
    };

    (void)state;
    net_run(&net);
    net_says(
        1, "rank 1 has no address on the interfaces \"ib0,ib1\"; this host has lo 127.0.0.1, eth0 "
           "10.77.0.2");
}

static void ranks_are_reached_where_they_are_advertised(void **state)
{
    static const struct net_case net = {
        .url = URL,
        .timeout_ms = STANDS_MS,
        .hosts = {{.ip = NULL}, {.nft = NOT_BY_A(3)}, {.nft = NOT_BY_A(2)}},
        .ranks = 3,
        .rank = {{0, NULL},
                 {1, "TCDIST_ADVERTISE=,10.78.0.2,10.78.0.3"},
                 {2, "TCDIST_ADVERTISE=10.78.0.3"}},
    };

    (void)state;
    net_stands(&net);
}

/* ---- Families ------------------------------------------------------------------------------- */

#define NO_IPV4(n) "addr del 10.77.0." #n "/24 dev eth0\naddr del 10.78.0." #n "/24 dev eth1\n"

static void ipv6_alone_will_do(void **state)
{
    static const struct net_case net = {
        .url = "tcp://[fd77::1]:29500",
        .timeout_ms = STANDS_MS,
        .hosts = {{.ip = NO_IPV4(1)}, {.ip = NO_IPV4(2)}, {.ip = NO_IPV4(3)}},
        .ranks = 3,
        .rank = {{0, NULL}, {1, NULL}, {2, NULL}},
    };

    (void)state;
    net_stands(&net);
}

static void ipv4_alone_will_do(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = STANDS_MS,
        .hosts = {{.names = "fd77::1 meet\n10.77.0.1 meet", .has_no_ipv6 = true},
                  {.names = "fd77::1 meet\n10.77.0.1 meet", .has_no_ipv6 = true}},
        .ranks = 3,
        .rank = {{0, NULL}, {1, NULL}, {1, NULL}},
    };

    (void)state;
    net_stands(&net);
}

static void link_local_addresses_have_the_scope_of_each_host(void **state)
{
    static const struct net_case net = {
        .url = "tcp://[fe80::1%25eth0]:29500",
        .timeout_ms = STANDS_MS,
        .hosts = {{.ip = NULL},
                  {.ip = "link set eth0 name spare\nlink set spare name eth0\n"},
                  {.ip = DOCKER}},
        .ranks = 3,
        .rank = {{0, NULL}, {1, NULL}, {2, NULL}},
    };

    (void)state;
    net_stands(&net);
}

/* ---- Ports and addresses of rank 0 ----------------------------------------------------------- */

static void a_port_that_is_in_use_is_said(void **state)
{
    static const struct net_case net = {
        .url = URL,
        .timeout_ms = FAILS_MS,
        .hosts = {{.has_busy_port = true}},
        .ranks = 2,
        .rank = {{0, NULL}, {1, NULL}},
    };

    (void)state;
    net_run(&net);
    net_says(0,
             "rank 0 cannot meet the others at tcp://10.77.0.1:29500: listen on 10.77.0.1:29500: "
             "Address already in use");
}

static void an_address_of_another_host_is_said(void **state)
{
    static const struct net_case net = {
        .url = "tcp://10.77.0.9:29500",
        .timeout_ms = FAILS_MS,
        .ranks = 2,
        .rank = {{0, NULL}, {1, NULL}},
    };

    (void)state;
    net_run(&net);
    net_says(0, "listen on 10.77.0.9:29500: Cannot assign requested address; this host has lo "
                "127.0.0.1, eth0 10.77.0.1");
    net_says(1, "rank 1 has not reached rank 0 at tcp://10.77.0.9:29500 within 2 s (");
    net_says(1, " the last: 10.77.0.9:29500: ");
}

static void a_rank_0_behind_a_firewall_is_said(void **state)
{
    static const struct net_case net = {
        .url = URL,
        .timeout_ms = FAILS_MS,
        .hosts = {{.nft = CABLE_DROP UNHEARD CABLE_END}},
        .ranks = 2,
        .rank = {{0, NULL}, {1, NULL}},
    };

    (void)state;
    net_run(&net);
    net_says(0, "rank 1 of 2 has not come to tcp://10.77.0.1:29500 within 2 s");
    net_says(1,
             "attempts, the last: 10.77.0.1:29500: No route to host): start rank 0, or check that "
             "this address leads to it");
}

/* ---- Edges that are blocked ------------------------------------------------------------------ */

/* New connections from outside are refused, or dropped; what this host has begun goes on. */
#define ONE_WAY(verdict) CABLE_DROP "iifname \"eth0\" ct state new " verdict ";" CABLE_END

static void check_detour(int rank, const char *words, bool is_there)
{
    if ((strstr(net_outcome.log[rank], words) != NULL) != is_there)
        fail_msg("rank %d: \"%s\" in the log: %s", rank, words, net_outcome.log[rank]);
}

/* Behind a router that translates one can connect, and not be connected to. */
static void who_cannot_be_connected_to_is_called_back(void **state)
{
    static const char *const rules[] = {ONE_WAY("drop"), ONE_WAY("reject with tcp reset")};

    (void)state;
    for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]); k++) {
        struct net_case net = {
            .url = URL,
            .timeout_ms = STANDS_MS,
            .ranks = 3,
            .rank = {{0, NULL}, {1, NULL}, {2, NULL}},
        };

        net.hosts[2].nft = rules[k];
        net_stands(&net);
        for (int r = 0; r < 3; r++)
            check_detour(r, "through rank 0", false);
    }
}

static void ranks_that_cannot_connect_go_through_rank_0(void **state)
{
    static const struct {
        const char *rule, *env, *why;
    } rows[] = {
        {CABLE_DROP "ip saddr 10.77.0.3 drop;" CABLE_END, NULL, "(no answer, 1 attempt)"},
        {CABLE_DROP "ip saddr 10.77.0.3 tcp flags syn reject with tcp reset;" CABLE_END, NULL,
         NULL},
        {CABLE_DROP "ip saddr 10.77.0.3 drop;" CABLE_END,
         "TCDIST_KEY=0123456789abcdef TCDIST_ENCRYPTION=on", NULL},
    };

    (void)state;
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        struct net_case net = {
            .url = URL,
            .timeout_ms = STANDS_MS,
            .ranks = 3,
            .rank = {{0, rows[k].env}, {1, rows[k].env}, {2, rows[k].env}},
        };

        net.hosts[1].nft = rows[k].rule;
        net_stands(&net);
        check_detour(0, "carries what ranks ", true);
        if (strstr(net_outcome.log[1],
                   "rank 1: rank 2 is reached through rank 0, since a connection to "
                   "it at 10.77.0.3:") == NULL)
            check_detour(2,
                         "rank 2: rank 1 is reached through rank 0, since a connection to it at "
                         "10.77.0.2:",
                         true);
        if (rows[k].why != NULL && strstr(net_outcome.log[1], rows[k].why) == NULL)
            check_detour(2, rows[k].why, true);
    }
}

/* Rank 0 carries while it is there; then the lowest of the others that both stand with does, of
 * what they have begun and of what they have not. */
static void ranks_that_cannot_connect_go_through_another_than_rank_0(void **state)
{
    static const char *const envs[] = {NULL, "TCDIST_KEY=0123456789abcdef TCDIST_ENCRYPTION=on",
                                       "TCDIST_TUNE=off"};

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct net_case net = {
            .url = URL,
            .timeout_ms = STANDS_MS,
            .loses_root = true,
            .is_late = k == 2,
            .hosts = {{.ip = NULL},
                      {.nft = CABLE_DROP "ip saddr 10.77.0.3 drop;" CABLE_END},
                      {.ip = NULL}},
            .ranks = 4,
            .rank = {{0, envs[k]}, {0, envs[k]}, {1, envs[k]}, {2, envs[k]}},
        };

        net_stands(&net);
        net_logged(1, "rank 1: carries what ranks ");
        if (!net.is_late)
            net_logged(0, "rank 0: carries what ranks ");
    }
}

/* 172.17.0.1 is each host itself: whoever answers there is not the rank. */
static void an_address_that_only_looks_right_is_gone_around(void **state)
{
    static const struct net_case net = {
        .url = URL,
        .timeout_ms = STANDS_MS,
        .hosts = {{.ip = DOCKER}, {.ip = DOCKER}, {.ip = DOCKER}},
        .ranks = 4,
        .rank = {{0, NULL},
                 {1, "TCDIST_ADVERTISE=172.17.0.1"},
                 {2, "TCDIST_ADVERTISE=172.17.0.1"},
                 {2, "TCDIST_INTERFACE=docker0"}},
    };

    (void)state;
    net_stands(&net);
    check_detour(0, "carries what ranks ", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_is_loopback_at_home_meets_other_hosts),
        cmocka_unit_test(the_same_without_ipv6),
        cmocka_unit_test(a_name_that_is_loopback_elsewhere_is_pointed_out),
        cmocka_unit_test(a_name_of_several_addresses_is_met_at_each),
        cmocka_unit_test(a_name_that_nobody_knows_is_said),
        cmocka_unit_test(the_same_docker_address_on_all_hosts_disturbs_nobody),
        cmocka_unit_test(ranks_are_reached_by_the_interface_that_is_chosen),
        cmocka_unit_test(an_interface_that_is_not_there_is_said),
        cmocka_unit_test(ranks_are_reached_where_they_are_advertised),
        cmocka_unit_test(ipv6_alone_will_do),
        cmocka_unit_test(ipv4_alone_will_do),
        cmocka_unit_test(link_local_addresses_have_the_scope_of_each_host),
        cmocka_unit_test(a_port_that_is_in_use_is_said),
        cmocka_unit_test(an_address_of_another_host_is_said),
        cmocka_unit_test(a_rank_0_behind_a_firewall_is_said),
        cmocka_unit_test(who_cannot_be_connected_to_is_called_back),
        cmocka_unit_test(ranks_that_cannot_connect_go_through_rank_0),
        cmocka_unit_test(ranks_that_cannot_connect_go_through_another_than_rank_0),
        cmocka_unit_test(an_address_that_only_looks_right_is_gone_around),
    };
    const char *why = net_hosts_open();

    if (why != NULL) {
        print_message("skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
