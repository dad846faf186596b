/* rdma_net.c - transports over RDMA on fake devices, over TCP, for test nets. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "fake_verbs/fake.h"
#include "rdma/link.h"
#include "rdma/rdma.h"
#include "support/rdma_net.h"
#include "support/tcp_net.h"

void rdma_net_open_each(struct net *net, size_t eager_bytes, bool is_sealed,
                        const char *const settings[])
{
    if (is_sealed)
        tcp_net_open_sealed(net, eager_bytes);
    else
        tcp_net_open(net, eager_bytes);
    for (uint32_t i = 0; i < net->size; i++) {
        struct tci_rdma_config config = {
            .rank = i, .size = net->size, .eager_bytes = eager_bytes, .encrypts = is_sealed};

        assert_true(tci_rdma_options_parse(settings[i], &config.options));
        net->nodes[i].transport =
            tci_rdma_open(net->loop, &net->context, net->nodes[i].transport, &config);
        assert_true(tci_rdma_is(net->nodes[i].transport));
    }
}

static void open_alike(struct net *net, size_t eager_bytes, bool is_sealed, const char *settings)
{
    const char *each[NET_SIZE_MAX];

    for (uint32_t i = 0; i < NET_SIZE_MAX; i++)
        each[i] = settings;
    rdma_net_open_each(net, eager_bytes, is_sealed, each);
}

void rdma_net_setup_cables(void)
{
    static const struct fake_device devices[RDMA_NET_CABLES] = {
        {.name = "fake0", .ports = 1, .state = IBV_PORT_ACTIVE, .address = 0x0a4d0001},
        {.name = "fake1", .ports = 1, .state = IBV_PORT_ACTIVE, .address = 0x0a4d0002},
        {.name = "fake2", .ports = 1, .state = IBV_PORT_ACTIVE, .address = 0x0a4d0003},
        {.name = "fake3", .ports = 1, .state = IBV_PORT_ACTIVE, .address = 0x0a4d0004},
    };

    fake_setup(devices, RDMA_NET_CABLES);
}

struct tci_rdma *rdma_net_cable(const struct net *net, uint32_t rank, int cable)
{
    return tci_rdma_cable(tci_rdma_of(net->nodes[rank].transport), rank == 0 ? 1 : 0, cable);
}

/* Ranks have them in different orders. */
static void open_cables(struct net *net, size_t eager_bytes, int count, bool encrypts,
                        const char *settings)
{
    for (uint32_t i = 0; i < net->size; i++)
        for (int k = 0; k < count; k++) {
            int8_t cable_to[NET_SIZE_MAX], cable = (int8_t)(i % 2 == 0 ? k : count - 1 - k);
            struct tci_rdma_config config = {.rank = i,
                                             .size = net->size,
                                             .eager_bytes = eager_bytes,
                                             .encrypts = encrypts,
                                             .cable_to = cable_to};
            struct net_node *node = &net->nodes[i];

            memset(cable_to, cable, sizeof(cable_to));
            config.sibling = k > 0 ? node->transport : NULL;
            assert_true(tci_rdma_options_parse(settings, &config.options));
            snprintf(config.options.device, sizeof(config.options.device), "fake%d", cable);
            node->transport = tci_rdma_open(net->loop, &net->context, node->transport, &config);
            assert_true(tci_rdma_is(node->transport));
        }
}

void rdma_net_open_cables(struct net *net, size_t eager_bytes)
{
    tcp_net_open(net, eager_bytes);
    open_cables(net, eager_bytes, 2, false, "1");
}

void rdma_net_open_sealed_cables(struct net *net, size_t eager_bytes)
{
    tcp_net_open_sealed(net, eager_bytes);
    open_cables(net, eager_bytes, RDMA_NET_CABLES, true, "1");
}

void rdma_net_open_uc_cables(struct net *net, size_t eager_bytes)
{
    tcp_net_open(net, eager_bytes);
    open_cables(net, eager_bytes, 2, false, "1,service=uc");
}

void rdma_net_open_sealed_uc_cables(struct net *net, size_t eager_bytes)
{
    tcp_net_open_sealed(net, eager_bytes);
    open_cables(net, eager_bytes, RDMA_NET_CABLES, true, "1,service=uc");
}

void rdma_net_open(struct net *net, size_t eager_bytes)
{
    open_alike(net, eager_bytes, false, "1");
}

void rdma_net_open_sealed(struct net *net, size_t eager_bytes)
{
    open_alike(net, eager_bytes, true, "1");
}

void rdma_net_open_uc(struct net *net, size_t eager_bytes)
{
    open_alike(net, eager_bytes, false, "1,service=uc");
}

void rdma_net_open_sealed_uc(struct net *net, size_t eager_bytes)
{
    open_alike(net, eager_bytes, true, "1,service=uc");
}

void rdma_net_check_clean(void)
{
    struct fake_counts counts = fake_counts();

    assert_int_equal(counts.contexts, 0);
    assert_int_equal(counts.pds, 0);
    assert_int_equal(counts.regions, 0);
    assert_int_equal(counts.channels, 0);
    assert_int_equal(counts.cqs, 0);
    assert_int_equal(counts.qps, 0);
    assert_int_equal(counts.mistakes, 0);
    assert_int_equal(counts.overruns, 0);
    assert_int_equal(counts.waits_for_receive, 0);
}

int rdma_net_teardown(void **state)
{
    (void)state;
    rdma_net_check_clean();
    return 0;
}
