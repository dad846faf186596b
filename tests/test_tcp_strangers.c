/* test_tcp_strangers.c - who may link, link again, or be carried over TCP, and who may not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base.h"
#include "net/tcp_link.h"
#include "support/tcp_front.h"

static const char words[TCI_HEAD_BYTES + TCI_HELLO_BYTES] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";

static void strangers_at_the_door_are_counted(void **state)
{
    int fds[80];

    (void)state;
    for (unsigned i = 0; i < 80; i++) {
        fds[i] = front_dial();
        if (i % 2 == 0)
            front_put(fds[i], words, sizeof(words));
        front_turn(1);
    }
    while (net_stats(&front_net, 0).strays < 40)
        front_turn(1);
    for (unsigned i = 0; i < 80; i++)
        close(fds[i]);
    while (net_stats(&front_net, 0).strays < 80)
        front_turn(1);
    assert_int_equal(net_stats(&front_net, 0).strays, 80);
    front_other_link_works(0);
    assert_int_equal(front_net.nodes[0].losses, 0);
}

static void greet_as(int fd, enum tci_frame_kind kind, struct tci_hello hello, uint8_t id)
{
    struct tci_frame frame = {.kind = (uint8_t)kind, .length = TCI_HELLO_BYTES};
    uint8_t wire[TCI_HEAD_BYTES + TCI_HELLO_BYTES];

    memset(hello.group_id, id, sizeof(hello.group_id));
    tci_frame_encode(&frame, wire);
    tci_hello_encode(&hello, wire + TCI_HEAD_BYTES);
    front_put(fd, wire, sizeof(wire));
}

static void greet_again(int fd, struct tci_hello hello, uint8_t id)
{
    greet_as(fd, TCI_FRAME_HELLO, hello, id);
}

/* With a token that no greeting before it had. */
static void greet(int fd, uint32_t from, uint32_t to, uint8_t id)
{
    static uint64_t token;

    greet_again(fd, (struct tci_hello){.from = from, .to = to, .token = ++token}, id);
}

static ssize_t answer(int fd, uint8_t *wire)
{
    ssize_t got = -1;

    for (int i = 0; i < 2000 && got < 0; i++) {
        front_turn(1);
        got = recv(fd, wire, 200, MSG_DONTWAIT);
    }
    return got;
}

static void only_true_greetings_are_welcome(void **state)
{
    static const struct {
        uint32_t from, to;
        uint8_t id;
        int kind; /* -1: closed */
    } cases[] = {{3, 0, 0x5b, -1},
                 {3, 1, 0x5a, -1},
                 {4, 0, 0x5a, -1},
                 {0, 0, 0x5a, -1},
                 {1, 0, 0x5a, TCI_FRAME_REFUSE},
                 {3, 0, 0x5a, TCI_FRAME_WELCOME},
                 {3, 0, 0x5a, TCI_FRAME_REFUSE}};
    int fds[TCI_LEN(cases)];

    (void)state;
    for (unsigned i = 0; i < TCI_LEN(cases); i++) {
        uint8_t wire[200] = {0};
        ssize_t got;

        fds[i] = front_dial();
        greet(fds[i], cases[i].from, cases[i].to, cases[i].id);
        got = answer(fds[i], wire);
        if (cases[i].kind < 0)
            assert_int_equal(got, 0);
        else
            assert_int_equal(wire[3], cases[i].kind);
    }
    assert_int_equal(net_stats(&front_net, 0).links_open, 3);
    for (unsigned i = 0; i < TCI_LEN(cases); i++)
        close(fds[i]);
}

/* Rank 3 has linked with token 77, and has sent a frame. */
static void only_its_peer_makes_a_link_again(void **state)
{
    enum { TOKEN = 77, SENT = TCI_HEAD_BYTES };
    static const struct {
        struct tci_hello hello;
        int kind; /* -1: closed */
    } cases[] = {{{.from = 3, .token = TOKEN + 1, .attempt = 1}, -1},
                 {{.from = 3, .token = 0, .attempt = 1}, -1},
                 {{.from = 2, .token = TOKEN, .attempt = 1}, -1},
                 {{.from = 3, .token = TOKEN, .attempt = 0}, TCI_FRAME_REFUSE},
                 {{.from = 3, .token = TOKEN, .attempt = 1, .received = 1}, TCI_FRAME_REFUSE},
                 {{.from = 3, .token = TOKEN, .attempt = 2}, TCI_FRAME_WELCOME},
                 {{.from = 3, .token = TOKEN, .attempt = 2}, -1}, /* recorded */
                 {{.from = 3, .token = TOKEN, .attempt = 1}, -1},
                 {{.from = 3, .token = TOKEN, .attempt = 3}, TCI_FRAME_WELCOME}};
    struct tci_frame frame = front_frame(TCI_FRAME_ACK, 0);
    int fds[TCI_LEN(cases)], first = front_dial();
    uint8_t wire[200] = {0};

    (void)state;
    greet_again(first, (struct tci_hello){.from = 3, .token = TOKEN}, 0x5a);
    (void)answer(first, wire);
    assert_int_equal(wire[3], TCI_FRAME_WELCOME);
    front_put_frame(first, &frame);
    front_turn(3);
    for (unsigned i = 0; i < TCI_LEN(cases); i++) {
        struct tci_hello hello;
        ssize_t got;

        fds[i] = front_dial();
        greet_again(fds[i], cases[i].hello, 0x5a);
        got = answer(fds[i], wire);
        if (cases[i].kind < 0) {
            if (got != 0)
                fail_msg("case %u was answered", i);
            continue;
        }
        assert_int_equal(wire[3], cases[i].kind);
        if (cases[i].kind != TCI_FRAME_WELCOME)
            continue;
        assert_null(tci_hello_decode(wire + TCI_HEAD_BYTES, &hello));
        assert_int_equal(hello.received, SENT);
        assert_int_equal(hello.token, TOKEN);
    }
    assert_int_equal(answer(first, wire), 0); /* another one stands in its place */
    assert_int_equal(net_stats(&front_net, 0).links_open, 3);
    assert_int_equal(front_net.nodes[0].losses, 0);
    for (unsigned i = 0; i < TCI_LEN(cases); i++)
        close(fds[i]);
    close(first);
}

static void a_peer_that_refuses_is_lost_long_before_the_deadline_of_a_dial(void **state)
{
    const struct tci_exec *exec = front_net.context.exec;
    uint64_t begin = exec->ops->now_ns(front_net.context.exec);
    struct net_message send;

    (void)state;
    net_send(&front_net, &send, 0, 3, 1, 10);
    net_wait(&front_net, &send.xfer);
    assert_int_equal(send.xfer.status, TC_ERR_PEER_LOST);
    net_free(&send);
    assert_int_equal(front_net.nodes[0].losses, 1);
    assert_int_equal(front_net.nodes[0].lost_peer, 3);
    assert_non_null(
        strstr(front_net.nodes[0].error.text, "rank 3 refuses connections: it exited or"));
    assert_true(exec->ops->now_ns(front_net.context.exec) - begin <
                TCI_TCP_DIAL_MS * TCI_NS_PER_MS);
}

/* Rank 1 asks to be carried to rank 2, and is not there any more when that one comes. */
static void a_pipe_that_comes_to_nothing_does_not_hold_rank_0(void **state)
{
    struct tci_transport *transport = front_net.nodes[0].transport;
    struct linger at_once = {.l_onoff = 1};
    struct tci_frame call, bye = front_frame(TCI_FRAME_BYE, 0);
    int asks = front_dial(), comes;
    uint8_t wire[200];

    (void)state;
    greet_as(asks, TCI_FRAME_PIPE, (struct tci_hello){.from = 1, .to = 2, .token = 1}, 0x5a);
    assert_int_equal(answer(front_peers[2], wire), TCI_HEAD_BYTES);
    assert_null(tci_frame_decode(wire, &call));
    assert_int_equal(call.kind, TCI_FRAME_CALL);
    setsockopt(asks, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(asks);
    transport->ops->leave(transport);
    for (int i = 1; i < 3; i++) {
        front_put_frame(front_peers[i], &bye);
        shutdown(front_peers[i], SHUT_WR);
    }
    while (net_stats(&front_net, 0).links_open > 0)
        front_turn(1);
    assert_int_equal(front_net.nodes[0].lefts, 0);
    comes = front_dial();
    greet_as(comes, TCI_FRAME_PIPE,
             (struct tci_hello){.from = 2, .to = 1, .token = call.key.tag, .index = 1}, 0x5a);
    net_turn_until(&front_net, &front_net.nodes[0].lefts, 1);
    assert_int_equal(front_net.nodes[0].losses, 0);
    close(comes);
}

static void nobody_asks_for_pipes_without_end(void **state)
{
    int fds[9];
    uint8_t wire[200] = {0};

    (void)state;
    for (unsigned i = 0; i < TCI_LEN(fds); i++) {
        fds[i] = front_dial();
        greet_as(fds[i], TCI_FRAME_PIPE, (struct tci_hello){.from = 1, .to = 2, .token = 1}, 0x5a);
        if (i + 1 < TCI_LEN(fds))
            assert_int_equal(answer(front_peers[2], wire), TCI_HEAD_BYTES);
    }
    assert_true(answer(fds[TCI_LEN(fds) - 1], wire) > 0);
    assert_int_equal(wire[3], TCI_FRAME_REFUSE);
    front_other_link_works(0);
    for (unsigned i = 0; i < TCI_LEN(fds); i++)
        close(fds[i]);
}

#define FRONT(test) cmocka_unit_test_setup_teardown(test, front_open, front_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRONT(strangers_at_the_door_are_counted),
        FRONT(only_true_greetings_are_welcome),
        FRONT(only_its_peer_makes_a_link_again),
        FRONT(a_peer_that_refuses_is_lost_long_before_the_deadline_of_a_dial),
        FRONT(a_pipe_that_comes_to_nothing_does_not_hold_rank_0),
        FRONT(nobody_asks_for_pipes_without_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
