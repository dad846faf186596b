/* network.h - a network of two layers, whole or split over the ranks in one of two ways. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENSOR_PARALLEL_NETWORK_H
#define TENSOR_PARALLEL_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "world.h"

enum way { WAY_UNSPLIT, WAY_REDUCE, WAY_GATHER, WAY_COUNT };
enum { LAYERS = 2 };

/* The part of a layer that this rank holds: y = W x + b.  All pointers are borrowed from the
 * network.  Weights lie one output feature after the other, the biases follow them; gradients and
 * speeds alike. */
struct layer {
    size_t inputs;        /* columns of W held here */
    size_t outputs;       /* rows of W held here */
    size_t inputs_begin;  /* where they begin in the whole layer's */
    size_t outputs_begin; /* as are the biases, of which a split by inputs has all */
    size_t count;         /* of parameters: (inputs + 1) * outputs */
    float *params;
    float *grads;
    float *speeds;
};

/* Signals lie one feature after the other, a row of samples each: where features are split, a
 * rank's part is one piece of memory, and an all-gather puts the pieces together in place. */
struct network {
    struct world *world; /* borrowed */
    enum way way;
    size_t sizes[LAYERS + 1]; /* features of the whole network: in, hidden, out */
    size_t rows_max;          /* samples at once */
    struct layer layers[LAYERS];
    size_t whole_count; /* of parameters of the whole network */
    float *block;       /* owned: everything */
    float *samples;     /* rows x inputs: filled by the user */
    float *input;       /* the same, turned over */
    float *hidden;      /* what this rank has of the hidden features, or all of them */
    float *hidden_delta;
    float *out;        /* outputs x rows, all of them */
    float *delta;      /* the loss by these */
    float *out_rows;   /* out turned over: rows x outputs, for the user */
    float *delta_rows; /* delta turned over */
    float *turned;     /* hidden, turned over */
    float *gathered;   /* all output rows of the second layer's weights; of WAY_GATHER */
};

const char *way_name(enum way way);

/* Whether the ranks divide what a way splits evenly; rank 0 says which layer is uneven. */
bool network_is_even(const struct world *world, enum way way, size_t hidden, size_t outputs);

/* All parameters are 0.  False without memory. */
bool network_init(struct network *network, struct world *world, enum way way, size_t hidden,
                  size_t outputs, size_t rows_max);
void network_fini(struct network *network);

/* Weights by the seed, biases 0, into `whole`: whole_count parameters, layer after layer. */
void network_draw(const struct network *network, uint64_t seed, float *whole);

/* Takes this rank's part of the whole network's parameters, and forgets the speeds. */
void network_take(struct network *network, const float *whole);

/* How many of this rank's parameters differ from the whole network's, in any bit. */
size_t network_count_others(const struct network *network, const float *whole);

/* Outputs of the rows in `samples`, on every rank, into `out_rows`.  False when a collective has
 * failed, and has been told; so do the next. */
bool network_forward(struct network *network, size_t rows);

/* After network_forward() of the same rows: the loss, its gradients, a step down. */
bool network_learn(struct network *network, const uint8_t *labels, size_t rows, float rate,
                   double *loss, size_t *right);

#endif
