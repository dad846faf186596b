/* stages.c - operations of several plans, with work of their own before, between and behind. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stages.h"

#include "core/assert.h"
#include "core/base.h"
#include "core/comm.h"

/* While the task is posted the operation counts it as a transfer, so that a failure settles after
 * it has run. */
static void post(struct tci_stages *stages)
{
    struct tci_op *op = stages->op;

    op->xfers_live++;
    op->comm->exec->ops->post(op->comm->exec, &stages->task);
}

static void run_plan(struct tci_op *op)
{
    tci_engine_end(op);
    op->lanes_next = 0;
    tci_engine_start(op);
}

static void turn(struct tci_task *task)
{
    struct tci_stages *stages = tci_container_of(task, struct tci_stages, task);
    struct tci_op *op = stages->op;

    TC_ASSERT(op->xfers_live > 0);
    op->xfers_live--;
    if (op->state == TCI_OP_DRAINING) {
        if (op->xfers_live == 0)
            tci_op_drained(op);
        return;
    }
    TC_ASSERT(op->state == TCI_OP_RUNNING);
    switch (stages->next(stages, op)) {
    case TCI_STAGE_WORK:
        post(stages);
        break;
    case TCI_STAGE_PLAN:
        run_plan(op);
        break;
    case TCI_STAGE_DONE:
        stages->is_over = true;
        tci_op_done(op);
        break;
    case TCI_STAGE_FAILED:
        TC_ASSERT(op->state == TCI_OP_DRAINING);
        break;
    }
}

void tci_stages_go(struct tci_op *op)
{
    struct tci_stages *stages = op->args.stages;

    TC_ASSERT(!stages->is_over);
    stages->op = op;
    stages->task = (struct tci_task){.fn = turn};
    post(stages);
}
