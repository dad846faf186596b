/* tree_rooted.c - reduce, gather and scatter on a k-nomial tree: few messages at the root. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 4, radix 2 (binomial), root 0; node v is the v-th rank after the root (see tree.c)
 *
 *         0          reduce    3 -> 2, 1 -> 0, 2 -> 0    partial results
 *        / \         gather    3 -> 2, 1 -> 0, 2 -> 0    2 sends the payloads of 2 and 3 in one
 *       1   2        scatter   0 -> 2, 0 -> 1, 2 -> 3    2 is sent the payloads of 2 and 3 in one
 *           |
 *           3
 *
 *   Gather and scatter keep the payloads of a whole subtree in scratch, node after node, so that
 *   they travel in one message.  Leaves need none, and what the root exchanges with a leaf of its
 *   own goes straight to its place.
 *
 *   cost: with L = ceil(log_radix n), up to (radix - 1) L messages at a node, one after the other
 *   on the longest path.  A reduce sends bytes once from each rank; a gather or scatter of n blocks
 *   moves (n - 1) blocks at the root, which is the least, and each block once more for each node on
 *   its way.  So it is for small payloads.
 *   waits: reductions at a node follow one another; what goes up waits for all that comes from
 *   below, what goes down for what has come from above; at the root of a scatter a message waits
 *   for the copy that it is made of
 *
 * Source: k-nomial trees in MPICH; Thakur, Rabenseifner, Gropp 2005 for radix 2.
 */
#include "algo/algo.h"
#include "algo/tree.h"

/* ---- Reduce ---------------------------------------------------------------------------------- */

static uint32_t reduce_steps(const struct tci_shape *shape)
{
    uint32_t v = tci_tree_node(shape);

    if (shape->size == 1)
        return tci_copies(shape);
    return tci_tree_place_of(shape, v).children + (v == 0 ? 0 : 1);
}

/* Partial results, of ranks that have no destination. */
static uint32_t reduce_slots(const struct tci_shape *shape)
{
    uint32_t v = tci_tree_node(shape);

    return v == 0 || tci_tree_place_of(shape, v).children == 0 ? 0 : 1;
}

static void reduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t v = tci_tree_node(shape);
    struct tci_tree_place place = tci_tree_place_of(shape, v);
    struct tci_slice sum = v == 0 ? tci_dst(0) : tci_tmp(0);

    TC_ASSERT(i < reduce_steps(shape));
    if (shape->size == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (i < place.children) {
        *step_out = tci_recv_reduce(sum, i == 0 ? tci_src(0) : sum,
                                    tci_tree_rank(shape, tci_tree_child(shape, v, i)));
        step_out->as = tci_src(0);
        step_out->wait[0] = i == 0 ? 0 : 1;
        step_out->last = v == 0 && i == place.children - 1;
    } else {
        *step_out =
            tci_send(i == 0 ? tci_src(0) : sum, tci_tree_rank(shape, place.parent), place.child);
        step_out->dst = tci_src(0);
        step_out->wait[0] = i == 0 ? 0 : 1;
    }
}

const struct tci_plan tci_tree_reduce = {
    .name = "tree",
    .coll = TCI_COLL_REDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_TREE,
    .canonical = false,
    .is_used = true,
    .steps = reduce_steps,
    .blocks = tci_one,
    .slots = reduce_slots,
    .step = reduce_step,
};

/* ---- Gather and scatter: what they share ----------------------------------------------------- */

/* Nodes whose payloads pass through scratch at the root: from the first on that is no leaf. */
static uint32_t first_in_scratch(const struct tci_shape *shape)
{
    return shape->radix < shape->size ? shape->radix : shape->size;
}

/* Scratch slot i holds the payload of the i-th node of the subtree, at the root of node
 * first_in_scratch() + i. */
static uint32_t subtree_slots(const struct tci_shape *shape)
{
    uint32_t v = tci_tree_node(shape);
    struct tci_tree_place place = tci_tree_place_of(shape, v);

    if (v == 0)
        return shape->size - first_in_scratch(shape);
    return place.children == 0 ? 0 : place.nodes;
}

/* Ranks wrap around where the nodes of the scratch do not, so that the root copies in two parts:
 * nodes up to this one, and the ones from it on. */
static uint32_t wrap_of(const struct tci_shape *shape)
{
    uint32_t first = first_in_scratch(shape), wrap = shape->size - shape->root;

    return wrap > first ? wrap : first;
}

/* Copies at the root between its buffer and scratch: 0, 1 or 2. */
static uint32_t root_copies(const struct tci_shape *shape)
{
    uint32_t n = shape->size, first = first_in_scratch(shape), wrap = wrap_of(shape);

    return (first < wrap) + (wrap < n);
}

struct part {
    struct tci_slice tmp;
    uint32_t rank, nodes; /* the first rank of the part */
};

static struct part part_of(const struct tci_shape *shape, uint32_t k)
{
    uint32_t first = first_in_scratch(shape), wrap = wrap_of(shape);
    bool is_after = k == 1 || first == wrap;
    uint32_t v = is_after ? wrap : first, end = is_after ? shape->size : wrap;

    return (struct part){.tmp = tci_run(tci_tmp(v - first), end - v),
                         .rank = tci_tree_rank(shape, v),
                         .nodes = end - v};
}

/* What node v, which is no leaf or not the root's, has in the scratch of its parent. */
static struct tci_slice slots_of(const struct tci_shape *shape, uint32_t v,
                                 const struct tci_tree_place *place)
{
    uint32_t first = place->parent == 0 ? first_in_scratch(shape) : place->parent;

    return tci_run(tci_tmp(v - first), place->nodes);
}

/* ---- Gather ---------------------------------------------------------------------------------- */

/*   root                 receive from the children, copy from scratch, copy the own payload
 *   a node with some     receive from the children, copy the own payload to slot 0, send all
 *   a leaf               send */
static uint32_t gather_steps(const struct tci_shape *shape)
{
    uint32_t v = tci_tree_node(shape);
    uint32_t children = tci_tree_place_of(shape, v).children;

    if (v == 0)
        return children + root_copies(shape) + tci_copies(shape);
    return children == 0 ? 1 : children + 2;
}

static void gather_at_root(const struct tci_shape *shape, uint32_t i, uint32_t children,
                           struct tci_step *step_out)
{
    if (i < children) {
        uint32_t child = tci_tree_child(shape, 0, i), peer = tci_tree_rank(shape, child);
        struct tci_tree_place at = tci_tree_place_of(shape, child);

        if (child < first_in_scratch(shape)) {
            *step_out = tci_recv(tci_dst(peer), peer);
        } else {
            *step_out = tci_recv(slots_of(shape, child, &at), peer);
            step_out->src = tci_run(tci_dst(0), at.nodes);
        }
    } else if (i < children + root_copies(shape)) {
        struct part part = part_of(shape, i - children);

        *step_out = tci_copy(tci_run(tci_dst(part.rank), part.nodes), part.tmp);
        step_out->fence = true;
    } else {
        *step_out = tci_copy(tci_dst(shape->rank), tci_src(0));
    }
}

static void gather_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t v = tci_tree_node(shape);
    struct tci_tree_place place = tci_tree_place_of(shape, v);
    uint32_t parent = tci_tree_rank(shape, place.parent);

    TC_ASSERT(i < gather_steps(shape));
    if (v == 0) {
        gather_at_root(shape, i, place.children, step_out);
    } else if (place.children == 0) {
        *step_out = tci_send(tci_src(0), parent, place.child);
    } else if (i < place.children) {
        uint32_t child = tci_tree_child(shape, v, i);
        struct tci_tree_place at = tci_tree_place_of(shape, child);

        *step_out = tci_recv(slots_of(shape, child, &at), tci_tree_rank(shape, child));
        step_out->src = tci_run(tci_dst(0), at.nodes);
    } else if (i == place.children) {
        *step_out = tci_copy(tci_tmp(0), tci_src(0));
    } else {
        *step_out = tci_send(tci_run(tci_tmp(0), place.nodes), parent, place.child);
        step_out->dst = tci_run(tci_dst(0), place.nodes);
        step_out->fence = true;
    }
}

const struct tci_plan tci_tree_gather = {
    .name = "tree",
    .coll = TCI_COLL_GATHER,
    .layout = TCI_LAYOUT_GATHER,
    .id = TCI_ALGO_TREE,
    .canonical = true,
    .is_used = true,
    .equal = true,
    .packed = true,
    .steps = gather_steps,
    .blocks = tci_one,
    .slots = subtree_slots,
    .step = gather_step,
};

/* ---- Scatter --------------------------------------------------------------------------------- */

/*   root                 copy to scratch, send to the children, copy the own payload
 *   a node with some     receive all, send to the children, copy the own payload from slot 0
 *   a leaf               receive
 *
 * The largest subtree comes first. */
static uint32_t scatter_steps(const struct tci_shape *shape)
{
    uint32_t v = tci_tree_node(shape);
    uint32_t children = tci_tree_place_of(shape, v).children;

    if (v == 0)
        return root_copies(shape) + children + tci_copies(shape);
    return children == 0 ? 1 : children + 2;
}

static void send_down(const struct tci_shape *shape, uint32_t v, uint32_t child,
                      struct tci_step *step_out)
{
    uint32_t peer = tci_tree_rank(shape, child);
    struct tci_tree_place at = tci_tree_place_of(shape, child);

    if (v == 0 && child < first_in_scratch(shape)) {
        *step_out = tci_send(tci_src(peer), peer, 0);
    } else {
        *step_out = tci_send(slots_of(shape, child, &at), peer, 0);
        step_out->dst = tci_run(tci_src(0), at.nodes);
    }
}

static void scatter_at_root(const struct tci_shape *shape, uint32_t i, uint32_t children,
                            struct tci_step *step_out)
{
    uint32_t copies = root_copies(shape);

    if (i < copies) {
        struct part part = part_of(shape, i);

        *step_out = tci_copy(part.tmp, tci_run(tci_src(part.rank), part.nodes));
    } else if (i < copies + children) {
        uint32_t child = tci_tree_child(shape, 0, children - 1 - (i - copies));
        uint32_t end = child + tci_tree_place_of(shape, child).nodes;

        send_down(shape, 0, child, step_out);
        if (child >= first_in_scratch(shape)) {
            step_out->wait[0] = child < wrap_of(shape) ? tci_back(i) : 0;
            step_out->wait[1] = end > wrap_of(shape) ? tci_back(i - (copies - 1)) : 0;
        }
    } else {
        *step_out = tci_copy(tci_dst(0), tci_src(shape->rank));
    }
}

static void scatter_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t v = tci_tree_node(shape);
    struct tci_tree_place place = tci_tree_place_of(shape, v);
    uint32_t parent = tci_tree_rank(shape, place.parent);

    TC_ASSERT(i < scatter_steps(shape));
    if (v == 0) {
        scatter_at_root(shape, i, place.children, step_out);
    } else if (place.children == 0) {
        *step_out = tci_recv(tci_dst(0), parent);
    } else if (i == 0) {
        *step_out = tci_recv(tci_run(tci_tmp(0), place.nodes), parent);
        step_out->src = tci_run(tci_src(0), place.nodes);
    } else if (i <= place.children) {
        send_down(shape, v, tci_tree_child(shape, v, place.children - i), step_out);
        step_out->wait[0] = tci_back(i);
    } else {
        *step_out = tci_copy(tci_dst(0), tci_tmp(0));
        step_out->wait[0] = tci_back(i);
    }
}

const struct tci_plan tci_tree_scatter = {
    .name = "tree",
    .coll = TCI_COLL_SCATTER,
    .layout = TCI_LAYOUT_SCATTER,
    .id = TCI_ALGO_TREE,
    .canonical = true,
    .is_used = true,
    .equal = true,
    .packed = true,
    .steps = scatter_steps,
    .blocks = tci_one,
    .slots = subtree_slots,
    .step = scatter_step,
};
