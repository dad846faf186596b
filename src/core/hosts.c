/* hosts.c - which ranks share a host: the table, from a label a rank. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

struct labelled {
    uint64_t label;
    uint32_t rank;
};

static int by_label(const void *x, const void *y)
{
    const struct labelled *a = x, *b = y;

    if (a->label != b->label)
        return a->label < b->label ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Of each rank the first one on its host; ranks have been sorted by label. */
static void find_leaders(const struct labelled *sorted, uint32_t size, uint32_t *leaders)
{
    uint32_t leader = 0;

    for (uint32_t i = 0; i < size; i++) {
        if (i == 0 || sorted[i].label != sorted[i - 1].label)
            leader = sorted[i].rank;
        leaders[sorted[i].rank] = leader;
    }
}

/* host[] holds the leaders; a leader comes before the other ranks of its host. */
static uint32_t number_hosts(uint32_t *host, uint32_t size)
{
    uint32_t count = 0;

    for (uint32_t r = 0; r < size; r++)
        host[r] = host[r] == r ? count++ : host[host[r]];
    return count;
}

static void fill_members(uint32_t *host, uint32_t *place, uint32_t *first, uint32_t *members,
                         const struct tci_hosts *hosts)
{
    for (uint32_t r = 0; r < hosts->size; r++)
        place[r] = first[host[r] + 1]++;
    for (uint32_t h = 0; h < hosts->count; h++)
        first[h + 1] += first[h];
    for (uint32_t r = 0; r < hosts->size; r++)
        members[first[host[r]] + place[r]] = r;
}

struct tci_hosts *tci_hosts_new(const uint64_t *labels, uint32_t size)
{
    struct labelled *sorted = tci_alloc_array(size, sizeof(*sorted));
    struct tci_hosts *hosts = NULL;
    size_t bytes;
    uint32_t *host;

    TC_ASSERT(size > 0);
    if (tci_array_bytes(4 * (size_t)size + 1, sizeof(uint32_t), &bytes))
        hosts = tci_alloc(sizeof(*hosts) + bytes);
    if (sorted == NULL || hosts == NULL)
        goto free_both;
    for (uint32_t r = 0; r < size; r++)
        sorted[r] = (struct labelled){labels[r], r};
    qsort(sorted, size, sizeof(*sorted), by_label);

    host = (uint32_t *)(hosts + 1);
    memset(host, 0, bytes);
    find_leaders(sorted, size, host);
    *hosts = (struct tci_hosts){.size = size,
                                .count = number_hosts(host, size),
                                .host = host,
                                .place = host + size,
                                .members = host + 2 * (size_t)size,
                                .first = host + 3 * (size_t)size};
    atomic_init(&hosts->refs, 1);
    fill_members(host, host + size, host + 3 * (size_t)size, host + 2 * (size_t)size, hosts);
    tci_free(sorted);
    return hosts;

free_both:
    tci_free(sorted);
    tci_free(hosts);
    return NULL;
}

struct tci_hosts *tci_hosts_ref(struct tci_hosts *hosts)
{
    if (hosts != NULL)
        atomic_fetch_add_explicit(&hosts->refs, 1, memory_order_relaxed);
    return hosts;
}

void tci_hosts_unref(struct tci_hosts *hosts)
{
    /* acq_rel: whoever frees it comes after all who have read it */
    if (hosts != NULL && atomic_fetch_sub_explicit(&hosts->refs, 1, memory_order_acq_rel) == 1)
        tci_free(hosts);
}

uint32_t tci_hosts_most(const struct tci_hosts *hosts)
{
    uint32_t most = 0;

    for (uint32_t host = 0; hosts != NULL && hosts->count > 1 && host < hosts->count; host++)
        most = tci_hosts_ranks(hosts, host) > most ? tci_hosts_ranks(hosts, host) : most;
    return most;
}
