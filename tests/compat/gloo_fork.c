/* gloo_fork.c - four processes meet over TCP, IPv4 and IPv6, by the broker and by the ring. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorcore/distributed.h"
#include "tensorcore/tensorcore.h"

#include <stdint.h>
#include <stdlib.h>

#include "ranks.h"

enum { RANKS = 4, COUNT = 300 };

/* Whole numbers up to 2048 are exact in f16. */
static uint16_t half_of(int whole)
{
    int exponent = 0;

    if (whole == 0)
        return 0;
    while (whole >> (exponent + 1) != 0)
        exponent++;
    return (uint16_t)((exponent + 15) << 10 | (whole << (10 - exponent) & 0x3ff));
}

static float f32_at(const void *data, int i)
{
    return ((const float *)data)[i];
}

static tc_buffer *buffer(tc_context *context, size_t bytes, void **data)
{
    tc_buffer *made = NULL;

    if (tc_buffer_alloc(context, bytes, &made) != TC_OK || tc_buffer_map(made, data) != TC_OK)
        exit(1);
    return made;
}

static void check_f32(tc_dist_ctx *dist, tc_buffer *held, float *x, int rank)
{
    static const struct {
        tc_reduce_op_t op;
        float slope, shift; /* of the result in i, when rank r gives i + r */
    } cases[] = {{TC_REDUCE_SUM, RANKS, 6},
                 {TC_REDUCE_AVG, 1, 1.5f},
                 {TC_REDUCE_MAX, 1, 3},
                 {TC_REDUCE_MIN, 1, 0}};

    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        int wrong = 0;

        for (int i = 0; i < COUNT; i++)
            x[i] = (float)(i + rank);
        CHECK(rank, tc_allreduce(dist, held, COUNT, TC_DTYPE_F32, cases[k].op) == TC_OK);
        for (int i = 0; i < COUNT; i++)
            wrong += x[i] != cases[k].slope * (float)i + cases[k].shift;
        CHECK(rank, wrong == 0);
    }
}

static void check_f16(tc_dist_ctx *dist, tc_buffer *held, uint16_t *x, int rank)
{
    int wrong = 0;

    for (int i = 0; i < COUNT; i++)
        x[i] = half_of(i + rank);
    CHECK(rank, tc_allreduce(dist, held, COUNT, TC_DTYPE_F16, TC_REDUCE_SUM) == TC_OK);
    for (int i = 0; i < COUNT; i++)
        wrong += x[i] != half_of(RANKS * i + 6);
    CHECK(rank, wrong == 0);
}

static void check_moves(tc_dist_ctx *dist, tc_buffer *held, float *x, tc_buffer *all, int rank)
{
    void *gathered = NULL;
    int wrong = 0;

    for (int root = 0; root < RANKS; root++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = rank == root ? (float)(1000 * root + i) : -1.0f;
        CHECK(rank, tc_broadcast(dist, held, COUNT, TC_DTYPE_F32, root) == TC_OK);
        for (int i = 0; i < COUNT; i++)
            wrong += x[i] != (float)(1000 * root + i);
    }
    CHECK(rank, tc_buffer_map(all, &gathered) == TC_OK);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(10 * i + rank);
    CHECK(rank, tc_allgather(dist, held, all, COUNT, TC_DTYPE_F32) == TC_OK);
    for (int i = 0; i < RANKS * COUNT; i++)
        wrong += f32_at(gathered, i) != (float)(10 * (i % COUNT) + i / COUNT);
    CHECK(rank, wrong == 0);
    CHECK(rank, tc_barrier(dist) == TC_OK);
}

static int run(int rank, void *url)
{
    tc_context *context = NULL;
    tc_dist_ctx *dist = NULL;
    tc_buffer *held, *all;
    void *data, *gathered;

    failures = 0;
    CHECK(rank, tc_init(&context) == TC_OK);
    if (tc_dist_init(context, TC_DIST_GLOO, RANKS, rank, url, &dist) != TC_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, tc_last_error()->message);
        return 1;
    }
    CHECK(rank, tc_dist_world_size(dist) == RANKS && tc_dist_rank(dist) == rank);
    held = buffer(context, COUNT * sizeof(float), &data);
    all = buffer(context, RANKS * COUNT * sizeof(float), &gathered);
    check_f32(dist, held, data, rank);
    check_f16(dist, held, data, rank);
    check_moves(dist, held, data, all, rank);
    CHECK(rank, tc_buffer_free(context, held) == TC_OK);
    CHECK(rank, tc_buffer_free(context, all) == TC_OK);
    CHECK(rank, tc_dist_finalize(dist) == TC_OK);
    CHECK(rank, tc_shutdown(context) == TC_OK);
    return failures;
}

static int run_at(int family, const char *scheme)
{
    char url[URL_BYTES];
    int holder = reserve_url(family, scheme, url), failed;

    if (holder < 0) {
        printf("no such loopback address here: %s with family %d\n", scheme, family);
        return 0;
    }
    failed = run_ranks(RANKS, run, url);
    close(holder);
    return failed;
}

int main(void)
{
    int failed =
        run_at(AF_INET, "gloo+tcp") + run_at(AF_INET, "tcp") + run_at(AF_INET6, "gloo+tcp");

    setenv("TC_GLOO_RING", "1", 1);
    return failed + run_at(AF_INET, "gloo+tcp") + run_at(AF_INET6, "tcp");
}
