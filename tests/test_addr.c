/* test_addr.c - URLs and addresses: read, refused, printed, compared, put on the wire. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "core/base.h"
#include "net/addr.h"

static struct tci_addr literal(const char *host, uint16_t port)
{
    struct tci_addr addr;

    assert_true(tci_addr_from_text(host, port, &addr));
    return addr;
}

static void urls_are_cut_in_their_parts(void **state)
{
    static const struct {
        const char *text;
        enum tci_scheme scheme;
        const char *host;
        uint16_t port;
    } rows[] = {
        {"tcp://10.0.0.7:4100", TCI_SCHEME_TCP, "10.0.0.7", 4100},
        {"gloo+tcp://node-3.cluster_a.local:1", TCI_SCHEME_TCP, "node-3.cluster_a.local", 1},
        {"tcp://localhost:65535", TCI_SCHEME_TCP, "localhost", 65535},
        {"tcp://[::1]:29500", TCI_SCHEME_TCP, "::1", 29500},
        {"tcp://[fe80::1%eth0]:4100", TCI_SCHEME_TCP, "fe80::1%eth0", 4100},
        {"tcp://[fe80::1%25eth0]:4100", TCI_SCHEME_TCP, "fe80::1%eth0", 4100},
        {"tcp://[fe80::1%2525ee]:4100", TCI_SCHEME_TCP, "fe80::1%25ee", 4100},
        {"tcp://[fe80::1%25]:4100", TCI_SCHEME_TCP, "fe80::1%25", 4100},
        {"tcp://[::ffff:10.0.0.7]:04100", TCI_SCHEME_TCP, "::ffff:10.0.0.7", 4100},
        {"rdma://10.0.0.7:4100", TCI_SCHEME_TCP, "10.0.0.7", 4100},
        {"rdma://[fe80::1%eth0]:4100", TCI_SCHEME_TCP, "fe80::1%eth0", 4100},
        {"tb5://192.0.2.0/cluster", TCI_SCHEME_TCP, "192.0.2.0", 27760},
        {"tb5://[fe80::1%25bridge0]/lab-2", TCI_SCHEME_TCP, "fe80::1%bridge0", 27232},
        {"single://", TCI_SCHEME_SINGLE, "", 0},
        {"single://whatever: [", TCI_SCHEME_SINGLE, "", 0},
    };

    (void)state;
    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        struct tci_error error = {.text = ""};
        struct tci_url url;

        assert_int_equal(tci_url_parse(rows[k].text, &url, &error), TC_OK);
        assert_int_equal(url.scheme, rows[k].scheme);
        assert_string_equal(url.host, rows[k].host);
        assert_int_equal(url.port, rows[k].port);
        assert_int_equal(url.wants_rdma, rows[k].text[0] == 'r');
        assert_int_equal(url.cluster[0] != '\0', strncmp(rows[k].text, "tb5:", 4) == 0);
    }
}

static void bad_urls_are_refused_with_what_is_wrong(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"", "no known scheme; there are tcp://, rdma://, tb5://, gloo+tcp://, file://, redis://, "
             "etcd://, etcds://, pmi://, pmix://, env://, fd:// and single://"},
        {"rdma://", "there is no host"},
        {"rdma://10.0.0.7", "the port is missing"},
        {"tb5://10.0.0.7", "the name of the cluster is missing"},
        {"tb5://10.0.0.7/", "the name of the cluster is missing"},
        {"tb5:///lab", "there is no host"},
        {"tb5://10.0.0.7:80/lab", "the cluster has a name, and no port"},
        {"tb5://10.0.0.7/a lab", "the name of a cluster is 1 to 63 letters"},
        {"tb5://[fe80::1%eth0/lab", "the bracket after the IPv6 address is missing"},
        {"tcp:", "no known scheme"},
        {"udp://10.0.0.7:4100", "no known scheme"},
        {"TCP://10.0.0.7:4100", "no known scheme"},
        {"tcp://", "there is no host"},
        {"tcp://:4100", "there is no host"},
        {"tcp://10.0.0.7", "the port is missing"},
        {"tcp://10.0.0.7:", "there is no port after the colon"},
        {"tcp://10.0.0.7:0", "port 0 cannot be reached"},
        {"tcp://10.0.0.7:65536", "the port 65536 is beyond 65535"},
        {"tcp://10.0.0.7:4294967297", "the port 4294967297 is beyond 65535"},
        {"tcp://10.0.0.7:-1", "the port \"-1\" is not a number"},
        {"tcp://10.0.0.7: 1", "the port \" 1\" is not a number"},
        {"tcp://10.0.0.7:http", "the port \"http\" is not a number"},
        {"tcp://10.0.0.7:4100/", "\"/\" follows the port"},
        {"tcp://10.0.0.7:4100x", "\"x\" follows the port"},
        {"tcp://10.0.0.256:4100", "\"10.0.0.256\" is not an IPv4 address"},
        {"tcp://10.7:4100", "\"10.7\" is not an IPv4 address"},
        {"tcp://::1:4100", "an IPv6 address stands in brackets"},
        {"tcp://fe80::1", "an IPv6 address stands in brackets"},
        {"tcp://[::1:4100", "the bracket after the IPv6 address is missing"},
        {"tcp://[]:4100", "there is no address between the brackets"},
        {"tcp://[::1]", "the port is missing"},
        {"tcp://[::1]4100", "the port is missing"},
        {"tcp://[::1]:", "there is no port after the colon"},
        {"tcp://[10.0.0.7]:4100", "\"10.0.0.7\" is not an IPv6 address"},
        {"tcp://[fe80::1%]:4100", "there is no interface after the % sign"},
        {"tcp://[fe80::1%a/b]:4100", "\"a/b\" is not the name of an interface"},
        {"tcp://user@host:4100", "'@' cannot be part of a host name"},
        {"tcp://a b:4100", "' ' cannot be part of a host name"},
    };

    (void)state;
    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        struct tci_error error = {.text = ""};
        struct tci_url url;

        assert_int_equal(tci_url_parse(rows[k].text, &url, &error), TC_ERR_INVALID_ARG);
        assert_non_null(error.pub.message);
        if (strstr(error.pub.message, rows[k].says) == NULL)
            fail_msg("%s: \"%s\"", rows[k].text, error.pub.message);
        assert_non_null(strstr(error.pub.message, rows[k].text));
    }
}

static void long_urls_are_refused_without_harm(void **state)
{
    char text[2048];
    struct tci_error error;
    struct tci_url url;

    (void)state;
    for (size_t len = 200; len < sizeof text - 32; len += 7) {
        char *at = text + sprintf(text, "tcp://");

        memset(at, 'a', len);
        (void)strcpy(at + len, ":4100");
        error = (struct tci_error){.text = ""};
        assert_int_equal(tci_url_parse(text, &url, &error),
                         len < sizeof url.host ? TC_OK : TC_ERR_INVALID_ARG);

        at[0] = '[';
        error = (struct tci_error){.text = ""};
        assert_int_equal(tci_url_parse(text, &url, &error), TC_ERR_INVALID_ARG);
        (void)strcpy(at + len, "]:1");
        error = (struct tci_error){.text = ""};
        assert_int_equal(tci_url_parse(text, &url, &error), TC_ERR_INVALID_ARG);
    }
}

static void addresses_are_printed_as_they_are_written(void **state)
{
    struct tci_addr none = {.len = 0};
    struct tci_addr addr;
    char text[TCI_ADDR_TEXT];

    (void)state;
    addr = literal("10.0.0.7", 4100);
    assert_string_equal(tci_addr_print(&addr, text), "10.0.0.7:4100");
    addr = literal("::1", 65535);
    assert_string_equal(tci_addr_print(&addr, text), "[::1]:65535");
    addr = literal("fe80::1%lo", 1);
    assert_string_equal(tci_addr_print(&addr, text), "[fe80::1%lo]:1");
    addr = literal("fe80::1%999999", 1);
    assert_string_equal(tci_addr_print(&addr, text), "[fe80::1%999999]:1");
    addr = literal("::ffff:10.0.0.7", 4100);
    assert_string_equal(tci_addr_print(&addr, text), "10.0.0.7:4100");
    assert_string_equal(tci_addr_print(&none, text), "(no address)");

    assert_false(tci_addr_from_text("localhost", 1, &addr));
    assert_false(tci_addr_from_text("", 1, &addr));
    assert_false(tci_addr_from_text("10.0.0.7%lo", 1, &addr));
    assert_false(tci_addr_from_text("fe80::1%nonesuch", 1, &addr));
}

/* Its scope may begin as the percent sign of URLs does. */
static void what_is_printed_is_read_as_it_stands(void **state)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
    } rows[] = {
        {"10.0.0.7:4100", "10.0.0.7", 4100},
        {"[::1]:29500", "::1", 29500},
        {"[fe80::1%eth0]:4100", "fe80::1%eth0", 4100},
        {"[fe80::1%25ee]:4100", "fe80::1%25ee", 4100},
        {"[fe80::1%251]:4100", "fe80::1%251", 4100},
        {"node-3.local:1", "node-3.local", 1},
    };
    struct tci_url url;

    (void)state;
    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        assert_true(tci_url_from_print(rows[k].text, &url));
        assert_int_equal(url.scheme, TCI_SCHEME_TCP);
        assert_string_equal(url.host, rows[k].host);
        assert_int_equal(url.port, rows[k].port);
    }
    assert_false(tci_url_from_print("10.0.0.7", &url));
    assert_false(tci_url_from_print("[fe80::1%eth0:4100", &url));
    assert_false(tci_url_from_print("(no address)", &url));
}

static void addresses_are_compared_by_all_their_parts(void **state)
{
    static const char *const hosts[] = {"10.0.0.7", "10.0.0.8", "::1", "fe80::1%1", "fe80::1%2"};
    struct tci_addr none = {.len = 0};

    (void)state;
    for (size_t k = 0; k < TCI_LEN(hosts); k++) {
        struct tci_addr a = literal(hosts[k], 7);
        struct tci_addr other_port = literal(hosts[k], 8);

        assert_false(tci_addr_is_equal(&a, &other_port));
        assert_true(tci_addr_is_same_host(&a, &other_port));
        assert_false(tci_addr_is_equal(&a, &none));
        assert_false(tci_addr_is_equal(&none, &a));
        for (size_t j = 0; j < TCI_LEN(hosts); j++) {
            struct tci_addr b = literal(hosts[j], 7);

            assert_int_equal(tci_addr_is_equal(&a, &b), k == j);
            assert_int_equal(tci_addr_is_same_host(&a, &b), k == j);
        }
    }
    assert_true(tci_addr_is_equal(&none, &none));
}

static void loopback_is_known(void **state)
{
    struct tci_addr four = literal("127.0.0.1", 1), far = literal("127.8.9.10", 1);
    struct tci_addr six = literal("::1", 1), out = literal("10.0.0.7", 1), none = {.len = 0};

    (void)state;
    assert_true(tci_addr_is_loopback(&four));
    assert_true(tci_addr_is_loopback(&far));
    assert_true(tci_addr_is_loopback(&six));
    assert_false(tci_addr_is_loopback(&out));
    assert_false(tci_addr_is_loopback(&none));
    assert_true(tci_addr_is_same_host(&four, &far));
    assert_false(tci_addr_is_same_host(&four, &out));
}

static void a_scope_is_replaced_by_that_of_the_receiver(void **state)
{
    struct tci_addr theirs = literal("fe80::7%5", 1), mine = literal("fe80::9%2", 1);
    struct tci_addr want = literal("fe80::7%2", 1), wide = literal("2001:db8::1", 1);
    struct tci_addr same = wide;

    (void)state;
    tci_addr_adopt_scope(&theirs, &mine);
    assert_true(tci_addr_is_equal(&theirs, &want));
    tci_addr_adopt_scope(&wide, &mine);
    assert_true(tci_addr_is_equal(&wide, &same));
}

static void the_wire_gives_back_what_it_was_given(void **state)
{
    static const char *const hosts[] = {"10.0.0.7", "::1", "fe80::1%2", "2001:db8::7"};
    struct tci_addr none = {.len = 0}, back;
    uint8_t wire[TCI_ADDR_WIRE];

    (void)state;
    for (size_t k = 0; k < TCI_LEN(hosts); k++) {
        struct tci_addr addr = literal(hosts[k], 4100);

        tci_addr_encode(&addr, wire);
        assert_int_equal(tci_addr_decode(wire, &back), TC_OK);
        assert_true(tci_addr_is_equal(&addr, &back));
    }
    tci_addr_encode(&none, wire);
    assert_int_equal(tci_addr_decode(wire, &back), TC_OK);
    assert_int_equal(back.len, 0);
}

static void bytes_that_encode_never_writes_are_refused(void **state)
{
    struct tci_addr addr = literal("10.0.0.7", 4100), back = {.len = 77};
    uint8_t wire[TCI_ADDR_WIRE];

    (void)state;
    for (unsigned family = 0; family < 256; family++) {
        tci_addr_encode(&addr, wire);
        wire[0] = (uint8_t)family;
        if (family != 4 && family != 6)
            assert_int_equal(tci_addr_decode(wire, &back), TC_ERR_TRANSPORT);
    }
    for (size_t at = 8; at < TCI_ADDR_WIRE; at++) {
        tci_addr_encode(&addr, wire);
        wire[at] = 1;
        assert_int_equal(tci_addr_decode(wire, &back), TC_ERR_TRANSPORT);
    }
    assert_int_equal(back.len, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_cut_in_their_parts),
        cmocka_unit_test(bad_urls_are_refused_with_what_is_wrong),
        cmocka_unit_test(long_urls_are_refused_without_harm),
        cmocka_unit_test(addresses_are_printed_as_they_are_written),
        cmocka_unit_test(what_is_printed_is_read_as_it_stands),
        cmocka_unit_test(addresses_are_compared_by_all_their_parts),
        cmocka_unit_test(loopback_is_known),
        cmocka_unit_test(a_scope_is_replaced_by_that_of_the_receiver),
        cmocka_unit_test(the_wire_gives_back_what_it_was_given),
        cmocka_unit_test(bytes_that_encode_never_writes_are_refused),
    };

    return cmocka_run_group_tests_name("addr", tests, NULL, NULL);
}
