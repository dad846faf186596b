/* plan.c - names of the collectives. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan.h"

#include "core/assert.h"
#include "core/base.h"

const char *tci_coll_name(enum tci_coll coll)
{
    static const char *const names[] = {"allreduce",      "broadcast", "allgather",
                                        "reduce_scatter", "barrier",   "send/recv"};

    _Static_assert(TCI_LEN(names) == TCI_COLL_COUNT, "a name for each collective");
    TC_ASSERT((unsigned)coll < TCI_COLL_COUNT);
    return names[coll];
}
