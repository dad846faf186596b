/* split.c - sub-groups: the ranks of a group agree who belongs together, and under which number. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   every rank gathers (color, key, count) of all; the rest needs no word more
 *
 *   rank   color  key  count    group of color 7: ranks 2, 0 by their keys, led by 2: number (2, 9)
 *   0      7      5    4        group of color 8: rank 1 alone: needs no number, nor links
 *   1      8      0    2        rank 3 took part, and gets none
 *   2      7      1    9
 *   3      -1     0    3
 *
 * A count is one that its rank has never given before; the first member's counts.  So numbers of
 * groups that have a rank in common differ, also when several splits go on at once.
 */
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/mux.h"
#include "group/group.h"
#include "group/subgroup.h"

/* What each rank tells: as elements of 32 bits. */
struct offer {
    int32_t color, key;
    uint32_t count;
};
enum { OFFER_ELEMS = 3 };

struct split {
    struct tci_task task;
    tc_dist_ctx *parent; /* counted there as an operation, so that it stays */
    uint64_t call;       /* its number among the parent's splits */
    struct offer mine;
    struct offer *offers; /* owned; a rank each */
    tc_dist_ctx **out;    /* borrowed until the future has settled */
    tc_future *future;
    tc_future *gathered; /* a reference, while it runs */
    struct tci_future_hook hook;
};

_Static_assert(sizeof(struct offer) == OFFER_ELEMS * sizeof(int32_t), "offers have no padding");

static const char name[] = "dist_split";

static struct tci_mux *mux_of(const struct split *split)
{
    struct tci_transport *transport = split->parent->comm.transport;

    return transport == NULL ? NULL : tci_mux_of(transport);
}

static void free_split(struct split *split)
{
    tci_free(split->offers);
    tci_free(split);
}

/* What was expected has come, or will not come. */
static void end_split(struct split *split, const struct tci_error *error)
{
    tc_dist_ctx *parent = split->parent;
    tc_future *future = split->future;

    if (mux_of(split) != NULL)
        tci_mux_expect_end(mux_of(split));
    tc_future_release(split->gathered);
    free_split(split);
    tci_future_settle(future, error->pub.status, error->pub.status == TC_OK ? NULL : error);
    tci_comm_release(&parent->comm);
}

/* ---- The new group -------------------------------------------------------------------------- */

/* A member, to be sorted. */
struct place {
    int32_t key;
    uint32_t rank; /* in the parent */
};

static int compare_places(const void *a, const void *b)
{
    const struct place *left = a, *right = b;

    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* Who has the color of this rank, in the order of the new group; NULL without memory. */
static struct place *choose(const struct split *split, uint32_t *size_out)
{
    uint32_t size = (uint32_t)split->parent->comm.size, count = 0;
    struct place *places = tci_alloc_array(size, sizeof(*places));

    if (places == NULL)
        return NULL;
    for (uint32_t r = 0; r < size; r++)
        if (split->offers[r].color == split->mine.color)
            places[count++] = (struct place){.key = split->offers[r].key, .rank = r};
    qsort(places, count, sizeof(*places), compare_places);
    *size_out = count;
    return places;
}

static bool make_own_group(struct split *split)
{
    struct tci_subgroup subgroup = {.parent = split->parent};
    uint32_t size, me = (uint32_t)split->parent->comm.rank;
    struct place *places = choose(split, &size);
    uint32_t *members = places == NULL ? NULL : tci_alloc_array(size, sizeof(*members));
    tc_dist_ctx *group = NULL;

    if (members != NULL) {
        for (uint32_t r = 0; r < size; r++) {
            members[r] = places[r].rank;
            if (places[r].rank == me)
                subgroup.rank = r;
        }
        subgroup.members = members;
        subgroup.size = size;
        if (size > 1)
            subgroup.number =
                tci_mux_number(tci_view_below(split->parent->comm.transport, members[0]),
                               split->offers[members[0]].count);
        group = tci_subgroup_make(&subgroup);
    }
    if (group != NULL)
        *split->out = group;
    tci_free(members);
    tci_free(places);
    return group != NULL;
}

static void have_gathered(tc_future *future, void *arg)
{
    struct split *split = arg;
    const tc_error *failed = tc_future_error(future);
    struct tci_error error = {0};

    if (failed != NULL)
        tci_error_blame(&error, failed->status, failed->rank, tc_error_reason(failed), name, "%s",
                        failed->message);
    else if (split->mine.color < 0)
        *split->out = NULL;
    else if (!make_own_group(split))
        tci_error_set(&error,
                      tci_subgroup_is_parent_closed(split->parent) ? TC_ERR_CLOSED : TC_ERR_ALLOC,
                      split->parent->comm.rank, 0, name, "%s: rank %d %s", name,
                      split->parent->comm.rank, tci_subgroup_why_not(split->parent));
    end_split(split, &error);
}

/* ---- The call ------------------------------------------------------------------------------- */

static void begin(struct tci_task *task)
{
    struct split *split = tci_container_of(task, struct split, task);
    struct tci_comm *comm = &split->parent->comm;
    struct tci_op_args args = {
        .name = name,
        .plan = &tci_bruck_allgather,
        .shape = {.rank = (uint32_t)comm->rank, .size = (uint32_t)comm->size},
        .call = {.count = OFFER_ELEMS,
                 .root = -1,
                 .coll = TCI_COLL_ALLGATHER,
                 .dtype = TC_DTYPE_I32,
                 .op = 255,
                 .plan = tci_bruck_allgather.id},
        .send = &split->mine,
        .recv = split->offers,
        .count = OFFER_ELEMS,
        .elem_bytes = sizeof(int32_t),
        .lane_elems = OFFER_ELEMS,
        .tag = split->call,
        .space = TCI_SPACE_INTERNAL,
        .peer = TCI_ALL_PEERS,
        .timeout_ms = comm->context->config.timeout_ms,
        .auto_release = true,
        .is_canonical = true,
    };

    if (comm->transport != NULL) {
        split->mine.count = tci_mux_count(mux_of(split));
        tci_mux_expect(mux_of(split));
    }
    split->gathered = tci_op_start(comm, &args);
    split->hook = (struct tci_future_hook){.fn = have_gathered, .arg = split};
    tci_future_hook(split->gathered, &split->hook);
}

static void cancel(void *arg)
{
    struct split *split = arg;

    if (split->gathered != NULL)
        tc_future_cancel(split->gathered);
}

static struct split *new_split(tc_dist_ctx *parent)
{
    struct split *split = tci_alloc(sizeof(*split));

    if (split == NULL)
        return NULL;
    split->parent = parent;
    split->offers = tci_alloc_array((size_t)parent->comm.size, sizeof(*split->offers));
    if (split->offers != NULL)
        split->future = tci_future_new(parent->comm.context, cancel, split);
    if (split->future == NULL) {
        free_split(split);
        return NULL;
    }
    return split;
}

tc_future *tci_split(tc_dist_ctx *parent, int color, int key, tc_dist_ctx **out)
{
    struct tci_comm *comm;
    struct split *split;
    tc_future *future;
    uint64_t call;

    if (parent == NULL || out == NULL)
        return tci_future_fail(parent == NULL ? NULL : parent->comm.context, TC_ERR_INVALID_ARG,
                               name, "%s: group and out may not be NULL", name);
    comm = &parent->comm;
    if (tci_context_is_foreign(comm->context))
        return tci_future_fail(comm->context, TC_ERR_NOT_INITIALIZED, name, "of another process");
    if (comm->is_ring)
        return tci_future_fail(comm->context, TC_ERR_UNSUPPORTED, name,
                               "%s: this group was given links between neighbours alone, which a "
                               "sub-group would not be",
                               name);
    /* A call that fails counts too: the others make it. */
    call = 1 + atomic_fetch_add_explicit(&parent->splits, 1, memory_order_relaxed);
    split = new_split(parent);
    if (split == NULL)
        return tci_future_fail(comm->context, TC_ERR_ALLOC, name, "%s: no memory left", name);
    split->task.fn = begin;
    split->mine = (struct offer){.color = color, .key = key};
    split->out = out;
    split->call = call;
    future = split->future; /* split may be gone once it is posted */
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    comm->exec->ops->post_remote(comm->exec, &split->task);
    return future;
}
