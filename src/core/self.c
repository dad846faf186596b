/* self.c - a send to oneself and its receive: one copy, when both have come. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/self.h"

#include <stdio.h>
#include <string.h>

#include "core/comm.h"

/* The two have one tag under two names, since a tag is reserved once.  One that fails may have none
 * of its own. */
static struct tci_tag *partner_tag(const struct tci_op *op)
{
    struct tci_tag_name name = {.tag = op->args.tag,
                                .peer = op->args.is_from_self ? op->comm->rank : TCI_SELF_RECV,
                                .space = op->args.space};

    return tci_tags_get(&op->comm->tags, &name);
}

bool tci_self_is_meant(const struct tci_op *op)
{
    return op->args.peer == op->comm->rank;
}

/* A blocking call has to be the second one. */
const char *tci_self_print(const struct tci_op *op, char *text, size_t text_bytes)
{
    const char *other = op->args.is_from_self ? "send" : "recv";

    (void)snprintf(text, text_bytes,
                   "its own %s: start that first, by tc_%s_async or on another thread", other,
                   other);
    return text;
}

void tci_self_run(struct tci_op *op)
{
    struct tci_tag *tag = partner_tag(op);
    struct tci_op *partner = tag == NULL ? NULL : tag->op;
    char mine[160], other[160];

    if (partner == NULL || partner->state != TCI_OP_RUNNING)
        return;
    if (!tci_call_is_equal(&op->args.call, &partner->args.call)) {
        tci_op_fail_with(op, TC_ERR_MISMATCH, op->comm->rank, true,
                         "rank %d calls %s and %s: make the calls agree", op->comm->rank,
                         tci_call_print(op->comm, &op->args.call, mine, sizeof(mine)),
                         tci_call_print(op->comm, &partner->args.call, other, sizeof(other)));
        return;
    }
    if (op->args.count > 0)
        memmove(op->args.is_from_self ? op->args.recv : partner->args.recv,
                op->args.is_from_self ? partner->args.send : op->args.send,
                op->args.count * op->args.elem_bytes);
    tci_op_done(partner);
    tci_op_done(op);
}

void tci_self_end(struct tci_op *op)
{
    struct tci_tag *tag = partner_tag(op);

    if (tag == NULL)
        return; /* it ends at its own deadline */
    if (tag->op != NULL)
        tci_op_fail(tag->op, &op->error, false);
    else if (tag->is_counted && tag->uses < op->key.use)
        tci_tag_kill(tag, op->key.use, &op->error);
}
