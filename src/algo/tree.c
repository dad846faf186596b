/* tree.c - all-reduce and broadcast on a k-nomial tree: few rounds, few messages. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 4, radix 2 (binomial)     n = 4, radix 4
 *
 *         0                             0
 *        / \                          / | \
 *       1   2                        1  2  3
 *           |
 *           3
 *
 *   Written in base `radix`, the parent of a node is the node without its lowest digit that is not
 *   0; so the children of v are v + d * radix^j for d = 1 … radix - 1 and each place j below that
 *   digit.  Counted in that order, each child's subtree follows on the one before it.
 *
 *   broadcast: down from the root, largest subtree first; node v is the v-th rank after the root
 *   all-reduce: up to rank 0, smallest subtree first, then the broadcast
 *
 *   cost: with L = ceil(log_radix n), up to (radix - 1) L messages one after the other at a node
 *   each way; a broadcast sends bytes once to each rank; an all-reduce sends it once up from and
 *   once down to each rank but 0, and reduces up to (radix - 1) L payloads at a node
 *   waits: reductions at a node follow one another, so the order is fixed; what goes up waits for
 *   the last of them, what goes down for what has come from above
 *
 * Source: k-nomial trees in MPICH, Thakur, Rabenseifner, Gropp 2005 for radix 2.
 */
#include "algo/tree.h"

#include "algo/algo.h"

uint32_t tci_tree_child(const struct tci_shape *shape, uint32_t v, uint32_t c)
{
    uint32_t each = shape->radix - 1;
    uint64_t unit = 1;

    for (uint32_t j = 0; j < c / each; j++)
        unit *= shape->radix;
    return (uint32_t)(v + (c % each + 1) * unit);
}

struct tci_tree_place tci_tree_place_of(const struct tci_shape *shape, uint32_t v)
{
    uint32_t n = shape->size, radix = shape->radix;
    uint64_t unit = 1;
    struct tci_tree_place place = {.nodes = n};

    TC_ASSERT(radix >= 2 && v < n);
    for (; unit < n && v / unit % radix == 0; unit *= radix) {
        uint64_t room = (n - 1 - v) / unit;

        place.children += (uint32_t)(room < radix - 1 ? room : radix - 1);
        place.child += radix - 1;
    }
    if (v > 0) {
        uint32_t digit = (uint32_t)(v / unit % radix);

        place.parent = (uint32_t)(v - digit * unit);
        place.child += digit - 1;
        place.nodes = (uint32_t)(n - v < unit ? n - v : unit);
    }
    return place;
}

/* ---- All-reduce ------------------------------------------------------------------------------ */

/*   children of v            0 … m - 1        receive and reduce
 *   not rank 0               m, m + 1         send up, receive the result
 *   children of v            the last m       send down, the largest subtree first */
static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    uint32_t children;

    if (shape->size == 1)
        return tci_copies(shape);
    children = tci_tree_place_of(shape, shape->rank).children;
    return 2 * children + (shape->rank == 0 ? 0 : 2);
}

static void reduce_step(const struct tci_shape *shape, const struct tci_tree_place *place,
                        uint32_t i, struct tci_step *step_out)
{
    *step_out = tci_recv_reduce(tci_dst(0), i == 0 ? tci_src(0) : tci_dst(0),
                                tci_tree_child(shape, shape->rank, i));
    step_out->wait[0] = i == 0 ? 0 : 1;
    step_out->last = shape->rank == 0 && i == place->children - 1;
}

static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t r = shape->rank;
    struct tci_tree_place place;

    TC_ASSERT(i < allreduce_steps(shape));
    if (shape->size == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
        return;
    }

    place = tci_tree_place_of(shape, r);

    uint32_t m = place.children, down = r == 0 ? m : m + 2;

    if (i < m) {
        reduce_step(shape, &place, i, step_out);
    } else if (i >= down) {
        uint32_t peer = tci_tree_child(shape, r, m - 1 - (i - down));
        struct tci_tree_place at = tci_tree_place_of(shape, peer);

        *step_out = tci_send(tci_dst(0), peer, at.children + 1);
        step_out->wait[0] = tci_back(i - down + 1);
    } else if (i == m) {
        *step_out = tci_send(m == 0 ? tci_src(0) : tci_dst(0), place.parent, place.child);
        step_out->wait[0] = m == 0 ? 0 : 1;
    } else {
        *step_out = tci_recv(tci_dst(0), place.parent);
        step_out->wait[0] = m > 0 || shape->in_place ? 1 : 0;
    }
}

const struct tci_plan tci_tree_allreduce = {
    .name = "tree",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_TREE,
    .canonical = false,
    .is_used = true,
    .steps = allreduce_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = allreduce_step,
};

/* ---- Broadcast ------------------------------------------------------------------------------- */

static uint32_t broadcast_steps(const struct tci_shape *shape)
{
    uint32_t v = tci_tree_node(shape);

    return tci_tree_place_of(shape, v).children + (v == 0 ? 0 : 1);
}

static void broadcast_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t v = tci_tree_node(shape);
    struct tci_tree_place place = tci_tree_place_of(shape, v);
    uint32_t down = v == 0 ? 0 : 1;

    TC_ASSERT(i < place.children + down);
    if (i < down) {
        *step_out = tci_recv(tci_dst(0), tci_tree_rank(shape, place.parent));
    } else {
        uint32_t child = tci_tree_child(shape, v, place.children - 1 - (i - down));

        *step_out = tci_send(tci_dst(0), tci_tree_rank(shape, child), 0);
        step_out->wait[0] = v == 0 ? 0 : tci_back(i);
    }
}

const struct tci_plan tci_tree_broadcast = {
    .name = "tree",
    .coll = TCI_COLL_BROADCAST,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_TREE,
    .canonical = true,
    .is_used = true,
    .steps = broadcast_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = broadcast_step,
};
