/* compress.h - all-reduces of gradients that travel smaller: fewer elements, or fewer bits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_COMPRESS_H
#define TCDIST_COMPRESS_H

#include "tcdist/collective.h"

TC_BEGIN_DECLS

/* Rules of this header, beside those of collective.h: futures, tags, options, deadlines and errors
 * are the same.  n is the number of ranks.
 *
 * - What does not travel is not lost: it stays in `residual`, a buffer of `count` f32 that belongs
 *   to the caller, begins as zeros, and is added to the next gradient of the same elements (error
 *   feedback).  It is changed when the operation succeeds, and only then.  NULL: it is dropped.
 * - A residual never holds NaN or infinity: where an element is one, it becomes 0.
 * - Every rank gets the same bits, whatever carries them: contributions are added in rank order in
 *   f64 and rounded once.  A NaN in a result is the one quiet NaN (0x7fc00000).
 * - Operators are TC_REDUCE_SUM and TC_REDUCE_AVG, which divides by n; others fail with
 *   TC_ERR_UNSUPPORTED.
 * - The option `algorithm` names how parts are exchanged: it is one of tc_allgather_async(), or
 *   of tc_alltoall_async() where elements travel in fewer bits.  `numerics` makes no difference.
 * - Arrays belong to the operation until its future has settled; structs but `recv` are copied.
 * - docs/compression.md has the formats, the traffic and an example. */

/* Elements of a longer, dense array: element indices[i] is values[i], all others are none. */
typedef struct tc_sparse {
    void *indices;          /* k of index_dtype: ascending, none twice, from 0 */
    float *values;          /* k */
    size_t k;               /* elements that there are */
    size_t room;            /* elements that fit; of outputs */
    tc_dtype_t index_dtype; /* TC_DTYPE_U32 or TC_DTYPE_U64 */
} tc_sparse;

/* Payload of this rank, added up over the calls that are given the same struct; zero it first.
 * Changed before the future settles, on the loop. */
typedef struct tc_compress_stats {
    uint64_t bytes_sent;  /* to all other ranks together */
    uint64_t bytes_dense; /* that an all-reduce in f32 would have sent at least: 2 (n-1)/n of it */
} tc_compress_stats;

/* out = the k elements of x = values + residual that have the largest magnitudes; of equal ones
 * those with the lower index.
 *
 * `values` and `residual` (may be NULL) hold `count` elements, `out` has room for k, which is at
 * most `count`.  NaN counts as larger than infinity.  Elements that were taken become 0 in
 * residual, the others x.  Takes time O(count) and no memory; nothing is kept.  Any thread.
 * Fails with TC_ERR_INVALID_ARG, and then changes nothing. */
TC_API tc_status_t tc_topk_select(const float *values, float *residual, size_t count, size_t k,
                                  tc_sparse *out);

/* out = the elements of x = values + residual whose magnitude is at least `threshold` (0 or more);
 * where these are more than out->room, the out->room largest of them.  NaN is taken.  Otherwise as
 * tc_topk_select().  Any thread. */
TC_API tc_status_t tc_threshold_select(const float *values, float *residual, size_t count,
                                       float threshold, tc_sparse *out);

/* recv = the sum, or average, of the ranks' sparse arrays, dense: `count` elements.
 *
 * An element is added up over the ranks that have it, in rank order, as tc_reduce_reference() adds
 * them; one that no rank has is 0.  k_max 0: send->k is the same on every rank, and one all-gather
 * carries everything.  Otherwise send->k may differ from rank to rank, up to k_max, and an
 * all-gather of the lengths goes ahead.  k_max, count and index_dtype are the same on every rank.
 * Indices are read when the operation begins: wrong ones fail it on every rank, with
 * TC_ERR_INVALID_ARG that names this one.  `stats` may be NULL.  Any thread. */
TC_API tc_future *tc_allreduce_sparse_async(tc_dist_ctx *group, uint64_t tag, const tc_sparse *send,
                                            size_t k_max, float *recv, size_t count,
                                            tc_reduce_op_t op, tc_compress_stats *stats,
                                            const tc_options *options);

/* The same with a sparse result: of the sums the recv->room that have the largest magnitudes (of
 * equal ones those with the lower index), of these the ones of at least `threshold`.
 *
 * recv->indices, values, room and index_dtype are the caller's; recv->k is set.  recv->room and
 * threshold are the same on every rank.  What this rank has given to sums
 * that were not chosen is added to `residual` (may be NULL).  Any thread. */
TC_API tc_future *tc_allreduce_topk_async(tc_dist_ctx *group, uint64_t tag, const tc_sparse *send,
                                          size_t k_max, tc_sparse *recv, float threshold,
                                          size_t count, tc_reduce_op_t op, float *residual,
                                          tc_compress_stats *stats, const tc_options *options);

/* recv = the sum, or average, of all ranks' send + residual, with elements that travel as `wire`:
 * TC_DTYPE_BF16, F16, F8E4M3 or F8E5M2.  `count` elements; in place: send == recv.
 *
 * Rank r's x = send + residual is rounded to `wire`, F16 and the 8-bit floats times a power of two
 * that suits each 256 elements; the sums of these, too.  What is finite stays finite: an element
 * too large for the type takes its largest value.  Both errors go to residuals: the sum of all x is
 * recv (of an average n times it) plus the sum of the new residuals, but for their rounding in f32.
 * Infinity in F8E4M3, which has none, becomes NaN.  Needs memory of about 2 * count elements of
 * `wire`.  Any thread. */
TC_API tc_future *tc_allreduce_compressed_async(tc_dist_ctx *group, uint64_t tag, const float *send,
                                                float *recv, size_t count, tc_dtype_t wire,
                                                tc_reduce_op_t op, float *residual,
                                                tc_compress_stats *stats,
                                                const tc_options *options);

TC_END_DECLS

#endif
