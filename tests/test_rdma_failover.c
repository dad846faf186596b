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
#include "rdma/link.h"
#include "support/rdma_flow.h"
#include "support/rdma_net.h"
#include "tcdist/log.h"

enum { EAGER = 65536, MIB = 1 << 20, LEN = MIB + 12, TURNS = 7, HEAL_MS = 100 };

static void open_plain_briefly(struct net *net, size_t eager_bytes)
{
    net->context.config.heal_ms = HEAL_MS;
    rdma_net_open_cables(net, eager_bytes);
}

static void open_sealed_briefly(struct net *net, size_t eager_bytes)
{
    net->context.config.heal_ms = HEAL_MS;
    rdma_net_open_sealed_cables(net, eager_bytes);
}

static const struct net_subject plain = {"2 cables", rdma_net_open_cables};
static const struct net_subject sealed = {"4 cables, sealed", rdma_net_open_sealed_cables};
static const struct net_subject plain_briefly = {"2 cables", open_plain_briefly};
static const struct net_subject sealed_briefly = {"4 cables, sealed", open_sealed_briefly};

static struct net net;

static void open_again(const struct net_subject *subject)
{
    net_subject = subject;
    rdma_net_setup_cables();
    net_open(&net, 2, EAGER);
}

static int close_all(void **state)
{
    (void)state;
    net_close(&net);
    rdma_net_check_clean();
    return 0;
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

static int open_two_briefly(void **state)
{
    (void)state;
    open_again(&plain_briefly);
    return 0;
}

static int open_four_briefly(void **state)
{
    (void)state;
    open_again(&sealed_briefly);
    return 0;
}

/* A cable that does not lead fails some turns after they have begun, and some go by. */
static void flow_cut(struct rdma_flow *flow, int before, int after)
{
    net_exchange(&net, MIB, 1);
    rdma_flow_start(&net, flow, 2);
    net_turns(&net, before);
    fake_port_of(1, false);
    net_turns(&net, after);
}

static unsigned losses(void)
{
    return net.nodes[0].losses + net.nodes[1].losses;
}

/* At each moment of messages in both directions. */
static void what_goes_over_a_cable_that_fails_goes_over_the_others(void **state)
{
    for (int turns = 0; turns < TURNS; turns++) {
        struct rdma_flow flow;

        flow_cut(&flow, turns, 0);
        rdma_flow_finish(&net, &flow);
        net_exchange(&net, 3 * MIB, 3); /* the cable may have been missed by nobody so far */
        assert_int_equal(losses(), 0);
        assert_int_equal(fake_counts().qps, 2);
        (void)close_all(state);
        (void)open_two(state);
    }
}

/* All but the one that leads, each while the last one's messages begin anew. */
static void cables_fail_one_after_the_other(void **state)
{
    for (int turns = 0; turns < TURNS; turns += 3) {
        struct rdma_flow flow;

        net_exchange(&net, MIB, 1);
        rdma_flow_start(&net, &flow, 2);
        for (unsigned cable = RDMA_NET_CABLES - 1; cable > 0; cable--) {
            net_turns(&net, turns);
            fake_port_of(cable, false);
        }
        rdma_flow_finish(&net, &flow);
        net_exchange(&net, 3 * MIB, 3);
        assert_int_equal(losses(), 0);
        assert_int_equal(fake_counts().qps, 2);
        (void)close_all(state);
        (void)open_four(state);
    }
}

/* Any write fails, and some had arrived all the same: over the cable that leads, whose queue pair
 * is made again, or over another one, which is left out. */
static void a_piece_that_fails_is_neither_lost_nor_doubled(void **state)
{
    unsigned healed = 0, left_out = 0;

    for (unsigned i = 2; i < 24; i++) {
        struct rdma_flow flow;

        net_exchange(&net, MIB, 1);
        rdma_flow_start(&net, &flow, 2);
        fake_fate(IBV_WR_RDMA_WRITE_WITH_IMM, i / 2, i % 2 == 0 ? FAKE_FAILS : FAKE_IS_UNSURE,
                  IBV_WC_RETRY_EXC_ERR);
        rdma_flow_finish(&net, &flow);
        net_exchange(&net, 3 * MIB, 3);
        assert_int_equal(losses(), 0);
        healed += net_stats(&net, 0).heals > 0;
        left_out += fake_counts().qps == 2;
        (void)close_all(state);
        (void)open_two(state);
    }
    assert_true(healed > 0 && left_out > 0);
}

static void the_cable_that_leads_is_missed_by_name(void **state)
{
    struct rdma_flow flow;

    (void)state;
    net_exchange(&net, MIB, 1);
    rdma_flow_start(&net, &flow, 2);
    fake_port_of(0, false);
    rdma_flow_drop(&net, &flow);
    assert_int_equal(losses(), 2);
    assert_true(strstr(net.nodes[0].error.pub.message, "(device fake0") != NULL ||
                strstr(net.nodes[1].error.pub.message, "(device fake0") != NULL);
    assert_int_equal(fake_counts().qps, 0);
}

static void an_abort_while_a_cable_fails_ends_all(void **state)
{
    for (int turns = 0; turns < TURNS; turns++) {
        struct rdma_flow flow;

        flow_cut(&flow, 3, turns);
        for (int r = 0; r < 2; r++)
            net_abort(&net, r, &flow.recv[r][0].xfer.key);
        rdma_flow_drop(&net, &flow);
        assert_int_equal(losses(), 0);
        net_exchange(&net, 3 * MIB, 3);
        (void)close_all(state);
        (void)open_two(state);
    }
}

/* The last word of a meeting, which is still on its way. */
static bool is_held(const struct tci_notice *notice)
{
    return notice->kind == TCI_NOTICE_RDMA &&
           (notice->arg & ((1 << TCI_RDMA_CABLE_SHIFT) - 1)) == TCI_RDMA_CONFIRM;
}

static const struct tci_transport_ops *tcp_ops;

static void hold_last_word(struct tci_transport *self, uint32_t peer,
                           const struct tci_notice *notice, bool may_link)
{
    if (!is_held(notice))
        tcp_ops->notify(self, peer, notice, may_link);
}

static void let_tcp_notify(uint32_t rank, void (*notify)(struct tci_transport *, uint32_t,
                                                         const struct tci_notice *, bool))
{
    static struct tci_transport_ops ops[2];
    struct tci_transport *tcp = net.nodes[rank].transport;

    while (tci_rdma_is(tcp))
        tcp = tci_rdma_below(tcp);
    if (tcp->ops != &ops[rank])
        tcp_ops = tcp->ops;
    ops[rank] = *tcp_ops;
    ops[rank].notify = notify;
    tcp->ops = &ops[rank];
}

/* Rank 1 stands, has nothing to send so far, and rank 0, which has yet to hear of it, fails. */
static void a_cable_that_fails_as_it_comes_up_is_left_out(void **state)
{
    static struct net_message recv, send;
    struct tci_rdma_link *here;

    (void)state;
    net_exchange(&net, 1000, 1);
    let_tcp_notify(1, hold_last_word);
    net_recv(&net, &recv, 0, 1, 2, LEN);
    while (rdma_net_cable(&net, 1, 1)->links[0] == NULL ||
           rdma_net_cable(&net, 1, 1)->links[0]->state != TCI_RDMA_NEAR)
        net_turn(&net);
    here = rdma_net_cable(&net, 0, 1)->links[1];
    assert_int_equal(here->state, TCI_RDMA_GREETING);
    tci_rdma_link_break(here, "it was pulled");
    net_send(&net, &send, 1, 0, 2, LEN);
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
    assert_int_equal(losses(), 0);
    assert_int_equal(fake_counts().qps, 2);
    net_exchange(&net, 3 * MIB, 3);
}

static void say_nothing(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                        bool may_link)
{
    (void)self;
    (void)peer;
    (void)notice;
    (void)may_link;
}

/* Rank 1 never says what it has had: it is stopped, say.  Who aborts does not wait for that. */
static void an_abort_over_a_cable_that_has_failed_needs_no_word_of_the_peer(void **state)
{
    static struct net_message in, out, there; /* outlive a test that fails */
    const struct tci_rdma_link *side;

    (void)state;
    net_exchange(&net, MIB, 1);
    let_tcp_notify(1, say_nothing);
    net_recv(&net, &there, 1, 0, 2, LEN);
    net_recv(&net, &in, 0, 1, 3, LEN);
    net_turns(&net, 5); /* both are granted */
    fake_port_of(1, false);
    net_send(&net, &out, 0, 1, 2, LEN);
    side = rdma_net_cable(&net, 0, 1)->links[1];
    while (side->state != TCI_RDMA_STOPPED)
        net_turn(&net);
    assert_int_equal(side->live, 2);
    net_abort(&net, 0, &in.xfer.key);
    net_abort(&net, 0, &out.xfer.key);
    net_wait(&net, &in.xfer);
    net_wait(&net, &out.xfer);
    assert_int_equal(in.xfer.status, TC_ERR_CANCELLED);
    assert_int_equal(out.xfer.status, TC_ERR_CANCELLED);
    assert_int_equal(losses(), 0);

    net_abort(&net, 1, &there.xfer.key);
    net_wait(&net, &there.xfer);
    net_free(&in);
    net_free(&out);
    net_free(&there);
}

static void a_close_while_a_cable_fails_leaves_nothing(void **state)
{
    for (int turns = 0; turns < TURNS; turns++) {
        struct rdma_flow flow;

        flow_cut(&flow, 3, turns);
        net_close_transports(&net);
        rdma_flow_drop(&net, &flow);
        (void)close_all(state);
        (void)open_two(state);
    }
}

/* What ranks post later passes, too, and they part in peace. */
static void a_goodbye_waits_for_what_begins_anew(void **state)
{
    for (int turns = 0; turns < TURNS; turns++) {
        struct rdma_flow flow;

        flow_cut(&flow, 2, turns);
        for (int r = 0; r < 2; r++)
            net.nodes[r].transport->ops->leave(net.nodes[r].transport);
        rdma_flow_finish(&net, &flow);
        for (int r = 0; r < 2; r++)
            net_turn_until(&net, &net.nodes[r].lefts, 1);
        assert_int_equal(losses(), 0);
        (void)close_all(state);
        (void)open_two(state);
    }
}

#define CASE(test, open) cmocka_unit_test_setup_teardown(test, open, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_goes_over_a_cable_that_fails_goes_over_the_others, open_two),
        CASE(cables_fail_one_after_the_other, open_four),
        CASE(a_piece_that_fails_is_neither_lost_nor_doubled, open_two),
        CASE(the_cable_that_leads_is_missed_by_name, open_two_briefly),
        CASE(the_cable_that_leads_is_missed_by_name, open_four_briefly),
        CASE(an_abort_while_a_cable_fails_ends_all, open_two),
        CASE(a_cable_that_fails_as_it_comes_up_is_left_out, open_two),
        CASE(an_abort_over_a_cable_that_has_failed_needs_no_word_of_the_peer, open_two),
        CASE(a_close_while_a_cable_fails_leaves_nothing, open_two),
        CASE(a_goodbye_waits_for_what_begins_anew, open_two),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    tc_log_set_level(TC_LOG_ERROR);
    return cmocka_run_group_tests_name("rdma failover", tests, NULL, NULL);
}
