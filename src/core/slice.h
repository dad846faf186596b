/* slice.h - where in memory the slices of a lane's steps lie, and how long they are. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SLICE_H
#define TCI_SLICE_H

#include "core/assert.h"
#include "core/base.h"
#include "core/op.h"

/* Here and not in a file of their own: each message asks for two of them. */

/* Elements before block b, and in it, when count elements are cut in near-equal blocks. */
static inline size_t tci_cut_start(size_t count, uint32_t blocks, uint32_t b)
{
    if (blocks == 1) /* a division costs as much as all else that a small message needs here */
        return b * count;
    return count / blocks * b + tci_min(count % blocks, b);
}

static inline size_t tci_cut_len(size_t count, uint32_t blocks, uint32_t b)
{
    return blocks == 1 ? count : count / blocks + (b < count % blocks);
}

/* Whether a buffer holds a block for each rank; else it holds this rank's alone. */
static inline bool tci_has_each_rank(enum tci_layout layout, uint8_t buf)
{
    return layout == TCI_LAYOUT_EXCHANGE || (layout == TCI_LAYOUT_GATHER) == (buf == TCI_BUF_DST);
}

/* Where a slice begins. */
static inline uint8_t *tci_slice_at(const struct tci_lane *lane, struct tci_slice slice)
{
    const struct tci_op *op = lane->op;
    enum tci_layout layout = lane->plan->layout;
    bool is_src = slice.buf == TCI_BUF_SRC;
    const uint8_t *base = is_src ? op->args.send : op->args.recv;
    const size_t *offsets = is_src ? op->args.blocks.src_offsets : op->args.blocks.dst_offsets;
    size_t at = lane->first;

    if (slice.buf == TCI_BUF_TMP) {
        TC_ASSERT(slice.block + slice.more < op->slots);
        return lane->tmp + slice.block * lane->slot_bytes;
    }
    if (base == NULL || layout == TCI_LAYOUT_NONE)
        return NULL;
    if (layout == TCI_LAYOUT_CUT)
        at += tci_cut_start(lane->count, op->blocks, slice.block);
    else if (tci_has_each_rank(layout, slice.buf))
        at += offsets != NULL ? offsets[slice.block] : slice.block * op->args.count;
    return (uint8_t *)base + at * op->args.elem_bytes;
}

/* Elements of one block of SRC or DST in this segment. */
static inline size_t tci_block_elems(const struct tci_lane *lane, uint8_t buf, uint32_t block)
{
    const struct tci_op_args *args = &lane->op->args;
    const size_t *counts = buf == TCI_BUF_SRC ? args->blocks.src_counts : args->blocks.dst_counts;

    if (lane->plan->layout == TCI_LAYOUT_NONE)
        return 0;
    if (lane->plan->layout == TCI_LAYOUT_CUT)
        return tci_cut_len(lane->count, lane->op->blocks, block);
    if (counts == NULL)
        return lane->count;
    block = tci_has_each_rank(lane->plan->layout, buf) ? block : args->shape.rank;
    return counts[block] <= lane->first ? 0 : tci_min(counts[block] - lane->first, lane->count);
}

static inline size_t tci_slice_elems(const struct tci_lane *lane, struct tci_slice slice)
{
    size_t elems = 0;

    if (lane->plan->layout == TCI_LAYOUT_CUT)
        return tci_cut_start(lane->count, lane->op->blocks, slice.block + slice.more + 1) -
               tci_cut_start(lane->count, lane->op->blocks, slice.block);
    for (uint32_t b = 0; b <= slice.more; b++)
        elems += tci_block_elems(lane, slice.buf, slice.block + b);
    return elems;
}

/* Elements that a step moves: as many as its slice in SRC or DST has. */
static inline size_t tci_step_elems(const struct tci_lane *lane, const struct tci_step *step)
{
    bool by_src =
        step->kind == TCI_STEP_SEND ? step->src.buf != TCI_BUF_TMP : step->dst.buf == TCI_BUF_TMP;

    if (step->src.buf == TCI_BUF_TMP && step->dst.buf == TCI_BUF_TMP)
        return tci_slice_elems(lane, step->as);
    return tci_slice_elems(lane, by_src ? step->src : step->dst);
}

#endif
