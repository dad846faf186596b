/* biring.c - the ring in both directions at once: half the rounds for the same traffic. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   all-reduce, n = 5: the payload is cut into n blocks; rank b owns block b
 *
 *   way of block 2              3 -> 4 -> 0 -> 1 -> 2      0 -> 1 -> 2    4 -> 3 -> 2
 *                               on a ring                  on a ring in both directions
 *
 *   hop        forward: to the next rank     back: to the rank before
 *   0 reduce   0 sends 2, 1 sends 3, …       0 sends 3, 1 sends 4, …    own input
 *   1 reduce   0 sends 1, 1 sends 2, …       0 sends 4, 1 sends 0, …    what came, and own input
 *   2 gather   0 sends 0, 1 sends 1, …       0 sends 0, 1 sends 1, …    results
 *   3 gather   0 sends 4, 1 sends 0, …       0 sends 1, 1 sends 2, …
 *
 *   Partial results come to the owner of a block from both sides, floor(n/2) hops forward and
 *   floor((n - 1)/2) hops back, and the result leaves it in the same way.  All-gather is the second
 *   half, reduce-scatter the first; there partial results lie in a few scratch slots a direction,
 *   used in turn.
 *
 *   cost: 2 floor(n/2) rounds of two messages, 2 (n - 1)/n * bytes sent a rank, half of it each
 *   way, n - 1 reductions of a block; all-gather and reduce-scatter are one half each
 *   waits: a send waits for what came in the hop before it; of the two reductions at the owner the
 *   second waits for the first; a receive of the second half waits until the block that it
 *   overwrites was sent
 *
 * The sum of block b is folded from floor(n/2) ranks before b up to b, and with what has been
 * folded from behind b down to it: the same on every rank and every run.
 *
 * Source: both directions of a ring in Jain, Sabharwal 2010.
 */
#include "algo/algo.h"
#include "algo/steps.h"

/* The two directions.  A hop forward has the steps 0 and 1 of a round, a hop back 2 and 3. */
enum { FORWARD, BACK };

enum { STEPS_A_ROUND = 4 };

static uint32_t hops(const struct tci_shape *shape, unsigned way)
{
    return way == FORWARD ? shape->size / 2 : (shape->size - 1) / 2;
}

/* Steps of floor(n/2) rounds, of which the last has no hop back where n is even. */
static uint32_t half_steps(const struct tci_shape *shape)
{
    return 2 * (shape->size - 1);
}

/* The rank, or the block, `by` places on in a direction. */
static uint32_t on(const struct tci_shape *shape, uint32_t at, unsigned way, uint32_t by)
{
    return way == FORWARD ? tci_after(at, by, shape->size) : tci_before(at, by, shape->size);
}

/* Step i of a half: a hop of one direction. */
struct hop {
    unsigned way;
    uint32_t k; /* number of the hop */
    bool receives;
    uint32_t from, to; /* the ranks */
};

static struct hop hop_of(const struct tci_shape *shape, uint32_t i)
{
    struct hop hop = {.way = i % STEPS_A_ROUND / 2, .k = i / STEPS_A_ROUND, .receives = i % 2 == 1};

    hop.to = on(shape, shape->rank, hop.way, 1);
    hop.from = on(shape, shape->rank, !hop.way, 1);
    return hop;
}

/* The step of a half that sends in a hop; the one that receives comes after it. */
static uint32_t send_index(unsigned way, uint32_t k)
{
    return STEPS_A_ROUND * k + 2 * way;
}

/* The block that a rank sends in a hop towards its owner, and the one that it receives. */
static uint32_t reduced_block(const struct tci_shape *shape, const struct hop *hop)
{
    uint32_t to_owner = hops(shape, hop->way) - hop->k;

    return on(shape, shape->rank, hop->way, hop->receives ? to_owner - 1 : to_owner);
}

/* The same where the result leaves its owner. */
static uint32_t gathered_block(const struct tci_shape *shape, const struct hop *hop)
{
    return on(shape, shape->rank, !hop->way, hop->receives ? hop->k + 1 : hop->k);
}

/* Whether a receive of the first half brings what the rank itself owns, and, of two such, whether
 * it is the second: with two equal ways the one back, else the longer way forward. */
static bool is_own(const struct tci_shape *shape, const struct hop *hop)
{
    return hop->receives && hop->k + 1 == hops(shape, hop->way);
}

static bool is_second(const struct tci_shape *shape, const struct hop *hop)
{
    return shape->size == 2 || (shape->size % 2 == 1 ? hop->way == BACK : hop->way == FORWARD);
}

/* ---- All-reduce ------------------------------------------------------------------------------ */

static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    return shape->size == 1 ? tci_copies(shape) : 2 * half_steps(shape);
}

static void reduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct hop hop = hop_of(shape, i);
    uint32_t block = reduced_block(shape, &hop);

    if (!hop.receives) {
        *step_out = tci_send(hop.k == 0 ? tci_src(block) : tci_dst(block), hop.to, i + 1);
        step_out->wait[0] = hop.k == 0 ? 0 : STEPS_A_ROUND - 1;
    } else if (is_own(shape, &hop) && is_second(shape, &hop)) {
        *step_out = tci_recv_reduce(tci_dst(block),
                                    shape->size == 2 ? tci_src(block) : tci_dst(block), hop.from);
        step_out->last = true;
        step_out->wait[0] = shape->size == 2 ? 0 : 2; /* the first one comes just before it */
    } else {
        *step_out = tci_recv_reduce(tci_dst(block), tci_src(block), hop.from);
    }
}

/* Steps since the block that is received was sent towards its owner; 0 where it was the input, and
 * that lies elsewhere. */
static uint32_t since_sent(const struct tci_shape *shape, uint32_t i, const struct hop *hop)
{
    uint32_t places = hop->k + 1; /* to the owner, against the direction of this hop */
    unsigned way = places <= hops(shape, !hop->way) ? !hop->way : hop->way;
    uint32_t k = hops(shape, way) - places;

    if (k == 0 && !shape->in_place)
        return 0;
    return half_steps(shape) + i - send_index(way, k);
}

static void gather_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct hop hop = hop_of(shape, i);
    uint32_t block = gathered_block(shape, &hop), half = half_steps(shape);

    if (hop.receives) {
        *step_out = tci_recv(tci_dst(block), hop.from);
        step_out->wait[0] = tci_back(since_sent(shape, i, &hop));
    } else {
        *step_out = tci_send(tci_dst(block), hop.to, half + i + 1);
        step_out->wait[0] = hop.k == 0 ? (uint8_t)(i + 1) : STEPS_A_ROUND - 1;
    }
}

static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t half = half_steps(shape);

    TC_ASSERT(i < allreduce_steps(shape));
    if (shape->size == 1)
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    else if (i < half)
        reduce_step(shape, i, step_out);
    else
        gather_step(shape, i - half, step_out);
}

const struct tci_plan tci_biring_allreduce = {
    .name = "biring",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_BIRING,
    .canonical = false,
    .is_used = true,
    .steps = allreduce_steps,
    .blocks = tci_each_rank,
    .slots = tci_none,
    .step = allreduce_step,
};

/* ---- Reduce-scatter -------------------------------------------------------------------------- */

/* Of each direction.  Two let a rank receive while it sends; two more let it grant the next
 * receives early. */
enum { PARTIALS = 4 };

static uint32_t reduce_scatter_steps(const struct tci_shape *shape)
{
    return shape->size == 1 ? tci_copies(shape) : half_steps(shape);
}

/* Partial results of one direction that are passed on. */
static uint32_t partials(const struct tci_shape *shape, unsigned way)
{
    uint32_t passed = hops(shape, way) > 0 ? hops(shape, way) - 1 : 0;

    return passed < PARTIALS ? passed : PARTIALS;
}

/* The last slot is for the first of the two reductions of the own block. */
static uint32_t reduce_scatter_slots(const struct tci_shape *shape)
{
    if (shape->size <= 2)
        return 0;
    return partials(shape, FORWARD) + partials(shape, BACK) + 1;
}

/* Where the partial result that is received in hop k lies. */
static struct tci_slice partial(const struct tci_shape *shape, unsigned way, uint32_t k)
{
    return tci_tmp(k % PARTIALS + (way == FORWARD ? 0 : partials(shape, FORWARD)));
}

/* In place the result overwrites input block 0, which a rank reads when it sends or reduces it
 * towards rank 0.  Steps from there to the step i that writes the result; 0 on rank 0. */
static uint32_t since_block_0(const struct tci_shape *shape, uint32_t i)
{
    uint32_t n = shape->size, r = shape->rank;
    uint32_t places = n - r; /* forward to rank 0 */
    unsigned way = FORWARD;

    if (!shape->in_place || r == 0)
        return 0;
    if (places > hops(shape, FORWARD)) {
        places = r;
        way = BACK;
    }

    uint32_t k = hops(shape, way) - places; /* it sends block 0 in that hop */

    return i - (k == 0 ? send_index(way, 0) : send_index(way, k - 1) + 1);
}

static void scatter_send(const struct tci_shape *shape, const struct hop *hop, uint32_t i,
                         struct tci_step *step_out)
{
    struct tci_slice block = tci_src(reduced_block(shape, hop));

    *step_out =
        tci_send(hop->k == 0 ? block : partial(shape, hop->way, hop->k - 1), hop->to, i + 1);
    step_out->dst = block;
    step_out->wait[0] = hop->k == 0 ? 0 : STEPS_A_ROUND - 1;
}

static void reduce_scatter_step(const struct tci_shape *shape, uint32_t i,
                                struct tci_step *step_out)
{
    struct hop hop = hop_of(shape, i);
    uint32_t r = shape->rank;

    TC_ASSERT(i < reduce_scatter_steps(shape));
    if (shape->size == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (!hop.receives) {
        scatter_send(shape, &hop, i, step_out);
    } else if (!is_own(shape, &hop)) {
        /* The partial result of hop k - PARTIALS lay in that slot and was sent a hop later. */
        *step_out = tci_recv_reduce(partial(shape, hop.way, hop.k),
                                    tci_src(reduced_block(shape, &hop)), hop.from);
        step_out->wait[0] = hop.k >= PARTIALS ? STEPS_A_ROUND * (PARTIALS - 1) + 1 : 0;
    } else if (!is_second(shape, &hop)) {
        *step_out = tci_recv_reduce(tci_tmp(reduce_scatter_slots(shape) - 1), tci_src(r), hop.from);
    } else {
        bool is_alone = shape->size == 2;

        *step_out = tci_recv_reduce(
            tci_dst(0), is_alone ? tci_src(r) : tci_tmp(reduce_scatter_slots(shape) - 1), hop.from);
        step_out->last = true;
        step_out->wait[0] = tci_back(since_block_0(shape, i));
        step_out->wait[1] = is_alone ? 0 : 2;
    }
}

const struct tci_plan tci_biring_reduce_scatter = {
    .name = "biring",
    .coll = TCI_COLL_REDUCE_SCATTER,
    .layout = TCI_LAYOUT_SCATTER,
    .id = TCI_ALGO_BIRING,
    .canonical = false,
    .is_used = true,
    .steps = reduce_scatter_steps,
    .blocks = tci_one,
    .slots = reduce_scatter_slots,
    .step = reduce_scatter_step,
};

/* ---- All-gather ------------------------------------------------------------------------------ */

static uint32_t allgather_steps(const struct tci_shape *shape)
{
    return half_steps(shape) + tci_copies(shape);
}

/* The copy comes last, so that it runs while the messages are on their way. */
static void allgather_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct hop hop = hop_of(shape, i);
    uint32_t block = gathered_block(shape, &hop);

    TC_ASSERT(i < allgather_steps(shape));
    if (i == half_steps(shape)) {
        *step_out = tci_copy(tci_dst(shape->rank), tci_src(0));
    } else if (hop.receives) {
        *step_out = tci_recv(tci_dst(block), hop.from);
    } else {
        *step_out = tci_send(hop.k == 0 ? tci_src(0) : tci_dst(block), hop.to, i + 1);
        step_out->wait[0] = hop.k == 0 ? 0 : STEPS_A_ROUND - 1;
    }
}

const struct tci_plan tci_biring_allgather = {
    .name = "biring",
    .coll = TCI_COLL_ALLGATHER,
    .layout = TCI_LAYOUT_GATHER,
    .id = TCI_ALGO_BIRING,
    .canonical = true,
    .is_used = true,
    .steps = allgather_steps,
    .blocks = tci_one,
    .slots = tci_none,
    .step = allgather_step,
};
