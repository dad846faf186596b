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
#include "support/rdma_pair.h"

enum { MIB = 1 << 20 };

static struct pair_kind one = {{"rdma", rdma_net_open}, NULL, 0};
static struct pair_kind two = {{"rdma, 2 cables", rdma_net_open_cables}, NULL, 0};
static struct pair_kind sealed = {{"sealed, 4 cables", rdma_net_open_sealed_cables}, NULL, 0};

static void large_messages_use_every_cable(void **state)
{
    (void)state;
    net_exchange(&pair, 1000, 1);
    net_exchange(&pair, PAIR_EAGER + 1, 2);
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(rdma_net_cable(&pair, r, 1)->stats.bytes_sent, 0);
    net_exchange(&pair, 8 * MIB + 3, 3);
    for (uint32_t r = 0; r < 2; r++)
        for (int cable = 0; cable < 2; cable++)
            assert_true(rdma_net_cable(&pair, r, cable)->stats.bytes_sent >= 4 * MIB - 4096);
    assert_true(net_stats(&pair, 0).bytes_copied <= 2 * 1000); /* of the small one alone */
}

static void a_cable_that_does_not_come_up_is_left_out(void **state)
{
    (void)state;
    rdma_net_cable(&pair, 1, 1)->is_dead = true;
    for (uint64_t tag = 1; tag < 4; tag++)
        net_exchange(&pair, 8 * MIB + 3, tag);
    assert_int_equal(rdma_net_cable(&pair, 0, 1)->stats.bytes_sent, 0);
    assert_true(rdma_net_cable(&pair, 0, 0)->stats.bytes_sent > 24 * MIB);
    assert_int_equal(pair_losses(), 0);
}

static void without_the_first_cable_the_other_one_leads(void **state)
{
    (void)state;
    rdma_net_cable(&pair, 1, 0)->is_dead = true;
    net_exchange(&pair, 1000, 1);
    net_exchange(&pair, 8 * MIB + 3, 2);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(rdma_net_cable(&pair, r, 0)->stats.bytes_sent, 0);
        assert_int_equal(rdma_net_cable(&pair, r, 1)->stats.bytes_sent, 8 * MIB + 3 + 1000);
    }
}

static void without_cables_all_goes_over_tcp(void **state)
{
    (void)state;
    rdma_net_cable(&pair, 1, 0)->is_dead = rdma_net_cable(&pair, 0, 1)->is_dead = true;
    net_exchange(&pair, 1000, 1);
    net_exchange(&pair, 8 * MIB + 3, 2);
    for (int cable = 0; cable < 2; cable++)
        assert_int_equal(rdma_net_cable(&pair, 0, cable)->stats.bytes_sent, 0);
    assert_int_equal(fake_counts().qps, 0);
}

/* The goodbye is behind what waits for a way to go, and for further cables. */
static void a_peer_is_left_while_cables_come_up(void **state)
{
    (void)state;
    for (int turns = 0; turns < 12; turns++) {
        struct net_message send, recv;

        net_recv(&pair, &recv, 0, 1, 1, 3 * MIB);
        net_send(&pair, &send, 1, 0, 1, 3 * MIB);
        net_turns(&pair, turns);
        for (uint32_t r = 0; r < 2; r++)
            pair.nodes[r].transport->ops->leave_peer(pair.nodes[r].transport, 1 - r);
        net_finish(&pair, &send, TC_OK);
        net_finish(&pair, &recv, TC_OK);
        for (int r = 0; r < 2; r++)
            pair.nodes[r].transport->ops->leave(pair.nodes[r].transport);
        for (int r = 0; r < 2; r++) {
            net_turn_until(&pair, &pair.nodes[r].lefts, 1);
            assert_int_equal(pair.nodes[r].losses, 0);
        }
        pair_reopen();
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

        net_exchange(&pair, 1000, 10 + i);
        net_recv(&pair, &recv, 1, 0, i + 1, lens[i][1]);
        net_turns(&pair, 3);
        net_send(&pair, &send, 0, 1, i + 1, lens[i][0]);
        net_wait(&pair, &send.xfer);
        assert_int_equal(send.xfer.status, TC_ERR_MISMATCH);
        net_abort(&pair, 1, &recv.xfer.key);
        net_wait(&pair, &recv.xfer);
        assert_true(recv.xfer.status == TC_ERR_MISMATCH || recv.xfer.status == TC_ERR_CANCELLED);
        net_free(&send);
        net_free(&recv);
    }
}

static void an_aborted_message_ends_in_all_its_parts(void **state)
{
    (void)state;
    net_exchange(&pair, MIB, 1);
    for (int turns = 0; turns < 8; turns++) {
        struct net_message send, recv;

        net_recv(&pair, &recv, 1, 0, 5 + (uint64_t)turns, 6 * MIB);
        net_send(&pair, &send, 0, 1, 5 + (uint64_t)turns, 6 * MIB);
        net_turns(&pair, turns);
        for (int r = 0; r < 2; r++)
            net_abort(&pair, r, &recv.xfer.key);
        net_drop(&pair, &send);
        net_drop(&pair, &recv);
    }
    net_exchange(&pair, MIB, 20);
}

static void a_close_in_the_middle_leaves_nothing(void **state)
{
    (void)state;
    for (int turns = 0; turns < 6; turns++) {
        struct net_message send, recv;

        net_exchange(&pair, 1000, 1);
        net_recv(&pair, &recv, 1, 0, 2, 6 * MIB);
        net_send(&pair, &send, 0, 1, 2, 6 * MIB);
        net_turns(&pair, turns);
        net_close_transports(&pair);
        net_drop(&pair, &send);
        net_drop(&pair, &recv);
        pair_reopen();
    }
}

static void missing_memory_leaves_nothing_waiting(void **state)
{
    (void)state;
    for (uint64_t n = 1, total = 0; n == 1 || n <= total; n++) {
        uint64_t before = tci_alloc_total();
        struct net_message send, recv;

        tci_alloc_fail_at(n, 0);
        net_recv(&pair, &recv, 1, 0, 1, 2 * MIB);
        net_send(&pair, &send, 0, 1, 1, 2 * MIB);
        for (int turn = 0;
             turn < 200 && (send.xfer.status == TC_PENDING || recv.xfer.status == TC_PENDING);
             turn++)
            net_turn(&pair);
        tci_alloc_fail_at(0, 0);
        total = tci_max(total, tci_alloc_total() - before);
        for (int r = 0; r < 2; r++)
            net_abort(&pair, r, &recv.xfer.key);
        net_drop(&pair, &send);
        net_drop(&pair, &recv);
        pair_reopen();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_CASE(large_messages_use_every_cable, two),
        PAIR_CASE(a_cable_that_does_not_come_up_is_left_out, two),
        PAIR_CASE(without_the_first_cable_the_other_one_leads, two),
        PAIR_CASE(without_cables_all_goes_over_tcp, two),
        PAIR_CASE(a_peer_is_left_while_cables_come_up, two),
        PAIR_CASE(a_peer_is_left_while_cables_come_up, one),
        PAIR_CASE(a_peer_is_left_while_cables_come_up, sealed),
        PAIR_CASE(unlike_lengths_are_found, two),
        PAIR_CASE(an_aborted_message_ends_in_all_its_parts, two),
        PAIR_CASE(a_close_in_the_middle_leaves_nothing, two),
        PAIR_CASE(missing_memory_leaves_nothing_waiting, two),
    };
    int failed = sodium_init() < 0;

    tci_verbs_put(&fake_verbs);
    failed += cmocka_run_group_tests_name("rdma cables", tests, NULL, NULL);
    rdma_net_setup_cables();
    failed += transport_suite_run(&two.subject, rdma_net_teardown);
    rdma_net_setup_cables();
    return failed + transport_ends_run(&sealed.subject, rdma_net_teardown);
}
