/* wide_chain.c - all-reduce and reduce along a chain, in rank order, rounded once at its end. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 4        up: the accumulator of the canonical sum         down: the result
 *
 *   widen  --->  add  --->  add  --->  add, round
 *     0           1          2            3
 *          <---        <---        <---
 *
 *   The payload is cut into c pieces, which follow on one another.
 *
 *   cost: 2 (n - 1) + c - 1 messages of bytes/c one after the other; a rank sends the accumulator
 *   of each element once and its result once, 3 * bytes for f32; no rank has more than two
 *   neighbours, which is what a line or a ring of cables has
 *   waits: a rank adds when the accumulator has come, and sends it when it has added; in place a
 *   result waits until the input that it overwrites was added
 *
 *   reduce: the last rank sends the accumulator on to the root, which rounds
 *
 * Source: the pipelined chain in Pjesivac-Grbovic et al. 2007; that the accumulator travels, so
 * that the result is the one of a fold at one place, is our own.
 */
#include "algo/algo.h"
#include "algo/steps.h"

/* With more the way down would lie beyond the window while the way up is under way. */
enum { PIECES_MAX = 12 };

static uint32_t pieces(const struct tci_shape *shape)
{
    TC_ASSERT(shape->cuts > 0);
    return shape->cuts < PIECES_MAX ? shape->cuts : PIECES_MAX;
}

static uint32_t blocks_of(const struct tci_shape *shape)
{
    return shape->size == 1 ? 1 : pieces(shape);
}

/* Messages one after the other on the way of one piece, there and back. */
static uint32_t depth(const struct tci_shape *shape)
{
    return 2 * (shape->size - 1);
}

static bool is_last(const struct tci_shape *shape)
{
    return shape->rank == shape->size - 1;
}

/* Steps of the way up a block: rank 0 widens and sends; a rank between receives, adds and sends;
 * the last receives, adds and rounds. */
static uint32_t up_steps(const struct tci_shape *shape)
{
    return shape->rank == 0 ? 2 : 3;
}

static struct tci_step wide_send(uint32_t block, uint32_t peer, uint32_t match)
{
    struct tci_step step = tci_send(tci_tmp(block), peer, match);

    step.dst = tci_src(block);
    step.wide = true;
    step.wait[0] = 1;
    return step;
}

static struct tci_step wide_recv(uint32_t block, uint32_t peer)
{
    struct tci_step step = tci_recv(tci_tmp(block), peer);

    step.src = tci_src(block);
    step.wide = true;
    return step;
}

static struct tci_step local(enum tci_step_kind kind, struct tci_slice dst, struct tci_slice src)
{
    return (struct tci_step){
        .kind = (uint8_t)kind, .wait = {kind == TCI_STEP_WIDEN ? 0 : 1}, .src = src, .dst = dst};
}

/* Part `part` of the way up of a block; the next rank has `next_each` steps a block. */
static void up_step(const struct tci_shape *shape, uint32_t block, uint32_t part,
                    uint32_t next_each, struct tci_step *step_out)
{
    uint32_t r = shape->rank;

    if (r == 0 && part == 0)
        *step_out = local(TCI_STEP_WIDEN, tci_tmp(block), tci_src(block));
    else if (r > 0 && part == 0)
        *step_out = wide_recv(block, r - 1);
    else if (r > 0 && part == 1)
        *step_out = local(TCI_STEP_ADD, tci_tmp(block), tci_src(block));
    else if (is_last(shape))
        *step_out = local(TCI_STEP_ROUND, tci_dst(block), tci_tmp(block));
    else
        *step_out = wide_send(block, r + 1, next_each * block);
}

/* The step in which a block's own input was read; in place a result waits for it. */
static uint32_t read_step(const struct tci_shape *shape, uint32_t block)
{
    return up_steps(shape) * block + (shape->rank == 0 ? 0 : 1);
}

/* ---- All-reduce ------------------------------------------------------------------------------ */

/*   rank 0          2 a block up, then 1 down: receives
 *   between         3 a block up, then 2 down: receives, sends
 *   the last        3 a block up, then 1 down: sends */
static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    uint32_t down = shape->rank == 0 || is_last(shape) ? 1 : 2;

    return shape->size == 1 ? tci_copies(shape) : (up_steps(shape) + down) * pieces(shape);
}

/* Where a rank receives the result of a block. */
static uint32_t down_match(const struct tci_shape *shape, uint32_t rank, uint32_t block)
{
    return rank == 0 ? 2 * pieces(shape) + block : 3 * pieces(shape) + 2 * block;
}

/* All of the way up comes first, so that two ranks with one open step each never wait for each
 * other. */
static void down_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t r = shape->rank, first = up_steps(shape) * pieces(shape);
    uint32_t each = r == 0 || is_last(shape) ? 1 : 2, block = (i - first) / each;

    if (!is_last(shape) && (i - first) % each == 0) {
        *step_out = tci_recv(tci_dst(block), r + 1);
        step_out->wait[0] = shape->in_place ? tci_back(i - read_step(shape, block)) : 0;
    } else {
        *step_out = tci_send(tci_dst(block), r - 1, down_match(shape, r - 1, block));
        step_out->wait[0] = is_last(shape) ? tci_back(i - (3 * block + 2)) : 1;
    }
}

static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t each = up_steps(shape), block = i / each;

    TC_ASSERT(i < allreduce_steps(shape));
    if (shape->size == 1)
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    else if (block >= pieces(shape))
        down_step(shape, i, step_out);
    else
        up_step(shape, block, i % each, 3, step_out);
}

static uint32_t allreduce_slots(const struct tci_shape *shape)
{
    return shape->size == 1 ? 0 : pieces(shape);
}

const struct tci_plan tci_wide_chain_allreduce = {
    .name = "wide_chain",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_WIDE_CHAIN,
    .canonical = true,
    .is_used = true,
    .wide = true,
    .steps = allreduce_steps,
    .blocks = blocks_of,
    .depth = depth,
    .slots = allreduce_slots,
    .step = allreduce_step,
};

/* ---- Reduce ---------------------------------------------------------------------------------- */

/* The last rank sends the accumulators on to the root, which rounds: so only the root needs room
 * for a result.  The root that is not the last rank has two more steps a block: receive, round.  In
 * place that overwrites an input which was added, or the accumulator would not have come back. */
static bool is_passing_on(const struct tci_shape *shape)
{
    return is_last(shape) && shape->rank != shape->root;
}

static bool is_early_root(const struct tci_shape *shape)
{
    return !is_last(shape) && shape->rank == shape->root;
}

static uint32_t reduce_steps(const struct tci_shape *shape)
{
    if (shape->size == 1)
        return tci_copies(shape);
    return (up_steps(shape) + (is_early_root(shape) ? 2 : 0)) * pieces(shape);
}

static uint32_t reduce_slots(const struct tci_shape *shape)
{
    if (shape->size == 1)
        return 0;
    return is_early_root(shape) ? 2 * pieces(shape) : pieces(shape);
}

static void root_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t block = (i - up_steps(shape) * pieces(shape)) / 2;

    if ((i - up_steps(shape) * pieces(shape)) % 2 == 0) {
        *step_out = wide_recv(block, shape->size - 1);
        step_out->dst = tci_tmp(pieces(shape) + block);
    } else {
        *step_out = local(TCI_STEP_ROUND, tci_dst(block), tci_tmp(pieces(shape) + block));
    }
}

/* All that comes is added before anything goes to the root, as in down_step(). */
static void pass_on_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t block = i - 2 * pieces(shape), root_up = (shape->root == 0 ? 2 : 3) * pieces(shape);

    if (i < 2 * pieces(shape)) {
        up_step(shape, i / 2, i % 2, 0, step_out);
    } else {
        *step_out = wide_send(block, shape->root, root_up + 2 * block);
        step_out->wait[0] = tci_back(2 * pieces(shape) - block - 1);
    }
}

static void reduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t each = up_steps(shape), block = i / each;
    bool next_passes_on = shape->rank + 2 == shape->size && shape->root + 1 != shape->size;

    TC_ASSERT(i < reduce_steps(shape));
    if (shape->size == 1)
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    else if (is_passing_on(shape))
        pass_on_step(shape, i, step_out);
    else if (block >= pieces(shape))
        root_step(shape, i, step_out);
    else
        up_step(shape, block, i % each, next_passes_on ? 2 : 3, step_out);
}

const struct tci_plan tci_wide_chain_reduce = {
    .name = "wide_chain",
    .coll = TCI_COLL_REDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_WIDE_CHAIN,
    .canonical = true,
    .is_used = true,
    .wide = true,
    .steps = reduce_steps,
    .blocks = blocks_of,
    .depth = depth,
    .slots = reduce_slots,
    .step = reduce_step,
};
