/* trace_flood.c - how many operations of a flood are kept whole in the trace. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events are paid for with tokens, and there is a new one every TOKEN_NS.  While many are left, all
 * operations leave events.  The fewer are left, the fewer operations do: a half, a quarter, … by
 * the highest bits of their marks, which are the same on all ranks; who keeps fewer keeps some of
 * those that the others keep.  So the events of a flood take a constant share of the time, and its
 * beginning is kept whole.
 *
 * What takes long is kept whatever its mark: what is in flight with a mark alone for a tick, which
 * is longer than all else in a flood takes, becomes an operation like all others.
 */
#include "core/base.h"
#include "core/trace.h"

/* An event costs 25 ns, or 60 where the caches are used by others: that is 0.05 to 0.13 %. */
#define TOKEN_NS (48 * TCI_NS_PER_US)
#define TICK_NS  (500 * TCI_NS_PER_US)

/* From FEW on all are kept, and half as many at every STEP below. */
enum { TOKENS = 4096, FEW = TOKENS / 2, STEP = 128, HALVES_MAX = FEW / STEP };

void tci_trace_flood_init(struct tci_trace_flood *flood)
{
    flood->limit = UINT64_MAX;
    flood->tokens = TOKENS;
}

static uint64_t limit_of(int64_t tokens)
{
    if (tokens >= FEW)
        return UINT64_MAX;
    return UINT64_MAX >> (tokens <= 0 ? HALVES_MAX : 1 + (FEW - 1 - tokens) / STEP);
}
static_assert(HALVES_MAX < 64, "a shift");

void tci_trace_flood_limit(struct tci_trace_flood *flood, uint64_t limit)
{
    flood->limit = limit;
    if (limit == UINT64_MAX)
        flood->pause_ns = 0; /* all, whenever they come */
    else if (flood->pause_ns == 0)
        flood->pause_ns = flood->entered_ns + TCI_TRACE_PAUSE_NS;
}

void tci_trace_flood_spend(struct tci_trace_flood *flood, unsigned events)
{
    flood->tokens -= events;
    /* More in a tick than there were: the loop is not turned, and takes calls all the same. */
    if (flood->tokens < 0 && !flood->keeps_all)
        tci_trace_flood_limit(flood, limit_of(0));
}

/* A time among the marks: from here on they are younger. */
static void stamp(struct tci_trace *trace, uint64_t now_ns)
{
    struct tci_trace_head *head = trace->head;
    uint64_t number = tci_word_get(&head->marks);

    if (number == trace->flood.stamped)
        return;
    tci_word_set(&trace->marks[number & trace->mask].word, now_ns & ~UINT64_C(1));
    tci_word_set(&head->stamps, tci_word_get(&head->stamps) + 1);
    tci_word_set(&head->marks, number + 1);
    trace->flood.stamped = number + 1;
}

void tci_trace_flood_tick(struct tci_trace *trace, uint64_t now_ns)
{
    struct tci_trace_flood *flood = &trace->flood;
    uint64_t before_ns = flood->ticked_ns;

    if (flood->limit_before_pause != 0)
        before_ns = now_ns; /* no token is earned while nothing is paid */
    flood->limit_before_pause = 0;
    flood->ticked_ns = now_ns;
    flood->due_ns = now_ns + TICK_NS;
    flood->tokens += (int64_t)tci_min((now_ns - before_ns) / TOKEN_NS, TOKENS);
    if (flood->tokens > TOKENS)
        flood->tokens = TOKENS;
    tci_trace_flood_limit(flood, flood->keeps_all ? UINT64_MAX : limit_of(flood->tokens));
    stamp(trace, now_ns);
    if (flood->promote != NULL && tci_trace_marked(trace) > 0)
        flood->promote(flood->promote_arg, before_ns);
}
