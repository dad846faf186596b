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
#include "rdma/link.h"
#include "support/rdma_flow.h"
#include "support/rdma_net.h"
#include "tcdist/log.h"

enum { EAGER = 65536, MIB = 1 << 20, TURNS = 7 };

static const struct net_subject plain = {"2 cables", rdma_net_open_uc_cables};
static const struct net_subject sealed = {"4 cables, sealed", rdma_net_open_sealed_uc_cables};

static struct net net;

static void open_again(const struct net_subject *subject)
{
    net_subject = subject;
    rdma_net_setup_cables();
    net_open(&net, 2, EAGER);
}

static int open_two(void **state)
{
    (void)state;
    open_again(&plain);
    return 0;
}

static int open_four(void **state)
{
    (void)state;
    open_again(&sealed);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    net_close(&net);
    rdma_net_check_clean();
    return 0;
}

static unsigned losses(void)
{
    return net.nodes[0].losses + net.nodes[1].losses;
}

/* Both ends have gone on without the second cable. */
static bool is_left_out(void)
{
    for (uint32_t r = 0; r < 2; r++)
        if (rdma_net_cable(&net, r, 1)->links[1 - r]->state != TCI_RDMA_FAR)
            return false;
    return true;
}

/* The n-th of a kind is lost, over the cable that leads, or over another one. */
static void lose_each(int opcode, unsigned *survived, unsigned *named)
{
    const struct net_subject *subject = net_subject;

    for (unsigned nth = 1; nth < 12; nth += 2) {
        struct rdma_flow flow;

        net_exchange(&net, MIB, 1);
        rdma_flow_start(&net, &flow, 2);
        fake_fate(opcode, nth, FAKE_IS_LOST, IBV_WC_SUCCESS);
        rdma_flow_drop(&net, &flow);
        if (losses() == 0) {
            net_exchange(&net, 3 * MIB, 3);
            *survived += fake_counts().qps < (subject == &plain ? 4 : 2 * RDMA_NET_CABLES);
        } else {
            assert_true(strstr(net.nodes[0].error.pub.message, "was lost") != NULL ||
                        strstr(net.nodes[1].error.pub.message, "was lost") != NULL ||
                        strstr(net.nodes[0].error.pub.message, "does not open") != NULL ||
                        strstr(net.nodes[1].error.pub.message, "does not open") != NULL);
            *named += 1;
        }
        (void)close_all(NULL);
        open_again(subject);
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
        assert_true(named > 0 || net_subject != &plain);
    }
}

/* At each moment of messages in both directions; no device says a word. */
static void a_side_that_is_silent_is_left_out(void **state)
{
    for (int turns = 0; turns < TURNS; turns += 2) {
        struct rdma_flow flow;

        net_exchange(&net, MIB, 1);
        rdma_flow_start(&net, &flow, 2);
        net_turns(&net, turns);
        fake_port_of(1, false);
        rdma_flow_finish(&net, &flow);
        net_exchange(&net, 3 * MIB, 3);
        assert_int_equal(losses(), 0);
        assert_true(is_left_out());
        (void)close_all(state);
        (void)open_two(state);
    }
}

static void turn_for(uint64_t ms)
{
    uint64_t end_ns = tci_loop_clock() + ms * TCI_NS_PER_MS;

    while (tci_loop_clock() < end_ns)
        net_turn(&net);
}

/* Has both ends ask over the cable that leads, too; what has come there in the turn of the question
 * was said before it. */
static void turn_silently(uint64_t ms)
{
    uint64_t end_ns = tci_loop_clock() + ms * TCI_NS_PER_MS;

    while (tci_loop_clock() < end_ns) {
        net_turn(&net);
        for (uint32_t r = 0; r < 2; r++) {
            const struct tci_rdma_link *side = rdma_net_cable(&net, r, 1)->links[1 - r];

            if (side->lead_asked_ns != 0)
                rdma_net_cable(&net, r, 0)->links[1 - r]->read_ns = side->lead_asked_ns;
        }
    }
    for (uint32_t r = 0; r < 2; r++)
        assert_int_not_equal(rdma_net_cable(&net, r, 1)->links[1 - r]->lead_asked_ns, 0);
}

/* Where the cable that leads is silent as well it is the peer that does not answer. */
static void a_peer_that_is_silent_costs_no_cable(void **state)
{
    struct rdma_flow flow;

    (void)state;
    net_exchange(&net, MIB, 1);
    fake_hold(true);
    rdma_flow_start(&net, &flow, 2);
    turn_silently(2000);
    fake_hold(false);
    rdma_flow_finish(&net, &flow);
    turn_for(2000);
    assert_int_equal(losses(), 0);
    assert_int_equal(fake_counts().qps, 4);
}

#define CASE(test, open) cmocka_unit_test_setup_teardown(test, open, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_a_side_loses_goes_over_the_one_that_leads, open_two),
        CASE(what_a_side_loses_goes_over_the_one_that_leads, open_four),
        CASE(a_side_that_is_silent_is_left_out, open_two),
        CASE(a_peer_that_is_silent_costs_no_cable, open_two),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    tc_log_set_level(TC_LOG_ERROR);
    return cmocka_run_group_tests_name("rdma uc cables", tests, NULL, NULL);
}
