/* mismatch.h - calls of one tag that differ: how a rank notices, and whom it tells. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_MISMATCH_H
#define TCI_MISMATCH_H

#include "core/comm.h"

/* Ranks that have made one and the same call. */
struct tci_opinion {
    struct tci_call call;
    int count; /* of ranks */
    int first; /* the lowest of them */
};

/* The transport asks whether to take a message of a peer: see sink->admit. */
bool tci_mismatch_admit(struct tci_comm *comm, uint32_t peer, const struct tci_key *key,
                        const struct tci_call *call);

/* A peer has made another call than this operation: what the others called is asked for, and then
 * it fails.  Not from a call of the transport. */
void tci_mismatch_found(struct tci_op *op, int peer, const struct tci_call *call);

/* An operation that runs has waited for a while: its call is shown to those it receives from. */
void tci_mismatch_show(struct tci_op *op);

/* A notice of the kind CALL has come. */
void tci_mismatch_noticed(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);

/* A notice of the kind END has come: true when this rank was done, with TC_OK, before.  If the
 * calls differed, the group remembers that. */
bool tci_mismatch_end(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);

/* "rank 0 calls …, rank 1 calls …: make the calls agree" into text. */
const char *tci_mismatch_print(const struct tci_comm *comm, const struct tci_opinion *most,
                               const struct tci_opinion *least, char *text, size_t text_bytes);

#endif
