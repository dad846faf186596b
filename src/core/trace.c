/* trace.c - ring of the last events, written by any thread, read without stopping them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trace.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/context.h"
#include "core/error.h"
#include "tcdist/trace.h"

/* One event.  `turn` is odd while it is written: 2 * n + 1 before and 2 * n + 2 after the event
 * number n.  The fields are atomic, so that a reader who is overtaken reads nonsense, and not
 * undefined; it sees by `turn` that it was. */
struct slot {
    atomic_uint_fast64_t turn;
    _Atomic(const char *) name, algorithm;
    atomic_uint_fast64_t begin_ns, end_ns, tag, a;
    atomic_uint kind;
    atomic_int rank;
    atomic_uint thread;
};

struct tci_trace {
    atomic_uint_fast64_t next; /* number of the next event */
    uint64_t mask;             /* slots - 1 */
    struct slot slots[];
};

static const struct {
    const char *name, *category;
} kinds[] = {
    [TCI_TRACE_OP] = {"op", "collective"},
    [TCI_TRACE_OP_FAIL] = {"op.fail", "collective"},
    [TCI_TRACE_XFER_END] = {"xfer.end", "transfer"},
    [TCI_TRACE_FOLD] = {"fold", "step"},
    [TCI_TRACE_EAGER_COPY] = {"eager.copy", "transfer"},
    [TCI_TRACE_APP] = {"span", "app"},
};
static_assert(TCI_LEN(kinds) == TCI_TRACE_KINDS, "every kind has a name");

/* ---- Writing -------------------------------------------------------------------------------- */

static uint32_t thread_number(void)
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
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct tci_trace *tci_trace_new(size_t events)
{
    struct tci_trace *trace;
    size_t slots = 1, bytes;

    while (slots < events) {
        if (slots > SIZE_MAX / 2)
            return NULL;
        slots *= 2;
    }
    if (!tci_array_bytes(slots, sizeof(struct slot), &bytes) || bytes > SIZE_MAX - sizeof(*trace))
        return NULL;
    trace = tci_alloc(sizeof(*trace) + bytes);
    if (trace != NULL)
        trace->mask = slots - 1;
    return trace;
}

void tci_trace_free(struct tci_trace *trace)
{
    tci_free(trace);
}

/* release and acquire: whoever reads a field that was written after a claim finds the claimed turn,
 * or a later one, when it looks again.  (A fence would say the same; the thread sanitizer does not
 * know fences.) */
#define PUT(field, value) atomic_store_explicit(&(field), (value), memory_order_release)
#define GET(field)        atomic_load_explicit(&(field), memory_order_acquire)

void tci_trace_add(struct tci_trace *trace, const struct tci_trace_record *record)
{
    uint64_t number = atomic_fetch_add_explicit(&trace->next, 1, memory_order_relaxed);
    struct slot *slot = &trace->slots[number & trace->mask];
    uint_fast64_t turn = atomic_load_explicit(&slot->turn, memory_order_relaxed);

    TC_ASSERT((unsigned)record->kind < TCI_TRACE_KINDS);
    /* A writer that was overtaken by a whole ring, or meets one that was, drops its event rather
     * than wait.  acquire: our stores stay behind the claim. */
    if (turn % 2 != 0 || turn > 2 * number ||
        !atomic_compare_exchange_strong_explicit(&slot->turn, &turn, 2 * number + 1,
                                                 memory_order_acquire, memory_order_relaxed))
        return;
    PUT(slot->name, record->name);
    PUT(slot->algorithm, record->algorithm);
    PUT(slot->begin_ns, record->begin_ns);
    PUT(slot->end_ns, record->end_ns);
    PUT(slot->tag, record->tag);
    PUT(slot->a, record->a);
    PUT(slot->kind, (unsigned)record->kind);
    PUT(slot->rank, record->rank);
    PUT(slot->thread, thread_number());
    /* release: pairs with the acquire in read_slot, the fields are complete. */
    atomic_store_explicit(&slot->turn, 2 * number + 2, memory_order_release);
}

uint64_t tc_trace_now_ns(void)
{
    return tci_trace_now();
}

void tc_trace_span(tc_context *context, const char *name, uint64_t id, uint64_t begin_ns)
{
    struct tci_trace_record record = {.kind = TCI_TRACE_APP,
                                      .rank = -1,
                                      .name = name,
                                      .begin_ns = begin_ns,
                                      .end_ns = tci_trace_now(),
                                      .tag = id};

    if (context != NULL && context->trace != NULL)
        tci_trace_add(context->trace, &record);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static void describe(tc_trace_event *event, unsigned kind, uint64_t a)
{
    if (event->name == NULL)
        event->name = kinds[kind].name;
    event->category = kinds[kind].category;
    event->bytes = kind == TCI_TRACE_OP_FAIL ? 0 : a;
}

/* Event number `number`; false when it is not complete, or gone. */
static bool read_slot(struct tci_trace *trace, uint64_t number, tc_trace_event *event)
{
    struct slot *slot = &trace->slots[number & trace->mask];
    unsigned kind;
    uint64_t a;

    /* acquire: pairs with the last store in tci_trace_add. */
    if (atomic_load_explicit(&slot->turn, memory_order_acquire) != 2 * number + 2)
        return false;
    event->name = GET(slot->name);
    event->algorithm = GET(slot->algorithm);
    event->begin_ns = GET(slot->begin_ns);
    event->end_ns = GET(slot->end_ns);
    event->tag = GET(slot->tag);
    a = GET(slot->a);
    kind = GET(slot->kind);
    event->rank = GET(slot->rank);
    event->thread = GET(slot->thread);
    /* relaxed: the acquires above keep it behind them. */
    if (atomic_load_explicit(&slot->turn, memory_order_relaxed) != 2 * number + 2)
        return false;
    describe(event, kind, a);
    return true;
}

void tc_trace_visit(tc_context *context, void (*fn)(const tc_trace_event *event, void *arg),
                    void *arg)
{
    struct tci_trace *trace = context == NULL ? NULL : context->trace;
    uint64_t end, begin;
    tc_trace_event event;

    if (trace == NULL || fn == NULL)
        return;
    end = GET(trace->next);
    begin = end > trace->mask + 1 ? end - trace->mask - 1 : 0;
    for (uint64_t number = begin; number < end; number++) {
        if (read_slot(trace, number, &event))
            fn(&event, arg);
    }
}
