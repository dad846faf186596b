/* pattern.h - elements that differ from rank to rank, and how close to them a result is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCPERF_PATTERN_H
#define TCPERF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/dtype.h"

/* A key for the data of one rank in one collective of one batch. */
uint64_t pattern_key(int check, int rank, int tag_index);

/* Writes elements first to first + count - 1 of a key's endless sequence: any bits for integers;
 * for floats numbers of either sign with 0.5 <= |x| < 2 and any mantissa. */
void pattern_fill(void *out, tc_dtype_t dtype, uint64_t key, size_t first, size_t count);

/* Whether a result of `ranks` such elements that was rounded in an order of its own may be `got`
 * where the definition gives `expected`. */
bool pattern_is_near(const void *got, const void *expected, tc_dtype_t dtype, tc_reduce_op_t reduce,
                     int ranks);

#endif
