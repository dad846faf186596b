/* calls_v.c - the public collectives whose blocks have a count each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "algo/coll.h"
#include "core/alloc.h"
#include "core/base.h"

/* The lists of a call, completed: the caller's, and what stands in for a NULL. */
struct lists {
    size_t n;
    size_t largest; /* count */
    uint64_t total;
    size_t *made; /* owned: offsets one after the other, where the caller gave none */
};

/* Where blocks begin that follow on one another; the sum of what memory cannot hold may wrap, and
 * is refused by its counts. */
static void follow_on(const size_t *counts, size_t n, size_t *offsets)
{
    size_t at = 0;

    for (size_t r = 0; r < n; r++) {
        offsets[r] = at;
        at = counts[r] > SIZE_MAX - at ? SIZE_MAX : at + counts[r];
    }
}

static void measure(struct lists *lists, const size_t *counts)
{
    for (size_t r = 0; r < lists->n; r++) {
        lists->largest = tci_max(lists->largest, counts[r]);
        lists->total += counts[r];
    }
}

/* Room for `lists` lists of offsets; false without memory. */
static bool make_room(struct lists *lists, size_t count)
{
    lists->made = tci_alloc_array(lists->n * count, sizeof(size_t));
    return lists->made != NULL;
}

static tc_future *refuse_memory(tc_dist_ctx *group, const char *name)
{
    struct tci_error error = {0};

    tci_error_set(&error, TC_ERR_ALLOC, -1, 0, name, "%s: no memory left", name);
    return tci_refuse(tci_comm_of(group), &error);
}

/* What all three refuse: a group or a list that is not there. */
static tc_future *refuse_lists(const tc_dist_ctx *group, const char *name, const size_t *counts,
                               const char *which)
{
    if (group == NULL)
        return tci_refuse_arg(NULL, name, "the group is NULL");
    if (counts == NULL)
        return tci_refuse_arg(group, name, "%s is NULL", which);
    return NULL;
}

tc_future *tc_allgatherv_async(tc_dist_ctx *group, uint64_t tag, const void *send, size_t count,
                               void *recv, const size_t *counts, const size_t *offsets,
                               tc_dtype_t dtype, const tc_options *options)
{
    static const char *const name = "allgatherv";
    tc_future *refused = refuse_lists(group, name, counts, "counts");
    struct lists lists = {0};
    size_t rank;

    if (refused != NULL)
        return refused;
    lists.n = (size_t)tc_dist_world_size(group);
    rank = (size_t)tc_dist_rank(group);
    if (count != counts[rank])
        return tci_refuse_arg(group, name, "count is %zu, but counts[%zu], of this rank, is %zu",
                              count, rank, counts[rank]);
    measure(&lists, counts);
    if (!make_room(&lists, 1))
        return refuse_memory(group, name);
    follow_on(counts, lists.n, lists.made);
    if (offsets == NULL)
        offsets = lists.made;

    uintptr_t own = (uintptr_t)recv + offsets[rank] * tc_dtype_size(dtype);
    tc_future *future =
        tci_coll_start(group, &(struct tci_request){.name = name,
                                                    .coll = TCI_COLL_ALLGATHERV,
                                                    .tag = tag,
                                                    .send = send,
                                                    .recv = recv,
                                                    .count = lists.largest,
                                                    .is_typed = true,
                                                    .dtype = dtype,
                                                    .op = -1,
                                                    .root = -1,
                                                    .in_place = (uintptr_t)send == own,
                                                    .lacks_send = count == 0,
                                                    .blocks = {counts, offsets, counts, offsets},
                                                    .total = lists.total,
                                                    .options = options});

    tci_free(lists.made);
    return future;
}

tc_future *tc_reduce_scatterv_async(tc_dist_ctx *group, uint64_t tag, const void *send, void *recv,
                                    const size_t *counts, tc_dtype_t dtype, tc_reduce_op_t op,
                                    const tc_options *options)
{
    static const char *const name = "reduce_scatterv";
    tc_future *refused = refuse_lists(group, name, counts, "counts"), *future;
    struct lists lists = {0};

    if (refused != NULL)
        return refused;
    lists.n = (size_t)tc_dist_world_size(group);
    measure(&lists, counts);
    if (!make_room(&lists, 1))
        return refuse_memory(group, name);
    follow_on(counts, lists.n, lists.made);
    future = tci_coll_start(
        group, &(struct tci_request){.name = name,
                                     .coll = TCI_COLL_REDUCE_SCATTERV,
                                     .tag = tag,
                                     .send = send,
                                     .recv = recv,
                                     .count = lists.largest,
                                     .is_typed = true,
                                     .dtype = dtype,
                                     .op = (int)op < 0 ? 1000 : (int)op,
                                     .root = -1,
                                     .lacks_recv = counts[tc_dist_rank(group)] == 0,
                                     .blocks = {counts, lists.made, counts, lists.made},
                                     .total = lists.total,
                                     .options = options});
    tci_free(lists.made);
    return future;
}

tc_future *tc_alltoallv_async(tc_dist_ctx *group, uint64_t tag, const void *send,
                              const size_t *send_counts, const size_t *send_offsets, void *recv,
                              const size_t *recv_counts, const size_t *recv_offsets,
                              tc_dtype_t dtype, const tc_options *options)
{
    static const char *const name = "alltoallv";
    tc_future *refused = refuse_lists(group, name, send_counts, "send_counts"), *future;
    struct lists sent = {0}, received = {0};

    if (refused == NULL)
        refused = refuse_lists(group, name, recv_counts, "recv_counts");
    if (refused != NULL)
        return refused;
    sent.n = received.n = (size_t)tc_dist_world_size(group);
    measure(&sent, send_counts);
    measure(&received, recv_counts);
    if (send == recv && send != NULL)
        return tci_refuse_arg(group, name,
                              "send and recv are the same memory: blocks of "
                              "different lengths cannot change places in it");
    if (!make_room(&sent, 2))
        return refuse_memory(group, name);
    follow_on(send_counts, sent.n, sent.made);
    follow_on(recv_counts, sent.n, sent.made + sent.n);
    future = tci_coll_start(
        group,
        &(struct tci_request){
            .name = name,
            .coll = TCI_COLL_ALLTOALLV,
            .tag = tag,
            .send = send,
            .recv = recv,
            .count = tci_max(sent.largest, received.largest),
            .is_typed = true,
            .dtype = dtype,
            .op = -1,
            .root = -1,
            .lacks_send = sent.total == 0,
            .lacks_recv = received.total == 0,
            .blocks = {send_counts, send_offsets != NULL ? send_offsets : sent.made, recv_counts,
                       recv_offsets != NULL ? recv_offsets : sent.made + sent.n},
            .options = options});
    tci_free(sent.made);
    return future;
}
