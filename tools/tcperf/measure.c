/* measure.c - how long the operations of one line take. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdlib.h>
#include <string.h>

enum {
    PROBES = 3,
    SAMPLES_BACK_TO_BACK = 11, /* odd, so that one of them is the median */
    ITERATIONS_LEAST = 5,
    ITERATIONS_MOST = 20000,
};

static void zero(const struct world *world, const struct line *line)
{
    size_t bytes = (size_t)world->options->tags * world_stride(world, line);

    memset(world->send_memory, 0, bytes);
    memset(world->recv_memory, 0, bytes);
}

static tc_status_t run_batches(struct world *world, const struct line *line, int count)
{
    tc_status_t status = TC_OK;

    for (int i = 0; i < count && status == TC_OK; i++)
        status = world_run_batch(world, line);
    return status;
}

/* One sample of this rank. */
static tc_status_t take_sample(struct world *world, const struct line *line, int inner,
                               double *us_out)
{
    tc_status_t status = world_meet(world);
    uint64_t begin = tc_trace_now_ns();

    if (status == TC_OK)
        status = run_batches(world, line, inner);
    *us_out = (double)(tc_trace_now_ns() - begin) * 1e-3 / inner / world->options->tags;
    return status;
}

/* all[rank * samples + i] becomes, for rank 0, the largest of the ranks. */
static void take_slowest(double *all, int ranks, int samples)
{
    for (int rank = 1; rank < ranks; rank++)
        for (int i = 0; i < samples; i++)
            if (all[rank * samples + i] > all[i])
                all[i] = all[rank * samples + i];
}

static tc_status_t take_samples(struct world *world, const struct line *line, int samples,
                                int inner, double *all)
{
    double *own = calloc((size_t)samples, sizeof *own);
    tc_status_t status = own == NULL ? TC_ERR_ALLOC : TC_OK;

    for (int i = 0; i < samples && status == TC_OK; i++)
        status = take_sample(world, line, inner, &own[i]);
    if (status == TC_OK)
        status = world_gather(world, own, all, (size_t)samples);
    if (status == TC_OK)
        take_slowest(all, world->ranks, samples);
    free(own);
    return status;
}

/* All ranks come to the same number, since all of them see the slowest one's time. */
static tc_status_t plan_iterations(struct world *world, const struct line *line, int *count_out)
{
    const struct options *options = world->options;
    double *all = calloc((size_t)world->ranks * PROBES, sizeof *all);
    tc_status_t status = TC_OK;

    *count_out = options->iterations;
    if (options->iterations == 0)
        status = all == NULL ? TC_ERR_ALLOC : take_samples(world, line, PROBES, 1, all);
    if (options->iterations == 0 && status == TC_OK) {
        double us = (all[0] + all[1] + all[2]) / PROBES * options->tags;
        double count = options->budget_s * 1e6 / (us > 0.1 ? us : 0.1);

        *count_out = count < ITERATIONS_LEAST  ? ITERATIONS_LEAST
                     : count > ITERATIONS_MOST ? ITERATIONS_MOST
                                               : (int)count;
    }
    free(all);
    return status;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

tc_status_t measure_line(struct world *world, const struct line *line, struct times *times_out)
{
    int iterations = 0;
    int samples;
    int inner = 1;
    double *all;
    tc_status_t status;

    zero(world, line);
    status = run_batches(world, line, world->options->warmup);
    if (status == TC_OK)
        status = plan_iterations(world, line, &iterations);
    if (status != TC_OK)
        return status;

    samples = iterations;
    if (!world->options->is_synced && iterations > SAMPLES_BACK_TO_BACK) {
        samples = SAMPLES_BACK_TO_BACK;
        inner = (iterations + samples - 1) / samples;
    }
    all = calloc((size_t)samples * (size_t)world->ranks, sizeof *all);
    status = all == NULL ? TC_ERR_ALLOC : take_samples(world, line, samples, inner, all);
    if (status == TC_OK) {
        qsort(all, (size_t)samples, sizeof *all, compare_doubles);
        *times_out = (struct times){all[samples / 2], all[0], all[samples - 1], samples * inner};
    }
    free(all);
    return status;
}
