/* replay.c - the same training by one process, without a network. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"
#include "tcdist/dtype.h"

/* What all members' gradients add up to, by definition. */
static bool add_up(struct lesson *lesson, const struct members *members, size_t step,
                   float *const *parts)
{
    const void *in[RANKS_MAX];
    size_t count = lesson->net.count;
    float *gradient = NULL;

    for (uint32_t r = 0; r < members->count; r++) {
        gradient = lesson_gradient(lesson, members->ids[r], step, members->count);
        memcpy(parts[r], gradient, count * sizeof *gradient);
        in[r] = parts[r];
    }
    return gradient != NULL && tc_reduce_reference(gradient, in, (int)members->count, count,
                                                   TC_DTYPE_F32, TC_REDUCE_SUM) == TC_OK;
}

static bool run(struct lesson *lesson, const struct members *history, float *const *parts)
{
    for (size_t step = 0; step < lesson->options->steps; step++) {
        if (history[step].count == 0 || history[step].count > RANKS_MAX ||
            !add_up(lesson, &history[step], step, parts)) {
            fprintf(stderr, "elastic: nobody knows who took part in step %zu\n", step);
            return false;
        }
        lesson_update(lesson);
    }
    return true;
}

bool replay(const struct options *options, const struct members *history, uint64_t hash)
{
    float *parts[RANKS_MAX] = {NULL};
    struct lesson lesson;
    bool is_well = lesson_init(&lesson, options);
    uint64_t own = 0;

    for (size_t r = 0; is_well && r < options->ranks; r++) {
        parts[r] = calloc(lesson.net.count, sizeof(float));
        is_well = parts[r] != NULL;
    }
    is_well = is_well && run(&lesson, history, parts);
    if (is_well)
        own = matrix_hash(lesson.net.params, lesson.net.count);
    if (is_well && own != hash)
        fprintf(stderr,
                "elastic: the weights have hash %016" PRIx64 ", those of the simulation %016" PRIx64
                "\n",
                hash, own);
    if (is_well && own == hash && !options->is_quiet)
        printf("weights are those of a plain simulation, bit for bit (hash %016" PRIx64
               "); test %.2f %%\n",
               hash, lesson_test(&lesson));
    for (size_t r = 0; r < RANKS_MAX; r++)
        free(parts[r]);
    lesson_fini(&lesson);
    return is_well && own == hash;
}
