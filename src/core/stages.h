/* stages.h - operations of several plans, with work of their own before, between and behind. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_STAGES_H
#define TCI_STAGES_H

#include "core/exec.h"

struct tci_op;

/* How an operation goes on. */
enum tci_stage {
    TCI_STAGE_WORK,  /* there is more work: call again in the next turn */
    TCI_STAGE_PLAN,  /* op->args say what the engine is to carry out now */
    TCI_STAGE_DONE,  /* the operation has ended well */
    TCI_STAGE_FAILED /* tci_op_fail() was called */
};

/* The tag, its use, the call that is compared, the deadline and every way to fail are those of the
 * one operation.  The plans' messages can't meet each other: a plan begins on a rank when the one
 * before has ended there, and equal keys match in the order in which they were posted.  For that
 * op->args.call, tag and priority stay as they are. */
struct tci_stages {
    /* The next piece of work, at most a quarter of a millisecond of it. */
    enum tci_stage (*next)(struct tci_stages *self, struct tci_op *op);
    /* The operation has settled, or has not begun. */
    void (*free)(struct tci_stages *self);
    /* Set by next(): all that is left is work of this rank's own, which ends well.  From then on a
     * failure elsewhere, a cancel or the deadline come too late. */
    bool is_final;
    struct tci_op *op; /* from here on the operation's own */
    struct tci_task task;
    bool is_over;
};

/* The operation runs, or a plan of it has ended: go on in a turn of its own.  Loop thread. */
void tci_stages_go(struct tci_op *op);

#endif
