/* figures.h - what messages and folds cost in a group: the same numbers on every rank. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_FIGURES_H
#define TCI_FIGURES_H

#include <stdint.h>

/* Within a host and between hosts. */
enum tci_reach { TCI_REACH_LOCAL, TCI_REACH_REMOTE, TCI_REACH_COUNT };

/* Reductions whose kernels run at about one speed: what memory gives; 16 bits; 8 bits; exact. */
enum tci_fold_class {
    TCI_FOLD_WIDE,
    TCI_FOLD_HALF,
    TCI_FOLD_BYTE,
    TCI_FOLD_EXACT,
    TCI_FOLD_CLASSES
};

/* Whole numbers, so that processors of any kind compute the same choices from them. */
struct tci_link_figures {
    uint64_t latency_ps;  /* the wire, or the wait for the peer's processor */
    uint64_t overhead_ps; /* work of a processor for a message, at either end */
    uint64_t byte_fs;     /* a byte, while as much comes as goes; femtoseconds */
};

struct tci_figures {
    struct tci_link_figures link[TCI_REACH_COUNT];
    uint64_t fold_fs[TCI_FOLD_CLASSES]; /* an input byte */
    uint64_t copy_fs;                   /* a byte */
    uint64_t eager_bytes;               /* longer messages wait for a credit */
    uint32_t per_host; /* ranks a host, one after the other; 0: all are on one host */
    uint32_t load;     /* ranks a core on the fullest host, in sixteenths; at least 16 */
    uint64_t is_wired; /* 1: ranks of one host go over TCP, too; no padding: these are compared */
};

#endif
