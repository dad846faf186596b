/* two_level.c - broadcast and barrier with as little between hosts as can be; the tree for it. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 6 on hosts of 4 and 2, radix 2
 *
 *   host 0   0 ------------ 4   host 1      inside each host a k-nomial tree, with its first rank
 *           / \             |               as the root, which leads; the leaders are the nodes of
 *          1   2            5               another
 *              |
 *              3
 *
 *   broadcast: from the root of the call, which leads its host, to the other leaders, largest
 *   subtree first, then inside the hosts
 *   barrier: inside each host to its leader, to rank 0's, and the broadcast from there, with empty
 *   messages.  An all-reduce between many hosts goes the same way; see two_level_allreduce.c.
 *
 *   cost: with m ranks on the largest of H hosts, L = ceil(log_radix m) and K = ceil(log_radix H):
 *   up to (radix - 1) (L + K) messages one after the other at a node each way, of which
 *   (radix - 1) K go between hosts.  Each host but the root's is sent bytes once, and sends as
 *   much once where something is reduced: H - 1 messages each way between hosts, however many
 *   ranks they have and in whatever order.
 *   waits: as in the tree (tree.c)
 *
 * Source: Karonis, de Supinski, Foster, Gropp, Lusk, Bresnahan 2000 (multilevel trees).
 */
#include "algo/two_level.h"

#include <stddef.h>

#include "algo/algo.h"
#include "algo/tree.h"

/* All on one host where nothing is known. */
static uint32_t host_of(const struct tci_shape *shape, uint32_t rank)
{
    return shape->hosts == NULL ? 0 : shape->hosts->host[rank];
}

static uint32_t place_of(const struct tci_shape *shape, uint32_t rank)
{
    return shape->hosts == NULL ? rank : shape->hosts->place[rank];
}

uint32_t tci_node_hosts(const struct tci_shape *shape)
{
    return shape->hosts == NULL ? 1 : shape->hosts->count;
}

static uint32_t ranks_on(const struct tci_shape *shape, uint32_t host)
{
    return shape->hosts == NULL ? shape->size : tci_hosts_ranks(shape->hosts, host);
}

/* The place that leads a host: that of the root, or the first. */
static uint32_t leading_place(const struct tci_shape *shape, uint32_t host)
{
    return host == host_of(shape, shape->root) ? place_of(shape, shape->root) : 0;
}

/* Node v of the tree inside a host: the v-th rank after the leader there. */
static uint32_t rank_in_host(const struct tci_shape *shape, uint32_t host, uint32_t v)
{
    uint32_t place = tci_after(leading_place(shape, host), v, ranks_on(shape, host));

    return shape->hosts == NULL ? place : tci_hosts_rank(shape->hosts, host, place);
}

static uint32_t node_in_host(const struct tci_shape *shape, uint32_t rank)
{
    uint32_t host = host_of(shape, rank);

    return tci_before(place_of(shape, rank), leading_place(shape, host), ranks_on(shape, host));
}

/* Node v of the tree of hosts is the v-th one after the root's. */
uint32_t tci_node_leader(const struct tci_shape *shape, uint32_t v)
{
    return rank_in_host(shape, tci_after(host_of(shape, shape->root), v, tci_node_hosts(shape)), 0);
}

static uint32_t node_of_host(const struct tci_shape *shape, uint32_t host)
{
    return tci_before(host, host_of(shape, shape->root), tci_node_hosts(shape));
}

static struct tci_shape inside(const struct tci_shape *shape, uint32_t rank)
{
    return (struct tci_shape){.size = ranks_on(shape, host_of(shape, rank)), .radix = shape->radix};
}

static struct tci_shape between(const struct tci_shape *shape)
{
    return (struct tci_shape){.size = tci_node_hosts(shape), .radix = shape->radix};
}

struct tci_node tci_node_of(const struct tci_shape *shape, uint32_t rank)
{
    struct tci_shape near = inside(shape, rank), far = between(shape);
    uint32_t v = node_in_host(shape, rank), host = host_of(shape, rank);
    struct tci_tree_place place = tci_tree_place_of(&near, v), above;
    struct tci_node node = {.leads = v == 0,
                            .host = node_of_host(shape, host),
                            .parent = rank_in_host(shape, host, place.parent),
                            .child = place.child,
                            .near = place.children,
                            .children = place.children};

    if (v > 0)
        return node;
    above = tci_tree_place_of(&far, node_of_host(shape, host));
    node.is_root = rank == shape->root;
    node.parent = tci_node_leader(shape, above.parent);
    near = inside(shape, node.parent);
    node.child = tci_tree_place_of(&near, 0).children + above.child;
    node.children += above.children;
    return node;
}

uint32_t tci_node_child(const struct tci_shape *shape, const struct tci_node *node, uint32_t c)
{
    struct tci_shape near = inside(shape, shape->rank), far = between(shape);
    uint32_t host = host_of(shape, shape->rank);

    if (c < node->near)
        return rank_in_host(shape, host,
                            tci_tree_child(&near, node_in_host(shape, shape->rank), c));
    return tci_node_leader(shape, tci_tree_child(&far, node_of_host(shape, host), c - node->near));
}

/* ---- All-reduce and barrier ------------------------------------------------------------------ */

/*   children of a node       0 … m - 1        receive, and reduce
 *   not the root             m, m + 1         send up, receive the result
 *   children                 the last m       send down, the last child first */
uint32_t tci_node_steps(const struct tci_shape *shape)
{
    struct tci_node node = tci_node_of(shape, shape->rank);

    return 2 * node.children + (node.is_root ? 0 : 2);
}

void tci_node_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct tci_node node = tci_node_of(shape, shape->rank);
    uint32_t m = node.children, down = node.is_root ? m : m + 2;

    TC_ASSERT(i < tci_node_steps(shape));
    if (i < m) {
        *step_out = tci_recv_reduce(tci_dst(0), i == 0 ? tci_src(0) : tci_dst(0),
                                    tci_node_child(shape, &node, i));
        step_out->wait[0] = i == 0 ? 0 : 1;
        step_out->last = node.is_root && i == m - 1;
    } else if (i >= down) {
        uint32_t peer = tci_node_child(shape, &node, m - 1 - (i - down));

        *step_out = tci_send(tci_dst(0), peer, tci_node_of(shape, peer).children + 1);
        step_out->wait[0] = tci_back(i - down + 1);
    } else if (i == m) {
        *step_out = tci_send(m == 0 ? tci_src(0) : tci_dst(0), node.parent, node.child);
        step_out->wait[0] = m == 0 ? 0 : 1;
    } else {
        *step_out = tci_recv(tci_dst(0), node.parent);
        step_out->wait[0] = m > 0 || shape->in_place ? 1 : 0;
    }
}

/* Whether the ranks are a chain of two or three, with the root at its end: whoever is in it has
 * heard of those below, and needs to be told of the root alone. */
static bool is_short_chain(const struct tci_shape *shape, const struct tci_node *root)
{
    return root->children == 1 && tci_node_of(shape, tci_node_child(shape, root, 0)).children <= 1;
}

/* Nothing is overwritten, so what comes from above need not wait. */
static void barrier_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct tci_node node = tci_node_of(shape, shape->rank);

    tci_node_step(shape, i, step_out);
    if (step_out->kind == TCI_STEP_RECV || (node.is_root && is_short_chain(shape, &node)))
        step_out->wait[0] = 0;
    if (step_out->kind == TCI_STEP_RECV_REDUCE)
        step_out->kind = TCI_STEP_RECV;
    step_out->last = false;
}

const struct tci_plan tci_two_level_barrier = {
    .name = "two_level",
    .coll = TCI_COLL_BARRIER,
    .layout = TCI_LAYOUT_NONE,
    .id = TCI_ALGO_TWO_LEVEL,
    .canonical = true,
    .is_used = true,
    .by_host = true,
    .steps = tci_node_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = barrier_step,
};

/* ---- Broadcast ------------------------------------------------------------------------------- */

static uint32_t broadcast_steps(const struct tci_shape *shape)
{
    struct tci_node node = tci_node_of(shape, shape->rank);

    return node.children + (node.is_root ? 0 : 1);
}

static void broadcast_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct tci_node node = tci_node_of(shape, shape->rank);
    uint32_t down = node.is_root ? 0 : 1;

    TC_ASSERT(i < node.children + down);
    if (i < down) {
        *step_out = tci_recv(tci_dst(0), node.parent);
    } else {
        *step_out =
            tci_send(tci_dst(0), tci_node_child(shape, &node, node.children - 1 - (i - down)), 0);
        step_out->wait[0] = node.is_root ? 0 : tci_back(i);
    }
}

const struct tci_plan tci_two_level_broadcast = {
    .name = "two_level",
    .coll = TCI_COLL_BROADCAST,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_TWO_LEVEL,
    .canonical = true,
    .is_used = true,
    .by_host = true,
    .steps = broadcast_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = broadcast_step,
};
