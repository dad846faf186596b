/* answers.h - what the others have said of an operation, and whom that makes suspect. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ANSWERS_H
#define TCI_ANSWERS_H

#include "core/mismatch.h"

/* Calls that are told apart; with more there is no majority worth the name. */
enum { OPINIONS_MAX = 8 };

enum knowledge { SILENT, NOT_ENTERED, ENTERED, FINISHED, FORGOTTEN };

/* What a rank has said. */
struct said {
    uint8_t what;  /* enum knowledge */
    int32_t waits; /* of one that has entered: for which rank; -1: for none, or for its futures */
    char text[80]; /* what it does */
};
struct tci_answers {
    int first_absent; /* lowest rank that has not entered; -1: none so far */
    char text[256];   /* what it said it did last */
    int asked, heard;
    int by, of;        /* the suspicion: `of` is waited for by `by`; -1: none */
    bool is_flowing;   /* data moves between `of` and somebody */
    int deaf;          /* a rank that does not hear it, though there is a link; -1: none */
    uint64_t since_ns; /* that was asked then */
    struct tci_opinion opinions[OPINIONS_MAX]; /* [0]: this rank's */
    int met;                                   /* the rank whose other call was met; -1: none */
    struct tci_call met_call;
    struct said said[]; /* by each rank */
};

/* The question that is asked of the others. */
struct tci_notice tci_diagnose_question(const struct tci_op *op);
/* The first rank that has said so (of a send or receive only the peer counts); -1: none. */
int tci_answers_first(const struct tci_op *op, enum knowledge what);

/* Halfway between the question and the deadline: a suspicion, and who hears the suspect.  They are
 * to answer after so many milliseconds. */
void tci_suspect(struct tci_op *op, uint64_t ms);
/* A host that is not heard is not the affair of this operation alone: the group will break.  Nor is
 * a rank that has not entered since another call of its own holds it.  True when that is so, and
 * the operation waits for it. */
bool tci_suspect_leaves_it(struct tci_op *op, bool is_blocked);

#endif
