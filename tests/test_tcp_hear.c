/* test_tcp_hear.c - whether a host is heard is asked of the kernel: a loop may be late. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "loop/loop.h"
#include "loop/state.h"
#include "net/tcp_link.h"
#include "support/tcp_net.h"

/* Rank 1 of two; of rank 0 there is only the kernel of its host, as if it were stopped. */
enum { SIZE = 2, EAGER = 4096 };
static int door;
static struct net net;

static void open_rank(struct net *one, size_t eager_bytes)
{
    struct tci_boot_result result = {.rank = 1, .size = SIZE, .agreed.eager_bytes = eager_bytes};
    struct tci_addr own;
    struct tci_error error = {0};

    memset(result.group_id, 0x5a, TCI_GROUP_ID);
    result.fds = tci_alloc_array(SIZE, sizeof(int));
    result.addrs = tci_alloc_array(SIZE, sizeof(struct tci_addr));
    for (int r = 0; r < SIZE; r++)
        result.fds[r] = -1;
    door = tcp_net_listen(&result.addrs[0]);
    result.listener = tcp_net_listen(&own);
    one->nodes[0].transport = tci_tcp_open(one->loop, &one->context, &result, &error);
    tci_free(result.fds);
}

/* Rank 1 has a message for rank 0, and so dials it. */
static struct tci_link *open_dialing(struct net_message *message)
{
    static const struct net_subject subject = {"tcp", open_rank};

    net_subject = &subject;
    net_open(&net, 1, EAGER);
    net_prepare(message, true, 0, 7, 100);
    net_post(&net, message, 0);
    return ((const struct tci_tcp *)net.nodes[0].transport)->links[0];
}

static void close_dialing(struct net_message *message)
{
    net_close(&net);
    net_free(message);
    close(door);
}

/* As a process that is stopped does: who waits for it has a deadline that names it. */
static void who_accepts_and_says_nothing_is_waited_for(void **state)
{
    struct net_message message;
    struct tci_link *link = open_dialing(&message);

    (void)state;
    for (int i = 0; i < 100 && !link->has_greeted; i++) {
        assert_int_equal(poll(NULL, 0, 10), 0);
        net_turns(&net, 1);
    }
    assert_true(link->has_greeted);
    assert_int_equal(poll(NULL, 0, 100), 0); /* an acknowledgement takes 40 ms at most */
    for (int i = 0; i < 3; i++) {
        link->deadline_ns = 1;
        tci_link_on_dial_timer(&link->timer);
        assert_int_equal(link->state, TCI_LINK_DIALING);
        assert_true(link->deadline_ns > tci_loop_clock());
    }

    link->has_connected = false; /* as if nobody had accepted */
    link->deadline_ns = 1;
    tci_link_on_dial_timer(&link->timer);
    assert_int_equal(link->state, TCI_LINK_DOWN);
    close_dialing(&message);
}

static void a_host_that_has_accepted_is_heard_before_the_loop_has_turned(void **state)
{
    struct net_message message;
    const struct tci_link *link = open_dialing(&message);

    (void)state;
    assert_int_equal(link->state, TCI_LINK_DIALING);
    assert_int_equal(poll(&(struct pollfd){.fd = door, .events = POLLIN}, 1, -1), 1);
    /* Longer than an answer may take. */
    assert_int_equal(poll(NULL, 0, 150), 0);
    assert_false(link->has_connected);
    assert_int_equal(tci_tcp_hear(net.nodes[0].transport, 0, 0), TCI_HEAR_HOST);
    close_dialing(&message);
}

static const struct net_subject two = {"tcp", tcp_net_open};

static void pass_ms(int ms)
{
    assert_int_equal(poll(NULL, 0, ms), 0);
    net.loop->is_now_stale = true;
}

/* Rank 1 takes as long for an acknowledgement as its kernel may: 40 ms. */
static void say_to_slow(struct net_message *message, uint64_t tag)
{
    static const int off = 0;
    const struct tci_link *peer = ((const struct tci_tcp *)net.nodes[1].transport)->links[0];

    assert_int_equal(setsockopt(peer->fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off)), 0);
    net_prepare(message, true, 1, tag, 100);
    net_post(&net, message, 0);
}

/* The first look, which comes later than what is asked for, has nothing to compare with. */
static enum tci_hearing hear_after(int ms)
{
    struct tci_transport *rank = net.nodes[0].transport;
    uint64_t begin_ns = tci_loop_clock() - 1;
    struct net_message message;
    enum tci_hearing hearing;

    net_exchange(&net, 100, 1);
    net.loop->is_now_stale = true;
    (void)tci_tcp_hear(rank, 1, begin_ns);
    say_to_slow(&message, 2);
    pass_ms(ms);
    hearing = tci_tcp_hear(rank, 1, begin_ns);
    pass_ms(50);
    net_turns(&net, 3);
    net_free(&message);
    return hearing;
}

/* On a machine that is busy it may have come by then, again and again. */
static void whether_an_answer_that_may_yet_come_will_come_is_not_known(void **state)
{
    enum tci_hearing hearing = TCI_HEAR_HOST;

    (void)state;
    net_subject = &two;
    for (int i = 0; i < 40 && hearing != TCI_HEAR_TOO_SOON; i++) {
        net_open(&net, SIZE, EAGER);
        hearing = hear_after(5);
        assert_true(hearing >= TCI_HEAR_TOO_SOON);
        net_close(&net);
    }
    assert_int_equal(hearing, TCI_HEAR_TOO_SOON);
}

/* It owes an answer to what was said last, and has given one before. */
static void who_has_answered_since_is_heard(void **state)
{
    enum tci_hearing later = TCI_HEAR_HOST;

    (void)state;
    net_subject = &two;
    net_open(&net, SIZE, EAGER);
    for (uint64_t tag = 1; tag < 80 && later != TCI_HEAR_TOO_SOON; tag += 2) {
        struct tci_transport *rank = net.nodes[0].transport;
        const struct tci_link *link = ((const struct tci_tcp *)rank)->links[1];
        uint64_t begin_ns = tci_loop_clock();
        struct net_message messages[2];
        enum tci_hearing hearing;

        (void)tci_tcp_hear(rank, 1, begin_ns);
        say_to_slow(&messages[0], tag);
        do {
            pass_ms(50);
            (void)tci_tcp_hear(rank, 1, begin_ns);
        } while (link->heard.acked_ns <= begin_ns);
        net_turns(&net, 3);
        say_to_slow(&messages[1], tag + 1);
        pass_ms(5);
        hearing = tci_tcp_hear(rank, 1, begin_ns);
        later = tci_tcp_hear(rank, 1, link->heard.acked_ns);
        assert_true(hearing >= TCI_HEAR_HOST);
        pass_ms(50);
        (void)tci_tcp_hear(rank, 1, begin_ns);
        net_turns(&net, 3);
        net_free(&messages[0]);
        net_free(&messages[1]);
    }
    assert_int_equal(later, TCI_HEAR_TOO_SOON);
    net_close(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whether_an_answer_that_may_yet_come_will_come_is_not_known),
        cmocka_unit_test(who_has_answered_since_is_heard),
        cmocka_unit_test(a_host_that_has_accepted_is_heard_before_the_loop_has_turned),
        cmocka_unit_test(who_accepts_and_says_nothing_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
