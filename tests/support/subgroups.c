/* subgroups.c - splits, uses and finalizes groups of all ranks, and counts descriptors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/subgroups.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void settle_all(struct world *world, tc_future **futures)
{
    for (int r = 0; r < world->size; r++) {
        if (futures[r] == NULL)
            continue;
        if (world_wait(world, futures[r]) != TC_OK)
            fail_msg("rank %d: %s", r, tc_future_error(futures[r])->message);
        tc_future_release(futures[r]);
    }
}

void subgroups_split(struct subgroups *groups, struct world *world, tc_dist_ctx *const *parents,
                     const int *colors, const int *keys)
{
    tc_future *futures[WORLD_MAX] = {NULL};

    memset(groups, 0, sizeof(*groups));
    groups->world = world;
    for (int r = 0; r < world->size; r++)
        if (parents[r] != NULL)
            futures[r] = tc_dist_split_async(parents[r], colors[r], keys[r], &groups->group[r]);
    settle_all(world, futures);
}

void subgroups_pick(struct subgroups *groups, struct world *world, tc_dist_ctx *const *parents,
                    uint64_t mask)
{
    int colors[WORLD_MAX], keys[WORLD_MAX] = {0};

    for (int r = 0; r < world->size; r++)
        colors[r] = (mask >> r & 1) != 0 ? 5 : -1;
    subgroups_split(groups, world, parents, colors, keys);
}

/* Whether a rank is told to be in the same group, from the bits that all members have set. */
void subgroups_check(const struct subgroups *groups, uint64_t tag)
{
    tc_future *futures[WORLD_MAX] = {NULL};
    uint64_t bits[WORLD_MAX] = {0}, of_all[WORLD_MAX] = {0};
    struct world *world = groups->world;

    for (int r = 0; r < world->size; r++) {
        if (groups->group[r] == NULL)
            continue;
        bits[r] = UINT64_C(1) << r;
        futures[r] = tc_allreduce_async(groups->group[r], tag, &bits[r], &of_all[r], 1,
                                        TC_DTYPE_U64, TC_REDUCE_BOR, NULL);
    }
    settle_all(world, futures);
    for (int r = 0; r < world->size; r++) {
        if (groups->group[r] == NULL)
            continue;
        assert_true((of_all[r] & bits[r]) != 0);
        assert_int_equal(__builtin_popcountll(of_all[r]), tc_dist_world_size(groups->group[r]));
        for (int k = 0; k < world->size; k++)
            if ((of_all[r] >> k & 1) != 0)
                assert_int_equal(of_all[k], of_all[r]);
    }
}

void subgroups_finalize(struct subgroups *groups)
{
    tc_future *futures[WORLD_MAX] = {NULL};

    for (int r = 0; r < groups->world->size; r++)
        if (groups->group[r] != NULL)
            futures[r] = tc_dist_finalize_async(groups->group[r]);
    settle_all(groups->world, futures);
    memset(groups->group, 0, sizeof(groups->group));
}

void link_all_pairs(struct world *world)
{
    static float data[WORLD_MAX][WORLD_MAX];
    tc_future *futures[WORLD_MAX] = {NULL};
    tc_options direct;

    tc_options_default(&direct);
    direct.algorithm = "direct";
    for (int r = 0; r < world->size; r++)
        futures[r] = tc_allreduce_async(world->group[r], TC_TAG_ORDERED, data[r], data[r],
                                        (size_t)world->size, TC_DTYPE_F32, TC_REDUCE_SUM, &direct);
    settle_all(world, futures);
}

unsigned count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}
