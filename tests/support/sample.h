/* sample.h - a test of too many cases takes some of them, by a seed that it prints. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SAMPLE_H
#define TEST_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

/* Cases to choose from.  First the work of each is added up, then each is taken or left, so that
 * about `budget` of the work is done; all of them where that is enough. */
struct sample {
    double work, budget;
    uint64_t random;
    unsigned taken, left;
};

/* TCDIST_TEST_SEED, or one that the clock gives; printed when it is asked for first. */
uint64_t test_seed(void);

/* At full effort the budget does not count: every case is taken. */
struct sample sample_begin(double budget);
static inline void sample_add(struct sample *sample, double work)
{
    sample->work += work;
}
/* With a chance of budget / work. */
bool sample_takes(struct sample *sample);

/* Uniform below `end`. */
uint64_t sample_below(struct sample *sample, uint64_t end);

#endif
