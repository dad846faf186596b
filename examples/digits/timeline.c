/* timeline.c - what all ranks did in a stretch of time, gathered on rank 0. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Events of one rank that are collected, and the ranks up to which transfers are among them: their
 * number grows with the square, and a trace shall stay below a megabyte. */
enum { SPANS_MAX = 8192, TRANSFER_RANKS_MAX = 4 };

struct collector {
    struct span *spans; /* room for SPANS_MAX */
    size_t count;
    uint64_t begin_ns;
    uint64_t end_ns;
    uint32_t rank;
    bool has_transfers;
};

/* What a rank says of itself; all numbers, so that it can be gathered as such. */
struct head {
    uint64_t count;     /* of spans */
    uint64_t boot;      /* tells clocks apart: one running kernel, one clock */
    uint64_t parted_ns; /* when the barrier let this rank go */
};

/* ---- One rank's events ---------------------------------------------------------------------- */

static bool kind_of(const tc_trace_event *event, uint8_t *kind_out)
{
    static const char *const categories[] = {
        [SPAN_APP] = "app", [SPAN_COLLECTIVE] = "collective", [SPAN_TRANSFER] = "transfer"};

    for (uint8_t kind = 0; kind < sizeof categories / sizeof *categories; kind++) {
        if (strcmp(event->category, categories[kind]) == 0) {
            *kind_out = kind;
            return true;
        }
    }
    return false;
}

static void collect(const tc_trace_event *event, void *arg)
{
    struct collector *collector = arg;
    struct span *span = &collector->spans[collector->count];
    uint8_t kind;

    if (collector->count == SPANS_MAX || event->end_ns <= collector->begin_ns ||
        event->end_ns > collector->end_ns || event->end_ns == event->begin_ns ||
        !kind_of(event, &kind) || (kind == SPAN_TRANSFER && !collector->has_transfers))
        return;
    *span = (struct span){.begin_ns = event->begin_ns,
                          .end_ns = event->end_ns,
                          .tag = event->tag,
                          .bytes = event->bytes,
                          .rank = collector->rank,
                          .thread = event->thread,
                          .kind = kind};
    (void)snprintf(span->name, sizeof span->name, "%s", event->name);
    collector->count++;
}

/* 64 bits of the kernel's boot id; 0 where there is none. */
static uint64_t boot_id(void)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    unsigned long long high = 0;
    unsigned low = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%8llx-%4x", &high, &low) != 2)
        high = low = 0;
    (void)fclose(file);
    return high << 32 | low;
}

/* ---- To rank 0 ------------------------------------------------------------------------------ */

static bool exchange_heads(struct world *world, size_t count, struct head *heads)
{
    struct head own = {.count = count, .boot = boot_id()};

    if (!world_wait(world, tc_barrier_async(world->group, TC_TAG_ORDERED, NULL)))
        return false;
    own.parted_ns = tc_trace_now_ns();
    return world_wait(world, tc_allgather_async(world->group, TC_TAG_ORDERED, &own, heads,
                                                sizeof own / sizeof(uint64_t), TC_DTYPE_U64, NULL));
}

static bool send_spans(struct world *world, const struct span *spans, size_t count)
{
    return count == 0 ||
           world_wait(world, tc_send_async(world->group, TC_TAG_ORDERED, spans,
                                           count * sizeof *spans, TC_DTYPE_U8, 0, NULL));
}

/* A rank on another host has another clock; the barrier let both go at about the same time. */
static void shift(struct span *spans, size_t count, uint64_t back_ns)
{
    for (size_t i = 0; i < count; i++) {
        spans[i].begin_ns -= back_ns;
        spans[i].end_ns -= back_ns;
    }
}

/* Rank 0 has its own spans at the beginning already. */
static bool receive_spans(struct world *world, const struct head *heads, struct timeline *timeline)
{
    struct span *at = timeline->spans + heads[0].count;

    for (int rank = 1; rank < world->size; rank++) {
        size_t count = heads[rank].count;

        if (count == 0)
            continue;
        if (!world_wait(world, tc_recv_async(world->group, TC_TAG_ORDERED, at, count * sizeof *at,
                                             TC_DTYPE_U8, rank, NULL)))
            return false;
        if (heads[rank].boot != heads[0].boot) {
            shift(at, count, heads[rank].parted_ns - heads[0].parted_ns);
            timeline->shifted_ranks++;
        }
        at += count;
    }
    return true;
}

static int compare_spans(const void *left, const void *right)
{
    const struct span *a = left;
    const struct span *b = right;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

static void set_range(struct timeline *timeline)
{
    qsort(timeline->spans, timeline->count, sizeof *timeline->spans, compare_spans);
    timeline->begin_ns = timeline->count > 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct span *span = &timeline->spans[i];

        if (span->begin_ns < timeline->begin_ns)
            timeline->begin_ns = span->begin_ns;
        if (span->end_ns > timeline->end_ns)
            timeline->end_ns = span->end_ns;
    }
}

static bool gather(struct world *world, const struct collector *own, struct head *heads,
                   struct timeline *timeline)
{
    if (!exchange_heads(world, own->count, heads))
        return false;
    if (world->rank != 0)
        return send_spans(world, own->spans, own->count);

    for (int rank = 0; rank < world->size; rank++)
        timeline->count += heads[rank].count;
    timeline->spans = calloc(timeline->count + 1, sizeof *timeline->spans);
    if (timeline->spans == NULL) {
        fprintf(stderr, "digits: no memory for the timeline\n");
        return false;
    }
    memcpy(timeline->spans, own->spans, own->count * sizeof *own->spans);
    if (!receive_spans(world, heads, timeline))
        return false;
    set_range(timeline);
    return true;
}

bool timeline_gather(struct world *world, uint64_t begin_ns, uint64_t end_ns,
                     struct timeline *timeline_out)
{
    struct timeline timeline = {.ranks = world->size};
    struct collector own = {.begin_ns = begin_ns,
                            .end_ns = end_ns,
                            .rank = (uint32_t)world->rank,
                            .has_transfers = world->size <= TRANSFER_RANKS_MAX};
    struct head *heads = calloc((size_t)world->size, sizeof *heads);
    bool is_well = false;

    own.spans = calloc(SPANS_MAX, sizeof *own.spans);
    if (own.spans == NULL || heads == NULL) {
        fprintf(stderr, "digits: rank %d: no memory for the timeline\n", world->rank);
    } else {
        tc_trace_visit(world->context, collect, &own);
        is_well = gather(world, &own, heads, &timeline);
    }
    if (is_well)
        *timeline_out = timeline;
    else
        timeline_fini(&timeline);
    free(own.spans);
    free(heads);
    return is_well;
}

void timeline_fini(struct timeline *timeline)
{
    free(timeline->spans);
    timeline->spans = NULL;
}
