/* ring_group.c - groups whose ranks are linked with their neighbours alone: what they carry. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_group.h"

#include <string.h>

#include "algo/algo.h"
#include "core/base.h"

static const char *const algorithms[] = {"ring", "biring", "chain", "wide_chain"};

bool tci_ring_has(enum tci_coll coll, const char *algorithm)
{
    if (coll == TCI_COLL_REDUCE)
        return false; /* the end of the chain sends to the root, wherever that is */
    for (size_t k = 0; k < TCI_LEN(algorithms); k++)
        if (strcmp(algorithms[k], algorithm) == 0)
            return true;
    return false;
}

static const char *refuse(const struct tci_advice *advice, struct tci_error *error, const char *why)
{
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, advice->tag, advice->name,
                  "%s: this group was given links between neighbours alone: %s", advice->name, why);
    return NULL;
}

const char *tci_ring_plan(enum tci_coll coll, int numerics)
{
    const char *name;

    switch (coll) {
    case TCI_COLL_BROADCAST:
        name = "chain";
        break;
    case TCI_COLL_ALLGATHER:
    case TCI_COLL_BARRIER:
        name = "ring";
        break;
    case TCI_COLL_ALLREDUCE:
        name = numerics == TC_NUMERICS_FAST ? "ring" : "wide_chain";
        break;
    case TCI_COLL_REDUCE_SCATTER:
        name = numerics == TC_NUMERICS_FAST ? "ring" : NULL;
        break;
    default:
        name = NULL;
        break;
    }
    return name;
}

const char *tci_ring_advise(struct tci_comm *comm, const struct tci_advice *advice,
                            struct tci_error *error)
{
    enum tci_coll coll = tci_coll_base((enum tci_coll)advice->call->coll);
    const char *name;

    (void)comm;
    if (advice->named != NULL && tci_ring_has(coll, advice->named))
        return advice->named;
    if (advice->named != NULL)
        return refuse(advice, error,
                      "name \"ring\", \"biring\", \"chain\" or \"wide_chain\", or give each rank "
                      "descriptors to all");
    name = tci_ring_plan(coll, advice->numerics);
    if (name != NULL)
        return name;
    if (tci_ring_plan(coll, TC_NUMERICS_FAST) != NULL)
        return refuse(advice, error,
                      "no plan along the ring keeps these numerics: ask for TC_NUMERICS_FAST, or "
                      "give each rank descriptors to all");
    return refuse(advice, error,
                  "this needs links between all ranks: give each rank descriptors to all");
}
