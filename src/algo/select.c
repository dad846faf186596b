/* select.c - the cheapest plan for a call, unless one was asked for by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/select.h"

#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "algo/figures.h"
#include "algo/tuning.h"
#include "core/base.h"
#include "core/log.h"

/* Each rank knows its own counts of an all-to-all-v alone: it is chosen as if they were this. */
enum { EXCHANGE_BYTES = 64 << 10 };

/* ---- check -------------------------------------------------------------------------------- */

/* What keeps a plan from the promises of the call; NULL: nothing. */
static const char *obstacle(const struct tci_op_args *args, const struct tci_plan *plan,
                            int numerics)
{
    bool folds = args->call.op != 255;

    if (plan->equal && args->blocks.src_counts != NULL)
        return "needs blocks of one length: use the call without counts";
    if (!folds || args->shape.size == 1)
        return NULL;
    if (numerics == TC_NUMERICS_EXACT && !plan->whole)
        return "rounds sums of some ranks: ask for TC_NUMERICS_CANONICAL or TC_NUMERICS_FAST";
    if (plan->canonical)
        return NULL;
    if (numerics != TC_NUMERICS_FAST)
        return "does not fold in rank order: ask for TC_NUMERICS_FAST";
    if (args->call.op == TC_REDUCE_AVG && args->fold.divide == NULL)
        return "cannot average integers, whose partial sums may wrap";
    return NULL;
}

/* Whether a plan can keep the promises of the call. */
static bool can(const struct tci_op_args *args, const struct tci_plan *plan, int numerics)
{
    return obstacle(args, plan, numerics) == NULL;
}

/* "direct, oneshot, …": what a collective has; with a call, what can carry it out. */
static void list_names(enum tci_coll coll, const struct tci_op_args *args, int numerics, char *text,
                       size_t text_bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t p = 0; tci_plans[p] != NULL && used < text_bytes; p++)
        if (tci_plans[p]->coll == tci_coll_base(coll) &&
            (args == NULL || can(args, tci_plans[p], numerics)))
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", used > 0 ? ", " : "",
                                     tci_plans[p]->name);
}

/* An algorithm that was asked for by name, with those that can instead. */
static tc_status_t check(const struct tci_op_args *args, const struct tci_plan *plan, int numerics,
                         struct tci_error *error)
{
    const char *why = obstacle(args, plan, numerics);
    char names[200];

    if (why == NULL)
        return TC_OK;
    list_names((enum tci_coll)args->call.coll, args, numerics, names, sizeof(names));
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, args->tag, args->name,
                  "%s: algorithm \"%s\" %s%s%s", args->name, plan->name, why,
                  names[0] != '\0' ? "; these keep what is promised: " : "", names);
    return TC_ERR_UNSUPPORTED;
}

/* The same for a reduction of a whole class of types, as the tables of choices have it. */
static bool is_legal(const struct tci_plan *plan, const struct tci_ask *ask)
{
    static const size_t counts;
    struct tci_op_args args = {
        .shape = {.size = 2},
        .blocks = {.src_counts = ask->coll != tci_coll_base(ask->coll) ? &counts : NULL},
        .call = {.coll = (uint8_t)ask->coll, .op = ask->folds ? (uint8_t)TC_REDUCE_SUM : 255}};

    if (ask->folds)
        tci_fold_init(&args.fold, tci_fold_class_dtype(ask->fold), TC_REDUCE_SUM);
    return can(&args, plan, ask->numerics);
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

/* ---- choose ------------------------------------------------------------------------------- */

static tc_status_t say(struct tci_error *error, const struct tci_op_args *args, tc_status_t status)
{
    tci_error_set(error, status, -1, args->tag, args->name,
                  status == TC_ERR_BUSY ? "%s: the group is being tuned: wait for that to end"
                                        : "%s: no memory left",
                  args->name);
    return status;
}

/* The cheapest plan.  One that this very operator rules out, as AVG of integers does, gives way to
 * the cheapest of those that can do everything. */
static tc_status_t choose(struct tci_comm *comm, const struct tci_op_args *args,
                          struct tci_ask *ask, struct tci_choice *choice)
{
    tc_status_t status = tci_tuning_choose(comm, ask, is_legal, choice);

    if (status != TC_OK || ask->plan != NULL || ask->numerics != TC_NUMERICS_FAST ||
        can(args, choice->plan, ask->numerics))
        return status;
    ask->numerics = TC_NUMERICS_CANONICAL;
    return tci_tuning_choose(comm, ask, is_legal, choice);
}

/* What the caller, or the whole group, asks for by name; NULL: nothing that counts here. */
static const struct tci_plan *named(struct tci_comm *comm, const struct tci_op_args *args,
                                    const struct tci_ask *ask, const char *algorithm)
{
    const struct tci_plan *plan = NULL;
    const char *why;

    if (algorithm != NULL)
        return tci_plan_find(ask->coll, algorithm);
    if (comm->algorithm[0] != '\0')
        plan = tci_plan_find(ask->coll, comm->algorithm);
    why = plan != NULL ? obstacle(args, plan, ask->numerics) : NULL;
    if (why == NULL)
        return plan;
    /* A default for everything applies where it can. */
    if (!atomic_exchange(&comm->has_told_algorithm, true))
        tci_log(TC_LOG_WARN,
                "rank %d: %s: algorithm \"%s\", which the group was given for all calls, %s; such "
                "calls go as without it",
                comm->rank, args->name, comm->algorithm, why);
    return NULL;
}

/* ---- pieces -------------------------------------------------------------------------------- */

/* A message costs the time of about so many bytes, whatever its length; and pieces of a payload
 * that a plan sends one after the other. */
enum { MESSAGE_COST_BYTES = 32 << 10, CUTS_MAX = 64 };

/* Largest s with s * s <= x. */
static uint64_t root_of(uint64_t x)
{
    uint64_t s = 0;

    for (uint64_t bit = UINT64_C(1) << 31; bit > 0; bit >>= 1)
        if ((s + bit) * (s + bit) <= x)
            s += bit;
    return s;
}

/* Pieces of a segment in a pipeline, whatever the figures are.  With c pieces of the whole payload
 * that each pass `depth` messages, the last arrives after c + depth messages of bytes / c + cost:
 * least where c * c = depth * bytes / cost. */
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

static void apply(struct tci_op_args *args, const struct tci_choice *choice, int numerics)
{
    unsigned mode = numerics == TC_NUMERICS_FAST    ? TCI_CALL_FAST
                    : numerics == TC_NUMERICS_EXACT ? TCI_CALL_EXACT
                                                    : 0;

    args->plan = choice->plan;
    args->shape.radix = choice->radix;
    args->call.plan = (uint8_t)(choice->plan->id | mode);
    args->lane_elems = tci_max(1, choice->lane_bytes / tci_max(args->elem_bytes, 1));
    if (args->call.coll == TCI_COLL_ALLTOALLV)
        args->lane_elems = tci_max(1, args->count); /* its count is no one else's */
    args->shape.cuts = choice->cuts > 0 ? choice->cuts : cuts(args);
}

/* ---- the choice ---------------------------------------------------------------------------- */

static struct tci_ask ask_of(const struct tci_op_args *args, enum tci_coll coll, int numerics)
{
    struct tci_ask ask = {
        .coll = coll, .numerics = numerics, .bytes = args->count * args->elem_bytes};

    if (coll == TCI_COLL_ALLTOALLV)
        ask.bytes = EXCHANGE_BYTES;
    ask.folds = args->call.op != 255;
    if (ask.folds)
        ask.fold = ask.numerics == TC_NUMERICS_EXACT
                       ? TCI_FOLD_EXACT
                       : tci_fold_class_of((tc_dtype_t)args->call.dtype);
    return ask;
}

tc_status_t tci_select(struct tci_comm *comm, struct tci_op_args *args, enum tci_coll coll,
                       int numerics, const char *algorithm, struct tci_error *error)
{
    struct tci_ask ask =
        ask_of(args, coll, numerics != TC_NUMERICS_DEFAULT ? numerics : comm->numerics);
    struct tci_choice choice = {.plan = NULL};
    tc_status_t status;
    char names[256];

    if (ask.numerics == TC_NUMERICS_EXACT && (status = make_exact(args, error)) != TC_OK)
        return status;
    ask.plan = named(comm, args, &ask, algorithm);
    if (ask.plan == NULL && algorithm != NULL) {
        list_names(coll, NULL, 0, names, sizeof(names));
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, args->tag, args->name,
                      "%s has no algorithm \"%s\"; it has: %s", args->name, algorithm, names);
        return TC_ERR_INVALID_ARG;
    }
    if (ask.plan != NULL && (status = check(args, ask.plan, ask.numerics, error)) != TC_OK)
        return status;
    numerics = ask.numerics;
    args->is_named = ask.plan != NULL;
    args->is_canonical = ask.numerics != TC_NUMERICS_FAST;
    if (!ask.folds)
        ask.numerics = TC_NUMERICS_CANONICAL; /* nothing rounds: one row serves all */
    status = choose(comm, args, &ask, &choice);
    if (status != TC_OK)
        return say(error, args, status);
    if (choice.plan == NULL) {
        tci_error_set(error, TC_ERR_UNSUPPORTED, -1, args->tag, args->name,
                      "%s: no algorithm keeps what these numerics promise", args->name);
        return TC_ERR_UNSUPPORTED;
    }
    apply(args, &choice, numerics);
    return TC_OK;
}

bool tci_select_again(struct tci_choices *choices, struct tci_op_args *args)
{
    int numerics = args->call.plan & TCI_CALL_FAST    ? TC_NUMERICS_FAST
                   : args->call.plan & TCI_CALL_EXACT ? TC_NUMERICS_EXACT
                                                      : TC_NUMERICS_CANONICAL;
    struct tci_ask ask = ask_of(args, (enum tci_coll)args->call.coll, numerics);
    struct tci_choice choice = {.plan = NULL};

    if (args->stages != NULL || (ask.folds && numerics == TC_NUMERICS_FAST))
        return true;
    ask.plan = args->is_named ? args->plan : NULL;
    if (!ask.folds)
        ask.numerics = TC_NUMERICS_CANONICAL;
    if (!tci_choose(choices, &ask, is_legal, &choice))
        return false;
    if (choice.plan != NULL)
        apply(args, &choice, numerics);
    args->is_of_number = true;
    return true;
}
