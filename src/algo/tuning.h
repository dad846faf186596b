/* tuning.h - the choices of a group: who holds them, and when they change. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TUNING_H
#define TCI_TUNING_H

#include "algo/choice.h"

/* Choose for a call.  TC_OK; TC_ERR_BUSY while the group measures itself anew; TC_ERR_ALLOC.  The
 * plan is NULL where none is possible.  Any thread. */
tc_status_t tci_tuning_choose(struct tci_comm *comm, const struct tci_ask *ask,
                              tci_is_legal is_legal, struct tci_choice *choice_out);

/* The figures of the choices that count now; NULL without memory.  Loop thread. */
const struct tci_figures *tci_tuning_figures(struct tci_comm *comm);

/* The figures of the choices for fast folds; NULL: the same as for all.  Loop thread. */
const struct tci_figures *tci_tuning_steady(struct tci_comm *comm);

/* Let these choices count; a reference is taken over.  Fast folds keep the choices that the group
 * began with where nobody has asked for the change.  tuning.is_changing is set, so that nobody
 * begins to look at the old ones.  Loop thread. */
void tci_tuning_change(struct tci_comm *comm, struct tci_choices *choices, bool is_asked_for);

#endif
