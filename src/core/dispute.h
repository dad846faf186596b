/* dispute.h - calls of one tag that differ: rank 0 learns what all have called, and names one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_DISPUTE_H
#define TCI_DISPUTE_H

#include "core/list.h"
#include "core/transport.h"

/*
 *   rank                              rank 0
 *     | ----- ASK -------------------> |   by each that meets another call than its own: both calls
 *     | <---- ASK -------------------- |   to all ranks, which hold their operations
 *     | ----- ANSWER ----------------> |   what it has called; who has not entered is asked again
 *     | <---- END -------------------- |   when the call of the most is known, or those of all, or
 *                                          the time is up
 *
 * Only one rank says who is at fault, so all hear the same.  Of two ranks each has seen both calls,
 * and goes by the same rule.
 */

struct tci_comm;
struct tci_op;

/* At once; an operation of another one is ended by its own rank. */
enum { TCI_DISPUTES_MAX = 1024 };

struct tci_disputes {
    struct tci_list list; /* that rank 0 is about to settle */
    uint32_t count;       /* at most TCI_DISPUTES_MAX */
};
void tci_disputes_init(struct tci_disputes *disputes);
/* The group breaks, or goes. */
void tci_disputes_end(struct tci_comm *comm);

/* A peer has made another call than this operation, which is held. */
void tci_dispute_begin(struct tci_op *op, int peer, const struct tci_call *call);
/* Its timer rings: rank 0 has not said anything about it. */
void tci_dispute_expire(struct tci_op *op);
/* An operation has ended, whatever the cause. */
void tci_dispute_close(struct tci_comm *comm, const struct tci_key *key);

/* Notices of the kinds ASK and ANSWER. */
void tci_dispute_asked(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
void tci_dispute_answered(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);

#endif
