/* sim_batch.h - many collectives at once on simulated ranks, each checked against a plain loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_BATCH_SIM_H
#define TEST_BATCH_SIM_H

#include "core/plan.h"
#include "sim/world_sim.h"
#include "support/coll_case.h"

enum { SIM_BATCH = 48 };

/* Cases of a batch run at once, each under its own tag, started in another order on each rank. */
struct sim_batch {
    struct sim_world *world;
    struct coll_run runs[SIM_BATCH];
    int count, room; /* those in it; it is full with `room`, 0: SIM_BATCH */
    uint64_t random, total;
    const char *where; /* for failures; NULL: nothing to add */
};

/* Tag and seed of the case are set here.  A batch that is full is run and checked. */
void sim_batch_add(struct sim_batch *batch, struct coll_case what);
/* Run and check what is in it. */
void sim_batch_flush(struct sim_batch *batch);

/* Until a case that was started has settled; the test fails unless that went well. */
void sim_batch_settle(struct sim_batch *batch, struct coll_run *run);

/* Count things in an order that chance gives. */
void sim_shuffle(int *order, int count, uint64_t *random);

/* The calls that take a plan: one, or two where there is a form with counts. */
int sim_kinds_of(const struct tci_plan *plan, enum coll_kind kinds_out[2]);

#endif
