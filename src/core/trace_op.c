/* trace_op.c - what an operation leaves in the trace, from its call to its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trace_op.h"

#include "core/base.h"
#include "core/comm.h"
#include "core/trace_live.h"

uint64_t tci_trace_pack_call(const struct tci_call *call)
{
    return (uint64_t)(uint32_t)call->root << 32 | (uint64_t)call->coll << 24 |
           (uint64_t)call->dtype << 16 | (uint64_t)call->op << 8 | call->plan;
}

uint64_t tci_trace_recent(struct tci_comm *comm)
{
    if (comm->recent_ns == 0)
        comm->recent_ns = tci_trace_now();
    return comm->recent_ns;
}

void tci_trace_forget_time(struct tci_comm *comm)
{
    comm->recent_ns = 0;
}

static struct tci_trace *trace_of(const struct tci_op *op)
{
    return op->comm->trace;
}

/* Of its name and its plan's; mostly those of the last one. */
static uint32_t names_of(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;

    if (comm->traced.name != op->args.name || comm->traced.plan != op->args.plan) {
        comm->traced.name = op->args.name;
        comm->traced.plan = op->args.plan;
        comm->traced.names = tci_trace_names(trace_of(op), op->args.name, op->args.plan->name);
    }
    return comm->traced.names;
}

/* What all events of an operation have. */
static struct tci_trace_record record_of(const struct tci_op *op, enum tci_trace_kind kind,
                                         uint64_t begin_ns, uint64_t end_ns)
{
    return (struct tci_trace_record){.kind = kind,
                                     .rank = op->comm->shown_rank,
                                     .peer = op->args.peer,
                                     .begin_ns = begin_ns,
                                     .end_ns = end_ns,
                                     .tag = op->args.tag,
                                     .group = op->comm->group,
                                     .space = op->args.space,
                                     .use = op->key.use};
}

/* What an entry among those in flight costs, in events. */
enum { LIVE_EVENTS = 2 };
/* So many become whole in a tick: that is 0.3 % of the time. */
enum { PROMOTED_MAX = 16 };

/* What the events that every operation leaves differ in. */
struct event {
    enum tci_trace_kind kind;
    int peer;
    uint32_t names, step;
    uint64_t begin_ns, end_ns, a, b;
};

/* Word by word, and never as a record in memory: three times as fast. */
__attribute__((always_inline)) static inline void add(const struct tci_op *op,
                                                      const struct event *event)
{
    const struct tci_comm *comm = op->comm;
    uint64_t number;
    struct tci_trace_slot *slot = tci_trace_claim(comm->trace, &number);

    if (slot == NULL)
        return;
    tci_trace_flood_spend(&comm->trace->flood, 1);
    tci_word_put(&slot->begin_ns, event->begin_ns);
    tci_word_put(&slot->end_ns, event->end_ns);
    tci_word_put(&slot->tag, op->args.tag);
    tci_word_put(&slot->group, comm->group);
    tci_word_put(&slot->a, event->a);
    tci_word_put(&slot->b, event->b);
    tci_word_put(&slot->what, (uint64_t)event->kind << 56 | (uint64_t)(op->args.space & 255) << 48 |
                                  (uint64_t)event->names << 16 | (tci_trace_thread() & 0xffff));
    tci_word_put(&slot->rank_peer,
                 (uint64_t)(uint32_t)(comm->shown_rank + 1) << 32 | (uint32_t)(event->peer + 1));
    tci_word_put(&slot->use_step, (uint64_t)op->key.use << 32 | event->step);
    tci_trace_commit(slot, number);
}

/* ---- The beginning -------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct tci_op *op)
{
    return (uint64_t)op->args.count * op->args.elem_bytes;
}

static void add_call(const struct tci_op *op, uint64_t entered_ns)
{
    struct event event = {.kind = TCI_TRACE_CALL,
                          .peer = op->args.peer,
                          .names = op->trace_names,
                          .begin_ns = tci_min(op->begin_ns, entered_ns),
                          .end_ns = entered_ns,
                          .a = op->args.call.count,
                          .b = tci_trace_pack_call(&op->args.call)};

    add(op, &event);
}

/* While it is in flight its entry says all that the event of its call would. */
static void show(struct tci_op *op, uint64_t entered_ns)
{
    op->is_traced = true;
    op->trace_names = names_of(op);
    tci_trace_flood_spend(&trace_of(op)->flood, LIVE_EVENTS);
    if (!tci_live_take(op, entered_ns))
        add_call(op, entered_ns);
}

/* One that has had a mark alone becomes an operation like all others. */
static void promote(struct tci_op *op)
{
    if (!op->is_marked)
        return;
    op->is_marked = false;
    trace_of(op)->flood.promoted++;
    show(op, op->entered_ns);
    tci_live_add_open(op);
}

void tci_trace_op_promote(void *arg, uint64_t entered_ns)
{
    tc_context *context = arg;
    struct tci_trace *trace = context->trace;
    uint32_t left = PROMOTED_MAX;

    for (struct tci_list *at = context->comms.next; at != &context->comms; at = at->next) {
        struct tci_comm *comm = tci_container_of(at, struct tci_comm, link);

        /* Oldest first. */
        for (struct tci_list *link = comm->ops.next; link != &comm->ops; link = link->next) {
            struct tci_op *op = tci_container_of(link, struct tci_op, link);

            if (!op->is_marked)
                continue;
            if (op->entered_ns > entered_ns)
                break;
            if (left-- == 0 || trace->live_used == trace->head->tables[TCI_TRACE_LIVE].count)
                return;
            promote(op);
        }
    }
}

void tci_trace_op_keep(struct tci_op *op, uint64_t now_ns)
{
    struct tci_trace *trace = trace_of(op);
    struct tci_trace_flood *flood = &trace->flood;

    op->is_marked = false;
    if (flood->limit == UINT64_MAX && tci_trace_is_paused(trace))
        return;
    flood->entered_ns = now_ns;
    if (flood->limit != UINT64_MAX)
        flood->pause_ns = now_ns + TCI_TRACE_PAUSE_NS;
    op->comm->recent_ns = now_ns;
    tci_trace_count(trace, TCI_COUNT_BEGUN, 1);
    show(op, now_ns);
}

void tci_trace_op_state(struct tci_op *op, enum tci_trace_live_state state)
{
    promote(op);
    if (tci_live_of(op) == NULL)
        return;
    if (state == TCI_TRACE_LIVE_RUNNING) {
        struct tci_trace_record record;
        uint64_t now;

        tci_trace_forget_time(op->comm);
        now = tci_trace_recent(op->comm);
        record = record_of(op, TCI_TRACE_RUN, now, now);

        record.name = op->args.name;
        tci_trace_add(trace_of(op), &record);
    }
    tci_live_set_state(op, state);
}

/* ---- The end -------------------------------------------------------------------------------- */

void tci_trace_op_fail(struct tci_op *op)
{
    struct tci_trace *trace = trace_of(op);
    uint64_t now = tci_trace_now();
    struct tci_trace_record record = record_of(op, TCI_TRACE_OP_FAIL, now, now);

    promote(op);
    record.step = (uint32_t)(op->args.peer + 1);
    record.peer = op->error.pub.rank;
    record.a = (uint64_t)(int64_t)op->error.pub.status;
    tci_trace_add(trace, &record);
    if (trace->on_failure != NULL)
        trace->on_failure(trace->failure_arg, op->error.pub.status);
    tci_trace_op_state(op, TCI_TRACE_LIVE_DRAINING);
}

/* One event for one that ended well, where that has room for all of it. */
static bool add_done(const struct tci_op *op, uint64_t entered_ns, struct event *event)
{
    const struct tci_call *call = &op->args.call;

    if (entered_ns < op->begin_ns || entered_ns - op->begin_ns > UINT32_MAX ||
        event->a != call->count * tc_dtype_size((tc_dtype_t)call->dtype))
        return false;
    event->kind = TCI_TRACE_DONE;
    event->b = tci_trace_pack_call(call);
    event->step = (uint32_t)(entered_ns - op->begin_ns);
    add(op, event);
    return true;
}

void tci_trace_op_end(struct tci_op *op, tc_status_t status)
{
    struct tci_trace *trace = trace_of(op);
    struct tci_trace_live *live = tci_live_of(op);
    struct event event = {.kind = TCI_TRACE_OP,
                          .peer = op->args.peer,
                          .names = op->trace_names,
                          .begin_ns = op->begin_ns,
                          .end_ns = tci_trace_recent(op->comm),
                          .a = bytes_of(op),
                          .b = (uint64_t)(int64_t)status};

    if (live == NULL || status != TC_OK || !add_done(op, tci_word_get(&live->entered_ns), &event)) {
        if (live != NULL)
            add_call(op, tci_word_get(&live->entered_ns));
        add(op, &event);
    }
    tci_trace_count(trace, status == TC_OK ? TCI_COUNT_FINISHED : TCI_COUNT_FAILED, 1);
    if (status == TC_OK)
        tci_trace_count(trace, TCI_COUNT_OP_BYTES, bytes_of(op));
    tci_live_release(op);
}

/* ---- Transfers ------------------------------------------------------------------------------ */

void tci_trace_xfer_begin(struct tci_step_xfer *xfer)
{
    struct tci_op *op = xfer->lane->op;

    xfer->begin_ns = tci_trace_recent(op->comm);
    xfer->cell = tci_live_open(op, xfer->peer, xfer->x.is_send);
}

void tci_trace_xfer_finish(struct tci_step_xfer *xfer, tc_status_t status)
{
    struct tci_op *op = xfer->lane->op;
    bool is_old = xfer->begin_ns == 0; /* it was posted when the operation had a mark alone */

    if (status == TC_OK) {
        struct event event = {.kind = TCI_TRACE_XFER_END,
                              .peer = (int)xfer->peer,
                              .step = xfer->x.key.step,
                              .begin_ns = is_old ? op->entered_ns : xfer->begin_ns,
                              .end_ns = tci_trace_recent(op->comm),
                              .a = xfer->x.len,
                              .b = (uint64_t)xfer->x.key.lane << 1 | xfer->x.is_send};

        add(op, &event);
    }
    if (is_old)
        xfer->cell = tci_live_find_open(op, xfer->peer, xfer->x.is_send);
    tci_live_close(op, xfer->cell, xfer->x.is_send);
}
