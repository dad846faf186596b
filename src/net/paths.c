/* paths.c - further addresses of the ranks: each connection of a link has one of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/paths.h"

#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "net/sock.h"

bool tci_paths_init(struct tci_paths *paths, uint32_t size, uint32_t count)
{
    TC_ASSERT(count <= TCI_PATHS_MAX);
    *paths = (struct tci_paths){.size = size, .count = count};
    for (int k = 0; k < TCI_PATHS_MAX; k++)
        paths->listeners[k] = -1;
    if (count > 0)
        paths->addrs = tci_alloc_array((size_t)size * count, sizeof(struct tci_addr));
    return count == 0 || paths->addrs != NULL;
}

void tci_paths_fini(struct tci_paths *paths)
{
    for (uint32_t k = 0; k < paths->count; k++)
        if (paths->listeners[k] >= 0)
            close(paths->listeners[k]);
    tci_free(paths->addrs);
    *paths = (struct tci_paths){.count = 0};
}

struct tci_addr *tci_paths_at(const struct tci_paths *paths, uint32_t rank, uint32_t k)
{
    TC_ASSERT(rank < paths->size && k < paths->count);
    return &paths->addrs[(size_t)rank * paths->count + k];
}

tc_status_t tci_paths_listen(struct tci_paths *paths, uint32_t rank, struct tci_error *error)
{
    for (uint32_t k = 0; k < paths->count; k++) {
        struct tci_error why = {.pub = {.status = TC_OK}};
        struct tci_addr bound;

        if (tci_sock_listen(tci_paths_at(paths, rank, k), &paths->listeners[k], &bound, &why) ==
            TC_OK)
            continue;
        tci_error_set(error, TC_ERR_RENDEZVOUS, (int)rank, 0, "dist_init",
                      "rank %u cannot use the address of its connection %u: %.250s", rank, k + 1,
                      why.text);
        return TC_ERR_RENDEZVOUS;
    }
    return TC_OK;
}
