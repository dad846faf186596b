/* reduce_oracle.h - reductions and small floats, computed the slow and obvious way. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_REDUCE_ORACLE_H
#define TEST_REDUCE_ORACLE_H

#include <stddef.h>
#include <stdint.h>

#include "tcdist/dtype.h"

/* Nothing here calls the library: these are second opinions on it. */

/* The value of a code of F16, BF16, F8E4M3 or F8E5M2, exact. */
double oracle_decode(tc_dtype_t dtype, unsigned code);

/* The code next to a value, ties to the even code, with the canonical NaN of the type. */
unsigned oracle_encode(tc_dtype_t dtype, double value);

/* The value of a code that is one past the largest finite one, if the exponent went on. */
double oracle_beyond(tc_dtype_t dtype);

/* The largest finite code. */
unsigned oracle_finite(tc_dtype_t dtype);

/* out = in[0] op in[1] op …; `out` is none of the inputs.  ranks 1 copies. */
void oracle_reduce(void *out, const void *const *in, unsigned ranks, size_t count, tc_dtype_t dtype,
                   tc_reduce_op_t op);

/* buf /= ranks, floats and C64 only. */
void oracle_divide(void *buf, unsigned ranks, size_t count, tc_dtype_t dtype);

/* Bytes of an element. */
size_t oracle_size(tc_dtype_t dtype);

/* What the sixteen types and eight operators are, for loops over all. */
extern const tc_dtype_t oracle_dtypes[16];
int oracle_has(tc_dtype_t dtype, tc_reduce_op_t op);

/* Pseudo-random numbers: the same seed gives the same numbers everywhere. */
uint64_t oracle_random(uint64_t *seed);

/* 0, 1 or 2 for TCDIST_TEST_EFFORT quick, normal (also unset) or full; sanitizers are quick. */
int oracle_effort(void);

#endif
