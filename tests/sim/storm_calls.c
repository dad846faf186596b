/* storm_calls.c - calls of every kind, made from a seed, whose results a plain loop knows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/storm_calls.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "sim/exec_sim.h"

enum { NAMES_MAX = 13 };

static const struct {
    const char *name;
    const char *algorithms[NAMES_MAX]; /* NULL, the cheapest, is one of them */
} kinds[STORM_KINDS] = {
    [STORM_BARRIER] = {"barrier", {"dissemination", "two_level"}},
    [STORM_ALLREDUCE] = {"allreduce",
                         {"oneshot", "direct", "ring", "tree", "recursive_doubling",
                          "halving_doubling", "double_tree", "chain", "biring", "centralized",
                          "wide_chain", "two_level"}},
    [STORM_BROADCAST] = {"broadcast",
                         {"oneshot", "direct", "tree", "double_tree", "chain", "two_level"}},
    [STORM_ALLGATHER] = {"allgather", {"direct", "ring", "biring", "bruck", "dissemination"}},
    [STORM_REDUCE_SCATTER] = {"reduce_scatter", {"direct", "ring", "biring", "pairwise"}},
    [STORM_ALLTOALL] = {"alltoall", {"direct", "pairwise", "bruck"}},
    [STORM_REDUCE] = {"reduce", {"oneshot", "direct", "tree", "wide_chain"}},
    [STORM_GATHER] = {"gather", {"direct", "tree"}},
    [STORM_SCATTER] = {"scatter", {"direct", "tree"}},
    [STORM_SHIFT] = {"send and recv", {NULL}},
};

const char *storm_kind_name(enum storm_kind kind)
{
    return kinds[kind].name;
}

void storm_call_draw(struct storm_call *call, int size, uint64_t tag, uint64_t *random)
{
    static const size_t counts[] = {1, 7, 100, 1000, STORM_COUNT_MAX};
    size_t names = 0;

    *call = (struct storm_call){.kind = (enum storm_kind)(sim_random(random) % STORM_KINDS),
                                .tag = tag,
                                .count = counts[sim_random(random) % TCI_LEN(counts)],
                                .root = (int)(sim_random(random) % (uint64_t)size),
                                .size = size,
                                .priority = (int8_t)(sim_random(random) % 3)};
    call->numerics = TC_NUMERICS_FAST;
    while (kinds[call->kind].algorithms[names] != NULL)
        names++;
    call->algorithm = kinds[call->kind].algorithms[sim_random(random) % (names + 1)];
    if (call->algorithm == NULL && sim_random(random) % 2 == 0)
        call->numerics = TC_NUMERICS_CANONICAL;
}

/* What a rank gives, at a place. */
static uint64_t given(const struct storm_call *call, int rank, size_t i)
{
    return (call->tag * 1000003 + (uint64_t)rank * 8191 + i) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool has_blocks(enum storm_kind kind)
{
    return kind == STORM_ALLGATHER || kind == STORM_REDUCE_SCATTER || kind == STORM_ALLTOALL ||
           kind == STORM_GATHER || kind == STORM_SCATTER;
}

void storm_part_init(struct storm_part *part, const struct storm_call *call, int rank)
{
    size_t room = call->count * (has_blocks(call->kind) ? (size_t)call->size : 1);

    *part = (struct storm_part){.call = call, .rank = rank};
    part->send = malloc(room * sizeof(*part->send));
    part->recv = malloc(room * sizeof(*part->recv));
    TC_ASSERT(part->send != NULL && part->recv != NULL);
    for (size_t i = 0; i < room; i++) {
        part->send[i] = given(call, rank, i);
        part->recv[i] = UINT64_C(0xdeadbeef);
    }
    if (call->kind == STORM_BROADCAST && rank == call->root)
        memcpy(part->recv, part->send, room * sizeof(*part->recv));
}

void storm_part_fini(struct storm_part *part)
{
    for (int f = 0; f < 2; f++)
        tc_future_release(part->futures[f]);
    free(part->send);
    free(part->recv);
}

static void start_shift(struct storm_part *part, tc_dist_ctx *group, const tc_options *options)
{
    const struct storm_call *call = part->call;
    int next = (part->rank + 1) % call->size, before = (part->rank + call->size - 1) % call->size;

    part->futures[0] =
        tc_send_async(group, call->tag, part->send, call->count, TC_DTYPE_U64, next, options);
    part->futures[1] =
        tc_recv_async(group, call->tag, part->recv, call->count, TC_DTYPE_U64, before, options);
}

static tc_future *start(struct storm_part *part, tc_dist_ctx *group, const tc_options *options)
{
    const struct storm_call *call = part->call;
    const uint64_t *send = part->send;
    uint64_t *recv = part->recv, tag = call->tag;
    size_t count = call->count;

    switch (call->kind) {
    case STORM_BARRIER:
        return tc_barrier_async(group, tag, options);
    case STORM_ALLREDUCE:
        return tc_allreduce_async(group, tag, send, recv, count, TC_DTYPE_U64, TC_REDUCE_SUM,
                                  options);
    case STORM_BROADCAST:
        return tc_broadcast_async(group, tag, recv, count, TC_DTYPE_U64, call->root, options);
    case STORM_ALLGATHER:
        return tc_allgather_async(group, tag, send, recv, count, TC_DTYPE_U64, options);
    case STORM_REDUCE_SCATTER:
        return tc_reduce_scatter_async(group, tag, send, recv, count, TC_DTYPE_U64, TC_REDUCE_SUM,
                                       options);
    case STORM_ALLTOALL:
        return tc_alltoall_async(group, tag, send, recv, count, TC_DTYPE_U64, options);
    case STORM_REDUCE:
        return tc_reduce_async(group, tag, send, recv, count, TC_DTYPE_U64, TC_REDUCE_SUM,
                               call->root, options);
    case STORM_GATHER:
        return tc_gather_async(group, tag, send, recv, count, TC_DTYPE_U64, call->root, options);
    default:
        return tc_scatter_async(group, tag, send, recv, count, TC_DTYPE_U64, call->root, options);
    }
}

void storm_part_start(struct storm_part *part, tc_dist_ctx *group)
{
    tc_options options;

    tc_options_default(&options);
    options.algorithm = part->call->algorithm;
    options.numerics = part->call->numerics;
    options.priority = part->call->priority;
    if (part->call->kind == STORM_SHIFT)
        start_shift(part, group, &options);
    else
        part->futures[0] = start(part, group, &options);
}

/* ---- What must come out ---------------------------------------------------------------------- */

static uint64_t sum(const struct storm_call *call, size_t i)
{
    uint64_t total = 0;

    for (int r = 0; r < call->size; r++)
        total += given(call, r, i);
    return total;
}

static uint64_t wanted(const struct storm_part *part, size_t block, size_t i)
{
    const struct storm_call *call = part->call;
    size_t own = (size_t)part->rank * call->count + i;

    switch (call->kind) {
    case STORM_ALLREDUCE:
    case STORM_REDUCE:
        return sum(call, i);
    case STORM_REDUCE_SCATTER:
        return sum(call, own);
    case STORM_ALLGATHER:
    case STORM_GATHER:
        return given(call, (int)block, i);
    case STORM_ALLTOALL:
        return given(call, (int)block, own);
    case STORM_SCATTER:
        return given(call, call->root, own);
    case STORM_BROADCAST:
        return given(call, call->root, i);
    default:
        return given(call, (part->rank + call->size - 1) % call->size, i);
    }
}

bool storm_part_is_right(const struct storm_part *part)
{
    const struct storm_call *call = part->call;
    enum storm_kind kind = call->kind;
    size_t blocks = 1;

    if (kind == STORM_BARRIER ||
        ((kind == STORM_REDUCE || kind == STORM_GATHER) && part->rank != call->root))
        return true;
    if (kind == STORM_ALLGATHER || kind == STORM_GATHER || kind == STORM_ALLTOALL)
        blocks = (size_t)call->size;
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < call->count; i++)
            if (part->recv[b * call->count + i] != wanted(part, b, i))
                return false;
    return true;
}
