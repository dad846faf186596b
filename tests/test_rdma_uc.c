/* test_rdma_uc.c - over queue pairs of kind UC what is lost is found, and nothing is corrupted. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <string.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "loop/state.h"
#include "support/rdma_pair.h"

enum { MIB = 1 << 20, PATIENCE_MS = 60 * 1000 };

static struct pair_kind plain = {{"rdma", rdma_net_open}, fake_setup_uc, 0};
static struct pair_kind sealed = {{"sealed rdma", rdma_net_open_sealed}, fake_setup_uc, 0};

/* ---- Kinds ---- */

static void a_card_without_rc_is_used_by_uc(void **state)
{
    const char *why;

    (void)state;
    net_exchange(&pair, 100, 1);
    net_exchange(&pair, PAIR_EAGER, 2);
    net_exchange(&pair, 3 * MIB + 5, 3);
    for (uint32_t r = 0; r < 2; r++) {
        assert_string_equal(tci_rdma_way(pair.nodes[r].transport, 1 - r, &why), "RDMA");
        assert_true(pair_link(r, 0)->is_uc);
    }
}

static const char *devices_of[2];

static void open_devices(struct net *opened, size_t eager_bytes)
{
    rdma_net_open_each(opened, eager_bytes, false, devices_of);
}

/* Whoever offers first, and both at once. */
static void a_pair_of_which_one_has_no_rc_uses_uc(void **state)
{
    static const struct net_subject mixed = {"mixed", open_devices};
    static const struct fake_device both[] = {
        {.name = "rc", .ports = 1, .state = IBV_PORT_ACTIVE, .address = 0x0a4d0001},
        {.name = "uc",
         .is_uc_only = true,
         .ports = 1,
         .state = IBV_PORT_ACTIVE,
         .address = 0x0a4d0002}};

    (void)state;
    for (uint32_t without = 0; without < 2; without++)
        for (uint32_t first = 0; first < 3; first++) {
            struct net_message send, recv;

            net_close(&pair);
            devices_of[without] = "1,device=uc";
            devices_of[1 - without] = "1,device=rc";
            net_subject = &mixed;
            fake_setup(both, TCI_LEN(both));
            net_open(&pair, 2, PAIR_EAGER);
            if (first < 2) {
                net_recv(&pair, &recv, 1 - first, first, 1, MIB);
                net_turns(&pair, 5);
                net_send(&pair, &send, first, 1 - first, 1, MIB);
                net_finish(&pair, &send, TC_OK);
                net_finish(&pair, &recv, TC_OK);
            }
            net_exchange(&pair, 2 * MIB, 2);
            assert_true(pair_link(0, 0)->is_uc && pair_link(1, 0)->is_uc);
            assert_true(pair_link(0, 0)->state == TCI_RDMA_NEAR &&
                        pair_link(1, 0)->state == TCI_RDMA_NEAR);
        }
}

/* ---- What is lost ---- */

static void wait_for_loss(void)
{
    uint64_t end_ns = tci_loop_clock() + PATIENCE_MS * TCI_NS_PER_MS;

    while (pair.nodes[0].losses == 0 || pair.nodes[1].losses == 0) {
        assert_true(tci_loop_clock() < end_ns);
        net_turn(&pair);
    }
}

/* What is sent again and again, in both directions; the n-th of a kind is lost.  Nobody takes what
 * has come in half, or in another's place, for whole. */
static void lose_one(int opcode, unsigned nth, size_t len)
{
    enum { COUNT = 6 };
    static struct net_message sends[2][COUNT], recvs[2][COUNT];

    net_exchange(&pair, 1000, 1);
    fake_fate(opcode, nth, FAKE_IS_LOST, IBV_WC_SUCCESS);
    for (unsigned i = 0; i < COUNT; i++)
        for (uint32_t r = 0; r < 2; r++) {
            net_recv(&pair, &recvs[r][i], r, 1 - r, 10 + i, len + i);
            net_send(&pair, &sends[r][i], r, 1 - r, 10 + i, len + i);
        }
    wait_for_loss();
    for (unsigned i = 0; i < COUNT; i++)
        for (uint32_t r = 0; r < 2; r++) {
            net_wait(&pair, &sends[r][i].xfer);
            net_wait(&pair, &recvs[r][i].xfer);
            assert_true(recvs[r][i].xfer.status == TC_ERR_PEER_LOST || net_is_intact(&recvs[r][i]));
            net_free(&sends[r][i]);
            net_free(&recvs[r][i]);
        }
}

static void a_lost_one_is_found_by_the_next(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth < 8; nth += 3) {
        lose_one(IBV_WR_SEND, nth, 3000);
        assert_true(pair_is_told("was lost") || pair_is_told("does not open"));
        pair_reopen();
        lose_one(IBV_WR_RDMA_WRITE_WITH_IMM, nth, MIB + MIB / 2);
        assert_true(pair_is_told("was lost") || pair_is_told("does not open"));
        pair_reopen();
    }
}

/* One message, and nothing behind it. */
static void lose_last(int opcode, unsigned nth, size_t len)
{
    struct net_message send, recv;

    net_exchange(&pair, 1000, 1);
    pair_turn_for(5);
    net_recv(&pair, &recv, 1, 0, 7, len);
    net_turns(&pair, 5);
    fake_fate(opcode, nth, FAKE_IS_LOST, IBV_WC_SUCCESS);
    net_send(&pair, &send, 0, 1, 7, len);
    wait_for_loss();
    net_wait(&pair, &send.xfer);
    net_wait(&pair, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_ERR_PEER_LOST);
    assert_true(pair_is_told("was lost") || pair_is_told("does not open"));
    net_free(&send);
    net_free(&recv);
}

static void behind_the_last_one_a_question_finds_it(void **state)
{
    (void)state;
    lose_last(IBV_WR_SEND, 1, 100);
    pair_reopen();
    lose_last(IBV_WR_SEND, 3, 20000); /* the last of three parts */
    pair_reopen();
    lose_last(IBV_WR_RDMA_WRITE_WITH_IMM, pair_kind == &plain ? 2 : 8, 2 * MIB);
}

/* The sender of a large message knows that all of it has come, not that it was sent. */
static void a_send_waits_until_its_message_has_come(void **state)
{
    struct net_message send, recv;

    (void)state;
    net_exchange(&pair, 1000, 1);
    net_recv(&pair, &recv, 1, 0, 7, 2 * MIB);
    net_turns(&pair, 5);
    fake_fate(IBV_WR_RDMA_WRITE_WITH_IMM, 1, FAKE_IS_LOST, IBV_WC_SUCCESS);
    net_send(&pair, &send, 0, 1, 7, 2 * MIB);
    wait_for_loss();
    assert_int_equal(send.xfer.status, TC_ERR_PEER_LOST);
    net_drop(&pair, &send);
    net_drop(&pair, &recv);
}

static void a_lost_hello_means_tcp(void **state)
{
    const char *why;

    (void)state;
    for (unsigned nth = 1; nth < 3; nth++) {
        fake_fate(IBV_WR_SEND, nth, FAKE_IS_LOST, IBV_WC_SUCCESS);
        net_exchange(&pair, 1000, 1);
        net_exchange(&pair, MIB, 2);
        for (uint32_t r = 0; r < 2; r++)
            assert_string_equal(tci_rdma_way(pair.nodes[r].transport, 1 - r, &why), "tcp");
        assert_int_equal(pair_losses(), 0);
        pair_reopen();
    }
}

/* ---- Rest ---- */

static bool may_ask(uint32_t rank)
{
    return pair_link(rank, 0)->ask.heap_at != 0;
}

/* Questions end once they are answered. */
/* Neither end knows what the other one has taken in: there is nothing to go on from. */
static void a_queue_pair_that_fails_is_not_made_again(void **state)
{
    (void)state;
    net_exchange(&pair, 3 * MIB, 1);
    tci_rdma_link_break(pair_link(0, 0), tci_rdma_flushed);
    for (int r = 0; r < 2; r++)
        net_turn_until(&pair, &pair.nodes[r].losses, 1);
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(net_stats(&pair, r).breaks, 0);
}

static void an_idle_pair_is_silent(void **state)
{
    uint64_t end_ns = tci_loop_clock() + 60 * 1000 * TCI_NS_PER_MS, sends;

    (void)state;
    net_exchange(&pair, 1000, 1);
    while (may_ask(0) || may_ask(1)) {
        assert_true(tci_loop_clock() < end_ns);
        pair_turn_for(10);
    }
    sends = fake_counts().sends;
    pair_turn_for(500);
    assert_int_equal(fake_counts().sends, sends);
    assert_int_equal(tci_loop_pass(pair.loop), 0);
    assert_true(tci_loop_may_sleep(pair.loop));
    tci_wake_rise(pair.loop);
}

/* As if so many had gone both ways. */
static void pass_records(uint32_t count)
{
    for (uint32_t r = 0; r < 2; r++) {
        struct tci_rdma_link *link = pair_link(r, 0);
        uint32_t *const numbers[] = {&link->works_put, &link->works_done, &link->flown,
                                     &link->sent,      &link->acked,      &link->asked,
                                     &link->spoken,    &link->taken,      &link->told};

        for (size_t i = 0; i < TCI_LEN(numbers); i++)
            *numbers[i] += count;
    }
}

/* Small messages alone, which nobody is to hear of at once. */
static void what_was_told_long_ago_is_not_owed_again(void **state)
{
    net_exchange(&pair, 1000, 1);
    pair_turn_for(500);
    pass_records(UINT32_C(1) << 30);
    net_exchange(&pair, 1000, 2);
    pass_records(UINT32_C(1) << 30);
    net_exchange(&pair, 1000, 3);
    an_idle_pair_is_silent(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_CASE(a_card_without_rc_is_used_by_uc, plain),
        PAIR_CASE(a_pair_of_which_one_has_no_rc_uses_uc, plain),
        PAIR_CASE(a_lost_one_is_found_by_the_next, plain),
        PAIR_CASE(behind_the_last_one_a_question_finds_it, plain),
        PAIR_CASE(a_send_waits_until_its_message_has_come, plain),
        PAIR_CASE(a_lost_hello_means_tcp, plain),
        PAIR_CASE(a_queue_pair_that_fails_is_not_made_again, plain),
        PAIR_CASE(an_idle_pair_is_silent, plain),
        PAIR_CASE(what_was_told_long_ago_is_not_owed_again, plain),
        PAIR_CASE_OF("sealed", a_card_without_rc_is_used_by_uc, sealed),
        PAIR_CASE_OF("sealed", a_lost_one_is_found_by_the_next, sealed),
        PAIR_CASE_OF("sealed", behind_the_last_one_a_question_finds_it, sealed),
        PAIR_CASE_OF("sealed", an_idle_pair_is_silent, sealed),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma uc", tests, NULL, NULL);
}
