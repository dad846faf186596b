/* world.h - this program's place in the group of ranks, and its manners when something fails. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_WORLD_H
#define SHARED_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "overlap.h"
#include "tcdist/tcdist.h"

struct world {
    tc_context *context;
    tc_dist_ctx *group;
    int rank;
    int size;
    bool is_turned; /* TCDIST_LOOP_MODE says that we turn the loop ourselves */
    struct overlap overlap;
};

/* Forms the group that the environment describes.  False after having said why not, as below. */
bool world_open(struct world *world);

/* Leaves it together with the others: at the end, and after a failure that all ranks see alike.  A
 * rank that alone has failed does not wait for the others; world_close() tells them. */
bool world_leave(struct world *world);

/* Leaves it at once where that is still to be done, and frees what is left. */
void world_close(struct world *world);

/* Waits for an operation and releases its future. */
bool world_wait(struct world *world, tc_future *future);

/* Lets communication proceed where only we turn the loop: called between layers. */
void world_turn(struct world *world);

/* Adds up the ranks' numbers; at most WORLD_NUMBERS_MAX. */
enum { WORLD_NUMBERS_MAX = 8 };
bool world_sum(struct world *world, double *numbers, size_t count);

#endif
