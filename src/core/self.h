/* self.h - a rank that sends to itself: the send and the receive meet without a transport. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SELF_H
#define TCI_SELF_H

#include "core/op.h"

/* Whether the peer of a send or receive is the caller. */
bool tci_self_is_meant(const struct tci_op *op);
/* The operation runs: ends with its partner, or waits for it.  Loop. */
void tci_self_run(struct tci_op *op);
/* The operation has failed: so has its partner, now or when it comes.  Loop. */
void tci_self_end(struct tci_op *op);

#endif
