/* shm_map.c - memory of a peer that was made to be shared is mapped once and read in place. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/mman.h>

#include "net/shm_link.h"

static void unmap(struct tci_shm_mapped *mapped)
{
    if (mapped->memory != 0)
        munmap((void *)(uintptr_t)mapped->data, mapped->bytes);
    memset(mapped, 0, sizeof(*mapped));
}

/* A free place, or the one that was not used for the longest time; NULL: all are in use. */
static struct tci_shm_mapped *find_place(struct tci_shm_link *link)
{
    struct tci_shm_mapped *place = NULL;

    for (size_t i = 0; i < TCI_SHM_MAPPED_MAX; i++) {
        struct tci_shm_mapped *mapped = &link->mapped[i];

        if (mapped->pulls == 0 && (place == NULL || mapped->used < place->used))
            place = mapped;
    }
    return place;
}

struct tci_shm_mapped *tci_shm_map_loan(struct tci_shm_link *link, const struct tci_shm_lend *lend)
{
    struct tci_shm_mapped *mapped = NULL;
    const void *data;

    if (lend->memory == 0 || lend->total > lend->bytes || lend->offset > lend->bytes - lend->total)
        return NULL;
    for (size_t i = 0; i < TCI_SHM_MAPPED_MAX && mapped == NULL; i++)
        if (link->mapped[i].memory == lend->memory && link->mapped[i].bytes == lend->bytes)
            mapped = &link->mapped[i];
    if (mapped == NULL) {
        mapped = find_place(link);
        data = mapped != NULL
                   ? tci_shm_map_lent(link->pid, lend->fd, (size_t)lend->bytes, lend->memory)
                   : NULL;
        if (data == NULL)
            return NULL;
        unmap(mapped);
        *mapped = (struct tci_shm_mapped){
            .memory = lend->memory, .data = data, .bytes = (size_t)lend->bytes};
    }
    mapped->used = ++link->uses;
    return mapped;
}

void tci_shm_unmap_all(struct tci_shm_link *link)
{
    for (size_t i = 0; i < TCI_SHM_MAPPED_MAX; i++)
        unmap(&link->mapped[i]);
}
