/* test_rdma_settings.c - settings come to the queue pairs, and the address that goes furthest. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 60, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "rdma/link.h"
#include "support/rdma_net.h"

enum { EAGER = 65536 };

static const char *settings[2];

static struct net net;

static void open_each(struct net *opened, size_t eager_bytes)
{
    rdma_net_open_each(opened, eager_bytes, false, settings);
}

static const struct net_subject subject = {"rdma", open_each};

static void meet(const struct fake_device *device, const char *first, const char *second)
{
    settings[0] = first;
    settings[1] = second;
    net_subject = &subject;
    fake_setup(device, 1);
    net_open(&net, 2, EAGER);
    net_exchange(&net, 100, 1);
}

static void part(void)
{
    net_close(&net);
    rdma_net_check_clean();
}

/* As the device of a rank was told it. */
static const struct ibv_qp_attr *told(uint32_t rank)
{
    const struct tci_rdma *rdma = (const struct tci_rdma *)net.nodes[rank].transport;

    assert_non_null(rdma->links[1 - rank]);
    assert_non_null(rdma->links[1 - rank]->qp);
    return &((const struct fake_qp *)rdma->links[1 - rank]->qp)->attr;
}

/* ---- Settings ---- */

static void check_told(uint32_t rank, unsigned traffic_class, unsigned timeout, unsigned retries)
{
    const struct ibv_qp_attr *attr = told(rank);

    assert_int_equal(attr->ah_attr.grh.traffic_class, traffic_class);
    assert_int_equal(attr->timeout, timeout);
    assert_int_equal(attr->retry_cnt, retries);
}

/* Each rank's own. */
static void settings_reach_the_queue_pairs(void **state)
{
    static const struct fake_device card = {
        .name = "fake0", .ports = 2, .state = IBV_PORT_ACTIVE, .address = 0x0a4d0001};

    (void)state;
    meet(&card, "1,port=2,gid=1,mtu=1024,traffic_class=106,timeout=9,retries=3", "1");
    check_told(0, 106, 9, 3);
    assert_int_equal(told(0)->ah_attr.port_num, 2);
    assert_int_equal(told(0)->ah_attr.grh.sgid_index, 1);
    assert_int_equal(told(0)->path_mtu, IBV_MTU_1024);
    check_told(1, 0, 14, 7);
    assert_int_equal(told(1)->ah_attr.port_num, 1);
    assert_int_equal(told(1)->path_mtu, IBV_MTU_1024);
    part();
}

/* Its packets wait for processors, and seven retries are endless to it. */
static void a_software_device_has_more_time(void **state)
{
    static const struct fake_device soft = {.name = "soft0",
                                            .is_software = true,
                                            .ports = 1,
                                            .state = IBV_PORT_ACTIVE,
                                            .address = 0x0a4d0001};

    (void)state;
    meet(&soft, "1", "1,timeout=20,retries=7");
    check_told(0, 0, 18, 6);
    check_told(1, 0, 20, 7);
    part();
}

/* ---- Addresses ---- */

enum { V1 = IBV_GID_TYPE_ROCE_V1, V2 = IBV_GID_TYPE_ROCE_V2 };

static void the_address_that_goes_furthest_is_used(void **state)
{
    static const struct {
        struct fake_gid gids[4];
        unsigned used;
    } rows[] = {
        {{{V1, "fe80::1"}, {V2, "fe80::1"}, {V1, "::ffff:10.0.0.1"}, {V2, "::ffff:10.0.0.1"}}, 3},
        {{{V2, "fe80::1"}, {V2, "2001:db8::1"}, {V2, "::ffff:10.0.0.1"}, {V2, "2001:db8::2"}}, 2},
        {{{V2, "::ffff:10.0.0.1"}, {V2, "2001:db8::1"}, {V2, "::ffff:10.0.0.2"}, {V1, "::1"}}, 0},
        /* what no router takes on comes last, whichever kind of address it is */
        {{{V2, "::ffff:169.254.7.1"}, {V2, "fe80::1"}, {V2, "2001:db8::1"}, {V1, "fe80::1"}}, 2},
        {{{V2, "::ffff:169.254.7.1"}, {V2, "::ffff:10.0.0.1"}, {V1, "::1"}, {V1, "::2"}}, 1},
        {{{V1, "fe80::1"}, {V2, "fe80::1"}, {V2, "::ffff:169.254.7.1"}, {V1, "::1"}}, 2},
        {{{V1, "fe80::1"}, {V1, "::ffff:10.0.0.1"}, {V1, "::1"}, {V1, "::2"}}, 0},
    };

    (void)state;
    for (size_t i = 0; i < TCI_LEN(rows); i++) {
        struct fake_device card = {.name = "fake0",
                                   .ports = 1,
                                   .state = IBV_PORT_ACTIVE,
                                   .gids = rows[i].gids,
                                   .gid_count = 4};

        meet(&card, "1", "1");
        for (uint32_t r = 0; r < 2; r++)
            if (told(r)->ah_attr.grh.sgid_index != rows[i].used)
                fail_msg("row %zu: index %u is used", i, told(r)->ah_attr.grh.sgid_index);
        part();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_reach_the_queue_pairs),
        cmocka_unit_test(a_software_device_has_more_time),
        cmocka_unit_test(the_address_that_goes_furthest_is_used),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma settings", tests, NULL, NULL);
}
