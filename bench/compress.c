/* compress.c - processor time that a compressed all-reduce takes for an element, beside f32. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   tcrun -n 2 -- build/release/bench/compress        alone: one rank, no network
 *
 * The clock is the processor time of this rank's process, kernel included, which other work on the
 * machine disturbs less than it does the time of day.  Rank 0 prints a line a way: nanoseconds for
 * an element, median and extremes of the rounds, and the bytes that a rank sends for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tcdist/tcdist.h"

enum { COUNT = 4 << 20, K = COUNT / 100, ROUNDS = 11, WAYS = 6, TOPK = WAYS - 1 };

static const char *const names[WAYS] = {"f32", "bf16", "f16", "f8e4m3", "f8e5m2", "topk:0.01"};
static const tc_dtype_t types[WAYS] = {TC_DTYPE_F32,    TC_DTYPE_BF16,   TC_DTYPE_F16,
                                       TC_DTYPE_F8E4M3, TC_DTYPE_F8E5M2, TC_DTYPE_F32};

static tc_dist_ctx *group;
static float data[COUNT], sums[COUNT], residual[COUNT], values[K];
static uint32_t indices[K];
static tc_compress_stats stats;

static void give_up(const tc_error *error)
{
    fprintf(stderr, "compress: %s\n", error == NULL ? "failed" : error->message);
    exit(1);
}

static void settle(tc_future *future)
{
    if (tc_future_wait(future, -1) != TC_OK)
        give_up(tc_future_error(future));
    tc_future_release(future);
}

static void all_reduce(int way)
{
    tc_sparse largest = {indices, values, 0, K, TC_DTYPE_U32};

    if (way == 0) {
        settle(tc_allreduce_async(group, 1, data, sums, COUNT, TC_DTYPE_F32, TC_REDUCE_SUM, NULL));
    } else if (way != TOPK) {
        settle(tc_allreduce_compressed_async(group, 1, data, sums, COUNT, types[way], TC_REDUCE_SUM,
                                             residual, &stats, NULL));
    } else {
        if (tc_topk_select(data, residual, COUNT, K, &largest) != TC_OK)
            give_up(tc_last_error());
        settle(tc_allreduce_sparse_async(group, 1, &largest, 0, sums, COUNT, TC_REDUCE_SUM, &stats,
                                         NULL));
    }
}

static double now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static void measure(int way)
{
    int size = tc_dist_world_size(group);
    double ns[ROUNDS], bytes = 8.0 * (size - 1) / size;

    all_reduce(way); /* memory is there afterwards */
    stats = (tc_compress_stats){0};
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now_ns();

        all_reduce(way);
        ns[i] = (now_ns() - begin) / COUNT;
    }
    qsort(ns, ROUNDS, sizeof(*ns), compare);
    if (way != 0)
        bytes = (double)stats.bytes_sent / COUNT / ROUNDS;
    if (tc_dist_rank(group) == 0)
        printf("%-10s %8.2f %8.2f %8.2f %12.3f\n", names[way], ns[ROUNDS / 2], ns[0],
               ns[ROUNDS - 1], bytes);
}

int main(void)
{
    tc_context *context;

    if (tc_init(&context) != TC_OK || tc_dist_init_env(context, &group) != TC_OK)
        give_up(tc_last_error());
    for (size_t i = 0; i < COUNT; i++)
        data[i] = (float)((i * 7919 + (size_t)tc_dist_rank(group) * 13) % 10007) / 10007 - 0.5F;
    if (tc_dist_rank(group) == 0)
        printf("%-10s %8s %8s %8s %12s\n", "way", "ns", "least", "most", "bytes sent");
    for (int way = 0; way < WAYS; way++)
        measure(way);
    if (tc_dist_finalize(group) != TC_OK || tc_shutdown(context) != TC_OK)
        give_up(tc_last_error());
    return 0;
}
