/* two_level_allreduce.c - all-reduce inside each host, between hosts, and inside again. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 6 on hosts of 2: a leader on each, and H = 3 blocks, one for each host
 *
 *   inside      1 -> 0      3 -> 2      5 -> 4       up a k-nomial tree, to the leader
 *   between     0 <-> 2     2 <-> 4     4 <-> 0      each leader is sent the block of its host by
 *                                                    the others, reduces it, and sends it to them
 *   inside      0 -> 1      2 -> 3      4 -> 5       down again
 *
 *   cost: with m ranks on the largest of H hosts and L = ceil(log_radix m): 2 rounds between hosts,
 *   2 (H - 1)/H * bytes sent by a host, which is the least there can be, in 2 (H - 1) messages;
 *   up to (radix - 1) L rounds inside a host each way, with bytes in each message
 *   waits: reductions at a rank follow one another; what is sent waits for the last that it is made
 *   of; a result waits until the partial one that it overwrites was sent; the largest subtree is
 *   sent the result when all of it has come, and the others when that has it
 *
 *   From 17 hosts on the leaders are the nodes of a tree instead, which takes fewer messages: see
 *   two_level.c.
 *
 * Source: Thakur, Rabenseifner, Gropp 2005 for each level; hierarchies in Karonis and others 2000.
 */
#include "algo/algo.h"
#include "algo/two_level.h"

/* 15 messages each way are as many as a tree's rounds of 4 to 8 hosts are worth; see plans.md. */
enum { EXCHANGE_HOSTS_MAX = 16 };

static bool is_exchange(const struct tci_shape *shape)
{
    uint32_t hosts = tci_node_hosts(shape);

    return hosts > 1 && hosts <= EXCHANGE_HOSTS_MAX;
}

static uint32_t allreduce_blocks(const struct tci_shape *shape)
{
    return is_exchange(shape) ? tci_node_hosts(shape) : 1;
}

static struct tci_slice whole(const struct tci_shape *shape, struct tci_slice first)
{
    return tci_run(first, tci_node_hosts(shape));
}

static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    struct tci_node node;

    if (shape->size == 1)
        return tci_copies(shape);
    if (!is_exchange(shape))
        return tci_node_steps(shape);
    node = tci_node_of(shape, shape->rank);
    return 2 * node.near + (node.leads ? 4 * (tci_node_hosts(shape) - 1) : 2);
}

/* Step i = 2(k - 1) or 2(k - 1) + 1 after the reductions inside: partial results of the own block
 * come from the k-th leader before; those of another go to the k-th one after. */
static void scatter_step(const struct tci_shape *shape, const struct tci_node *node, uint32_t i,
                         struct tci_step *step_out)
{
    uint32_t hosts = tci_node_hosts(shape), own = node->host, k = i / 2 + 1;
    bool is_input = node->near == 0; /* nothing was reduced inside */

    if (i % 2 == 0) {
        *step_out = tci_recv_reduce(tci_dst(own), is_input && k == 1 ? tci_src(own) : tci_dst(own),
                                    tci_node_leader(shape, tci_before(own, k, hosts)));
        step_out->last = k == hosts - 1;
        step_out->wait[0] = k > 1 ? 2 : is_input ? 0 : 1;
    } else {
        uint32_t to = tci_after(own, k, hosts), peer = tci_node_leader(shape, to);

        *step_out = tci_send(is_input ? tci_src(to) : tci_dst(to), peer,
                             tci_node_of(shape, peer).near + i - 1);
        step_out->wait[0] = is_input ? 0 : tci_back(i + 1);
    }
}

/* Step i = 2(k - 1) or 2(k - 1) + 1 after those: results come, and the own one goes. */
static void gather_step(const struct tci_shape *shape, const struct tci_node *node, uint32_t i,
                        struct tci_step *step_out)
{
    uint32_t hosts = tci_node_hosts(shape), own = node->host, k = i / 2 + 1;

    if (i % 2 == 0) {
        uint32_t from = tci_before(own, k, hosts);

        /* What lay there went to that leader, H - k hosts ahead. */
        *step_out = tci_recv(tci_dst(from), tci_node_leader(shape, from));
        step_out->wait[0] = node->near > 0 || shape->in_place ? tci_back(4 * k - 3) : 0;
    } else {
        uint32_t peer = tci_node_leader(shape, tci_after(own, k, hosts));

        *step_out =
            tci_send(tci_dst(own), peer, tci_node_of(shape, peer).near + 2 * (hosts - 1) + i - 1);
        step_out->wait[0] = tci_back(2 * k + 1);
    }
}

/* Step i = 0 or 1 of a rank that does not lead. */
static void parent_step(const struct tci_shape *shape, const struct tci_node *node, uint32_t i,
                        struct tci_step *step_out)
{
    if (i == 0) {
        *step_out = tci_send(whole(shape, node->near == 0 ? tci_src(0) : tci_dst(0)), node->parent,
                             node->child);
        step_out->wait[0] = node->near == 0 ? 0 : 1;
    } else {
        *step_out = tci_recv(whole(shape, tci_dst(0)), node->parent);
        step_out->wait[0] = node->near > 0 || shape->in_place ? 1 : 0;
    }
}

/* Step i of those in which the result goes to the children, the last child first. */
static void down_step(const struct tci_shape *shape, const struct tci_node *node, uint32_t i,
                      struct tci_step *step_out)
{
    uint32_t peer = tci_node_child(shape, node, node->near - 1 - i);

    *step_out = tci_send(whole(shape, tci_dst(0)), peer, tci_node_of(shape, peer).near + 1);
    if (node->leads) {
        step_out->fence = i == 0;
        step_out->wait[0] = tci_back(i);
    } else {
        step_out->wait[0] = tci_back(i + 1);
    }
}

static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct tci_node node = tci_node_of(shape, shape->rank);
    uint32_t half = 2 * (tci_node_hosts(shape) - 1), between = node.leads ? 2 * half : 2;

    TC_ASSERT(i < allreduce_steps(shape));
    if (shape->size == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (!is_exchange(shape)) {
        tci_node_step(shape, i, step_out);
    } else if (i < node.near) {
        *step_out = tci_recv_reduce(whole(shape, tci_dst(0)),
                                    whole(shape, i == 0 ? tci_src(0) : tci_dst(0)),
                                    tci_node_child(shape, &node, i));
        step_out->wait[0] = i == 0 ? 0 : 1;
    } else if (i >= node.near + between) {
        down_step(shape, &node, i - node.near - between, step_out);
    } else if (!node.leads) {
        parent_step(shape, &node, i - node.near, step_out);
    } else if (i < node.near + half) {
        scatter_step(shape, &node, i - node.near, step_out);
    } else {
        gather_step(shape, &node, i - node.near - half, step_out);
    }
}

const struct tci_plan tci_two_level_allreduce = {
    .name = "two_level",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_TWO_LEVEL,
    .canonical = false,
    .is_used = true,
    .by_host = true,
    .steps = allreduce_steps,
    .blocks = allreduce_blocks,
    .slots = tci_none,
    .step = allreduce_step,
};
