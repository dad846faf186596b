/* cq.c - completion queue between a transport and the engine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/assert.h"
#include "core/transport.h"

void tci_cq_init(struct tci_cq *cq, struct tci_exec *exec, void (*fn)(struct tci_task *))
{
    *cq = (struct tci_cq){.exec = exec, .task = {.fn = fn}};
    cq->tail = &cq->head;
}

void tci_cq_push(struct tci_cq *cq, struct tci_xfer *xfer, tc_status_t status)
{
    TC_ASSERT(status != TC_PENDING);
    TC_ASSERT(xfer->status == TC_PENDING);
    xfer->status = status;
    xfer->next = NULL;
    *cq->tail = xfer;
    cq->tail = &xfer->next;
    if (cq->is_posted)
        return;
    cq->is_posted = true;
    cq->exec->ops->post(cq->exec, &cq->task);
}

struct tci_xfer *tci_cq_pull(struct tci_cq *cq)
{
    struct tci_xfer *xfer = cq->head;

    if (xfer == NULL) {
        cq->is_posted = false;
        return NULL;
    }
    cq->head = xfer->next;
    if (cq->head == NULL)
        cq->tail = &cq->head;
    xfer->next = NULL;
    return xfer;
}
