/* test_tcp_hostile.c - garblers and flooders do not disturb a group over TCP. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base.h"
#include "net/tcp_link.h"
#include "support/reduce_oracle.h"
#include "support/tcp_front.h"

static void lost_because(const char *why)
{
    net_turn_until(&front_net, &front_net.nodes[0].losses, 1);
    assert_int_equal(front_net.nodes[0].lost_peer, 1);
    if (strstr(front_net.nodes[0].error.text, why) == NULL)
        fail_msg("%s", front_net.nodes[0].error.text);
    front_other_link_works(0);
}

static const char words[TCI_HEAD_BYTES + TCI_HELLO_BYTES] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";

static void garbage_ends_the_link(void **state)
{
    (void)state;
    front_put(front_peers[1], words, sizeof(words));
    lost_because("broke the protocol: it sent bytes that are no frame of tcdist");
}

static void a_few_bytes_of_garbage_end_the_link(void **state)
{
    (void)state;
    front_put(front_peers[1], "TCP", 3);
    lost_because("broke the protocol: it sent a frame of another version");
}

static void a_single_strange_byte_ends_the_link(void **state)
{
    (void)state;
    front_put(front_peers[1], "G", 1);
    lost_because("broke the protocol: it sent bytes that are no frame of tcdist");
}

/* The loop need not turn once more: who tells of a loss may exit now. */
static void the_news_of_a_loss_leaves_at_once(void **state)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_LOST, .culprit = 2, .text = "rank 2 is gone"};
    struct tci_transport *transport = front_net.nodes[0].transport;
    uint8_t wire[TCI_HEAD_BYTES + TCI_NOTICE_BYTES];
    struct tci_frame frame;

    (void)state;
    transport->ops->notify(transport, 1, &notice, true);
    assert_int_equal(recv(front_peers[1], wire, sizeof(wire), MSG_DONTWAIT), sizeof(wire));
    assert_null(tci_frame_decode(wire, &frame));
    assert_int_equal(frame.kind, TCI_FRAME_NOTICE);
}

static void a_gap_ends_the_link(void **state)
{
    struct tci_frame frame = front_frame(TCI_FRAME_ACK, 1);

    (void)state;
    front_put_frame(front_peers[1], &frame);
    lost_because("out of sequence");
}

static void an_impossible_ack_ends_the_link(void **state)
{
    struct tci_frame frame = front_frame(TCI_FRAME_ACK, 0);

    (void)state;
    frame.ack = 1;
    front_put_frame(front_peers[1], &frame);
    lost_because("acknowledgement");
}

static void a_greeting_on_a_link_ends_it(void **state)
{
    struct tci_frame frame = front_frame(TCI_FRAME_HELLO, 0);

    (void)state;
    frame.length = TCI_HELLO_BYTES;
    front_put_frame(front_peers[1], &frame);
    lost_because("greeting");
}

static void a_small_message_in_pieces_ends_the_link(void **state)
{
    struct tci_frame frame = front_frame(TCI_FRAME_DATA, 0);

    (void)state;
    frame.length = 1;
    frame.total = 2;
    front_put_frame(front_peers[1], &frame);
    lost_because("in pieces");
}

static void a_flood_of_early_messages_ends_the_link(void **state)
{
    static uint8_t bytes[FRONT_EAGER];
    struct tci_frame frame = front_frame(TCI_FRAME_DATA, 0);

    (void)state;
    frame.length = frame.total = FRONT_EAGER;
    for (frame.seq = 0; front_net.nodes[0].losses == 0 && frame.seq < 100000; frame.seq++) {
        uint8_t wire[TCI_HEAD_BYTES];

        tci_frame_encode(&frame, wire);
        (void)send(front_peers[1], wire, sizeof(wire), MSG_NOSIGNAL);
        (void)send(front_peers[1], bytes, sizeof(bytes), MSG_NOSIGNAL);
        if (frame.seq % 16 == 0)
            front_turn(1);
        assert_true(net_stats(&front_net, 0).eager_bytes < 20u << 20);
    }
    lost_because("window");
    assert_int_equal(net_stats(&front_net, 0).eager_bytes, 0);
}

static void a_flood_of_credits_ends_the_link(void **state)
{
    struct tci_frame frame = front_frame(TCI_FRAME_CREDIT, 0);

    (void)state;
    frame.total = FRONT_EAGER + 1;
    for (frame.seq = 0; front_net.nodes[0].losses == 0 && frame.seq < 1000000; frame.seq++) {
        uint8_t wire[TCI_HEAD_BYTES];

        frame.key.step = frame.seq;
        tci_frame_encode(&frame, wire);
        (void)send(front_peers[1], wire, sizeof(wire), MSG_NOSIGNAL);
        if (frame.seq % 512 == 0)
            front_turn(1);
    }
    lost_because("credits");
}

static void large_data_that_nobody_granted_is_dropped(void **state)
{
    static uint8_t bytes[FRONT_EAGER + 1];
    struct tci_frame frame = front_frame(TCI_FRAME_DATA, 0);

    (void)state;
    frame.length = frame.total = sizeof(bytes);
    front_put_frame(front_peers[1], &frame);
    front_put(front_peers[1], bytes, sizeof(bytes));
    frame.seq = 1;
    frame.offset = 1;
    frame.length--;
    front_put_frame(front_peers[1], &frame);
    front_put(front_peers[1], bytes, sizeof(bytes) - 1);
    while (net_stats(&front_net, 0).strays < 2)
        front_turn(1);
    assert_int_equal(front_net.nodes[0].losses, 0);
}

/* ---- Large messages ------------------------------------------------------------------------- */

enum { LARGE = FRONT_EAGER + 1 };

/* Rank 0 waits for a large message of rank 1: the grant that it has sent. */
static struct tci_frame await_large(struct net_message *recv)
{
    uint8_t wire[TCI_HEAD_BYTES];
    struct tci_frame grant;

    net_recv(&front_net, recv, 0, 1, 9, LARGE);
    front_turn(2);
    assert_int_equal(read(front_peers[1], wire, sizeof(wire)), sizeof(wire));
    assert_null(tci_frame_decode(wire, &grant));
    assert_int_equal(grant.kind, TCI_FRAME_CREDIT);
    return grant;
}

/* A piece of what was granted. */
static void put_piece(const struct tci_frame *grant, uint32_t seq, uint64_t offset, uint32_t length)
{
    static const uint8_t bytes[LARGE];
    struct tci_frame frame = *grant;

    frame.kind = TCI_FRAME_DATA;
    frame.seq = seq;
    frame.ack = grant->offset;
    frame.offset = offset;
    frame.length = length;
    front_put_frame(front_peers[1], &frame);
    front_put(front_peers[1], bytes, length);
}

static void a_piece_that_comes_twice_ends_the_link(void **state)
{
    struct net_message recv;
    struct tci_frame grant;

    (void)state;
    grant = await_large(&recv);
    put_piece(&grant, 0, 0, LARGE / 2 + 1);
    put_piece(&grant, 1, 0, LARGE / 2 + 1);
    lost_because("more than the whole of a message");
    net_wait(&front_net, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_ERR_PEER_LOST);
    net_free(&recv);
}

/* The number of a grant stands in a word with other things: what lies above its bits is no part of
 * the number. */
static void a_piece_of_another_grant_is_dropped(void **state)
{
    struct tci_frame grant, other;
    struct net_message recv;

    (void)state;
    other = grant = await_large(&recv);
    other.offset = grant.offset + (UINT64_C(1) << (64 - TCI_XFER_GRANT_SHIFT));
    put_piece(&other, 0, 0, LARGE);
    net_turns(&front_net, 20);
    assert_int_equal(recv.xfer.status, TC_PENDING);
    assert_int_equal(net_stats(&front_net, 0).strays, 1);
    put_piece(&grant, 1, 0, LARGE);
    net_wait(&front_net, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_OK);
    net_free(&recv);
}

static void a_request_for_a_large_message_ends_the_link(void **state)
{
    struct tci_frame frame = front_frame(TCI_FRAME_WANT, 0);

    (void)state;
    frame.total = LARGE;
    front_put_frame(front_peers[1], &frame);
    lost_because("a request for a large message");
}

static void a_header_may_come_byte_by_byte(void **state)
{
    struct tci_frame frame = front_frame(TCI_FRAME_DATA, 0);
    uint8_t wire[TCI_HEAD_BYTES + 5] = {0};
    struct net_message recv;

    (void)state;
    frame.key.tag = 3;
    frame.length = frame.total = frame.call.count = 5;
    frame.call.root = -1;
    tci_frame_encode(&frame, wire);
    net_recv(&front_net, &recv, 0, 1, 3, 5);
    for (size_t i = 0; i < sizeof(wire); i++) {
        front_put(front_peers[1], wire + i, 1);
        front_turn(1);
    }
    net_wait(&front_net, &recv.xfer);
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
            front_open(NULL);
        for (unsigned i = 0; i < 4; i++) {
            net_recv(&front_net, &recvs[i], 0, 1, i, i * 3000);
            net_send(&front_net, &sends[i], 0, 1, i, i * 3000);
        }
        for (uint32_t seq = 0; seq < 30 && front_net.nodes[0].losses == 0; seq++) {
            uint8_t wire[TCI_HEAD_BYTES + 12000] = {0};
            struct tci_frame frame =
                front_frame((uint8_t)(1 + oracle_random(&seed) % TCI_FRAME_BYE), seq);
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
            (void)send(front_peers[1], wire, TCI_HEAD_BYTES + (size_t)frame.length, MSG_NOSIGNAL);
            if (oracle_random(&seed) % 3 == 0)
                front_turn(1);
        }
        close(front_peers[1]);
        for (unsigned i = 0; i < 4; i++) {
            net_wait(&front_net, &recvs[i].xfer);
            net_wait(&front_net, &sends[i].xfer);
        }
        net_turn_until(&front_net, &front_net.nodes[0].losses, front_net.nodes[0].losses);
        for (unsigned i = 0; i < 4; i++) {
            net_free(&recvs[i]);
            net_free(&sends[i]);
        }
        if (round < 299) {
            front_peers[1] = dup(front_peers[2]);
            front_close(NULL);
        }
    }
    front_peers[1] = dup(front_peers[2]);
}

#define FRONT(test) cmocka_unit_test_setup_teardown(test, front_open, front_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRONT(garbage_ends_the_link),
        FRONT(a_few_bytes_of_garbage_end_the_link),
        FRONT(a_single_strange_byte_ends_the_link),
        FRONT(the_news_of_a_loss_leaves_at_once),
        FRONT(a_gap_ends_the_link),
        FRONT(an_impossible_ack_ends_the_link),
        FRONT(a_greeting_on_a_link_ends_it),
        FRONT(a_small_message_in_pieces_ends_the_link),
        FRONT(a_flood_of_early_messages_ends_the_link),
        FRONT(a_flood_of_credits_ends_the_link),
        FRONT(large_data_that_nobody_granted_is_dropped),
        FRONT(a_piece_that_comes_twice_ends_the_link),
        FRONT(a_piece_of_another_grant_is_dropped),
        FRONT(a_request_for_a_large_message_ends_the_link),
        FRONT(a_header_may_come_byte_by_byte),
        FRONT(mutated_streams_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
