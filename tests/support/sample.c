/* sample.c - a test of too many cases takes some of them, by a seed that it prints. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/world.h"

uint64_t test_seed(void)
{
    static uint64_t seed;
    const char *text = getenv("TCDIST_TEST_SEED");

    if (seed != 0)
        return seed;
    if (text != NULL)
        seed = strtoull(text, NULL, 0);
    else
        seed = (uint64_t)time(NULL);
    if (seed == 0)
        seed = 1;
    printf("seed %llu: TCDIST_TEST_SEED=%llu takes the same samples\n", (unsigned long long)seed,
           (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

struct sample sample_begin(double budget)
{
    struct sample sample = {.budget = budget, .random = test_seed() * UINT64_C(0x9e3779b97f4a7c15)};

    if (test_effort() >= 2)
        sample.budget = (double)INFINITY;
    return sample;
}

/* SplitMix64. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

bool sample_takes(struct sample *sample)
{
    double chance = (double)(next(&sample->random) >> 11) * 0x1p-53;
    bool takes = chance * sample->work < sample->budget;

    sample->taken += takes;
    sample->left += !takes;
    return takes;
}

uint64_t sample_below(struct sample *sample, uint64_t end)
{
    return next(&sample->random) % end;
}
