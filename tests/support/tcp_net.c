/* tcp_net.c - transports over TCP as the meeting point would have made them, for test nets. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "net/sock.h"
#include "net/tcp.h"
#include "support/tcp_net.h"

static struct tci_addr loopback(void)
{
    struct tci_addr addr = {.len = sizeof(struct sockaddr_in)};
    struct sockaddr_in *in = (struct sockaddr_in *)&addr.sa;

    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

static void connect_pair(int fds[2])
{
    struct tci_addr addr = loopback(), bound, from;
    struct tci_error error = {0};
    int listener;
    bool is_up;

    assert_int_equal(tci_sock_listen(&addr, &listener, &bound, &error), TC_OK);
    assert_int_equal(tci_sock_connect(&bound, &fds[0], &is_up, &error), TC_OK);
    do
        fds[1] = tci_sock_accept(listener, &from);
    while (fds[1] < 0);
    close(listener);
}

/* What the meeting point would have given to each rank. */
void tcp_net_open(struct net *net, size_t eager_bytes)
{
    struct tci_boot_result results[NET_SIZE_MAX] = {{0}};
    struct tci_addr addr = loopback(), bound[NET_SIZE_MAX];
    struct tci_error error = {0};

    for (uint32_t i = 0; i < net->size; i++) {
        results[i].rank = (int)i;
        results[i].size = (int)net->size;
        results[i].agreed.eager_bytes = eager_bytes;
        memset(results[i].group_id, 0x5a, TCI_GROUP_ID);
        results[i].fds = tci_alloc_array(net->size, sizeof(int));
        results[i].addrs = tci_alloc_array(net->size, sizeof(struct tci_addr));
        memset(results[i].fds, 0xff, net->size * sizeof(int));
        assert_int_equal(tci_sock_listen(&addr, &results[i].listener, &bound[i], &error), TC_OK);
    }
    for (uint32_t i = 0; i < net->size; i++) {
        int fds[2];

        for (uint32_t k = 0; k < net->size; k++)
            results[i].addrs[k] = bound[k];
        if (i == 0)
            continue;
        connect_pair(fds);
        results[0].fds[i] = fds[0];
        results[i].fds[0] = fds[1];
    }
    for (uint32_t i = 0; i < net->size; i++) {
        net->nodes[i].transport = tci_tcp_open(net->loop, &net->context, &results[i], &error);
        tci_free(results[i].fds);
    }
}
