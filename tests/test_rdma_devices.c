/* test_rdma_devices.c - RDMA devices are listed with what they lack, and one of them is chosen. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 60, needs libibverbs, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "fake_verbs/fake.h"
#include "rdma/device.h"

static const struct fake_device some[] = {
    {.name = "soft0",
     .is_software = true,
     .ports = 1,
     .state = IBV_PORT_ACTIVE,
     .address = 1 << 24},
    {.name = "card0", .ports = 2, .state = IBV_PORT_DOWN, .address = 0x0a4d0001},
    {.name = "card1", .ports = 1, .state = IBV_PORT_ACTIVE},
    {.name = "card2", .ports = 1, .state = IBV_PORT_ACTIVE, .address = 0x0a4d0003},
};

static int put_fake(void **state)
{
    (void)state;
    tci_verbs_put(&fake_verbs);
    fake_setup(some, TCI_LEN(some));
    return 0;
}

static int take_away(void **state)
{
    struct fake_counts counts = fake_counts();

    (void)state;
    tci_verbs_put(NULL);
    assert_int_equal(counts.contexts, 0);
    assert_int_equal(counts.mistakes, 0);
    return 0;
}

static struct tci_rdma_options options_of(const char *text)
{
    struct tci_rdma_options options;

    assert_true(tci_rdma_options_parse(text, &options));
    return options;
}

static void ports_are_listed_with_what_they_lack(void **state)
{
    struct tci_rdma_options options = options_of("auto");
    struct tci_rdma_port_info *ports;
    size_t count;

    (void)state;
    assert_null(tci_rdma_list(&options, &ports, &count));
    assert_int_equal(count, 5);
    assert_string_equal(ports[0].device, "soft0");
    assert_non_null(strstr(ports[0].lacks, "TCDIST_RDMA=1"));
    assert_string_equal(ports[0].address, "1.0.0.0");
    assert_string_equal(ports[2].device, "card0");
    assert_int_equal(ports[2].port, 2);
    assert_non_null(strstr(ports[2].lacks, "its port is down"));
    assert_non_null(strstr(ports[3].lacks, "no GID"));
    assert_true(ports[4].is_usable && ports[4].is_chosen);
    assert_string_equal(ports[4].lacks, "");
    assert_string_equal(ports[4].gid_kind, "RoCE v2");
    assert_string_equal(ports[4].address, "10.77.0.3");
    assert_int_equal(ports[4].gid_index, 1);
    assert_int_equal(ports[4].mtu, 4096);
    assert_string_equal(ports[4].layer, "ethernet");
    tci_free(ports);
}

static void kinds_of_queue_pairs_are_listed(void **state)
{
    static const struct {
        const char *text, *transport;
        bool is_uc_only;
    } cases[] = {
        {"1", "RC", false},
        {"1,service=uc", "UC", false},
        {"1", "UC", true},
    };
    struct tci_rdma_options any = options_of("1");
    struct tci_rdma_port_info *ports;
    size_t count;

    (void)state;
    for (size_t i = 0; i < TCI_LEN(cases); i++) {
        struct tci_rdma_options options = options_of(cases[i].text);

        if (cases[i].is_uc_only)
            fake_setup_uc();
        else
            fake_setup_usual();
        assert_null(tci_rdma_list(&options, &ports, &count));
        assert_int_equal(count, 1);
        assert_int_equal(ports[0].has_rc, !cases[i].is_uc_only);
        assert_true(ports[0].has_uc && ports[0].is_chosen);
        assert_string_equal(ports[0].transport, cases[i].transport);
        tci_free(ports);
    }
    fake_refuse(true, false);
    assert_null(tci_rdma_list(&any, &ports, &count));
    assert_false(ports[0].has_rc || ports[0].has_uc || ports[0].is_usable);
    assert_non_null(strstr(ports[0].lacks, "no queue pair"));
    tci_free(ports);
}

static void what_is_asked_for_is_chosen(void **state)
{
    static const struct {
        const char *text, *device, *why;
        int gid;
    } cases[] = {
        {"auto", "card2", NULL, 1},
        {"1", "soft0", NULL, 1},
        {"auto,device=soft0", "soft0", NULL, 1},
        {"1,device=card2,gid=0", "card2", NULL, 0},
        {"1,device=card2,gid=3", NULL, "port 1: it has no GID 3", 0},
        {"1,device=card0,port=2", NULL, "device card0, port 2: its port is down", 0},
        {"1,device=card9", NULL, "TCDIST_RDMA (card9); the devices here are soft0, card0, card1, ",
         0},
        {"1,port=7", NULL, "TCDIST_RDMA (port 7); the devices here are soft0, card0, ", 0},
        {"1,device=card9,port=7", NULL, "TCDIST_RDMA (card9, port 7); the devices here", 0},
        {"0", NULL, "switched off", 0},
    };

    (void)state;
    for (size_t i = 0; i < TCI_LEN(cases); i++) {
        struct tci_rdma_options options = options_of(cases[i].text);
        struct tci_rdma_choice choice;
        char why[300];
        bool is_chosen = tci_rdma_choose(&options, &choice, why, sizeof(why));
        char why_not[300];

        assert_int_equal(is_chosen, cases[i].device != NULL);
        assert_int_equal(tci_rdma_can(&options, why_not, sizeof(why_not)), is_chosen);
        if (!is_chosen) {
            assert_non_null(strstr(why, cases[i].why));
            assert_string_equal(why, why_not);
            continue;
        }
        assert_string_equal(choice.info.device, cases[i].device);
        assert_int_equal(choice.gid.gid_index, cases[i].gid);
        fake_verbs.close_device(choice.context);
    }
}

static void a_machine_without_devices_says_so(void **state)
{
    struct tci_rdma_options options = options_of(NULL);
    static const struct fake_device closed = {.name = "card0", .ports = 1, .opens_not = true};
    struct tci_rdma_port_info *ports;
    struct tci_rdma_choice choice;
    size_t count;
    char why[300];

    (void)state;
    fake_setup(NULL, 0);
    assert_string_equal(tci_rdma_list(&options, &ports, &count), "there is no RDMA device here");
    assert_int_equal(count, 0);
    assert_false(tci_rdma_choose(&options, &choice, why, sizeof(why)));
    assert_string_equal(why, "there is no RDMA device here");
    fake_setup(&closed, 1);
    assert_null(tci_rdma_list(&options, &ports, &count));
    assert_int_equal(count, 1);
    assert_non_null(strstr(ports[0].lacks, "cannot be opened"));
    assert_non_null(strstr(ports[0].lacks, "/dev/infiniband"));
    tci_free(ports);
}

static void memory_may_fail_while_listing(void **state)
{
    struct tci_rdma_options options = options_of("1");
    struct tci_rdma_port_info *ports;
    size_t count;

    (void)state;
    tci_alloc_fail_at(2, 0);
    assert_non_null(strstr(tci_rdma_list(&options, &ports, &count), "memory"));
    tci_alloc_fail_at(0, 0);
    assert_null(ports);
}

static void the_real_library_answers(void **state)
{
    struct tci_rdma_options options = options_of("1");
    struct tci_rdma_port_info *ports;
    const char *why;
    size_t count;

    (void)state;
    tci_verbs_put(NULL);
    why = tci_rdma_list(&options, &ports, &count);
    assert_int_equal(why == NULL, count > 0);
    tci_free(ports);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ports_are_listed_with_what_they_lack, put_fake, take_away),
        cmocka_unit_test_setup_teardown(kinds_of_queue_pairs_are_listed, put_fake, take_away),
        cmocka_unit_test_setup_teardown(what_is_asked_for_is_chosen, put_fake, take_away),
        cmocka_unit_test_setup_teardown(a_machine_without_devices_says_so, put_fake, take_away),
        cmocka_unit_test_setup_teardown(memory_may_fail_while_listing, put_fake, take_away),
        cmocka_unit_test(the_real_library_answers),
    };

    return cmocka_run_group_tests_name("rdma devices", tests, NULL, NULL);
}
