/* halving.c - recursive halving and doubling: the traffic of a ring in 2 log2 n rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   all-reduce, n = 4: the payload is cut into 4 blocks
 *
 *   round              0 <-> 1          2 <-> 3          0 <-> 2          1 <-> 3
 *   0 reduce   sends   2 3     0 1      2 3     0 1
 *   1 reduce   sends                                     1       0        3       2
 *              has     0       2        1       3        the sum of that block
 *   2 gather   sends                                     0       1        2       3
 *   3 gather   sends   0 1     2 3      0 1     2 3
 *
 *   In each round of the first half both of a pair send half of what they have, and reduce the
 *   other half, the lower rank's value on the left; the second half takes the same way back.
 *   Neighbours meet first and last, when the messages are long.  Where n is no power of two, the
 *   first ranks give their input to the neighbour before them, and have the result from it.
 *
 *   cost, with p the largest power of two up to n: 2 log2 p rounds, 2 (p - 1)/p * bytes sent and
 *   (p - 1)/p * bytes reduced; where n is no power of two, two rounds, bytes sent and bytes reduced
 *   more
 *   waits: a round waits for the one before: in the second half what is sent has come in all
 *   rounds before it, so a send waits for the last receive, and for the last send, which has waited
 *   for the others; a receive there waits until what it overwrites was sent in the first half
 *
 * The sum of each block is a balanced tree over the ranks in their order, the same on every rank
 * and every run, and the same as that of recursive doubling.
 *
 * Source: Rabenseifner 2004; Thakur, Rabenseifner, Gropp 2005.
 */
#include "algo/algo.h"
#include "algo/pairs.h"

/* What a rank keeps after round k of the first half, and what it has sent away: blocks. */
struct halves {
    uint32_t kept, sent, len; /* first blocks; len of each */
};

static struct halves halves_of(const struct tci_pairs *pairs, uint32_t k)
{
    struct halves halves = {.len = UINT32_C(1) << pairs->rounds};
    uint32_t first = 0;

    for (uint32_t j = 0; j <= k; j++) {
        uint32_t is_upper = pairs->place >> j & 1;

        halves.len /= 2;
        halves.kept = first + (is_upper != 0 ? halves.len : 0);
        halves.sent = first + (is_upper != 0 ? 0 : halves.len);
        first = halves.kept;
    }
    return halves;
}

static uint32_t allreduce_blocks(const struct tci_shape *shape)
{
    return shape->size == 1 ? 1 : UINT32_C(1) << tci_pairs_of(0, shape->size).rounds;
}

static struct tci_slice all(const struct tci_shape *shape, struct tci_slice first)
{
    return tci_run(first, allreduce_blocks(shape));
}

static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    struct tci_pairs pairs;

    if (shape->size == 1)
        return tci_copies(shape);
    pairs = tci_pairs_of(shape->rank, shape->size);
    return pairs.is_folded ? 2 : 4 * pairs.rounds + 2 * pairs.folds;
}

/* A rank that gives its input away. */
static void folded_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    if (i == 0) {
        *step_out = tci_send(all(shape, tci_src(0)), shape->rank - 1, 0);
    } else {
        *step_out = tci_recv(all(shape, tci_dst(0)), shape->rank - 1);
        step_out->wait[0] = shape->in_place ? 1 : 0;
    }
}

/* A slice of what a rank brings to round k of the first half. */
static struct tci_slice brought(const struct tci_pairs *pairs, uint32_t k, uint32_t block,
                                uint32_t blocks)
{
    return tci_run(k == 0 && pairs->folds == 0 ? tci_src(block) : tci_dst(block), blocks);
}

static void halving_step(const struct tci_pairs *pairs, uint32_t i, uint32_t match,
                         struct tci_step *step_out)
{
    uint32_t k = i / 2, peer = tci_pairs_met(pairs, k);
    struct halves halves = halves_of(pairs, k);
    bool is_first = k == 0 && pairs->folds == 0;

    if (i % 2 == 0) {
        *step_out = tci_send(brought(pairs, k, halves.sent, halves.len), peer, match);
        step_out->wait[0] = is_first ? 0 : 1;
    } else {
        *step_out = tci_recv_reduce(tci_run(tci_dst(halves.kept), halves.len),
                                    brought(pairs, k, halves.kept, halves.len), peer);
        step_out->wait[0] = is_first ? 0 : 2;
        step_out->last = k + 1 == pairs->rounds;
    }
}

/* Round j of the second half undoes round k = rounds - 1 - j of the first. */
static void doubling_step(const struct tci_shape *shape, const struct tci_pairs *pairs, uint32_t i,
                          uint32_t match, struct tci_step *step_out)
{
    uint32_t j = i / 2, k = pairs->rounds - 1 - j, peer = tci_pairs_met(pairs, k);
    struct halves halves = halves_of(pairs, k);
    bool is_input = k == 0 && pairs->folds == 0 && !shape->in_place; /* it was the source's */

    if (i % 2 == 0) {
        *step_out = tci_send(tci_run(tci_dst(halves.kept), halves.len), peer, match);
        step_out->wait[0] = 1;
        step_out->wait[1] = j == 0 ? 0 : 2;
    } else {
        *step_out = tci_recv(tci_run(tci_dst(halves.sent), halves.len), peer);
        step_out->wait[0] = is_input ? 0 : tci_back(4 * j + 3);
    }
}

/*   with a rank folded in      0                    receive its input and reduce
 *   first half, round k        2k, 2k + 1           send, receive and reduce; after that step
 *   second half, round j       2j, 2j + 1           send, receive; after those
 *   with a rank folded in      the last             send it the result */
static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, at, half;
    struct tci_pairs pairs;

    TC_ASSERT(i < allreduce_steps(shape));
    if (n == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
        return;
    }

    pairs = tci_pairs_of(r, n);
    at = i - pairs.folds;
    half = 2 * pairs.rounds;
    if (pairs.is_folded) {
        folded_step(shape, i, step_out);
    } else if (i < pairs.folds) {
        *step_out = tci_recv_reduce(all(shape, tci_dst(0)), all(shape, tci_src(0)), r + 1);
    } else if (at == 2 * half) {
        *step_out = tci_send(all(shape, tci_dst(0)), r + 1, 1);
        step_out->wait[0] = 1;
        step_out->wait[1] = 2;
    } else {
        uint32_t round = at % half / 2, k = at < half ? round : pairs.rounds - 1 - round;
        uint32_t match = at + 1 + tci_pairs_of(tci_pairs_met(&pairs, k), n).folds;

        if (at < half)
            halving_step(&pairs, at, match, step_out);
        else
            doubling_step(shape, &pairs, at - half, match, step_out);
    }
}

const struct tci_plan tci_halving_doubling_allreduce = {
    .name = "halving_doubling",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_HALVING_DOUBLING,
    .canonical = false,
    .is_used = true,
    .steps = allreduce_steps,
    .blocks = allreduce_blocks,
    .slots = tci_none,
    .step = allreduce_step,
};
