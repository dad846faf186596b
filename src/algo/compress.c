/* compress.c - what the compressed all-reduces share: checks, the start, one exchange of blocks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/compress.h"

#include "algo/algo.h"
#include "algo/select.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

/* ---- start -------------------------------------------------------------------------------- */

bool tci_compress_check(const tc_dist_ctx *group, const struct tci_compress_request *request,
                        struct tci_error *error)
{
    if (group == NULL)
        return tci_bad_arg(error, request->name, "the group is NULL");
    if (tci_context_is_foreign(tci_comm_of((tc_dist_ctx *)group)->context)) {
        tci_error_set(error, TC_ERR_NOT_INITIALIZED, -1, request->tag, request->name,
                      "of another process");
        return false;
    }
    if (!tci_check_options(request->options, tci_comm_of((tc_dist_ctx *)group)->context, error,
                           request->name))
        return false;
    if (request->op == TC_REDUCE_SUM || request->op == TC_REDUCE_AVG)
        return true;
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, request->tag, request->name,
                  "%s: operator %s (%d) is not carried compressed: use TC_REDUCE_SUM or "
                  "TC_REDUCE_AVG",
                  request->name, tc_reduce_op_name(request->op), (int)request->op);
    return false;
}

tc_future *tci_compress_start(struct tci_comm *comm, const struct tci_compress_request *request)
{
    const char *algorithm = request->options != NULL ? request->options->algorithm : NULL;
    struct tci_error error = {0};
    struct tci_op_args args = {
        .name = request->name,
        .shape = {.rank = (uint32_t)comm->rank, .size = (uint32_t)comm->size},
        .call = {.count = request->count,
                 .root = -1,
                 .coll = (uint8_t)request->coll,
                 .dtype = (uint8_t)request->dtype,
                 .op = (uint8_t)request->op},
        .count = request->bytes,
        .elem_bytes = 1,
        .tag = request->tag,
        .space = TCI_SPACE_TAGGED,
        .peer = TCI_ALL_PEERS,
        .stages = request->stages,
    };

    tci_apply_options(comm, request->options, &args);
    if (comm->is_ring)
        tci_error_set(
            &error, TC_ERR_UNSUPPORTED, -1, args.tag, args.name,
            "%s: this group was given links between neighbours alone, and this needs links "
            "between all ranks",
            args.name);
    if (comm->is_ring || tci_select(comm, &args, request->plans, TC_NUMERICS_CANONICAL,
                                    algorithm != NULL ? algorithm : "direct", &error) != TC_OK) {
        request->stages->free(request->stages);
        return tci_refuse(comm, &error);
    }
    if (args.tag == TC_TAG_ORDERED) {
        args.space = TCI_SPACE_ORDERED;
        args.tag = atomic_fetch_add_explicit(&comm->ordered_next, 1, memory_order_relaxed);
        args.auto_release = true;
    }
    return tci_op_start(comm, &args);
}

uint64_t tci_compress_dense_bytes(const struct tci_comm *comm, uint64_t count)
{
    uint64_t n = (uint64_t)comm->size;

    return 2 * sizeof(float) * (count / n * (n - 1) + count % n * (n - 1) / n);
}

/* ---- blocks ------------------------------------------------------------------------------- */

bool tci_compress_blocks_init(struct tci_compress_blocks *blocks, size_t n)
{
    *blocks = (struct tci_compress_blocks){.n = n};
    blocks->sizes = tci_alloc_array(2 * n, sizeof(*blocks->sizes));
    if (blocks->sizes == NULL)
        return false;
    blocks->offsets = blocks->sizes + n;
    return true;
}

void tci_compress_blocks_fini(struct tci_compress_blocks *blocks)
{
    tci_free(blocks->sizes);
    blocks->sizes = blocks->offsets = NULL;
}

bool tci_compress_blocks_set(struct tci_compress_blocks *blocks, size_t rank, size_t bytes)
{
    TC_ASSERT(rank < blocks->n);
    if (rank == 0)
        blocks->total = 0;
    if (bytes > TCI_MEMORY_MAX - blocks->total)
        return false;
    blocks->sizes[rank] = bytes;
    blocks->offsets[rank] = blocks->total;
    blocks->total += bytes;
    return true;
}

/* Every rank cuts into the same segments: those of an all-gather of bytes. */
void tci_compress_exchange(struct tci_op *op, const void *send, void *recv, size_t bytes)
{
    op->args.send = send;
    op->args.recv = recv;
    op->args.count = bytes;
    op->args.lane_elems = tci_max(1, op->comm->segment_bytes / (size_t)op->comm->size);
    op->args.blocks = (struct tci_blocks){0};
}

void tci_compress_gather(struct tci_op *op, const void *send, void *recv,
                         const struct tci_compress_blocks *blocks)
{
    size_t most = 0;

    for (size_t r = 0; r < blocks->n; r++)
        most = tci_max(most, blocks->sizes[r]);
    tci_compress_exchange(op, send, recv, most);
    if (blocks->total == most * blocks->n)
        return;
    if (op->args.plan->equal)
        op->args.plan = tci_plan_find(TCI_COLL_ALLGATHER, "direct");
    op->args.blocks =
        (struct tci_blocks){blocks->sizes, blocks->offsets, blocks->sizes, blocks->offsets};
}
