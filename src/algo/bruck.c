/* bruck.c - all-gather and all-to-all in ceil(log2 n) rounds of long messages: small payloads. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   all-gather, n = 5: slot j is for the payload of the j-th rank after
 *
 *   round 0    r sends slot  0      to r - 1, and receives slot  1      from r + 1
 *   round 1    r sends slots 0-1    to r - 2, and receives slots 2-3    from r + 2
 *   round 2    r sends slot  0      to r - 4, and receives slot  4      from r + 4
 *   at the end each slot is copied to the block of its rank
 *
 *   cost: L = ceil(log2 n) rounds, L messages and (n - 1) blocks sent a rank, which is the least;
 *   n blocks copied
 *   waits: a send waits for what came in the round before; the copies wait for all
 *
 *   all-to-all, n = 5: slot j is for what has still to go j ranks ahead
 *
 *   round 0    slots 1, 3    go one rank ahead, into the same slots there
 *   round 1    slots 2, 3    go two ranks ahead
 *   round 2    slot 4        goes four ranks ahead: in round k those whose number has bit k
 *   at the end slot j holds what the j-th rank before has sent
 *
 *   cost: L rounds, L messages and up to L n/2 blocks sent a rank; what a round sends is copied
 *   together before, what it receives is copied to its slots after, 2 n blocks at the ends
 *   waits: what is sent is copied together when the round before has ended; a copy out of it waits
 *   for the receive, and until its slot was copied; at the end a copy waits for its slot
 *
 * Source: Bruck, Ho, Kipnis, Upfal, Weathersby 1997.
 */
#include "algo/algo.h"
#include "algo/steps.h"

static uint32_t least(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

static uint32_t rounds_of(const struct tci_shape *shape)
{
    uint32_t rounds = 0;

    while (((uint64_t)1 << rounds) < shape->size)
        rounds++;
    return rounds;
}

/* Slots of all ranks from `shape->rank` on lie on a circle of blocks: two parts where it wraps. */
static uint32_t parts_of(const struct tci_shape *shape)
{
    return shape->rank == 0 ? 1 : 2;
}

/* Part k of the slots, and the blocks of SRC or DST that belong there. */
static struct tci_slice part_slots(const struct tci_shape *shape, uint32_t k)
{
    uint32_t first = shape->size - shape->rank;

    return k == 0 ? tci_run(tci_tmp(0), first) : tci_run(tci_tmp(first), shape->rank);
}

static struct tci_slice part_blocks(const struct tci_shape *shape, uint32_t k,
                                    struct tci_slice (*buffer)(uint32_t block))
{
    uint32_t first = shape->size - shape->rank;

    return k == 0 ? tci_run(buffer(shape->rank), first) : tci_run(buffer(0), shape->rank);
}

/* ---- All-gather ------------------------------------------------------------------------------ */

/* Step 0 copies the own payload, steps 2j + 1 and 2j + 2 are round j, then come the copies. */
static uint32_t allgather_steps(const struct tci_shape *shape)
{
    if (shape->size == 1)
        return tci_copies(shape);
    return 1 + 2 * rounds_of(shape) + parts_of(shape);
}

static uint32_t allgather_slots(const struct tci_shape *shape)
{
    return shape->size == 1 ? 0 : shape->size;
}

/* Round t - 1 has brought what is sent, where 2^t slots are enough for it: its receive, and what
 * its send has waited for. */
static void wait_for_slots(uint32_t blocks, uint32_t i, struct tci_step *step_out)
{
    uint32_t t = 0;

    while ((1u << t) < blocks)
        t++;
    step_out->wait[0] = tci_back(i - 2 * t);
    step_out->wait[1] = t == 0 ? 0 : tci_back(i - 2 * t + 1);
}

static void allgather_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, last = 2 * rounds_of(shape);

    TC_ASSERT(i < allgather_steps(shape));
    if (n == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (i == 0) {
        *step_out = tci_copy(tci_tmp(0), tci_src(0));
    } else if (i <= last) {
        uint32_t far = 1u << (i - 1) / 2, blocks = n - far < far ? n - far : far;

        if (i % 2 == 1) {
            *step_out = tci_send(tci_run(tci_tmp(0), blocks), tci_before(r, far, n), i + 1);
            step_out->dst = tci_run(tci_dst(0), blocks);
            wait_for_slots(blocks, i, step_out);
        } else {
            *step_out = tci_recv(tci_run(tci_tmp(far), blocks), tci_after(r, far, n));
            step_out->src = tci_run(tci_dst(0), blocks);
        }
    } else {
        uint32_t k = i - last - 1;

        *step_out = tci_copy(part_blocks(shape, k, tci_dst), part_slots(shape, k));
        step_out->fence = true;
    }
}

const struct tci_plan tci_bruck_allgather = {
    .name = "bruck",
    .coll = TCI_COLL_ALLGATHER,
    .layout = TCI_LAYOUT_GATHER,
    .id = TCI_ALGO_BRUCK,
    .canonical = true,
    .is_used = true,
    .equal = true,
    .packed = true,
    .steps = allgather_steps,
    .blocks = tci_one,
    .slots = allgather_slots,
    .step = allgather_step,
};

/* ---- All-to-all ------------------------------------------------------------------------------ */

/* Round k: the slots whose number has bit k, in runs of 2^k, the last one perhaps shorter. */
struct round {
    uint32_t far, runs;
    uint32_t blocks; /* of all runs */
    uint32_t first;  /* its first step, counted from after the copies at the beginning */
};

static struct round first_round(const struct tci_shape *shape)
{
    return (struct round){.far = 1, .runs = shape->size / 2, .blocks = shape->size / 2};
}

/* Behind the last round far is n. */
static struct round next_round(const struct tci_shape *shape, const struct round *round)
{
    uint32_t n = shape->size, far = least(2 * (uint64_t)round->far, n);
    uint64_t pair = 2 * (uint64_t)far;

    return (struct round){.far = far,
                          .runs = (uint32_t)((n - far + pair - 1) / pair),
                          .blocks =
                              (uint32_t)((n - far) / pair * far) + least((n - far) % pair, far),
                          .first = round->first + 2 * round->runs + 2};
}

/* The round of step i, or what is behind the last one. */
static struct round round_of(const struct tci_shape *shape, uint32_t i)
{
    struct round round = first_round(shape);

    while (round.far < shape->size && i >= round.first + 2 * round.runs + 2)
        round = next_round(shape, &round);
    return round;
}

/* The step that writes a slot for the last time: a copy at the beginning, or one out of the round
 * of its highest bit, where it is in the first run. */
static uint32_t last_step_of(const struct tci_shape *shape, uint32_t slot)
{
    struct round round = first_round(shape);

    if (slot == 0)
        return 0;
    while (2 * (uint64_t)round.far <= slot)
        round = next_round(shape, &round);
    return parts_of(shape) + round.first + round.runs + 2;
}

static uint32_t alltoall_steps(const struct tci_shape *shape)
{
    if (shape->size == 1)
        return tci_copies(shape);
    return parts_of(shape) + round_of(shape, UINT32_MAX).first + shape->size - 1 +
           tci_copies(shape);
}

/* A slot a rank, and room for what is on its way out and in: at most every second slot. */
static uint32_t alltoall_slots(const struct tci_shape *shape)
{
    return shape->size == 1 ? 0 : shape->size + shape->size / 2 * 2;
}

/* Where run m lies, and where it is kept together with the others of its round. */
static struct tci_slice run_slots(const struct tci_shape *shape, const struct round *round,
                                  uint32_t m)
{
    uint32_t first = round->far + 2 * m * round->far;

    return tci_run(tci_tmp(first), least(shape->size - first, round->far));
}

static struct tci_slice run_in(uint32_t room, const struct round *round, uint32_t m,
                               struct tci_slice run)
{
    return tci_run(tci_tmp(room + m * round->far), run.more + 1);
}

/* Step i of a round: its runs are copied out, sent, received, copied in. */
static void round_step(const struct tci_shape *shape, const struct round *round, uint32_t i,
                       struct tci_step *step_out)
{
    uint32_t n = shape->size, runs = round->runs, out = n, in = n + n / 2;
    uint32_t m = i < runs ? i : i - runs - 2;

    if (i == runs) {
        uint32_t peer = tci_after(shape->rank, round->far, n);
        struct tci_shape other = {.rank = peer, .size = n};

        *step_out = tci_send(tci_run(tci_tmp(out), round->blocks), peer,
                             parts_of(&other) + round->first + runs + 1);
        step_out->dst = tci_run(tci_dst(0), round->blocks);
        step_out->fence = true;
    } else if (i == runs + 1) {
        *step_out =
            tci_recv(tci_run(tci_tmp(in), round->blocks), tci_before(shape->rank, round->far, n));
        step_out->src = tci_run(tci_src(0), round->blocks);
        step_out->wait[0] = round->far == 1 ? 0 : tci_back(i);
    } else {
        struct tci_slice run = run_slots(shape, round, m);

        *step_out = i < runs ? tci_copy(run_in(out, round, m, run), run)
                             : tci_copy(run, run_in(in, round, m, run));
        step_out->as = tci_run(tci_src(0), run.more + 1);
        step_out->fence = i == 0;
        step_out->wait[0] = i < runs ? tci_back(m) : tci_back(m + 1);
        step_out->wait[1] = i < runs || (m == 0 && round->far > 1) ? 0 : tci_back(runs + 2);
    }
}

static void alltoall_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    uint32_t n = shape->size, parts = parts_of(shape);

    TC_ASSERT(i < alltoall_steps(shape));
    if (n == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
    } else if (i < parts) {
        *step_out = tci_copy(part_slots(shape, i), part_blocks(shape, i, tci_src));
    } else {
        struct round round = round_of(shape, i - parts);
        uint32_t at = i - parts - round.first;

        if (round.far < n) {
            round_step(shape, &round, at, step_out);
        } else {
            uint32_t slot = shape->in_place ? at + 1 : at; /* the own one is there */

            *step_out = tci_copy(tci_dst(tci_before(shape->rank, slot, n)), tci_tmp(slot));
            step_out->wait[0] = tci_back(i - last_step_of(shape, slot));
        }
    }
}

const struct tci_plan tci_bruck_alltoall = {
    .name = "bruck",
    .coll = TCI_COLL_ALLTOALL,
    .layout = TCI_LAYOUT_EXCHANGE,
    .id = TCI_ALGO_BRUCK,
    .canonical = true,
    .is_used = true,
    .equal = true,
    .packed = true,
    .steps = alltoall_steps,
    .blocks = tci_one,
    .slots = alltoall_slots,
    .step = alltoall_step,
};
