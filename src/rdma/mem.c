/* mem.c - registered memory: slabs of ours that are cut into chunks, and the user's own. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To register memory takes long (a page table walk and a word with the device) and is limited, in
 * number by some devices, in bytes by RLIMIT_MEMLOCK.  So our own lies in few slabs.  The user's
 * is registered while a transfer uses it; it stays registered only where nobody can give the
 * address to other memory behind our back: in buffers of tc_buffer_alloc, whose end is told.  A
 * device would else go on writing to the pages that once were there.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/reach.h"
#include "rdma/link.h"

enum { SLAB_BYTES = 4 << 20, SLAB_BYTES_MIN = 2 * TCI_RDMA_CHUNK };

/* Of buffers that stay registered, while nothing uses them. */
static const size_t idle_max = SIZE_MAX > UINT32_MAX ? (size_t)(8ull << 30) : (size_t)1 << 29;

/* Registered memory of ours. */
struct tci_rdma_slab {
    struct tci_rdma_slab *next;
    struct ibv_mr *mr;
    uint8_t *data; /* owned: mapped */
    size_t bytes;
    struct tci_rdma_chunk chunks[SLAB_BYTES / TCI_RDMA_CHUNK];
};

/* ---- Slabs ---- */

/* Less is asked for where the limit of locked memory is low. */
static struct ibv_mr *map_some(struct tci_rdma *rdma, struct tci_rdma_slab *slab, int access)
{
    for (slab->bytes = SLAB_BYTES; slab->bytes >= SLAB_BYTES_MIN; slab->bytes /= 2) {
        slab->data =
            mmap(NULL, slab->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (slab->data == MAP_FAILED)
            continue;
        /* A child has no use for it, and must not make the device's pages copies of its own. */
        (void)madvise(slab->data, slab->bytes, MADV_DONTFORK);
        slab->mr = rdma->verbs->reg_mr(rdma->pd, slab->data, slab->bytes, access);
        if (slab->mr != NULL)
            return slab->mr;
        munmap(slab->data, slab->bytes);
    }
    return NULL;
}

static void add_slab(struct tci_rdma *rdma, bool is_open)
{
    struct tci_rdma_slab *slab = tci_alloc(sizeof(*slab));
    int access = IBV_ACCESS_LOCAL_WRITE | (is_open ? IBV_ACCESS_REMOTE_WRITE : 0);

    if (slab == NULL)
        return;
    if (map_some(rdma, slab, access) == NULL) {
        tci_free(slab);
        return;
    }
    slab->next = rdma->slabs;
    rdma->slabs = slab;
    for (size_t i = 0; i < slab->bytes / TCI_RDMA_CHUNK; i++) {
        slab->chunks[i] = (struct tci_rdma_chunk){.next = rdma->free_chunks[is_open],
                                                  .data = slab->data + i * TCI_RDMA_CHUNK,
                                                  .lkey = slab->mr->lkey,
                                                  .rkey = slab->mr->rkey,
                                                  .is_open = is_open};
        rdma->free_chunks[is_open] = &slab->chunks[i];
    }
}

struct tci_rdma_chunk *tci_rdma_chunk_get(struct tci_rdma *rdma, bool is_open)
{
    struct tci_rdma_chunk *chunk;

    if (is_open && rdma->chunks_lent == TCI_RDMA_CHUNKS)
        return NULL;
    if (rdma->free_chunks[is_open] == NULL)
        add_slab(rdma, is_open);
    chunk = rdma->free_chunks[is_open];
    if (chunk == NULL)
        return NULL;
    rdma->free_chunks[is_open] = chunk->next;
    rdma->chunks_lent += is_open;
    return chunk;
}

void tci_rdma_chunk_put(struct tci_rdma *rdma, struct tci_rdma_chunk *chunk)
{
    if (chunk == NULL)
        return;
    chunk->next = rdma->free_chunks[chunk->is_open];
    rdma->free_chunks[chunk->is_open] = chunk;
    rdma->chunks_lent -= chunk->is_open;
}

/* ---- The user's memory ---- */

/* The lock is held, here and below. */
static void drop_region(struct tci_rdma *rdma, struct tci_rdma_region *region)
{
    TC_ASSERT(region->uses == 0);
    tci_list_del(&region->link);
    rdma->region_count--;
    rdma->idle_bytes -= region->len;
    (void)rdma->verbs->dereg_mr(region->mr);
    tci_free(region);
}

/* It has no use; the one that was used the longest ago. */
static bool drop_idle(struct tci_rdma *rdma)
{
    struct tci_list *at;

    for (at = rdma->regions.prev; at != &rdma->regions; at = at->prev) {
        struct tci_rdma_region *region = tci_container_of(at, struct tci_rdma_region, link);

        if (region->uses == 0) {
            drop_region(rdma, region);
            return true;
        }
    }
    return false;
}

static void move_first(struct tci_rdma *rdma, struct tci_rdma_region *region)
{
    tci_list_del(&region->link);
    tci_list_add(rdma->regions.next, &region->link);
}

/* One that is used just now lies where its user has promised that it stays. */
static struct tci_rdma_region *find_region(struct tci_rdma *rdma, uintptr_t begin, size_t len,
                                           bool is_writable)
{
    struct tci_list *at;

    for (at = rdma->regions.next; at != &rdma->regions; at = at->next) {
        struct tci_rdma_region *region = tci_container_of(at, struct tci_rdma_region, link);

        if (begin >= region->begin && len <= region->len &&
            begin - region->begin <= region->len - len && !region->is_gone &&
            (region->uses > 0 || region->life != 0) && (region->is_writable || !is_writable))
            return region;
    }
    return NULL;
}

static struct tci_rdma_region *make_region(struct tci_rdma *rdma,
                                           const struct tci_rdma_region *wanted)
{
    int access = wanted->is_writable ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
    struct tci_rdma_region *region;

    if (rdma->region_count == TCI_RDMA_REGIONS && !drop_idle(rdma))
        return NULL;
    region = tci_alloc(sizeof(*region));
    if (region == NULL)
        return NULL;
    *region = *wanted;
    do
        region->mr = rdma->verbs->reg_mr(rdma->pd, (void *)wanted->begin, wanted->len, access);
    while (region->mr == NULL && drop_idle(rdma));
    if (region->mr == NULL) {
        tci_free(region);
        return NULL;
    }
    tci_list_init(&region->link);
    rdma->region_count++;
    rdma->idle_bytes += region->len;
    return region;
}

struct tci_rdma_region *tci_rdma_region_get(struct tci_rdma *rdma, const void *data, size_t len,
                                            bool is_writable)
{
    struct tci_rdma_region wanted = {
        .begin = (uintptr_t)data, .len = len, .is_writable = is_writable};
    struct tci_rdma_region *region;
    struct tci_memory memory;

    if (tci_memories_find(data, len, &memory)) {
        wanted.begin = (uintptr_t)memory.data;
        wanted.len = memory.bytes;
        wanted.life = memory.life;
        wanted.is_writable = true;
    }
    pthread_mutex_lock(&rdma->regions_lock);
    region = find_region(rdma, (uintptr_t)data, len, is_writable);
    if (region == NULL)
        region = make_region(rdma, &wanted);
    if (region != NULL) {
        rdma->idle_bytes -= region->uses == 0 ? region->len : 0;
        region->uses++;
        move_first(rdma, region);
    }
    pthread_mutex_unlock(&rdma->regions_lock);
    return region;
}

/* Its last use has ended.  Pages that are registered cannot be used for anything else. */
static void keep_or_drop(struct tci_rdma *rdma, struct tci_rdma_region *region)
{
    rdma->idle_bytes += region->len;
    if (region->life == 0 || region->is_gone) {
        drop_region(rdma, region);
        return;
    }
    move_first(rdma, region);
    while (rdma->idle_bytes > rdma->idle_max && rdma->idle_bytes > region->len)
        (void)drop_idle(rdma);
}

void tci_rdma_region_put(struct tci_rdma *rdma, struct tci_rdma_region *region)
{
    if (region == NULL)
        return;
    pthread_mutex_lock(&rdma->regions_lock);
    region->uses--;
    if (region->uses == 0)
        keep_or_drop(rdma, region);
    pthread_mutex_unlock(&rdma->regions_lock);
}

/* On the thread that frees it.  What is used just now goes when that ends: it was freed too early,
 * but nobody else's pages are touched. */
static void memory_gone(struct tci_memories_watch *watch, const struct tci_memory *memory)
{
    struct tci_rdma *rdma = tci_container_of(watch, struct tci_rdma, memories);
    struct tci_list *at, *next;

    pthread_mutex_lock(&rdma->regions_lock);
    for (at = rdma->regions.next; at != &rdma->regions; at = next) {
        struct tci_rdma_region *region = tci_container_of(at, struct tci_rdma_region, link);

        next = at->next;
        if (region->life != memory->life)
            continue;
        region->is_gone = true;
        if (region->uses == 0)
            drop_region(rdma, region);
    }
    pthread_mutex_unlock(&rdma->regions_lock);
}

/* What could not be registered may be memory that is not there: that must not end this process. */
bool tci_rdma_copy(void *to, const void *from, size_t len)
{
    struct iovec own = {.iov_base = to, .iov_len = len};
    struct iovec there = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
    ssize_t got = process_vm_readv(getpid(), &own, 1, &there, 1, 0);

    if (got == (ssize_t)len)
        return true;
    if ((got >= 0 || errno == EFAULT) && !tci_reach_all(from, len))
        return false;
    memcpy(to, from, len); /* a filter of system calls, or memory that is a device's */
    return true;
}

/* ---- Open and close ---- */

void tci_rdma_mem_open(struct tci_rdma *rdma)
{
    pthread_mutex_init(&rdma->regions_lock, NULL);
    tci_list_init(&rdma->regions);
    rdma->idle_max = idle_max;
    rdma->memories.gone = memory_gone;
    tci_memories_watch(&rdma->memories);
}

void tci_rdma_mem_close(struct tci_rdma *rdma)
{
    struct tci_rdma_slab *slab;

    tci_memories_unwatch(&rdma->memories);
    pthread_mutex_lock(&rdma->regions_lock);
    while (drop_idle(rdma)) {
    }
    TC_ASSERT(rdma->region_count == 0);
    pthread_mutex_unlock(&rdma->regions_lock);
    while ((slab = rdma->slabs) != NULL) {
        rdma->slabs = slab->next;
        (void)rdma->verbs->dereg_mr(slab->mr);
        munmap(slab->data, slab->bytes);
        tci_free(slab);
    }
    rdma->free_chunks[0] = rdma->free_chunks[1] = NULL;
    pthread_mutex_destroy(&rdma->regions_lock);
}
