/* algo.h - the table of plans: every algorithm for every collective. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ALGO_H
#define TCI_ALGO_H

#include "core/plan.h"

/* On the wire, so that two ranks which chose differently notice: never reused, only added to. */
enum tci_algo_id {
    TCI_ALGO_ONESHOT = 1,
    TCI_ALGO_DIRECT = 2,
    TCI_ALGO_RING = 3,
    TCI_ALGO_TREE = 4,
    TCI_ALGO_DISSEMINATION = 5,
    TCI_ALGO_SEND = 6,
    TCI_ALGO_RECV = 7,
    TCI_ALGO_RECURSIVE_DOUBLING = 8,
    TCI_ALGO_HALVING_DOUBLING = 9,
    TCI_ALGO_DOUBLE_TREE = 10,
    TCI_ALGO_CHAIN = 11,
    TCI_ALGO_WIDE_CHAIN = 12,
    TCI_ALGO_BIRING = 13,
    TCI_ALGO_BRUCK = 14,
    TCI_ALGO_PAIRWISE = 15,
    TCI_ALGO_CENTRALIZED = 16,
    TCI_ALGO_TWO_LEVEL = 17
};

/* All plans, NULL after the last.  Any thread. */
extern const struct tci_plan *const tci_plans[];

/* The plan of that name or id for a collective, NULL where there is none.  Any thread. */
const struct tci_plan *tci_plan_find(enum tci_coll coll, const char *name);
const struct tci_plan *tci_plan_by_id(enum tci_coll coll, uint8_t id);
/* Its name: "ring"; NULL where there is none of that id.  Any thread. */
const char *tci_plan_name(enum tci_coll coll, uint8_t id);

/* The rows, each in the file of its algorithm. */
extern const struct tci_plan tci_oneshot_allreduce, tci_oneshot_broadcast;
extern const struct tci_plan tci_direct_allreduce, tci_direct_broadcast;
extern const struct tci_plan tci_direct_allgather, tci_direct_reduce_scatter;
extern const struct tci_plan tci_ring_allreduce, tci_ring_allgather, tci_ring_reduce_scatter;
extern const struct tci_plan tci_tree_allreduce, tci_tree_broadcast;
extern const struct tci_plan tci_recursive_doubling_allreduce, tci_halving_doubling_allreduce;
extern const struct tci_plan tci_double_tree_allreduce, tci_double_tree_broadcast;
extern const struct tci_plan tci_chain_allreduce, tci_chain_broadcast;
extern const struct tci_plan tci_biring_allreduce, tci_biring_allgather;
extern const struct tci_plan tci_biring_reduce_scatter;
extern const struct tci_plan tci_oneshot_reduce, tci_direct_reduce;
extern const struct tci_plan tci_direct_gather, tci_direct_scatter;
extern const struct tci_plan tci_tree_reduce, tci_tree_gather, tci_tree_scatter;
extern const struct tci_plan tci_direct_alltoall;
extern const struct tci_plan tci_centralized_allreduce;
extern const struct tci_plan tci_two_level_allreduce, tci_two_level_broadcast;
extern const struct tci_plan tci_two_level_barrier, tci_two_level_reduce;
extern const struct tci_plan tci_bruck_allgather, tci_bruck_alltoall;
extern const struct tci_plan tci_pairwise_alltoall, tci_pairwise_reduce_scatter;
extern const struct tci_plan tci_dissemination_allgather;
extern const struct tci_plan tci_wide_chain_allreduce, tci_wide_chain_reduce;
extern const struct tci_plan tci_dissemination_barrier, tci_ring_barrier;
extern const struct tci_plan tci_p2p_send, tci_p2p_recv;
/* What goes beside them where calls are checked in full; no algorithms of their own. */
extern const struct tci_plan tci_p2p_answered, tci_p2p_answer;

#endif
