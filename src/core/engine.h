/* engine.h - the one state machine of all collectives: lanes and windows over a plan. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ENGINE_H
#define TCI_ENGINE_H

#include "core/op.h"

/* Open the first lanes of an operation whose tag, key and plan are set.  Loop thread. */
void tci_engine_start(struct tci_op *op);
/* The memory of its lanes goes back. */
void tci_engine_end(struct tci_op *op);
/* Of a group's completion queue: scratch for a receive. */
bool tci_engine_place(struct tci_xfer *xfer);
/* Task of a group's completion queue: advance whatever the completions allow. */
void tci_engine_turn(struct tci_comm *comm);

#endif
