/* trace_op.c - what an operation leaves in the trace, from its call to its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trace_op.h"

#include "core/base.h"
#include "core/comm.h"

uint64_t tci_trace_pack_call(const struct tci_call *call)
{
    return (uint64_t)(uint32_t)call->root << 32 | (uint64_t)call->coll << 24 |
           (uint64_t)call->dtype << 16 | (uint64_t)call->op << 8 | call->plan;
}

uint64_t tci_trace_recent(struct tci_comm *comm)
{
    if (comm->recent_ns == 0 || tci_trace_is_paused(comm->context->trace))
        comm->recent_ns = tci_trace_begin(comm->context->trace);
    return comm->recent_ns;
}

void tci_trace_forget_time(struct tci_comm *comm)
{
    comm->recent_ns = 0;
}

static struct tci_trace *trace_of(const struct tci_op *op)
{
    return op->comm->context->trace;
}

static struct tci_trace_live *live_of(const struct tci_op *op)
{
    return op->live == 0 ? NULL : &trace_of(op)->live[op->live - 1];
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

/* release: whoever reads a word of this turn finds the odd turn, or a later one. */
static void put(tci_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

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
    struct tci_trace_slot *slot = tci_trace_claim(comm->context->trace, &number);

    if (slot == NULL)
        return;
    put(&slot->begin_ns, event->begin_ns);
    put(&slot->end_ns, event->end_ns);
    put(&slot->tag, op->args.tag);
    put(&slot->group, comm->group);
    put(&slot->a, event->a);
    put(&slot->b, event->b);
    put(&slot->what, (uint64_t)event->kind << 56 | (uint64_t)(op->args.space & 255) << 48 |
                         (uint64_t)event->names << 16 | (tci_trace_thread() & 0xffff));
    put(&slot->rank_peer,
        (uint64_t)(uint32_t)(comm->shown_rank + 1) << 32 | (uint32_t)(event->peer + 1));
    put(&slot->use_step, (uint64_t)op->key.use << 32 | event->step);
    tci_trace_commit(slot, number);
}

/* ---- In flight ------------------------------------------------------------------------------ */

static uint64_t bytes_of(const struct tci_op *op)
{
    return (uint64_t)op->args.count * op->args.elem_bytes;
}

static uint64_t what_of(const struct tci_op *op, enum tci_trace_live_state state)
{
    return (uint64_t)state << 56 | (uint64_t)(op->args.space & 255) << 48 |
           (uint64_t)op->trace_names << 16 | (tci_trace_thread() & 0xffff);
}

/* The entry is taken in turn, so that one that is free is found at once. */
static uint32_t find_free(struct tci_trace *trace)
{
    uint32_t count = trace->head->tables[TCI_TRACE_LIVE].count;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (trace->live_next + i) % count;

        if (tci_word_get(&trace->live[at].what) >> 56 == TCI_TRACE_LIVE_FREE) {
            trace->live_next = at + 1;
            return at + 1;
        }
    }
    return 0;
}

static void take_live(struct tci_op *op, uint64_t now)
{
    struct tci_trace *trace = trace_of(op);
    struct tci_trace_live *live;

    op->live = trace->live_used == trace->head->tables[TCI_TRACE_LIVE].count ? 0 : find_free(trace);
    live = live_of(op);
    if (live == NULL) {
        tci_trace_count(trace, TCI_COUNT_UNSEEN, 1);
        return;
    }
    trace->live_used++;
    put(&live->turn, tci_word_get(&live->turn) + 1);
    put(&live->group, op->comm->group);
    put(&live->tag, op->args.tag);
    put(&live->called_ns, op->begin_ns);
    put(&live->entered_ns, now);
    put(&live->count, op->args.call.count);
    put(&live->call, tci_trace_pack_call(&op->args.call));
    put(&live->use_peer, (uint64_t)op->key.use << 32 | (uint32_t)(op->args.peer + 1));
    put(&live->moved, 0);
    put(&live->moved_ns, 0);
    put(&live->open, 0);
    for (size_t c = 0; c < TCI_TRACE_CELL_WORDS; c++)
        put(&live->cells[c], 0);
    put(&live->what, what_of(op, TCI_TRACE_LIVE_RUNNING));
    put(&live->turn, tci_word_get(&live->turn) + 1);
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
void tci_trace_op_enter(struct tci_op *op)
{
    struct tci_trace *trace = trace_of(op);
    uint64_t now;

    if (tci_trace_is_paused(trace))
        return;
    now = op->comm->recent_ns = op->comm->last.at_ns;
    op->trace_names = names_of(op);
    tci_trace_count(trace, TCI_COUNT_BEGUN, 1);
    take_live(op, now);
    if (live_of(op) == NULL)
        add_call(op, now);
}

void tci_trace_op_state(struct tci_op *op, enum tci_trace_live_state state)
{
    struct tci_trace_live *live = live_of(op);

    if (live == NULL)
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
    tci_word_set(&live->what,
                 (tci_word_get(&live->what) & ~(UINT64_C(255) << 56)) | (uint64_t)state << 56);
}

/* ---- The end -------------------------------------------------------------------------------- */

void tci_trace_op_fail(struct tci_op *op)
{
    struct tci_trace *trace = trace_of(op);
    uint64_t now = tci_trace_now();
    struct tci_trace_record record = record_of(op, TCI_TRACE_OP_FAIL, now, now);

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

void tci_trace_op_settle(struct tci_op *op, tc_status_t status)
{
    struct tci_trace *trace = trace_of(op);
    struct tci_trace_live *live = live_of(op);
    struct event event;

    if (tci_trace_is_paused(trace))
        return;
    event = (struct event){.kind = TCI_TRACE_OP,
                           .peer = op->args.peer,
                           .names = op->trace_names != 0 ? op->trace_names : names_of(op),
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
    if (live == NULL)
        return;
    put(&live->turn, tci_word_get(&live->turn) + 1);
    put(&live->what, 0);
    put(&live->turn, tci_word_get(&live->turn) + 1);
    trace->live_used--;
    op->live = 0;
}

/* ---- Transfers ------------------------------------------------------------------------------ */

/* Two cells a word; each of them is the loop's alone, and a reader takes it as it is. */
static void set_cell(struct tci_trace_live *live, uint32_t cell, uint32_t value)
{
    tci_word *word = &live->cells[cell / 2];
    unsigned shift = cell % 2 * 32;
    uint64_t mask = (uint64_t)UINT32_MAX << shift;

    tci_word_set(word, (tci_word_get(word) & ~mask) | (uint64_t)value << shift);
}

static void count_open(struct tci_trace_live *live, bool is_send, bool is_more)
{
    uint64_t one = is_send ? 1 : UINT64_C(1) << 32, open = tci_word_get(&live->open);

    tci_word_set(&live->open, is_more ? open + one : open - one);
}

void tci_trace_xfer_post(struct tci_step_xfer *xfer)
{
    struct tci_op *op = xfer->lane->op;
    struct tci_trace_live *live = live_of(op);
    uint32_t free_cells = ~op->live_cells & ((UINT32_C(1) << TCI_TRACE_CELLS) - 1);

    xfer->cell = 0;
    xfer->begin_ns = tci_trace_recent(op->comm);
    if (live == NULL)
        return;
    count_open(live, xfer->x.is_send, true);
    if (free_cells == 0)
        return; /* `open` says that there are more */
    xfer->cell = (uint8_t)(1 + __builtin_ctz(free_cells));
    op->live_cells |= UINT32_C(1) << (xfer->cell - 1);
    set_cell(live, xfer->cell - 1u, (xfer->peer + 1) | (xfer->x.is_send ? TCI_TRACE_CELL_SEND : 0));
}

void tci_trace_xfer_end(struct tci_step_xfer *xfer, tc_status_t status)
{
    struct tci_op *op = xfer->lane->op;
    struct tci_trace_live *live = live_of(op);
    uint64_t now = 0;

    if (status == TC_OK && xfer->begin_ns != 0) {
        struct event event = {.kind = TCI_TRACE_XFER_END,
                              .peer = (int)xfer->peer,
                              .step = xfer->x.key.step,
                              .begin_ns = xfer->begin_ns,
                              .a = xfer->x.len,
                              .b = (uint64_t)xfer->x.key.lane << 1 | xfer->x.is_send};

        event.end_ns = now = tci_trace_recent(op->comm);
        add(op, &event);
    }
    if (live == NULL)
        return;
    count_open(live, xfer->x.is_send, false);
    if (status == TC_OK) {
        tci_word_set(&live->moved, tci_word_get(&live->moved) + xfer->x.len);
        tci_word_set(&live->moved_ns, now);
    }
    if (xfer->cell == 0)
        return;
    set_cell(live, xfer->cell - 1u, 0);
    op->live_cells &= ~(UINT32_C(1) << (xfer->cell - 1));
    xfer->cell = 0;
}
