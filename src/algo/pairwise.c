/* pairwise.c - all-to-all and reduce-scatter in rounds, one message each way at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 4          k = 1    k = 2    k = 3
 *   rank r sends   r + 1    r + 2    r + 3     block `peer` of its own
 *   and receives   r - 1    r - 2    r - 3     block `peer`; of a reduce-scatter block r
 *
 *   A round begins when the one before has ended here, so that a rank sends one message, and is
 *   sent one, at a time: a link or a switch that is short of buffers is not flooded.  That is the
 *   pace; a plan would be right without it.
 *
 *   all-to-all
 *   cost: n - 1 rounds, n - 1 messages, (n - 1)/n * bytes sent and received a rank: the least
 *   waits: none but the pace; in place as in the direct one (exchange.c)
 *
 *   reduce-scatter: what comes is reduced on arrival
 *
 *   cost: n - 1 rounds, (n - 1)/n * bytes sent a rank and as much reduced; no scratch, in place one
 *   block
 *   waits: reductions follow one another: block r is reduced in the order r, r - 1, r - 2 …; in
 *   place the result waits until the block that it overwrites was sent
 *
 * Source: pairwise exchange in Thakur, Rabenseifner, Gropp 2005.
 */
#include "algo/algo.h"
#include "algo/steps.h"

/* ---- All-to-all ------------------------------------------------------------------------------ */

static uint32_t alltoall_steps(const struct tci_shape *shape)
{
    return tci_direct_alltoall.steps(shape);
}

static uint32_t alltoall_slots(const struct tci_shape *shape)
{
    return tci_direct_alltoall.slots(shape);
}

/* The direct one, paced: of its steps, 2(k - 1) and 2(k - 1) + 1 are round k.  A second receive is
 * granted early. */
static void alltoall_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t pace = i % 2 == 0 ? 4 : 2;

    tci_direct_alltoall.step(shape, i, step_out);
    if (i < 2 * (shape->size - 1))
        step_out->pace = i < pace ? 0 : pace;
}

const struct tci_plan tci_pairwise_alltoall = {
    .name = "pairwise",
    .coll = TCI_COLL_ALLTOALL,
    .layout = TCI_LAYOUT_EXCHANGE,
    .id = TCI_ALGO_PAIRWISE,
    .canonical = true,
    .is_used = true,
    .steps = alltoall_steps,
    .blocks = tci_one,
    .slots = alltoall_slots,
    .step = alltoall_step,
};

/* ---- Reduce-scatter -------------------------------------------------------------------------- */

static uint32_t reduce_scatter_steps(const struct tci_shape *shape)
{
    return shape->size == 1 ? tci_copies(shape) : 2 * (shape->size - 1);
}

/* In place the sum may not lie where the result goes before the end. */
static uint32_t reduce_scatter_slots(const struct tci_shape *shape)
{
    return shape->in_place && shape->size > 2 ? 1 : 0;
}

/* Steps 2(k - 1) and 2(k - 1) + 1 are round k. */
static void reduce_scatter_step(const struct tci_shape *shape, uint32_t i,
                                struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, k = i / 2 + 1;

    TC_ASSERT(i < reduce_scatter_steps(shape));
    if (n == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (i % 2 == 0) {
        *step_out = tci_send(tci_src(tci_after(r, k, n)), tci_after(r, k, n), i + 1);
        step_out->pace = k == 1 ? 0 : 2;
    } else {
        bool is_last = k == n - 1;
        struct tci_slice sum = shape->in_place ? tci_tmp(0) : tci_dst(0);

        *step_out = tci_recv_reduce(is_last ? tci_dst(0) : sum, k == 1 ? tci_src(r) : sum,
                                    tci_before(r, k, n));
        step_out->as = tci_src(r);
        step_out->last = is_last;
        step_out->wait[0] = k == 1 ? 0 : 2;
        /* Block 0 went in round n - r; in place the result overwrites it. */
        step_out->wait[1] = is_last && shape->in_place && r > 0 ? tci_back(2 * r - 1) : 0;
    }
}

const struct tci_plan tci_pairwise_reduce_scatter = {
    .name = "pairwise",
    .coll = TCI_COLL_REDUCE_SCATTER,
    .layout = TCI_LAYOUT_SCATTER,
    .id = TCI_ALGO_PAIRWISE,
    .canonical = false,
    .is_used = true,
    .steps = reduce_scatter_steps,
    .blocks = tci_one,
    .slots = reduce_scatter_slots,
    .step = reduce_scatter_step,
};
