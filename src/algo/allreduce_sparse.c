/* allreduce_sparse.c - all-reduces of sparse arrays: gathered, and merged on every rank. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   pack -> [heads gathered ->] contributions gathered -> merged -+-> dense
 *                                                                 +-> k largest -> sparse
 *
 *   cost: 1 round, or 2 where lengths differ; (n - 1) (32 + k (4 + index)) bytes sent a rank, n k
 *   elements added by every rank: the price of the same bits everywhere.
 *
 * Source: the sparse all-reduce by all-gather, Lin, Han, Mao, Wang, Dally, Deep Gradient
 * Compression, 2018; the choice among the sums with what was not chosen put back, Shi and others,
 * A Distributed Synchronous SGD Algorithm with Global Top-k Sparsification, 2019.
 */
#include <stdio.h>
#include <string.h>

#include "algo/coll.h"
#include "algo/compress.h"
#include "algo/select.h"
#include "algo/sparse.h"
#include "algo/topk.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

/* Elements that a turn of the loop deals with: a quarter of a millisecond. */
enum {
    MERGE_BUDGET = 64 << 10,
    FILL_BUDGET = 256 << 10,
    SELECT_BUDGET = 128 << 10,
    EMIT_BUDGET = 64 << 10
};

enum phase { PACK, HEADS, GATHER, MERGE, FILL, SELECT, EMIT };

struct sparse {
    struct tci_stages stages; /* first: freed by way of it */
    enum phase phase;
    struct tci_comm *comm; /* borrowed */
    tc_sparse send;
    struct tci_sparse_head head;
    size_t index_bytes, k_max;
    float *dense;                      /* the caller's; NULL: a sparse result */
    tc_sparse *out;                    /* the caller's; NULL: a dense result */
    float *residual;                   /* the caller's, or NULL */
    float threshold;                   /* of a sparse result */
    tc_compress_stats *stats;          /* the caller's, or NULL */
    uint8_t *mine;                     /* owned, as the rest: what this rank sends */
    struct tci_sparse_head *heads;     /* of all ranks; NULL where they come with the rest */
    struct tci_compress_blocks blocks; /* of all ranks in `all` */
    uint8_t *all;
    struct tci_merge merge;
    bool has_tile;           /* that has not been emitted */
    size_t filled;           /* elements of dense that are written */
    uint64_t *merged_at;     /* of a sparse result: indices of the sums … */
    float *merged;           /* … and these */
    size_t merged_count, at; /* emitted up to here */
    size_t own_at;           /* own contributions looked at */
    struct tci_topk topk;
};

static void free_sparse(struct tci_stages *stages)
{
    struct sparse *sparse = tci_container_of(stages, struct sparse, stages);

    tci_free(sparse->mine);
    tci_free(sparse->heads);
    tci_compress_blocks_fini(&sparse->blocks);
    tci_free(sparse->all);
    tci_free(sparse->merged_at);
    tci_free(sparse->merged);
    tci_merge_fini(&sparse->merge);
    tci_free(sparse);
}

/* ---- contributions travel ----------------------------------------------------------------- */

static enum tci_stage no_memory(struct tci_op *op)
{
    tci_op_fail_with(op, TC_ERR_ALLOC, op->comm->rank, true,
                     "rank %d has no memory left for the contributions", op->comm->rank);
    return TCI_STAGE_FAILED;
}

/* Room for what comes: k elements of each rank, or as many as their heads say. */
static bool make_room(struct sparse *sparse)
{
    size_t total = 0, bytes;

    for (size_t r = 0; r < (size_t)sparse->comm->size; r++) {
        size_t k = sparse->heads != NULL ? sparse->heads[r].k : sparse->send.k;

        if (!tci_sparse_bytes(k, sparse->index_bytes, &bytes) ||
            !tci_compress_blocks_set(&sparse->blocks, r, bytes))
            return false;
        total += k;
    }
    sparse->all = tci_alloc_raw(sparse->blocks.total);
    if (sparse->out != NULL) {
        sparse->merged_at = tci_alloc_array(total, sizeof(*sparse->merged_at));
        sparse->merged = tci_alloc_array(total, sizeof(*sparse->merged));
    }
    return sparse->all != NULL &&
           (sparse->out == NULL || (sparse->merged_at != NULL && sparse->merged != NULL));
}

static enum tci_stage gather(struct sparse *sparse, struct tci_op *op)
{
    sparse->phase = GATHER;
    if (sparse->all == NULL && !make_room(sparse))
        return no_memory(op);
    tci_compress_gather(op, sparse->mine, sparse->all, &sparse->blocks);
    return TCI_STAGE_PLAN;
}

static enum tci_stage pack(struct sparse *sparse, struct tci_op *op)
{
    const tc_sparse *send = &sparse->send;
    size_t bad;

    if (!tci_sparse_pack(&sparse->head, send, sparse->mine, &bad)) {
        tci_op_fail_with(op, TC_ERR_INVALID_ARG, op->comm->rank, true,
                         "indices[%zu] of rank %d is not above the one before and below the count "
                         "%llu",
                         bad, op->comm->rank, (unsigned long long)sparse->head.count);
        return TCI_STAGE_FAILED;
    }
    if (sparse->heads == NULL)
        return gather(sparse, op);
    sparse->phase = HEADS;
    tci_compress_exchange(op, sparse->mine, sparse->heads, sizeof(struct tci_sparse_head));
    return TCI_STAGE_PLAN;
}

/* Whether what a rank says of its call agrees with this rank's. */
static bool check_head(const struct sparse *sparse, struct tci_op *op, uint32_t rank,
                       const struct tci_sparse_head *head)
{
    const struct tci_sparse_head *own = &sparse->head;
    size_t k_most = sparse->k_max > 0 ? sparse->k_max : own->k;

    if (head->count != own->count || head->room != own->room || head->threshold != own->threshold) {
        float thresholds[2];

        memcpy(&thresholds[0], &own->threshold, sizeof(float));
        memcpy(&thresholds[1], &head->threshold, sizeof(float));
        tci_op_fail_with(op, TC_ERR_MISMATCH, (int)rank, true,
                         "rank %d gives the count %llu, room %llu and threshold %g, rank %u the "
                         "count %llu, room %llu and threshold %g: make the calls agree",
                         op->comm->rank, (unsigned long long)own->count,
                         (unsigned long long)own->room, (double)thresholds[0], rank,
                         (unsigned long long)head->count, (unsigned long long)head->room,
                         (double)thresholds[1]);
        return false;
    }
    if (head->k > k_most || (sparse->k_max == 0 && head->k != own->k)) {
        tci_op_fail_with(op, TC_ERR_TRANSPORT, (int)rank, true,
                         "rank %u announces %llu elements instead of %s%zu: its message is damaged",
                         rank, (unsigned long long)head->k, sparse->k_max > 0 ? "at most " : "",
                         k_most);
        return false;
    }
    return true;
}

static enum tci_stage read_heads(struct sparse *sparse, struct tci_op *op)
{
    for (uint32_t r = 0; r < op->args.shape.size; r++)
        if (!check_head(sparse, op, r, &sparse->heads[r]))
            return TCI_STAGE_FAILED;
    return gather(sparse, op);
}

static enum tci_stage read_all(struct sparse *sparse, struct tci_op *op)
{
    for (uint32_t r = 0; r < op->args.shape.size; r++) {
        const uint8_t *bytes = sparse->all + sparse->blocks.offsets[r];
        struct tci_sparse_head head;

        memcpy(&head, bytes, sizeof(head));
        if (!check_head(sparse, op, r, &head))
            return TCI_STAGE_FAILED;
        if (sparse->heads != NULL && head.k != sparse->heads[r].k) {
            tci_op_fail_with(op, TC_ERR_TRANSPORT, (int)r, true,
                             "rank %u has sent another length than it announced", r);
            return TCI_STAGE_FAILED;
        }
        tci_merge_add(&sparse->merge, r, bytes);
    }
    sparse->phase = MERGE;
    return TCI_STAGE_WORK;
}

/* ---- and are merged ----------------------------------------------------------------------- */

/* Zeros up to an element, or up to the budget; true when they are all there. */
static bool fill_to(struct sparse *sparse, uint64_t end, size_t *budget)
{
    size_t some = tci_min((size_t)end - sparse->filled, *budget);

    if (some > 0)
        memset(sparse->dense + sparse->filled, 0, some * sizeof(*sparse->dense));
    sparse->filled += some;
    *budget -= some;
    return sparse->filled == end;
}

static void emit_tile(struct sparse *sparse)
{
    const struct tci_merge *merge = &sparse->merge;

    for (size_t i = 0; i < merge->len; i++) {
        if (sparse->dense != NULL) {
            sparse->dense[sparse->filled++] = tci_merge_value(merge, i);
        } else if (merge->is_there[i]) {
            sparse->merged_at[sparse->merged_count] = merge->begin + i;
            sparse->merged[sparse->merged_count++] = tci_merge_value(merge, i);
        }
    }
}

static void count_bytes(const struct sparse *sparse)
{
    uint64_t others = (uint64_t)sparse->comm->size - 1;
    uint64_t heads = sparse->heads != NULL ? sizeof(struct tci_sparse_head) : 0;

    if (sparse->stats == NULL)
        return;
    sparse->stats->bytes_sent += others * (heads + sparse->blocks.sizes[sparse->comm->rank]);
    sparse->stats->bytes_dense += tci_compress_dense_bytes(sparse->comm, sparse->head.count);
}

static enum tci_stage end(const struct sparse *sparse)
{
    count_bytes(sparse);
    return TCI_STAGE_DONE;
}

static enum tci_stage end_merge(struct sparse *sparse)
{
    if (sparse->dense != NULL) {
        sparse->phase = FILL;
    } else {
        sparse->phase = SELECT;
        tci_topk_init(&sparse->topk, sparse->merged, sparse->merged_count,
                      tci_min(sparse->merged_count, sparse->out->room));
    }
    return TCI_STAGE_WORK;
}

static enum tci_stage merge(struct sparse *sparse, struct tci_op *op)
{
    size_t budget = MERGE_BUDGET;
    uint32_t bad = 0;

    while (budget > 0) {
        enum tci_merged merged =
            sparse->has_tile ? TCI_MERGED_TILE : tci_merge_tile(&sparse->merge, &bad);

        if (merged == TCI_MERGED_BAD) {
            tci_op_fail_with(op, TC_ERR_TRANSPORT, (int)bad, true,
                             "the indices that rank %u has sent do not ascend below the count: its "
                             "message is damaged",
                             bad);
            return TCI_STAGE_FAILED;
        }
        if (merged == TCI_MERGED_ALL)
            return end_merge(sparse);
        sparse->has_tile = true;
        if (sparse->dense != NULL && !fill_to(sparse, sparse->merge.begin, &budget))
            return TCI_STAGE_WORK;
        emit_tile(sparse);
        sparse->has_tile = false;
        budget -= tci_min(budget, TCI_TILE);
    }
    return TCI_STAGE_WORK;
}

static enum tci_stage fill(struct sparse *sparse)
{
    size_t budget = FILL_BUDGET;

    return fill_to(sparse, sparse->head.count, &budget) ? end(sparse) : TCI_STAGE_WORK;
}

/* ---- the sums that are chosen ------------------------------------------------------------- */

static uint64_t index_of(const tc_sparse *sparse, size_t i)
{
    return sparse->index_dtype == TC_DTYPE_U32 ? ((const uint32_t *)sparse->indices)[i]
                                               : ((const uint64_t *)sparse->indices)[i];
}

static void choose(tc_sparse *out, uint64_t index, float value)
{
    if (out->index_dtype == TC_DTYPE_U32)
        ((uint32_t *)out->indices)[out->k] = (uint32_t)index;
    else
        ((uint64_t *)out->indices)[out->k] = index;
    out->values[out->k++] = value;
}

/* What this rank gave to a sum that is not chosen stays with it. */
static void put_back(struct sparse *sparse, uint64_t index, bool is_chosen)
{
    const tc_sparse *send = &sparse->send;
    float value;

    if (sparse->own_at == send->k || index_of(send, sparse->own_at) != index)
        return;
    value = send->values[sparse->own_at++];
    if (is_chosen || sparse->residual == NULL)
        return;
    value += sparse->residual[index];
    /* A residual is a number. */
    sparse->residual[index] = tci_magnitude(value) < UINT32_C(0x7f800000) ? value : 0;
}

static enum tci_stage emit(struct sparse *sparse)
{
    size_t stop = sparse->at + tci_min(sparse->merged_count - sparse->at, EMIT_BUDGET);
    uint32_t at_least = tci_magnitude(sparse->threshold);

    if (sparse->at == 0)
        sparse->out->k = 0;
    for (; sparse->at < stop; sparse->at++) {
        float value = sparse->merged[sparse->at];
        bool is_chosen = tci_topk_takes(&sparse->topk, value) && tci_magnitude(value) >= at_least;

        if (is_chosen)
            choose(sparse->out, sparse->merged_at[sparse->at], value);
        put_back(sparse, sparse->merged_at[sparse->at], is_chosen);
    }
    return sparse->at == sparse->merged_count ? end(sparse) : TCI_STAGE_WORK;
}

static enum tci_stage next(struct tci_stages *stages, struct tci_op *op)
{
    struct sparse *sparse = tci_container_of(stages, struct sparse, stages);

    switch (sparse->phase) {
    case PACK:
        return pack(sparse, op);
    case HEADS:
        return read_heads(sparse, op);
    case GATHER:
        return read_all(sparse, op);
    case MERGE:
        return merge(sparse, op);
    case FILL:
        return fill(sparse);
    case SELECT:
        if (!tci_topk_step(&sparse->topk, SELECT_BUDGET))
            return TCI_STAGE_WORK;
        sparse->phase = EMIT;
        stages->is_final = true;
        return TCI_STAGE_WORK;
    case EMIT:
        return emit(sparse);
    }
    TC_UNREACHABLE();
}

/* ---- the calls ---------------------------------------------------------------------------- */

/* A call before it has been checked. */
struct request {
    struct tci_compress_request common;
    const tc_sparse *send;
    size_t k_max, count;
    float *dense;
    tc_sparse *out;
    float threshold;
    float *residual;
    tc_compress_stats *stats;
};

static bool check_list(const struct request *request, const tc_sparse *list, size_t k,
                       const char *which, struct tci_error *error)
{
    const char *name = request->common.name;

    if (list == NULL)
        return tci_bad_arg(error, name, "%s is NULL", which);
    if (list->index_dtype != TC_DTYPE_U32 && list->index_dtype != TC_DTYPE_U64)
        return tci_bad_arg(error, name, "%s: indices are TC_DTYPE_U32 or TC_DTYPE_U64, not %d",
                           which, (int)list->index_dtype);
    if (list->index_dtype == TC_DTYPE_U32 && request->count > UINT64_C(1) << 32)
        return tci_bad_arg(error, name, "%s: TC_DTYPE_U32 can not count %zu elements", which,
                           request->count);
    if (k > 0 && (list->indices == NULL || list->values == NULL))
        return tci_bad_arg(error, name, "%s: indices or values are NULL, with %zu elements", which,
                           k);
    return true;
}

static bool check(const struct request *request, struct tci_error *error)
{
    const char *name = request->common.name;
    const tc_sparse *send = request->send;

    if (!check_list(request, send, send != NULL ? send->k : 0, "send", error))
        return false;
    if (send->k > request->count || request->k_max > request->count)
        return tci_bad_arg(error, name,
                           "k %zu or k_max %zu is more than the %zu elements that there are",
                           send->k, request->k_max, request->count);
    if (request->k_max > 0 && send->k > request->k_max)
        return tci_bad_arg(error, name, "k %zu is more than k_max %zu", send->k, request->k_max);
    if (request->count > TCI_MEMORY_MAX / sizeof(float))
        return tci_bad_arg(error, name, "count %zu is more than memory can hold", request->count);
    if (!request->common.is_sparse)
        return request->count == 0 || request->dense != NULL ||
               tci_bad_arg(error, name, "recv is NULL, the count is %zu", request->count);
    if (!(request->threshold >= 0))
        return tci_bad_arg(error, name, "threshold %g is not 0 or more",
                           (double)request->threshold);
    return check_list(request, request->out, request->out != NULL ? request->out->room : 0, "recv",
                      error);
}

/* NULL without memory. */
static struct sparse *make(struct tci_comm *comm, const struct request *request)
{
    struct sparse *sparse = tci_alloc(sizeof(*sparse));
    size_t n = (size_t)comm->size, bytes;

    if (sparse == NULL)
        return NULL;
    sparse->stages = (struct tci_stages){.next = next, .free = free_sparse};
    sparse->comm = comm;
    sparse->send = *request->send;
    sparse->index_bytes = tc_dtype_size(request->send->index_dtype);
    sparse->k_max = request->k_max;
    sparse->dense = request->dense;
    sparse->out = request->out;
    sparse->residual = request->residual;
    sparse->threshold = request->threshold;
    sparse->stats = request->stats;
    sparse->head = (struct tci_sparse_head){.k = request->send->k, .count = request->count};
    if (request->out != NULL) {
        sparse->head.room = request->out->room;
        memcpy(&sparse->head.threshold, &request->threshold, sizeof(request->threshold));
    }
    if (tci_sparse_bytes(sparse->send.k, sparse->index_bytes, &bytes))
        sparse->mine = tci_alloc_raw(bytes);
    if (sparse->k_max > 0)
        sparse->heads = tci_alloc_array(n, sizeof(*sparse->heads));
    if (sparse->mine != NULL && (sparse->k_max == 0 || sparse->heads != NULL) &&
        tci_compress_blocks_init(&sparse->blocks, n) &&
        tci_merge_init(&sparse->merge, (uint32_t)n, sparse->index_bytes, request->count) &&
        (sparse->k_max > 0 || make_room(sparse)))
        return sparse;
    free_sparse(&sparse->stages);
    return NULL;
}

static tc_future *start(tc_dist_ctx *group, struct request *request)
{
    struct tci_compress_request *common = &request->common;
    struct tci_comm *comm = tci_comm_of(group);
    struct tci_error error = {0};
    struct sparse *sparse;

    if (!tci_compress_check(group, common, &error) || !check(request, &error))
        return tci_future_failed(group != NULL ? comm->context : NULL, &error);
    sparse = make(comm, request);
    if (sparse == NULL)
        return tci_future_fail(comm->context, TC_ERR_ALLOC, common->name, "%s: no memory left",
                               common->name);
    if (common->op == TC_REDUCE_AVG)
        sparse->merge.divide = comm->size;
    common->coll = request->k_max == 0 ? common->coll
                   : common->is_sparse ? TCI_COLL_ALLREDUCE_TOPK_MAX
                                       : TCI_COLL_ALLREDUCE_SPARSE_MAX;
    common->count = request->k_max > 0 ? request->k_max : request->send->k;
    common->dtype = request->send->index_dtype;
    common->bytes = request->k_max > 0 ? sizeof(sparse->head) : sparse->blocks.sizes[0];
    common->stages = &sparse->stages;
    return tci_compress_start(comm, common);
}

tc_future *tc_allreduce_sparse_async(tc_dist_ctx *group, uint64_t tag, const tc_sparse *send,
                                     size_t k_max, float *recv, size_t count, tc_reduce_op_t op,
                                     tc_compress_stats *stats, const tc_options *options)
{
    return start(group, &(struct request){.common = {.name = "allreduce_sparse",
                                                     .coll = TCI_COLL_ALLREDUCE_SPARSE,
                                                     .plans = TCI_COLL_ALLGATHER,
                                                     .tag = tag,
                                                     .op = op,
                                                     .options = options},
                                          .send = send,
                                          .k_max = k_max,
                                          .count = count,
                                          .dense = recv,
                                          .stats = stats});
}

tc_future *tc_allreduce_topk_async(tc_dist_ctx *group, uint64_t tag, const tc_sparse *send,
                                   size_t k_max, tc_sparse *recv, float threshold, size_t count,
                                   tc_reduce_op_t op, float *residual, tc_compress_stats *stats,
                                   const tc_options *options)
{
    return start(group, &(struct request){.common = {.name = "allreduce_topk",
                                                     .coll = TCI_COLL_ALLREDUCE_TOPK,
                                                     .plans = TCI_COLL_ALLGATHER,
                                                     .tag = tag,
                                                     .op = op,
                                                     .is_sparse = true,
                                                     .options = options},
                                          .send = send,
                                          .k_max = k_max,
                                          .count = count,
                                          .out = recv,
                                          .threshold = threshold,
                                          .residual = residual,
                                          .stats = stats});
}
