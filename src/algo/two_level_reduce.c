/* two_level_reduce.c - reduce inside each host, then between hosts to the one of the root. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 6 on hosts of 4 and 2, radix 2, root 0
 *
 *   inside      3 -> 2   1 -> 0   2 -> 0     5 -> 4     up a k-nomial tree, to the leader
 *   between     4 -> 0                                  up a tree of leaders, to the root, which
 *                                                       leads its host
 *
 *   cost: with m ranks on the largest of H hosts, L = ceil(log_radix m) and K = ceil(log_radix H):
 *   up to (radix - 1) (L + K) messages one after the other at a node, of which (radix - 1) K come
 *   from other hosts.  Each rank but the root sends bytes once: H - 1 messages go between hosts,
 *   which is the least there can be, in whatever order the ranks lie on them.
 *   waits: reductions at a node follow one another; what goes up waits for the last of them
 *
 * Source: Karonis, de Supinski, Foster, Gropp, Lusk, Bresnahan 2000 (multilevel trees).
 */
#include "algo/algo.h"
#include "algo/two_level.h"

static uint32_t reduce_steps(const struct tci_shape *shape)
{
    struct tci_node node = tci_node_of(shape, shape->rank);

    if (shape->size == 1)
        return tci_copies(shape);
    return node.children + (node.is_root ? 0 : 1);
}

/* Partial results, of ranks that have no destination. */
static uint32_t reduce_slots(const struct tci_shape *shape)
{
    struct tci_node node = tci_node_of(shape, shape->rank);

    return node.is_root || node.children == 0 ? 0 : 1;
}

static void reduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct tci_node node = tci_node_of(shape, shape->rank);
    struct tci_slice sum = node.is_root ? tci_dst(0) : tci_tmp(0);

    TC_ASSERT(i < reduce_steps(shape));
    if (shape->size == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (i < node.children) {
        *step_out =
            tci_recv_reduce(sum, i == 0 ? tci_src(0) : sum, tci_node_child(shape, &node, i));
        step_out->as = tci_src(0);
        step_out->wait[0] = i == 0 ? 0 : 1;
        step_out->last = node.is_root && i == node.children - 1;
    } else {
        *step_out = tci_send(i == 0 ? tci_src(0) : sum, node.parent, node.child);
        step_out->dst = tci_src(0);
        step_out->wait[0] = i == 0 ? 0 : 1;
    }
}

const struct tci_plan tci_two_level_reduce = {
    .name = "two_level",
    .coll = TCI_COLL_REDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_TWO_LEVEL,
    .canonical = false,
    .is_used = true,
    .by_host = true,
    .steps = reduce_steps,
    .blocks = tci_one,
    .slots = reduce_slots,
    .step = reduce_step,
};
