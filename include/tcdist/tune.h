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

/* Measure the group's links and this processor's kernels now, and choose by what was found.
 *
 * Collective, and a border that every other call must be on the same side of on all ranks: started
 * before this one, or when the future has settled.  What was started before goes on as it was
 * chosen, and disturbs the measurement.  Between the call and the settling other collectives of
 * the group, and a second measurement, fail with TC_ERR_BUSY on this rank; sends and receives do
 * not.  Takes some milliseconds, whatever the number of ranks.  The future is the caller's.  Fails
 * as a barrier does; then nothing has changed on ranks that say so, and those may differ from
 * others: tune again before the next collective.  Any thread. */
TC_API tc_future *tc_dist_tune_async(tc_dist_ctx *group);

/* The same, and wait.  Not from a continuation.  Any thread. */
TC_API tc_status_t tc_dist_tune(tc_dist_ctx *group);

TC_END_DECLS

#endif
