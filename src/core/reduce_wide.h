/* reduce_wide.h - the canonical fold in parts: its accumulator goes from rank to rank. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_REDUCE_WIDE_H
#define TCI_REDUCE_WIDE_H

#include "core/reduce.h"

/* The canonical result folds all ranks in rank order in a wide accumulator and rounds once.  Where
 * the ranks' values are not at one place, the accumulator itself travels: rank 0 widens its own,
 * each next rank adds, the last one rounds.  The bits are those of fold->many().
 *
 * Where rounding after each step changes nothing (integers that wrap, minima and maxima, f64) the
 * accumulator is the element itself. */
struct tci_wide {
    size_t size; /* bytes of an accumulator */
    void (*widen)(void *acc, const void *in, size_t count);
    void (*add)(void *acc, const void *in, size_t count);
    void (*round)(void *out, const void *acc, unsigned ranks, size_t count);
};

/* The accumulator of a type and an operator; NULL: the element itself.  Any thread. */
const struct tci_wide *tci_wide_find(tc_dtype_t dtype, tc_reduce_op_t op);

/* Bytes of one accumulator of a fold. */
size_t tci_wide_size(const struct tci_fold *fold);

/* acc = in; acc = acc op in; out = acc, rounded, for an AVG divided by `ranks`.  acc has the
 * alignment of 16, in and out that of a byte; they do not overlap.  Any thread. */
void tci_wide_widen(const struct tci_fold *fold, void *acc, const void *in, size_t count);
void tci_wide_add(const struct tci_fold *fold, void *acc, const void *in, size_t count);
void tci_wide_round(const struct tci_fold *fold, void *out, const void *acc, unsigned ranks,
                    size_t count);

#endif
