/* ring.c - all-reduce, reduce-scatter and all-gather on a ring: every link carries the same. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   all-reduce, n = 4: the payload is cut into n blocks, a hop goes from each rank to the next
 *
 *   hop       0 -> 1    1 -> 2    2 -> 3    3 -> 0
 *   0 reduce  block 0   block 1   block 2   block 3    own input
 *   1 reduce  block 3   block 0   block 1   block 2    partial results: what came, and own input
 *   2 reduce  block 2   block 3   block 0   block 1
 *   3 gather  block 1   block 2   block 3   block 0    results: rank r has block r + 1
 *   4 gather  block 0   block 1   block 2   block 3
 *   5 gather  block 3   block 0   block 1   block 2
 *
 *   cost: 2 (n - 1) rounds, 2 (n - 1)/n * bytes sent a rank, n - 1 reductions of a block
 *   waits: a send waits for what came in the hop before it; a receive of the second half waits
 *   until the block that it overwrites was sent
 *
 *   all-gather is the second half, begun with block r; reduce-scatter is the first half, begun
 *   with block r - 1, so that rank r ends with block r.  Its partial results lie in a few scratch
 *   slots, used in turn.
 *
 * The sum of block b begins at one rank and goes around the ring, so its order is another for
 * each block, but the same on every rank and every run.
 *
 * Source: Patarasuk, Yuan 2009.
 */
#include "algo/algo.h"
#include "algo/steps.h"

/* ---- All-reduce ------------------------------------------------------------------------------ */

static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    return shape->size == 1 ? tci_copies(shape) : 4 * (shape->size - 1);
}

/* Steps 2k and 2k + 1 are hop k = 0 … 2n - 3: send block r - k, receive block r - k - 1. */
static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, k = i / 2;

    TC_ASSERT(i < allreduce_steps(shape));
    if (n == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (i % 2 == 0) {
        uint32_t block = tci_before(r, k % n, n);

        *step_out = tci_send(k == 0 ? tci_src(block) : tci_dst(block), tci_after(r, 1, n), i + 1);
        step_out->wait[0] = k == 0 ? 0 : 1;
    } else if (k < n - 1) {
        uint32_t block = tci_before(r, k + 1, n);

        *step_out = tci_recv_reduce(tci_dst(block), tci_src(block), tci_before(r, 1, n));
        step_out->last = k == n - 2;
    } else {
        /* The block was sent in hop k + 1 - n; in hop 0 from the source. */
        *step_out = tci_recv(tci_dst(tci_before(r, (k + 1) % n, n)), tci_before(r, 1, n));
        step_out->wait[0] = k >= n || shape->in_place ? tci_back(2 * n - 1) : 0;
    }
}

const struct tci_plan tci_ring_allreduce = {
    .name = "ring",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_RING,
    .canonical = false,
    .is_used = true,
    .steps = allreduce_steps,
    .blocks = tci_each_rank,
    .slots = tci_none,
    .step = allreduce_step,
};

/* ---- Reduce-scatter -------------------------------------------------------------------------- */

/* Two let a rank receive while it sends; two more let it grant the next receives early. */
enum { PARTIALS = 4 };

static uint32_t reduce_scatter_steps(const struct tci_shape *shape)
{
    return shape->size == 1 ? tci_copies(shape) : 2 * (shape->size - 1);
}

static uint32_t reduce_scatter_slots(const struct tci_shape *shape)
{
    if (shape->size <= 2)
        return 0;
    return shape->size - 2 < PARTIALS ? shape->size - 2 : PARTIALS;
}

/* In place the result overwrites input block 0.  Rank 1 sends that block in hop 0, a rank r > 1
 * reads it in hop r - 2; on rank 0 it is the result's own input. */
static uint8_t wait_for_block_0(const struct tci_shape *shape)
{
    uint32_t n = shape->size, r = shape->rank;

    if (!shape->in_place || r == 0)
        return 0;
    return tci_back(r == 1 ? 2 * n - 3 : 2 * (n - r));
}

/* Steps 2h and 2h + 1 are hop h = 0 … n - 2: send block r - 1 - h, receive block r - 2 - h. */
static void reduce_scatter_step(const struct tci_shape *shape, uint32_t i,
                                struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, h = i / 2;

    TC_ASSERT(i < reduce_scatter_steps(shape));
    if (n == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (i % 2 == 0) {
        struct tci_slice block = tci_src(tci_before(r, h + 1, n));

        *step_out =
            tci_send(h == 0 ? block : tci_tmp((h - 1) % PARTIALS), tci_after(r, 1, n), i + 1);
        step_out->dst = block;
        step_out->wait[0] = h == 0 ? 0 : 1;
    } else if (h < n - 2) {
        /* The partial result of hop h - PARTIALS lay in that slot and was sent a hop later. */
        *step_out = tci_recv_reduce(tci_tmp(h % PARTIALS), tci_src(tci_before(r, h + 2, n)),
                                    tci_before(r, 1, n));
        step_out->wait[0] = h >= PARTIALS ? tci_back(2 * PARTIALS - 1) : 0;
    } else {
        *step_out = tci_recv_reduce(tci_dst(0), tci_src(r), tci_before(r, 1, n));
        step_out->last = true;
        step_out->wait[0] = wait_for_block_0(shape);
    }
}

const struct tci_plan tci_ring_reduce_scatter = {
    .name = "ring",
    .coll = TCI_COLL_REDUCE_SCATTER,
    .layout = TCI_LAYOUT_SCATTER,
    .id = TCI_ALGO_RING,
    .canonical = false,
    .is_used = true,
    .steps = reduce_scatter_steps,
    .blocks = tci_one,
    .slots = reduce_scatter_slots,
    .step = reduce_scatter_step,
};

/* ---- All-gather ------------------------------------------------------------------------------ */

static uint32_t allgather_steps(const struct tci_shape *shape)
{
    return 2 * (shape->size - 1) + tci_copies(shape);
}

/* Steps 2k and 2k + 1 are hop k = 0 … n - 2: send block r - k, receive block r - k - 1. */
static void allgather_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, k = i / 2;

    TC_ASSERT(i < allgather_steps(shape));
    if (i == 2 * (n - 1)) {
        *step_out = tci_copy(tci_dst(r), tci_src(0));
    } else if (i % 2 == 0) {
        *step_out =
            tci_send(k == 0 ? tci_src(0) : tci_dst(tci_before(r, k, n)), tci_after(r, 1, n), i + 1);
        step_out->wait[0] = k == 0 ? 0 : 1;
    } else {
        *step_out = tci_recv(tci_dst(tci_before(r, k + 1, n)), tci_before(r, 1, n));
    }
}

const struct tci_plan tci_ring_allgather = {
    .name = "ring",
    .coll = TCI_COLL_ALLGATHER,
    .layout = TCI_LAYOUT_GATHER,
    .id = TCI_ALGO_RING,
    .canonical = true,
    .is_used = true,
    .steps = allgather_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = allgather_step,
};
