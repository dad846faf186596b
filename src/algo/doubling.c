/* doubling.c - recursive doubling: in each round the pairs of ranks are twice as far apart. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   all-reduce, n = 4                      n = 6: 2 ranks more than a power of two
 *
 *   round 0    0 <-> 1    2 <-> 3          first      1 -> 0     3 -> 2
 *   round 1    0 <-> 2    1 <-> 3          round 0    0 <-> 2    4 <-> 5
 *                                          round 1    0 <-> 4    2 <-> 5
 *                                          last       0 -> 1     2 -> 3
 *
 *   Both of a pair send what they have, and both reduce, the lower rank's value on the left; so
 *   after round j each group of 2^(j+1) ranks has its sum.  Where n is no power of two, the first
 *   ranks give their input to the neighbour before them, and have the result from it.
 *
 *   cost: floor(log2 n) rounds, 2 more where n is no power of two; bytes are sent and reduced once
 *   a round: few messages, much traffic; for small payloads on many ranks
 *   waits: a round waits for the one before.  What a rank sends must lie still while it reduces, so
 *   partial results lie in the destination and in scratch memory, in turn, and the last one in the
 *   destination: a receive waits until what it overwrites was sent.  In place the first one lies in
 *   scratch memory; so with an odd number of rounds the last one does too, and is copied.
 *
 * The sum is a balanced tree over the ranks in their order, the same on every rank and every run,
 * and the same as that of halving and doubling.
 *
 * Source: recursive doubling in Thakur, Rabenseifner, Gropp 2005.
 */
#include "algo/algo.h"
#include "algo/pairs.h"

/* In place the input lies in the destination, so the first round cannot reduce to there; after an
 * odd number of rounds neither can the last. */
static bool copies_at_the_end(const struct tci_shape *shape, const struct tci_pairs *pairs)
{
    return shape->in_place && pairs->rounds % 2 == 1 && pairs->folds == 0 && !pairs->is_folded;
}

/* The result of round k; of a rank folded in, the sum before round 0 is that of round -1. */
static struct tci_slice result_of(const struct tci_shape *shape, const struct tci_pairs *pairs,
                                  int64_t k)
{
    bool is_even = (pairs->rounds - 1 - k) % 2 == 0;

    return is_even != copies_at_the_end(shape, pairs) ? tci_dst(0) : tci_tmp(0);
}

/* What a rank brings to round k. */
static struct tci_slice partial_before(const struct tci_shape *shape, const struct tci_pairs *pairs,
                                       uint32_t k)
{
    return k > 0 || pairs->folds > 0 ? result_of(shape, pairs, (int64_t)k - 1) : tci_src(0);
}

static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    struct tci_pairs pairs;

    if (shape->size == 1)
        return tci_copies(shape);
    pairs = tci_pairs_of(shape->rank, shape->size);
    if (pairs.is_folded)
        return 2;
    return 2 * pairs.folds + 2 * pairs.rounds + (copies_at_the_end(shape, &pairs) ? 1 : 0);
}

static uint32_t allreduce_slots(const struct tci_shape *shape)
{
    struct tci_pairs pairs;

    if (shape->size == 1)
        return 0;
    pairs = tci_pairs_of(shape->rank, shape->size);
    if (pairs.is_folded)
        return 0;
    return pairs.rounds + pairs.folds >= 2 || copies_at_the_end(shape, &pairs) ? 1 : 0;
}

/* A rank that gives its input away. */
static void folded_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    if (i == 0) {
        *step_out = tci_send(tci_src(0), shape->rank - 1, 0);
    } else {
        *step_out = tci_recv(tci_dst(0), shape->rank - 1);
        step_out->wait[0] = shape->in_place ? 1 : 0;
    }
}

static void round_receive(const struct tci_shape *shape, const struct tci_pairs *pairs, uint32_t k,
                          struct tci_step *step_out)
{
    bool is_first = k == 0 && pairs->folds == 0;

    *step_out = tci_recv_reduce(result_of(shape, pairs, k), partial_before(shape, pairs, k),
                                tci_pairs_met(pairs, k));
    step_out->last = k + 1 == pairs->rounds;
    step_out->wait[0] = is_first ? 0 : 2;
    /* It overwrites the result of round k - 2, which was sent in the round after that. */
    if (k >= 2 || (k == 1 && (pairs->folds > 0 || shape->in_place)))
        step_out->wait[1] = 3;
}

/*   with a rank folded in      0                    receive its input and reduce
 *   round k                    2k, 2k + 1           send, receive and reduce; after that step
 *   with a rank folded in      the last             send it the result
 *   odd rounds, in place       the last             copy */
static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank;
    struct tci_pairs pairs;

    TC_ASSERT(i < allreduce_steps(shape));
    if (n == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
        return;
    }

    pairs = tci_pairs_of(r, n);

    uint32_t k = (i - pairs.folds) / 2;

    if (pairs.is_folded) {
        folded_step(shape, i, step_out);
    } else if (i < pairs.folds) {
        *step_out = tci_recv_reduce(result_of(shape, &pairs, -1), tci_src(0), r + 1);
    } else if (k < pairs.rounds && (i - pairs.folds) % 2 == 0) {
        uint32_t peer = tci_pairs_met(&pairs, k);

        *step_out = tci_send(partial_before(shape, &pairs, k), peer,
                             tci_pairs_of(peer, n).folds + 2 * k + 1);
        step_out->dst = tci_dst(0);
        step_out->wait[0] = i == 0 ? 0 : 1;
    } else if (k < pairs.rounds) {
        round_receive(shape, &pairs, k, step_out);
    } else if (pairs.folds > 0) {
        *step_out = tci_send(tci_dst(0), r + 1, 1);
        step_out->wait[0] = 1;
    } else {
        *step_out = tci_copy(tci_dst(0), tci_tmp(0));
        step_out->wait[0] = 1;
        step_out->wait[1] = 2;
    }
}

const struct tci_plan tci_recursive_doubling_allreduce = {
    .name = "recursive_doubling",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_RECURSIVE_DOUBLING,
    .canonical = false,
    .is_used = true,
    .steps = allreduce_steps,
    .blocks = tci_one,
    .slots = allreduce_slots,
    .step = allreduce_step,
};
