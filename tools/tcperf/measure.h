/* measure.h - how long the operations of one line take. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCPERF_MEASURE_H
#define TCPERF_MEASURE_H

#include "world.h"

/* Times of one operation in microseconds, over samples of the slowest rank. */
struct times {
    double median_us;
    double min_us;
    double max_us;
    int iterations; /* timed batches */
};

/* Zeros the data (sums of zeros neither grow nor slow down), warms up and measures.
 *
 * The ranks are aligned by a barrier, run `inner` batches one after the other, and each divides
 * the time by inner and by the number of tags; the largest of the ranks is one sample.  With
 * --sync inner is 1; else there are at most 11 samples, and inner is what that leaves. */
tc_status_t measure_line(struct world *world, const struct line *line, struct times *times_out);

#endif
