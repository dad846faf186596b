/* meet.h - places where rank 0 leaves word, for ranks that know no address of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_MEET_H
#define TCI_MEET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "loop/loop.h"
#include "meet/card.h"

/* An all-gather of the caller's own: recv has room for `bytes` of each rank, in the order of ranks;
 * 0: done.  Called once, by the thread that is lent for a meeting. */
struct tci_side {
    int (*fn)(void *arg, const void *send, void *recv, size_t bytes);
    void *arg;
};

/* Whether the scheme of an URL names such a place; and whether it is a whole one, and this build
 * has what it takes: TC_OK, or the cause in error.  Any thread. */
bool tci_meet_is_meant(const char *url);
tc_status_t tci_meet_check(const char *url, struct tci_error *error);

/* A place of a process manager is used once in a process.  True: it has been, and this is the card
 * that was left; ranks that meet again do so as it says.  Any thread. */
bool tci_meet_again(const char *url, char card[TCI_CARD_TEXT]);

enum tci_meet_event {
    TCI_MEET_POSTED,    /* rank 0: its card is there */
    TCI_MEET_FOUND,     /* another rank: a card; again when there is another one */
    TCI_MEET_WITHDRAWN, /* rank 0: its card is there no more */
    TCI_MEET_FAILED     /* trying again does not help; nothing follows */
};
/* On the loop, never from within a call of these.  card: of FOUND; error: of FAILED. */
typedef void (*tci_meet_fn)(void *arg, enum tci_meet_event event, const struct tci_card *card,
                            const struct tci_error *error);

struct tci_meet_config {
    const char *url; /* copied */
    int rank, size;
    uint64_t host;               /* number of this one, as in cards */
    struct tci_side side;        /* for side:// */
    const struct tci_card *card; /* of rank 0: copied; NULL elsewhere */
};

/* Begin: rank 0 leaves its card, another rank looks for one until it is told to stop.  Whatever can
 * keep one waiting is done by a thread that is lent for it, in every mode of the loop.  NULL with
 * errno.  Loop thread. */
struct tci_meet;
struct tci_meet *tci_meet_start(struct tci_loop *loop, const struct tci_meet_config *config,
                                tci_meet_fn fn, void *arg);
/* Rank 0, after POSTED or before: all have come, the card is of no use any more. */
void tci_meet_withdraw(struct tci_meet *meet);
/* Nothing is told from here on; a card that is still there goes with it, a little later.  NULL is
 * fine. */
void tci_meet_close(struct tci_meet *meet);
/* Whether a card that is found is the only one there will be, and of a rank 0 that listened before
 * it left it: where an exchange takes place.  Ranks that meet again do so without one. */
bool tci_meet_exchanges(const struct tci_meet *meet);
/* What the last look met with, "" for nothing odd; text has room for 160 bytes. */
const char *tci_meet_last(struct tci_meet *meet, char *text);
/* The last look met with what waiting seldom mends: there is no such place. */
bool tci_meet_is_nowhere(struct tci_meet *meet);

#endif
