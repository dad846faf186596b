/* trace_live.h - the operations in flight, and the peers that they wait for, in the trace. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TRACE_LIVE_H
#define TCI_TRACE_LIVE_H

#include "core/comm.h"

/* Loop thread, all of it.  An operation that has no entry is left alone. */

/* Its entry in the table, or NULL. */
static inline struct tci_trace_live *tci_live_of(const struct tci_op *op)
{
    return op->live == 0 ? NULL : &op->comm->trace->live[op->live - 1];
}

/* It has come to the loop; its names are set.  False: there is no room in the table. */
bool tci_live_take(struct tci_op *op, uint64_t entered_ns);
void tci_live_set_state(struct tci_op *op, enum tci_trace_live_state state);
/* It settles. */
void tci_live_release(struct tci_op *op);

/* A transfer was posted: gives its place in the list of those that are open; 0: there is none. */
uint8_t tci_live_open(struct tci_op *op, uint32_t peer, bool is_send);
/* It has ended. */
void tci_live_close(struct tci_op *op, uint8_t place, bool is_send);

/* Adds the transfers that are open and were never posted above; such places are found by what is
 * in them, since any of their like is as good. */
void tci_live_add_open(struct tci_op *op);
uint8_t tci_live_find_open(const struct tci_op *op, uint32_t peer, bool is_send);

#endif
