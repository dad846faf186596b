/* answers.h - what the ranks have said of an operation. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ANSWERS_H
#define TCI_ANSWERS_H

#include "core/mismatch.h"

enum { WAITS_MAX = 4 }; /* ranks that a rank says it waits for */

enum knowledge { SILENT, NOT_ENTERED, ENTERED, FINISHED, FORGOTTEN };

/* What a rank has said. */
struct said {
    uint8_t what;    /* enum knowledge */
    bool is_counted; /* its call, among the opinions */
    bool is_late;    /* it had not entered when it was asked first */
    bool is_heard;   /* its host: by this rank, or as another one testifies */
    bool is_flowing;
    bool is_asked_about; /* of a send or receive: a third rank, whose host others listen to */
    bool was_mute; /* when it was asked once more it had not answered, nor did data come from it */
    /* For whom it waits: of one that has entered there, else in a call of its own; -1: for none.
     * waits[0] is TCI_WAITS_FOR_FUTURES where it has not begun. */
    int32_t waits[WAITS_MAX];
    uint64_t due_ns; /* its deadline, if it has asked why the operation does not end; else 0 */
    char text[104];  /* what it does, or has entered last */
    /* For whom it waited in a call of its own when it said so first, with its text; -1: none. */
    int32_t held_by;
    char held[104];
};

struct tci_answers {
    int size, opinion_count;
    /* Behind `said`, as many as there may be: it does not count who comes first. */
    struct tci_opinion *opinions;
    struct said said[]; /* by each rank */
};

/* NULL without memory; freed with tci_free. */
struct tci_answers *tci_answers_new(int size);
/* A notice of the kinds ANSWER or REPORT; the last one counts, but of a call the first. */
void tci_answers_note(struct tci_answers *answers, int rank, const struct tci_notice *answer);
/* Whether calls differ: what the most have called, and what the fewest have, whose lowest rank is
 * at fault.  Of as many ranks those with the lowest one count for more. */
bool tci_answers_differ(const struct tci_answers *answers, const struct tci_opinion **most_out,
                        const struct tci_opinion **least_out);

#endif
