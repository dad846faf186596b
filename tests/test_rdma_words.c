/* test_rdma_words.c - what befalls, or is said of, a queue pair while it is away. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "loop/state.h"
#include "support/rdma_flow.h"
#include "support/rdma_pair.h"
#include "tcdist/log.h"

enum { MIB = 1 << 20, LEN = MIB + 12, TURNS = 8 };

static struct pair_kind one = {{"rdma", rdma_net_open}, NULL, 0};
static struct pair_kind two = {{"2 cables", rdma_net_open_cables}, NULL, 0};

static void start_and_cut(struct rdma_flow *flow)
{
    net_exchange(&pair, MIB, 1);
    rdma_flow_start(&pair, flow, 2);
    net_turns(&pair, 3);
    fake_path(false);
    while (pair_link(0, 0)->state != TCI_RDMA_HEALING || pair_link(1, 0)->state != TCI_RDMA_HEALING)
        net_turn(&pair);
}

/* ---- What befalls it ---- */

/* Nobody waits for another queue pair of it. */
static void a_device_that_is_taken_out_meanwhile_is_named(void **state)
{
    struct rdma_flow flow;

    (void)state;
    start_and_cut(&flow);
    fake_remove();
    rdma_flow_drop(&pair, &flow);
    assert_int_equal(pair_losses(), 2);
    assert_true(
        pair_is_told("over RDMA any more (device fake0, port 1): the device has failed or was "
                     "taken out"));
}

/* What it failed by first would pass, had there been a device to try again with. */
static void a_device_that_is_taken_out_as_it_fails_makes_no_other(void **state)
{
    struct net_message send;

    (void)state;
    net_exchange(&pair, 1000, 1);
    fake_fate(-1, 1, FAKE_FAILS, IBV_WC_RETRY_EXC_ERR);
    net_send(&pair, &send, 0, 1, 2, 1000);
    (void)tci_rdma_flush(pair_link(0, 0));
    while (pair_link(0, 0)->broken == NULL)
        (void)tci_rdma_poll_cq(pair_link(0, 0)->rdma, TCI_RDMA_BATCH);
    fake_remove();
    while (!pair_link(0, 0)->rdma->is_dead)
        tci_loop_ask(pair.loop, 0);
    assert_int_equal(pair.nodes[0].losses, 1);
    assert_true(pair_is_told("no acknowledgement came"));
    assert_int_equal(net_stats(&pair, 0).breaks, 0);
    net_wait(&pair, &send.xfer);
    net_free(&send);
}

static void what_breaks_it_meanwhile_is_named(void **state)
{
    struct rdma_flow flow;

    (void)state;
    start_and_cut(&flow);
    while (pair_link(1, 0)->qp != NULL)
        net_turn(&pair);
    fake_path(true);
    tci_rdma_link_break(pair_link(1, 0), "a test says so");
    rdma_flow_drop(&pair, &flow);
    assert_int_equal(pair_losses(), 2);
    assert_true(pair_is_told("a test says so"));
}

/* ---- What the peer says ---- */

static unsigned changed;

/* The cards of queue pairs that are made again tell of one cable alone. */
static void change_cables(struct tci_transport *self, uint32_t peer,
                          const struct tci_notice *notice, bool may_link)
{
    struct tci_notice other = *notice;
    uint64_t what = notice->arg & ((1 << TCI_RDMA_CABLE_SHIFT) - 1);
    const char *at = notice->text;
    char *to = other.text;

    if (notice->kind == TCI_NOTICE_RDMA && (what == TCI_RDMA_OFFER || what == TCI_RDMA_ACCEPT)) {
        for (int spaces = 0; spaces < 9; at++)
            spaces += *at == ' ';
        to += at - notice->text;
        to[0] = '1';
        changed++;
    }
    pair_notify(self, peer, &other, may_link);
}

/* It stands for what both have found out when they met: parts of messages are on their way. */
static void a_card_of_other_cables_does_no_harm(void **state)
{
    (void)state;
    for (uint32_t liar = 0; liar < 2; liar++) {
        struct rdma_flow flow;

        net_exchange(&pair, MIB, 1);
        fake_hold(true);
        rdma_flow_start(&pair, &flow, 2);
        net_turns(&pair, 2);
        changed = 0;
        pair_let_notify(liar, change_cables);
        tci_rdma_link_break(pair_link(0, 0), tci_rdma_flushed);
        while (net_stats(&pair, 0).heals == 0 || net_stats(&pair, 1).heals == 0)
            net_turn(&pair);
        assert_int_equal(changed, 1);
        for (int r = 0; r < 2; r++)
            net_abort(&pair, r, &flow.recv[r][0].xfer.key);
        net_turns(&pair, 2);
        fake_hold(false);
        rdma_flow_drop(&pair, &flow);
        net_exchange(&pair, 3 * MIB, 3);
        assert_int_equal(pair_losses(), 0);
        pair_reopen();
    }
}

/* Who has given the peer up says so in answer to a cable that has failed. */
static void a_peer_that_declines_a_cable_that_is_left_out_is_lost(void **state)
{
    static struct net_message in, out, there; /* outlive a test that fails */
    struct tci_notice notice = {.kind = TCI_NOTICE_RDMA,
                                .culprit = 1,
                                .text = "it is not used there any more",
                                .arg = TCI_RDMA_DECLINE | 1 << TCI_RDMA_CABLE_SHIFT};

    (void)state;
    net_exchange(&pair, MIB, 1);
    pair_let_notify(1, pair_say_nothing);
    net_recv(&pair, &there, 1, 0, 2, LEN);
    net_recv(&pair, &in, 0, 1, 3, LEN);
    net_turns(&pair, 5); /* both are granted */
    fake_port_of(1, false);
    net_send(&pair, &out, 0, 1, 2, LEN);
    while (pair_link(0, 1)->state != TCI_RDMA_STOPPED)
        net_turn(&pair);
    assert_int_equal(pair_link(0, 1)->live, 2);
    pair_notify(pair_tcp(1), 0, &notice, true);
    net_turn_until(&pair, &pair.nodes[0].losses, 1);
    assert_true(pair_is_told("has given up its queue pair"));
    net_wait(&pair, &in.xfer);
    net_wait(&pair, &out.xfer);
    assert_int_equal(in.xfer.status, TC_ERR_PEER_LOST);
    assert_int_equal(out.xfer.status, TC_ERR_PEER_LOST);

    net_abort(&pair, 1, &there.xfer.key);
    net_wait(&pair, &there.xfer);
    net_free(&in);
    net_free(&out);
    net_free(&there);
}

/* ---- Goodbyes ---- */

/* Whatever becomes of the words, or of what acknowledges them: both have left. */
static void a_path_that_is_away_as_both_leave_is_not_missed(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 4 * TURNS; n++) {
        net_exchange(&pair, 1000, 1);
        fake_fate(IBV_WR_SEND, 1 + n % 2, n & 2 ? FAKE_FAILS : FAKE_IS_UNSURE,
                  IBV_WC_RETRY_EXC_ERR);
        pair.nodes[0].transport->ops->leave(pair.nodes[0].transport);
        net_turns(&pair, (int)n / 4 % 4);
        pair.nodes[1].transport->ops->leave(pair.nodes[1].transport);
        if (n / 16 % 2 == 1)
            fake_path(false);
        net_turns(&pair, 2);
        fake_path(true);
        for (int r = 0; r < 2; r++)
            net_turn_until(&pair, &pair.nodes[r].lefts, 1);
        net_turns(&pair, 20);
        assert_int_equal(pair_losses(), 0);
        pair_reopen();
    }
}

/* It stood, and has heard that this rank is done. */
static void a_peer_that_gives_up_behind_our_goodbye_is_not_lost(void **state)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_RDMA,
                                .culprit = 1,
                                .text = "it is not used there any more",
                                .arg = TCI_RDMA_DECLINE};

    (void)state;
    net_exchange(&pair, 1000, 1);
    pair_let_notify(1, pair_say_nothing);
    pair.nodes[0].transport->ops->leave(pair.nodes[0].transport);
    pair_notify(pair_tcp(1), 0, &notice, true);
    while (pair_link(0, 0)->state != TCI_RDMA_GONE)
        net_turn(&pair);
    assert_int_equal(pair.nodes[0].losses, 0);
}

/* Its words, and the answers to them, would come behind its goodbye. */
static void who_has_left_makes_no_queue_pair(void **state)
{
    struct net_message send;

    (void)state;
    pair.nodes[0].transport->ops->leave(pair.nodes[0].transport);
    net_send(&pair, &send, 1, 0, 1, 1000);
    while (pair_link(0, 0) == NULL)
        net_turn(&pair);
    net_turns(&pair, 3);
    assert_null(pair_link(0, 0)->qp);
    net_abort(&pair, 1, &send.xfer.key);
    net_wait(&pair, &send.xfer);
    net_free(&send);
}

static void who_has_left_makes_no_queue_pair_again(void **state)
{
    (void)state;
    net_exchange(&pair, 1000, 1);
    pair.nodes[0].transport->ops->leave(pair.nodes[0].transport);
    while (!pair_link(0, 0)->rdma->has_left_below)
        net_turn(&pair);
    tci_rdma_link_break(pair_link(0, 0), tci_rdma_flushed);
    while (pair_link(0, 0)->state != TCI_RDMA_GONE)
        net_turn(&pair);
    assert_int_equal(net_stats(&pair, 0).breaks, 0);
    assert_int_equal(pair.nodes[1].losses, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_CASE(a_path_that_is_away_as_both_leave_is_not_missed, one),
        PAIR_CASE(a_peer_that_gives_up_behind_our_goodbye_is_not_lost, one),
        PAIR_CASE(who_has_left_makes_no_queue_pair, one),
        PAIR_CASE(who_has_left_makes_no_queue_pair_again, one),
        PAIR_CASE(a_device_that_is_taken_out_meanwhile_is_named, one),
        PAIR_CASE(a_device_that_is_taken_out_as_it_fails_makes_no_other, one),
        PAIR_CASE(what_breaks_it_meanwhile_is_named, one),
        PAIR_CASE(a_card_of_other_cables_does_no_harm, two),
        PAIR_CASE(a_peer_that_declines_a_cable_that_is_left_out_is_lost, two),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    tc_log_set_level(TC_LOG_ERROR);
    return cmocka_run_group_tests_name("rdma words", tests, NULL, NULL);
}
