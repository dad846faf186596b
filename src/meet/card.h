/* card.h - the word that rank 0 leaves for the others: where it listens, and who it is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_CARD_H
#define TCI_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Short enough for a value of PMI, and with neither blanks nor "=": all places take it. */
enum { TCI_CARD_TEXT = 1000, TCI_CARD_ADDRS = 8, TCI_CARD_ADDR = 100, TCI_CARD_JOB = 16 };

struct tci_card {
    uint8_t job[TCI_CARD_JOB]; /* at random: who joins says it, and nobody else's is taken */
    /* The process that wrote it: its host, its space of process ids there, its id, its begin. */
    uint64_t host, space, pid, born;
    int size;                                  /* of the group */
    char addrs[TCI_CARD_ADDRS][TCI_CARD_ADDR]; /* "10.0.0.7:4100", the best first */
    size_t count;
};

/* As the card of this process, without addresses. */
void tci_card_init(struct tci_card *card, uint64_t host, int size);
/* An address more; false: there is no room. */
bool tci_card_add(struct tci_card *card, const char *addr);
/* text has TCI_CARD_TEXT bytes. */
void tci_card_print(const struct tci_card *card, char *text);
/* From anybody: false where it is not as tci_card_print makes it. */
bool tci_card_parse(const char *text, struct tci_card *card);

/* Whether the process that wrote it is this one; whether it was one of this host and has ended. */
bool tci_card_is_own(const struct tci_card *card, uint64_t host);
bool tci_card_is_dead(const struct tci_card *card, uint64_t host);

#endif
