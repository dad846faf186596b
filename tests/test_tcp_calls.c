/* test_tcp_calls.c - too many calls to connect neither fill memory nor take descriptors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/base.h"
#include "net/frame.h"
#include "net/tcp_link.h"
#include "support/tcp_net.h"

/* One rank of three is real; its links with the others are descriptors in the hands of the test,
 * and nobody accepts what comes to the address of rank 0. */
enum { SIZE = 3, EAGER = 4096 };
static int peers[SIZE], door;
static struct net net;

static void open_rank(struct net *one, size_t eager_bytes, uint32_t rank)
{
    struct tci_boot_result result = {.rank = rank, .size = SIZE, .agreed.eager_bytes = eager_bytes};
    struct tci_addr own;
    struct tci_error error = {0};

    memset(result.group_id, 0x5a, TCI_GROUP_ID);
    result.fds = tci_alloc_array(SIZE, sizeof(int));
    result.addrs = tci_alloc_array(SIZE, sizeof(struct tci_addr));
    door = tcp_net_listen(&result.addrs[0]);
    result.listener = tcp_net_listen(&own);
    for (uint32_t r = 0; r < SIZE; r++) {
        int pair[2] = {-1, -1};

        if (r != rank)
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        result.fds[r] = pair[0];
        peers[r] = pair[1];
    }
    one->nodes[0].transport = tci_tcp_open(one->loop, &one->context, &result, &error);
    tci_free(result.fds);
}

static void open_root(struct net *one, size_t eager_bytes)
{
    open_rank(one, eager_bytes, 0);
}

static void open_other(struct net *one, size_t eager_bytes)
{
    open_rank(one, eager_bytes, 1);
}

static const struct tci_tcp *start(const struct net_subject *subject)
{
    net_subject = subject;
    net_open(&net, 1, EAGER);
    return (const struct tci_tcp *)net.nodes[0].transport;
}

static int close_all(void **state)
{
    (void)state;
    net_close(&net);
    for (int r = 0; r < SIZE; r++)
        if (peers[r] >= 0)
            close(peers[r]);
    close(door);
    return 0;
}

/* `count` calls of one rank to another over a link; those of pipes have a number. */
static void flood(int fd, uint32_t from, uint32_t to, uint32_t count, bool is_of_pipes)
{
    struct tci_frame call = {.kind = TCI_FRAME_CALL, .offset = tci_way_encode(from, to)};
    uint8_t wire[TCI_HEAD_BYTES];

    for (call.seq = 0; call.seq < count; call.seq++) {
        call.key.tag = is_of_pipes ? call.seq + 1 : 0;
        tci_frame_encode(&call, wire);
        while (send(fd, wire, sizeof(wire), MSG_NOSIGNAL) < 0)
            net_turn(&net);
        if (call.seq % 16 == 0)
            net_turn(&net);
    }
    for (int i = 0; i < 100; i++)
        net_turn(&net);
}

/* Rank 2 does not read, and rank 0 keeps what it passes on. */
static void calls_are_not_passed_on_without_end(void **state)
{
    static const struct net_subject subject = {"tcp", open_root};
    const struct tci_tcp *tcp = start(&subject);

    (void)state;
    flood(peers[1], 1, 2, 20000, false);

    assert_int_equal(net.nodes[0].losses, 0);
    assert_int_equal(tcp->links[2]->calls_passed, SIZE);
    assert_true(tci_log_kept(&tcp->links[2]->log) <= (uint64_t)SIZE * TCI_HEAD_BYTES);
}

static void calls_do_not_take_all_descriptors(void **state)
{
    static const struct net_subject subject = {"tcp", open_other};
    const struct tci_tcp *tcp = start(&subject);
    unsigned count = 0;

    (void)state;
    flood(peers[0], 2, 1, 1000, true);

    for (const struct tci_list *at = tcp->knocks.next; at != &tcp->knocks; at = at->next)
        count++;
    assert_int_equal(count, TCI_TCP_PIPES_SAME);
    assert_int_equal(net.nodes[0].losses, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(calls_are_not_passed_on_without_end, close_all),
        cmocka_unit_test_teardown(calls_do_not_take_all_descriptors, close_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
