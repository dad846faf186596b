/* world.c - this program's place in the group of ranks, and its manners when something fails. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <stdio.h>

/* Messages of the library name the operation and the rank at fault; this adds who saw it. */
static bool say_failure(int rank, const tc_error *error, tc_status_t status)
{
    const char *message = error != NULL ? error->message : tc_status_string(status);

    if (rank >= 0)
        fprintf(stderr, "%s: rank %d: %s\n", program_invocation_short_name, rank, message);
    else
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, message);
    return false;
}

bool world_open(struct world *world)
{
    tc_status_t status;

    *world = (struct world){0};
    overlap_init(&world->overlap);
    status = tc_init(&world->context);
    if (status != TC_OK)
        return say_failure(-1, tc_last_error(), status);
    status = tc_dist_init_env(world->context, &world->group);
    if (status != TC_OK)
        return say_failure(-1, tc_last_error(), status);

    world->rank = tc_dist_rank(world->group);
    world->size = tc_dist_world_size(world->group);
    world->is_turned = tc_poll(world->context, 0) == TC_OK;
    return true;
}

bool world_leave(struct world *world)
{
    tc_status_t status = tc_dist_finalize(world->group);

    world->group = NULL;
    return status == TC_OK || say_failure(world->rank, tc_last_error(), status);
}

void world_close(struct world *world)
{
    (void)tc_dist_close(world->group);
    (void)tc_shutdown(world->context);
    world->group = NULL;
    world->context = NULL;
    overlap_fini(&world->overlap);
}

bool world_wait(struct world *world, tc_future *future)
{
    tc_status_t status = tc_future_test(future);
    bool is_well;

    if (status == TC_PENDING) {
        overlap_block(&world->overlap, true);
        status = tc_future_wait(future, -1);
        overlap_block(&world->overlap, false);
    }
    is_well = status == TC_OK || say_failure(world->rank, tc_future_error(future), status);
    tc_future_release(future);
    return is_well;
}

void world_turn(struct world *world)
{
    if (world->is_turned)
        (void)tc_poll(world->context, 0);
}

bool world_sum(struct world *world, double *numbers, size_t count)
{
    double sums[WORLD_NUMBERS_MAX];
    tc_future *future;

    overlap_start(&world->overlap);
    future = tc_allreduce_async(world->group, TC_TAG_ORDERED, numbers, sums, count, TC_DTYPE_F64,
                                TC_REDUCE_SUM, NULL);
    overlap_watch(&world->overlap, future);
    if (!world_wait(world, future))
        return false;
    for (size_t i = 0; i < count; i++)
        numbers[i] = sums[i];
    return true;
}
