/* shm_net.c - transports over shared memory, over TCP, for test nets. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/shm.h"
#include "support/shm_net.h"
#include "support/tcp_net.h"

static void open_each(struct net *net, size_t eager_bytes, bool may_read)
{
    static const uint64_t hosts[NET_SIZE_MAX];

    tcp_net_open(net, eager_bytes);
    for (uint32_t i = 0; i < net->size; i++) {
        struct tci_shm_config config = {.rank = i,
                                        .size = net->size,
                                        .hosts = hosts,
                                        .eager_bytes = eager_bytes,
                                        .is_on = true,
                                        .may_read = may_read};

        net->nodes[i].transport =
            tci_shm_open(net->loop, &net->context, net->nodes[i].transport, &config);
    }
}

void shm_net_open(struct net *net, size_t eager_bytes)
{
    open_each(net, eager_bytes, true);
}

void shm_net_open_mapping(struct net *net, size_t eager_bytes)
{
    open_each(net, eager_bytes, false);
}
