/* tune.h - which algorithm carries a collective out, and the figures behind that choice. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_TUNE_H
#define TCDIST_TUNE_H

#include "tcdist/collective.h"

TC_BEGIN_DECLS

/* The algorithm that a call would be carried out with: "oneshot", "ring", …; a static string.
 *
 * collective is the call's name as errors have it: "allreduce", "reduce_scatter", "barrier", ….
 * count, dtype, op and options are what the call would be given; of the forms with counts of
 * their own, count is the largest.  Where a call has no type or operator they do not matter, and
 * options may be NULL.  Every rank is told the same, until the group is tuned again.  NULL when
 * the call would be refused; tc_last_error() says why.  Talks to nobody.  Any thread. */
TC_API const char *tc_algorithm(tc_dist_ctx *group, const char *collective, size_t count,
                                tc_dtype_t dtype, tc_reduce_op_t op, const tc_options *options);

TC_END_DECLS

#endif
