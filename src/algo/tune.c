/* tune.c - the public calls around the choice of algorithms. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tcdist/tune.h"

#include <string.h>

#include "algo/algo.h"
#include "algo/coll.h"
#include "algo/measure.h"
#include "algo/refine.h"
#include "core/alloc.h"
#include "core/base.h"

/* The collective of that name, TCI_COLL_COUNT where there is none. */
static enum tci_coll find(const char *name)
{
    int coll = 0;

    while (coll < TCI_COLL_COUNT &&
           (coll == TCI_COLL_P2P || strcmp(tci_coll_name((enum tci_coll)coll), name) != 0))
        coll++;
    return (enum tci_coll)coll;
}

static bool folds(enum tci_coll coll)
{
    coll = tci_coll_base(coll);
    return coll == TCI_COLL_ALLREDUCE || coll == TCI_COLL_REDUCE || coll == TCI_COLL_REDUCE_SCATTER;
}

/* What memory could hold at most, as the call itself counts it. */
static bool fits(const struct tci_comm *comm, enum tci_coll coll, size_t count, tc_dtype_t dtype)
{
    size_t blocks = coll == tci_coll_base(coll) ? (size_t)comm->size : 1, bytes;

    return coll == TCI_COLL_BARRIER ||
           (tci_array_bytes(count, tc_dtype_size(dtype), &bytes) &&
            tci_array_bytes(bytes, blocks, &bytes) && bytes <= TCI_MEMORY_MAX);
}

static tc_status_t refuse(const char *fmt, const char *text)
{
    return tci_fail(TC_ERR_INVALID_ARG, "algorithm", fmt, text);
}

/* What a call must be right in for there to be an answer. */
static tc_status_t check(struct tci_comm *comm, const char *name, enum tci_coll coll,
                         tc_dtype_t dtype, tc_reduce_op_t op, const tc_options *options)
{
    struct tci_error error = {0};
    tc_status_t status;

    if (coll == TCI_COLL_COUNT)
        return refuse("algorithm: \"%.40s\" is no collective; its name is that of the call, like "
                      "\"allreduce\" or \"reduce_scatter\"",
                      name);
    if (coll != TCI_COLL_BARRIER && tc_dtype_size(dtype) == 0)
        return refuse("algorithm: %s of an element type that is not carried", name);
    status = folds(coll) ? tc_reduce_supported(dtype, op) : TC_OK;
    if (status != TC_OK)
        return tci_fail(status, "algorithm", "algorithm: %s (%d) is not defined for %s",
                        tc_reduce_op_name(op), (int)op, tc_dtype_name(dtype));
    if (!tci_check_options(options, comm->context, &error, "algorithm"))
        return tci_fail(error.pub.status, "algorithm", "%s", error.text);
    return TC_OK;
}

const char *tc_algorithm(tc_dist_ctx *group, const char *collective, size_t count, tc_dtype_t dtype,
                         tc_reduce_op_t op, const tc_options *options)
{
    static const size_t counts;
    struct tci_comm *comm = tci_comm_of(group);
    struct tci_error error = {0};
    struct tci_op_args args;
    enum tci_coll coll;

    if (group == NULL || collective == NULL) {
        refuse("algorithm: %s", "the group and the name of the collective may not be NULL");
        return NULL;
    }
    if (tci_context_is_foreign(comm->context)) {
        (void)tci_context_refuse(comm->context, "algorithm");
        return NULL;
    }
    coll = find(collective);
    if (check(comm, collective, coll, dtype, op, options) != TC_OK)
        return NULL;
    if (!fits(comm, coll, count, dtype)) {
        tci_fail(TC_ERR_INVALID_ARG, "algorithm",
                 "algorithm: count %zu is more than memory can hold", count);
        return NULL;
    }
    args = (struct tci_op_args){
        .name = tci_coll_name(coll),
        .shape = {.rank = (uint32_t)comm->rank, .size = (uint32_t)comm->size, .in_place = true},
        .call = {.count = count,
                 .root = -1,
                 .coll = (uint8_t)coll,
                 .dtype = coll == TCI_COLL_BARRIER ? 255 : (uint8_t)dtype,
                 .op = folds(coll) ? (uint8_t)op : 255},
        .blocks = {.src_counts = coll != tci_coll_base(coll) ? &counts : NULL},
        .count = coll == TCI_COLL_BARRIER ? 0 : count,
        .elem_bytes = coll == TCI_COLL_BARRIER ? 0 : tc_dtype_size(dtype),
    };
    if (tci_coll_choose(comm, &args, options, &error) != TC_OK) {
        tci_fail(error.pub.status, "algorithm", "%s", error.text);
        return NULL;
    }
    return args.plan->name;
}

/* ---- To measure anew ------------------------------------------------------------------------- */

struct tune {
    struct tci_task task; /* comes to the loop, then waits for a refinement to end */
    struct tci_comm *comm;
    tc_future *future;
};

static void have_tuned(void *arg, tc_status_t status, const struct tci_error *error)
{
    struct tune *tune = arg;
    tc_future *future = tune->future;

    tci_free(tune);
    tci_future_settle(future, status, error);
}

static void measure(struct tci_task *task)
{
    struct tune *tune = tci_container_of(task, struct tune, task);
    struct tci_comm *comm = tune->comm;

    tci_measure_start(comm, NULL, true, have_tuned, tune);
    tci_comm_release(comm);
}

/* A refinement that an earlier call has begun ends before, on every rank. */
static void begin(struct tci_task *task)
{
    struct tune *tune = tci_container_of(task, struct tune, task);

    task->fn = measure;
    tci_refine_when_quiet(tune->comm, task);
}

tc_future *tc_dist_tune_async(tc_dist_ctx *group)
{
    struct tci_comm *comm = tci_comm_of(group);
    struct tune *tune;
    tc_future *future;

    if (group == NULL)
        return tci_future_fail(NULL, TC_ERR_INVALID_ARG, "tune", "tune: the group is NULL");
    if (tci_context_is_foreign(comm->context))
        return tci_future_fail(comm->context, TC_ERR_NOT_INITIALIZED, "tune", "of another process");
    if (comm->is_ring)
        return tci_future_fail(comm->context, TC_ERR_UNSUPPORTED, "tune",
                               "tune: this group was given links between neighbours alone, and has "
                               "one plan for each call");
    if (comm->advise != NULL)
        return tci_future_fail(comm->context, TC_ERR_UNSUPPORTED, "tune",
                               "tune: a group whose messages all go through rank 0 has nothing to "
                               "choose");
    tune = tci_alloc(sizeof(*tune));
    future = tune != NULL ? tci_future_new(comm->context, NULL, NULL) : NULL;
    if (future == NULL) {
        tci_free(tune);
        return tci_future_fail(comm->context, TC_ERR_ALLOC, "tune", "tune: no memory left");
    }
    if (atomic_exchange(&comm->tuning.is_changing, true)) {
        struct tci_error busy = {0};

        tci_free(tune);
        tci_error_set(&busy, TC_ERR_BUSY, -1, 0, "tune",
                      "tune: the group is being tuned already: wait for that to end");
        tci_future_settle(future, TC_ERR_BUSY, &busy);
        return future;
    }
    *tune = (struct tune){.task = {.fn = begin}, .comm = comm, .future = future};
    /* Counted as an operation, so that the group outlives it. */
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    comm->exec->ops->post_remote(comm->exec, &tune->task);
    return future;
}

tc_status_t tc_dist_tune(tc_dist_ctx *group)
{
    struct tci_exec *exec = group == NULL ? NULL : tci_comm_of(group)->exec;
    tc_future *future;
    tc_status_t status;

    if (exec != NULL && exec->ops->is_here(exec))
        return refuse("tune: %s", "not from a continuation, which it would wait for: call "
                                  "tc_dist_tune_async and chain with tc_future_then");
    future = tc_dist_tune_async(group);
    status = tc_future_wait(future, -1);
    tc_future_release(future);
    return status;
}
