/* zero.c - optimizer states, gradients, then weights split over the ranks: the same steps. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorcore/distributed.h"
#include "tensorcore/tensorcore.h"

#include <stdlib.h>

#include "ranks.h"

/* Weights are N values, of which rank r owns the r-th of RANKS shards.  Each rank has a gradient of
 * its own for all of them; the optimizer has a momentum a weight.
 *
 *   stage   each rank keeps                 a step takes
 *   0       everything                      all-reduce of gradients
 *   1       momentum of its shard           all-reduce of gradients, all-gather of weights
 *   2       gradient, momentum of its shard reduce-scatter, all-gather of weights
 *   3       its shard of all three          all-gather of weights on demand, reduce-scatter
 *
 * Sums have the same bits whatever carries them, and so have the weights of all four. */
enum { RANKS = 4, SHARD = 37, N = RANKS * SHARD, STEPS = 5, STAGES = 4 };

static char url[URL_BYTES];

struct trainer {
    tc_dist_ctx *group;
    tc_buffer *weights, *grads; /* N */
    tc_buffer *shard, *part;    /* SHARD: weights and gradient that are this rank's */
    float momentum[N];
    int rank;
};

static float *at(tc_buffer *buffer)
{
    void *data = NULL;

    (void)tc_buffer_map(buffer, &data);
    return data;
}

/* Depends on the rank, the step, and the weights, as that of a batch does. */
static void find_gradient(struct trainer *t, int step)
{
    for (int i = 0; i < N; i++)
        at(t->grads)[i] = 0.1f * at(t->weights)[i] +
                          0.01f * (float)((i * 7 + t->rank * 5 + step * 3) % 11) / 3.0f;
}

static void apply(float *weights, float *momentum, const float *grads, int count)
{
    for (int i = 0; i < count; i++) {
        momentum[i] = 0.9f * momentum[i] + grads[i];
        weights[i] -= 0.05f * momentum[i];
    }
}

static tc_status_t gather_weights(struct trainer *t)
{
    return tc_allgather(t->group, t->shard, t->weights, SHARD, TC_DTYPE_F32);
}

static tc_status_t take_step(struct trainer *t, int stage, int step)
{
    tc_status_t status = stage == 3 ? gather_weights(t) : TC_OK;

    if (status != TC_OK)
        return status;
    find_gradient(t, step);
    status = stage < 2 ? tc_allreduce(t->group, t->grads, N, TC_DTYPE_F32, TC_REDUCE_AVG)
                       : tc_reduce_scatter(t->group, t->grads, t->part, SHARD, TC_DTYPE_F32,
                                           TC_REDUCE_AVG);
    if (status != TC_OK)
        return status;
    if (stage == 0) {
        apply(at(t->weights), t->momentum, at(t->grads), N);
        return TC_OK;
    }
    apply(at(t->shard), t->momentum, stage == 1 ? at(t->grads) + t->rank * SHARD : at(t->part),
          SHARD);
    if (stage == 3) /* nobody keeps what others own */
        memset(at(t->weights), 0xff, N * sizeof(float));
    return stage == 3 ? TC_OK : gather_weights(t);
}

static void train(struct trainer *t, int stage, float out[N])
{
    memset(t->momentum, 0, sizeof t->momentum);
    for (int i = 0; i < N; i++)
        at(t->weights)[i] = (float)(i % 13) - 6.0f;
    memcpy(at(t->shard), at(t->weights) + t->rank * SHARD, SHARD * sizeof(float));
    for (int step = 0; step < STEPS; step++)
        CHECK(t->rank, take_step(t, stage, step) == TC_OK);
    if (stage == 3)
        CHECK(t->rank, gather_weights(t) == TC_OK);
    memcpy(out, at(t->weights), N * sizeof(float));
}

static int run(int rank, void *arg)
{
    static struct trainer t;
    static float weights[STAGES][N];
    tc_context *context = NULL;

    (void)arg;
    t.rank = rank;
    CHECK(rank, tc_init(&context) == TC_OK);
    if (tc_dist_init(context, TC_DIST_RING, RANKS, rank, url, &t.group) != TC_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, tc_last_error()->message);
        return 1;
    }
    if (tc_buffer_alloc(context, N * sizeof(float), &t.weights) != TC_OK ||
        tc_buffer_alloc(context, N * sizeof(float), &t.grads) != TC_OK ||
        tc_buffer_alloc(context, SHARD * sizeof(float), &t.shard) != TC_OK ||
        tc_buffer_alloc(context, SHARD * sizeof(float), &t.part) != TC_OK)
        return 1;
    for (int stage = 0; stage < STAGES; stage++) {
        train(&t, stage, weights[stage]);
        CHECK(rank, memcmp(weights[stage], weights[0], sizeof weights[0]) == 0);
    }
    CHECK(rank, weights[0][1] != -5.0f); /* it has learnt something */
    (void)tc_buffer_free(context, t.weights);
    (void)tc_buffer_free(context, t.grads);
    (void)tc_buffer_free(context, t.shard);
    (void)tc_buffer_free(context, t.part);
    CHECK(rank, tc_dist_finalize(t.group) == TC_OK);
    CHECK(rank, tc_shutdown(context) == TC_OK);
    return failures;
}

int main(void)
{
    int holder = reserve_url(AF_INET, "tcp", url), failed = run_ranks(RANKS, run, NULL);

    close(holder);
    return failed;
}
