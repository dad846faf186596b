/* test_tcp_burst.c - messages posted together share system calls, and urgent ones wait little. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "net/tcp_link.h"
#include "support/tcp_net.h"
#include "transport_suite.h"

/* As many as a program with a bucket of gradients for each layer has in flight.  How many calls
 * they take depends on the system's buffers; without any gathering it is one each. */
enum { MANY = 64, EAGER = 64 * 1024, CALLS_MAX = MANY / 4 };

/* An urgent message waits for a piece, and what of others is on the way.  Bytes. */
enum { BULK = 4, BULK_BYTES = 8 * 1024 * 1024, LITTLE = 384 * 1024 };
/* Where pieces go beside it: of a turn, which carries pieces only until it has come. */
enum { LEAST = 4 * 64 * 1024, TURNS_MAX = 10000, TRIES = 6 };

static unsigned writes, reads;

/* In place of the system library's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    writes++;
    return syscall(SYS_sendmsg, fd, message, flags);
}

static ssize_t count_read(ssize_t got)
{
    reads += got > 0;
    return got;
}

ssize_t readv(int fd, const struct iovec *iov, int count)
{
    return count_read(syscall(SYS_readv, fd, iov, count));
}

ssize_t recv(int fd, void *to, size_t len, int flags)
{
    return count_read(syscall(SYS_recvfrom, fd, to, len, flags, NULL, NULL));
}

static void pass_together(struct net *net, size_t len)
{
    static struct net_message sends[MANY], recvs[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        net_prepare(&sends[i], true, 1, i, len);
        net_recv(net, &recvs[i], 1, 0, i, len);
    }
    net_turns(net, 3); /* acknowledgements of what was before */
    writes = reads = 0;

    for (unsigned i = 0; i < MANY; i++)
        net_post(net, &sends[i], 0);
    if (MANY * len > 2 * TCI_TCP_GATHERED) /* what is enough for a call does not wait for a turn */
        assert_true(writes > 1);
    for (unsigned i = 0; i < MANY; i++)
        net_finish(net, &sends[i], TC_OK);

    assert_true(writes <= CALLS_MAX);
    for (unsigned i = 0; i < MANY; i++)
        net_finish(net, &recvs[i], TC_OK);
    assert_true(reads <= CALLS_MAX);
}

static void small_messages_of_one_turn_leave_and_come_together(void **state)
{
    static const size_t lens[] = {4, 1024, 4096, 4100};
    struct net net;

    (void)state;
    net_open(&net, 2, EAGER);
    net_exchange(&net, 8, 1000); /* the link stands */
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++)
        pass_together(&net, lens[i]);
    net_close(&net);
}

/* Large messages both ways, many enough that they do not end before the test does. */
static void post_bulk(struct net *net, struct net_message *sends, struct net_message *recvs)
{
    for (unsigned i = 0; i < BULK; i++) {
        uint32_t from = i % 2;

        net_recv(net, &recvs[i], 1 - from, from, 100 + i, BULK_BYTES);
        net_send(net, &sends[i], from, 1 - from, 100 + i, BULK_BYTES);
    }
}

/* What rank 1 has received while one urgent message came to it. */
static uint64_t overtaken_by(struct net *net, uint64_t tag)
{
    struct net_message send, recv;
    uint64_t before = net_stats(net, 1).bytes_received, after;

    net_prepare(&recv, false, 0, tag, 4096);
    net_prepare(&send, true, 1, tag, 4096);
    recv.xfer.priority = send.xfer.priority = 10;
    net_post(net, &recv, 1);
    net_post(net, &send, 0);
    net_wait(net, &recv.xfer);
    after = net_stats(net, 1).bytes_received;
    net_finish(net, &recv, TC_OK);
    net_finish(net, &send, TC_OK);
    return after - before;
}

static void an_urgent_message_waits_for_little_where_one_was_before(void **state)
{
    static struct net_message sends[BULK], recvs[BULK];
    struct net net;

    (void)state;
    net_open(&net, 2, EAGER);
    net_exchange(&net, 8, 1000);
    post_bulk(&net, sends, recvs);
    net_turns(&net, 2);
    (void)overtaken_by(&net, 1);
    net_turns(&net, 2);

    for (uint64_t tag = 2; tag < 6; tag++)
        assert_true(overtaken_by(&net, tag) <= LITTLE);
    assert_int_equal(recvs[BULK - 1].xfer.status, TC_PENDING);

    for (unsigned i = 0; i < BULK; i++) {
        net_finish(&net, &sends[i], TC_OK);
        net_finish(&net, &recvs[i], TC_OK);
    }
    net_close(&net);
}

static void until_sides_stand(struct net *net)
{
    for (int i = 0; i < TURNS_MAX; i++) {
        if (net_stats(net, 0).sides_open == 1 && net_stats(net, 1).sides_open == 1)
            return;
        net_turns(net, 1);
    }
    fail_msg("no further connection stands");
}

static void pieces_go_beside_what_is_urgent(void **state)
{
    static struct net_message sends[BULK], recvs[BULK];
    struct net net;
    uint64_t beside;

    (void)state;
    net_open(&net, 2, EAGER);
    net_exchange(&net, 8, 1000);
    net_exchange(&net, EAGER + 1, 1001);
    assert_int_equal(net_stats(&net, 0).sides_open, 0);
    (void)overtaken_by(&net, 1);
    net_exchange(&net, BULK_BYTES, 1002);
    until_sides_stand(&net);
    post_bulk(&net, sends, recvs);
    net_turns(&net, 2);

    for (uint64_t tag = 2; tag < 6; tag++)
        assert_true(overtaken_by(&net, tag) <= LEAST);
    assert_int_equal(recvs[BULK - 1].xfer.status, TC_PENDING);
    for (unsigned i = 0; i < BULK; i++) {
        net_finish(&net, &sends[i], TC_OK);
        net_finish(&net, &recvs[i], TC_OK);
    }
    beside = net_stats(&net, 0).bytes_beside;
    assert_true(beside > BULK / 2 * BULK_BYTES);

    /* Alone again they have the main connection. */
    for (uint64_t i = 0; i < TCI_TCP_SHORT_FOR; i++)
        net_exchange(&net, EAGER + 1, 10 + i);
    beside = net_stats(&net, 0).bytes_beside;
    net_exchange(&net, BULK_BYTES, 2000);
    assert_in_range(net_stats(&net, 0).bytes_beside - beside, 0, 64 * 1024); /* acknowledgements */
    net_close(&net);
}

/* It begins over one and ends over another: its sender waits for the word of both. */
static void a_message_is_acknowledged_over_all_connections_that_carried_it(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < TRIES; i++) {
        struct net net;

        net_open(&net, 2, EAGER);
        net_exchange(&net, 8, 1000);
        net_exchange(&net, EAGER + 1, 1);
        (void)overtaken_by(&net, 2);
        net_exchange(&net, BULK_BYTES, 3);
        until_sides_stand(&net);
        net_close(&net);
    }
}

static size_t turn_bytes(const struct net *net, uint32_t rank)
{
    return tci_tcp_turn_bytes(tci_tcp_of(net->nodes[rank].transport));
}

/* On both sides, also where one of them does nothing but receive. */
static void turns_are_short_for_so_many_large_messages_alone(void **state)
{
    struct net net;

    (void)state;
    net_open(&net, 2, EAGER);
    net_exchange(&net, EAGER + 1, 1); /* how urgent large ones are */
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(turn_bytes(&net, r), TCI_TCP_TURN);
    (void)overtaken_by(&net, 2);
    net_exchange(&net, EAGER + 1, 3);
    for (uint32_t r = 0; r < 2; r++)
        assert_in_range(turn_bytes(&net, r), TCI_TCP_SHORT, 2 * TCI_TCP_SHORT);
    for (uint64_t i = 0; i < TCI_TCP_SHORT_FOR; i++)
        net_exchange(&net, EAGER + 1, 10 + i);
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(turn_bytes(&net, r), TCI_TCP_TURN);
    net_close(&net);
}

int main(void)
{
    static const struct net_subject subject = {"tcp", tcp_net_open};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_messages_of_one_turn_leave_and_come_together),
        cmocka_unit_test(an_urgent_message_waits_for_little_where_one_was_before),
        cmocka_unit_test(pieces_go_beside_what_is_urgent),
        cmocka_unit_test(a_message_is_acknowledged_over_all_connections_that_carried_it),
        cmocka_unit_test(turns_are_short_for_so_many_large_messages_alone),
    };

    net_subject = &subject;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
