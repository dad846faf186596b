/* network.c - a network of two layers, whole or split over the ranks in one of two ways.
 *
 *   y = W2 max(0, W1 x + b1) + b2;  W1 is hidden x inputs, W2 outputs x hidden
 *
 *   reduce     rank    W1          hidden     W2             out
 *               0    [#######]  ->  [#]  ->  [# . ]  ->  [partial sum] \
 *               1    [#######]  ->  [#]  ->  [ . #]  ->  [partial sum] - all-reduce, + b2
 *
 *   A rank has some output features of the first layer and the weights that lead on from just
 *   these; in x W notation the columns of the first matrix and the rows of the second.  One
 *   all-reduce of the outputs joins the pair; the way back needs nothing.
 *
 *   gather     rank    W1          hidden              W2            out
 *               0    [#######]  ->  [#] \           [#####]  ->  [#] \
 *               1    [#######]  ->  [#] - gather -> [#####]  ->  [#] - all-gather
 *
 *   A rank has some output features of both layers, and every sum stays on one rank: whatever the
 *   number of ranks, it is added up in the unsplit network's order.  So does the way back, where
 *   a rank needs all weights that lead on from its hidden features: they are gathered, while the
 *   second layer's gradient is computed.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "learn.h"
#include "matrix.h"
#include "rng.h"

#define MOMENTUM 0.9F

/* ---- Passes --------------------------------------------------------------------------------- */

/* Waits for the other ranks' parts of `all`, of which this rank has filled in its own. */
static tc_future *gather(struct network *network, float *all, size_t count_per_rank)
{
    const struct world *world = network->world;

    return tc_allgather_async(world->group, TC_TAG_ORDERED,
                              all + (size_t)world->rank * count_per_rank, all, count_per_rank,
                              TC_DTYPE_F32, NULL);
}

/* out = W in, from the biases or from 0 on. */
static void apply(const struct layer *layer, const float *in, float *out, size_t rows,
                  bool with_bias)
{
    const float *bias = layer->params + layer->inputs * layer->outputs;
    struct matrix weights = {layer->params, layer->inputs, 1};

    for (size_t i = 0; i < layer->outputs; i++)
        for (size_t j = 0; j < rows; j++)
            out[i * rows + j] = with_bias ? bias[i] : 0;
    matrix_add_product(out, weights, in, layer->outputs, layer->inputs, rows);
}

/* Where this rank's hidden features are in `hidden`: all are there, or no others. */
static float *own_hidden(const struct network *network, float *hidden, size_t rows)
{
    return network->way == WAY_GATHER ? hidden + network->layers[0].outputs_begin * rows : hidden;
}

static bool forward_hidden(struct network *network, size_t rows)
{
    const struct layer *layer = &network->layers[0];
    float *own = own_hidden(network, network->hidden, rows);

    apply(layer, network->input, own, rows, true);
    for (size_t i = 0; i < layer->outputs * rows; i++)
        own[i] = own[i] > 0 ? own[i] : 0;
    return network->way != WAY_GATHER ||
           world_wait(network->world, gather(network, network->hidden, layer->outputs * rows));
}

/* The one all-reduce of a pair of layers. */
static bool add_partial_sums(struct network *network, size_t rows)
{
    const struct layer *layer = &network->layers[1];
    const float *bias = layer->params + layer->inputs * layer->outputs;

    if (!world_wait(network->world,
                    tc_allreduce_async(network->world->group, TC_TAG_ORDERED, network->out,
                                       network->out, layer->outputs * rows, TC_DTYPE_F32,
                                       TC_REDUCE_SUM, NULL)))
        return false;
    for (size_t i = 0; i < layer->outputs; i++)
        for (size_t j = 0; j < rows; j++)
            network->out[i * rows + j] += bias[i];
    return true;
}

static bool forward_out(struct network *network, size_t rows)
{
    const struct layer *layer = &network->layers[1];

    apply(layer, network->hidden, network->out + layer->outputs_begin * rows, rows,
          network->way != WAY_REDUCE);
    if (network->way == WAY_REDUCE)
        return add_partial_sums(network, rows);
    return network->way != WAY_GATHER ||
           world_wait(network->world, gather(network, network->out, layer->outputs * rows));
}

bool network_forward(struct network *network, size_t rows)
{
    matrix_transpose(network->input, network->samples, rows, network->sizes[0]);
    if (!forward_hidden(network, rows) || !forward_out(network, rows))
        return false;
    matrix_transpose(network->out_rows, network->out, network->sizes[LAYERS], rows);
    return true;
}

/* A layer's gradient, from the derivatives of its own outputs and what went into it. */
static void find_gradient(const struct layer *layer, const float *delta, const float *in_rows,
                          size_t rows)
{
    float *bias_grads = layer->grads + layer->inputs * layer->outputs;
    struct matrix left = {delta, rows, 1};

    memset(layer->grads, 0, layer->count * sizeof *layer->grads);
    matrix_add_product(layer->grads, left, in_rows, layer->outputs, rows, layer->inputs);
    for (size_t i = 0; i < layer->outputs; i++)
        for (size_t j = 0; j < rows; j++)
            bias_grads[i] += delta[i * rows + j];
}

/* The derivatives of this rank's hidden features, from those of all outputs. */
static void find_hidden_delta(struct network *network, const float *weights, size_t row_step,
                              size_t rows)
{
    size_t own = network->layers[0].outputs;
    const float *hidden = own_hidden(network, network->hidden, rows);
    struct matrix turned = {weights, 1, row_step};

    memset(network->hidden_delta, 0, own * rows * sizeof *network->hidden_delta);
    matrix_add_product(network->hidden_delta, turned, network->delta, own, network->sizes[LAYERS],
                       rows);
    for (size_t i = 0; i < own * rows; i++)
        network->hidden_delta[i] = hidden[i] > 0 ? network->hidden_delta[i] : 0;
}

static bool backward(struct network *network, size_t rows)
{
    const struct layer *first = &network->layers[0];
    const struct layer *last = &network->layers[1];
    size_t own_count = last->inputs * last->outputs;
    const float *weights = last->params;
    tc_future *future = NULL;

    if (network->way == WAY_GATHER) {
        memcpy(network->gathered + last->outputs_begin * last->inputs, last->params,
               own_count * sizeof *last->params);
        future = gather(network, network->gathered, own_count);
        weights = network->gathered + first->outputs_begin;
    }
    matrix_transpose(network->turned, network->hidden, last->inputs, rows);
    find_gradient(last, network->delta + last->outputs_begin * rows, network->turned, rows);
    if (future != NULL && !world_wait(network->world, future))
        return false;
    find_hidden_delta(network, weights, last->inputs, rows);
    find_gradient(first, network->hidden_delta, network->samples, rows);
    return true;
}

bool network_learn(struct network *network, const uint8_t *labels, size_t rows, float rate,
                   double *loss, size_t *right)
{
    size_t outputs = network->sizes[LAYERS];

    *loss += learn_loss(network->out_rows, network->delta_rows,
                        &(struct answers){labels, rows, outputs}, rows, right);
    matrix_transpose(network->delta, network->delta_rows, rows, outputs);
    if (!backward(network, rows))
        return false;
    for (size_t i = 0; i < LAYERS; i++) {
        const struct layer *layer = &network->layers[i];

        learn_step(layer->params, layer->grads, layer->speeds, layer->count, rate, MOMENTUM);
    }
    return true;
}

/* ---- Parts of the whole --------------------------------------------------------------------- */

const char *way_name(enum way way)
{
    static const char *const names[WAY_COUNT] = {"unsplit", "reduce", "gather"};

    return names[way];
}

bool network_is_even(const struct world *world, enum way way, size_t hidden, size_t outputs)
{
    const size_t features[LAYERS] = {hidden, outputs};
    const char *const options[LAYERS] = {"--hidden", "--outputs"};
    size_t split = way == WAY_UNSPLIT ? 0 : way == WAY_REDUCE ? 1 : LAYERS;

    for (size_t i = 0; i < split; i++) {
        if (features[i] % (size_t)world->size == 0)
            continue;
        if (world->rank == 0)
            fprintf(stderr,
                    "tensor_parallel: %s: layer %zu has %zu output features, which %d ranks can "
                    "not share evenly: make it a multiple of %d with %s, or take other ranks\n",
                    way_name(way), i + 1, features[i], world->size, world->size, options[i]);
        return false;
    }
    return true;
}

static void set_shapes(struct network *network)
{
    size_t ranks = network->way == WAY_UNSPLIT ? 1 : (size_t)network->world->size;
    size_t rank = network->way == WAY_UNSPLIT ? 0 : (size_t)network->world->rank;
    const size_t *sizes = network->sizes;
    size_t hidden = sizes[1] / ranks;
    size_t outputs = sizes[2] / ranks;

    network->layers[0] =
        (struct layer){.inputs = sizes[0], .outputs = hidden, .outputs_begin = rank * hidden};
    if (network->way == WAY_REDUCE)
        network->layers[1] =
            (struct layer){.inputs = hidden, .outputs = sizes[2], .inputs_begin = rank * hidden};
    else
        network->layers[1] =
            (struct layer){.inputs = sizes[1], .outputs = outputs, .outputs_begin = rank * outputs};
    for (size_t i = 0; i < LAYERS; i++) {
        struct layer *layer = &network->layers[i];

        layer->count = (layer->inputs + 1) * layer->outputs;
        network->whole_count += (sizes[i] + 1) * sizes[i + 1];
    }
}

static float *take(float **at, size_t count)
{
    float *taken = *at;

    *at += count;
    return taken;
}

static void place(struct network *network)
{
    size_t rows = network->rows_max;
    const size_t *sizes = network->sizes;
    float *at = network->block;

    for (size_t i = 0; i < LAYERS; i++) {
        struct layer *layer = &network->layers[i];

        layer->params = take(&at, layer->count);
        layer->grads = take(&at, layer->count);
        layer->speeds = take(&at, layer->count);
    }
    network->samples = take(&at, rows * sizes[0]);
    network->input = take(&at, rows * sizes[0]);
    network->hidden = take(&at, rows * network->layers[1].inputs);
    network->turned = take(&at, rows * network->layers[1].inputs);
    network->hidden_delta = take(&at, rows * network->layers[0].outputs);
    network->out = take(&at, rows * sizes[2]);
    network->delta = take(&at, rows * sizes[2]);
    network->out_rows = take(&at, rows * sizes[2]);
    network->delta_rows = take(&at, rows * sizes[2]);
    network->gathered = at;
}

bool network_init(struct network *network, struct world *world, enum way way, size_t hidden,
                  size_t outputs, size_t rows_max)
{
    size_t per_row, count;

    *network = (struct network){
        .world = world, .way = way, .sizes = {DIGIT_PIXELS, hidden, outputs}, .rows_max = rows_max};
    set_shapes(network);
    per_row =
        2 * DIGIT_PIXELS + 2 * network->layers[1].inputs + network->layers[0].outputs + 4 * outputs;
    count = 3 * (network->layers[0].count + network->layers[1].count) + rows_max * per_row +
            (way == WAY_GATHER ? hidden * outputs : 0);
    network->block = calloc(count, sizeof *network->block);
    if (network->block == NULL) {
        fprintf(stderr, "tensor_parallel: rank %d: no memory for the network\n", world->rank);
        return false;
    }
    place(network);
    return true;
}

void network_fini(struct network *network)
{
    free(network->block);
    network->block = NULL;
}

void network_draw(const struct network *network, uint64_t seed, float *whole)
{
    struct rng rng;

    rng_init(&rng, seed, 2);
    for (size_t i = 0; i < LAYERS; i++) {
        size_t inputs = network->sizes[i];
        size_t outputs = network->sizes[i + 1];
        double spread = sqrt(2.0 / (double)inputs); /* keeps the size of rectified signals */

        for (size_t j = 0; j < inputs * outputs; j++)
            whole[j] = (float)(spread * rng_normal(&rng));
        memset(whole + inputs * outputs, 0, outputs * sizeof *whole);
        whole += (inputs + 1) * outputs;
    }
}

/* Where, among the whole network's parameters, this rank's part of an output feature begins … */
static const float *whole_row(const struct network *network, const float *whole, size_t index,
                              size_t row)
{
    const struct layer *layer = &network->layers[index];
    size_t before = index == 0 ? 0 : (network->sizes[0] + 1) * network->sizes[1];

    return whole + before + (layer->outputs_begin + row) * network->sizes[index] +
           layer->inputs_begin;
}

/* … and where its part of the biases does. */
static const float *whole_biases(const struct network *network, const float *whole, size_t index)
{
    const struct layer *layer = &network->layers[index];
    size_t before = index == 0 ? 0 : (network->sizes[0] + 1) * network->sizes[1];

    return whole + before + network->sizes[index] * network->sizes[index + 1] +
           layer->outputs_begin;
}

void network_take(struct network *network, const float *whole)
{
    for (size_t i = 0; i < LAYERS; i++) {
        const struct layer *layer = &network->layers[i];

        for (size_t row = 0; row < layer->outputs; row++)
            memcpy(layer->params + row * layer->inputs, whole_row(network, whole, i, row),
                   layer->inputs * sizeof *whole);
        memcpy(layer->params + layer->outputs * layer->inputs, whole_biases(network, whole, i),
               layer->outputs * sizeof *whole);
        memset(layer->speeds, 0, layer->count * sizeof *layer->speeds);
    }
}

/* Compares bits: equal numbers may differ in them, and NaN is unlike itself. */
static size_t count_others(const float *a, const float *b, size_t count)
{
    size_t others = 0;

    for (size_t i = 0; i < count; i++)
        others += memcmp(&a[i], &b[i], sizeof *a) != 0;
    return others;
}

size_t network_count_others(const struct network *network, const float *whole)
{
    size_t others = 0;

    for (size_t i = 0; i < LAYERS; i++) {
        const struct layer *layer = &network->layers[i];

        for (size_t row = 0; row < layer->outputs; row++)
            others += count_others(layer->params + row * layer->inputs,
                                   whole_row(network, whole, i, row), layer->inputs);
        others += count_others(layer->params + layer->outputs * layer->inputs,
                               whole_biases(network, whole, i), layer->outputs);
    }
    return others;
}
