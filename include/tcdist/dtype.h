/* dtype.h - element types, reduction operators, and the reduction that defines the results. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_DTYPE_H
#define TCDIST_DTYPE_H

#include <stddef.h>

#include "tcdist/status.h"

TC_BEGIN_DECLS

/* Element types.  0 to 5 are tensorcore's numbers; its emulated formats 6 to 9 are refused with
 * TC_ERR_UNSUPPORTED_DTYPE. */
typedef enum tc_dtype {
    TC_DTYPE_F16 = 0,  /* IEEE 754 binary16 */
    TC_DTYPE_BF16 = 1, /* upper half of a binary32 */
    TC_DTYPE_F32 = 2,
    TC_DTYPE_I8 = 3,
    TC_DTYPE_I32 = 4,
    TC_DTYPE_F64 = 5,
    TC_DTYPE_U8 = 16,
    TC_DTYPE_I16 = 17,
    TC_DTYPE_U16 = 18,
    TC_DTYPE_U32 = 19,
    TC_DTYPE_I64 = 20,
    TC_DTYPE_U64 = 21,
    TC_DTYPE_F8E4M3 = 22, /* OCP 8-bit float: no infinity; NaN is 0x7f and 0xff, also of overflow */
    TC_DTYPE_F8E5M2 = 23, /* OCP 8-bit float: infinities and NaNs as in IEEE 754 */
    TC_DTYPE_BOOL = 24,   /* one byte; 0 is false, anything else true; results are 0 or 1 */
    TC_DTYPE_C64 = 25     /* complex of two F32: real, imaginary */
} tc_dtype_t;

/* Reduction operators.  0 to 3 are tensorcore's numbers. */
typedef enum tc_reduce_op {
    TC_REDUCE_SUM = 0,  /* integers wrap; BOOL: or */
    TC_REDUCE_AVG = 1,  /* the sum divided by the number of ranks; integers round toward zero */
    TC_REDUCE_MAX = 2,  /* floats: NaN propagates, -0 below +0; BOOL: or */
    TC_REDUCE_MIN = 3,  /* as MAX; BOOL: and */
    TC_REDUCE_PROD = 4, /* integers wrap; BOOL: and */
    TC_REDUCE_BAND = 5, /* integers and BOOL only, as the two below */
    TC_REDUCE_BOR = 6,
    TC_REDUCE_BXOR = 7
} tc_reduce_op_t;

/* Bytes of one element; 0 for a type that is not carried.  Any thread. */
TC_API size_t tc_dtype_size(tc_dtype_t dtype);

/* "bf16", "i32", …; a static string, "unknown" for a type that is not carried.  Any thread. */
TC_API const char *tc_dtype_name(tc_dtype_t dtype);

/* "sum", "avg", …; a static string, "unknown" for other numbers.  Any thread. */
TC_API const char *tc_reduce_op_name(tc_reduce_op_t op);

/* Whether an operator is defined for a type: TC_OK, TC_ERR_UNSUPPORTED_DTYPE for a type that is
 * not carried, TC_ERR_UNSUPPORTED for a pair without meaning (the bitwise operators on floats,
 * MIN and MAX on C64, AVG on BOOL), TC_ERR_INVALID_ARG for a number that is no operator.
 * Any thread. */
TC_API tc_status_t tc_reduce_supported(tc_dtype_t dtype, tc_reduce_op_t op);

/* out[i] = in[0][i] op in[1][i] op … op in[n_ranks - 1][i]: the definition of every reduction.
 *
 * Elements are folded in rank order, from the left, in a wide accumulator: f64 for F32 and C64,
 * f32 for the 16- and 8-bit floats, F64 in f64, integers modulo 2^64 (AVG in 128 bits).  AVG
 * divides there.  The result is rounded once, to nearest with ties to even.  A NaN result is the
 * type's quiet NaN, positive and with an otherwise empty payload (0x7fc00000 in F32), so that the
 * bits do not depend on the processor.  MIN and MAX give one of the inputs, or that NaN.  With one
 * rank the result is a copy of its input.  The floating-point environment is the default one.
 *
 * `in` has n_ranks (at least 1) pointers to `count` elements each; `out` may be one of them.
 * count 0 is fine with NULL pointers.  Nothing is kept.  Fails with TC_ERR_INVALID_ARG,
 * TC_ERR_UNSUPPORTED_DTYPE or TC_ERR_UNSUPPORTED as tc_reduce_supported().  Any thread.
 * Source: docs/determinism.md. */
TC_API tc_status_t tc_reduce_reference(void *out, const void *const *in, int n_ranks, size_t count,
                                       tc_dtype_t dtype, tc_reduce_op_t op);

/* out[i] = in[0][i] + in[1][i] + … + in[n_ranks - 1][i] as real numbers, rounded once: the
 * definition of TC_NUMERICS_EXACT.
 *
 * SUM of floats and of each component of C64 is the exact sum, AVG the exact sum divided by
 * n_ranks; either is rounded once, to nearest with ties to even, so that the order of the ranks
 * does not matter.  Only the result can overflow.  An exact zero is +0, but -0 where all
 * contributions are -0; infinities of both signs, or a NaN, give the type's quiet NaN.  PROD of
 * floats and C64 is refused with TC_ERR_UNSUPPORTED.  Everything else is tc_reduce_reference(),
 * which does not depend on the order there.
 *
 * Arguments, errors and thread as tc_reduce_reference().  Source: docs/determinism.md. */
TC_API tc_status_t tc_reduce_reference_exact(void *out, const void *const *in, int n_ranks,
                                             size_t count, tc_dtype_t dtype, tc_reduce_op_t op);

TC_END_DECLS

#endif
