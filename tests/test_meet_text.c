/* test_meet_text.c - cards, URLs of places, answers of etcd and of process managers, as text. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "meet/card.h"
#include "meet/etcd_text.h"
#include "meet/pmi.h"
#include "meet/store.h"

static void cards_are_read_as_they_are_written(void **state)
{
    static const char *const wrong[] = {
        "",
        "tcdist1/",
        "tcdist1/00112233445566778899aabbccddeeff/1.2.3.4/2",
        "tcdist1/00112233445566778899aabbccddeeff/1.2.3.4/1/a:1",
        "tcdist1/00112233445566778899aabbccddeeff/1.2.3/2/a:1",
        "tcdist1/00112233445566778899AABBCCDDEEFF/1.2.3.4/2/a:1",
        "tcdist1/00112233445566778899aabbccddeeff/1.2.3.4/2/a b:1",
        "tcdist1/00112233445566778899aabbccddeeff/1.2.3.4/2//a:1",
        "tcdist1/00112233445566778899aabbccddeeff/1.2.3.4/2/",
        "tcdist1/00112233445566778899aabbccddeeff/1.2.3.4/10000000000000002/a:1",
        "tcdist1/00112233445566778899aabbccddeeff/10000000000000001.2.3.4/2/a:1",
        "tcdist1/00112233445566778899aabbccddeeff/1.2.3.4/2/a:1/a:2/a:3/a:4/a:5/a:6/a:7/a:8/a:9",
        "tcdist1/00112233445566778899aabbccddeeff/1.2.3.4/2/"
        "0123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567:1",
        "tcdist2/00112233445566778899aabbccddeeff/1.2.3.4/2/a:1",
    };
    struct tci_card card, again;
    char text[TCI_CARD_TEXT];

    (void)state;
    tci_card_init(&card, 77, 5);
    memcpy(card.job, "sixteen bytes...", 16);
    for (int k = 0; k < TCI_CARD_ADDRS; k++)
        assert_true(tci_card_add(&card, "[fe80::0123:4567:89ab:cdef%interface]:65535"));
    assert_false(tci_card_add(&card, "10.0.0.7:1"));
    tci_card_print(&card, text);
    assert_int_equal(strcspn(text, " ="), strlen(text));
    assert_true(tci_card_parse(text, &again));
    assert_memory_equal(card.job, again.job, sizeof(card.job));
    assert_int_equal(again.count, card.count);
    assert_string_equal(again.addrs[7], card.addrs[7]);
    assert_true(tci_card_is_own(&again, 77));
    assert_false(tci_card_is_dead(&again, 77));
    again.born++;
    assert_true(tci_card_is_dead(&again, 77));
    assert_false(tci_card_is_dead(&again, 78));
    for (size_t i = 0; i < TCI_LEN(wrong); i++)
        if (tci_card_parse(wrong[i], &again))
            fail_msg("taken: %s", wrong[i]);
}

static void urls_of_servers_are_cut(void **state)
{
    static const struct {
        const char *url, *host;
        int port;
        const char *key; /* or what the error says */
    } rows[] = {
        {"redis://h/job", "h", 6379, "job"},
        {"redis://10.0.0.7:1/a/b:c", "10.0.0.7", 1, "a/b:c"},
        {"redis://[fd00::1]:9/k", "fd00::1", 9, "k"},
        {"redis://h", NULL, 0, "there is no key"},
        {"redis://h/", NULL, 0, "there is no key"},
        {"redis://:1/k", NULL, 0, "there is no host"},
        {"redis://h:0/k", NULL, 0, "not a number in 1"},
        {"redis://h:99999/k", NULL, 0, "not a number in 1"},
        {"redis://[fd00::1/k", NULL, 0, "there is no host"},
        {"redis://u:p@h/k", NULL, 0, "not a number"},
        {"redis://h/a b", NULL, 0, "letters"},
    };

    (void)state;
    for (size_t i = 0; i < TCI_LEN(rows); i++) {
        struct tci_error error = {.pub = {.status = TC_OK}};
        struct tci_store_where where;

        if ((tci_store_parse(rows[i].url, "redis", 6379, &where, &error) == TC_OK) !=
            (rows[i].host != NULL))
            fail_msg("row %zu: %s", i, error.text);
        if (rows[i].host == NULL && strstr(error.text, rows[i].key) == NULL)
            fail_msg("row %zu: %s", i, error.text);
        if (rows[i].host == NULL)
            continue;
        assert_string_equal(where.host, rows[i].host);
        assert_int_equal(where.port, rows[i].port);
        assert_string_equal(where.key, rows[i].key);
    }
}

static void answers_of_etcd_and_of_process_managers_are_read(void **state)
{
    char text[64], coded[64];

    (void)state;
    for (size_t len = 0; len < 9; len++) {
        (void)tci_base64_encode("any bytes", len, coded);
        assert_true(tci_base64_decode(coded, text, sizeof(text)));
        assert_int_equal(strlen(text), len);
        assert_memory_equal(text, "any bytes", len);
    }
    assert_false(tci_base64_decode("a", text, sizeof(text)));
    assert_false(tci_base64_decode("a-bc", text, sizeof(text)));
    assert_false(tci_base64_decode("YWJj", text, 3));
    assert_true(tci_pmi_is("cmd=get_result rc=0 value=a=b", "get_result"));
    assert_false(tci_pmi_is("cmd=get_result rc=0", "get"));
    assert_true(tci_pmi_value("cmd=x rc=0 value=a=b", "value", text, sizeof(text)));
    assert_string_equal(text, "a=b");
    assert_false(tci_pmi_value("cmd=x xrc=0", "rc", text, sizeof(text)));
    assert_true(tci_pmi_value("cmd=x rcx=1 rc=0", "rc", text, sizeof(text)));
    assert_string_equal(text, "0");
    assert_false(tci_pmi_value("cmd=x value=abc", "value", text, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_are_read_as_they_are_written),
        cmocka_unit_test(urls_of_servers_are_cut),
        cmocka_unit_test(answers_of_etcd_and_of_process_managers_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
