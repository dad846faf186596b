/* rng.h - seeded random numbers, the same on every machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_RNG_H
#define SHARED_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

/* Streams of one seed differ: one for the split, one for the weights, one for each epoch. */
void rng_init(struct rng *rng, uint64_t seed, uint64_t stream);

uint64_t rng_next(struct rng *rng);

/* From 0 to below `bound`, which is at least 1. */
size_t rng_below(struct rng *rng, size_t bound);

/* Standard normal. */
double rng_normal(struct rng *rng);

#endif
