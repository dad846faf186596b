/* case.h - one operation that does not end, and what its judge gathers about it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_CASE_H
#define TCI_CASE_H

#include "core/comm.h"
#include "core/ruling.h"

/*
 *   opened --- answers come ---> looked --- hosts are listened to ---> ruled
 *    QUERY to all                 who is silent is asked again,         END to all, or the group
 *                                 others are asked for it               breaks
 *
 * The ruling comes at the first deadline of those who have asked, or as soon after it as all is
 * known.  Without anybody who asks any more it is dropped.
 */
struct tci_case {
    struct tci_list link; /* in comm->inquests.cases */
    struct tci_timer timer;
    struct tci_comm *comm;
    struct tci_key key;
    struct tci_call call;
    struct tci_evidence evidence;
    char name[32];
    uint64_t begin_ns, listen_ms;
    bool has_looked; /* for those who have not answered */
    bool is_listening;
    uint64_t heard_ns; /* when what is listened to now has been told */
};

/* A case of this rank's is opened, and all are asked.  It does not count as live: a rank that
 * judges leaves its group when its own work is done.  NULL: no memory, or too many. */
struct tci_case *tci_case_open(struct tci_comm *comm, int peer, const struct tci_notice *petition);
void tci_case_end(struct tci_case *it);
/* A rank is asked, as all were when the case was opened: it has entered since. */
void tci_case_query(const struct tci_case *it, int rank);
/* Whether a rank is to answer. */
bool tci_case_asks(const struct tci_case *it, int rank);
/* A rank has asked, or does so no more: the case may end by that. */
void tci_case_note_due(struct tci_case *it, int rank, const struct tci_notice *petition);
void tci_case_forget_due(struct tci_case *it, int rank);
/* A rank says that it does not hear the host of another one. */
void tci_case_note_dead(struct tci_case *it, int by, int of);

/* Listen, for a judge, to those that this rank waits for. */
void tci_case_listen(struct tci_comm *comm, int judge, uint32_t ms);

#endif
