/* test_tcp.c - the transport over TCP does what every transport must do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/base.h"
#include "net/crypt.h"
#include "net/sock.h"
#include "net/tcp.h"
#include "transport_suite.h"

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

static void open_tcp(struct net *net, size_t eager_bytes)
{
    open_with(net, eager_bytes, false);
}

static void open_sealed(struct net *net, size_t eager_bytes)
{
    open_with(net, eager_bytes, true);
}

/* Small, large, early and late, between ranks that have to dial first; then everything ends.
 * Returns how many messages were received. */
static unsigned run_with_failure(uint64_t n)
{
    static const size_t lens[3] = {10, 3000, 300000};
    static struct net_message sends[3][3], recvs[3][3];
    struct net net;
    unsigned received = 0;

    net_open(&net, 3, 4096);
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t k = 0; k < 3; k++) {
            net_prepare(&sends[a][k], true, (a + 1) % 3, a, lens[k]);
            net_prepare(&recvs[a][k], false, (a + 2) % 3, (a + 2) % 3, lens[k]);
            sends[a][k].xfer.key.step = recvs[a][k].xfer.key.step = k;
        }
    tci_alloc_fail_at(n, 0);
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t a = 0; a < 3; a++) {
            net_post(&net, &sends[a][k], a);
            if (k != 1)
                net_turn(&net);
            net_post(&net, &recvs[a][k], a);
        }
    for (int i = 0; i < 60; i++)
        net_turn(&net);
    tci_alloc_fail_at(0, 0);
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t tag = 0; tag < 3; tag++)
            net.nodes[a].transport->ops->abort(
                net.nodes[a].transport, &(struct tci_key){.tag = tag, .use = 1}, TCI_ALL_PEERS);
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t k = 0; k < 3; k++) {
            net_wait(&net, &sends[a][k].xfer);
            net_wait(&net, &recvs[a][k].xfer);
            if (recvs[a][k].xfer.status == TC_OK) {
                assert_true(net_is_intact(&recvs[a][k]));
                received++;
            }
            net_free(&sends[a][k]);
            net_free(&recvs[a][k]);
        }
    net_close(&net);
    return received;
}

static void every_allocation_may_fail(void **state)
{
    enum { MORE_THAN_THERE_ARE = 100 };
    uint64_t live = tci_alloc_live();
    unsigned disturbed = 0;

    (void)state;
    for (uint64_t n = 1; n < MORE_THAN_THERE_ARE; n++)
        disturbed += run_with_failure(n) < 9;
    assert_true(disturbed > 5 && disturbed < MORE_THAN_THERE_ARE / 2);
    assert_int_equal(tci_alloc_live(), live);
}

int main(void)
{
    static const struct net_subject subjects[] = {{"tcp", open_tcp}, {"sealed tcp", open_sealed}};
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    int failed = 0;

    for (size_t k = 0; k < TCI_LEN(subjects); k++) {
        net_subject = &subjects[k];
        print_message("%s:\n", net_subject->name);
        failed +=
            _cmocka_run_group_tests("messages", transport_suite, transport_suite_count, NULL, NULL);
        failed += _cmocka_run_group_tests("ends", transport_ends, transport_ends_count, NULL, NULL);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
