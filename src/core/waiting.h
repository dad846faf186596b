/* waiting.h - for whom an operation waits, in numbers and in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_WAITING_H
#define TCI_WAITING_H

#include "core/op.h"

/* In an answer, instead of a rank: it has not begun, since futures that it starts after have not
 * settled. */
enum { TCI_WAITS_FOR_FUTURES = -2 };

/* A rank that a message is still to come from; where there is none, to go to; the peer of a send or
 * receive; -1: none. */
int tci_waits_for(const struct tci_op *op);

/* The ranks that messages of an operation are still to come from.  Each once, as many as there is
 * room for; gives how many. */
uint32_t tci_waiting_senders(const struct tci_op *op, uint32_t *ranks, uint32_t room);

/* The ranks that messages are still to come from, or to go to: of all operations that run, those of
 * the oldest first.  Each once, as many as there is room for; gives how many. */
uint32_t tci_waiting_peers(const struct tci_comm *comm, uint32_t *ranks, uint32_t room);

/* Up to three ranks (-1: none) as one number of a notice, and back. */
uint64_t tci_waits_pack(const int32_t ranks[3]);
void tci_waits_unpack(uint64_t packed, int32_t ranks_out[3]);

/* What this rank knows of the operation that a peer asks about, as a notice of a kind. */
void tci_waiting_answer(struct tci_comm *comm, uint32_t from, const struct tci_notice *asked,
                        enum tci_notice_kind kind, struct tci_notice *answer_out);

/* One line of the log; at most one a second, however many operations wait. */
void tci_waiting_warn(struct tci_op *op);

#endif
