/* test_rdma_failover.c - of several cables between two ranks some fail: the others go on. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <string.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "support/rdma_flow.h"
#include "support/rdma_pair.h"
#include "tcdist/log.h"

enum { MIB = 1 << 20, LEN = MIB + 12, TURNS = 7, HEAL_MS = 100 };

static struct pair_kind plain = {{"2 cables", rdma_net_open_cables}, NULL, 0};
static struct pair_kind sealed = {{"4 cables, sealed", rdma_net_open_sealed_cables}, NULL, 0};
static struct pair_kind plain_briefly = {{"2 cables", rdma_net_open_cables}, NULL, HEAL_MS};
static struct pair_kind sealed_briefly = {
    {"4 cables, sealed", rdma_net_open_sealed_cables}, NULL, HEAL_MS};

/* A cable that does not lead fails some turns after they have begun, and some go by. */
static void flow_cut(struct rdma_flow *flow, int before, int after)
{
    net_exchange(&pair, MIB, 1);
    rdma_flow_start(&pair, flow, 2);
    net_turns(&pair, before);
    fake_port_of(1, false);
    net_turns(&pair, after);
}

/* At each moment of messages in both directions. */
static void what_goes_over_a_cable_that_fails_goes_over_the_others(void **state)
{
    (void)state;
    for (int turns = 0; turns < TURNS; turns++) {
        struct rdma_flow flow;

        flow_cut(&flow, turns, 0);
        rdma_flow_finish(&pair, &flow);
        net_exchange(&pair, 3 * MIB, 3); /* the cable may have been missed by nobody so far */
        assert_int_equal(pair_losses(), 0);
        assert_int_equal(fake_counts().qps, 2);
        pair_reopen();
    }
}

/* All but the one that leads, each while the last one's messages begin anew. */
static void cables_fail_one_after_the_other(void **state)
{
    (void)state;
    for (int turns = 0; turns < TURNS; turns += 3) {
        struct rdma_flow flow;

        net_exchange(&pair, MIB, 1);
        rdma_flow_start(&pair, &flow, 2);
        for (unsigned cable = RDMA_NET_CABLES - 1; cable > 0; cable--) {
            net_turns(&pair, turns);
            fake_port_of(cable, false);
        }
        rdma_flow_finish(&pair, &flow);
        net_exchange(&pair, 3 * MIB, 3);
        assert_int_equal(pair_losses(), 0);
        assert_int_equal(fake_counts().qps, 2);
        pair_reopen();
    }
}

/* Any write fails, and some had arrived all the same: over the cable that leads, whose queue pair
 * is made again, or over another one, which is left out. */
static void a_piece_that_fails_is_neither_lost_nor_doubled(void **state)
{
    unsigned healed = 0, left_out = 0;

    (void)state;
    for (unsigned i = 2; i < 24; i++) {
        struct rdma_flow flow;

        net_exchange(&pair, MIB, 1);
        rdma_flow_start(&pair, &flow, 2);
        fake_fate(IBV_WR_RDMA_WRITE_WITH_IMM, i / 2, i % 2 == 0 ? FAKE_FAILS : FAKE_IS_UNSURE,
                  IBV_WC_RETRY_EXC_ERR);
        rdma_flow_finish(&pair, &flow);
        net_exchange(&pair, 3 * MIB, 3);
        assert_int_equal(pair_losses(), 0);
        healed += net_stats(&pair, 0).heals > 0;
        left_out += fake_counts().qps == 2;
        pair_reopen();
    }
    assert_true(healed > 0 && left_out > 0);
}

static void the_cable_that_leads_is_missed_by_name(void **state)
{
    struct rdma_flow flow;

    (void)state;
    net_exchange(&pair, MIB, 1);
    rdma_flow_start(&pair, &flow, 2);
    fake_port_of(0, false);
    rdma_flow_drop(&pair, &flow);
    assert_int_equal(pair_losses(), 2);
    assert_true(pair_is_told("(device fake0"));
    assert_int_equal(fake_counts().qps, 0);
}

static void an_abort_while_a_cable_fails_ends_all(void **state)
{
    (void)state;
    for (int turns = 0; turns < TURNS; turns++) {
        struct rdma_flow flow;

        flow_cut(&flow, 3, turns);
        for (int r = 0; r < 2; r++)
            net_abort(&pair, r, &flow.recv[r][0].xfer.key);
        rdma_flow_drop(&pair, &flow);
        assert_int_equal(pair_losses(), 0);
        net_exchange(&pair, 3 * MIB, 3);
        pair_reopen();
    }
}

/* The last word of a meeting, which is still on its way. */
static bool is_held(const struct tci_notice *notice)
{
    return notice->kind == TCI_NOTICE_RDMA &&
           (notice->arg & ((1 << TCI_RDMA_CABLE_SHIFT) - 1)) == TCI_RDMA_CONFIRM;
}

static void hold_last_word(struct tci_transport *self, uint32_t peer,
                           const struct tci_notice *notice, bool may_link)
{
    if (!is_held(notice))
        pair_notify(self, peer, notice, may_link);
}

/* Rank 1 stands, has nothing to send so far, and rank 0, which has yet to hear of it, fails. */
static void a_cable_that_fails_as_it_comes_up_is_left_out(void **state)
{
    static struct net_message recv, send;
    struct tci_rdma_link *here;

    (void)state;
    net_exchange(&pair, 1000, 1);
    pair_let_notify(1, hold_last_word);
    net_recv(&pair, &recv, 0, 1, 2, LEN);
    while (pair_link(1, 1) == NULL || pair_link(1, 1)->state != TCI_RDMA_NEAR)
        net_turn(&pair);
    here = pair_link(0, 1);
    assert_int_equal(here->state, TCI_RDMA_GREETING);
    tci_rdma_link_break(here, "it was pulled");
    net_send(&pair, &send, 1, 0, 2, LEN);
    net_finish(&pair, &send, TC_OK);
    net_finish(&pair, &recv, TC_OK);
    assert_int_equal(pair_losses(), 0);
    assert_int_equal(fake_counts().qps, 2);
    net_exchange(&pair, 3 * MIB, 3);
}

/* Rank 1 never says what it has had: it is stopped, say.  Who aborts does not wait for that. */
static void an_abort_over_a_cable_that_has_failed_needs_no_word_of_the_peer(void **state)
{
    static struct net_message in, out, there; /* outlive a test that fails */
    const struct tci_rdma_link *side;

    (void)state;
    net_exchange(&pair, MIB, 1);
    pair_let_notify(1, pair_say_nothing);
    net_recv(&pair, &there, 1, 0, 2, LEN);
    net_recv(&pair, &in, 0, 1, 3, LEN);
    net_turns(&pair, 5); /* both are granted */
    fake_port_of(1, false);
    net_send(&pair, &out, 0, 1, 2, LEN);
    side = pair_link(0, 1);
    while (side->state != TCI_RDMA_STOPPED)
        net_turn(&pair);
    assert_int_equal(side->live, 2);
    net_abort(&pair, 0, &in.xfer.key);
    net_abort(&pair, 0, &out.xfer.key);
    net_wait(&pair, &in.xfer);
    net_wait(&pair, &out.xfer);
    assert_int_equal(in.xfer.status, TC_ERR_CANCELLED);
    assert_int_equal(out.xfer.status, TC_ERR_CANCELLED);
    assert_int_equal(pair_losses(), 0);

    net_abort(&pair, 1, &there.xfer.key);
    net_wait(&pair, &there.xfer);
    net_free(&in);
    net_free(&out);
    net_free(&there);
}

static void a_close_while_a_cable_fails_leaves_nothing(void **state)
{
    (void)state;
    for (int turns = 0; turns < TURNS; turns++) {
        struct rdma_flow flow;

        flow_cut(&flow, 3, turns);
        net_close_transports(&pair);
        rdma_flow_drop(&pair, &flow);
        pair_reopen();
    }
}

/* What ranks post later passes, too, and they part in peace. */
static void a_goodbye_waits_for_what_begins_anew(void **state)
{
    (void)state;
    for (int turns = 0; turns < TURNS; turns++) {
        struct rdma_flow flow;

        flow_cut(&flow, 2, turns);
        for (int r = 0; r < 2; r++)
            pair.nodes[r].transport->ops->leave(pair.nodes[r].transport);
        rdma_flow_finish(&pair, &flow);
        for (int r = 0; r < 2; r++)
            net_turn_until(&pair, &pair.nodes[r].lefts, 1);
        assert_int_equal(pair_losses(), 0);
        pair_reopen();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_CASE(what_goes_over_a_cable_that_fails_goes_over_the_others, plain),
        PAIR_CASE(cables_fail_one_after_the_other, sealed),
        PAIR_CASE(a_piece_that_fails_is_neither_lost_nor_doubled, plain),
        PAIR_CASE(the_cable_that_leads_is_missed_by_name, plain_briefly),
        PAIR_CASE(the_cable_that_leads_is_missed_by_name, sealed_briefly),
        PAIR_CASE(an_abort_while_a_cable_fails_ends_all, plain),
        PAIR_CASE(a_cable_that_fails_as_it_comes_up_is_left_out, plain),
        PAIR_CASE(an_abort_over_a_cable_that_has_failed_needs_no_word_of_the_peer, plain),
        PAIR_CASE(a_close_while_a_cable_fails_leaves_nothing, plain),
        PAIR_CASE(a_goodbye_waits_for_what_begins_anew, plain),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    tc_log_set_level(TC_LOG_ERROR);
    return cmocka_run_group_tests_name("rdma failover", tests, NULL, NULL);
}
