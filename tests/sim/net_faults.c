/* net_faults.c - what goes wrong in the simulated network: ends of ranks, of links and of paths. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "core/assert.h"
#include "core/base.h"
#include "sim/net_parts.h"

/* ---- Faults --------------------------------------------------------------------------------- */

struct sim_loss {
    struct sim_event event;
    struct sim_node *node;
    uint32_t peer;
    tc_reason_t reason;
    const char *how;
};

static void lose(struct sim_event *event)
{
    struct sim_loss *loss = tci_container_of(event, struct sim_loss, event);
    struct sim_node *node = loss->node;
    struct tci_list *at, *next;
    uint32_t peer = loss->peer;
    tc_reason_t reason = loss->reason;
    const char *how = loss->how;

    if (node->is_closed || node->is_dead || sim_is_lost(node, peer) || !sim_is_linked(node, peer) ||
        (reason == TC_REASON_MACHINE_SILENT && !sim_is_broken(node->net, node->rank, peer) &&
         !sim_is_broken(node->net, peer, node->rank))) {
        free(loss);
        return;
    }
    if (node->lost == NULL)
        node->lost = calloc(node->net->size, sizeof(*node->lost));
    TC_ASSERT(node->lost != NULL);
    node->lost[loss->peer] = true;
    for (at = node->live.next; at != &node->live; at = next) {
        struct sim_half *half = tci_container_of(at, struct sim_half, in_node);

        next = at->next;
        if (half->xfer->peer == peer)
            sim_half_complete(half, TC_ERR_PEER_LOST);
    }
    free(loss);
    node->transport.sink->lost(node->transport.sink, peer, reason, how);
}

static void lose_later(struct sim_node *node, uint32_t peer, uint64_t delay_ns, tc_reason_t reason,
                       const char *how)
{
    struct sim_loss *loss = malloc(sizeof(*loss));

    TC_ASSERT(loss != NULL);
    *loss = (struct sim_loss){.event = {.exec = node->exec, .fn = lose},
                              .node = node,
                              .peer = peer,
                              .reason = reason,
                              .how = how};
    sim_clock_add(node->net->clock, node->net->clock->now_ns + delay_ns, &loss->event);
}

void sim_lose_dead(struct sim_node *node, uint32_t peer)
{
    struct sim_net *net = node->net;

    lose_later(node, peer, net->config.lost_after_ns + sim_travel_ns(net, peer, node->rank),
               TC_REASON_EXITED, "lost: it has ended");
}

void sim_net_kill(struct sim_net *net, uint32_t rank)
{
    net->nodes[rank].is_dead = net->nodes[rank].exec->is_dead = true;
    net->nodes[rank].tells_left = 0;
    for (uint32_t peer = 0; peer < net->size; peer++)
        if (peer != rank && !net->nodes[peer].is_dead)
            sim_lose_dead(&net->nodes[peer], rank);
}

void sim_net_kill_at_notice(struct sim_net *net, uint32_t rank, uint32_t n)
{
    net->nodes[rank].tells_left = n;
}

void sim_net_cut(struct sim_net *net, uint32_t a, uint32_t b)
{
    sim_link(&net->nodes[a], b);
    lose_later(&net->nodes[a], b, 0, TC_REASON_EXITED, "lost: the link broke");
    lose_later(&net->nodes[b], a, 0, TC_REASON_EXITED, "lost: the link broke");
}

void sim_net_delay(struct sim_net *net, uint32_t from, uint32_t to, uint64_t longer_ns)
{
    struct sim_node *node = &net->nodes[from];

    if (node->longer_ns == NULL)
        node->longer_ns = calloc(net->size, sizeof(*node->longer_ns));
    TC_ASSERT(node->longer_ns != NULL);
    node->longer_ns[to] = longer_ns;
    sim_release(net, from, to);
}

void sim_net_slow(struct sim_net *net, uint32_t rank, uint64_t longer_ns)
{
    net->nodes[rank].slow_ns = longer_ns;
}

/* ---- Paths -------------------------------------------------------------------------------- */

uint64_t sim_whole_ns(const struct sim_net *net, uint32_t from, uint32_t to)
{
    return net->whole_ns == NULL ? 0 : net->whole_ns[(size_t)from * net->size + to];
}

bool sim_is_silent(const struct sim_net *net, uint32_t from, uint32_t to)
{
    const uint64_t *longer_ns = net->nodes[from].longer_ns;

    return sim_whole_ns(net, from, to) == TCI_NEVER ||
           (longer_ns != NULL && longer_ns[to] == TCI_NEVER);
}

bool sim_is_broken(const struct sim_net *net, uint32_t from, uint32_t to)
{
    return sim_whole_ns(net, from, to) > net->clock->now_ns || sim_is_silent(net, from, to);
}

/* As long as it takes until a host gives up, and a second at random, as its timers stand. */
static uint64_t silence_ns(struct sim_net *net)
{
    return net->config.silent_after_ns + sim_random(&net->random) % (1000 * TCI_NS_PER_MS);
}

void sim_net_break(struct sim_net *net, uint32_t from, uint32_t to, uint64_t span_ns)
{
    uint64_t now = net->clock->now_ns;

    if (net->whole_ns == NULL)
        net->whole_ns = calloc((size_t)net->size * net->size, sizeof(*net->whole_ns));
    TC_ASSERT(net->whole_ns != NULL);
    net->whole_ns[(size_t)from * net->size + to] = span_ns == TCI_NEVER ? TCI_NEVER : now + span_ns;
    sim_release(net, from, to);
    if (span_ns < net->config.silent_after_ns)
        return;
    lose_later(&net->nodes[from], to, silence_ns(net), TC_REASON_MACHINE_SILENT,
               "lost: it is silent");
    lose_later(&net->nodes[to], from, silence_ns(net), TC_REASON_MACHINE_SILENT,
               "lost: it is silent");
}
