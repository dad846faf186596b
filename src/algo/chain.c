/* chain.c - broadcast and all-reduce along a chain of ranks, in pieces that follow one another. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   broadcast, n = 4, root 0, 3 pieces       all-reduce, n = 3, 3 pieces
 *
 *   time   0 -> 1    1 -> 2    2 -> 3        time   0 -> 1   1 -> 2   2 -> 1   1 -> 0
 *   0      piece 0                           0      sum 0
 *   1      piece 1   piece 0                 1      sum 1    sum 0
 *   2      piece 2   piece 1   piece 0       2      sum 2    sum 1    all 0
 *   3                piece 2   piece 1       3               sum 2    all 1    all 0
 *   4                          piece 2       4                        all 2    all 1
 *                                            5                                 all 2
 *
 *   broadcast: from the root around the circle; each rank passes on what it has received
 *   all-reduce: each rank adds its input to what comes from the rank before it; the last rank has
 *   the result, and it goes back the same way
 *
 *   cost, with c pieces: a broadcast takes n - 1 + c - 1 messages of bytes/c one after the other,
 *   an all-reduce 2 (n - 1) + c - 1; each rank sends bytes once, in the all-reduce once each way,
 *   and reduces bytes once.  So with many pieces a broadcast takes the time of its bytes on one
 *   link, whatever n is, and only neighbours are linked.
 *   waits: what is sent on waits for what has come; a result waits until the partial result that it
 *   overwrites was sent
 *
 *   The steps of an all-reduce are in the order of time: a rank d places before the last has the
 *   result of a piece 2d pieces after it has sent its partial sum.  If they were in the order of
 *   pieces, the window would hold fewer pieces than are under way on a long chain.
 *
 * The sum is folded in rank order, rounded after each rank.
 *
 * Source: Worringen 2003.
 */
#include "algo/algo.h"
#include "algo/steps.h"

static uint32_t cuts(const struct tci_shape *shape)
{
    TC_ASSERT(shape->cuts > 0);
    return shape->cuts;
}

/* ---- Broadcast ------------------------------------------------------------------------------- */

/* A rank has one step a piece if it is the root or the last, else two. */
static uint32_t steps_a_piece(const struct tci_shape *shape)
{
    uint32_t v = tci_before(shape->rank, shape->root, shape->size);

    return (v > 0 ? 1 : 0) + (v + 1 < shape->size ? 1 : 0);
}

static uint32_t broadcast_steps(const struct tci_shape *shape)
{
    return cuts(shape) * steps_a_piece(shape);
}

static uint32_t broadcast_depth(const struct tci_shape *shape)
{
    return shape->size - 1;
}

static void broadcast_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, each = steps_a_piece(shape), piece = i / each;

    TC_ASSERT(i < broadcast_steps(shape));
    if (i % each == 0 && r != shape->root) {
        *step_out = tci_recv(tci_dst(piece), tci_before(r, 1, n));
    } else {
        struct tci_shape next = *shape;

        next.rank = tci_after(r, 1, n);
        *step_out = tci_send(tci_dst(piece), next.rank, piece * steps_a_piece(&next));
        step_out->wait[0] = r == shape->root ? 0 : 1;
    }
}

const struct tci_plan tci_chain_broadcast = {
    .name = "chain",
    .coll = TCI_COLL_BROADCAST,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_CHAIN,
    .canonical = true,
    .is_used = true,
    .steps = broadcast_steps,
    .blocks = cuts,
    .slots = tci_none,
    .depth = broadcast_depth,
    .step = broadcast_step,
};

/* ---- All-reduce ------------------------------------------------------------------------------ */

/* Each way a rank has `each` steps a piece: receive, where there is a rank before it on that way,
 * and send, where there is one after it.  In round t = 0, 1, … they are those of the sum of piece t
 * and of the result of piece t - lag. */
struct walk {
    uint32_t each, lag, cuts;
};

static struct walk walk_of(const struct tci_shape *shape, uint32_t rank)
{
    uint32_t places = shape->size - 1 - rank;
    uint64_t lag = 2 * (uint64_t)places;
    struct walk walk = {.each = 2, .cuts = cuts(shape)};

    if (rank == 0 || places == 0)
        walk.each = 1;
    walk.lag = lag < walk.cuts ? (uint32_t)lag : walk.cuts;
    return walk;
}

/* The first step of a rank that has to do with the sum of a piece. */
static uint32_t sum_begin(const struct walk *walk, uint32_t piece)
{
    uint32_t results = piece < walk->lag ? 0 : piece - walk->lag; /* in the rounds before */

    return (piece + results) * walk->each;
}

/* And with its result, which comes after the sum of the same round, if there is one. */
static uint32_t result_begin(const struct walk *walk, uint32_t piece)
{
    uint32_t sums = walk->cuts - walk->lag > piece ? piece + walk->lag + 1 : walk->cuts;

    return (piece + sums) * walk->each;
}

/* Which piece step i is about, and whether it is about its result. */
static uint32_t piece_of(const struct walk *walk, uint32_t i, bool *is_result_out)
{
    uint32_t unit = i / walk->each, middle = 2 * (walk->cuts - walk->lag);

    if (unit < walk->lag) { /* the first rounds have sums only */
        *is_result_out = false;
        return unit;
    }
    unit -= walk->lag;
    if (unit < middle) { /* then there are both */
        *is_result_out = unit % 2 == 1;
        return unit / 2 + (*is_result_out ? 0 : walk->lag);
    }
    *is_result_out = true; /* and at last results only */
    return walk->cuts - walk->lag + (unit - middle);
}

static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    struct walk walk;

    if (shape->size == 1)
        return tci_copies(shape);
    walk = walk_of(shape, shape->rank);
    return 2 * walk.each * walk.cuts;
}

static uint32_t allreduce_blocks(const struct tci_shape *shape)
{
    return shape->size == 1 ? 1 : cuts(shape);
}

static uint32_t allreduce_depth(const struct tci_shape *shape)
{
    return 2 * (shape->size - 1);
}

static void sum_step(const struct tci_shape *shape, uint32_t piece, bool receives,
                     struct tci_step *step_out)
{
    uint32_t r = shape->rank;

    if (receives) {
        *step_out = tci_recv_reduce(tci_dst(piece), tci_src(piece), r - 1);
        step_out->last = r == shape->size - 1;
    } else {
        struct walk next = walk_of(shape, r + 1);

        *step_out =
            tci_send(r == 0 ? tci_src(piece) : tci_dst(piece), r + 1, sum_begin(&next, piece));
        step_out->wait[0] = r == 0 ? 0 : 1;
    }
}

static void result_step(const struct tci_shape *shape, const struct walk *walk, uint32_t piece,
                        bool receives, struct tci_step *step_out)
{
    uint32_t r = shape->rank;

    if (receives) {
        uint32_t sent = sum_begin(walk, piece) + walk->each - 1;

        *step_out = tci_recv(tci_dst(piece), r + 1);
        if (r > 0 || shape->in_place)
            step_out->wait[0] = tci_back(result_begin(walk, piece) - sent);
    } else {
        struct walk next = walk_of(shape, r - 1);

        *step_out = tci_send(tci_dst(piece), r - 1, result_begin(&next, piece));
        step_out->wait[0] = 1;
    }
}

static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct walk walk;
    uint32_t piece;
    bool is_result;

    TC_ASSERT(i < allreduce_steps(shape));
    if (shape->size == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
        return;
    }
    walk = walk_of(shape, shape->rank);
    piece = piece_of(&walk, i, &is_result);
    if (is_result)
        result_step(shape, &walk, piece, i % walk.each == 0 && shape->rank < shape->size - 1,
                    step_out);
    else
        sum_step(shape, piece, i % walk.each == 0 && shape->rank > 0, step_out);
}

const struct tci_plan tci_chain_allreduce = {
    .name = "chain",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_CHAIN,
    .canonical = false,
    .is_used = true,
    .steps = allreduce_steps,
    .blocks = allreduce_blocks,
    .slots = tci_none,
    .depth = allreduce_depth,
    .step = allreduce_step,
};
