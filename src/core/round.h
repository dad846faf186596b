/* round.h - plans of one round: all messages at once, and perhaps a fold of what has come. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ROUND_H
#define TCI_ROUND_H

#include "core/plan.h"

enum { TCI_ROUND_MAX = 8 }; /* messages: everybody with everybody among five ranks */

/* Small payloads mostly go in one round, call after call.  In such a plan only the last step waits,
 * for all others; so there is no order to keep an account of, and its messages are asked for once.
 * A pure function of plan and shape, as the plan is. */
struct tci_round {
    const struct tci_plan *plan; /* NULL: nothing was asked for */
    struct tci_shape shape;
    uint32_t messages; /* 0: the plan has more than one round */
    /* Of two ranks with a fold at the end: the receive, which folds as its message comes once the
     * send is out, and needs no scratch then.  Else NULL. */
    const struct tci_step *folding;
    struct tci_step folded; /* it and the fold in one */
    struct tci_step steps[TCI_ROUND_MAX];
};

/* Makes *round that of a plan for a shape, if it is not yet; false: the plan has more than one. */
bool tci_round_find(struct tci_round *round, const struct tci_plan *plan,
                    const struct tci_shape *shape);

#endif
