/* share.c - the digits, from rank 0 to all others. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool share_data(struct world *world, const char *path, struct data *data)
{
    uint64_t count = 0;
    bool is_first = world->rank == 0;

    if (is_first && data_read(path, data))
        count = data->count;
    if (!world_wait(world, tc_broadcast_async(world->group, TC_TAG_ORDERED, &count, 1, TC_DTYPE_U64,
                                              0, NULL)))
        return false;
    if (count == 0) {
        (void)world_leave(world);
        return false;
    }

    if (!is_first) {
        data->count = count;
        data->digits = calloc(count, sizeof *data->digits);
        if (data->digits == NULL) {
            fprintf(stderr, "%s: rank %d: no memory for the digits\n",
                    program_invocation_short_name, world->rank);
            return false;
        }
    }
    return world_wait(world,
                      tc_broadcast_async(world->group, TC_TAG_ORDERED, data->digits,
                                         count * sizeof *data->digits, TC_DTYPE_U8, 0, NULL));
}
