/* reduce_exact.h - the tables of exact kernels, and what they share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_REDUCE_EXACT_H
#define TCI_REDUCE_EXACT_H

#include <stdint.h>

#include "dtype.h"
#include "reduce_table.h"

/* A member `many` of struct tci_fold. */
typedef void (*tci_many)(void *out, const void *const *in, unsigned ranks, size_t count);

enum { TCI_EXACT_SUM, TCI_EXACT_AVG, TCI_EXACT_OPS };

/* SUM and AVG of each type of float; NULL where a family has no kernel of its own. */
typedef const tci_many tci_exact_table[TCI_DTYPE_COUNT][TCI_EXACT_OPS];

#ifdef TCI_HAVE_X86_KERNELS
extern tci_exact_table tci_exact_avx2;
extern tci_exact_table tci_exact_avx512;
#endif
#ifdef TCI_HAVE_NEON_KERNELS
extern tci_exact_table tci_exact_neon;
#endif

/* Elements of the inputs: those that begin `at` bytes behind the pointers. */
struct tci_exact_source {
    const void *const *in; /* borrowed */
    size_t at;
    unsigned ranks, by; /* what the sum is divided by */
    tc_dtype_t dtype;   /* a float, and not C64 */
};

/* The definition: out[i] is the exact sum of the i-th elements, divided and rounded once; for
 * those of `count` elements whose hard[i] is not 0, all where hard is NULL.  `out` may be an
 * input's elements. */
void tci_exact_elements(void *out, const struct tci_exact_source *source, size_t count,
                        const uint64_t *hard);

#endif
