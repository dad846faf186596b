/* cost_walk.h - all ranks of a group walk a plan together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_COST_WALK_H
#define TCI_COST_WALK_H

#include "algo/cost.h"

/* Fills end, stay, busy and work of a cost whose bytes are set.  Each rank takes its
 * steps, so the shape should be small.  False without memory. */
bool tci_cost_walk_all(const struct tci_plan *plan, const struct tci_shape *shape,
                       const struct tci_figures *figures, enum tci_fold_class fold,
                       struct tci_cost *cost);

#endif
