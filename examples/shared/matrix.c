/* matrix.c - the one product of matrices that forward and backward passes are made of. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "matrix.h"

/* The inner loop runs along rows of b and c: every element of c has its own chain of additions, so
 * the compiler may use vectors of any width without changing a bit.  Four rows of b at a time, so
 * that a row of c is loaded and stored a quarter as often. */
void matrix_add_product(float *restrict c, struct matrix a, const float *restrict b, size_t m,
                        size_t k, size_t n)
{
    for (size_t i = 0; i < m; i++) {
        const float *from = a.at + i * a.row_step;
        float *restrict to = c + i * n;
        size_t p = 0;

        for (; p + 4 <= k; p += 4) {
            float a0 = from[p * a.column_step];
            float a1 = from[(p + 1) * a.column_step];
            float a2 = from[(p + 2) * a.column_step];
            float a3 = from[(p + 3) * a.column_step];
            const float *restrict row = b + p * n;

            for (size_t j = 0; j < n; j++)
                to[j] = to[j] + a0 * row[j] + a1 * row[n + j] + a2 * row[2 * n + j] +
                        a3 * row[3 * n + j];
        }
        for (; p < k; p++) {
            float a0 = from[p * a.column_step];

            for (size_t j = 0; j < n; j++)
                to[j] += a0 * b[p * n + j];
        }
    }
}

void matrix_transpose(float *restrict out, const float *restrict in, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            out[j * rows + i] = in[i * columns + j];
}

uint64_t matrix_hash(const float *values, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)values;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < count * sizeof *values; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}
