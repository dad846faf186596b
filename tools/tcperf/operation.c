/* operation.c - the operations that are measured: their shapes, their factors, how they start. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operation.h"

static void start_allreduce(tc_dist_ctx *group, const struct line *line, uint64_t tag,
                            tc_future **out)
{
    *out = tc_allreduce_async(group, tag, line->send, line->recv, line->count, line->dtype,
                              line->reduce, line->call);
}

static void start_broadcast(tc_dist_ctx *group, const struct line *line, uint64_t tag,
                            tc_future **out)
{
    *out = tc_broadcast_async(group, tag, line->recv, line->count, line->dtype, line->root,
                              line->call);
}

static void start_allgather(tc_dist_ctx *group, const struct line *line, uint64_t tag,
                            tc_future **out)
{
    *out = tc_allgather_async(group, tag, line->send, line->recv, line->count, line->dtype,
                              line->call);
}

static void start_reduce_scatter(tc_dist_ctx *group, const struct line *line, uint64_t tag,
                                 tc_future **out)
{
    *out = tc_reduce_scatter_async(group, tag, line->send, line->recv, line->count, line->dtype,
                                   line->reduce, line->call);
}

static void start_reduce(tc_dist_ctx *group, const struct line *line, uint64_t tag, tc_future **out)
{
    *out = tc_reduce_async(group, tag, line->send, line->recv, line->count, line->dtype,
                           line->reduce, line->root, NULL);
}

static void start_gather(tc_dist_ctx *group, const struct line *line, uint64_t tag, tc_future **out)
{
    *out = tc_gather_async(group, tag, line->send, line->recv, line->count, line->dtype, line->root,
                           NULL);
}

static void start_scatter(tc_dist_ctx *group, const struct line *line, uint64_t tag,
                          tc_future **out)
{
    *out = tc_scatter_async(group, tag, line->send, line->recv, line->count, line->dtype,
                            line->root, NULL);
}

static void start_alltoall(tc_dist_ctx *group, const struct line *line, uint64_t tag,
                           tc_future **out)
{
    *out =
        tc_alltoall_async(group, tag, line->send, line->recv, line->count, line->dtype, line->call);
}

static void start_barrier(tc_dist_ctx *group, const struct line *line, uint64_t tag,
                          tc_future **out)
{
    *out = tc_barrier_async(group, tag, line->call);
}

/* Every rank sends to the next one and receives from the one before. */
static void start_sendrecv(tc_dist_ctx *group, const struct line *line, uint64_t tag,
                           tc_future **out)
{
    int ranks = tc_dist_world_size(group);
    int rank = tc_dist_rank(group);

    out[0] = tc_recv_async(group, tag, line->recv, line->count, line->dtype,
                           (rank + ranks - 1) % ranks, NULL);
    out[1] =
        tc_send_async(group, tag, line->send, line->count, line->dtype, (rank + 1) % ranks, NULL);
}

/* A broadcast has one buffer and is in place by nature; what is received by sendrecv may not
 * overlap what is sent. */
const struct operation operations[] = {
    {"allreduce", BLOCKS_ONE, BLOCKS_ONE, PLACE_OUT | PLACE_IN, true, false, 2, true, 1,
     start_allreduce},
    {"broadcast", BLOCKS_NONE, BLOCKS_ONE, PLACE_IN, false, false, 1, false, 1, start_broadcast},
    {"allgather", BLOCKS_ONE, BLOCKS_RANKS, PLACE_OUT | PLACE_IN, false, false, 1, true, 1,
     start_allgather},
    {"reduce_scatter", BLOCKS_RANKS, BLOCKS_ONE, PLACE_OUT | PLACE_IN, true, false, 1, true, 1,
     start_reduce_scatter},
    {"reduce", BLOCKS_ONE, BLOCKS_ONE, PLACE_OUT | PLACE_IN, true, true, 1, false, 1, start_reduce},
    {"gather", BLOCKS_ONE, BLOCKS_RANKS, PLACE_OUT, false, true, 1, true, 1, start_gather},
    {"scatter", BLOCKS_RANKS, BLOCKS_ONE, PLACE_OUT, false, false, 1, true, 1, start_scatter},
    {"alltoall", BLOCKS_RANKS, BLOCKS_RANKS, PLACE_OUT | PLACE_IN, false, false, 1, true, 1,
     start_alltoall},
    {"barrier", BLOCKS_NONE, BLOCKS_NONE, PLACE_OUT, false, false, 0, false, 1, start_barrier},
    {"sendrecv", BLOCKS_ONE, BLOCKS_ONE, PLACE_OUT, false, false, 1, false, 2, start_sendrecv},
};
const int operation_count = sizeof operations / sizeof *operations;

static size_t count_of(enum blocks blocks, size_t count, int ranks)
{
    return blocks == BLOCKS_NONE ? 0 : blocks == BLOCKS_ONE ? count : count * (size_t)ranks;
}

size_t line_send_count(const struct line *line, int ranks)
{
    return count_of(line->operation->send, line->count, ranks);
}

size_t line_recv_count(const struct line *line, int ranks)
{
    return count_of(line->operation->recv, line->count, ranks);
}

double line_bus_bandwidth(const struct line *line, int ranks, double algorithm_bandwidth)
{
    double share = line->operation->is_wire_scaled ? (double)(ranks - 1) / ranks : 1;

    return algorithm_bandwidth * line->operation->wire_factor * share;
}
