/* gloo_vote.c - all ranks take the ring, or none: each tries its neighbour, then they vote. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   rank r, 0 < r < n - 1            its neighbour r + 1
 *      | ------- connect, HELLO --------> |    within TC_GLOO_RING_CONNECT_TIMEOUT_MS, from both
 *      | <------ connect, HELLO --------- |    sides: it is enough that one reaches the other
 *
 *   all ranks: the least of all votes, by way of rank 0, over the connections of the rendezvous
 *
 * The edges of the ring at rank 0 are connections of the rendezvous.  Nobody goes on before the
 * result of the vote is there, and the result is one number for all, so that no rank can take a
 * route that another does not.
 */
#include <stdio.h>

#include "algo/algo.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/log.h"
#include "group/gloo.h"
#include "net/tcp.h"

/* The worst counts.  Rank 0 reaches everyone, so BLOCKED leaves the way through it. */
enum vote { VOTE_BLOCKED, VOTE_NOT_WANTED, VOTE_STANDS };

/* A tag of the internal collectives. */
#define VOTE_TAG UINT64_MAX

struct ballot {
    tc_dist_ctx *group; /* borrowed; until the vote is cast */
    int rank;
    tc_future *future;
    struct tci_future_hook hook;
    unsigned trying; /* neighbours, and one while they are begun with */
    uint8_t value;   /* this rank's vote, then the common one */
    bool wants_ring, traces;
    tci_gloo_fn done;
    void *arg;
};

static void end_ballot(struct ballot *ballot, enum tci_route route, const struct tci_error *error)
{
    tci_gloo_fn done = ballot->done;
    void *arg = ballot->arg;

    tci_free(ballot);
    done(arg, route, error);
}

static enum tci_route route_of(const struct ballot *ballot)
{
    static const enum tci_route routes[] = {[VOTE_BLOCKED] = TCI_ROUTE_STAR,
                                            [VOTE_NOT_WANTED] = TCI_ROUTE_BROKER,
                                            [VOTE_STANDS] = TCI_ROUTE_RING};
    static const char *const texts[] = {
        [VOTE_BLOCKED] = "fallback", [VOTE_NOT_WANTED] = "disabled", [VOTE_STANDS] = "enabled"};

    TC_ASSERT(ballot->value < TCI_LEN(routes));
    if (ballot->value == VOTE_BLOCKED && ballot->rank == 0)
        tci_log(TC_LOG_WARN,
                "neighbours of the ring cannot reach each other: all ranks go through rank 0");
    if (ballot->wants_ring && ballot->traces)
        fprintf(stderr, "[tcdist:gloo rank %d] direct_ring=%s\n", ballot->rank,
                texts[ballot->value]);
    return routes[ballot->value];
}

/* The group may be gone by now. */
static void have_voted(tc_future *future, void *arg)
{
    struct ballot *ballot = arg;
    const tc_error *failure = tc_future_error(future);
    enum tci_route route = TCI_ROUTE_NONE;
    struct tci_error error = {0};

    if (failure != NULL)
        tci_error_blame(&error, failure->status, failure->rank, tc_error_reason(failure),
                        "dist_init", "%s", failure->message);
    else
        route = route_of(ballot);
    tc_future_release(future);
    end_ballot(ballot, route, &error);
}

/* A tree of one level. */
void tci_gloo_star(struct tci_comm *comm, const char *name, uint8_t *byte, struct tci_op_args *args)
{
    *args = (struct tci_op_args){
        .name = name,
        .plan = &tci_tree_allreduce,
        .shape = {.rank = (uint32_t)comm->rank,
                  .size = (uint32_t)comm->size,
                  .radix = (uint32_t)comm->size,
                  .in_place = true},
        .call = {.count = 1,
                 .root = -1,
                 .coll = TCI_COLL_ALLREDUCE,
                 .dtype = TC_DTYPE_U8,
                 .op = TC_REDUCE_MIN,
                 .plan = tci_tree_allreduce.id | TCI_CALL_FAST},
        .send = byte,
        .recv = byte,
        .count = 1,
        .elem_bytes = 1,
        .lane_elems = 1,
        .space = TCI_SPACE_INTERNAL,
        .peer = TCI_ALL_PEERS,
        .timeout_ms = comm->context->config.timeout_ms,
        .auto_release = true,
        .plan_name = tci_plan_name,
    };
    tci_fold_init(&args->fold, TC_DTYPE_U8, TC_REDUCE_MIN);
}

static void vote(struct ballot *ballot)
{
    struct tci_op_args args;

    tci_gloo_star(&ballot->group->comm, "dist_init", &ballot->value, &args);
    args.tag = VOTE_TAG;
    ballot->future = tci_op_start(&ballot->group->comm, &args);
    ballot->hook = (struct tci_future_hook){.fn = have_voted, .arg = ballot};
    tci_future_hook(ballot->future, &ballot->hook);
}

/* One neighbour was reached, or was not; the last one ends the search. */
static void have_tried(void *arg, bool stands)
{
    struct ballot *ballot = arg;
    struct tci_error broken;

    if (!stands)
        ballot->value = VOTE_BLOCKED;
    if (--ballot->trying > 0)
        return;
    tci_comm_error(&ballot->group->comm, &broken);
    if (broken.pub.status != TC_OK)
        end_ballot(ballot, TCI_ROUTE_NONE, &broken);
    else
        vote(ballot);
}

static void try_neighbours(struct ballot *ballot, struct tci_transport *tcp, int connect_ms)
{
    struct tci_comm *comm = &ballot->group->comm;
    uint64_t deadline_ns =
        comm->exec->ops->now_ns(comm->exec) + (uint64_t)connect_ms * TCI_NS_PER_MS;

    ballot->trying = 1;
    for (int peer = comm->rank - 1; peer <= comm->rank + 1; peer += 2)
        if (comm->rank > 0 && peer > 0 && peer < comm->size) {
            ballot->trying++;
            tci_tcp_probe(tcp, (uint32_t)peer, deadline_ns, have_tried, ballot);
        }
    have_tried(ballot, true); /* the one that began with */
}

tc_status_t tci_gloo_agree(tc_dist_ctx *group, struct tci_transport *tcp,
                           const struct tci_gloo *gloo, tci_gloo_fn done, void *arg)
{
    struct tci_comm *comm = &group->comm;
    struct ballot *ballot = tci_alloc(sizeof(*ballot));

    if (ballot == NULL)
        return TC_ERR_ALLOC;
    comm->advise = tci_gloo_advise;
    comm->on_start = gloo->traces ? tci_gloo_trace : NULL;
    *ballot = (struct ballot){.group = group,
                              .rank = comm->rank,
                              .value = VOTE_NOT_WANTED,
                              .wants_ring = gloo->wants_ring,
                              .traces = gloo->traces,
                              .done = done,
                              .arg = arg};
    if (comm->size < 3) {
        end_ballot(ballot, route_of(ballot), NULL);
    } else if (!gloo->wants_ring) {
        vote(ballot);
    } else {
        ballot->value = VOTE_STANDS;
        try_neighbours(ballot, tcp, gloo->connect_ms);
    }
    return TC_OK;
}
