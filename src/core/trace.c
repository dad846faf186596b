/* trace.c - ring of the last events, written by any thread, read without stopping them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trace.h"

#include <string.h>
#include <time.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/context.h"
#include "core/error.h"
#include "tcdist/trace.h"

static const struct {
    const char *name, *category;
    bool has_bytes;
} kinds[] = {
    [TCI_TRACE_OP] = {"op", "collective", true},
    [TCI_TRACE_OP_FAIL] = {"op.fail", "collective", false},
    [TCI_TRACE_XFER_END] = {"xfer.end", "transfer", true},
    [TCI_TRACE_FOLD] = {"fold", "step", true},
    [TCI_TRACE_EAGER_COPY] = {"eager.copy", "transfer", true},
    [TCI_TRACE_APP] = {"span", "app", false},
    [TCI_TRACE_CALL] = {"call", "call", false},
    [TCI_TRACE_RUN] = {"run", "call", false},
    [TCI_TRACE_LINK] = {"link", "link", false},
    [TCI_TRACE_STALL] = {"stall", "loop", false},
    [TCI_TRACE_BREAK] = {"break", "group", false},
    [TCI_TRACE_DONE] = {"op", "collective", true},
};
static_assert(TCI_LEN(kinds) == TCI_TRACE_KINDS, "every kind has a name");

/* ---- The image ------------------------------------------------------------------------------ */

/* Entries of the tables for a ring of so many slots: what 8192 events need, and little of a trace
 * that is little. */
struct shape {
    size_t slots;
    uint32_t counts[TCI_TRACE_TABLES];
};

static uint32_t share(size_t slots, size_t divisor, size_t least, size_t most)
{
    return (uint32_t)tci_min(tci_max(slots / divisor, least), most);
}

static bool shape_of(size_t events, struct shape *shape)
{
    size_t slots = 1;

    while (slots < events) {
        if (slots > UINT32_MAX / 4)
            return false;
        slots *= 2;
    }
    shape->slots = slots;
    shape->counts[TCI_TRACE_NAMES] = share(slots, 16, 16, 512);
    shape->counts[TCI_TRACE_GROUPS] = share(slots, 128, 1, 64);
    shape->counts[TCI_TRACE_LINKS] = share(slots, 16, 1, 1024);
    shape->counts[TCI_TRACE_LIVE] = share(slots, 32, 1, 256);
    shape->counts[TCI_TRACE_SLOTS] = (uint32_t)slots;
    shape->counts[TCI_TRACE_MARKS] = (uint32_t)slots;
    return true;
}

static size_t bytes_of(const struct shape *shape)
{
    size_t bytes = TCI_TRACE_HEAD_BYTES;

    for (size_t t = 0; t < TCI_TRACE_TABLES; t++)
        bytes += (size_t)shape->counts[t] * tci_trace_entry_bytes(t);
    return bytes;
}

size_t tci_trace_bytes(size_t events)
{
    struct shape shape;

    return shape_of(events, &shape) ? bytes_of(&shape) : 0;
}

static void *place_of(const struct tci_trace *trace, enum tci_trace_table table)
{
    return (char *)trace->head + trace->head->tables[table].offset;
}

static void lay_out(struct tci_trace *trace, const struct shape *shape)
{
    struct tci_trace_head *head = trace->head;
    uint64_t offset = TCI_TRACE_HEAD_BYTES;

    head->version = TCI_TRACE_VERSION;
    head->head_bytes = TCI_TRACE_HEAD_BYTES;
    head->file_bytes = bytes_of(shape);
    for (size_t t = 0; t < TCI_TRACE_TABLES; t++) {
        uint32_t each = tci_trace_entry_bytes(t);

        head->tables[t] = (struct tci_trace_table_place){offset, shape->counts[t], each};
        offset += (uint64_t)shape->counts[t] * each;
    }
    trace->names = place_of(trace, TCI_TRACE_NAMES);
    trace->groups = place_of(trace, TCI_TRACE_GROUPS);
    trace->links = place_of(trace, TCI_TRACE_LINKS);
    trace->live = place_of(trace, TCI_TRACE_LIVE);
    trace->slots = place_of(trace, TCI_TRACE_SLOTS);
    trace->marks = place_of(trace, TCI_TRACE_MARKS);
    trace->mask = shape->slots - 1;
    /* Last: before it is no trace. */
    memcpy(head->magic, TCI_TRACE_MAGIC, sizeof(head->magic));
}

struct tci_trace *tci_trace_new_in(size_t events, void *image)
{
    struct tci_trace *trace;
    struct shape shape;

    if (!shape_of(events, &shape))
        return NULL;
    trace = tci_alloc(sizeof(*trace));
    if (trace == NULL)
        return NULL;
    trace->pointers = tci_alloc_array(shape.counts[TCI_TRACE_NAMES], sizeof(*trace->pointers));
    if (trace->pointers == NULL) {
        tci_free(trace);
        return NULL;
    }
    trace->head = image;
    lay_out(trace, &shape);
    tci_trace_flood_init(&trace->flood);
    return trace;
}

struct tci_trace *tci_trace_new(size_t events)
{
    size_t bytes = tci_trace_bytes(events);
    void *image = bytes == 0 ? NULL : tci_alloc(bytes);
    struct tci_trace *trace = image == NULL ? NULL : tci_trace_new_in(events, image);

    if (trace == NULL)
        tci_free(image);
    else
        trace->owns_image = true;
    return trace;
}

void tci_trace_free(struct tci_trace *trace)
{
    if (trace == NULL)
        return;
    if (trace->on_end != NULL)
        trace->on_end(trace);
    if (trace->owns_image)
        tci_free(trace->head);
    tci_free((void *)trace->pointers);
    tci_free(trace);
}

/* ---- Names ---------------------------------------------------------------------------------- */

/* As words: another thread may copy the table meanwhile. */
static void write_name(struct tci_trace_name *entry, const char *name)
{
    char text[TCI_TRACE_NAME_WORDS * sizeof(uint64_t)] = {0};
    size_t len = strlen(name);
    uint64_t words[TCI_TRACE_NAME_WORDS];

    memcpy(text, name, tci_min(len, sizeof(text) - 1));
    memcpy(words, text, sizeof(words));
    for (size_t w = 0; w < TCI_TRACE_NAME_WORDS; w++)
        tci_word_set(&entry->text[w], words[w]);
}

/* A hash table by address, without removal. */
uint32_t tci_trace_name_number(struct tci_trace *trace, const char *name)
{
    uint32_t count = trace->head->tables[TCI_TRACE_NAMES].count;
    uint32_t free_count = count - TCI_TRACE_NAME_OTHER - 1;
    uint64_t hash = ((uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    uint32_t at = (uint32_t)((hash * free_count) >> 32);

    if (name == NULL)
        return TCI_TRACE_NAME_NONE;
    for (uint32_t i = 0; i < free_count; i++, at = at + 1 < free_count ? at + 1 : 0) {
        uint32_t number = TCI_TRACE_NAME_OTHER + 1 + at;
        /* acquire: who finds a name may read what it points at */
        const char *there = atomic_load_explicit(&trace->pointers[number], memory_order_acquire);

        if (there == name)
            return number;
        if (there != NULL)
            continue;
        /* release: pairs with the acquires here and in name_of */
        if (atomic_compare_exchange_strong_explicit(&trace->pointers[number], &there, name,
                                                    memory_order_acq_rel, memory_order_acquire))
            write_name(&trace->names[number], name);
        else if (there != name)
            continue;
        return number;
    }
    return TCI_TRACE_NAME_OTHER;
}

/* The string of a number, or NULL. */
static const char *name_of(const struct tci_trace *trace, uint32_t number)
{
    if (number == TCI_TRACE_NAME_NONE || number >= trace->head->tables[TCI_TRACE_NAMES].count)
        return NULL;
    if (number == TCI_TRACE_NAME_OTHER)
        return "other";
    return atomic_load_explicit(&trace->pointers[number], memory_order_acquire);
}

/* ---- Writing -------------------------------------------------------------------------------- */

uint32_t tci_trace_thread(void)
{
    static atomic_uint threads; /* relaxed: a counter */
    static _Thread_local uint32_t number;

    if (number == 0)
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    return number;
}

uint64_t tci_trace_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * TCI_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* acquire: pairs with the release in tci_word_put; whoever reads a field that was written after a
 * claim finds the claimed turn, or a later one, when it looks again.  (A fence would say the same;
 * the thread sanitizer does not know fences.) */
#define GET(field) atomic_load_explicit(&(field), memory_order_acquire)

static uint64_t pack_what(struct tci_trace *trace, const struct tci_trace_record *record)
{
    uint32_t names = record->names != 0 ? record->names
                                        : tci_trace_names(trace, record->name, record->algorithm);

    return (uint64_t)record->kind << 56 | (uint64_t)(record->space & 255) << 48 |
           (uint64_t)names << 16 | (tci_trace_thread() & 0xffff);
}

struct tci_trace_slot *tci_trace_claim(struct tci_trace *trace, uint64_t *number_out)
{
    struct tci_trace_slot *slot;
    uint64_t number, turn;

    if (tci_trace_is_paused(trace))
        return NULL;
    /* relaxed: a counter */
    number = atomic_fetch_add_explicit(&trace->head->next, 1, memory_order_relaxed);
    slot = &trace->slots[number & trace->mask];
    turn = atomic_load_explicit(&slot->turn, memory_order_relaxed);
    /* A writer that was overtaken by a whole ring, or meets one that was, drops its event rather
     * than wait.  acquire: our stores stay behind the claim. */
    if (turn % 2 != 0 || turn > 2 * number ||
        !atomic_compare_exchange_strong_explicit(&slot->turn, &turn, 2 * number + 1,
                                                 memory_order_acquire, memory_order_relaxed))
        return NULL;
    /* The next one has not been touched for a whole ring. */
    __builtin_prefetch(&trace->slots[(number + 1) & trace->mask], 1);
    __builtin_prefetch((char *)&trace->slots[(number + 1) & trace->mask] + 64, 1);
    *number_out = number;
    return slot;
}

void tci_trace_add(struct tci_trace *trace, const struct tci_trace_record *record)
{
    struct tci_trace_slot *slot;
    uint64_t number;

    TC_ASSERT((unsigned)record->kind < TCI_TRACE_KINDS);
    slot = tci_trace_claim(trace, &number);
    if (slot == NULL)
        return;
    tci_word_put(&slot->begin_ns, record->begin_ns);
    tci_word_put(&slot->end_ns, record->end_ns);
    tci_word_put(&slot->tag, record->tag);
    tci_word_put(&slot->group, record->group);
    tci_word_put(&slot->a, record->a);
    tci_word_put(&slot->b, record->b);
    tci_word_put(&slot->what, pack_what(trace, record));
    tci_word_put(&slot->rank_peer,
                 (uint64_t)(uint32_t)(record->rank + 1) << 32 | (uint32_t)(record->peer + 1));
    tci_word_put(&slot->use_step, (uint64_t)record->use << 32 | record->step);
    tci_trace_commit(slot, number);
}

uint64_t tc_trace_now_ns(void)
{
    return tci_trace_now();
}

void tc_trace_span(tc_context *context, const char *name, uint64_t id, uint64_t begin_ns)
{
    struct tci_trace_record record = {.kind = TCI_TRACE_APP,
                                      .rank = -1,
                                      .peer = -1,
                                      .name = name,
                                      .begin_ns = begin_ns,
                                      .end_ns = tci_trace_now(),
                                      .tag = id};

    if (context != NULL && context->trace != NULL && !tci_context_is_foreign(context))
        tci_trace_add(context->trace, &record);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static void describe(const struct tci_trace *trace, uint64_t what, uint64_t a,
                     tc_trace_event *event)
{
    unsigned kind = (unsigned)(what >> 56);

    event->name = name_of(trace, what >> 32 & 0xffff);
    event->algorithm = name_of(trace, what >> 16 & 0xffff);
    event->thread = (uint32_t)(what & 0xffff);
    if (event->name == NULL)
        event->name = kinds[kind].name;
    event->category = kinds[kind].category;
    event->bytes = kinds[kind].has_bytes ? a : 0;
}

/* The call of an event that has both. */
static tc_trace_event call_of(const tc_trace_event *event, uint32_t entered_after_ns)
{
    tc_trace_event call = *event;

    call.category = kinds[TCI_TRACE_CALL].category;
    call.end_ns = event->begin_ns + entered_after_ns;
    call.bytes = 0;
    return call;
}

/* Event number `number`, and the call that it has besides, where that has a category; false when it
 * is not complete, or gone. */
static bool read_slot(struct tci_trace *trace, uint64_t number, tc_trace_event *event,
                      tc_trace_event *call)
{
    struct tci_trace_slot *slot = &trace->slots[number & trace->mask];
    uint64_t a, what, use_step;

    /* acquire: pairs with the store in tci_trace_commit. */
    if (atomic_load_explicit(&slot->turn, memory_order_acquire) != 2 * number + 2)
        return false;
    event->begin_ns = GET(slot->begin_ns);
    event->end_ns = GET(slot->end_ns);
    event->tag = GET(slot->tag);
    a = GET(slot->a);
    what = GET(slot->what);
    use_step = GET(slot->use_step);
    event->rank = (int)(uint32_t)(GET(slot->rank_peer) >> 32) - 1;
    /* relaxed: the acquires above keep it behind them. */
    if (atomic_load_explicit(&slot->turn, memory_order_relaxed) != 2 * number + 2)
        return false;
    describe(trace, what, a, event);
    call->category = NULL;
    if (what >> 56 == TCI_TRACE_DONE)
        *call = call_of(event, (uint32_t)use_step);
    return true;
}

void tc_trace_visit(tc_context *context, void (*fn)(const tc_trace_event *event, void *arg),
                    void *arg)
{
    struct tci_trace *trace = context == NULL ? NULL : context->trace;
    uint64_t end, begin;
    tc_trace_event event, call;

    if (trace == NULL || fn == NULL)
        return;
    end = GET(trace->head->next);
    begin = end > trace->mask + 1 ? end - trace->mask - 1 : 0;
    for (uint64_t number = begin; number < end; number++) {
        if (!read_slot(trace, number, &event, &call))
            continue;
        if (call.category != NULL)
            fn(&call, arg);
        fn(&event, arg);
    }
}
