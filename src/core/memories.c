/* memories.c - a list of what others may map: few, and looked at for long messages alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memories.h"

#include <pthread.h>
#include <stdatomic.h>

static struct {
    pthread_mutex_t lock;
    struct tci_memory *first;
    struct tci_memories_watch *watches;
    uint64_t lives;
    atomic_size_t count; /* so that programs without any take no lock */
} memories = {.lock = PTHREAD_MUTEX_INITIALIZER};

void tci_memories_add(struct tci_memory *memory)
{
    pthread_mutex_lock(&memories.lock);
    memory->life = ++memories.lives;
    memory->prev = NULL;
    memory->next = memories.first;
    if (memory->next != NULL)
        memory->next->prev = memory;
    memories.first = memory;
    pthread_mutex_unlock(&memories.lock);
    atomic_fetch_add_explicit(&memories.count, 1, memory_order_relaxed);
}

void tci_memories_del(struct tci_memory *memory)
{
    pthread_mutex_lock(&memories.lock);
    if (memory->prev != NULL)
        memory->prev->next = memory->next;
    else
        memories.first = memory->next;
    if (memory->next != NULL)
        memory->next->prev = memory->prev;
    for (struct tci_memories_watch *watch = memories.watches; watch != NULL; watch = watch->next)
        watch->gone(watch, memory);
    pthread_mutex_unlock(&memories.lock);
    atomic_fetch_sub_explicit(&memories.count, 1, memory_order_relaxed);
}

void tci_memories_watch(struct tci_memories_watch *watch)
{
    pthread_mutex_lock(&memories.lock);
    watch->prev = NULL;
    watch->next = memories.watches;
    if (watch->next != NULL)
        watch->next->prev = watch;
    memories.watches = watch;
    pthread_mutex_unlock(&memories.lock);
}

void tci_memories_unwatch(struct tci_memories_watch *watch)
{
    pthread_mutex_lock(&memories.lock);
    if (watch->prev != NULL)
        watch->prev->next = watch->next;
    else
        memories.watches = watch->next;
    if (watch->next != NULL)
        watch->next->prev = watch->prev;
    pthread_mutex_unlock(&memories.lock);
}

bool tci_memories_find(const void *data, size_t len, struct tci_memory *copy_out)
{
    const struct tci_memory *memory;
    uintptr_t at = (uintptr_t)data;
    bool is_found = false;

    /* relaxed: whoever uses memory has seen it made */
    if (atomic_load_explicit(&memories.count, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&memories.lock);
    for (memory = memories.first; memory != NULL && !is_found; memory = memory->next) {
        uintptr_t begin = (uintptr_t)memory->data;

        is_found = at >= begin && len <= memory->bytes && at - begin <= memory->bytes - len;
        if (is_found)
            *copy_out = *memory;
    }
    pthread_mutex_unlock(&memories.lock);
    return is_found;
}
