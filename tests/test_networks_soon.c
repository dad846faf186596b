/* test_networks_soon.c - how soon a rank that misses rank 0 says so, or ends; in namespaces. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, waits, long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/net_checks.h"

/* The whole of it for ranks that come together at some time, or do not, which is said after 3 s. */
#define LATE "TCDIST_START_TIMEOUT=6"

/* No such name, and no route: long before the time is up that ranks have. */
static void what_waiting_seldom_mends_ends_soon(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = STANDS_MS,
        .hosts = {{.names = "10.77.0.1 meet"}, {.names = NULL}, {.names = "10.99.0.1 meet"}},
        .ranks = 3,
        .rank = {{0, "TCDIST_START_TIMEOUT=4"}, {1, NULL}, {2, NULL}},
    };

    (void)state;
    net_run(&net);
    net_says(1, "rank 1 has not reached rank 0 at tcp://meet:29500 within 3 s (");
    net_says(1,
             "the last: meet: Name or service not known): no such name is known here: see DNS and "
             "/etc/hosts; TCDIST_START_TIMEOUT=SECONDS waits for it");
    net_says(2, "rank 2 has not reached rank 0 at tcp://meet:29500 within 3 s (");
    net_says(2,
             "the last: 10.99.0.1:29500: Network is unreachable): this host has no way there: see "
             "its interfaces and routes; TCDIST_START_TIMEOUT=SECONDS waits for it");
}

static void a_rank_0_whose_own_name_is_unknown_ends_soon(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = STANDS_MS,
        .hosts = {{.names = NULL}, {.names = NULL}},
        .ranks = 2,
        .rank = {{0, NULL}, {1, NULL}},
    };

    (void)state;
    net_run(&net);
    net_says(0, "rank 0 has found no address of its own for tcp://meet:29500 within 3 s (Name or "
                "service not known); TCDIST_START_TIMEOUT=SECONDS waits for it");
}

/* Silence, of a host or of a name server, is borne until the time is up. */
static void what_waiting_may_mend_is_said_soon(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = STANDS_MS,
        .hosts = {{.names = "10.77.0.1 meet",
                   .nft = CABLE_DROP "iifname \"eth0\" tcp dport 29500 drop;" CABLE_END},
                  {.names = "10.77.0.1 meet"},
                  {.has_name_server = true}},
        .ranks = 3,
        .rank = {{0, LATE}, {1, LATE}, {2, LATE}},
    };

    (void)state;
    net_run(&net);
    net_logged(0,
               "ranks 1, 2 of 3 have not come to tcp://meet:29500 within 3 s: start them, or check "
               "that they reach this address (tried until 6 s have passed)");
    net_logged(1,
               "rank 1 has not reached rank 0 at tcp://meet:29500 within 3 s (1 attempt, the last: "
               "10.77.0.1:29500: ");
    net_logged(
        2, "rank 2 has not reached rank 0 at tcp://meet:29500 within 3 s (0 attempts, the last: "
           "meet: the name server has not answered yet): see the name servers of this host "
           "(tried until 6 s have passed)");
    net_says(0, "have not come to tcp://meet:29500 within 6 s");
    net_says(1, "rank 1 has not reached rank 0 at tcp://meet:29500 within 6 s (");
    net_says(2, "rank 2 has not reached rank 0 at tcp://meet:29500 within 6 s (");
}

#define UP "TCDIST_RENDEZVOUS_UP=" URL

/* Where rank 0's socket was there first, as with tcrun, nobody waits for what is not behind it: who
 * is refused, and who hears nothing. */
static void a_rank_0_that_has_listened_is_not_waited_for(void **state)
{
    static const struct net_case net = {
        .url = URL,
        .timeout_ms = STANDS_MS,
        .is_from_env = true,
        .hosts = {{.nft = CABLE_DROP "ip saddr 10.77.0.2 tcp dport 29500 reject with tcp reset; "
                                     "ip saddr 10.77.0.3 tcp dport 29500 drop;" CABLE_END},
                  {.ip = NULL},
                  {.ip = NULL}},
        .ranks = 3,
        .rank = {{0, "TCDIST_START_TIMEOUT=4"}, {1, UP}, {2, UP}},
    };

    (void)state;
    net_run(&net);
    net_says(1, "rank 1 has not reached rank 0 at tcp://10.77.0.1:29500 within 3 s (");
    net_says(1,
             " attempts, the last: 10.77.0.1:29500: Connection refused): rank 0 has listened there "
             "since before: it has ended, or a firewall or another host is in between; "
             "TCDIST_START_TIMEOUT=SECONDS waits for it");
    net_says(2, "rank 2 has not reached rank 0 at tcp://10.77.0.1:29500 within 4500 ms (");
    net_says(
        2, " attempts, the last: 10.77.0.1:29500: Connection timed out): rank 0 has listened there "
           "since before");
}

/* Who reads JOIN as something else, and says so. */
static void something_else_at_the_address_ends_soon(void **state)
{
    static const struct net_case net = {
        .url = URL,
        .timeout_ms = STANDS_MS,
        .hosts = {{.busy_says = "HTTP/1.1 400 Bad Request\r\n\r\n"}},
        .ranks = 2,
        .rank = {{0, NULL}, {1, NULL}},
    };

    (void)state;
    net_run(&net);
    net_says(0,
             "rank 0 cannot meet the others at tcp://10.77.0.1:29500: listen on 10.77.0.1:29500: "
             "Address already in use");
    net_says(1, "rank 1 has not reached rank 0 at tcp://10.77.0.1:29500 within 3 s (");
    net_says(1, "10.77.0.1:29500: it does not speak as rank 0 of a group does): something else has "
                "that port: choose another");
}

/* IPv6 switched off; a link-local address with an interface that is not there. */
static void a_family_that_this_host_does_not_have_ends_soon(void **state)
{
    static const struct net_case net = {
        .url = "tcp://[fd77::1]:29500",
        .timeout_ms = STANDS_MS,
        .hosts = {{.ip = NULL}, {.has_no_ipv6 = true}},
        .ranks = 2,
        .rank = {{0, "TCDIST_START_TIMEOUT=4"}, {1, NULL}},
    };
    static const struct net_case scoped = {
        .url = "tcp://[fe80::1%25eth7]:29500",
        .timeout_ms = STANDS_MS,
        .ranks = 2,
        .rank = {{0, NULL}, {1, NULL}},
    };

    (void)state;
    net_run(&net);
    net_says(1, "rank 1 has not reached rank 0 at tcp://[fd77::1]:29500 within 3 s (");
    net_says(1, "): this host has no way there: see its interfaces and routes");
    net_run(&scoped);
    net_says(0, "eth7");
    net_says(1, "eth7");
}

/* A name that comes with its host is waited for where that is asked for. */
static void a_name_that_comes_late_is_waited_for(void **state)
{
    static const struct net_case net = {
        .url = URL_NAMED,
        .timeout_ms = STANDS_MS,
        .hosts = {{.names = "10.77.0.1 meet"}, {.names = NULL}},
        .ranks = 2,
        .rank = {{0, LATE}, {1, LATE}},
    };

    (void)state;
    net_run(&net);
    net_says(1, "rank 1 has not reached rank 0 at tcp://meet:29500 within 6 s (");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waiting_seldom_mends_ends_soon),
        cmocka_unit_test(a_rank_0_whose_own_name_is_unknown_ends_soon),
        cmocka_unit_test(what_waiting_may_mend_is_said_soon),
        cmocka_unit_test(a_rank_0_that_has_listened_is_not_waited_for),
        cmocka_unit_test(something_else_at_the_address_ends_soon),
        cmocka_unit_test(a_family_that_this_host_does_not_have_ends_soon),
        cmocka_unit_test(a_name_that_comes_late_is_waited_for),
    };
    const char *why = net_hosts_open();

    if (why != NULL) {
        print_message("skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
