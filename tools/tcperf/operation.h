/* operation.h - the operations that are measured: their shapes, their factors, how they start. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCPERF_OPERATION_H
#define TCPERF_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/tcdist.h"

/* Blocks of `count` elements that a buffer holds: one, or one a rank. */
enum blocks { BLOCKS_NONE, BLOCKS_ONE, BLOCKS_RANKS };

enum place {
    PLACE_OUT = 1, /* out of place can be measured */
    PLACE_IN = 2   /* in place can be measured */
};

struct line;

struct operation {
    const char *name;
    enum blocks send; /* what a rank gives */
    enum blocks recv; /* what it gets */
    int places;       /* bits of enum place */
    bool has_reduce;
    bool is_at_root;     /* only the root has a result */
    double wire_factor;  /* busbw = algbw * wire_factor * (n - 1) / n, as nccl-tests count; */
    bool is_wire_scaled; /* without (n - 1) / n where this is false */
    int future_count;    /* that one start gives */

    /* Starts one under a tag; fills future_count futures. */
    void (*start)(tc_dist_ctx *group, const struct line *line, uint64_t tag, tc_future **out);
};

extern const struct operation operations[];
extern const int operation_count;

/* One line of the table, and where the data of one collective of its batch lie. */
struct line {
    const struct operation *operation;
    tc_dtype_t dtype;
    tc_reduce_op_t reduce;
    bool is_in_place;
    int root;
    size_t count;           /* elements of a block */
    size_t bytes;           /* of the larger buffer: what the size column says */
    const tc_options *call; /* borrowed; NULL: the library's default */
    void *send;             /* borrowed */
    void *recv;
};

/* Elements in the buffers of one collective. */
size_t line_send_count(const struct line *line, int ranks);
size_t line_recv_count(const struct line *line, int ranks);

/* GB/s on the busiest link, from GB/s of the algorithm. */
double line_bus_bandwidth(const struct line *line, int ranks, double algorithm_bandwidth);

#endif
