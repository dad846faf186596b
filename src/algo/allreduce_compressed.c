/* allreduce_compressed.c - an all-reduce whose elements travel as 16- or 8-bit floats. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   x = send + residual, cut in n parts; part p belongs to rank p
 *
 *   rank 0  [0 1 2] round   0 -> 1 2     fold part 0 in f64, round   0 -> 1 2     recv = all parts
 *   rank 1  [0 1 2] ----->  1 -> 0 2  -> fold part 1 in f64, round   1 -> 0 2  -> residual = what
 *   rank 2  [0 1 2]         2 -> 0 1     fold part 2 in f64, round   2 -> 0 1     both have lost
 *                          all-to-all                               all-gather
 *
 *   cost: 2 rounds, 2 (n - 1)/n * count codes sent a rank: the least traffic of an all-reduce, a
 *   half or a quarter of f32's.
 *
 * Source: both errors are fed back, that of a sum by the rank that owns it: Tang, Yu, Lian, Zhang,
 * Liu, DoubleSqueeze, 2019.
 */
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "algo/compress.h"
#include "algo/narrow.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/dtype.h"
#include "tcdist/compress.h"

/* Blocks that a turn of the loop deals with: a quarter of a millisecond. */
enum { BLOCKS_BUDGET = 128 };

enum phase { BEGIN, ENCODE, SCATTER, FOLD, GATHER, FINISH };

struct compressed {
    struct tci_stages stages; /* first: freed by way of it */
    enum phase phase;
    struct tci_narrow narrow;
    const float *send; /* the caller's, as the next four */
    float *recv;
    float *residual;          /* or NULL */
    tc_compress_stats *stats; /* or NULL */
    size_t count;
    size_t ranks, rank;
    bool is_average;
    const struct tci_plan *gather;
    size_t part, part_bytes, blocks; /* elements, bytes and blocks of a part */
    size_t at;                       /* blocks of this phase that are done */
    struct tci_scratch *scratch;     /* of the context; NULL: nothing is taken of it yet */
    uint8_t *mine;                   /* taken, as the rest: n parts that this rank sends */
    uint8_t *others;                 /* n parts that come: first its own of all ranks, then all */
    uint8_t *sums;                   /* its own part of the result */
    float *lost;                     /* of its own part, by the rounding of the sums */
};

static void free_compressed(struct tci_stages *stages)
{
    struct compressed *compressed = tci_container_of(stages, struct compressed, stages);

    if (compressed->scratch != NULL) {
        tci_scratch_put(compressed->scratch, compressed->mine);
        tci_scratch_put(compressed->scratch, compressed->others);
        tci_scratch_put(compressed->scratch, compressed->sums);
        tci_scratch_put(compressed->scratch, compressed->lost);
    }
    tci_free(compressed);
}

/* ---- the work ----------------------------------------------------------------------------- */

/* The elements of a block that there are: the last part may have fewer. */
static size_t elements_of(const struct compressed *compressed, size_t part, size_t block,
                          size_t *first_out)
{
    size_t first = part * compressed->part + block * TCI_NARROW_BLOCK;

    *first_out = first;
    if (first >= compressed->count)
        return 0;
    return tci_min(compressed->count - first, tci_narrow_len(compressed->part, block));
}

/* x of some elements. */
static void inputs(const struct compressed *compressed, size_t first, size_t len, float *x_out)
{
    const float *send = compressed->send + first;
    const float *residual = compressed->residual;

    if (residual == NULL)
        memcpy(x_out, send, len * sizeof(*x_out));
    else
        for (size_t i = 0; i < len; i++)
            x_out[i] = send[i] + residual[first + i];
}

static void encode_block(struct compressed *compressed, size_t part, size_t block)
{
    float values[TCI_NARROW_BLOCK];
    size_t first, len = elements_of(compressed, part, block, &first);

    inputs(compressed, first, len, values);
    tci_narrow_encode(&compressed->narrow, values, len,
                      compressed->mine + part * compressed->part_bytes, compressed->part, block);
}

static void fold_block(struct compressed *compressed, size_t block)
{
    const struct tci_narrow *narrow = &compressed->narrow;
    double sums[TCI_NARROW_BLOCK], results[TCI_NARROW_BLOCK];
    double by = compressed->is_average ? (double)compressed->ranks : 1;
    float values[TCI_NARROW_BLOCK];
    size_t len = tci_narrow_len(compressed->part, block);

    for (size_t r = 0; r < compressed->ranks; r++) {
        tci_narrow_decode(narrow, compressed->others + r * compressed->part_bytes, compressed->part,
                          block, values);
        if (r == 0)
            for (size_t i = 0; i < len; i++)
                sums[i] = (double)values[i];
        else
            for (size_t i = 0; i < len; i++)
                sums[i] += (double)values[i];
    }
    if (compressed->is_average)
        for (size_t i = 0; i < len; i++)
            results[i] = sums[i] / by;
    else
        memcpy(results, sums, len * sizeof(*sums));
    tci_narrow_encode_wide(narrow, results, len, compressed->sums, compressed->part, block);
    tci_narrow_decode(narrow, compressed->sums, compressed->part, block, values);
    for (size_t i = 0; i < len; i++)
        compressed->lost[block * TCI_NARROW_BLOCK + i] = (float)(sums[i] - by * (double)values[i]);
}

/* A residual is a number: where it would be none it is 0. */
static inline float or_zero(float value)
{
    return tci_f32_bits(value) << 1 < UINT32_C(0xff000000) ? value : 0;
}

/* What the result does not have of the elements of a block: the rounding of x, and in this rank's
 * own part that of the sums. */
static void keep_lost(struct compressed *compressed, size_t part, size_t block, const float *sent)
{
    float x[TCI_NARROW_BLOCK];
    size_t first, len = elements_of(compressed, part, block, &first);
    const float *lost = compressed->lost + block * TCI_NARROW_BLOCK;
    float *residual = compressed->residual + first;

    inputs(compressed, first, len, x);
    for (size_t i = 0; i < len; i++)
        residual[i] = or_zero(x[i] - sent[i]);
    for (size_t i = 0; i < len && part == compressed->rank; i++)
        residual[i] = or_zero(residual[i] + or_zero(lost[i]));
}

static void finish_block(struct compressed *compressed, size_t part, size_t block)
{
    const struct tci_narrow *narrow = &compressed->narrow;
    float values[TCI_NARROW_BLOCK];
    size_t first, len = elements_of(compressed, part, block, &first);
    size_t at = part * compressed->part_bytes;

    if (len == 0)
        return;
    if (compressed->residual != NULL) {
        tci_narrow_decode(narrow, compressed->mine + at, compressed->part, block, values);
        keep_lost(compressed, part, block, values);
    }
    tci_narrow_decode(narrow, compressed->others + at, compressed->part, block, values);
    memcpy(compressed->recv + first, values, len * sizeof(*values));
}

/* ---- the stages --------------------------------------------------------------------------- */

static enum tci_stage scatter(struct compressed *compressed, struct tci_op *op)
{
    compressed->phase = SCATTER;
    tci_compress_exchange(op, compressed->mine, compressed->others, compressed->part_bytes);
    return TCI_STAGE_PLAN;
}

static enum tci_stage gather(struct compressed *compressed, struct tci_op *op)
{
    compressed->phase = GATHER;
    op->args.plan = compressed->gather;
    tci_compress_exchange(op, compressed->sums, compressed->others, compressed->part_bytes);
    return TCI_STAGE_PLAN;
}

static enum tci_stage end(const struct compressed *compressed, const struct tci_op *op)
{
    if (compressed->stats != NULL) {
        compressed->stats->bytes_sent += 2 * (compressed->ranks - 1) * compressed->part_bytes;
        compressed->stats->bytes_dense += tci_compress_dense_bytes(op->comm, compressed->count);
    }
    return TCI_STAGE_DONE;
}

/* Blocks of all parts, some at a time; true when all are done. */
static bool each_block(struct compressed *compressed,
                       void (*fn)(struct compressed *compressed, size_t part, size_t block))
{
    size_t all = compressed->ranks * compressed->blocks;
    size_t stop = compressed->at + tci_min(all - compressed->at, BLOCKS_BUDGET);

    for (; compressed->at < stop; compressed->at++)
        fn(compressed, compressed->at / compressed->blocks, compressed->at % compressed->blocks);
    return compressed->at == all;
}

static bool fold(struct compressed *compressed)
{
    size_t some = tci_max(1, BLOCKS_BUDGET / compressed->ranks);
    size_t stop = compressed->at + tci_min(compressed->blocks - compressed->at, some);

    for (; compressed->at < stop; compressed->at++)
        fold_block(compressed, compressed->at);
    return compressed->at == compressed->blocks;
}

/* On the loop, whose memory it is. */
static enum tci_stage begin(struct compressed *compressed, struct tci_op *op)
{
    struct tci_scratch *scratch = &op->comm->context->scratch;
    size_t bytes = tci_max(compressed->part_bytes, 1), all;

    compressed->scratch = scratch;
    compressed->phase = ENCODE;
    if (tci_array_bytes(compressed->ranks, bytes, &all)) {
        compressed->mine = tci_scratch_get(scratch, all);
        compressed->others = tci_scratch_get(scratch, all);
    }
    compressed->sums = tci_scratch_get(scratch, bytes);
    compressed->lost = tci_scratch_get(scratch, tci_max(compressed->part, 1) * sizeof(float));
    if (compressed->mine != NULL && compressed->others != NULL && compressed->sums != NULL &&
        compressed->lost != NULL)
        return TCI_STAGE_WORK;
    tci_op_fail_with(op, TC_ERR_ALLOC, op->comm->rank, true,
                     "rank %d has no memory left for the elements that travel", op->comm->rank);
    return TCI_STAGE_FAILED;
}

static enum tci_stage next(struct tci_stages *stages, struct tci_op *op)
{
    struct compressed *compressed = tci_container_of(stages, struct compressed, stages);

    switch (compressed->phase) {
    case BEGIN:
        return begin(compressed, op);
    case ENCODE:
        return each_block(compressed, encode_block) ? scatter(compressed, op) : TCI_STAGE_WORK;
    case SCATTER:
        compressed->phase = FOLD;
        compressed->at = 0;
        return TCI_STAGE_WORK;
    case FOLD:
        return fold(compressed) ? gather(compressed, op) : TCI_STAGE_WORK;
    case GATHER:
        compressed->phase = FINISH;
        compressed->at = 0;
        stages->is_final = true;
        return TCI_STAGE_WORK;
    case FINISH:
        return each_block(compressed, finish_block) ? end(compressed, op) : TCI_STAGE_WORK;
    }
    TC_UNREACHABLE();
}

/* ---- the call ----------------------------------------------------------------------------- */

static bool check(const struct compressed *asked, tc_dtype_t wire, const char *name,
                  struct tci_error *error)
{
    struct tci_narrow narrow;

    if (!tci_narrow_init(&narrow, wire)) {
        tci_error_set(error, TC_ERR_UNSUPPORTED_DTYPE, -1, 0, name,
                      "%s: elements do not travel as %s (%d): use bf16, f16, f8e4m3 or f8e5m2",
                      name, tc_dtype_name(wire), (int)wire);
        return false;
    }
    if (asked->count > TCI_MEMORY_MAX / (2 * sizeof(float)))
        return tci_bad_arg(error, name, "count %zu is more than memory can hold", asked->count);
    if (asked->count > 0 && (asked->send == NULL || asked->recv == NULL))
        return tci_bad_arg(error, name, "%s is NULL, the count is %zu",
                           asked->send == NULL ? "send" : "recv", asked->count);
    return true;
}

/* NULL without memory. */
static struct compressed *make(const struct tci_comm *comm, const struct compressed *asked,
                               tc_dtype_t wire)
{
    struct compressed *made = tci_alloc(sizeof(*made));
    size_t n = (size_t)comm->size;

    if (made == NULL)
        return NULL;
    *made = *asked;
    made->stages = (struct tci_stages){.next = next, .free = free_compressed};
    made->ranks = n;
    made->rank = (size_t)comm->rank;
    (void)tci_narrow_init(&made->narrow, wire);
    made->part = made->count / n + (made->count % n != 0);
    made->part_bytes = tci_narrow_bytes(&made->narrow, made->part);
    made->blocks = made->part / TCI_NARROW_BLOCK + (made->part % TCI_NARROW_BLOCK != 0);
    return made;
}

/* The plan of the second exchange: that of the name, where the all-gather has it. */
static const struct tci_plan *gather_plan(const tc_options *options)
{
    const struct tci_plan *plan = NULL;

    if (options != NULL && options->algorithm != NULL)
        plan = tci_plan_find(TCI_COLL_ALLGATHER, options->algorithm);
    return plan != NULL ? plan : tci_plan_find(TCI_COLL_ALLGATHER, "direct");
}

tc_future *tc_allreduce_compressed_async(tc_dist_ctx *group, uint64_t tag, const float *send,
                                         float *recv, size_t count, tc_dtype_t wire,
                                         tc_reduce_op_t op, float *residual,
                                         tc_compress_stats *stats, const tc_options *options)
{
    struct tci_compress_request request = {.name = "allreduce_compressed",
                                           .coll = TCI_COLL_ALLREDUCE_COMPRESSED,
                                           .plans = TCI_COLL_ALLTOALL,
                                           .tag = tag,
                                           .count = count,
                                           .dtype = wire,
                                           .op = op,
                                           .options = options};
    struct compressed asked = {.send = send,
                               .recv = recv,
                               .count = count,
                               .residual = residual,
                               .stats = stats,
                               .is_average = op == TC_REDUCE_AVG};
    struct tci_comm *comm = tci_comm_of(group);
    struct tci_error error = {0};
    struct compressed *made;

    if (!tci_compress_check(group, &request, &error) || !check(&asked, wire, request.name, &error))
        return tci_future_failed(group != NULL ? comm->context : NULL, &error);
    asked.gather = gather_plan(options);
    made = make(comm, &asked, wire);
    if (made == NULL)
        return tci_future_fail(comm->context, TC_ERR_ALLOC, request.name, "%s: no memory left",
                               request.name);
    request.bytes = made->part_bytes;
    request.stages = &made->stages;
    return tci_compress_start(comm, &request);
}
