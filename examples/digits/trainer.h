/* trainer.h - trains the net on all ranks: the batch is shared, the gradients are added up. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIGITS_TRAINER_H
#define DIGITS_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data.h"
#include "gradients.h"
#include "net.h"
#include "options.h"
#include "world.h"

struct trainer {
    const struct options *options; /* borrowed, as the next */
    struct world *world;
    struct digits train;
    struct digits test;
    struct net net;
    struct gradients gradients;
    tc_future *sums[NET_LAYERS]; /* owned: all-reduces on their way; NULL: none */
    size_t *order;               /* owned: the epoch's order of the training digits */
    uint8_t *labels;             /* owned: of the rows that are in the net */
    size_t step;                 /* taken since the start */
    size_t steps;                /* of all epochs */
    size_t watched;              /* steps at the end that the timeline shows */
    uint64_t window_begin_ns;    /* they begin here */
    uint64_t window_end_ns;
    double busy_seconds; /* in the steps of all epochs */
};

/* The data's digits are shuffled, and borrowed. */
bool trainer_init(struct trainer *trainer, const struct options *options, struct world *world,
                  struct data *data);
/* After the group is closed: what still runs uses the net's memory. */
void trainer_fini(struct trainer *trainer);

/* All epochs; rank 0 reports each. */
bool trainer_run(struct trainer *trainer);

#endif
