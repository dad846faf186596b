/* test_rdma_cables.c - several cables between two ranks: large messages go over all of them. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "fake_verbs/fake.h"
#include "rdma/link.h"
#include "support/rdma_net.h"

enum { EAGER = 65536, MIB = 1 << 20 };

static const struct net_subject subjects[] = {{"rdma, 2 cables", rdma_net_open_cables},
                                              {"sealed, 4 cables", rdma_net_open_sealed_cables}};

static struct net net;

static int open_with(const struct net_subject *subject)
{
    net_subject = subject;
    rdma_net_setup_cables();
    net_open(&net, 2, EAGER);
    return 0;
}

static int open_one(void **state)
{
    static const struct net_subject one = {"rdma", rdma_net_open};

    (void)state;
    return open_with(&one);
}

static int open_two(void **state)
{
    (void)state;
    return open_with(&subjects[0]);
}

static int open_sealed(void **state)
{
    (void)state;
    return open_with(&subjects[1]);
}

static int close_all(void **state)
{
    (void)state;
    net_close(&net);
    rdma_net_check_clean();
    return 0;
}

static void large_messages_use_every_cable(void **state)
{
    (void)state;
    net_exchange(&net, 1000, 1);
    net_exchange(&net, EAGER + 1, 2);
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(rdma_net_cable(&net, r, 1)->stats.bytes_sent, 0);
    net_exchange(&net, 8 * MIB + 3, 3);
    for (uint32_t r = 0; r < 2; r++)
        for (int cable = 0; cable < 2; cable++)
            assert_true(rdma_net_cable(&net, r, cable)->stats.bytes_sent >= 4 * MIB - 4096);
    assert_true(net_stats(&net, 0).bytes_copied <= 2 * 1000); /* of the small one alone */
}

static void a_cable_that_does_not_come_up_is_left_out(void **state)
{
    (void)state;
    rdma_net_cable(&net, 1, 1)->is_dead = true;
    for (uint64_t tag = 1; tag < 4; tag++)
        net_exchange(&net, 8 * MIB + 3, tag);
    assert_int_equal(rdma_net_cable(&net, 0, 1)->stats.bytes_sent, 0);
    assert_true(rdma_net_cable(&net, 0, 0)->stats.bytes_sent > 24 * MIB);
    assert_int_equal(net.nodes[0].losses + net.nodes[1].losses, 0);
}

static void without_the_first_cable_the_other_one_leads(void **state)
{
    (void)state;
    rdma_net_cable(&net, 1, 0)->is_dead = true;
    net_exchange(&net, 1000, 1);
    net_exchange(&net, 8 * MIB + 3, 2);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(rdma_net_cable(&net, r, 0)->stats.bytes_sent, 0);
        assert_int_equal(rdma_net_cable(&net, r, 1)->stats.bytes_sent, 8 * MIB + 3 + 1000);
    }
}

static void without_cables_all_goes_over_tcp(void **state)
{
    (void)state;
    rdma_net_cable(&net, 1, 0)->is_dead = rdma_net_cable(&net, 0, 1)->is_dead = true;
    net_exchange(&net, 1000, 1);
    net_exchange(&net, 8 * MIB + 3, 2);
    for (int cable = 0; cable < 2; cable++)
        assert_int_equal(rdma_net_cable(&net, 0, cable)->stats.bytes_sent, 0);
    assert_int_equal(fake_counts().qps, 0);
}

/* The goodbye is behind what waits for a way to go, and for further cables. */
static void a_peer_is_left_while_cables_come_up(void **state)
{
    for (int turns = 0; turns < 12; turns++) {
        struct net_message send, recv;

        net_recv(&net, &recv, 0, 1, 1, 3 * MIB);
        net_send(&net, &send, 1, 0, 1, 3 * MIB);
        net_turns(&net, turns);
        for (uint32_t r = 0; r < 2; r++)
            net.nodes[r].transport->ops->leave_peer(net.nodes[r].transport, 1 - r);
        net_finish(&net, &send, TC_OK);
        net_finish(&net, &recv, TC_OK);
        for (int r = 0; r < 2; r++)
            net.nodes[r].transport->ops->leave(net.nodes[r].transport);
        for (int r = 0; r < 2; r++) {
            net_turn_until(&net, &net.nodes[r].lefts, 1);
            assert_int_equal(net.nodes[r].losses, 0);
        }
        (void)close_all(state);
        net_open(&net, 2, EAGER);
    }
}

/* One end cuts the message, the other one does not: no part waits for what never comes. */
static void unlike_lengths_are_found(void **state)
{
    static const size_t lens[][2] = {
        {3 * MIB, 2 * MIB}, {3 * MIB, 100 * 1024}, {100 * 1024, 3 * MIB}};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(lens); i++) {
        struct net_message send, recv;

        net_exchange(&net, 1000, 10 + i);
        net_recv(&net, &recv, 1, 0, i + 1, lens[i][1]);
        net_turns(&net, 3);
        net_send(&net, &send, 0, 1, i + 1, lens[i][0]);
        net_wait(&net, &send.xfer);
        assert_int_equal(send.xfer.status, TC_ERR_MISMATCH);
        net_abort(&net, 1, &recv.xfer.key);
        net_wait(&net, &recv.xfer);
        assert_true(recv.xfer.status == TC_ERR_MISMATCH || recv.xfer.status == TC_ERR_CANCELLED);
        net_free(&send);
        net_free(&recv);
    }
}

static void an_aborted_message_ends_in_all_its_parts(void **state)
{
    (void)state;
    net_exchange(&net, MIB, 1);
    for (int turns = 0; turns < 8; turns++) {
        struct net_message send, recv;

        net_recv(&net, &recv, 1, 0, 5 + (uint64_t)turns, 6 * MIB);
        net_send(&net, &send, 0, 1, 5 + (uint64_t)turns, 6 * MIB);
        net_turns(&net, turns);
        for (int r = 0; r < 2; r++)
            net_abort(&net, r, &recv.xfer.key);
        net_drop(&net, &send);
        net_drop(&net, &recv);
    }
    net_exchange(&net, MIB, 20);
}

static void a_close_in_the_middle_leaves_nothing(void **state)
{
    for (int turns = 0; turns < 6; turns++) {
        struct net_message send, recv;

        net_exchange(&net, 1000, 1);
        net_recv(&net, &recv, 1, 0, 2, 6 * MIB);
        net_send(&net, &send, 0, 1, 2, 6 * MIB);
        net_turns(&net, turns);
        net_close_transports(&net);
        net_drop(&net, &send);
        net_drop(&net, &recv);
        (void)close_all(state);
        (void)open_two(state);
    }
}

static void missing_memory_leaves_nothing_waiting(void **state)
{
    (void)state;
    for (uint64_t n = 1, total = 0; n == 1 || n <= total; n++) {
        uint64_t before = tci_alloc_total();
        struct net_message send, recv;

        tci_alloc_fail_at(n, 0);
        net_recv(&net, &recv, 1, 0, 1, 2 * MIB);
        net_send(&net, &send, 0, 1, 1, 2 * MIB);
        for (int turn = 0;
             turn < 200 && (send.xfer.status == TC_PENDING || recv.xfer.status == TC_PENDING);
             turn++)
            net_turn(&net);
        tci_alloc_fail_at(0, 0);
        total = tci_max(total, tci_alloc_total() - before);
        for (int r = 0; r < 2; r++)
            net_abort(&net, r, &recv.xfer.key);
        net_drop(&net, &send);
        net_drop(&net, &recv);
        (void)close_all(state);
        (void)open_two(state);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_two, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(large_messages_use_every_cable),
        CASE(a_cable_that_does_not_come_up_is_left_out),
        CASE(without_the_first_cable_the_other_one_leads),
        CASE(without_cables_all_goes_over_tcp),
        CASE(a_peer_is_left_while_cables_come_up),
        cmocka_unit_test_setup_teardown(a_peer_is_left_while_cables_come_up, open_one, close_all),
        cmocka_unit_test_setup_teardown(a_peer_is_left_while_cables_come_up, open_sealed,
                                        close_all),
        CASE(unlike_lengths_are_found),
        CASE(an_aborted_message_ends_in_all_its_parts),
        CASE(a_close_in_the_middle_leaves_nothing),
        CASE(missing_memory_leaves_nothing_waiting),
    };
    int failed = sodium_init() < 0;

    tci_verbs_put(&fake_verbs);
    failed += cmocka_run_group_tests_name("rdma cables", tests, NULL, NULL);
    rdma_net_setup_cables();
    failed += transport_suite_run(&subjects[0], rdma_net_teardown);
    rdma_net_setup_cables();
    return failed + transport_ends_run(&subjects[1], rdma_net_teardown);
}
