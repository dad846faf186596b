/* words.c - tags and calls as people read them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

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
