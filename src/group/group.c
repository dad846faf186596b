/* group.c - the birth of a group, and its two deaths: in order, and at once. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *            finalize                own work done           all have come
 *   STANDS ----------> FINISHING ------------> MEETING ---------------> LEAVING ---> freed
 *      |                   |   a loss, or close   |                        |
 *      +------ close ------+------------> CLOSING +------------------------+---> freed
 */
#include "group.h"

#include <stdio.h>

#include "algo/algo.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/log.h"
#include "group/gloo.h"
#include "group/names.h"

/* Others that finalize say goodbye within one turn of their loops; one that is killed meanwhile
 * shows as the end of its stream.  The bound is for a host that vanishes just then. */
enum { GOODBYE_MS = 3000, PARTING_MS = 500 };

static tc_dist_ctx *group_of(struct tci_comm *comm)
{
    return tci_container_of(comm, tc_dist_ctx, comm);
}

/* ---- the end ------------------------------------------------------------------------------ */

static bool is_live(tc_dist_ctx *group)
{
    return atomic_load_explicit(&group->comm.ops_live, memory_order_acquire) != 0;
}

static void free_group(struct tci_task *task)
{
    tc_dist_ctx *group = tci_container_of(task, tc_dist_ctx, free_task);
    tc_future *left = group->left;
    struct tci_error reason = {0};

    /* What it was asked by others is of no use any more: it would be waited for. */
    tci_inquests_end(&group->comm);
    tci_disputes_end(&group->comm);
    tci_hearings_end(&group->comm);
    if (is_live(group)) { /* what it was told before it became deaf is not through yet */
        group->comm.exec->ops->post(group->comm.exec, task);
        return;
    }
    group->comm.exec->ops->timer_clear(group->comm.exec, &group->goodbye);
    tci_error_copy(&reason, &group->reason);
    if (reason.pub.status == TC_OK)
        tci_comm_late(&group->comm, &reason);
    tci_list_del(&group->link);
    tci_log(TC_LOG_INFO, "rank %d of %d has left its group", group->comm.rank, group->comm.size);
    tci_comm_fini(&group->comm);
    tci_shrink_fini(group);
    tci_names_unref(group->names);
    tci_free(group);
    if (left != NULL)
        tci_future_settle(left, reason.pub.status, reason.pub.status == TC_OK ? NULL : &reason);
}

/* In a task of its own, since the caller may stand on the group. */
static void free_soon(tc_dist_ctx *group)
{
    if (group->is_freeing)
        return;
    group->is_freeing = true;
    group->comm.is_deaf = true;
    group->free_task.fn = free_group;
    group->comm.exec->ops->post(group->comm.exec, &group->free_task);
}

static void goodbye_late(struct tci_timer *timer)
{
    free_soon(tci_container_of(timer, tc_dist_ctx, goodbye));
}

/* Nothing is live.  A rank that ends because of another's loss is not to be taken for the cause. */
static void part(tc_dist_ctx *group)
{
    struct tci_exec *exec = group->comm.exec;
    struct tci_transport *transport = group->comm.transport;

    if (group->state == TCI_GROUP_PARTING)
        return;
    if (transport == NULL || !tci_status_is_loss(group->comm.error.pub.status)) {
        free_soon(group);
        return;
    }
    group->state = TCI_GROUP_PARTING;
    group->goodbye.fn = goodbye_late;
    if (exec->ops->timer_set(exec, &group->goodbye,
                             exec->ops->now_ns(exec) + PARTING_MS * TCI_NS_PER_MS) != 0)
        free_soon(group);
    else
        transport->ops->part(transport);
}

/* Whoever still runs something with this rank is not to take it for one that crashed, nor for the
 * one at fault where that has finalized, too: whoever has not come to that is not lost. */
static void tell_why_it_leaves(tc_dist_ctx *group)
{
    const struct tci_error *reason = &group->reason;
    char why[sizeof(((struct tci_notice *)0)->text)];

    /* Whoever is to blame is at the beginning of that sentence. */
    (void)snprintf(why, sizeof(why), "rank %d has finalized its group, and waits no longer: %s",
                   group->comm.rank, reason->text + reason->says_at);
    tci_comm_tell_end(&group->comm, reason->reason == TC_REASON_EXITED ? reason : NULL, why);
}

static void leave(tc_dist_ctx *group)
{
    struct tci_exec *exec = group->comm.exec;
    struct tci_transport *transport = group->comm.transport;

    group->state = TCI_GROUP_LEAVING;
    tci_beat_end(&group->comm);
    if (transport == NULL || group->reason.pub.status != TC_OK) {
        if (group->reason.pub.status != TC_OK)
            tell_why_it_leaves(group);
        if (!is_live(group))
            part(group);
        return;
    }
    group->goodbye.fn = goodbye_late;
    if (exec->ops->timer_set(exec, &group->goodbye,
                             exec->ops->now_ns(exec) + GOODBYE_MS * TCI_NS_PER_MS) != 0)
        free_soon(group);
    transport->ops->leave(transport);
}

static void have_met(tc_future *future, void *arg)
{
    tc_dist_ctx *group = arg;
    const struct tci_error *error = tci_error_whole(tc_future_error(future));

    if (error != NULL)
        tci_error_copy(&group->reason, error);
    tc_future_release(group->barrier);
    group->barrier = NULL;
    if (group->state == TCI_GROUP_MEETING)
        leave(group);
    else if (!is_live(group))
        part(group);
}

/* The last barrier, in a space of its own. */
static void meet(tc_dist_ctx *group)
{
    struct tci_comm *comm = &group->comm;
    const struct tci_plan *plan = comm->is_ring ? &tci_ring_barrier : &tci_dissemination_barrier;
    struct tci_op_args args = {
        .name = "finalize",
        .plan = plan,
        .shape = {.rank = (uint32_t)comm->rank, .size = (uint32_t)comm->size, .in_place = true},
        .call = {.root = -1, .coll = TCI_COLL_BARRIER, .dtype = 255, .op = 255, .plan = plan->id},
        .lane_elems = 1,
        .space = TCI_SPACE_INTERNAL,
        .peer = TCI_ALL_PEERS,
        .timeout_ms = comm->context->config.timeout_ms,
        .auto_release = true,
        .is_canonical = true,
        .plan_name = tci_plan_name,
    };

    if (group->route == TCI_ROUTE_STAR)
        tci_gloo_star(comm, "finalize", &group->meeting, &args);
    group->state = TCI_GROUP_MEETING;
    comm->exec->ops->timer_clear(comm->exec, &group->goodbye);
    group->barrier = tci_op_start(comm, &args);
    group->barrier_hook = (struct tci_future_hook){.fn = have_met, .arg = group};
    tci_future_hook(group->barrier, &group->barrier_hook);
}

/* Nothing is live any more. */
static void on_idle(struct tci_comm *comm)
{
    tc_dist_ctx *group = group_of(comm);

    if (group->is_freeing)
        return;
    if (group->state == TCI_GROUP_FINISHING)
        meet(group);
    else if (group->state == TCI_GROUP_CLOSING && group->barrier == NULL)
        part(group);
    else if (group->state == TCI_GROUP_LEAVING && group->reason.pub.status != TC_OK)
        part(group);
}

static void on_left(struct tci_comm *comm)
{
    tc_dist_ctx *group = group_of(comm);

    if (group->state == TCI_GROUP_LEAVING || group->state == TCI_GROUP_PARTING)
        free_soon(group);
}

/* Whatever still runs has no deadline, or will have ended by this one.  Where nothing runs, what is
 * live still ends soon by itself. */
static uint64_t last_deadline(const tc_dist_ctx *group)
{
    const struct tci_comm *comm = &group->comm;
    uint64_t last = 0;

    if (tci_list_is_empty(&comm->ops))
        return group->finish_ns + TCI_OP_LATE_MS * TCI_NS_PER_MS;
    for (const struct tci_list *at = comm->ops.next; at != &comm->ops; at = at->next) {
        const struct tci_op *op = tci_container_of(at, struct tci_op, link);

        if (op->deadline_ns != TCI_NEVER)
            last = tci_max(last, op->deadline_ns + TCI_OP_LATE_MS * TCI_NS_PER_MS);
    }
    return last;
}

/* Own operations have not ended: those with a longer time of their own are waited for, those
 * without an end are not. */
static void finishes_late(struct tci_timer *timer)
{
    tc_dist_ctx *group = tci_container_of(timer, tc_dist_ctx, goodbye);
    struct tci_exec *exec = group->comm.exec;
    uint64_t now = exec->ops->now_ns(exec), last = last_deadline(group);
    struct tci_error late = {0};

    if (group->state != TCI_GROUP_FINISHING)
        return;
    if (group->shrink != NULL)
        last = tci_max(last, now + TCI_NS_PER_MS);
    if (last >= now) { /* the timer has its place: this needs no memory */
        (void)exec->ops->timer_set(exec, timer, last + TCI_NS_PER_MS);
        return;
    }
    tci_error_set(&late, TC_ERR_TIMEOUT, group->comm.rank, 0, "finalize",
                  "finalize: an operation of rank %d that has no deadline has not ended within the "
                  "timeout of %d ms: let it end, cancel it, or give it a timeout",
                  group->comm.rank, group->comm.context->config.timeout_ms);
    tci_error_copy(&group->reason, &late);
    tci_group_close(group, NULL);
}

void tci_group_finish(tc_dist_ctx *group, tc_future *left)
{
    struct tci_exec *exec = group->comm.exec;
    int timeout_ms = group->comm.context->config.timeout_ms;
    struct tci_error broken;

    TC_ASSERT(group->state == TCI_GROUP_STANDS);
    tci_comm_error(&group->comm, &broken);
    if (broken.pub.status != TC_OK) {
        /* First what is known of this very call: who has left by it is not its cause. */
        tci_comm_unmet(&group->comm, &group->reason);
        tci_error_copy(&group->reason, &broken);
        tci_group_close(group, left);
        return;
    }
    group->left = left;
    group->state = TCI_GROUP_FINISHING;
    if (!is_live(group)) {
        meet(group);
        return;
    }
    group->goodbye.fn = finishes_late;
    if (timeout_ms < 0)
        return;
    group->finish_ns = exec->ops->now_ns(exec) + (uint64_t)timeout_ms * TCI_NS_PER_MS;
    /* Without memory it waits for as long as they run. */
    (void)exec->ops->timer_set(exec, &group->goodbye, group->finish_ns);
}

void tci_group_close(tc_dist_ctx *group, tc_future *left)
{
    struct tci_error closed = {0};

    if (left != NULL)
        group->left = left;
    if (group->state == TCI_GROUP_PARTING)
        return;
    tci_error_set(&closed, TC_ERR_CLOSED, group->comm.rank, 0, NULL, "rank %d has closed the group",
                  group->comm.rank);
    tci_shrink_tell_left_out(group);
    if (group->state != TCI_GROUP_LEAVING) /* then all others are leaving, too */
        tci_comm_tell_end(&group->comm, NULL, closed.text);
    if (group->state == TCI_GROUP_FINISHING || group->state == TCI_GROUP_MEETING)
        tci_error_copy(&group->reason, &closed); /* it does not end in order */
    group->state = TCI_GROUP_CLOSING;
    tci_shrink_close(group);
    tci_comm_break(&group->comm, &closed);
    if (!is_live(group) && group->barrier == NULL)
        part(group);
}

/* ---- the beginning ------------------------------------------------------------------------ */

static void close_groups(tc_context *context)
{
    struct tci_list *link, *next;

    for (link = context->groups.next; link != &context->groups; link = next) {
        tc_dist_ctx *group = tci_container_of(link, tc_dist_ctx, link);
        next = link->next;
        if (group->state != TCI_GROUP_CLOSING && group->state != TCI_GROUP_PARTING)
            tci_group_close(group, NULL);
    }
}

tc_dist_ctx *tci_group_new(tc_context *context, struct tci_transport *transport,
                           const struct tci_comm_config *config)
{
    tc_dist_ctx *group = tci_alloc(sizeof(*group));

    if (group == NULL || tci_comm_init(&group->comm, context, transport, config) != 0) {
        if (transport != NULL)
            transport->ops->close(transport);
        tci_free(group);
        return NULL;
    }
    group->comm.on_idle = on_idle;
    group->comm.on_left = on_left;
    group->comm.on_shrink = tci_shrink_noticed;
    group->inviter = -1;
    group->state = TCI_GROUP_STANDS;
    group->owners = 1;
    tci_list_add(&context->groups, &group->link);
    context->close_groups = close_groups;
    return group;
}
