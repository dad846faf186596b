/* plan_order.c - what must have ended before a step opens; whether touches of memory overlap. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "plan_check_inside.h"

/* ---- What is known --------------------------------------------------------------------------- */

static void join(struct plan_ended *into, struct plan_ended from)
{
    if (into->top < from.top) {
        struct plan_ended swap = *into;

        *into = from;
        from = swap;
    }
    if (into->top - from.top < 64)
        into->bits |= from.bits << (into->top - from.top);
}

static bool knows(struct plan_ended ended, uint32_t i)
{
    if (i >= ended.top)
        return false;
    return ended.top - 1 - i >= 64 || (ended.bits >> (ended.top - 1 - i) & 1) != 0;
}

static void join_all(const struct plan_proof *proof, struct plan_ended *into,
                     const struct plan_ended *from)
{
    for (uint32_t r = 0; r < proof->clocks.width; r++)
        join(&into[r], from[r]);
}

static size_t clock_index(const struct plan_proof *proof, uint32_t rank, uint32_t i)
{
    const struct plan_clocks *clocks = &proof->clocks;

    return ((size_t)rank * clocks->kept + i % clocks->kept) * clocks->width;
}

static struct plan_ended *clock_of(const struct plan_proof *proof, uint32_t rank, uint32_t i)
{
    return proof->clocks.at + clock_index(proof, rank, i);
}

static struct plan_ended *prefix_of(const struct plan_proof *proof, uint32_t rank, uint32_t i)
{
    return proof->clocks.prefix + clock_index(proof, rank, i);
}

static uint32_t own_entry(const struct plan_proof *proof, uint32_t rank)
{
    return proof->subject.along_messages ? rank : 0;
}

void plan_clocks_init(struct plan_proof *proof)
{
    struct plan_clocks *clocks = &proof->clocks;
    uint32_t n = proof->subject.size;

    clocks->width = proof->subject.along_messages ? n : 1;
    clocks->kept = 1;
    for (uint32_t r = 0; r < n; r++)
        if (proof->ranks[r].steps > clocks->kept)
            clocks->kept = proof->ranks[r].steps;
    if (clocks->kept > PLAN_CLOCKS)
        clocks->kept = PLAN_CLOCKS;

    size_t count = (size_t)n * clocks->kept * clocks->width;

    clocks->at = calloc(count, sizeof *clocks->at);
    clocks->prefix = calloc(count, sizeof *clocks->prefix);
    clocks->own = calloc(proof->steps_count + 1, sizeof *clocks->own);
}

void plan_clocks_fini(struct plan_proof *proof)
{
    free(proof->clocks.at);
    free(proof->clocks.prefix);
    free(proof->clocks.own);
}

void plan_clocks_open(struct plan_proof *proof, uint32_t rank, uint32_t i)
{
    const struct tci_step *step = plan_step(proof, rank, i);
    struct plan_ended *now = clock_of(proof, rank, i);

    memset(now, 0, proof->clocks.width * sizeof *now);
    if (step->fence && i > 0)
        join_all(proof, now, prefix_of(proof, rank, i - 1));
    else if (i >= TCI_WINDOW)
        join_all(proof, now, prefix_of(proof, rank, i - TCI_WINDOW));
    for (int k = 0; k < 2; k++)
        if (step->wait[k] != 0)
            join_all(proof, now, clock_of(proof, rank, i - step->wait[k]));
    proof->clocks.own[proof->ranks[rank].first + i] = now[own_entry(proof, rank)];
}

void plan_clocks_end(struct plan_proof *proof, uint32_t rank, uint32_t i)
{
    join(&clock_of(proof, rank, i)[own_entry(proof, rank)], (struct plan_ended){i + 1, 1});
}

void plan_clocks_move(struct plan_proof *proof, uint32_t from, uint32_t send, uint32_t to,
                      uint32_t recv)
{
    plan_clocks_end(proof, from, send);
    if (proof->subject.along_messages)
        join_all(proof, clock_of(proof, to, recv), clock_of(proof, from, send));
    plan_clocks_end(proof, to, recv);
}

/* All steps up to this one have ended. */
void plan_clocks_pass(struct plan_proof *proof, uint32_t rank, uint32_t i)
{
    struct plan_ended *prefix = prefix_of(proof, rank, i);

    memcpy(prefix, clock_of(proof, rank, i), proof->clocks.width * sizeof *prefix);
    if (i > 0)
        join_all(proof, prefix, prefix_of(proof, rank, i - 1));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

struct touch {
    uint32_t cell, step;
    bool writes;
};

struct touches {
    struct touch *at;
    size_t count, max;
};

static void touch(const struct plan_proof *proof, struct touches *touches, uint32_t rank,
                  uint32_t i, bool writes, struct tci_slice slice)
{
    if (touches->count + slice.more >= touches->max) {
        touches->max = 2 * touches->max + slice.more + 256;
        touches->at = realloc(touches->at, touches->max * sizeof *touches->at);
    }
    for (uint32_t b = 0; b <= slice.more; b++)
        touches->at[touches->count++] = (struct touch){plan_cell(proof, rank, slice, b), i, writes};
}

static void touch_by_step(const struct plan_proof *proof, struct touches *touches, uint32_t rank,
                          uint32_t i)
{
    const struct tci_step *step = plan_step(proof, rank, i);

    if (step->kind != TCI_STEP_SEND)
        touch(proof, touches, rank, i, true, step->dst);
    if (step->kind != TCI_STEP_RECV)
        touch(proof, touches, rank, i, false, step->src);
    for (uint32_t s = 0; step->kind == TCI_STEP_FOLD && s + 1 < proof->subject.size; s++)
        touch(proof, touches, rank, i, false, (struct tci_slice){TCI_BUF_TMP, s, 0});
}

static int by_cell(const void *x, const void *y)
{
    const struct touch *a = x, *b = y;

    if (a->cell != b->cell)
        return a->cell < b->cell ? -1 : 1;
    if (a->writes != b->writes)
        return a->writes ? -1 : 1;
    return a->step < b->step ? -1 : a->step > b->step;
}

/* What comes in for step i says so, and is sent by a rank that has got what step j sends. */
static bool answers(const struct plan_proof *proof, uint32_t rank, uint32_t i, uint32_t j)
{
    const struct tci_step *recv = plan_step(proof, rank, i), *send = plan_step(proof, rank, j);
    uint32_t sender;

    if (!recv->answers || recv->kind != TCI_STEP_RECV || send->kind != TCI_STEP_SEND ||
        recv->peer != send->peer)
        return false;
    sender = proof->sender[proof->ranks[rank].first + i];
    return knows(proof->clocks.own[sender], send->match);
}

static bool check_pair(struct plan_proof *proof, uint32_t rank, uint32_t i, uint32_t j)
{
    const struct plan_ended *own = proof->clocks.own + proof->ranks[rank].first;

    if (i == j || knows(own[i], j) || knows(own[j], i))
        return true;
    if (answers(proof, rank, i, j) || answers(proof, rank, j, i))
        return true;
    return plan_fails(proof, rank, i > j ? i : j, "may overlap with step %u in memory",
                      i > j ? j : i);
}

/* Touches of one cell, the writing ones first: each of those against all. */
static bool check_cell(struct plan_proof *proof, uint32_t rank, const struct touch *at,
                       size_t count)
{
    for (size_t w = 0; w < count && at[w].writes; w++)
        for (size_t t = w + 1; t < count; t++)
            if (!check_pair(proof, rank, at[w].step, at[t].step))
                return false;
    return true;
}

static bool check_memory(struct plan_proof *proof, uint32_t rank)
{
    struct touches touches = {NULL, 0, 0};
    bool ok = true;
    size_t last = 0;

    for (uint32_t i = 0; i < proof->ranks[rank].steps; i++)
        touch_by_step(proof, &touches, rank, i);
    if (touches.count > 0)
        qsort(touches.at, touches.count, sizeof *touches.at, by_cell);
    for (size_t first = 0; first < touches.count && ok; first = last) {
        while (last < touches.count && touches.at[last].cell == touches.at[first].cell)
            last++;
        ok = check_cell(proof, rank, touches.at + first, last - first);
    }
    free(touches.at);
    return ok;
}

/* Whoever leaves a barrier knows that all have entered. */
static bool check_barrier(struct plan_proof *proof, uint32_t rank)
{
    uint32_t steps = proof->ranks[rank].steps;
    const struct plan_ended *known = prefix_of(proof, rank, steps == 0 ? 0 : steps - 1);

    TC_ASSERT(proof->subject.along_messages);
    for (uint32_t r = 0; r < proof->subject.size; r++)
        if (r != rank && known[r].top == 0)
            return plan_fails(proof, rank, NO_STEP, "does not know that rank %u has entered", r);
    return true;
}

bool plan_order_check(struct plan_proof *proof)
{
    bool is_barrier = proof->subject.plan->layout == TCI_LAYOUT_NONE;

    for (uint32_t r = 0; r < proof->subject.size; r++)
        if (!(is_barrier ? check_barrier(proof, r) : check_memory(proof, r)))
            return false;
    return true;
}
