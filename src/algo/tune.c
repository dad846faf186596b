/* tune.c - the public calls around the choice of algorithms. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tcdist/tune.h"

#include <string.h>

#include "algo/algo.h"
#include "algo/coll.h"

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
    coll = find(collective);
    if (check(comm, collective, coll, dtype, op, options) != TC_OK)
        return NULL;
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
