/* shm.h - transport over shared memory where ranks share a host, over another one elsewhere. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SHM_H
#define TCI_SHM_H

#include "core/context.h"
#include "core/transport.h"
#include "loop/loop.h"

/* False: this build cannot share memory, and all that follows sends everything below. */
bool tci_shm_is_built(void);

struct tci_shm_config {
    uint32_t rank, size;
    const uint64_t *hosts; /* borrowed for the call; equal numbers: same host, as far as is known */
    size_t eager_bytes;    /* agreed */
    bool is_on;            /* false: everything goes below, and others' offers are declined */
    bool may_read;         /* false: never out of the memory of another process */
};

/* Pairs of ranks that turn out to share memory do so; what goes between the others, and whether a
 * rank still lives, is the business of the transport below.  Takes `below` over, and closes it on
 * failure: NULL without memory.  Loop thread. */
struct tci_transport *tci_shm_open(struct tci_loop *loop, tc_context *context,
                                   struct tci_transport *below,
                                   const struct tci_shm_config *config);

/* The transport below; for tests. */
struct tci_transport *tci_shm_below(struct tci_transport *self);

/* How a peer is reached, for people: "shared memory", or the name of the transport below; and, of
 * one on this host that is not reached over shared memory, why (NULL: not known, or not tried). */
const char *tci_shm_way(const struct tci_transport *self, uint32_t peer, const char **why_out);
/* What may carry this rank's messages, for people, as far as is known before the first: "shared
 * memory", the name of the transport below, or "shared memory on this host, tcp to others". */
const char *tci_shm_print(const struct tci_transport *self, char text[96]);

#endif
