/* transport_ends.c - how transfers and links end: aborted, lost, closed, left. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/base.h"
#include "transport_suite.h"

enum { EAGER = 65536, MIB = 1 << 20 };

static struct net net;

static int open_two(void **state)
{
    (void)state;
    net_open(&net, 2, EAGER);
    return 0;
}

static int open_four(void **state)
{
    (void)state;
    net_open(&net, 4, EAGER);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    net_close(&net);
    return 0;
}

static void turn(int times)
{
    net_turns(&net, times);
}

static void finish(struct net_message *message, tc_status_t status)
{
    net_finish(&net, message, status);
}

/* ---- Abort ---- */

static void abort_both(uint64_t tag)
{
    struct tci_key key = {.tag = tag, .use = 1};

    for (int r = 0; r < 2; r++)
        net_abort(&net, r, &key);
}

/* At once, or as soon as no device touches its memory any more. */
static void is_cancelled(const struct net_message *message)
{
    net_wait(&net, &message->xfer);
    assert_int_equal(message->xfer.status, TC_ERR_CANCELLED);
}

static void works_again(uint64_t tag, size_t len)
{
    struct net_message send, recv;

    net_prepare(&recv, false, 0, tag, len);
    net_prepare(&send, true, 1, tag, len);
    recv.xfer.key.use = send.xfer.key.use = 2;
    net_post(&net, &recv, 1);
    net_post(&net, &send, 0);
    finish(&send, TC_OK);
    finish(&recv, TC_OK);
}

static void transfers_that_wait_are_aborted(void **state)
{
    struct net_message send, recv, early;

    (void)state;
    net_send(&net, &send, 0, 1, 1, MIB);
    net_recv(&net, &recv, 1, 0, 2, MIB);
    net_prepare(&early, true, 1, 1, 10);
    early.xfer.key.step = 1;
    net_post(&net, &early, 0);
    net_turn_until_held(&net, 1, 10);
    abort_both(1);
    assert_int_equal(send.xfer.status, TC_ERR_CANCELLED);
    assert_int_equal(recv.xfer.status, TC_PENDING);
    abort_both(2);
    is_cancelled(&recv);
    turn(3);
    assert_int_equal(net_stats(&net, 1).eager_bytes, 0);
    finish(&send, TC_ERR_CANCELLED);
    finish(&recv, TC_ERR_CANCELLED);
    finish(&early, TC_OK);
    works_again(1, MIB);
    works_again(2, 10);
    works_again(2, MIB);
}

static void a_send_in_the_middle_is_aborted(void **state)
{
    struct tci_key key = {.tag = 1, .use = 1};
    struct net_message send, recv;

    (void)state;
    net_recv(&net, &recv, 1, 0, 1, 64 * MIB);
    net_send(&net, &send, 0, 1, 1, 64 * MIB);
    while (net_stats(&net, 1).bytes_received < MIB)
        turn(1);
    net_abort(&net, 0, &key);
    is_cancelled(&send);
    memset(send.bytes, 0xaa, send.xfer.len);
    finish(&send, TC_ERR_CANCELLED);
    works_again(2, 3 * MIB);
    assert_int_equal(recv.xfer.status, TC_PENDING);
    abort_both(1);
    is_cancelled(&recv);
    finish(&recv, TC_ERR_CANCELLED);
    works_again(1, 3 * MIB);
}

static void a_receive_in_the_middle_is_aborted(void **state)
{
    struct tci_key key = {.tag = 1, .use = 1};
    struct net_message send, recv;

    (void)state;
    net_recv(&net, &recv, 1, 0, 1, 64 * MIB);
    net_send(&net, &send, 0, 1, 1, 64 * MIB);
    while (net_stats(&net, 1).bytes_received < MIB)
        turn(1);
    net_abort(&net, 1, &key);
    is_cancelled(&recv);
    finish(&recv, TC_ERR_CANCELLED);
    finish(&send, TC_OK);
    works_again(1, 3 * MIB);
}

/* The receive of a use that has failed at the sender stays empty; the next use's gets it. */
static void a_message_of_a_later_use_waits_for_it(void **state)
{
    static const size_t some[] = {10, MIB};
    struct tci_key key = {.tag = 1, .use = 1};

    (void)state;
    for (unsigned i = 0; i < TCI_LEN(some); i++) {
        struct net_message old, send, recv;

        net_recv(&net, &old, 1, 0, 1, some[i]);
        turn(3);
        net_abort(&net, 0, &key);
        net.nodes[0].refuses = true; /* what still comes of that use */
        net_prepare(&send, true, 1, 1, some[i]);
        net_prepare(&recv, false, 0, 1, some[i]);
        send.xfer.key.use = recv.xfer.key.use = 2;
        net_post(&net, &send, 0);
        turn(5);
        assert_int_equal(old.xfer.status, TC_PENDING);
        net_abort(&net, 1, &key);
        net_post(&net, &recv, 1);
        finish(&old, TC_ERR_CANCELLED);
        finish(&send, TC_OK);
        finish(&recv, TC_OK);
        net.nodes[0].refuses = false;
    }
}

/* ---- Notices and ends ---- */

static void notices_arrive_as_they_were(void **state)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_END,
                                .status = TC_ERR_TIMEOUT,
                                .culprit = 1,
                                .arg = 77,
                                .key = {.tag = 5, .group = 3, .space = TCI_SPACE_P2P_DOWN},
                                .call = {.count = 9, .root = 2}};

    (void)state;
    memset(notice.text, 'x', sizeof(notice.text) - 1);
    net.nodes[2].transport->ops->notify(net.nodes[2].transport, 1, &notice, true);
    net_turn_until(&net, &net.nodes[1].notices, 1);
    assert_memory_equal(&net.nodes[1].notice.text, &notice.text, sizeof(notice.text));
    assert_int_equal(net.nodes[1].notice.status, TC_ERR_TIMEOUT);
    assert_int_equal(net.nodes[1].notice.arg, 77);
    assert_int_equal(net.nodes[1].notice.key.space, TCI_SPACE_P2P_DOWN);
    assert_int_equal(net.nodes[1].notice.call.count, 9);
}

static bool is_of_group_2(void *arg, uint32_t peer, const struct tci_key *key,
                          const struct tci_call *call)
{
    unsigned *asked = arg;

    assert_int_equal(peer, 0);
    assert_int_equal(call->count, 10);
    *asked += 1;
    return key->group == 2;
}

static void what_a_review_refuses_is_dropped(void **state)
{
    struct net_message sends[4], recv;
    struct tci_transport *transport = net.nodes[1].transport;
    unsigned asked = 0;

    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        net_prepare(&sends[i], true, 1, i, 10);
        sends[i].xfer.key.group = 1 + i % 2;
        net_post(&net, &sends[i], 0);
        finish(&sends[i], TC_OK);
    }
    net_turn_until_held(&net, 1, 40);

    transport->ops->review(transport, is_of_group_2, &asked);

    assert_int_equal(asked, 4);
    assert_int_equal(net_stats(&net, 1).eager_bytes, 20);
    net_prepare(&recv, false, 0, 3, 10);
    recv.xfer.key.group = 2;
    net_post(&net, &recv, 1);
    finish(&recv, TC_OK);
    assert_int_equal(net_stats(&net, 1).eager_bytes, 10);
}

static void a_link_ends_alone_when_both_have_left_it(void **state)
{
    struct net_message send, recv;
    uint64_t tag = 1;

    (void)state;
    net_recv(&net, &recv, 0, 1, tag, 3 * MIB);
    net_send(&net, &send, 1, 0, tag, 3 * MIB);
    turn(3);
    net.nodes[1].transport->ops->leave_peer(net.nodes[1].transport, 0);
    finish(&send, TC_OK); /* the goodbye is behind it */
    finish(&recv, TC_OK);
    net.nodes[0].transport->ops->leave_peer(net.nodes[0].transport, 1);
    net.nodes[0].transport->ops->leave_peer(net.nodes[0].transport, 2); /* never linked, perhaps */
    for (uint32_t r = 2; r < 4; r++) {
        net_recv(&net, &recv, r, 1, tag, 10);
        net_send(&net, &send, 1, r, tag, 10);
        finish(&send, TC_OK);
        finish(&recv, TC_OK);
    }
    for (int r = 0; r < 4; r++)
        net.nodes[r].transport->ops->leave(net.nodes[r].transport);
    for (int r = 0; r < 4; r++) {
        net_turn_until(&net, &net.nodes[r].lefts, 1);
        assert_int_equal(net.nodes[r].losses, 0);
    }
}

static void a_peer_that_closes_is_lost(void **state)
{
    struct net_message send, recv, late;

    (void)state;
    net_send(&net, &send, 0, 1, 1, MIB);
    net_recv(&net, &recv, 0, 1, 2, 10);
    turn(3);
    net.nodes[1].transport->ops->close(net.nodes[1].transport);
    net.nodes[1].transport = NULL;
    finish(&send, TC_ERR_PEER_LOST);
    finish(&recv, TC_ERR_PEER_LOST);
    net_turn_until(&net, &net.nodes[0].losses, 1);
    assert_int_equal(net.nodes[0].lost_peer, 1);
    assert_int_equal(net.nodes[0].error.pub.status, TC_ERR_PEER_LOST);
    assert_non_null(strstr(net.nodes[0].error.pub.message, "rank 1 has closed its connection"));
    net_send(&net, &late, 0, 1, 3, 10);
    finish(&late, TC_ERR_PEER_LOST);
    turn(3);
    assert_int_equal(net.nodes[0].losses, 1);
}

static void peers_that_say_goodbye_are_no_loss(void **state)
{
    struct net_message send, recv;

    (void)state;
    net_recv(&net, &recv, 3, 2, 1, 3 * MIB);
    net_send(&net, &send, 2, 3, 1, 3 * MIB);
    for (int r = 0; r < 4; r++)
        net.nodes[r].transport->ops->leave(net.nodes[r].transport);
    for (int r = 0; r < 4; r++)
        net_turn_until(&net, &net.nodes[r].lefts, 1);
    finish(&recv, TC_OK);
    finish(&send, TC_OK);
    for (int r = 0; r < 3; r++) {
        net.nodes[r].transport->ops->close(net.nodes[r].transport);
        net.nodes[r].transport = NULL;
        turn(3);
    }
    for (int r = 0; r < 4; r++) {
        assert_int_equal(net.nodes[r].losses, 0);
        assert_int_equal(net.nodes[r].lefts, 1);
    }
}

static void closing_completes_what_is_live(void **state)
{
    struct net_message m[4];

    (void)state;
    net_send(&net, &m[0], 0, 1, 1, MIB);
    net_recv(&net, &m[1], 0, 1, 2, 10);
    net_send(&net, &m[2], 0, 0, 3, 10);
    net_recv(&net, &m[3], 0, 0, 4, MIB);
    net.nodes[0].transport->ops->close(net.nodes[0].transport);
    net.nodes[0].transport = NULL;
    for (int i = 0; i < 4; i++)
        finish(&m[i], TC_ERR_CLOSED);
}

#define WITH_TWO(test)  cmocka_unit_test_setup_teardown(test, open_two, close_all)
#define WITH_FOUR(test) cmocka_unit_test_setup_teardown(test, open_four, close_all)

const struct CMUnitTest transport_ends[] = {
    WITH_TWO(transfers_that_wait_are_aborted),
    WITH_TWO(a_send_in_the_middle_is_aborted),
    WITH_TWO(a_receive_in_the_middle_is_aborted),
    WITH_TWO(a_message_of_a_later_use_waits_for_it),
    WITH_FOUR(notices_arrive_as_they_were),
    WITH_TWO(what_a_review_refuses_is_dropped),
    WITH_FOUR(a_link_ends_alone_when_both_have_left_it),
    WITH_TWO(a_peer_that_closes_is_lost),
    WITH_FOUR(peers_that_say_goodbye_are_no_loss),
    WITH_TWO(closing_completes_what_is_live),
};
const size_t transport_ends_count = TCI_LEN(transport_ends);

static void begin(const struct net_subject *subject)
{
    net_subject = subject;
    print_message("%s:\n", subject->name);
}

int transport_suite_run(const struct net_subject *subject, int (*after)(void **state))
{
    int failed;

    begin(subject);
    failed =
        _cmocka_run_group_tests("messages", transport_suite, transport_suite_count, NULL, after);
    return failed +
           _cmocka_run_group_tests("ends", transport_ends, transport_ends_count, NULL, after);
}

int transport_ends_run(const struct net_subject *subject, int (*after)(void **state))
{
    begin(subject);
    return _cmocka_run_group_tests("ends", transport_ends, transport_ends_count, NULL, after);
}
