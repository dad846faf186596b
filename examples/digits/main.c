/* main.c - digits: data-parallel training of a small net, the demo of the library. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "matrix.h"
#include "options.h"
#include "share.h"
#include "timeline.h"
#include "trainer.h"
#include "world.h"

/* ---- Before --------------------------------------------------------------------------------- */

static void introduce(const struct trainer *trainer)
{
    const struct options *options = trainer->options;

    if (trainer->world->rank != 0 || options->is_quiet)
        return;
    printf("%zu digits to learn, %zu to test; %d rank%s, %zu samples a step\n",
           trainer->train.count, trainer->test.count, trainer->world->size,
           trainer->world->size == 1 ? "" : "s", options->batch);
    printf("layers %d", DIGIT_PIXELS);
    for (size_t i = 0; i < NET_LAYERS; i++)
        printf("-%zu", trainer->net.layers[i].outputs);
    printf(", %zu weights\n", trainer->net.count);
}

/* ---- After ---------------------------------------------------------------------------------- */

/* Whether all ranks have rank 0's weights; rank 0 says so. */
static bool compare_weights(struct world *world, const struct trainer *trainer)
{
    uint64_t own = matrix_hash(trainer->net.params, trainer->net.count);
    uint64_t *all = calloc((size_t)world->size, sizeof *all);
    bool is_first = world->rank == 0;
    bool is_same =
        all != NULL && world_wait(world, tc_allgather_async(world->group, TC_TAG_ORDERED, &own, all,
                                                            1, TC_DTYPE_U64, NULL));

    for (int rank = 1; is_same && rank < world->size; rank++) {
        if (all[rank] == all[0])
            continue;
        if (is_first)
            fprintf(stderr,
                    "digits: weights differ: rank 0 has hash %016" PRIx64
                    ", rank %d has %016" PRIx64 "\n",
                    all[0], rank, all[rank]);
        (void)world_leave(world);
        is_same = false;
    }
    if (is_same && is_first && !trainer->options->is_quiet) {
        if (world->size > 1)
            printf("weights are the same bits on all %d ranks (hash %016" PRIx64 ")\n", world->size,
                   own);
        else
            printf("weights have the hash %016" PRIx64 "\n", own);
    }
    free(all);
    return is_same;
}

/* The share of communication that was hidden, of all ranks together. */
static bool report_overlap(struct world *world, const struct trainer *trainer, double *hidden_out)
{
    double size = world->size;
    double numbers[3];

    overlap_finish(&world->overlap, world->context, world->is_turned);
    numbers[0] = (double)world->overlap.busy_ns / 1e9;
    numbers[1] = (double)world->overlap.exposed_ns / 1e9;
    numbers[2] = (double)world->overlap.blocked_ns / 1e9;
    if (!world_sum(world, numbers, 3))
        return false;
    *hidden_out = numbers[0] > 0 ? 1 - numbers[1] / numbers[0] : 0;
    if (world->rank == 0 && !trainer->options->is_quiet && world->size > 1)
        printf("%.2f s of training; communication took %.2f s a rank, %.0f %% of it hidden behind "
               "compute; blocked for %.2f s\n",
               trainer->busy_seconds, numbers[0] / size, 100 * *hidden_out, numbers[2] / size);
    return true;
}

/* What the gradients of all ranks took on the network; nobody writes these any more. */
static bool report_bytes(struct world *world, const struct trainer *trainer)
{
    const tc_compress_stats *stats = &trainer->gradients.stats;
    double numbers[] = {(double)stats->bytes_sent, (double)stats->bytes_dense};

    if (trainer->options->compress == COMPRESS_NONE || world->size == 1)
        return true;
    if (!world_sum(world, numbers, 2))
        return false;
    if (world->rank == 0 && !trainer->options->is_quiet)
        printf("gradients took %.2f MB a rank instead of %.2f MB: %.1f %% saved\n",
               numbers[0] / world->size / 1e6, numbers[1] / world->size / 1e6,
               100 - 100 * numbers[0] / numbers[1]);
    return true;
}

static bool write_weights(const struct net *net, const char *path)
{
    FILE *file = fopen(path, "we");
    bool is_written =
        file != NULL && fwrite(net->params, sizeof *net->params, net->count, file) == net->count;

    is_written = (file == NULL || fclose(file) == 0) && is_written;
    if (!is_written)
        fprintf(stderr, "digits: %s: %s\n", path, strerror(errno));
    return is_written;
}

/* On every rank; rank 0 writes. */
static bool write_timeline(struct world *world, const struct trainer *trainer, double hidden)
{
    const struct options *options = trainer->options;
    struct timeline timeline;
    bool is_written = true;

    if (options->timeline == NULL && options->trace == NULL)
        return true;
    if (!timeline_gather(world, trainer->window_begin_ns, trainer->window_end_ns, &timeline))
        return false;
    timeline.hidden = hidden;
    if (world->rank == 0 && options->timeline != NULL)
        is_written = timeline_write_html(&timeline, options->timeline);
    if (world->rank == 0 && options->trace != NULL)
        is_written = timeline_write_json(&timeline, options->trace) && is_written;
    if (world->rank == 0 && is_written && !options->is_quiet)
        printf("timeline of the last %zu steps: %s%s%s\n", trainer->watched,
               options->timeline != NULL ? options->timeline : "",
               options->timeline != NULL && options->trace != NULL ? ", " : "",
               options->trace != NULL ? options->trace : "");
    timeline_fini(&timeline);
    return is_written;
}

/* ---- The whole ------------------------------------------------------------------------------ */

static bool train(struct world *world, struct trainer *trainer)
{
    const struct options *options = trainer->options;
    bool is_written;
    double hidden;

    introduce(trainer);
    if (!trainer_run(trainer) || !report_overlap(world, trainer, &hidden) ||
        !report_bytes(world, trainer) || !compare_weights(world, trainer))
        return false;
    is_written = write_timeline(world, trainer, hidden);
    if (world->rank == 0 && options->weights != NULL)
        is_written = write_weights(&trainer->net, options->weights) && is_written;

    /* A file that can't be written is rank 0's sorrow alone: the others leave in order. */
    return world_leave(world) && is_written;
}

int main(int argc, char **argv)
{
    struct options options;
    struct world world;
    struct data data = {0};
    struct trainer trainer = {0};
    bool is_well;

    options_parse(&options, argc, argv);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    is_well = world_open(&world) && share_data(&world, options.data, &data) &&
              trainer_init(&trainer, &options, &world, &data) && train(&world, &trainer);

    /* The world first: what still runs may use the memory of the rest. */
    world_close(&world);
    trainer_fini(&trainer);
    data_fini(&data);
    return is_well ? EXIT_SUCCESS : EXIT_FAILURE;
}
