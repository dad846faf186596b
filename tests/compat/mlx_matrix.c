/* mlx_matrix.c - the types, shapes and turns that MLX's own tests of its collectives go through. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tcdist/tcdist.h"

#include <stdint.h>
#include <stdlib.h>

#include "ranks.h"

enum { RANKS = 4, COUNT_MAX = 1024 * 1024, WIDEST = 8, GATHERED = 2 * 2 * 4 };

static const tc_dtype_t types[] = {TC_DTYPE_I8,   TC_DTYPE_U8,  TC_DTYPE_I16, TC_DTYPE_U16,
                                   TC_DTYPE_I32,  TC_DTYPE_U32, TC_DTYPE_F32, TC_DTYPE_F16,
                                   TC_DTYPE_BF16, TC_DTYPE_C64};
static const size_t bytes_of[] = {1, 1, 2, 2, 4, 4, 4, 2, 2, 8};
static const size_t shapes[] = {7, 10, 1024, COUNT_MAX};
static const tc_reduce_op_t ops[] = {TC_REDUCE_SUM, TC_REDUCE_MAX, TC_REDUCE_MIN};

static char url[URL_BYTES];

/* Each rank knows what all have, so that each can tell the result. */
struct arrays {
    unsigned char in[RANKS][COUNT_MAX * WIDEST], out[COUNT_MAX * WIDEST], want[COUNT_MAX * WIDEST];
};

/* Bytes of every kind, but of floats no exponent that a sum of four overflows. */
static void fill(struct arrays *a, size_t type, size_t count)
{
    uint64_t state = 88172645463325252u + type;

    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < count * bytes_of[type]; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            a->in[r][i] = (unsigned char)(types[type] == TC_DTYPE_I8 || types[type] == TC_DTYPE_U8
                                              ? state
                                              : state & 0xbf);
        }
}

static tc_status_t wait_for(tc_future *future)
{
    tc_status_t status = tc_future_wait(future, -1);

    tc_future_release(future);
    return status;
}

static void reduce(tc_dist_ctx *group, int rank, struct arrays *a)
{
    const void *in[RANKS] = {a->in[0], a->in[1], a->in[2], a->in[3]};
    const char *effort = getenv("TCDIST_TEST_EFFORT");
    size_t some = effort != NULL && strcmp(effort, "quick") == 0 ? 1 : 0; /* not the largest */

    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0] - some; s++) {
            fill(a, t, shapes[s]);
            for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
                if (types[t] == TC_DTYPE_C64 && ops[o] != TC_REDUCE_SUM)
                    continue; /* complex numbers have no order */
                CHECK(rank, tc_reduce_reference(a->want, in, RANKS, shapes[s], types[t], ops[o]) ==
                                TC_OK);
                CHECK(rank,
                      wait_for(tc_allreduce_async(group, TC_TAG_ORDERED, a->in[rank], a->out,
                                                  shapes[s], types[t], ops[o], NULL)) == TC_OK);
                CHECK(rank, memcmp(a->out, a->want, shapes[s] * bytes_of[t]) == 0);
            }
        }
}

static void gather(tc_dist_ctx *group, int rank)
{
    float own[GATHERED], all[RANKS * GATHERED];

    for (int i = 0; i < GATHERED; i++)
        own[i] = (float)(100 * rank + i);
    CHECK(rank, wait_for(tc_allgather_async(group, TC_TAG_ORDERED, own, all, GATHERED, TC_DTYPE_F32,
                                            NULL)) == TC_OK);
    for (int i = 0; i < RANKS * GATHERED; i++)
        CHECK(rank, all[i] == (float)(100 * (i / GATHERED) + i % GATHERED));
}

/* Around the ring, each call waited for: even ranks send first, odd ones receive. */
static void pass_on(tc_dist_ctx *group, int rank)
{
    int right = (rank + 1) % RANKS, left = (rank + RANKS - 1) % RANKS;
    float sent[10], got[10] = {0};

    for (int i = 0; i < 10; i++)
        sent[i] = (float)(10 * rank + i);
    for (int turn = 0; turn < 2; turn++) {
        tc_future *future =
            turn == rank % 2
                ? tc_send_async(group, TC_TAG_ORDERED, sent, 10, TC_DTYPE_F32, right, NULL)
                : tc_recv_async(group, TC_TAG_ORDERED, got, 10, TC_DTYPE_F32, left, NULL);

        CHECK(rank, wait_for(future) == TC_OK);
    }
    for (int i = 0; i < 10; i++)
        CHECK(rank, got[i] == (float)(10 * left + i));
}

static int run(int rank, void *arg)
{
    struct arrays *arrays = malloc(sizeof *arrays);
    tc_context *context = NULL;
    tc_dist_ctx *group = NULL;

    (void)arg;
    if (arrays == NULL || tc_init(&context) != TC_OK ||
        tc_dist_init(context, TC_DIST_ANY, RANKS, rank, url, &group) != TC_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, tc_last_error()->message);
        free(arrays);
        return 1;
    }
    reduce(group, rank, arrays);
    gather(group, rank);
    pass_on(group, rank);
    free(arrays);
    CHECK(rank, tc_dist_finalize(group) == TC_OK);
    CHECK(rank, tc_shutdown(context) == TC_OK);
    return failures;
}

int main(void)
{
    int holder = reserve_url(AF_INET, "tcp", url), failed = run_ranks(RANKS, run, NULL);

    close(holder);
    return failed;
}
