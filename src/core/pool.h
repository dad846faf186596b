/* pool.h - bounded free lists of equal objects, for any thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_POOL_H
#define TCI_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Objects that were freed are kept, up to `keep_max` (1 at least), for the next get.  A get gives
 * memory that is not cleared; the first time it comes from tci_alloc. */
struct tci_pool {
    _Atomic(void *) at_hand; /* one of them, so that most calls take no lock, or NULL */
    pthread_mutex_t lock;
    void *head; /* the first word of a kept object points at the next */
    size_t bytes;
    uint32_t kept, keep_max;
};

int tci_pool_init(struct tci_pool *pool, size_t bytes, uint32_t keep_max); /* 0, or -1 */
void tci_pool_fini(struct tci_pool *pool);
void *tci_pool_get(struct tci_pool *pool);              /* NULL: no memory */
void tci_pool_put(struct tci_pool *pool, void *object); /* NULL is fine */

/* Blocks of scratch memory in power-of-two sizes, reused because a fresh page costs more than
 * the copy it serves.  Loop thread only.  Kept bytes are bounded. */
struct tci_scratch {
    void *head[48];
    size_t kept_bytes, keep_max_bytes;
};

void tci_scratch_init(struct tci_scratch *scratch, size_t keep_max_bytes);
void tci_scratch_fini(struct tci_scratch *scratch);
void *tci_scratch_get(struct tci_scratch *scratch, size_t bytes); /* 64-aligned; NULL: no memory */
void tci_scratch_put(struct tci_scratch *scratch, void *block);   /* NULL is fine */

#endif
