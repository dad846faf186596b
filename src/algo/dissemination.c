/* dissemination.c - barrier in ceil(log2 n) rounds, for any number of ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 4      round 0    0 -> 1    1 -> 2    2 -> 3    3 -> 0
 *              round 1    0 -> 2    1 -> 3    2 -> 0    3 -> 1
 *
 *   After round j a rank knows that the 2^(j+1) - 1 ranks before it have entered.
 *
 *   cost: L = ceil(log2 n) rounds, L empty messages sent a rank
 *   waits: a send says that all earlier receives have ended.  It waits for the receive of the round
 *   before it, and for the send of that round, which has waited for the receives before that.
 *
 * Source: Hensgen, Finkel, Manber 1988.
 */
#include "algo/algo.h"
#include "algo/steps.h"

static uint32_t barrier_steps(const struct tci_shape *shape)
{
    uint32_t rounds = 0;

    while (((uint64_t)1 << rounds) < shape->size)
        rounds++;
    return 2 * rounds;
}

static void barrier_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, j = i / 2;

    TC_ASSERT(i < barrier_steps(shape));
    if (i % 2 == 0) {
        *step_out = tci_send(tci_src(0), tci_after(r, 1u << j, n), i + 1);
        step_out->wait[0] = j == 0 ? 0 : 1;
        step_out->wait[1] = j < 2 ? 0 : 2;
    } else {
        *step_out = tci_recv(tci_dst(0), tci_before(r, 1u << j, n));
    }
}

const struct tci_plan tci_dissemination_barrier = {
    .name = "dissemination",
    .coll = TCI_COLL_BARRIER,
    .layout = TCI_LAYOUT_NONE,
    .id = TCI_ALGO_DISSEMINATION,
    .canonical = true,
    .is_used = true,
    .steps = barrier_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = barrier_step,
};
