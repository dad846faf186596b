/* rdma_pair.c - two ranks over the fake devices, for what befalls them: opened, cut, asked. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "support/rdma_pair.h"

struct net pair;
const struct pair_kind *pair_kind;

static void open_kind(struct net *net, size_t eager_bytes)
{
    if (pair_kind->heal_ms != 0)
        net->context.config.heal_ms = pair_kind->heal_ms;
    pair_kind->subject.open(net, eager_bytes);
}

void pair_open(const struct pair_kind *kind)
{
    static struct net_subject subject = {.open = open_kind};

    pair_kind = kind;
    subject.name = kind->subject.name;
    net_subject = &subject;
    if (kind->setup != NULL)
        kind->setup();
    else
        rdma_net_setup_cables();
    net_open(&pair, 2, PAIR_EAGER);
}

void pair_close(void)
{
    fake_hold(false);
    net_close(&pair);
    rdma_net_check_clean();
}

void pair_reopen(void)
{
    pair_close();
    pair_open(pair_kind);
}

int pair_setup(void **state)
{
    pair_open(*state);
    return 0;
}

int pair_teardown(void **state)
{
    (void)state;
    pair_close();
    return 0;
}

struct tci_rdma_link *pair_link(uint32_t rank, int cable)
{
    return rdma_net_cable(&pair, rank, cable)->links[1 - rank];
}

unsigned pair_losses(void)
{
    return pair.nodes[0].losses + pair.nodes[1].losses;
}

bool pair_is_told(const char *text)
{
    return strstr(pair.nodes[0].error.pub.message, text) != NULL ||
           strstr(pair.nodes[1].error.pub.message, text) != NULL;
}

void pair_turn_for(uint64_t ms)
{
    uint64_t end_ns = tci_loop_clock() + ms * TCI_NS_PER_MS;

    while (tci_loop_clock() < end_ns)
        net_turn(&pair);
}

static const char *way(uint32_t rank, const char **why)
{
    return tci_rdma_way(pair.nodes[rank].transport, 1 - rank, why);
}

void pair_goes_over_tcp(const char *reason)
{
    const char *why[2];

    net_exchange(&pair, 1000, 1);
    net_exchange(&pair, 3 << 20, 2);
    for (uint32_t r = 0; r < 2; r++)
        assert_string_equal(way(r, &why[r]), "tcp");
    assert_true(strstr(why[0], reason) != NULL || strstr(why[1], reason) != NULL);
    assert_int_equal(pair_losses(), 0);
    assert_int_equal(fake_counts().qps, 0);
}

/* ---- Notices ---- */

static const struct tci_transport_ops *tcp_ops;

struct tci_transport *pair_tcp(uint32_t rank)
{
    struct tci_transport *tcp = pair.nodes[rank].transport;

    while (tci_rdma_is(tcp))
        tcp = tci_rdma_below(tcp);
    return tcp;
}

void pair_let_notify(uint32_t rank, pair_notify_fn *notify)
{
    static struct tci_transport_ops ops[2];
    struct tci_transport *tcp = pair_tcp(rank);

    if (tcp->ops != &ops[rank])
        tcp_ops = tcp->ops;
    ops[rank] = *tcp_ops;
    ops[rank].notify = notify;
    tcp->ops = &ops[rank];
}

void pair_notify(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                 bool may_link)
{
    tcp_ops->notify(self, peer, notice, may_link);
}

void pair_say_nothing(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                      bool may_link)
{
    (void)self;
    (void)peer;
    (void)notice;
    (void)may_link;
}
