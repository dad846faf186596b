/* matrix.h - the one product of matrices that forward and backward passes are made of. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_MATRIX_H
#define SHARED_MATRIX_H

#include <stddef.h>
#include <stdint.h>

/* A matrix to read, as it lies or turned: element (i, k) is at[i * row_step + k * column_step]. */
struct matrix {
    const float *at;
    size_t row_step;
    size_t column_step;
};

/* c += a b; c is m x n, a is m x k, b is k x n; b and c lie row after row.  The order of additions
 * is fixed, whatever the compiler makes of it. */
void matrix_add_product(float *restrict c, struct matrix a, const float *restrict b, size_t m,
                        size_t k, size_t n);

/* out = in turned over its diagonal; in is rows x columns. */
void matrix_transpose(float *restrict out, const float *restrict in, size_t rows, size_t columns);

/* FNV-1a of 64 bits over the values' bytes: equal for equal bits. */
uint64_t matrix_hash(const float *values, size_t count);

#endif
