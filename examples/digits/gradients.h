/* gradients.h - a layer's gradient sets out to the other ranks, whole or compressed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIGITS_GRADIENTS_H
#define DIGITS_GRADIENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "net.h"
#include "options.h"
#include "world.h"

struct gradients {
    const struct options *options; /* borrowed, as the next */
    struct world *world;
    float *residuals; /* owned: what of the gradients has not travelled yet; NULL: all does */
    /* Of the largest elements alone, owned: this rank's momentum, and those elements. */
    float *speeds;
    float *values;
    uint32_t *indices;
    size_t begin[NET_LAYERS]; /* of each layer in these */
    tc_compress_stats stats;
};

/* False without memory. */
bool gradients_init(struct gradients *gradients, const struct options *options, struct world *world,
                    const struct net *net);
/* After the group is closed. */
void gradients_fini(struct gradients *gradients);

/* Adds a layer's gradients up over the ranks, in place, under the layer's own tag. */
tc_future *gradients_start(struct gradients *gradients, const struct net *net, size_t index);

/* The momentum that is left for the update: 0 where each rank has applied it before. */
float gradients_momentum(const struct gradients *gradients);

#endif
