/* test_rdma_mtu.c - how long packets may be: as both ports, and what lies between them, allow. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 60, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "rdma/link.h"
#include "support/rdma_net.h"

enum { EAGER = 65536, MIB = 1 << 20 };

static const struct fake_device devices[] = {
    {.name = "fake0", .ports = 1, .state = IBV_PORT_ACTIVE, .address = 0x0a4d0001},
    {.name = "fake1",
     .ports = 1,
     .state = IBV_PORT_ACTIVE,
     .address = 0x0a4d0002,
     .mtu = IBV_MTU_1024},
};
/* Of each rank. */
static const char *settings[2];
static bool is_sealed;

static struct net net;

static void open_devices(struct net *opened, size_t eager_bytes)
{
    rdma_net_open_each(opened, eager_bytes, is_sealed, settings);
}

static const struct net_subject subject = {"rdma", open_devices};

/* Small and large messages both ways. */
static void exchange(const char *first, const char *second, unsigned switch_mtu)
{
    settings[0] = first;
    settings[1] = second;
    net_subject = &subject;
    fake_setup(devices, TCI_LEN(devices));
    fake_switch(switch_mtu);
    net_open(&net, 2, EAGER);
    net_exchange(&net, 100, 1);
    net_exchange(&net, EAGER, 2);
    net_exchange(&net, 3 * MIB, 3);
    assert_int_equal(net.nodes[0].losses + net.nodes[1].losses, 0);
}

static void close_net(void)
{
    net_close(&net);
    rdma_net_check_clean();
}

/* It was RDMA, in packets of so many bytes. */
static void both_agree_on(unsigned mtu)
{
    for (uint32_t r = 0; r < 2; r++) {
        const struct tci_rdma *rdma = (const struct tci_rdma *)net.nodes[r].transport;
        const char *why;

        assert_string_equal(tci_rdma_way(net.nodes[r].transport, 1 - r, &why), "RDMA");
        assert_int_equal(rdma->links[1 - r]->mtu, mtu);
    }
    close_net();
}

static void the_smaller_port_counts(void **state)
{
    (void)state;
    exchange("1,device=fake0", "1,device=fake0", 0);
    both_agree_on(4096);
    exchange("1,device=fake0", "1,device=fake1", 0);
    both_agree_on(1024);
    exchange("1,device=fake1", "1,device=fake0", 1024);
    both_agree_on(1024);
}

static void one_rank_may_ask_for_less(void **state)
{
    (void)state;
    exchange("1,device=fake0,mtu=2048", "1,device=fake0", 2048);
    both_agree_on(2048);
    exchange("1,device=fake0", "1,device=fake1,mtu=256", 256);
    both_agree_on(256);
    exchange("1,device=fake0,mtu=4096", "1,device=fake1,mtu=4096", 1024);
    both_agree_on(1024);
}

/* Found as the two meet: the first packets of all are as long as any. */
static void a_switch_that_takes_less_means_tcp(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bool is_named = false;

        is_sealed = i == 1;
        exchange("1,device=fake0", "1,device=fake0", 4095);
        for (uint32_t r = 0; r < 2; r++) {
            const char *why;

            assert_string_equal(tci_rdma_way(net.nodes[r].transport, 1 - r, &why), "tcp");
            is_named = is_named || strstr(why, "MTU") != NULL;
        }
        assert_true(is_named);
        close_net();
    }
    is_sealed = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smaller_port_counts),
        cmocka_unit_test(one_rank_may_ask_for_less),
        cmocka_unit_test(a_switch_that_takes_less_means_tcp),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma mtu", tests, NULL, NULL);
}
