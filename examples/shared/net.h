/* net.h - a multi-layer perceptron whose layers are run one call at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_NET_H
#define SHARED_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 64 - hidden - hidden - hidden - 10, with rectifiers between and softmax at the end. */
enum { NET_LAYERS = 4 };

/* All pointers are borrowed from the net.  Weights (inputs x outputs) and biases of a layer lie
 * one after the other, and so do their gradients: a gradient is one piece of memory to reduce. */
struct layer {
    size_t inputs;
    size_t outputs;
    size_t count; /* of parameters: (inputs + 1) * outputs */
    float *params;
    float *grads;
    float *speeds;   /* of the optimizer, the momentum's memory */
    const float *in; /* rows x inputs: what the layer below put out */
    float *out;      /* rows x outputs */
    float *delta;    /* rows x outputs: derivative of the loss by what goes into the rectifier */
    float *in_delta; /* of the layer below; NULL for the first */
};

struct net {
    struct layer layers[NET_LAYERS];
    size_t count;    /* of parameters */
    size_t rows_max; /* samples at once */
    float *block;    /* owned: everything */
    float *params;   /* all layers' parameters, one after the other */
    float *input;    /* rows_max x 64, filled by the user */
    float *turned;   /* a layer's weights, turned over */
};

/* Weights by the seed, biases 0.  False without memory. */
bool net_init(struct net *net, size_t hidden, size_t rows_max, uint64_t seed);
void net_fini(struct net *net);

void net_forward(struct net *net, size_t index, size_t rows);

/* After the last layer's forward: the sum of the rows' cross-entropies.  Counts rows whose class is
 * guessed right, and leaves the last layer's derivatives, divided by `batch`. */
double net_loss(struct net *net, const uint8_t *labels, size_t rows, size_t batch, size_t *right);

/* The gradient of a layer, and the derivatives of the one below; from the last layer down. */
void net_backward(struct net *net, size_t index, size_t rows);

/* One step of gradient descent with momentum. */
void net_update(struct net *net, size_t index, float rate, float momentum);

#endif
