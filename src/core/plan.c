/* plan.c - names of the collectives. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan.h"

#include "core/assert.h"
#include "core/base.h"

const char *tci_coll_name(enum tci_coll coll)
{
    static const char *const names[] = {
        [TCI_COLL_ALLREDUCE] = "allreduce",
        [TCI_COLL_BROADCAST] = "broadcast",
        [TCI_COLL_ALLGATHER] = "allgather",
        [TCI_COLL_REDUCE_SCATTER] = "reduce_scatter",
        [TCI_COLL_BARRIER] = "barrier",
        [TCI_COLL_P2P] = "send/recv",
        [TCI_COLL_REDUCE] = "reduce",
        [TCI_COLL_GATHER] = "gather",
        [TCI_COLL_SCATTER] = "scatter",
        [TCI_COLL_ALLTOALL] = "alltoall",
        [TCI_COLL_ALLGATHERV] = "allgatherv",
        [TCI_COLL_REDUCE_SCATTERV] = "reduce_scatterv",
        [TCI_COLL_ALLTOALLV] = "alltoallv",
        [TCI_COLL_ALLREDUCE_SPARSE] = "allreduce_sparse",
        [TCI_COLL_ALLREDUCE_SPARSE_MAX] = "allreduce_sparse with k_max",
        [TCI_COLL_ALLREDUCE_TOPK] = "allreduce_topk",
        [TCI_COLL_ALLREDUCE_TOPK_MAX] = "allreduce_topk with k_max",
        [TCI_COLL_ALLREDUCE_COMPRESSED] = "allreduce_compressed",
    };

    _Static_assert(TCI_LEN(names) == TCI_COLL_COUNT, "a name for each collective");
    TC_ASSERT((unsigned)coll < TCI_COLL_COUNT);
    return names[coll];
}

enum tci_coll tci_coll_base(enum tci_coll coll)
{
    switch (coll) {
    case TCI_COLL_ALLGATHERV:
    case TCI_COLL_ALLREDUCE_SPARSE:
    case TCI_COLL_ALLREDUCE_SPARSE_MAX:
    case TCI_COLL_ALLREDUCE_TOPK:
    case TCI_COLL_ALLREDUCE_TOPK_MAX:
        return TCI_COLL_ALLGATHER;
    case TCI_COLL_REDUCE_SCATTERV:
        return TCI_COLL_REDUCE_SCATTER;
    case TCI_COLL_ALLTOALLV:
    case TCI_COLL_ALLREDUCE_COMPRESSED:
        return TCI_COLL_ALLTOALL;
    default:
        return coll;
    }
}
