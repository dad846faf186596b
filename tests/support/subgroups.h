/* subgroups.h - splits of a test's world, on all ranks at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SUBGROUPS_H
#define TEST_SUBGROUPS_H

#include "support/world.h"

/* One group of each rank; NULL where a rank has none. */
struct subgroups {
    struct world *world;
    tc_dist_ctx *group[WORLD_MAX];
};

/* Split parents[r] on each rank that has one, with its color and key. */
void subgroups_split(struct subgroups *groups, struct world *world, tc_dist_ctx *const *parents,
                     const int *colors, const int *keys);
/* The same for one new group, of the ranks whose bits are set in `mask`, in their order. */
void subgroups_pick(struct subgroups *groups, struct world *world, tc_dist_ctx *const *parents,
                    uint64_t mask);
/* All-reduce under a tag on every rank that has a group: each learns the bits of its members. */
void subgroups_check(const struct subgroups *groups, uint64_t tag);
/* Finalize every group there is. */
void subgroups_finalize(struct subgroups *groups);

/* Make a link between every pair of ranks of the world. */
void link_all_pairs(struct world *world);

/* Descriptors that this process has open. */
unsigned count_descriptors(void);

#endif
