/* plan_check.c - runs all ranks' steps of a plan to the end, and says whether they hold. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "core/assert.h"
#include "plan_check_inside.h"
#include "plan_text.h"

bool plan_fails(struct plan_proof *proof, uint32_t rank, uint32_t i, const char *format, ...)
{
    const struct plan_case *subject = &proof->subject;
    char what[160], step[160] = "", hosts[200];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (i < proof->ranks[rank].steps)
        plan_text_step(plan_step(proof, rank, i), step, sizeof step);
    plan_text_hosts(subject->hosts, hosts, sizeof hosts);
    snprintf(proof->why, proof->why_max,
             "%s %s, n %u root %u radix %u cuts %u%s%s: rank %u step %u (%s): %s",
             tci_coll_name(subject->plan->coll), subject->plan->name, subject->size, subject->root,
             subject->radix, subject->cuts, hosts, subject->in_place ? " in place" : "", rank, i,
             step, what);
    return false;
}

/* ---- What there is --------------------------------------------------------------------------- */

static const struct tci_plan *plan_of(const struct plan_case *subject, uint32_t rank)
{
    if (subject->plan->coll != TCI_COLL_P2P || rank == subject->root)
        return subject->plan;
    return tci_plan_find(TCI_COLL_P2P, strcmp(subject->plan->name, "send") == 0 ? "recv" : "send");
}

static void set_up_rank(struct plan_proof *proof, uint32_t r)
{
    const struct plan_case *subject = &proof->subject;
    struct plan_rank *rank = &proof->ranks[r];
    uint32_t n = subject->size;

    rank->shape = (struct tci_shape){.rank = r,
                                     .size = n,
                                     .root = subject->root,
                                     .radix = subject->radix,
                                     .cuts = subject->cuts,
                                     .hosts = subject->hosts,
                                     .in_place = subject->in_place};
    rank->plan = plan_of(subject, r);
    if (subject->plan->coll == TCI_COLL_P2P)
        rank->shape.root = r == subject->root ? (r + 1) % n : subject->root;

    bool is_idle =
        subject->plan->coll == TCI_COLL_P2P && r != subject->root && r != (subject->root + 1) % n;
    uint32_t blocks = rank->plan->blocks(&rank->shape);

    rank->steps = is_idle ? 0 : rank->plan->steps(&rank->shape);
    rank->src_cells = plan_has_each_rank(rank->plan, TCI_BUF_SRC) ? n : blocks;
    rank->dst_cells = plan_has_each_rank(rank->plan, TCI_BUF_DST) ? n : blocks;
    rank->tmp_cells = rank->plan->slots(&rank->shape);
    rank->cells = calloc(rank->src_cells + rank->dst_cells + rank->tmp_cells, sizeof(uint32_t));
    rank->first = proof->steps_count;
    proof->steps_count += rank->steps;
}

static void set_up(struct plan_proof *proof)
{
    uint32_t n = proof->subject.size;

    proof->ranks = calloc(n, sizeof *proof->ranks);
    for (uint32_t r = 0; r < n; r++)
        set_up_rank(proof, r);
    proof->steps = calloc(proof->steps_count + 1, sizeof *proof->steps);
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < proof->ranks[r].steps; i++)
            proof->ranks[r].plan->step(&proof->ranks[r].shape, i, plan_step(proof, r, i));
    proof->sender = malloc((proof->steps_count + 1) * sizeof *proof->sender);
    memset(proof->sender, 0xff, (proof->steps_count + 1) * sizeof *proof->sender);
    plan_values_init(proof);
    plan_clocks_init(proof);
}

static void tear_down(struct plan_proof *proof)
{
    plan_values_fini(proof);
    plan_clocks_fini(proof);
    for (uint32_t r = 0; r < proof->subject.size; r++)
        free(proof->ranks[r].cells);
    free(proof->ranks);
    free(proof->steps);
    free(proof->sender);
}

bool plan_has_each_rank(const struct tci_plan *plan, uint8_t buf)
{
    return plan->layout == TCI_LAYOUT_EXCHANGE ||
           plan->layout == (buf == TCI_BUF_SRC ? TCI_LAYOUT_SCATTER : TCI_LAYOUT_GATHER);
}

bool plan_has_buffer(const struct plan_proof *proof, uint32_t rank, uint8_t buf)
{
    switch (proof->subject.plan->coll) {
    case TCI_COLL_BROADCAST:
        return buf != TCI_BUF_SRC;
    case TCI_COLL_REDUCE:
    case TCI_COLL_GATHER:
        return buf != TCI_BUF_DST || rank == proof->subject.root;
    case TCI_COLL_SCATTER:
        return buf != TCI_BUF_SRC || rank == proof->subject.root;
    default:
        return true;
    }
}

/* In place, SRC of a cut, of a gather and of an exchange lies in DST; DST of a scatter in SRC. */
uint32_t plan_cell(const struct plan_proof *proof, uint32_t rank, struct tci_slice slice,
                   uint32_t block)
{
    const struct plan_rank *of = &proof->ranks[rank];
    bool shared = proof->subject.in_place;
    uint32_t own = of->plan->coll == TCI_COLL_SCATTER ? rank : 0;

    block += slice.block;
    if (slice.buf == TCI_BUF_TMP)
        return block < of->tmp_cells ? of->src_cells + of->dst_cells + block : NO_CELL;
    if (slice.buf == TCI_BUF_SRC) {
        if (block >= of->src_cells)
            return NO_CELL;
        if (shared && of->plan->layout == TCI_LAYOUT_GATHER)
            return of->src_cells + rank;
        return shared && of->plan->layout != TCI_LAYOUT_SCATTER ? of->src_cells + block : block;
    }
    if (block >= of->dst_cells)
        return NO_CELL;
    return shared && of->plan->layout == TCI_LAYOUT_SCATTER ? own : of->src_cells + block;
}

/* ---- The run --------------------------------------------------------------------------------- */

static bool has_ended(const struct plan_rank *rank, uint32_t i)
{
    return i < rank->base ||
           (i - rank->base < TCI_WINDOW && (rank->ended >> (i - rank->base) & 1) != 0);
}

static bool is_open(const struct plan_rank *rank, uint32_t i)
{
    return i >= rank->base && i - rank->base < TCI_WINDOW &&
           (rank->open >> (i - rank->base) & 1) != 0;
}

static bool may_open(const struct plan_proof *proof, uint32_t r, uint32_t i)
{
    const struct plan_rank *rank = &proof->ranks[r];
    const struct tci_step *step = plan_step(proof, r, i);

    if (step->fence && rank->base < i)
        return false;
    for (int k = 0; k < 2; k++)
        if (step->wait[k] != 0 && !has_ended(rank, i - step->wait[k]))
            return false;
    return step->pace == 0 || has_ended(rank, i - step->pace);
}

static void end_step(struct plan_proof *proof, uint32_t r, uint32_t i)
{
    struct plan_rank *rank = &proof->ranks[r];

    rank->open &= ~((uint64_t)1 << (i - rank->base));
    rank->ended |= (uint64_t)1 << (i - rank->base);
    for (; (rank->ended & 1) != 0; rank->base++) {
        rank->ended >>= 1;
        rank->open >>= 1;
        plan_clocks_pass(proof, r, rank->base);
    }
}

static bool transfer(struct plan_proof *proof, uint32_t from, uint32_t send, uint32_t to,
                     uint32_t recv)
{
    if (!plan_values_move(proof, proof->ranks[from].first + send, to, recv))
        return false;
    plan_clocks_move(proof, from, send, to, recv);
    end_step(proof, from, send);
    end_step(proof, to, recv);
    return true;
}

/* The step of the other end. */
static uint32_t partner_of(const struct plan_proof *proof, uint32_t r, uint32_t i)
{
    const struct tci_step *step = plan_step(proof, r, i);

    if (step->kind == TCI_STEP_SEND)
        return step->match;
    return proof->sender[proof->ranks[r].first + i] - proof->ranks[step->peer].first;
}

/* Take an open step as far as it goes; gives the rank that also moved. */
static bool move_step(struct plan_proof *proof, uint32_t r, uint32_t i, uint32_t *moved_out)
{
    const struct tci_step *step = plan_step(proof, r, i);
    uint32_t q = step->peer;

    if (!tci_step_is_message(step->kind)) {
        if (!plan_values_local(proof, r, i))
            return false;
        plan_clocks_end(proof, r, i);
        end_step(proof, r, i);
        *moved_out = r;
        return true;
    }

    uint32_t j = partner_of(proof, r, i);

    if (!is_open(&proof->ranks[q], j))
        return true;
    *moved_out = q;
    return step->kind == TCI_STEP_SEND ? transfer(proof, r, i, q, j) : transfer(proof, q, j, r, i);
}

/* A stack of ranks that may be able to move, each at most once. */
struct queue {
    uint32_t *ranks;
    bool *is_in;
    uint32_t count;
};

static void add_rank(struct queue *queue, uint32_t rank)
{
    if (queue->is_in[rank])
        return;
    queue->is_in[rank] = true;
    queue->ranks[queue->count++] = rank;
}

static bool move_rank(struct plan_proof *proof, uint32_t r, struct queue *queue)
{
    struct plan_rank *rank = &proof->ranks[r];

    for (uint32_t i = rank->base; i < rank->steps && i - rank->base < proof->subject.window; i++) {
        uint32_t moved = NO_STEP;

        if (has_ended(rank, i) || is_open(rank, i) || !may_open(proof, r, i))
            continue;
        rank->open |= (uint64_t)1 << (i - rank->base);
        plan_clocks_open(proof, r, i);
        if (!move_step(proof, r, i, &moved))
            return false;
        if (moved != NO_STEP) {
            add_rank(queue, moved);
            add_rank(queue, r);
        }
        if (moved != NO_STEP && rank->base > i)
            i = rank->base - 1;
    }
    return true;
}

static bool run(struct plan_proof *proof)
{
    uint32_t n = proof->subject.size;
    struct queue queue = {malloc(n * sizeof(uint32_t)), calloc(n, sizeof(bool)), 0};
    bool ok = true;

    for (uint32_t r = n; r > 0; r--)
        add_rank(&queue, r - 1);
    while (ok && queue.count > 0) {
        uint32_t r = queue.ranks[--queue.count];

        queue.is_in[r] = false;
        ok = move_rank(proof, r, &queue);
    }
    for (uint32_t r = 0; r < n && ok; r++)
        if (proof->ranks[r].base < proof->ranks[r].steps)
            ok = plan_fails(proof, r, proof->ranks[r].base, "never ends");
    free(queue.ranks);
    free(queue.is_in);
    return ok;
}

bool plan_check(const struct plan_case *subject, char *why, size_t why_max)
{
    struct plan_proof proof = {.subject = *subject, .why = why, .why_max = why_max};
    bool ok;

    TC_ASSERT(subject->window >= PLAN_WINDOW_MIN && subject->window <= TCI_WINDOW);
    TC_ASSERT(subject->root < subject->size);
    TC_ASSERT(subject->plan->coll != TCI_COLL_P2P || subject->size > 1);

    set_up(&proof);
    ok = plan_match_check(&proof) && run(&proof) && plan_values_check(&proof) &&
         plan_order_check(&proof);
    tear_down(&proof);
    return ok;
}
