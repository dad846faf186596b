/* rooted.c - gather, scatter and reduce where the root talks to every rank itself. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 4, root 0
 *
 *   gather    1 -> 0   2 -> 0   3 -> 0       each rank sends its payload to the root
 *   scatter   0 -> 1   0 -> 2   0 -> 3       the root sends each rank its payload
 *
 *   cost: 1 round, (n - 1) * bytes at the root, which is the least there can be; n - 1 messages
 *   at the root, where a tree has log2 n
 *   waits: none; what the root has of its own is copied while messages are on their way
 *
 *   reduce    the payload is cut into n blocks; rank b folds block b from what all send it, and
 *             sends it on to the root
 *
 *   cost: 2 rounds, up to 2 (n - 1)/n * bytes received at the root, 1 fold of n blocks a rank
 *   waits: the fold waits for all before it; what goes to the root waits for the fold; in place a
 *   result waits until the block that it overwrites was sent
 *
 * Source: the linear algorithms, and reduce-scatter with gather, in Thakur, Rabenseifner, Gropp
 * 2005.
 */
#include "algo/algo.h"
#include "algo/steps.h"

static bool is_root(const struct tci_shape *shape)
{
    return shape->rank == shape->root;
}

/* The place of a rank among those after the root, 0 … n - 2. */
static uint32_t place_of(const struct tci_shape *shape)
{
    return tci_before(shape->rank, shape->root, shape->size) - 1;
}

/* Steps of a root with one message for each other rank, and its own payload at the end. */
static uint32_t rooted_steps(const struct tci_shape *shape)
{
    return is_root(shape) ? shape->size - 1 + tci_copies(shape) : 1;
}

/* ---- Gather ---------------------------------------------------------------------------------- */

static void gather_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t peer = tci_after(shape->root, (i + 1) % shape->size, shape->size);

    TC_ASSERT(i < rooted_steps(shape));
    if (!is_root(shape))
        *step_out = tci_send(tci_src(0), shape->root, place_of(shape));
    else if (i < shape->size - 1)
        *step_out = tci_recv(tci_dst(peer), peer);
    else
        *step_out = tci_copy(tci_dst(shape->rank), tci_src(0));
}

const struct tci_plan tci_direct_gather = {
    .name = "direct",
    .coll = TCI_COLL_GATHER,
    .layout = TCI_LAYOUT_GATHER,
    .id = TCI_ALGO_DIRECT,
    .canonical = true,
    .is_used = true,
    .steps = rooted_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = gather_step,
};

/* ---- Scatter --------------------------------------------------------------------------------- */

static void scatter_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t peer = tci_after(shape->root, (i + 1) % shape->size, shape->size);

    TC_ASSERT(i < rooted_steps(shape));
    if (!is_root(shape))
        *step_out = tci_recv(tci_dst(0), shape->root);
    else if (i < shape->size - 1)
        *step_out = tci_send(tci_src(peer), peer, 0);
    else
        *step_out = tci_copy(tci_dst(0), tci_src(shape->rank));
}

const struct tci_plan tci_direct_scatter = {
    .name = "direct",
    .coll = TCI_COLL_SCATTER,
    .layout = TCI_LAYOUT_SCATTER,
    .id = TCI_ALGO_DIRECT,
    .canonical = true,
    .is_used = true,
    .steps = rooted_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = scatter_step,
};

/* ---- Reduce ---------------------------------------------------------------------------------- */

/* Steps 2(k - 1) and 2(k - 1) + 1, for k = 1 … n - 1: block r comes from the k-th rank before, the
 * block of the k-th rank after goes there.  Then the fold, then the way to the root. */
static uint32_t fold_number(const struct tci_shape *shape)
{
    return 2 * (shape->size - 1);
}

static uint32_t reduce_steps(const struct tci_shape *shape)
{
    if (shape->size == 1)
        return tci_copies(shape);
    return fold_number(shape) + 1 + (is_root(shape) ? shape->size - 1 : 1);
}

/* One slot more than the fold needs, for its result, where there is no destination. */
static uint32_t reduce_slots(const struct tci_shape *shape)
{
    return is_root(shape) ? shape->size - 1 : shape->size;
}

static void collect_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, fold = fold_number(shape);

    if (is_root(shape)) {
        uint32_t k = i - fold, peer = tci_before(r, k, n);

        /* In place: the block went to `peer`, n - k places ahead, in step 2(n - k) - 1. */
        *step_out = tci_recv(tci_dst(peer), peer);
        step_out->wait[0] = shape->in_place ? tci_back(3 * k - 1) : 0;
    } else {
        *step_out = tci_send(tci_tmp(n - 1), shape->root, fold + tci_before(shape->root, r, n));
        step_out->dst = tci_src(r);
        step_out->wait[0] = 1;
    }
}

static void reduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t fold = fold_number(shape);

    TC_ASSERT(i < reduce_steps(shape));
    if (shape->size == 1)
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    else if (i < fold)
        tci_scatter_step(shape, i, step_out);
    else if (i == fold)
        *step_out = tci_fold(is_root(shape) ? tci_dst(shape->rank) : tci_tmp(shape->size - 1),
                             tci_src(shape->rank));
    else
        collect_step(shape, i, step_out);
}

const struct tci_plan tci_direct_reduce = {
    .name = "direct",
    .coll = TCI_COLL_REDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_DIRECT,
    .canonical = true,
    .whole = true,
    .is_used = true,
    .steps = reduce_steps,
    .blocks = tci_each_rank,
    .slots = reduce_slots,
    .step = reduce_step,
};
