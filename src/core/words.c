/* words.c - tags, calls and causes as people read them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "core/comm.h"
#include "core/op.h"

const char *tci_tag_print(uint32_t space, uint64_t tag, char *text, size_t text_bytes)
{
    bool is_ordered = space == TCI_SPACE_ORDERED || space >= TCI_SPACE_P2P_ORDERED_UP;

    if (space == TCI_SPACE_INTERNAL)
        snprintf(text, text_bytes, "internal call");
    else
        snprintf(text, text_bytes, "%s %" PRIu64, is_ordered ? "ordered call" : "tag", tag);
    return text;
}

const char *tci_call_print(const struct tci_comm *comm, const struct tci_call *call, char *text,
                           size_t text_bytes)
{
    char root[32] = "", op[16] = "", plan[32] = "";
    uint8_t id = call->plan & TCI_CALL_PLAN;
    const char *rounds = call->plan & TCI_CALL_FAST    ? ", fast"
                         : call->plan & TCI_CALL_EXACT ? ", exact"
                                                       : "";
    const char *name = NULL;
    size_t used;

    if (call->coll >= TCI_COLL_COUNT) {
        snprintf(text, text_bytes, "an unknown operation");
        return text;
    }
    if (call->root >= 0)
        snprintf(root, sizeof(root), ", root %" PRId32, call->root);
    if (call->root < -1)
        snprintf(root, sizeof(root), ", counts #%08" PRIx32, -2 - call->root);
    if (call->op != 255)
        snprintf(op, sizeof(op), ", %s", tc_reduce_op_name((tc_reduce_op_t)call->op));
    if (comm->plan_name != NULL)
        name = comm->plan_name(call->coll, id);
    if (name != NULL)
        snprintf(plan, sizeof(plan), ", %s%s", name, rounds);
    else if (id != 0)
        snprintf(plan, sizeof(plan), ", plan %d%s", id, rounds);
    if (call->dtype == 255)
        used = (size_t)snprintf(text, text_bytes, "%s%s%s%s", tci_coll_name(call->coll),
                                plan[0] != 0 ? "(" : "", plan[0] != 0 ? plan + 2 : "",
                                plan[0] != 0 ? ")" : "");
    else
        used = (size_t)snprintf(text, text_bytes, "%s(%" PRIu64 " x %s%s%s%s)",
                                tci_coll_name(call->coll), call->count,
                                tc_dtype_name((tc_dtype_t)call->dtype), op, root, plan);
    TC_ASSERT(used < text_bytes);
    return text;
}

void tci_op_words(const struct tci_op *op, const tc_error *cause, tc_reason_t reason,
                  struct tci_error *error_out)
{
    char tag[48], head[96];

    *error_out = (struct tci_error){0};
    snprintf(head, sizeof(head), "%s, %s: ", op->args.name,
             tci_tag_print(op->args.space, op->args.tag, tag, sizeof(tag)));
    tci_error_blame(error_out, cause->status, cause->rank, reason, op->args.name, "%s%s", head,
                    cause->message);
    error_out->says_at = (unsigned)strlen(head);
}

void tci_op_fail_with(struct tci_op *op, tc_status_t status, int rank, bool tell, const char *fmt,
                      ...)
{
    struct tci_error error;
    char text[sizeof(error.text)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    tci_op_words(op, &(tc_error){.status = status, .rank = rank, .message = text}, TC_REASON_NONE,
                 &error);
    tci_op_fail(op, &error, tell);
}

void tci_op_fail_as(struct tci_op *op, const struct tci_error *error)
{
    struct tci_error words;
    tc_error cause = error->pub;

    cause.message = error->text + error->says_at;
    tci_op_words(op, &cause, error->reason, &words);
    tci_op_fail(op, &words, false);
}
