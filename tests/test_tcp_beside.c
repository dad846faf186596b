/* test_tcp_beside.c - pieces go beside the main connection, one turn of a connection at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/tcp_link.h"
#include "support/tcp_net.h"
#include "transport_suite.h"

enum { EAGER = 64 * 1024, LARGE = EAGER + 1, PIECE = TCI_TCP_SHORT };

/* Two further connections that carry at any time; or, with none, the one that is made when urgent
 * messages and large ones go at the same time. */
static void open_several(struct net *net, size_t eager_bytes)
{
    net->context.config.connections = 3;
    tcp_net_open(net, eager_bytes);
}

static const struct net_subject one = {"tcp", tcp_net_open}, several = {"several", open_several};

static struct tci_tcp *tcp_of(const struct net *net, uint32_t rank)
{
    return tci_tcp_of(net->nodes[rank].transport);
}

static struct tci_link *main_of(const struct net *net, uint32_t rank)
{
    return tcp_of(net, rank)->links[1 - rank];
}

static void begin(struct net *net, const struct net_subject *subject)
{
    net_subject = subject;
    net_open(net, 2, EAGER);
    net_exchange(net, LARGE, 1); /* the link stands, and how urgent large ones are is known */
}

static void post_urgent(struct net *net, struct net_message *message, uint32_t rank, bool is_send)
{
    net_prepare(message, is_send, 1 - rank, 2, 8);
    message->xfer.priority = 10;
    net_post(net, message, rank);
}

static void pass_urgent(struct net *net)
{
    struct net_message send, recv;

    post_urgent(net, &recv, 1, false);
    post_urgent(net, &send, 0, true);
    net_finish(net, &recv, TC_OK);
    net_finish(net, &send, TC_OK);
}

static void until_sides_stand(struct net *net, uint32_t count)
{
    uint64_t end_ns = tci_loop_clock() + 60 * TCI_NS_PER_S;

    while (net_stats(net, 0).sides_open < count || net_stats(net, 1).sides_open < count) {
        assert_true(tci_loop_clock() < end_ns);
        net_turn(net);
    }
}

/* What was written over a connection of one rank is read by the other, without a turn of the loop.
 * Within one host it comes at once. */
static void await_input(const struct tci_link *link)
{
    struct pollfd wait = {.fd = link->fd, .events = POLLIN};

    assert_int_equal(poll(&wait, 1, 60000), 1);
}

static void read_some(struct tci_link *link)
{
    await_input(link);
    (void)tci_link_read(link);
}

/* A large message is granted, and has not begun. */
static void post_large(struct net *net, uint32_t from, struct net_message *send,
                       struct net_message *recv, size_t len)
{
    net_send(net, send, from, 1 - from, 3, len);
    net_recv(net, recv, 1 - from, from, 3, len);
    (void)tci_link_flush(main_of(net, 1 - from));
    while (tci_list_is_empty(&main_of(net, from)->flows))
        read_some(main_of(net, from));
}

/* A piece goes over a further connection, in one call. */
static void write_piece(struct tci_link *side)
{
    uint32_t frames = side->seq_out;
    int room = 256 * 1024;

    (void)setsockopt(side->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    (void)tci_link_flush(side);
    assert_int_equal(side->seq_out, frames + 1);
}

/* What rank 1 sends while something is written over a connection, once. */
static struct meanwhile {
    struct net *net;
    struct net_message *message; /* NULL: nothing */
    int fd;
} meanwhile;

/* In place of the system library's. */
ssize_t sendmsg(int fd, const struct msghdr *text, int flags)
{
    struct net_message *message = meanwhile.message;

    if (message != NULL && fd == meanwhile.fd) {
        meanwhile.message = NULL;
        net_post(meanwhile.net, message, 1);
        (void)tci_link_flush(main_of(meanwhile.net, 1));
        await_input(main_of(meanwhile.net, 0));
    }
    return syscall(SYS_sendmsg, fd, text, flags);
}

static uint64_t beside(const struct net *net)
{
    return net_stats(net, 0).bytes_beside;
}

/* The last piece comes first, over a connection that was read before that of the other one: the
 * sender is told then and there that it has come whole. */
static void a_message_is_whole_with_any_of_its_pieces(void **state)
{
    struct net_message send, recv;
    struct tci_link **from, **to;
    struct net net;

    (void)state;
    begin(&net, &several);
    until_sides_stand(&net, 2);
    pass_urgent(&net);
    from = main_of(&net, 0)->sides, to = main_of(&net, 1)->sides;
    post_large(&net, 0, &send, &recv, 2 * PIECE);
    for (int i = 0; i < 2; i++)
        write_piece(from[i]);

    while (recv.xfer.room[TCI_ROOM_DONE] < PIECE)
        read_some(to[1]);
    while (recv.xfer.room[TCI_ROOM_DONE] < 2 * PIECE)
        read_some(to[0]);

    assert_int_equal(to[0]->received_told, to[0]->received);
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
    net_close(&net);
}

/* Pieces go beside what is urgent, and the next turn is the first; gives rank 0's. */
static struct tci_tcp *begin_urgent(struct net *net)
{
    struct tci_tcp *tcp;

    begin(net, &several);
    until_sides_stand(net, 2);
    pass_urgent(net);
    tcp = tcp_of(net, 0);
    do
        net_turn(net);
    while (tcp->first_turns > 0);
    return tcp;
}

/* One small message a turn, so many turns of these alone; then pieces have theirs, and so on. */
static void a_stream_of_small_messages_leaves_pieces_a_turn(void **state)
{
    enum { ROUND = TCI_TCP_FIRST_MAX + 1, SMALL = 2 * ROUND };
    struct net_message small[SMALL], small_in[SMALL], send, recv;
    struct tci_tcp *tcp;
    struct net net;

    (void)state;
    tcp = begin_urgent(&net);
    post_large(&net, 0, &send, &recv, 8 * PIECE); /* more than two turns take */
    for (uint64_t i = 0; i < SMALL; i++) {
        uint64_t before = beside(&net);

        net_recv(&net, &small_in[i], 0, 1, 10 + i, 8);
        net_send(&net, &small[i], 1, 0, 10 + i, 8);
        (void)tci_link_flush(main_of(&net, 1));
        await_input(main_of(&net, 0));
        assert_true(tci_tcp_poll(&tcp->source, 64) > 0);
        assert_int_equal(small_in[i].xfer.status, TC_OK);
        assert_int_equal(beside(&net) > before, i % ROUND == ROUND - 1);
    }
    for (int i = 0; i < SMALL; i++) {
        net_finish(&net, &small[i], TC_OK);
        net_finish(&net, &small_in[i], TC_OK);
    }
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
    net_close(&net);
}

/* A small message comes while rank 0 writes a piece, and pieces from rank 1 have come already. */
static void what_comes_while_a_piece_is_written_is_carried_on_with_first(void **state)
{
    struct net_message send, recv, back, back_in, small, small_in;
    struct tci_tcp *tcp;
    struct net net;

    (void)state;
    tcp = begin_urgent(&net);
    post_large(&net, 1, &back, &back_in, 2 * PIECE);
    for (int i = 0; i < 2; i++) {
        write_piece(main_of(&net, 1)->sides[i]);
        await_input(main_of(&net, 0)->sides[i]);
    }
    post_large(&net, 0, &send, &recv, 2 * PIECE);
    net_recv(&net, &small_in, 0, 1, 4, 8);
    net_prepare(&small, true, 0, 4, 8);
    (void)tci_link_read(main_of(&net, 0)); /* nothing else is left there */

    meanwhile = (struct meanwhile){&net, &small, main_of(&net, 0)->sides[0]->fd};
    (void)tci_tcp_poll(&tcp->source, 64);

    assert_null(meanwhile.message);
    assert_int_equal(small_in.xfer.status, TC_OK);
    assert_int_equal(back_in.xfer.room[TCI_ROOM_DONE], 0);
    net_finish(&net, &small, TC_OK);
    net_finish(&net, &small_in, TC_OK);
    net_finish(&net, &back, TC_OK);
    net_finish(&net, &back_in, TC_OK);
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
    net_close(&net);
}

/* It began while nothing was more urgent, over the main connection alone. */
static void what_has_begun_goes_on_beside_once_something_is_urgent(void **state)
{
    struct net_message send, recv, urgent, urgent_in;
    struct tci_tcp *tcp;
    struct net net;
    uint64_t before;

    (void)state;
    begin(&net, &one);
    pass_urgent(&net);
    net_exchange(&net, LARGE, 5);
    until_sides_stand(&net, 1);
    tcp = tcp_of(&net, 0);
    for (uint64_t i = 0; tcp->short_for > 0; i++)
        net_exchange(&net, LARGE, 10 + i);
    post_large(&net, 0, &send, &recv, 4 * TCI_TCP_SEGMENT);
    (void)tci_link_flush(main_of(&net, 0));
    assert_false(tci_list_is_empty(&main_of(&net, 0)->flows));
    before = beside(&net);

    post_urgent(&net, &urgent_in, 1, false);
    post_urgent(&net, &urgent, 0, true);
    (void)tci_tcp_poll(&tcp->source, 64);

    assert_true(beside(&net) >= before + PIECE);
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
    net_finish(&net, &urgent, TC_OK);
    net_finish(&net, &urgent_in, TC_OK);
    net_close(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_whole_with_any_of_its_pieces),
        cmocka_unit_test(a_stream_of_small_messages_leaves_pieces_a_turn),
        cmocka_unit_test(what_comes_while_a_piece_is_written_is_carried_on_with_first),
        cmocka_unit_test(what_has_begun_goes_on_beside_once_something_is_urgent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
