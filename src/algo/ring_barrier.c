/* ring_barrier.c - barrier on a ring, in both directions: only neighbours are linked. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 5      round 0    0 -> 1 -> 2 -> 3 -> 4 -> 0    each to the one after it,
 *                         0 <- 1 <- 2 <- 3 <- 4 <- 0    and to the one before it
 *              round 1    the same, behind what came in round 0 from the other side
 *
 *   After round j a rank knows that the j + 1 ranks on each side of it have entered.
 *
 *   cost: floor(n/2) rounds, n - 1 empty messages sent a rank; where n is even, the last round goes
 *   one way alone
 *   waits: a send passes on what came from the other side in the round before
 */
#include "algo/algo.h"
#include "algo/steps.h"

static uint32_t barrier_steps(const struct tci_shape *shape)
{
    return 2 * (shape->size - 1);
}

/* Steps 4j … 4j + 3 are round j: to the right, from the left, to the left, from the right. */
static void barrier_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank;
    uint32_t left = tci_before(r, 1, n), right = tci_after(r, 1, n);

    TC_ASSERT(i < barrier_steps(shape));
    if (i % 2 == 0) {
        *step_out = tci_send(tci_src(0), i % 4 == 0 ? right : left, i + 1);
        step_out->wait[0] = i < 4 ? 0 : 3;
    } else {
        *step_out = tci_recv(tci_dst(0), i % 4 == 1 ? left : right);
    }
}

const struct tci_plan tci_ring_barrier = {
    .name = "ring",
    .coll = TCI_COLL_BARRIER,
    .layout = TCI_LAYOUT_NONE,
    .id = TCI_ALGO_RING,
    .canonical = true,
    .is_used = true,
    .steps = barrier_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = barrier_step,
};
