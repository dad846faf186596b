/* lesson.c - one worker's part of one step: the same for who trains and for who simulates. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lesson.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

#define RATE     0.05F
#define MOMENTUM 0.9F

bool lesson_init(struct lesson *lesson, const struct options *options)
{
    *lesson = (struct lesson){.options = options};
    if (!data_read(options->data, &lesson->data))
        return false;
    data_split(&lesson->data, options->seed, &lesson->train, &lesson->test);
    lesson->labels = calloc(options->rows, 1);
    if (lesson->labels != NULL &&
        net_init(&lesson->net, options->hidden, options->rows, options->seed))
        return true;
    fprintf(stderr, "elastic: no memory for the net\n");
    return false;
}

void lesson_fini(struct lesson *lesson)
{
    net_fini(&lesson->net);
    free(lesson->labels);
    data_fini(&lesson->data);
}

static void load(struct lesson *lesson, size_t row, const struct digit *digit)
{
    digit_load(digit, lesson->net.input + row * DIGIT_PIXELS);
    lesson->labels[row] = digit->label;
}

float *lesson_gradient(struct lesson *lesson, uint32_t id, size_t step, uint32_t workers)
{
    size_t rows = lesson->options->rows, right = 0;
    struct net *net = &lesson->net;
    struct rng rng;

    /* What a worker looks at depends on its identity and on nothing else. */
    rng_init(&rng, lesson->options->seed, (uint64_t)step << 32 | (id + 16));
    for (size_t row = 0; row < rows; row++)
        load(lesson, row, &lesson->train.items[rng_below(&rng, lesson->train.count)]);
    for (size_t i = 0; i < NET_LAYERS; i++)
        net_forward(net, i, rows);
    (void)net_loss(net, lesson->labels, rows, rows * workers, &right);
    for (size_t i = NET_LAYERS; i-- > 0;)
        net_backward(net, i, rows);
    return net->layers[0].grads;
}

void lesson_update(struct lesson *lesson)
{
    for (size_t i = 0; i < NET_LAYERS; i++)
        net_update(&lesson->net, i, RATE, MOMENTUM);
}

size_t lesson_state_count(const struct lesson *lesson)
{
    return 2 * lesson->net.count;
}

void lesson_save(const struct lesson *lesson, float *state)
{
    size_t count = lesson->net.count;

    memcpy(state, lesson->net.params, count * sizeof *state);
    memcpy(state + count, lesson->net.layers[0].speeds, count * sizeof *state);
}

void lesson_load(struct lesson *lesson, const float *state)
{
    size_t count = lesson->net.count;

    memcpy(lesson->net.params, state, count * sizeof *state);
    memcpy(lesson->net.layers[0].speeds, state + count, count * sizeof *state);
}

double lesson_test(struct lesson *lesson)
{
    size_t rows_max = lesson->options->rows, right = 0;

    for (size_t at = 0, rows; at < lesson->test.count; at += rows) {
        rows = lesson->test.count - at < rows_max ? lesson->test.count - at : rows_max;
        for (size_t row = 0; row < rows; row++)
            load(lesson, row, &lesson->test.items[at + row]);
        for (size_t i = 0; i < NET_LAYERS; i++)
            net_forward(&lesson->net, i, rows);
        (void)net_loss(&lesson->net, lesson->labels, rows, rows, &right);
    }
    return 100 * (double)right / (double)lesson->test.count;
}
