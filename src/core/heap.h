/* heap.h - intrusive heap of timers, the earliest first. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_HEAP_H
#define TCI_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "core/exec.h"

struct tci_heap {
    struct tci_timer **slots; /* owned; slots[0] is the earliest */
    size_t count, room;
};

void tci_heap_fini(struct tci_heap *heap);
/* Add a timer, or move it to its new deadline.  0, or -1 without memory (the timer is then as
 * before). */
int tci_heap_set(struct tci_heap *heap, struct tci_timer *timer, uint64_t deadline_ns);
/* Take a timer out; harmless when it is not in. */
void tci_heap_clear(struct tci_heap *heap, struct tci_timer *timer);
/* The earliest timer, or NULL. */
struct tci_timer *tci_heap_first(const struct tci_heap *heap);

#endif
