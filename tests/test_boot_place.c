/* test_boot_place.c - where a rank listens: at a place of its own, or under an advertised host. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/boot_world.h"

/* A port of a loopback address that stays free for who says SO_REUSEADDR. */
static int hold_port(const char *host, char *url, size_t url_bytes)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, host, &at.sin_addr), 1);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    snprintf(url, url_bytes, "tcp://%s:%d", host, ntohs(at.sin_port));
    return fd;
}

/* "127.0.0.9:4100" of rank 1 as everyone knows it, and as it is bound. */
static void check_place(const char *known, const char *bound)
{
    char text[TCI_ADDR_TEXT];
    struct tci_addr at;

    for (int rank = 0; rank < 2; rank++) {
        if (boot_places[rank].status != TC_OK)
            fail_msg("rank %d: %s", rank, boot_places[rank].error.text);
        assert_int_equal(
            strncmp(tci_addr_print(&boot_places[rank].result.addrs[1], text), known, strlen(known)),
            0);
    }
    tci_sock_local(boot_places[1].result.listener, &at);
    assert_int_equal(strncmp(tci_addr_print(&at, text), bound, strlen(bound)), 0);
    assert_int_equal(tci_addr_port(&at), tci_addr_port(&boot_places[0].result.addrs[1]));
}

static void form(void)
{
    int fd = boot_world_listen("127.0.0.1");

    boot_world_start(1, 2, -1);
    boot_world_start(0, 2, fd);
    boot_world_run(0, 1);
}

static void a_rank_listens_at_its_own_place(void **state)
{
    char url[64];
    int holder = hold_port("127.0.0.9", url, sizeof url);

    (void)state;
    boot_places[1].listen_url = url;

    form();

    check_place(url + strlen("tcp://"), url + strlen("tcp://"));
    close(holder);
}

static void a_place_may_be_named(void **state)
{
    char url[64], named[64];
    int holder = hold_port("127.0.0.1", url, sizeof url);

    (void)state;
    snprintf(named, sizeof named, "tcp://localhost:%s", strrchr(url, ':') + 1);
    boot_places[1].listen_url = named;

    form();

    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(boot_places[rank].status, TC_OK);
    close(holder);
}

static void a_place_of_all_addresses_is_known_by_the_one_that_was_used(void **state)
{
    char url[64], known[64];
    int holder = hold_port("0.0.0.0", url, sizeof url);

    (void)state;
    boot_places[1].listen_url = url;
    snprintf(known, sizeof known, "127.0.0.1:%s", strrchr(url, ':') + 1);

    form();

    check_place(known, "0.0.0.0:");
    close(holder);
}

static void an_advertised_host_of_this_host_is_bound(void **state)
{
    (void)state;
    boot_places[1].advertise = "127.0.0.9";

    form();

    check_place("127.0.0.9:", "127.0.0.9:");
}

/* 192.0.2.0/24 is nobody's. */
static void an_advertised_host_in_front_of_this_host_is_only_told(void **state)
{
    (void)state;
    boot_places[1].advertise = "192.0.2.1";

    form();

    check_place("192.0.2.1:", "127.0.0.1:");
}

static void an_advertised_host_may_be_of_ipv6(void **state)
{
    static const char *const texts[] = {"2001:db8::1", "[2001:db8::1]"};

    (void)state;
    for (size_t k = 0; k < TCI_LEN(texts); k++) {
        boot_places[1].advertise = texts[k];

        form();

        check_place("[2001:db8::1]:", "127.0.0.1:");
        for (int rank = 0; rank < 2; rank++)
            tci_boot_result_fini(&boot_places[rank].result);
        memset(boot_places, 0, sizeof boot_places);
    }
}

static void what_is_no_place_is_refused(void **state)
{
    static const struct {
        const char *listen_url, *advertise, *says;
    } cases[] = {
        {"tcp://127.0.0.1:0", NULL, "port 0"},
        {"single://", NULL, "listens at tcp://host:port"},
        {"4100", NULL, "no known scheme"},
        {NULL, "a b", "advertised host"},
        {NULL, "", "advertised host"},
        {NULL, "10.0.0.1:4100", "advertised host"},
        {NULL, "no.such.name.invalid", "no address"},
        {"tcp://no.such.name.invalid:4100", NULL, "no address"},
    };

    (void)state;
    assert_true(boot_world_listen("127.0.0.1") >= 0); /* nobody answers: nobody is asked */
    for (size_t k = 0; k < TCI_LEN(cases); k++) {
        boot_places[1].listen_url = cases[k].listen_url;
        boot_places[1].advertise = cases[k].advertise;

        boot_world_start(1, 2, -1);
        boot_world_run(1, 1);

        assert_int_not_equal(boot_places[1].status, TC_OK);
        if (strstr(boot_places[1].error.text, cases[k].says) == NULL)
            fail_msg("case %zu says \"%s\"", k, boot_places[1].error.text);
        memset(boot_places, 0, sizeof boot_places);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, boot_world_setup, boot_world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_rank_listens_at_its_own_place),
        TEST(a_place_may_be_named),
        TEST(a_place_of_all_addresses_is_known_by_the_one_that_was_used),
        TEST(an_advertised_host_of_this_host_is_bound),
        TEST(an_advertised_host_in_front_of_this_host_is_only_told),
        TEST(an_advertised_host_may_be_of_ipv6),
        TEST(what_is_no_place_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
