/* rdma_net.c - transports over RDMA on fake devices, over TCP, for test nets. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_verbs/fake.h"
#include "rdma/rdma.h"
#include "support/rdma_net.h"
#include "support/tcp_net.h"

static void open_with(struct net *net, size_t eager_bytes, bool encrypts)
{
    for (uint32_t i = 0; i < net->size; i++) {
        struct tci_rdma_config config = {
            .rank = i, .size = net->size, .eager_bytes = eager_bytes, .encrypts = encrypts};

        assert_true(tci_rdma_options_parse("1", &config.options));
        net->nodes[i].transport =
            tci_rdma_open(net->loop, &net->context, net->nodes[i].transport, &config);
        assert_true(tci_rdma_is(net->nodes[i].transport));
    }
}

void rdma_net_open(struct net *net, size_t eager_bytes)
{
    tcp_net_open(net, eager_bytes);
    open_with(net, eager_bytes, false);
}

void rdma_net_open_sealed(struct net *net, size_t eager_bytes)
{
    tcp_net_open_sealed(net, eager_bytes);
    open_with(net, eager_bytes, true);
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
