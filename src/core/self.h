/* self.h - a rank that sends to itself: the send and the receive meet without a transport. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SELF_H
#define TCI_SELF_H

#include "core/op.h"

/* Whether the peer of a send or receive is the caller. */
bool tci_self_is_meant(const struct tci_op *op);
/* What it waits for, and what to do: "its own recv, which …", into text. */
const char *tci_self_print(const struct tci_op *op, char *text, size_t text_bytes);
/* The operation runs: ends with its partner, or waits for it.  Loop. */
void tci_self_run(struct tci_op *op);
/* The operation has failed: so has its partner, now or when it comes.  Loop. */
void tci_self_end(struct tci_op *op);

#endif
