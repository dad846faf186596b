/* select.c - the cheapest plan for a call, unless one was asked for by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/select.h"

#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "core/base.h"

/* Up to this payload one round of everyone to everyone is cheaper than two rounds with less
 * traffic; divided by the ranks, since the traffic grows with them.  docs/performance.md. */
enum { ONESHOT_BYTES_MAX = 128 << 10 };

/* Above this number of ranks a tree takes fewer messages a rank than one to everyone. */
enum { FLAT_RANKS_MAX = 8 };

/* Broadcasts from this size on are worth cutting: every rank then sends. */
enum { CUT_BROADCAST_BYTES_MIN = 256 << 10 };

enum { TREE_RADIX = 2 };

/* A message costs the time of about so many bytes, whatever its length; and pieces of a payload
 * that a plan sends one after the other. */
enum { MESSAGE_COST_BYTES = 32 << 10, CUTS_MAX = 64 };

static const char *choose(const struct tci_comm *comm, const struct tci_op_args *args,
                          enum tci_coll coll)
{
    size_t bytes = args->count * args->elem_bytes, ranks = (size_t)comm->size;

    switch (tci_coll_base(coll)) {
    case TCI_COLL_ALLREDUCE:
    case TCI_COLL_REDUCE:
        return bytes <= ONESHOT_BYTES_MAX / ranks ? "oneshot" : "direct";
    case TCI_COLL_BROADCAST:
        if (bytes >= CUT_BROADCAST_BYTES_MIN && ranks > 2)
            return "direct";
        return ranks <= FLAT_RANKS_MAX && ranks == 2 ? "oneshot" : "tree";
    case TCI_COLL_BARRIER:
        return "dissemination";
    default:
        return "direct";
    }
}

/* "direct, oneshot, …": what a collective has. */
static void list_names(enum tci_coll coll, char *text, size_t text_bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t p = 0; tci_plans[p] != NULL && used < text_bytes; p++)
        if (tci_plans[p]->coll == coll)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", used > 0 ? ", " : "",
                                     tci_plans[p]->name);
}

static tc_status_t refuse(struct tci_error *error, const struct tci_op_args *args, const char *name,
                          const char *why)
{
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, args->tag, args->name, "%s: algorithm \"%s\" %s",
                  args->name, name, why);
    return TC_ERR_UNSUPPORTED;
}

/* Whether a plan can keep the promises of the call. */
static tc_status_t check(const struct tci_op_args *args, const struct tci_plan *plan, int numerics,
                         struct tci_error *error)
{
    bool folds = args->call.op != 255;

    if (plan->equal && args->blocks.src_counts != NULL)
        return refuse(error, args, plan->name,
                      "needs blocks of one length: use \"direct\", or the call without counts");
    if (!folds || args->shape.size == 1)
        return TC_OK;
    if (numerics == TC_NUMERICS_EXACT && !plan->whole)
        return refuse(error, args, plan->name,
                      "rounds sums of some ranks: ask for TC_NUMERICS_CANONICAL or "
                      "TC_NUMERICS_FAST, or for \"oneshot\" or \"direct\"");
    if (plan->canonical)
        return TC_OK;
    if (numerics != TC_NUMERICS_FAST)
        return refuse(error, args, plan->name,
                      "does not fold in rank order: ask for TC_NUMERICS_FAST, or for \"oneshot\" "
                      "or \"direct\"");
    if (args->call.op == TC_REDUCE_AVG && args->fold.divide == NULL)
        return refuse(error, args, plan->name,
                      "cannot average integers, whose partial sums may wrap: use \"oneshot\" or "
                      "\"direct\"");
    return TC_OK;
}

/* Largest s with s * s <= x. */
static uint64_t root_of(uint64_t x)
{
    uint64_t s = 0;

    for (uint64_t bit = UINT64_C(1) << 31; bit > 0; bit >>= 1)
        if ((s + bit) * (s + bit) <= x)
            s += bit;
    return s;
}

/* Pieces of a segment in a pipeline.  With c pieces of the whole payload that each pass `depth`
 * messages, the last arrives after c + depth messages of bytes / c + cost: least where
 * c * c = depth * bytes / cost. */
static uint32_t cuts(const struct tci_op_args *args)
{
    uint64_t bytes = (uint64_t)args->count * args->elem_bytes, depth, pieces;
    uint64_t segments = tci_max(1, (args->count + args->lane_elems - 1) / args->lane_elems);

    if (args->plan->depth == NULL)
        return 1;
    depth = args->plan->depth(&args->shape);
    if (bytes / MESSAGE_COST_BYTES >= UINT64_MAX / tci_max(depth, 1))
        return CUTS_MAX;
    pieces = root_of(depth * (bytes / MESSAGE_COST_BYTES)) / segments;
    return (uint32_t)tci_min(tci_max(pieces, 1), CUTS_MAX);
}

/* Exact numerics take kernels of their own, which not every operator has. */
static tc_status_t make_exact(struct tci_op_args *args, struct tci_error *error)
{
    tc_dtype_t dtype = (tc_dtype_t)args->call.dtype;
    tc_status_t status;

    if (args->call.op == 255)
        return TC_OK;
    status = tci_fold_init_exact(&args->fold, dtype, (tc_reduce_op_t)args->call.op);
    if (status != TC_OK)
        tci_error_set(error, status, -1, args->tag, args->name,
                      "%s: a product of %s cannot be kept exactly: ask for TC_NUMERICS_CANONICAL",
                      args->name, tc_dtype_name(dtype));
    return status;
}

static size_t lane_elems(const struct tci_comm *comm, const struct tci_op_args *args)
{
    size_t per_elem = tci_max(args->elem_bytes, 1);

    /* Each rank knows its own counts alone, so nothing but one segment is agreed. */
    if (args->call.coll == TCI_COLL_ALLTOALLV)
        return tci_max(1, args->count);
    if (args->plan->layout != TCI_LAYOUT_CUT && args->plan->layout != TCI_LAYOUT_NONE)
        per_elem *= (size_t)comm->size;
    return tci_max(1, comm->segment_bytes / per_elem);
}

tc_status_t tci_select(const struct tci_comm *comm, struct tci_op_args *args, enum tci_coll coll,
                       int numerics, const char *algorithm, struct tci_error *error)
{
    const struct tci_plan *plan = NULL;
    char names[256];
    tc_status_t status;

    if (numerics == TC_NUMERICS_DEFAULT)
        numerics = comm->numerics;
    args->is_canonical = numerics != TC_NUMERICS_FAST;
    if (numerics == TC_NUMERICS_EXACT) {
        status = make_exact(args, error);
        if (status != TC_OK)
            return status;
    }
    if (algorithm == NULL && comm->algorithm[0] != '\0')
        plan = tci_plan_find(coll, comm->algorithm);
    if (plan != NULL && check(args, plan, numerics, &(struct tci_error){0}) != TC_OK)
        plan = NULL; /* a default for everything applies where it can */
    if (plan == NULL)
        plan = tci_plan_find(coll, algorithm != NULL ? algorithm : choose(comm, args, coll));
    if (plan == NULL) {
        list_names(coll, names, sizeof(names));
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, args->tag, args->name,
                      "%s has no algorithm \"%s\"; it has: %s", args->name, algorithm, names);
        return TC_ERR_INVALID_ARG;
    }
    status = check(args, plan, numerics, error);
    if (status != TC_OK)
        return status;
    args->plan = plan;
    args->shape.radix = TREE_RADIX;
    args->call.plan = (uint8_t)(plan->id | (numerics == TC_NUMERICS_FAST    ? TCI_CALL_FAST
                                            : numerics == TC_NUMERICS_EXACT ? TCI_CALL_EXACT
                                                                            : 0));
    args->lane_elems = lane_elems(comm, args);
    args->shape.cuts = cuts(args);
    return TC_OK;
}
