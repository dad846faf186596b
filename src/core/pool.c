/* pool.c - free lists of equal objects, and of scratch blocks in power-of-two sizes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pool.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

/* ---- Objects -------------------------------------------------------------------------------- */

static void *next_of(const void *object)
{
    void *next;

    memcpy(&next, object, sizeof(next));
    return next;
}

int tci_pool_init(struct tci_pool *pool, size_t bytes, uint32_t keep_max)
{
    *pool = (struct tci_pool){.bytes = tci_max(bytes, sizeof(void *)), .keep_max = keep_max};
    return pthread_mutex_init(&pool->lock, NULL) == 0 ? 0 : -1;
}

void tci_pool_fini(struct tci_pool *pool)
{
    tci_free(atomic_exchange_explicit(&pool->at_hand, NULL, memory_order_acquire));
    while (pool->head != NULL) {
        void *object = pool->head;

        pool->head = next_of(object);
        tci_free(object);
    }
    pool->kept = 0;
    pthread_mutex_destroy(&pool->lock);
}

void *tci_pool_get(struct tci_pool *pool)
{
    void *object = NULL;

    /* acquire: pairs with the release in tci_pool_put, its last user is done with it */
    if (atomic_load_explicit(&pool->at_hand, memory_order_relaxed) != NULL)
        object = atomic_exchange_explicit(&pool->at_hand, NULL, memory_order_acquire);
    if (object != NULL)
        return object;
    pthread_mutex_lock(&pool->lock);
    object = pool->head;
    if (object != NULL) {
        pool->head = next_of(object);
        pool->kept--;
    }
    pthread_mutex_unlock(&pool->lock);
    return object != NULL ? object : tci_alloc(pool->bytes);
}

void tci_pool_put(struct tci_pool *pool, void *object)
{
    void *none = NULL;
    bool is_kept;

    if (object == NULL)
        return;
    if (atomic_load_explicit(&pool->at_hand, memory_order_relaxed) == NULL &&
        atomic_compare_exchange_strong_explicit(&pool->at_hand, &none, object, memory_order_release,
                                                memory_order_relaxed))
        return;
    pthread_mutex_lock(&pool->lock);
    is_kept = pool->kept + 1 < pool->keep_max; /* and the one at hand */
    if (is_kept) {
        memcpy(object, &pool->head, sizeof(pool->head));
        pool->head = object;
        pool->kept++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!is_kept)
        tci_free(object);
}

/* ---- Scratch -------------------------------------------------------------------------------- */

#define HEADER_BYTES 64u
#define CLASS_MIN    6u  /* a cache line */
#define CLASS_HUGE   21u /* a huge page; from here on blocks are mappings of their own */

/* Lies in the 64 bytes before a block. */
struct header {
    void *next; /* block in the free list of its class */
    unsigned class;
};

static_assert(sizeof(struct header) <= HEADER_BYTES, "the header fits before the block");
static_assert((size_t)1 << CLASS_HUGE == TCI_HUGE_BYTES, "huge blocks are whole huge pages");

static struct header *header_of(void *block)
{
    return (struct header *)((char *)block - HEADER_BYTES);
}

static unsigned class_of(size_t bytes)
{
    if (bytes <= (size_t)1 << CLASS_MIN)
        return CLASS_MIN;
    return 64u - (unsigned)__builtin_clzll((unsigned long long)bytes - 1);
}

static void *make_block(unsigned class)
{
    size_t bytes = (size_t)1 << class;
    char *memory;

    if (class >= CLASS_HUGE) {
        memory = tci_alloc_huge(bytes);
    } else {
        memory = tci_alloc_raw(bytes + HEADER_BYTES);
        memory = memory == NULL ? NULL : memory + HEADER_BYTES;
    }
    if (memory != NULL)
        *header_of(memory) = (struct header){.class = class};
    return memory;
}

static void free_block(void *block)
{
    unsigned class = header_of(block)->class;

    if (class >= CLASS_HUGE)
        tci_free_huge(block, (size_t)1 << class);
    else
        tci_free(header_of(block));
}

void tci_scratch_init(struct tci_scratch *scratch, size_t keep_max_bytes)
{
    *scratch = (struct tci_scratch){.keep_max_bytes = keep_max_bytes};
}

void tci_scratch_fini(struct tci_scratch *scratch)
{
    for (size_t class = 0; class < TCI_LEN(scratch->head); class ++) {
        while (scratch->head[class] != NULL) {
            void *block = scratch->head[class];

            scratch->head[class] = header_of(block)->next;
            free_block(block);
        }
    }
    scratch->kept_bytes = 0;
}

void *tci_scratch_get(struct tci_scratch *scratch, size_t bytes)
{
    unsigned class = class_of(bytes);
    void *block;

    if (class >= TCI_LEN(scratch->head))
        return NULL;
    block = scratch->head[class];
    if (block == NULL)
        return make_block(class);
    scratch->head[class] = header_of(block)->next;
    scratch->kept_bytes -= (size_t)1 << class;
    return block;
}

void tci_scratch_put(struct tci_scratch *scratch, void *block)
{
    struct header *header;
    size_t bytes;

    if (block == NULL)
        return;
    header = header_of(block);
    TC_ASSERT(header->class >= CLASS_MIN && header->class < TCI_LEN(scratch->head));
    bytes = (size_t)1 << header->class;
    if (bytes > scratch->keep_max_bytes - scratch->kept_bytes) {
        free_block(block);
        return;
    }
    header->next = scratch->head[header->class];
    scratch->head[header->class] = block;
    scratch->kept_bytes += bytes;
}
