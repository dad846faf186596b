/* trace_live.c - the operations in flight, and the peers that they wait for, in the trace. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trace_live.h"

#include "core/trace_op.h"

static void turn(struct tci_trace_live *live)
{
    tci_word_put(&live->turn, tci_word_get(&live->turn) + 1);
}

/* ---- Entries -------------------------------------------------------------------------------- */

/* They are taken in turn, so that one that is free is found at once. */
static uint32_t find_free(struct tci_trace *trace)
{
    uint32_t count = trace->head->tables[TCI_TRACE_LIVE].count;

    for (uint32_t i = 0; trace->live_used < count && i < count; i++) {
        uint32_t at = (trace->live_next + i) % count;

        if (tci_word_get(&trace->live[at].what) >> 56 == TCI_TRACE_LIVE_FREE) {
            trace->live_next = at + 1;
            return at + 1;
        }
    }
    return 0;
}

bool tci_live_take(struct tci_op *op, uint64_t entered_ns)
{
    struct tci_trace *trace = op->comm->trace;
    struct tci_trace_live *live;

    op->live = find_free(trace);
    live = tci_live_of(op);
    if (live == NULL) {
        tci_trace_count(trace, TCI_COUNT_UNSEEN, 1);
        return false;
    }
    trace->live_used++;
    turn(live);
    tci_word_put(&live->group, op->comm->group);
    tci_word_put(&live->tag, op->args.tag);
    tci_word_put(&live->called_ns, op->begin_ns);
    tci_word_put(&live->entered_ns, entered_ns);
    tci_word_put(&live->count, op->args.call.count);
    tci_word_put(&live->call, tci_trace_pack_call(&op->args.call));
    tci_word_put(&live->use_peer, (uint64_t)op->key.use << 32 | (uint32_t)(op->args.peer + 1));
    tci_word_put(&live->open, 0);
    for (size_t c = 0; c < TCI_TRACE_CELL_WORDS; c++)
        tci_word_put(&live->cells[c], 0);
    tci_word_put(&live->what, (uint64_t)TCI_TRACE_LIVE_RUNNING << 56 |
                                  (uint64_t)(op->args.space & 255) << 48 |
                                  (uint64_t)op->trace_names << 16 | (tci_trace_thread() & 0xffff));
    turn(live);
    return true;
}

void tci_live_set_state(struct tci_op *op, enum tci_trace_live_state state)
{
    struct tci_trace_live *live = tci_live_of(op);

    if (live != NULL)
        tci_word_set(&live->what,
                     (tci_word_get(&live->what) & ~(UINT64_C(255) << 56)) | (uint64_t)state << 56);
}

void tci_live_release(struct tci_op *op)
{
    struct tci_trace_live *live = tci_live_of(op);

    if (live == NULL)
        return;
    turn(live);
    tci_word_put(&live->what, 0);
    turn(live);
    op->comm->trace->live_used--;
    op->live = 0;
}

/* ---- What they wait for --------------------------------------------------------------------- */

/* Two cells a word; each of them is the loop's alone, and a reader takes it as it is. */
static void set_cell(struct tci_trace_live *live, uint32_t cell, uint32_t value)
{
    tci_word *word = &live->cells[cell / 2];
    unsigned shift = cell % 2 * 32;
    uint64_t mask = (uint64_t)UINT32_MAX << shift;

    tci_word_set(word, (tci_word_get(word) & ~mask) | (uint64_t)value << shift);
}

static uint32_t get_cell(const struct tci_trace_live *live, uint32_t cell)
{
    return (uint32_t)(tci_word_get(&live->cells[cell / 2]) >> (cell % 2 * 32));
}

static uint32_t cell_of(uint32_t peer, bool is_send)
{
    return (peer + 1) | (is_send ? TCI_TRACE_CELL_SEND : 0);
}

static void count_open(struct tci_trace_live *live, bool is_send, bool is_more)
{
    uint64_t one = is_send ? 1 : UINT64_C(1) << 32, open = tci_word_get(&live->open);

    tci_word_set(&live->open, is_more ? open + one : open - one);
}

uint8_t tci_live_open(struct tci_op *op, uint32_t peer, bool is_send)
{
    struct tci_trace_live *live = tci_live_of(op);
    uint32_t free_cells = ~op->live_cells & ((UINT32_C(1) << TCI_TRACE_CELLS) - 1), cell;

    if (live == NULL)
        return 0;
    count_open(live, is_send, true);
    if (free_cells == 0)
        return 0; /* `open` says that there are more */
    cell = (uint32_t)__builtin_ctz(free_cells);
    op->live_cells |= UINT32_C(1) << cell;
    set_cell(live, cell, cell_of(peer, is_send));
    return (uint8_t)(cell + 1);
}

void tci_live_close(struct tci_op *op, uint8_t place, bool is_send)
{
    struct tci_trace_live *live = tci_live_of(op);

    if (live == NULL)
        return;
    count_open(live, is_send, false);
    if (place == 0)
        return;
    set_cell(live, place - 1u, 0);
    op->live_cells &= ~(UINT32_C(1) << (place - 1));
    op->old_cells &= op->live_cells;
}

/* The transfers that a lane waits for. */
static void add_open(struct tci_op *op, const struct tci_lane *lane)
{
    for (uint64_t left = lane->open & ~lane->ended; left != 0; left &= left - 1) {
        struct tci_step step = {0};

        lane->plan->step(&op->args.shape, lane->base + (uint32_t)__builtin_ctzll(left), &step);
        if (tci_step_is_message(step.kind))
            (void)tci_live_open(op, step.peer, step.kind == TCI_STEP_SEND);
    }
}

void tci_live_add_open(struct tci_op *op)
{
    for (size_t l = 0; l < TCI_LANES_ALL; l++)
        if (op->lanes[l].op != NULL)
            add_open(op, &op->lanes[l]);
    op->old_cells = op->live_cells;
}

uint8_t tci_live_find_open(const struct tci_op *op, uint32_t peer, bool is_send)
{
    const struct tci_trace_live *live = tci_live_of(op);

    for (uint32_t left = live == NULL ? 0 : op->old_cells; left != 0; left &= left - 1) {
        uint32_t cell = (uint32_t)__builtin_ctz(left);

        if (get_cell(live, cell) == cell_of(peer, is_send))
            return (uint8_t)(cell + 1);
    }
    return 0;
}
