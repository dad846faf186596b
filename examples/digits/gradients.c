/* gradients.c - a layer's gradient sets out to the other ranks, whole or compressed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gradients.h"

#include <math.h>
#include <stdlib.h>

#define MOMENTUM 0.9F

bool gradients_init(struct gradients *gradients, const struct options *options, struct world *world,
                    const struct net *net)
{
    size_t at = 0;

    *gradients = (struct gradients){.options = options, .world = world};
    for (size_t i = 0; i < NET_LAYERS; i++) {
        gradients->begin[i] = at;
        at += net->layers[i].count;
    }
    if (options->compress == COMPRESS_NONE)
        return true;
    gradients->residuals = calloc(net->count, sizeof *gradients->residuals);
    if (options->compress == COMPRESS_TOPK) {
        gradients->speeds = calloc(net->count, sizeof *gradients->speeds);
        gradients->values = calloc(net->count, sizeof *gradients->values);
        gradients->indices = calloc(net->count, sizeof *gradients->indices);
        if (gradients->speeds == NULL || gradients->values == NULL || gradients->indices == NULL)
            return false;
    }
    return gradients->residuals != NULL;
}

void gradients_fini(struct gradients *gradients)
{
    free(gradients->residuals);
    free(gradients->speeds);
    free(gradients->values);
    free(gradients->indices);
}

/* The largest elements alone: what is not among them waits in the residual until it is.  An element
 * may wait for many steps, so each rank applies the momentum to its own gradient before it chooses,
 * and an element that has travelled begins anew (Lin, Han, Mao, Wang, Dally, Deep Gradient
 * Compression, 2018). */
static tc_future *start_topk(struct gradients *gradients, const struct layer *layer, size_t index,
                             const tc_options *options)
{
    size_t begin = gradients->begin[index];
    size_t k = (size_t)ceil(gradients->options->fraction * (double)layer->count);
    float *speeds = gradients->speeds + begin;
    tc_sparse largest = {.indices = gradients->indices + begin,
                         .values = gradients->values + begin,
                         .room = k,
                         .index_dtype = TC_DTYPE_U32};

    for (size_t i = 0; i < layer->count; i++)
        speeds[i] = MOMENTUM * speeds[i] + layer->grads[i];
    if (tc_topk_select(speeds, gradients->residuals + begin, layer->count, k, &largest) != TC_OK)
        largest.k = layer->count + 1; /* the call below refuses it, and says so */
    for (size_t i = 0; i < largest.k && i < k; i++)
        speeds[gradients->indices[begin + i]] = 0;
    return tc_allreduce_sparse_async(gradients->world->group, index, &largest, 0, layer->grads,
                                     layer->count, TC_REDUCE_SUM, &gradients->stats, options);
}

float gradients_momentum(const struct gradients *gradients)
{
    return gradients->options->compress == COMPRESS_TOPK ? 0 : MOMENTUM;
}

tc_future *gradients_start(struct gradients *gradients, const struct net *net, size_t index)
{
    const struct layer *layer = &net->layers[index];
    tc_dist_ctx *group = gradients->world->group;
    tc_options options;

    /* The next step begins with layer 0, whose gradient sets out last. */
    tc_options_default(&options);
    options.priority = NET_LAYERS - (int)index;
    switch (gradients->options->compress) {
    case COMPRESS_TOPK:
        return start_topk(gradients, layer, index, &options);
    case COMPRESS_NARROW:
        return tc_allreduce_compressed_async(group, index, layer->grads, layer->grads, layer->count,
                                             gradients->options->wire, TC_REDUCE_SUM,
                                             gradients->residuals + gradients->begin[index],
                                             &gradients->stats, &options);
    default:
        return tc_allreduce_async(group, index, layer->grads, layer->grads, layer->count,
                                  TC_DTYPE_F32, TC_REDUCE_SUM, &options);
    }
}
