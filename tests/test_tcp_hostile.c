/* test_tcp_hostile.c - strangers, garblers and flooders do not disturb a group over TCP. */
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
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/base.h"
#include "net/frame.h"
#include "net/sock.h"
#include "net/tcp_link.h"
#include "support/reduce_oracle.h"
#include "transport_suite.h"

/* Rank 0 of four is real; ranks 1 and 2 are descriptors in the hands of the test, rank 3 has an
 * address at which nobody listens. */
enum { EAGER = 4096 };
static int peers[3];
static struct tci_addr front;
static struct net net;

static struct tci_addr loopback(void)
{
    struct tci_addr addr = {.len = sizeof(addr.v4)};

    addr.v4.sin_family = AF_INET;
    addr.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

static int dial_front(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&front.sa, front.len), 0);
    return fd;
}

static void open_one(struct net *one, size_t eager_bytes)
{
    struct tci_boot_result result = {.rank = 0, .size = 4, .agreed.eager_bytes = eager_bytes};
    struct tci_addr addr = loopback();
    struct tci_error error = {0};
    int nobody;

    memset(result.group_id, 0x5a, TCI_GROUP_ID);
    result.fds = tci_alloc_array(4, sizeof(int));
    result.addrs = tci_alloc_array(4, sizeof(struct tci_addr));
    assert_int_equal(tci_sock_listen(&addr, &nobody, &result.addrs[3], &error), TC_OK);
    close(nobody);
    assert_int_equal(tci_sock_listen(&addr, &result.listener, &front, &error), TC_OK);
    memset(result.fds, 0xff, 4 * sizeof(int));
    for (int i = 1; i < 3; i++) {
        struct tci_addr from;

        peers[i] = dial_front();
        do
            result.fds[i] = tci_sock_accept(result.listener, &from);
        while (result.fds[i] < 0);
    }
    one->nodes[0].transport = tci_tcp_open(one->loop, &one->context, &result, &error);
    tci_free(result.fds);
}

static int setup(void **state)
{
    static const struct net_subject subject = {"tcp", open_one};

    (void)state;
    net_subject = &subject;
    net_open(&net, 1, EAGER);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    net_close(&net);
    for (int i = 1; i < 3; i++)
        close(peers[i]);
    return 0;
}

static void turn(int times)
{
    while (times-- > 0)
        net_turn(&net);
}

static void put(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

static void put_frame(int fd, const struct tci_frame *frame)
{
    uint8_t wire[TCI_HEAD_BYTES];

    tci_frame_encode(frame, wire);
    put(fd, wire, sizeof(wire));
}

static struct tci_frame frame_of(uint8_t kind, uint32_t seq)
{
    return (struct tci_frame){.kind = kind, .seq = seq, .key = {.tag = 1, .use = 1}};
}

/* A receive from rank 2 still works. */
static void the_other_link_works(uint32_t seq)
{
    struct tci_frame frame = frame_of(TCI_FRAME_DATA, seq);
    struct net_message recv;

    frame.key.tag = 100 + seq;
    frame.length = frame.total = frame.call.count = 1;
    frame.call.root = -1;
    net_recv(&net, &recv, 0, 2, 100 + seq, 1);
    put_frame(peers[2], &frame);
    put(peers[2], "x", 1);
    net_wait(&net, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_OK);
    assert_int_equal(recv.bytes[0], 'x');
    net_free(&recv);
}

static void lost_because(const char *why)
{
    net_turn_until(&net, &net.nodes[0].losses, 1);
    assert_int_equal(net.nodes[0].lost_peer, 1);
    if (strstr(net.nodes[0].error.text, why) == NULL)
        fail_msg("%s", net.nodes[0].error.text);
    the_other_link_works(0);
}

static const char words[TCI_HEAD_BYTES + TCI_HELLO_BYTES] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";

static void garbage_ends_the_link(void **state)
{
    (void)state;
    put(peers[1], words, sizeof(words));
    lost_because("broke the protocol: it sent bytes that are no frame of tcdist");
}

static void a_few_bytes_of_garbage_end_the_link(void **state)
{
    (void)state;
    put(peers[1], "TCP", 3);
    lost_because("broke the protocol: it sent a frame of another version");
}

static void a_single_strange_byte_ends_the_link(void **state)
{
    (void)state;
    put(peers[1], "G", 1);
    lost_because("broke the protocol: it sent bytes that are no frame of tcdist");
}

/* The loop need not turn once more: who tells of a loss may exit now. */
static void the_news_of_a_loss_leaves_at_once(void **state)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_LOST, .culprit = 2, .text = "rank 2 is gone"};
    struct tci_transport *transport = net.nodes[0].transport;
    uint8_t wire[TCI_HEAD_BYTES + TCI_NOTICE_BYTES];
    struct tci_frame frame;

    (void)state;
    transport->ops->notify(transport, 1, &notice, true);
    assert_int_equal(recv(peers[1], wire, sizeof(wire), MSG_DONTWAIT), sizeof(wire));
    assert_null(tci_frame_decode(wire, &frame));
    assert_int_equal(frame.kind, TCI_FRAME_NOTICE);
}

static void a_gap_ends_the_link(void **state)
{
    struct tci_frame frame = frame_of(TCI_FRAME_ACK, 1);

    (void)state;
    put_frame(peers[1], &frame);
    lost_because("out of sequence");
}

static void an_impossible_ack_ends_the_link(void **state)
{
    struct tci_frame frame = frame_of(TCI_FRAME_ACK, 0);

    (void)state;
    frame.ack = 1;
    put_frame(peers[1], &frame);
    lost_because("acknowledgement");
}

static void a_greeting_on_a_link_ends_it(void **state)
{
    struct tci_frame frame = frame_of(TCI_FRAME_HELLO, 0);

    (void)state;
    frame.length = TCI_HELLO_BYTES;
    put_frame(peers[1], &frame);
    lost_because("greeting");
}

static void a_small_message_in_pieces_ends_the_link(void **state)
{
    struct tci_frame frame = frame_of(TCI_FRAME_DATA, 0);

    (void)state;
    frame.length = 1;
    frame.total = 2;
    put_frame(peers[1], &frame);
    lost_because("in pieces");
}

static void a_flood_of_early_messages_ends_the_link(void **state)
{
    static uint8_t bytes[EAGER];
    struct tci_frame frame = frame_of(TCI_FRAME_DATA, 0);

    (void)state;
    frame.length = frame.total = EAGER;
    for (frame.seq = 0; net.nodes[0].losses == 0 && frame.seq < 100000; frame.seq++) {
        uint8_t wire[TCI_HEAD_BYTES];

        tci_frame_encode(&frame, wire);
        (void)send(peers[1], wire, sizeof(wire), MSG_NOSIGNAL);
        (void)send(peers[1], bytes, sizeof(bytes), MSG_NOSIGNAL);
        turn(1);
        assert_true(net_stats(&net, 0).eager_bytes < 20u << 20);
    }
    lost_because("window");
    assert_int_equal(net_stats(&net, 0).eager_bytes, 0);
}

static void a_flood_of_credits_ends_the_link(void **state)
{
    struct tci_frame frame = frame_of(TCI_FRAME_CREDIT, 0);

    (void)state;
    frame.total = EAGER + 1;
    for (frame.seq = 0; net.nodes[0].losses == 0 && frame.seq < 1000000; frame.seq++) {
        uint8_t wire[TCI_HEAD_BYTES];

        frame.key.step = frame.seq;
        tci_frame_encode(&frame, wire);
        (void)send(peers[1], wire, sizeof(wire), MSG_NOSIGNAL);
        if (frame.seq % 64 == 0)
            turn(1);
    }
    lost_because("credits");
}

static void large_data_that_nobody_granted_is_dropped(void **state)
{
    static uint8_t bytes[EAGER + 1];
    struct tci_frame frame = frame_of(TCI_FRAME_DATA, 0);

    (void)state;
    frame.length = frame.total = sizeof(bytes);
    put_frame(peers[1], &frame);
    put(peers[1], bytes, sizeof(bytes));
    frame.seq = 1;
    frame.offset = 1;
    frame.length--;
    put_frame(peers[1], &frame);
    put(peers[1], bytes, sizeof(bytes) - 1);
    while (net_stats(&net, 0).strays < 2)
        turn(1);
    assert_int_equal(net.nodes[0].losses, 0);
}

static void a_header_may_come_byte_by_byte(void **state)
{
    struct tci_frame frame = frame_of(TCI_FRAME_DATA, 0);
    uint8_t wire[TCI_HEAD_BYTES + 5] = {0};
    struct net_message recv;

    (void)state;
    frame.key.tag = 3;
    frame.length = frame.total = frame.call.count = 5;
    frame.call.root = -1;
    tci_frame_encode(&frame, wire);
    net_recv(&net, &recv, 0, 1, 3, 5);
    for (size_t i = 0; i < sizeof(wire); i++) {
        put(peers[1], wire + i, 1);
        turn(1);
    }
    net_wait(&net, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_OK);
    net_free(&recv);
}

static void mutated_streams_do_no_harm(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct net_message recvs[4], sends[4];

        if (round > 0)
            setup(NULL);
        for (unsigned i = 0; i < 4; i++) {
            net_recv(&net, &recvs[i], 0, 1, i, i * 3000);
            net_send(&net, &sends[i], 0, 1, i, i * 3000);
        }
        for (uint32_t seq = 0; seq < 30 && net.nodes[0].losses == 0; seq++) {
            uint8_t wire[TCI_HEAD_BYTES + 12000] = {0};
            struct tci_frame frame =
                frame_of((uint8_t)(1 + oracle_random(&seed) % TCI_FRAME_BYE), seq);
            unsigned tag = (unsigned)(oracle_random(&seed) % 4);

            frame.key.tag = tag;
            frame.call = recvs[tag].call;
            frame.total = recvs[tag].xfer.len;
            if (frame.kind == TCI_FRAME_DATA)
                frame.length = frame.total;
            if (frame.kind == TCI_FRAME_NOTICE)
                frame.length = TCI_NOTICE_BYTES;
            tci_frame_encode(&frame, wire);
            if (oracle_random(&seed) % 8 == 0)
                wire[oracle_random(&seed) % TCI_HEAD_BYTES] ^=
                    (uint8_t)(1 << oracle_random(&seed) % 8);
            (void)send(peers[1], wire, TCI_HEAD_BYTES + (size_t)frame.length, MSG_NOSIGNAL);
            if (oracle_random(&seed) % 3 == 0)
                turn(1);
        }
        close(peers[1]);
        for (unsigned i = 0; i < 4; i++) {
            net_wait(&net, &recvs[i].xfer);
            net_wait(&net, &sends[i].xfer);
        }
        net_turn_until(&net, &net.nodes[0].losses, net.nodes[0].losses);
        for (unsigned i = 0; i < 4; i++) {
            net_free(&recvs[i]);
            net_free(&sends[i]);
        }
        if (round < 299) {
            peers[1] = dup(peers[2]);
            teardown(NULL);
        }
    }
    peers[1] = dup(peers[2]);
}

static void strangers_at_the_door_are_counted(void **state)
{
    int fds[80];

    (void)state;
    for (unsigned i = 0; i < 80; i++) {
        fds[i] = dial_front();
        if (i % 2 == 0)
            put(fds[i], words, sizeof(words));
        turn(1);
    }
    while (net_stats(&net, 0).strays < 40)
        turn(1);
    for (unsigned i = 0; i < 80; i++)
        close(fds[i]);
    while (net_stats(&net, 0).strays < 80)
        turn(1);
    assert_int_equal(net_stats(&net, 0).strays, 80);
    the_other_link_works(0);
    assert_int_equal(net.nodes[0].losses, 0);
}

static void greet_as(int fd, enum tci_frame_kind kind, struct tci_hello hello, uint8_t id)
{
    struct tci_frame frame = {.kind = (uint8_t)kind, .length = TCI_HELLO_BYTES};
    uint8_t wire[TCI_HEAD_BYTES + TCI_HELLO_BYTES];

    memset(hello.group_id, id, sizeof(hello.group_id));
    tci_frame_encode(&frame, wire);
    tci_hello_encode(&hello, wire + TCI_HEAD_BYTES);
    put(fd, wire, sizeof(wire));
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
        turn(1);
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

        fds[i] = dial_front();
        greet(fds[i], cases[i].from, cases[i].to, cases[i].id);
        got = answer(fds[i], wire);
        if (cases[i].kind < 0)
            assert_int_equal(got, 0);
        else
            assert_int_equal(wire[3], cases[i].kind);
    }
    assert_int_equal(net_stats(&net, 0).links_open, 3);
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
    struct tci_frame frame = frame_of(TCI_FRAME_ACK, 0);
    int fds[TCI_LEN(cases)], first = dial_front();
    uint8_t wire[200] = {0};

    (void)state;
    greet_again(first, (struct tci_hello){.from = 3, .token = TOKEN}, 0x5a);
    (void)answer(first, wire);
    assert_int_equal(wire[3], TCI_FRAME_WELCOME);
    put_frame(first, &frame);
    turn(3);
    for (unsigned i = 0; i < TCI_LEN(cases); i++) {
        struct tci_hello hello;
        ssize_t got;

        fds[i] = dial_front();
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
    assert_int_equal(net_stats(&net, 0).links_open, 3);
    assert_int_equal(net.nodes[0].losses, 0);
    for (unsigned i = 0; i < TCI_LEN(cases); i++)
        close(fds[i]);
    close(first);
}

static void a_peer_that_refuses_is_lost_long_before_the_deadline_of_a_dial(void **state)
{
    const struct tci_exec *exec = net.context.exec;
    uint64_t begin = exec->ops->now_ns(net.context.exec);
    struct net_message send;

    (void)state;
    net_send(&net, &send, 0, 3, 1, 10);
    net_wait(&net, &send.xfer);
    assert_int_equal(send.xfer.status, TC_ERR_PEER_LOST);
    net_free(&send);
    assert_int_equal(net.nodes[0].losses, 1);
    assert_int_equal(net.nodes[0].lost_peer, 3);
    assert_non_null(strstr(net.nodes[0].error.text, "rank 3 refuses connections: it exited or"));
    assert_true(exec->ops->now_ns(net.context.exec) - begin < TCI_TCP_DIAL_MS * TCI_NS_PER_MS);
}

/* Rank 1 asks to be carried to rank 2, and is not there any more when that one comes. */
static void a_pipe_that_comes_to_nothing_does_not_hold_rank_0(void **state)
{
    struct tci_transport *transport = net.nodes[0].transport;
    struct linger at_once = {.l_onoff = 1};
    struct tci_frame call, bye = frame_of(TCI_FRAME_BYE, 0);
    int asks = dial_front(), comes;
    uint8_t wire[200];

    (void)state;
    greet_as(asks, TCI_FRAME_PIPE, (struct tci_hello){.from = 1, .to = 2, .token = 1}, 0x5a);
    assert_int_equal(answer(peers[2], wire), TCI_HEAD_BYTES);
    assert_null(tci_frame_decode(wire, &call));
    assert_int_equal(call.kind, TCI_FRAME_CALL);
    setsockopt(asks, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(asks);
    transport->ops->leave(transport);
    for (int i = 1; i < 3; i++) {
        put_frame(peers[i], &bye);
        shutdown(peers[i], SHUT_WR);
    }
    while (net_stats(&net, 0).links_open > 0)
        turn(1);
    assert_int_equal(net.nodes[0].lefts, 0);
    comes = dial_front();
    greet_as(comes, TCI_FRAME_PIPE,
             (struct tci_hello){.from = 2, .to = 1, .token = call.key.tag, .index = 1}, 0x5a);
    net_turn_until(&net, &net.nodes[0].lefts, 1);
    assert_int_equal(net.nodes[0].losses, 0);
    close(comes);
}

static void nobody_asks_for_pipes_without_end(void **state)
{
    int fds[9];
    uint8_t wire[200] = {0};

    (void)state;
    for (unsigned i = 0; i < TCI_LEN(fds); i++) {
        fds[i] = dial_front();
        greet_as(fds[i], TCI_FRAME_PIPE, (struct tci_hello){.from = 1, .to = 2, .token = 1}, 0x5a);
        if (i + 1 < TCI_LEN(fds))
            assert_int_equal(answer(peers[2], wire), TCI_HEAD_BYTES);
    }
    assert_true(answer(fds[TCI_LEN(fds) - 1], wire) > 0);
    assert_int_equal(wire[3], TCI_FRAME_REFUSE);
    the_other_link_works(0);
    for (unsigned i = 0; i < TCI_LEN(fds); i++)
        close(fds[i]);
}

#define HOSTILE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOSTILE(garbage_ends_the_link),
        HOSTILE(a_few_bytes_of_garbage_end_the_link),
        HOSTILE(a_single_strange_byte_ends_the_link),
        HOSTILE(the_news_of_a_loss_leaves_at_once),
        HOSTILE(a_gap_ends_the_link),
        HOSTILE(an_impossible_ack_ends_the_link),
        HOSTILE(a_greeting_on_a_link_ends_it),
        HOSTILE(a_small_message_in_pieces_ends_the_link),
        HOSTILE(a_flood_of_early_messages_ends_the_link),
        HOSTILE(a_flood_of_credits_ends_the_link),
        HOSTILE(large_data_that_nobody_granted_is_dropped),
        HOSTILE(a_header_may_come_byte_by_byte),
        HOSTILE(mutated_streams_do_no_harm),
        HOSTILE(strangers_at_the_door_are_counted),
        HOSTILE(only_true_greetings_are_welcome),
        HOSTILE(only_its_peer_makes_a_link_again),
        HOSTILE(a_peer_that_refuses_is_lost_long_before_the_deadline_of_a_dial),
        HOSTILE(a_pipe_that_comes_to_nothing_does_not_hold_rank_0),
        HOSTILE(nobody_asks_for_pipes_without_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
