/* reduce_table.h - the tables of kernels, one for each family, that reduce.c chooses from. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_REDUCE_TABLE_H
#define TCI_REDUCE_TABLE_H

#include "dtype.h"
#include "reduce.h"

/* One row; the members are those of struct tci_fold.  many is NULL where a family lacks the row. */
struct tci_kernels {
    void (*many)(void *out, const void *const *in, unsigned ranks, size_t count);
    void (*pair)(void *out, const void *a, const void *b, size_t count);
    void (*divide)(void *buf, unsigned ranks, size_t count);
};

typedef const struct tci_kernels tci_kernel_table[TCI_DTYPE_COUNT][TCI_REDUCE_OP_COUNT];

extern tci_kernel_table tci_kernels_plain; /* has every supported row */

#if defined(__x86_64__) && defined(__GNUC__)
#define TCI_HAVE_X86_KERNELS 1
extern tci_kernel_table tci_kernels_avx2;
extern tci_kernel_table tci_kernels_avx512;
#endif

#if defined(__aarch64__) && defined(__GNUC__) && !defined(__AARCH64EB__)
#define TCI_HAVE_NEON_KERNELS 1
extern tci_kernel_table tci_kernels_neon;
#endif

#endif
