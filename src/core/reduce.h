/* reduce.h - kernels that fold elements: one table row for each element type and operator. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_REDUCE_H
#define TCI_REDUCE_H

#include <stddef.h>

#include "tcdist/dtype.h"

struct tci_wide;

/* What a kernel does in a quarter of a millisecond: canonical kernels, and exact ones, which are
 * slow where data are of the worst kind. */
enum { TCI_FOLD_BYTES = 1 << 20, TCI_FOLD_BYTES_EXACT = 1 << 17 };

/* The kernels of one (type, operator), chosen once when an operation starts.  None of them
 * allocates, blocks or keeps anything; buffers need the alignment of a byte only.  `out` may be
 * one of the inputs (the same address, not a partial overlap).  Any thread. */
struct tci_fold {
    tc_dtype_t dtype;
    tc_reduce_op_t op;
    size_t size;      /* bytes of one element */
    size_t bytes_max; /* of all inputs together that many() should be given in one go */

    /* out = in[0] op in[1] op … op in[ranks - 1], the canonical result, AVG divided: the bits of
     * tc_reduce_reference().  ranks >= 2. */
    void (*many)(void *out, const void *const *in, unsigned ranks, size_t count);

    /* out = a op b, rounded to the element type; AVG only adds.  Same bits as many() of two for
     * every operator but AVG. */
    void (*pair)(void *out, const void *a, const void *b, size_t count);

    /* buf /= ranks, for AVG after a chain of pair(); NULL where pair() leaves nothing to do, and
     * for AVG of integers, whose sum in the element type may have wrapped: those need many(). */
    void (*divide)(void *buf, unsigned ranks, size_t count);

    /* The accumulator of many(), to be carried from rank to rank; NULL where an element serves
     * (reduce_wide.h). */
    const struct tci_wide *wide;
};

/* Look the kernels up, the fastest that this processor has; fails as tc_reduce_supported(). */
tc_status_t tci_fold_init(struct tci_fold *fold, tc_dtype_t dtype, tc_reduce_op_t op);

/* The same for exact numerics: many() gives the bits of tc_reduce_reference_exact().  For SUM and
 * AVG of floats pair and divide are NULL, since a rounded part of a sum is of no use to an exact
 * one.  Fails as tci_exact_supported(). */
tc_status_t tci_fold_init_exact(struct tci_fold *fold, tc_dtype_t dtype, tc_reduce_op_t op);

/* Whether exact numerics have an operator for a type: as tc_reduce_supported(), and
 * TC_ERR_UNSUPPORTED for PROD of floats. */
tc_status_t tci_exact_supported(tc_dtype_t dtype, tc_reduce_op_t op);

/* Families of kernels, all with the same bits; the plain one is portable C. */
enum tci_isa { TCI_ISA_PLAIN, TCI_ISA_AVX2, TCI_ISA_AVX512, TCI_ISA_NEON, TCI_ISA_COUNT };

/* "plain", "avx2", …  */
const char *tci_isa_name(enum tci_isa isa);

/* Whether this build and this processor can run a family. */
int tci_isa_usable(enum tci_isa isa);

/* The fastest family that this processor has. */
enum tci_isa tci_isa_best(void);

/* As tci_fold_init() and tci_fold_init_exact() for one family, for tests and benches; rows that the
 * family lacks are the plain ones.  TC_ERR_UNSUPPORTED when the family is not usable. */
tc_status_t tci_fold_init_isa(struct tci_fold *fold, tc_dtype_t dtype, tc_reduce_op_t op,
                              enum tci_isa isa);
tc_status_t tci_fold_init_exact_isa(struct tci_fold *fold, tc_dtype_t dtype, tc_reduce_op_t op,
                                    enum tci_isa isa);

#endif
