/* leave.c - the public calls that end a group: in order, and at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/alloc.h"
#include "core/base.h"
#include "group/group.h"

/* A close that takes longer goes on without its caller: when user code holds the loop. */
enum { CLOSE_MS = 800 };

/* ---- In order ------------------------------------------------------------------------------- */

struct leave {
    struct tci_task task;
    tc_dist_ctx *group;
    tc_future *left;
};

static void finalize(struct tci_task *task)
{
    struct leave *leave = tci_container_of(task, struct leave, task);
    tc_dist_ctx *group = leave->group;
    tc_future *left = leave->left;

    tci_free(leave);
    if (--group->owners > 0)
        tci_future_settle(left, TC_OK, NULL);
    else
        tci_group_finish(group, left);
}

tc_future *tc_dist_finalize_async(tc_dist_ctx *group)
{
    static const char name[] = "dist_finalize";
    struct leave *leave;
    tc_context *context;
    tc_future *left;

    if (group == NULL)
        return tci_future_fail(NULL, TC_ERR_INVALID_ARG, name, "%s: the group is NULL", name);
    context = group->comm.context;
    if (tci_context_is_foreign(context))
        return tci_future_fail(context, TC_ERR_NOT_INITIALIZED, name, "of another process");
    left = tci_future_new(context, NULL, NULL);
    if (left == NULL)
        return tci_future_fail(context, TC_ERR_ALLOC, name, "%s: no memory left", name);
    leave = tci_alloc(sizeof(*leave));
    if (leave == NULL) {
        struct tci_error error = {0};

        tci_error_set(&error, TC_ERR_ALLOC, -1, 0, name, "%s: no memory left", name);
        tci_future_settle(left, TC_ERR_ALLOC, &error);
        return left;
    }
    *leave = (struct leave){.task = {.fn = finalize}, .group = group, .left = left};
    context->exec->ops->post_remote(context->exec, &leave->task);
    return left;
}

tc_status_t tc_dist_finalize(tc_dist_ctx *group)
{
    static const char name[] = "dist_finalize";
    tc_context *context = group == NULL ? NULL : group->comm.context;
    tc_future *left;
    tc_status_t status;

    if (group == NULL)
        return TC_OK;
    if (tci_context_is_foreign(context))
        return tci_context_refuse(context, name);
    if (context->exec->ops->is_here(context->exec))
        return tci_fail(TC_ERR_INVALID_ARG, name,
                        "%s: not from a continuation, which it would wait for", name);
    left = tc_dist_finalize_async(group);
    status = tc_future_wait(left, -1);
    tc_future_release(left);
    return status;
}

/* ---- At once -------------------------------------------------------------------------------- */

static void close_now(struct tci_task *task)
{
    tc_dist_ctx *group = tci_container_of(task, tc_dist_ctx, close_task);

    tci_group_close(group, group->closed);
}

/* Needs no memory but for the wait, and none at all inside the loop. */
tc_status_t tc_dist_close(tc_dist_ctx *group)
{
    tc_context *context = group == NULL ? NULL : group->comm.context;
    tc_status_t status = TC_OK;
    tc_future *closed;

    if (group == NULL)
        return TC_OK;
    if (tci_context_is_foreign(context))
        return tci_context_refuse(context, "dist_close");
    if (context->exec->ops->is_here(context->exec)) {
        tci_group_close(group, NULL); /* the rest happens when the continuation has returned */
        return TC_OK;
    }
    closed = tci_future_new(context, NULL, NULL);
    group->closed = closed; /* the group may be gone once this is posted */
    group->close_task.fn = close_now;
    context->exec->ops->post_remote(context->exec, &group->close_task);
    if (closed == NULL)
        return TC_OK;
    status = tc_future_wait(closed, CLOSE_MS);
    tc_future_release(closed);
    return status == TC_PENDING ? TC_OK : status;
}
