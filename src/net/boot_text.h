/* boot_text.h - the ranks that are missing, in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BOOT_TEXT_H
#define TCI_BOOT_TEXT_H

/* "rank 3", "ranks 3, 5, 9-12", "ranks 1, 3, 5 and 40 more": short enough for an error's sentence.
 * All zero at first, but for first, which is -1. */
struct tci_boot_missing {
    int first; /* the lowest; -1: none */
    int count;
    char text[160];

    int from, to; /* the run that is not written yet */
    int listed, len;
};

/* Ranks come in rising order. */
void tci_boot_missing_add(struct tci_boot_missing *missing, int rank);
void tci_boot_missing_end(struct tci_boot_missing *missing);

#endif
