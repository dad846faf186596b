/* calls.c - the public collectives: what each of them asks for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "algo/coll.h"

/* Operators come from outside: -1 stands for none. */
static int op_of(tc_reduce_op_t op)
{
    return (int)op < 0 ? 1000 : (int)op;
}

static bool is_rank(const tc_dist_ctx *group, int rank)
{
    return group != NULL && tc_dist_rank(group) == rank;
}

/* Whether a buffer is the rank-th payload of another one, which holds one a rank. */
static bool is_own_block(const tc_dist_ctx *group, const void *own, const void *all, size_t bytes)
{
    return group != NULL && own != NULL && all != NULL &&
           (uintptr_t)own == (uintptr_t)all + (size_t)tc_dist_rank(group) * bytes;
}

/* ---- reductions --------------------------------------------------------------------------- */

tc_future *tc_allreduce_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                              size_t count, tc_dtype_t dtype, tc_reduce_op_t op,
                              const tc_options *options)
{
    return tci_coll_start(group, &(struct tci_request){.name = "allreduce",
                                                       .coll = TCI_COLL_ALLREDUCE,
                                                       .tag = tag,
                                                       .send = send,
                                                       .recv = recv,
                                                       .count = count,
                                                       .is_typed = true,
                                                       .dtype = dtype,
                                                       .op = op_of(op),
                                                       .root = -1,
                                                       .in_place = send == recv,
                                                       .options = options});
}

tc_future *tc_reduce_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                           size_t count, tc_dtype_t dtype, tc_reduce_op_t op, int root,
                           const tc_options *options)
{
    return tci_coll_start(group, &(struct tci_request){.name = "reduce",
                                                       .coll = TCI_COLL_REDUCE,
                                                       .tag = tag,
                                                       .send = send,
                                                       .recv = recv,
                                                       .count = count,
                                                       .is_typed = true,
                                                       .dtype = dtype,
                                                       .op = op_of(op),
                                                       .root = root,
                                                       .is_rooted = true,
                                                       .in_place = send == recv,
                                                       .lacks_recv = !is_rank(group, root),
                                                       .options = options});
}

tc_future *tc_reduce_scatter_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                                   size_t count_per_rank, tc_dtype_t dtype, tc_reduce_op_t op,
                                   const tc_options *options)
{
    return tci_coll_start(group, &(struct tci_request){.name = "reduce_scatter",
                                                       .coll = TCI_COLL_REDUCE_SCATTER,
                                                       .tag = tag,
                                                       .send = send,
                                                       .recv = recv,
                                                       .count = count_per_rank,
                                                       .is_typed = true,
                                                       .dtype = dtype,
                                                       .op = op_of(op),
                                                       .root = -1,
                                                       .in_place = send == recv,
                                                       .options = options});
}

/* ---- movements ---------------------------------------------------------------------------- */

tc_future *tc_broadcast_async(tc_dist_ctx *group, uint64_t tag, void *buf, size_t count,
                              tc_dtype_t dtype, int root, const tc_options *options)
{
    return tci_coll_start(group, &(struct tci_request){.name = "broadcast",
                                                       .coll = TCI_COLL_BROADCAST,
                                                       .tag = tag,
                                                       .send = buf,
                                                       .recv = buf,
                                                       .count = count,
                                                       .is_typed = true,
                                                       .dtype = dtype,
                                                       .op = -1,
                                                       .root = root,
                                                       .is_rooted = true,
                                                       .in_place = true,
                                                       .options = options});
}

tc_future *tc_allgather_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                              size_t count_per_rank, tc_dtype_t dtype, const tc_options *options)
{
    size_t bytes = count_per_rank * tc_dtype_size(dtype);

    return tci_coll_start(group,
                          &(struct tci_request){.name = "allgather",
                                                .coll = TCI_COLL_ALLGATHER,
                                                .tag = tag,
                                                .send = send,
                                                .recv = recv,
                                                .count = count_per_rank,
                                                .is_typed = true,
                                                .dtype = dtype,
                                                .op = -1,
                                                .root = -1,
                                                .in_place = is_own_block(group, send, recv, bytes),
                                                .options = options});
}

tc_future *tc_gather_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                           size_t count_per_rank, tc_dtype_t dtype, int root,
                           const tc_options *options)
{
    size_t bytes = count_per_rank * tc_dtype_size(dtype);

    return tci_coll_start(group,
                          &(struct tci_request){.name = "gather",
                                                .coll = TCI_COLL_GATHER,
                                                .tag = tag,
                                                .send = send,
                                                .recv = recv,
                                                .count = count_per_rank,
                                                .is_typed = true,
                                                .dtype = dtype,
                                                .op = -1,
                                                .root = root,
                                                .is_rooted = true,
                                                .in_place = is_own_block(group, send, recv, bytes),
                                                .lacks_recv = !is_rank(group, root),
                                                .options = options});
}

tc_future *tc_scatter_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                            size_t count_per_rank, tc_dtype_t dtype, int root,
                            const tc_options *options)
{
    size_t bytes = count_per_rank * tc_dtype_size(dtype);

    return tci_coll_start(group,
                          &(struct tci_request){.name = "scatter",
                                                .coll = TCI_COLL_SCATTER,
                                                .tag = tag,
                                                .send = send,
                                                .recv = recv,
                                                .count = count_per_rank,
                                                .is_typed = true,
                                                .dtype = dtype,
                                                .op = -1,
                                                .root = root,
                                                .is_rooted = true,
                                                .in_place = is_own_block(group, recv, send, bytes),
                                                .lacks_send = !is_rank(group, root),
                                                .options = options});
}

tc_future *tc_alltoall_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                             size_t count_per_pair, tc_dtype_t dtype, const tc_options *options)
{
    return tci_coll_start(group, &(struct tci_request){.name = "alltoall",
                                                       .coll = TCI_COLL_ALLTOALL,
                                                       .tag = tag,
                                                       .send = send,
                                                       .recv = recv,
                                                       .count = count_per_pair,
                                                       .is_typed = true,
                                                       .dtype = dtype,
                                                       .op = -1,
                                                       .root = -1,
                                                       .in_place = send == recv,
                                                       .options = options});
}

tc_future *tc_barrier_async(tc_dist_ctx *group, uint64_t tag, const tc_options *options)
{
    return tci_coll_start(group, &(struct tci_request){.name = "barrier",
                                                       .coll = TCI_COLL_BARRIER,
                                                       .tag = tag,
                                                       .op = -1,
                                                       .root = -1,
                                                       .in_place = true,
                                                       .options = options});
}
