/* ruling.h - of all that is known of an operation that does not end: who keeps it waiting. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_RULING_H
#define TCI_RULING_H

#include "core/answers.h"

enum { DEAD_PATHS_MAX = 64 };

/* What a judge has gathered; of a send or receive the other ranks say nothing, and are no part of
 * it. */
struct tci_evidence {
    int size, judge;
    int peer;                      /* of a send or receive; else TCI_ALL_PEERS */
    unsigned long long timeout_ms; /* of the operation */
    const char *name;              /* of the operation */
    bool is_last;                  /* who has entered it does not enter anything any more */
    bool hears_others;             /* another has said something to the judge, or its host has */
    struct tci_answers *answers;   /* the judge's own among them */
    unsigned dead_count;           /* paths where one … */
    struct tci_path {
        int by, of; /* … does not hear the host of the other */
    } dead[DEAD_PATHS_MAX];
};

void tci_evidence_add_dead(struct tci_evidence *evidence, int by, int of);
void tci_evidence_drop_dead(struct tci_evidence *evidence, int by, int of);

struct tci_ruling {
    int culprit;
    tc_reason_t reason;
    bool is_loss; /* the group breaks */
    char text[256];
};

/* A pure function, so that equal evidence is judged alike by whoever judges.  In this order:
 *
 *   a host that nobody hears           MACHINE_SILENT; of several the lowest; the judge itself
 *                                      where it hears no other, unless there is only one other
 *   two hosts that do not hear each    LINK_DEAD: the end with the most dead paths, else the higher
 *   other, and others hear both
 *   who is waited for, step by step,   LOOP_STALLED, or SLOW while data still moves
 *   and does not answer
 *   who has finalized, while another   EXITED
 *   one still waits for it in a call
 *   … and has not entered              NOT_ENTERED, or waits for futures to start after, or has
 *                                      entered only since it was asked
 *   … whom all wait for                SLOW
 */
void tci_rule(const struct tci_evidence *evidence, struct tci_ruling *ruling_out);

/* Whether the answers alone say it, and no host has to be listened to. */
bool tci_ruling_is_clear(const struct tci_evidence *evidence);

#endif
