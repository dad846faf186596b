/* verdict.h - who ended the group: charges go to one rank, which hears the others and judges. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_VERDICT_H
#define TCI_VERDICT_H

#include "core/exec.h"
#include "core/transport.h"

/*
 *   a link ends, a rank says that it ends, a deadline finds a silent host
 *        |
 *     charge ---- ACCUSE ---> the lowest rank that is not lost: the arbiter
 *                                | INQUIRE to all: who hears the host of the accused?
 *                                | TESTIFY from those who do
 *                             judges, breaks its group, tells LOST to all that it is linked with
 *        <------- LOST --------- and so does each that is told
 *     the group breaks
 *
 * An arbiter that says nothing is passed over, twice; then a rank judges alone.  So all that live
 * and reach each other name one rank for one reason, and nothing waits for long.
 */

struct tci_comm;
struct tci_trial; /* verdict.c */

enum tci_verdict_step {
    TCI_VERDICT_NONE,
    TCI_VERDICT_CHARGED, /* a charge is known; the task is on its way */
    TCI_VERDICT_ASKED,   /* the arbiter was told */
    TCI_VERDICT_TRIED,   /* this rank is the arbiter, and listens */
    TCI_VERDICT_GIVEN
};

struct tci_verdict {
    struct tci_task task;
    struct tci_timer timer;
    uint8_t step;
    bool is_posted;           /* task */
    bool is_told;             /* notice is a verdict */
    struct tci_notice notice; /* the first charge, or the verdict */
    struct tci_trial *trial;  /* owned; NULL: none yet, or no memory: the first charge counts */
};

/* A link is gone; from a call of the transport. */
void tci_verdict_lost(struct tci_comm *comm, uint32_t peer, tc_reason_t reason, const char *how);
/* A notice of the kind LOST; from a call of the transport. */
void tci_verdict_told(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
/* A notice of the kind ACCUSE. */
void tci_verdict_accused(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
/* Who asks a rank whose group has broken by a loss is told so. */
void tci_verdict_answer(struct tci_comm *comm, uint32_t peer);
/* Somebody has said whether a host is heard: see hearing.h. */
void tci_verdict_testified(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);

/* The group is broken: nothing more is tried. */
void tci_verdict_end(struct tci_comm *comm);

#endif
