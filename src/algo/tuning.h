/* tuning.h - the choices of a group: who holds them, and when they change. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TUNING_H
#define TCI_TUNING_H

#include "algo/choice.h"

/* Choose for a call.  TC_OK; TC_ERR_BUSY while the group measures itself anew; TC_ERR_ALLOC.  The
 * plan is NULL where none is possible.  Any thread. */
tc_status_t tci_tuning_choose(struct tci_comm *comm, const struct tci_ask *ask,
                              tci_is_legal is_legal, struct tci_choice *choice_out);

#endif
