/* inquest.h - why an operation does not end: one rank finds out, and says it for all. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_INQUEST_H
#define TCI_INQUEST_H

#include "core/list.h"
#include "core/transport.h"

/*
 *   rank                                judge: the lowest rank that takes it up
 *     | ----- PETITION ----------------> |   shortly before a deadline, by each whose it is
 *     | <---- QUERY -------------------- |   to all ranks: this also tells who judges
 *     | ----- REPORT ------------------> |   entered or not, and for whom it waits
 *     |       says something to those, and listens
 *     | ----- TESTIFY -----------------> |   whether their hosts are heard
 *     |                                  |   who has not answered is asked again; others, whether
 *     |                                  |   they hear it
 *     | <---- END, or LOST ------------- |   the ruling (ruling.h), at the first deadline
 *
 * A judge that does not take it up is passed over, twice; then a rank judges itself.  Of two that
 * judge, the higher one leaves it to the lower as soon as it hears of it.  A send or receive is
 * judged by the lower of the two ranks, else by the other.
 */

struct tci_comm;
struct tci_op;

enum { TCI_INQUESTS_KNOWN = 16 };

struct tci_inquests {
    struct tci_list cases; /* that this rank judges */
    uint32_t count;
    struct tci_known_case { /* the last that others judge */
        struct tci_key key; /* use 0: none */
        int judge;
    } known[TCI_INQUESTS_KNOWN];
    uint32_t known_next;
};
void tci_inquests_init(struct tci_inquests *inquests);
/* The group breaks, or goes: nothing is judged any more. */
void tci_inquests_end(struct tci_comm *comm);

/* A rank is asked to judge an operation of this one, which may be this one itself.  False: this is
 * the one, and there is no memory for it. */
bool tci_inquest_ask(struct tci_op *op, int judge);
/* The operation has ended, well or not. */
void tci_inquest_withdraw(struct tci_op *op);
/* What others have said of a key ends what this rank is about to find out. */
void tci_inquest_close(struct tci_comm *comm, uint32_t from, const struct tci_key *key);

/* Notices of the kinds PETITION, QUERY, REPORT and TESTIFY. */
void tci_inquest_petitioned(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
void tci_inquest_queried(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
void tci_inquest_reported(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
void tci_inquest_testified(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);

#endif
