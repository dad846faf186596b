/* test_heal_crossing.c - two ranks dial each other, and both connections break at once. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "net/frame.h"
#include "net/sock.h"
#include "net/tcp_link.h"
#include "transport_suite.h"

/* Rank 1 of two is real; rank 0, the lower one, is in the hands of the test. */
enum { GREETING = TCI_HEAD_BYTES + TCI_HELLO_BYTES, ID = 0x5a, OWN_TOKEN = 77, TURNS_MAX = 20000 };
static int own_listener;
static struct tci_addr front;

static struct tci_addr loopback(void)
{
    struct tci_addr addr = {.len = sizeof(addr.v4)};

    addr.v4.sin_family = AF_INET;
    addr.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

static void open_higher(struct net *one, size_t eager_bytes)
{
    struct tci_boot_result result = {.rank = 1, .size = 2, .agreed.eager_bytes = eager_bytes};
    struct tci_addr addr = loopback();
    struct tci_error error = {0};

    memset(result.group_id, ID, TCI_GROUP_ID);
    result.fds = tci_alloc_array(2, sizeof(int));
    result.addrs = tci_alloc_array(2, sizeof(struct tci_addr));
    memset(result.fds, 0xff, 2 * sizeof(int));
    assert_int_equal(tci_sock_listen(&addr, &own_listener, &result.addrs[0], &error), TC_OK);
    assert_int_equal(tci_sock_listen(&addr, &result.listener, &front, &error), TC_OK);
    one->nodes[0].transport = tci_tcp_open(one->loop, &one->context, &result, &error);
    assert_non_null(one->nodes[0].transport);
    tci_free(result.fds);
}

/* What comes over a connection while rank 1 works: a frame with a greeting, or its end. */
static size_t hear(struct net *net, int fd, uint8_t *wire)
{
    size_t have = 0;

    for (int i = 0; i < TURNS_MAX && have < GREETING; i++) {
        ssize_t got;

        net_turn(net);
        got = recv(fd, wire + have, GREETING - have, MSG_DONTWAIT);
        if (got == 0)
            break;
        have += got > 0 ? (size_t)got : 0;
    }
    return have;
}

static int take_dialed(struct net *net, struct tci_hello *hello_out)
{
    uint8_t wire[GREETING] = {0};
    struct tci_addr from;
    int fd = -1;

    for (int i = 0; i < TURNS_MAX && fd < 0; i++) {
        net_turn(net);
        fd = tci_sock_accept(own_listener, &from);
    }
    assert_true(fd >= 0);
    assert_int_equal(hear(net, fd, wire), GREETING);
    assert_int_equal(wire[3], TCI_FRAME_HELLO);
    assert_null(tci_hello_decode(wire + TCI_HEAD_BYTES, hello_out));
    return fd;
}

static int dial(struct net *net, uint64_t token, uint32_t attempt)
{
    struct tci_frame frame = {.kind = TCI_FRAME_HELLO, .length = TCI_HELLO_BYTES};
    struct tci_hello hello = {.from = 0, .to = 1, .token = token, .attempt = attempt};
    uint8_t wire[GREETING];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memset(hello.group_id, ID, sizeof(hello.group_id));
    tci_frame_encode(&frame, wire);
    tci_hello_encode(&hello, wire + TCI_HEAD_BYTES);
    assert_int_equal(connect(fd, (struct sockaddr *)&front.sa, front.len), 0);
    assert_int_equal(send(fd, wire, sizeof(wire), MSG_NOSIGNAL), sizeof(wire));
    net_turn(net);
    return fd;
}

static void is_welcomed(struct net *net, int fd, uint64_t token)
{
    uint8_t wire[GREETING] = {0};
    struct tci_hello hello;

    if (hear(net, fd, wire) != GREETING)
        fail_msg("a greeting with token %d was not answered", (int)token);
    assert_int_equal(wire[3], TCI_FRAME_WELCOME);
    assert_null(tci_hello_decode(wire + TCI_HEAD_BYTES, &hello));
    assert_int_equal(hello.token, token);
}

/* Each has taken what the other dialed and has lost what it dialed itself: one goes by the token
 * of the other, and either may be said by whoever makes the link again. */
static void each_may_go_by_the_token_of_the_other(void **state)
{
    static const struct net_subject subject = {"tcp", open_higher};
    struct tci_hello hello;
    struct net_message send;
    struct net net;
    int fds[5];

    (void)state;
    net_subject = &subject;
    net_open(&net, 1, 4096);
    net_send(&net, &send, 0, 0, 1, 10);
    fds[0] = take_dialed(&net, &hello);
    assert_true(hello.token != 0 && hello.attempt == 0);
    fds[1] = dial(&net, OWN_TOKEN, 0);
    is_welcomed(&net, fds[1], OWN_TOKEN);
    fds[2] = dial(&net, hello.token, 1);
    is_welcomed(&net, fds[2], hello.token);
    fds[3] = dial(&net, OWN_TOKEN, 2);
    is_welcomed(&net, fds[3], OWN_TOKEN);
    fds[4] = dial(&net, OWN_TOKEN == hello.token + 1 ? 1 : hello.token + 1, 3);
    assert_int_equal(hear(&net, fds[4], (uint8_t[GREETING]){0}), 0); /* a stranger's */
    net_wait(&net, &send.xfer);
    assert_int_equal(send.xfer.status, TC_OK);
    net_free(&send);
    assert_int_equal(net.nodes[0].losses, 0);
    net_close(&net);
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    close(own_listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_may_go_by_the_token_of_the_other)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
