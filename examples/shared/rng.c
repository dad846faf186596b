/* rng.c - seeded random numbers, the same on every machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

#include <math.h>

/* splitmix64.  Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014. */
uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void rng_init(struct rng *rng, uint64_t seed, uint64_t stream)
{
    rng->state = stream;
    rng->state = rng_next(rng) ^ seed;
    rng->state = rng_next(rng);
}

/* The bias of the remainder is below 2^-40 for what is drawn here. */
size_t rng_below(struct rng *rng, size_t bound)
{
    return (size_t)(rng_next(rng) % bound);
}

/* In (0, 1]: its logarithm is finite. */
static double next_unit(struct rng *rng)
{
    return (double)((rng_next(rng) >> 11) + 1) * 0x1p-53;
}

/* The method of Box and Muller. */
double rng_normal(struct rng *rng)
{
    double radius = sqrt(-2 * log(next_unit(rng)));

    return radius * cos(6.283185307179586 * next_unit(rng));
}
