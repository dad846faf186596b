/* test_rdma_uc_cables.c - a cable of kind UC that loses, or is silent, is left out by itself. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single, needs libibverbs */

/* Devices of kind UC say nothing of what they lose.  The cable that leads is missed by that; one
 * that does not lead is left out, and all that went over it arrives all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <string.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "loop/loop.h"
#include "support/rdma_flow.h"
#include "support/rdma_pair.h"
#include "tcdist/log.h"

enum { MIB = 1 << 20, TURNS = 7 };

static struct pair_kind plain = {{"2 cables", rdma_net_open_uc_cables}, NULL, 0};
static struct pair_kind sealed = {{"4 cables, sealed", rdma_net_open_sealed_uc_cables}, NULL, 0};

/* Both ends have gone on without the second cable. */
static bool is_left_out(void)
{
    for (uint32_t r = 0; r < 2; r++)
        if (pair_link(r, 1)->state != TCI_RDMA_FAR)
            return false;
    return true;
}

/* The n-th of a kind is lost, over the cable that leads, or over another one. */
static void lose_each(int opcode, unsigned *survived, unsigned *named)
{
    for (unsigned nth = 1; nth < 12; nth += 2) {
        struct rdma_flow flow;

        net_exchange(&pair, MIB, 1);
        rdma_flow_start(&pair, &flow, 2);
        fake_fate(opcode, nth, FAKE_IS_LOST, IBV_WC_SUCCESS);
        rdma_flow_drop(&pair, &flow);
        if (pair_losses() == 0) {
            net_exchange(&pair, 3 * MIB, 3);
            *survived += fake_counts().qps < (pair_kind == &plain ? 4 : 2 * RDMA_NET_CABLES);
        } else {
            assert_true(pair_is_told("was lost") || pair_is_told("does not open"));
            *named += 1;
        }
        pair_reopen();
    }
}

static void what_a_side_loses_goes_over_the_one_that_leads(void **state)
{
    static const int kinds[] = {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND};

    (void)state;
    for (size_t k = 0; k < TCI_LEN(kinds); k++) {
        unsigned survived = 0, named = 0;

        lose_each(kinds[k], &survived, &named);
        assert_true(survived > 0);
        assert_true(named > 0 || pair_kind != &plain);
    }
}

/* At each moment of messages in both directions; no device says a word. */
static void a_side_that_is_silent_is_left_out(void **state)
{
    (void)state;
    for (int turns = 0; turns < TURNS; turns += 2) {
        struct rdma_flow flow;

        net_exchange(&pair, MIB, 1);
        rdma_flow_start(&pair, &flow, 2);
        net_turns(&pair, turns);
        fake_port_of(1, false);
        rdma_flow_finish(&pair, &flow);
        net_exchange(&pair, 3 * MIB, 3);
        assert_int_equal(pair_losses(), 0);
        assert_true(is_left_out());
        pair_reopen();
    }
}

/* Has both ends ask over the cable that leads, too; what has come there in the turn of the question
 * was said before it. */
static void turn_silently(uint64_t ms)
{
    uint64_t end_ns = tci_loop_clock() + ms * TCI_NS_PER_MS;

    while (tci_loop_clock() < end_ns) {
        net_turn(&pair);
        for (uint32_t r = 0; r < 2; r++) {
            const struct tci_rdma_link *side = pair_link(r, 1);

            if (side->lead_asked_ns != 0)
                pair_link(r, 0)->read_ns = side->lead_asked_ns;
        }
    }
    for (uint32_t r = 0; r < 2; r++)
        assert_int_not_equal(pair_link(r, 1)->lead_asked_ns, 0);
}

/* Where the cable that leads is silent as well it is the peer that does not answer. */
static void a_peer_that_is_silent_costs_no_cable(void **state)
{
    struct rdma_flow flow;

    (void)state;
    net_exchange(&pair, MIB, 1);
    fake_hold(true);
    rdma_flow_start(&pair, &flow, 2);
    turn_silently(2000);
    fake_hold(false);
    rdma_flow_finish(&pair, &flow);
    pair_turn_for(2000);
    assert_int_equal(pair_losses(), 0);
    assert_int_equal(fake_counts().qps, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_CASE(what_a_side_loses_goes_over_the_one_that_leads, plain),
        PAIR_CASE(what_a_side_loses_goes_over_the_one_that_leads, sealed),
        PAIR_CASE(a_side_that_is_silent_is_left_out, plain),
        PAIR_CASE(a_peer_that_is_silent_costs_no_cable, plain),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    tc_log_set_level(TC_LOG_ERROR);
    return cmocka_run_group_tests_name("rdma uc cables", tests, NULL, NULL);
}
