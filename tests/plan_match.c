/* plan_match.c - each send has its one receive of the same length, and steps stay inside. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/assert.h"
#include "plan_check_inside.h"

static bool is_receive(const struct tci_step *step)
{
    return step->kind == TCI_STEP_RECV || step->kind == TCI_STEP_RECV_REDUCE;
}

/* The block that gives a message its length: of the payload, not of scratch. */
static struct tci_slice length_of(const struct tci_step *step)
{
    bool by_src = (step->kind == TCI_STEP_SEND) == (step->src.buf != TCI_BUF_TMP);

    if (is_receive(step))
        by_src = step->dst.buf == TCI_BUF_TMP;
    if (step->kind == TCI_STEP_RECV_REDUCE && step->src.buf == TCI_BUF_TMP && by_src)
        return step->as;
    return by_src ? step->src : step->dst;
}

/* Blocks that a cut makes differ in length; all other blocks are alike. */
static bool is_as_long(const struct plan_proof *proof, const struct tci_step *a,
                       const struct tci_step *b)
{
    struct tci_slice x = length_of(a), y = length_of(b);

    if (x.buf == TCI_BUF_TMP || y.buf == TCI_BUF_TMP)
        return false;
    return x.more == y.more &&
           (proof->subject.plan->layout != TCI_LAYOUT_CUT || x.block == y.block);
}

static bool check_waits(struct plan_proof *proof, uint32_t r, uint32_t i)
{
    const struct tci_step *step = plan_step(proof, r, i);

    for (int k = 0; k < 2; k++)
        if (step->wait[k] > i || step->wait[k] >= TCI_WINDOW)
            return plan_fails(proof, r, i, "wait %d goes too far back", k);
    if (step->pace > i || step->pace >= TCI_WINDOW)
        return plan_fails(proof, r, i, "its pace goes too far back");
    if (step->last && step->kind != TCI_STEP_RECV_REDUCE)
        return plan_fails(proof, r, i, "`last` on a step that does not reduce as it receives");
    return true;
}

/* Whether a step of that kind may touch all blocks of a slice at once. */
static bool may_run(const struct tci_plan *plan, uint8_t kind, struct tci_slice slice, bool touches)
{
    if (slice.more == 0 || !touches)
        return true;
    if (kind == TCI_STEP_COPY)
        return true;
    if (kind == TCI_STEP_FOLD)
        return false;
    return slice.buf == TCI_BUF_TMP ? plan->packed : plan->layout == TCI_LAYOUT_CUT;
}

/* From scratch to scratch: blocks of the payload, as many, give the length. */
static bool has_length(const struct plan_proof *proof, uint32_t r, const struct tci_step *step)
{
    return step->as.buf != TCI_BUF_TMP && step->as.more == step->dst.more &&
           plan_cell(proof, r, step->as, step->as.more) != NO_CELL;
}

/* Accumulators lie in slots of TMP, of a plan that makes room for them. */
static bool may_widen(const struct tci_plan *plan, const struct tci_step *step)
{
    bool src_is_tmp = step->src.buf == TCI_BUF_TMP, dst_is_tmp = step->dst.buf == TCI_BUF_TMP;

    switch (step->kind) {
    case TCI_STEP_SEND:
        return !step->wide || (plan->wide && src_is_tmp);
    case TCI_STEP_RECV:
        return !step->wide || (plan->wide && dst_is_tmp);
    case TCI_STEP_WIDEN:
    case TCI_STEP_ADD:
        return plan->wide && dst_is_tmp && !src_is_tmp;
    case TCI_STEP_ROUND:
        return plan->wide && src_is_tmp && !dst_is_tmp;
    default:
        return !step->wide;
    }
}

static bool check_slices(struct plan_proof *proof, uint32_t r, uint32_t i)
{
    const struct tci_step *step = plan_step(proof, r, i);

    const struct tci_plan *plan = proof->subject.plan;
    bool reads = step->kind != TCI_STEP_RECV, writes = step->kind != TCI_STEP_SEND;

    if (plan_cell(proof, r, step->src, step->src.more) == NO_CELL ||
        plan_cell(proof, r, step->dst, step->dst.more) == NO_CELL)
        return plan_fails(proof, r, i, "a block or slot that is not there");
    if (step->kind == TCI_STEP_FOLD && proof->ranks[r].tmp_cells < proof->subject.size - 1)
        return plan_fails(proof, r, i, "too few slots for a fold");
    if ((reads && !plan_has_buffer(proof, r, step->src.buf)) ||
        (writes && !plan_has_buffer(proof, r, step->dst.buf)))
        return plan_fails(proof, r, i, "a buffer that this rank does not have");
    if (!may_widen(plan, step))
        return plan_fails(proof, r, i, "accumulators where there is no room for them");
    if (reads && writes && step->src.more != step->dst.more)
        return plan_fails(proof, r, i, "source and destination differ in blocks");
    if (reads && writes && step->src.buf == TCI_BUF_TMP && step->dst.buf == TCI_BUF_TMP &&
        !has_length(proof, r, step))
        return plan_fails(proof, r, i, "does not say how long it is");
    if (!may_run(plan, step->kind, step->src, reads) ||
        !may_run(plan, step->kind, step->dst, writes))
        return plan_fails(proof, r, i, "blocks that do not lie close together in one step");
    if (plan->equal)
        return true;
    if (step->src.more + step->dst.more > 0 && plan->layout != TCI_LAYOUT_CUT)
        return plan_fails(proof, r, i, "several blocks in a plan that is not for equal ones");
    return true;
}

/* Note a send at its receive. */
static bool check_send(struct plan_proof *proof, uint32_t r, uint32_t i)
{
    const struct tci_step *step = plan_step(proof, r, i), *other;
    uint32_t n = proof->subject.size;

    if (step->peer >= n || step->peer == r)
        return plan_fails(proof, r, i, "no such peer");
    if (step->match >= proof->ranks[step->peer].steps)
        return plan_fails(proof, r, i, "the peer has no such step");

    other = plan_step(proof, step->peer, step->match);
    uint32_t *sender = &proof->sender[proof->ranks[step->peer].first + step->match];

    if (!is_receive(other) || other->peer != r)
        return plan_fails(proof, r, i, "the peer's step is no receive from here");
    if (*sender != NO_STEP)
        return plan_fails(proof, r, i, "the peer's step has another sender");
    if (step->wide != other->wide)
        return plan_fails(proof, r, i, "accumulators at one end alone");
    if (!is_as_long(proof, step, other))
        return plan_fails(proof, r, i, "the peer expects another block");
    *sender = proof->ranks[r].first + i;
    return true;
}

static bool check_receive(struct plan_proof *proof, uint32_t r, uint32_t i)
{
    if (proof->sender[proof->ranks[r].first + i] == NO_STEP)
        return plan_fails(proof, r, i, "nobody sends for it");
    return true;
}

typedef bool (*check_fn)(struct plan_proof *, uint32_t rank, uint32_t i);

static bool check_each(struct plan_proof *proof, check_fn check)
{
    for (uint32_t r = 0; r < proof->subject.size; r++)
        for (uint32_t i = 0; i < proof->ranks[r].steps; i++)
            if (!check(proof, r, i))
                return false;
    return true;
}

static bool check_send_if_any(struct plan_proof *proof, uint32_t r, uint32_t i)
{
    return plan_step(proof, r, i)->kind != TCI_STEP_SEND || check_send(proof, r, i);
}

static bool check_receive_if_any(struct plan_proof *proof, uint32_t r, uint32_t i)
{
    return !is_receive(plan_step(proof, r, i)) || check_receive(proof, r, i);
}

bool plan_match_check(struct plan_proof *proof)
{
    for (uint32_t r = 1; r < proof->subject.size; r++)
        if (proof->ranks[r].src_cells != proof->ranks[0].src_cells ||
            proof->ranks[r].dst_cells != proof->ranks[0].dst_cells)
            return plan_fails(proof, r, 0, "another number of blocks than on rank 0");
    return check_each(proof, check_waits) && check_each(proof, check_slices) &&
           check_each(proof, check_send_if_any) && check_each(proof, check_receive_if_any);
}
