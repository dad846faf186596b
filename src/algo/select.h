/* select.h - which plan carries a call out, and in what pieces. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SELECT_H
#define TCI_SELECT_H

#include "core/comm.h"

/* Fill in args->plan, args->call.plan, args->is_canonical, args->shape.radix and args->lane_elems
 * of a collective whose other fields are set.  Every rank chooses the same from the same call.
 * On failure the cause is in error. */
tc_status_t tci_select(struct tci_comm *comm, struct tci_op_args *args, enum tci_coll coll,
                       int numerics, const char *algorithm, struct tci_error *error);

/* The same once more, by other choices; false without memory.  Fast folds stay as they are, since
 * their bits follow the plan, and so do operations of several plans.  Loop thread. */
struct tci_choices;
bool tci_select_again(struct tci_choices *choices, struct tci_op_args *args);

#endif
