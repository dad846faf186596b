/* direct.c - collectives that need one or two rounds because every rank talks to every other. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   all-reduce, n = 4: the payload is cut into n blocks; rank b owns block b
 *
 *   reduce-scatter    0 -> 1 2 3   each rank sends every other rank the block that it owns,
 *                     1 -> 2 3 0   and folds its own block from what it has got
 *   all-gather        2 -> 3 0 1   each rank sends every other rank the block that it has folded
 *                     3 -> 0 1 2
 *
 *   cost: 2 rounds, 2 (n - 1)/n * bytes sent a rank, 1 fold of n blocks; the least traffic that
 *   an all-reduce can have.  Reduce-scatter and all-gather alone are one half each.
 *   waits: the fold waits for all before it; a send of the second half waits for the fold; in
 *   place a receive of the second half overwrites the block that went to the same rank, which
 *   answers once it has folded it.
 *
 *   n = 2: what comes is folded on arrival, as own and incoming value are all there is: no scratch,
 *   and the payload passes the cache once.
 *
 *   broadcast, n = 4, root 0: the payload is cut into n - 1 blocks; the ranks after the root,
 *   v = 0 … n - 2 around the circle, own one each
 *
 *   scatter           0 -> 1 2 3        cost: 2 rounds, the root sends the payload once, the
 *   all-gather        1 -> 2 3          others (n - 2)/(n - 1) of it
 *                     2 -> 3 1          waits: a send of the all-gather waits for the block
 *                     3 -> 1 2          from the root
 *
 * Source: pairwise exchange, and scatter with all-gather, in Thakur, Rabenseifner, Gropp 2005.
 */
#include "algo/algo.h"
#include "algo/steps.h"

/* One round of everyone to everyone: steps 2(k - 1) and 2(k - 1) + 1, for k = 1 … n - 1, receive
 * from the k-th rank before and send to the k-th rank after. */
static uint32_t round_steps(const struct tci_shape *shape)
{
    return 2 * (shape->size - 1);
}

static uint32_t scatter_slots(const struct tci_shape *shape)
{
    return shape->size == 2 ? 0 : shape->size - 1;
}

/* ---- All-reduce ------------------------------------------------------------------------------ */

static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    if (shape->size <= 2)
        return shape->size == 1 ? tci_copies(shape) : 4;
    return 2 * round_steps(shape) + 1;
}

static void allreduce_of_two_step(const struct tci_shape *shape, uint32_t i,
                                  struct tci_step *step_out)
{
    uint32_t r = shape->rank, peer = 1 - r;

    switch (i) {
    case 0:
        *step_out = tci_recv_reduce(tci_dst(r), tci_src(r), peer);
        step_out->last = true;
        break;
    case 1:
        *step_out = tci_send(tci_src(peer), peer, 0);
        break;
    case 2: /* in place: overwrites the block that step 1 sends */
        *step_out = tci_recv(tci_dst(peer), peer);
        step_out->answers = shape->in_place;
        break;
    default:
        *step_out = tci_send(tci_dst(r), peer, 2);
        step_out->wait[0] = 3;
    }
}

static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, fold = round_steps(shape);

    TC_ASSERT(i < allreduce_steps(shape));
    if (n == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (n == 2) {
        allreduce_of_two_step(shape, i, step_out);
    } else if (i < fold) {
        tci_scatter_step(shape, i, step_out);
    } else if (i == fold) {
        *step_out = tci_fold(tci_dst(r), tci_src(r));
    } else if ((i - fold) % 2 == 1) {
        uint32_t k = (i - fold + 1) / 2, peer = tci_before(r, k, n);

        /* In place: the block went to `peer`, n - k places ahead, in step 2(n - k) - 1. */
        *step_out = tci_recv(tci_dst(peer), peer);
        step_out->answers = shape->in_place && tci_back(4 * k - 2) != 0;
    } else {
        *step_out = tci_send(tci_dst(r), tci_after(r, (i - fold) / 2, n), i - 1);
        step_out->wait[0] = tci_back(i - fold);
    }
}

const struct tci_plan tci_direct_allreduce = {
    .name = "direct",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_DIRECT,
    .canonical = true,
    .whole = true,
    .is_used = true,
    .steps = allreduce_steps,
    .blocks = tci_each_rank,
    .slots = scatter_slots,
    .step = allreduce_step,
};

/* ---- Reduce-scatter -------------------------------------------------------------------------- */

static uint32_t reduce_scatter_steps(const struct tci_shape *shape)
{
    if (shape->size <= 2)
        return shape->size == 1 ? tci_copies(shape) : 2;
    return round_steps(shape) + 1;
}

static void reduce_scatter_of_two_step(const struct tci_shape *shape, uint32_t i,
                                       struct tci_step *step_out)
{
    uint32_t r = shape->rank, peer = 1 - r;

    if (i == 0) {
        *step_out = tci_send(tci_src(peer), peer, 1);
        return;
    }
    *step_out = tci_recv_reduce(tci_dst(0), tci_src(r), peer);
    step_out->last = true;
    step_out->wait[0] = shape->in_place && r == 1 ? 1 : 0; /* block 0 is on its way out */
}

static void reduce_scatter_step(const struct tci_shape *shape, uint32_t i,
                                struct tci_step *step_out)
{
    TC_ASSERT(i < reduce_scatter_steps(shape));
    if (shape->size == 1)
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    else if (shape->size == 2)
        reduce_scatter_of_two_step(shape, i, step_out);
    else if (i < round_steps(shape))
        tci_scatter_step(shape, i, step_out);
    else
        *step_out = tci_fold(tci_dst(0), tci_src(shape->rank));
}

const struct tci_plan tci_direct_reduce_scatter = {
    .name = "direct",
    .coll = TCI_COLL_REDUCE_SCATTER,
    .layout = TCI_LAYOUT_SCATTER,
    .id = TCI_ALGO_DIRECT,
    .canonical = true,
    .whole = true,
    .is_used = true,
    .steps = reduce_scatter_steps,
    .blocks = tci_one,
    .slots = scatter_slots,
    .step = reduce_scatter_step,
};

/* ---- All-gather ------------------------------------------------------------------------------ */

static uint32_t allgather_steps(const struct tci_shape *shape)
{
    return round_steps(shape) + tci_copies(shape);
}

/* The copy comes last, so that it runs while the messages are on their way. */
static void allgather_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, k = i / 2 + 1;

    TC_ASSERT(i < allgather_steps(shape));
    if (i == round_steps(shape))
        *step_out = tci_copy(tci_dst(r), tci_src(0));
    else if (i % 2 == 0)
        *step_out = tci_recv(tci_dst(tci_before(r, k, n)), tci_before(r, k, n));
    else
        *step_out = tci_send(tci_src(0), tci_after(r, k, n), i - 1);
}

const struct tci_plan tci_direct_allgather = {
    .name = "direct",
    .coll = TCI_COLL_ALLGATHER,
    .layout = TCI_LAYOUT_GATHER,
    .id = TCI_ALGO_DIRECT,
    .canonical = true,
    .is_used = true,
    .steps = allgather_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = allgather_step,
};

/* ---- Broadcast ------------------------------------------------------------------------------- */

static uint32_t broadcast_steps(const struct tci_shape *shape)
{
    if (shape->size == 1)
        return 0;
    return shape->rank == shape->root ? shape->size - 1 : 1 + 2 * (shape->size - 2);
}

static uint32_t broadcast_blocks(const struct tci_shape *shape)
{
    return shape->size == 1 ? 1 : shape->size - 1;
}

/* The rank that owns block v. */
static uint32_t owner_of(const struct tci_shape *shape, uint32_t v)
{
    return tci_after(shape->root, v + 1, shape->size);
}

static void broadcast_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t owners = shape->size - 1;

    TC_ASSERT(i < broadcast_steps(shape));
    if (shape->rank == shape->root) {
        *step_out = tci_send(tci_dst(i), owner_of(shape, i), 0);
        return;
    }

    uint32_t v = tci_before(shape->rank, shape->root, shape->size) - 1;

    if (i == 0) {
        *step_out = tci_recv(tci_dst(v), shape->root);
    } else if (i % 2 == 1) {
        uint32_t w = tci_before(v, (i + 1) / 2, owners);

        *step_out = tci_recv(tci_dst(w), owner_of(shape, w));
    } else {
        *step_out = tci_send(tci_dst(v), owner_of(shape, tci_after(v, i / 2, owners)), i - 1);
        step_out->wait[0] = tci_back(i);
    }
}

const struct tci_plan tci_direct_broadcast = {
    .name = "direct",
    .coll = TCI_COLL_BROADCAST,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_DIRECT,
    .canonical = true,
    .is_used = true,
    .steps = broadcast_steps,
    .blocks = broadcast_blocks,
    .slots = tci_none,
    .step = broadcast_step,
};
