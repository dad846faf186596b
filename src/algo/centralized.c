/* centralized.c - all-reduce through rank 0: for a group in which all are linked with it alone. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 4     1 2 3 -> 0    everyone sends its payload to rank 0, which folds in rank order
 *             0 -> 1 2 3    and sends the result to all
 *
 *   cost: 2 rounds, (n - 1) * bytes received, then sent, by rank 0, which is what bounds it; a
 *   payload each way for the others; 1 fold of n payloads
 *   waits: the fold waits for all before it, what rank 0 sends for the fold; in place what comes
 *   back overwrites the payload that rank 0 has folded by then
 *
 * Source: the linear reduce and the linear broadcast in Thakur, Rabenseifner, Gropp 2005.  Of the
 * two the first alone is the one-shot reduce.
 */
#include "algo/algo.h"
#include "algo/steps.h"

static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    if (shape->size == 1)
        return tci_copies(shape);
    return shape->rank == 0 ? 2 * (shape->size - 1) + 1 : 2;
}

static uint32_t allreduce_slots(const struct tci_shape *shape)
{
    return shape->rank == 0 ? shape->size - 1 : 0;
}

/* Steps r - 1 and n - 1 + r of rank 0 are a receive from rank r and a send to it. */
static void center_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t fold = shape->size - 1;

    if (i < fold) {
        *step_out = tci_recv(tci_tmp_of(shape, i + 1), i + 1);
        step_out->src = tci_src(0);
    } else if (i == fold) {
        *step_out = tci_fold(tci_dst(0), tci_src(0));
    } else {
        *step_out = tci_send(tci_dst(0), i - fold, 1);
        step_out->wait[0] = tci_back(i - fold);
    }
}

static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    TC_ASSERT(i < allreduce_steps(shape));
    if (shape->size == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (shape->rank == 0) {
        center_step(shape, i, step_out);
    } else if (i == 0) {
        *step_out = tci_send(tci_src(0), 0, shape->rank - 1);
    } else {
        *step_out = tci_recv(tci_dst(0), 0);
        step_out->answers = shape->in_place;
    }
}

const struct tci_plan tci_centralized_allreduce = {
    .name = "centralized",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_CENTRALIZED,
    .canonical = true,
    .whole = true,
    .is_used = true,
    .steps = allreduce_steps,
    .blocks = tci_one,
    .slots = allreduce_slots,
    .step = allreduce_step,
};
