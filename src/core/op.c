/* op.c - the life of one collective: reserved, entered, carried out or failed, settled. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   start          enter                       done
 *   NEW ---------> WAITING ------> RUNNING ----------> SETTLED
 *    any thread    for `after`        | fail             ^
 *                      | fail         v                  |
 *                      +----------> DRAINING ------------+
 *                                   until the last transfer has ended
 */
#include "core/op.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/comm.h"
#include "core/mismatch.h"
#include "core/reach.h"
#include "core/self.h"
#include "core/trace_op.h"

/* Up to which a payload may be sent within the call: that takes a microsecond. */
enum { SHORT_BYTES = 16384 };

size_t tci_op_bytes(void)
{
    return sizeof(struct tci_op);
}

static struct tci_op *op_of(struct tci_task *task)
{
    return tci_container_of(task, struct tci_op, task);
}

/* ---- the end ------------------------------------------------------------------------------ */

static void free_stages(struct tci_stages *stages)
{
    if (stages != NULL)
        stages->free(stages);
}

/* What may be called again stays as it is, if no other does. */
static bool keep_recent(struct tci_op *op)
{
    struct tci_op *none = NULL;

    /* release: pairs with the acquire in tci_op_take_recent */
    return op->args.is_plain && op->error.pub.status == TC_OK &&
           atomic_compare_exchange_strong_explicit(&op->comm->recent, &none, op,
                                                   memory_order_release, memory_order_relaxed);
}

static void free_op(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;

    if (!keep_recent(op)) {
        tci_free(op->blocks_kept);
        free_stages(op->args.stages);
        tci_pool_put(&comm->context->ops, op);
    }
    tci_comm_release(comm);
}

/* What an operation waits for before it runs.  Each of the futures holds a hook in it, so it stays
 * until the last has settled, even when the operation has ended before. */
struct tci_after {
    struct tci_op *op; /* NULL: it has ended */
    size_t left;       /* hooks that have not been called */
    size_t n;
    struct tci_future_hook hooks[]; /* hooks[i].future: a reference */
};

static void after_free(struct tci_after *after)
{
    for (size_t i = 0; i < after->n; i++)
        tc_future_release(after->hooks[i].future);
    tci_free(after);
}

static void stop_waiting(struct tci_op *op)
{
    op->after->op = NULL;
    if (op->after->left == 0)
        after_free(op->after);
    op->after = NULL;
}

/* Release the tag first: whoever sees the future settled may use the tag again. */
static void settle(struct tci_op *op, tc_status_t status)
{
    struct tci_comm *comm = op->comm;

    TC_ASSERT(op->xfers_live == 0 && op->state != TCI_OP_SETTLED);
    op->state = TCI_OP_SETTLED;
    comm->beat.finished++;
    if (op->timer.heap_at != 0)
        comm->exec->ops->timer_clear(comm->exec, &op->timer);
    tci_engine_end(op);
    tci_list_del(&op->link);
    if (op->tag != NULL)
        tci_tags_end(&comm->tags, op->tag, op->args.auto_release);
    tci_trace_op_settle(op, status);
    tci_future_settle(op->future, status, status == TC_OK ? NULL : &op->error);
    op->future = NULL;
    if (op->after != NULL)
        stop_waiting(op);
    free_op(op);
}

/* Whether it ends well, whatever comes: see stages.h. */
static bool is_final(const struct tci_op *op)
{
    return op->args.stages != NULL && op->args.stages->is_final;
}

void tci_op_done(struct tci_op *op)
{
    TC_ASSERT(op->state == TCI_OP_RUNNING);
    if (op->is_held && !is_final(op))
        return; /* calls of it differ: its end is on the way */
    if (op->args.stages != NULL && !op->args.stages->is_over) {
        tci_stages_go(op);
        return;
    }
    tci_tags_note_done(&op->comm->tags, op->tag, &op->args.call, op->key.use);
    tci_inquest_withdraw(op);
    settle(op, TC_OK);
}

static void drained_timer(struct tci_timer *timer)
{
    tci_op_drained(tci_container_of(timer, struct tci_op, timer));
}

/* Whoever learns of a failure by its future may exit at once.  The others are to hear the cause
 * first, or they would take this rank for it. */
static bool waits_to_tell(struct tci_op *op)
{
    struct tci_exec *exec = op->comm->exec;
    bool is_loss = tci_status_is_loss(op->error.pub.status);

    if (tci_comm_has_told(op->comm, is_loss ? &op->comm->broken_ns : &op->told_ns))
        return false;
    op->timer.fn = drained_timer;
    return exec->ops->timer_set(exec, &op->timer, exec->ops->now_ns(exec) + TCI_NS_PER_MS) == 0;
}

void tci_op_drained(struct tci_op *op)
{
    TC_ASSERT(op->state == TCI_OP_DRAINING);
    if (!waits_to_tell(op))
        settle(op, op->error.pub.status);
}

static void drained_task(struct tci_task *task)
{
    tci_op_drained(op_of(task));
}

/* ---- failure ------------------------------------------------------------------------------ */

static struct tci_notice end_notice(const struct tci_op *op, const struct tci_error *error)
{
    struct tci_notice notice = {
        .kind = TCI_NOTICE_END,
        .reason = (uint8_t)error->reason,
        .status = error->pub.status,
        .culprit = error->pub.rank,
        .key = op->key,
        .call = op->args.call,
    };

    snprintf(notice.text, sizeof(notice.text), "%.255s", error->text + error->says_at);
    return notice;
}

static void tell_others(struct tci_op *op)
{
    struct tci_notice notice = end_notice(op, &op->error);

    if (tci_self_is_meant(op))
        tci_self_end(op);
    else if (op->args.peer == TCI_ALL_PEERS)
        tci_comm_tell(op->comm, &notice);
    else
        op->comm->transport->ops->notify(op->comm->transport, (uint32_t)op->args.peer, &notice,
                                         true);
}

static void enroll(struct tci_op *op);

void tci_op_fail(struct tci_op *op, const struct tci_error *error, bool tell)
{
    enum tci_op_state before = op->state;

    if (before == TCI_OP_DRAINING || before == TCI_OP_SETTLED)
        return;
    if (is_final(op))
        return;
    if (!op->is_enrolled)
        enroll(op);
    TC_ASSERT(error->pub.status != TC_OK && error->pub.status != TC_PENDING);
    op->state = TCI_OP_DRAINING;
    tci_error_copy(&op->error, error);
    op->error.pub.tag = op->args.tag;
    op->error.pub.operation = op->args.name;
    if (op->tag != NULL)
        tci_tag_bury(op->tag, op->key.use);
    tci_trace_op_fail(op);
    if (op->comm->transport != NULL)
        op->comm->transport->ops->abort(op->comm->transport, &op->key, op->args.peer);
    if (tell)
        tell_others(op);
    if (op->judge == op->comm->rank)
        tci_inquest_close(op->comm, (uint32_t)tci_max(op->args.peer, 0), &op->key);
    /* Rank 0 passes on what it has been told, and a judge has told it. */
    if ((tell || op->comm->rank == 0 || op->judge == op->comm->rank) &&
        error->pub.status != TC_ERR_CANCELLED)
        op->told_ns = op->comm->exec->ops->now_ns(op->comm->exec);
    if (op->xfers_live == 0) {
        op->task.fn = drained_task; /* later: the caller may stand on this operation */
        op->comm->exec->ops->post(op->comm->exec, &op->task);
    }
}

static void cancel(void *arg)
{
    struct tci_op *op = arg;

    tci_op_fail_with(op, TC_ERR_CANCELLED, op->comm->rank, true, "rank %d has cancelled it",
                     op->comm->rank);
}

/* ---- the beginning ------------------------------------------------------------------------ */

/* What others have told about this tag before it was entered here; true when that ends it. */
static bool meets_the_past(struct tci_op *op)
{
    struct tci_tag *tag = op->tag;

    for (size_t f = 0; f < TCI_LEN(tag->foreign); f++) {
        struct tci_foreign foreign = tag->foreign[f];
        bool is_counted = foreign.use != 0 && op->key.use != 0;
        if (foreign.peer < 0 || (is_counted && foreign.use > op->key.use))
            continue; /* none, or of a use to come */
        tag->foreign[f].peer = -1;
        if ((is_counted && foreign.use < op->key.use) ||
            tci_call_is_equal(&foreign.call, &op->args.call))
            continue;
        tci_mismatch_found(op, foreign.peer, &foreign.call);
        return true;
    }
    return false;
}

static void run(struct tci_op *op)
{
    TC_ASSERT(op->state == TCI_OP_NEW || op->state == TCI_OP_WAITING);
    if (op->state == TCI_OP_WAITING) {
        tci_diagnose_ran(op);
        tci_trace_op_state(op, TCI_TRACE_LIVE_RUNNING);
    }
    op->state = TCI_OP_RUNNING;
    if (!tci_reach_buffers(op))
        tci_reach_failed(op);
    else if (tci_self_is_meant(op))
        tci_self_run(op);
    else if (meets_the_past(op))
        return;
    else if (op->args.stages != NULL)
        tci_stages_go(op);
    else
        tci_engine_start(op);
}

static void fail_after(struct tci_op *op, const tc_error *why)
{
    tci_op_fail_with(op, why->status, op->comm->rank, true,
                     "a future that it was to start after failed on rank %d: %s", op->comm->rank,
                     why->message);
}

/* A future of `after` has settled. */
static void after_settled(tc_future *future, void *arg)
{
    struct tci_after *after = arg;
    struct tci_op *op = after->op;
    const tc_error *why = tc_future_error(future);

    TC_ASSERT(after->left > 0);
    after->left--;
    if (op == NULL) {
        if (after->left == 0)
            after_free(after);
    } else if (op->state == TCI_OP_WAITING && why != NULL) {
        fail_after(op, why);
    } else if (op->state == TCI_OP_WAITING && after->left == 0) {
        run(op);
    }
}

static void wait_for_futures(struct tci_op *op)
{
    struct tci_after *after = op->after;

    op->state = TCI_OP_WAITING;
    tci_trace_op_state(op, TCI_TRACE_LIVE_WAITING);
    after->op = op;
    after->left = after->n;
    for (size_t i = 0; i < after->n; i++)
        tci_future_hook(after->hooks[i].future, &after->hooks[i]);
}

/* Whoever sends to itself has two operations under one tag: the receive has its own entry. */
static struct tci_tag_name tag_name(const struct tci_op_args *args)
{
    return (struct tci_tag_name){.tag = args->tag,
                                 .peer = args->is_from_self ? TCI_SELF_RECV : args->peer,
                                 .space = args->space};
}

/* From here on it takes part in what is said of its tag.  A call of a sequence has none before;
 * NULL: there is no memory for it, though its use is known, and the others hear of its end. */
static void enroll(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;

    op->is_enrolled = true;
    if (op->tag == NULL) {
        struct tci_tag_name name = tag_name(&op->args);

        op->tag = tci_tags_take(&comm->tags, &name);
    }
    tci_list_del(&op->link);
    tci_list_add(&comm->ops, &op->link);
    op->key = (struct tci_key){.tag = op->args.tag,
                               .group = comm->group,
                               .space = (uint8_t)op->args.space,
                               .use = op->tag == NULL ? 1 : tci_tags_enter(op->tag, op)};
    comm->plan_name = op->args.plan_name;
    comm->beat.entered++;
    comm->last.name = op->args.name;
    comm->last.space = op->args.space;
    comm->last.tag = op->args.tag;
    comm->last.at_ns = comm->exec->ops->now_ns(comm->exec);
    tci_trace_op_enter(op, comm->last.at_ns);
}

/* All others hear of it, for they might count its uses, and wait. */
static void refuse_spent(struct tci_op *op)
{
    struct tci_error error = {0};
    char tag[48];

    tci_error_set(&error, TC_ERR_INVALID_ARG, -1, op->args.tag, op->args.name,
                  "%s: %s has failed before, and after more than %d other tags its uses are not "
                  "counted, so late messages of the one that failed could meet another: use "
                  "another tag",
                  op->args.name, tci_tag_print(op->args.space, op->args.tag, tag, sizeof(tag)),
                  TCI_TAGS_IDLE_MAX);
    error.says_at = (unsigned)strlen(op->args.name) + 2; /* the others put theirs before it */
    tci_op_fail(op, &error, true);
}

/* Others have ended it before.  The one that they have waited for is told so as itself. */
static void fail_as_others(struct tci_op *op, struct tci_error *error)
{
    char text[sizeof(error->text)];

    if (error->reason == TC_REASON_NOT_ENTERED && error->pub.rank == op->comm->rank) {
        snprintf(text, sizeof(text), "the others have waited for this rank, and ended it: %.300s",
                 error->text + error->says_at);
        memcpy(error->text, text, strlen(text) + 1);
        error->says_at = 0;
    }
    tci_op_fail_as(op, error);
}

void tci_op_enter(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    struct tci_death *death;

    enroll(op);
    if (op->tag == NULL) {
        tci_op_fail_with(op, TC_ERR_ALLOC, comm->rank, true,
                         "rank %d has no memory left for its tag", comm->rank);
        return;
    }
    /* First what is known of this very call: whoever has failed by it may have ended since, and
     * that end is not its cause. */
    death = tci_tag_take_death(op->tag, op->key.use);
    if (death != NULL) {
        fail_as_others(op, &death->error);
        tci_free(death);
        return;
    }
    if (comm->error.pub.status != TC_OK) { /* without its lock: the loop alone writes it */
        tci_op_fail_as(op, &comm->error);
        return;
    }
    if (op->tag->is_spent) {
        refuse_spent(op);
        return;
    }
    tci_diagnose_arm(op);
    if (op->state != TCI_OP_NEW)
        return; /* no memory for its timer */
    if (op->after != NULL)
        wait_for_futures(op);
    else
        run(op);
}

static void enter(struct tci_task *task)
{
    struct tci_op *op = op_of(task);
    struct tci_comm *comm = op->comm;

    if (op->args.space != TCI_SPACE_ORDERED || comm->tuning.admit == NULL ||
        comm->tuning.admit(comm, op))
        tci_op_enter(op);
}

/* References to the futures to start after; false without memory. */
static bool keep_after(struct tci_op *op, const struct tci_op_args *args)
{
    size_t bytes;

    if (args->n_after == 0)
        return true;
    if (!tci_array_bytes(args->n_after, sizeof(struct tci_future_hook), &bytes) ||
        bytes > SIZE_MAX - sizeof(*op->after))
        return false;
    op->after = tci_alloc(sizeof(*op->after) + bytes);
    if (op->after == NULL)
        return false;
    op->after->n = args->n_after;
    for (size_t i = 0; i < args->n_after; i++)
        op->after->hooks[i] = (struct tci_future_hook){
            .future = tc_future_ref(args->after[i]), .fn = after_settled, .arg = op->after};
    return true;
}

/* A copy of the v-forms' arrays: the caller's may go when the call returns.  False without
 * memory. */
static bool keep_blocks(struct tci_op *op)
{
    const size_t **lists[] = {&op->args.blocks.src_counts, &op->args.blocks.src_offsets,
                              &op->args.blocks.dst_counts, &op->args.blocks.dst_offsets};
    size_t n = op->args.shape.size, bytes;

    if (op->args.blocks.src_counts == NULL)
        return true;
    if (!tci_array_bytes(n, TCI_LEN(lists) * sizeof(size_t), &bytes))
        return false;
    op->blocks_kept = tci_alloc(bytes);
    if (op->blocks_kept == NULL)
        return false;
    for (size_t l = 0; l < TCI_LEN(lists); l++) {
        memcpy(op->blocks_kept + l * n, *lists[l], n * sizeof(size_t));
        *lists[l] = op->blocks_kept + l * n;
    }
    return true;
}

/* Whether to enter it takes no longer than a call may. */
static bool is_short(const struct tci_op *op)
{
    return op->args.count <= SHORT_BYTES &&
           op->args.count * tci_max(op->args.elem_bytes, 1) <= SHORT_BYTES;
}

static void forget_op(struct tci_op *op, struct tci_pool *pool)
{
    tci_free(op->blocks_kept);
    free_stages(op->args.stages);
    if (op->after != NULL)
        after_free(op->after);
    tci_pool_put(pool, op);
}

/* The operation does not begin; future may be NULL. */
static tc_future *fail_start(struct tci_comm *comm, const struct tci_op_args *args,
                             tc_status_t status, tc_future *future)
{
    struct tci_error error = {0};
    char tag[48];

    if (status == TC_ERR_BUSY)
        tci_error_set(&error, status, -1, args->tag, args->name,
                      "%s: %s is still reserved: wait for its operation to end, and release it if "
                      "it does not release itself",
                      args->name, tci_tag_print(args->space, args->tag, tag, sizeof(tag)));
    else
        tci_error_set(&error, status, -1, args->tag, args->name, "%s: no memory left", args->name);
    if (future == NULL)
        return tci_future_failed(comm->context, &error);
    tci_future_settle(future, status, &error);
    return future;
}

/* What an operation is before it begins, field by field: most of its memory, which is a good deal,
 * is of no account yet. */
static void prepare(struct tci_op *op, struct tci_comm *comm)
{
    tci_list_init(&op->link);
    op->comm = comm;
    op->key = (struct tci_key){.tag = 0};
    op->tag = NULL;
    op->state = TCI_OP_NEW;
    op->lanes_next = op->lanes_live = op->xfers_live = 0;
    op->inputs = NULL;
    op->blocks_kept = NULL;
    op->timer.heap_at = 0;
    op->told_ns = op->asked_ns = 0;
    op->live = op->trace_names = op->live_cells = op->old_cells = op->tries = 0;
    op->is_traced = false;
    op->is_marked = true;
    op->is_enrolled = op->is_shown = op->is_warned = op->is_asked = op->is_held = op->is_up = false;
    op->asked = op->judge = op->met = -1;
    op->after = NULL;
    op->error.pub = (tc_error){.status = TC_OK};
    op->error.reason = TC_REASON_NONE;
    op->begin_ns = tci_trace_now();
    op->task.fn = enter;
    op->future = tci_future_new(comm->context, cancel, op);
}

static tc_future *start(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    tc_context *context = comm->context;
    const struct tci_op_args *args = &op->args;
    struct tci_tag_name name = tag_name(args);
    tc_future *future = op->future; /* op may be gone once it is posted */
    tc_status_t status = TC_ERR_ALLOC;

    if (future != NULL && keep_after(op, args) && keep_blocks(op))
        status = tci_space_is_ordered(name.space) ? TC_OK
                                                  : tci_tags_reserve(&comm->tags, &name, &op->tag);
    if (status != TC_OK) {
        future = fail_start(comm, args, status, future);
        forget_op(op, &context->ops);
        return future;
    }
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    if (!is_short(op) || comm->exec->ops->run_or_post == NULL)
        comm->exec->ops->post_remote(comm->exec, &op->task);
    else if (comm->exec->ops->run_or_post(comm->exec, &op->task, op->begin_ns))
        tci_context_owe_turn(context);
    return future;
}

tc_future *tci_op_start(struct tci_comm *comm, const struct tci_op_args *args)
{
    struct tci_op *op = tci_pool_get(&comm->context->ops);

    if (op == NULL) {
        free_stages(args->stages);
        return fail_start(comm, args, TC_ERR_ALLOC, NULL);
    }
    for (size_t l = 0; l < TCI_LANES_ALL; l++)
        op->lanes[l].op = NULL;
    op->args = *args;
    prepare(op, comm);
    return start(op);
}

/* ---- once more ---------------------------------------------------------------------------- */

struct tci_op *tci_op_take_recent(struct tci_comm *comm)
{
    /* acquire: pairs with the release in keep_recent, the loop is done with it */
    return atomic_load_explicit(&comm->recent, memory_order_relaxed) == NULL
               ? NULL
               : atomic_exchange_explicit(&comm->recent, NULL, memory_order_acquire);
}

void tci_op_drop_recent(struct tci_comm *comm, struct tci_op *op)
{
    tci_pool_put(&comm->context->ops, op);
}

tc_future *tci_op_start_again(struct tci_op *op)
{
    prepare(op, op->comm);
    return start(op);
}

bool tci_call_is_equal(const struct tci_call *a, const struct tci_call *b)
{
    return a->count == b->count && a->root == b->root && a->coll == b->coll &&
           a->dtype == b->dtype && a->op == b->op && a->plan == b->plan;
}
