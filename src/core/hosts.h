/* hosts.h - which ranks share a host, so that plans can tell near from far. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_HOSTS_H
#define TCI_HOSTS_H

#include <stdatomic.h>
#include <stdint.h>

/* Hosts are numbered from 0 in the order of their first ranks; the ranks of a host have places from
 * 0 in their own order, and the one at place 0 leads.  Does not change once it is made; shared by
 * those who have a reference. */
struct tci_hosts {
    uint32_t size, count;    /* ranks; hosts */
    const uint32_t *host;    /* of each rank */
    const uint32_t *place;   /* of each rank on its host */
    const uint32_t *first;   /* of each host: where its ranks begin in `members`; count + 1 */
    const uint32_t *members; /* ranks, host by host, place by place */
    atomic_uint refs;
};

/* labels: one of each rank, equal where the host is.  The caller has the reference; NULL without
 * memory.  Any thread. */
struct tci_hosts *tci_hosts_new(const uint64_t *labels, uint32_t size);

/* NULL is fine.  Any thread. */
struct tci_hosts *tci_hosts_ref(struct tci_hosts *hosts);
void tci_hosts_unref(struct tci_hosts *hosts);

/* Ranks on the fullest host; 0 where all share one.  Any thread. */
uint32_t tci_hosts_most(const struct tci_hosts *hosts);

/* Ranks on a host, and the one at a place there. */
static inline uint32_t tci_hosts_ranks(const struct tci_hosts *hosts, uint32_t host)
{
    return hosts->first[host + 1] - hosts->first[host];
}

static inline uint32_t tci_hosts_rank(const struct tci_hosts *hosts, uint32_t host, uint32_t place)
{
    return hosts->members[hosts->first[host] + place];
}

#endif
