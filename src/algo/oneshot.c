/* oneshot.c - all-reduce, reduce and broadcast in one round: for the smallest payloads. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   all-reduce, n = 4            what rank 1 does
 *   0 -> 1 2 3                   0 RECV tmp 0 from 0    1 SEND src to 2
 *   1 -> 2 3 0                   2 RECV tmp 2 from 3    3 SEND src to 3
 *   2 -> 3 0 1                   4 RECV tmp 1 from 2    5 SEND src to 0
 *   3 -> 0 1 2                   6 FOLD dst = tmp 0, src, tmp 1, tmp 2, after all of these
 *
 *   cost: 1 round, (n - 1) * bytes sent and received a rank, 1 fold of n payloads
 *
 *   broadcast, n = 4, root 0     0 -> 1 2 3
 *
 *   cost: 1 round, (n - 1) * bytes sent by the root
 *
 *   reduce, n = 4, root 0        1 2 3 -> 0, which folds as above; of two ranks, as it arrives
 *
 *   cost: 1 round, (n - 1) * bytes received by the root, 1 fold of n payloads there
 *
 * Source: Thakur, Rabenseifner, Gropp 2005 call it the linear, or flat, algorithm.
 */
#include "algo/algo.h"
#include "algo/steps.h"

/* ---- All-reduce ------------------------------------------------------------------------------ */

static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    return shape->size == 1 ? tci_copies(shape) : 2 * (shape->size - 1) + 1;
}

/* Rank r meets r + 1, r + 2, … so that no rank is met by all others at once. */
static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, k = i / 2 + 1;

    TC_ASSERT(i < allreduce_steps(shape));
    if (n == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (k == n) {
        *step_out = tci_fold(tci_dst(0), tci_src(0));
    } else if (i % 2 == 0) {
        uint32_t peer = tci_before(r, k, n);

        *step_out = tci_recv(tci_tmp_of(shape, peer), peer);
        step_out->src = tci_src(0);
    } else {
        *step_out = tci_send(tci_src(0), tci_after(r, k, n), i - 1);
    }
}

const struct tci_plan tci_oneshot_allreduce = {
    .name = "oneshot",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_ONESHOT,
    .canonical = true,
    .whole = true,
    .is_used = true,
    .steps = allreduce_steps,
    .blocks = tci_one,
    .slots = tci_each_other_rank,
    .step = allreduce_step,
};

/* ---- Broadcast ------------------------------------------------------------------------------- */

static uint32_t broadcast_steps(const struct tci_shape *shape)
{
    return shape->rank == shape->root ? shape->size - 1 : 1;
}

static void broadcast_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    TC_ASSERT(i < broadcast_steps(shape));
    if (shape->rank == shape->root)
        *step_out = tci_send(tci_dst(0), tci_after(shape->root, i + 1, shape->size), 0);
    else
        *step_out = tci_recv(tci_dst(0), shape->root);
}

const struct tci_plan tci_oneshot_broadcast = {
    .name = "oneshot",
    .coll = TCI_COLL_BROADCAST,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_ONESHOT,
    .canonical = true,
    .is_used = true,
    .steps = broadcast_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = broadcast_step,
};

/* ---- Reduce ---------------------------------------------------------------------------------- */

static uint32_t reduce_steps(const struct tci_shape *shape)
{
    if (shape->size == 1)
        return tci_copies(shape);
    if (shape->size == 2 || shape->rank != shape->root)
        return 1;
    return shape->size;
}

static uint32_t reduce_slots(const struct tci_shape *shape)
{
    return shape->size == 2 || shape->rank != shape->root ? 0 : shape->size - 1;
}

/* The root meets the ranks after it, one after the other. */
static void reduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank;

    TC_ASSERT(i < reduce_steps(shape));
    if (n == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (r != shape->root) {
        *step_out = tci_send(tci_src(0), shape->root, tci_before(r, shape->root, n) - 1);
    } else if (n == 2) {
        *step_out = tci_recv_reduce(tci_dst(0), tci_src(0), 1 - r);
        step_out->last = true;
    } else if (i == n - 1) {
        *step_out = tci_fold(tci_dst(0), tci_src(0));
    } else {
        uint32_t peer = tci_after(r, i + 1, n);

        *step_out = tci_recv(tci_tmp_of(shape, peer), peer);
        step_out->src = tci_src(0);
    }
}

const struct tci_plan tci_oneshot_reduce = {
    .name = "oneshot",
    .coll = TCI_COLL_REDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_ONESHOT,
    .canonical = true,
    .whole = true,
    .is_used = true,
    .steps = reduce_steps,
    .blocks = tci_one,
    .slots = reduce_slots,
    .step = reduce_step,
};
