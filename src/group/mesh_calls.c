/* mesh_calls.c - the collectives of a mesh group: start, wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base.h"
#include "group/group.h"
#include "group/mesh.h"
#include "tcdist/collective.h"

static const tc_dtype_t dtypes[] = {
    [TC_COLL_DTYPE_F32] = TC_DTYPE_F32,       [TC_COLL_DTYPE_F16] = TC_DTYPE_F16,
    [TC_COLL_DTYPE_BF16] = TC_DTYPE_BF16,     [TC_COLL_DTYPE_F64] = TC_DTYPE_F64,
    [TC_COLL_DTYPE_I8] = TC_DTYPE_I8,         [TC_COLL_DTYPE_U8] = TC_DTYPE_U8,
    [TC_COLL_DTYPE_I16] = TC_DTYPE_I16,       [TC_COLL_DTYPE_U16] = TC_DTYPE_U16,
    [TC_COLL_DTYPE_I32] = TC_DTYPE_I32,       [TC_COLL_DTYPE_U32] = TC_DTYPE_U32,
    [TC_COLL_DTYPE_I64] = TC_DTYPE_I64,       [TC_COLL_DTYPE_U64] = TC_DTYPE_U64,
    [TC_COLL_DTYPE_F8E4M3] = TC_DTYPE_F8E4M3, [TC_COLL_DTYPE_F8E5M2] = TC_DTYPE_F8E5M2,
    [TC_COLL_DTYPE_BOOL] = TC_DTYPE_BOOL,     [TC_COLL_DTYPE_C64] = TC_DTYPE_C64,
};

/* Up to this payload, divided by the ranks, everyone sends all to all others at once; above it
 * each folds a block of its own and sends that.  docs/bounds.md. */
enum { ONESHOT_BYTES_MAX = 128 << 10 };

struct call {
    const char *name;
    tc_mesh_group_t *mesh;
    bool is_tagged;
    uint64_t id;
    const void *send;
    void *recv;
    size_t count;
    tc_coll_dtype_t dtype;
    tc_reduce_op_t op;
    int root;
};

typedef tc_future *start_fn(const struct call *call, uint64_t tag, tc_dtype_t dtype,
                            tc_options *options);

/* The plan that tc_mesh_allreduce_algorithm() promises, whatever would be the cheapest. */
static const char *plan_of(const struct call *call, tc_dtype_t dtype)
{
    const tc_mesh_group_t *mesh = call->mesh;
    size_t ranks = (size_t)tc_dist_world_size(mesh->group), bytes;

    if (mesh->algorithm == TCI_MESH_CENTRALIZED)
        return "centralized";
    if (!tci_array_bytes(call->count, tc_dtype_size(dtype), &bytes))
        return NULL; /* refused later */
    return bytes <= ONESHOT_BYTES_MAX / ranks ? "oneshot" : "direct";
}

static tc_future *start_allreduce(const struct call *call, uint64_t tag, tc_dtype_t dtype,
                                  tc_options *options)
{
    options->algorithm = plan_of(call, dtype);
    return tc_allreduce_async(call->mesh->group, tag, call->send, call->recv, call->count, dtype,
                              call->op, options);
}

static tc_future *start_broadcast(const struct call *call, uint64_t tag, tc_dtype_t dtype,
                                  tc_options *options)
{
    return tc_broadcast_async(call->mesh->group, tag, call->recv, call->count, dtype, call->root,
                              options);
}

static tc_future *start_allgather(const struct call *call, uint64_t tag, tc_dtype_t dtype,
                                  tc_options *options)
{
    return tc_allgather_async(call->mesh->group, tag, call->send, call->recv, call->count, dtype,
                              options);
}

static tc_status_t check(const struct call *call)
{
    struct tci_exec *exec;

    if (call->mesh == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, call->name, "%s: the group is NULL", call->name);
    exec = call->mesh->group->comm.exec;
    if (exec->ops->is_here(exec))
        return tci_fail(TC_ERR_INVALID_ARG, call->name,
                        "%s: not from a continuation, which it would wait for", call->name);
    if ((size_t)call->dtype >= TCI_LEN(dtypes))
        return tci_fail(TC_ERR_UNSUPPORTED_DTYPE, call->name,
                        "%s: %d is no element type of a mesh group", call->name, (int)call->dtype);
    if (call->is_tagged && call->id == TC_TAG_ORDERED)
        return tci_fail(TC_ERR_INVALID_ARG, call->name,
                        "%s: the id 0x%llx means ordered calls: take another", call->name,
                        (unsigned long long)call->id);
    return TC_OK;
}

static tc_status_t run(const struct call *call, start_fn *start)
{
    tc_status_t status = check(call);
    tc_options options;
    tc_future *future;

    if (status != TC_OK)
        return status;
    if (tci_context_is_foreign(call->mesh->group->comm.context))
        return tci_context_refuse(call->mesh->group->comm.context, call->name);
    tc_options_default(&options);
    options.auto_release = !call->is_tagged;
    if (!call->is_tagged)
        pthread_mutex_lock(&call->mesh->ordered);
    future =
        start(call, call->is_tagged ? call->id : TC_TAG_ORDERED, dtypes[call->dtype], &options);
    status = tc_future_wait(future, -1);
    if (!call->is_tagged)
        pthread_mutex_unlock(&call->mesh->ordered);
    tc_future_release(future);
    return status;
}

/* ---- The calls ------------------------------------------------------------------------------ */

static tc_status_t allreduce(tc_mesh_group_t *mesh, const uint64_t *id, void *buf, size_t count,
                             tc_coll_dtype_t dtype, tc_reduce_op_t op)
{
    return run(&(struct call){.name = "allreduce",
                              .mesh = mesh,
                              .is_tagged = id != NULL,
                              .id = id != NULL ? *id : 0,
                              .send = buf,
                              .recv = buf,
                              .count = count,
                              .dtype = dtype,
                              .op = op},
               start_allreduce);
}

static tc_status_t broadcast(tc_mesh_group_t *mesh, const uint64_t *id, void *buf, size_t count,
                             tc_coll_dtype_t dtype, int32_t root)
{
    return run(&(struct call){.name = "broadcast",
                              .mesh = mesh,
                              .is_tagged = id != NULL,
                              .id = id != NULL ? *id : 0,
                              .recv = buf,
                              .count = count,
                              .dtype = dtype,
                              .root = root},
               start_broadcast);
}

static tc_status_t allgather(tc_mesh_group_t *mesh, const uint64_t *id, const void *send,
                             size_t count, void *recv, tc_coll_dtype_t dtype)
{
    return run(&(struct call){.name = "allgather",
                              .mesh = mesh,
                              .is_tagged = id != NULL,
                              .id = id != NULL ? *id : 0,
                              .send = send,
                              .recv = recv,
                              .count = count,
                              .dtype = dtype},
               start_allgather);
}

tc_status_t tc_mesh_allreduce(tc_mesh_group_t *mesh, void *buf, size_t count, tc_coll_dtype_t dtype,
                              tc_reduce_op_t op)
{
    return allreduce(mesh, NULL, buf, count, dtype, op);
}

tc_status_t tc_mesh_broadcast(tc_mesh_group_t *mesh, void *buf, size_t count, tc_coll_dtype_t dtype,
                              int32_t root)
{
    return broadcast(mesh, NULL, buf, count, dtype, root);
}

tc_status_t tc_mesh_allgather(tc_mesh_group_t *mesh, const void *send, size_t send_count,
                              void *recv, tc_coll_dtype_t dtype)
{
    return allgather(mesh, NULL, send, send_count, recv, dtype);
}

tc_status_t tc_mesh_allreduce_tagged(tc_mesh_group_t *mesh, uint64_t id, void *buf, size_t count,
                                     tc_coll_dtype_t dtype, tc_reduce_op_t op)
{
    return allreduce(mesh, &id, buf, count, dtype, op);
}

tc_status_t tc_mesh_broadcast_tagged(tc_mesh_group_t *mesh, uint64_t id, void *buf, size_t count,
                                     tc_coll_dtype_t dtype, int32_t root)
{
    return broadcast(mesh, &id, buf, count, dtype, root);
}

tc_status_t tc_mesh_allgather_tagged(tc_mesh_group_t *mesh, uint64_t id, const void *send,
                                     size_t send_count, void *recv, tc_coll_dtype_t dtype)
{
    return allgather(mesh, &id, send, send_count, recv, dtype);
}

tc_status_t tc_mesh_collective_release_tag(tc_mesh_group_t *mesh, uint64_t id)
{
    if (mesh == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "tag_release", "tag_release: the group is NULL");
    return tc_tag_release(mesh->group, id);
}
