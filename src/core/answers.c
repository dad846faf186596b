/* answers.c - what the ranks have said of an operation is kept and counted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/answers.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/waiting.h"

struct tci_answers *tci_answers_new(int size)
{
    struct tci_answers *answers = tci_alloc(
        sizeof(*answers) + (size_t)size * (sizeof(struct said) + sizeof(struct tci_opinion)));

    if (answers == NULL)
        return NULL;
    answers->size = size;
    answers->opinions = (struct tci_opinion *)(void *)&answers->said[size];
    for (int r = 0; r < size; r++) {
        answers->said[r].held_by = -1;
        for (int w = 0; w < WAITS_MAX; w++)
            answers->said[r].waits[w] = -1;
    }
    return answers;
}

/* A rank has made this call. */
static void count(struct tci_answers *answers, int rank, const struct tci_call *call)
{
    if (answers->said[rank].is_counted)
        return;
    answers->said[rank].is_counted = true;
    for (int o = 0; o < answers->opinion_count; o++) {
        struct tci_opinion *opinion = &answers->opinions[o];

        if (!tci_call_is_equal(&opinion->call, call))
            continue;
        opinion->first = rank < opinion->first ? rank : opinion->first;
        opinion->count++;
        return;
    }
    answers->opinions[answers->opinion_count++] = (struct tci_opinion){*call, 1, rank};
}

/* Its first wait is the number of the answer, the others lie in its argument: tci_waits_pack. */
static void note_waits(struct tci_answers *answers, struct said *said,
                       const struct tci_notice *answer)
{
    int32_t more[WAITS_MAX - 1];

    said->waits[0] = answer->number < answers->size ? answer->number : -1;
    if (answer->kind != TCI_NOTICE_REPORT)
        return;
    tci_waits_unpack(answer->arg, more);
    for (int w = 1; w < WAITS_MAX; w++)
        said->waits[w] = more[w - 1] < answers->size ? more[w - 1] : -1;
}

/* A rank that has not entered, and was held up when it was asked first, is late by that, even if
 * what it was held up by has failed meanwhile. */
static bool was_held_up(const struct said *said, const struct tci_notice *answer)
{
    return said->what == NOT_ENTERED && said->waits[0] >= 0 &&
           answer->status == TC_ERR_NOT_INITIALIZED && answer->number < 0;
}

void tci_answers_note(struct tci_answers *answers, int rank, const struct tci_notice *answer)
{
    struct said *said = &answers->said[rank];

    if (was_held_up(said, answer))
        return;

    said->is_late = said->what == NOT_ENTERED || said->is_late;
    said->what = answer->status == TC_ERR_NOT_INITIALIZED ? NOT_ENTERED
                 : answer->status == TC_PENDING           ? ENTERED
                 : answer->status == TC_OK                ? FINISHED
                                                          : FORGOTTEN;
    note_waits(answers, said, answer);
    snprintf(said->text, sizeof(said->text), "%.103s", answer->text);
    if (said->what == NOT_ENTERED && said->waits[0] >= 0 && said->held_by < 0) {
        said->held_by = said->waits[0];
        memcpy(said->held, said->text, sizeof(said->held));
    }
    if (said->what == ENTERED || said->what == FINISHED)
        count(answers, rank, &answer->call);
}

/* Whether one counts for more than another; whatever the order in which they came. */
static bool is_more(const struct tci_opinion *one, const struct tci_opinion *other)
{
    return one->count != other->count ? one->count > other->count : one->first < other->first;
}

bool tci_answers_differ(const struct tci_answers *answers, const struct tci_opinion **most_out,
                        const struct tci_opinion **least_out)
{
    const struct tci_opinion *most = &answers->opinions[0], *least = most;

    for (int o = 1; o < answers->opinion_count; o++) {
        const struct tci_opinion *opinion = &answers->opinions[o];

        if (is_more(opinion, most))
            most = opinion;
        if (!is_more(opinion, least))
            least = opinion;
    }
    *most_out = most;
    *least_out = least;
    return least != most;
}
