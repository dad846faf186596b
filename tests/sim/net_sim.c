/* net_sim.c - the simulated network: adapters, wires, faults, and the port that hides them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/net_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "sim/net_parts.h"

void sim_net_config_default(struct sim_net_config *config)
{
    /* A 100 Gbit/s network and kernels that fold 20 GB/s. */
    *config = (struct sim_net_config){.latency_ns = 5000,
                                      .overhead_ns = 500,
                                      .byte_ns = 0.08,
                                      .fold_byte_ns = 0.05,
                                      .eager_max = 8192,
                                      .seed = 1,
                                      .lost_after_ns = 2 * TCI_NS_PER_MS,
                                      .silent_after_ns = 13000 * TCI_NS_PER_MS,
                                      .patience_ns = 100 * TCI_NS_PER_MS};
}

static struct sim_node *of(struct tci_transport *self)
{
    return (struct sim_node *)self;
}

bool sim_is_lost(const struct sim_node *node, uint32_t peer)
{
    return node->lost != NULL && node->lost[peer];
}

bool sim_is_linked(const struct sim_node *node, uint32_t peer)
{
    return node->rank == 0 || peer == 0 || !node->net->config.is_sparse ||
           (node->is_linked != NULL && node->is_linked[peer]);
}

static void note_link(struct sim_node *node, uint32_t peer)
{
    if (node->is_linked == NULL)
        node->is_linked = calloc(node->net->size, sizeof(*node->is_linked));
    TC_ASSERT(node->is_linked != NULL);
    node->is_linked[peer] = true;
}

void sim_link(struct sim_node *node, uint32_t peer)
{
    if (sim_is_linked(node, peer))
        return;
    note_link(node, peer);
    note_link(&node->net->nodes[peer], node->rank);
    if (node->net->nodes[peer].is_dead)
        sim_lose_dead(node, peer);
}

/* ---- The wire ------------------------------------------------------------------------------- */

/* How long the first byte travels from `from` to `to`. */
uint64_t sim_travel_ns(struct sim_net *net, uint32_t from, uint32_t to)
{
    double latency = from == to ? 0 : net->config.latency_ns;

    if (net->config.jitter > 0)
        latency *= 1 + net->config.jitter * (double)(sim_random(&net->random) >> 11) * 0x1p-53;
    return (uint64_t)latency;
}

/* Of the processor a message. */
static uint64_t overhead_ns(const struct sim_node *node)
{
    return (uint64_t)node->net->config.overhead_ns + node->slow_ns;
}

static void landed(struct sim_event *event)
{
    sim_arrive(tci_container_of(event, struct sim_msg, event));
}

/* All bytes are here: the processor takes the message up. */
static void received(struct sim_event *event)
{
    struct sim_msg *msg = tci_container_of(event, struct sim_msg, event);
    struct sim_node *node = msg->to;
    struct sim_net *net = node->net;

    node->work_ns = tci_max(node->work_ns, net->clock->now_ns) + overhead_ns(node);
    if (node->work_ns <= net->clock->now_ns) {
        sim_arrive(msg);
        return;
    }
    event->fn = landed;
    sim_clock_add(net->clock, node->work_ns, event);
}

/* The first byte is here: the adapter takes messages one after the other. */
static void reached(struct sim_event *event)
{
    struct sim_msg *msg = tci_container_of(event, struct sim_msg, event);
    struct sim_node *node = msg->to;
    uint64_t now = node->net->clock->now_ns;
    double bytes = msg->kind == SIM_DATA ? (double)msg->len : 0;
    uint64_t end = tci_max(node->receive_ns, now) + (uint64_t)(node->net->config.byte_ns * bytes);

    node->receive_ns = end;
    if (end <= now) {
        received(event);
        return;
    }
    event->fn = received;
    sim_clock_add(node->net->clock, end, event);
}

/* Messages of a pair of ranks arrive in the order in which they leave.  Those whose path carries
 * nothing are held up: a link, which is reliable, sends them again when it carries. */
static void depart(struct sim_node *from, uint32_t to, struct sim_msg *msg, uint64_t begin_ns)
{
    struct sim_net *net = from->net;
    uint64_t at;

    msg->from = from->rank;
    msg->to = &net->nodes[to];
    if (sim_is_silent(net, from->rank, to)) {
        tci_list_add(&from->held, &msg->in_node);
        return;
    }
    at = begin_ns + sim_travel_ns(net, from->rank, to);
    if (from->longer_ns != NULL)
        at += from->longer_ns[to];
    if ((net->config.jitter > 0 || from->longer_ns != NULL) && from->last_ns == NULL) {
        from->last_ns = calloc(net->size, sizeof(*from->last_ns));
        TC_ASSERT(from->last_ns != NULL);
    }
    if (from->last_ns != NULL)
        at = from->last_ns[to] = tci_max(at, from->last_ns[to]);
    if (sim_is_broken(net, from->rank, to))
        at = sim_whole_ns(net, from->rank, to) + sim_travel_ns(net, from->rank, to);
    msg->event = (struct sim_event){.exec = msg->to->exec, .fn = reached};
    sim_clock_add(net->clock, at, &msg->event);
}

/* A link that has been given up, or whose end is no more, sends nothing again. */
void sim_release(struct sim_net *net, uint32_t from, uint32_t to)
{
    struct sim_node *node = &net->nodes[from];
    bool is_gone = node->is_dead || node->is_closed || sim_is_lost(node, to);
    struct tci_list *at, *next;

    if (sim_is_silent(net, from, to))
        return;
    for (at = node->held.next; at != &node->held; at = next) {
        struct sim_msg *msg = tci_container_of(at, struct sim_msg, in_node);

        next = at->next;
        if (msg->to != &net->nodes[to])
            continue;
        tci_list_del(&msg->in_node);
        if (is_gone)
            sim_msg_free(net, msg);
        else
            depart(node, to, msg, net->clock->now_ns);
    }
}

void sim_tell(struct sim_node *node, uint32_t peer, struct sim_msg *msg)
{
    struct sim_net *net = node->net;

    if (node->is_dead || sim_is_lost(node, peer)) {
        sim_msg_free(net, msg);
        return;
    }
    depart(node, peer, msg, net->clock->now_ns + overhead_ns(node));
    if (node->tells_left > 0 && --node->tells_left == 0)
        sim_net_kill(net, node->rank);
}

/* ---- The adapter of the sender -------------------------------------------------------------- */

static void try_leave(struct sim_node *node);

static struct sim_half *pull(struct sim_node *node)
{
    struct sim_half *half = node->queue;

    if (half == NULL)
        return NULL;
    node->queue = half->next;
    if (node->queue == NULL)
        node->queue_last = NULL;
    return half;
}

/* Behind all that is at least as urgent: mostly that is the end. */
static void enqueue(struct sim_node *node, struct sim_half *half)
{
    struct sim_half **at = &node->queue;

    if (node->queue_last != NULL && node->queue_last->priority >= half->priority)
        at = &node->queue_last->next;
    while (*at != NULL && (*at)->priority >= half->priority)
        at = &(*at)->next;
    half->next = *at;
    *at = half;
    if (half->next == NULL)
        node->queue_last = half;
}

static void start_next(struct sim_node *node)
{
    struct sim_net *net = node->net;
    struct sim_half *half;
    struct sim_msg *msg;
    uint64_t begin;

    while ((half = pull(node)) != NULL && half->xfer == NULL) {
        half->is_held = false;
        sim_half_drop(half);
    }
    node->sending = half;
    if (half == NULL) {
        try_leave(node);
        return;
    }
    begin = tci_max(half->ready_ns, net->clock->now_ns);
    msg = sim_msg_new(net, SIM_DATA, half->xfer);
    if (!net->config.no_data && msg->len > 0) {
        msg->payload = malloc(msg->len);
        TC_ASSERT(msg->payload != NULL);
        memcpy(msg->payload, half->xfer->data, msg->len);
    }
    node->stats.messages_sent++;
    node->stats.bytes_sent += msg->len;
    depart(node, half->xfer->peer, msg, begin);
    sim_clock_add(net->clock, begin + (uint64_t)(net->config.byte_ns * (double)msg->len),
                  &node->sent);
}

static void sent(struct sim_event *event)
{
    struct sim_node *node = tci_container_of(event, struct sim_node, sent);
    struct sim_half *half = node->sending;

    node->sending = NULL;
    half->is_held = false;
    if (half->xfer != NULL)
        sim_half_complete(half, TC_OK);
    else
        sim_half_drop(half);
    if (!node->is_dead)
        start_next(node);
}

void sim_send(struct sim_node *node, struct sim_half *half)
{
    node->work_ns = tci_max(node->work_ns, node->net->clock->now_ns) + overhead_ns(node);
    half->ready_ns = node->work_ns;
    half->is_held = true;
    half->priority = half->xfer->priority;
    enqueue(node, half);
    if (node->sending == NULL)
        start_next(node);
}

/* ---- The port ------------------------------------------------------------------------------- */

static void net_abort(struct tci_transport *self, const struct tci_key *key, int peer)
{
    struct sim_node *node = of(self);
    struct tci_list *at, *next;

    for (at = node->live.next; at != &node->live; at = next) {
        struct sim_half *half = tci_container_of(at, struct sim_half, in_node);

        next = at->next;
        if ((peer == TCI_ALL_PEERS || half->xfer->peer == (uint32_t)peer) &&
            tci_key_is_same_tag(&half->xfer->key, key))
            sim_half_complete(half, TC_ERR_CANCELLED);
    }
    for (at = node->early.next; at != &node->early; at = next) {
        struct sim_msg *msg = tci_container_of(at, struct sim_msg, in_node);

        next = at->next;
        if ((peer == TCI_ALL_PEERS || msg->from == (uint32_t)peer) &&
            tci_key_is_same_tag(&msg->key, key) && !tci_key_is_later(&msg->key, key))
            sim_msg_drop(msg);
    }
}

static void net_notify(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                       bool may_link)
{
    struct sim_node *node = of(self);
    struct sim_msg *msg;

    if (peer == node->rank || (!may_link && !sim_is_linked(node, peer)))
        return;
    sim_link(node, peer);
    msg = sim_msg_new(node->net, SIM_NOTICE, NULL);
    msg->notice = malloc(sizeof(*notice));
    TC_ASSERT(msg->notice != NULL);
    *msg->notice = *notice;
    sim_tell(node, peer, msg);
}

static void net_review(struct tci_transport *self, tci_review_fn *keep, void *arg)
{
    struct sim_node *node = of(self);
    struct tci_list *at, *next;

    for (at = node->early.next; at != &node->early; at = next) {
        struct sim_msg *msg = tci_container_of(at, struct sim_msg, in_node);

        next = at->next;
        if (!keep(arg, msg->from, &msg->key, &msg->call))
            sim_msg_drop(msg);
    }
}

static void net_caps(const struct tci_transport *self, struct tci_caps *caps_out)
{
    const struct sim_node *node = (const struct sim_node *)self;
    const struct sim_net_config *config = &node->net->config;

    *caps_out = (struct tci_caps){
        .eager_max = config->eager_max,
        .latency_us = config->latency_ns / 1000,
        .gbytes_per_s = config->byte_ns > 0 ? 1 / config->byte_ns : 1000,
    };
}

static void net_stats(const struct tci_transport *self, struct tci_transport_stats *stats_out)
{
    *stats_out = ((const struct sim_node *)self)->stats;
}

static void all_left(struct sim_event *event)
{
    struct sim_node *node = tci_container_of(event, struct sim_node, left);

    if (!node->is_closed && !node->is_dead)
        node->transport.sink->left(node->transport.sink);
}

static void all_parted(struct sim_event *event)
{
    struct sim_node *node = tci_container_of(event, struct sim_node, parted);

    if (!node->is_closed && !node->is_dead)
        node->transport.sink->left(node->transport.sink);
}

static void try_leave(struct sim_node *node)
{
    struct sim_net *net = node->net;
    uint32_t dead = 0;

    if (!node->is_leaving || node->has_left)
        return;
    node->has_left = true;
    net->left_count++;
    for (uint32_t r = 0; r < net->size; r++)
        dead += net->nodes[r].is_dead && !net->nodes[r].has_left;
    if (net->left_count + dead < net->size)
        return;
    for (uint32_t r = 0; r < net->size; r++)
        if (net->nodes[r].has_left)
            sim_clock_add(net->clock, net->clock->now_ns + (uint64_t)net->config.latency_ns,
                          &net->nodes[r].left);
}

static void net_leave(struct tci_transport *self)
{
    struct sim_node *node = of(self);

    node->is_leaving = true;
    if (node->sending == NULL)
        try_leave(node);
}

/* There are no connections. */
static void net_leave_peer(struct tci_transport *self, uint32_t peer)
{
    (void)self, (void)peer;
}

/* After a loss nobody is waited for. */
static void net_part(struct tci_transport *self)
{
    struct sim_node *node = of(self);

    if (node->has_parted)
        return;
    node->has_parted = true;
    node->parted = (struct sim_event){.exec = node->exec, .fn = all_parted};
    sim_clock_add(node->net->clock, node->net->clock->now_ns, &node->parted);
}

static enum tci_bond net_bond(const struct tci_transport *self, uint32_t peer)
{
    const struct sim_node *node = (const struct sim_node *)self, *other = &node->net->nodes[peer];

    if (sim_is_lost(node, peer))
        return TCI_BOND_LOST;
    if (other->is_closed && !other->is_dead)
        return TCI_BOND_LEFT;
    return TCI_BOND_STANDS;
}

static void net_close(struct tci_transport *self)
{
    struct sim_node *node = of(self);
    struct tci_list *first;

    while ((first = tci_list_first(&node->live)) != NULL)
        sim_half_complete(tci_container_of(first, struct sim_half, in_node), TC_ERR_CLOSED);
    while ((first = tci_list_first(&node->early)) != NULL)
        sim_msg_drop(tci_container_of(first, struct sim_msg, in_node));
    node->is_closed = true;
}

static enum tci_hearing net_hear(const struct tci_transport *self, uint32_t peer, uint64_t since_ns)
{
    const struct sim_node *node = (const struct sim_node *)self, *other = &node->net->nodes[peer];
    uint64_t now = node->net->clock->now_ns;

    if (sim_is_lost(node, peer) || other->is_dead || !sim_is_linked(node, peer))
        return TCI_HEAR_NO_LINK;
    if (sim_is_broken(node->net, node->rank, peer) || sim_is_broken(node->net, peer, node->rank))
        return now + node->exec->ahead_ns - since_ns < node->net->config.patience_ns
                   ? TCI_HEAR_TOO_SOON
                   : TCI_HEAR_NOTHING;
    return other->receive_ns > now || node->receive_ns > now ? TCI_HEAR_FLOW : TCI_HEAR_HOST;
}

static const struct tci_transport_ops ops = {
    .name = "sim",
    .post_send = sim_post_send,
    .post_recv = sim_post_recv,
    .abort = net_abort,
    .notify = net_notify,
    .review = net_review,
    .caps = net_caps,
    .stats = net_stats,
    .leave = net_leave,
    .leave_peer = net_leave_peer,
    .part = net_part,
    .bond = net_bond,
    .hear = net_hear,
    .close = net_close,
};

/* ---- The network ---------------------------------------------------------------------------- */

struct sim_net *sim_net_new(struct sim_clock *clock, struct sim_exec *execs, uint32_t size,
                            const struct sim_net_config *config)
{
    struct sim_net *net = calloc(1, sizeof(*net));

    TC_ASSERT(net != NULL);
    net->config = *config;
    net->clock = clock;
    net->size = size;
    net->random = config->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    net->nodes = calloc(size, sizeof(*net->nodes));
    TC_ASSERT(net->nodes != NULL);
    sim_match_grow(net);
    for (uint32_t r = 0; r < size; r++) {
        struct sim_node *node = &net->nodes[r];

        node->transport.ops = &ops;
        node->net = net;
        node->exec = &execs[r];
        node->rank = r;
        node->sent = (struct sim_event){.exec = &execs[r], .fn = sent};
        node->left = (struct sim_event){.exec = &execs[r], .fn = all_left};
        tci_list_init(&node->live);
        tci_list_init(&node->early);
        tci_list_init(&node->held);
    }
    return net;
}

struct tci_transport *sim_net_transport(struct sim_net *net, uint32_t rank)
{
    return &net->nodes[rank].transport;
}

static void free_queue(struct sim_node *node)
{
    struct sim_half *half;
    struct tci_list *first;

    while ((first = tci_list_first(&node->held)) != NULL) {
        tci_list_del(first);
        sim_msg_free(node->net, tci_container_of(first, struct sim_msg, in_node));
    }
    if (node->sending != NULL)
        free(node->sending);
    while ((half = node->queue) != NULL) {
        node->queue = half->next;
        free(half);
    }
    free(node->last_ns);
    free(node->longer_ns);
    free(node->lost);
    free(node->is_linked);
}

void sim_net_free(struct sim_net *net)
{
    struct sim_half *half;
    struct sim_msg *msg;

    for (uint32_t r = 0; r < net->size; r++)
        free_queue(&net->nodes[r]);
    while ((half = net->halves_free) != NULL) {
        net->halves_free = half->next;
        free(half);
    }
    while ((msg = net->msgs_free) != NULL) {
        net->msgs_free = msg->next;
        free(msg);
    }
    free(net->buckets);
    free(net->whole_ns);
    free(net->nodes);
    free(net);
}

size_t sim_net_early(const struct sim_net *net)
{
    return net->early_count;
}
