/* plan_value.c - what the memory of all ranks holds: inputs, folds and sums, as expressions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "plan_check_inside.h"

/* ---- Equal expressions are one value --------------------------------------------------------- */

static uint64_t *inputs_of(const struct plan_values *values, uint32_t value)
{
    return values->inputs + (size_t)value * values->words;
}

static uint32_t hash_of(const struct plan_value *value)
{
    uint64_t h = value->kind;

    h = (h ^ value->a) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 29 ^ value->b) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 29 ^ value->block) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(h >> 32);
}

static bool is_same(const struct plan_value *x, const struct plan_value *y)
{
    return x->kind == y->kind && x->a == y->a && x->b == y->b && x->block == y->block;
}

static uint32_t *place_of(struct plan_values *values, const struct plan_value *value)
{
    uint32_t h = hash_of(value) & (values->table_size - 1);

    while (values->table[h] != 0 && !is_same(&values->at[values->table[h]], value))
        h = (h + 1) & (values->table_size - 1);
    return &values->table[h];
}

static void grow(struct plan_values *values)
{
    values->max *= 2;
    values->at = realloc(values->at, values->max * sizeof *values->at);
    values->inputs = realloc(values->inputs, (size_t)values->max * values->words * 8);
    free(values->table);
    values->table_size = 2 * values->max;
    values->table = calloc(values->table_size, sizeof *values->table);
    for (uint32_t v = 1; v < values->count; v++)
        *place_of(values, &values->at[v]) = v;
}

/* The value that is this expression; its inputs are to be filled in where it is new. */
static uint32_t value_of(struct plan_values *values, struct plan_value value, bool *is_new_out)
{
    uint32_t *place;

    if (values->count == values->max)
        grow(values);
    place = place_of(values, &value);
    *is_new_out = *place == 0;
    if (*place == 0) {
        *place = values->count++;
        values->at[*place] = value;
        memset(inputs_of(values, *place), 0, (size_t)values->words * 8);
    }
    return *place;
}

static uint32_t input_value(struct plan_proof *proof, uint32_t rank, uint32_t block)
{
    struct plan_value value = {.kind = PLAN_VALUE_INPUT, .a = rank, .block = block, .inputs = 1};
    bool is_new;
    uint32_t v = value_of(&proof->values, value, &is_new);

    inputs_of(&proof->values, v)[rank / 64] |= (uint64_t)1 << (rank % 64);
    return v;
}

/* a op b; 0 where they belong to different blocks or share an input. */
static uint32_t op_value(struct plan_proof *proof, uint32_t a, uint32_t b)
{
    struct plan_values *values = &proof->values;
    struct plan_value value = {.kind = PLAN_VALUE_OP, .a = a, .b = b};
    bool is_new;

    if (a == 0 || b == 0 || values->at[a].block != values->at[b].block)
        return 0;
    for (uint32_t w = 0; w < values->words; w++)
        if ((inputs_of(values, a)[w] & inputs_of(values, b)[w]) != 0)
            return 0;

    value.block = values->at[a].block;
    value.inputs = values->at[a].inputs + values->at[b].inputs;

    uint32_t v = value_of(values, value, &is_new);

    for (uint32_t w = 0; w < values->words && is_new; w++)
        inputs_of(values, v)[w] = inputs_of(values, a)[w] | inputs_of(values, b)[w];
    return v;
}

/* The first `ranks` ranks' inputs, folded in rank order. */
static uint32_t ordered_value(struct plan_proof *proof, uint8_t kind, uint32_t ranks,
                              uint32_t block)
{
    struct plan_value value = {.kind = kind, .a = ranks, .block = block, .inputs = ranks};
    bool is_new;
    uint32_t v = value_of(&proof->values, value, &is_new);

    for (uint32_t r = 0; r < ranks && is_new; r++)
        inputs_of(&proof->values, v)[r / 64] |= (uint64_t)1 << (r % 64);
    return v;
}

static uint32_t fold_value(struct plan_proof *proof, uint32_t block)
{
    return ordered_value(proof, PLAN_VALUE_FOLD, proof->subject.size, block);
}

static uint32_t wide_value(struct plan_proof *proof, uint32_t ranks, uint32_t block)
{
    return ordered_value(proof, PLAN_VALUE_WIDE, ranks, block);
}

/* ---- What the steps do ----------------------------------------------------------------------- */

static uint32_t *cell_at(const struct plan_proof *proof, uint32_t rank, struct tci_slice slice,
                         uint32_t block)
{
    return &proof->ranks[rank].cells[plan_cell(proof, rank, slice, block)];
}

static uint32_t *cell_of(const struct plan_proof *proof, uint32_t rank, uint8_t buf, uint32_t block)
{
    return cell_at(proof, rank, (struct tci_slice){buf, block, 0}, 0);
}

static bool has_input(const struct plan_proof *proof, uint32_t rank)
{
    enum tci_coll coll = proof->subject.plan->coll;

    if (coll == TCI_COLL_P2P)
        return proof->ranks[rank].steps > 0 &&
               proof->steps[proof->ranks[rank].first].kind == TCI_STEP_SEND;
    if (coll == TCI_COLL_BROADCAST || coll == TCI_COLL_SCATTER)
        return rank == proof->subject.root;
    return coll != TCI_COLL_BARRIER;
}

void plan_values_init(struct plan_proof *proof)
{
    uint32_t n = proof->subject.size;
    uint8_t buffer = proof->subject.plan->coll == TCI_COLL_BROADCAST ? TCI_BUF_DST : TCI_BUF_SRC;

    proof->values = (struct plan_values){.count = 1, .max = 32, .words = (n + 63) / 64};
    grow(&proof->values);
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t b = 0; has_input(proof, r) && b < proof->ranks[r].src_cells; b++)
            *cell_of(proof, r, buffer, b) = input_value(proof, r, b);
}

void plan_values_fini(struct plan_proof *proof)
{
    free(proof->values.at);
    free(proof->values.inputs);
    free(proof->values.table);
}

/* From scratch to scratch, the blocks that give the length are those that lie there, wherever
 * blocks differ. */
static bool is_named(const struct plan_proof *proof, const struct tci_step *step, uint32_t value,
                     uint32_t block)
{
    enum tci_layout layout = proof->subject.plan->layout;

    if (step->src.buf != TCI_BUF_TMP || step->dst.buf != TCI_BUF_TMP)
        return true;
    return (layout != TCI_LAYOUT_CUT && layout != TCI_LAYOUT_SCATTER) ||
           proof->values.at[value].block == step->as.block + block;
}

static bool move_block(struct plan_proof *proof, const struct tci_step *send, uint32_t to,
                       uint32_t to_step, uint32_t block)
{
    const struct tci_step *recv = plan_step(proof, to, to_step);
    uint32_t value = *cell_at(proof, recv->peer, send->src, block);

    if (value == 0)
        return plan_fails(proof, to, to_step, "is sent what nobody has written");
    if (send->wide != (proof->values.at[value].kind == PLAN_VALUE_WIDE))
        return plan_fails(proof, to, to_step,
                          "is sent an accumulator for elements, or the reverse");
    if (recv->kind == TCI_STEP_RECV_REDUCE) {
        uint32_t own = *cell_at(proof, to, recv->src, block), incoming = value;

        if (!is_named(proof, recv, own, block))
            return plan_fails(proof, to, to_step, "is as long as another block");
        /* The engine takes the lower rank's value as the left; of two ranks that is the fold. */
        value = recv->peer < to ? op_value(proof, incoming, own) : op_value(proof, own, incoming);
        if (value != 0 && proof->subject.plan->canonical && proof->subject.size == 2 &&
            proof->values.at[own].kind == PLAN_VALUE_INPUT &&
            proof->values.at[incoming].kind == PLAN_VALUE_INPUT)
            value = fold_value(proof, proof->values.at[value].block);
        if (value == 0)
            return plan_fails(proof, to, to_step, "reduces nothing, another block, or one twice");
        if (recv->last != (proof->values.at[value].inputs == proof->subject.size))
            return plan_fails(proof, to, to_step, "`last` is not where the block is complete");
    }
    *cell_at(proof, to, recv->dst, block) = value;
    return true;
}

bool plan_values_move(struct plan_proof *proof, uint32_t from, uint32_t to, uint32_t to_step)
{
    const struct tci_step *send = &proof->steps[from];

    if (proof->subject.plan->layout == TCI_LAYOUT_NONE)
        return true;
    for (uint32_t b = 0; b <= send->src.more; b++)
        if (!move_block(proof, send, to, to_step, b))
            return false;
    return true;
}

/* What WIDEN, ADD and ROUND make of src and what dst held; 0 where that is not the next part of the
 * fold in rank order. */
static uint32_t fold_part_value(struct plan_proof *proof, uint32_t rank,
                                const struct tci_step *step, uint32_t src, uint32_t dst)
{
    const struct plan_value own = proof->values.at[src], acc = proof->values.at[dst];
    uint32_t n = proof->subject.size;

    if (step->kind == TCI_STEP_ROUND)
        return own.kind == PLAN_VALUE_WIDE && own.a == n ? fold_value(proof, own.block) : 0;
    if (src != input_value(proof, rank, own.block))
        return 0;
    if (step->kind == TCI_STEP_WIDEN)
        return rank == 0 ? wide_value(proof, 1, own.block) : 0;
    if (dst == 0 || acc.kind != PLAN_VALUE_WIDE || acc.a != rank || acc.block != own.block)
        return 0;
    return wide_value(proof, rank + 1, own.block);
}

static bool local_block(struct plan_proof *proof, uint32_t rank, uint32_t i, uint32_t b)
{
    const struct tci_step *step = plan_step(proof, rank, i);
    uint32_t own = *cell_at(proof, rank, step->src, b), value = own;

    if (own == 0)
        return plan_fails(proof, rank, i, "reads what nobody has written");
    if (!is_named(proof, step, own, b))
        return plan_fails(proof, rank, i, "is as long as another block");
    if (step->kind == TCI_STEP_FOLD) {
        uint32_t block = proof->values.at[own].block;

        for (uint32_t r = 0; r < proof->subject.size; r++) {
            uint32_t slot = r < rank ? r : r - 1;
            uint32_t input = r == rank ? own : *cell_of(proof, rank, TCI_BUF_TMP, slot);

            if (input != input_value(proof, r, block))
                return plan_fails(proof, rank, i, "does not have rank %u's input there", r);
        }
        value = fold_value(proof, block);
    } else if (step->kind != TCI_STEP_COPY) {
        value = fold_part_value(proof, rank, step, own, *cell_at(proof, rank, step->dst, b));
        if (value == 0)
            return plan_fails(proof, rank, i, "does not go on where the ranks before it stopped");
    } else if (proof->values.at[own].kind == PLAN_VALUE_WIDE) {
        return plan_fails(proof, rank, i, "copies an accumulator");
    }
    *cell_at(proof, rank, step->dst, b) = value;
    return true;
}

bool plan_values_local(struct plan_proof *proof, uint32_t rank, uint32_t i)
{
    for (uint32_t b = 0; b <= plan_step(proof, rank, i)->src.more; b++)
        if (!local_block(proof, rank, i, b))
            return false;
    return true;
}

/* ---- What must be there at the end ----------------------------------------------------------- */

/* A complete reduction of a block. */
static bool check_reduced(struct plan_proof *proof, uint32_t r, uint32_t v, uint32_t block)
{
    const struct plan_value *value = &proof->values.at[v];

    if (v == 0 || value->block != block || value->inputs != proof->subject.size)
        return plan_fails(proof, r, NO_STEP, "block %u is not reduced", block);
    if (proof->subject.plan->canonical && value->kind == PLAN_VALUE_OP)
        return plan_fails(proof, r, NO_STEP, "block %u is not folded in rank order", block);
    if (proof->subject.plan->whole && value->kind == PLAN_VALUE_OP)
        return plan_fails(proof, r, NO_STEP, "block %u is not folded at once", block);
    return true;
}

static bool check_output(struct plan_proof *proof, uint32_t r, uint32_t b)
{
    uint32_t v = *cell_of(proof, r, TCI_BUF_DST, b), expected = 0;

    switch (proof->subject.plan->coll) {
    case TCI_COLL_ALLREDUCE:
        if (!check_reduced(proof, r, v, b))
            return false;
        expected = *cell_of(proof, 0, TCI_BUF_DST, b);
        break;
    case TCI_COLL_REDUCE:
        return check_reduced(proof, r, v, b);
    case TCI_COLL_REDUCE_SCATTER:
        return check_reduced(proof, r, v, r);
    case TCI_COLL_ALLGATHER:
    case TCI_COLL_GATHER:
        expected = input_value(proof, b, 0);
        break;
    case TCI_COLL_SCATTER:
        expected = input_value(proof, proof->subject.root, r);
        break;
    case TCI_COLL_ALLTOALL:
        expected = input_value(proof, b, r);
        break;
    case TCI_COLL_BROADCAST:
        expected = input_value(proof, proof->subject.root, b);
        break;
    case TCI_COLL_P2P:
        if (has_input(proof, r) || proof->ranks[r].steps == 0)
            return true;
        expected = input_value(proof, proof->ranks[r].shape.root, b);
        break;
    default:
        return true;
    }
    return v == expected || plan_fails(proof, r, NO_STEP, "result block %u is wrong", b);
}

bool plan_values_check(struct plan_proof *proof)
{
    for (uint32_t r = 0; r < proof->subject.size; r++)
        for (uint32_t b = 0;
             b < proof->ranks[r].dst_cells && plan_has_buffer(proof, r, TCI_BUF_DST); b++)
            if (!check_output(proof, r, b))
                return false;
    return true;
}
