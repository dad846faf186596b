/* algo.c - the table of plans, and how to find one in it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/algo.h"

#include <stddef.h>
#include <string.h>

#include "core/assert.h"

const struct tci_plan *const tci_plans[] = {
    &tci_oneshot_allreduce,
    &tci_direct_allreduce,
    &tci_ring_allreduce,
    &tci_tree_allreduce,
    &tci_centralized_allreduce,
    &tci_two_level_allreduce,
    &tci_recursive_doubling_allreduce,
    &tci_halving_doubling_allreduce,
    &tci_double_tree_allreduce,
    &tci_chain_allreduce,
    &tci_biring_allreduce,
    &tci_wide_chain_allreduce,
    &tci_oneshot_broadcast,
    &tci_direct_broadcast,
    &tci_tree_broadcast,
    &tci_two_level_broadcast,
    &tci_double_tree_broadcast,
    &tci_chain_broadcast,
    &tci_direct_allgather,
    &tci_ring_allgather,
    &tci_bruck_allgather,
    &tci_dissemination_allgather,
    &tci_biring_allgather,
    &tci_direct_reduce_scatter,
    &tci_ring_reduce_scatter,
    &tci_pairwise_reduce_scatter,
    &tci_biring_reduce_scatter,
    &tci_oneshot_reduce,
    &tci_direct_reduce,
    &tci_tree_reduce,
    &tci_two_level_reduce,
    &tci_wide_chain_reduce,
    &tci_direct_gather,
    &tci_tree_gather,
    &tci_direct_scatter,
    &tci_tree_scatter,
    &tci_direct_alltoall,
    &tci_bruck_alltoall,
    &tci_pairwise_alltoall,
    &tci_dissemination_barrier,
    &tci_two_level_barrier,
    &tci_ring_barrier,
    &tci_p2p_send,
    &tci_p2p_recv,
    NULL,
};

const struct tci_plan *tci_plan_find(enum tci_coll coll, const char *name)
{
    TC_ASSERT(name != NULL);
    coll = tci_coll_base(coll);

    for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++)
        if ((*plan)->coll == coll && strcmp((*plan)->name, name) == 0)
            return *plan;
    return NULL;
}

const struct tci_plan *tci_plan_by_id(enum tci_coll coll, uint8_t id)
{
    coll = tci_coll_base(coll);
    for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++)
        if ((*plan)->coll == coll && (*plan)->id == id)
            return *plan;
    return NULL;
}

const char *tci_plan_name(enum tci_coll coll, uint8_t id)
{
    const struct tci_plan *plan = tci_plan_by_id(tci_coll_base(coll), id);

    return plan != NULL ? plan->name : NULL;
}
