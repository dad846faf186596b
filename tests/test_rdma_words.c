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
#include "rdma/link.h"
#include "support/rdma_flow.h"
#include "support/rdma_net.h"
#include "tcdist/log.h"

enum { EAGER = 65536, MIB = 1 << 20, LEN = MIB + 12, TURNS = 8 };

static const struct net_subject one = {"rdma", rdma_net_open};
static const struct net_subject two = {"2 cables", rdma_net_open_cables};

static struct net net;

static void open_again(const struct net_subject *subject)
{
    net_subject = subject;
    rdma_net_setup_cables();
    net_open(&net, 2, EAGER);
}

static int open_one(void **state)
{
    (void)state;
    open_again(&one);
    return 0;
}

static int open_two(void **state)
{
    (void)state;
    open_again(&two);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    net_close(&net);
    rdma_net_check_clean();
    return 0;
}

static struct tci_rdma_link *link_of(uint32_t rank, int cable)
{
    return rdma_net_cable(&net, rank, cable)->links[1 - rank];
}

static unsigned losses(void)
{
    return net.nodes[0].losses + net.nodes[1].losses;
}

static bool is_told(const char *text)
{
    return strstr(net.nodes[0].error.pub.message, text) != NULL ||
           strstr(net.nodes[1].error.pub.message, text) != NULL;
}

static void start_and_cut(struct rdma_flow *flow)
{
    net_exchange(&net, MIB, 1);
    rdma_flow_start(&net, flow, 2);
    net_turns(&net, 3);
    fake_path(false);
    while (link_of(0, 0)->state != TCI_RDMA_HEALING || link_of(1, 0)->state != TCI_RDMA_HEALING)
        net_turn(&net);
}

/* ---- What befalls it ---- */

/* Nobody waits for another queue pair of it. */
static void a_device_that_is_taken_out_meanwhile_is_named(void **state)
{
    struct rdma_flow flow;

    (void)state;
    start_and_cut(&flow);
    fake_remove();
    rdma_flow_drop(&net, &flow);
    assert_int_equal(losses(), 2);
    assert_true(is_told("over RDMA any more (device fake0, port 1): the device has failed or was "
                        "taken out"));
}

/* What it failed by first would pass, had there been a device to try again with. */
static void a_device_that_is_taken_out_as_it_fails_makes_no_other(void **state)
{
    struct net_message send;

    (void)state;
    net_exchange(&net, 1000, 1);
    fake_fate(-1, 1, FAKE_FAILS, IBV_WC_RETRY_EXC_ERR);
    net_send(&net, &send, 0, 1, 2, 1000);
    (void)tci_rdma_flush(link_of(0, 0));
    while (link_of(0, 0)->broken == NULL)
        (void)tci_rdma_poll_cq(link_of(0, 0)->rdma, TCI_RDMA_BATCH);
    fake_remove();
    while (!link_of(0, 0)->rdma->is_dead)
        tci_loop_ask(net.loop, 0);
    assert_int_equal(net.nodes[0].losses, 1);
    assert_true(is_told("no acknowledgement came"));
    assert_int_equal(net_stats(&net, 0).breaks, 0);
    net_wait(&net, &send.xfer);
    net_free(&send);
}

static void what_breaks_it_meanwhile_is_named(void **state)
{
    struct rdma_flow flow;

    (void)state;
    start_and_cut(&flow);
    while (link_of(1, 0)->qp != NULL)
        net_turn(&net);
    fake_path(true);
    tci_rdma_link_break(link_of(1, 0), "a test says so");
    rdma_flow_drop(&net, &flow);
    assert_int_equal(losses(), 2);
    assert_true(is_told("a test says so"));
}

/* ---- What the peer says ---- */

typedef void tell_fn(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                     bool may_link);

static const struct tci_transport_ops *tcp_ops;

static struct tci_transport *tcp_of(uint32_t rank)
{
    struct tci_transport *tcp = net.nodes[rank].transport;

    while (tci_rdma_is(tcp))
        tcp = tci_rdma_below(tcp);
    return tcp;
}

static void let_notify(uint32_t rank, tell_fn *notify)
{
    static struct tci_transport_ops ops;

    tcp_ops = tcp_of(rank)->ops;
    ops = *tcp_ops;
    ops.notify = notify;
    tcp_of(rank)->ops = &ops;
}

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
    tcp_ops->notify(self, peer, &other, may_link);
}

/* It stands for what both have found out when they met: parts of messages are on their way. */
static void a_card_of_other_cables_does_no_harm(void **state)
{
    for (uint32_t liar = 0; liar < 2; liar++) {
        struct rdma_flow flow;

        net_exchange(&net, MIB, 1);
        fake_hold(true);
        rdma_flow_start(&net, &flow, 2);
        net_turns(&net, 2);
        changed = 0;
        let_notify(liar, change_cables);
        tci_rdma_link_break(link_of(0, 0), tci_rdma_flushed);
        while (net_stats(&net, 0).heals == 0 || net_stats(&net, 1).heals == 0)
            net_turn(&net);
        assert_int_equal(changed, 1);
        for (int r = 0; r < 2; r++)
            net_abort(&net, r, &flow.recv[r][0].xfer.key);
        net_turns(&net, 2);
        fake_hold(false);
        rdma_flow_drop(&net, &flow);
        net_exchange(&net, 3 * MIB, 3);
        assert_int_equal(losses(), 0);
        (void)close_all(state);
        (void)open_two(state);
    }
}

static void say_nothing(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                        bool may_link)
{
    (void)self;
    (void)peer;
    (void)notice;
    (void)may_link;
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
    net_exchange(&net, MIB, 1);
    let_notify(1, say_nothing);
    net_recv(&net, &there, 1, 0, 2, LEN);
    net_recv(&net, &in, 0, 1, 3, LEN);
    net_turns(&net, 5); /* both are granted */
    fake_port_of(1, false);
    net_send(&net, &out, 0, 1, 2, LEN);
    while (link_of(0, 1)->state != TCI_RDMA_STOPPED)
        net_turn(&net);
    assert_int_equal(link_of(0, 1)->live, 2);
    tcp_ops->notify(tcp_of(1), 0, &notice, true);
    net_turn_until(&net, &net.nodes[0].losses, 1);
    assert_true(is_told("has given up its queue pair"));
    net_wait(&net, &in.xfer);
    net_wait(&net, &out.xfer);
    assert_int_equal(in.xfer.status, TC_ERR_PEER_LOST);
    assert_int_equal(out.xfer.status, TC_ERR_PEER_LOST);

    net_abort(&net, 1, &there.xfer.key);
    net_wait(&net, &there.xfer);
    net_free(&in);
    net_free(&out);
    net_free(&there);
}

/* ---- Goodbyes ---- */

/* Whatever becomes of the words, or of what acknowledges them: both have left. */
static void a_path_that_is_away_as_both_leave_is_not_missed(void **state)
{
    for (unsigned n = 0; n < 4 * TURNS; n++) {
        net_exchange(&net, 1000, 1);
        fake_fate(IBV_WR_SEND, 1 + n % 2, n & 2 ? FAKE_FAILS : FAKE_IS_UNSURE,
                  IBV_WC_RETRY_EXC_ERR);
        net.nodes[0].transport->ops->leave(net.nodes[0].transport);
        net_turns(&net, (int)n / 4 % 4);
        net.nodes[1].transport->ops->leave(net.nodes[1].transport);
        if (n / 16 % 2 == 1)
            fake_path(false);
        net_turns(&net, 2);
        fake_path(true);
        for (int r = 0; r < 2; r++)
            net_turn_until(&net, &net.nodes[r].lefts, 1);
        net_turns(&net, 20);
        assert_int_equal(losses(), 0);
        (void)close_all(state);
        (void)open_one(state);
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
    net_exchange(&net, 1000, 1);
    let_notify(1, say_nothing);
    net.nodes[0].transport->ops->leave(net.nodes[0].transport);
    tcp_ops->notify(tcp_of(1), 0, &notice, true);
    while (link_of(0, 0)->state != TCI_RDMA_GONE)
        net_turn(&net);
    assert_int_equal(net.nodes[0].losses, 0);
}

/* Its words, and the answers to them, would come behind its goodbye. */
static void who_has_left_makes_no_queue_pair(void **state)
{
    struct net_message send;

    (void)state;
    net.nodes[0].transport->ops->leave(net.nodes[0].transport);
    net_send(&net, &send, 1, 0, 1, 1000);
    while (link_of(0, 0) == NULL)
        net_turn(&net);
    net_turns(&net, 3);
    assert_null(link_of(0, 0)->qp);
    net_abort(&net, 1, &send.xfer.key);
    net_wait(&net, &send.xfer);
    net_free(&send);
}

static void who_has_left_makes_no_queue_pair_again(void **state)
{
    (void)state;
    net_exchange(&net, 1000, 1);
    net.nodes[0].transport->ops->leave(net.nodes[0].transport);
    while (!link_of(0, 0)->rdma->has_left_below)
        net_turn(&net);
    tci_rdma_link_break(link_of(0, 0), tci_rdma_flushed);
    while (link_of(0, 0)->state != TCI_RDMA_GONE)
        net_turn(&net);
    assert_int_equal(net_stats(&net, 0).breaks, 0);
    assert_int_equal(net.nodes[1].losses, 0);
}

#define CASE(test, open) cmocka_unit_test_setup_teardown(test, open, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_path_that_is_away_as_both_leave_is_not_missed, open_one),
        CASE(a_peer_that_gives_up_behind_our_goodbye_is_not_lost, open_one),
        CASE(who_has_left_makes_no_queue_pair, open_one),
        CASE(who_has_left_makes_no_queue_pair_again, open_one),
        CASE(a_device_that_is_taken_out_meanwhile_is_named, open_one),
        CASE(a_device_that_is_taken_out_as_it_fails_makes_no_other, open_one),
        CASE(what_breaks_it_meanwhile_is_named, open_one),
        CASE(a_card_of_other_cables_does_no_harm, open_two),
        CASE(a_peer_that_declines_a_cable_that_is_left_out_is_lost, open_two),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    tc_log_set_level(TC_LOG_ERROR);
    return cmocka_run_group_tests_name("rdma words", tests, NULL, NULL);
}
