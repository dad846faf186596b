/* spot.c - the steps that are carried out on the spot: copies and folds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/spot.h"

#include "core/assert.h"
#include "core/base.h"
#include "core/comm.h"
#include "core/copy.h"
#include "core/reduce_wide.h"
#include "core/slice.h"
#include "core/trace_op.h"

/* What takes no time leaves no trace. */
static void trace_fold(const struct tci_op *op, uint64_t begin_ns, size_t elems)
{
    size_t bytes = elems * op->args.elem_bytes;

    if (begin_ns == 0 || bytes < TCI_TRACE_SLOW_BYTES)
        return;
    tci_trace_forget_time(op->comm);
    tci_trace_add(op->comm->trace, &(struct tci_trace_record){.kind = TCI_TRACE_FOLD,
                                                              .rank = op->comm->shown_rank,
                                                              .peer = -1,
                                                              .group = op->comm->group,
                                                              .begin_ns = begin_ns,
                                                              .end_ns = tci_trace_recent(op->comm),
                                                              .tag = op->args.tag,
                                                              .a = bytes});
}

/* Block by block, since those of SRC and DST need not lie close together. */
void tci_spot_copy(struct tci_lane *lane, const struct tci_step *step)
{
    for (uint32_t b = 0; b <= step->dst.more; b++) {
        struct tci_step one = *step;
        one.src = (struct tci_slice){step->src.buf, step->src.block + b, 0};
        one.dst = (struct tci_slice){step->dst.buf, step->dst.block + b, 0};
        one.as = (struct tci_slice){step->as.buf, step->as.block + b, 0};
        const uint8_t *src = tci_slice_at(lane, one.src);
        uint8_t *dst = tci_slice_at(lane, one.dst);
        size_t size = lane->op->args.elem_bytes, bytes = tci_step_elems(lane, &one) * size;

        if (src != dst && bytes > 0)
            tci_copy_part(dst, src, bytes, lane->op->args.count * size);
        if (bytes >= TCI_TRACE_SLOW_BYTES)
            tci_trace_forget_time(lane->op->comm);
    }
}

void tci_spot_part(struct tci_lane *lane, const struct tci_step *step)
{
    const struct tci_op *op = lane->op;
    void *dst = tci_slice_at(lane, step->dst);
    const void *src = tci_slice_at(lane, step->src);
    size_t elems = tci_step_elems(lane, step);
    uint64_t begin_ns = tci_trace_fold_begin(op);

    if (elems == 0)
        return;
    if (step->kind == TCI_STEP_WIDEN)
        tci_wide_widen(&op->args.fold, dst, src, elems);
    else if (step->kind == TCI_STEP_ADD)
        tci_wide_add(&op->args.fold, dst, src, elems);
    else
        tci_wide_round(&op->args.fold, dst, src, op->args.shape.size, elems);
    trace_fold(op, begin_ns, elems);
}

bool tci_spot_fold(struct tci_lane *lane, const struct tci_step *step)
{
    struct tci_op *op = lane->op;
    uint32_t ranks = op->args.shape.size, me = op->args.shape.rank;
    size_t size = op->args.elem_bytes, elems = tci_step_elems(lane, step);
    size_t some = elems - lane->fold_done;
    size_t at = lane->fold_done * size;

    TC_ASSERT(ranks >= 2 && op->inputs != NULL);
    if (some * size > op->args.fold.bytes_max / TCI_OP_FEW || ranks > TCI_OP_FEW)
        some = tci_min(some, tci_max(1, op->args.fold.bytes_max / ranks / size));
    if (some > 0) {
        uint64_t begin_ns = tci_trace_fold_begin(op);
        for (uint32_t r = 0; r < ranks; r++)
            op->inputs[r] = (r == me ? tci_slice_at(lane, step->src)
                                     : lane->tmp + (r < me ? r : r - 1) * lane->slot_bytes) +
                            at;
        op->args.fold.many(tci_slice_at(lane, step->dst) + at, op->inputs, ranks, some);
        trace_fold(op, begin_ns, some);
    }
    lane->fold_done += some;
    return lane->fold_done == elems;
}
