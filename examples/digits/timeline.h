/* timeline.h - what all ranks did in a stretch of time, gathered on rank 0 and written down. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIGITS_TIMELINE_H
#define DIGITS_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "world.h"

enum span_kind { SPAN_APP, SPAN_COLLECTIVE, SPAN_TRANSFER };

/* One event of a rank, as it travels to rank 0. */
struct span {
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t tag; /* of the collective; of a span of ours the layer or the step */
    uint64_t bytes;
    uint32_t rank;
    uint32_t thread;
    uint8_t kind;
    uint8_t row; /* where it is drawn, below others of the same time */
    char name[22];
};

struct timeline {
    struct span *spans; /* owned; rank by rank, in the order of their begin */
    size_t count;
    int ranks;
    uint64_t begin_ns; /* of the first, on rank 0's clock */
    uint64_t end_ns;   /* of the last */
    int shifted_ranks; /* so many have another clock, set right at a barrier */
    double hidden; /* share of communication behind compute, of the whole run; set by the user */
};

/* On every rank: sends what ended between begin_ns and end_ns to rank 0, which alone gets spans.
 * False after having said why. */
bool timeline_gather(struct world *world, uint64_t begin_ns, uint64_t end_ns,
                     struct timeline *timeline_out);
void timeline_fini(struct timeline *timeline);

/* A page of its own, and the trace-event format of Chrome and Perfetto; as above. */
bool timeline_write_html(struct timeline *timeline, const char *path);
bool timeline_write_json(const struct timeline *timeline, const char *path);

#endif
