/* blocking.c - the blocking calls over buffers: start in order, wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/coll.h"
#include "core/base.h"
#include "tcdist/buffer.h"

/* The memory of n elements at the start of a buffer; false when it does not hold them. */
static bool map(const tc_buffer *buffer, size_t n, size_t blocks, tc_dtype_t dtype,
                const char *name, void **out)
{
    size_t bytes, size = tc_dtype_size(dtype);

    if (buffer == NULL) {
        tci_fail(TC_ERR_INVALID_ARG, name, "%s: the buffer is NULL", name);
        return false;
    }
    if (!tci_array_bytes(n, blocks, &bytes) || !tci_array_bytes(bytes, size, &bytes) ||
        bytes > tc_buffer_size(buffer)) {
        tci_fail(TC_ERR_INVALID_ARG, name, "%s: %zu x %zu elements of %s do not fit in %zu bytes",
                 name, blocks, n, tc_dtype_name(dtype), tc_buffer_size(buffer));
        return false;
    }
    return tc_buffer_map((tc_buffer *)buffer, out) == TC_OK;
}

/* A continuation would wait for the loop that it stands on: refused before anything is sent. */
static bool may_wait(tc_dist_ctx *group, const char *name)
{
    struct tci_exec *exec = group == NULL ? NULL : tci_comm_of(group)->exec;

    if (exec == NULL || !exec->ops->is_here(exec))
        return true;
    tci_fail(TC_ERR_INVALID_ARG, name,
             "%s: not from a continuation, which it would wait for: call %s_async and chain with "
             "tc_future_then",
             name, name);
    return false;
}

static tc_status_t finish(tc_future *future)
{
    tc_status_t status = tc_future_wait(future, -1);

    tc_future_release(future);
    return status;
}

static size_t size_of(const tc_dist_ctx *group)
{
    return group == NULL ? 1 : (size_t)tc_dist_world_size(group);
}

tc_status_t tc_allreduce(tc_dist_ctx *group, tc_buffer *buffer, size_t n, tc_dtype_t dtype,
                         tc_reduce_op_t op)
{
    void *data;

    if (!may_wait(group, "allreduce") || !map(buffer, n, 1, dtype, "allreduce", &data))
        return TC_ERR_INVALID_ARG;
    return finish(tc_allreduce_async(group, TC_TAG_ORDERED, data, data, n, dtype, op, NULL));
}

tc_status_t tc_broadcast(tc_dist_ctx *group, tc_buffer *buffer, size_t n, tc_dtype_t dtype,
                         int root)
{
    void *data;

    if (!may_wait(group, "broadcast") || !map(buffer, n, 1, dtype, "broadcast", &data))
        return TC_ERR_INVALID_ARG;
    return finish(tc_broadcast_async(group, TC_TAG_ORDERED, data, n, dtype, root, NULL));
}

tc_status_t tc_allgather(tc_dist_ctx *group, const tc_buffer *in, tc_buffer *out, size_t n_per_rank,
                         tc_dtype_t dtype)
{
    void *send, *recv;

    if (!may_wait(group, "allgather") || !map(in, n_per_rank, 1, dtype, "allgather", &send) ||
        !map(out, n_per_rank, size_of(group), dtype, "allgather", &recv))
        return TC_ERR_INVALID_ARG;
    return finish(tc_allgather_async(group, TC_TAG_ORDERED, send, recv, n_per_rank, dtype, NULL));
}

tc_status_t tc_reduce_scatter(tc_dist_ctx *group, const tc_buffer *in, tc_buffer *out,
                              size_t n_per_rank, tc_dtype_t dtype, tc_reduce_op_t op)
{
    void *send, *recv;

    if (!may_wait(group, "reduce_scatter") ||
        !map(in, n_per_rank, size_of(group), dtype, "reduce_scatter", &send) ||
        !map(out, n_per_rank, 1, dtype, "reduce_scatter", &recv))
        return TC_ERR_INVALID_ARG;
    return finish(
        tc_reduce_scatter_async(group, TC_TAG_ORDERED, send, recv, n_per_rank, dtype, op, NULL));
}

tc_status_t tc_send(tc_dist_ctx *group, const tc_buffer *buffer, size_t n, tc_dtype_t dtype,
                    int peer)
{
    void *data;

    if (!may_wait(group, "send") || !map(buffer, n, 1, dtype, "send", &data))
        return TC_ERR_INVALID_ARG;
    return finish(tc_send_async(group, TC_TAG_ORDERED, data, n, dtype, peer, NULL));
}

tc_status_t tc_recv(tc_dist_ctx *group, tc_buffer *buffer, size_t n, tc_dtype_t dtype, int peer)
{
    void *data;

    if (!may_wait(group, "recv") || !map(buffer, n, 1, dtype, "recv", &data))
        return TC_ERR_INVALID_ARG;
    return finish(tc_recv_async(group, TC_TAG_ORDERED, data, n, dtype, peer, NULL));
}

tc_status_t tc_barrier(tc_dist_ctx *group)
{
    if (!may_wait(group, "barrier"))
        return TC_ERR_INVALID_ARG;
    return finish(tc_barrier_async(group, TC_TAG_ORDERED, NULL));
}
