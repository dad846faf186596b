/* dissemination.c - barrier and all-gather in ceil(log2 n) rounds, for any number of ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 4      round 0    0 -> 1    1 -> 2    2 -> 3    3 -> 0
 *              round 1    0 -> 2    1 -> 3    2 -> 0    3 -> 1
 *
 *   After round j a rank knows that the 2^(j+1) - 1 ranks before it have entered.
 *
 *   cost: L = ceil(log2 n) rounds, L empty messages sent a rank
 *   waits: a send brings its receiver news of the sender and of some ranks before that, so it
 *   waits for the receives that it has those from: for the last of them, and for the send of
 *   that round, which has waited for the others.  In the last round they may be few: for n = 5
 *   only the sender itself is news, and the send waits for nothing; up to n = 3/4 * 2^L the
 *   longest path has L - 1 messages.
 *
 *   all-gather, n = 4    round 0    r sends block r to r + 1
 *                        round 1    r sends blocks r and r - 1 to r + 2, one by one
 *
 *   cost: L rounds, n - 1 messages, but with L ranks alone; (n - 1) blocks sent a rank, which is
 *   the least; no scratch, and blocks of any lengths
 *   waits: a send waits for the receive of its block
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

/* Rounds whose receives a send of round j tells about. */
static uint32_t rounds_told(uint32_t n, uint32_t j)
{
    uint32_t news = n - (1u << j), told = 0; /* ranks that the receiver has not heard of */

    while (told < j && (1u << told) < news)
        told++;
    return told;
}

/* Steps 2j and 2j + 1 are round j: send to the 2^j-th rank after, receive from the one before. */
static void barrier_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, j = i / 2;

    TC_ASSERT(i < barrier_steps(shape));
    if (i % 2 == 0) {
        uint32_t told = rounds_told(n, j);

        *step_out = tci_send(tci_src(0), tci_after(r, 1u << j, n), i + 1);
        step_out->wait[0] = told < 1 ? 0 : tci_back(i - (2 * told - 1));
        step_out->wait[1] = told < 2 ? 0 : tci_back(i - (2 * told - 2));
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

/* ---- All-gather ------------------------------------------------------------------------------ */

static uint32_t allgather_steps(const struct tci_shape *shape)
{
    return 2 * (shape->size - 1) + tci_copies(shape);
}

/* Steps 2q and 2q + 1, for q + 1 = 2^j + b: in round j, receive the block of the (q + 1)-th rank
 * before, and send that of the b-th, which step 2(b - 1) has received, to the 2^j-th rank after. */
static void allgather_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, q = i / 2, far = 1;

    TC_ASSERT(i < allgather_steps(shape));
    if (q == n - 1) {
        *step_out = tci_copy(tci_dst(r), tci_src(0));
        return;
    }
    while (far <= (q + 1) / 2)
        far *= 2;

    uint32_t b = q + 1 - far;

    if (i % 2 == 0) {
        *step_out = tci_recv(tci_dst(tci_before(r, q + 1, n)), tci_before(r, far, n));
    } else {
        *step_out = tci_send(b == 0 ? tci_src(0) : tci_dst(tci_before(r, b, n)),
                             tci_after(r, far, n), i - 1);
        step_out->wait[0] = b == 0 ? 0 : tci_back(2 * far + 1);
    }
}

const struct tci_plan tci_dissemination_allgather = {
    .name = "dissemination",
    .coll = TCI_COLL_ALLGATHER,
    .layout = TCI_LAYOUT_GATHER,
    .id = TCI_ALGO_DISSEMINATION,
    .canonical = true,
    .is_used = true,
    .steps = allgather_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = allgather_step,
};
