/* collective.h - collectives, send and receive: all start at once and return a future. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_COLLECTIVE_H
#define TCDIST_COLLECTIVE_H

#include <stdbool.h>

#include "tcdist/buffer.h"
#include "tcdist/dist.h"
#include "tcdist/dtype.h"
#include "tcdist/future.h"

TC_BEGIN_DECLS

/* Rules of this header.  n is the number of ranks, x[r] what rank r passes as `x`.
 *
 * - A call never blocks and never returns NULL.  A bad argument gives a future that has failed
 *   with TC_ERR_INVALID_ARG; nothing is sent.  The caller owns the future.
 * - Buffers belong to the operation until the future has settled.  `send == recv` means in
 *   place; any other overlap is the caller's mistake.  count 0 may come with NULL.
 *   After a failure the contents of `recv` are undefined; memory outside it is never touched.
 * - `tag` names one collective on all ranks at a time, whatever the order in which ranks and
 *   threads start theirs.  It is reserved until the operation has ended here and was released:
 *   by tc_tag_release(), or by itself with the option auto_release.  A call with a reserved tag
 *   fails with TC_ERR_BUSY; one with a tag that has failed, behind more than 65,536 others that
 *   are no neighbours (docs/tags.md), with TC_ERR_INVALID_ARG.  TC_TAG_ORDERED takes the group's
 *   next number instead: such calls must come in the same order on every rank.
 * - Every operation ends within its timeout: done, or failed with TC_ERR_TIMEOUT,
 *   TC_ERR_PEER_LOST, TC_ERR_AUTH (a rank could not be linked, for its key), TC_ERR_MISMATCH,
 *   TC_ERR_CANCELLED, TC_ERR_CLOSED or TC_ERR_ALLOC, and an error that names the rank at fault.
 * - Calls under one tag that differ in the collective, type, operator, count, root, algorithm or
 *   numerics fail with TC_ERR_MISMATCH on every rank that takes part; the error shows both calls,
 *   and names, on all of them, the rank whose call is unlike that of the most.  Of calls that as
 *   many have made that of the lowest rank counts for more: of two ranks the higher one is named.
 *   A rank that has not called by then, a second at most, does not count.  Other tags go on.
 *   One exception, unless tc_config.check (TCDIST_CHECK) says TC_CHECK_FULL: in a broadcast,
 *   scatter, reduce, gather or send, and where only two ranks of an all-to-all-v disagree on their
 *   count, a rank that needs nothing of the one that differs may be done, with TC_OK, before it can
 *   hear of that.  Then the log shows both, tc_dist_health() gives TC_ERR_MISMATCH from then on,
 *   and so does tc_dist_finalize().  With TC_CHECK_FULL there is no exception: such a call, and a
 *   send, ends nowhere before all that take part have made it (docs/failures.md has the price).
 * - TC_OK speaks for this rank: others may still be busy.  tc_dist_finalize() waits for all.
 * - Any thread. */

/* Instead of a tag: the group's next number. */
#define TC_TAG_ORDERED UINT64_C(0x7463646973744f44)

#define TC_OPTIONS_ABI_VERSION 1 /* of tc_options, in this header */

/* How to carry one operation out; fill with tc_options_default(), then change.  NULL is that
 * default.  All ranks give the same numerics and algorithm; the rest is each rank's own. */
typedef struct tc_options {
    uint32_t abi_version;    /* TC_OPTIONS_ABI_VERSION; checked */
    int priority;            /* -128 … 127, higher goes first on every link [0] */
    int timeout_ms;          /* 0: of the context; -1: none */
    tc_future *const *after; /* futures to start behind; the list is copied, its futures kept */
    size_t n_after;          /* length of `after`; 0: start at once */
    bool auto_release;       /* [true] */
    int numerics;            /* tc_numerics_t [DEFAULT: of the context] */
    const char *algorithm;   /* "oneshot", "direct", "ring", "tree", …; NULL: choose */
} tc_options;

/* options = the defaults in brackets above; NULL is fine.  Any thread. */
TC_API void tc_options_default(tc_options *options);

/* recv = send[0] op send[1] op … op send[n-1] on every rank; `count` elements. */
TC_API tc_future *tc_allreduce_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                                     size_t count, tc_dtype_t dtype, tc_reduce_op_t op,
                                     const tc_options *options);

/* recv = send[0] op send[1] op … op send[n-1] on rank `root` alone; `count` elements.  On other
 * ranks recv may be NULL and is left alone.  In place: send == recv at the root. */
TC_API tc_future *tc_reduce_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                                  size_t count, tc_dtype_t dtype, tc_reduce_op_t op, int root,
                                  const tc_options *options);

/* recv = the rank-th of n blocks of send[0] op … op send[n-1]; send holds n * count_per_rank
 * elements, recv count_per_rank.  In place: recv == send, the block comes first. */
TC_API tc_future *tc_reduce_scatter_async(tc_dist_ctx *group, uint64_t tag, const void *send,
                                          void *recv, size_t count_per_rank, tc_dtype_t dtype,
                                          tc_reduce_op_t op, const tc_options *options);

/* The same with a count of its own for each block: block r of send, for rank r, has counts[r]
 * elements and follows on block r - 1; recv holds counts[rank].  `counts` has n entries, the same
 * on every rank, and is copied.  In place: recv is this rank's own block of send. */
TC_API tc_future *tc_reduce_scatterv_async(tc_dist_ctx *group, uint64_t tag, const void *send,
                                           void *recv, const size_t *counts, tc_dtype_t dtype,
                                           tc_reduce_op_t op, const tc_options *options);

/* buf = buf[root] on every rank; `count` elements. */
TC_API tc_future *tc_broadcast_async(tc_dist_ctx *group, uint64_t tag, void *buf, size_t count,
                                     tc_dtype_t dtype, int root, const tc_options *options);

/* recv = send[0], send[1], …, send[n-1] one after the other; recv holds n * count_per_rank
 * elements.  In place: send == recv + rank * count_per_rank elements. */
TC_API tc_future *tc_allgather_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                                     size_t count_per_rank, tc_dtype_t dtype,
                                     const tc_options *options);

/* The same with a count of its own for each rank: send holds `count` elements, which is
 * counts[rank]; what rank r sends lies in recv from element offsets[r] on; offsets NULL: one after
 * the other.  Both lists have n entries and are copied; counts are the same on every rank, offsets
 * each rank's own.  In place: send == recv + offsets[rank] elements. */
TC_API tc_future *tc_allgatherv_async(tc_dist_ctx *group, uint64_t tag, const void *send,
                                      size_t count, void *recv, const size_t *counts,
                                      const size_t *offsets, tc_dtype_t dtype,
                                      const tc_options *options);

/* recv = send[0], send[1], …, send[n-1] one after the other on rank `root` alone.  On other ranks
 * recv may be NULL and is left alone.  In place: send == recv + root * count_per_rank elements, at
 * the root. */
TC_API tc_future *tc_gather_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                                  size_t count_per_rank, tc_dtype_t dtype, int root,
                                  const tc_options *options);

/* recv = the rank-th of n blocks of send[root], count_per_rank elements each.  On other ranks than
 * `root` send may be NULL and is not read.  In place: recv == send + root * count_per_rank
 * elements, at the root. */
TC_API tc_future *tc_scatter_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                                   size_t count_per_rank, tc_dtype_t dtype, int root,
                                   const tc_options *options);

/* Block r of recv = block `rank` of send[r]: n blocks of count_per_pair elements each.  In place
 * (send == recv) takes scratch of the size of a segment. */
TC_API tc_future *tc_alltoall_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                                    size_t count_per_pair, tc_dtype_t dtype,
                                    const tc_options *options);

/* The same with counts: send_counts[r] elements from send_offsets[r] on go to rank r, and
 * recv_counts[r] elements come from it to recv_offsets[r] on, where recv_counts[r] here is
 * send_counts[rank] there.  Offsets NULL: one block after the other.  The lists have n entries and
 * are copied.  Not in place. */
TC_API tc_future *tc_alltoallv_async(tc_dist_ctx *group, uint64_t tag, const void *send,
                                     const size_t *send_counts, const size_t *send_offsets,
                                     void *recv, const size_t *recv_counts,
                                     const size_t *recv_offsets, tc_dtype_t dtype,
                                     const tc_options *options);

/* Settles when every rank has entered. */
TC_API tc_future *tc_barrier_async(tc_dist_ctx *group, uint64_t tag, const tc_options *options);

/* Send `count` elements to a peer (any rank, this one too), to its receive of the same tag.
 * A tag belongs to the ordered pair of ranks; TC_TAG_ORDERED is the pair's next number. */
TC_API tc_future *tc_send_async(tc_dist_ctx *group, uint64_t tag, const void *buf, size_t count,
                                tc_dtype_t dtype, int peer, const tc_options *options);

/* Receive exactly `count` elements that a peer sends under the same tag. */
TC_API tc_future *tc_recv_async(tc_dist_ctx *group, uint64_t tag, void *buf, size_t count,
                                tc_dtype_t dtype, int peer, const tc_options *options);

/* Release a tag whose collective has ended here; TC_ERR_INVALID_ARG for one that is not reserved,
 * TC_ERR_BUSY while its operation runs. */
TC_API tc_status_t tc_tag_release(tc_dist_ctx *group, uint64_t tag);

/* The blocking forms.  Ordered: the same calls in the same sequence on every rank.  `n` counts
 * elements from the start of the buffer, which must hold them (else TC_ERR_INVALID_ARG at once,
 * and nothing is sent).  They wait as tc_future_wait() does, so not from a continuation: the call
 * is refused there with TC_ERR_INVALID_ARG and nothing is sent.  They fail as the asynchronous
 * forms do; tc_last_error() explains.  Any thread. */

/* buffer = buffer[0] op buffer[1] op … op buffer[size-1] on every rank, as tc_allreduce_async().
 * The first n elements count; the rest is left alone.  Any thread. */
TC_API tc_status_t tc_allreduce(tc_dist_ctx *group, tc_buffer *buffer, size_t n, tc_dtype_t dtype,
                                tc_reduce_op_t op);

/* buffer = buffer[root] on every rank, its first n elements.  Any thread. */
TC_API tc_status_t tc_broadcast(tc_dist_ctx *group, tc_buffer *buffer, size_t n, tc_dtype_t dtype,
                                int root);

/* out = in[0], in[1], …, in[size-1] one after the other; `in` holds n_per_rank elements, `out`
 * size * n_per_rank.  They may not overlap.  Any thread. */
TC_API tc_status_t tc_allgather(tc_dist_ctx *group, const tc_buffer *in, tc_buffer *out,
                                size_t n_per_rank, tc_dtype_t dtype);

/* out = the rank-th of size blocks of in[0] op … op in[size-1]; `in` holds size * n_per_rank
 * elements, `out` n_per_rank.  One buffer for both is in place, as tc_reduce_scatter_async().
 * Any thread. */
TC_API tc_status_t tc_reduce_scatter(tc_dist_ctx *group, const tc_buffer *in, tc_buffer *out,
                                     size_t n_per_rank, tc_dtype_t dtype, tc_reduce_op_t op);

/* Send the first n elements to a peer, in the order of the pair's calls; returns when the buffer
 * may be changed again, which may be before the peer receives.  To this rank itself it waits for
 * the receive: start that first, by tc_recv_async() or on another thread.  Any thread. */
TC_API tc_status_t tc_send(tc_dist_ctx *group, const tc_buffer *buffer, size_t n, tc_dtype_t dtype,
                           int peer);

/* Receive exactly n elements from a peer, in the order of the pair's calls.  Any thread. */
TC_API tc_status_t tc_recv(tc_dist_ctx *group, tc_buffer *buffer, size_t n, tc_dtype_t dtype,
                           int peer);

/* Returns when every rank has entered.  Any thread. */
TC_API tc_status_t tc_barrier(tc_dist_ctx *group);

TC_END_DECLS

#endif
