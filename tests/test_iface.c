/* test_iface.c - which interfaces a choice leaves, and in what order. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/base.h"
#include "net/iface.h"

static void a_choice_ranks_and_leaves_out(void **state)
{
    static const struct {
        const char *choice, *name;
        int rank; /* -1: out; 0, 1: by the order of names; 2: any place */
    } rows[] = {
        {NULL, "eth0", 2},
        {NULL, "lo", -1},
        {"", "lo", -1},
        {"eth0", "eth0", 0},
        {"eth0", "eth1", -1},
        {"eth0", "eth", -1},
        {"ib0,eth0", "eth0", 1},
        {"ib0,eth0", "ib0", 0},
        {"eth*", "eth12", 0},
        {"eth*", "veth1", -1},
        {"*", "lo", 0},
        {"*0", "enp3s0", 0},
        {"e*p*s*", "enp3s0f1", 0},
        {"e*p*x*", "enp3s0f1", -1},
        {"^docker*", "docker0", -1},
        {"^docker*", "eth0", 2},
        {"^docker*", "lo", 2},
        {"eth0,^docker*,^lo", "eth0", 0},
        {"eth0,^docker*,^lo", "eth1", -1},
        {"eth*,^eth1", "eth1", -1},
        {"^eth1,eth*", "eth1", -1},
        {"**", "x", 0},
        {"a*a", "a", -1},
        {"a*a", "aa", 0},
    };

    (void)state;
    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        int rank = tci_iface_rank(rows[k].choice, rows[k].name);

        if (rows[k].rank == 2 ? rank < 0 : rank != rows[k].rank)
            fail_msg("%s of \"%s\": %d", rows[k].name, rows[k].choice, rank);
    }
}

static void what_is_no_choice_is_told_from_one(void **state)
{
    static const char *const good[] = {"eth0", "eth0,^docker*,^lo", "*", "^*", "br-0a1b2c,wlan0.5"};
    static const char *const bad[] = {
        "",    ",",      "eth0,",   "^",    "eth0,^", "eth0 ,lo",
        "a/b", "eth0\n", "eth\x7f", "^^lo", "eth^0",  "a name that is too long for one",
    };
    char long_one[TCI_IFACE_CHOICE_MAX + 8];

    (void)state;
    for (size_t k = 0; k < TCI_LEN(good); k++)
        assert_true(tci_iface_is_choice(good[k]));
    for (size_t k = 0; k < TCI_LEN(bad); k++)
        if (tci_iface_is_choice(bad[k]))
            fail_msg("\"%s\" is taken", bad[k]);
    for (size_t k = 0; k < sizeof(long_one); k++)
        long_one[k] = k % 2 == 0 ? 'a' : ',';
    long_one[sizeof(long_one) - 1] = '\0';
    assert_false(tci_iface_is_choice(long_one));
    long_one[TCI_IFACE_CHOICE_MAX + 1] = '\0';
    long_one[TCI_IFACE_CHOICE_MAX] = long_one[TCI_IFACE_CHOICE_MAX - 1] = 'a';
    assert_false(tci_iface_is_choice(long_one));
    long_one[TCI_IFACE_CHOICE_MAX] = '\0';
    assert_true(tci_iface_is_choice(long_one));
}

static void loopback_is_found_and_left_out(void **state)
{
    struct tci_iface list[32];
    struct tci_addr home;
    char text[200];

    (void)state;
    assert_true(tci_addr_from_text("127.0.0.1", 4100, &home));
    assert_true(tci_iface_has("*", &home));
    assert_false(tci_iface_has("^lo", &home));
    assert_false(tci_iface_has(NULL, &home));
    assert_int_equal(tci_iface_list("lo", list, 1), 1);
    assert_string_equal(list[0].name, "lo");
    assert_int_equal(tci_iface_list("*", list, 0), 0);
    assert_non_null(strstr(tci_iface_print("lo", text, sizeof(text)), "lo 127.0.0.1"));
    assert_string_equal(tci_iface_print("no_such", text, sizeof(text)), "none");
    assert_string_equal(tci_iface_print("lo", text, 5), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_choice_ranks_and_leaves_out),
        cmocka_unit_test(what_is_no_choice_is_told_from_one),
        cmocka_unit_test(loopback_is_found_and_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
