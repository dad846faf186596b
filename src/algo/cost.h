/* cost.h - what a plan costs: its steps, walked by all ranks in the LogGP model. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_COST_H
#define TCI_COST_H

#include <stddef.h>

#include "core/dtype.h"
#include "core/figures.h"
#include "core/plan.h"

/*
 *   sender       o   | len * G          o: work of the processor a message
 *   wire               L       |        G: time of the adapter a byte, one way each
 *   receiver                   | len * G | o | len * gamma where it folds
 *
 * A message of more than eager_bytes leaves when word has come that it is expected.  Source: Culler
 * and others 1993 (LogP), Alexandrov and others 1995 (LogGP).
 */

/* Payloads of a lane that are walked together. */
enum { TCI_COST_SIZES = 8 };

/* Groups are walked whole to TCI_COST_RANKS_MIN ranks, and to TCI_COST_RANKS_MAX while all steps
 * together are at most TCI_COST_STEPS_MAX.  Of larger ones a half, a quarter, … is walked until
 * that fits, and the cost of each doubling is taken to relate to the one before as that did to its
 * own: doubled for what grows with the ranks, equal for their logarithm, halved for (n - 1) / n. */
enum { TCI_COST_RANKS_MIN = 16, TCI_COST_RANKS_MAX = 256, TCI_COST_STEPS_MAX = 4100 };

/* What a walk of one lane shows, for each of the sizes.  Picoseconds. */
struct tci_cost {
    uint64_t bytes[TCI_COST_SIZES]; /* of the lane's payload; ascending from 0 */
    int64_t end[TCI_COST_SIZES];    /* when the last rank is done */
    int64_t stay[TCI_COST_SIZES];   /* from a rank's first message to its last step, at most */
    int64_t busy[TCI_COST_SIZES];   /* of the busiest processor or adapter */
    int64_t work[TCI_COST_SIZES];   /* of the processors, a rank on average */
};

/* Walk a plan.  lane_bytes: the largest payload of a lane.  shape: rank is of no account.  False
 * without memory.  Any thread. */
bool tci_cost_walk(const struct tci_plan *plan, const struct tci_shape *shape,
                   const struct tci_figures *figures, enum tci_fold_class fold, uint64_t lane_bytes,
                   struct tci_cost *cost_out);

/* The time of `bytes` of payload in lanes of at most `lane_bytes`, which are at most those of the
 * walk.  Picoseconds. */
int64_t tci_cost_time(const struct tci_cost *cost, const struct tci_figures *figures,
                      uint64_t bytes, uint64_t lane_bytes);

#endif
