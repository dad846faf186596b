/* test_shm.c - the transport over shared memory does what every transport must do. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/alloc.h"
#include "net/shm.h"
#include "support/tcp_net.h"

static bool may_read = true;

static void open_shm(struct net *net, size_t eager_bytes)
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

int main(void)
{
    static const struct net_subject subject = {"shm", open_shm};
    int failed;

    net_subject = &subject;
    failed =
        _cmocka_run_group_tests("messages", transport_suite, transport_suite_count, NULL, NULL);
    failed += _cmocka_run_group_tests("ends", transport_ends, transport_ends_count, NULL, NULL);
    /* What the peer's memory cannot be read for is sent through the ring, which is a copy more. */
    may_read = false;
    cmocka_set_skip_filter("large_payload_is_never_copied");
    failed += _cmocka_run_group_tests("sent messages", transport_suite, transport_suite_count, NULL,
                                      NULL);
    failed +=
        _cmocka_run_group_tests("sent ends", transport_ends, transport_ends_count, NULL, NULL);
    return failed;
}
