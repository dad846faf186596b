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
#include "net/crypt.h"
#include "net/sock.h"
#include "net/tcp.h"
#include "support/tcp_net.h"

static struct tci_addr loopback(void)
{
    struct tci_addr addr = {.len = sizeof(addr.v4)};

    addr.v4.sin_family = AF_INET;
    addr.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

int tcp_net_listen(struct tci_addr *bound)
{
    struct tci_addr addr = loopback();
    struct tci_error error = {0};
    int listener;

    assert_int_equal(tci_sock_listen(&addr, &listener, bound, &error), TC_OK);
    return listener;
}

static void connect_pair(int fds[2])
{
    struct tci_addr bound, from;
    struct tci_error error = {0};
    int listener = tcp_net_listen(&bound);
    bool is_up;

    assert_int_equal(tci_sock_connect(&bound, &fds[0], &is_up, &error), TC_OK);
    do
        fds[1] = tci_sock_accept(listener, &from);
    while (fds[1] < 0);
    close(listener);
}

/* One end of a connection that both have proven, with secrets that are not. */
static struct tci_crypt *seal(bool is_dialer)
{
    struct tci_session session = {.cipher = TCI_CIPHER_CHACHA20POLY1305, .encrypts = true};
    struct tci_crypt *crypt;

    memset(is_dialer ? session.send : session.receive, 1, sizeof(session.send));
    crypt = tci_crypt_new(&session);
    assert_non_null(crypt);
    return crypt;
}

static void give_keys(struct tci_boot_result *results, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        results[i].keyring = tci_keyring_shared("0123456789abcdef", 16, NULL, 0);
        assert_non_null(results[i].keyring);
        results[i].keyring->encrypts = true;
        results[i].crypts = tci_alloc_array(size, sizeof(struct tci_crypt *));
        assert_non_null(results[i].crypts);
    }
    for (uint32_t i = 1; i < size; i++) {
        results[0].crypts[i] = seal(false);
        results[i].crypts[0] = seal(true);
    }
}

/* What the meeting point would have given to each rank. */
static void open_with(struct net *net, size_t eager_bytes, bool is_sealed)
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
    if (is_sealed)
        give_keys(results, net->size);
    for (uint32_t i = 0; i < net->size; i++) {
        net->nodes[i].transport = tci_tcp_open(net->loop, &net->context, &results[i], &error);
        tci_keyring_unref(results[i].keyring);
        tci_free(results[i].crypts);
        tci_free(results[i].fds);
    }
}

void tcp_net_open(struct net *net, size_t eager_bytes)
{
    open_with(net, eager_bytes, false);
}

void tcp_net_open_sealed(struct net *net, size_t eager_bytes)
{
    open_with(net, eager_bytes, true);
}
