/* heap.c - binary heap of timers that know their places. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/heap.h"

#include <stdbool.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

#define ROOM_FIRST 16u

static void place(struct tci_heap *heap, size_t at, struct tci_timer *timer)
{
    heap->slots[at] = timer;
    timer->heap_at = at + 1;
}

/* Move the hole at `at` up or down until `timer` fits into it. */
static void sift(struct tci_heap *heap, size_t at, struct tci_timer *timer)
{
    while (at > 0 && timer->deadline_ns < heap->slots[(at - 1) / 2]->deadline_ns) {
        place(heap, at, heap->slots[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            heap->slots[child + 1]->deadline_ns < heap->slots[child]->deadline_ns)
            child++;
        if (timer->deadline_ns <= heap->slots[child]->deadline_ns)
            break;
        place(heap, at, heap->slots[child]);
        at = child;
    }
    place(heap, at, timer);
}

static bool reserve(struct tci_heap *heap)
{
    size_t room = heap->room == 0 ? ROOM_FIRST : 2 * heap->room;
    struct tci_timer **slots;

    if (heap->count < heap->room)
        return true;
    slots = tci_realloc_array(heap->slots, room, sizeof(struct tci_timer *));
    if (slots == NULL)
        return false;
    heap->slots = slots;
    heap->room = room;
    return true;
}

void tci_heap_fini(struct tci_heap *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        heap->slots[i]->heap_at = 0;
    tci_free(heap->slots);
    *heap = (struct tci_heap){0};
}

int tci_heap_set(struct tci_heap *heap, struct tci_timer *timer, uint64_t deadline_ns)
{
    if (timer->heap_at == 0) {
        if (!reserve(heap))
            return -1;
        heap->count++;
        timer->heap_at = heap->count;
    }
    TC_ASSERT(timer->heap_at <= heap->count);
    timer->deadline_ns = deadline_ns;
    sift(heap, timer->heap_at - 1, timer);
    return 0;
}

void tci_heap_clear(struct tci_heap *heap, struct tci_timer *timer)
{
    size_t at = timer->heap_at - 1;

    if (timer->heap_at == 0)
        return;
    TC_ASSERT(at < heap->count && heap->slots[at] == timer);
    timer->heap_at = 0;
    heap->count--;
    if (at < heap->count)
        sift(heap, at, heap->slots[heap->count]);
}

struct tci_timer *tci_heap_first(const struct tci_heap *heap)
{
    return heap->count == 0 ? NULL : heap->slots[0];
}
