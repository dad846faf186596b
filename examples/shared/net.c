/* net.c - a multi-layer perceptron whose layers are run one call at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "learn.h"
#include "matrix.h"
#include "rng.h"

/* ---- Memory --------------------------------------------------------------------------------- */

static void set_shapes(struct net *net, size_t hidden)
{
    for (size_t i = 0; i < NET_LAYERS; i++) {
        struct layer *layer = &net->layers[i];

        layer->inputs = i == 0 ? DIGIT_PIXELS : hidden;
        layer->outputs = i == NET_LAYERS - 1 ? DIGIT_CLASSES : hidden;
        layer->count = (layer->inputs + 1) * layer->outputs;
        net->count += layer->count;
    }
}

static float *take(float **at, size_t count)
{
    float *taken = *at;

    *at += count;
    return taken;
}

/* Parameters, gradients and speeds of all layers, then what depends on the rows. */
static void place_layers(struct net *net, size_t turned_count)
{
    float *at = net->block;

    net->params = at;
    for (size_t i = 0; i < NET_LAYERS; i++)
        net->layers[i].params = take(&at, net->layers[i].count);
    for (size_t i = 0; i < NET_LAYERS; i++)
        net->layers[i].grads = take(&at, net->layers[i].count);
    for (size_t i = 0; i < NET_LAYERS; i++)
        net->layers[i].speeds = take(&at, net->layers[i].count);

    net->input = take(&at, net->rows_max * DIGIT_PIXELS);
    net->turned = take(&at, turned_count);
    for (size_t i = 0; i < NET_LAYERS; i++) {
        struct layer *layer = &net->layers[i];

        layer->in = i == 0 ? net->input : net->layers[i - 1].out;
        layer->in_delta = i == 0 ? NULL : net->layers[i - 1].delta;
        layer->out = take(&at, net->rows_max * layer->outputs);
        layer->delta = take(&at, net->rows_max * layer->outputs);
    }
}

static void draw_weights(struct net *net, uint64_t seed)
{
    struct rng rng;

    rng_init(&rng, seed, 2);
    for (size_t i = 0; i < NET_LAYERS; i++) {
        struct layer *layer = &net->layers[i];
        double spread = sqrt(2.0 / (double)layer->inputs); /* keeps the size of rectified signals */

        for (size_t j = 0; j < layer->inputs * layer->outputs; j++)
            layer->params[j] = (float)(spread * rng_normal(&rng));
    }
}

bool net_init(struct net *net, size_t hidden, size_t rows_max, uint64_t seed)
{
    size_t turned_count = hidden * (hidden > DIGIT_CLASSES ? hidden : DIGIT_CLASSES);
    size_t row = DIGIT_PIXELS + 2 * ((NET_LAYERS - 1) * hidden + DIGIT_CLASSES);

    *net = (struct net){.rows_max = rows_max};
    set_shapes(net, hidden);
    net->block = calloc(3 * net->count + turned_count + rows_max * row, sizeof(float));
    if (net->block == NULL)
        return false;
    place_layers(net, turned_count);
    draw_weights(net, seed);
    return true;
}

void net_fini(struct net *net)
{
    free(net->block);
    net->block = NULL;
}

/* ---- Passes --------------------------------------------------------------------------------- */

void net_forward(struct net *net, size_t index, size_t rows)
{
    const struct layer *layer = &net->layers[index];
    const float *bias = layer->params + layer->inputs * layer->outputs;
    struct matrix in = {layer->in, layer->inputs, 1};

    for (size_t i = 0; i < rows; i++)
        memcpy(layer->out + i * layer->outputs, bias, layer->outputs * sizeof *bias);
    matrix_add_product(layer->out, in, layer->params, rows, layer->inputs, layer->outputs);
    if (index == NET_LAYERS - 1)
        return;
    for (size_t i = 0; i < rows * layer->outputs; i++)
        layer->out[i] = layer->out[i] > 0 ? layer->out[i] : 0;
}

double net_loss(struct net *net, const uint8_t *labels, size_t rows, size_t batch, size_t *right)
{
    const struct layer *last = &net->layers[NET_LAYERS - 1];

    return learn_loss(last->out, last->delta, &(struct answers){labels, rows, DIGIT_CLASSES}, batch,
                      right);
}

void net_backward(struct net *net, size_t index, size_t rows)
{
    const struct layer *layer = &net->layers[index];
    float *bias_grads = layer->grads + layer->inputs * layer->outputs;
    struct matrix turned_in = {layer->in, 1, layer->inputs};
    struct matrix delta = {layer->delta, layer->outputs, 1};

    memset(layer->grads, 0, layer->count * sizeof *layer->grads);
    matrix_add_product(layer->grads, turned_in, layer->delta, layer->inputs, rows, layer->outputs);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < layer->outputs; j++)
            bias_grads[j] += layer->delta[i * layer->outputs + j];
    if (layer->in_delta == NULL)
        return;

    matrix_transpose(net->turned, layer->params, layer->inputs, layer->outputs);
    memset(layer->in_delta, 0, rows * layer->inputs * sizeof *layer->in_delta);
    matrix_add_product(layer->in_delta, delta, net->turned, rows, layer->outputs, layer->inputs);
    for (size_t i = 0; i < rows * layer->inputs; i++)
        layer->in_delta[i] = layer->in[i] > 0 ? layer->in_delta[i] : 0;
}

void net_update(struct net *net, size_t index, float rate, float momentum)
{
    const struct layer *layer = &net->layers[index];

    learn_step(layer->params, layer->grads, layer->speeds, layer->count, rate, momentum);
}
