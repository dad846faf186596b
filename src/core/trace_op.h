/* trace_op.h - what an operation leaves in the trace, from its call to its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TRACE_OP_H
#define TCI_TRACE_OP_H

#include "core/comm.h"
#include "core/trace.h"

/* Loop thread, all of it. */

/* Now, as far as what was done since the clock was read last took no time worth the name: a clock
 * costs more than an event.  0 while the trace is paused. */
uint64_t tci_trace_recent(struct tci_comm *comm);
/* Something took time, or a turn begins: the clock is read again when it is needed. */
void tci_trace_forget_time(struct tci_comm *comm);

/* Bytes from which on a copy or a fold takes time: a tenth of a microsecond and more. */
enum { TCI_TRACE_SLOW_BYTES = 4096 };

/* It leaves events, unless the trace is paused. */
void tci_trace_op_keep(struct tci_op *op, uint64_t now_ns);

/* It has come to the loop now; its end has to follow.  Of one that nobody will ask for, if all goes
 * well, there is a mark alone, that it was entered.  All of that is here, and reads no clock: what
 * it takes is paid by each operation of a flood. */
static inline void tci_trace_op_enter(struct tci_op *op, uint64_t now_ns)
{
    const struct tci_comm *comm = op->comm;
    struct tci_trace *trace = comm->trace;
    struct tci_trace_head *head = trace->head;
    uint64_t number, at;

    if (now_ns >= trace->flood.pause_ns) {
        tci_trace_op_keep(op, now_ns);
        return;
    }
    number = tci_trace_mark_in(comm->marks_base, op->args.space, op->args.tag, op->key.use);
    if (tci_trace_keeps(trace, number)) {
        tci_trace_op_keep(op, now_ns);
        return;
    }
    trace->flood.pause_ns = now_ns + TCI_TRACE_PAUSE_NS;
    at = tci_word_get(&head->marks);
    tci_word_set(&trace->marks[at & trace->mask].word, number);
    tci_word_set(&head->marks, at + 1);
    op->entered_ns = now_ns;
}
/* It waits for futures, runs, or has failed. */
void tci_trace_op_state(struct tci_op *op, enum tci_trace_live_state state);
/* It has failed; op->error is set. */
void tci_trace_op_fail(struct tci_op *op);
/* Last: it settles. */
void tci_trace_op_end(struct tci_op *op, tc_status_t status);
static inline void tci_trace_op_settle(struct tci_op *op, tc_status_t status)
{
    if (op->is_marked) {
        struct tci_trace_head *head = op->comm->trace->head;
        uint64_t bytes = (uint64_t)op->args.count * op->args.elem_bytes;

        tci_word_set(&head->left_out, tci_word_get(&head->left_out) + 1);
        tci_word_set(&head->left_out_bytes, tci_word_get(&head->left_out_bytes) + bytes);
    } else if (op->is_traced) {
        tci_trace_op_end(op, status);
    }
}

/* A transfer of it was posted, and has ended. */
void tci_trace_xfer_begin(struct tci_step_xfer *xfer);
void tci_trace_xfer_finish(struct tci_step_xfer *xfer, tc_status_t status);
static inline void tci_trace_xfer_post(struct tci_step_xfer *xfer)
{
    xfer->begin_ns = 0;
    if (xfer->lane->op->is_traced)
        tci_trace_xfer_begin(xfer);
}
static inline void tci_trace_xfer_end(struct tci_step_xfer *xfer, tc_status_t status)
{
    if (xfer->lane->op->is_traced)
        tci_trace_xfer_finish(xfer, status);
}

/* When a fold of it begins that leaves an event; 0: it leaves none. */
static inline uint64_t tci_trace_fold_begin(const struct tci_op *op)
{
    return op->is_traced ? tci_trace_recent(op->comm) : 0;
}

/* For struct tci_trace_flood: of a tc_context, those that were entered by then. */
void tci_trace_op_promote(void *context, uint64_t entered_ns);

/* The call in one number, as in trace_format.h. */
uint64_t tci_trace_pack_call(const struct tci_call *call);

#endif
