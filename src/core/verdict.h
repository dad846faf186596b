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
    uint32_t jurors;          /* inquiries that this rank listens for */
};

/* A link is gone; from a call of the transport. */
void tci_verdict_lost(struct tci_comm *comm, uint32_t peer, tc_reason_t reason, const char *how);
/* A notice of the kind LOST; from a call of the transport. */
void tci_verdict_told(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
/* The host of `of` says nothing to `by`, at a deadline. */
void tci_verdict_suspect(struct tci_comm *comm, int by, int of, const char *text);
/* Notices of the kinds ACCUSE, INQUIRE and TESTIFY. */
void tci_verdict_accused(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
void tci_verdict_inquired(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
void tci_verdict_testified(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);

/* Ask those that there are links with, or one rank, who hears the host of a rank; they answer after
 * so many milliseconds. */
void tci_verdict_inquire(struct tci_comm *comm, int whom, int of, uint32_t ms);
enum tci_hearing tci_verdict_hear(const struct tci_comm *comm, uint32_t peer, uint64_t since_ns);

/* The group is broken: nothing more is tried. */
void tci_verdict_end(struct tci_comm *comm);

#endif
