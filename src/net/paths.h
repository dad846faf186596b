/* paths.h - further addresses of the ranks: each connection of a link has one of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_PATHS_H
#define TCI_PATHS_H

#include "core/error.h"
#include "net/addr.h"

/* Number k of a rank, from 0, is that of connection k + 1 of a link; the first has the address of
 * the rendezvous.  All zero: there are none. */
enum { TCI_PATHS_MAX = 7 };
struct tci_paths {
    uint32_t size, count;         /* ranks; addresses of each */
    struct tci_addr *addrs;       /* owned: `count` a rank */
    int listeners[TCI_PATHS_MAX]; /* owned: of this rank; -1: not yet, or not any more */
};

/* Room for the addresses; false without memory. */
bool tci_paths_init(struct tci_paths *paths, uint32_t size, uint32_t count);
void tci_paths_fini(struct tci_paths *paths); /* closes what is still there */
struct tci_addr *tci_paths_at(const struct tci_paths *paths, uint32_t rank, uint32_t k);
/* Listen at those of this rank, exactly. */
tc_status_t tci_paths_listen(struct tci_paths *paths, uint32_t rank, struct tci_error *error);

#endif
